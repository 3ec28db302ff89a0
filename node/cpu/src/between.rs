//! How far two cores are from each other: how long a cache line takes from one to the other and back.
//! Threads of one core take some 50 ns, cores that share a cache as much or twice, those of two sockets
//! several hundred; what two cores pass on to each other by memory goes at that pace. A hypervisor may move its
//! guests' cores while a measurement runs.

use crate::Clock;
use crate::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::thread;

/// Round trips of which one mean is taken, and how many such means: the least counts, for either core may be taken
/// away meanwhile.
const TRIPS: u32 = 100;
const MEANS: u32 = 40;

/// A line that two cores share with nothing else; some fetch two at a time.
#[repr(align(128))]
struct Line(AtomicU32);

/// What the two sides share.
struct Shared {
    line: Line,
    /// One of them cannot be where it is to be.
    failed: AtomicBool,
}

impl Shared {
    /// Waits for this value; whether it will come.
    fn comes_to(&self, wanted: u32) -> bool {
        while self.line.0.load(Ordering::Acquire) != wanted {
            if self.failed.load(Ordering::Relaxed) {
                return false;
            }
            core::hint::spin_loop();
        }
        true
    }

    fn set(&self, value: u32) {
        self.line.0.store(value, Ordering::Release);
    }

    /// Has this thread be on a core; nothing if it cannot.
    fn pin(&self, core: u16) -> Option<()> {
        pin(core).inspect_err(|_| self.failed.store(true, Ordering::Relaxed)).ok()
    }
}

/// A cache line goes from one core to the other and back: in this time, both being at work for a millisecond or so on
/// nothing else; nothing if these are no two cores of this process.
#[must_use]
pub fn line_round_trip(one: u16, other: u16) -> Option<Duration> {
    if one == other {
        return None;
    }
    let shared = Shared { line: Line(AtomicU32::new(0)), failed: AtomicBool::new(false) };
    thread::scope(|scope| {
        scope.spawn(|| {
            shared.pin(other)?;
            let mut trips = 0..TRIPS * MEANS;
            trips.try_for_each(|trip| shared.comes_to(2 * trip + 1).then(|| shared.set(2 * trip + 2)))
        });
        let there = scope.spawn(|| {
            shared.pin(one)?;
            let mut least = Duration::MAX;
            for mean in 0..MEANS {
                let began = Clock.now();
                for trip in mean * TRIPS..(mean + 1) * TRIPS {
                    shared.set(2 * trip + 1);
                    if !shared.comes_to(2 * trip + 2) {
                        return None;
                    }
                }
                least = least.min(Clock.now().since(began) / TRIPS);
            }
            Some(least)
        });
        there.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pin::allowed_cores;

    #[test]
    fn a_line_takes_some_time_between_two_cores_and_there_are_two() {
        let cores = allowed_cores().expect("they are told");
        if let [one, other, ..] = cores[..] {
            let took = line_round_trip(one, other).expect("both are there");
            assert!(took > Duration::ZERO && took < Duration::from_millis(1), "{took:?}");
        }
        assert_eq!(line_round_trip(cores[0], cores[0]), None);
        assert_eq!(line_round_trip(cores[0], u16::MAX), None);
        assert_eq!(line_round_trip(u16::MAX, cores[0]), None);
    }
}
