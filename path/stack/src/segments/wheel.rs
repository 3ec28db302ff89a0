//! The timer wheel.
//!
//! Two rings of buckets: near, a millisecond each, and far, about a second
//! each. A bucket is a list of slots, linked through a store that both rings
//! share, so that a bucket that is used for the first time takes no memory.
//! Nothing is ever unlinked: a slot remembers the one entry of each ring that is
//! valid (its mark), any other is stale and ignored when it comes up. And nothing is moved when a deadline
//! moves later: the entry comes up early, and the slot is entered again. So
//! moving a timer costs a comparison, and the common cases, a retransmission
//! timer set and cleared for each response and an idle timeout pushed on by
//! each request, touch no memory beyond the connection.

use tcp::WheelMark;

/// Buckets of the near ring: it spans this many milliseconds.
const NEAR: u32 = 4096;
/// Buckets of the far ring.
const FAR: u32 = 512;
/// Log2 of the milliseconds of a far bucket.
const FAR_SHIFT: u32 = 10;
/// Deadlines further off are entered at this distance, and again from there.
const HORIZON: u32 = (FAR - 2) << FAR_SHIFT;
/// Entries taken in one turn; more wait for the next turn.
pub(crate) const BOUND: usize = 256;

const _: () = assert!(NEAR.is_power_of_two() && FAR.is_power_of_two() && FAR >= 64);
const _: () = assert!(NEAR >= 2 << FAR_SHIFT, "a far entry must come up before its deadline leaves the near ring");
const _: () = assert!(FAR < 1 << 16, "far ticks are kept in 16 bits");

#[derive(Debug)]
pub(crate) struct Wheel {
    near: Ring<{ NEAR as usize / 64 }>,
    far: Ring<{ FAR as usize / 64 }>,
    store: Store,
    /// The near tick that is being worked off; all before it are done.
    now: u32,
    /// Entries in both rings, stale ones included.
    entries: usize,
}

impl Wheel {
    /// A wheel for so many slots with one entry each; more are no error. What
    /// is not used costs no memory.
    pub fn new(now_ms: u32, slots: usize) -> Self {
        let store = Store { entries: Vec::with_capacity(slots), free: NONE };
        Self { near: Ring::new(), far: Ring::new(), store, now: now_ms, entries: 0 }
    }

    /// Where the buckets and their entries are.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let buckets = |buckets: &[u32]| {
            let range = buckets.as_ptr_range();
            range.start.addr()..range.end.addr()
        };
        each(buckets(&self.near.buckets));
        each(buckets(&self.far.buckets));
        each(crate::memory::reserved(&self.store.entries));
    }

    /// Has `slot` come up at `deadline` at the latest.
    #[inline]
    pub fn schedule(&mut self, slot: u32, mark: &mut WheelMark, deadline: u32) {
        // Never before the tick after the current one.
        let delta = (deadline.wrapping_sub(self.now) as i32).max(1) as u32;
        if mark.near() != 0 && (mark.near().wrapping_sub(self.now) as i32) <= delta as i32 {
            return;
        }
        self.enter(slot, mark, delta);
    }

    /// Whether a slot with this mark comes up at `deadline` at the latest.
    pub fn covers(&self, mark: WheelMark, deadline: u32) -> bool {
        let delta = (deadline.wrapping_sub(self.now) as i32).max(1) as u32;
        let near = mark.near() != 0 && (mark.near().wrapping_sub(self.now) as i32) <= delta as i32;
        // A far entry comes up when its bucket begins.
        let buckets = mark.far().wrapping_sub((self.now >> FAR_SHIFT) as u16);
        let far = (u32::from(buckets) << FAR_SHIFT).saturating_sub(self.now & ((1 << FAR_SHIFT) - 1));
        near || (mark.far() != 0 && far <= delta)
    }

    #[inline(never)]
    fn enter(&mut self, slot: u32, mark: &mut WheelMark, delta: u32) {
        if delta < NEAR {
            let tick = never_zero(self.now.wrapping_add(delta));
            mark.set_near(tick);
            self.near.push(&mut self.store, tick, slot);
            self.entries += 1;
            return;
        }
        // The tick before the deadline, from where the near ring takes over.
        let tick = (self.now.wrapping_add(delta.min(HORIZON)) >> FAR_SHIFT).wrapping_sub(1);
        let short = far_mark(tick);
        let current = (self.now >> FAR_SHIFT) as u16;
        if mark.far() != 0 && mark.far().wrapping_sub(current) <= short.wrapping_sub(current) {
            return;
        }
        mark.set_far(short);
        self.far.push(&mut self.store, tick, slot);
        self.entries += 1;
    }

    /// Takes up to [`BOUND`] entries that came up by `now_ms` and hands their
    /// slots to `due`, with whether the entry was from the near ring and its
    /// mark. Returns whether all were taken. The work is in proportion to the
    /// entries, however far time has moved.
    pub fn advance(&mut self, now_ms: u32, due: &mut Vec<Due>) -> bool {
        if (now_ms.wrapping_sub(self.now) as i32) <= 0 {
            return true;
        }
        if self.entries == 0 {
            self.now = now_ms;
            return true;
        }
        while self.now != now_ms {
            let left = now_ms.wrapping_sub(self.now);
            let Some(ahead) = self.ahead().filter(|ahead| *ahead <= left) else {
                self.now = now_ms;
                return true;
            };
            let tick = self.now.wrapping_add(ahead);
            if !self.take(tick, due) {
                // The rest of this tick is next.
                self.now = tick.wrapping_sub(1);
                return false;
            }
            self.now = tick;
        }
        true
    }

    /// Takes what comes up at `tick`. Returns whether there was room for all.
    fn take(&mut self, tick: u32, due: &mut Vec<Due>) -> bool {
        if is_far(tick) {
            let far = tick >> FAR_SHIFT;
            while due.len() < BOUND
                && let Some(slot) = self.far.pop(&mut self.store, far)
            {
                self.entries -= 1;
                due.push(Due { slot, mark: Mark::Far(far_mark(far)) });
            }
            if self.far.has(far) {
                return false;
            }
        }
        // `never_zero` moves tick 0 to 1 in name, and to its bucket too.
        while due.len() < BOUND
            && let Some(slot) = self.near.pop(&mut self.store, tick)
        {
            self.entries -= 1;
            due.push(Due { slot, mark: Mark::Near(never_zero(tick)) });
        }
        !self.near.has(tick)
    }

    /// Ticks from the wheel's time until the next that has entries.
    fn ahead(&self) -> Option<u32> {
        let near = self.near.ahead(self.now);
        let far = self.far.ahead(self.now >> FAR_SHIFT).map(|far| {
            let tick = (self.now >> FAR_SHIFT).wrapping_add(far) << FAR_SHIFT;
            tick.wrapping_sub(self.now)
        });
        [near, far].into_iter().flatten().min()
    }

    /// Milliseconds from the wheel's time until something may come up.
    pub fn next(&self) -> Option<u32> {
        if self.entries == 0 { None } else { self.ahead() }
    }
}

/// Whether a bucket of the far ring comes up at `tick`.
#[inline]
const fn is_far(tick: u32) -> bool {
    tick & ((1 << FAR_SHIFT) - 1) == 0
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The entries of all buckets.
#[derive(Debug)]
struct Store {
    /// Slot, and next entry of the same list.
    entries: Vec<(u32, u32)>,
    /// The list of entries that are free.
    free: u32,
}

impl Store {
    /// Puts `slot` in front of `list`.
    #[inline]
    fn push(&mut self, list: &mut u32, slot: u32) {
        let entry = (slot, *list);
        *list = match self.entries.get_mut(self.free as usize) {
            Some(free) => core::mem::replace(&mut self.free, core::mem::replace(free, entry).1),
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
    }

    /// Takes the first of `list`.
    #[inline]
    fn pop(&mut self, list: &mut u32) -> Option<u32> {
        let at = *list;
        let entry = self.entries.get_mut(at as usize)?;
        *list = core::mem::replace(&mut entry.1, core::mem::replace(&mut self.free, at));
        Some(entry.0)
    }
}

/// Buckets by tick, and which of them have entries: 64 for each of `WORDS`.
#[derive(Debug)]
struct Ring<const WORDS: usize> {
    buckets: Box<[u32]>,
    used: [u64; WORDS],
}

impl<const WORDS: usize> Ring<WORDS> {
    const LEN: u32 = WORDS as u32 * 64;

    fn new() -> Self {
        Self { buckets: vec![NONE; Self::LEN as usize].into(), used: [0; WORDS] }
    }

    #[inline]
    fn push(&mut self, store: &mut Store, tick: u32, slot: u32) {
        let at = tick % Self::LEN;
        store.push(&mut self.buckets[at as usize], slot);
        self.used[at as usize / 64] |= 1 << (at % 64);
    }

    #[inline]
    fn pop(&mut self, store: &mut Store, tick: u32) -> Option<u32> {
        let at = tick % Self::LEN;
        let bucket = &mut self.buckets[at as usize];
        let slot = store.pop(bucket);
        if *bucket == NONE {
            self.used[at as usize / 64] &= !(1 << (at % 64));
        }
        slot
    }

    #[inline]
    fn has(&self, tick: u32) -> bool {
        let at = tick % Self::LEN;
        self.used[at as usize / 64] & (1 << (at % 64)) != 0
    }

    /// Ticks from `now` until the next bucket with entries: 1 to once around.
    #[inline]
    fn ahead(&self, now: u32) -> Option<u32> {
        let first = now.wrapping_add(1) % Self::LEN;
        let (word, bit) = (first as usize / 64, first % 64);
        // The first word comes twice: its upper bits first, the lower ones at
        // the end.
        let upper = self.used[word] & (u64::MAX << bit);
        if upper != 0 {
            return Some(upper.trailing_zeros() - bit + 1);
        }
        for step in 1..=WORDS {
            let bits = self.used[(word + step) % WORDS];
            if bits != 0 {
                return Some((step as u32 * 64 + bits.trailing_zeros()) - bit + 1);
            }
        }
        None
    }
}

/// An entry that came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub slot: u32,
    mark: Mark,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Near(u32),
    Far(u16),
}

impl Due {
    /// Whether this is the slot's valid entry; its mark is then cleared.
    #[inline]
    pub fn claim(self, mark: &mut WheelMark) -> bool {
        match self.mark {
            Mark::Near(tick) if mark.near() == tick => {
                mark.set_near(0);
                true
            }
            Mark::Far(tick) if mark.far() == tick => {
                mark.set_far(0);
                true
            }
            _ => false,
        }
    }
}

/// Zero means no entry, so tick 0 goes by the name, and the bucket, of tick 1.
#[inline]
const fn never_zero(tick: u32) -> u32 {
    if tick == 0 { 1 } else { tick }
}

#[inline]
const fn far_mark(tick: u32) -> u16 {
    if tick as u16 == 0 { 1 } else { tick as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadlines that move about at random: each slot comes up at its
    /// deadline or before, never after, and never later than the horizon.
    #[test]
    fn nothing_comes_up_late() {
        let mut state = 3u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % n) as u32
        };
        for start in [0u32, 1, 5_000, u32::MAX - 3_000_000, u32::MAX - 10] {
            let mut wheel = Wheel::new(start, 4);
            let mut now = start;
            let mut marks = [WheelMark::default(); 40];
            let mut deadlines = [None::<u32>; 40];
            let mut fired = 0;
            for _ in 0..60_000 {
                let slot = random(40);
                let span = [3u64, 300, 5_000, 70_000, 900_000][random(5) as usize];
                let deadline = now.wrapping_add(1 + random(span));
                deadlines[slot as usize] = Some(deadline);
                wheel.schedule(slot, &mut marks[slot as usize], deadline);
                now = now.wrapping_add(random(40));
                let mut due = Vec::new();
                while !wheel.advance(now, &mut due) || !due.is_empty() {
                    for entry in due.drain(..) {
                        let i = entry.slot as usize;
                        if !entry.claim(&mut marks[i]) {
                            continue;
                        }
                        let Some(at) = deadlines[i] else { continue };
                        if (at.wrapping_sub(now) as i32) <= 0 {
                            deadlines[i] = None;
                            fired += 1;
                        } else {
                            wheel.schedule(entry.slot, &mut marks[i], at);
                        }
                    }
                }
                for at in deadlines.iter().flatten() {
                    // Tick 0 goes by the name of tick 1.
                    let slack = u32::from(*at == 0);
                    assert!((at.wrapping_add(slack).wrapping_sub(now) as i32) > 0, "deadline {at} missed at {now}");
                }
            }
            assert!(fired > 5_000, "{fired}");
            // Nothing moved later adds entries without end.
            assert!(wheel.entries < 40 * 600, "{}", wheel.entries);
        }
    }

    /// After a long sleep, or a clock that jumps, what is due comes up without
    /// a look at every millisecond in between.
    #[test]
    fn time_may_jump() {
        const JUMP: u32 = 1 << 30;
        let mut wheel = Wheel::new(5, 4);
        let mut marks = [WheelMark::default(); 3];
        for (slot, delta) in [(0, 3), (1, 90_000), (2, 2_000_000_000)] {
            wheel.schedule(slot, &mut marks[slot as usize], 5 + delta);
        }
        let mut due = Vec::new();
        assert!(wheel.advance(5 + JUMP, &mut due));
        due.retain(|entry| entry.claim(&mut marks[entry.slot as usize]));
        // The last is not due: it comes up at the horizon, to be entered again.
        assert_eq!(due.iter().map(|entry| entry.slot).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((wheel.now, wheel.entries, wheel.next()), (5 + JUMP, 0, None));
    }

    /// More in one tick than one turn takes: the rest is not lost, nor is the
    /// tick passed over.
    #[test]
    fn a_crowded_tick_takes_several_turns() {
        let mut wheel = Wheel::new(0, 4);
        let mut marks = vec![WheelMark::default(); 3 * BOUND];
        for (slot, mark) in marks.iter_mut().enumerate() {
            wheel.schedule(slot as u32, mark, if slot % 2 == 0 { 100 } else { 5_000 });
        }
        let mut seen = vec![0; marks.len()];
        let mut turns = 0;
        loop {
            let mut due = Vec::new();
            let all = wheel.advance(6_000, &mut due);
            assert!(due.len() <= BOUND);
            turns += 1;
            for entry in due.drain(..).filter(|entry| entry.claim(&mut marks[entry.slot as usize])) {
                seen[entry.slot as usize] += 1;
            }
            if all {
                break;
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
        assert!((3..=5).contains(&turns), "{turns}");
    }

    #[test]
    fn next_is_never_late() {
        let mut wheel = Wheel::new(100, 4);
        assert_eq!(wheel.next(), None);
        let mut mark = WheelMark::default();
        wheel.schedule(1, &mut mark, 350);
        assert_eq!(wheel.next(), Some(250));
        let mut far = WheelMark::default();
        wheel.schedule(2, &mut far, 100_000);
        assert!(wheel.next().unwrap() <= 250);
    }
}
