//! What handlers answer through, during a call to one: the exchange that is answered, and how it goes on.

use app::{ConnId, Net};
use connections::page::line;
use connections::{CarriedReplies, Connections, ServedConnection, State, TAKES_BODY, Tick, trace};
use exchange::{Ending, ExchangeId};
use h1::Version;
use h1::server::Transfer;
use semantics::{Request, Status};

/// What handlers answer through, during a call to one.
pub struct H1Replies<'a, N: ?Sized> {
    pub(crate) net: &'a mut N,
    pub(crate) connections: &'a mut Connections,
    /// The connection whose request the handler is being told of: what ends
    /// now, need not be gone on with.
    pub(crate) within: Option<ConnId>,
    /// The series of the exchange that it is told of, once that is known.
    pub(crate) series: Option<u16>,
}

impl<N: Net + ?Sized> H1Replies<'_, N> {
    /// What exchanges are answered through that are several on a connection: all that are none of
    /// HTTP/1.1's.
    #[cold]
    pub(crate) const fn carried(&mut self) -> CarriedReplies<'_, N> {
        CarriedReplies { net: self.net, connections: self.connections }
    }

    /// The exchange's connection, if nothing was answered yet, and how its
    /// response ends.
    pub(crate) fn unanswered(&self, id: ExchangeId) -> Option<(ConnId, Ending)> {
        let (id, conn) = self.connections.conn_of(id).filter(|(_, conn)| conn.state == State::Waiting)?;
        Some((id, conn.ending.and(self.connections.goes_on(id))))
    }

    /// The exchange's connection, if its reply was begun and not ended.
    pub(crate) fn begun(&self, id: ExchangeId) -> Option<ConnId> {
        let (id, conn) = self.connections.conn_of(id)?;
        matches!(conn.state, State::Replying | State::Tunnel).then_some(id)
    }

    /// Its connection, if it is under way.
    pub(crate) fn asked(&mut self, id: ExchangeId) -> Option<(ConnId, &mut ServedConnection)> {
        let (id, _) = self.connections.conn_of(id).filter(|(_, conn)| conn.is_asked())?;
        Some((id, &mut self.connections.conns[id.index()]))
    }

    /// A whole response is queued: `head` and `body` bytes of it.
    pub(crate) fn over(
        &mut self,
        id: ConnId,
        request: &Request<'_>,
        status: Status,
        (head, body): (usize, u64),
        ending: Ending,
    ) {
        self.connections.count(status, true);
        self.record(id, status.code(), head as u64 + body);
        let Connections { beginnings, conns, .. } = &mut *self.connections;
        let exchange = conns[id.index()].more.as_deref_mut().map(|more| &mut more.exchange);
        trace::end((beginnings, exchange), id, self.net.now(), Some((status, head as u64 + body)));
        self.connections.answered(self.net, id, head, body);
        let now = self.net.now();
        if let Some(log) = &mut self.connections.log {
            log.line(&line(self.net, id, request, status), body, now);
        }
        self.go_on(id, ending.goes_on());
    }

    /// The exchange is over: the next request, if it came already, is next.
    pub(crate) fn go_on(&mut self, id: ConnId, goes_on: bool) {
        let later = self.within != Some(id);
        let conn = &mut self.connections.conns[id.index()];
        if conn.flags & TAKES_BODY != 0 {
            // The rest of it is nobody's; only then the next request begins.
            conn.flags &= !TAKES_BODY;
            self.connections.discard_rest(self.net, id, goes_on);
            return;
        }
        if later {
            let span = self.connections.terms_of(id).keep_alive;
            self.connections.arm(self.net, id, span);
        }
        self.connections.response_over(self.net, id, goes_on);
        if later && self.connections.conns[id.index()].state == State::Ready {
            self.net.resume(id);
        }
    }

    pub(crate) fn note(&mut self, id: ConnId, bytes: u64) {
        self.connections.queued(id, bytes);
        let now = Tick::of(self.net.now());
        let conn = &mut self.connections.conns[id.index()];
        conn.last = now;
        conn.more().exchange.sent += bytes;
    }
}

/// What a request says of how its response ends, and whether that is `said` in any case.
pub(crate) fn ending(transfer: &Transfer, said: bool) -> Ending {
    Ending::new(transfer.version() == Version::Http10, transfer.keep_alive()).saying(said)
}
