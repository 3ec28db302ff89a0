//! Seeded random numbers: the same on every machine.

use core::time::Duration;
use random::SplitMix64;

/// What worlds are drawn from.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in `low..=high`.
    pub const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.up_to(high.saturating_sub(low))
    }

    /// In `low..=high`, each order of magnitude as likely as the next: small
    /// values, where the edges are, come as often as large ones.
    pub fn scale(&mut self, low: u64, high: u64) -> u64 {
        let low_bits = u64::from(low.max(1).ilog2());
        let high_bits = u64::from(high.max(1).ilog2());
        let bits = self.range(low_bits, high_bits);
        let top = (1u64 << bits).saturating_mul(2) - 1;
        self.range(1 << bits, top).clamp(low, high)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.range(1, n.max(1)) == 1
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() as u64 - 1) as usize]
    }

    /// Uniform in `low..=high` milliseconds, to the microsecond.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.range(low * 1_000, high * 1_000))
    }
}
