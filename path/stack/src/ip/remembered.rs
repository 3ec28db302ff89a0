//! What was found out about paths, by destination: for a while, and of no more
//! destinations than there is room for.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use wire::Time;

/// Destinations of which something is remembered; beyond, the one that was
/// learned of first is forgotten. About 100 bytes each.
pub(crate) const MAX_REMEMBERED: usize = 4096;

/// How long it is believed: then the path may have changed, and is tried anew
/// (RFC 1191 section 6.3, RFC 8201 section 4).
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);

/// Something of each of some destinations.
#[derive(Debug)]
pub(crate) struct Remembered<V> {
    by_destination: BTreeMap<IpAddr, Entry<V>>,
    /// Number given to the next destination, so that the oldest can be found.
    learned: u64,
    by_age: BTreeMap<u64, IpAddr>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    number: u64,
    until: Time,
}

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self { by_destination: BTreeMap::new(), learned: 0, by_age: BTreeMap::new() }
    }
}

impl<V> Remembered<V> {
    /// What is known of `dst`.
    #[inline]
    pub fn get(&self, dst: IpAddr, now: Time) -> Option<&V> {
        if self.by_destination.is_empty() {
            return None;
        }
        self.by_destination.get(&dst).filter(|entry| now < entry.until).map(|entry| &entry.value)
    }

    /// From now on this is known of it.
    pub fn keep(&mut self, dst: IpAddr, value: V, now: Time) {
        self.forget(dst);
        if self.by_destination.len() >= MAX_REMEMBERED
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_destination.remove(&oldest);
        }
        let number = self.learned;
        self.learned += 1;
        self.by_age.insert(number, dst);
        self.by_destination.insert(dst, Entry { value, number, until: now + LIFETIME });
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self, dst: IpAddr) {
        if let Some(old) = self.by_destination.remove(&dst) {
            self.by_age.remove(&old.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(n))
    }

    #[test]
    fn it_is_believed_for_a_while() {
        let mut known = Remembered::default();
        assert_eq!(known.get(address(1), Time::ZERO), None);
        known.keep(address(1), 7, Time::from_millis(5));
        let last = Time::from_millis(5) + LIFETIME;
        assert_eq!(known.get(address(1), Time::from_nanos(last.as_nanos() - 1)), Some(&7));
        assert_eq!((known.get(address(1), last), known.get(address(2), Time::ZERO)), (None, None));
        known.keep(address(1), 8, last);
        assert_eq!(known.get(address(1), last), Some(&8));
        known.forget(address(1));
        assert_eq!((known.get(address(1), last), known.by_age.len()), (None, 0));
    }

    #[test]
    fn destinations_are_bounded() {
        let mut known = Remembered::default();
        for n in 0..MAX_REMEMBERED as u32 {
            known.keep(address(n), n, Time::ZERO);
        }
        // Learned again, so no longer the oldest.
        known.keep(address(0), 9, Time::from_millis(1));
        known.keep(address(1 << 20), 1, Time::ZERO);
        assert_eq!((known.by_destination.len(), known.by_age.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
        let get = |n| known.get(address(n), Time::ZERO).copied();
        assert_eq!((get(0), get(1), get(1 << 20)), (Some(9), None, Some(1)));
    }
}
