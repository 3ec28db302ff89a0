//! What steering costs when every silo is busy: accept-queue's experiment on
//! the bypass path. Each silo serves one request at a time, in the order of
//! their arrival, each for a fixed time (waited for, so that twelve silos are
//! as busy on two cores as on twelve, and each silo's loop goes on meanwhile).
//!
//! One queue for all is the bound: no server idles while a request waits, so
//! all wait alike. It is made of the same code: one silo with as many servers
//! behind one queue. A hash leaves some connections behind many others; the
//! least loaded silo at the time of the SYN should come near the bound.
//!
//! All silos share one memif queue, so that software steering does all of it:
//! the worst case of a NIC that cannot.

mod service;

use super::crew::MAX_WORKERS;
use super::sides::{distribution, put};
use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, Run};
use bond::{Aggregator, Bond, Member};
use cpu::Clock;
use demo::stand::{Asked, Server, Stand, two_cores};
use link::{Link, LinkState};
use memif::{Memif, MemifLink};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::Timed;
use silo::{Attendant, Idle, Next, Silo, Usage};
use sockets::fleet::{self, Stop};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use steer::{Mesh, MeshConfig, MeshEnd, Policy, SiloSpec, Steered};
use wire::{Mac, Time};

/// Who queues, and what it costs to be served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Silos that serve, one request at a time each.
    #[serde(default = "default_silos")]
    pub silos: u32,
    /// Connections at a time, each with one request under way.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Microseconds that a request occupies its silo.
    #[serde(default = "default_service_us")]
    pub service_us: u64,
    /// Ask again on the same connection; otherwise each request has a new one.
    #[serde(default)]
    pub keep_alive: bool,
    /// Milliseconds of each run.
    #[serde(default = "default_milliseconds")]
    pub milliseconds: u64,
    /// The nearside that asks; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

const fn default_silos() -> u32 {
    12
}

const fn default_connections() -> u32 {
    200
}

const fn default_service_us() -> u64 {
    1_800
}

const fn default_milliseconds() -> u64 {
    5_000
}

const SERVER: [u8; 4] = [10, 78, 0, 2];
const CLIENT: &str = "10.78.0.1";
const MAC: Mac = Mac([0x02, 0x4e, 10, 78, 0, 2]);
const PORT: u16 = 80;

/// Deviation of `least` beside that of one queue for all, at most.
const BOUND: f64 = 1.5;

/// How often the silos are looked at while they start.
const LOOK: Duration = Duration::from_millis(1);

/// The arms. `None`: one silo with as many servers behind one queue.
const ARMS: [(&str, Option<Policy>); 3] =
    [("shared queue", None), ("hash", Some(Policy::Hash)), ("least", Some(Policy::Least))];

/// The experiment.
#[derive(Debug)]
pub struct SteerQueue {
    settings: Settings,
    stand: Result<Stand, String>,
}

impl SteerQueue {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let good = (1..=MAX_WORKERS).contains(&settings.silos)
            && (1..=10_000).contains(&settings.connections)
            && (100..=1_000_000).contains(&settings.service_us)
            && (50..=600_000).contains(&settings.milliseconds);
        if !good {
            return Err(format!(
                "steer-queue: write 1 to {MAX_WORKERS} silos, 1 to 10,000 connections, a service of 100 to 1,000,000 \
                 µs and 50 to 600,000 milliseconds"
            )
            .into());
        }
        let stand = match two_cores() {
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        Ok(Self { settings: settings.clone(), stand })
    }

    /// Serves on `silos` threads while `client` asks. Returns what it
    /// returned, and each silo's application.
    fn beside(
        &self,
        policy: Option<Policy>,
        stand: &Stand,
        seed: u64,
        client: impl FnOnce() -> Result<Asked, Failure>,
    ) -> Result<(Asked, Vec<Timed>), Failure> {
        let socket = stand.folder().join("memif.sock");
        let _ = std::fs::remove_file(&socket);
        let config = memif::Config::parse(&format!("memif:{}", socket.display()), memif::Role::Server)
            .map_err(|why| format!("the silos' link: {why}"))?;
        let queues = Memif::open(config)?.split_queues();
        let silos = if policy.is_some() { self.settings.silos as usize } else { 1 };
        let parts = parts(policy, silos, queues, seed)?;
        let (stop, joined) = (Stop::default(), AtomicUsize::new(0));
        let work = |index: usize| -> Result<Timed, String> {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index).and_then(Option::take);
            let servers = if policy.is_some() { 1 } else { self.settings.silos as usize };
            let service = Duration::from_micros(self.settings.service_us);
            let app = Timed::new(servers, service, self.settings.keep_alive);
            match part.ok_or("there is no link for this silo")? {
                Part::Alone(link) => serve(*link, app, seed, &stop, &joined),
                Part::Joined(part) => {
                    let (bond, mesh_end) = *part;
                    serve(Steered::new(bond, mesh_end), app, seed, &stop, &joined)
                }
            }
        };
        thread::scope(|scope| {
            let fleet = scope.spawn(|| fleet::run(&vec![None; silos], &stop, work));
            // Connections that come before all silos are there go to those
            // that are.
            while joined.load(Ordering::Acquire) < silos && !stop.is_set() {
                thread::sleep(LOOK);
            }
            let outcome = client();
            stop.set();
            let ended = fleet.join().map_err(|_| "a silo panicked")?;
            let apps = ended.map_err(|why| why.to_string())?;
            Ok((outcome?, apps))
        })
    }
}

/// What a silo's thread is given.
enum Part {
    Alone(Box<MemifLink>),
    Joined(Box<(Bond<MemifLink>, MeshEnd)>),
}

/// The one queue for the first silo, and a mesh_end of the mesh for each.
fn parts(
    policy: Option<Policy>,
    silos: usize,
    mut queues: Vec<MemifLink>,
    seed: u64,
) -> Result<Mutex<Vec<Option<Part>>>, Failure> {
    let first = queues.pop().ok_or("memif gave no queue")?;
    let Some(policy) = policy else { return Ok(Mutex::new(vec![Some(Part::Alone(Box::new(first)))])) };
    let capabilities = first.capabilities();
    let aggregator = Aggregator::new(bond::Config::single(MAC, "memif"));
    let seats: Vec<SiloSpec> = (0..silos).map(|silo| SiloSpec { domain: 0, queues: u16::from(silo == 0) }).collect();
    let mut random = stats::Random::new(seed);
    let key = [random.bits(), random.bits(), random.bits(), random.bits()];
    let mesh_ends = Mesh::new(&seats, &MeshConfig { policy, key, ..MeshConfig::default() })?;
    let mut first = Some(Bond::new(vec![Member { port: 0, link: first }], Arc::clone(&aggregator))?);
    let bond = |_: usize| first.take().unwrap_or_else(|| Bond::without_members(Arc::clone(&aggregator), capabilities));
    let bonds = (0..silos).map(bond).collect::<Vec<_>>();
    let joined = bonds.into_iter().zip(mesh_ends).map(|joined| Some(Part::Joined(Box::new(joined))));
    Ok(Mutex::new(joined.collect()))
}

/// Runs a silo until it is stopped.
fn serve<L: Link>(link: L, app: Timed, seed: u64, stop: &Stop, joined: &AtomicUsize) -> Result<Timed, String> {
    let capabilities = link.capabilities();
    let mut config = stack::Config::new(MAC, capabilities.mtu);
    config.addresses = vec![Address { ip: SERVER.into(), prefix_len: 24 }];
    config.listen = vec![PORT];
    config.max_connections = 20_000;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seeds = Seeds { table: [seed, 2, 3, 4], secret: [seed, 6, 7, 8], timestamps: [9; 2] };
    let stack = Stack::new(config, offload, &seeds, Clock.now());
    let mut silo = Silo { link, stack, app };
    joined.fetch_add(1, Ordering::Release);
    silo::run(&mut silo, Idle::ADAPTIVE, &mut Foreman(stop)).map_err(|why| why.to_string())?;
    Ok(silo.app)
}

/// Ends the silos when the client has returned.
struct Foreman<'a>(&'a Stop);

impl<L, A> Attendant<L, A> for Foreman<'_> {
    fn attend(&mut self, _silo: &mut Silo<L, A>, _now: Time, _usage: &Usage, _link: LinkState) -> Next {
        if self.0.is_set() { Next::Stop } else { Next::Go }
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(SteerQueue::new(self)?))
    }
}

impl Procedure for SteerQueue {
    fn arms(&self) -> Vec<Arm> {
        let reuse = if self.settings.keep_alive { "kept alive" } else { "new for each request" };
        let conditions = BTreeMap::from([
            ("servers".to_owned(), self.settings.silos.to_string()),
            ("connections".to_owned(), self.settings.connections.to_string()),
            ("reuse".to_owned(), reuse.to_owned()),
            ("service".to_owned(), format!("{} µs, waited for", self.settings.service_us)),
            ("link".to_owned(), "memif, one queue".to_owned()),
        ]);
        let left_out = self.stand.as_ref().err().cloned();
        let arm =
            |(name, _)| Arm { name: str::to_owned(name), conditions: conditions.clone(), left_out: left_out.clone() };
        ARMS.map(arm).into()
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::higher("throughput", "requests/s"),
            Figure::lower("mean", "ms"),
            Figure::lower("median", "ms"),
            Figure::lower("p99", "ms"),
            Figure::lower("max", "ms"),
            Figure::lower("dev", "ms"),
            Figure::plain("fairness", "Jain"),
            Figure::plain("served late", "µs"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let most = f64::from(self.settings.silos) * 1e6 / self.settings.service_us as f64;
        vec![
            format!("So many servers serve at most {} requests/s.", crate::number::number(most)),
            "Latency: from the request's first byte to its answer's last, where connections are kept; else from the \
             beginning of its connection. Served late: by how much an answer was later than its server was done, on \
             average: what the silo's thread had to wait for a core."
                .to_owned(),
            "There is no arm for local: all silos share one queue, whose silo would serve everything.".to_owned(),
        ]
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let mut words = vec![format!("http://{}.{}.{}.{}/", SERVER[0], SERVER[1], SERVER[2], SERVER[3])];
        words.push(format!("--link=memif:{}", stand.folder().join("memif.sock").display()));
        words.push(format!("--addr={CLIENT}/24"));
        words.push(format!("--connections={}", self.settings.connections));
        if !self.settings.keep_alive {
            words.push("--close".to_owned());
        }
        let duration = Duration::from_millis(self.settings.milliseconds);
        let client = || Ok(stand.ask(&mut Server::other(&[]), None, &words, duration, setting.interrupt)?);
        let (asked, apps) = self.beside(ARMS[arm].1, stand, setting.seed, client)?;
        let taken: Vec<f64> = apps.iter().map(|app| app.taken as f64).collect();
        let served: u64 = apps.iter().map(|app| app.served).sum();
        let late: f64 = apps.iter().map(|app| app.late.as_secs_f64()).sum();
        let mut run = Run { errors: asked.errors, ..Run::default() };
        let figures = [
            ("throughput", asked.rate),
            ("mean", asked.mean / 1e3),
            ("median", asked.at(50.0) / 1e3),
            ("p99", asked.at(99.0) / 1e3),
            ("max", asked.latency.max / 1e3),
            ("dev", asked.stdev / 1e3),
            ("fairness", stats::jain(&taken)),
            ("served late", late * 1e6 / served.max(1) as f64),
        ];
        figures.into_iter().for_each(|(name, value)| put(&mut run.figures, name, value));
        let counts: Vec<String> = apps.iter().map(|app| app.taken.to_string()).collect();
        run.details.insert("connections of each silo".to_owned(), counts.join(" "));
        run.latency = Some(distribution(&asked));
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let of = |arm: &str, figure: &str| arms.iter().find(|other| other.name == arm)?.median(figure);
        let ratio = |arm: &str, figure: &str, base: &str| Some(of(arm, figure)? / of(base, figure)?);
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        let check = |what: String, value: Option<f64>, keeps: &dyn Fn(f64) -> bool| Check {
            what,
            found: value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}")),
            kept: value.map(keeps),
        };
        let mut checks = vec![check("no request fails".to_owned(), Some(failed as f64), &|failed| failed == 0.0)];
        let shared = "shared queue";
        let dev = ratio("least", "dev", shared);
        let what = format!("least: dev beside the shared queue's, at most {BOUND}");
        // Which silo serves a connection that stays was decided when it came.
        if self.settings.keep_alive {
            let even = of("least", "fairness");
            checks.push(check("least: shared out evenly (Jain), at least 0.95".to_owned(), even, &|j| j >= 0.95));
        } else {
            checks.push(check(what, dev, &|ratio| ratio <= BOUND));
        }
        let wide = ratio("hash", "dev", "least");
        checks.push(check("hash: dev beside least's, more than 1".to_owned(), wide, &|ratio| ratio > 1.0));
        let rate = ratio("least", "throughput", shared);
        checks.push(check("least: throughput beside the shared queue's, at least 0.95".to_owned(), rate, &|ratio| {
            ratio >= 0.95
        }));
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let settings = |silos, service_us| Settings {
            silos,
            connections: 10,
            service_us,
            keep_alive: false,
            milliseconds: 100,
            program: None,
        };
        for wrong in [settings(0, 1_800), settings(100_000, 1_800), settings(12, 1)] {
            assert!(SteerQueue::new(&wrong).is_err(), "{wrong:?}");
        }
    }
}
