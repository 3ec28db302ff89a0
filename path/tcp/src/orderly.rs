//! Header prediction for the end of a connection: the segment that is expected
//! next, with a FIN in it, or after one. A connection that carries one request
//! spends half of its segments here.

use crate::connection::{Connection, Context, Flags};
use crate::input::Outcome;
use crate::state::State;
use wire::tcp::{Flags as Bits, TcpHeader};

impl Connection {
    /// Takes a segment that is next in order, on an undisturbed connection
    /// that a FIN of either side is about to end, or has begun to: RFC 9293
    /// section 3.10.7.4 for it, with every check that cannot fail here left
    /// out. `None` for any other segment; nothing changed then.
    #[inline]
    pub(crate) fn on_orderly(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8]) -> Option<Outcome> {
        const LOOK: u8 = Bits::SYN.0 | Bits::RST.0 | Bits::ACK.0 | Bits::URG.0;
        let finishes = header.flags.contains(Bits::FIN);
        let acked = header.ack.forward_from(self.una);
        let len = payload.len() as u32;
        let text = len > 0 || finishes;
        let due = match self.state {
            State::Established | State::FinWait1 | State::FinWait2 => text || acked > 0,
            // Nothing comes after the peer's FIN but acknowledgements.
            State::CloseWait | State::LastAck | State::Closing => !text && acked > 0,
            _ => false,
        };
        let undisturbed = due
            && self.cold.is_none()
            && self.snd_wnd > 0
            && header.flags.0 & LOOK == Bits::ACK.0
            && header.seq == self.rcv_nxt
            && acked <= self.in_flight()
            && len + u32::from(finishes) <= self.rcv_adv.forward_from(self.rcv_nxt)
            && header.options.sack.is_empty()
            && self.timestamp_in_order(header.options.timestamps.as_ref());
        if !undisturbed {
            return None;
        }
        let mut outcome = Outcome::NONE;
        self.note_arrival(cx);
        let ends = acked > 0 && self.flags.has(Flags::FIN_SENT) && header.ack == self.nxt;
        if acked > 0 {
            outcome.drained = self.on_acked(cx, header, acked, ends);
        }
        self.snd_wnd = u32::from(header.window) << self.peer_shift();
        self.wl1 = header.seq;
        self.note_timestamp(header.options.timestamps.as_ref());
        if ends {
            self.on_fin_acked(cx, &mut outcome);
        }
        if len > 0 {
            self.take_in_order(len);
            outcome.len = len;
        }
        if finishes {
            self.on_fin(&mut outcome);
        }
        Some(outcome)
    }
}
