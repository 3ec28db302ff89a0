//! Wall-clock time without a clock.

use core::time::Duration;
use wire::Time;

/// Where the data path's monotonic time stands in unix time. The runtime reads
/// both clocks together and hands the pair over; a step of the wall clock
/// reaches the server by `Server::set_wall_clock`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallClock {
    /// Unix nanoseconds at [`Time::ZERO`].
    origin: i128,
}

impl WallClock {
    /// A clock that showed `unix` (since 1970-01-01T00:00:00Z) at `now`.
    #[must_use]
    pub const fn new(now: Time, unix: Duration) -> Self {
        Self { origin: unix.as_nanos() as i128 - now.as_nanos() as i128 }
    }

    /// Unix seconds at `now`, 0 before 1970.
    #[must_use]
    pub const fn unix_seconds(self, now: Time) -> u64 {
        let nanos = self.origin + now.as_nanos() as i128;
        if nanos < 0 { 0 } else { (nanos / 1_000_000_000) as u64 }
    }

    /// When the next unix second begins: until then `unix_seconds` stays.
    #[must_use]
    pub const fn next_second(self, now: Time) -> Time {
        let nanos = self.origin + now.as_nanos() as i128;
        let left = 1_000_000_000 - nanos.rem_euclid(1_000_000_000) as u64;
        Time::from_nanos(now.as_nanos().saturating_add(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_follow_the_offset() {
        let clock = WallClock::new(Time::from_millis(250), Duration::from_millis(1_000_900));
        assert_eq!(clock.unix_seconds(Time::from_millis(250)), 1000);
        assert_eq!(clock.next_second(Time::from_millis(250)), Time::from_millis(350));
        assert_eq!(clock.unix_seconds(Time::from_millis(349)), 1000);
        assert_eq!(clock.unix_seconds(Time::from_millis(350)), 1001);
        assert_eq!(clock.next_second(Time::from_millis(350)), Time::from_millis(1350));
    }

    #[test]
    fn times_before_1970_read_as_zero() {
        let clock = WallClock::new(Time::from_millis(5_000), Duration::ZERO);
        assert_eq!(clock.unix_seconds(Time::ZERO), 0);
        assert_eq!(clock.next_second(Time::ZERO), Time::from_millis(1_000));
    }
}
