//! The real server and the real load generator, a silo each, over a pair in
//! memory and in virtual time: all on one thread, so that turns alternate.

use crate::Failure;
use app::App;
use core::net::IpAddr;
use core::time::Duration;
use link::{Link, Pair, PairConfig, PairLink};
use load::{Load, Plan, Request, Stage, Stop};
use server::{Config, Server, WallClock};
use silo::{Silo, Turn};
use stack::{Address, LinkOffload, Seeds, Stack};
use wire::{Mac, Time};

/// The server's address.
pub const SERVER: [u8; 4] = [10, 0, 0, 2];
/// The first of the client's addresses.
pub const CLIENT: [u8; 4] = [10, 0, 1, 1];
/// The port served.
pub const PORT: u16 = 80;

/// Virtual time that passes with each round: about what a request costs at
/// full load, so that what is done once in a millisecond or second carries
/// its true weight.
const PER_REQUEST: Duration = Duration::from_nanos(350);

/// 2027: any second that HTTP can name.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

/// Rounds without an answer after which something is stuck.
const PATIENCE: u64 = 50_000_000;

/// Both sides.
pub struct Rig {
    /// Serves.
    pub server: Silo<PairLink, Server>,
    /// Asks.
    pub client: Silo<PairLink, Load>,
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
    pub fn new(config: Config, plan: Plan) -> Result<Self, Failure> {
        let (near, far) = Pair::new(PairConfig::default());
        let now = Time::from_millis(1);
        let room = plan.connections as usize + plan.connections as usize / 2 + 1_024;
        let sources = if plan.sources.is_empty() { vec![CLIENT.into()] } else { plan.sources.clone() };
        let server = Silo {
            stack: host(1, &near, &[SERVER.into()], &[PORT], room, now),
            link: near,
            app: Server::new(config, WallClock::new(now, EPOCH))?,
        };
        let client = Silo { stack: host(2, &far, &sources, &[], room, now), link: far, app: Load::new(plan)? };
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
        self.server.app.snapshot().requests
    }

    /// Runs until all connections are open and `count` more requests were
    /// answered.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub fn warm_up(&mut self, count: u64) -> Result<(), Failure> {
        self.until("open its connections", |rig| {
            let stage = rig.client.app.stage();
            stage != Stage::Waiting && stage != Stage::Ramp && rig.requests() > 0
        })?;
        let end = self.requests() + count;
        self.until("warm up", |rig| rig.requests() >= end)
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), Failure> {
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
pub fn counted_turn<A: App>(silo: &mut Silo<PairLink, A>, now: Time, count: &mut u64) -> Turn {
    *count += 1;
    silo.turn(now)
}

fn host(number: u8, link: &PairLink, own: &[IpAddr], listen: &[u16], room: usize, now: Time) -> Stack {
    let capabilities = link.capabilities();
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, number]), capabilities.mtu);
    // One network for all: 10.0.0.0/8.
    config.addresses = own.iter().map(|ip| Address { ip: *ip, prefix_len: 8 }).collect();
    config.listen = listen.to_vec();
    config.max_connections = room;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seed = u64::from(number);
    Stack::new(config, offload, &Seeds { table: [seed, 2, 3, 4], secret: [seed, 6, 7, 8] }, now)
}
