//! What a handful of values says. All are zero where there is no value.

/// The arithmetic mean.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The middle value; the mean of the two middle ones of an even number.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `at` (0 to 1) of values lies, linear
/// between neighbours (type 7 of Hyndman and Fan: Sample quantiles in
/// statistical packages, The American Statistician 50(4), 1996).
#[must_use]
pub fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted_quantile(&sorted, at)
}

/// [`quantile`] of values in order.
pub(crate) fn sorted_quantile(sorted: &[f64], at: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = at.clamp(0.0, 1.0) * last as f64;
    let below = place as usize;
    let part = place - below as f64;
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    // Not low + (high − low) × part: equal neighbours must give themselves.
    if part == 0.0 || low == high { low } else { low * (1.0 - part) + high * part }
}

/// The standard deviation of a sample (divided by n − 1).
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&values), median(&values)), (5.0, 4.5));
        assert!((deviation(&values) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(quantile(&[10.0, 20.0, 30.0, 40.0, 50.0], 0.9), 46.0);
        assert_eq!((mean(&[]), median(&[]), deviation(&[]), deviation(&[3.0])), (0.0, 0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn all_lie_within_the_range(values in prop::collection::vec(-1e9..1e9_f64, 1..50), at in -0.5..1.5_f64) {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for value in [mean(&values), median(&values), quantile(&values, at)] {
                prop_assert!((low - 1e-3..=high + 1e-3).contains(&value));
            }
            prop_assert!(deviation(&values) <= (high - low) + 1e-3);
        }

        #[test]
        fn quantiles_grow(values in prop::collection::vec(-1e9..1e9_f64, 1..50), a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            prop_assert!(quantile(&values, a.min(b)) <= quantile(&values, a.max(b)) + 1e-6);
        }

        #[test]
        fn order_does_not_matter(mut values in prop::collection::vec(-1e3..1e3_f64, 1..50)) {
            let before = median(&values);
            values.reverse();
            prop_assert_eq!(before, median(&values));
        }
    }
}
