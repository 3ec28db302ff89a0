//! Applications that have a silo together with the web server: connections to listeners that
//! speak another protocol ([`exchange::Speaks::Service`]), and those that these
//! applications open themselves.
//!
//! A client's connection has its place in the server's table, so that the limit on
//! connections is one, and the state says whose it is. What is neither a client's nor an
//! upstream's of the web server is a service's that says so.

use crate::Server;
use app::{Closed, ConnId, Net, Opened, Wake};
use connections::{ServedConnection, State};
use core::fmt::Debug;
use exchange::Handler;

/// An application that has a silo together with the web server. Its calls are those of
/// [`app::App`], which says what each is for.
pub trait Service: Debug {
    /// A client connected to one of its listeners, or a connection that it opened is
    /// established.
    fn on_open(&mut self, net: &mut dyn Net, id: ConnId, how: Opened);

    /// Bytes arrived; how many were taken.
    fn on_data(&mut self, net: &mut dyn Net, id: ConnId, data: &[u8]) -> usize;

    /// The peer sends no more.
    fn on_end(&mut self, net: &mut dyn Net, id: ConnId, held: usize) {
        let _ = held;
        net.finish(id);
    }

    /// Most of what was queued was taken.
    fn on_sent(&mut self, net: &mut dyn Net, id: ConnId) {
        let _ = (net, id);
    }

    /// Its timer ran out.
    fn on_timer(&mut self, net: &mut dyn Net, id: ConnId) {
        let _ = (net, id);
    }

    /// It is gone.
    fn on_close(&mut self, net: &mut dyn Net, id: ConnId, why: Closed) {
        let _ = (net, id, why);
    }

    /// Whether it has opened a connection ([`Net::connect`]) of which it was not told that
    /// it is gone.
    fn has_opened(&self, id: ConnId) -> bool;

    /// Once per turn.
    fn on_turn(&mut self, net: &mut dyn Net) -> Wake {
        let _ = net;
        Wake::Idle
    }

    /// The process is to stop; whether nothing is left.
    fn drain(&mut self, net: &mut dyn Net) -> bool {
        let _ = net;
        true
    }
}

impl<H: Handler> Server<H> {
    /// The server, with these applications beside it: listeners name them by their places.
    #[must_use]
    pub fn beside(mut self, services: Vec<Box<dyn Service>>) -> Self {
        self.services = services;
        self.settle_rest();
        self
    }

    /// Those applications.
    pub fn services(&mut self) -> &mut [Box<dyn Service>] {
        &mut self.services
    }

    /// Tells the service whose connection this is; nothing if it is none's.
    pub(crate) fn tell_service<T>(&mut self, id: ConnId, tell: impl FnOnce(&mut dyn Service) -> T) -> Option<T> {
        if self.services.is_empty() {
            return None;
        }
        let conn = self.h1.connections.conns.get(id.index()).filter(|conn| conn.generation == id.generation());
        let service = match conn.and_then(ServedConnection::service) {
            Some(number) => self.services.get_mut(number)?,
            None => self.services.iter_mut().find(|service| service.has_opened(id))?,
        };
        Some(tell(service.as_mut()))
    }

    /// A client connected to a listener of a service.
    #[cold]
    pub(crate) fn open_service<N: Net>(&mut self, net: &mut N, id: ConnId, number: u8) {
        let connections = &mut self.h1.connections;
        if connections.draining.is_some() || usize::from(number) >= self.services.len() {
            connections.counters.connections_refused += 1;
            net.abort(id);
            return;
        }
        connections.beginnings.begin(id.index(), net.now());
        connections.counters.connections += 1;
        connections.counters.connections_open += 1;
        let conn = &mut connections.conns[id.index()];
        *conn = ServedConnection { generation: id.generation(), state: State::Service, ..ServedConnection::vacant() };
        conn.set_service(number);
        let _ = self.tell_service(id, |service| service.on_open(net, id, Opened::Accepted));
    }

    /// Bytes of a connection that is a service's; how many were taken.
    pub(crate) fn on_service_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let taken = self.tell_service(id, |service| service.on_data(net, id, data));
        taken.map_or(data.len(), |taken| taken.min(data.len()))
    }

    /// Services have their turn.
    #[cold]
    pub(crate) fn services_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.services.iter_mut().fold(Wake::Idle, |wake, service| wake.earlier(service.on_turn(net)))
    }

    /// Services end; whether nothing is left of them.
    pub(crate) fn drain_services<N: Net>(&mut self, net: &mut N) -> bool {
        // Each is told.
        let left = self.services.iter_mut().filter_map(|service| (!service.drain(net)).then_some(()));
        left.count() == 0
    }
}
