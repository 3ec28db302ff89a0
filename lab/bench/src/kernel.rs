//! `nearside serve` on kernel sockets beside nginx: the same worker count, the
//! same core, the same response, the same client over the same veth. The
//! client is wrk, and then `nearside load`, which has more to give: where a
//! client's core is full, its limit is measured, and not the server's.

use crate::Failure;
use crate::client::{Ask, Client, Place, Sample, by_turns, prepare};
use demo::child::{Interrupt, Program, Running};
use demo::kernel::Kernel;
use demo::measure::{Connections, SMALL_BODY, thousands};
use demo::netns::SERVER;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
}

/// The large file: larger than what either server holds in memory.
const LARGE: usize = 1_000_000;

/// One row of the table.
struct Row {
    title: &'static str,
    large: bool,
    connections: Connections,
    count: u32,
    /// Times nginx's requests per second, at least.
    bound: Option<f64>,
}

const ROWS: [Row; 3] = [
    Row {
        title: "small response, keep-alive, 64 connections",
        large: false,
        connections: Connections::KeepAlive,
        count: 64,
        bound: Some(1.2),
    },
    Row {
        title: "1 MB file by sendfile, keep-alive, 64 connections",
        large: true,
        connections: Connections::KeepAlive,
        count: 64,
        bound: Some(1.0),
    },
    Row {
        title: "small response, new connection per request, 64 at a time",
        large: false,
        connections: Connections::New,
        count: 64,
        bound: None,
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
pub fn run(plan: &Plan) -> Result<bool, Failure> {
    let (interrupt, (server, client), scratch) = prepare()?;
    let site = make_site(scratch.path())?;
    let kernel = Kernel::start(scratch.path(), &site, (server, client), None, &interrupt)?;
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
    let ours = Client::Nearside { program: plan.nearside.clone(), engine: "epoll" };
    let mut kept = vec![true; contenders.len()];
    for row in &ROWS {
        for asks in [&Client::Wrk, &ours] {
            let at = Place { kernel: &kernel, dir: scratch.path(), cores: (server, client), interrupt: &interrupt };
            let samples = measure(plan, row, &mut contenders, asks, at)?;
            println!("\n{}, asked by {}", row.title, asks.name());
            println!(
                "  {:10} {:>11} {:>9} {:>7} {:>7} {:>7}  {:>11}",
                "", "requests/s", "p99", "server", "client", "others", "CPU/request"
            );
            for (index, contender) in contenders.iter().enumerate() {
                print_samples(&contender.name, &samples[index]);
                if index > 0 {
                    kept[index] &= compare(row, *asks == ours, &samples[0], &samples[index]);
                }
            }
        }
    }
    Ok(kept[1..].iter().any(|kept| *kept))
}

/// The folder that both serve.
fn make_site(dir: &Path) -> Result<PathBuf, Failure> {
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
) -> Result<Vec<Running>, Failure> {
    let what = [format!("--respond=text:{SMALL_BODY}"), site.display().to_string()];
    let mut servers = Vec::new();
    for (port, what) in ports.into_iter().zip(what) {
        let mut words = vec![plan.nearside.display().to_string(), "serve".to_owned(), what];
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
) -> Result<Vec<Vec<Sample>>, Failure> {
    by_turns(plan.rounds, contenders.len(), |index| {
        let contender = &mut contenders[index];
        let ask = Ask {
            url: if row.large { &contender.large } else { &contender.small },
            connections: row.connections,
            count: row.count,
            duration: plan.duration,
            servers: &contender.pids,
        };
        let sample = client.ask(ask, at)?;
        contender.own.iter_mut().try_for_each(Running::still_runs)?;
        Ok(Some(sample))
    })
}

fn print_samples(name: &str, samples: &[Sample]) {
    let of = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect()).1;
    let (rate, p99) = (thousands(of(|sample| sample.rate)), of(|sample| sample.p99));
    let share = |value: fn(&Sample) -> f64| 100.0 * of(value);
    let (server, client, others) = (share(|s| s.server), share(|s| s.client), share(|s| s.others));
    let cost = of(|sample| sample.server * 1e6 / sample.rate);
    let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
    let errors = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
    println!(
        "  {name:10} {rate:>11} {p99:>6.0} us {server:>6.0}% {client:>6.0}% {others:>6.0}%  {cost:>8.2} us{errors}"
    );
}

/// Holds one contender against nginx, round by round. Whether the bounds hold,
/// if they are held against what this client measured.
fn compare(row: &Row, held: bool, nginx: &[Sample], ours: &[Sample]) -> bool {
    let ratios = |value: fn(&Sample) -> f64| {
        let of_rounds = ours.iter().zip(nginx).map(|(ours, nginx)| value(ours) / value(nginx));
        spread(of_rounds.collect())
    };
    let (low, rate, high) = ratios(|sample| sample.rate);
    let (quick, p99, slow) = ratios(|sample| sample.p99);
    let clean = ours.iter().all(|sample| sample.errors == 0);
    let fast = !held || row.bound.is_none_or(|bound| rate >= bound) && clean;
    let bound = row.bound.filter(|_| held);
    let bound = bound.map_or("no bound".to_owned(), |bound| format!("at least {bound}: {}", word(fast)));
    println!("             requests: {rate:.2} times nginx's ({low:.2} to {high:.2}), {bound}");
    let no_worse = !held || p99 <= 1.0;
    let bound = if held { format!("at most 1: {}", word(no_worse)) } else { "no bound".to_owned() };
    println!("             p99: {p99:.2} times nginx's ({quick:.2} to {slow:.2}), {bound}");
    fast && no_worse
}

pub(crate) fn word(kept: bool) -> &'static str {
    if kept { "kept" } else { "NOT KEPT" }
}

/// Least, median and largest.
pub(crate) fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(low), Some(median), Some(high)) => (*low, *median, *high),
        _ => (f64::NAN, f64::NAN, f64::NAN),
    }
}
