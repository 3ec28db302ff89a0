//! Busy loops on cores, beside whoever listens to what the kernel tells.

mod account;
mod ears;

use crate::report::{CoreReport, Cost, NoiseReport};
use crate::spin::{GapEnds, Order, Spun, spin};
use crate::tally::{Gap, Named};
use account::Account;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use ears::Ears;
use perf::clock::{Pair, Scale};
use perf::thread as threads;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The cores: on line, and this process may run on them; none twice.
    pub cores: Vec<u16>,
    /// For so long.
    pub time: Duration,
    /// What takes longer is a gap.
    pub threshold: Duration,
    /// Run the loops before all that share time, at this priority.
    pub fifo: Option<u8>,
    /// Do not ask for tracepoints: what somebody without rights sees.
    pub plain: bool,
    /// Have the kernel's tracer of noise tell what it finds, too.
    pub osnoise: bool,
}

/// What else a loop does at each of its steps; it is told the ticks.
pub type Each = Box<dyn FnMut(u64) + Send>;

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// A core cannot be had.
    Core(u16, io::Error),
    /// The priority cannot be had.
    Priority(io::Error),
    /// A thread cannot be had, or ended before its time.
    Thread(String),
}

impl core::fmt::Display for RunError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Core(core, why) => write!(f, "core {core} cannot be had: {why}"),
            Self::Priority(why) => write!(
                f,
                "SCHED_FIFO cannot be had: {why} (needs CAP_SYS_NICE, and a control group with real-time time: \
                 cpu.rt_runtime_us)"
            ),
            Self::Thread(why) => write!(f, "a thread cannot be had: {why}"),
        }
    }
}

impl core::error::Error for RunError {}

/// Counters are read, and rings emptied, once in this time: what counters say
/// is said of all gaps in it.
const INTERVAL: Duration = Duration::from_millis(200);

/// Room for gaps between two of these times, for each core.
const GAPS_LIMIT: usize = 1 << 16;

/// Steps of the loop alone, and the end of the run, in no interval.
const GRACE: Duration = Duration::from_secs(10);

/// A loop's thread, as whoever listens sees it.
struct Loop {
    core: u16,
    handle: thread::JoinHandle<Spun>,
    gaps: Consumer<GapEnds>,
    /// Set when its time is over.
    over: Arc<AtomicBool>,
    /// Dropped, it lets the thread go: until then the kernel can be asked of it.
    hold: Sender<()>,
}

impl Loop {
    fn leave(self) {
        drop(self.hold);
        // A failure is told already.
        let _ = self.handle.join();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.handle.is_finished()
    }
}

/// Runs the loops until their time is over or `stop` is set. `each` makes what a
/// loop does beside; `on_gap` is told of every gap.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    each: impl Fn(u16) -> Option<Each>,
    on_gap: &mut dyn FnMut(u16, &Named),
) -> Result<NoiseReport, RunError> {
    step_aside(&plan.cores);
    let first = Pair::now();
    thread::sleep(Duration::from_millis(20));
    let scale = Scale::between(first, Pair::now());
    let order = Order { threshold: scale.ticks(nanos(plan.threshold)), length: scale.ticks(nanos(plan.time)) };
    let gate = Arc::new(Gate { ready: Barrier::new(plan.cores.len() + 1), stop: stop.clone() });
    let (tell, told) = mpsc::channel();
    let mut loops = Vec::with_capacity(plan.cores.len());
    for core in &plan.cores {
        let (producer, gaps) = room();
        let over = Arc::new(AtomicBool::new(false));
        let (hold, held) = mpsc::channel();
        let seat = Seat { core: *core, fifo: plan.fifo, gaps: producer, each: each(*core), over: over.clone(), held };
        let (gate, tell) = (gate.clone(), tell.clone());
        let started =
            thread::Builder::new().name(format!("noise {core}")).spawn(move || run_loop(seat, order, &gate, &tell));
        let handle = started.map_err(|why| RunError::Thread(why.to_string()))?;
        loops.push(Loop { core: *core, handle, gaps, over, hold });
    }
    drop(tell);
    let mut births: Vec<Birth> = Vec::with_capacity(loops.len());
    for _ in &loops {
        births.push(told.recv().map_err(|_| RunError::Thread("it ended before it began".to_owned()))?);
    }
    let order_of = |core: u16| plan.cores.iter().position(|known| *known == core);
    births.sort_by_key(|birth| order_of(birth.core));
    let fate = births.iter_mut().find_map(|birth| birth.failed.take());
    if let Some(why) = fate {
        stop.store(true, Ordering::Relaxed);
        gate.ready.wait();
        loops.into_iter().for_each(Loop::leave);
        return Err(why);
    }
    let mut ears = Ears::open(births, plan.plain, plan.osnoise.then_some(&plan.cores[..]));
    let before = Account::take(&plan.cores, &ears.threads());
    gate.ready.wait();
    let began = Pair::now();
    listen(&mut ears, &mut loops, first, plan.time, on_gap);
    let after = Account::take(&plan.cores, &ears.threads());
    let mut spun = Vec::with_capacity(loops.len());
    for one in loops {
        drop(one.hold);
        spun.push(one.handle.join().map_err(|_| RunError::Thread("it panicked".to_owned()))?);
    }
    Ok(report(plan, ears, &spun, first, began, (&before, &after)))
}

/// What all loops wait for.
struct Gate {
    ready: Barrier,
    stop: Arc<AtomicBool>,
}

/// What a loop's thread tells before it begins.
pub(crate) struct Birth {
    core: u16,
    thread: u32,
    /// How late timed sleeps ended, nanoseconds, ascending.
    late: Vec<u64>,
    /// What everybody may listen to: this thread's own ring.
    own: Result<perf::Ring, String>,
    failed: Option<RunError>,
}

/// Room for gaps, every page of which is there.
fn room() -> (Producer<GapEnds>, Consumer<GapEnds>) {
    let (mut producer, mut gaps) = RingBuffer::new(GAPS_LIMIT);
    while producer.push((0, 0)).is_ok() {}
    while gaps.pop().is_ok() {}
    (producer, gaps)
}

/// What a loop's thread has.
struct Seat {
    core: u16,
    fifo: Option<u8>,
    gaps: Producer<GapEnds>,
    each: Option<Each>,
    over: Arc<AtomicBool>,
    held: Receiver<()>,
}

fn run_loop(mut seat: Seat, order: Order, gate: &Gate, tell: &Sender<Birth>) -> Spun {
    let pinned = threads::pin(&[seat.core]).map_err(|why| RunError::Core(seat.core, why));
    let ready = pinned.and_then(|()| match seat.fifo {
        Some(priority) => cpu::sched::fifo(priority).map_err(RunError::Priority),
        None => Ok(()),
    });
    let late = if ready.is_ok() { sleeps() } else { Vec::new() };
    let own = perf::Ring::of_this_thread(1 << 18);
    let _ = tell.send(Birth { core: seat.core, thread: threads::own(), late, own, failed: ready.err() });
    gate.ready.wait();
    let spun = match &mut seat.each {
        Some(each) => spin(order, &mut seat.gaps, &gate.stop, &mut **each),
        None => spin(order, &mut seat.gaps, &gate.stop, &mut |_| {}),
    };
    seat.over.store(true, Ordering::Relaxed);
    // Nothing is ever sent.
    let _ = seat.held.recv();
    spun
}

/// Timed sleeps, and how late each ended: the wake-up delay, which a loop that
/// never sleeps does not have.
fn sleeps() -> Vec<u64> {
    const SLEEP: Duration = Duration::from_millis(1);
    let mut late: Vec<u64> = (0..50)
        .map(|_| {
            let before = perf::clock::raw();
            thread::sleep(SLEEP);
            perf::clock::raw().saturating_sub(before + nanos(SLEEP))
        })
        .collect();
    late.sort_unstable();
    late
}

/// Whoever listens does so elsewhere, if there is anywhere else.
fn step_aside(cores: &[u16]) {
    let Ok(allowed) = threads::allowed() else { return };
    let others: Vec<u16> = allowed.into_iter().filter(|core| !cores.contains(core)).collect();
    if !others.is_empty() {
        // Then it shares a core with a loop, and is told of as a thread there.
        let _ = threads::pin(&others);
    }
}

/// Hears all events and names all gaps, until the loops are over.
fn listen(ears: &mut Ears, loops: &mut [Loop], first: Pair, time: Duration, on_gap: &mut dyn FnMut(u16, &Named)) {
    let latest = perf::clock::raw() + nanos(time + GRACE);
    loop {
        let over = loops.iter().all(Loop::is_over) || perf::clock::raw() > latest;
        if !over {
            thread::sleep(INTERVAL);
        }
        // Gaps that are over by now, for which all events are in the rings.
        let scale = Scale::between(first, Pair::now());
        let found: Vec<Vec<Gap>> = loops
            .iter_mut()
            .map(|one| {
                let gap = |(from, until)| Gap { from: scale.raw(from), until: scale.raw(until) };
                core::iter::from_fn(|| one.gaps.pop().ok()).map(gap).collect()
            })
            .collect();
        ears.hear();
        for (one, gaps) in loops.iter().zip(found) {
            ears.name(one.core, gaps, on_gap);
        }
        if over {
            return;
        }
    }
}

fn report(
    plan: &Plan,
    mut ears: Ears,
    spun: &[Spun],
    first: Pair,
    began: Pair,
    counts: (&Account, &Account),
) -> NoiseReport {
    let scale = Scale::between(first, Pair::now());
    let per_hit = ears.cost_of_a_hit();
    let sources = account::sights(&mut ears, counts.0, counts.1);
    let notes = ears.notes();
    let mut cores = Vec::with_capacity(spun.len());
    for (ear, spun) in ears.cores.into_iter().zip(spun) {
        let time = scale.nanos(spun.until.wrapping_sub(spun.from));
        let hits: u64 = ear.hits.values().sum();
        let cost = Cost {
            hits,
            nanos_per_hit: per_hit,
            hits_nanos: per_hit.map_or(0.0, |each| each * hits as f64),
            writing_nanos: scale.nanos(spun.own),
        };
        let step = time / (spun.steps.max(1)) as f64;
        cores.push(CoreReport::new(ear.core, time, step, began.raw, &ear.tally, cost, spun.dropped, ear.lost));
        if let Some(last) = cores.last_mut() {
            last.counts = counts.1.grown(counts.0, ear.core);
            last.stolen_ms = counts.1.stolen_ms(counts.0, ear.core);
            last.osnoise = ear.witness.map(|witness| last.beside(&witness));
        }
    }
    NoiseReport {
        threshold_nanos: nanos(plan.threshold),
        seconds: spun.iter().map(|one| scale.nanos(one.until.wrapping_sub(one.from))).fold(0.0, f64::max) / 1e9,
        listener_seconds: counts.1.own_seconds(counts.0),
        cores,
        sources: crate::sources::sources(sources),
        notes,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
