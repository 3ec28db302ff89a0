//! The connections' timers, on the wheel that the stack has too.
//!
//! The wheel counts milliseconds modulo 2³²; here are all 64 bits of a deadline.
//! While one stands, its slot is entered for it or for an earlier one, so that
//! the common case, a timeout pushed on by each request, is a store. Entries
//! belong to slots, not to connections: the next connection of a slot takes over
//! what stands there.

use wheel::{Due, Wheel, WheelMark};
use wire::Time;

/// No time: later than any.
const NEVER: u64 = u64::MAX;

/// The furthest that the wheel is asked for, in milliseconds: twelve days. A
/// deadline that is further off is entered again on the way there.
const FURTHEST: u64 = 1 << 30;

/// A slot's timer, kept with its connection. Milliseconds of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timer {
    /// When it is to run out; rounded up, so that it is never early.
    deadline: u64,
    mark: WheelMark,
}

impl Timer {
    pub(crate) const IDLE: Self = Self { deadline: NEVER, mark: WheelMark::NONE };

    /// Clears the deadline; the entry stays.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.deadline = NEVER;
    }
}

/// All entries.
#[derive(Debug)]
pub(crate) struct Timers {
    wheel: Wheel,
    /// The millisecond that the wheel was told last.
    now: u64,
    /// What came up; empty between passes.
    due: Vec<Due>,
}

impl Timers {
    /// Time begins at `now`.
    pub(crate) fn new(now: Time) -> Self {
        let now = now.as_millis();
        Self { wheel: Wheel::new(now as u32, 0), now, due: Vec::new() }
    }

    /// Sets or clears `slot`'s timer. One that is set for a time that has passed
    /// runs out in the next millisecond.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, timer: &mut Timer, at: Option<Time>) {
        let Some(at) = at else { return timer.clear() };
        let deadline = at.as_nanos().div_ceil(1_000_000);
        let before = core::mem::replace(&mut timer.deadline, deadline);
        if before > deadline {
            self.enter(slot, timer);
        }
    }

    fn enter(&mut self, slot: u32, timer: &mut Timer) {
        let tick = timer.deadline.clamp(self.now, self.now + FURTHEST);
        self.wheel.schedule(slot, &mut timer.mark, tick as u32);
    }

    /// What came up by `now`, whether it means something or not: give each to
    /// [`Timers::claim`], and the list back by [`Timers::put_back`]. More than
    /// [`wheel::BOUND`] come up in several calls.
    #[inline]
    pub(crate) fn come_up(&mut self, now: Time) -> Option<Vec<Due>> {
        let now = now.as_millis();
        if now == self.now && self.wheel.now() == now as u32 {
            return None;
        }
        self.now = now;
        self.wheel.advance(now as u32, &mut self.due);
        if self.due.is_empty() { None } else { Some(core::mem::take(&mut self.due)) }
    }

    /// Takes back the list of [`Timers::come_up`], for the next time.
    pub(crate) fn put_back(&mut self, mut due: Vec<Due>) {
        due.clear();
        self.due = due;
    }

    /// Whether `due` means that its slot's timer ran out; the timer is
    /// cleared then. If it was moved, it is entered again.
    pub(crate) fn claim(&mut self, due: Due, timer: &mut Timer) -> bool {
        if !due.claim(&mut timer.mark) || timer.deadline == NEVER {
            return false;
        }
        if timer.deadline > self.now {
            self.enter(due.slot, timer);
            return false;
        }
        timer.clear();
        true
    }

    /// When to look again, at the latest.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        let behind = (self.now as u32).wrapping_sub(self.wheel.now());
        let next = self.wheel.next()?;
        Some(Time::from_millis(self.now - u64::from(behind) + u64::from(next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 40;

    /// A worker's timers, and what is wanted of them.
    struct World {
        timers: Timers,
        slots: [Timer; SLOTS],
        /// When each is to run out, in milliseconds.
        wanted: [Option<u64>; SLOTS],
        fired: u64,
    }

    impl World {
        fn new(now: Time) -> Self {
            Self { timers: Timers::new(now), slots: [Timer::IDLE; SLOTS], wanted: [None; SLOTS], fired: 0 }
        }

        fn set(&mut self, slot: usize, at: Option<Time>, now: Time) {
            self.timers.set(slot as u32, &mut self.slots[slot], at);
            let millis = |at: Time| at.as_nanos().div_ceil(1_000_000).max(now.as_millis() + 1);
            // The wheel has no tick 0.
            self.wanted[slot] = at.map(millis).map(|at| if at as u32 == 0 { at + 1 } else { at });
        }

        /// Runs what came up, and sees that nothing else is due.
        fn pass(&mut self, now: Time) {
            while let Some(due) = self.timers.come_up(now) {
                for due in &due {
                    let slot = due.slot as usize;
                    if self.timers.claim(*due, &mut self.slots[slot]) {
                        let wanted = self.wanted[slot].take();
                        assert!(wanted.is_some_and(|at| at <= now.as_millis() + 1), "early: {wanted:?} at {now:?}");
                        self.fired += 1;
                    }
                }
                self.timers.put_back(due);
            }
            for at in self.wanted.into_iter().flatten() {
                assert!(now.as_millis() < at, "late: {at} at {now:?}");
                assert!(self.timers.next().is_some_and(|next| next <= Time::from_millis(at)));
            }
        }
    }

    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        }
    }

    /// Deadlines that move about at random, also where 32 bits of milliseconds
    /// begin anew: none comes up early, and none late.
    #[test]
    fn never_early_and_never_late() {
        for start in [77, u64::from(u32::MAX) - 40_000, 9 << 32] {
            let mut random = random(start);
            let mut now = Time::from_millis(start);
            let mut world = World::new(now);
            for _ in 0..100_000 {
                let span = [100u64, 3_000_000, 400_000_000, 70_000_000_000][random(4) as usize];
                let at = (random(8) > 0).then(|| Time::from_nanos(now.as_nanos() + random(span)));
                world.set(random(SLOTS as u64) as usize, at, now);
                now = Time::from_nanos(now.as_nanos() + random(2_000_000));
                world.pass(now);
            }
            assert!(world.fired > 5_000, "{}", world.fired);
            assert!(world.timers.wheel.entries() < SLOTS * 100, "{}", world.timers.wheel.entries());
        }
    }

    /// A worker that sleeps until the next deadline, and is woken by nothing else,
    /// wakes once for each.
    #[test]
    fn a_sleeper_wakes_once_for_each() {
        let mut now = Time::from_millis(1 << 40);
        let mut world = World::new(now);
        let mut random = random(5);
        let mut deadlines = std::collections::BTreeSet::new();
        for slot in 0..SLOTS {
            let at = Time::from_millis(now.as_millis() + 1 + random(400_000));
            world.set(slot, Some(at), now);
            deadlines.insert(at);
        }
        for deadline in deadlines {
            now = world.timers.next().unwrap();
            assert_eq!(now, deadline);
            world.pass(now);
        }
        assert_eq!((world.fired, world.timers.next()), (SLOTS as u64, None));
    }

    /// One that is months away does not run out before.
    #[test]
    fn the_furthest_deadline_is_entered_again_on_the_way() {
        let start = 123_456;
        let at = Time::from_millis(start + 6_000_000_000);
        let mut world = World::new(Time::from_millis(start));
        world.set(0, Some(at), Time::from_millis(start));
        let mut looks = 0;
        while world.fired == 0 {
            world.pass(world.timers.next().unwrap());
            looks += 1;
        }
        assert_eq!(world.timers.now, at.as_millis());
        assert!(looks < 20_000, "{looks}");
    }
}
