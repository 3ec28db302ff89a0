//! What came of a test.

use crate::impostors::Refused;
use crate::offset::Offset;
use crate::problem::{Problem, ProblemKind};
use core::time::Duration;
use wire::Time;

/// What a worker measured, as far as the controller looks at it.
#[derive(Clone, PartialEq, Debug)]
pub struct Part<M> {
    /// What it measured.
    pub measured: M,
    /// When each of its silos began, by its own clock in nanoseconds.
    pub begun_ns: Vec<u64>,
    /// What speaks against it, by itself.
    pub faults: Vec<(ProblemKind, String)>,
}

/// What came of a test.
#[derive(Clone, Debug)]
pub struct Outcome<M> {
    /// Each worker.
    pub workers: Vec<WorkerOutcome<M>>,
    /// What makes it invalid; nothing, and all of it counts.
    pub problems: Vec<Problem>,
    /// Whether somebody ended it before its time.
    pub interrupted: bool,
    /// How far apart the workers began, if any did.
    pub skew: Option<Skew>,
    /// Those who came without the token, or said nothing that could be understood.
    pub strangers: u64,
    /// Of these, those who had the token of another worker than they said to be; of more than 100 the first.
    pub refused: u64,
    /// Who that was, each once.
    pub impostors: Vec<Refused>,
}

/// What is known of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOutcome<M> {
    /// What it measured, if it came to that.
    pub measured: Option<M>,
    /// Its clock beside the controller's.
    pub offset: Option<Offset>,
    /// When its first and its last silo began, by the controller's clock.
    pub begun: Option<(Time, Time)>,
    /// Connections that it had opened when it was ready.
    pub open: u64,
    /// Threads, or silos, that generated its load.
    pub silos: u32,
}

/// How far apart the workers of a test began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skew {
    /// From the first to the last.
    pub spread: Duration,
    /// From the time that was set to the last.
    pub latest: Duration,
    /// As far as clocks are known: each may be off by this.
    pub error: Duration,
}

impl<M> Outcome<M> {
    /// Whether all that was measured is what was asked for.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty() && !self.interrupted
    }
}

/// The skew of workers that began; `start` is the time that was set.
pub(crate) fn skew<M>(workers: &[WorkerOutcome<M>], start: Option<Time>) -> Option<Skew> {
    let begun = workers.iter().filter_map(|worker| worker.begun);
    let first = begun.clone().map(|(first, _)| first).min()?;
    let last = begun.map(|(_, last)| last).max()?;
    let error = workers.iter().filter(|worker| worker.begun.is_some()).filter_map(|worker| worker.offset);
    Some(Skew {
        spread: last.since(first),
        latest: start.map_or(Duration::ZERO, |start| last.since(start)),
        error: error.map(|offset| offset.error).max().unwrap_or_default(),
    })
}
