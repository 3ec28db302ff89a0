//! The web server with nobody else about: one client asks for one answer after the other, and
//! nothing else happens anywhere. Whatever could go on and does not, because it waits for a
//! clock, or for somebody else's traffic to wake the server, shows at once.
//!
//! ```text
//!  Asker ── link ── switch ── link ── the web server ── link ── Origin
//! ```
//!
//! [`over_stack`] runs it in virtual time over our own stack; [`over_sockets`] as it is over
//! the kernel's, where the queue of a connection may be empty as soon as the turn is over. In
//! virtual time helpers are no threads: each answers by the next turn, and a run is as another.
//! Those are what reads files, looks at passwords, compresses, writes bodies, computes handshakes,
//! and resolves names; whom nobody waits for may be a thread all the same ([`helper::inline`]).
//!
//! After each turn that leaves nothing to do there, whatever the case, each connection of the
//! server has a timer, or waits for another that has one ([`Server::endless`]).

pub mod asker;
pub mod cases;
pub mod kernel;
mod name_server;
pub mod origin;
pub mod site;
pub mod stuck;

use crate::fabric::{Fabric, Host, Node};
use crate::scenario::{PORT, addresses, host_config};
use app::{App, ConnId, Net};
use asker::{Asked, Asker};
use cases::Case;
use core::net::SocketAddr;
use core::time::Duration;
use link::FaultPlan;
use origin::Origin;
use rustix::event::{PollFd, PollFlags, Timespec};
use server::{Server, Timers};
use site::Site;
use stack::Stack;
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
    /// Connections that nothing would end, as they were seen first.
    endless: Vec<String>,
}

/// Objections of one kind are as many as people read.
const ENDLESS_MAX: usize = 8;

struct OfStack<'a>(&'a Stack);

impl Timers for OfStack<'_> {
    fn is_armed(&self, id: ConnId) -> bool {
        self.0.has_timer(id)
    }

    fn unsent(&self, id: ConnId) -> usize {
        self.0.unsent(id)
    }
}

impl Watched {
    fn queued(&self) -> u64 {
        self.host.silo.app.snapshot().bytes_queued
    }

    /// Looks for connections that nothing would end.
    fn look(&mut self, now: Time) {
        if !self.host.is_at_rest() || self.is_woken() || self.endless.len() >= ENDLESS_MAX {
            return;
        }
        let (stack, app) = (&self.host.silo.stack, &self.host.silo.app);
        let found = app.endless(stack.connection_ids().filter(|id| stack.is_live(*id)), &OfStack(stack));
        let told = found.iter().map(|one| format!("{one}, connection {} at {now:?}", one.id.index()));
        self.endless.extend(told.take(ENDLESS_MAX));
    }

    /// A helper has answered: what wakes a silo that sleeps is readable.
    fn is_woken(&self) -> bool {
        let Some(fd) = self.host.silo.app.wake_fd() else { return false };
        let mut polled = [PollFd::new(&fd, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

impl Node for Watched {
    fn due(&mut self, now: Time) -> Time {
        let due = self.host.due(now);
        if due > now && self.is_woken() {
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
        self.look(now);
    }
}

/// A network with a server, its upstream and clients.
pub struct World<C> {
    fabric: Fabric,
    server: Watched,
    /// Before it, where it speaks TLS.
    front: Option<Watched>,
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
            if index == 1 || index == 2 {
                config.tcp.receive_limit = receive_limit;
            }
            (config.max_connections, config.max_half_open) = (CONNECTIONS, CONNECTIONS);
            config
        };
        let server = helper::inline(|| site.server(at(1), wire::Time::ZERO));
        let server = fabric.host(config(0), FaultPlan::default(), 1_024, 2, server);
        let origin = fabric.host(config(1), FaultPlan::default(), 1_024, 3, Origin::default());
        let clients = fabric.host(config(2), FaultPlan::default(), 1_024, 4, clients);
        let watched =
            |host| Watched { host, last: Time::ZERO, rested: Duration::ZERO, by_clock: 0, endless: Vec::new() };
        let server = watched(server);
        let front = site.is_secured().then(|| {
            let front = helper::inline(|| site.front(at(0), wire::Time::ZERO));
            watched(fabric.host(config(3), FaultPlan::default(), 1_024, 5, front))
        });
        let server_at = at(if front.is_some() { 3 } else { 0 });
        Self { fabric, server, front, origin, clients, server_at }
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
            let mut nodes: Vec<&mut dyn Node> = vec![&mut self.server, &mut self.origin, &mut self.clients];
            nodes.extend(self.front.as_mut().map(|front| front as &mut dyn Node));
            self.fabric.step(&mut nodes, end);
        }
        true
    }

    /// What the server still has of exchanges, and how much.
    pub fn held(&mut self) -> Vec<(&'static str, usize)> {
        let app = &mut self.server.host.silo.app;
        let (clients, upstreams) = (app.snapshot().connections_open as usize, app.upstreams_open());
        let engines = app.handler().engine().into_iter();
        let all = engines.flat_map(phases::Engine::held);
        let all = all.chain([("connections of clients", clients), ("connections to upstreams", upstreams)]);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Connections that nothing would have ended, since this was asked last.
    pub fn endless(&mut self) -> Vec<String> {
        self.front.iter_mut().chain([&mut self.server]).flat_map(|one| core::mem::take(&mut one.endless)).collect()
    }

    /// From now on the server has not rested.
    pub fn watch(&mut self) {
        // The clock stands at what comes next after the end of what was watched before.
        let now = self.fabric.now();
        for one in self.front.iter_mut().chain([&mut self.server]) {
            (one.rested, one.by_clock, one.last) = (Duration::ZERO, 0, now);
        }
    }

    /// How it waited since, where it should not have.
    #[must_use]
    pub fn rests(&self) -> Option<String> {
        let all = || self.front.iter().chain([&self.server]);
        let (rested, by_clock) =
            (all().map(|one| one.rested).sum::<Duration>(), all().map(|one| one.by_clock).sum::<u32>());
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
        objections.extend(world.endless().into_iter().map(object));
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

/// When each of these was over, and after how many turns, over our own stack: in each run the same.
#[must_use]
pub fn ends(site: &Site, cases: &[Case]) -> Vec<(String, Time, u64)> {
    let mut world = World::new(site, Asker::default());
    let to = world.server_at;
    let mut ends = Vec::new();
    for case in cases {
        world.clients().ask(to, case);
        let _ = world.run(LIMIT, |asker: &mut Asker| asker.is_done());
        ends.push((case.name.clone(), world.now(), world.fabric.turns()));
    }
    ends
}

/// What a client was given, and how it ended.
pub type Given = Asked;
