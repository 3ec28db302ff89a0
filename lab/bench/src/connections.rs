//! What connections cost the server while they stand idle, and what they make
//! a request on the others cost: `nearside serve` and `nearside load`, two
//! processes over memif, with few connections open and with many. Secured ones are of
//! processes of their own ([`secured`]).

pub mod secured;

use crate::BenchError;
use crate::program::{Program, Scratch, memory};
use ::page::{Reader, Snapshot};
use core::time::Duration;
use cpu::Clock;
use std::path::Path;
use std::path::PathBuf;
use std::thread::sleep;

/// Bytes that an idle connection may cost the server.
pub const BYTES_BOUND: f64 = 512.0;
/// The same of a secured one.
pub const BYTES_BOUND_SECURED: f64 = 1_200.0;
/// How much more a request may cost with all of them open.
pub const COST_BOUND: f64 = 2.0;

/// What is compared: with few open, and with many of which as few are active.
const FEW: u64 = 10;
/// Requests under way where all have their turn.
const MIXED: u64 = 64;

/// Connections from one source address. There are some 64,000 ports; what is
/// left over keeps the search for a free one short.
const PER_SOURCE: u64 = 50_000;

/// Quiet connections that a stack looks at in a second, at least.
const RESTS_PER_SECOND: u64 = 30_000;

/// Values are read this often; a slice that another program disturbs is an
/// outlier, and does not move the median.
const SLICE: Duration = Duration::from_millis(50);

/// What to measure, and with what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub nearside: PathBuf,
    /// Connections that stand open.
    pub idle: u64,
    /// How often few and many are measured, by turns.
    pub rounds: u32,
    /// How long each is measured.
    pub duration: Duration,
    /// The server's core and the generator's.
    pub cores: (u16, u16),
    /// Whether they are secured, by keys of both sides.
    pub secured: bool,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    open: u64,
    /// The server's own memory, without what it shares with its peer.
    memory: u64,
    /// Of a busy server, by request.
    nanoseconds: f64,
    requests_per_second: f64,
    /// From the first connection to the last.
    opening: Duration,
}

/// Measures and prints. Returns whether the bounds hold.
///
/// # Errors
/// If a process cannot be run, or opens no connections.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    println!("server's side; nanoseconds are those of busy turns, median of {SLICE:?} slices");
    println!("      open  requests on  opened in   server memory   ns/request   requests/s");
    let (mut few, mut many, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        for (count, mix, samples) in
            [(FEW, false, &mut few), (plan.idle, false, &mut many), (plan.idle, true, &mut mixed)]
        {
            let sample = measure(plan, count, mix)?;
            println!(
                "{:10} {:>12} {:8.2} s {:12.1} MB {:12.1} {:12.0}",
                sample.open,
                if mix { "all by turns".to_owned() } else { FEW.to_string() },
                sample.opening.as_secs_f64(),
                sample.memory as f64 / 1e6,
                sample.nanoseconds,
                sample.requests_per_second,
            );
            samples.push(sample);
        }
    }
    Ok(verdict(plan, &few, &many, &mixed))
}

fn verdict(plan: &Plan, few: &[Sample], many: &[Sample], mixed: &[Sample]) -> bool {
    let of = |samples: &[Sample], value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let memory = |sample: &Sample| sample.memory as f64;
    let open = of(many, |sample| sample.open as f64);
    let each = (of(many, memory) - of(few, memory)) / (open - FEW as f64);
    let cost = |sample: &Sample| sample.nanoseconds;
    let dearer = of(many, cost) / of(few, cost);
    let word = |kept| if kept { "kept" } else { "NOT KEPT" };
    let reached = many.iter().all(|sample| sample.open >= plan.idle);
    println!("{open} of {} connections open: {}", plan.idle, word(reached));
    let most = if plan.secured { BYTES_BOUND_SECURED } else { BYTES_BOUND };
    println!("{each:.0} bytes per idle connection, at most {most}: {}", word(each <= most));
    println!("a request costs {dearer:.2} times as much, at most {COST_BOUND}: {}", word(dearer <= COST_BOUND));
    // None of them is idle then: each request finds its connection in memory
    // that no cache holds, and is acknowledged by a frame of its own.
    println!("{:.2} times, where each request is on another connection", of(mixed, cost) / of(few, cost));
    reached && each <= most && dearer <= COST_BOUND
}

fn measure(plan: &Plan, count: u64, mix: bool) -> Result<Sample, BenchError> {
    let scratch = Scratch::make()?;
    let page = scratch.path().join("serve.page");
    let mut server = serve(plan, count, scratch.path(), &page)?;
    let mut reader = None;
    wait(Duration::from_secs(20), || {
        reader = Reader::open(&page).ok();
        reader.is_some()
    });
    let reader = reader.ok_or("nearside serve publishes no statistics")?;
    let mut client = load(plan, count, mix, scratch.path())?;
    let opening = open_all(&reader, count, &mut client)?;
    // The generator warms up before it measures; so do we. What secured connections can make
    // again they give up once they are quiet, so many in a second.
    let rests = if plan.secured { count / RESTS_PER_SECOND + 2 } else { 0 };
    sleep(Duration::from_secs(1 + rests));
    let (nanoseconds, requests_per_second) = watch(&reader, plan.duration)?;
    let open = value(&reader, &reader.snapshot()?, "stack.connections")?;
    let memory = memory(server.id())?;
    client.still_runs()?;
    server.still_runs()?;
    Ok(Sample { open, memory, nanoseconds, requests_per_second, opening })
}

fn serve(plan: &Plan, count: u64, scratch: &Path, page: &Path) -> Result<Program, BenchError> {
    if plan.secured {
        return side("server", plan.cores.0, (count, 0, false), (scratch, page));
    }
    let mut words = vec!["serve".to_owned(), "--respond=text:Hello, World!".into(), "--addr=10.0.0.2/8".into()];
    words.push("--user=root".into());
    // Room for those that are closing.
    words.push(format!("--max-connections={}", count + count / 16 + 100));
    words.push(format!("--core={}", plan.cores.0));
    words.push(format!("--status-page={}", page.display()));
    words.push(format!("--link=memif:{}", scratch.join("memif.sock").display()));
    words.push("--idle=spin".into());
    Program::start(&plan.nearside, "serve", &words, scratch)
}

/// A side of secured connections, as a process of this program.
fn side(
    kind: &str,
    core: u16,
    (count, active, mix): (u64, u64, bool),
    (scratch, page): (&Path, &Path),
) -> Result<Program, BenchError> {
    let link = format!("memif:{},role={kind}", scratch.join("memif.sock").display());
    let mut words = vec!["connections-side".to_owned(), kind.to_owned(), link, page.display().to_string()];
    words.extend([core.to_string(), count.to_string(), active.to_string()]);
    words.extend(mix.then(|| "--mix".to_owned()));
    Program::start(&std::env::current_exe()?, kind, &words, scratch)
}

fn load(plan: &Plan, count: u64, mix: bool, scratch: &Path) -> Result<Program, BenchError> {
    let active = count.min(if mix { MIXED } else { FEW });
    if plan.secured {
        return side("client", plan.cores.1, (count, active, mix), (scratch, &scratch.join("load.page")));
    }
    let sources = count.div_ceil(PER_SOURCE);
    let last = core::net::Ipv4Addr::from(u32::from(core::net::Ipv4Addr::new(10, 1, 0, 0)) + sources as u32);
    let mut words = vec!["load".to_owned(), "http://10.0.0.2/".into(), "--addr=10.0.0.1/8".into()];
    words.push(format!("--source=10.1.0.1-{last}"));
    words.push(format!("--connections={count}"));
    words.push(format!("--active={active}"));
    if mix {
        words.push("--mix".into());
    }
    // It is ended when enough was seen.
    words.push("--duration=1h".into());
    words.push(format!("--core={}", plan.cores.1));
    words.push(format!("--status-page={}", scratch.join("load.page").display()));
    words.push(format!("--link=memif:{}", scratch.join("memif.sock").display()));
    words.push("--idle=spin".into());
    Program::start(&plan.nearside, "load", &words, scratch)
}

/// Waits until `count` are open, or no more are opened: the generator gives
/// up after a time of its own, and goes on with what there is.
fn open_all(reader: &Reader, count: u64, client: &mut Program) -> Result<Duration, BenchError> {
    let mut seen = 0;
    let mut begun = None;
    let mut grown = Clock.now();
    loop {
        let open = value(reader, &reader.snapshot()?, "stack.connections")?;
        let now = Clock.now();
        if open > seen {
            begun = begun.or(Some(now));
            (seen, grown) = (open, now);
        }
        if open >= count || now.since(grown) > Duration::from_secs(5) {
            break;
        }
        client.still_runs()?;
        sleep(Duration::from_millis(5));
    }
    let begun = begun.ok_or("nearside load opens no connection")?;
    Ok(grown.since(begun))
}

/// Busy nanoseconds per request, and requests per second: medians of slices.
fn watch(reader: &Reader, duration: Duration) -> Result<(f64, f64), BenchError> {
    let end = Clock.now() + duration;
    let (mut costs, mut rates) = (Vec::new(), Vec::new());
    let read = || -> Result<_, BenchError> {
        let snapshot = reader.snapshot()?;
        let at = snapshot.silos.first().and_then(|silo| silo.time).ok_or("the server never published")?;
        Ok((at, value(reader, &snapshot, "silo.busy_ns")?, value(reader, &snapshot, "app.requests")?))
    };
    let mut before = read()?;
    while Clock.now() < end {
        sleep(SLICE);
        let after = read()?;
        let requests = after.2.saturating_sub(before.2) as f64;
        if requests > 0.0 {
            costs.push(after.1.saturating_sub(before.1) as f64 / requests);
        }
        rates.push(requests / after.0.since(before.0).as_secs_f64().max(1e-3));
        before = after;
    }
    if costs.is_empty() {
        return Err("the server answers no requests".into());
    }
    Ok((median(costs), median(rates)))
}

fn value(reader: &Reader, snapshot: &Snapshot, name: &str) -> Result<u64, BenchError> {
    let index = reader.metrics().iter().position(|(known, _)| known == name);
    let silo = snapshot.silos.first();
    let value = index.and_then(|index| silo?.values.get(index).copied());
    value.ok_or_else(|| format!("nearside serve publishes no {name}").into())
}

fn wait(limit: Duration, mut ready: impl FnMut() -> bool) {
    let end = Clock.now() + limit;
    while !ready() && Clock.now() < end {
        sleep(Duration::from_millis(20));
    }
}

/// The middle value, the upper one of an even number; of values, at least one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
