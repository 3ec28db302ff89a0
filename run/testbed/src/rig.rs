//! The links of a tester, its clock, its thread, and trials over them.

use crate::AskedClock;
use crate::clocks::{self, Clocks};
use crate::ends::{self, OverLinks};
use crate::published::{ThreadCycles, publish, tell};
use crate::{Pace, place};
use cpu::{Clock, TickSource, Ticks};
use host::drivers::LinkSpec;
use link::{Link, LinkState, Pair, PairConfig};
use packet::stream::Shape;
use packet::tester::{Pacing, Plan, Recorders, Stream, Tester, TrialStage};
use packet::trial::{LatencyDistribution, Stamped, TrialResult};
use page::Writer;
use say::Failure;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use wire::Time;

/// How long the clock is measured: the rate is then known to some parts in a
/// million.
pub const CALIBRATION: Duration = Duration::from_millis(200);

/// How long the tester is looped on itself, and at which rate.
const FLOOR: Duration = Duration::from_millis(200);
const FLOOR_RATE: u64 = 100_000_000;

/// Turns between two looks at what is beside the packets.
const TURNS: u32 = 32;

/// How often links are looked after, and counts handed over.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Trials begin this long after they are made.
const LEAD: Duration = Duration::from_millis(1);

/// For so long it is tried whether frames are stamped at all: longer where fewer
/// frames than these are due in it, of which the first may not be.
const PROOF: Duration = Duration::from_millis(300);
const PROOF_LIMIT: Duration = Duration::from_secs(3);
const PROOF_FRAMES: u64 = 5;
const PROOF_DRAIN: Duration = Duration::from_millis(50);

/// Of so many trials frames are known as this program's when they come later.
const TRIALS_REMEMBERED: usize = 64;

/// How often clocks of stamps are read.
const READ_EVERY: Duration = Duration::from_millis(100);

/// How often it is looked for a signal, and for news of a trial.
const LOOK: Duration = Duration::from_millis(20);

/// Between two looks for the links' other side.
const NAP: Duration = Duration::from_millis(2);

/// A clock, and what the tester itself makes of it.
#[derive(Clone)]
pub struct Clocked {
    /// The clock.
    pub ticks: Ticks,
    /// The smallest step, and what a reading takes, in nanoseconds.
    resolution: (f64, f64),
    /// What the tester measures where nothing is between sending and
    /// receiving.
    floor: LatencyDistribution,
    /// Stamps that a probe's latency is by, in its place.
    stamps: Option<Arc<Clocks>>,
    /// Why it is not by better ones.
    refused: Vec<String>,
}

impl Clocked {
    /// Measures the tester's clock, and takes in its place for probes what was
    /// asked for: links then stamp, and probes become frames that are stamped.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn choose(asked: AskedClock, links: &mut [LinkSpec], timed: clocks::Timed<'_>) -> Result<Self, Failure> {
        let mut clock = Self::measure(CALIBRATION);
        let choice = clocks::choose(asked, links, timed, clock.ticks)?;
        clock.stamps = choice.clocks.map(Arc::new);
        // Of a kind without stamps there is nothing to tell.
        if links.iter().any(|link| link.driver.kind().stamps) {
            clock.refused = choice.refused;
        }
        Ok(clock)
    }

    /// Whether a NIC times probes.
    pub fn is_hardware(&self) -> bool {
        self.stamps.as_ref().is_some_and(|stamps| stamps.is_hardware())
    }

    /// Whether stamps time what they were to, and were not given up.
    pub fn is_stamped(&self) -> bool {
        self.stamps.as_ref().is_some_and(|stamps| stamps.by().is_some())
    }

    /// Measures the clock against the kernel's, and the tester's own error:
    /// looped on itself, in memory.
    pub fn measure(span: Duration) -> Self {
        let ticks = Ticks::calibrate(span);
        let (mut near, far) = Pair::new(PairConfig::default());
        let stream = Stream {
            name: "floor".to_owned(),
            shape: Shape::default(),
            pacing: Pacing::Rate { milli: FLOOR_RATE, burst: 1 },
            ways: [true, false],
        };
        let plan = Plan { streams: vec![stream], duration: FLOOR, drain: LEAD, ..Plan::default() };
        let mut tester = Tester::new(plan, 2, ticks.hz(), ticks.now());
        let mut links = [far, {
            near.poll_control(Clock.now());
            near
        }];
        while tester.stage(ticks.now()) != TrialStage::Over {
            tester.turn(&mut links, &mut || ticks.now(), Clock.now());
        }
        let mut result = tester.result(ticks.now());
        let floor = result.lanes.pop().map(|lane| lane.latency).unwrap_or_default();
        Self { ticks, resolution: ticks.resolution(), floor, stamps: None, refused: Vec::new() }
    }

    const fn source(&self) -> &'static str {
        match self.ticks.source() {
            TickSource::Tsc => "the processor's time-stamp counter, software",
            TickSource::Kernel => "the kernel's monotonic clock, software",
        }
    }

    /// A line for people, or several.
    pub fn told(&self) -> String {
        let mut told = String::new();
        if let Some(stamps) = &self.stamps {
            told += &format!("clock: {}\n", stamps.told());
        }
        for why in &self.refused {
            told += &format!("not by --clock {why}\n");
        }
        told + &self.counter_told()
    }

    fn counter_told(&self) -> String {
        format!(
            "clock: {}, {:.3} MHz within {:.1} ppm, steps of {:.0} ns, {:.0} ns to read; looped on itself the tester \
             sees p50 {:.0} p99 {:.0} max {:.0} ns: its own error",
            self.source(),
            self.ticks.hz() as f64 / 1e6,
            self.ticks.error() * 1e6,
            self.resolution.0,
            self.resolution.1,
            self.floor.quantile(0.5) as f64,
            self.floor.quantile(0.99) as f64,
            self.floor.max_ns as f64
        )
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "told": self.told(),
            "source": self.source(),
            "hardware": self.is_hardware(),
            "stamps": self.stamps.as_ref().map(|stamps| stamps.to_json()),
            "refused": self.refused,
            "hz": self.ticks.hz(),
            "rate_error": self.ticks.error(),
            "resolution_ns": self.resolution.0,
            "reading_ns": self.resolution.1,
            "floor": {
                "samples": self.floor.samples, "min_ns": self.floor.min_ns, "mean_ns": self.floor.mean_ns,
                "p50_ns": self.floor.quantile(0.5), "p99_ns": self.floor.quantile(0.99), "max_ns": self.floor.max_ns,
            },
        })
    }
}

/// What passes between the thread that polls and the one that watches it.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    left: Mutex<Left>,
}

#[derive(Default)]
struct Left {
    recorders: Vec<Recorders>,
    counts: Option<TrialResult>,
}

impl Watch {
    /// Ends the trial.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes what was left, if anything is new, and adds it to `totals`.
    pub fn take(&self, totals: &mut Vec<Recorders>) -> Option<TrialResult> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = left.counts.take()?;
        totals.resize_with(left.recorders.len(), Recorders::default);
        totals.iter_mut().zip(&mut left.recorders).for_each(|(total, new)| total.take(new));
        Some(counts)
    }

    /// Leaves what was recorded since the last time, by a swap; not if nobody
    /// has taken that yet, or takes it now: who polls does not wait.
    fn leave(&self, tester: &mut Tester, now: u64) {
        let Ok(mut left) = self.left.try_lock() else { return };
        if left.counts.is_none() {
            if left.recorders.len() != tester.lanes() {
                left.recorders.resize_with(tester.lanes(), Recorders::default);
            }
            tester.exchange(&mut left.recorders);
            left.counts = Some(tester.counts(now, false));
        }
    }

    /// Leaves the last of it, and waits for the lock.
    fn leave_last(&self, tester: &mut Tester, now: u64) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.recorders.resize_with(tester.lanes(), Recorders::default);
        let mut last: Vec<Recorders> = (0..tester.lanes()).map(|_| Recorders::default()).collect();
        tester.exchange(&mut last);
        left.recorders.iter_mut().zip(&mut last).for_each(|(left, last)| left.take(last));
        left.counts = Some(tester.counts(now, true));
    }
}

/// Open links.
pub struct Rig<L> {
    links: Vec<L>,
    ticks: Ticks,
    writer: Option<Writer>,
    stamps: Option<Arc<Clocks>>,
    /// Frames are stamped, or that was given up.
    proved: bool,
    /// The signatures of the last trials.
    earlier: VecDeque<u32>,
}

impl<L: Link> Rig<L> {
    /// A tester over these.
    pub const fn new(links: Vec<L>, ticks: Ticks) -> Self {
        Self { links, ticks, writer: None, stamps: None, proved: false, earlier: VecDeque::new() }
    }

    /// Latency of probes is by stamps of these clocks.
    pub fn stamp_by(&mut self, stamps: Option<Arc<Clocks>>) {
        self.stamps = stamps;
    }

    /// What the links count is told as well.
    pub fn publish(&mut self, writer: Option<Writer>) {
        self.writer = writer;
    }

    fn tell(&mut self, now: Time) {
        if let Some(writer) = &mut self.writer {
            tell(writer, now, &self.links, (0, 0), ThreadCycles::default());
        }
    }

    /// How many links there are.
    pub const fn ports(&self) -> usize {
        self.links.len()
    }

    /// Waits until every link has its other side.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn wait_for_links(&mut self, limit: Duration, watch: &Watch) -> Result<(), String> {
        let began = Clock.now();
        loop {
            let now = Clock.now();
            // All of them, each time: their control channels live on it.
            let states: Vec<LinkState> = self.links.iter_mut().map(|link| link.poll_control(now)).collect();
            if states.iter().all(|state| *state == LinkState::Up) {
                return Ok(());
            }
            if now.since(began) >= limit || watch.is_stopped() {
                let down = states.iter().filter(|state| **state != LinkState::Up).count();
                return Err(format!(
                    "nobody came to the other side of {down} of {} links (--link-limit)",
                    states.len()
                ));
            }
            thread::sleep(NAP);
        }
    }

    /// Runs a trial to its end.
    ///
    /// # Errors
    /// If a link has not its other side at the end.
    pub fn trial(&mut self, mut plan: Plan, watch: &Watch) -> Result<TrialResult, String> {
        let ticks = self.ticks;
        let mtus: Vec<u16> = self.links.iter().map(|link| link.capabilities().mtu).collect();
        plan.check_links(&mtus)?;
        self.prove(&plan, watch)?;
        plan.earlier = self.earlier.iter().copied().collect();
        self.remember(plan.signature);
        plan.stamped_by = self.stamps.as_ref().and_then(|stamps| stamps.by());
        let span = |time: Duration| (time.as_nanos() * u128::from(ticks.hz()) / 1_000_000_000) as u64;
        let (look_every, tell_every) = (span(LOOK_EVERY), span(TELL_EVERY));
        let start = ticks.now() + span(LEAD);
        let mut tester = Tester::new(plan, self.links.len(), ticks.hz(), start);
        let (mut look_at, mut tell_at) = (start, start + tell_every);
        let mut time = Clock.now();
        let mut down = 0;
        let mut clock = || ticks.now();
        self.set_apart(&mut tester);
        loop {
            for _ in 0..TURNS {
                tester.turn(&mut self.links, &mut clock, time);
            }
            let now = ticks.now();
            if now >= look_at {
                look_at = now + look_every;
                time = Clock.now();
                down =
                    self.links.iter_mut().map(|link| link.poll_control(time)).filter(|s| *s == LinkState::Down).count();
                if watch.is_stopped() {
                    tester.stop(now);
                }
            }
            if now >= tell_at {
                tell_at = now + tell_every;
                watch.leave(&mut tester, now);
                self.set_apart(&mut tester);
                self.tell(time);
            }
            if tester.stage(now) == TrialStage::Over {
                let counts = tester.counts(now, true);
                self.tell(Clock.now());
                watch.leave_last(&mut tester, now);
                let (ports, complete) = (self.links.len(), counts.complete && down == 0);
                if down == ports && counts.lanes.iter().all(|lane| lane.received == 0) {
                    return Err("the links' other side went away before anything came".to_owned());
                }
                let used = self.stamps.as_ref().filter(|_| counts.stamps().next().is_some());
                let clock_doubt = used.and_then(|stamps| stamps.doubt());
                return Ok(TrialResult { complete, clock_doubt, ..counts });
            }
        }
    }

    fn set_apart(&self, tester: &mut Tester) {
        if let Some(apart) = self.stamps.as_ref().and_then(|stamps| stamps.apart()) {
            tester.set_apart(apart);
        }
    }

    /// Its frames may come while a later trial runs.
    fn remember(&mut self, signature: u32) {
        self.earlier.truncate(TRIALS_REMEMBERED - 1);
        self.earlier.push_front(signature);
    }

    /// Tries, once, whether frames like a plan's probes, or like those that it tags,
    /// are stamped as they leave and come. What never comes shows nothing: of that
    /// the trial tells.
    fn prove(&mut self, plan: &Plan, watch: &Watch) -> Result<(), String> {
        let Some(stamps) = self.stamps.clone().filter(|_| !self.proved) else { return Ok(()) };
        let like = |stream: &Stream| match stream.pacing {
            Pacing::Probe(_) => Some(stream.clone()),
            _ if plan.tag_after.is_some() => Some(Stream { pacing: Pacing::Probe(None), ..stream.clone() }),
            _ => None,
        };
        let streams: Vec<Stream> = plan.streams.iter().filter_map(like).collect();
        if streams.is_empty() {
            return Ok(());
        }
        self.proved = true;
        let duration = proof_of(&streams);
        let mut unfit = None;
        // The kernel begins to stamp what comes by a work queue (netstamp_work of net/core/dev.c), which a busy machine
        // comes to late: where no frame had its stamps yet, others are sent, for as long as slow probes are tried once.
        let proofs = (PROOF_LIMIT.as_millis() / duration.as_millis()) as u32;
        for again in 0..proofs {
            let (signature, stamped_by) = ((!plan.signature).wrapping_add(again), stamps.by());
            let proof = Plan {
                streams: streams.clone(),
                duration,
                drain: PROOF_DRAIN,
                signature,
                stamped_by,
                ..Plan::default()
            };
            let result = self.tried(proof, watch);
            unfit = result.stamps().find_map(Stamped::unfit);
            if unfit.is_none() || watch.is_stopped() || !result.stamps().any(Stamped::is_never) {
                break;
            }
        }
        match unfit {
            None => Ok(()),
            Some(why) => stamps.refuse(why),
        }
    }

    /// What comes of a plan that nobody hears of.
    fn tried(&mut self, plan: Plan, watch: &Watch) -> TrialResult {
        let (ticks, signature) = (self.ticks, plan.signature);
        self.remember(signature);
        let mut tester = Tester::new(plan, self.links.len(), ticks.hz(), ticks.now());
        self.set_apart(&mut tester);
        while tester.stage(ticks.now()) != TrialStage::Over && !watch.is_stopped() {
            for _ in 0..TURNS {
                tester.turn(&mut self.links, &mut || ticks.now(), Clock.now());
            }
            self.links.iter_mut().for_each(|link| {
                link.poll_control(Clock.now());
            });
        }
        tester.result(ticks.now())
    }
}

/// How long it is tried whether these probes are stamped.
fn proof_of(probes: &[Stream]) -> Duration {
    let span = |stream: &Stream| match stream.pacing {
        Pacing::Probe(Some(milli)) => Duration::from_millis(PROOF_FRAMES * 1_000_000 / milli.max(1)),
        _ => PROOF,
    };
    probes.iter().map(span).max().unwrap_or(PROOF).clamp(PROOF, PROOF_LIMIT)
}

/// What a tester has, whatever it measures.
pub struct Bench<'a> {
    /// One link, or two.
    pub links: &'a [LinkSpec],
    /// Where its thread runs.
    pub pace: &'a Pace,
    /// How long the links' other side is waited for.
    pub link_limit: Duration,
    /// Its clock.
    pub clock: &'a Clocked,
    /// How often it was told to end.
    pub signals: &'a AtomicUsize,
}

/// What is measured on a tester's thread, over links of whatever kind.
pub trait Trials: Send {
    /// What comes of it.
    type Found: Send;

    /// Measures.
    ///
    /// # Errors
    /// A sentence for the user.
    fn run<L: Link>(self, rig: &mut Rig<L>, watch: &Watch) -> Result<Self::Found, String>;
}

/// Trials, and who looks at them meanwhile.
struct Watched<'a, T> {
    bench: &'a Bench<'a>,
    trials: T,
    look: &'a mut dyn FnMut(&Watch),
}

impl<T: Trials> OverLinks for Watched<'_, T> {
    type Outcome = (T::Found, bool);

    fn run<L: Link + Send>(self, mut links: Vec<Vec<L>>) -> Result<Self::Outcome, Failure> {
        self.bench.watched(links.pop().unwrap_or_default(), self.trials, self.look)
    }
}

impl Bench<'_> {
    /// Opens the links and measures on a thread of its own, which has them
    /// all; `look` is called here again and again meanwhile, and once at the
    /// end. What was found, and whether it was told to end.
    ///
    /// # Errors
    /// What the user is to know.
    pub fn measure<T: Trials>(&self, trials: T, look: &mut dyn FnMut(&Watch)) -> Result<(T::Found, bool), Failure> {
        place::consider(self.pace)?;
        ends::over(self.links, 1, Watched { bench: self, trials, look })
    }

    fn watched<L: Link + Send, T: Trials>(
        &self,
        links: Vec<L>,
        trials: T,
        look: &mut dyn FnMut(&Watch),
    ) -> Result<(T::Found, bool), Failure> {
        let watch = Watch::default();
        // It goes with the measurement.
        let (_page, writers) = publish("packet tester", 1, false).unzip();
        let writer = writers.and_then(|mut writers| writers.pop());
        let found = thread::scope(|scope| {
            let polling = thread::Builder::new().name("near-tester".into()).spawn_scoped(scope, || {
                place::settle(self.pace, 0)?;
                let mut rig = Rig::new(links, self.clock.ticks);
                rig.stamp_by(self.clock.stamps.clone());
                rig.publish(writer);
                rig.wait_for_links(self.link_limit, &watch)?;
                trials.run(&mut rig, &watch)
            })?;
            let mut read_at = Clock.now();
            while !polling.is_finished() {
                thread::sleep(LOOK);
                if let Some(stamps) = &self.clock.stamps
                    && Clock.now().since(read_at) >= READ_EVERY
                {
                    read_at = Clock.now();
                    stamps.read(self.clock.ticks);
                }
                if self.signals.load(Ordering::Relaxed) > 0 {
                    watch.stop();
                }
                look(&watch);
            }
            let found = polling.join().map_err(|_| "the testing thread panicked")?;
            look(&watch);
            found.map_err(Failure::from)
        })?;
        Ok((found, watch.is_stopped()))
    }
}

#[cfg(test)]
mod tests;
