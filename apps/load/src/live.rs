//! A run watched from another thread.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
    pub p99_ns: u64,
}

/// Where a [`crate::Load`] publishes its [`Progress`] every half second, for
/// any thread to read without a lock. Fields may be from two successive
/// publications; for people to look at, that does no harm.
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
        }
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
    }
}
