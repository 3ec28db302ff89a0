//! How fast bytes come and go, where others wait for their connection's place.

use core::time::Duration;
use wire::Time;

/// How long a client may let others wait for its place: many times what an answer takes to
/// any place on earth.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Bytes a second below which somebody else has a better use for a place.
const PACE: u64 = 500;

/// Bytes of a body that came sooner than at that rate count for as long, at most: a phone
/// may pass through a tunnel.
const CREDIT: Duration = Duration::from_secs(60);

/// How far apart looks at a connection are between which its bytes are counted.
const SPAN: core::ops::Range<Duration> = Duration::from_millis(900)..Duration::from_secs(10);

/// How fast a body comes: when it will have been too slow, if no more of it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyPace(Time);

impl BodyPace {
    /// From now on its client is waited for.
    pub fn begin(now: Time) -> Self {
        Self(now + PATIENCE)
    }

    /// So many bytes came, behind a time in which they were not read.
    pub fn came(&mut self, bytes: u64, unread: Duration, now: Time) {
        let worth = Duration::from_millis(bytes.saturating_mul(1_000 / PACE)).min(CREDIT);
        self.0 = ((self.0 + unread).max(now) + worth).min(now + CREDIT);
    }

    /// Whether it is too slow.
    pub fn is_late(self, now: Time) -> bool {
        now >= self.0
    }
}

/// What went either way by the last look at a connection, if there was one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic(Option<(Time, u32)>);

impl Traffic {
    /// Looks at what went by now, modulo 2^32: whether that is less since the last look than
    /// is worth a place. Looks that are too near tell nothing, nor do those long ago.
    pub fn is_little(&mut self, bytes: u32, now: Time) -> bool {
        let new = Some((now, bytes));
        let Some((at, before)) = self.0.filter(|(at, _)| now.since(*at) < SPAN.end) else {
            self.0 = new;
            return false;
        };
        let passed = now.since(at);
        if passed < SPAN.start {
            return false;
        }
        self.0 = new;
        u128::from(bytes.wrapping_sub(before)) * 1_000 < u128::from(PACE) * passed.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_late_once_it_falls_behind() {
        let at = Time::from_millis;
        let mut pace = BodyPace::begin(at(0));
        assert!(!pace.is_late(at(2_999)) && pace.is_late(at(3_000)));
        // 500 bytes a second, a byte at a time.
        for byte in 0..10_000 {
            assert!(!pace.is_late(at(byte * 2)), "{byte}");
            pace.came(1, Duration::ZERO, at(byte * 2));
        }
        // One in 490 ms.
        let mut pace = BodyPace::begin(at(0));
        let late = (1..20).find(|byte| {
            let is_late = pace.is_late(at(byte * 490));
            pace.came(1, Duration::ZERO, at(byte * 490));
            is_late
        });
        assert_eq!(late, Some(7));
        // What was not read is nobody's fault; what came early counts for a minute.
        let mut pace = BodyPace::begin(at(0));
        pace.came(0, Duration::from_secs(100), at(100_000));
        assert!(!pace.is_late(at(102_999)) && pace.is_late(at(103_000)));
        pace.came(u64::MAX, Duration::ZERO, at(101_000));
        assert!(!pace.is_late(at(160_999)) && pace.is_late(at(161_000)));
    }

    #[test]
    fn traffic_is_little_below_the_same_rate() {
        let at = Time::from_millis;
        let mut traffic = Traffic::default();
        assert!(!traffic.is_little(u32::MAX - 99, at(0)), "the first look");
        assert!(!traffic.is_little(u32::MAX - 99, at(500)), "too soon");
        assert!(!traffic.is_little(501, at(1_000)), "600 bytes");
        assert!(traffic.is_little(900, at(2_000)), "399 bytes");
        assert!(!traffic.is_little(900, at(20_000)), "nobody looked");
        assert!(traffic.is_little(900, at(21_000)));
    }
}
