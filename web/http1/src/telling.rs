//! What handlers are told.

use crate::answering::H1Replies;
use crate::protocol::H1;
use app::{ConnId, Net};
use connections::{Dialled, State, TAKES_BODY};
use exchange::{ExchangeId, Gone, Handler, Page, UpstreamEvent, UpstreamId};
use semantics::Status;

impl<H> H1<H> {
    /// What handlers answer through, while one is told of a connection's request.
    pub(crate) const fn replies<'a, N>(&'a mut self, net: &'a mut N, within: ConnId) -> H1Replies<'a, N> {
        H1Replies { net, connections: &mut self.connections, within: Some(within), series: None }
    }
}

impl<H: Handler> H1<H> {
    /// Tells the handler something of a connection's exchange.
    pub fn tell<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        within: Option<ConnId>,
        tell: impl FnOnce(&mut H, &mut H1Replies<'_, N>, ExchangeId),
    ) {
        let Some(conn) = self.connections.conns.get(id.index()) else { return };
        let exchange = conn.exchange(id.index());
        tell(
            &mut self.handler,
            &mut H1Replies { net, connections: &mut self.connections, within, series: None },
            exchange,
        );
    }

    /// The client has left before the end of its exchange.
    pub fn left<N: Net>(&mut self, net: &N, id: ConnId) {
        let (now, unsent) = (net.now(), net.unsent(id) as u64);
        let why = match net.send_file_error(id) {
            Some(fault) => Gone::FileFailed { now, unsent, fault },
            None => Gone::Left { now, unsent },
        };
        self.broken_off(net, id, why);
    }

    /// We end an exchange before its end: others need its place.
    fn given_up<N: Net>(&mut self, net: &N, id: ConnId) {
        let why = Gone::GivenUp { now: net.now(), unsent: net.unsent(id) as u64 };
        self.broken_off(net, id, why);
    }

    /// A request that waits is given up: others need its connection's place.
    pub fn give_up_request<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.given_up(net, id);
        let conn = &mut self.connections.conns[id.index()];
        conn.clear_more();
        conn.flags &= !TAKES_BODY;
        self.replies(net, id).refuse(id, &Page::new(Status::SERVICE_UNAVAILABLE, b"Retry-After: 1\r\n"));
        net.resume(id);
    }

    /// The same of an answer, or of what is its handler's.
    pub fn give_up_answer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.given_up(net, id);
        self.connections.conns[id.index()].state = State::Closing;
        net.abort(id);
    }

    fn broken_off<N: Net>(&mut self, net: &N, id: ConnId, why: Gone) {
        let unsent = net.unsent(id) as u64;
        if let Some(more) = self.connections.conns[id.index()].more.as_deref_mut() {
            more.exchange.sent = more.exchange.sent.saturating_sub(unsent);
        }
        self.gone(net, id, why);
    }

    /// The exchange of a connection is over without its end.
    pub(crate) fn gone<N: Net>(&mut self, net: &N, id: ConnId, why: Gone) {
        self.connections.close_line(id, net.now());
        let conn = &self.connections.conns[id.index()];
        let mark = conn.more.as_ref().and_then(|more| more.exchange.mark);
        self.handler.on_gone(conn.exchange(id.index()), mark, why);
    }

    /// Tells a handler what happened to a connection that it asked for; nothing if there is
    /// no such connection.
    #[inline(never)]
    pub fn tell_upstream<N: Net>(&mut self, net: &mut N, id: ConnId, event: UpstreamEvent<'_>) -> Option<usize> {
        let Dialled { mark, .. } = *self.connections.upstreams.get(id)?;
        let mut replies = H1Replies { net, connections: &mut self.connections, within: None, series: None };
        Some(self.handler.on_upstream(&mut replies, UpstreamId::of(id), mark, event))
    }
}
