//! What a segment's 4-tuple belongs to: its keyed hash, and the table.

use crate::flow::Flow;

/// The keyed hash of a stack's flows.
///
/// A folded 64 × 64 → 128-bit multiplication, twice, under 256 secret bits: a
/// peer that cannot see hashes cannot aim at a bucket, and it costs a dozen
/// instructions where SipHash costs more than a hundred. Sequence numbers and
/// cookies, which peers do see, use SipHash.
#[derive(Clone, Copy, Debug)]
struct FlowHasher {
    keys: [u64; 4],
}

impl FlowHasher {
    const fn new(seed: &[u64; 4]) -> Self {
        // Odd keys: no key can turn a factor into zero for all flows.
        let keys = [seed[0] | 1, seed[1] | 1, seed[2] | 1, seed[3] | 1];
        Self { keys }
    }

    #[inline(always)]
    const fn hash(&self, flow: &Flow) -> u64 {
        let ports = ((flow.remote_port as u64) << 32) | ((flow.local_port as u64) << 16) | flow.local as u64;
        let mixed = fold(flow.remote_low ^ self.keys[0], (flow.remote_high ^ self.keys[1]).wrapping_add(ports));
        fold(mixed ^ self.keys[2], ports ^ self.keys[3])
    }
}

/// Where the clocks of flows start, in timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampOffsets {
    keys: [u64; 2],
}

impl StampOffsets {
    pub const fn new(seed: &[u64; 2]) -> Self {
        Self { keys: *seed }
    }

    /// An offset for timestamps, unrelated to the table's hash for anyone
    /// without the keys. It is a pair of addresses' own (RFC 7323 section
    /// 7.1; Linux: `secure_tcp_ts_off`), so that a later connection between
    /// them has later timestamps and may cut TIME-WAIT short (RFC 6191).
    #[inline(always)]
    pub const fn of(&self, flow: &Flow) -> u32 {
        let other = (flow.remote_high ^ self.keys[1]).wrapping_add(flow.local as u64);
        fold(flow.remote_low ^ self.keys[0], other) as u32
    }
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A flow with its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed {
    pub flow: Flow,
    pub hash: u64,
}

/// What a flow belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A connection's slot.
    Connection(u32),
    /// A SYN queue entry.
    Syn(u32),
    /// A TIME-WAIT record.
    TimeWait(u32),
}

const KIND_SHIFT: u32 = 30;
/// Most entries of one kind.
pub(crate) const MAX_INDEX: u32 = (1 << KIND_SHIFT) - 2;

impl Owner {
    /// Never zero: zero is an empty bucket.
    const fn pack(self) -> u32 {
        match self {
            Self::Connection(i) => i + 1,
            Self::Syn(i) => (1 << KIND_SHIFT) | (i + 1),
            Self::TimeWait(i) => (2 << KIND_SHIFT) | (i + 1),
        }
    }

    const fn unpack(word: u32) -> Self {
        let index = (word & (MAX_INDEX + 1)) - 1;
        match word >> KIND_SHIFT {
            0 => Self::Connection(index),
            1 => Self::Syn(index),
            _ => Self::TimeWait(index),
        }
    }
}

/// Open addressing with linear probing at a load of at most one half. A bucket
/// is 8 bytes, a tag and an owner, so that a look-up touches one cache line of
/// the table and then the right owner. Sized once: it never rehashes.
#[derive(Debug)]
pub(crate) struct Flows {
    hasher: FlowHasher,
    buckets: Vec<u64>,
    mask: usize,
    len: usize,
}

impl Flows {
    /// For up to `entries` flows of all kinds together, under these keys.
    pub fn with_capacity(entries: usize, seed: &[u64; 4]) -> Self {
        let size = (entries.max(8) * 2).next_power_of_two();
        Self { hasher: FlowHasher::new(seed), buckets: vec![0; size], mask: size - 1, len: 0 }
    }

    /// A flow's hash, which all other calls take.
    #[inline(always)]
    pub const fn hash(&self, flow: &Flow) -> u64 {
        self.hasher.hash(flow)
    }

    /// Where it is.
    pub fn memory(&self) -> core::ops::Range<usize> {
        crate::memory::reserved(&self.buckets)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The home bucket: fetching it ahead of the look-up lets the cache misses of
    /// a burst overlap.
    #[inline]
    pub fn home_of(&self, hash: u64) -> &u64 {
        &self.buckets[home(tag(hash)) & self.mask]
    }

    /// The connection that stands first under this hash, if it is one: the
    /// answer to nearly every look-up, still to be confirmed.
    #[inline(always)]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        let tag = tag(hash);
        let bucket = self.buckets[home(tag) & self.mask];
        let index = (bucket as u32).wrapping_sub(1);
        ((bucket >> 32) as u32 == tag && index <= MAX_INDEX).then_some(index)
    }

    /// The owner that `is` confirms among those with this hash.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(Owner) -> bool) -> Option<Owner> {
        let tag = tag(hash);
        let mut at = home(tag) & self.mask;
        loop {
            let bucket = self.buckets[at];
            if bucket == 0 {
                return None;
            }
            if (bucket >> 32) as u32 == tag {
                let owner = Owner::unpack(bucket as u32);
                if is(owner) {
                    return Some(owner);
                }
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds a flow that is not in the table. Returns whether there was room.
    pub fn insert(&mut self, hash: u64, owner: Owner) -> bool {
        if (self.len + 1) * 2 > self.buckets.len() {
            return false;
        }
        let tag = tag(hash);
        let mut at = home(tag) & self.mask;
        while self.buckets[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.buckets[at] = (u64::from(tag) << 32) | u64::from(owner.pack());
        self.len += 1;
        true
    }

    /// Makes an entry belong to another owner. Returns whether it was there.
    pub fn replace(&mut self, hash: u64, old: Owner, new: Owner) -> bool {
        match self.position(hash, old) {
            Some(at) => {
                self.buckets[at] = (u64::from(tag(hash)) << 32) | u64::from(new.pack());
                true
            }
            None => false,
        }
    }

    /// Removes an entry. Returns whether it was there.
    pub fn remove(&mut self, hash: u64, owner: Owner) -> bool {
        let Some(mut hole) = self.position(hash, owner) else { return false };
        // Backward shift: whatever probed past the hole moves up, so that no
        // tombstones build up.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let bucket = self.buckets[at];
            if bucket == 0 {
                break;
            }
            let wants = home((bucket >> 32) as u32) & self.mask;
            if (at.wrapping_sub(wants) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.buckets[hole] = bucket;
                hole = at;
            }
        }
        self.buckets[hole] = 0;
        self.len -= 1;
        true
    }

    fn position(&self, hash: u64, owner: Owner) -> Option<usize> {
        let entry = (u64::from(tag(hash)) << 32) | u64::from(owner.pack());
        let mut at = home(tag(hash)) & self.mask;
        while self.buckets[at] != 0 {
            if self.buckets[at] == entry {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
        None
    }
}

#[inline]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The tag names its own home, so that a shift needs no other hash.
#[inline]
const fn home(tag: u32) -> usize {
    tag as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn owners_survive_packing() {
        for i in [0, 1, 77, MAX_INDEX - 1, MAX_INDEX] {
            for owner in [Owner::Connection(i), Owner::Syn(i), Owner::TimeWait(i)] {
                assert_ne!(owner.pack(), 0);
                assert_eq!(Owner::unpack(owner.pack()), owner);
            }
        }
    }

    /// Random insertions and removals agree with a map, at full load and with
    /// many equal tags.
    #[test]
    fn agrees_with_a_map() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 20
        };
        let mut table = Flows::with_capacity(64, &[1; 4]);
        let mut map: HashMap<u32, u64> = HashMap::new();
        for step in 0..200_000u32 {
            let index = (random() % 64) as u32;
            if let Some(hash) = map.remove(&index) {
                assert!(table.remove(hash, Owner::Connection(index)));
                assert!(!table.remove(hash, Owner::Connection(index)));
            } else {
                let hash = (random() % 24) << 32 | u64::from(step);
                assert!(table.insert(hash, Owner::Connection(index)));
                map.insert(index, hash);
            }
            assert_eq!(table.len(), map.len());
            if step % 64 == 0 {
                for (&index, &hash) in &map {
                    let owner = Owner::Connection(index);
                    assert_eq!(table.find(hash, |o| o == owner), Some(owner));
                }
            }
        }
    }
}
