//! A histogram whose buckets double, as text: the shape of a distribution in
//! a screenful, whatever its range.

use core::fmt::Write;

/// Buckets below and above one unit.
const BELOW: i32 = 20;
const BUCKETS: usize = 64;

/// The bar of the fullest bucket, characters.
const WIDTH: u64 = 50;

/// Counts by powers of two of a unit: bucket 2^k holds values from 2^k to
/// below 2^(k+1) units. Values below 2^-19 units are in the first bucket,
/// those of 2^43 units and more in the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log2([u64; BUCKETS]);

impl Default for Log2 {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Log2 {
    /// Counts `count` values of this size, in units.
    pub fn add(&mut self, value: f64, count: u64) {
        let exponent = if value > 0.0 { exponent(value) } else { -BELOW };
        let index = (exponent + BELOW).clamp(0, BUCKETS as i32 - 1);
        self.0[index as usize] += count;
    }

    /// The buckets from the first to the last that is not empty: the lower
    /// end in units, and the count.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let filled = |count: &u64| *count > 0;
        let Some(first) = self.0.iter().position(filled) else { return Vec::new() };
        let last = self.0.iter().rposition(filled).unwrap_or(first);
        (first..=last).map(|index| (2.0_f64.powi(index as i32 - BELOW), self.0[index])).collect()
    }

    /// A line per bucket: where it begins, a bar, the count.
    #[must_use]
    pub fn render(&self, unit: &str) -> String {
        let buckets = self.buckets();
        let most = buckets.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        let mut text = format!("{:>10} |{:-<width$} count\n", format!("{unit} from"), "", width = WIDTH as usize);
        for (from, count) in buckets {
            // A count that is not zero shows.
            let bar = (u128::from(count) * u128::from(WIDTH)).div_ceil(u128::from(most)) as usize;
            let _ = writeln!(text, "{from:>10} |{:<width$} {count}", "*".repeat(bar), width = WIDTH as usize);
        }
        text
    }
}

/// floor(log2(value)) of a value above zero, exact: it is the number's own
/// exponent (IEEE 754). Below the smallest normal number it is less than
/// any bucket.
fn exponent(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1_023
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_belong_to_the_bucket_that_they_begin() {
        let mut histogram = Log2::default();
        for value in [1.0, 1.999, 2.0, 4.0, 7.999] {
            histogram.add(value, 1);
        }
        assert_eq!(histogram.buckets(), [(1.0, 2), (2.0, 1), (4.0, 2)]);
    }

    #[test]
    fn a_screenful() {
        let mut histogram = Log2::default();
        for (value, count) in [(0.3, 1), (20.0, 100), (33.0, 49)] {
            histogram.add(value, count);
        }
        let bar = "*".repeat(50);
        let expected = format!(
            "   ms from |{} count\n      0.25 |{:<50} 1\n       0.5 |{:<50} 0\n         1 |{:<50} 0\n         2 |{:<50} 0\n\
             \x20        4 |{:<50} 0\n         8 |{:<50} 0\n        16 |{bar} 100\n        32 |{:<50} 49\n",
            "-".repeat(50),
            "*",
            "",
            "",
            "",
            "",
            "",
            "*".repeat(25)
        );
        assert_eq!(histogram.render("ms"), expected);
    }

    #[test]
    fn nothing_overflows() {
        let mut histogram = Log2::default();
        for value in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE, f64::INFINITY, 1e300] {
            histogram.add(value, u64::MAX / 8);
        }
        assert_eq!(histogram.buckets().iter().filter(|(_, count)| *count > 0).count(), 2);
        assert_eq!(histogram.render("s").lines().count(), 1 + BUCKETS);
        assert_eq!(Log2::default().render("s").lines().count(), 1);
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(value in 1e-5..1e9_f64) {
            let mut histogram = Log2::default();
            histogram.add(value, 3);
            let (from, count) = histogram.buckets()[0];
            prop_assert_eq!(count, 3);
            prop_assert!(from <= value && value < 2.0 * from);
        }
    }
}
