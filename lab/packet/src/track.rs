//! Which frames of a stream came, once, twice, late or never: in constant
//! memory, exact within a window.

use serde::{Deserialize, Serialize};

/// Frames that may be between the first and the last that are still judged: a
/// frame that comes later than so many others is only known to have come late.
pub const WINDOW: u64 = 1 << 16;

const WORDS: usize = (WINDOW / 64) as usize;

/// What became of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next, or one after a gap.
    InOrder,
    /// After one with a higher number (RFC 4737 section 3.3).
    Reordered,
    /// Again.
    Duplicate,
    /// So late that it cannot be told whether it is a duplicate.
    TooLate,
}

/// Counts of a stream's arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Arrivals {
    /// Frames that came for the first time.
    pub unique: u64,
    /// Of these, out of order.
    pub reordered: u64,
    /// By how many places, at most.
    pub reordered_by: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came after [`WINDOW`] others: lost, as far as is known.
    pub too_late: u64,
}

/// What was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Losses {
    /// Frames.
    pub frames: u64,
    /// Runs of them, one after the other: a bound on a loss ratio may rest on
    /// these where losses come in bursts.
    pub events: u64,
    /// The longest run.
    pub longest: u64,
}

/// Follows one stream.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// One bit for each of the last [`WINDOW`] frames.
    seen: Box<[u64; WORDS]>,
    next: u64,
    counts: Arrivals,
    settled: Losses,
    /// How many were lost just before the next to be judged.
    run: u64,
    /// The last that is known to be lost.
    last_lost: Option<u64>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self {
            seen: Box::new([0; WORDS]),
            next: 0,
            counts: Arrivals::default(),
            settled: Losses::default(),
            run: 0,
            last_lost: None,
        }
    }
}

impl Tracker {
    /// A frame came.
    #[inline]
    pub fn on_frame(&mut self, sequence: u64) -> Arrival {
        if sequence >= self.next {
            while self.next <= sequence {
                self.judge_oldest();
                self.next += 1;
            }
            self.set(sequence);
            self.counts.unique += 1;
            return Arrival::InOrder;
        }
        self.on_old(sequence)
    }

    #[cold]
    fn on_old(&mut self, sequence: u64) -> Arrival {
        let behind = self.next - sequence;
        if behind > WINDOW {
            self.counts.too_late += 1;
            return Arrival::TooLate;
        }
        if self.has(sequence) {
            self.counts.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.set(sequence);
        self.counts.unique += 1;
        self.counts.reordered += 1;
        // The last in order was the one before the next.
        self.counts.reordered_by = self.counts.reordered_by.max(behind - 1);
        Arrival::Reordered
    }

    /// What came so far.
    #[must_use]
    pub fn counts(&self) -> Arrivals {
        self.counts
    }

    /// What of the frames that are older than the window did not come.
    #[must_use]
    pub fn settled(&self) -> Losses {
        self.settled
    }

    /// The next number in order: one above the highest that came.
    #[inline]
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The last of the first `sent` frames that did not come.
    #[must_use]
    pub fn last_lost(&self, sent: u64) -> Option<u64> {
        if sent > self.next {
            return Some(sent - 1);
        }
        let window = self.next.saturating_sub(WINDOW)..self.next.min(sent);
        window.rev().find(|sequence| !self.has(*sequence)).or(self.last_lost)
    }

    /// What of the first `sent` frames did not come.
    #[must_use]
    pub fn losses(&self, sent: u64) -> Losses {
        let mut end = self.clone();
        // All that may still be in the window, and what was sent after the last that came.
        let first = self.next.saturating_sub(WINDOW);
        for sequence in first..self.next.min(sent) {
            let seen = end.has(sequence);
            end.judge(seen);
        }
        let tail = sent.saturating_sub(self.next);
        if tail > 0 {
            end.settled.frames += tail;
            end.run += tail;
        }
        end.judge_end();
        end.settled
    }

    #[inline]
    fn place(sequence: u64) -> (usize, u64) {
        let at = sequence % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    #[inline]
    fn has(&self, sequence: u64) -> bool {
        let (word, bit) = Self::place(sequence);
        self.seen[word] & bit != 0
    }

    #[inline]
    fn set(&mut self, sequence: u64) {
        let (word, bit) = Self::place(sequence);
        self.seen[word] |= bit;
    }

    /// The frame in whose place the next one's bit will be is settled.
    #[inline]
    fn judge_oldest(&mut self) {
        let (word, bit) = Self::place(self.next);
        let seen = self.seen[word] & bit != 0;
        if self.next >= WINDOW {
            if !seen {
                self.last_lost = Some(self.next - WINDOW);
            }
            self.judge(seen);
        }
        self.seen[word] &= !bit;
    }

    #[inline]
    fn judge(&mut self, seen: bool) {
        if seen {
            if self.run > 0 {
                self.judge_end();
            }
        } else {
            self.settled.frames += 1;
            self.run += 1;
        }
    }

    #[cold]
    fn judge_end(&mut self) {
        if self.run > 0 {
            self.settled.events += 1;
            self.settled.longest = self.settled.longest.max(self.run);
            self.run = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn follow(sequences: impl IntoIterator<Item = u64>) -> Tracker {
        let mut tracker = Tracker::default();
        for sequence in sequences {
            tracker.on_frame(sequence);
        }
        tracker
    }

    #[test]
    fn all_in_order_is_nothing_to_tell() {
        let tracker = follow(0..200_000);
        assert_eq!(tracker.counts(), Arrivals { unique: 200_000, ..Arrivals::default() });
        assert_eq!(tracker.losses(200_000), Losses::default());
    }

    #[test]
    fn losses_are_counted_by_runs_wherever_they_are() {
        let gone = |n: &u64| !(n.is_multiple_of(100_000) || (150_000..150_010).contains(n) || *n >= 299_995);
        let tracker = follow((0..300_000).filter(gone));
        // 0, 100,000, 200,000, a run of ten, and the last five.
        assert_eq!(tracker.losses(300_000), Losses { frames: 18, events: 5, longest: 10 });
        assert_eq!(tracker.losses(300_100), Losses { frames: 118, events: 5, longest: 105 });
        assert_eq!((tracker.last_lost(300_000), tracker.last_lost(299_995)), (Some(299_999), Some(200_000)));
        assert_eq!((follow(0..9).last_lost(9), follow(0..9).last_lost(11)), (None, Some(10)));
        assert_eq!(Tracker::default().losses(7), Losses { frames: 7, events: 1, longest: 7 });
        assert_eq!(Tracker::default().losses(0), Losses::default());
    }

    #[test]
    fn duplicates_and_late_ones_are_told_apart() {
        let mut tracker = follow([0, 1, 2, 5]);
        assert_eq!(tracker.on_frame(3), Arrival::Reordered);
        assert_eq!(tracker.on_frame(3), Arrival::Duplicate);
        assert_eq!(tracker.on_frame(5), Arrival::Duplicate);
        assert_eq!(tracker.losses(6).frames, 1);
        assert_eq!(tracker.counts().reordered_by, 2);
        tracker.on_frame(WINDOW + 4);
        assert_eq!(tracker.on_frame(4), Arrival::TooLate);
        assert_eq!(tracker.counts().too_late, 1);
    }

    #[test]
    fn a_gap_longer_than_the_window_is_all_lost() {
        let mut tracker = follow(0..10);
        tracker.on_frame(10 + 3 * WINDOW);
        assert_eq!(tracker.losses(11 + 3 * WINDOW), Losses { frames: 3 * WINDOW, events: 1, longest: 3 * WINDOW });
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_that_remembers_all(came in prop::collection::vec(0..300_u64, 0..600)) {
            let tracker = follow(came.iter().copied());
            let all: HashSet<u64> = came.iter().copied().collect();
            let counts = tracker.counts();
            prop_assert_eq!(counts.unique, all.len() as u64);
            prop_assert_eq!(counts.duplicates, (came.len() - all.len()) as u64);
            prop_assert_eq!(tracker.losses(300).frames, 300 - all.len() as u64);
            let runs = (0..300).filter(|n| !all.contains(n) && (*n == 0 || all.contains(&(n - 1)))).count();
            prop_assert_eq!(tracker.losses(300).events, runs as u64);
            prop_assert_eq!(tracker.last_lost(300), (0..300).rev().find(|n| !all.contains(n)));
        }
    }
}
