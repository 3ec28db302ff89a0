//! When what turns have sent is shown to the link's peer, if not at the end
//! of each: [`crate::Pace::tx_delay`].
//!
//! A plain state machine, as [`crate::idle`].

use core::time::Duration;
use wire::Time;

/// Frames held back.
///
/// Call order: [`Hold::on_turn`] once after each turn, which says whether to
/// flush; [`Hold::deadline`] before a sleep, which must end then.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    delay: Duration,
    /// When the link is flushed at the latest; `None`: nothing is held.
    flush_at: Option<Time>,
    /// Free slots after the turn before, and the most ever seen: about the
    /// ring's size.
    room: usize,
    size: usize,
}

impl Hold {
    /// Holds frames back for so long at most; nothing, if that is zero.
    #[must_use]
    pub const fn new(delay: Duration) -> Self {
        Self { delay, flush_at: None, room: 0, size: 0 }
    }

    /// Whether every turn is flushed at its end.
    #[inline]
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.delay.is_zero()
    }

    /// Tells of a turn at `now`, whether it found anything to do, and the free
    /// slots after it. Returns whether to flush now.
    ///
    /// Nobody counts what a turn sends, as that would cost every frame of
    /// those who hold nothing. A turn may have sent if it found something, or
    /// if the free slots are not what they were. Any other (timers sent as
    /// many frames as the peer returned slots) is flushed at once, as is one
    /// that sent nothing: that costs the driver a comparison.
    #[must_use]
    pub fn on_turn(&mut self, now: Time, found: bool, room: usize) -> bool {
        let may_have_sent = found || room != self.room;
        self.room = room;
        self.size = self.size.max(room);
        if self.flush_at.is_none() && may_have_sent {
            self.flush_at = Some(now + self.delay);
        }
        // The peer may work on one half of the ring while the other fills.
        let flush = self.flush_at.is_none_or(|at| now >= at) || room < self.size / 2;
        if flush {
            self.flush_at = None;
        }
        flush
    }

    /// All was flushed, whatever was said last: it is over, or a program goes away.
    pub const fn on_flush(&mut self) {
        self.flush_at = None;
    }

    /// When the next turn is due for the sake of what is held.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.flush_at.unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn hold() -> Hold {
        let mut hold = Hold::new(Duration::from_micros(100));
        // The first turn learns the ring's size.
        let _ = hold.on_turn(us(0), false, 256);
        assert!(hold.on_turn(us(100), false, 256));
        hold
    }

    #[test]
    fn without_a_delay_there_is_nothing_to_ask() {
        assert!(Hold::new(Duration::ZERO).is_off());
        assert!(!hold().is_off());
    }

    #[test]
    fn the_first_frame_held_waits_for_the_delay_and_no_longer() {
        let mut hold = hold();
        assert!(!hold.on_turn(us(1_000), true, 255));
        assert_eq!(hold.deadline(), us(1_100), "from the first that is held");
        assert!(!hold.on_turn(us(1_050), true, 254));
        assert!(!hold.on_turn(us(1_099), false, 254));
        assert_eq!(hold.deadline(), us(1_100));
        assert!(hold.on_turn(us(1_100), false, 254));
        assert_eq!(hold.deadline(), Time::MAX);
        // And the next one for as long.
        assert!(!hold.on_turn(us(5_000), true, 255));
        assert_eq!(hold.deadline(), us(5_100));
    }

    #[test]
    fn a_ring_that_is_half_full_is_flushed() {
        let mut hold = hold();
        assert!(!hold.on_turn(us(1_000), true, 128));
        assert!(hold.on_turn(us(1_001), true, 127));
        assert_eq!(hold.deadline(), Time::MAX);
    }

    #[test]
    fn what_no_turn_admits_to_is_not_held() {
        let mut hold = hold();
        // Sent by itself: the free slots are fewer.
        assert!(!hold.on_turn(us(1_000), false, 250));
        assert!(hold.on_turn(us(1_100), false, 250));
        // Nothing found, nothing changed: as many came back as were sent.
        assert!(hold.on_turn(us(1_200), false, 250));
        assert_eq!(hold.deadline(), Time::MAX, "and no sleep is cut short for nothing");
    }
}
