//! A packet storm on one silo's queue, and what the other silo's clients see
//! of it: a server of two silos over a memif with a queue for each. On core 0
//! are silo 0 and a sender that keeps its queue full; on core 1 are silo 1 and
//! a generator that asks on its queue, in a closed loop that leaves no time of
//! that core unused: whatever silo 1 spends on the storm is missing there.
//!
//! Beside the calm before and after the storm there is a third weather, in
//! which something on core 0 only computes: what the machine itself passes
//! from one core to the other is not the stack's.
//!
//! | module | for |
//! | --- | --- |
//! | `frames` | what a storm is made of |
//! | `neighbour` | the sender |
//! | `asker` | the generator |

mod asker;
mod frames;
mod neighbour;

pub use frames::FrameKind;

use crate::BenchError;
use crate::kernel::{spread, word};
use crate::page::Page;
use core::net::Ipv4Addr;
use cpu::Clock;
use demo::child::{Interrupt, Program, Running};
use demo::machine::allowed_cores;
use demo::measure::{SMALL_BODY, thousands};
use demo::scratch::Scratch;
use load::Figures;
use memif::{Memif, Role};
use neighbour::{Neighbour, Weather};
use serde::Serialize;
use stats::{Centre, Design, Effect, effect, median};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use wire::Mac;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each weather is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// Connections to silo 1, each with a request under way.
    pub connections: u32,
    /// What the storm is made of.
    pub kinds: Vec<FrameKind>,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const SERVER_MAC: Mac = Mac([0x02, 0x4e, 10, 78, 0, 2]);
/// Also the gateway to where the storm says that it comes from.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const CLIENT_MAC: Mac = Mac([0x02, 0x4e, 10, 78, 0, 1]);
const PORT: u16 = 80;

/// Load before each measurement that is not counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// How much longer than asked for a measurement may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often is looked for what is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Seed of what is random here.
const THIS_SEED: u64 = 1;

/// Longer p99 under a storm up to this share is no change, however quiet the
/// machine.
pub const MARGIN: f64 = 0.05;

/// Frames that silo 0 may pass to silo 1 in a second, whatever arrives: 4,000
/// to be seen by all (`steer`), and what comes at once. Strays are passed on
/// only after a failover.
pub const PASSED_BOUND: f64 = 4_500.0;

/// Fewer frames in a second on silo 0's queue are no storm.
const STORM: f64 = 200_000.0;

/// The weathers of a round. Calm comes twice: how far the two are apart is the
/// machine's noise.
const ARMS: [(&str, Weather); 4] =
    [("calm", Weather::Calm), ("calm again", Weather::Calm), ("core 0 busy", Weather::Busy), ("storm", Weather::Storm)];

/// What one measurement gave; latencies in microseconds, rates per second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sample {
    requests: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    /// Frames that silo 0 received.
    hit: f64,
    /// Times that its queue was full.
    full: f64,
    /// Handshakes that silo 0 answered by cookie, and resets that it sent.
    cookies: f64,
    resets: f64,
    /// Frames from silo 0 that silo 1 was given.
    passed: f64,
    /// Those that silo 0 held back, because there were too many.
    held_back: f64,
}

/// Measures by turns and prints. Returns whether the storm was not felt.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let [first, second, ..] = allowed_cores()[..] else { return Err("two cores are needed".into()) };
    let scratch = Scratch::make()?;
    let stand = Stand { plan, cores: (first, second), folder: scratch.path(), interrupt: &interrupt };
    let samples = stand.measure()?;
    let verdict = Verdict::of(&samples);
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&Told { samples: &samples, verdict: &verdict })?);
    } else {
        print_table(plan, &samples);
        verdict.print();
    }
    Ok(verdict.kept())
}

/// What is printed as JSON: each arm's samples in the order of [`ARMS`].
#[derive(Serialize)]
struct Told<'a> {
    samples: &'a [Vec<Sample>],
    verdict: &'a Verdict,
}

struct Stand<'a> {
    plan: &'a Plan,
    cores: (u16, u16),
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

/// Where orders go to the generator, and what it found comes from.
struct Asker {
    orders: Sender<Duration>,
    found: Receiver<Figures>,
}

impl Stand<'_> {
    fn measure(&self) -> Result<Vec<Vec<Sample>>, BenchError> {
        let socket = self.folder.join("memif.sock");
        let (mut server, page) = self.serve(&socket)?;
        let config = memif::Config::parse(&format!("memif:{},queues=2", socket.display()), Role::Client)?;
        let [to_first, to_second] =
            <[_; 2]>::try_from(Memif::open(config)?.split_queues()).map_err(|_| "two queues")?;
        let neighbour = Neighbour::default();
        let (orders, taken) = channel();
        let (told, found) = channel();
        let asker = Asker { orders, found };
        thread::scope(|scope| {
            let sender = scope.spawn(|| neighbour.run(self.plan, self.cores.0, to_first));
            let (connections, core) = (self.plan.connections, self.cores.1);
            let asks = scope
                .spawn(move || asker::run(core, connections, to_second, &taken, &told).map_err(|why| why.to_string()));
            let outcome = self.rounds(&neighbour, &asker, &page, &mut server);
            // Both end, whatever came of it.
            neighbour.set(Weather::End);
            drop(asker);
            let ended = [sender.join(), asks.join()];
            for end in ended {
                end.map_err(|_| "a thread panicked")??;
            }
            outcome
        })
    }

    fn serve(&self, socket: &Path) -> Result<(Running, Page), BenchError> {
        let path = self.folder.join("serve.page");
        let words = [
            self.plan.nearside.display().to_string(),
            "serve".to_owned(),
            "--user=root".to_owned(),
            format!("--respond=text:{SMALL_BODY}"),
            format!("--link=memif:{}", socket.display()),
            format!("--addr={SERVER}/16"),
            format!("--gateway={CLIENT}"),
            format!("--mac={SERVER_MAC}"),
            format!("--silos={},{}", self.cores.0, self.cores.1),
            // Who shares a core leaves it where there is nothing to do.
            "--idle=adaptive".to_owned(),
            format!("--status-page={}", path.display()),
        ];
        let program = Program { name: "nearside serve", netns: None, core: None, words: words.into() };
        let mut running = program.start(self.folder)?;
        running.wait_until("serve", PATIENCE, self.interrupt, || path.exists() && socket.exists())?;
        Ok((running, Page::open(&path)?))
    }

    fn rounds(
        &self,
        neighbour: &Neighbour,
        asker: &Asker,
        page: &Page,
        server: &mut Running,
    ) -> Result<Vec<Vec<Sample>>, BenchError> {
        let end = Clock.now() + PATIENCE;
        while !neighbour.is_up() {
            if Clock.now() > end {
                return Err("the link to the server does not come up".into());
            }
            self.interrupt.sleep(LOOK)?;
        }
        let mut samples: Vec<Vec<Sample>> = ARMS.iter().map(|_| Vec::new()).collect();
        for round in 0..self.plan.rounds as usize {
            for turn in 0..ARMS.len() {
                let arm = (round + turn) % ARMS.len();
                let (name, weather) = ARMS[arm];
                let sample = self.sample(neighbour, asker, page, weather)?;
                server.still_runs()?;
                eprintln!(
                    "round {}/{}, {name}: p99 {:.1} us, {} requests/s, silo 0 {} frames/s",
                    round + 1,
                    self.plan.rounds,
                    sample.p99,
                    thousands(sample.requests),
                    thousands(sample.hit)
                );
                samples[arm].push(sample);
            }
        }
        Ok(samples)
    }

    fn sample(
        &self,
        neighbour: &Neighbour,
        asker: &Asker,
        page: &Page,
        weather: Weather,
    ) -> Result<Sample, BenchError> {
        neighbour.set(weather);
        let before = (Clock.now(), page.read()?, neighbour.counts());
        asker.orders.send(self.plan.duration).map_err(|_| "the generator has ended")?;
        let figures = self.wait(&asker.found)?;
        let (now, after, counts) = (Clock.now(), page.read()?, neighbour.counts());
        neighbour.set(Weather::Calm);
        let errors = figures.counts.errors.total();
        if errors > 0 || figures.latency.is_empty() {
            return Err(format!("{errors} requests failed, {} were answered", figures.latency.len()).into());
        }
        let seconds = now.since(before.0).as_secs_f64();
        let grown = |silo: usize, names: &[&str]| -> Result<f64, BenchError> {
            let mut sum = 0;
            for name in names {
                sum += after.of(silo, name)?.saturating_sub(before.1.of(silo, name)?);
            }
            Ok(sum as f64 / seconds)
        };
        let micros = |quantile: f64| figures.latency.quantile(quantile) as f64 / 1e3;
        let own = grown(1, &["link.rx_frames"])?;
        let requests = figures.latency.len() as f64 / figures.window.as_secs_f64();
        if own < requests / 2.0 {
            return Err("the requests do not arrive at silo 1's queue".into());
        }
        Ok(Sample {
            requests,
            p50: micros(0.5),
            p99: micros(0.99),
            p999: micros(0.999),
            hit: grown(0, &["link.rx_frames"])?,
            full: (counts.1 - before.2.1) as f64 / seconds,
            cookies: grown(0, &["stack.cookies_sent"])?,
            resets: grown(0, &["stack.resets_out"])?,
            passed: grown(1, &["steer.forwarded_in", "steer.messages_in", "steer.strays_in"])?,
            held_back: grown(0, &["steer.messages_limited", "steer.ring_full"])?,
        })
    }

    fn wait(&self, found: &Receiver<Figures>) -> Result<Figures, BenchError> {
        let end = Clock.now() + WARM_UP + self.plan.duration + PATIENCE;
        loop {
            match found.recv_timeout(LOOK) {
                Ok(figures) => return Ok(figures),
                Err(RecvTimeoutError::Disconnected) => return Err("the generator has ended".into()),
                Err(RecvTimeoutError::Timeout) if Clock.now() > end => return Err("the generator does not end".into()),
                Err(RecvTimeoutError::Timeout) => self.interrupt.check()?,
            }
        }
    }
}

fn print_table(plan: &Plan, samples: &[Vec<Sample>]) {
    let kinds: Vec<String> = plan.kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    println!(
        "{} connections to silo 1; the storm on silo 0's queue: {}; medians of {} rounds",
        plan.connections,
        kinds.join(", "),
        plan.rounds
    );
    println!(
        "  {:12} {:>10} {:>8} {:>8} {:>8}   silo 0: {:>10} {:>10} {:>9} {:>9}   to silo 1",
        "", "requests/s", "p50", "p99", "p99.9", "frames/s", "full/s", "cookies/s", "resets/s"
    );
    for ((name, _), samples) in ARMS.iter().zip(samples) {
        let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        println!(
            "  {name:12} {:>10} {:>5.1} us {:>5.1} us {:>5.1} us           {:>10} {:>10} {:>9} {:>9}   {:>9}",
            thousands(of(|s| s.requests)),
            of(|s| s.p50),
            of(|s| s.p99),
            of(|s| s.p999),
            thousands(of(|s| s.hit)),
            thousands(of(|s| s.full)),
            thousands(of(|s| s.cookies)),
            thousands(of(|s| s.resets)),
            thousands(of(|s| s.passed)),
        );
    }
}

/// What the samples say.
#[derive(Clone, Debug, Serialize)]
struct Verdict {
    /// p99 under the storm beside the calm's.
    beside_calm: Ratio,
    /// The same beside a core 0 that only computes.
    beside_busy: Ratio,
    /// Two calms.
    noise: Ratio,
    /// By which share p99 may be longer and be within the noise.
    allowed: f64,
    /// Frames per second that silo 0 received in the storm, and passed on.
    hit: f64,
    passed: f64,
    unfelt: bool,
    bounded: bool,
}

/// A ratio of medians, its interval of 95 %, or without enough rounds the
/// smallest and the largest.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratio {
    ratio: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn of(above: &[f64], below: &[f64]) -> Self {
        let rounds = above.iter().zip(below).map(|(above, below)| above / below);
        let (low, _, high) = spread(rounds.collect());
        match effect(above, below, Centre::Median, Design::Rounds, THIS_SEED) {
            Some(Effect { ratio, interval, .. }) => {
                let (low, high) = interval.unwrap_or((low, high));
                Self { ratio, low, high }
            }
            None => Self { ratio: f64::NAN, low, high },
        }
    }
}

impl core::fmt::Display for Ratio {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.ratio, self.low, self.high)
    }
}

impl Verdict {
    fn of(samples: &[Vec<Sample>]) -> Self {
        let of = |arm: usize, value: fn(&Sample) -> f64| samples[arm].iter().map(value).collect::<Vec<f64>>();
        let p99 = |arm| of(arm, |sample| sample.p99);
        let noise = Ratio::of(&p99(1), &p99(0));
        let (beside_calm, beside_busy) = (Ratio::of(&p99(3), &p99(0)), Ratio::of(&p99(3), &p99(2)));
        // Which of the two calms is above is chance.
        let allowed = MARGIN.max(noise.high - 1.0).max(1.0 / noise.low - 1.0);
        let (hit, passed) = (median(&of(3, |sample| sample.hit)), median(&of(3, |sample| sample.passed)));
        Self {
            unfelt: beside_calm.ratio <= 1.0 + allowed,
            bounded: passed <= PASSED_BOUND,
            beside_calm,
            beside_busy,
            noise,
            allowed,
            hit,
            passed,
        }
    }

    fn kept(&self) -> bool {
        self.unfelt && self.bounded && self.hit >= STORM
    }

    fn print(&self) {
        println!("p99 of silo 1's clients, in a storm beside calm: {}", self.beside_calm);
        println!("    beside a core 0 that only computes: {}", self.beside_busy);
        println!("    calm beside calm: {}", self.noise);
        let (hit, passed) = (thousands(self.hit), thousands(self.passed));
        println!("within the noise, which is {:.1}%: {}", 100.0 * self.allowed, word(self.unfelt));
        println!(
            "of {hit} frames/s silo 0 passed {passed} on to silo 1, at most {}: {}",
            thousands(PASSED_BOUND),
            word(self.bounded)
        );
        if self.hit < STORM {
            println!("fewer than {} frames/s arrived, which is no storm: NOT KEPT", thousands(STORM));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(p99: [f64; 4], hit: f64, passed: f64) -> Vec<Vec<Sample>> {
        let wobble = [0.98, 0.99, 1.0, 1.01, 1.02];
        let sample = |p99: f64, wobble: f64| Sample { p99: p99 * wobble, hit, passed, ..Sample::default() };
        p99.iter().map(|p99| wobble.iter().map(|wobble| sample(*p99, *wobble)).collect()).collect()
    }

    #[test]
    fn a_storm_that_is_felt_or_does_not_arrive_is_no_success() {
        assert!(Verdict::of(&samples([50.0, 50.0, 50.0, 51.0], 5e6, 4_000.0)).kept());
        assert!(!Verdict::of(&samples([50.0, 50.0, 50.0, 60.0], 5e6, 4_000.0)).kept(), "it is felt");
        assert!(!Verdict::of(&samples([50.0, 50.0, 50.0, 50.0], 5e6, 32_000.0)).kept(), "too much is passed on");
        assert!(!Verdict::of(&samples([50.0, 50.0, 50.0, 50.0], 100.0, 100.0)).kept(), "there was no storm");
        let noisy = Verdict::of(&samples([50.0, 60.0, 50.0, 55.0], 5e6, 0.0));
        assert!(noisy.kept() && noisy.allowed > 0.19, "{noisy:?}");
    }
}
