//! Intervals: what goes to another thread while the run lasts.

use super::{Load, Mark};
use crate::figures::{Counts, Turns};
use crate::interval::{STAGE_ENDS, Sender};
use crate::live::Stage;
use crate::samples::Samples;
use core::time::Duration;
use wire::Time;

/// The intervals of a run, as they are cut.
#[derive(Debug)]
pub struct Cuts {
    sender: Sender,
    every: Duration,
    /// When the next cut is due.
    pub next: Time,
    /// The samples of the phase at hand, up to the last cut.
    pub total: Samples,
    number: u64,
    /// Intervals that the one at hand stands for.
    spans: u32,
    pub merged: u64,
    // Where the accounts stood at the last cut.
    start: Time,
    counts: Counts,
    in_progress: Mark,
    due: u64,
    turns: Turns,
}

impl Cuts {
    pub fn new(sender: Sender, every: Duration) -> Self {
        Self {
            sender,
            every,
            next: Time::MAX,
            total: Samples::default(),
            number: 0,
            spans: 1,
            merged: 0,
            start: Time::ZERO,
            counts: Counts::default(),
            in_progress: Mark::default(),
            due: 0,
            turns: Turns::default(),
        }
    }
}

impl Load {
    /// Cuts an interval off when it is due, and `stands` says where the run is.
    pub(super) fn cut_if_due(&mut self, now: Time, stands: (Stage, Counts)) {
        let Some(cuts) = &mut self.cuts else {
            return;
        };
        if now < cuts.next {
            return;
        }
        // On the grid of the phase, however late this is.
        while cuts.next <= now {
            cuts.next = cuts.next + cuts.every;
        }
        if !self.cut(now, stands, STAGE_ENDS)
            && let Some(cuts) = &mut self.cuts
        {
            cuts.merged += 1;
            cuts.spans += 1;
        }
    }

    /// Hands the interval at hand over, if more than `reserve` sets of
    /// samples are left for others. Answers whether it did.
    fn cut(&mut self, now: Time, (stage, counts): (Stage, Counts), reserve: usize) -> bool {
        let turns = self.turns.sum();
        let mark = self.progress.mark(now);
        let (due, backlog) = self.open_loop.as_ref().map_or((0, 0), |open| (open.due(), open.backlog()));
        let Some(cuts) = &mut self.cuts else {
            return false;
        };
        if now == cuts.start && self.samples.ended() == 0 {
            return true;
        }
        let Some(mut interval) = cuts.sender.blank(reserve) else {
            return false;
        };
        core::mem::swap(&mut interval.samples, &mut self.samples);
        cuts.total.merge(&interval.samples);
        interval.number = cuts.number;
        interval.stage = stage;
        interval.began = self.started;
        interval.start = cuts.start.since(self.started);
        interval.end = now.since(self.started);
        interval.spans = cuts.spans;
        interval.counts = counts.since(&cuts.counts);
        interval.in_progress = mark.since(&cuts.in_progress);
        interval.open = self.open;
        interval.in_flight = self.progress.count();
        interval.due = due - cuts.due;
        interval.backlog = backlog;
        interval.turns = turns.since(&cuts.turns, self.turns.take_longest());
        cuts.sender.send(interval);
        cuts.number += 1;
        cuts.spans = 1;
        (cuts.start, cuts.counts, cuts.in_progress, cuts.due, cuts.turns) = (now, counts, mark, due, turns);
        true
    }

    /// A phase begins, and its first interval with it.
    pub(super) fn begin_cuts(&mut self, now: Time) {
        let turns = self.turns.sum();
        if let Some(cuts) = &mut self.cuts {
            cuts.start = now;
            cuts.next = now + cuts.every;
            cuts.turns = turns;
        }
    }

    /// The samples of the phase that ends; what follows starts without any.
    /// At most [`STAGE_ENDS`] phases end; `left` do after this one.
    pub(super) fn end_cuts(&mut self, now: Time, stands: (Stage, Counts), left: usize) -> Samples {
        self.cut(now, stands, left);
        let rest = core::mem::take(&mut self.samples);
        match &mut self.cuts {
            None => rest,
            Some(cuts) => {
                let mut all = core::mem::take(&mut cuts.total);
                // Of a phase without length, at most the delay of a turn.
                all.merge(&rest);
                all
            }
        }
    }
}
