//! Plain requests of clients that are served already, beside handshakes that fill the server's
//! core: how long they wait.
//!
//! What counts is the time at the server's own interface (`waits`): a client has its own core
//! wait, and where that is a virtual machine's, it was more than what is asked. Each measurement
//! beside handshakes has one without them next to it. With both stands what the threads that
//! answer waited for their core, and what a hypervisor took of it.
//!
//! The server is at nice -20, as an operator would have it on a core that is shared; threads of
//! ours that shake hands give way to any other all the same (`SCHED_IDLE`). Both generators share
//! the client's core, and the one that is timed goes first.

use super::waits::Waits;
use super::{Contender, PATIENCE, Plan, SUITE};
use crate::BenchError;
use crate::client::{Ask, Place, Said, WARM_UP, by_turns, watch_with};
use demo::child::{Program, Running};
use demo::measure::{Connections, thousands};
use demo::netns::DEVICE;
use rustix::process::{Pid, setpriority_process};
use stats::median;
use std::fs;
use std::path::{Path, PathBuf};
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

/// The server's priority.
const NICE: i32 = -20;

/// Of the CPU times that /proc/stat has, in a second (USER_HZ).
const TICKS: u64 = 100;

/// What one measurement gave; times in microseconds.
struct Beside {
    /// At the server's interface.
    p50: f64,
    p99: f64,
    /// As the client has it.
    client: f64,
    /// Handshakes in a second meanwhile.
    handshakes: f64,
    /// The share of the server's core that it took, and softirq beside it.
    server: f64,
    /// The share that other processes took of it.
    others: f64,
    /// The share of the time that the threads that answer waited for their core.
    waited: f64,
    /// The share of the core that a hypervisor took.
    stolen: f64,
}

/// Measures and prints those that are reached over kernel sockets. Returns whether the bound holds.
pub(super) fn run(
    (nearside, plan): (&Path, &Plan),
    contenders: &mut [Contender],
    at: Place<'_>,
) -> Result<bool, BenchError> {
    println!(
        "\nplain requests, {RATE} a second, alone and beside full handshakes by {SHAKING} clients at once, TLS 1.3;\n\
         at the server's interface by the kernel's stamps; the server at nice {NICE}; medians (least-largest)"
    );
    println!(
        "  {:15} {:>12} {:>7} {:>7} {:>9} {:>22} {:>23} {:>7} {:>7}",
        "", "handshakes/s", "server", "others", "p50", "p99", "client's p99", "waited", "stolen"
    );
    let duration = Duration::from_secs(plan.seconds);
    let mut kept = true;
    for who in contenders.iter_mut().filter(|who| who.link.is_none()) {
        set_nice(&who.pids, NICE)?;
        let samples = by_turns(plan.rounds, 2, |index| {
            let sample = measure(nearside, (duration, index == 1), who, at)?;
            who.running.still_runs()?;
            Ok(Some(sample))
        });
        set_nice(&who.pids, 0)?;
        let samples = samples?;
        let (alone, beside) = (print(who.name, "alone", &samples[0]), print(who.name, "beside", &samples[1]));
        if who.name != "nginx" {
            let holds = beside < MOST;
            kept &= holds;
            let noise = if holds || alone < MOST { "" } else { ", and not without handshakes, either" };
            println!("  below {MOST:.0} us at the interface: {}{noise}", crate::kernel::word(holds));
        }
    }
    Ok(kept)
}

/// Prints a row. Its p99 at the interface.
fn print(name: &str, how: &str, samples: &[Beside]) -> f64 {
    let all = |value: fn(&Beside) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let of = |value| median(&all(value));
    let spread = |value| {
        let (least, largest) = all(value).iter().fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
        format!("{:.0} us ({least:.0}-{largest:.0})", of(value))
    };
    println!(
        "  {:15} {:>12} {:>6.0}% {:>6.0}% {:>6.0} us {:>22} {:>23} {:>6.1}% {:>6.1}%",
        format!("{name} {how}"),
        thousands(of(|sample| sample.handshakes)),
        100.0 * of(|sample| sample.server),
        100.0 * of(|sample| sample.others),
        of(|sample| sample.p50),
        spread(|sample| sample.p99),
        spread(|sample| sample.client),
        100.0 * of(|sample| sample.waited),
        100.0 * of(|sample| sample.stolen),
    );
    of(|sample| sample.p99)
}

fn measure(
    nearside: &Path,
    (duration, is_beside): (Duration, bool),
    who: &Contender,
    at: Place<'_>,
) -> Result<Beside, BenchError> {
    let plain = format!("http://{}/small", who.plain);
    // Real-time priority would be more, but a control group may refuse it to root, too.
    let mut timed = ["nice", "-n", "-20"].map(str::to_owned).to_vec();
    timed.extend(load(nearside, &plain, (CONNECTIONS, duration), at));
    timed.push(format!("--rate={RATE}"));
    let long = duration + 2 * AROUND;
    let shaking = if is_beside { Some(shake(nearside, long, who, at)?) } else { None };
    at.interrupt.sleep(AROUND)?;
    let port = who.plain.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).ok_or("no port")?;
    let waits = Waits::begin(&at.kernel.names().server, DEVICE, port)?;
    let timed = start("nearside load timed", timed, at)?;
    let told =
        Ask { url: &plain, connections: Connections::KeepAlive, count: CONNECTIONS, duration, servers: &who.pids };
    let read = || lost(&who.pids, at.cores.0);
    let ((server, softirq, _), [first, last]) = watch_with(told, &timed, WARM_UP, at, read)?;
    let timed = finish(timed, WARM_UP + duration, at)?;
    let waits = waits.end(WARM_UP, duration)?;
    let handshakes = match shaking {
        Some(shaking) => {
            let said = finish(shaking, WARM_UP + long, at)?;
            said.is_resumed(false)?;
            said.throughput.requests_per_second
        }
        None => 0.0,
    };
    // Some may be missing at the edges.
    let expected = f64::from(RATE) * duration.as_secs_f64();
    if (waits.len() as f64) < 0.9 * expected {
        return Err(format!("of {expected:.0} requests {} passed the interface", waits.len()).into());
    }
    let span = last.at.since(first.at).as_nanos().max(1) as f64;
    Ok(Beside {
        p50: percentile(&waits, 0.5),
        p99: percentile(&waits, 0.99),
        client: timed.latency.p99_ns / 1e3,
        handshakes,
        server: server.process + softirq,
        others: server.others,
        waited: last.waited.saturating_sub(first.waited) as f64 / span,
        stolen: last.stolen.saturating_sub(first.stolen) as f64 / span,
    })
}

/// Clients that shake hands, behind whatever else the client's core does.
fn shake(nearside: &Path, long: Duration, who: &Contender, at: Place<'_>) -> Result<Running, BenchError> {
    let url = format!("https://{}/small", who.address);
    let mut words = ["nice", "-n", "10"].map(str::to_owned).to_vec();
    words.extend(load(nearside, &url, (SHAKING, long), at));
    words.extend(SUITE.split_whitespace().map(str::to_owned));
    words.extend(["--insecure", "--close"].map(str::to_owned));
    start("nearside load shaking", words, at)
}

/// In microseconds.
fn percentile(waits: &[u64], share: f64) -> f64 {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[at - 1] as f64 / 1e3
}

/// What was lost to others until a moment, in nanoseconds.
struct Lost {
    at: wire::Time,
    waited: u64,
    stolen: u64,
}

/// Of the threads that answer, and of the core.
fn lost(pids: &[u32], core: u16) -> Result<Lost, BenchError> {
    let mut waited = 0;
    for task in tasks(pids) {
        // Those that work on handshakes are to wait.
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.starts_with("near-w") || name.starts_with("nginx") {
            // What it ran, what it waited to run, and how often (`Documentation/scheduler/sched-stats.rst`).
            let schedstat = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            waited += schedstat.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")));
    let stolen = line.and_then(|line| line.split(' ').nth(7)?.parse::<u64>().ok()).unwrap_or(0);
    Ok(Lost { at: cpu::Clock.now(), waited, stolen: stolen * (1_000_000_000 / TICKS) })
}

fn tasks(pids: &[u32]) -> Vec<PathBuf> {
    let entries = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    entries.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The priority of all threads of the processes, as `Nice=` of a systemd unit has it.
fn set_nice(pids: &[u32], nice: i32) -> Result<(), BenchError> {
    for task in tasks(pids) {
        let number = task.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let Some(thread) = number.and_then(Pid::from_raw) {
            setpriority_process(Some(thread), nice).map_err(|why| format!("nice {nice} of the server: {why}"))?;
        }
    }
    Ok(())
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
