//! Times that a sender kept while it was at its rings. On a machine that others
//! have, too, it is away for a while now and then, and catches up: those
//! distances between frames are told as they are, and beside them those of
//! slices of a millisecond in which nothing of that happened.

use crate::trial::Calm;

/// Slices of so many parts of a second.
pub(super) const SLICES: u64 = 1_000;

/// Nanoseconds of a bucket, and how many there are: the last has all that is
/// above.
const WIDTH: u64 = 8;
const BUCKETS: usize = 256;

/// By how much gaps were other than they should be, slice by slice.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    /// Of the slice that is under way.
    pending: [u32; BUCKETS],
    /// Of those that count.
    kept: [u64; BUCKETS],
    all: u64,
    calm: u64,
    /// Absences and frames that were late or not sent, at the slice's beginning.
    before: [u64; 2],
}

impl Slices {
    pub const fn new() -> Self {
        Self { pending: [0; BUCKETS], kept: [0; BUCKETS], all: 0, calm: 0, before: [0; 2] }
    }

    #[inline]
    pub fn record(&mut self, nanos: u64) {
        let bucket = (nanos / WIDTH).min(BUCKETS as u64 - 1) as usize;
        self.pending[bucket] = self.pending[bucket].saturating_add(1);
    }

    /// So many slices have passed since the last look, with so many absences, and
    /// so many frames late or not sent, since the trial began.
    pub fn end(&mut self, passed: u64, now: [u64; 2]) {
        self.all += passed;
        if passed == 1 && now == self.before {
            self.calm += 1;
            self.kept.iter_mut().zip(&self.pending).for_each(|(kept, new)| *kept += u64::from(*new));
        }
        self.pending = [0; BUCKETS];
        self.before = now;
    }

    pub fn told(&self) -> Calm {
        let samples: u64 = self.kept.iter().sum();
        let wanted = samples - samples / 100;
        let mut seen = 0;
        let bucket = self.kept.iter().position(|count| {
            seen += count;
            seen >= wanted && samples > 0
        });
        // The bucket's end: at most that. Of the last nobody knows where it ends.
        let p99 = bucket.filter(|bucket| bucket + 1 < BUCKETS).map(|bucket| (bucket as u64 + 1) * WIDTH);
        Calm { slices: self.all, calm: self.calm, samples, deviation_p99_ns: p99 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_of_slices_in_which_nothing_happened() {
        let mut slices = Slices::new();
        assert_eq!(slices.told(), Calm::default());
        let mut fill = |deviation: u64, count: u32, now: [u64; 2]| {
            (0..count).for_each(|_| slices.record(deviation));
            slices.end(1, now);
            slices.told()
        };
        // 1,000 gaps that are 20 ns off, then 950 ns in a slice with an absence, and in one with late frames.
        let calm = fill(20, 1_000, [0, 0]);
        assert_eq!(calm, Calm { slices: 1, calm: 1, samples: 1_000, deviation_p99_ns: Some(24) });
        let away = fill(950, 1_000, [1, 0]);
        assert_eq!((away.slices, away.calm, away.deviation_p99_ns), (2, 1, Some(24)));
        assert_eq!(fill(950, 1_000, [1, 60]).samples, 1_000);
        // One in a hundred is not above the 99th percentile; two are.
        assert_eq!(fill(950, 10, [1, 60]).deviation_p99_ns, Some(24));
        assert_eq!(fill(950, 20, [1, 60]).deviation_p99_ns, Some(952));
        // Above all buckets: not known.
        assert_eq!(fill(1_000_000, 2_000, [1, 60]).deviation_p99_ns, None);
        // Nobody looked for three.
        slices.record(20);
        slices.end(3, [1, 60]);
        assert_eq!((slices.told().slices, slices.told().calm, slices.told().samples), (9, 4, 3_030));
    }
}
