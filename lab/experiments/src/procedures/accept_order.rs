//! Which worker takes which connection, when all are idle.
//!
//! Connections come one after the other, each when the one before is gone and
//! all workers sleep again: then the order is the kernel's own. Threads in
//! accept(2) are woken first in, first out; of those that watch one queue with
//! EPOLLEXCLUSIVE the same is woken each time (`add_wait_queue_exclusive` and
//! `__wake_up_common` in kernel/sched/wait.c: a waiter of epoll stays where it
//! is, one of accept goes to the end).

use super::crew;
use super::models;
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sockets::Model;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The most connections: each is a letter in the results.
const MAX_CONNECTIONS: u32 = 100_000;

/// A worker that does not answer within this is not idle, but broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many workers and connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Workers that wait for connections.
    #[serde(default = "default_workers")]
    pub workers: u32,
    /// Connections, one after the other.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Accept models: blocking, epoll, exclusive, reuseport, local, least.
    #[serde(default = "models::all")]
    pub models: Vec<String>,
}

const fn default_workers() -> u32 {
    3
}

const fn default_connections() -> u32 {
    12
}

/// The experiment.
#[derive(Debug)]
pub struct AcceptOrder {
    settings: Settings,
    models: Vec<Model>,
}

impl AcceptOrder {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        if !(1..=crew::MAX_WORKERS).contains(&settings.workers) {
            return Err(format!("accept-order: write 1 to {} workers", crew::MAX_WORKERS).into());
        }
        if !(1..=MAX_CONNECTIONS).contains(&settings.connections) {
            return Err(format!("accept-order: write 1 to {MAX_CONNECTIONS} connections").into());
        }
        Ok(Self { settings: settings.clone(), models: models::read("accept-order", &settings.models)? })
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(AcceptOrder::new(self)?))
    }
}

impl Procedure for AcceptOrder {
    fn arms(&self) -> Vec<Arm> {
        let conditions = BTreeMap::from([
            ("workers".to_owned(), self.settings.workers.to_string()),
            ("connections".to_owned(), self.settings.connections.to_string()),
            ("link".to_owned(), "loopback".to_owned()),
        ]);
        models::arms(&self.models, &conditions, |_| None)
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures =
            vec![Figure::plain("fairness", "Jain"), Figure::plain("busiest share", "%"), Figure::plain("in turn", "%")];
        figures.extend((0..self.settings.workers.min(16)).map(|worker| Figure::plain(&format!("worker {worker}"), "")));
        figures
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "Every worker sleeps before each connection; they began to wait in the order of their numbers.".to_owned(),
            "In turn: connections that were taken by the same worker as the one a whole round of workers before, \
             with none of the workers in between."
                .to_owned(),
            "Model epoll: each connection wakes all workers, the last that went to sleep first; which of them gets to \
             the queue first is a race."
                .to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let (model, workers) = (self.models[arm], self.settings.workers as usize);
        let cores = crew::cores(model, self.settings.workers);
        let client = |crew: &crew::WorkersSeen| -> Result<Vec<usize>, Failure> {
            let mut order = Vec::new();
            for count in 0..self.settings.connections {
                setting.interrupt.check()?;
                setting.progress.tell(count.into(), self.settings.connections.into());
                crew.wait_asleep()?;
                order.push(ask(crew.address)?);
            }
            Ok(order)
        };
        let (order, _) = crew::beside(model, &cores, |index| Sign { index }, client)?;
        Ok(describe(&order, workers))
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let mut checks = Vec::new();
        for (model, what, figure, enough) in [
            ("blocking", "blocking: first in, first out, each worker in its turn", "in turn", 100.0),
            ("exclusive", "exclusive: one worker takes all", "busiest share", 100.0),
        ] {
            let Some(arm) = arms.iter().find(|arm| arm.name == model) else { continue };
            let found = arm.median(figure);
            checks.push(Check {
                what: what.to_owned(),
                found: found.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.0} % {figure}")),
                kept: found.map(|value| value >= enough),
            });
        }
        checks
    }
}

/// Counts and fairness of an order.
fn describe(order: &[usize], workers: usize) -> Run {
    let mut counts = vec![0.0; workers];
    order.iter().for_each(|worker| counts[*worker] += 1.0);
    let busiest = counts.iter().copied().fold(0.0, f64::max);
    // A window of as many as there are workers that repeats the one before
    // and has each of them once.
    let turns = order.windows(workers + 1).filter(|window| {
        let inner = &window[..workers];
        let distinct = inner.iter().enumerate().all(|(at, worker)| !inner[..at].contains(worker));
        distinct && window[0] == window[workers]
    });
    let possible = order.len().saturating_sub(workers);
    let in_turn = if possible == 0 { 0.0 } else { 100.0 * turns.count() as f64 / possible as f64 };
    let mut run = Run::default();
    run.figures.insert("fairness".to_owned(), stats::jain(&counts));
    run.figures.insert("busiest share".to_owned(), 100.0 * busiest / (order.len() as f64).max(1.0));
    run.figures.insert("in turn".to_owned(), in_turn);
    for (worker, count) in counts.iter().enumerate().take(16) {
        run.figures.insert(format!("worker {worker}"), *count);
    }
    let text: Vec<String> = order.iter().map(usize::to_string).collect();
    run.details.insert("order".to_owned(), text.join(" "));
    run
}

/// Connects, and reads to the end which worker it was.
fn ask(address: SocketAddr) -> Result<usize, Failure> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut text = String::new();
    (&mut stream).take(16).read_to_string(&mut text).map_err(|why| format!("no worker answered: {why}"))?;
    Ok(text.parse().map_err(|_| "a worker did not say which it was")?)
}

/// Says which worker it is, and ends the connection.
#[derive(Debug)]
struct Sign {
    index: usize,
}

impl App for Sign {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        net.send_bytes(id, self.index.to_string().as_bytes());
        net.finish(id);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}

    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {}

    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_described() {
        let of = |order: &[usize]| {
            let run = describe(order, 3);
            ["fairness", "busiest share", "in turn"].map(|figure| (run.figures[figure] * 1e3).round() / 1e3)
        };
        assert_eq!(of(&[2, 1, 0, 2, 1, 0, 2, 1, 0]), [1.0, 33.333, 100.0]);
        assert_eq!(of(&[0; 6]), [0.333, 100.0, 0.0]);
        assert_eq!(of(&[0, 1, 1, 0, 1, 1]), [0.6, 66.667, 0.0], "it repeats, but leaves one out");
        assert_eq!(of(&[2, 0]), [0.667, 50.0, 0.0], "too few to tell");
    }

    #[test]
    fn workers_are_told_apart() {
        assert!(Model::ALL.iter().all(|model| models::read("x", &[model.name().to_owned()]).is_ok()));
        let settings = Settings { workers: 3, connections: 9, models: vec!["exclusive".to_owned()] };
        let mut experiment = AcceptOrder::new(&settings).expect("good");
        let interrupt = demo::child::Interrupt::watch().expect("signals");
        let progress = crate::procedure::Progress::default();
        let setting = Setting { seed: 1, interrupt: &interrupt, progress: &progress };
        let run = experiment.run(0, &setting).expect("it runs");
        let counts: f64 = (0..3).map(|worker| run.figures[&format!("worker {worker}")]).sum();
        assert_eq!(counts, 9.0);
        assert_eq!(run.details["order"].split(' ').count(), 9);
        // The shape itself is the measurement's to check: here other tests
        // keep the machine busy.
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let of = |workers, connections, model: &str| {
            AcceptOrder::new(&Settings { workers, connections, models: vec![model.to_owned()] }).map(|_| ())
        };
        assert!(of(0, 1, "epoll").is_err() && of(1, 0, "epoll").is_err() && of(1_000, 1, "epoll").is_err());
        let why = of(1, 1, "best").expect_err("no model").to_string();
        assert!(why.contains("best") && why.contains("exclusive"), "{why}");
    }
}
