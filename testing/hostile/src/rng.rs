//! Seeded random numbers: the same on every machine.

use random::SplitMix64;

/// What bad input is drawn from.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub const fn word(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in `low..=high`.
    pub const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.up_to(high.saturating_sub(low))
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
