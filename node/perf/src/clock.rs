//! Ticks of the processor, and the clock that events are stamped with.

#[cfg(target_arch = "x86_64")]
pub use cpu::tsc::read as ticks;

use cpu::tsc::Trust;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC_RAW.
#[must_use]
pub fn raw() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    (now.tv_sec.cast_unsigned()).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

/// There is no counter that programs may read: nanoseconds of [`raw`].
#[cfg(not(target_arch = "x86_64"))]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    raw()
}

/// Whether all cores count the same ticks, as the kernel found. Between two
/// moments of [`Pair`] that is enough, as the rate is measured between them.
///
/// # Errors
/// What it keeps time by instead.
pub fn steady() -> Result<(), String> {
    match Trust::here() {
        Trust::Whole | Trust::Near => Ok(()),
        Trust::Not(other) => {
            Err(format!("the kernel keeps time by {other}, not by the TSC: cores may not agree on it"))
        }
    }
}

/// The same moment by both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// By [`ticks`].
    pub ticks: u64,
    /// By [`raw`].
    pub raw: u64,
}

impl Pair {
    /// Now: the best of several tries, since anything may come between two
    /// readings.
    #[must_use]
    pub fn now() -> Self {
        let mut best = (u64::MAX, Self { ticks: 0, raw: 0 });
        for _ in 0..8 {
            let before = ticks();
            let raw = raw();
            let after = ticks();
            let took = after.wrapping_sub(before);
            if took < best.0 {
                best = (took, Self { ticks: before.wrapping_add(took / 2), raw });
            }
        }
        best.1
    }
}

/// From ticks to nanoseconds: a line through two moments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    near: Pair,
    nanos_per_tick: f64,
}

impl Scale {
    /// The rate between two moments, counted from the later. Two at the same
    /// time have the rate 1.
    #[must_use]
    pub fn between(first: Pair, later: Pair) -> Self {
        let ticks = later.ticks.wrapping_sub(first.ticks);
        let nanos = later.raw.wrapping_sub(first.raw);
        let rate = if ticks == 0 { 1.0 } else { nanos as f64 / ticks as f64 };
        Self { near: later, nanos_per_tick: rate }
    }

    /// The time of a moment near the later one.
    #[must_use]
    pub fn raw(&self, ticks: u64) -> u64 {
        let distance = ticks.wrapping_sub(self.near.ticks).cast_signed();
        self.near.raw.wrapping_add_signed((distance as f64 * self.nanos_per_tick) as i64)
    }

    /// A span in ticks.
    #[must_use]
    pub fn ticks(&self, nanos: u64) -> u64 {
        (nanos as f64 / self.nanos_per_tick) as u64
    }

    /// A span in nanoseconds.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_time_before_and_after_the_later_moment() {
        let first = Pair { ticks: 1_000, raw: 500_000 };
        let later = Pair { ticks: 4_001_000, raw: 2_500_000 };
        let scale = Scale::between(first, later);
        assert_eq!(scale.raw(later.ticks), later.raw);
        assert_eq!(scale.raw(later.ticks + 2_000), later.raw + 1_000);
        assert_eq!(scale.raw(later.ticks - 2_000), later.raw - 1_000);
        assert_eq!((scale.ticks(500), scale.nanos(10)), (1_000, 5.0));
        // A counter that wraps between two readings.
        let wrapped = Scale::between(Pair { ticks: u64::MAX - 999, raw: 0 }, Pair { ticks: 1_000, raw: 4_000 });
        assert_eq!(wrapped.raw(u64::MAX - 999), 0);
    }

    #[test]
    fn both_clocks_run() {
        let first = Pair::now();
        while raw() < first.raw + 1_000_000 {}
        let later = Pair::now();
        assert!(later.ticks != first.ticks && later.raw > first.raw);
        let scale = Scale::between(first, later);
        assert!(scale.raw(first.ticks).abs_diff(first.raw) < 1_000, "{scale:?}");
    }
}
