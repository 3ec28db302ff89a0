//! Connections whose protocol carries several exchanges at a time: who has them, and what it is
//! told.

use crate::Server;
use app::{ConnId, Net};
use connections::{CarriedTerms, ConnectionIo, Io, Multiplexed, State};
use core::time::Duration;
use exchange::{Handler, LocalAddress};
use http1::Door;

/// How often the exchanges of a connection are looked at: whether one takes too long.
const LOOK: Duration = Duration::from_secs(1);

/// A protocol beside HTTP/1.1, by the name that clients ask for it by.
#[derive(Debug)]
pub(crate) struct Carrier {
    name: Box<[u8]>,
    begin: fn(CarriedTerms) -> Box<dyn Multiplexed>,
}

/// What becomes of the first bytes of a connection without TLS.
pub(crate) enum Preface {
    /// They are none of HTTP/2's, or that is not spoken here.
    Other,
    /// They may become that: more has to come.
    Partial,
    /// HTTP/2 has the connection from now on.
    Begun,
}

impl<H: Handler> Server<H> {
    /// The server, which speaks this protocol, too, on connections whose clients agreed on this name
    /// in their handshake (ALPN, RFC 7301): their listener offers it
    /// ([`handshake::ServerRules::protocols`]). `begin` makes what each of them has.
    #[must_use]
    pub fn carrying(mut self, name: &[u8], begin: fn(CarriedTerms) -> Box<dyn Multiplexed>) -> Self {
        self.carriers.push(Carrier { name: name.into(), begin });
        self
    }

    /// A connection is secured: the protocol that was agreed on has it, if it is another than HTTP/1.1.
    pub(crate) fn choose_protocol<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let session = self.h1.connections.session(id).map(|session| &session.session);
        let Some(agreed) = session.and_then(|session| session.protocol.as_deref()) else { return };
        let begin = match agreed {
            http2::NAME => http2::begin,
            name => match self.carriers.iter().find(|carrier| *carrier.name == *name) {
                Some(carrier) => carrier.begin,
                None => return,
            },
        };
        self.carry(net, id, begin);
    }

    /// The first bytes of a connection without TLS may say that it is HTTP/2 (RFC 9113 section 3.3).
    #[cold]
    pub(crate) fn on_preface<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Preface {
        let some = bytes.len().min(http2::PREFACE.len());
        let is_preface = bytes.get(..some) == http2::PREFACE.get(..some);
        let opening = self.listeners.opening(|| LocalAddress::of(net, id));
        let is_spoken = opening.is_some_and(|opening| opening.http2.is_some() && opening.tls.is_none());
        let begins = self.h1.connections.conn(id).is_some_and(|conn| conn.answered() == 0);
        if !is_preface || !is_spoken || !begins {
            return Preface::Other;
        }
        if some < http2::PREFACE.len() {
            return Preface::Partial;
        }
        self.carry(net, id, http2::begin);
        Preface::Begun
    }

    fn carry<N: Net>(&mut self, net: &mut N, id: ConnId, begin: fn(CarriedTerms) -> Box<dyn Multiplexed>) {
        let opening = self.listeners.opening(|| LocalAddress::of(net, id));
        let http2 = opening.and_then(|opening| opening.http2).unwrap_or_default();
        let terms = self.h1.connections.carried_terms(id, http2);
        self.h1.connections.carry(id, begin(terms));
        net.set_timer(id, Some(net.now() + LOOK));
        self.with_protocol(net, id, |protocol, io| protocol.on_open(io));
    }

    /// Has the protocol of a connection do something; nothing if it has none, or that is at work.
    fn with_protocol<N: Net, T>(
        &mut self,
        net: &mut N,
        id: ConnId,
        tell: impl FnOnce(&mut dyn Multiplexed, &mut ConnectionIo<'_>) -> T,
    ) -> Option<T> {
        let connections = &mut self.h1.connections;
        let mut protocol = connections.take_protocol(id)?;
        let drains = connections.is_to_drain(id);
        let door = &mut Door(&mut self.h1.handler);
        let mut io = ConnectionIo::new(net, connections, door, id);
        if drains {
            protocol.drain(&mut io);
        }
        let told = tell(&mut *protocol, &mut io);
        self.h1.connections.put_protocol(id, protocol);
        Some(told)
    }

    /// The answer that was to be the last may be over: its client is told.
    fn tell_of_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let connections = &mut self.h1.connections;
        if connections.is_to_drain(id)
            && let Some(mut protocol) = connections.take_protocol(id)
        {
            protocol.drain(&mut ConnectionIo::new(net, connections, &mut Door(&mut self.h1.handler), id));
            self.h1.connections.put_protocol(id, protocol);
        }
    }

    /// Bytes of such a connection; how many were taken. What is to be sent by then is looked for once, at the turn's end.
    pub(crate) fn on_carried_bytes<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> usize {
        // Whoever listens on the way may have sent again what comes before the handshake is over.
        if self.h1.early.holds(id, b"*") {
            return 0;
        }
        let copy;
        let bytes = if net.shares_frames() {
            copy = bytes.to_vec();
            &copy
        } else {
            bytes
        };
        let taken = self.with_protocol(net, id, |protocol, io| {
            let taken = protocol.on_bytes(io, bytes);
            io.stir();
            taken
        });
        self.tell_of_end(net, id);
        taken.map_or(bytes.len(), |taken| taken.min(bytes.len()))
    }

    /// Its client sends no more.
    pub(crate) fn on_carried_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        if held > 0 && self.h1.early.goes_on(id) {
            return net.resume(id);
        }
        self.with_protocol(net, id, |protocol, io| protocol.on_end(io, held));
    }

    /// Its client has taken most of what was queued.
    pub(crate) fn on_carried_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.with_protocol(net, id, |protocol, io| protocol.on_room(io));
        self.tell_of_end(net, id);
    }

    /// Its timer ran out.
    pub(crate) fn on_carried_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let is_over = self.with_protocol(net, id, |protocol, io| {
            if io.end_late() {
                // The first time it says that an end is near, the second what the last was.
                protocol.drain(io);
                protocol.drain(io);
                io.close();
                return true;
            }
            protocol.on_timer(io);
            false
        });
        if is_over == Some(true) {
            self.h1.connections.counters.timeouts_keep_alive += 1;
        } else if self.h1.connections.conn(id).is_some_and(|conn| conn.state == State::Carrying) {
            net.set_timer(id, Some(net.now() + LOOK));
        }
    }

    /// It is gone.
    pub(crate) fn on_carried_closed<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.with_protocol(net, id, |protocol, io| {
            protocol.on_gone(io);
            io.left();
        });
    }

    /// Protocols look for which something was queued meanwhile.
    #[inline]
    pub(crate) fn stirred<N: Net>(&mut self, net: &mut N) {
        if self.h1.connections.has_stirred() {
            self.send_stirred(net);
        }
    }

    #[cold]
    #[inline(never)]
    fn send_stirred<N: Net>(&mut self, net: &mut N) {
        while let Some(id) = self.h1.connections.next_stirred() {
            self.with_protocol(net, id, |protocol, io| {
                io.offer_held();
                protocol.on_room(io);
            });
            self.tell_of_end(net, id);
        }
    }
}
