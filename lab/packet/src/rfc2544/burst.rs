//! Back-to-back frames by RFC 9004: the longest burst at the medium's rate of
//! which nothing is lost, searched for again and again.

use serde::Serialize;

/// Bounds are so near in the end, as a share of the longer.
const WIDTH: f64 = 0.01;

/// The first length that is tried, in frames, where nothing is known.
const FIRST: u64 = 1_000;

/// A length fails once a burst of it has lost frames so often (binary search
/// with loss verification, RFC 9004 section 5.4.1 and ETSI GS NFV-TST 009).
const FAILURES: u32 = 2;

/// Searches for the longest burst.
#[derive(Clone, PartialEq, Debug)]
pub struct BurstSearch {
    longest: u64,
    times: u32,
    found: Vec<u64>,
    /// The longest that passed, and the shortest that failed.
    bounds: (u64, Option<u64>),
    /// The next to be tried.
    next: u64,
    /// How far the next is from the last, where only one bound is known.
    stride: u64,
    failures: u32,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BackToBack {
    /// Frames of each search.
    pub frames: Vec<u64>,
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// Their standard deviation.
    pub deviation: f64,
    /// No burst was long enough to lose a frame: the buffer is larger.
    pub reached_longest: bool,
    /// Frames per second of a burst.
    pub burst_rate: f64,
    /// The buffer as a time at that rate, corrected by what the device passes
    /// on meanwhile (RFC 9004 section 6).
    pub buffer_seconds: f64,
}

impl BurstSearch {
    /// Bursts of at most `longest` frames, searched for so many `times`.
    #[must_use]
    pub fn new(longest: u64, times: u32) -> Self {
        let longest = longest.max(1);
        let first = FIRST.min(longest);
        Self { longest, times, found: Vec::new(), bounds: (0, None), next: first, stride: first, failures: 0 }
    }

    /// Frames of the burst that is wanted.
    #[must_use]
    pub const fn poll_burst(&self) -> Option<u64> {
        if self.found.len() < self.times as usize { Some(self.next) } else { None }
    }

    /// Takes whether a burst of that length lost nothing.
    pub fn on_burst(&mut self, passed: bool) {
        if passed {
            self.bounds.0 = self.bounds.0.max(self.next);
        } else {
            self.failures += 1;
            if self.failures < FAILURES {
                return;
            }
            self.bounds.1 = Some(self.bounds.1.map_or(self.next, |old| old.min(self.next)));
        }
        self.failures = 0;
        let (lower, upper) = self.bounds;
        match upper {
            None if lower >= self.longest => self.settle(lower),
            None => {
                self.stride = self.stride.saturating_mul(2);
                self.next = lower.saturating_add(self.stride).min(self.longest);
            }
            Some(upper) if (upper - lower.min(upper)) as f64 <= (upper as f64 * WIDTH).max(1.0) => self.settle(lower),
            // Nothing passed yet: below by strides, and not by halves, if the length of the search before is near.
            Some(upper) if lower == 0 && upper > self.stride => {
                self.next = upper - self.stride;
                self.stride = self.stride.saturating_mul(2);
            }
            Some(upper) => self.next = lower + (upper - lower) / 2,
        }
    }

    /// One search is over; the next begins where it ended.
    fn settle(&mut self, frames: u64) {
        self.found.push(frames);
        self.stride = ((frames as f64 * WIDTH) as u64).max(1);
        self.next = frames.clamp(1, self.longest);
        self.bounds = (0, None);
    }

    /// What was found, of bursts at `rate` frames per second through a device
    /// that passes on `throughput`.
    #[must_use]
    pub fn found(&self, rate: f64, throughput: f64) -> Option<BackToBack> {
        let (min, max) = (self.found.iter().min().copied()?, self.found.iter().max().copied()?);
        let n = self.found.len() as f64;
        let mean = self.found.iter().map(|frames| *frames as f64).sum::<f64>() / n;
        let square = |frames: &u64| (*frames as f64 - mean).powi(2);
        let deviation = (self.found.iter().map(square).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
        let share = (1.0 - throughput / rate).clamp(0.0, 1.0);
        Some(BackToBack {
            frames: self.found.clone(),
            mean,
            min,
            max,
            deviation,
            reached_longest: max >= self.longest,
            burst_rate: rate,
            buffer_seconds: mean / rate * share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(longest: u64, times: u32, passes: impl Fn(u64, u32) -> bool) -> (BurstSearch, u32) {
        let mut search = BurstSearch::new(longest, times);
        let mut trials = 0;
        while let Some(frames) = search.poll_burst() {
            trials += 1;
            assert!((1..=longest).contains(&frames) && trials < 1_000, "{frames} after {trials}");
            search.on_burst(passes(frames, trials));
        }
        (search, trials)
    }

    #[test]
    fn the_longest_burst_is_found_within_the_width_and_later_searches_are_short() {
        for buffer in [1, 2, 90, 5_000, 1_234_567, 20_000_000] {
            let (search, trials) = run(29_761_904, 50, |frames, _| frames <= buffer);
            let found = search.found(14_880_952.0, 7_440_476.0).expect("found");
            for frames in &found.frames {
                assert!(*frames <= buffer && buffer - frames <= buffer / 99 + 1, "{buffer}: {frames}");
            }
            assert!(trials < 50 * 9, "{buffer}: {trials} trials");
            assert!((found.buffer_seconds - found.mean / 14_880_952.0 / 2.0).abs() < 1e-12);
            assert!(!found.reached_longest);
        }
    }

    #[test]
    fn a_buffer_without_end_says_so_and_one_that_holds_nothing_is_zero() {
        let (search, _) = run(1_000_000, 3, |_, _| true);
        let found = search.found(1e6, 0.5e6).expect("found");
        assert!(found.reached_longest && found.min == 1_000_000 && found.deviation == 0.0);
        let (search, _) = run(1_000_000, 3, |_, _| false);
        assert_eq!(search.found(1e6, 0.5e6).expect("found").max, 0);
    }

    #[test]
    fn one_loss_of_two_is_verified_and_forgiven() {
        let (search, _) = run(100_000, 1, |frames, trial| frames <= 10_000 && !trial.is_multiple_of(7));
        assert!((9_900..=10_000).contains(&search.found[0]), "{:?}", search.found);
    }
}
