//! What peers see of our secrets: initial sequence numbers and SYN cookies,
//! both from SipHash-2-4.

use crate::flow::Flow;
use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher24;
use wire::Time;
use wire::tcp::SeqNum;

/// Secret bits of a stack, drawn by the caller from the operating system.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    isn: SipHasher24,
    cookie: SipHasher24,
}

/// The MSS values that a cookie can carry, in rising order: the common ones
/// of the internet (as in Linux's net/ipv4/syncookies.c, with 1440 for IPv6).
const COOKIE_MSS: [u16; 8] = [536, 1024, 1220, 1300, 1360, 1400, 1440, 1460];

/// A cookie's time counts in this many seconds.
const COOKIE_PERIOD_S: u64 = 64;
/// A cookie is taken in the period of its making and this many more.
const COOKIE_PERIODS: u32 = 2;

/// Bits of a cookie: period, MSS index, hash.
const PERIOD_BITS: u32 = 5;
const MSS_BITS: u32 = 3;
const HASH_BITS: u32 = 32 - PERIOD_BITS - MSS_BITS;

const _: () = assert!(COOKIE_MSS.len() == 1 << MSS_BITS);

/// Low bits of the timestamp in a cookie's SYN,ACK that carry what the
/// cookie has no room for: window shift (15 is none) and SACK.
pub(crate) const STAMP_BITS: u32 = 5;

impl Secret {
    pub fn new(seed: &[u64; 4]) -> Self {
        Self { isn: SipHasher24::new_with_keys(seed[0], seed[1]), cookie: SipHasher24::new_with_keys(seed[2], seed[3]) }
    }

    /// ISN = M + F(flow, secret), M being a clock of 4 µs (RFC 9293 section
    /// 3.4.1, RFC 6528).
    pub fn isn(&self, flow: &Flow, now: Time) -> SeqNum {
        let mut hasher = self.isn;
        flow.hash(&mut hasher);
        SeqNum((hasher.finish() as u32).wrapping_add((now.as_nanos() >> 12) as u32))
    }

    /// Where the search for a free local port starts (RFC 6056 section 3.3.3).
    pub fn port_offset(&self, flow: &Flow) -> u32 {
        let mut hasher = self.isn;
        (flow.remote_high, flow.remote_low, flow.remote_port, flow.local).hash(&mut hasher);
        (hasher.finish() >> 32) as u32
    }

    /// A SYN,ACK's sequence number that says by itself, later, that we sent it
    /// (RFC 4987 section 3.6).
    pub fn cookie(&self, flow: &Flow, irs: SeqNum, mss: u16, now: Time) -> SeqNum {
        let period = period(now);
        let index = COOKIE_MSS.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
        SeqNum(self.cookie_word(flow, irs, period, index))
    }

    /// The MSS that a cookie carries, if it is ours and recent.
    pub fn check_cookie(&self, flow: &Flow, irs: SeqNum, cookie: SeqNum, now: Time) -> Option<u16> {
        let current = period(now);
        let age = current.wrapping_sub(cookie.0 >> (32 - PERIOD_BITS)) & ((1 << PERIOD_BITS) - 1);
        if age > COOKIE_PERIODS {
            return None;
        }
        let index = (cookie.0 >> HASH_BITS) & ((1 << MSS_BITS) - 1);
        let expected = self.cookie_word(flow, irs, current.wrapping_sub(age), index);
        (expected == cookie.0).then(|| COOKIE_MSS[index as usize])
    }

    fn cookie_word(&self, flow: &Flow, irs: SeqNum, period: u32, index: u32) -> u32 {
        let mut hasher = self.cookie;
        (flow, irs.0, period, index).hash(&mut hasher);
        let hash = hasher.finish() as u32 & ((1 << HASH_BITS) - 1);
        (period << (32 - PERIOD_BITS)) | (index << HASH_BITS) | hash
    }
}

fn period(now: Time) -> u32 {
    (now.as_nanos() / (COOKIE_PERIOD_S * 1_000_000_000)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn flow(port: u16) -> Flow {
        Flow::v4("10.1.2.3".parse().unwrap(), port, 0, 80)
    }

    /// RFC 4987 section 3.6: only our own cookies count, for this flow, this
    /// SYN, and not for long.
    #[test]
    fn cookies_prove_themselves() {
        let secret = Secret::new(&[1, 2, 3, 4]);
        let other = Secret::new(&[1, 2, 3, 5]);
        let start = Time::from_millis(10_000_000);
        for (mss, carried) in [(1460, 1460), (9000, 1460), (1459, 1440), (536, 536), (100, 536)] {
            let cookie = secret.cookie(&flow(9), SeqNum(77), mss, start);
            for after in [0, 60, 120] {
                let now = start + Duration::from_secs(after);
                assert_eq!(secret.check_cookie(&flow(9), SeqNum(77), cookie, now), Some(carried));
            }
            let late = start + Duration::from_secs(200);
            assert_eq!(secret.check_cookie(&flow(9), SeqNum(77), cookie, late), None);
            assert_eq!(secret.check_cookie(&flow(8), SeqNum(77), cookie, start), None);
            assert_eq!(secret.check_cookie(&flow(9), SeqNum(78), cookie, start), None);
            assert_eq!(other.check_cookie(&flow(9), SeqNum(77), cookie, start), None);
        }
    }

    /// RFC 6528: the same flow's numbers rise with the clock, others' are
    /// unrelated.
    #[test]
    fn initial_sequence_numbers_rise() {
        let secret = Secret::new(&[1, 2, 3, 4]);
        let a = secret.isn(&flow(1), Time::from_millis(0));
        let b = secret.isn(&flow(1), Time::from_millis(1_000));
        assert_eq!(b.forward_from(a), (1_000_000_000u64 >> 12) as u32);
        assert_ne!(secret.isn(&flow(2), Time::from_millis(0)), a);
    }
}
