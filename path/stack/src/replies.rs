//! Replies without a connection that must not be lost: when no transmit slot
//! is free, they are sent in a later turn. A SYN,ACK that is lost costs its
//! peer a second, the last acknowledgement of a connection a retransmission
//! timeout. Resets and errors are dropped and counted: what asks for them
//! asks again.

use crate::{Egress, Stack};
use wire::Mac;

/// Replies that wait for a slot; more are dropped and counted. As many as fit
/// into a large transmit ring.
pub(crate) const MAX_PENDING: usize = 1024;

/// A reply that found no slot. What it belongs to says whether it is still
/// owed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// The SYN,ACK of a SYN queue entry.
    SynAck(u32),
    /// The acknowledgement of a TIME-WAIT record, to this address.
    TimeWait(u32, Mac),
}

impl Stack {
    /// No slot is free now.
    #[cold]
    pub(crate) fn reply_later(&mut self, reply: Pending) {
        if self.pending.len() >= MAX_PENDING {
            self.counters.replies_dropped += 1;
            return;
        }
        let news = match reply {
            Pending::SynAck(entry) => self.syns.set_owed(entry),
            Pending::TimeWait(record, _) => self.waits.set_owed(record),
        };
        if news {
            self.counters.replies_delayed += 1;
            self.pending.push_back(reply);
        }
    }

    /// Sends what waits, as far as there are slots.
    #[cold]
    pub(crate) fn poll_pending(&mut self, out: &mut impl Egress) {
        for _ in 0..self.pending.len() {
            if out.room() == 0 {
                self.blocked = true;
                return;
            }
            let Some(reply) = self.pending.pop_front() else { return };
            match reply {
                Pending::SynAck(entry) if self.syns.take_owed(entry) => self.send_syn_ack(entry, out),
                Pending::TimeWait(record, mac) if self.waits.take_owed(record) => {
                    self.send_time_wait(record, mac, out);
                }
                // The handshake or the record is gone.
                Pending::SynAck(_) | Pending::TimeWait(..) => {}
            }
        }
    }
}
