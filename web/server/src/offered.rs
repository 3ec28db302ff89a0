//! What a connection is offered, by what is expected of it.

use crate::Server;
use crate::conn::{DRY, ENDED, State, TAKES_BODY, Tick};
use crate::handshakes::Shaken;
use app::{ConnId, Net};
use exchange::{ExchangeId, Handler};
use h1::server::RequestEvent;

impl<H: Handler> Server<H> {
    /// Takes what a connection was offered, from `used` on, whatever it is.
    /// `seen` is the first event, if it was already looked for.
    #[inline(never)]
    pub(crate) fn take<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        data: &[u8],
        mut used: usize,
        mut seen: Option<&RequestEvent<'_>>,
    ) -> usize {
        // One that is not in the table is an upstream's, or was refused at the limit.
        let Some(conn) = self.carrier.conns.get(id.index()).filter(|conn| conn.state != State::Vacant) else {
            return self.on_upstream_data(net, id, data);
        };
        if conn.state == State::Replying && conn.flags & TAKES_BODY == 0 {
            // What arrived may acknowledge the last of it.
            self.on_room(net, id);
        }
        let paused = loop {
            let conn = &mut self.carrier.conns[id.index()];
            match conn.state {
                State::Vacant => return data.len(),
                State::Closing => {
                    conn.last = Tick::of(net.now());
                    return data.len();
                }
                State::Waiting | State::Replying if conn.flags & TAKES_BODY == 0 => break false,
                State::Ready if used >= data.len() && seen.is_none() => break false,
                State::Tunnel => {
                    used += self.on_tunnelled(net, id, data.get(used..).unwrap_or_default());
                    break false;
                }
                State::Handshake => {
                    match self.on_handshake_bytes(net, id, data.get(used..).unwrap_or_default()) {
                        Shaken::Taken(consumed) => used += consumed,
                        Shaken::Waits => break false,
                        Shaken::Secured(consumed) => return used + consumed,
                    }
                    continue;
                }
                State::Proxied => {
                    let header = self.on_proxy_header(net, id, data.get(used..).unwrap_or_default());
                    let Some(consumed) = header else { break false };
                    used += consumed;
                    continue;
                }
                _ => {}
            }
            let rest = data.get(used..).unwrap_or_default();
            let event = match seen.take() {
                Some(event) => *event,
                None if conn.state == State::Ready && net.unsent(id) >= self.carrier.unsent_max => break true,
                None if conn.state == State::Ready && self.handshakes.early.holds(id, rest) => break false,
                None => conn.engine.on_bytes(rest, &self.carrier.terms.head(conn.terms).limits),
            };
            match self.on_event(net, id, event, rest) {
                Some(consumed) => used += consumed,
                None => {
                    let conn = &self.carrier.conns[id.index()];
                    if conn.flags & ENDED != 0 && conn.is_asked() && conn.awaits_body() {
                        self.on_cut(net, id);
                    }
                    break false;
                }
            }
            if core::mem::take(&mut self.full) {
                break false;
            }
        };
        self.after_offer(net, id, data.get(used..).unwrap_or_default(), paused);
        used
    }

    /// The end of an offer, of which `rest` is left.
    fn after_offer<N: Net>(&mut self, net: &mut N, id: ConnId, rest: &[u8], paused: bool) {
        if core::mem::take(&mut self.looks_ahead) {
            self.look_ahead(net, id, rest);
        }
        let conn = &mut self.carrier.conns[id.index()];
        if rest.is_empty() && conn.flags & ENDED != 0 {
            conn.flags |= DRY;
        }
        self.carrier.after_data(net, id, rest.len(), paused);
    }

    /// The peer has taken some of a reply.
    pub(crate) fn on_room<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.tell(net, None, |handler, replies| handler.on_room(replies, ExchangeId::of(id)));
    }
}
