//! What happens when a connection's timer runs out.

use crate::Server;
use crate::conn::{ENDED, State, Tick};
use app::{ConnId, Net};
use exchange::{Handler, HandshakeFault};
use semantics::Status;

impl<H: Handler> Server<H> {
    /// The timer ran out: a wait may be over.
    pub(crate) fn on_deadline<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let conn = self.carrier.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        let Some(conn) = conn else { return self.on_upstream_timer(net, id) };
        if conn.generation != id.generation() {
            return;
        }
        let header = self.carrier.terms.head(conn.terms).timeout;
        self.carrier.grow_old(net.now(), id);
        let conn = &self.carrier.conns[id.index()];
        match conn.state {
            State::Vacant => {}
            State::Service => _ = self.tell_service(id, |service| service.on_timer(net, id)),
            State::Tunnel => self.carrier.check_tunnel(net, id),
            State::Proxied => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => {
                    // Whoever it is, is no proxy.
                    self.carrier.counters.timeouts_header += 1;
                    self.carrier.close_after_queue(net, id);
                }
            },
            State::Handshake => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => {
                    self.carrier.counters.timeouts_header += 1;
                    self.fail(net, id, &HandshakeFault::Late, &[]);
                }
            },
            State::Body if conn.discards() => self.carrier.check_linger(net, id),
            State::Ready | State::Body => {
                if self.carrier.is_request_late(net, id) {
                    // RFC 9110 §15.5.9
                    self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                }
            }
            State::Waiting if conn.waits_for_body() => {
                let span = self.carrier.terms_of(id).body;
                match self.carrier.conns[id.index()].last.left(span, net.now()) {
                    Some(left) => self.carrier.arm(net, id, left),
                    None => {
                        self.carrier.counters.timeouts_body += 1;
                        self.on_reject(net, id, Status::REQUEST_TIMEOUT, b"");
                    }
                }
            }
            State::Waiting if conn.is_patient() => self.carrier.arm(net, id, header),
            State::Waiting => match conn.last.left(header, net.now()) {
                Some(left) => self.carrier.arm(net, id, left),
                None => self.on_late(net, id),
            },
            State::Replying => self.carrier.check_progress(net, id),
            State::Closing if net.unsent(id) > 0 || conn.flags & ENDED != 0 => self.carrier.check_progress(net, id),
            State::Closing => self.carrier.check_linger(net, id),
        }
    }

    /// A handler has let a request wait for too long.
    fn on_late<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let soonest = self.carrier.terms_of(id).keep_alive;
        self.carrier.arm(net, id, soonest);
        let mut goes_on = false;
        self.tell(net, id, None, |handler, replies, exchange| goes_on = handler.on_late(replies, exchange));
        let Some(conn) = self.carrier.conn(id).filter(|conn| conn.state == State::Waiting) else { return };
        if goes_on {
            conn.last = Tick::of(net.now());
            let span = self.carrier.terms.head(self.carrier.conns[id.index()].terms).timeout;
            self.carrier.arm(net, id, span);
        } else {
            self.carrier.counters.timeouts_file += 1;
            net.abort(id);
        }
    }
}
