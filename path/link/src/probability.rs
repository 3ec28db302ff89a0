//! Probabilities for fault injection.

use core::fmt;
use core::str::FromStr;
use random::SplitMix64;

/// A probability, zero by default. Reads as `0.01` or `1%`.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAProbability;

impl fmt::Display for NotAProbability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a probability: 0 to 1, or 0% to 100%")
    }
}

impl core::error::Error for NotAProbability {}

impl FromStr for Probability {
    type Err = NotAProbability;

    fn from_str(text: &str) -> Result<Self, NotAProbability> {
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let p = number.parse::<f64>().map_err(|_| NotAProbability)? / scale;
        if (0.0..=1.0).contains(&p) { Ok(Self::new(p)) } else { Err(NotAProbability) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_read_and_print() {
        assert_eq!("1%".parse(), Ok(Probability::new(0.01)));
        assert_eq!("0.01".parse(), Ok(Probability::new(0.01)));
        assert_eq!("100%".parse(), Ok(Probability::ALWAYS));
        assert_eq!("0".parse(), Ok(Probability::NEVER));
        assert_eq!("1".parse(), Ok(Probability::ALWAYS));
        for wrong in ["", "%", "x", "-1%", "1.1", "101%", "nan", "inf"] {
            assert_eq!(wrong.parse::<Probability>(), Err(NotAProbability), "{wrong}");
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
