//! What peers see of our secrets: initial sequence numbers and SYN cookies,
//! both from SipHash-2-4.

use crate::flow::Flow;
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
    #[inline]
    pub fn isn(&self, flow: &Flow, now: Time) -> SeqNum {
        SeqNum((flow_word(&self.isn, flow) as u32).wrapping_add((now.as_nanos() >> 12) as u32))
    }

    /// Where the search for a free local port starts, for a flow whose local
    /// port is 0 (RFC 6056 section 3.3.3).
    pub fn port_offset(&self, flow: &Flow) -> u32 {
        (flow_word(&self.isn, flow) >> 32) as u32
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
        let [a, b, c, d] = irs.0.to_le_bytes();
        let [e, f, g, h] = period.to_le_bytes();
        let message =
            [flow_word(&self.cookie, flow).to_le_bytes(), [a, b, c, d, e, f, g, h], u64::from(index).to_le_bytes()];
        let hash = self.cookie.hash(message.as_flattened()) as u32 & ((1 << HASH_BITS) - 1);
        (period << (32 - PERIOD_BITS)) | (index << HASH_BITS) | hash
    }
}

/// A flow under a key, all of it and nothing else: IPv4 flows are 10 bytes,
/// others 22, and the length counts in the hash. Bytes in one array, because
/// field by field the hasher spends as much on its bookkeeping as on hashing.
#[inline]
fn flow_word(key: &SipHasher24, flow: &Flow) -> u64 {
    let [a, b] = flow.remote_port.to_le_bytes();
    let [c, d] = flow.local_port.to_le_bytes();
    let [e, f] = flow.local.to_le_bytes();
    if flow.is_v4() {
        let [w, x, y, z] = flow.remote_v4().octets();
        return key.hash(&[w, x, y, z, a, b, c, d, e, f]);
    }
    let mut bytes = [0; 22];
    bytes[..16].copy_from_slice(&flow.remote_v6().octets());
    bytes[16..].copy_from_slice(&[a, b, c, d, e, f]);
    key.hash(&bytes)
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

    /// Every part of a flow counts, in both families.
    #[test]
    fn sequence_numbers_depend_on_the_whole_flow() {
        let secret = Secret::new(&[1, 2, 3, 4]);
        let v6 = |last: u16| Flow::v6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), 9, 0, 80);
        let v4 = |last: u8| Flow::v4(core::net::Ipv4Addr::new(10, 1, 2, last), 9, 0, 80);
        let mut seen = std::collections::BTreeSet::new();
        for base in [v4(1), v4(2), v6(1), v6(2)] {
            let others =
                [base, Flow { remote_port: 10, ..base }, Flow { local_port: 81, ..base }, Flow { local: 1, ..base }];
            for flow in others {
                assert!(seen.insert(secret.isn(&flow, Time::ZERO).0), "{flow:?}");
            }
        }
    }
}
