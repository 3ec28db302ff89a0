//! Seeded random numbers: the same from the same seed, on every machine. Not for
//! secrets.
#![forbid(unsafe_code)]

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, OOPSLA 2014): one word of state, and every seed is good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `0..=most`, but for a bias of `most` ÷ 2^64.
    #[inline]
    pub const fn up_to(&mut self, most: u64) -> u64 {
        ((self.bits() as u128 * (most as u128 + 1)) >> 64) as u64
    }

    /// Uniform below `bound`, likewise; 0 for a bound of 0.
    #[inline]
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.bits() as u128 * bound as u128) >> 64) as usize
    }
}

/// A good hash of one word: what the generator makes of its state.
#[inline]
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let mut z = word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The reference implementation's first outputs for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = SplitMix64::new(1);
        assert!((0..1_000).all(|_| random.up_to(6) <= 6 && random.below(7) < 7));
        assert!((0..10).all(|_| (random.up_to(0), random.below(0), random.below(1)) == (0, 0, 0)));
        assert!((0..100).map(|_| random.up_to(u64::MAX)).any(|word| word > u64::MAX / 2));
    }
}
