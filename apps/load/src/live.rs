//! A run watched from another thread.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wire::Time;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Not a turn yet.
    #[default]
    Waiting,
    /// Opening connections.
    Ramp,
    /// Under load, not yet measured.
    WarmUp,
    /// In the measured window.
    Measuring,
    /// Over: the figures are complete.
    Ended,
}

/// A run at a moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Progress {
    /// How far it is.
    pub stage: Stage,
    /// Time since the first turn.
    pub elapsed: Duration,
    /// Time since the window opened.
    pub measured: Duration,
    /// Responses in the window.
    pub responses: u64,
    /// Responses per second since the publication before this one.
    pub rate: u64,
    /// Failed requests and connects since the first turn.
    pub errors: u64,
    /// Connections open.
    pub open: u64,
    /// The 99th percentile of latency in the window so far, in nanoseconds.
    /// Where intervals are taken, up to the last one.
    pub p99_ns: u64,
    /// Requests in progress.
    pub in_flight: u64,
    /// In an open loop, the rate at present; zero in a closed one.
    pub target_rate: f64,
    /// In an open loop, requests that are due and not sent.
    pub backlog: u64,
}

/// Where a [`crate::Load`] publishes its [`Progress`] every half second, for
/// any thread to read without a lock. Fields may be from two successive
/// publications; for people to look at, that does no harm. And where any
/// thread sets the rate of an open loop.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    stage: AtomicU64,
    elapsed: AtomicU64,
    measured: AtomicU64,
    responses: AtomicU64,
    rate: AtomicU64,
    errors: AtomicU64,
    open: AtomicU64,
    p99: AtomicU64,
    in_flight: AtomicU64,
    target_rate: AtomicU64,
    backlog: AtomicU64,
    /// Bits of the rate that was set, plus one; zero if none was.
    wanted: AtomicU64,
    /// When a load that is held begins, in nanoseconds; zero while nobody has said.
    start: AtomicU64,
    /// Whether all is open that is to be, and the load waits for its start.
    ready: AtomicBool,
    /// When the load began, in nanoseconds; zero before.
    begun: AtomicU64,
}

/// What [`Live::wanted`] stands for.
pub(crate) fn wanted_rate(wanted: u64) -> Option<f64> {
    wanted.checked_sub(1).map(f64::from_bits)
}

const STAGES: [Stage; 5] = [Stage::Waiting, Stage::Ramp, Stage::WarmUp, Stage::Measuring, Stage::Ended];

impl Live {
    /// The run as last published.
    #[must_use]
    pub fn read(&self) -> Progress {
        let cells = &*self.0;
        let nanos = |cell: &AtomicU64| Duration::from_nanos(cell.load(Relaxed));
        Progress {
            stage: STAGES[cells.stage.load(Relaxed) as usize % STAGES.len()],
            elapsed: nanos(&cells.elapsed),
            measured: nanos(&cells.measured),
            responses: cells.responses.load(Relaxed),
            rate: cells.rate.load(Relaxed),
            errors: cells.errors.load(Relaxed),
            open: cells.open.load(Relaxed),
            p99_ns: cells.p99.load(Relaxed),
            in_flight: cells.in_flight.load(Relaxed),
            target_rate: f64::from_bits(cells.target_rate.load(Relaxed)),
            backlog: cells.backlog.load(Relaxed),
        }
    }

    /// Sets the rate of an open loop, of this silo alone, in requests per
    /// second: from the next turn on, at most 5 ms later unless the generator
    /// stands still, it holds in place of the schedule, until
    /// it is set again. Nothing is made up for, and there is no burst. Zero
    /// pauses; what is no rate (negative, not a number) changes nothing, and
    /// more than [`crate::RATE_LIMIT`] counts as that. Without effect on a
    /// closed loop.
    pub fn set_rate(&self, rate: f64) {
        if rate >= 0.0 {
            // The sign bit is clear, so that adding one cannot overflow.
            let bits = rate.min(crate::schedule::RATE_LIMIT).abs().to_bits();
            self.0.wanted.store(bits + 1, Relaxed);
        }
    }

    /// Lets a load that is held ([`crate::Plan::held`]) begin at this time, by the clock of its turns: whoever
    /// sets it wakes it, 5 ms later at most. The first time counts.
    pub fn start_at(&self, at: Time) {
        let _ = self.0.start.compare_exchange(0, at.as_nanos().max(1), Relaxed, Relaxed);
    }

    /// Whether a load that is held has opened its connections, or given up on some, and waits for its start.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Acquire)
    }

    /// When the load began: the turn that first asked for something, after the warm-up's beginning.
    #[must_use]
    pub fn begun(&self) -> Option<Time> {
        Some(self.0.begun.load(Relaxed)).filter(|nanos| *nanos > 0).map(Time::from_nanos)
    }

    /// The time that was set by [`Live::start_at`].
    pub(crate) fn start(&self) -> Option<Time> {
        Some(self.0.start.load(Relaxed)).filter(|nanos| *nanos > 0).map(Time::from_nanos)
    }

    pub(crate) fn say_ready(&self) {
        self.0.ready.store(true, Release);
    }

    pub(crate) fn say_begun(&self, now: Time) {
        self.0.begun.store(now.as_nanos(), Relaxed);
    }

    /// The rate that was set, as a number that differs for each rate; zero if
    /// none was.
    #[inline]
    pub(crate) fn wanted(&self) -> u64 {
        self.0.wanted.load(Relaxed)
    }

    pub(crate) fn publish(&self, progress: &Progress) {
        let cells = &*self.0;
        let nanos = |span: Duration| span.as_nanos() as u64;
        cells.stage.store(progress.stage as u64, Relaxed);
        cells.elapsed.store(nanos(progress.elapsed), Relaxed);
        cells.measured.store(nanos(progress.measured), Relaxed);
        cells.responses.store(progress.responses, Relaxed);
        cells.rate.store(progress.rate, Relaxed);
        cells.errors.store(progress.errors, Relaxed);
        cells.open.store(progress.open, Relaxed);
        cells.p99.store(progress.p99_ns, Relaxed);
        cells.in_flight.store(progress.in_flight, Relaxed);
        cells.target_rate.store(progress.target_rate.to_bits(), Relaxed);
        cells.backlog.store(progress.backlog, Relaxed);
    }
}
