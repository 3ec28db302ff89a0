//! The machine's clocks.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use wire::Time;

/// The machine's monotonic clock: the only one that a bypass silo reads, once
/// per turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The time now.
    #[inline]
    #[must_use]
    pub fn now(self) -> Time {
        nanos(ClockId::Monotonic)
    }

    /// The wall clock, as time since 1970.
    #[must_use]
    pub fn unix(self) -> Duration {
        Duration::from_nanos(nanos(ClockId::Realtime).as_nanos())
    }
}

/// What this thread has had of a core.
#[must_use]
pub fn thread_time() -> Time {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(clock: ClockId) -> Time {
    let at = clock_gettime(clock);
    Time::from_nanos((at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64))
}
