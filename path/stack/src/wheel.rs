//! The timer wheel.
//!
//! Two rings of buckets: near, a millisecond each, and far, about a second
//! each. A bucket is a plain list of slots. Nothing is ever unlinked: a slot
//! remembers the one entry of each ring that is valid (its mark), any other is
//! stale and ignored when it comes up. And nothing is moved when a deadline
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

const _: () = assert!(NEAR.is_power_of_two() && FAR.is_power_of_two());
const _: () = assert!(NEAR >= 2 << FAR_SHIFT, "a far entry must come up before its deadline leaves the near ring");
const _: () = assert!(FAR < 1 << 16, "far ticks are kept in 16 bits");

#[derive(Debug)]
pub(crate) struct Wheel {
    near: Vec<Vec<u32>>,
    far: Vec<Vec<u32>>,
    /// The near tick that is being worked off; all before it are done.
    now: u32,
    /// Entries in both rings, stale ones included.
    entries: usize,
}

impl Wheel {
    pub fn new(now_ms: u32) -> Self {
        Self {
            near: (0..NEAR).map(|_| Vec::new()).collect(),
            far: (0..FAR).map(|_| Vec::new()).collect(),
            now: now_ms,
            entries: 0,
        }
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

    #[inline(never)]
    fn enter(&mut self, slot: u32, mark: &mut WheelMark, delta: u32) {
        if delta < NEAR {
            let tick = never_zero(self.now.wrapping_add(delta));
            mark.set_near(tick);
            self.near[(tick % NEAR) as usize].push(slot);
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
        self.far[(tick % FAR) as usize].push(slot);
        self.entries += 1;
    }

    /// Takes up to [`BOUND`] entries that came up by `now_ms` and hands their
    /// slots to `due`, with whether the entry was from the near ring and its
    /// mark. Returns whether all were taken.
    pub fn advance(&mut self, now_ms: u32, due: &mut Vec<Due>) -> bool {
        if (now_ms.wrapping_sub(self.now) as i32) <= 0 {
            return true;
        }
        if self.entries == 0 {
            self.now = now_ms;
            return true;
        }
        while self.now != now_ms {
            let tick = self.now.wrapping_add(1);
            if tick & ((1 << FAR_SHIFT) - 1) == 0 && !self.take_far(tick >> FAR_SHIFT, due) {
                return false;
            }
            if !self.take_near(tick, due) {
                return false;
            }
            self.now = tick;
        }
        true
    }

    fn take_near(&mut self, tick: u32, due: &mut Vec<Due>) -> bool {
        let bucket = &mut self.near[(tick % NEAR) as usize];
        while let Some(&slot) = bucket.last() {
            if due.len() >= BOUND {
                return false;
            }
            bucket.pop();
            self.entries -= 1;
            due.push(Due { slot, mark: Mark::Near(never_zero(tick)) });
        }
        // `never_zero` moves tick 0 to 1 in name, and to its bucket too.
        true
    }

    fn take_far(&mut self, tick: u32, due: &mut Vec<Due>) -> bool {
        let bucket = &mut self.far[(tick % FAR) as usize];
        while let Some(&slot) = bucket.last() {
            if due.len() >= BOUND {
                return false;
            }
            bucket.pop();
            self.entries -= 1;
            due.push(Due { slot, mark: Mark::Far(far_mark(tick)) });
        }
        true
    }

    /// Milliseconds from the wheel's time until something may come up.
    pub fn next(&self) -> Option<u32> {
        if self.entries == 0 {
            return None;
        }
        let to_far = (1 << FAR_SHIFT) - (self.now & ((1 << FAR_SHIFT) - 1));
        let any_far = self.far.iter().any(|bucket| !bucket.is_empty());
        let limit = if any_far { to_far } else { NEAR };
        (1..=limit)
            .find(|ahead| *ahead == limit || !self.near[(self.now.wrapping_add(*ahead) % NEAR) as usize].is_empty())
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
            let mut wheel = Wheel::new(start);
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

    #[test]
    fn next_is_never_late() {
        let mut wheel = Wheel::new(100);
        assert_eq!(wheel.next(), None);
        let mut mark = WheelMark::default();
        wheel.schedule(1, &mut mark, 350);
        assert_eq!(wheel.next(), Some(250));
        let mut far = WheelMark::default();
        wheel.schedule(2, &mut far, 100_000);
        assert!(wheel.next().unwrap() <= 250);
    }
}
