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
//! So a turn is longer by one signature at most, or by as much of what is short, whatever comes:
//! requests of the silo's other clients wait for no more than that. A data path may call the server
//! several times in one turn ([`TURN_LOOKS`]); what those may do is one turn's all the same.

use handshake::Effort;
use wire::Time;

/// What a turn has room for, in the units of [`cost`]: a signature, or the ends of three handshakes.
const ROOM: u32 = 120;

/// As often as a data path may call the server in one turn, because that went on with connections.
/// Where neither the clock nor its word tells that a turn is over, the next look is another's.
const TURN_LOOKS: u8 = 4;

/// Roughly microseconds, with what follows at once: what a short step ends is answered next, and
/// often closed, which takes as long again as its keys (some 115 us for both, on kernel sockets).
const fn cost(effort: Effort) -> u32 {
    match effort {
        Effort::Short => 40,
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
    /// When the turn that is under way was first looked at, and how often; none: it has not been.
    turn: Option<(Time, u8)>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Allowance {
    pub const fn new(apart: bool) -> Self {
        Self { left: ROOM, apart, turn: None }
    }

    /// The server is called: in another turn, or again in the same one.
    pub fn look(&mut self, now: Time) {
        self.turn = match self.turn {
            Some((at, looks)) if at == now && looks < TURN_LOOKS => Some((at, looks + 1)),
            _ => {
                self.left = ROOM;
                Some((now, 1))
            }
        };
    }

    /// All of a turn is over.
    #[inline]
    pub const fn on_turn_over(&mut self) {
        self.turn = None;
    }

    /// Whether the turn that is under way was looked at: what comes up in it now is seen in the next.
    pub const fn looked_at(&self) -> bool {
        self.turn.is_some()
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
    use core::time::Duration;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// A server that is called four times in a turn made four signatures in it.
    #[test]
    fn looks_of_one_turn_share_its_room() {
        let mut own = Allowance::new(false);
        let signs = |own: &mut Allowance, micros| {
            own.look(at(micros));
            own.place(Effort::Middle, true, false) == Place::Here
        };
        assert_eq!([1, 1, 1, 1].map(|micros| signs(&mut own, micros)), [true, false, false, false]);
        assert!(own.looked_at());
        assert!(signs(&mut own, 2), "the clock went on");
        assert!(!signs(&mut own, 2));
        own.on_turn_over();
        assert!(!own.looked_at());
        assert!(signs(&mut own, 2), "the turn was over");
        // Nothing waits for ever for a clock that stands still.
        assert!((0..TURN_LOOKS).any(|_| signs(&mut own, 2)));
    }

    #[test]
    fn a_turn_has_room_for_one_signature() {
        let mut own = Allowance::new(false);
        let places =
            [Effort::Middle, Effort::Short, Effort::Short, Effort::Short].map(|one| own.place(one, true, false));
        assert_eq!(places, [Place::Here, Place::Later, Place::Later, Place::Later]);
        own.look(at(1));
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
