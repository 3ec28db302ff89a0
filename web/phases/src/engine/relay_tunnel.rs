//! Connections that are passed on both ways, once a client and its upstream have agreed
//! on another protocol.

use super::Engine;
use super::relay::{Relay, RelayStage};
use super::relay_body::TUNNEL_MAX;
use super::tunnel_pace::{TunnelLate, TunnelLimits};
use app::Closed;
use exchange::{ExchangeId, Piece, Replies, UpstreamEvent};
use wire::Time;

impl Engine {
    /// While both sides send what they like.
    pub(super) fn on_tunnel_event(&mut self, replies: &mut dyn Replies, token: u32, event: UpstreamEvent<'_>) -> usize {
        let now = replies.now();
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) else { return 0 };
        let id = course.id;
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.link.is_some()) else { return 0 };
        match event {
            UpstreamEvent::Data(bytes) => {
                let room = TUNNEL_MAX.saturating_sub(replies.flow(id).unsent);
                let taken = bytes.len().min(room);
                replies.body(id, Piece::Bytes(bytes.get(..taken).unwrap_or_default()));
                relay.held = taken < bytes.len();
                course.sent.body += taken as u64;
                if let Some(last) = course.tries.last_mut() {
                    last.received += taken as u64;
                }
                if let (Some(pace), true) = (&mut relay.tunnel, taken > 0) {
                    pace.came(now);
                }
                if relay.ended && !relay.held {
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
                relay.ended = true;
                0
            }
            UpstreamEvent::Closed(_) => {
                self.end_tunnel(replies, token, TunnelEnd::Broken);
                0
            }
            UpstreamEvent::Opened
            | UpstreamEvent::Secured(_)
            | UpstreamEvent::Unsecured(_)
            | UpstreamEvent::Passed(_) => 0,
        }
    }

    /// Its upstream's timer is set anew; where that is late, the tunnel is over.
    fn watch_tunnel(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(relay) = self.rest.relay_of(token) else { return };
        if relay.watch_tunnel(replies, now).is_err() {
            self.with_runner(replies, token, |runner| {
                runner.tell_of_upstream("upstream timed out (110: Connection timed out)", runner.doing());
            });
            self.end_tunnel(replies, token, TunnelEnd::Late);
        }
    }

    /// A tunnel is over; what is queued towards its client is sent first, and what that has said
    /// is its upstream's, as long as it takes some of it.
    fn end_tunnel(&mut self, replies: &mut dyn Replies, token: u32, end: TunnelEnd) {
        self.with_runner(replies, token, |runner| {
            runner.release_peer(false);
            let link = runner.relay().and_then(|relay| Some((relay.link.take()?, relay.rules.send)));
            match link {
                Some((link, _)) if end == TunnelEnd::Late => runner.replies.cut(link),
                Some((link, patience)) => runner.replies.let_go_slowly(link, patience),
                None => {}
            }
            runner.course.relay = None;
        });
        let id = self.rest.courses.get(token as usize).and_then(Option::as_ref).map(|course| course.id);
        self.rest.end(replies, token, end == TunnelEnd::Whole);
        if let Some(id) = id {
            replies.end(id);
        }
    }

    /// Whether an exchange's connection is a tunnel.
    pub(super) fn is_tunnel(&mut self, replies: &dyn Replies, id: ExchangeId) -> bool {
        let course = self.rest.course_of(replies, id);
        let relay = course.and_then(|course| course.relay.as_deref());
        relay.is_some_and(|relay| relay.stage == RelayStage::Tunnel)
    }

    /// Bytes of a client whose connection is a tunnel. How many were taken.
    pub(super) fn on_tunnel_bytes(&mut self, replies: &mut dyn Replies, id: ExchangeId, bytes: &[u8]) -> usize {
        let now = replies.now();
        let Some(course) = self.rest.course_of(replies, id) else { return bytes.len() };
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.stage == RelayStage::Tunnel) else {
            return 0;
        };
        let Some(link) = relay.link else { return bytes.len() };
        let unsent = replies.unsent_upstream(link);
        let room = TUNNEL_MAX.saturating_sub(unsent);
        let taken = bytes.len().min(room);
        replies.send_upstream(link, Piece::Bytes(bytes.get(..taken).unwrap_or_default()));
        if let Some(pace) = &mut relay.tunnel {
            pace.queued(taken, unsent, now);
        }
        if let Some(last) = course.tries.last_mut() {
            last.sent += taken as u64;
        }
        if let Some(token) = replies.mark(id) {
            self.watch_tunnel(replies, token);
        }
        taken
    }

    /// The client of a tunnel has taken some.
    pub(super) fn on_tunnel_room(&mut self, replies: &mut dyn Replies, id: ExchangeId) -> bool {
        let now = replies.now();
        let Some(course) = self.rest.course_of(replies, id) else { return false };
        let Some(relay) = course.relay.as_deref_mut().filter(|relay| relay.stage == RelayStage::Tunnel) else {
            return false;
        };
        let (Some(link), true) = (relay.link, core::mem::take(&mut relay.held)) else { return true };
        if let Some(pace) = &mut relay.tunnel {
            pace.came(now);
        }
        replies.resume_upstream(link);
        if let Some(token) = replies.mark(id) {
            self.watch_tunnel(replies, token);
        }
        true
    }

    /// The client of a tunnel sends no more.
    pub(super) fn on_tunnel_end(&mut self, replies: &mut dyn Replies, id: ExchangeId) -> bool {
        let Some(token) = replies.mark(id) else { return false };
        let is_tunnel = self.rest.relay_of(token).is_some_and(|relay| relay.stage == RelayStage::Tunnel);
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

impl Relay {
    /// Sets the upstream's timer, where the connection is a tunnel.
    pub(super) fn watch_tunnel(&mut self, replies: &mut dyn Replies, now: Time) -> Result<(), TunnelLate> {
        let limits = TunnelLimits { read: self.rules.read, send: self.rules.send };
        let (Some(link), Some(pace)) = (self.link, &mut self.tunnel) else { return Ok(()) };
        let at = pace.look(now, replies.unsent_upstream(link), self.held, limits)?;
        replies.set_upstream_timer(link, at);
        Ok(())
    }
}
