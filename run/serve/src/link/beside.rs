//! Kernel sockets beside the links of silos: clients on this host, and connections
//! to what only the kernel reaches.

use super::super::control::{Channel, ChannelError, Offered};
use super::super::succession;
use super::super::systemd::Found;
use crate::plan::PortPlan;
use app::{App, Net};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use host::{HostPlan, machine};
use server::Server;
use sockets::{
    Composite, ConnectBy, ConnectRoutes, Endpoint, HalfConfig, KernelHalf, ListenOptions, Listeners, Model, Origin,
    StartError,
};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What silos have of it, each its part.
pub struct Beside {
    config: Option<HalfConfig>,
    place: Mutex<Place>,
}

/// Sockets for clients on this host.
#[derive(Default)]
struct Place {
    /// What is to be listened on, until the first silo is made: after the link has
    /// been opened, which holds the ports.
    wanted: Option<Wanted>,
    /// Gone once nothing is to be accepted any more.
    listeners: Option<Listeners>,
    /// What came of it; nothing where nothing was wanted.
    outcome: Option<Result<(), String>>,
}

struct Wanted {
    endpoints: Vec<Endpoint>,
    options: ListenOptions,
    silos: usize,
    /// Those of the process before this one.
    given: Vec<OwnedFd>,
}

impl Beside {
    /// As planned for so many silos. `given` are the sockets of the process that
    /// this one follows, if it `follows` any.
    pub fn new(host: &HostPlan, listen: &PortPlan, silos: usize, (follows, given): (bool, Vec<Found>)) -> Self {
        let wanted = host.local_clients().map(|interface| {
            let endpoints = endpoints(listen);
            // What is listened on no more ends with the process before this one.
            let given = given.into_iter().filter(|found| endpoints.contains(&found.endpoint));
            let given = given.map(|found| found.socket).collect();
            Wanted { endpoints, options: options(interface, follows), silos, given }
        });
        let config = host.is_composite().then(|| {
            let mut warnings = Vec::new();
            let held = machine::raise_descriptors(host.beside.connections as usize, silos, &mut warnings);
            warnings.iter().for_each(|why| say::warning(format_args!("beside the link: {why}")));
            let connections = held.div_ceil(silos).min(host.beside_connections(silos));
            HalfConfig { connections, per_source: host.per_source.clone(), ..HalfConfig::default() }
        });
        Self { config, place: Mutex::new(Place { wanted, ..Place::default() }) }
    }

    /// One silo's part; `None` where there is to be none.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn half(&self, silo: usize) -> Result<Option<KernelHalf>, String> {
        let Some(config) = self.config.clone() else { return Ok(None) };
        let mut place = self.place();
        if let Some(Wanted { endpoints, options, silos, given }) = place.wanted.take() {
            let made = Listeners::adopt(given, Origin::Predecessor, &endpoints, &options, Model::Reuseport, silos);
            place.outcome = Some(made.map(|made| place.listeners = Some(made)).map_err(|why| why.to_string()));
        }
        let listeners = place.listeners.iter().flat_map(|all| all.for_worker(silo)).collect();
        KernelHalf::new(config, listeners).map(Some).map_err(|why: StartError| why.to_string())
    }

    /// Whether clients on this host are served, once silos are made; if they were to
    /// be and are not, why.
    ///
    /// # Errors
    /// That.
    pub fn local_clients(&self) -> Result<bool, String> {
        self.place().outcome.clone().map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    /// Offers the sockets to a successor, before its queues.
    ///
    /// # Errors
    /// If it cannot be said.
    pub fn offer(&self, channel: &Channel) -> Result<(), ChannelError> {
        let place = self.place();
        let offered = |endpoint: &Endpoint| Offered { endpoint: endpoint.to_string(), managed: false, name: None };
        let sockets = place.listeners.iter().flat_map(Listeners::iter);
        let sockets: Vec<_> = sockets.map(|(endpoint, socket)| (offered(endpoint), socket)).collect();
        succession::offer_beside(channel, &sockets)
    }

    /// Nothing is accepted here any more; silos stop by themselves.
    pub fn stop_listening(&self) {
        self.place().listeners = None;
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which connections silos open by which side. On the host's own addresses only what
/// comes for the served ports is theirs: an answer to a connection of their own would
/// find its way to the kernel, which knows nothing of it.
pub fn routes(host: &HostPlan) -> ConnectRoutes {
    if host.uses_host_addresses() { ConnectRoutes::all_by(ConnectBy::Kernel) } else { ConnectRoutes::default() }
}

/// Options of sockets that clients on this host reach at the addresses of one
/// interface, and nobody else, not even while the link does not take frames yet: a
/// connection that the kernel had of a client behind the interface would hear nothing
/// more of it once it does. `[::]` takes IPv6 alone, for IPv4 has a socket of its own.
fn options(interface: &str, follows: bool) -> ListenOptions {
    ListenOptions { v6_only: true, local_at: Some(interface.to_owned()), follows, ..ListenOptions::default() }
}

/// Whether somebody else has what clients on this host would be served by; makes
/// nothing.
///
/// # Errors
/// A sentence for the user.
pub fn try_out(listen: &PortPlan, interface: &str) -> Result<(), String> {
    let options = options(interface, false);
    endpoints(listen).iter().try_for_each(|at| Listeners::try_out(at, &options).map_err(|why| why.to_string()))
}

/// What is listened on: each address once, and none that an unspecified one stands
/// for already.
pub fn endpoints(listen: &PortPlan) -> Vec<Endpoint> {
    let every = |port: u16| {
        let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        all.map(|ip| SocketAddr::new(ip, port))
    };
    let mut all: Vec<SocketAddr> = listen.everywhere.iter().flat_map(|port| every(*port)).collect();
    all.extend(listen.at.iter().filter(|door| door.ip().is_unspecified()));
    let wide = all.clone();
    let stands = |door: &SocketAddr| wide.iter().any(|w| w.port() == door.port() && w.is_ipv4() == door.is_ipv4());
    all.extend(listen.at.iter().filter(|door| !stands(door)));
    all.sort_unstable();
    all.dedup();
    if !has_ipv6() {
        all.retain(SocketAddr::is_ipv4);
    }
    all.into_iter().map(Endpoint::Tcp).collect()
}

/// Whether this kernel has IPv6.
fn has_ipv6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// A server in a silo, with kernel sockets beside it or without.
pub trait Served: App {
    /// The server.
    fn server(&self) -> &Server;
    /// The same, to change it.
    fn server_mut(&mut self) -> &mut Server;
    /// Its connections on kernel sockets.
    fn half(&self) -> Option<&KernelHalf>;
    /// [`Server::settle`].
    fn settle<N: Net>(&mut self, stack: &mut N) -> bool;
    /// Accepts no more on kernel sockets.
    fn stop_listening(&mut self) {}
    /// The silo has ended: so do its connections on kernel sockets.
    fn finish<N: Net>(&mut self, stack: &mut N) {
        let _ = stack;
    }
    /// [`Server::retire`], for one whose successor accepts.
    fn retire(&mut self) {
        self.stop_listening();
        self.server_mut().retire();
    }
}

impl Served for Server {
    fn server(&self) -> &Server {
        self
    }

    fn server_mut(&mut self) -> &mut Server {
        self
    }

    fn half(&self) -> Option<&KernelHalf> {
        None
    }

    fn settle<N: Net>(&mut self, stack: &mut N) -> bool {
        Server::settle(self, stack)
    }
}

impl Served for Composite<Server> {
    fn server(&self) -> &Server {
        &self.app
    }

    fn server_mut(&mut self) -> &mut Server {
        &mut self.app
    }

    fn half(&self) -> Option<&KernelHalf> {
        Some(Composite::half(self))
    }

    fn settle<N: Net>(&mut self, stack: &mut N) -> bool {
        self.with(stack, |server, net| server.settle(net))
    }

    fn stop_listening(&mut self) {
        self.half_mut().stop_listening();
    }

    fn finish<N: Net>(&mut self, stack: &mut N) {
        self.end_all(stack);
    }
}
