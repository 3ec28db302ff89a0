//! Replies without a connection that must not be lost: when no transmit slot
//! is free, they are sent in a later turn. A SYN,ACK that is lost costs its
//! peer a second, the last acknowledgement of a connection a retransmission
//! timeout. Resets and errors are dropped and counted: what asks for them
//! asks again.

use super::Tcp;
use super::outbox::Pending;
use crate::egress::Egress;
use crate::ip::Ip;

impl Tcp {
    /// No slot is free now.
    #[cold]
    pub(super) fn reply_later(&mut self, ip: &mut Ip, reply: Pending) {
        if !self.outbox.has_room() {
            ip.drop_reply();
            return;
        }
        let news = match reply {
            Pending::SynAck(entry) => self.syns.set_owed(entry),
            Pending::TimeWait(record, _) => self.waits.set_owed(record),
        };
        if news {
            self.counters.replies_delayed += 1;
            self.outbox.push_pending(reply);
        }
    }

    /// Sends replies and resets that wait. Whether there were slots for all.
    #[inline(always)]
    pub fn poll_replies(&mut self, ip: &mut Ip, out: &mut impl Egress) -> bool {
        let mut found = true;
        if self.outbox.pending() > 0 {
            found &= self.poll_pending(ip, out);
        }
        if self.outbox.has_resets() {
            found &= self.poll_resets(ip, out);
        }
        found
    }

    #[cold]
    fn poll_pending(&mut self, ip: &mut Ip, out: &mut impl Egress) -> bool {
        for _ in 0..self.outbox.pending() {
            if out.room() == 0 {
                return false;
            }
            match self.outbox.pop_pending() {
                Some(Pending::SynAck(entry)) if self.syns.take_owed(entry) => self.send_syn_ack(ip, entry, out),
                Some(Pending::TimeWait(record, mac)) if self.waits.take_owed(record) => {
                    self.send_time_wait(ip, record, mac, out);
                }
                // The handshake or the record is gone.
                Some(Pending::SynAck(_) | Pending::TimeWait(..)) | None => {}
            }
        }
        true
    }

    #[cold]
    fn poll_resets(&mut self, ip: &mut Ip, out: &mut impl Egress) -> bool {
        while self.outbox.has_resets() {
            if out.room() == 0 {
                return false;
            }
            let Some(reset) = self.outbox.pop_reset() else { break };
            if let Some(mac) = ip.neighbours.mac(reset.neighbour) {
                let reply = reset.reply(self.common.stamp(&reset.flow));
                self.reply_as(ip, out, &reset.flow, mac, &reply, reset.traffic_class);
            }
        }
        true
    }
}
