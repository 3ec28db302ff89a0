//! `nearside serve` on kernel sockets versus nginx: the same worker count, the
//! same core, the same response, the same client over the same veth pair. The
//! client is wrk, and then `nearside load`, which has more to give: where a
//! client's core is full, its limit is measured, and not the server's. So wrk's
//! rows are held by requests per time of the server's core.
//!
//! That time is the server's process, and the softirq of its core beyond it
//! ([`Sample::cost`]). Each end's received packets are worked on by its own
//! side's core (RPS), as those of a NIC are whose interrupts go there: else the
//! core that sends would do the other side's work, and neither side's cost
//! could be told.

pub(crate) mod table;

use crate::BenchError;
use crate::client::{Ask, Client, Place, Sample, by_turns, prepare};
use demo::child::{Interrupt, Program, Running};
use demo::kernel::Kernel;
use demo::measure::{Connections, SMALL_BODY};
use demo::netns::SERVER;
use stats::median;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::Entry;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each row is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// The engines to measure, as `--engine` takes them.
    pub engines: Vec<String>,
    /// The rows to measure.
    pub rows: Vec<AnswerKind>,
}

/// What a row asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum AnswerKind {
    /// Small answers over kept connections.
    Small,
    /// A file of 1 MB over kept connections.
    Large,
    /// Small answers, with a new connection for each.
    New,
}

/// The large file: larger than what either server holds in memory.
const LARGE: usize = 1_000_000;

/// Connections at a time.
const CONNECTIONS: u32 = 64;

/// One row of the table.
struct Row {
    kind: AnswerKind,
    title: &'static str,
    connections: Connections,
    /// What is held against wrk's figures, and against our generator's.
    wrk: Bounds,
    ours: Bounds,
}

/// What is promised, in times nginx's.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Requests per second, at least.
    rate: Option<f64>,
    /// The lower end of that ratio's interval, at least.
    rate_low: Option<f64>,
    /// Requests per time of the server's core, at least.
    work: Option<f64>,
    /// The 99th percentile, at most.
    p99: Option<f64>,
}

const NONE: Bounds = Bounds { rate: None, rate_low: None, work: None, p99: None };
const FILE: Bounds = Bounds { rate_low: Some(0.97), p99: Some(1.05), ..NONE };
const ROWS: [Row; 3] = [
    Row {
        kind: AnswerKind::Small,
        title: "small response, keep-alive, 64 connections",
        connections: Connections::KeepAlive,
        wrk: Bounds { work: Some(1.15), ..NONE },
        ours: Bounds { rate: Some(1.35), p99: Some(1.0), ..NONE },
    },
    Row {
        kind: AnswerKind::Large,
        title: "1 MB file by sendfile, keep-alive, 64 connections",
        connections: Connections::KeepAlive,
        wrk: FILE,
        ours: FILE,
    },
    Row {
        kind: AnswerKind::New,
        title: "small response, new connection per request, 64 at a time",
        connections: Connections::New,
        wrk: Bounds { rate: Some(1.15), ..NONE },
        ours: Bounds { rate: Some(1.15), ..NONE },
    },
];

/// A server to be asked.
struct Contender {
    name: String,
    small: String,
    large: String,
    /// What answers for small responses, and for files; none for nginx.
    own: Vec<Running>,
    pids: Vec<u32>,
}

/// Measures and prints. Returns whether the bounds hold for an engine, the
/// same one in every row.
///
/// # Errors
/// If either side cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let (interrupt, (server, client), scratch) = prepare()?;
    let site = make_site(scratch.path())?;
    let kernel = Kernel::start(scratch.path(), &site, (server, client), None, &interrupt)?;
    kernel.names().keep_to_cores((server, client))?;
    let url = |port: u16, path: &str| format!("http://{SERVER}:{port}/{path}");
    let mut contenders = vec![Contender {
        name: "nginx".to_owned(),
        small: url(80, "small"),
        large: url(80, "large.bin"),
        own: Vec::new(),
        pids: kernel.workers().to_vec(),
    }];
    for (index, engine) in plan.engines.iter().enumerate() {
        let ports = [8_000 + 2 * index as u16, 8_001 + 2 * index as u16];
        let own = start(plan, engine, server, ports, &kernel, &site, scratch.path(), &interrupt)?;
        let pids = own.iter().map(Running::pid).collect();
        let (small, large) = (url(ports[0], "small"), url(ports[1], "large.bin"));
        contenders.push(Contender { name: engine.clone(), small, large, own, pids });
    }
    println!("nginx {}, one worker each, server on core {server}, client on core {client}", kernel.version);
    println!("Each side's packets are worked on by its core (RPS). CPU/request is time of the server's");
    println!("core: the process, and softirq beyond it. Ratios are of medians over {} rounds,", plan.rounds);
    println!("with their intervals of 95 % (of fewer than five rounds: least and largest).");
    let ours = Client::Nearside { program: plan.nearside.clone(), engine: "epoll" };
    let mut kept = vec![true; plan.engines.len()];
    for row in ROWS.iter().filter(|row| plan.rows.contains(&row.kind)) {
        for (asks, bounds) in [(&Client::Wrk, row.wrk), (&ours, row.ours)] {
            let at = Place { kernel: &kernel, dir: scratch.path(), cores: (server, client), interrupt: &interrupt };
            let samples = measure(plan, row, &mut contenders, asks, at)?;
            let each = contenders.iter().zip(&samples);
            let entries: Vec<_> = each.map(|(one, samples)| Entry { name: &one.name, samples }).collect();
            let held = table::print(row, &asks.name(), bounds, &entries);
            kept.iter_mut().zip(held).for_each(|(kept, held)| *kept &= held);
        }
    }
    Ok(kept.contains(&true))
}

/// The folder that both serve.
fn make_site(dir: &Path) -> Result<PathBuf, BenchError> {
    let site = dir.join("site");
    fs::create_dir(&site)?;
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    fs::write(site.join("large.bin"), bytes)?;
    Ok(site)
}

/// Starts both of Nearside's servers with one engine, and waits until they
/// answer.
#[allow(clippy::too_many_arguments, reason = "everything that the two processes are started from, used once")]
fn start(
    plan: &Plan,
    engine: &str,
    core: u16,
    ports: [u16; 2],
    kernel: &Kernel,
    site: &Path,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<Running>, BenchError> {
    let what = [format!("--respond=text:{SMALL_BODY}"), site.display().to_string()];
    let mut servers = Vec::new();
    for (port, what) in ports.into_iter().zip(what) {
        let mut words = vec![plan.nearside.display().to_string(), "serve".to_owned(), "--user=root".to_owned(), what];
        words.push(format!("--listen={SERVER}:{port}"));
        words.push(format!("--engine={engine}"));
        words.push(format!("--cores={core}"));
        words.extend(["--control=off", "--max-connections=4k", "--backlog=65535"].map(str::to_owned));
        let page = dir.join(format!("{engine}-{port}"));
        words.push(format!("--status-page={}", page.display()));
        let name = format!("nearside {engine} {port}");
        // Pinned by itself; its helper threads stay off the client's core too.
        let program = Program { name: &name, netns: Some(&kernel.names().server), core: Some(core), words };
        let mut running = program.start(dir)?;
        running.wait_until("serve", Duration::from_secs(10), interrupt, || page.exists())?;
        servers.push(running);
    }
    Ok(servers)
}

/// Each contender's samples of one row, measured by turns.
fn measure(
    plan: &Plan,
    row: &Row,
    contenders: &mut [Contender],
    client: &Client,
    at: Place<'_>,
) -> Result<Vec<Vec<Sample>>, BenchError> {
    by_turns(plan.rounds, contenders.len(), |index| {
        let contender = &mut contenders[index];
        let ask = Ask {
            url: if row.kind == AnswerKind::Large { &contender.large } else { &contender.small },
            connections: row.connections,
            count: CONNECTIONS,
            duration: plan.duration,
            servers: &contender.pids,
        };
        let sample = client.ask(ask, at)?;
        contender.own.iter_mut().try_for_each(Running::still_runs)?;
        Ok(Some(sample))
    })
}

pub(crate) fn word(kept: bool) -> &'static str {
    if kept { "kept" } else { "NOT KEPT" }
}

/// Least, median and largest. Of an even number the median is between the two in the
/// middle: either of them alone would favour one side.
pub(crate) fn spread(values: Vec<f64>) -> (f64, f64, f64) {
    let low = values.iter().copied().min_by(f64::total_cmp);
    let high = values.iter().copied().max_by(f64::total_cmp);
    // Nothing that is compared with a bound holds where nothing was measured.
    low.zip(high).map_or((f64::NAN, f64::NAN, f64::NAN), |(low, high)| (low, median(&values), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_favours_nobody() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(vec![3.0, 1.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 9.0]), (1.0, 3.0, 9.0));
        let (low, middle, high) = spread(Vec::new());
        assert!(low.is_nan() && middle.is_nan() && high.is_nan());
    }
}
