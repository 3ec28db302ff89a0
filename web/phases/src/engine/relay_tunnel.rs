//! Connections that are passed on both ways, once a client and its upstream have agreed
//! on another protocol.

use super::Engine;
use super::relay::RelayStage;
use super::relay_body::TUNNEL_MAX;
use app::Closed;
use exchange::{ExchangeId, Piece, Replies, UpstreamEvent};

impl Engine {
    /// While both sides send what they like.
    pub(super) fn on_tunnel_event<R: Replies>(
        &mut self,
        replies: &mut R,
        token: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        let now = replies.now();
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) else { return 0 };
        let id = course.id;
        let Some(relay) = course.relay.as_deref_mut() else { return 0 };
        let Some(link) = relay.link else { return 0 };
        match event {
            UpstreamEvent::Data(bytes) => {
                let room = TUNNEL_MAX.saturating_sub(replies.unsent(id));
                let taken = bytes.len().min(room);
                replies.bytes(id, bytes.get(..taken).unwrap_or_default());
                relay.held = taken < bytes.len();
                course.sent.body += taken as u64;
                if let Some(last) = course.tries.last_mut() {
                    last.received += taken as u64;
                }
                replies.set_upstream_timer(link, Some(now + relay.rules.read));
                if relay.ended && !relay.held {
                    self.end_tunnel(replies, token, true);
                }
                taken
            }
            UpstreamEvent::Room => {
                replies.resume(id);
                0
            }
            // What the client still takes, it gets.
            UpstreamEvent::End { held: 0 } | UpstreamEvent::Closed(Closed::Finished) => {
                self.end_tunnel(replies, token, true);
                0
            }
            UpstreamEvent::End { .. } => {
                relay.ended = true;
                0
            }
            UpstreamEvent::Timer | UpstreamEvent::Closed(_) => {
                self.end_tunnel(replies, token, false);
                0
            }
            UpstreamEvent::Opened
            | UpstreamEvent::Secured(_)
            | UpstreamEvent::Unsecured(_)
            | UpstreamEvent::Passed(_) => 0,
        }
    }

    /// A tunnel is over; what is queued towards its client is sent first.
    fn end_tunnel<R: Replies>(&mut self, replies: &mut R, token: u32, orderly: bool) {
        self.with_runner(replies, token, |runner| {
            runner.release_peer(false);
            if let Some(link) = runner.relay().and_then(|relay| relay.link.take()) {
                runner.replies.let_go(link);
            }
            runner.course.relay = None;
        });
        let id = self.rest.courses.get(token as usize).and_then(Option::as_ref).map(|course| course.id);
        self.rest.end(replies, token, orderly);
        if let Some(id) = id {
            replies.end(id);
        }
    }

    /// Whether an exchange's connection is a tunnel.
    pub(super) fn is_tunnel<R: Replies>(&mut self, replies: &R, id: ExchangeId) -> bool {
        let course = self.rest.course_of(replies, id);
        let relay = course.and_then(|course| course.relay.as_deref());
        relay.is_some_and(|relay| relay.stage == RelayStage::Tunnel)
    }

    /// Bytes of a client whose connection is a tunnel. How many were taken.
    pub(super) fn on_tunnel_bytes<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        let now = replies.now();
        let Some(course) = self.rest.course_of(replies, id) else { return bytes.len() };
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.stage == RelayStage::Tunnel) else {
            return 0;
        };
        let Some(link) = relay.link else { return bytes.len() };
        let room = TUNNEL_MAX.saturating_sub(replies.unsent_upstream(link));
        let taken = bytes.len().min(room);
        replies.send_upstream(link, Piece::Bytes(bytes.get(..taken).unwrap_or_default()));
        replies.set_upstream_timer(link, Some(now + relay.rules.read));
        if let Some(last) = course.tries.last_mut() {
            last.sent += taken as u64;
        }
        taken
    }

    /// The client of a tunnel has taken some.
    pub(super) fn on_tunnel_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let Some(course) = self.rest.course_of(replies, id) else { return false };
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.stage == RelayStage::Tunnel) else {
            return false;
        };
        let (Some(link), true) = (relay.link, core::mem::take(&mut relay.held)) else { return true };
        replies.resume_upstream(link);
        true
    }

    /// The client of a tunnel sends no more.
    pub(super) fn on_tunnel_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let Some(token) = replies.mark(id) else { return false };
        let is_tunnel = self.rest.relay_of(token).is_some_and(|relay| relay.stage == RelayStage::Tunnel);
        if is_tunnel {
            self.end_tunnel(replies, token, true);
        }
        is_tunnel
    }
}
