//! The timer wheel of both data paths; beside it the calendar of what is paced,
//! which is closer than a millisecond ([`Calendar`]).
//!
//! Two rings of buckets: near, a millisecond each, and far, about a second
//! each. A bucket is a list of slots, linked through a store that both rings
//! share, so that a bucket that is used for the first time takes no memory.
//! Nothing is ever unlinked: a slot remembers the one entry of each ring that is
//! valid (its mark), any other is stale and ignored when it comes up. And nothing
//! is moved when a deadline moves later: the entry comes up early, and the slot is
//! entered again. So moving a timer costs a comparison, and the common cases, a
//! retransmission timer set and cleared for each response and an idle timeout
//! pushed on by each request, touch no memory beyond the connection.
//!
//! Time is in milliseconds modulo 2³², and is an argument: the first one is that
//! of [`Wheel::new`]. Who has deadlines further off than half of that enters a
//! nearer one, and again when it comes up.
//!
//! A far bucket is emptied when time passes its beginning, for its deadlines lie
//! in the second after it. Who sleeps is not woken for that, but for the earliest
//! of them ([`Wheel::next`]): then it is due at once, and the others have their
//! places in the near ring.
#![forbid(unsafe_code)]

mod calendar;
mod ring;

pub use calendar::Calendar;
use core::ops::Range;
use ring::{Ring, Store};

/// Buckets of the near ring: it spans this many milliseconds.
const NEAR: u32 = 4096;
/// Buckets of the far ring.
const FAR: u32 = 512;
/// Log2 of the milliseconds of a far bucket.
const FAR_SHIFT: u32 = 10;
/// Deadlines further off are entered at this distance, and again from there.
const HORIZON: u32 = (FAR - 2) << FAR_SHIFT;
/// Entries taken in one turn; more wait for the next turn.
pub const BOUND: usize = 256;

const _: () = assert!(NEAR.is_power_of_two() && FAR.is_power_of_two() && FAR >= 64);
const _: () = assert!(NEAR >= 2 << FAR_SHIFT, "a far entry must come up before its deadline leaves the near ring");
const _: () = assert!(FAR < 1 << 16, "far ticks are kept in 16 bits");

/// Where a slot stands in the wheel: kept with the slot, whatever becomes of
/// what is in it. In 6 bytes, because the hot lines of a connection have room for
/// so many: hence the halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WheelMark {
    near: [u16; 2],
    far: u16,
}

impl WheelMark {
    /// No entry.
    pub const NONE: Self = Self { near: [0; 2], far: 0 };

    /// Tick of the valid entry of the near ring; 0 is none.
    #[inline]
    const fn near(self) -> u32 {
        (self.near[1] as u32) << 16 | self.near[0] as u32
    }

    /// Notes a near entry.
    #[inline]
    const fn set_near(&mut self, tick: u32) {
        self.near = [tick as u16, (tick >> 16) as u16];
    }
}

/// The wheel.
///
/// Call order: [`Wheel::schedule`] at any time; [`Wheel::advance`] as time goes
/// on, then [`Due::claim`] for each entry that came up.
#[derive(Debug)]
pub struct Wheel {
    near: Ring<{ NEAR as usize / 64 }>,
    far: Ring<{ FAR as usize / 64 }>,
    /// For each far bucket with entries, the earliest deadline of them.
    earliest: Box<[u32]>,
    store: Store,
    /// The near tick that is being worked off; all before it are done.
    now: u32,
    /// Entries in both rings, stale ones included.
    entries: usize,
    /// While there are some: no bucket before this tick has any.
    quiet: u32,
    /// While there are some: no deadline is before this.
    due: u32,
}

impl Wheel {
    /// A wheel for so many slots with one entry each; more are no error. What
    /// is not used costs no memory.
    #[must_use]
    pub fn new(now_ms: u32, slots: usize) -> Self {
        let earliest = vec![0; FAR as usize].into();
        Self {
            near: Ring::new(),
            far: Ring::new(),
            earliest,
            store: Store::new(slots),
            now: now_ms,
            entries: 0,
            quiet: 0,
            due: 0,
        }
    }

    /// Where the buckets and their entries are.
    pub fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        let range = |words: &[u32]| {
            let range = words.as_ptr_range();
            range.start.addr()..range.end.addr()
        };
        each(range(self.near.buckets()));
        each(range(self.far.buckets()));
        each(range(&self.earliest));
        each(self.store.memory());
    }

    /// The millisecond that everything before is worked off.
    #[inline]
    #[must_use]
    pub const fn now(&self) -> u32 {
        self.now
    }

    /// Entries, those included that mean nothing any more.
    #[inline]
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Has `slot` come up at `deadline` at the latest; in the next millisecond, if
    /// that has passed.
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
    #[must_use]
    pub fn covers(&self, mark: WheelMark, deadline: u32) -> bool {
        let delta = (deadline.wrapping_sub(self.now) as i32).max(1) as u32;
        let near = mark.near() != 0 && (mark.near().wrapping_sub(self.now) as i32) <= delta as i32;
        // A far entry comes up when its bucket begins.
        let buckets = mark.far.wrapping_sub((self.now >> FAR_SHIFT) as u16);
        let far = (u32::from(buckets) << FAR_SHIFT).saturating_sub(self.now & ((1 << FAR_SHIFT) - 1));
        near || (mark.far != 0 && far <= delta)
    }

    #[inline(never)]
    fn enter(&mut self, slot: u32, mark: &mut WheelMark, delta: u32) {
        if delta < NEAR {
            let tick = never_zero(self.now.wrapping_add(delta));
            mark.set_near(tick);
            self.near.push(&mut self.store, tick, slot);
            return self.entered(tick, tick);
        }
        let deadline = self.now.wrapping_add(delta.min(HORIZON));
        // The tick before the deadline, from where the near ring takes over.
        let tick = (deadline >> FAR_SHIFT).wrapping_sub(1);
        let short = far_mark(tick);
        let current = (self.now >> FAR_SHIFT) as u16;
        let entered = mark.far.wrapping_sub(current);
        if mark.far != 0 && entered < short.wrapping_sub(current) {
            return;
        }
        let used = self.far.has(tick);
        let earliest = &mut self.earliest[(tick % FAR) as usize];
        if !used || (deadline.wrapping_sub(*earliest) as i32) < 0 {
            *earliest = deadline;
        }
        // Two ticks that go by one name are neighbours, and the slot's entry may
        // be the later one's: then this bucket may be empty.
        if mark.far == short && used {
            self.due = earlier(self.due, deadline);
            return;
        }
        mark.far = short;
        self.far.push(&mut self.store, tick, slot);
        self.entered(tick << FAR_SHIFT, deadline);
    }

    /// Notes one entry more, in a bucket of `tick`.
    #[inline]
    fn entered(&mut self, tick: u32, deadline: u32) {
        if self.entries == 0 {
            (self.quiet, self.due) = (tick, deadline);
        } else {
            (self.quiet, self.due) = (earlier(self.quiet, tick), earlier(self.due, deadline));
        }
        self.entries += 1;
    }

    /// Takes up to [`BOUND`] entries that came up by `now_ms`, and hands them to
    /// `due`. Returns whether all were taken. The work is in proportion to the
    /// entries, however far time has moved.
    pub fn advance(&mut self, now_ms: u32, due: &mut Vec<Due>) -> bool {
        self.advance_some(now_ms, BOUND, due)
    }

    /// The same, of up to so many entries.
    pub fn advance_some(&mut self, now_ms: u32, most: usize, due: &mut Vec<Due>) -> bool {
        if (now_ms.wrapping_sub(self.now) as i32) <= 0 {
            return true;
        }
        if self.entries == 0 || (now_ms.wrapping_sub(self.quiet) as i32) < 0 {
            self.now = now_ms;
            return true;
        }
        let all = self.work_off(now_ms, most, due);
        self.due = self.now.wrapping_add(self.next_deadline().unwrap_or(0));
        self.quiet = self.now.wrapping_add(self.ahead().unwrap_or(0));
        all
    }

    #[inline(never)]
    fn work_off(&mut self, now_ms: u32, most: usize, due: &mut Vec<Due>) -> bool {
        while self.now != now_ms {
            let left = now_ms.wrapping_sub(self.now);
            let Some(ahead) = self.ahead().filter(|ahead| *ahead <= left) else {
                self.now = now_ms;
                return true;
            };
            let tick = self.now.wrapping_add(ahead);
            if !self.take(tick, most, due) {
                // The rest of this tick is next.
                self.now = tick.wrapping_sub(1);
                return false;
            }
            self.now = tick;
        }
        true
    }

    /// Takes what comes up at `tick`. Returns whether there was room for all.
    fn take(&mut self, tick: u32, most: usize, due: &mut Vec<Due>) -> bool {
        if is_far(tick) {
            let far = tick >> FAR_SHIFT;
            while due.len() < most
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
        while due.len() < most
            && let Some(slot) = self.near.pop(&mut self.store, tick)
        {
            self.entries -= 1;
            due.push(Due { slot, mark: Mark::Near(never_zero(tick)) });
        }
        !self.near.has(tick)
    }

    /// The next far bucket with entries, as ticks of its ring from now.
    #[inline]
    fn far_ahead(&self) -> Option<u32> {
        self.far.ahead(self.now >> FAR_SHIFT)
    }

    /// Ticks from the wheel's time until the next that has entries.
    fn ahead(&self) -> Option<u32> {
        let near = self.near.ahead(self.now);
        let far = self.far_ahead().map(|far| {
            let tick = (self.now >> FAR_SHIFT).wrapping_add(far) << FAR_SHIFT;
            tick.wrapping_sub(self.now)
        });
        [near, far].into_iter().flatten().min()
    }

    /// Milliseconds from the wheel's time until something is due; `None` if
    /// nothing is entered. Deadlines that moved later count as they were.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<u32> {
        if self.entries == 0 { None } else { Some((self.due.wrapping_sub(self.now) as i32).max(1) as u32) }
    }

    /// The same, found in the rings.
    fn next_deadline(&self) -> Option<u32> {
        let near = self.near.ahead(self.now);
        // The deadlines of a bucket are all before those of the next.
        let far = self.far_ahead().map(|far| {
            let tick = (self.now >> FAR_SHIFT).wrapping_add(far);
            (self.earliest[(tick % FAR) as usize].wrapping_sub(self.now) as i32).max(1) as u32
        });
        [near, far].into_iter().flatten().min()
    }
}

/// The earlier one of two ticks.
#[inline]
const fn earlier(one: u32, other: u32) -> u32 {
    if (other.wrapping_sub(one) as i32) < 0 { other } else { one }
}

/// Whether a bucket of the far ring comes up at `tick`.
#[inline]
const fn is_far(tick: u32) -> bool {
    tick & ((1 << FAR_SHIFT) - 1) == 0
}

/// An entry that came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Whose it is.
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
            Mark::Far(tick) if mark.far == tick => {
                mark.far = 0;
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
mod tests;
