//! `nearside load` beside wrk, on the same nginx: what a core of the client
//! gives; whether the figures agree with Little's law; and the mean at a
//! pace that leaves the server idle, beside wrk2 where there is one.

use crate::BenchError;
use crate::client::{Ask, Client, Pace, Place, Sample, by_turns, prepare};
use crate::kernel::{spread, word};
use demo::child::{Program, Running};
use demo::kernel::Kernel;
use demo::measure::{Connections, SMALL_BODY, thousands};
use demo::netns::SERVER;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// A wrk2 (giltene/wrk2) to stand beside it at a fixed rate; Debian has no
    /// package of it.
    pub wrk2: Option<PathBuf>,
    /// Each is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
}

/// Connections in the closed loop.
const CONNECTIONS: u32 = 64;

/// How far Little's law may be off.
const LITTLE: f64 = 0.03;

/// Requests per second that leave the server idle, and the connections for
/// them.
const PACE: u32 = 1_000;
const PACED_CONNECTIONS: u32 = 10;

/// Measures and prints. Returns whether the bounds hold for an engine, the
/// same one throughout.
///
/// # Errors
/// If something cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let (interrupt, cores, scratch) = prepare()?;
    let (server, client) = cores;
    let nginx = Kernel::start(scratch.path(), scratch.path(), cores, None, &interrupt)?;
    let at = Place { kernel: &nginx, dir: scratch.path(), cores, interrupt: &interrupt };
    let near = |engine| Client::Nearside { program: plan.nearside.clone(), engine };
    let clients = [Client::Wrk, near("epoll"), near("io_uring")];
    let url = format!("http://{SERVER}:80/small");
    let ask = Ask {
        url: &url,
        connections: Connections::KeepAlive,
        count: CONNECTIONS,
        duration: plan.duration,
        servers: nginx.workers(),
    };
    let samples = by_turns(plan.rounds, clients.len(), |index| clients[index].ask(ask, at).map(Some))?;
    println!("nginx {}, one worker on core {server}; client on core {client}", nginx.version);
    println!("small response, keep-alive, {CONNECTIONS} connections");
    let mut kept = [true; 3];
    for (index, client) in clients.iter().enumerate() {
        kept[index] = closed_loop(&client.name(), &samples[0], &samples[index]);
    }
    let paced = at_a_pace(plan, at)?;
    Ok((kept[1] && paced[0]) || (kept[2] && paced[1]))
}

/// The least requests per second of a whole client core, in times of wrk's.
const LEAST: f64 = 1.2;

/// One client's row. Whether it is as much better than wrk, and agrees with
/// itself.
fn closed_loop(name: &str, wrk: &[Sample], ours: &[Sample]) -> bool {
    // What it would make with the whole of its core.
    let full = |sample: &Sample| sample.rate / sample.client;
    let of = |value: fn(&Sample) -> f64| spread(ours.iter().map(value).collect()).1;
    let (low, ratio, high) = spread(ours.iter().zip(wrk).map(|(ours, wrk)| full(ours) / full(wrk)).collect());
    let (rate, whole) = (thousands(of(|sample| sample.rate)), thousands(spread(ours.iter().map(full).collect()).1));
    println!(
        "  {name:23} {rate:>9} requests/s with {:.0}% of its core, {whole:>9} with all of it: \
         {ratio:.2} times wrk's ({low:.2} to {high:.2})",
        100.0 * of(|sample| sample.client)
    );
    let off = ours.iter().filter_map(|s| Some((s.rate * s.mean? / 1e6 / f64::from(CONNECTIONS) - 1.0).abs()));
    let off = off.fold(None, |worst: Option<f64>, off| Some(worst.map_or(off, |worst| worst.max(off))));
    let agrees = off.is_none_or(|off| off <= LITTLE);
    if let Some(off) = off {
        println!(
            "    rate x mean latency is {:.2}% off the connections at most, {:.0}% allowed: {}; \
             at least {LEAST} times wrk's requests per core: {}",
            100.0 * off,
            100.0 * LITTLE,
            word(agrees),
            word(ratio >= LEAST)
        );
    }
    // Who fails is soon done.
    agrees && ratio >= LEAST && ours.iter().chain(wrk).all(|sample| sample.errors == 0)
}

/// The mean at a fixed rate against a server that does nothing, by engine:
/// whether it is no higher than wrk2's.
fn at_a_pace(plan: &Plan, at: Place<'_>) -> Result<[bool; 2], BenchError> {
    let mut null = start_null(plan, at)?;
    let url = format!("http://{SERVER}:8000/");
    let pace = Pace { url: &url, count: PACED_CONNECTIONS, rate: PACE, duration: plan.duration, at };
    let means = by_turns(plan.rounds, 3, |index| {
        let mean = match (index, &plan.wrk2) {
            (0, Some(wrk2)) => pace.wrk2(wrk2)?,
            (0, None) => return Ok(None),
            (_, _) => pace.nearside(&plan.nearside, ["epoll", "io_uring"][index - 1])?,
        };
        null.still_runs()?;
        Ok(Some(mean))
    })?;
    println!("{PACE} requests/s on {PACED_CONNECTIONS} connections against a server that does nothing: mean latency");
    let theirs = spread(means[0].clone()).1;
    let mut kept = [true; 2];
    for (name, means) in ["wrk2", "nearside load, epoll", "nearside load, io_uring"].iter().zip(&means) {
        if means.is_empty() {
            println!("  {name:23} not measured: name one by --wrk2");
            continue;
        }
        let (low, mean, high) = spread(means.clone());
        println!("  {name:23} {mean:8.1} us ({low:.1} to {high:.1})");
    }
    if plan.wrk2.is_some() {
        for (kept, means) in kept.iter_mut().zip(&means[1..]) {
            *kept = spread(means.clone()).1 <= theirs;
        }
        println!("  no higher than wrk2's: epoll {}, io_uring {}", word(kept[0]), word(kept[1]));
    }
    Ok(kept)
}

fn start_null(plan: &Plan, at: Place<'_>) -> Result<Running, BenchError> {
    let Place { kernel, dir, cores: (core, _), interrupt } = at;
    let page = dir.join("null");
    let mut words = vec![plan.nearside.display().to_string(), "serve".to_owned(), "--user=root".to_owned()];
    words.push(format!("--respond=text:{SMALL_BODY}"));
    words.push(format!("--listen={SERVER}:8000"));
    words.push(format!("--cores={core}"));
    words.push(format!("--status-page={}", page.display()));
    words.extend(["--control=off", "--max-connections=1k"].map(str::to_owned));
    let program = Program { name: "null server", netns: Some(&kernel.names().server), core: Some(core), words };
    let mut running = program.start(dir)?;
    running.wait_until("serve", Duration::from_secs(10), interrupt, || page.exists())?;
    Ok(running)
}
