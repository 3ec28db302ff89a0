//! The processor's time-stamp counter: what a tester stamps frames with, a
//! forwarder counts its cycles by, and the noise of a core is seen in. Reading
//! it takes some 20 ns less than asking the kernel's clock.
//!
//! Two things are asked of it, and [`Trust`] has an answer for each. [`Ticks`]
//! measures its rate once and relies on that for hours: only where the kernel
//! itself does so is it relied on. Who measures the rate again and again, as
//! `perf::clock` does, needs no more than that cores agree and that it runs on
//! between two moments near each other, which is so below a hypervisor's clock,
//! too.

use crate::Clock;
use core::time::Duration;
use wire::Time;

/// Readings of both clocks for one point of a calibration; the one that was
/// interrupted least counts.
const READINGS: usize = 16;

/// Readings by which the counter's own resolution is known.
const STEPS: usize = 1_000;

/// What counts as the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickSource {
    /// The time-stamp counter, at one rate whatever the processor does.
    Tsc,
    /// The kernel's monotonic clock: the counter cannot be relied on here.
    Kernel,
}

/// A fast monotonic clock, and how fast it runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ticks {
    source: TickSource,
    hz: u64,
    /// How far apart the two readings of each end of the calibration were, as
    /// a share of its length: what the rate may be wrong by.
    error: f64,
}

impl Ticks {
    /// Measures the counter against the kernel's clock for `span`. Where the
    /// kernel itself does not trust it, or it does not run at one rate, the
    /// kernel's clock stands in.
    #[must_use]
    pub fn calibrate(span: Duration) -> Self {
        if Trust::here() != Trust::Whole {
            return Self { source: TickSource::Kernel, hz: 1_000_000_000, error: 0.0 };
        }
        let first = pair();
        std::thread::sleep(span);
        let last = pair();
        let nanos = last.1.since(first.1).as_nanos() as f64;
        let hz = last.0.wrapping_sub(first.0) as f64 * 1e9 / nanos;
        let unsure = (first.2 + last.2) as f64 / 2.0;
        Self { source: TickSource::Tsc, hz: (hz.round() as u64).max(1), error: unsure / hz * 1e9 / nanos }
    }

    /// The count now.
    #[inline(always)]
    #[must_use]
    pub fn now(self) -> u64 {
        match self.source {
            TickSource::Tsc => read(),
            TickSource::Kernel => Clock.now().as_nanos(),
        }
    }

    /// Ticks per second.
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// Where they come from.
    #[must_use]
    pub const fn source(self) -> TickSource {
        self.source
    }

    /// What the rate may be wrong by, as a share of it.
    #[must_use]
    pub const fn error(self) -> f64 {
        self.error
    }

    /// The smallest step between two readings that differ, and the usual
    /// one, in nanoseconds: the resolution, and what a reading costs.
    #[must_use]
    pub fn resolution(self) -> (f64, f64) {
        let mut steps = Vec::with_capacity(STEPS);
        let mut last = self.now();
        for _ in 0..STEPS {
            let now = self.now();
            steps.push(now.wrapping_sub(last));
            last = now;
        }
        steps.sort_unstable();
        let nanos = |ticks: u64| ticks as f64 * 1e9 / self.hz as f64;
        let smallest = steps.iter().copied().find(|step| *step > 0).unwrap_or(0);
        (nanos(smallest), nanos(steps[STEPS / 2]))
    }
}

/// Counter and clock of one moment, and how many ticks the reading took.
fn pair() -> (u64, Time, u64) {
    let one = |_| {
        let before = read();
        let time = Clock.now();
        let took = read().wrapping_sub(before);
        (before.wrapping_add(took / 2), time, took)
    };
    (0..READINGS).map(one).min_by_key(|reading| reading.2).unwrap_or((0, Time::ZERO, 0))
}

/// How far the counter can be relied on, by what the kernel makes its own clock
/// of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The kernel's clock is the counter, which it is only where the kernel has
    /// found one rate on all processors: one rate for as long as the machine is
    /// up.
    Whole,
    /// A hypervisor's clock is made of it, whose figures change where the
    /// machine is moved to another host; or the kernel does not say. Cores
    /// agree; a rate that was measured once need not hold for good.
    Near,
    /// The kernel uses this instead: cores may not agree on the counter.
    Not(String),
}

impl Trust {
    /// What this machine says.
    #[must_use]
    pub fn here() -> Self {
        const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        Self::of(&std::fs::read_to_string(FILE).unwrap_or_default())
    }

    /// What it is to be trusted while the kernel uses this clock.
    fn of(used: &str) -> Self {
        match used.trim() {
            _ if cfg!(not(target_arch = "x86_64")) => Self::Near,
            "tsc" => Self::Whole,
            "" | "kvm-clock" | "hyperv_clocksource_tsc_page" => Self::Near,
            other => Self::Not(other.to_owned()),
        }
    }
}

/// The counter now.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn read() -> u64 {
    // SAFETY: every 64-bit x86 processor has the instruction, and Linux lets programs use it (PR_SET_TSC apart, under
    // which the program would end, and nothing else happen).
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Where there is none, nanoseconds of the kernel's monotonic clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn read() -> u64 {
    Clock.now().as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_go_forward_at_the_rate_that_was_measured() {
        let ticks = Ticks::calibrate(Duration::from_millis(20));
        let (began, clock) = (ticks.now(), Clock.now());
        std::thread::sleep(Duration::from_millis(20));
        let passed = ticks.now().wrapping_sub(began) as f64 / ticks.hz() as f64;
        // What the machine does in between is in both: they differ by less than that.
        let beside = Clock.now().since(clock).as_secs_f64();
        assert!(passed >= 0.019 && passed <= beside * 1.01, "{passed} s beside {beside} s");
        assert!(ticks.error() < 0.5, "{}", ticks.error());
        let (step, usual) = ticks.resolution();
        assert!(step > 0.0 && usual >= 0.0);
    }

    #[test]
    fn a_counter_that_the_kernel_does_not_use_is_trusted_for_moments_at_most() {
        assert_eq!(Trust::of(""), Trust::Near);
    }
}
