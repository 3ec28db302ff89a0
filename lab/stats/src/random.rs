//! Random numbers for shuffles, resamples and simulated service times: the
//! same from the same seed, on every machine. Not for secrets.

use random::SplitMix64;

/// What is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A generator that any seed suits.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`, 0 for a bound of 0. Uneven by less than
    /// `bound` ÷ 2^64, which no experiment here can see.
    #[inline]
    pub const fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// A number from 0 to 1, without 1.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with the exponential distribution of mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_that_they_should() {
        let mut random = Random::new(1);
        let n = 100_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || random.unit()) - 0.5).abs() < 0.005);
        assert!((mean(&mut || random.exponential()) - 1.0).abs() < 0.02);
        assert!((mean(&mut || random.below(11) as f64) - 5.0).abs() < 0.05);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn a_shuffle_keeps_all_and_favours_no_order() {
        let mut random = Random::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
