//! Where a step of a handshake is done: by the silo, where its bytes arrived, or by a helper.
//!
//! The way to a helper and back costs two wake-ups, two changes of thread and a signal: more
//! than a ticket takes, and on a core that both share as much of a signature's time again.
//! So the silo does what is short itself, and what is not, as long as its turn has room for
//! it; the rest waits for the next turns, or goes to the helper where that has a core of its
//! own. What is long, an RSA signature or a client's certificates, is the helper's always.
//!
//! | step | first in its turn | later in it |
//! | --- | --- | --- |
//! | short, middle | the silo, at once | the helper, if it has other cores; else the silo, in one of the next turns |
//! | long | the helper; without one the silo, one in a turn | the same |
//!
//! So a turn is longer by one signature at most, some 100 us, whatever comes: requests of the
//! silo's other clients wait for no more than that.

use handshake::Effort;

/// What a turn has room for, in the units of [`cost`]: a full handshake and its end, or that of
/// a dozen sessions that go on.
const ROOM: u32 = 120;

/// Roughly microseconds.
const fn cost(effort: Effort) -> u32 {
    match effort {
        Effort::Short => 10,
        Effort::Middle => 100,
        Effort::Long => ROOM,
    }
}

/// Where a step is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// At once, by the silo.
    Here,
    /// By the silo, in one of the next turns.
    Later,
    /// By the helper.
    Helper,
}

/// What a silo may do of handshakes in the turn that it is in.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: u32,
    /// The helper has cores that are not the silo's.
    apart: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Allowance {
    pub const fn new(apart: bool) -> Self {
        Self { left: ROOM, apart }
    }

    /// A turn begins.
    pub const fn renew(&mut self) {
        self.left = ROOM;
    }

    /// Whether there is room for this, which is then taken.
    pub const fn takes(&mut self, effort: Effort) -> bool {
        match self.left.checked_sub(cost(effort)) {
            Some(left) => self.left = left,
            None => return false,
        }
        true
    }

    /// Where a step is done that takes so much. `others` wait for the silo.
    pub fn place(&mut self, effort: Effort, has_helper: bool, others: bool) -> Place {
        if effort == Effort::Long && has_helper {
            return Place::Helper;
        }
        // Who waits goes first.
        if !others && self.takes(effort) {
            return Place::Here;
        }
        if self.apart && has_helper { Place::Helper } else { Place::Later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_room_for_one_signature() {
        let mut own = Allowance::new(false);
        let places =
            [Effort::Middle, Effort::Short, Effort::Short, Effort::Short].map(|one| own.place(one, true, false));
        assert_eq!(places, [Place::Here, Place::Here, Place::Here, Place::Later]);
        own.renew();
        assert_eq!(own.place(Effort::Short, true, true), Place::Later, "others were first");
        let shorts = (0..100).filter(|_| own.place(Effort::Short, true, false) == Place::Here).count();
        assert_eq!(shorts as u32, ROOM / cost(Effort::Short));
    }

    #[test]
    fn what_is_long_is_the_helpers() {
        for apart in [false, true] {
            let mut own = Allowance::new(apart);
            assert_eq!(own.place(Effort::Long, true, false), Place::Helper);
            assert_eq!(own.place(Effort::Middle, true, false), Place::Here, "that took no room");
            let more = if apart { Place::Helper } else { Place::Later };
            assert_eq!(own.place(Effort::Middle, true, false), more);
            assert_eq!(own.place(Effort::Middle, false, false), Place::Later, "nobody else is there");
        }
        let mut alone = Allowance::new(false);
        assert_eq!(alone.place(Effort::Long, false, false), Place::Here);
        assert_eq!(alone.place(Effort::Short, false, false), Place::Later, "one in a turn");
    }
}
