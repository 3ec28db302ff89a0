//! A thread that disturbs: 200 us each 10 ms, and once 5 ms.

use crate::Failure;
use crate::guest::output;
use rustix::thread::{ClockId as Sleeping, CpuSet, clock_nanosleep_absolute, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::process::{Command, ExitCode};

/// Nanoseconds between two, of each, and of the one stall.
const PERIOD: u64 = 10_000_000;
const LENGTH: u64 = 200_000;
const STALL: u64 = 5_000_000;
/// The time until the first, in periods.
const LEAD: u64 = 20;

/// What was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// How many.
    pub times: u64,
    /// Nanoseconds of the thread, by the kernel's account: with its way to the core
    /// and from it, and what interrupted it.
    pub nanos: u64,
    /// Nanoseconds between the first and the last look of each at the clock: what it
    /// took from the core for certain.
    pub spun: u64,
    /// The longest, by the clock.
    pub longest: u64,
    /// When the first began and the last was over: CLOCK_MONOTONIC_RAW.
    pub from: u64,
    /// The end.
    pub until: u64,
}

impl Made {
    /// By which share a tool's total is outside of what was made: below what the thread
    /// took for certain, or above what the kernel charges it. Between them lie the
    /// thread's ways to the core and from it, which are of the disturbance for one and
    /// of the kernel for another.
    pub fn off(&self, found: u64) -> f64 {
        let (least, most, found) = (self.spun.min(self.nanos) as f64, self.nanos as f64, found as f64);
        if found < least { found / least - 1.0 } else { (found / most - 1.0).max(0.0) }
    }

    /// What [`inject`] printed.
    ///
    /// # Errors
    /// If that is something else.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let words: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match words[..] {
            [times, nanos, spun, longest, from, until] => Ok(Self { times, nanos, spun, longest, from, until }),
            _ => Err(format!("this is no account of disturbances: {text}").into()),
        }
    }
}

/// Its thread's name while it disturbs.
pub const NAME: &str = "injected";

/// Disturbs a core so many times, and prints what that took.
pub fn inject(core: usize, times: u64) -> ExitCode {
    // Getting here, and going, is done elsewhere, and has another name.
    if let Err(why) = before_all(core) {
        eprintln!("inject: {why}");
        return ExitCode::FAILURE;
    }
    let named = rustix::thread::set_name(c"injected");
    let before = now(ClockId::ThreadCPUTime);
    let first = now(ClockId::Monotonic) + LEAD * PERIOD;
    let (mut nanos, mut spun, mut longest, mut began, mut until) = (0, 0, 0, 0, 0);
    for turn in 0..times {
        sleep_until(first + turn * PERIOD);
        let length = if turn == times / 2 { STALL } else { LENGTH };
        let from = now(ClockId::MonotonicRaw);
        while now(ClockId::MonotonicRaw) < from + length {}
        until = now(ClockId::MonotonicRaw);
        spun += until - from;
        longest = longest.max(until - from);
        began = if turn == 0 { from } else { began };
        nanos = now(ClockId::ThreadCPUTime) - before;
    }
    let unnamed = named.and_then(|()| rustix::thread::set_name(c"inject"));
    sleep_until(now(ClockId::Monotonic) + PERIOD);
    println!("{times} {nanos} {spun} {longest} {began} {until}");
    ExitCode::from(u8::from(unnamed.is_err()))
}

/// A thread that comes before all that share time, on this core.
fn before_all(core: usize) -> Result<(), Failure> {
    let own = std::process::id().to_string();
    output(Command::new("chrt").args(["-f", "-p", "50", &own]))?;
    let mut there = CpuSet::new();
    there.set(core);
    sched_setaffinity(None, &there)?;
    sleep_until(now(ClockId::Monotonic) + PERIOD);
    Ok(())
}

/// Until then by the monotonic clock.
fn sleep_until(due: u64) {
    let until = Timespec { tv_sec: (due / 1_000_000_000).cast_signed(), tv_nsec: (due % 1_000_000_000).cast_signed() };
    // A signal ends it early, which does no harm.
    let _ = clock_nanosleep_absolute(Sleeping::Monotonic, &until);
}

/// CLOCK_MONOTONIC_RAW, by which gaps are told.
pub fn raw() -> u64 {
    now(ClockId::MonotonicRaw)
}

fn now(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let made = Made { times: 7, nanos: 8, spun: 6, longest: 9, from: 1, until: 2 };
        assert_eq!(Made::parse("7 8 6 9 1 2\n").expect("six figures"), made);
        // Within both bounds, below the least, and above the most.
        assert_eq!([6, 7, 8].map(|found| made.off(found)), [0.0; 3]);
        assert_eq!((made.off(3), made.off(12)), (-0.5, 0.5));
        assert!(Made::parse("7 8\n").is_err());
    }
}
