//! The short ways of a steady connection: one that is paced, and that nothing else keeps from
//! header prediction.
//!
//! A paced flow has a turn for each segment or two, and an acknowledgement for as many, so that
//! what has to be asked of any other slow connection each time would be most of what it costs.
//! Both ways leave what the long ones leave ([`Connection::poll_segment`],
//! [`Connection::on_segment_in_full`]).

#[cfg(test)]
mod tests;

use crate::connection::Connection;
use crate::context::Context;
use crate::emit::Emit;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::state::State;
use wire::Time;
use wire::tcp::{Established, Flags as Bits};

/// What a steady connection does in its turn to send.
#[derive(Clone, Copy, Debug)]
pub enum Steady {
    /// It sends this.
    Send(Emit),
    /// It waits for its pacer until then.
    Wait(Time),
}

impl Connection {
    /// Whether its pacer is all that keeps it from the short ways of others: no other connection is steady.
    #[must_use]
    pub fn is_paced_alone(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.pacing.is_some() && cold.is_calm())
    }

    /// What a steady connection sends next, or how long it waits for its pacer, if all that its
    /// pacer may let go fits into the windows. What is not taken, [`Connection::poll_segment`] is
    /// asked for; what is taken, that would have sent alike.
    #[inline]
    pub fn poll_steady(&mut self, cx: &mut Context<'_>) -> Option<Steady> {
        // An acknowledgement that is owed does not wait for the pacer.
        const UNSTEADY: u16 = Flags::PROBE | Flags::SEALED | Flags::V6 | Flags::NAGLE | Flags::ACK_NOW;
        let (in_flight, mss) = (self.in_flight(), u32::from(self.mss));
        let waiting = self.rope.len().wrapping_sub(in_flight);
        let usable = self.snd_wnd.min(self.cwnd).saturating_sub(in_flight);
        let stands = self.state == State::Established && !self.flags.has(UNSTEADY);
        let stands = stands && self.unacked == 0 && self.dupacks == 0;
        let cold = self.cold.as_mut()?;
        if !stands || waiting == 0 || !cold.is_calm() || !cold.is_treated_usually() {
            return None;
        }
        let pacing = cold.pacing.as_mut()?;
        if usable < waiting.min(pacing.pacer.most()) {
            return None;
        }
        pacing.moved = false;
        match pacing.pacer.may_send(cx.now, waiting) {
            Err(at) => {
                pacing.until = Some(at);
                Some(Steady::Wait(at))
            }
            Ok(granted) => {
                pacing.until = None;
                let len = granted.min(mss);
                Some(Steady::Send(self.emit_data(cx, in_flight, len, len == waiting)))
            }
        }
    }

    /// When the pacer lets go what follows that which [`Connection::poll_steady`] has just sent;
    /// `None` if that may leave now, or does not wait for the pacer.
    #[inline]
    pub fn wait_steady(&mut self, cx: &Context<'_>) -> Option<Time> {
        let in_flight = self.in_flight();
        let waiting = self.rope.len().wrapping_sub(in_flight);
        if waiting == 0 || self.snd_wnd.min(self.cwnd) <= in_flight {
            return None;
        }
        let pacing = self.cold.as_mut()?.pacing.as_mut()?;
        let at = pacing.pacer.may_send(cx.now, waiting).err()?;
        pacing.until = Some(at);
        Some(at)
    }

    /// Takes an acknowledgement of something that is in flight, with nothing beside it, on a
    /// steady connection. What is not taken is for [`Connection::on_segment`], which would have
    /// done the same.
    #[inline]
    pub fn on_steady(&mut self, cx: &mut Context<'_>, header: &Established, payload: &[u8]) -> Option<Outcome> {
        const LOOK: u8 = Bits::FIN.0 | Bits::SYN.0 | Bits::RST.0 | Bits::ACK.0 | Bits::URG.0;
        const UNSTEADY: u16 = Flags::PROBE | Flags::SEALED | Flags::FIN_SENT;
        let timestamps = header.timestamps.as_ref();
        let acked = header.ack.forward_from(self.una);
        let next = self.state == State::Established
            && !self.flags.has(UNSTEADY)
            && self.flags.has(Flags::SACK)
            && payload.is_empty()
            && header.flags.0 & LOOK == Bits::ACK.0
            && header.seq == self.rcv_nxt
            && self.wl1.at_or_before(header.seq)
            && acked.wrapping_sub(1) < self.in_flight()
            && self.timestamp_in_order(timestamps);
        let cold = self.cold.as_ref()?;
        if !next || cold.pacing.is_none() || !cold.is_calm() || !cold.hears_nothing_else() {
            return None;
        }
        cx.counters.segments_in += 1;
        cx.counters.fast_path += 1;
        let drained = self.on_acked(cx, timestamps, Progress::plain(header.ack, acked, false, Some(self.una)));
        self.note_window(header.seq, u32::from(header.window) << self.peer_shift());
        self.last_rx = cx.now_ms;
        self.note_timestamp(timestamps);
        Some(Outcome { drained, ..Outcome::NONE })
    }
}
