//! `nearside load` over HTTP/2 beside h2load, by turns at one [`frame_server`](crate::frame_server), on
//! loopback: what a request costs of the generator's core. That is the processor time of its process, the
//! kernel's work for its sockets included; how fast the server is, and how often the generator waits for it,
//! does not change it.

use crate::BenchError;
use crate::client::{Said, WARM_UP, by_turns};
use crate::frame_server::Seen;
use crate::http2::StreamShape;
use crate::kernel::{spread, word};
use crate::program::{Scratch, processor_time};
use cpu::Clock;
use demo::child::{Interrupt, Program, Running};
use demo::machine::{TICKS_PER_SECOND, process_times};
use demo::measure::thousands;
use demo::stand::two_cores;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Connections, and streams under way on each; the bound is of the first
    #[arg(long, value_name = "CONNECTIONSxSTREAMS,…", value_delimiter = ',', default_value = "10x100,64x1")]
    pub shapes: Vec<StreamShape>,
    /// The h2load beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/bin/h2load")]
    pub h2load: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// What a request may cost of the generator's core, in nanoseconds.
const BOUND: f64 = 500.0;

/// How much longer than planned anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who asks.
const ARMS: [&str; 2] = ["nearside load", "h2load"];

/// What one measurement gave.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    rate: f64,
    /// Nanoseconds of its core for a request, and of these without the kernel's.
    cost: f64,
    own: f64,
    failed: u64,
}

/// Measures by turns and prints. Returns whether the bound is kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let cores = two_cores()?;
    let folder = Scratch::in_memory()?;
    let bench = Bench { plan, nearside, cores, folder: folder.path(), interrupt: &interrupt };
    let server = start_server(None, cores.0, &["--streams=1000".to_owned()], folder.path(), &interrupt)?;
    let url = format!("http://{}/", server.1.address);
    let mut kept = true;
    for (at, shape) in plan.shapes.iter().enumerate() {
        let samples = by_turns(plan.rounds, ARMS.len(), |arm| {
            let sample = bench.measure(ARMS[arm], &url, *shape)?;
            eprintln!("  {:14} {:>9} requests/s, {:.0} ns each", ARMS[arm], thousands(sample.rate), sample.cost);
            Ok(Some(sample))
        })?;
        let StreamShape { connections, streams } = shape;
        println!(
            "{connections} connections of {streams} streams, at a server that answers each HEADERS with one block, {} \
             rounds by turns",
            plan.rounds
        );
        for (name, samples) in ARMS.iter().zip(&samples) {
            tell(name, samples);
        }
        let (low, middle, high) =
            spread(samples[0].iter().zip(&samples[1]).map(|(ours, other)| ours.cost / other.cost).collect());
        println!("  {middle:.2} of h2load's cost ({low:.2} to {high:.2})");
        let failed: u64 = samples.iter().flatten().map(|sample| sample.failed).sum();
        let cost = spread(samples[0].iter().map(|sample| sample.cost).collect()).1;
        let holds = failed == 0 && (at > 0 || cost <= BOUND);
        kept &= holds;
        if at == 0 {
            println!("  nearside load: {cost:.0} ns, at most {BOUND:.0}: {}", word(holds));
        }
    }
    Ok(kept)
}

fn tell(name: &str, samples: &[Sample]) {
    let rate = spread(samples.iter().map(|sample| sample.rate).collect()).1;
    let (low, cost, high) = spread(samples.iter().map(|sample| sample.cost).collect());
    let own = spread(samples.iter().map(|sample| sample.own).collect()).1;
    let failed: u64 = samples.iter().map(|sample| sample.failed).sum();
    let failed = if failed > 0 { format!("  {failed} FAILED") } else { String::new() };
    println!(
        "  {name:14} {:>11} requests/s  {cost:>6.0} ns of its core each ({low:.0} to {high:.0}), {own:.0} without the \
         kernel's{failed}",
        thousands(rate)
    );
}

/// Starts a server of frames, and waits until it listens.
pub(crate) fn start_server(
    netns: Option<&str>,
    core: u16,
    more: &[String],
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(Running, Seen, PathBuf), BenchError> {
    let tells = folder.join("frame-server.tells");
    let _ = fs::remove_file(&tells);
    let own = std::env::current_exe()?.display().to_string();
    let mut words = vec![own, "frame-server".to_owned(), format!("--tells={}", tells.display())];
    words.extend_from_slice(more);
    let mut running = Program { name: "frame server", netns, core: Some(core), words }.start(folder)?;
    running.wait_until("listen", PATIENCE, interrupt, || tells.exists())?;
    let seen = Seen::read(&tells)?;
    Ok((running, seen, tells))
}

struct Bench<'a> {
    plan: &'a Plan,
    nearside: &'a Path,
    /// The server's, and the generator's.
    cores: (u16, u16),
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self, arm: &'static str, url: &str, shape: StreamShape) -> Result<Sample, BenchError> {
        let duration = Duration::from_secs(self.plan.seconds);
        let words = if arm == ARMS[0] { self.ours(url, shape) } else { self.h2load(url, shape) };
        let program = Program { name: arm, netns: None, core: Some(self.cores.1), words };
        let mut asks = program.start(self.folder)?;
        self.interrupt.sleep(WARM_UP + duration / 5)?;
        let (begun, before) = (Clock.now(), used(asks.pid())?);
        self.interrupt.sleep(duration * 3 / 5)?;
        let (seconds, after) = (Clock.now().since(begun).as_secs_f64(), used(asks.pid())?);
        let said = asks.finish(WARM_UP + duration + PATIENCE, self.interrupt)?;
        let (rate, failed) = if arm == ARMS[0] {
            let said = Said::read(&said)?;
            (said.throughput.requests_per_second, said.errors.values().sum())
        } else {
            h2load_said(&said).ok_or_else(|| format!("h2load said:\n{said}"))?
        };
        let each = |time: f64| time / seconds * 1e9 / rate;
        Ok(Sample { rate, cost: each(after.0 - before.0), own: each(after.1 - before.1), failed })
    }

    fn ours(&self, url: &str, shape: StreamShape) -> Vec<String> {
        let mut words = vec![self.nearside.display().to_string(), "load".to_owned(), url.to_owned()];
        words.extend(["--http2", "--threads=1", "--no-floor", "--json"].map(str::to_owned));
        words.push(format!("--max-concurrent-streams={}", shape.streams));
        words.push(format!("--connections={}", shape.connections));
        words.push(format!("--cores={}", self.cores.1));
        words.push(format!("--duration={}s", self.plan.seconds));
        words.push(format!("--warmup={}ms", WARM_UP.as_millis()));
        words
    }

    fn h2load(&self, url: &str, shape: StreamShape) -> Vec<String> {
        let mut words = vec![self.plan.h2load.display().to_string(), "--threads=1".to_owned()];
        words.push(format!("--max-concurrent-streams={}", shape.streams));
        words.push(format!("--clients={}", shape.connections));
        words.push(format!("--duration={}s", self.plan.seconds));
        words.push(format!("--warm-up-time={}ms", WARM_UP.as_millis()));
        words.push(url.to_owned());
        words
    }
}

/// Seconds of processors that a process has had, and of these those outside of the kernel.
fn used(pid: u32) -> Result<(f64, f64), BenchError> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (user, _) = process_times(&stat).ok_or("nothing tells what a process used")?;
    Ok((processor_time(pid)?.as_secs_f64(), user as f64 / TICKS_PER_SECOND))
}

/// Requests in a second, and how many came to nothing, as h2load says it.
fn h2load_said(said: &str) -> Option<(f64, u64)> {
    // "finished in 4.00s, 123456.78 req/s, 9.87MB/s"
    let line = said.lines().find(|line| line.starts_with("finished in "))?;
    let rate = line.split(", ").find_map(|part| part.strip_suffix(" req/s"))?.parse().ok()?;
    // "requests: 10 total, 10 started, 10 done, 10 succeeded, 0 failed, 0 errored, 0 timeout"
    let line = said.lines().find(|line| line.starts_with("requests: "))?;
    let of = |what: &str| -> Option<u64> {
        line.split([',', ':']).find_map(|part| part.trim().strip_suffix(what))?.parse().ok()
    };
    // What failed is what came to nothing in any way, errors and timeouts among it.
    Some((rate, of(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_h2load_says_is_read() {
        let said = "finished in 4.00s, 123456.78 req/s, 9.87MB/s\n\
                    requests: 493827 total, 494827 started, 493827 done, 493820 succeeded, 7 failed, 3 errored, 0 timeout\n";
        assert_eq!(h2load_said(said), Some((123_456.78, 7)));
        assert_eq!(h2load_said("finished in 4.00s\n"), None);
        assert_eq!(h2load_said(""), None);
    }
}
