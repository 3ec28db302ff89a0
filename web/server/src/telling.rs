//! What handlers are told.

use crate::answering::Answering;
use crate::dialled::Dialled;
use crate::protocol::H1;
use app::{ConnId, Net};
use exchange::{ExchangeId, Gone, Handler, UpstreamEvent, UpstreamId};

impl<H: Handler> H1<H> {
    /// Tells the handler something of a connection's exchange.
    pub(crate) fn tell<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        within: Option<ConnId>,
        tell: impl FnOnce(&mut H, &mut Answering<'_, N>, ExchangeId),
    ) {
        let Some(conn) = self.carrier.conns.get(id.index()) else { return };
        let exchange = conn.exchange(id.index());
        tell(&mut self.handler, &mut Answering { net, carrier: &mut self.carrier, within, series: None }, exchange);
    }

    /// The client has left before the end of its exchange.
    pub(crate) fn left<N: Net>(&mut self, net: &N, id: ConnId) {
        let why = Gone::Left { now: net.now(), unsent: net.unsent(id) as u64 };
        self.broken_off(net, id, why);
    }

    /// We end an exchange before its end: others need its place.
    pub(crate) fn given_up<N: Net>(&mut self, net: &N, id: ConnId) {
        let why = Gone::GivenUp { now: net.now(), unsent: net.unsent(id) as u64 };
        self.broken_off(net, id, why);
    }

    fn broken_off<N: Net>(&mut self, net: &N, id: ConnId, why: Gone) {
        let unsent = net.unsent(id) as u64;
        if let Some(more) = self.carrier.conns[id.index()].more.as_deref_mut() {
            more.sent = more.sent.saturating_sub(unsent);
        }
        self.gone(net, id, why);
    }

    /// The exchange of a connection is over without its end.
    pub(crate) fn gone<N: Net>(&mut self, net: &N, id: ConnId, why: Gone) {
        self.carrier.close_line(id, net.now());
        let conn = &self.carrier.conns[id.index()];
        let mark = conn.more.as_ref().and_then(|more| more.mark);
        self.handler.on_gone(conn.exchange(id.index()), mark, why);
    }

    /// Tells a handler what happened to a connection that it asked for; nothing if there is
    /// no such connection.
    #[inline(never)]
    pub(crate) fn tell_upstream<N: Net>(&mut self, net: &mut N, id: ConnId, event: UpstreamEvent<'_>) -> Option<usize> {
        let Dialled { mark, .. } = *self.carrier.upstreams.get(id)?;
        let mut replies = Answering { net, carrier: &mut self.carrier, within: None, series: None };
        Some(self.handler.on_upstream(&mut replies, UpstreamId::of(id), mark, event))
    }
}
