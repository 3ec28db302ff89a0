//! Round-trip time and retransmission timeout (RFC 6298).

/// Retransmission timeout before the first sample, in milliseconds
/// (RFC 6298 section 2.1).
pub const INITIAL_RTO_MS: u32 = 1_000;

/// Retransmission timeout with which data starts when the SYN had to be sent
/// again and no sample was taken, in milliseconds (RFC 6298 section 5.7).
pub const RETRANSMITTED_SYN_RTO_MS: u32 = 3_000;

/// How long after a reset, with which it answered a strange acknowledgement,
/// a SYN goes again, in milliseconds: behind the reset, and at once for people
/// (Linux: `tcp_rcv_synsent_state_process` waits for 2 jiffies).
pub const SYN_AFTER_RESET_MS: u32 = 1;

/// The timer's granularity G, in microseconds: the timer wheel's tick.
pub const GRANULARITY_US: u32 = 1_000;

/// Longest round trip believed, in microseconds: a minute, the least that
/// RFC 6298 section 2.5 lets a maximum RTO be. A longer sample counts as this.
pub const MAX_SAMPLE_US: u32 = 60_000_000;

/// SRTT is kept in eighths of a microsecond, so that the gain of 1/8 is exact.
const SRTT_SHIFT: u32 = 3;
/// RTTVAR is kept in quarters of a microsecond, for its gain of 1/4.
const RTTVAR_SHIFT: u32 = 2;

/// The least SRTT, as it is kept, that is more than a whole millisecond: in
/// whole microseconds, 1,000 is the last that is not.
const SHORT: u32 = (1_000 + 1) << SRTT_SHIFT;

const _: () = assert!(MAX_SAMPLE_US as u64 * 2 < (u32::MAX >> SRTT_SHIFT) as u64);

/// The estimator: smoothed round-trip time and its variation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rtt {
    /// SRTT in 1/8 µs; 0 until the first sample.
    srtt: u32,
    /// RTTVAR in 1/4 µs.
    rttvar: u32,
}

// It lives in the hot part of every connection.
const _: () = assert!(size_of::<Rtt>() == 8);

impl Rtt {
    /// No samples yet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { srtt: 0, rttvar: 0 }
    }

    /// Takes a sample, in microseconds. The caller obeys Karn's algorithm: a
    /// segment that was sent again gives no sample, unless a timestamp says
    /// which transmission was answered (RFC 6298 section 3).
    #[inline]
    pub fn on_sample(&mut self, us: u32) {
        // Zero means "no sample": an immeasurably short trip counts as 1 µs.
        let us = us.clamp(1, MAX_SAMPLE_US);
        if self.srtt == 0 {
            // RFC 6298 section 2.2.
            self.srtt = us << SRTT_SHIFT;
            self.rttvar = us << (RTTVAR_SHIFT - 1);
            return;
        }
        // RFC 6298 section 2.3; RTTVAR first, from the old SRTT.
        let deviation = us.abs_diff(self.srtt >> SRTT_SHIFT);
        self.rttvar = self.rttvar - (self.rttvar >> RTTVAR_SHIFT) + deviation;
        self.srtt = (self.srtt - (self.srtt >> SRTT_SHIFT) + us).max(1 << SRTT_SHIFT);
    }

    /// The smoothed round-trip time in microseconds; 0 before the first
    /// sample.
    #[inline]
    #[must_use]
    pub const fn srtt_us(self) -> u32 {
        self.srtt >> SRTT_SHIFT
    }

    /// The round-trip time's variation in microseconds.
    #[inline]
    #[must_use]
    pub const fn rttvar_us(self) -> u32 {
        self.rttvar >> RTTVAR_SHIFT
    }

    /// Whether a sample was taken.
    #[inline]
    #[must_use]
    pub const fn sampled(self) -> bool {
        self.srtt != 0
    }

    /// Whether a sample was taken, and the round trip takes no longer than a
    /// millisecond: one comparison for both.
    #[inline(always)]
    #[must_use]
    pub const fn is_short(self) -> bool {
        self.srtt.wrapping_sub(1) < SHORT - 1
    }

    /// The retransmission timeout in milliseconds, rounded up, at most `max`;
    /// [`INITIAL_RTO_MS`] before the first sample.
    ///
    /// `floor` is the least that is waited beyond SRTT, in milliseconds: G of
    /// RFC 6298 section 2.3, as large as Linux takes it (`tcp_rto_min` bounds
    /// the variation, in net/ipv4/tcp_input.c). As a floor of the timeout
    /// itself it would leave nothing for a delayed acknowledgement once the
    /// round trip is steady.
    #[inline(always)]
    #[must_use]
    pub fn rto_ms(self, floor: u32, max: u32) -> u32 {
        if self.is_short() && u64::from(self.rttvar) < u64::from(floor) * 1_000 {
            // What it is nearly always, without a division: a part of a
            // millisecond, rounded up, and the floor.
            return if floor < max { floor + 1 } else { max };
        }
        self.longer_rto_ms(floor, max)
    }

    #[inline(never)]
    fn longer_rto_ms(self, floor: u32, max: u32) -> u32 {
        if self.srtt == 0 {
            return INITIAL_RTO_MS.max(floor).min(max);
        }
        // RTTVAR in quarters is already K * RTTVAR, with K = 4.
        let us = self.srtt_us().saturating_add(self.rttvar.max(floor.saturating_mul(1_000)).max(GRANULARITY_US));
        us.div_ceil(1_000).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u32 = 1;
    const MAX: u32 = 120_000;

    /// RFC 6298 section 2.1.
    #[test]
    fn starts_with_one_second() {
        assert_eq!(Rtt::new().rto_ms(200, MAX), 1_000);
        assert!(!Rtt::new().sampled());
    }

    /// RFC 6298 section 2.2: SRTT = R, RTTVAR = R/2, RTO = R + 4 * R/2.
    #[test]
    fn first_sample() {
        let mut rtt = Rtt::new();
        rtt.on_sample(100_000);
        assert_eq!(rtt.srtt_us(), 100_000);
        assert_eq!(rtt.rttvar_us(), 50_000);
        assert_eq!(rtt.rto_ms(MIN, MAX), 300);
    }

    /// RFC 6298 section 2.3, against the formula in rational numbers.
    #[test]
    fn follows_the_formula() {
        let (mut srtt, mut rttvar) = (0.0f64, 0.0f64);
        let mut rtt = Rtt::new();
        let mut seed = 1u64;
        for round in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sample = 10_000 + (seed >> 40) as u32 % 90_000;
            if round == 0 {
                srtt = f64::from(sample);
                rttvar = f64::from(sample) / 2.0;
            } else {
                rttvar = 0.75 * rttvar + 0.25 * (srtt - f64::from(sample)).abs();
                srtt = 0.875 * srtt + 0.125 * f64::from(sample);
            }
            rtt.on_sample(sample);
            assert!((f64::from(rtt.srtt_us()) - srtt).abs() < 10.0);
            assert!((f64::from(rtt.rttvar_us()) - rttvar).abs() < 20.0);
        }
    }

    /// The short form of the timeout, for round trips of up to a millisecond,
    /// is the sum of RFC 6298 section 2.3, on both sides of each of its edges.
    #[test]
    fn short_round_trips_time_out_as_long_ones_do() {
        for srtt_us in [1, 2, 500, 999, 1_000, 1_001, 1_999, 2_000] {
            for rttvar in [0, 1, 999, 1_000, 1_001, 4_999, 5_000, 5_001, 199_999, 200_000, 200_001, 900_000] {
                for part in [0, 7] {
                    let rtt = Rtt { srtt: (srtt_us << SRTT_SHIFT) + part, rttvar };
                    assert_eq!(rtt.is_short(), srtt_us <= 1_000, "{rtt:?}");
                    for (floor, max) in [(0, MAX), (1, MAX), (5, MAX), (5, 3), (200, MAX)] {
                        let beyond = u64::from(rttvar).max(u64::from(floor) * 1_000).max(1_000);
                        let ms = (u64::from(srtt_us) + beyond).div_ceil(1_000).min(u64::from(max));
                        assert_eq!(u64::from(rtt.rto_ms(floor, max)), ms, "{rtt:?} {floor} {max}");
                    }
                }
            }
        }
        assert!(!Rtt::new().is_short());
    }

    /// RFC 6298 section 2.3: K * RTTVAR is at least the granularity, and the
    /// floor is added to the round trip.
    #[test]
    fn steady_rtt_leaves_the_floor() {
        for round_trip in [5_000, 100_000, 250_000, 600_000] {
            let mut rtt = Rtt::new();
            for _ in 0..1_000 {
                rtt.on_sample(round_trip);
            }
            assert_eq!(rtt.rto_ms(MIN, MAX), round_trip / 1_000 + 1);
            assert_eq!(rtt.rto_ms(200, MAX), round_trip / 1_000 + 200);
            assert_eq!(rtt.rto_ms(200, 150), 150);
        }
    }

    #[test]
    fn absurd_samples_stay_in_bounds() {
        let mut rtt = Rtt::new();
        for _ in 0..100 {
            rtt.on_sample(u32::MAX);
            rtt.on_sample(0);
            let rto = rtt.rto_ms(200, MAX);
            assert!((200..=MAX).contains(&rto), "{rto}");
            assert!(rtt.sampled());
        }
        for _ in 0..10_000 {
            rtt.on_sample(0);
        }
        assert_eq!(rtt.srtt_us(), 1);
    }
}
