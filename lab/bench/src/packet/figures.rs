//! The tester beside testpmd: frames sent and checked, times kept, round trips
//! through either forwarder, and forwarders over AF_XDP.

use super::{ARMS, Bench, PATIENCE, received, spread};
use crate::BenchError;
use crate::client::tell_of_cores;
use demo::child::{Program, Running};
use demo::frames::{Testpmd, rates};
use demo::machine::find_program;
use demo::netns::Wires;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Our sender's frames for one of flowgen's, at least, and what comes back.
pub const GENERATOR_BOUND: f64 = 1.0;
/// What comes back through testpmd, of what two testpmd reach.
pub const MRR_BOUND: f64 = 0.95;
/// At a million frames a second: the rate's error over ten seconds, and the
/// 99th percentile of how far a gap is from a microsecond.
pub const RATE_BOUND: f64 = 1e-4;
/// See [`RATE_BOUND`].
pub const GAP_BOUND: u64 = 100;
/// Our median round trip for one through testpmd, at most.
pub const TRIP_BOUND: f64 = 1.0;

/// The rate's error is of so long.
const WINDOW: Duration = Duration::from_secs(10);

/// A background is such a share of what the slower forwarder returns.
const SHARE: f64 = 0.7;

/// One figure of both by turns.
#[derive(Serialize)]
pub struct Compared {
    figure: String,
    rounds: Vec<[f64; 2]>,
    ratio: [f64; 3],
    kept: bool,
}

impl Compared {
    fn new(figure: &str, rounds: Vec<[f64; 2]>, kept: impl Fn(f64) -> bool) -> Self {
        let ratio = spread(rounds.iter().map(|pair| pair[0] / pair[1]).collect());
        Self { figure: figure.to_owned(), kept: kept(ratio[1]), rounds, ratio }
    }

    fn show(&self, asked: &str) {
        let medians = [0, 1].map(|arm| spread(self.rounds.iter().map(|pair| pair[arm]).collect())[1]);
        let [low, middle, high] = self.ratio;
        let word = if self.kept { "kept" } else { "NOT KEPT" };
        println!(
            "{}: {:.0} beside testpmd's {:.0}: {middle:.3} ({low:.3} to {high:.3}), {asked}: {word}",
            self.figure, medians[0], medians[1]
        );
    }
}

/// Times that a sender kept in one window.
#[derive(Serialize)]
struct Kept {
    /// Of what was offered: a frame that finds the ring full when it is due is
    /// the device's loss, and not another rate.
    rate_error: f64,
    gap_p99_ns: f64,
    /// The same of slices of a millisecond in which the tester was never away
    /// and sent nothing late; and the share of those.
    calm_gap_p99_ns: Option<f64>,
    calm: f64,
    entrance: f64,
    /// Sent after it was due, to catch up; never sent.
    late_share: f64,
    missed: f64,
    stalls: f64,
    longest_stall_ns: f64,
    /// The share of the time that the tester was away from its rings.
    away: f64,
    /// Seconds that the hypervisor took from the tester's core.
    steal: f64,
}

/// So many of the slices of a window are to be calm, at least, or it says nothing
/// of the sender.
const CALM_LEAST: f64 = 0.1;

impl Kept {
    /// The 99th percentile that is judged: of slices in which the tester was
    /// there, if they are enough.
    fn judged(&self) -> Option<f64> {
        self.calm_gap_p99_ns.filter(|_| self.calm >= CALM_LEAST)
    }
}

impl Bench<'_> {
    /// Frames sent and received by each sender, through testpmd macswap.
    pub(super) fn generators(&self) -> Result<bool, BenchError> {
        let (mut sent, mut returned) = (Vec::new(), Vec::new());
        for round in 0..self.plan.rounds {
            let pair = self.by_turns(round, |arm| if arm == 0 { self.our_sender() } else { self.flowgen() })?;
            sent.push(pair.map(|(sent, _)| sent));
            returned.push(pair.map(|(_, returned)| returned));
        }
        let figures = [
            (
                Compared::new("frames/s sent", sent, |ratio| ratio >= GENERATOR_BOUND),
                format!("at least {GENERATOR_BOUND}"),
            ),
            (
                Compared::new("frames/s returned and checked", returned.clone(), |ratio| ratio >= GENERATOR_BOUND),
                format!("at least {GENERATOR_BOUND}"),
            ),
            (
                Compared::new("MRR through testpmd macswap", returned, |ratio| ratio >= MRR_BOUND),
                format!("at least {MRR_BOUND}"),
            ),
        ];
        self.show_all(&figures)
    }

    /// How well a million frames a second are sent on time.
    pub(super) fn pace(&self) -> Result<bool, BenchError> {
        let windows = (0..self.plan.rounds).map(|_| self.window()).collect::<Result<Vec<Kept>, _>>()?;
        let gaps: Vec<f64> = windows.iter().filter_map(Kept::judged).collect();
        let judged = (!gaps.is_empty()).then(|| {
            let counted = windows.iter().filter(|window| window.judged().is_some());
            (gaps.len(), spread(counted.map(|window| window.rate_error).collect()), spread(gaps))
        });
        let is_kept = |rate: &[f64; 3], gaps: &[f64; 3]| rate[1] <= RATE_BOUND && gaps[1] <= GAP_BOUND as f64;
        let kept = judged.as_ref().is_some_and(|(_, rate, gaps)| is_kept(rate, gaps));
        if self.plan.json {
            println!("{}", serde_json::to_string_pretty(&windows)?);
            return Ok(kept);
        }
        for it in &windows {
            let calm = it.calm_gap_p99_ns.map_or_else(|| "not known".to_owned(), |nanos| format!("{nanos:.0} ns"));
            println!(
                "  1 M/s for {} s: rate off by {:.5} %, p99 of |gap - 1 us| {:.0} ns, and {calm} in the {:.1} % of \
                 milliseconds in which the tester was there; {:.4} % late (caught up), {:.0} not sent, {:.0} lost at \
                 the entrance; away {:.0} times, {:.3} % of the time, {:.0} us at most; {:.2} s of its core stolen",
                WINDOW.as_secs(),
                100.0 * it.rate_error,
                it.gap_p99_ns,
                100.0 * it.calm,
                100.0 * it.late_share,
                it.missed,
                it.entrance,
                it.stalls,
                100.0 * it.away,
                it.longest_stall_ns / 1e3,
                it.steal,
            );
        }
        match judged {
            None => println!(
                "pace: NOT KEPT: the tester was there in less than {:.0} % of every window's milliseconds, or its gaps \
                 were more than 2 us off: none is judged",
                100.0 * CALM_LEAST
            ),
            Some((count, rate, gaps)) => println!(
                "pace, {count} of {} windows: rate off by {:.5} % (at most {} %), p99 of |gap - 1 us| while the tester \
                 was there {:.0} ns ({:.0} to {:.0}; at most {GAP_BOUND}): {}",
                windows.len(),
                100.0 * rate[1],
                100.0 * RATE_BOUND,
                gaps[1],
                gaps[0],
                gaps[2],
                if kept { "kept" } else { "NOT KEPT" }
            ),
        }
        Ok(kept)
    }

    /// Ten seconds of a million frames a second, through our forwarder.
    fn window(&self) -> Result<Kept, BenchError> {
        let socket = self.socket();
        let mut forwarder = self.forwarder("macswap", 0, &socket)?;
        forwarder.wait_until("open its socket", PATIENCE, self.interrupt, || socket.exists())?;
        let before = steal(self.cores.1);
        let seconds = format!("-d{}s", WINDOW.as_secs());
        let words = ["--stream=64:1M", &seconds, "--catch-up=200ms"];
        // So many descriptors that a forwarder may be away for four milliseconds.
        let link = format!("--link=memif:{},role=client,ring=4096", socket.display());
        let said = self.tester(None, &[link], &words)?;
        let steal = steal(self.cores.1) - before;
        let at = |path: &str| number(&said, path);
        let (frames, entrance) = (at("/result/lanes/0/sent/frames")?, at("/result/lanes/0/sent/entrance")?);
        let (late, missed) = (at("/result/lanes/0/sent/late")?, at("/result/lanes/0/sent/missed")?);
        let nanos = 1e9 * at("/result/seconds")?;
        Ok(Kept {
            rate_error: ((frames + entrance) * 1e3 / nanos - 1.0).abs(),
            gap_p99_ns: at("/result/lanes/0/gaps/deviation_p99_ns")?,
            calm_gap_p99_ns: at("/result/lanes/0/calm/deviation_p99_ns").ok(),
            calm: at("/result/lanes/0/calm/calm")? / at("/result/lanes/0/calm/slices")?.max(1.0),
            entrance,
            late_share: (late + missed) / (frames + entrance + missed).max(1.0),
            missed,
            stalls: at("/result/stalls/count")?,
            longest_stall_ns: at("/result/stalls/longest_ns")?,
            away: at("/result/stalls/total_ns")? / nanos,
            steal,
        })
    }

    /// Round trips through either forwarder in mode io, alone and with a
    /// background.
    pub(super) fn round_trips(&self) -> Result<bool, BenchError> {
        let most = self.by_turns(0, |arm| Ok(self.through(arm, &["--stream=64:max", "-d2s"])?.1))?;
        let background = (SHARE * most[0].min(most[1])).floor();
        let with = format!("--background=64B:{background:.0}");
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for round in 0..self.plan.rounds {
            let seconds = format!("-d{}s", self.plan.duration.as_secs());
            let words = ["--probe=76B", &seconds];
            alone.push(self.by_turns(round, |arm| Ok(self.through(arm, &words)?.0))?);
            let words = ["--probe=76B", &with, &seconds];
            beside.push(self.by_turns(round, |arm| Ok(self.through(arm, &words)?.0))?);
        }
        let name = format!(
            "median round trip, ns, with {background:.0}/s ({:.0} % of the slower's highest return)",
            100.0 * SHARE
        );
        let asked = format!("at most {TRIP_BOUND}");
        let figures = [
            (Compared::new("median round trip, ns", alone, |ratio| ratio <= TRIP_BOUND), asked.clone()),
            (Compared::new(&name, beside, |ratio| ratio <= TRIP_BOUND), asked),
        ];
        self.show_all(&figures)
    }

    /// Frames through either forwarder between two veth pairs by AF_XDP.
    pub(super) fn over_xdp(&self) -> Result<bool, BenchError> {
        let wires = Wires::apart()?;
        let mut rounds = Vec::new();
        for round in 0..self.plan.rounds {
            rounds.push(self.by_turns(round, |arm| self.xdp(arm, &wires))?);
        }
        let figure = Compared::new("frames/s returned over AF_XDP (veth, io)", rounds, |ratio| ratio >= 1.0);
        self.show_all(&[(figure, "at least 1".to_owned())])
    }

    fn show_all(&self, figures: &[(Compared, String)]) -> Result<bool, BenchError> {
        if self.plan.json {
            let all: Vec<&Compared> = figures.iter().map(|(figure, _)| figure).collect();
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            figures.iter().for_each(|(figure, asked)| figure.show(asked));
        }
        Ok(figures.iter().all(|(figure, _)| figure.kept))
    }

    /// Both arms; who comes first alternates.
    fn by_turns<T: Copy>(
        &self,
        round: u32,
        measure: impl Fn(usize) -> Result<T, BenchError>,
    ) -> Result<[T; 2], BenchError> {
        self.interrupt.check()?;
        tell_of_cores();
        if round.is_multiple_of(2) {
            return Ok([measure(0)?, measure(1)?]);
        }
        let theirs = measure(1)?;
        Ok([measure(0)?, theirs])
    }

    fn socket(&self) -> std::path::PathBuf {
        let socket = self.folder.join("packet.sock");
        let _ = std::fs::remove_file(&socket);
        socket
    }

    fn mirror(&self, socket: &Path) -> Result<Running, BenchError> {
        let of = Testpmd { role: "server", mode: "macswap", socket, core: self.cores.0, further: &[] };
        let mut mirror = of.start(self.folder, self.pages)?;
        mirror.wait_until("open its socket", PATIENCE, self.interrupt, || socket.exists())?;
        Ok(mirror)
    }

    fn our_sender(&self) -> Result<(f64, f64), BenchError> {
        let socket = self.socket();
        let _mirror = self.mirror(&socket)?;
        let said =
            self.load(&socket, &["--stream=64:max,flows=1024", &format!("-d{}s", self.plan.duration.as_secs())])?;
        Ok((number(&said, "/result/lanes/0/rate")?, per_second(&said)?))
    }

    fn flowgen(&self) -> Result<(f64, f64), BenchError> {
        let socket = self.socket();
        let _mirror = self.mirror(&socket)?;
        let of = Testpmd { role: "client", mode: "flowgen", socket: &socket, core: self.cores.1, further: &[] };
        let mut generator = of.start(self.folder, self.pages)?;
        self.interrupt.sleep(self.plan.duration + Duration::from_secs(2))?;
        let mut both = rates(&generator.output());
        let mut late = Duration::ZERO;
        while both.len() < 2 && late < PATIENCE {
            generator.still_runs()?;
            self.interrupt.sleep(Duration::from_secs(1))?;
            late += Duration::from_secs(1);
            both = rates(&generator.output());
        }
        let came = received(&generator.output());
        generator.end();
        let median = |rates: &[f64]| rates.get(1..).filter(|it| !it.is_empty()).map(|it| spread(it.to_vec())[1]);
        let (both, came) = median(&both).zip(median(&came)).ok_or("testpmd told no rates")?;
        Ok((both - came, came))
    }

    /// Median round trip of probes, and frames returned per second of the
    /// whole, through a forwarder in mode io.
    fn through(&self, arm: usize, words: &[&str]) -> Result<(f64, f64), BenchError> {
        let socket = self.socket();
        let mut forwarder = self.forwarder("io", arm, &socket)?;
        forwarder.wait_until("open its socket", PATIENCE, self.interrupt, || socket.exists())?;
        let said = self.load(&socket, words)?;
        Ok((number(&said, "/summary/0/p50_ns").unwrap_or(0.0), per_second(&said)?))
    }

    /// Our tester over one memif.
    fn load(&self, socket: &Path, words: &[&str]) -> Result<Value, BenchError> {
        self.tester(None, &[format!("--link=memif:{},role=client", socket.display())], words)
    }

    fn tester(&self, netns: Option<&str>, links: &[String], words: &[&str]) -> Result<Value, BenchError> {
        let mut running = self.start(netns, links, words)?;
        let said = running.finish(self.plan.duration + PATIENCE + PATIENCE, self.interrupt)?;
        Ok(serde_json::from_str(&said)?)
    }

    pub(super) fn start(&self, netns: Option<&str>, links: &[String], words: &[&str]) -> Result<Running, BenchError> {
        let program = self.plan.nearside.display().to_string();
        let mut all: Vec<String> =
            [program.as_str(), "packet", "load", "--json", "--link-limit=60s"].map(str::to_owned).into();
        all.extend(links.iter().cloned());
        all.extend(["--core".to_owned(), self.cores.1.to_string()]);
        all.extend(words.iter().map(|word| (*word).to_owned()));
        Ok(Program { name: "nearside tester", netns, core: None, words: all }.start(self.folder)?)
    }

    fn xdp(&self, arm: usize, wires: &Wires) -> Result<f64, BenchError> {
        let [near, far] = &wires.inner;
        let core = self.cores.0;
        let words: Vec<String> = if arm == 0 {
            let program = self.plan.nearside.display().to_string();
            [program.as_str(), "packet", "forward", "--json", "--cores", &core.to_string()]
                .map(str::to_owned)
                .into_iter()
                .chain([near, far].map(|name| format!("--link=af_xdp:{name}")))
                .collect()
        } else {
            let program = find_program("dpdk-testpmd").ok_or("dpdk-testpmd is gone")?;
            let eal = ["--no-pci", "--no-telemetry", "-m=256"].map(str::to_owned);
            let ports =
                [near, far].into_iter().enumerate().map(|(n, name)| format!("--vdev=net_af_xdp{n},iface={name}"));
            let ours = [format!("--huge-dir={}", self.pages.mount().display()), format!("--lcores=(0,1)@{core}")];
            let rest = ["--file-prefix=nearside-xdp", "--", "--forward-mode=io", "--auto-start", "--stats-period=1"];
            core::iter::once(program).chain(eal).chain(ours).chain(ports).chain(rest.map(str::to_owned)).collect()
        };
        let name = format!("{} xdp", ARMS[arm]);
        let mut forwarder =
            Program { name: &name, netns: Some(wires.inside()), core: None, words }.start(self.folder)?;
        self.interrupt.sleep(Duration::from_secs(3))?;
        forwarder.still_runs()?;
        let links = wires.outer.clone().map(|name| format!("--link=af_xdp:{name}"));
        let seconds = format!("-d{}s", self.plan.duration.as_secs());
        let said = self.tester(wires.outside(), &links, &["--stream=64:max,way=ab", &seconds])?;
        forwarder.still_runs()?;
        forwarder.end();
        per_second(&said)
    }
}

fn number(said: &Value, path: &str) -> Result<f64, BenchError> {
    said.pointer(path).and_then(Value::as_f64).ok_or_else(|| format!("nearside told no {path}: {said}").into())
}

/// Frames of all streams that came in a second.
pub(super) fn per_second(said: &Value) -> Result<f64, BenchError> {
    let lanes = said.pointer("/result/lanes").and_then(Value::as_array).ok_or("nearside told no lanes")?;
    let came: f64 = lanes.iter().filter_map(|lane| lane.pointer("/arrivals/unique")?.as_f64()).sum();
    let damaged: f64 = lanes.iter().filter_map(|lane| lane.get("damaged")?.as_f64()).sum();
    if damaged > 0.0 {
        return Err(format!("{damaged} frames came damaged").into());
    }
    Ok(came / number(said, "/result/seconds")?)
}

/// Seconds of a core that the hypervisor took (proc(5), stat).
fn steal(core: u16) -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{core} ");
    let line = text.lines().find(|line| line.starts_with(&name));
    let ticks = line.and_then(|line| line.split_ascii_whitespace().nth(8)?.parse::<f64>().ok());
    ticks.unwrap_or(0.0) / 100.0
}
