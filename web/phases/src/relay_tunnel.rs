//! Connections that are passed on both ways, once a client and its upstream have agreed
//! on another protocol.

use super::Engine;
use app::Closed;
use asking::{AskStage, SEND_MAX};
use exchange::{ExchangeId, Piece, Replies, UpstreamEvent};

impl Engine {
    /// While both sides send what they like.
    pub(super) fn on_tunnel_event(&mut self, replies: &mut dyn Replies, token: u32, event: UpstreamEvent<'_>) -> usize {
        let Some(state) = self.rest.requests.get_mut(token) else { return 0 };
        let id = state.id;
        let Some(relay) = state.passed.relay.as_deref_mut().filter(|relay| relay.ask.link().is_some()) else {
            return 0;
        };
        match event {
            UpstreamEvent::Data(bytes) => {
                let room = SEND_MAX.saturating_sub(replies.flow(id).unsent);
                let taken = bytes.len().min(room);
                replies.body(id, Piece::Bytes(bytes.get(..taken).unwrap_or_default()));
                state.sent.body += taken as u64;
                let (all, now) = (bytes.len(), replies.now());
                if relay.ask.tunnel_came(now, taken, all) {
                    self.end_tunnel(replies, token, TunnelEnd::Whole);
                } else {
                    self.watch_tunnel(replies, token);
                }
                taken
            }
            UpstreamEvent::Room => {
                replies.read(id, None);
                self.watch_tunnel(replies, token);
                0
            }
            UpstreamEvent::Timer => {
                self.watch_tunnel(replies, token);
                0
            }
            // What the client still takes, it gets.
            UpstreamEvent::End { held: 0 } | UpstreamEvent::Closed(Closed::Finished) => {
                self.end_tunnel(replies, token, TunnelEnd::Whole);
                0
            }
            UpstreamEvent::End { .. } => {
                relay.ask.tunnel_ended();
                0
            }
            UpstreamEvent::Closed(_) => {
                self.end_tunnel(replies, token, TunnelEnd::Broken);
                0
            }
            UpstreamEvent::Opened | UpstreamEvent::Shaken(_) | UpstreamEvent::Passed(_) => 0,
        }
    }

    /// Its upstream's timer is set anew; where that is late, the tunnel is over.
    fn watch_tunnel(&mut self, replies: &mut dyn Replies, token: u32) {
        let looked = self.rest.ask_for(replies, token, |ask, turn| ask.watch_tunnel(turn));
        if looked.is_some_and(|looked| looked.is_err()) {
            self.with_runner(replies, token, |runner| runner.tell_notes());
            self.end_tunnel(replies, token, TunnelEnd::Late);
        }
    }

    /// A tunnel is over; what is queued towards its client is sent first, and what that has said
    /// is its upstream's, as long as it takes some of it.
    fn end_tunnel(&mut self, replies: &mut dyn Replies, token: u32, end: TunnelEnd) {
        self.with_runner(replies, token, |runner| {
            runner.ask(|ask, turn| ask.end_tunnel(turn, end == TunnelEnd::Late));
            runner.forget_relay();
        });
        let id = self.rest.requests.get(token).map(|state| state.id);
        self.rest.end(replies, token, end == TunnelEnd::Whole);
        if let Some(id) = id {
            replies.end(id);
        }
    }

    /// Whether an exchange's connection is a tunnel.
    pub(super) fn is_tunnel(&mut self, replies: &dyn Replies, id: ExchangeId) -> bool {
        let state = self.rest.requests.of_exchange(replies, id);
        let relay = state.and_then(|state| state.passed.relay.as_deref());
        relay.is_some_and(|relay| relay.ask.stage() == AskStage::Tunnel)
    }

    /// Bytes of a client whose connection is a tunnel. How many were taken.
    pub(super) fn on_tunnel_bytes(&mut self, replies: &mut dyn Replies, id: ExchangeId, bytes: &[u8]) -> usize {
        let Some(token) = replies.mark(id).filter(|token| self.rest.requests.of((*token, id)).is_some()) else {
            return bytes.len();
        };
        if !self.is_tunnel(replies, id) {
            return 0;
        }
        let taken = self.rest.ask_for(replies, token, |ask, turn| ask.tunnel_send(turn, bytes));
        self.watch_tunnel(replies, token);
        taken.unwrap_or(bytes.len())
    }

    /// The client of a tunnel has taken some.
    pub(super) fn on_tunnel_room(&mut self, replies: &mut dyn Replies, id: ExchangeId) -> bool {
        if !self.is_tunnel(replies, id) {
            return false;
        }
        if let Some(token) = replies.mark(id)
            && self.rest.ask_for(replies, token, |ask, turn| ask.tunnel_room(turn)) == Some(true)
        {
            self.watch_tunnel(replies, token);
        }
        true
    }

    /// The client of a tunnel sends no more.
    pub(super) fn on_tunnel_end(&mut self, replies: &mut dyn Replies, id: ExchangeId) -> bool {
        let Some(token) = replies.mark(id) else { return false };
        let is_tunnel = self.rest.relay_of(token).is_some_and(|relay| relay.ask.stage() == AskStage::Tunnel);
        if is_tunnel {
            self.end_tunnel(replies, token, TunnelEnd::Whole);
        }
        is_tunnel
    }
}

/// How a tunnel ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TunnelEnd {
    /// One side has said all.
    Whole,
    /// The upstream's connection broke.
    Broken,
    /// The upstream said nothing for too long, or took nothing.
    Late,
}
