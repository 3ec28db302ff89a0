//! How much a connection may have under way in either direction: what the path
//! takes, as it is measured, within limits.
//!
//! The receive window begins with [`Config::receive_window`] and opens to twice
//! what comes in a round trip, up to [`Config::receive_limit`] (M. Fisk, W. Feng,
//! Dynamic Right-Sizing in TCP, 2001; `tcp_rcv_space_adjust` in Linux's
//! net/ipv4/tcp_input.c). The round trip is the connection's own, mostly the
//! handshake's: what queues on the way makes it longer, and the window no wider.
//!
//! What is under way to the peer beyond a share does not count as unsent, so that
//! applications queue what is to follow it ([`Connection::send_room`]).

#[cfg(test)]
mod tests;

use crate::cold::Cold;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::Context;
use crate::incoming::Incoming;

/// Of what is under way so much counts as unsent: with as much that is queued
/// the low-water mark is reached, and what waits lasts until more is there.
const COUNTED_IN_FLIGHT: u32 = app::SEND_LOW_WATER as u32 / 2;

/// What came is looked at for the first time where the sequence numbers pass
/// such a boundary: short requests mostly do not.
const LOOK_EACH: u32 = 64 * 1024;

impl Connection {
    /// The largest window that the peer is told, and what may wait for the
    /// application or for a gap to fill, in bytes.
    #[inline(always)]
    pub(crate) fn receive_limit(&self, config: &Config) -> u32 {
        match &self.cold {
            None => config.first_window(),
            Some(cold) => cold.incoming.map_or(config.first_window(), |incoming| incoming.limit),
        }
    }

    /// An acknowledgement is sent alone: more comes than is answered.
    #[inline]
    pub(crate) fn note_incoming(&mut self, cx: &Context<'_>) {
        let before = self.rcv_nxt.minus(u32::from(self.unacked));
        if self.cold.is_some() || before.0 / LOOK_EACH != self.rcv_nxt.0 / LOOK_EACH {
            self.measure_incoming(cx);
        }
    }

    #[cold]
    fn measure_incoming(&mut self, cx: &Context<'_>) {
        let first = cx.config.first_window();
        if first >= cx.config.receive_limit || !self.rtt.sampled() || !self.state.receives() {
            return;
        }
        let (rcv_nxt, now, rtt_us) = (self.rcv_nxt, cx.now, u64::from(self.rtt.srtt_us()));
        let (mss, cwnd) = (u32::from(self.mss), self.cwnd);
        let cold = self.cold.get_or_insert_with(|| Box::new(Cold::new(cx.config, mss, cwnd)));
        let held = cold.receive.contiguous().len();
        let incoming = cold.incoming.get_or_insert(Incoming { limit: first, first, from: rcv_nxt, since: now });
        let took_us = u64::try_from(now.since(incoming.since).as_micros()).unwrap_or(u64::MAX);
        if took_us < rtt_us.max(1) {
            return;
        }
        let in_a_round_trip = u64::from(rcv_nxt.forward_from(incoming.from)) * rtt_us / took_us;
        incoming.from = rcv_nxt;
        incoming.since = now;
        let wanted = u32::try_from(2 * in_a_round_trip).unwrap_or(u32::MAX).min(cx.config.receive_limit);
        // An application that does not take it needs no more.
        if wanted > incoming.limit && held < incoming.limit as usize / 2 && !cx.receive_full {
            incoming.limit = wanted;
        }
    }

    /// Bytes queued and not acknowledged, as the application queued them, but
    /// for those under way that the data path has room for.
    #[inline]
    #[must_use]
    pub fn unsent(&self) -> u32 {
        match &self.cold {
            Some(cold) if cold.send_room > 0 => self.rope.plain_len() - self.covered_by(cold.send_room),
            _ => self.rope.plain_len(),
        }
    }

    /// Whether so many bytes are [unsent](Self::unsent). No more are than are queued: of short
    /// answers nothing else is looked at.
    #[inline(always)]
    #[must_use]
    pub fn unsent_reaches(&self, bytes: usize) -> bool {
        self.rope.plain_len() as usize >= bytes && self.is_unsent(bytes)
    }

    #[cold]
    #[inline(never)]
    fn is_unsent(&self, bytes: usize) -> bool {
        self.unsent() as usize >= bytes
    }

    #[cold]
    fn covered_by(&self, room: u32) -> u32 {
        room.min(self.nxt.forward_from(self.una).saturating_sub(COUNTED_IN_FLIGHT)).min(self.rope.plain_len())
    }

    /// Room for what is under way, in bytes: what is given, and what the path
    /// takes at present, up to `most`.
    #[must_use]
    pub fn send_room(&self, most: u32) -> (u32, u32) {
        let Some(given) = self.cold.as_ref().map(|cold| cold.send_room) else { return (0, 0) };
        // While nothing is heard, what it has is enough.
        let most = if self.backoff > 0 { given.min(most) } else { most };
        (given, self.nxt.forward_from(self.una).saturating_sub(COUNTED_IN_FLIGHT).min(most))
    }

    /// So much room is given.
    pub fn set_send_room(&mut self, room: u32) {
        if let Some(cold) = &mut self.cold {
            cold.send_room = room;
        }
    }
}
