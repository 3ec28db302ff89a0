//! Plain requests of clients that are served already, beside handshakes that fill the server's
//! core: how long they wait.
//!
//! Both generators share the client's core. The one that is timed goes first (nice(1)), so that
//! it is the server that is waited for.

use super::{Contender, PATIENCE, Plan, SUITE};
use crate::BenchError;
use crate::client::{Ask, Place, Said, WARM_UP, by_turns, watch};
use demo::child::{Program, Running};
use demo::measure::{Connections, thousands};
use stats::median;
use std::path::Path;
use std::time::Duration;

/// What is timed: so many requests a second, by so many connections.
const RATE: u32 = 1_000;
const CONNECTIONS: u32 = 32;

/// Clients that do nothing but shake hands.
const SHAKING: u32 = 64;

/// The longest that one in a hundred may take, in microseconds.
const MOST: f64 = 1_000.0;

/// Longer than the other runs, on both sides.
const AROUND: Duration = Duration::from_millis(500);

/// What one measurement gave.
struct Beside {
    /// Without handshakes: what the machine itself has them wait.
    alone: f64,
    p50: f64,
    p99: f64,
    /// Handshakes in a second meanwhile.
    handshakes: f64,
    /// The share of the server's core that it took, and softirq beside it.
    server: f64,
}

/// Measures and prints those that are reached over kernel sockets. Returns whether the bound holds.
pub(super) fn run(
    (nearside, plan): (&Path, &Plan),
    contenders: &mut [Contender],
    at: Place<'_>,
) -> Result<bool, BenchError> {
    println!("\nplain requests, {RATE} a second, beside full handshakes by {SHAKING} clients at once, TLS 1.3");
    println!("  {:8} {:>14} {:>7} {:>9} {:>9} {:>9}", "", "handshakes/s", "server", "p50", "p99", "alone");
    let duration = Duration::from_secs(plan.seconds);
    let mut kept = true;
    for who in contenders.iter_mut().filter(|who| who.link.is_none()) {
        let samples = by_turns(plan.rounds, 1, |_| {
            let sample = measure(nearside, duration, who, at)?;
            who.running.still_runs()?;
            Ok(Some(sample))
        })?;
        let of = |value: fn(&Beside) -> f64| median(&samples[0].iter().map(value).collect::<Vec<_>>());
        let p99 = of(|sample| sample.p99);
        print!(
            "  {:8} {:>14} {:>6.0}% {:>6.0} us {:>6.0} us {:>6.0} us",
            who.name,
            thousands(of(|sample| sample.handshakes)),
            100.0 * of(|sample| sample.server),
            of(|sample| sample.p50),
            p99,
            of(|sample| sample.alone)
        );
        if who.name == "nginx" {
            println!();
            continue;
        }
        let holds = p99 < MOST;
        kept &= holds;
        let noise = if of(|sample| sample.alone) < MOST { "" } else { ", and not without handshakes, either" };
        println!("  below {MOST:.0} us: {}{}", crate::kernel::word(holds), if holds { "" } else { noise });
    }
    Ok(kept)
}

fn measure(nearside: &Path, duration: Duration, who: &Contender, at: Place<'_>) -> Result<Beside, BenchError> {
    let plain = format!("http://{}/small", who.plain);
    // Real-time priority would be more, but a control group may refuse it to root, too.
    let mut timed = ["nice", "-n", "-20"].map(str::to_owned).to_vec();
    timed.extend(load(nearside, &plain, (CONNECTIONS, duration), at));
    timed.push(format!("--rate={RATE}"));
    let alone = start("nearside load timed", timed.clone(), at)?;
    let alone = finish(alone, WARM_UP + duration, at)?;
    let url = format!("https://{}/small", who.address);
    let long = duration + 2 * AROUND;
    let mut words = ["nice", "-n", "10"].map(str::to_owned).to_vec();
    words.extend(load(nearside, &url, (SHAKING, long), at));
    words.extend(SUITE.split_whitespace().map(str::to_owned));
    words.extend(["--insecure", "--close"].map(str::to_owned));
    let shaking = start("nearside load shaking", words, at)?;
    at.interrupt.sleep(AROUND)?;
    let timed = start("nearside load timed", timed, at)?;
    let told =
        Ask { url: &plain, connections: Connections::KeepAlive, count: CONNECTIONS, duration, servers: &who.pids };
    let (server, softirq, _) = watch(told, &timed, WARM_UP, at)?;
    let timed = finish(timed, WARM_UP + duration, at)?;
    let shaking = finish(shaking, WARM_UP + long, at)?;
    shaking.is_resumed(false)?;
    Ok(Beside {
        alone: alone.latency.p99_ns / 1e3,
        p50: timed.latency.p50_ns / 1e3,
        p99: timed.latency.p99_ns / 1e3,
        handshakes: shaking.throughput.requests_per_second,
        server: server.process + softirq,
    })
}

fn load(nearside: &Path, url: &str, (connections, duration): (u32, Duration), at: Place<'_>) -> Vec<String> {
    let mut words = vec![nearside.display().to_string(), "load".to_owned(), url.to_owned()];
    words.extend(["--json", "--progress=none", "--threads=1", "--no-floor"].map(str::to_owned));
    words.push(format!("--cores={}", at.cores.1));
    words.push(format!("--connections={connections}"));
    words.push(format!("--duration={}ms", duration.as_millis()));
    words.push(format!("--warmup={}ms", WARM_UP.as_millis()));
    words
}

/// Of names of their own: what they say is in files that are named so.
fn start(name: &str, words: Vec<String>, at: Place<'_>) -> Result<Running, BenchError> {
    let netns = Some(at.kernel.names().client.as_str());
    Ok(Program { name, netns, core: Some(at.cores.1), words }.start(at.dir)?)
}

/// What it said, if all was answered.
fn finish(mut load: Running, takes: Duration, at: Place<'_>) -> Result<Said, BenchError> {
    let said = Said::read(&load.finish(takes + PATIENCE, at.interrupt)?)?;
    let errors: u64 = said.errors.values().sum();
    if errors > 0 { Err(format!("{errors} requests came to nothing").into()) } else { Ok(said) }
}
