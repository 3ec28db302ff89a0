//! Streams watched from another thread.

use super::figures::StreamingFigures;
use crate::live::Stage;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Streams at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamingProgress {
    /// Whether the window is open.
    pub measuring: bool,
    /// Whether it is over.
    pub ended: bool,
    /// Bytes of content in the window.
    pub bytes: u64,
    /// Streams that play, or to which something came.
    pub under_way: u64,
    /// Streams that had under-runs in the window.
    pub dried: u64,
    /// What went wrong.
    pub errors: u64,
}

/// Where a [`super::Streaming`] publishes its progress, for any thread to read without a lock, and where another
/// thread tells what it knows of the machine. Fields may be from two successive publications; for people
/// to look at, that does no harm.
#[derive(Clone, Debug, Default)]
pub struct StreamingLive(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    stage: AtomicU64,
    bytes: AtomicU64,
    under_way: AtomicU64,
    dried: AtomicU64,
    errors: AtomicU64,
    stolen: AtomicU64,
}

impl StreamingLive {
    /// The progress last published.
    #[must_use]
    pub fn progress(&self) -> StreamingProgress {
        let cells = &*self.0;
        let stage = cells.stage.load(Relaxed);
        StreamingProgress {
            measuring: stage == Stage::Measuring as u64,
            ended: stage == Stage::Ended as u64,
            bytes: cells.bytes.load(Relaxed),
            under_way: cells.under_way.load(Relaxed),
            dried: cells.dried.load(Relaxed),
            errors: cells.errors.load(Relaxed),
        }
    }

    /// Tells how much the hypervisor took from the machine's cores so far, in nanoseconds: the moments
    /// before it grew do not count. To be told ten times a second, or more often.
    pub fn set_stolen(&self, nanos: u64) {
        self.0.stolen.store(nanos, Relaxed);
    }

    pub(super) fn stolen(&self) -> u64 {
        self.0.stolen.load(Relaxed)
    }

    pub(super) fn publish(&self, stage: Stage, figures: &StreamingFigures) {
        let cells = &*self.0;
        cells.stage.store(stage as u64, Relaxed);
        cells.bytes.store(figures.bytes, Relaxed);
        cells.under_way.store(figures.under_way, Relaxed);
        cells.dried.store(figures.dried, Relaxed);
        cells.errors.store(figures.errors.total(), Relaxed);
    }
}
