//! The real server and the real load generator, a silo each, over a pair in
//! memory and in virtual time: all on one thread, so that turns alternate.

use crate::BenchError;
use crate::peer::{Answerer, Asker, Peer};
use crate::secured::Securing;
use app::App;
use bond::{Bond, Member, Setup};
use core::net::IpAddr;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Pair, PairConfig, PairLink};
use load::{Load, Plan, Request, Stage, Stop};
use record::TlsSide;
use server::{Config, Server, WallClock};
use silo::{Silo, Turn};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::io;
use std::os::fd::BorrowedFd;
use steer::{Mesh, MeshConfig, SiloSpec, Spread, Steered};
use wire::{Mac, Time};

/// The server's address.
pub const SERVER: [u8; 4] = [10, 0, 0, 2];
/// The first of the client's addresses.
pub const CLIENT: [u8; 4] = [10, 0, 1, 1];
/// The port served.
pub const PORT: u16 = 80;

/// The port of who answers what a server passes on.
pub const UPSTREAM_PORT: u16 = 8080;

/// When virtual time begins.
const START: Time = Time::from_millis(1);

/// Virtual time that passes with each round: about what a request costs at
/// full load, so that what is done once in a millisecond or second carries
/// its true weight.
const PER_REQUEST: Duration = Duration::from_nanos(350);

/// 2027: any second that HTTP can name.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

/// Rounds without an answer after which something is stuck.
const PATIENCE: u64 = 50_000_000;

/// Both sides.
pub struct Rig<L: Link = PairLink, A: Asker = Load, S: Answerer = Server> {
    /// Serves.
    pub server: Silo<L, S>,
    /// Asks.
    pub client: Silo<PairLink, A>,
    now: Time,
    counted_turns: u64,
}

/// A plan for the load generator that never ends by itself.
#[must_use]
pub fn endless(path: &str) -> Plan {
    let mut plan = Plan::new((SERVER, PORT).into(), Request::get("10.0.0.2", path));
    plan.warm_up = Duration::ZERO;
    plan.stop = Stop::After(Duration::from_secs(1_000_000));
    plan
}

impl Rig {
    /// Joins a server to a generator; nothing was sent yet.
    ///
    /// # Errors
    /// If the server or the plan cannot be set up.
    pub fn new(config: Config, plan: Plan) -> Result<Self, BenchError> {
        Self::with(config, plan, &[], |near, _| Ok(near), Ok, |server| server)
    }
}

impl Rig<PairLink, Securing<Load>, Securing<Server>> {
    /// The same where both secure each connection as it is opened, by keys that they have
    /// without a handshake.
    ///
    /// # Errors
    /// As [`Rig::new`].
    pub fn secured(config: Config, plan: Plan) -> Result<Self, BenchError> {
        let asks = |load| Ok(Securing::new(load, TlsSide::Client));
        let answers = |server| Securing::new(server, TlsSide::Server);
        Self::with(config, plan, &[], |near, _| Ok(near), asks, answers)
    }
}

impl Rig<PairLink, Peer> {
    /// Joins a server that passes requests on to a generator whose host answers them
    /// too, by `answering`, on [`UPSTREAM_PORT`] of [`CLIENT`].
    ///
    /// # Errors
    /// As [`Rig::new`].
    pub fn passing(config: Config, plan: Plan, answering: Config) -> Result<Self, BenchError> {
        let peer = |load| Ok(Peer::new(load, Server::new(answering, WallClock::new(START, EPOCH))?));
        Self::with(config, plan, &[UPSTREAM_PORT], |near, _| Ok(near), peer, |server| server)
    }
}

impl Rig<Bond<PairLink>> {
    /// The same, the server's link being the only port of an aggregation.
    ///
    /// # Errors
    /// As [`Rig::new`].
    pub fn bonded(config: Config, plan: Plan) -> Result<Self, BenchError> {
        let bond = |link, now| {
            let aggregator = Setup::default().aggregator(Mac([2, 0, 0, 0, 0, 1]), ["pair".to_owned()]);
            let mut bond = Bond::new(vec![Member { port: 0, link }], aggregator)?;
            bond.poll_control(now);
            Ok(bond)
        };
        Self::with(config, plan, &[], bond, Ok, |server| server)
    }
}

/// A pair's end without a copy of the stack.
pub struct ByTable(PairLink);

impl Link for ByTable {
    const OWN_COPY: bool = false;

    type Rx<'a> = <PairLink as Link>::Rx<'a>;
    type Tx<'a> = <PairLink as Link>::Tx<'a>;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    #[inline]
    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        self.0.split()
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.0.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.0.wait(wake, timeout)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

impl Rig<ByTable> {
    /// The same, the server's link being one of those that share a copy of the stack.
    ///
    /// # Errors
    /// As [`Rig::new`].
    pub fn by_table(config: Config, plan: Plan) -> Result<Self, BenchError> {
        Self::with(config, plan, &[], |near, _| Ok(ByTable(near)), Ok, |server| server)
    }
}

impl<L: Link, A: Asker, S: Answerer> Rig<L, A, S> {
    fn with(
        config: Config,
        plan: Plan,
        answers: &[u16],
        wrap: impl FnOnce(PairLink, Time) -> Result<L, BenchError>,
        ask: impl FnOnce(Load) -> Result<A, BenchError>,
        answer: impl FnOnce(Server) -> S,
    ) -> Result<Self, BenchError> {
        let (near, far) = Pair::new(PairConfig::default());
        let now = START;
        let room = plan.connections as usize + plan.connections as usize / 2 + 1_024;
        let sources = if plan.sources.is_empty() { vec![CLIENT.into()] } else { plan.sources.clone() };
        let server = Silo {
            stack: host(1, host_config(1, &near, &[SERVER.into()], &[PORT], room), &near, now),
            link: wrap(near, now)?,
            app: answer(Server::new(config, WallClock::new(now, EPOCH))?),
        };
        let stack = host(2, host_config(2, &far, &sources, answers, room), &far, now);
        let client = Silo { stack, link: far, app: ask(Load::new(plan)?)? };
        Ok(Self { server, client, now, counted_turns: 0 })
    }

    /// A turn of each side, and the time that they take.
    pub fn round(&mut self) {
        self.client_turn();
        self.server_turn();
    }

    /// A turn of the generator, and the time that a request of each frame takes.
    pub fn client_turn(&mut self) {
        let turn = self.client.turn(self.now);
        self.now = self.now + PER_REQUEST * turn.frames.max(1) as u32;
    }

    /// A turn of the server.
    pub fn server_turn(&mut self) -> Turn {
        self.server.turn(self.now)
    }

    /// As [`Rig::server_turn`], in a function of its own that a profiler finds
    /// by name.
    pub fn counted_server_turn(&mut self) {
        counted_turn(&mut self.server, self.now, &mut self.counted_turns);
    }

    /// As [`Rig::client_turn`], in that function.
    pub fn counted_client_turn(&mut self) {
        let turn = counted_turn(&mut self.client, self.now, &mut self.counted_turns);
        self.now = self.now + PER_REQUEST * turn.frames.max(1) as u32;
    }

    /// Turns taken in that function.
    #[must_use]
    pub fn counted_turns(&self) -> u64 {
        self.counted_turns
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.server.app.server().snapshot().requests
    }

    /// Runs until all connections are open and `count` more requests were
    /// answered.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub fn warm_up(&mut self, count: u64) -> Result<(), BenchError> {
        self.until("open its connections", |rig| {
            let stage = rig.client.app.load().stage();
            stage != Stage::Waiting && stage != Stage::Ramp && rig.requests() > 0
        })?;
        let end = self.requests() + count;
        self.until("warm up", |rig| rig.requests() >= end)
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), BenchError> {
        for _ in 0..PATIENCE {
            self.round();
            if done(self) {
                return Ok(());
            }
        }
        Err(format!("the generator does not {what}").into())
    }
}

/// What is measured: nothing but one side's turn, and one count.
#[inline(never)]
pub fn counted_turn<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time, count: &mut u64) -> Turn {
    *count += 1;
    let turn = silo.turn(now);
    silo.app.on_turn_over(now);
    turn
}

/// As [`counted_turn`], by way of the one turn that all turns of a rack share,
/// as a program has only one.
#[inline(never)]
fn counted_turn_only<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time, count: &mut u64) -> Turn {
    *count += 1;
    one_turn(silo, now)
}

#[inline(never)]
fn one_turn<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time) -> Turn {
    silo.turn(now)
}

/// A turn with what a silo looks after once a millisecond, not counted.
fn warm_turn<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time, _: &mut u64) -> Turn {
    let turn = one_turn(silo, now);
    silo.link.poll_control(now);
    turn
}

/// As [`counted_turn`], with what a silo looks after once a millisecond. It
/// does not call that: a profiler that begins there would end there.
#[inline(never)]
fn counted_turn_and_control<L: Link, A: App>(silo: &mut Silo<L, A>, now: Time, count: &mut u64) -> Turn {
    *count += 1;
    let turn = one_turn(silo, now);
    let Silo { link, stack, .. } = silo;
    link.poll_control(now);
    link.answer(&mut |remote, local| stack.owns(remote, local));
    turn
}

/// A server of several silos, each with a queue of its own, as a NIC with
/// receive side scaling gives them: a generator's flows are those that the
/// NIC's hash would put into one queue.
pub struct Rack {
    servers: Vec<Silo<Steered<PairLink>, Server>>,
    clients: Vec<Silo<PairLink, Load>>,
    now: Time,
    control_at: Time,
    counts: bool,
    counted_turns: u64,
}

impl Rack {
    /// Joins `silos` silos of a server to a generator each.
    ///
    /// # Errors
    /// If the servers or the plan cannot be set up.
    pub fn new(silos: usize, config: impl Fn() -> Config, plan: impl Fn() -> Plan) -> Result<Self, BenchError> {
        let now = Time::from_millis(1);
        let seats = vec![SiloSpec { domain: 0, queues: 1 }; silos];
        let mesh = MeshConfig { spread: Spread::Keyed, ..MeshConfig::default() };
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for (index, mesh_end) in Mesh::new(&seats, &mesh)?.into_iter().enumerate() {
            let (near, far) = Pair::new(PairConfig::default());
            let plan = plan();
            let room = plan.connections as usize + plan.connections as usize / 2 + 1_024;
            let mut stack_config = host_config(1, &near, &[SERVER.into()], &[PORT], room);
            stack_config.steered = true;
            let (app, own) = (Server::new(config(), WallClock::new(now, EPOCH))?, index as u8 + 1);
            let stack = host(own, stack_config, &near, now);
            servers.push(Silo { link: Steered::new(near, mesh_end), stack, app });
            let from = IpAddr::from([CLIENT[0], CLIENT[1], CLIENT[2], own]);
            let stack_config = host_config(own + 1, &far, &[from], &[], room);
            clients.push(Silo { stack: host(own + 100, stack_config, &far, now), link: far, app: Load::new(plan)? });
        }
        Ok(Self { servers, clients, now, control_at: now, counts: false, counted_turns: 0 })
    }

    /// A turn of each silo and each generator, and the time that they take
    /// side by side.
    pub fn round(&mut self) {
        let mut frames = 1;
        let control = self.now >= self.control_at;
        for (server, client) in self.servers.iter_mut().zip(&mut self.clients) {
            frames = frames.max(client.turn(self.now).frames);
            let turn = match (self.counts, control) {
                (false, _) => warm_turn,
                (true, false) => counted_turn_only,
                (true, true) => counted_turn_and_control,
            };
            turn(server, self.now, &mut self.counted_turns);
        }
        if control {
            self.control_at = self.now + silo::ATTEND_EVERY;
        }
        self.now = self.now + PER_REQUEST * frames as u32;
    }

    /// Servers' turns are taken in functions that a profiler finds by name,
    /// from here on.
    pub fn count(&mut self) {
        self.counts = true;
        self.counted_turns = 0;
    }

    /// Turns taken by servers there.
    #[must_use]
    pub fn counted_turns(&self) -> u64 {
        self.counted_turns
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.servers.iter().map(|server| server.app.snapshot().requests).sum()
    }

    /// Runs until each silo has answered `count` requests.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub fn warm_up(&mut self, count: u64) -> Result<(), BenchError> {
        for _ in 0..PATIENCE {
            if self.servers.iter().all(|server| server.app.snapshot().requests >= count) {
                return Ok(());
            }
            self.round();
        }
        Err("the generators do not warm up".into())
    }
}

pub(crate) fn host_config(number: u8, link: &impl Link, own: &[IpAddr], listen: &[u16], room: usize) -> stack::Config {
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, number]), link.capabilities().mtu);
    // One network for all: 10.0.0.0/8.
    config.addresses = own.iter().map(|ip| Address { ip: *ip, prefix_len: 8 }).collect();
    config.listen = listen.to_vec();
    config.max_connections = room;
    config
}

pub(crate) fn host(seed: u8, config: stack::Config, link: &impl Link, now: Time) -> Stack {
    let capabilities = link.capabilities();
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seed = u64::from(seed);
    Stack::new(config, offload, &Seeds { table: [seed, 2, 3, 4], secret: [seed, 6, 7, 8], timestamps: [9; 2] }, now)
}
