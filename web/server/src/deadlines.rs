//! What happens when a connection's timer runs out.

use crate::Server;
use app::{ConnId, Net};
use connections::State;
use exchange::{Handler, HandshakeFault};

impl<H: Handler> Server<H> {
    /// The timer ran out: a wait may be over.
    pub(crate) fn on_deadline<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = self.h1.connections.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_timer(net, id) };
        if conn.generation != id.generation() {
            return;
        }
        let header = self.h1.connections.terms.head(conn.terms).timeout;
        self.h1.connections.grow_old(net.now(), id);
        let conn = &self.h1.connections.conns[id.index()];
        match conn.state {
            State::Service => _ = self.tell_service(id, |service| service.on_timer(net, id)),
            State::Carrying => self.on_carried_timer(net, id),
            State::Proxied => match conn.last.left(header, net.now()) {
                Some(left) => self.h1.connections.arm(net, id, left),
                None => {
                    // Whoever it is, is no proxy.
                    self.h1.connections.counters.timeouts_header += 1;
                    self.h1.connections.close_after_queue(net, id);
                }
            },
            State::Handshake => match conn.last.left(header, net.now()) {
                Some(left) => self.h1.connections.arm(net, id, left),
                None => {
                    self.h1.connections.counters.timeouts_header += 1;
                    self.fail(net, id, &HandshakeFault::Late, &[]);
                }
            },
            _ => self.h1.on_timer(net, id),
        }
    }
}
