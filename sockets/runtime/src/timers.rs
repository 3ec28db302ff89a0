//! The connections' timers: a heap that is looked after lazily.
//!
//! A slot has at most one valid entry, the earliest. Moving a deadline later
//! leaves the entry where it is: it comes up early, and the slot is entered
//! again. So the common case, a timeout pushed on by each request, is a store.
//! Entries belong to slots, not to connections: the next connection of a slot
//! takes over what stands there.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use wire::Time;

/// No time: later than any.
const NEVER: u64 = u64::MAX;

/// Stale entries per slot that are kept until they come up; beyond, the heap
/// is rebuilt from the valid ones.
const STALE_FACTOR: usize = 4;
/// Below this many entries nothing is rebuilt.
const STALE_MIN: usize = 1_024;

/// A slot's timer, kept with its connection. Milliseconds of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timer {
    /// When it is to run out; rounded up, so that it is never early.
    deadline: u64,
    /// The slot's valid entry in the heap.
    entry: u64,
}

impl Timer {
    pub(crate) const IDLE: Self = Self { deadline: NEVER, entry: NEVER };

    /// Clears the deadline; the entry stays.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.deadline = NEVER;
    }
}

/// All entries.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    /// Sets or clears `slot`'s timer. Returns whether stale entries have come
    /// to be too many for `slots` slots: then call [`Timers::rebuild`].
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, timer: &mut Timer, at: Option<Time>, slots: usize) -> bool {
        let Some(at) = at else {
            timer.clear();
            return false;
        };
        timer.deadline = at.as_nanos().div_ceil(1_000_000);
        if timer.entry <= timer.deadline {
            return false;
        }
        self.enter(slot, timer);
        self.heap.len() > STALE_MIN.max(STALE_FACTOR * slots)
    }

    #[cold]
    fn enter(&mut self, slot: u32, timer: &mut Timer) {
        timer.entry = timer.deadline;
        self.heap.push(Reverse((timer.entry, slot)));
    }

    /// Leaves only the valid entries, which `entries` tells.
    #[cold]
    pub(crate) fn rebuild(&mut self, entries: impl Iterator<Item = (u32, Timer)>) {
        let valid = entries.filter(|(_, timer)| timer.entry != NEVER);
        self.heap = valid.map(|(slot, timer)| Reverse((timer.entry, slot))).collect();
    }

    /// The slot of the next entry that has come up by `now`, whether valid or
    /// stale; give it to [`Timers::claim`].
    #[inline]
    pub(crate) fn poll(&mut self, now: Time) -> Option<Due> {
        let Reverse((entry, slot)) = *self.heap.peek()?;
        if entry > now.as_millis() {
            return None;
        }
        self.heap.pop();
        Some(Due { slot, entry })
    }

    /// Whether `due` means that its slot's timer ran out; the timer is
    /// cleared then. If it was moved, it is entered again.
    pub(crate) fn claim(&mut self, due: Due, timer: &mut Timer, now: Time) -> bool {
        if timer.entry != due.entry {
            return false;
        }
        timer.entry = NEVER;
        if timer.deadline == NEVER {
            return false;
        }
        if timer.deadline > now.as_millis() {
            self.enter(due.slot, timer);
            return false;
        }
        timer.clear();
        true
    }

    /// When to look again, at the latest.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((entry, _))| Time::from_millis(*entry))
    }
}

/// An entry that came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) slot: u32,
    entry: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadlines that move about at random: none comes up early, none late,
    /// and stale entries do not pile up.
    #[test]
    fn never_early_and_never_late() {
        const SLOTS: usize = 40;
        let mut state = 3u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut timers = Timers::default();
        let mut slots = [Timer::IDLE; SLOTS];
        let mut wanted = [None::<Time>; SLOTS];
        let (mut now, mut fired) = (Time::from_millis(77), 0);
        for _ in 0..200_000 {
            let slot = random(SLOTS as u64) as usize;
            let span = [100u64, 3_000_000, 400_000_000, 70_000_000_000][random(4) as usize];
            wanted[slot] = (random(8) > 0).then(|| Time::from_nanos(now.as_nanos() + random(span)));
            if timers.set(slot as u32, &mut slots[slot], wanted[slot], SLOTS) {
                timers.rebuild((0u32..).zip(slots));
            }
            now = Time::from_nanos(now.as_nanos() + random(2_000_000));
            while let Some(due) = timers.poll(now) {
                let slot = due.slot as usize;
                if timers.claim(due, &mut slots[slot], now) {
                    assert!(wanted[slot].take().unwrap() <= now, "early");
                    fired += 1;
                }
            }
            for at in wanted.iter().flatten() {
                assert!(now.as_millis() < at.as_nanos().div_ceil(1_000_000), "late: {at:?} at {now:?}");
                assert!(timers.next().unwrap() <= Time::from_millis(at.as_nanos().div_ceil(1_000_000)));
            }
        }
        assert!(fired > 10_000, "{fired}");
        assert!(timers.heap.len() <= STALE_MIN + 1, "{}", timers.heap.len());
    }
}
