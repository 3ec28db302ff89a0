//! A run in intervals, taken to another thread while it lasts.

use crate::figures::{Counts, Integral, Turns};
use crate::live::Stage;
use crate::samples::Samples;
use core::ops::Deref;
use core::time::Duration;
use rtrb::{Consumer, Producer, RingBuffer};
use serde::{Deserialize, Serialize};
use wire::Time;

/// Intervals that may wait for the collector, of one silo. A collector that
/// comes once per interval needs one; beyond, intervals grow together.
pub const INTERVALS_LIMIT: usize = 8;

/// Sets of samples kept for the ends of ramp, warm-up and window: an interval
/// never spans two stages.
pub(crate) const STAGE_ENDS: usize = 3;

/// What happened in an interval, of one silo or of several merged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Counts up from zero. A silo's numbers have no gaps.
    pub number: u64,
    /// The stage that it lies in.
    pub stage: Stage,
    /// The silo's first turn, by the clock of its machine: which is nobody else's.
    #[serde(skip)]
    pub began: Time,
    /// Its start, from the silo's first turn on.
    pub start: Duration,
    /// Its end.
    pub end: Duration,
    /// Intervals that it stands for: more than 1 where the collector was too
    /// slow to take each.
    pub spans: u32,
    /// Latencies and the like.
    pub samples: Samples,
    /// Requests, responses, bytes, errors, connections.
    pub counts: Counts,
    /// Requests in progress over time.
    pub in_progress: Integral,
    /// Connections open at its end.
    pub open: u64,
    /// Requests in progress at its end.
    pub in_flight: u64,
    /// In an open loop: requests that came due in it.
    pub due: u64,
    /// Requests that were due at its end, and not sent.
    pub backlog: u64,
    /// The generator's turns.
    pub turns: Turns,
}

impl Interval {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Responses per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seconds = self.length().as_secs_f64();
        if seconds > 0.0 { self.counts.traffic.responses as f64 / seconds } else { 0.0 }
    }

    /// Adds an interval: of another silo at the same time, or of the same
    /// silo at another time. Counts, samples and integrals add up exactly;
    /// what is a state at the end is that of the later end, or their sum
    /// where they end within the same `tolerance`.
    pub fn merge(&mut self, other: &Self) {
        if self.spans == 0 {
            *self = other.clone();
            return;
        }
        let side_by_side = other.start < self.end && self.start < other.end;
        let states = |a: u64, b: u64| match side_by_side {
            true => a + b,
            false if other.end >= self.end => b,
            false => a,
        };
        self.open = states(self.open, other.open);
        self.in_flight = states(self.in_flight, other.in_flight);
        self.backlog = states(self.backlog, other.backlog);
        self.spans = if side_by_side { self.spans.max(other.spans) } else { self.spans + other.spans };
        self.stage = self.stage.max(other.stage);
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.samples.merge(&other.samples);
        self.counts.add(&other.counts);
        self.in_progress.add(&other.in_progress);
        self.due += other.due;
        self.turns.merge(&other.turns);
    }
}

/// The intervals of one silo, on the collector's side. Bounded: the memory is
/// taken when it is made ([`crate::Load::intervals`]), and goes round.
#[derive(Debug)]
pub struct Intervals {
    full: Consumer<Box<Interval>>,
    empty: Producer<Box<Interval>>,
}

impl Intervals {
    /// The next interval, if one is complete. Take them until there is none:
    /// the last ones come with the end of the run.
    pub fn take(&mut self) -> Option<Taken<'_>> {
        let interval = self.full.pop().ok()?;
        Some(Taken { interval: Some(interval), back: &mut self.empty })
    }

    /// The end of the next interval, if one is complete.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        let next = self.full.peek().ok()?;
        Some(next.began + next.end)
    }

    /// Whether the silo's [`crate::Load`] is gone: what waits is all.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Whether the silo's [`crate::Load`] is gone, and no interval waits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // In this order: what it wrote before it went is seen.
        self.full.is_abandoned() && self.full.is_empty()
    }
}

/// An interval on loan: its memory goes back to the silo when this is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    interval: Option<Box<Interval>>,
    back: &'a mut Producer<Box<Interval>>,
}

impl Deref for Taken<'_> {
    type Target = Interval;

    fn deref(&self) -> &Interval {
        match &self.interval {
            Some(interval) => interval,
            None => unreachable!("it is taken out on drop only"),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(mut interval) = self.interval.take() {
            // Here, not on the silo's time.
            interval.samples.clear();
            // There is room: no more sets are under way than it holds. If the
            // silo is gone, so is the set.
            let _ = self.back.push(interval);
        }
    }
}

/// The silo's side.
#[derive(Debug)]
pub(crate) struct Sender {
    full: Producer<Box<Interval>>,
    empty: Consumer<Box<Interval>>,
}

/// A channel for `limit` intervals and the ends of stages.
pub(crate) fn channel(limit: usize) -> (Sender, Intervals) {
    let sets = limit + STAGE_ENDS;
    let (full, taker) = RingBuffer::new(sets);
    let (mut giver, empty) = RingBuffer::new(sets);
    for _ in 0..sets {
        // There is room for as many as there are.
        let _ = giver.push(Box::default());
    }
    (Sender { full, empty }, Intervals { full: taker, empty: giver })
}

impl Sender {
    /// An empty interval to fill and [`Sender::send`], if more than `reserve`
    /// are left.
    pub fn blank(&mut self, reserve: usize) -> Option<Box<Interval>> {
        if self.empty.slots() > reserve { self.empty.pop().ok() } else { None }
    }

    /// Hands an interval over. There is always room: the ring holds as many
    /// as there are.
    pub fn send(&mut self, interval: Box<Interval>) {
        let _ = self.full.push(interval);
    }
}
