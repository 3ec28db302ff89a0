//! Connections that are a handler's, both ways, behind a reply that says so (RFC 9110
//! section 7.8); and replies that end before they are whole.

use crate::answering::H1Replies;
use crate::protocol::H1;
use app::{ConnId, Net};
use connections::{DRY, ENDED, FINISHED, State, TAKES_BODY};
use exchange::{Ending, ExchangeId, Handler, Reply};
use semantics::Request;

impl<H: Handler> H1<H> {
    /// Bytes of a client whose connection is the handler's. Returns how many it took.
    pub(crate) fn on_tunnelled<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> usize {
        let mut taken = 0;
        if !bytes.is_empty() {
            self.tell(net, id, Some(id), |handler, replies, exchange| {
                taken = handler.on_body(replies, exchange, bytes).min(bytes.len());
            });
            if let Some(more) = self.connections.conns.get_mut(id.index()).and_then(|conn| conn.more.as_mut()) {
                more.tunnelled = more.tunnelled.wrapping_add(taken as u32);
            }
        }
        let ended =
            self.connections.conn(id).is_some_and(|conn| conn.state == State::Tunnel && conn.flags & ENDED != 0);
        if ended && taken == bytes.len() {
            self.connections.conns[id.index()].flags |= DRY;
            self.on_tunnel_dry(net, id);
        }
        taken
    }

    /// The client of a tunnel has ended, and its handler has all that it sent.
    pub(crate) fn on_tunnel_dry<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.tell(net, id, None, |handler, replies, exchange| handler.on_body_end(replies, exchange, b""));
    }
}

impl<N: Net + ?Sized> H1Replies<'_, N> {
    /// Queues the head behind which the connection is the handler's.
    pub(crate) fn open_tunnel(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>) -> u64 {
        let Some((id, _)) = self.unanswered(id) else { return self.carried().begin(id, request, reply) };
        let reply = Reply { length: None, ..*reply };
        let conn = self.send_head(id, request, &reply, (Ending::GOES_ON, false));
        // No request follows.
        conn.ending = conn.ending.and(false);
        conn.state = State::Tunnel;
        let head = conn.more().exchange.head;
        self.connections.watch_progress(self.net, id);
        self.net.resume(id);
        head.into()
    }

    /// The request's body is longer than it may be.
    #[cold]
    pub(crate) fn refuse_body(&mut self, id: ExchangeId) {
        if let Some((_, conn)) = self.asked(id) {
            conn.ending = conn.ending.and(false);
            self.connections.counters.bodies_refused += 1;
        }
    }

    /// Its peer is told of the end by a reset.
    pub(crate) fn reset(&mut self, id: ExchangeId) {
        let Some((id, _)) = self.asked(id) else { return };
        self.connections.close_line(id, self.net.now());
        self.connections.conns[id.index()].state = State::Closing;
        self.net.abort(id);
    }

    /// There is no reply.
    pub(crate) fn hang_up(&mut self, id: ExchangeId) {
        let Some((id, _)) = self.unanswered(id) else { return };
        let conn = &mut self.connections.conns[id.index()];
        conn.requests = conn.requests.saturating_add(1);
        conn.flags &= !TAKES_BODY;
        conn.clear_more();
        self.connections.close_after_queue(self.net, id);
    }

    /// What is queued of a reply is sent, and no more; its client can tell that something
    /// is missing.
    pub(crate) fn cut_reply(&mut self, id: ExchangeId) {
        let Some((id, conn)) = self.asked(id) else { return };
        let told = conn.state == State::Replying
            && conn.more.as_ref().is_some_and(|more| !more.until_close)
            && conn.flags & FINISHED == 0;
        let ended = conn.flags & ENDED != 0;
        let now = self.net.now();
        self.connections.close_line(id, now);
        if told && !ended {
            // Its length, or its last chunk, says that there was to be more.
            self.connections.close_after_queue(self.net, id);
        } else {
            self.connections.reset_after_queue(self.net, id);
        }
    }
}
