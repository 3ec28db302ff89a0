//! Seeded random numbers: the same on every machine.

/// SplitMix64: one word of state, every seed good.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        low + ((u128::from(self.word()) * span) >> 64) as u64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.range(1, n.max(1)) == 1
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() as u64 - 1) as usize]
    }
}
