//! The web server with nobody else about: one client asks for one answer after the other, and
//! nothing else happens anywhere. Whatever could go on and does not, because it waits for a
//! clock, or for somebody else's traffic to wake the server, shows at once.
//!
//! ```text
//!  Asker ── link ── switch ── link ── the web server ── link ── Origin
//! ```
//!
//! [`over_stack`] runs it in virtual time over our own stack; [`over_sockets`] as it is over
//! the kernel's, where the queue of a connection may be empty as soon as the turn is over. Time
//! stands still while helper threads work, so that what waits for those waits for no clock.

pub mod asker;
pub mod cases;
pub mod kernel;
pub mod origin;
pub mod site;
pub mod stuck;

use crate::fabric::{Fabric, Host, Node};
use crate::scenario::{PORT, addresses, host_config};
use app::App;
use asker::{Asked, Asker};
use cases::Case;
use core::net::SocketAddr;
use core::time::Duration;
use link::FaultPlan;
use origin::Origin;
use server::Server;
use site::Site;
use wire::Time;

pub use kernel::over_sockets;

/// An answer that takes longer waits for something that does not come.
const LIMIT: Duration = Duration::from_secs(120);

/// A server that has nothing to do for so long waits, be it for a clock.
const REST: Duration = Duration::from_millis(5);

/// What of such rests may be with one answer: acknowledgements that are delayed.
const RESTS: Duration = Duration::from_millis(300);

/// Bytes of a connection that peers keep and have not taken: as many as there are by default.
pub const WIDE: u32 = 1 << 20;

/// Connections of a host.
const CONNECTIONS: usize = 4_096;

/// Turns of one answer, so that a livelock ends.
const TURNS: u64 = 3_000_000;

/// The server, and whether it goes on by its clock alone.
struct Watched {
    host: Host<Server>,
    last: Time,
    /// How long it had nothing to do until a clock of its own woke it.
    rested: Duration,
    /// How often it then queued more.
    by_clock: u32,
}

impl Watched {
    fn queued(&self) -> u64 {
        self.host.silo.app.snapshot().bytes_queued
    }

    fn waits_for_helpers(&mut self) -> bool {
        let engines = self.host.silo.app.handlers().iter().filter_map(server::SiteHandler::engine);
        engines.into_iter().any(phases::Engine::waits_for_helpers)
    }
}

impl Node for Watched {
    fn due(&mut self, now: Time) -> Time {
        let due = self.host.due(now);
        if due > now && self.waits_for_helpers() {
            // Time stands still meanwhile, but for the least there is.
            std::thread::yield_now();
            self.host.wake();
            return now;
        }
        due
    }

    fn turn(&mut self, now: Time) {
        let slept = now.since(self.last);
        let arrived = self.host.silo.link.with_inner(|link| link.waiting()) > 0;
        let before = self.queued();
        self.host.turn(now);
        if slept >= REST && !arrived {
            self.rested += slept;
            self.by_clock += u32::from(self.queued() > before);
        }
        self.last = now;
    }
}

/// A network with a server, its upstream and clients.
pub struct World<C> {
    fabric: Fabric,
    server: Watched,
    origin: Host<Origin>,
    clients: Host<C>,
    /// Where the server is.
    pub server_at: SocketAddr,
}

/// The only port of a host.
fn at(host: usize) -> SocketAddr {
    SocketAddr::new(addresses(host)[0], PORT)
}

impl<C: App> World<C> {
    /// One with these clients, and the site's files.
    #[must_use]
    pub fn new(site: &Site, clients: C) -> Self {
        Self::with_windows(site, clients, WIDE)
    }

    /// The same, whose peers keep so many bytes of a connection that are not taken.
    #[must_use]
    pub fn with_windows(site: &Site, clients: C, receive_limit: u32) -> Self {
        let mut fabric = Fabric::default();
        let config = |index| {
            let mut config = host_config(index, 1_500);
            if index > 0 {
                config.tcp.receive_limit = receive_limit;
            }
            (config.max_connections, config.max_half_open) = (CONNECTIONS, CONNECTIONS);
            config
        };
        let server = site.server(at(1), wire::Time::ZERO);
        let server = fabric.host(config(0), FaultPlan::default(), 1_024, 2, server);
        let origin = fabric.host(config(1), FaultPlan::default(), 1_024, 3, Origin::default());
        let clients = fabric.host(config(2), FaultPlan::default(), 1_024, 4, clients);
        let server = Watched { host: server, last: Time::ZERO, rested: Duration::ZERO, by_clock: 0 };
        Self { fabric, server, origin, clients, server_at: at(0) }
    }

    /// The clients.
    pub fn clients(&mut self) -> &mut C {
        &mut self.clients.silo.app
    }

    /// How often the upstream was asked for this.
    #[must_use]
    pub fn asked_for(&self, name: &str) -> usize {
        self.origin.silo.app.asked.get(name).copied().unwrap_or_default()
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.fabric.now()
    }

    /// Runs until `done`, or until so much later. Whether it is.
    pub fn run(&mut self, span: Duration, mut done: impl FnMut(&mut C) -> bool) -> bool {
        let (end, turns) = (self.fabric.now() + span, self.fabric.turns() + TURNS);
        self.clients.wake();
        while !done(&mut self.clients.silo.app) {
            if self.fabric.now() >= end || self.fabric.turns() > turns {
                return false;
            }
            let mut nodes: [&mut dyn Node; 3] = [&mut self.server, &mut self.origin, &mut self.clients];
            self.fabric.step(&mut nodes, end);
        }
        true
    }

    /// What the server still has of exchanges, and how much.
    pub fn held(&mut self) -> Vec<(&'static str, usize)> {
        let app = &mut self.server.host.silo.app;
        let (clients, upstreams) = (app.snapshot().connections_open as usize, app.upstreams_open());
        let engines = app.handlers().iter().filter_map(server::SiteHandler::engine);
        let all = engines.flat_map(phases::Engine::held);
        let all = all.chain([("connections of clients", clients), ("connections to upstreams", upstreams)]);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// From now on the server has not rested.
    pub fn watch(&mut self) {
        (self.server.rested, self.server.by_clock) = (Duration::ZERO, 0);
    }

    /// How it waited since, where it should not have.
    #[must_use]
    pub fn rests(&self) -> Option<String> {
        let Watched { rested, by_clock, .. } = self.server;
        (by_clock > 0 || rested > RESTS)
            .then(|| format!("the server rested for {rested:?}, and went on by a clock {by_clock} times"))
    }
}

/// What is wrong with answers to all of these, in virtual time over our own stack. Peers keep so
/// many bytes of a connection that they have not taken.
#[must_use]
pub fn over_stack(site: &Site, cases: &[Case], receive_limit: u32) -> Vec<String> {
    let make = || World::with_windows(site, Asker::default(), receive_limit);
    let mut world = make();
    let to = world.server_at;
    let mut objections = Vec::new();
    for case in cases {
        world.watch();
        world.clients().ask(to, case);
        let done = world.run(LIMIT, |asker: &mut Asker| asker.is_done());
        let asked = world.clients().take();
        let object = |what: String| format!("{}: {what}", case.name);
        if !done {
            objections.push(object(format!("no end, {} bytes came", asked.arrived.len())));
            world = make();
            continue;
        }
        objections.extend(case.objection(&asked).map(object));
        objections.extend(world.rests().filter(|_| !case.is_paced).map(object));
    }
    objections
}

/// What a client was given, and how it ended.
pub type Given = Asked;
