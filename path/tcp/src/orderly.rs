//! Header prediction for the end of a connection: the segment that is expected
//! next, with a FIN in it, or after one; and the segments that answer it. A
//! connection that carries one request spends half of its segments here.

use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::state::State;
use wire::tcp::{Established, Flags as Bits};

/// Any of these makes a connection a matter for the whole of RFC 9293.
const HEAVY: u16 =
    Flags::SLOW | Flags::RETRANSMIT | Flags::SEALED | Flags::PROBE | Flags::CWND_LIMITED | Flags::ABOVE_LOW_WATER;

impl Connection {
    /// Takes a segment without options but timestamps that is next in order
    /// and acknowledges all that is in flight, on a light connection (see
    /// [`Connection::on_light`]) that a FIN of either side is about to end, or
    /// has begun to: RFC 9293 section 3.10.7.4 for it, with every check that
    /// cannot fail here left out. All of its payload is in order then, and
    /// nothing is to be answered but by [`Connection::poll_segment`]. `None`
    /// for any other segment, which is for [`Connection::on_segment`]; nothing
    /// changed then.
    #[inline]
    pub fn on_orderly(&mut self, cx: &mut Context<'_>, header: &Established, payload: &[u8]) -> Option<Outcome> {
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
        let orderly = due
            && self.cold.is_none()
            && !self.flags.has(HEAVY)
            && self.snd_wnd > 0
            && !self.fills_window(acked)
            && !self.has_rested(cx)
            && header.flags.0 & LOOK == Bits::ACK.0
            && header.seq == self.rcv_nxt
            && self.wl1.at_or_before(header.seq)
            && (acked > 0 || self.is_at_ease())
            && header.ack == self.nxt
            && len + u32::from(finishes) <= self.rcv_adv.forward_from(self.rcv_nxt)
            && self.timestamp_in_order(header.timestamps.as_ref());
        if !orderly {
            return None;
        }
        cx.counters.segments_in += 1;
        let mut outcome = Outcome::NONE;
        let ends = acked > 0 && self.flags.has(Flags::FIN_SENT);
        if acked > 0 {
            self.rope.release(u64::from(acked - u32::from(ends)));
            self.una = header.ack;
            if let Some(ms) = self.round_trip(cx.now_ms, || cx.ts_offset, header.timestamps.as_ref()) {
                self.take_sample(ms);
            }
            self.end_flight(cx);
        }
        self.last_rx = cx.now_ms;
        self.snd_wnd = u32::from(header.window) << self.peer_shift();
        self.wl1 = header.seq;
        if ends {
            self.on_fin_acked(cx, &mut outcome);
        }
        if self.state != State::Closed {
            self.note_timestamp(header.timestamps.as_ref());
        }
        self.take_in_order(len);
        outcome.len = len;
        if finishes {
            self.on_fin(&mut outcome);
        }
        Some(outcome)
    }

    /// The SYN of a connection that is being opened, if it is to be sent.
    #[inline]
    pub fn poll_opening(&mut self, cx: &mut Context<'_>, path: Path) -> Option<Emit> {
        if self.state == State::SynSent && self.cold.is_none() { self.poll_syn(cx, path) } else { None }
    }

    /// What ends a light connection of which nothing is in flight, if it is one
    /// segment: the last data with FIN behind it, or the acknowledgement of
    /// the peer's; over IPv4. What is not taken,
    /// [`Connection::poll_segment`] is asked for; what is taken, that would
    /// have sent alike, and have had nothing to add.
    #[inline]
    pub fn poll_orderly(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        if self.cold.is_some() || self.flags.has(HEAVY | Flags::V6) {
            return None;
        }
        let (len, flags) = match self.state {
            State::FinWait1 | State::LastAck if self.una == self.nxt => {
                let len = self.rope.single()?;
                let fits = len <= u32::from(self.mss) && len <= self.snd_wnd.min(self.cwnd);
                if !fits || self.flags.has(Flags::FIN_SENT) {
                    return None;
                }
                (len, if len > 0 { Bits::FIN | Bits::ACK | Bits::PSH } else { Bits::FIN | Bits::ACK })
            }
            State::TimeWait if self.flags.has(Flags::ACK_NOW) => (0, Bits::ACK),
            _ => return None,
        };
        let seq = self.nxt;
        if flags.contains(Bits::FIN) {
            self.arm(cx, self.rto(cx.config));
            self.nxt = seq.plus(len + 1);
            self.flags.set(Flags::FIN_SENT);
        } else {
            cx.counters.pure_acks += 1;
        }
        Some(self.emit_bare(cx, seq, flags, len))
    }
}
