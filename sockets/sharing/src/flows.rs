//! Which connections each seat has: whoever is there when its process is killed ends them.
//!
//! A connection is noted when it is established and struck out at its end, at the place of its number
//! in its stack: no request costs anything. What is noted need not be true, for to end a connection
//! that is not there is harmless: a SYN of its flow is answered by a reset.

use crate::memory::{FLOW_WORDS, FLOWS, SharedMemory};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};

/// There is one.
const NOTED: u64 = 1 << 63;

impl SharedMemory {
    /// A seat has a connection, whose number it is.
    pub fn note_flow(&self, seat: usize, number: usize, remote: SocketAddr, local: SocketAddr) {
        let Some(words) = self.flow(seat, number) else { return };
        let ports = NOTED | u64::from(remote.port()) << 16 | u64::from(local.port());
        let [a, b, c, d] = [remote, local].map(halves).as_flattened().try_into().unwrap_or([0; 4]);
        for (word, value) in words[1..].iter().zip([a, b, c, d]) {
            word.store(value, Ordering::Relaxed);
        }
        words[0].store(ports, Ordering::Release);
        self.flow_count(seat).fetch_max(number as u64 + 1, Ordering::Release);
    }

    /// The connection of this number has ended.
    pub fn strike_flow(&self, seat: usize, number: usize) {
        if let Some(words) = self.flow(seat, number) {
            words[0].store(0, Ordering::Relaxed);
        }
    }

    /// The seat's process ends, and has seen to its connections.
    pub fn strike_flows(&self, seat: usize) {
        self.flow_count(seat).store(0, Ordering::Release);
    }

    /// Whether connections are noted of a seat.
    #[must_use]
    pub fn has_flows(&self, seat: usize) -> bool {
        self.flow_count(seat).load(Ordering::Acquire) != 0
    }

    /// Takes a connection of a seat whose process was killed; nobody else gets the same. Looks at no
    /// more than `looks` places, which are counted down.
    pub(crate) fn take_flow(&self, seat: usize, looks: &mut usize) -> Option<(SocketAddr, SocketAddr)> {
        while *looks > 0 {
            *looks -= 1;
            let below = |count: u64| count.min(FLOWS as u64).checked_sub(1);
            let count = self.flow_count(seat).fetch_update(Ordering::AcqRel, Ordering::Acquire, below).ok()?;
            let words = self.flow(seat, usize::try_from(count.min(FLOWS as u64)).ok()?.checked_sub(1)?)?;
            let ports = words[0].swap(0, Ordering::Acquire);
            if ports & NOTED != 0 {
                let [a, b, c, d] = [1, 2, 3, 4].map(|at| words[at].load(Ordering::Relaxed));
                return Some((end(a, b, (ports >> 16) as u16), end(c, d, ports as u16)));
            }
        }
        None
    }

    fn flow(&self, seat: usize, number: usize) -> Option<&[AtomicU64]> {
        let start = number.checked_mul(FLOW_WORDS)?;
        self.flows(seat).get(start..start + FLOW_WORDS)
    }
}

fn halves(end: SocketAddr) -> [u64; 2] {
    let ip = match end.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64]
}

fn end(high: u64, low: u64, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u16) -> (SocketAddr, SocketAddr) {
        if number.is_multiple_of(2) {
            (SocketAddr::from(([10, 0, 0, 1], number)), SocketAddr::from(([10, 0, 0, 2], 80)))
        } else {
            let v6 = |last| Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, last);
            (SocketAddr::from((v6(1), number)), SocketAddr::from((v6(2), 443)))
        }
    }

    /// Whoever is killed leaves the connections that it has, each for one; whoever ends leaves none.
    #[test]
    fn what_a_seat_leaves_is_taken_once() {
        let memory = SharedMemory::create(2, &[0; 14]).unwrap();
        for number in 0..10 {
            let (remote, local) = flow(number);
            memory.note_flow(1, number.into(), remote, local);
        }
        memory.strike_flow(1, 3);
        memory.strike_flow(1, FLOWS);
        memory.note_flow(1, FLOWS, flow(1).0, flow(1).1);
        let mut looks = 4;
        let mut taken: Vec<_> = core::iter::from_fn(|| memory.take_flow(1, &mut looks)).collect();
        assert_eq!((taken.len(), looks), (4, 0), "no more than was asked for");
        looks = usize::MAX;
        taken.extend(core::iter::from_fn(|| memory.take_flow(1, &mut looks)));
        taken.sort_by_key(|(remote, _)| remote.port());
        assert_eq!(taken, [0, 1, 2, 4, 5, 6, 7, 8, 9].map(flow));
        assert!(!memory.has_flows(1) && memory.take_flow(0, &mut looks).is_none());
        memory.note_flow(1, 5, flow(5).0, flow(5).1);
        assert!(memory.has_flows(1));
        memory.strike_flows(1);
        assert_eq!(memory.take_flow(1, &mut looks), None);
        // Whatever another process wrote there.
        memory.flow_count(1).store(u64::MAX, Ordering::Relaxed);
        memory.flows(1)[FLOW_WORDS * (FLOWS - 1)].store(u64::MAX, Ordering::Relaxed);
        assert!(memory.take_flow(1, &mut looks).is_some());
        assert_eq!(memory.flow_count(1).load(Ordering::Relaxed), FLOWS as u64 - 1);
    }
}
