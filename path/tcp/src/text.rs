//! A segment's text and FIN, in order or ahead of a gap (RFC 9293 section
//! 3.10.7.4, steps seven and eight).

use crate::connection::Connection;
use crate::context::{Context, HOLDS_MUCH};
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::receive::Inserted;
use crate::state::State;
use app::Closed;
use wire::tcp::{Flags as Bits, SeqNum, TcpHeader};

impl Connection {
    /// These came twice: the next acknowledgement reports it (RFC 2883
    /// section 4).
    #[cold]
    pub(crate) fn note_duplicate(&mut self, cx: &Context<'_>, start: SeqNum, len: u32) {
        if len > 0 && self.flags.has(Flags::SACK) && self.state.receives() {
            self.cold_mut(cx.config).dsack = Some((start, start.plus(len)));
            self.flags.set(Flags::SLOW);
        }
    }

    /// Of `len` bytes from `seq` on, which is not below RCV.NXT, the first that
    /// came before came twice (RFC 2883 section 4.2).
    fn note_held(&mut self, cx: &Context<'_>, seq: SeqNum, len: u32) {
        let offset = seq.forward_from(self.rcv_nxt);
        let held = self.cold.as_ref().and_then(|cold| cold.receive.first_early(offset, len));
        if let Some((start, len)) = held {
            self.note_duplicate(cx, self.rcv_nxt.plus(start), len);
        }
    }

    /// Step seven, the segment text.
    pub(crate) fn take_payload(&mut self, cx: &mut Context<'_>, seq: SeqNum, payload: &[u8], outcome: &mut Outcome) {
        if payload.is_empty() {
            return;
        }
        if !self.state.receives() {
            // After the peer's FIN there is no more text (RFC 9293 section
            // 3.10.7.4): a duplicate, which is acknowledged again.
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let skip = if seq.before(self.rcv_nxt) { self.rcv_nxt.forward_from(seq) } else { 0 };
        if skip > 0 {
            self.note_duplicate(cx, seq, skip.min(payload.len() as u32));
        } else {
            self.note_held(cx, seq, payload.len() as u32);
        }
        if skip as usize >= payload.len() {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let ahead = if seq.after(self.rcv_nxt) { seq.forward_from(self.rcv_nxt) } else { 0 };
        let window = self.rcv_adv.forward_from(self.rcv_nxt);
        let len = (payload.len() as u32 - skip).min(window.saturating_sub(ahead));
        if len == 0 {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let bytes = &payload[skip as usize..(skip + len) as usize];
        if ahead == 0 {
            self.take_next(cx, skip, bytes, outcome);
        } else {
            self.take_ahead(cx, ahead, bytes);
        }
    }

    /// In-order text, on a connection that may hold some already or that may
    /// wait for just this.
    fn take_next(&mut self, cx: &mut Context<'_>, skip: u32, bytes: &[u8], outcome: &mut Outcome) {
        let len = bytes.len() as u32;
        let disturbed = self.cold.as_ref().is_some_and(|cold| !cold.receive.is_empty());
        if !disturbed {
            self.take_in_order(len);
            outcome.skip = skip;
            outcome.len = len;
            self.reach_fin(outcome);
            return;
        }
        if cx.receive_full && !self.held().is_empty() && self.would_hold_much(bytes) {
            // All connections together hold too much, and this one's
            // application waits for more before it takes any: not now.
            cx.counters.receive_full_dropped += u64::from(len);
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let cold = self.cold_mut(cx.config);
        cold.receive.hold(bytes);
        let filled = cold.receive.advance();
        self.take_in_order(len + filled);
        outcome.readable = true;
        // RFC 5681 section 4.2: what fills a gap is acknowledged at once.
        self.flags.set(Flags::ACK_NOW | Flags::SLOW);
        self.reach_fin(outcome);
    }

    /// Whether the connection holds much once it holds these.
    fn would_hold_much(&self, bytes: &[u8]) -> bool {
        self.buffered() + bytes.len() >= HOLDS_MUCH
    }

    fn take_ahead(&mut self, cx: &mut Context<'_>, ahead: u32, bytes: &[u8]) {
        cx.counters.out_of_order += 1;
        if cx.receive_full && self.would_hold_much(bytes) {
            cx.counters.out_of_order_dropped += bytes.len() as u64;
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let limit = self.receive_limit(cx.config) as usize;
        let cold = self.cold_mut(cx.config);
        let inserted = cold.receive.insert(ahead, bytes, limit);
        match inserted {
            Inserted::NoRange | Inserted::NoSpace => cx.counters.out_of_order_dropped += bytes.len() as u64,
            Inserted::Duplicate | Inserted::Stored(_) => {}
        }
        // RFC 5681 section 4.2: a segment out of order is answered at once.
        self.flags.set(Flags::ACK_NOW | Flags::SLOW);
    }

    /// Step eight, the FIN: taken now, or noted until what precedes it came.
    pub(crate) fn take_fin(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8], outcome: &mut Outcome) {
        if !header.flags.contains(Bits::FIN) || self.state == State::Closed {
            return;
        }
        if !self.state.receives() {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let syn = u32::from(header.flags.contains(Bits::SYN));
        let at = header.seq.plus(payload.len() as u32 + syn);
        if at.distance_from(self.rcv_nxt) > self.rcv_adv.distance_from(self.rcv_nxt) {
            return;
        }
        if at == self.rcv_nxt {
            self.on_fin(outcome);
        } else if at.after(self.rcv_nxt) {
            self.cold_mut(cx.config).fin_at = Some(at);
            self.flags.set(Flags::ACK_NOW | Flags::SLOW);
        }
    }

    /// The gap before a FIN that came early may now be filled.
    fn reach_fin(&mut self, outcome: &mut Outcome) {
        let rcv_nxt = self.rcv_nxt;
        if let Some(cold) = &mut self.cold
            && cold.fin_at == Some(rcv_nxt)
        {
            cold.fin_at = None;
            self.on_fin(outcome);
        }
    }

    pub(crate) fn on_fin(&mut self, outcome: &mut Outcome) {
        self.rcv_nxt = self.rcv_nxt.plus(1);
        self.rcv_adv = self.rcv_adv.latest(self.rcv_nxt);
        self.flags.set(Flags::ACK_NOW);
        outcome.finished = true;
        if self.cold.is_some() {
            self.forget_beyond_end();
        }
        match self.state {
            State::Established => self.state = State::CloseWait,
            // Our FIN is not acknowledged, or this segment would have moved
            // us to FIN-WAIT-2 before.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => {
                self.state = State::TimeWait;
                self.flags.clear(Flags::TIMER);
                outcome.closed = Some(Closed::Finished);
            }
            _ => {}
        }
    }

    /// Nothing comes after the end.
    #[cold]
    fn forget_beyond_end(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.receive.forget_early();
        }
    }
}
