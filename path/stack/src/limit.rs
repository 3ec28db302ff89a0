//! A limit on what we send unasked: ICMP errors and echo replies, challenge
//! acknowledgements, solicitations.

use app::SourceKey;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;
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

/// Random numbers that peers cannot predict as long as they do not know the
/// seed: they only ever see sums of answers (xorshift64*).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Numbers that follow from this.
    pub const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number, of 48 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number from half of `mean` to one and a half of it.
    pub const fn around(&mut self, mean: u64) -> u64 {
        spread(mean, self.bits())
    }
}

/// A number from half of `mean` to one and a half of it, by a random one. At
/// least one, unless it is none.
pub(crate) const fn spread(mean: u64, random: u64) -> u64 {
    match mean {
        0 => 0,
        mean => match mean / 2 + random % (mean + 1) {
            0 => 1,
            number => number,
        },
    }
}

/// A limit for all of a kind together, of which the number in each second is
/// secret: half to one and a half of the rate. One who provokes answers for a
/// connection of somebody else's and counts what is left for their own cannot
/// tell those few from the difference of two seconds (CVE-2016-5696; Linux:
/// `tcp_send_challenge_ack`). A bucket that refills would tell: once it is
/// empty, its depth is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretLimit {
    rate: u64,
    left: u64,
    second: u64,
    random: Random,
}

impl SecretLimit {
    /// `rate` tokens per second on average; none at all for zero.
    pub const fn per_second(rate: u32, seed: u64) -> Self {
        Self { rate: rate as u64, left: 0, second: u64::MAX, random: Random::new(seed) }
    }

    /// Takes a token; whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        let second = now.as_nanos() / NANOS_PER_SECOND;
        if second != self.second {
            self.second = second;
            self.left = self.random.around(self.rate);
        }
        let there = self.left > 0;
        self.left -= u64::from(there);
        there
    }
}

/// Sources that are told apart in one second.
const BUCKETS: usize = 1024;

/// What one bucket gave in a second.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    second: u32,
    count: u32,
}

/// A limit of what answers to packets of nobody: for each source,
/// an IPv4 address or an IPv6 /64, and for all together. What one source is
/// answered says nothing of another then, whose address may be forged: whether
/// it has a connection would otherwise show in whether it is answered.
///
/// Sources share buckets by a keyed hash that is another in each second, so
/// that who shares one with whom is not worth finding out; and how many a
/// source gets is another number in each second too.
#[derive(Clone, Debug)]
pub(crate) struct SourceLimit {
    each: u64,
    all: SecretLimit,
    key: SipHasher24,
    buckets: Vec<Given>,
}

impl SourceLimit {
    /// `each` answers per second for a source, on average, and `all` together.
    pub fn per_second(each: u32, all: u32, seed: [u64; 2]) -> Self {
        Self {
            each: u64::from(each),
            all: SecretLimit::per_second(all, seed[0].rotate_left(32) ^ seed[1]),
            key: SipHasher24::new_with_keys(seed[0], seed[1]),
            buckets: vec![Given::default(); BUCKETS],
        }
    }

    /// Takes a token for an answer to `source`; whether there was one.
    pub fn take(&mut self, source: IpAddr, now: Time) -> bool {
        let second = (now.as_nanos() / NANOS_PER_SECOND) as u32;
        let [family, prefix] = SourceKey::of(source).words();
        let message = [u64::from(second) << 8 | family, prefix].map(u64::to_le_bytes);
        let hash = self.key.hash(message.as_flattened());
        let Some(given) = self.buckets.get_mut(hash as usize % BUCKETS) else { return false };
        if given.second != second {
            *given = Given { second, count: 0 };
        }
        if u64::from(given.count) >= spread(self.each, hash >> 32) || !self.all.take(now) {
            return false;
        }
        given.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one second gives cannot be told from the one before; on average
    /// it is the rate.
    #[test]
    fn a_secret_limit_is_another_each_second() {
        let mut limit = SecretLimit::per_second(100, 77);
        let seconds: Vec<u64> = (1..=1_000)
            .map(|second| {
                let now = Time::from_millis(second * 1_000 + second % 900);
                (0..1_000).filter(|_| limit.take(now)).count() as u64
            })
            .collect();
        assert!(seconds.iter().all(|given| (50..=150).contains(given)));
        let different: std::collections::BTreeSet<_> = seconds.iter().collect();
        assert!(different.len() > 80, "{} sizes", different.len());
        let mean = seconds.iter().sum::<u64>() / 1_000;
        assert!((95..=105).contains(&mean), "{mean}");
        // What was used up stays so until the next second.
        assert!(!limit.take(Time::from_millis(1_000_999)));
        assert!(limit.take(Time::from_millis(1_001_000)));
        let mut none = SecretLimit::per_second(0, 77);
        assert!(!none.take(Time::MAX));
    }

    fn given(limit: &mut SourceLimit, source: IpAddr, now: Time) -> usize {
        (0..1_000).filter(|_| limit.take(source, now)).count()
    }

    /// A source's answers do not depend on what others were given, but for
    /// one in a thousand that shares its bucket, and that is another in each
    /// second.
    #[test]
    fn a_source_has_its_own_limit() {
        let ip = |n: u32| IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
        let (mut alone, mut beside) =
            (SourceLimit::per_second(50, u32::MAX, [1, 2]), SourceLimit::per_second(50, u32::MAX, [1, 2]));
        let mut differ = 0;
        let mut sum = 0;
        for second in 1..=1_000 {
            let now = Time::from_millis(second * 1_000);
            assert!((25..=75).contains(&given(&mut beside, ip(7), now)));
            let (a, b) = (given(&mut alone, ip(1), now), given(&mut beside, ip(1), now));
            differ += usize::from(a != b);
            sum += a;
        }
        assert!(differ <= 5, "{differ} of 1,000 seconds");
        assert!((48_000..=52_000).contains(&sum), "{sum} in 1,000 s");
    }

    /// A network of IPv6 is one source, however many addresses it has.
    #[test]
    fn a_network_is_one_source() {
        let mut limit = SourceLimit::per_second(50, u32::MAX, [1, 2]);
        let ip = |net: u16, host: u16| IpAddr::V6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host));
        let now = Time::from_millis(5_000);
        let first: usize = (0..100).map(|host| (0..100).filter(|_| limit.take(ip(1, host), now)).count()).sum();
        assert!((25..=75).contains(&first), "{first}");
        assert!(limit.take(ip(2, 0), now));
    }

    /// However many sources there are, and none where there is to be none.
    #[test]
    fn all_sources_have_a_limit_together() {
        let mut limit = SourceLimit::per_second(50, 200, [1, 2]);
        for second in 1..=20 {
            let now = Time::from_millis(second * 1_000);
            let all = (0..5_000).filter(|n| limit.take(IpAddr::V4(core::net::Ipv4Addr::from_bits(*n)), now)).count();
            assert!((100..=300).contains(&all), "{all}");
        }
        for (each, all) in [(0, 200), (50, 0)] {
            let mut none = SourceLimit::per_second(each, all, [1, 2]);
            assert!(!none.take(IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), Time::from_millis(9)));
        }
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
