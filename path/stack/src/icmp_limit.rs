//! A limit on what we send unasked: ICMP errors and echo replies, challenge
//! acknowledgements, solicitations.

use wire::Time;

/// A token bucket (RFC 4443 section 2.4(f)) that holds a tenth of a second's
/// tokens, and at least one.
///
/// It is kept as the time at which it will be full again, so that there is
/// nothing to refill: each token moves that time on, and none is left when it
/// lies a whole bucket ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    /// Nanoseconds in which a token grows back; `u64::MAX` for a rate of zero.
    interval: u64,
    /// Nanoseconds in which the whole bucket grows back.
    depth: u64,
    full_at: u64,
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The share of a second's tokens that the bucket holds.
const BURSTS_PER_SECOND: u64 = 10;

impl RateLimit {
    /// `rate` tokens per second, from `now` on; none at all for zero.
    pub fn per_second(rate: u32, now: Time) -> Self {
        let Some(interval) = NANOS_PER_SECOND.checked_div(u64::from(rate)) else {
            return Self { interval: u64::MAX, depth: 0, full_at: now.as_nanos() };
        };
        // A rate beyond a token per nanosecond is no limit in practice.
        let interval = interval.max(1);
        let tokens = (u64::from(rate) / BURSTS_PER_SECOND).max(1);
        Self { interval, depth: interval * tokens, full_at: now.as_nanos() }
    }

    /// Takes a token; whether there was one.
    #[inline]
    pub fn take(&mut self, now: Time) -> bool {
        let missing = self.full_at.saturating_sub(now.as_nanos()).saturating_add(self.interval);
        if missing > self.depth {
            return false;
        }
        self.full_at = now.as_nanos().saturating_add(missing);
        true
    }
}

/// A limit whose bucket is of another, secret size each time that it is full:
/// half to one and a half of what it would be. One who provokes answers for a
/// connection of somebody else's and counts what is left for their own learns
/// nothing then (CVE-2016-5696; Linux: `tcp_send_challenge_ack`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretLimit {
    limit: RateLimit,
    depth: u64,
    random: u64,
}

impl SecretLimit {
    /// `rate` tokens per second on average, from `now` on; none at all for
    /// zero.
    pub fn per_second(rate: u32, seed: u64, now: Time) -> Self {
        let limit = RateLimit::per_second(rate, now);
        Self { limit, depth: limit.depth, random: seed | 1 }
    }

    /// Takes a token; whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        if self.limit.full_at <= now.as_nanos() && self.depth > 0 {
            // xorshift64*
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            let random = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
            self.limit.depth = (self.depth / 2 + random % self.depth).max(self.limit.interval);
        }
        self.limit.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one burst takes cannot be told from the burst before; on average
    /// it is the rate's.
    #[test]
    fn a_secret_limit_is_another_each_time() {
        let mut limit = SecretLimit::per_second(1000, 77, Time::ZERO);
        let bursts: Vec<u64> = (1..=1_000)
            .map(|second| {
                let now = Time::from_millis(second * 1_000);
                (0..1_000).filter(|_| limit.take(now)).count() as u64
            })
            .collect();
        assert!(bursts.iter().all(|burst| (50..=150).contains(burst)));
        let different: std::collections::BTreeSet<_> = bursts.iter().collect();
        assert!(different.len() > 80, "{} sizes", different.len());
        let mean = bursts.iter().sum::<u64>() / 1_000;
        assert!((95..=105).contains(&mean), "{mean}");
        let mut none = SecretLimit::per_second(0, 77, Time::ZERO);
        assert!(!none.take(Time::MAX));
    }

    fn taken(limit: &mut RateLimit, now: Time, tries: u32) -> u32 {
        (0..tries).filter(|_| limit.take(now)).count() as u32
    }

    /// RFC 4443 section 2.4(f).
    #[test]
    fn burst_then_rate() {
        let mut limit = RateLimit::per_second(1000, Time::from_millis(5));
        assert_eq!(taken(&mut limit, Time::from_millis(5), 1000), 100);
        // A token each millisecond.
        assert_eq!(taken(&mut limit, Time::from_millis(6), 10), 1);
        assert_eq!(taken(&mut limit, Time::from_millis(16), 100), 10);
        // Full again, and no fuller.
        assert_eq!(taken(&mut limit, Time::from_millis(9_000), 1000), 100);
    }

    #[test]
    fn over_a_second_no_more_than_rate_and_burst() {
        for rate in [1, 7, 100, 1000, 10_000] {
            let mut limit = RateLimit::per_second(rate, Time::ZERO);
            let total: u32 = (0..10_000).map(|tick| taken(&mut limit, Time::from_micros(tick * 100), 20)).sum();
            let most = rate + (rate / 10).max(1);
            assert!(total <= most && total + 1 >= rate, "{total} at a rate of {rate}");
        }
    }

    #[test]
    fn zero_is_none_and_time_may_stand_still_or_end() {
        let mut none = RateLimit::per_second(0, Time::ZERO);
        assert_eq!(taken(&mut none, Time::ZERO, 10), 0);
        assert_eq!(taken(&mut none, Time::MAX, 10), 0);
        let mut most = RateLimit::per_second(u32::MAX, Time::MAX);
        // The bucket cannot be fuller than the end of time.
        assert!(most.take(Time::MAX));
        // Time that moves back takes from the same bucket.
        let mut limit = RateLimit::per_second(10, Time::from_millis(1000));
        assert!(limit.take(Time::from_millis(1000)));
        assert!(!limit.take(Time::from_millis(500)));
    }
}
