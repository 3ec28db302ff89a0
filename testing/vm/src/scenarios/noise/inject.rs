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
    /// Nanoseconds of the thread, by the kernel's account.
    pub nanos: u64,
    /// The longest, by the clock.
    pub longest: u64,
    /// When the first began and the last was over: CLOCK_MONOTONIC_RAW.
    pub from: u64,
    /// The end.
    pub until: u64,
}

impl Made {
    /// What [`inject`] printed.
    ///
    /// # Errors
    /// If that is something else.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let words: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match words[..] {
            [times, nanos, longest, from, until] => Ok(Self { times, nanos, longest, from, until }),
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
    let (mut nanos, mut longest, mut began, mut until) = (0, 0, 0, 0);
    for turn in 0..times {
        sleep_until(first + turn * PERIOD);
        let length = if turn == times / 2 { STALL } else { LENGTH };
        let from = now(ClockId::MonotonicRaw);
        while now(ClockId::MonotonicRaw) < from + length {}
        until = now(ClockId::MonotonicRaw);
        longest = longest.max(until - from);
        began = if turn == 0 { from } else { began };
        nanos = now(ClockId::ThreadCPUTime) - before;
    }
    let unnamed = named.and_then(|()| rustix::thread::set_name(c"inject"));
    sleep_until(now(ClockId::Monotonic) + PERIOD);
    println!("{times} {nanos} {longest} {began} {until}");
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
        let made = Made { times: 7, nanos: 8, longest: 9, from: 1, until: 2 };
        assert_eq!(Made::parse("7 8 9 1 2\n").expect("five figures"), made);
        assert!(Made::parse("7 8\n").is_err());
    }
}
