//! What asks a server over kernel sockets: wrk, or our own generator, each on
//! the client's core, with what it costs there.

use crate::BenchError;
use cpu::between::line_round_trip;
use demo::child::{Interrupt, Program, Running};
use demo::kernel::{self, Kernel, parse};
use demo::machine::{CpuSample, CpuShare, allowed_cores};
use demo::measure::{Connections, Latency};
use demo::scratch::Scratch;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A load generator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    /// wrk, one thread.
    Wrk,
    /// `nearside load`, one thread, with this engine.
    Nearside { program: PathBuf, engine: &'static str },
}

/// What every measurement beside nginx needs before nginx itself: signals that
/// are heeded, the server's core and the client's, and a folder.
///
/// # Errors
/// If nginx cannot be measured here.
pub(crate) fn prepare() -> Result<(Interrupt, (u16, u16), Scratch), BenchError> {
    if let Some(why) = kernel::missing() {
        return Err(format!("nginx cannot be measured: {why}").into());
    }
    let interrupt = Interrupt::watch()?;
    let [server, client, ..] = allowed_cores()[..] else { return Err("two cores are needed".into()) };
    Ok((interrupt, (server, client), Scratch::make()?))
}

/// Measures each of `count` by turns, in so many rounds: who begins moves on
/// with each. Returns what each gave, but for those that are left out.
pub(crate) fn by_turns<T>(
    rounds: u32,
    count: usize,
    mut measure: impl FnMut(usize) -> Result<Option<T>, BenchError>,
) -> Result<Vec<Vec<T>>, BenchError> {
    let mut samples: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        tell_of_cores();
        for turn in 0..count {
            let index = (round + turn) % count;
            samples[index].extend(measure(index)?);
        }
    }
    Ok(samples)
}

/// How far the cores are from each other in the round that begins, of the server and of who asks it: what passes
/// between them by memory goes at that pace, and a hypervisor may change it.
pub(crate) fn tell_of_cores() {
    let [server, client, ..] = allowed_cores()[..] else { return };
    if let Some(took) = line_round_trip(server, client) {
        eprintln!("  a cache line goes from core {server} to core {client} and back in {} ns", took.as_nanos());
    }
}

/// Where a client runs, and beside what.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) dir: &'a Path,
    /// The server's core and the client's.
    pub(crate) cores: (u16, u16),
    pub(crate) interrupt: &'a Interrupt,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a str,
    pub(crate) connections: Connections,
    pub(crate) count: u32,
    pub(crate) duration: Duration,
    /// The server's processes.
    pub(crate) servers: &'a [u32],
}

/// What one measurement gave. Latencies in microseconds, shares of a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) rate: f64,
    pub(crate) p99: f64,
    /// As the generator says it; wrk's script does not.
    pub(crate) mean: Option<f64>,
    pub(crate) errors: u64,
    pub(crate) server: f64,
    /// The server's core in softirq that no process was charged with.
    pub(crate) softirq: f64,
    pub(crate) client: f64,
    /// The server's core with other programs.
    pub(crate) others: f64,
}

impl Sample {
    /// Microseconds of the server's core for a request: of the process, and of
    /// softirq beyond it.
    pub(crate) fn cost(&self) -> f64 {
        (self.server + self.softirq) * 1e6 / self.rate
    }
}

/// The server, its core's softirq beyond it, and the client.
pub(crate) type Shares = (CpuShare, f64, CpuShare);

/// What the two sides took of their cores, over the middle of a measurement.
pub(crate) fn watch(ask: Ask<'_>, client: &Running, warm_up: Duration, at: Place<'_>) -> Result<Shares, BenchError> {
    let (shares, _) = watch_with(ask, client, warm_up, at, || Ok(()))?;
    Ok(shares)
}

/// The same, and what `read` reads at both ends of it.
pub(crate) fn watch_with<T>(
    ask: Ask<'_>,
    client: &Running,
    warm_up: Duration,
    at: Place<'_>,
    read: impl Fn() -> Result<T, BenchError>,
) -> Result<(Shares, [T; 2]), BenchError> {
    let (server, generator) = at.cores;
    let sample = || (CpuSample::take(ask.servers, server), CpuSample::take(&[client.pid()], generator));
    at.interrupt.sleep(warm_up + ask.duration / 5)?;
    let (before, first) = (sample(), read()?);
    at.interrupt.sleep(ask.duration * 3 / 5)?;
    let (after, last) = (sample(), read()?);
    let softirq = before.0.softirq_beyond_until(&after.0);
    let shares = (before.0.share_until(&after.0), softirq, before.1.share_until(&after.1));
    Ok((shares, [first, last]))
}

/// Before each measurement, not counted.
pub(crate) const WARM_UP: Duration = Duration::from_secs(1);

/// How much longer than planned a generator may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Client {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Wrk => "wrk".to_owned(),
            Self::Nearside { engine, .. } => format!("nearside load, {engine}"),
        }
    }

    /// Asks, after a second that is not counted.
    pub(crate) fn ask(&self, ask: Ask<'_>, at: Place<'_>) -> Result<Sample, BenchError> {
        let Ask { url, connections, count, duration, .. } = ask;
        let Place { kernel, cores, interrupt, .. } = at;
        match self {
            Self::Wrk => {
                kernel.ask(url, connections, count, WARM_UP)?.finish(PATIENCE, interrupt)?;
                let mut wrk = kernel.ask(url, connections, count, duration)?;
                let (server, softirq, client) = watch(ask, &wrk, Duration::ZERO, at)?;
                let report = parse(&wrk.finish(duration + PATIENCE, interrupt)?)?;
                let latency = Latency { curve: report.percentiles, max: report.max };
                Ok(Sample {
                    rate: report.requests as f64 * 1e6 / report.microseconds.max(1) as f64,
                    p99: latency.at(99.0).unwrap_or(f64::NAN),
                    mean: None,
                    errors: report.errors,
                    server: server.process,
                    softirq,
                    client: client.process,
                    others: server.others,
                })
            }
            Self::Nearside { program, engine } => {
                let mut words = nearside(program, engine, cores.1, url, count, duration);
                if connections == Connections::New {
                    words.push("--close".to_owned());
                }
                let mut load = run(words, at)?;
                let (server, softirq, client) = watch(ask, &load, WARM_UP, at)?;
                let said = load.finish(WARM_UP + duration + PATIENCE, interrupt)?;
                let report = Said::read(&said)?;
                Ok(Sample {
                    rate: report.throughput.requests_per_second,
                    p99: report.latency.p99_ns / 1e3,
                    mean: Some(report.latency.mean_ns / 1e3),
                    errors: report.errors.values().sum(),
                    server: server.process,
                    softirq,
                    client: client.process,
                    others: server.others,
                })
            }
        }
    }
}

/// Requests at a fixed rate.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'a> {
    pub(crate) url: &'a str,
    pub(crate) count: u32,
    pub(crate) rate: u32,
    pub(crate) duration: Duration,
    pub(crate) at: Place<'a>,
}

impl Pace<'_> {
    /// The mean latency that our generator tells, in microseconds.
    pub(crate) fn nearside(&self, program: &Path, engine: &str) -> Result<f64, BenchError> {
        let mut words = nearside(program, engine, self.at.cores.1, self.url, self.count, self.duration);
        words.push(format!("--rate={}", self.rate));
        let mut load = run(words, self.at)?;
        let said = load.finish(WARM_UP + self.duration + PATIENCE, self.at.interrupt)?;
        Ok(Said::read(&said)?.latency.mean_ns / 1e3)
    }

    /// The mean latency that wrk2 tells, in microseconds.
    pub(crate) fn wrk2(&self, wrk2: &Path) -> Result<f64, BenchError> {
        // It spends its first ten seconds on calibration, and counts after them.
        let seconds = self.duration.as_secs().max(1) + 11;
        let mut words = vec![wrk2.display().to_string(), "--threads=1".to_owned(), "--latency".to_owned()];
        words.push(format!("--connections={}", self.count));
        words.push(format!("--rate={}", self.rate));
        words.push(format!("--duration={seconds}s"));
        words.push(self.url.to_owned());
        let mut wrk2 = start("wrk2", words, self.at)?;
        let said = wrk2.finish(Duration::from_secs(seconds) + PATIENCE, self.at.interrupt)?;
        // #[Mean    =        0.123, StdDeviation   =        0.045]
        let mean = said.split("#[Mean").nth(1).and_then(|rest| rest.split(['=', ',']).nth(1));
        let mean = mean.and_then(|text| text.trim().parse::<f64>().ok());
        Ok(mean.ok_or_else(|| format!("wrk2 told no mean, but:\n{said}"))? * 1e3)
    }
}

fn nearside(program: &Path, engine: &str, core: u16, url: &str, count: u32, duration: Duration) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "load".to_owned(), url.to_owned()];
    words.extend(["--threads=1", "--no-floor", "--json"].map(str::to_owned));
    words.push(format!("--cores={core}"));
    words.push(format!("--engine={engine}"));
    words.push(format!("--connections={count}"));
    words.push(format!("--duration={}ms", duration.as_millis()));
    words.push(format!("--warmup={}ms", WARM_UP.as_millis()));
    words
}

fn run(words: Vec<String>, at: Place<'_>) -> Result<Running, BenchError> {
    start("nearside load", words, at)
}

fn start(name: &str, words: Vec<String>, at: Place<'_>) -> Result<Running, BenchError> {
    let program = Program { name, netns: Some(&at.kernel.names().client), core: Some(at.cores.1), words };
    Ok(program.start(at.dir)?)
}

/// The part of a report that is looked at here.
#[derive(Deserialize)]
pub(crate) struct Said {
    pub(crate) throughput: Throughput,
    pub(crate) latency: Latencies,
    pub(crate) errors: std::collections::BTreeMap<String, u64>,
    secured: Option<Handshakes>,
}

#[derive(Deserialize)]
struct Handshakes {
    handshake: Count,
    resumed: u64,
}

#[derive(Deserialize)]
struct Count {
    samples: u64,
}

#[derive(Deserialize)]
pub(crate) struct Throughput {
    pub(crate) requests_per_second: f64,
}

#[derive(Deserialize)]
pub(crate) struct Latencies {
    pub(crate) mean_ns: f64,
    pub(crate) p99_ns: f64,
}

impl Said {
    /// An error unless handshakes went on with sessions as they were to: nine in ten, or none.
    pub(crate) fn is_resumed(&self, wanted: bool) -> Result<(), BenchError> {
        let Some(Handshakes { handshake, resumed }) = &self.secured else { return Err("it was no HTTPS".into()) };
        let right = if wanted { *resumed * 10 >= handshake.samples * 9 } else { *resumed == 0 };
        let why = || format!("{resumed} of {} handshakes were resumed", handshake.samples).into();
        if right { Ok(()) } else { Err(why()) }
    }

    pub(crate) fn read(said: &str) -> Result<Self, BenchError> {
        let begin = said.find('{').ok_or_else(|| format!("nearside load printed no report, but:\n{said}"))?;
        serde_json::from_str(&said[begin..]).map_err(|why| format!("nearside load's report: {why}").into())
    }
}
