//! Seeded random numbers and probabilities for fault injection.

use core::fmt;
use core::str::FromStr;

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014): one word of state, every seed good, and the same
/// sequence on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..=max`.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        // The high half of the product; its bias is max / 2^64, far below
        // what any test could notice.
        ((u128::from(self.next()) * (u128::from(max) + 1)) >> 64) as u64
    }

    /// Whether an event of probability `p` happens. Draws nothing for the
    /// certain cases, so that a fault switched off moves no other draw.
    pub(crate) fn hit(&mut self, p: Probability) -> bool {
        match p.0 {
            0 => false,
            u64::MAX => true,
            threshold => self.next() < threshold,
        }
    }
}

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
    fn draws_follow_the_probability_and_the_seed() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.hit(Probability::new(0.1))).count();
        assert!((9_700..10_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.hit(Probability::ALWAYS)));
        assert!(!(0..1000).any(|_| random.hit(Probability::NEVER)));
        assert!((0..1000).all(|_| random.up_to(6) <= 6));
        assert!((0..10).all(|_| random.up_to(0) == 0));
        let _ = random.up_to(u64::MAX);
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next() == b.next()));
    }
}
