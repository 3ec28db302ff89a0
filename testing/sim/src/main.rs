//! Runs seeds of the simulator, and its tables.

use clap::Parser;
use core::time::Duration;
use sim::proxied::{Protocol, Proxied};
use sim::transfer::{Transfer, table};
use sim::world::World;
use sim::{Outcome, Scenario, simulate, simulate_bare, simulate_proxied, simulate_sealed, simulate_silos};
use stack::shadow::Way;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tcp::congestion::Algorithm;

/// A deterministic simulator of many hosts over faulty links.
#[derive(Parser)]
struct Arguments {
    /// Run one seed, and tell what it stands for.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// With several silos at half of the hosts.
    #[arg(long)]
    silos: bool,
    /// With all talks in records, and packets that get shorter.
    #[arg(long, conflicts_with_all = ["silos", "bare"])]
    sealed: bool,
    /// Without holding short ways against the general ones.
    #[arg(long)]
    bare: bool,
    /// Print every frame of that seed's run.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Run so many seeds.
    #[arg(long, value_name = "COUNT", conflicts_with = "seed")]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Threads that run seeds; one for each core if left out.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Run seeds until upstreams behind the web server have failed so often; with a seed, that
    /// one alone.
    #[arg(long, value_name = "COUNT", conflicts_with = "seeds")]
    upstream_faults: Option<u64>,
    /// These upstreams speak HTTP/2.
    #[arg(long, requires = "upstream_faults")]
    http2: bool,
    /// Print the table of loss, delay and buffer.
    #[arg(long)]
    table: bool,
    /// Print the table of flows over emulated paths, of those with PART in
    /// their names.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "")]
    internet: Option<String>,
    /// Write both tables where the tests compare them.
    #[arg(long, conflicts_with = "internet")]
    bless: bool,
    /// 100 MB at 1 % loss and 20 ms, beside the Mathis bound.
    #[arg(long)]
    mathis: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if (arguments.table || arguments.bless) && !print_table(&table(), arguments.bless.then_some("transfers.txt")) {
        return ExitCode::FAILURE;
    }
    let part = arguments.internet.or_else(|| arguments.bless.then(String::new));
    if let Some(part) = part
        && !print_table(&sim::internet::table(&part), arguments.bless.then_some("internet.txt"))
    {
        return ExitCode::FAILURE;
    }
    if arguments.mathis {
        mathis();
    }
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    if let Some(count) = arguments.upstream_faults {
        let protocol = if arguments.http2 { Protocol::Http2 } else { Protocol::Http1 };
        return match arguments.seed {
            Some(seed) => told(seed, &simulate_proxied(seed, protocol)),
            None => many_proxied(arguments.first, count, protocol, threads),
        };
    }
    if let Some(seed) = arguments.seed {
        let scenario = match (arguments.silos, arguments.sealed) {
            (true, _) => Scenario::of_silos(seed),
            (false, true) => Scenario::of_sealed(seed),
            (false, false) => Scenario::of(seed),
        };
        return one(&scenario, arguments.bare, arguments.trace);
    }
    if let Some(count) = arguments.seeds {
        let simulated = Simulated { silos: arguments.silos, sealed: arguments.sealed, bare: arguments.bare };
        return many(arguments.first, count, simulated, threads);
    }
    ExitCode::SUCCESS
}

/// Prints a table, and writes it into the file of snapshots, if one is named. Returns whether
/// that went well.
fn print_table(table: &str, file: Option<&str>) -> bool {
    print!("{table}");
    let Some(file) = file else { return true };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(file);
    let written = std::fs::write(&path, table);
    if let Err(error) = &written {
        eprintln!("{}: {error}", path.display());
    }
    written.is_ok()
}

fn one(scenario: &Scenario, bare: bool, trace: bool) -> ExitCode {
    println!("{scenario:#?}");
    let mut world = if bare { World::new(scenario) } else { World::shadowed(scenario, None) };
    if trace {
        world.trace();
    }
    let outcome = world.run();
    let shown = Outcome { tally: outcome.tally.without_ends(), ..outcome.clone() };
    println!("{shown:#?}");
    if outcome.tally.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn told(seed: u64, outcome: &Proxied) -> ExitCode {
    println!("seed {seed}: {outcome:#?}");
    if outcome.objections.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds of the proxy, until so many faults were injected.
fn many_proxied(first: u64, faults: u64, protocol: Protocol, threads: usize) -> ExitCode {
    let next = AtomicU64::new(first);
    let done: Mutex<(Proxied, Vec<u64>, u64)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while done.lock().is_ok_and(|done| done.0.faults() < faults) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let outcome = std::panic::catch_unwind(|| simulate_proxied(seed, protocol));
                    let Ok(mut done) = done.lock() else { return };
                    let failed = match &outcome {
                        Ok(outcome) => {
                            done.0.add(outcome);
                            outcome.objections.join("\n  ")
                        }
                        Err(_) => "panicked".into(),
                    };
                    done.2 += 1;
                    if !failed.is_empty() {
                        done.1.push(seed);
                        let option = if protocol == Protocol::Http2 { " --http2" } else { "" };
                        let replay = format!("cargo run --release -p sim -- --upstream-faults 0{option} --seed {seed}");
                        println!("seed {seed}:\n  {failed}\n  replay: {replay}");
                    }
                }
            });
        }
    });
    let (all, failed, seeds) = done.into_inner().unwrap_or_default();
    println!("{seeds} seeds, {} faults, {} failed: {all:#?}", all.faults(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How seeds are run.
#[derive(Clone, Copy)]
struct Simulated {
    silos: bool,
    sealed: bool,
    bare: bool,
}

impl Simulated {
    fn run(self, seed: u64) -> Outcome {
        match (self.silos, self.bare) {
            _ if self.sealed => simulate_sealed(seed),
            (silos, true) => simulate_bare(seed, silos),
            (true, false) => simulate_silos(seed),
            (false, false) => simulate(seed),
        }
    }

    /// What has one seed run like this.
    const fn options(self) -> &'static str {
        match (self.silos, self.bare) {
            _ if self.sealed => " --sealed",
            (false, false) => "",
            (true, false) => " --silos",
            (false, true) => " --bare",
            (true, true) => " --silos --bare",
        }
    }
}

/// Seeds between two lines of progress.
const PROGRESS: u64 = 500;

#[allow(clippy::disallowed_methods, reason = "progress is told in the time of whoever waits")]
fn many(first: u64, count: u64, simulated: Simulated, threads: usize) -> ExitCode {
    let next = AtomicU64::new(first);
    let began = Instant::now();
    let done: Mutex<(Totals, Vec<u64>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first.saturating_add(count) {
                        return;
                    }
                    // A panic is a failure of its seed, not of the soak.
                    let outcome = std::panic::catch_unwind(|| simulated.run(seed));
                    let Ok(mut done) = done.lock() else { return };
                    let failed = match &outcome {
                        Ok(outcome) => {
                            done.0.add(outcome);
                            outcome.tally.violations.join("\n  ")
                        }
                        Err(_) => "panicked".into(),
                    };
                    done.0.seeds += 1;
                    if done.0.seeds % PROGRESS == 0 {
                        let (so_far, failed) = (done.0.seeds, done.1.len());
                        println!("{so_far} of {count} seeds, {failed} failed, {:.0} s", began.elapsed().as_secs_f64());
                    }
                    if !failed.is_empty() {
                        done.1.push(seed);
                        let option = simulated.options();
                        println!(
                            "seed {seed}:\n  {failed}\n  replay: cargo run --release -p sim -- --seed {seed}{option}"
                        );
                    }
                }
            });
        }
    });
    let (totals, failed) = done.into_inner().unwrap_or_default();
    println!("{count} seeds, {} failed: {totals:?}", failed.len());
    if !failed.is_empty() {
        println!("failed: {failed:?}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Debug, Default)]
#[allow(dead_code, reason = "read where it is printed")]
struct Totals {
    seeds: u64,
    connections: u64,
    finished: u64,
    aborted: u64,
    reset: u64,
    timed_out: u64,
    late: u64,
    retried: u64,
    bytes: u64,
    frames: u64,
    turns: u64,
    virtual_time: Duration,
    steering: BTreeMap<&'static str, u64>,
    compared: BTreeMap<Way, u64>,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.connections += outcome.tally.opened;
        self.finished += outcome.tally.finished;
        self.aborted += outcome.tally.aborted;
        self.reset += outcome.tally.reset;
        self.timed_out += outcome.tally.timed_out;
        self.late += outcome.tally.late;
        self.retried += outcome.tally.retried;
        self.bytes += outcome.tally.bytes;
        self.frames += outcome.frames;
        self.turns += outcome.turns;
        self.virtual_time += outcome.took;
        for (name, count) in &outcome.steering {
            *self.steering.entry(name).or_default() += count;
        }
        for (way, count) in &outcome.compared {
            *self.compared.entry(*way).or_default() += count;
        }
    }
}

fn mathis() {
    for (congestion, loss_back) in
        [(Algorithm::Cubic, false), (Algorithm::Cubic, true), (Algorithm::NewReno, false), (Algorithm::NewReno, true)]
    {
        let transfer = Transfer {
            bytes: 100_000_000,
            loss: 0.01,
            loss_back,
            rtt: Duration::from_millis(20),
            rate: None,
            congestion,
            timestamps: true,
            seed: 1,
        };
        let transferred = transfer.run();
        println!(
            "{congestion:?}, loss {}: {:.2} Mbit/s, the Mathis bound is {:.2}: {transferred:?}",
            if loss_back { "both ways" } else { "of data" },
            transfer.goodput(&transferred) / 1e6,
            transfer.mathis() / 1e6,
        );
    }
}
