//! Noise at the full rate of a real link: the stations share the memif to a
//! server in a process of its own.
//!
//! This side is a switch. Behind it are a well-behaved client, peers whose
//! segments also arrive mutated, and the noise, which takes every slot of the
//! ring that the switch does not keep for the others: so the server always has
//! a full ring before it, and is as fast as it is.

use crate::arena::{CLIENT, CLIENT_MAC, CLIENT_V6, PORT, SERVER, host, pattern, put};
use crate::checked::Checked;
use crate::noise::Noise;
use crate::rng::Rng;
use app::App;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use link::{Link, LinkState, Pair, PairConfig, PairLink, Receive, Transmit};
use load::{Counts, Load, Plan, Request, Reuse, Stop};
use memif::MemifLink;
use silo::Silo;
use stack::{LinkOffload, Seeds, Stack};
use std::collections::VecDeque;
use wire::{Mac, Time};

/// Bytes of the content that the server answers with.
pub const CONTENT: u64 = 2_649;
/// Connections of the well-behaved client.
const CONNECTIONS: u32 = 16;
/// Slots of the ring that noise leaves to the client, as a switch with fair
/// queues does: its requests and acknowledgements need no more at a time.
const RESERVE: usize = 64;
/// Frames between a station and the switch.
const RING: usize = 512;
/// Frames of noise that are sent over and over, each once changed.
const POOL: usize = 4_096;
/// Of these, made anew in each turn.
const FRESH: usize = 8;
/// Frames of the client's that the noise knows.
const OVERHEARD: usize = 64;
/// How often the link is looked after.
const CONTROL_EVERY: Duration = Duration::from_millis(1);

/// What the switch passed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Frames of noise.
    pub noise: u64,
    /// Frames of peers that are no good, mutated or not.
    pub peers: u64,
    /// Of these, mutated ones.
    pub mutants: u64,
    /// The client's.
    pub client: u64,
    /// Frames from the server.
    pub from_server: u64,
    /// Turns of the switch.
    pub turns: u64,
    /// Turns in which the server had left no slot free but the reserve.
    pub full: u64,
}

/// A stack with the load generator in it, and its cable to the switch.
struct Station<A> {
    silo: Silo<PairLink, A>,
    port: PairLink,
    mac: Mac,
}

/// The switch and all behind it.
pub struct Line {
    wire: MemifLink,
    client: Station<Checked>,
    peers: Vec<Station<Load>>,
    noise: Noise,
    rng: Rng,
    /// Frames, and from which byte on one may be changed.
    pool: Vec<(Vec<u8>, usize)>,
    next: usize,
    overheard: VecDeque<Vec<u8>>,
    control_at: Time,
    /// Whether the server is there.
    pub up: bool,
    /// Whether there are noise and mutants.
    pub noisy: bool,
    /// What passed so far.
    pub passed: Passed,
}

impl Line {
    /// A client that asks for as long as `span`, over `wire`.
    ///
    /// # Panics
    /// If a plan cannot be.
    #[must_use]
    pub fn new(wire: MemifLink, seed: u64, span: Duration, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        let client_plan = plan(CONNECTIONS, Reuse::KeepAlive, span);
        let load = Load::new(client_plan).expect("a sound plan");
        let client = Station::new((CLIENT_MAC, CLIENT, CLIENT_V6), Checked::new(load, pattern(CONTENT)), now, &mut rng);
        let kinds = [(Reuse::KeepAlive, 24), (Reuse::ServerCloses, 8), (Reuse::ClientCloses, 8)];
        let peers = (0..).zip(kinds).map(|(index, (reuse, connections))| {
            let mut plan = plan(connections, reuse, span * 2);
            // Most of their connections come to grief: others take their place.
            plan.timeout = Duration::from_millis(300);
            let host = (
                Mac([2, 0, 0, 0, 0, 67 + index]),
                Ipv4Addr::new(10, 66, 0, 1 + index),
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 66, 1 + u16::from(index)),
            );
            Station::new(host, Load::new(plan).expect("a sound plan"), now, &mut rng)
        });
        let peers = peers.collect();
        Self {
            wire,
            client,
            peers,
            noise: Noise::new(seed ^ 0xbad),
            rng,
            pool: Vec::new(),
            next: 0,
            overheard: VecDeque::new(),
            control_at: now,
            up: false,
            noisy: true,
            passed: Passed::default(),
        }
    }

    /// One turn of everybody. Nothing is said before the server is there.
    pub fn turn(&mut self, now: Time) {
        if now >= self.control_at {
            self.control_at = now + CONTROL_EVERY;
            self.up = self.wire.poll_control(now) == LinkState::Up;
        }
        if !self.up {
            return;
        }
        self.server_sends(now);
        self.client.turn(now);
        for peer in &mut self.peers {
            peer.turn(now);
        }
        self.passed.turns += 1;
        self.client_sends(now);
        for index in 0..self.peers.len() {
            self.peer_sends(index, now);
        }
        if self.noisy {
            self.fill();
        }
        self.wire.split().1.flush(now);
    }

    /// Whether the client has had its time.
    #[must_use]
    pub fn done(&self) -> bool {
        self.client.silo.app.done()
    }

    /// Whether the client has closed all of its connections. The peers' go as
    /// well as they may.
    pub fn drain(&mut self) -> bool {
        for Station { silo: Silo { app, stack, .. }, .. } in &mut self.peers {
            app.drain(stack);
        }
        let Silo { app, stack, .. } = &mut self.client.silo;
        app.drain(stack) && stack.connections() == 0
    }

    /// Responses to the client that were right to the last byte, and what was
    /// wrong with others.
    #[must_use]
    pub fn answers(&self) -> (u64, &[String]) {
        (self.client.silo.app.right, &self.client.silo.app.wrong)
    }

    /// What the client counted, and its median and worst latency, once it has
    /// had its time.
    #[must_use]
    pub fn client(&self) -> Option<(Counts, Duration, Duration)> {
        let figures = self.client.silo.app.load.figures()?;
        let mut counts = figures.counts;
        counts.add(&figures.before);
        let median = Duration::from_nanos(figures.latency.quantile(0.5));
        Some((counts, median, Duration::from_nanos(figures.latency.max())))
    }

    /// Frames of noise made, by kind.
    #[must_use]
    pub const fn made(&self) -> &[u64] {
        &self.noise.made
    }

    fn server_sends(&mut self, now: Time) {
        let (rx, _) = self.wire.split();
        let count = rx.receive(now, RING);
        for index in 0..count {
            let frame = rx.frame(index);
            let to_all = frame.first().is_some_and(|first| first & 1 != 0);
            if to_all || frame.starts_with(&self.client.mac.0) {
                put(&mut self.client.port, frame);
            }
            for peer in &mut self.peers {
                if to_all || frame.starts_with(&peer.mac.0) {
                    put(&mut peer.port, frame);
                }
            }
        }
        rx.release();
        self.passed.from_server += count as u64;
        self.client.port.split().1.flush(now);
        for peer in &mut self.peers {
            peer.port.split().1.flush(now);
        }
    }

    fn client_sends(&mut self, now: Time) {
        let room = self.wire.split().1.room();
        let (rx, _) = self.client.port.split();
        let count = rx.receive(now, room.min(RING));
        for index in 0..count {
            put(&mut self.wire, rx.frame(index));
        }
        self.passed.client += count as u64;
        // The last ones are enough to know its connections by.
        for index in count.saturating_sub(4)..count {
            if self.overheard.len() >= OVERHEARD {
                self.overheard.pop_front();
            }
            self.overheard.push_back(rx.frame(index).to_vec());
        }
        rx.release();
    }

    /// A peer's frames: as they are, mutated, both, or neither.
    fn peer_sends(&mut self, index: usize, now: Time) {
        let room = self.wire.split().1.room().saturating_sub(RESERVE) / 3;
        let (rx, _) = self.peers[index].port.split();
        let count = rx.receive(now, room.min(RING));
        for index in 0..count {
            let frame = rx.frame(index);
            let mutants = if self.noisy { self.rng.pick(&[0, 0, 1, 2]) } else { 0 };
            for _ in 0..mutants {
                put(&mut self.wire, &self.noise.mutant(frame));
            }
            let lost = self.noisy && self.rng.one_in(32);
            if !lost {
                put(&mut self.wire, frame);
            }
            self.passed.mutants += mutants;
            self.passed.peers += mutants + u64::from(!lost);
        }
        rx.release();
    }

    /// Noise in every slot but the reserve.
    fn fill(&mut self) {
        for _ in 0..FRESH {
            let fresh = self.noise.lasting();
            if self.pool.len() < POOL {
                self.pool.push(fresh);
            } else {
                let at = self.rng.range(0, POOL as u64 - 1) as usize;
                self.pool[at] = fresh;
            }
        }
        let room = self.wire.split().1.room().saturating_sub(RESERVE);
        self.passed.full += u64::from(room == 0);
        for _ in 0..room.min(FRESH) {
            let frame = self.noise.pertinent(&self.overheard);
            self.passed.noise += u64::from(put(&mut self.wire, &frame));
        }
        for _ in FRESH..room {
            self.next = (self.next + 1) % self.pool.len();
            let (frame, from) = &mut self.pool[self.next];
            if *from < frame.len() {
                let word = self.rng.word();
                let at = *from + (word >> 8) as usize % (frame.len() - *from);
                frame[at] ^= word as u8;
            }
            self.passed.noise += u64::from(put(&mut self.wire, frame));
        }
    }
}

impl<A: App> Station<A> {
    fn new((mac, v4, v6): (Mac, Ipv4Addr, Ipv6Addr), app: A, now: Time, rng: &mut Rng) -> Self {
        let (link, port) = Pair::new(PairConfig { ring: RING, ..PairConfig::default() });
        let mut keys = || core::array::from_fn(|_| rng.word());
        let seeds = Seeds { table: keys(), secret: keys(), timestamps: core::array::from_fn(|_| rng.word()) };
        let stack = Stack::new(host(mac, v4, v6, Vec::new()), LinkOffload::default(), &seeds, now);
        Self { silo: Silo { link, stack, app }, port, mac }
    }

    fn turn(&mut self, now: Time) {
        self.silo.turn(now);
    }
}

fn plan(connections: u32, reuse: Reuse, span: Duration) -> Plan {
    let mut plan = Plan::new(SocketAddr::from((SERVER, PORT)), Request::get("victim", "/"));
    plan.connections = connections;
    plan.reuse = reuse;
    plan.warm_up = Duration::ZERO;
    plan.stop = Stop::After(span);
    plan
}
