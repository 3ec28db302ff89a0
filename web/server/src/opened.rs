//! Connections of clients, as they begin: what stands before their first request is their
//! listener's to say.

use crate::Server;
use app::{ConnId, Net};
use connections::{FIRST, ServedConnection, State, Terms, Tick, trace};
use exchange::{Handler, Listeners, LocalAddress, Speaks};
use site::Engine;

impl Server {
    /// What clients speak follows from the configuration that is served, if one is.
    pub(crate) fn settle_listeners(&mut self) {
        let engine = self.h1.handler.engine();
        self.listen(engine.map_or_else(Listeners::default, Engine::listeners));
    }
}

impl<H: Handler> Server<H> {
    /// The same, whose clients speak what `listeners` say.
    #[must_use]
    pub fn speaking(mut self, listeners: Listeners) -> Self {
        self.listen(listeners);
        self.start_helper();
        self
    }

    /// Starts the helper of handshakes, where there are any.
    pub(crate) fn start_helper(&mut self) {
        if self.handshakes.on {
            self.handshakes.start_helper(&self.config.helper_cpus);
        }
    }

    /// Clients that connect from now on speak what these say.
    fn listen(&mut self, listeners: Listeners) {
        self.handshakes.on |= listeners.secures;
        self.listeners = listeners;
        self.settle_rest();
    }

    /// A client connected.
    pub(crate) fn open<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let index = id.index();
        if index >= self.h1.connections.limits.connections {
            self.h1.connections.counters.connections_refused += 1;
            net.abort(id);
            return;
        }
        if index >= self.h1.connections.conns.len() {
            // Within the capacity taken at the start.
            self.h1.connections.conns.resize_with(index + 1, ServedConnection::vacant);
        }
        let now = net.now();
        let opening = match self.listeners.speaks(|| LocalAddress::of(net, id)) {
            Speaks::Http(opening) => opening,
            Speaks::Service(number) => {
                let number = *number;
                return self.open_service(net, id, number);
            }
        };
        let state = match opening {
            opening if opening.proxied => State::Proxied,
            opening if opening.tls.is_some() => State::Handshake,
            _ => State::Ready,
        };
        let terms = Terms::of(opening.terms.0, opening.terms.1);
        self.h1.connections.beginnings.begin(index, now);
        self.h1.connections.counters.connections += 1;
        self.h1.connections.counters.connections_open += 1;
        let header = self.h1.connections.terms.head(terms).timeout;
        let short = self.h1.connections.terms.soonest(terms) < header;
        self.h1.connections.conns[index] = ServedConnection {
            generation: id.generation(),
            last: Tick::of(now),
            state,
            terms,
            flags: if short { FIRST } else { 0 },
            ..ServedConnection::vacant()
        };
        trace::accepted(net, id, &self.h1.connections.beginnings, self.h1.connections.counters.connections_open);
        if self.h1.connections.draining.is_some() {
            self.h1.connections.counters.connections_refused += 1;
            self.h1.connections.close_after_queue(net, id);
        } else {
            self.h1.connections.arm(net, id, header);
        }
    }
}
