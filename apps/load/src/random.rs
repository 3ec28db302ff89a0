//! Seeded random numbers: fast, and good enough to choose by.

/// xorshift64*, by Vigna (2016), "An experimental exploration of Marsaglia's
/// xorshift generators, scrambled".
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; each seed gives a sequence of its own.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, each with the same probability: the upper half of
    /// the bits, scaled.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// A span of the unit-rate exponential distribution, at most 37.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 53 bits, never zero: above 0 and at most 1.
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}
