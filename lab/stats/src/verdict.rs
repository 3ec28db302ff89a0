//! Whether a difference is one.
//!
//! The interval of [`effect`](crate::effect) decides, not the ratio alone:
//!
//! - *equivalent* if the whole interval lies within the margin: two one-sided
//!   tests (Schuirmann: A comparison of the two one-sided tests procedure and
//!   the power approach for assessing the equivalence of average
//!   bioavailability, 1987), here each at 2.5 %, because the interval is that
//!   of 95 %. That no difference was found is not equivalence. Where the
//!   machine's noise floor is above the margin, nothing is equivalent.
//! - *faster* or *slower* if the whole interval lies on one side of 1, and the
//!   ratio is beyond what the machine showed between two arms that are the
//!   same (the noise floor).
//! - *inconclusive* otherwise, with the reason.
//!
//! Where both sides are the same, at most 5 in 100 figures are called faster
//! or slower (1 − [`LEVEL`](crate::LEVEL)); the noise floor lowers this. The
//! share is of each figure on its own: who looks at twenty finds one.

use crate::bootstrap::{Effect, MIN_RUNS};
use core::fmt;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// More is better: requests per second.
    Higher,
    /// Less is better: latency, CPU time.
    Lower,
}

/// What counts as a difference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policy {
    /// Which way is better.
    pub better: Better,
    /// Differences up to this share do not matter: 0.02 is 2 %.
    pub margin: f64,
    /// What the machine shows between arms that are the same, as a share; see
    /// [`noise_floor`]. Zero if there was no control.
    pub floor: f64,
}

/// What a comparison says of the candidate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It is better than the baseline.
    Faster,
    /// It is worse than the baseline.
    Slower,
    /// It differs by less than the margin, if at all.
    Equivalent,
    /// The runs do not tell.
    Inconclusive(Reason),
}

/// Why runs do not tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// A ratio needs a baseline that is not zero.
    NoRatio,
    /// Fewer than [`MIN_RUNS`] runs on a side.
    TooFewRuns,
    /// The interval holds 1 and reaches beyond the margin: more runs may tell.
    TooWide,
    /// Arms that are the same differ by more than this, or than the margin.
    WithinNoise,
}

impl Verdict {
    /// The word in tables and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equivalent => "equivalent",
            Self::Inconclusive(_) => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inconclusive(reason) => write!(f, "inconclusive: {reason}"),
            _ => f.write_str(self.name()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRatio => f.write_str("the baseline is zero or unknown"),
            Self::TooFewRuns => write!(f, "fewer than {MIN_RUNS} runs"),
            Self::TooWide => f.write_str("the interval is too wide"),
            Self::WithinNoise => f.write_str("within the noise of the control"),
        }
    }
}

/// The share by which two arms that are the same seemed to differ here. Zero
/// without a control: the intervals already hold what varies from run to run;
/// the control shows what they cannot know of, such as drift or an order that
/// matters.
#[must_use]
pub fn noise_floor(control: Option<Effect>) -> f64 {
    control.map_or(0.0, |effect| if effect.ratio > 0.0 { distance(effect.ratio) } else { f64::INFINITY })
}

/// How far a ratio is from 1, as a share, alike for both directions.
fn distance(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

/// What the runs say; see the module.
#[must_use]
pub fn verdict(effect: Option<Effect>, policy: Policy) -> Verdict {
    let Some(effect) = effect else { return Verdict::Inconclusive(Reason::NoRatio) };
    let Some((low, high)) = effect.interval else { return Verdict::Inconclusive(Reason::TooFewRuns) };
    let margin = 1.0 + policy.margin;
    // A difference of no interest is none, however sure it is.
    if low >= 1.0 / margin && high <= margin {
        let told_apart = policy.floor <= policy.margin;
        return if told_apart { Verdict::Equivalent } else { Verdict::Inconclusive(Reason::WithinNoise) };
    }
    if low <= 1.0 && high >= 1.0 {
        return Verdict::Inconclusive(Reason::TooWide);
    }
    if effect.ratio > 0.0 && distance(effect.ratio) <= policy.floor {
        return Verdict::Inconclusive(Reason::WithinNoise);
    }
    match (policy.better, low > 1.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Faster,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Slower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratio: f64, low: f64, high: f64) -> Option<Effect> {
        Some(Effect { ratio, interval: Some((low, high)), runs: 10 })
    }

    fn judged(effect: Option<Effect>, floor: f64) -> Verdict {
        verdict(effect, Policy { better: Better::Higher, margin: 0.02, floor })
    }

    #[test]
    fn the_interval_decides() {
        assert_eq!(judged(of(1.10, 1.05, 1.15), 0.0), Verdict::Faster);
        assert_eq!(judged(of(0.90, 0.85, 0.95), 0.0), Verdict::Slower);
        assert_eq!(judged(of(1.00, 0.99, 1.01), 0.0), Verdict::Equivalent);
        assert_eq!(judged(of(1.01, 1.005, 1.015), 0.0), Verdict::Equivalent, "sure, but of no interest");
        assert_eq!(judged(of(1.05, 0.95, 1.15), 0.0), Verdict::Inconclusive(Reason::TooWide));
        assert_eq!(judged(None, 0.0), Verdict::Inconclusive(Reason::NoRatio));
        let few = Some(Effect { ratio: 2.0, interval: None, runs: 4 });
        assert_eq!(judged(few, 0.0), Verdict::Inconclusive(Reason::TooFewRuns));
    }

    #[test]
    fn less_may_be_better() {
        let lower = |effect| verdict(effect, Policy { better: Better::Lower, margin: 0.02, floor: 0.0 });
        assert_eq!(lower(of(0.5, 0.4, 0.6)), Verdict::Faster);
        assert_eq!(lower(of(2.0, 1.5, 2.5)), Verdict::Slower);
    }

    #[test]
    fn the_control_bounds_what_is_believed() {
        assert_eq!(judged(of(1.10, 1.05, 1.15), 0.12), Verdict::Inconclusive(Reason::WithinNoise));
        assert_eq!(judged(of(1.20, 1.05, 1.35), 0.12), Verdict::Faster);
        assert_eq!(judged(of(1.00, 0.99, 1.01), 0.03), Verdict::Inconclusive(Reason::WithinNoise));
        assert!((noise_floor(of(0.9, 0.8, 1.05)) - (1.0 / 0.9 - 1.0)).abs() < 1e-12);
        assert!((noise_floor(of(1.1, 0.8, 1.2)) - 0.1).abs() < 1e-12);
        assert_eq!(noise_floor(None), 0.0);
        assert_eq!(noise_floor(of(0.0, 0.0, 1.05)), f64::INFINITY);
    }
}
