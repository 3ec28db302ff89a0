//! What connections bring, by whose it is: before a connection's first request a proxy's or a
//! handshake's, then the protocol's; and of connections that are no client's.

use crate::Server;
use crate::carried::Preface;
use crate::handshakes::Shaken;
use app::{ConnId, Net};
use connections::State;
use core::hint::cold_path;
use exchange::Handler;
use wire::Time;

impl<H: Handler> Server<H> {
    /// Takes what a connection was offered, the short way as far as that
    /// leads. Returns how many bytes were used.
    ///
    /// Nothing of `data` is kept: it may lie in memory that the peer still
    /// writes to, and what it says may be another thing at the next look.
    #[inline(always)]
    pub(crate) fn on_ready_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], now: Time) -> usize {
        let used = self.h1.serve_plain(net, id, data, now);
        if used == data.len() && used > 0 {
            return used;
        }
        cold_path();
        self.on_other_data(net, id, data, used, now)
    }

    /// As [`Server::on_ready_data`] from `used` on, by heads that are parsed as
    /// a whole.
    #[inline(never)]
    fn on_other_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], used: usize, now: Time) -> usize {
        match self.h1.connections.conns.get(id.index()).map(|conn| conn.state) {
            Some(State::Ready) => {
                if data.first() == Some(&b'P') && used == 0 {
                    match self.on_preface(net, id, data) {
                        Preface::Other => {}
                        Preface::Partial => {
                            self.h1.after_offer(net, id, data, false);
                            return 0;
                        }
                        Preface::Begun => return self.take(net, id, data, used),
                    }
                }
                let used = self.h1.on_heads(net, id, data, used, now);
                self.stirred(net);
                used
            }
            _ => self.take(net, id, data, used),
        }
    }

    /// Takes what a connection was offered, from `used` on, whatever it is.
    #[inline(never)]
    fn take<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], mut used: usize) -> usize {
        // One that is not in the table is an upstream's, or was refused at the limit.
        if self.h1.connections.conns.get(id.index()).is_none_or(|conn| conn.state == State::Vacant) {
            return self.on_upstream_data(net, id, data);
        }
        loop {
            let rest = data.get(used..).unwrap_or_default();
            let taken = match self.h1.connections.conns[id.index()].state {
                State::Service => return used + self.on_service_data(net, id, rest),
                State::Carrying => return used + self.on_carried_bytes(net, id, rest),
                State::Handshake => match self.on_handshake_bytes(net, id, rest) {
                    Shaken::Taken(consumed) => Some(consumed),
                    Shaken::Waits => None,
                    Shaken::Secured(consumed) => return used + consumed,
                },
                State::Proxied => self.on_proxy_header(net, id, rest),
                State::Ready if rest.first() == Some(&b'P') => match self.on_preface(net, id, rest) {
                    Preface::Begun => Some(0),
                    Preface::Partial => None,
                    Preface::Other => return self.h1.on_bytes(net, id, data, used, None),
                },
                _ => return self.h1.on_bytes(net, id, data, used, None),
            };
            let Some(consumed) = taken else {
                self.h1.after_offer(net, id, rest, false);
                return used;
            };
            used += consumed;
        }
    }
}
