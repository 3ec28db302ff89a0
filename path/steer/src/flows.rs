//! Which silo each flow was given to, where no hash says it.

use crate::classify::Tuple;
use core::time::Duration;
use wire::Time;

/// Default of [`crate::MeshConfig::flows`].
pub const FLOWS: usize = 131_072;

/// A flow not seen for so long is asked after: its silo may know it no more.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// One that its sender has ended is asked after this soon.
const ASK_ENDED_AFTER: Duration = Duration::from_secs(1);

/// Buckets looked through in one sweep, once a millisecond: all of the
/// default's in four seconds.
const SWEEP: usize = 64;

/// Times are kept in units of 2²⁰ ns, about a millisecond.
const SHIFT: u32 = 20;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The keyed hash that stands for the flow; 0 is an empty bucket. Two
    /// flows of the same 64 bits would share a silo, at a chance of 1 to 2³¹
    /// where a table is full.
    hash: u64,
    /// When a frame of it, or a question after it, was last seen.
    seen: u32,
    silo: u16,
    ended: bool,
    /// Asked after since it was last seen.
    asked: bool,
}

/// A bounded table of flows and their silos: open addressing with linear
/// probing, at a load of at most one half. Sized once.
#[derive(Debug)]
pub(crate) struct Flows {
    entries: Vec<Entry>,
    tuples: Vec<Tuple>,
    mask: usize,
    len: usize,
    /// Where the sweep goes on.
    hand: usize,
}

impl Flows {
    /// For up to `flows` flows.
    pub fn new(flows: usize) -> Self {
        let size = (flows.clamp(16, 1 << 24) * 2).next_power_of_two();
        let (entries, tuples) = (vec![Entry::default(); size], vec![Tuple::default(); size]);
        Self { entries, tuples, mask: size - 1, len: 0, hand: 0 }
    }

    #[inline]
    fn at(&self, hash: u64) -> Result<usize, usize> {
        let hash = hash | 1;
        let mut at = (hash >> 32) as usize & self.mask;
        loop {
            let found = self.entries[at].hash;
            if found == hash {
                return Ok(at);
            }
            if found == 0 {
                return Err(at);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The silo of a flow, whose frame was just seen.
    #[inline]
    pub fn find(&mut self, hash: u64, now: Time, ends: bool) -> Option<usize> {
        let at = self.at(hash).ok()?;
        let entry = &mut self.entries[at];
        entry.seen = stamp(now);
        entry.ended |= ends;
        entry.asked = false;
        Some(usize::from(entry.silo))
    }

    /// Remembers a flow's silo, or its new one. Whether there was room.
    pub fn insert(&mut self, hash: u64, tuple: &Tuple, silo: usize, now: Time) -> bool {
        let at = match self.at(hash) {
            Ok(at) => at,
            Err(_) if (self.len + 1) * 2 > self.entries.len() => return false,
            Err(at) => {
                self.len += 1;
                at
            }
        };
        self.entries[at] = Entry { hash: hash | 1, seen: stamp(now), silo: silo as u16, ended: false, asked: false };
        self.tuples[at] = *tuple;
        true
    }

    /// Forgets a flow that its silo knows no more, if it is still that silo's
    /// and was not seen since the question.
    pub fn forget(&mut self, hash: u64, silo: usize) -> bool {
        let asked = self.at(hash).is_ok_and(|at| self.entries[at].asked);
        asked && self.remove(hash, silo)
    }

    /// Removes a flow, if it is still `silo`'s.
    pub fn remove(&mut self, hash: u64, silo: usize) -> bool {
        let Ok(mut hole) = self.at(hash) else { return false };
        if usize::from(self.entries[hole].silo) != silo {
            return false;
        }
        // Backward shift: whatever probed past the hole moves up.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let entry = self.entries[at];
            if entry.hash == 0 {
                break;
            }
            let wants = (entry.hash >> 32) as usize & self.mask;
            if (at.wrapping_sub(wants) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.entries[hole] = entry;
                self.tuples[hole] = self.tuples[at];
                hole = at;
            }
        }
        self.entries[hole] = Entry::default();
        self.len -= 1;
        true
    }

    /// Looks through a few buckets, and tells `ask` of flows not seen for
    /// long: hash, tuple and silo. Where it says no, it is asked again at the
    /// next sweep.
    pub fn sweep(&mut self, now: Time, mut ask: impl FnMut(u64, &Tuple, usize) -> bool) {
        if self.len == 0 {
            return;
        }
        let now = stamp(now);
        for _ in 0..SWEEP.min(self.entries.len()) {
            let at = self.hand;
            self.hand = (at + 1) & self.mask;
            let Entry { hash, seen, silo, ended, .. } = self.entries[at];
            let patience = if ended { ASK_ENDED_AFTER } else { ASK_AFTER };
            if hash != 0 && now.wrapping_sub(seen) >= units(patience) && ask(hash, &self.tuples[at], usize::from(silo))
            {
                (self.entries[at].seen, self.entries[at].asked) = (now, true);
            }
        }
    }

    /// Flows remembered.
    pub const fn len(&self) -> usize {
        self.len
    }
}

const fn stamp(now: Time) -> u32 {
    (now.as_nanos() >> SHIFT) as u32
}

const fn units(span: Duration) -> u32 {
    (span.as_nanos() >> SHIFT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn tuple(number: u64) -> Tuple {
        Tuple { remote: u128::from(number), ..Tuple::default() }
    }

    /// Random insertions and removals agree with a map, with many equal homes.
    #[test]
    fn agrees_with_a_map() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 20
        };
        let mut flows = Flows::new(64);
        let mut map = HashMap::new();
        for step in 0..100_000 {
            let hash = ((random() % 24) << 32) | (random() % 16) | 1;
            let silo = (random() % 4) as usize;
            if random() % 2 == 0 {
                let fits = flows.insert(hash, &tuple(hash), silo, Time::ZERO);
                assert_eq!(fits, map.contains_key(&hash) || map.len() < 64);
                if fits {
                    map.insert(hash, silo);
                }
            } else {
                let removed = map.get(&hash) == Some(&silo);
                assert_eq!(flows.remove(hash, silo), removed, "only while it is that silo's");
                if removed {
                    map.remove(&hash);
                }
            }
            assert_eq!(flows.len(), map.len());
            if step % 64 == 0 {
                for (&hash, &silo) in &map {
                    assert_eq!(flows.find(hash, Time::ZERO, false), Some(silo));
                    assert_eq!(flows.tuples[flows.at(hash).unwrap()], tuple(hash));
                }
            }
        }
    }

    /// A flow that begins anew while its silo answers for the old one stays.
    #[test]
    fn what_was_seen_since_the_question_is_kept() {
        let mut flows = Flows::new(16);
        assert!(flows.insert(7 << 32, &tuple(7), 1, Time::ZERO));
        assert!(!flows.forget(7 << 32, 1), "nobody asked");
        flows.sweep(Time::from_millis(20_000), |_, _, _| true);
        assert_eq!(flows.find(7 << 32, Time::from_millis(20_000), false), Some(1));
        assert!(!flows.forget(7 << 32, 1), "it was seen since");
        flows.sweep(Time::from_millis(40_000), |_, _, _| true);
        assert!(!flows.forget(7 << 32, 2), "another's");
        assert!(flows.forget(7 << 32, 1));
        assert_eq!(flows.len(), 0);
    }

    #[test]
    fn only_the_silent_are_asked_after() {
        let mut flows = Flows::new(16);
        let second = Time::from_millis;
        for number in 0..8 {
            assert!(flows.insert(number << 32, &tuple(number), 3, Time::ZERO));
        }
        // One is seen again, one ends.
        flows.find(1 << 32, second(9_000), false);
        flows.find(2 << 32, second(9_000), true);
        let asked = |flows: &mut Flows, at, answer| {
            let mut asked = Vec::new();
            flows.sweep(at, |_, tuple, silo| {
                assert_eq!(silo, 3);
                asked.push(tuple.remote);
                answer
            });
            asked.sort_unstable();
            asked
        };
        assert_eq!(asked(&mut flows, second(9_500), true), []);
        assert_eq!(asked(&mut flows, second(10_500), false), [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(asked(&mut flows, second(10_501), true), [0, 2, 3, 4, 5, 6, 7], "nobody took the question");
        assert_eq!(asked(&mut flows, second(10_502), true), []);
        assert_eq!(asked(&mut flows, second(11_700), true), [2], "sooner, for it has ended");
    }
}
