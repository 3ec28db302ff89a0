//! Probabilities for fault injection.

use core::fmt;
use core::str::FromStr;
use random::SplitMix64;

/// A probability, zero by default. Reads as `1%`, with the sign: of `1` nobody knows
/// whether one in a hundred is meant or always.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(u64::MAX);

    /// From a number in 0 to 1, clamped; not a number is never.
    #[must_use]
    pub fn new(p: f64) -> Self {
        // A cast from float saturates, so 1.0 becomes the largest threshold.
        Self((p * TWO_TO_64) as u64)
    }

    /// As a number in 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / TWO_TO_64
    }

    /// Whether it happens this time. Draws nothing for the certain cases, so that
    /// a fault switched off moves no other draw.
    pub(crate) const fn hits(self, random: &mut SplitMix64) -> bool {
        match self.0 {
            0 => false,
            u64::MAX => true,
            threshold => random.bits() < threshold,
        }
    }
}

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.as_f64() * 1e8).round() / 1e6)
    }
}

/// The text is no probability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NotAProbability {
    /// It is none.
    Other,
    /// It is a number without a sign, which may be meant as percent or as a probability.
    Bare(f64),
}

impl fmt::Display for NotAProbability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bare(number) if number > 0.0 && number <= 1.0 => {
                let always = (number * 1e8).round() / 1e6;
                write!(f, "{number}% or {always}%? write a share with its sign")
            }
            Self::Bare(number) => write!(f, "write a share with its sign, as in {number}%"),
            Self::Other => f.write_str("expected a share from 0% to 100%, with its sign, as in 0.5%"),
        }
    }
}

impl core::error::Error for NotAProbability {}

impl FromStr for Probability {
    type Err = NotAProbability;

    fn from_str(text: &str) -> Result<Self, NotAProbability> {
        let (number, signed) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let percent = number.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        match percent.ok_or(NotAProbability::Other)? {
            percent if signed => Ok(Self::new(percent / 100.0)),
            number => Err(NotAProbability::Bare(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_read_and_print() {
        assert_eq!("1%".parse(), Ok(Probability::new(0.01)));
        assert_eq!("100%".parse(), Ok(Probability::ALWAYS));
        assert_eq!("0%".parse(), Ok(Probability::NEVER));
        assert_eq!("0.5 %".parse(), Ok(Probability::new(0.005)));
        for wrong in ["", "%", "x", "-1%", "101%", "nan%", "inf%", "-1", "101", "nan", "1%%"] {
            assert_eq!(wrong.parse::<Probability>(), Err(NotAProbability::Other), "{wrong}");
        }
        // One in a hundred, or always: whoever wrote it is asked.
        for (bare, told) in [
            ("1", "1% or 100%?"),
            ("0.01", "0.01% or 1%?"),
            ("0.5", "0.5% or 50%?"),
            ("1.5", "as in 1.5%"),
            ("0", "as in 0%"),
            ("100", "as in 100%"),
        ] {
            let why = bare.parse::<Probability>().expect_err(bare).to_string();
            assert!(why.contains(told) && why.contains("with its sign"), "{bare}: {why}");
        }
        assert_eq!(Probability::new(0.001).to_string(), "0.1%");
        assert_eq!(Probability::ALWAYS.to_string(), "100%");
        assert_eq!(Probability::new(f64::NAN), Probability::NEVER);
    }

    #[test]
    fn draws_follow_the_probability() {
        let mut random = SplitMix64::new(1);
        let hits = (0..100_000).filter(|_| Probability::new(0.1).hits(&mut random)).count();
        assert!((9_700..10_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| Probability::ALWAYS.hits(&mut random)));
        assert!(!(0..1000).any(|_| Probability::NEVER.hits(&mut random)));
    }
}
