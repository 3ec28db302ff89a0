//! The limit on connections, and who makes room for a new one: a connection
//! that is idle, which only the application knows.
//!
//! A hand goes round the slots, as that of a clock, so that nothing is kept in
//! an order and the packet path writes nothing for it. It looks at a bounded
//! number of them each time, and takes the one that has been idle for longest;
//! after it found none, it rests for a moment.

use super::Tcp;
use super::slots::Slot;
use crate::ip::Ip;
use app::{ConnId, IDLE_CHOICES, IDLE_LOOKS, IDLE_PAUSE};
use core::time::Duration;
use wire::Time;

/// Where the search for idle connections stands.
#[derive(Debug)]
pub(super) struct Crowd {
    /// The slot to look at next.
    hand: usize,
    /// None was found: not to be looked for again before this.
    rests_until: Time,
    /// The frame at hand wants a connection.
    wanted: bool,
}

impl Crowd {
    pub const fn new(now: Time) -> Self {
        Self { hand: 0, rests_until: now, wanted: false }
    }

    /// Whether the frame at hand wants a connection; said once.
    pub const fn take_wanted(&mut self) -> bool {
        core::mem::replace(&mut self.wanted, false)
    }
}

impl Tcp {
    /// Whether a new connection has to wait until another ends by itself.
    pub(super) fn is_crowded(&self) -> bool {
        self.slots.is_full() && self.common.now < self.crowd.rests_until
    }

    /// A handshake is complete, and all connections are in use: asks for one
    /// to make room, or leaves it to the peer to send again.
    #[cold]
    pub(super) fn want_room(&mut self) {
        if self.is_crowded() {
            self.counters.accept_deferred += 1;
        } else {
            self.crowd.wanted = true;
        }
    }

    /// Finds a connection to make room for a new one: of a few of those that
    /// have nothing to send and nothing held, and that `idle` has an answer
    /// for, the one for which that is longest.
    pub fn find_idle(&mut self, mut idle: impl FnMut(ConnId) -> Option<Duration>) -> Option<ConnId> {
        let mut longest = None;
        let mut choices = 0;
        let looks = IDLE_LOOKS.min(self.slots.used());
        for _ in 0..looks {
            self.crowd.hand = if self.crowd.hand + 1 < self.slots.used() { self.crowd.hand + 1 } else { 0 };
            let index = self.crowd.hand as u32;
            let slot = self.slots.at(index);
            if !self.slots.is_used(index) || slot.is_over() || !slot.tcp.is_quiet() {
                continue;
            }
            let id = self.slots.id(index);
            if let Some(time) = idle(id) {
                choices += 1;
                longest = longest.max(Some((time, id.index(), id.generation())));
                if choices == IDLE_CHOICES {
                    break;
                }
            }
        }
        if longest.is_none() {
            self.crowd.rests_until = self.common.now + IDLE_PAUSE;
            self.counters.accept_deferred += 1;
        }
        longest.map(|(_, index, generation)| ConnId::new(index as u32, generation))
    }

    /// Ends a connection at once, by a reset, and frees its slot: the frame
    /// that asked for it is to be taken again. The application hears of the
    /// end from the caller, and not by [`crate::Stack::poll_closed`].
    pub fn displace(&mut self, ip: &mut Ip, id: ConnId) {
        if self.slots.get(id).is_none_or(Slot::is_over) {
            return;
        }
        self.reset_connection(id);
        self.free_slot(ip, id.index() as u32);
        self.counters.idle_displaced += 1;
        // It is counted when it is taken again.
        ip.forget_frame();
    }
}
