//! The ratio of two sets of runs, and how sure it is.
//!
//! The interval is the percentile interval of the bootstrap (Efron: Bootstrap
//! methods, The Annals of Statistics 7(1), 1979) with expanded percentiles
//! (Hesterberg: What teachers should know about the bootstrap, The American
//! Statistician 69(4), 2015, section 5.1.2): of few runs the plain one is too
//! narrow by the factor √((n−1)/n) and by what sets the t distribution apart
//! from the normal one, so its percentiles are moved outwards by as much. Not
//! `BCa`: its correction is itself estimated from the runs, and of five to
//! twenty of them makes the coverage worse.
//! `tests/simulations.rs` shows what the intervals cover.

use crate::random::Random;
use crate::sample::{mean, median, sorted_quantile};

/// How often an interval is to hold the true ratio.
pub const LEVEL: f64 = 0.95;

/// Fewer runs on a side than this give no interval: even from the least to
/// the most of four values is no interval of 95 % for their median
/// (1 − 2 × ½⁴ = 87.5 %).
pub const MIN_RUNS: usize = 5;

/// Resamples behind an interval: enough for the thousandth part at its ends
/// that five runs ask for.
pub const RESAMPLES: usize = 10_000;

/// What stands for a set of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Centre {
    /// The median: one disturbed run does not move it. The usual.
    #[default]
    Median,
    /// The mean.
    Mean,
}

impl Centre {
    fn of(self, values: &[f64]) -> f64 {
        match self {
            Self::Median => median(values),
            Self::Mean => mean(values),
        }
    }
}

/// How the two sets belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// They were taken apart from each other: resampled apart.
    Independent,
    /// The runs at the same place are of the same round (blocks): resampled
    /// by round, so that what changes from round to round falls out.
    Rounds,
}

/// A candidate's figure ÷ the baseline's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    /// The ratio of the two centres.
    pub ratio: f64,
    /// The interval's ends; `None` with fewer than [`MIN_RUNS`] runs.
    pub interval: Option<(f64, f64)>,
    /// Runs on the smaller side.
    pub runs: usize,
}

/// Compares runs of a candidate with runs of a baseline. `None` where there
/// is no ratio: no runs, a value that is not finite or below zero, or a
/// baseline of zero under a candidate that is not.
///
/// With [`Design::Rounds`], runs beyond the shorter set's length are not
/// looked at.
#[must_use]
pub fn effect(candidate: &[f64], baseline: &[f64], centre: Centre, design: Design, seed: u64) -> Option<Effect> {
    let runs = candidate.len().min(baseline.len());
    let (candidate, baseline) = match design {
        Design::Independent => (candidate, baseline),
        Design::Rounds => (&candidate[..runs], &baseline[..runs]),
    };
    if runs == 0 || candidate.iter().chain(baseline).any(|value| !value.is_finite() || *value < 0.0) {
        return None;
    }
    let ratio = ratio(centre.of(candidate), centre.of(baseline))?;
    let interval = (runs >= MIN_RUNS).then(|| interval(candidate, baseline, centre, design, seed));
    Some(Effect { ratio, interval, runs })
}

/// `None` for something ÷ nothing; nothing ÷ nothing is no difference.
fn ratio(above: f64, below: f64) -> Option<f64> {
    match (above, below) {
        (0.0, 0.0) => Some(1.0),
        (_, 0.0) => None,
        _ => Some(above / below),
    }
}

fn interval(candidate: &[f64], baseline: &[f64], centre: Centre, design: Design, seed: u64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let mut above = vec![0.0; candidate.len()];
    let mut below = vec![0.0; baseline.len()];
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            match design {
                Design::Independent => {
                    above.iter_mut().for_each(|slot| *slot = candidate[random.below(candidate.len())]);
                    below.iter_mut().for_each(|slot| *slot = baseline[random.below(baseline.len())]);
                }
                Design::Rounds => {
                    for (up, down) in above.iter_mut().zip(&mut below) {
                        let round = random.below(candidate.len());
                        (*up, *down) = (candidate[round], baseline[round]);
                    }
                }
            }
            ratio(centre_in_place(centre, &mut above), centre_in_place(centre, &mut below)).unwrap_or(f64::INFINITY)
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = expanded_tail(above.len().min(below.len()));
    (sorted_quantile(&ratios, tail), sorted_quantile(&ratios, 1.0 - tail))
}

/// Without the copy that [`median`] makes: this runs for every resample.
fn centre_in_place(centre: Centre, values: &mut [f64]) -> f64 {
    match centre {
        Centre::Mean => mean(values),
        Centre::Median => {
            values.sort_unstable_by(f64::total_cmp);
            sorted_quantile(values, 0.5)
        }
    }
}

/// The share of resamples beyond either end: Φ(−√(n/(n−1)) × t), with the t
/// distribution's quantile for n − 1 degrees of freedom.
fn expanded_tail(runs: usize) -> f64 {
    let n = runs as f64;
    normal_below(-(n / (n - 1.0)).sqrt() * t_quantile(n - 1.0))
}

/// The normal distribution's quantile for (1 + [`LEVEL`]) ÷ 2.
const Z: f64 = 1.959_964;

/// The t distribution's quantile for (1 + [`LEVEL`]) ÷ 2, by its expansion
/// about the normal one (Abramowitz and Stegun, Handbook of mathematical
/// functions, 26.7.5); within a thousandth from four degrees of freedom on.
fn t_quantile(freedom: f64) -> f64 {
    let z = |power| Z.powi(power);
    let terms = [
        (z(3) + z(1)) / 4.0,
        (5.0 * z(5) + 16.0 * z(3) + 3.0 * z(1)) / 96.0,
        (3.0 * z(7) + 19.0 * z(5) + 17.0 * z(3) - 15.0 * z(1)) / 384.0,
        (79.0 * z(9) + 776.0 * z(7) + 1_482.0 * z(5) - 1_920.0 * z(3) - 945.0 * z(1)) / 92_160.0,
    ];
    // Nested from the last: each term is over one power of freedom more.
    Z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom)
}

/// Φ for arguments below zero, by Abramowitz and Stegun 7.1.26 (within
/// 1.5 × 10⁻⁷).
fn normal_below(x: f64) -> f64 {
    let x = -x / core::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592]
        .iter()
        .fold(0.0, |sum, factor| (sum + factor) * t);
    polynomial * (-x * x).exp() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, t) in [(4.0, 2.776), (5.0, 2.571), (9.0, 2.262), (19.0, 2.093), (30.0, 2.042), (1e6, 1.960)] {
            assert!((t_quantile(freedom) - t).abs() < 0.001, "{freedom}: {}", t_quantile(freedom));
        }
        for (x, below) in [(-1.0, 0.158_655), (-1.959_964, 0.025), (-3.104, 0.000_955)] {
            assert!((normal_below(x) - below).abs() < 1e-6, "{x}: {}", normal_below(x));
        }
    }

    #[test]
    fn more_runs_narrow_the_tails_to_the_level() {
        assert!(expanded_tail(5) < expanded_tail(10) && expanded_tail(10) < expanded_tail(1_000));
        assert!((expanded_tail(100_000) - (1.0 - LEVEL) / 2.0).abs() < 1e-4);
    }

    #[test]
    fn the_seed_decides() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 7.0], [2.0, 3.0, 4.0, 5.0, 6.0, 6.5]);
        let of = |seed| effect(&a, &b, Centre::Mean, Design::Independent, seed).expect("a ratio");
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).interval, of(2).interval);
    }

    #[test]
    fn what_has_no_ratio_has_none() {
        let of = |a: &[f64], b: &[f64]| effect(a, b, Centre::Median, Design::Independent, 1);
        assert_eq!(of(&[], &[1.0]), None);
        assert_eq!(of(&[1.0], &[0.0]), None);
        assert_eq!(of(&[f64::NAN], &[1.0]), None);
        assert_eq!(of(&[-1.0], &[1.0]), None);
        let none = of(&[0.0; 5], &[0.0; 5]).expect("no difference");
        assert_eq!((none.ratio, none.interval), (1.0, Some((1.0, 1.0))));
        assert_eq!(of(&[2.0; 4], &[1.0; 9]).expect("a ratio").interval, None, "too few runs");
    }

    #[test]
    fn rounds_take_out_what_rounds_share() {
        // Rounds differ by a factor of up to three, the arms by 10 %.
        let baseline = [100.0, 200.0, 300.0, 150.0, 250.0, 120.0];
        let candidate: Vec<f64> = baseline.iter().map(|value| value * 1.1).collect();
        let of = |design| effect(&candidate, &baseline, Centre::Mean, design, 1).and_then(|e| e.interval);
        let (low, high) = of(Design::Rounds).expect("an interval");
        assert!((low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9);
        let (low, high) = of(Design::Independent).expect("an interval");
        assert!(low < 0.8 && high > 1.5, "{low} {high}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_interval_is_around_the_ratio_and_within_the_values(
            a in prop::collection::vec(1.0..1e6_f64, 5..12),
            b in prop::collection::vec(1.0..1e6_f64, 5..12),
            seed in any::<u64>(),
        ) {
            let found = effect(&a, &b, Centre::Median, Design::Independent, seed).expect("a ratio");
            let (low, high) = found.interval.expect("an interval");
            prop_assert!(low <= found.ratio && found.ratio <= high);
            let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            prop_assert!(low >= least(&a) / most(&b) - 1e-9 && high <= most(&a) / least(&b) + 1e-9);
        }
    }
}
