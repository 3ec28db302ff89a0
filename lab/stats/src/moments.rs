//! Mean, deviation and extremes in constant memory.

/// What is known of values seen one at a time (Welford: Note on a method for
/// calculating corrected sums of squares and products, Technometrics 4(3),
/// 1962), mergeable (Chan, Golub, LeVeque 1979).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// Takes one value in.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let from_mean = value - self.mean;
        self.mean += from_mean / self.count as f64;
        self.squares += from_mean * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Takes in what another has seen.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let both = ours + theirs;
        let apart = other.mean - self.mean;
        self.mean += apart * theirs / both;
        self.squares += other.squares + apart * apart * ours * theirs / both;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; zero without values.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// The smallest; zero without values.
    #[must_use]
    pub const fn min(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.min }
    }

    /// The largest; zero without values.
    #[must_use]
    pub const fn max(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.max }
    }

    /// The standard deviation of all values (divided by n, as for a whole
    /// population: every request is there).
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add(*value));
        moments
    }

    #[test]
    fn nothing_is_zero() {
        let none = Moments::default();
        assert_eq!((none.count(), none.mean(), none.min(), none.max(), none.deviation()), (0, 0.0, 0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn parts_merge_into_the_whole(values in prop::collection::vec(-1e6..1e6_f64, 0..60), at in 0..60usize) {
            let (left, right) = values.split_at(at.min(values.len()));
            let mut merged = of(left);
            merged.merge(&of(right));
            let whole = of(&values);
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
            prop_assert!((merged.mean() - whole.mean()).abs() < 1e-6);
            prop_assert!((merged.deviation() - whole.deviation()).abs() < 1e-4);
        }

        #[test]
        fn they_are_those_of_all_values_at_once(values in prop::collection::vec(-1e6..1e6_f64, 2..60)) {
            let moments = of(&values);
            let n = values.len() as f64;
            prop_assert!((moments.mean() - crate::mean(&values)).abs() < 1e-6);
            let sample = crate::deviation(&values) * ((n - 1.0) / n).sqrt();
            prop_assert!((moments.deviation() - sample).abs() < 1e-4);
        }
    }
}
