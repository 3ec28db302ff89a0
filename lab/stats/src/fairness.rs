//! How evenly something is shared.

/// Jain's fairness index (Jain, Chiu, Hawe: A quantitative measure of fairness
/// and discrimination for resource allocation in shared computer systems,
/// DEC-TR-301, 1984): 1 where all shares are alike, 1 ÷ n where one has all.
/// Zero without any share; shares below zero count as zero.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return 0.0;
    }
    // As parts of the largest, so that no square overflows.
    let parts = || shares.iter().map(|share| share.max(0.0) / largest);
    let sum: f64 = parts().sum();
    sum * sum / (shares.len() as f64 * parts().map(|part| part * part).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_shares() {
        assert_eq!(jain(&[4.0, 4.0, 4.0]), 1.0);
        assert!((jain(&[12.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        // Two of four share all: a half.
        assert!((jain(&[1.0, 1.0, 0.0, 0.0]) - 0.5).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (0.0, 0.0));
        assert!((jain(&[f64::MAX, f64::MAX]) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn it_lies_between_one_for_all_and_one(shares in prop::collection::vec(0.0..1e9_f64, 1..40)) {
            prop_assume!(shares.iter().any(|share| *share > 0.0));
            let index = jain(&shares);
            prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-9 && index <= 1.0 + 1e-9, "{index}");
        }

        #[test]
        fn the_unit_does_not_matter(shares in prop::collection::vec(0.0..1e6_f64, 1..40), scale in 0.001..1e3_f64) {
            let scaled: Vec<f64> = shares.iter().map(|share| share * scale).collect();
            prop_assert!((jain(&shares) - jain(&scaled)).abs() < 1e-9);
        }
    }
}
