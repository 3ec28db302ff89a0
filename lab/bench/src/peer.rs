//! Both ends of what a proxy joins, on one host: the load generator that asks it, and
//! the server that it asks.

use app::{App, Closed, ConnId, Net, Opened, Wake};
use load::Load;
use server::Server;
use wire::Time;

/// Who asks on a host: a rig looks at how far it is.
pub trait Asker: App {
    /// The generator.
    fn load(&self) -> &Load;
}

/// Who answers on a host.
pub trait Answerer: App {
    /// The server.
    fn server(&self) -> &Server;
}

impl Answerer for Server {
    fn server(&self) -> &Server {
        self
    }
}

impl Asker for Load {
    fn load(&self) -> &Load {
        self
    }
}

/// A generator and a server behind the same addresses: what it connects to is the
/// generator's, what it accepts the server's.
#[derive(Debug)]
pub struct Peer {
    /// Asks.
    pub load: Load,
    /// Answers.
    pub server: Server,
    /// The generation of each slot's connection that was accepted.
    accepted: Vec<Option<u32>>,
}

impl Peer {
    /// Joins both.
    #[must_use]
    pub fn new(load: Load, server: Server) -> Self {
        Self { load, server, accepted: Vec::new() }
    }

    fn is_served(&self, id: ConnId) -> bool {
        self.accepted.get(id.index()).is_some_and(|accepted| *accepted == Some(id.generation()))
    }
}

impl Asker for Peer {
    fn load(&self) -> &Load {
        &self.load
    }
}

impl App for Peer {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Connected {
            return self.load.on_open(net, id, how);
        }
        if self.accepted.len() <= id.index() {
            self.accepted.resize(id.index() + 1, None);
        }
        self.accepted[id.index()] = Some(id.generation());
        self.server.on_open(net, id, how);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        match self.is_served(id) {
            true => self.server.on_data(net, id, data),
            false => self.load.on_data(net, id, data),
        }
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        match self.is_served(id) {
            true => self.server.on_end(net, id, held),
            false => self.load.on_end(net, id, held),
        }
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.is_served(id) {
            true => self.server.on_sent(net, id),
            false => self.load.on_sent(net, id),
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        match self.is_served(id) {
            true => self.server.on_timer(net, id),
            false => self.load.on_timer(net, id),
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        if self.is_served(id) {
            self.accepted[id.index()] = None;
            self.server.on_close(net, id, why);
        } else {
            self.load.on_close(net, id, why);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let served = self.server.on_turn(net);
        served.earlier(self.load.on_turn(net))
    }

    fn has_work(&self) -> bool {
        self.server.has_work() || self.load.has_work()
    }

    fn on_turn_over(&mut self, now: Time) {
        self.server.on_turn_over(now);
        self.load.on_turn_over(now);
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        // The server's connections are the proxy's to close.
        self.load.drain(net)
    }
}
