//! `nearside packet forward` beside dpdk-testpmd: the same frames over the same
//! kind of memif, from one generator (our tester, as fast as the ring takes
//! frames: it sends more than testpmd flowgen does), each forwarder in turn on
//! the same core.

mod figures;

use crate::BenchError;
use demo::child::{Interrupt, Program, Running};
use demo::frames::{self, Testpmd};
use demo::machine::allowed_cores;
use demo::pages::HugePages;
use demo::scratch::Scratch;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames per second of ours for one of testpmd's, at least; cycles for each
/// frame, at most.
pub const FRAMES_BOUND: f64 = 1.0;
/// See [`FRAMES_BOUND`].
pub const CYCLES_BOUND: f64 = 1.0;

/// Both take so many frames at a time, if there are so many.
const BURST: f64 = 32.0;
/// With bursts that are less full than this the generator was the limit: what
/// one costs is shared by fewer frames, the fewer the faster the forwarder is.
const FULL: f64 = 0.9;

/// The generator stays for so long after it has sent: a forwarder is asked in
/// the middle of it.
const AFTER: Duration = Duration::from_secs(4);

/// Time for a program to come up, and to say what it measured.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each pair is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// Which figures.
    pub figures: Vec<PacketFigure>,
    /// In these modes.
    pub modes: Vec<String>,
    /// Print JSON.
    pub json: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PacketFigure {
    /// Frames and cycles of a forwarder over memif, by mode.
    Forward,
    /// Frames of a sender, through testpmd macswap.
    Generator,
    /// The times of a million frames a second.
    Pace,
    /// Round trips through a forwarder.
    RoundTrip,
    /// Frames of a forwarder over AF_XDP.
    Xdp,
}

impl PacketFigure {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Forward, Self::Generator, Self::Pace, Self::RoundTrip, Self::Xdp];
}

/// The two forwarders.
const ARMS: [&str; 2] = ["nearside", "testpmd"];

/// What one forwarder did in one round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct Run {
    /// Frames per second that came back to the generator.
    returned: f64,
    /// Cycles of the forwarding thread for each frame, in turns that found
    /// frames: what either program tells (testpmd before 23.03 calls them total
    /// cycles, but leaves a turn that found nothing before it adds them up).
    cycles: f64,
    /// Frames in a burst, of those that were not empty.
    burst: f64,
}

#[derive(Serialize)]
struct Mode {
    mode: String,
    rounds: Vec<[Run; 2]>,
    frames_ratio: [f64; 3],
    cycles_ratio: [f64; 3],
}

/// Measures by turns and prints. Returns whether the bounds hold.
///
/// # Errors
/// If either cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    if let Some(why) = frames::missing() {
        return Err(format!("testpmd: {why}").into());
    }
    let cores = allowed_cores();
    let [dut, generator, ..] = cores[..] else { return Err("two cores are needed".into()) };
    let interrupt = Interrupt::watch()?;
    let scratch = Scratch::make()?;
    let pages = HugePages::take(scratch.path())?;
    let bench = Bench { plan, folder: scratch.path(), pages: &pages, cores: (dut, generator), interrupt: &interrupt };
    let mut kept = true;
    for figure in &plan.figures {
        kept &= match figure {
            PacketFigure::Forward => bench.forward()?,
            PacketFigure::Generator => bench.generators()?,
            PacketFigure::Pace => bench.pace()?,
            PacketFigure::RoundTrip => bench.round_trips()?,
            PacketFigure::Xdp => bench.over_xdp()?,
        };
    }
    Ok(kept)
}

impl Bench<'_> {
    /// Frames and cycles of each forwarder, mode by mode.
    fn forward(&self) -> Result<bool, BenchError> {
        let plan = self.plan;
        let mut all = Vec::new();
        for mode in &plan.modes {
            let mut rounds = Vec::new();
            if !plan.json {
                println!("{mode}: frames/s returned, cycles/frame of busy turns, frames/burst");
            }
            for round in 0..plan.rounds {
                // Who comes first alternates.
                let pair = match round % 2 {
                    0 => [self.measure(mode, 0)?, self.measure(mode, 1)?],
                    _ => {
                        let theirs = self.measure(mode, 1)?;
                        [self.measure(mode, 0)?, theirs]
                    }
                };
                if !plan.json {
                    let cells = ARMS.iter().zip(&pair).map(|(name, run)| {
                        format!("{name} {:11.0} {:6.1} {:5.1}", run.returned, run.cycles, run.burst)
                    });
                    println!("  {}", cells.collect::<Vec<_>>().join("   "));
                }
                rounds.push(pair);
            }
            let ratio = |of: fn(&Run) -> f64| spread(rounds.iter().map(|pair| of(&pair[0]) / of(&pair[1])).collect());
            let (frames_ratio, cycles_ratio) = (ratio(|run| run.returned), ratio(|run| run.cycles));
            all.push(Mode { mode: mode.clone(), rounds, frames_ratio, cycles_ratio });
        }
        let starved = |mode: &Mode| mode.rounds.iter().flatten().any(|run| run.burst < FULL * BURST);
        let kept = |mode: &Mode| mode.frames_ratio[1] >= FRAMES_BOUND && mode.cycles_ratio[1] <= CYCLES_BOUND;
        if plan.json {
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            for mode in &all {
                let ([low, middle, high], [few, cycles, many]) = (mode.frames_ratio, mode.cycles_ratio);
                let word = if kept(mode) { "kept" } else { "NOT KEPT" };
                println!(
                    "{}: {middle:.3} of testpmd's frames ({low:.3} to {high:.3}), at least {FRAMES_BOUND}; {cycles:.3} \
                 of its cycles ({few:.3} to {many:.3}), at most {CYCLES_BOUND}: {word}",
                    mode.mode
                );
                if starved(mode) {
                    println!(
                        "  bursts were not full: the generator was the limit, and what a burst costs is shared by \
                         fewer frames"
                    );
                }
            }
        }
        Ok(all.iter().all(kept))
    }
}

/// Least, median and most.
fn spread(values: Vec<f64>) -> [f64; 3] {
    let (low, median, high) = crate::kernel::spread(values);
    [low, median, high]
}

struct Bench<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    pages: &'a HugePages,
    cores: (u16, u16),
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self, mode: &str, arm: usize) -> Result<Run, BenchError> {
        let socket = self.folder.join("packet.sock");
        let _ = std::fs::remove_file(&socket);
        let mut forwarder = self.forwarder(mode, arm, &socket)?;
        forwarder.wait_until("open its socket", PATIENCE, self.interrupt, || socket.exists())?;
        let seconds = format!("-d{}s", self.plan.duration.as_secs().max(1));
        let drain = format!("--drain={}s", AFTER.as_secs());
        let words = ["--stream=64:max,flows=1024", &seconds, &drain];
        let link = format!("--link=memif:{},role=client", socket.display());
        let mut generator = self.start(None, &[link], &words)?;
        // It still waits for stragglers when the forwarder is asked: one whose peer has gone has forgotten
        // what it counted, if it is testpmd.
        self.interrupt.sleep(self.plan.duration + AFTER / 2)?;
        forwarder.still_runs()?;
        forwarder.end();
        generator.ended(self.plan.duration + PATIENCE, self.interrupt)?;
        let said = generator.output();
        let said = serde_json::from_str(&said).map_err(|_| format!("the generator gave no report: {said}"))?;
        let returned = figures::per_second(&said)?;
        let told = forwarder.output();
        let told = if arm == 0 { ours(&told)? } else { theirs(&told)? };
        Ok(Run { returned, cycles: told.cycles, burst: told.burst })
    }

    fn forwarder(&self, mode: &str, arm: usize, socket: &Path) -> Result<Running, BenchError> {
        if arm == 1 {
            let further = ["--record-core-cycles", "--record-burst-stats"];
            let of = Testpmd { role: "server", mode, socket, core: self.cores.0, further: &further };
            return Ok(of.start(self.folder, self.pages)?);
        }
        let words = ["packet", "forward", "--json", "--mode", mode, "--cores"].map(str::to_owned);
        let mut words = [vec![self.plan.nearside.display().to_string()], words.to_vec()].concat();
        words.extend([self.cores.0.to_string(), format!("--link=memif:{},role=server", socket.display())]);
        Ok(Program { name: "nearside packet", netns: None, core: None, words }.start(self.folder)?)
    }
}

/// Frames received per second, of each report that has any.
fn received(output: &str) -> Vec<f64> {
    let of = |line: &str| line.trim_start().strip_prefix("Rx-pps:")?.split_ascii_whitespace().next()?.parse().ok();
    output.lines().filter_map(of).filter(|rate: &f64| *rate > 0.0).collect()
}

/// What a forwarder tells of itself.
#[derive(PartialEq, Debug)]
struct Told {
    cycles: f64,
    burst: f64,
}

impl Told {
    fn new(cycles: f64, frames: f64, bursts: f64) -> Self {
        Self { cycles, burst: frames / bursts.max(1.0) }
    }
}

fn ours(said: &str) -> Result<Told, BenchError> {
    let report: Value = serde_json::from_str(said).map_err(|_| format!("nearside gave no report: {said}"))?;
    let at = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let frames = at("/ports/0/totals/rx_packets").filter(|frames| *frames > 0.0).ok_or("no frames")?;
    let bursts = report.pointer("/ports/0/rx_bursts").and_then(Value::as_array).ok_or("no bursts")?;
    let pairs = bursts.iter().filter_map(|pair| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let full: f64 = pairs.iter().filter(|pair| pair.0 > 0.0).map(|pair| pair.1).sum();
    Ok(Told::new(at("/cycles_per_packet").ok_or("no cycles")?, frames, full))
}

/// `CPU cycles/packet=602.98 (total cycles=… / total RX packets=…) at 2300 MHz
/// Clock`, `RX-bursts : 770 [82% of 0 pkts + …]` and the like, as testpmd prints
/// them when it is stopped.
fn theirs(said: &str) -> Result<Told, BenchError> {
    let after = |text: &str, key: &str| -> Option<f64> {
        let rest = text.split_once(key)?.1.trim_start();
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    let none = || format!("testpmd told no cycles: {said}");
    let cycles = after(said, "cycles/packet=").ok_or_else(none)?;
    let frames = after(said, "packets=").ok_or_else(none)?;
    let bursts = |name: &str| {
        let line = said.lines().rfind(|line| line.trim_start().starts_with(name));
        line.and_then(|line| after(line, ":")).unwrap_or(0.0)
    };
    // Shares are told in whole percents; but whatever is received is sent as one burst.
    Ok(Told::new(cycles, frames, bursts("TX-bursts")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_forwarders_say_is_read() {
        let said = "  RX-bursts : 800 [82% of 0 pkts + 18% of 1 pkts]\n  TX-bursts : 2 [100% of 1 pkts]\n\n  CPU cycles/packet=602.98 (total cycles=5 / \
                    total RX packets=3) at 2300 MHz Clock\n";
        let told = theirs(said).expect("read");
        assert_eq!((told.cycles, told.burst), (602.98, 1.5));
        assert!(theirs("").is_err() && ours("{}").is_err());
        let said = r#"{ "cycles": { "total": 300 }, "cycles_per_packet": 40.0,
                        "ports": [{ "totals": { "rx_packets": 3 }, "rx_bursts": [[0, 3], [1, 1]] }] }"#;
        assert_eq!(ours(said).expect("read"), Told { cycles: 40.0, burst: 3.0 });
        assert_eq!(received("  Rx-pps:     12   Rx-bps: 1\n  Rx-pps: 0\n"), [12.0]);
    }
}
