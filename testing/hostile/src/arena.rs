//! The wire with its three stations, and the clock.

use crate::checked::Checked;
use crate::frames::{End, Segment};
use crate::rng::Rng;
use app::App;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use link::{Link, Pair, PairConfig, PairLink, Receive, Transmit};
use load::{Figures, Load, Plan, Request, Reuse, Stop};
use server::{Config, Content, Respond, Server, WallClock};
use silo::{Silo, Turn};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::collections::VecDeque;
use wire::{Mac, Offload, Time};

/// The server's Ethernet address.
pub const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The client's.
pub const CLIENT_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The attacker's.
pub const ATTACKER_MAC: Mac = Mac([2, 0, 0, 0, 0, 66]);
/// The server's IPv4 address, on a /8 with everybody else.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The client's.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The server's IPv6 address.
pub const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// The client's.
pub const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// The port that is served.
pub const PORT: u16 = 80;

/// What a turn of all stations takes at least.
pub const TURN: Duration = Duration::from_micros(20);
/// Frames that wait in each direction of a link.
const RING: usize = 1024;
/// Frames to the attacker that are kept for it to read; the oldest go first.
const INBOX: usize = 8 * 1024;
/// Turns in one stretch of virtual time, so that a livelock ends.
const MOST_TURNS: u64 = 20_000_000;

/// The server's end of a segment.
#[must_use]
pub fn server_end() -> End {
    End { mac: SERVER_MAC, ip: IpAddr::V4(SERVER), port: PORT }
}

/// Settings of an arena.
pub struct Setup {
    /// The server's stack.
    pub stack: stack::Config,
    /// The server.
    pub server: Config,
    /// The client's stack.
    pub client: stack::Config,
    /// What the client does, if there is one.
    pub plan: Option<Plan>,
    /// Where all randomness comes from.
    pub seed: u64,
}

impl Setup {
    /// A server of `size` bytes, without a client.
    #[must_use]
    pub fn new(size: u64, seed: u64) -> Self {
        Self {
            stack: host(SERVER_MAC, SERVER, SERVER_V6, vec![PORT]),
            server: Config::respond(Respond::Size(size)),
            client: host(CLIENT_MAC, CLIENT, CLIENT_V6, Vec::new()),
            plan: None,
            seed,
        }
    }

    /// With a client that makes so many requests over so many connections.
    #[must_use]
    pub fn client(mut self, connections: u32, requests: u64, reuse: Reuse) -> Self {
        let mut plan = Plan::new(SocketAddr::from((SERVER, PORT)), Request::get("victim", "/"));
        plan.connections = connections;
        plan.reuse = reuse;
        plan.warm_up = Duration::ZERO;
        plan.timeout = Duration::from_secs(300);
        plan.stop = Stop::Requests { count: requests, within: Duration::from_secs(100_000) };
        self.plan = Some(plan);
        self
    }
}

/// A station's stack, with everybody of its subnets on the link.
pub(crate) fn host(mac: Mac, v4: Ipv4Addr, v6: Ipv6Addr, listen: Vec<u16>) -> stack::Config {
    let mut config = stack::Config::new(mac, 1500);
    config.addresses =
        vec![Address { ip: IpAddr::V4(v4), prefix_len: 8 }, Address { ip: IpAddr::V6(v6), prefix_len: 64 }];
    config.listen = listen;
    config
}

/// What passed on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Frames that the attacker sent and the server's ring took.
    pub injected: u64,
    /// Frames that the attacker sent and the ring had no room for.
    pub refused: u64,
    /// Frames that the server sent to the attacker, or to everybody.
    pub answers: u64,
    /// Of the client's frames, those that found the server's ring full.
    pub crowded_out: u64,
    /// The server's turns.
    pub turns: u64,
    /// Of these, those that brought no frame and left nothing to do.
    pub idle_turns: u64,
}

/// Server, client and attacker on one wire.
pub struct Arena {
    /// The time.
    pub now: Time,
    /// The server.
    pub server: Silo<PairLink, Server>,
    /// The client.
    pub client: Option<Silo<PairLink, Checked>>,
    server_port: PairLink,
    client_port: PairLink,
    inbox: VecDeque<Vec<u8>>,
    /// The client's latest frames, for the attacker to learn from.
    pub overheard: VecDeque<Vec<u8>>,
    /// What passed.
    pub traffic: Traffic,
    server_turn: Turn,
    client_turn: Turn,
}

const RESTED: Turn = Turn { frames: 0, more: false, deadline: Time::MAX };

impl Arena {
    /// The stations, with nothing said yet.
    ///
    /// # Panics
    /// If the server or the plan cannot be.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let pair = || Pair::new(PairConfig { ring: RING, ..PairConfig::default() });
        let (server_link, server_port) = pair();
        let (client_link, client_port) = pair();
        let mut rng = Rng::new(setup.seed);
        let mut keys = || core::array::from_fn(|_| rng.word());
        let now = Time::from_millis(1_000);
        let content = match &setup.server.content {
            Content::Respond(Respond::Size(size)) => pattern(*size),
            Content::Respond(Respond::Text(text)) => text.clone().into_bytes(),
            Content::Directory(_) | Content::Program(..) => Vec::new(),
        };
        let clock = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let server = Silo {
            link: server_link,
            stack: Stack::new(
                setup.stack,
                LinkOffload::default(),
                &Seeds { table: keys(), secret: keys(), timestamps: [9; 2] },
                now,
            ),
            app: Server::new(setup.server, clock).expect("a sound server"),
        };
        let client_stack = Stack::new(
            setup.client,
            LinkOffload::default(),
            &Seeds { table: keys(), secret: keys(), timestamps: [9; 2] },
            now,
        );
        let client = setup.plan.map(|plan| Silo {
            link: client_link,
            stack: client_stack,
            app: Checked::new(Load::new(plan).expect("a sound plan"), content),
        });
        Self {
            now,
            server,
            client,
            server_port,
            client_port,
            inbox: VecDeque::new(),
            overheard: VecDeque::new(),
            traffic: Traffic::default(),
            server_turn: RESTED,
            client_turn: RESTED,
        }
    }

    /// The attacker sends a frame to the server. Returns whether there was
    /// room on the wire.
    pub fn inject(&mut self, frame: &[u8]) -> bool {
        let sent = put(&mut self.server_port, frame);
        self.traffic.injected += u64::from(sent);
        self.traffic.refused += u64::from(!sent);
        sent
    }

    /// The attacker sends a frame to the client.
    pub fn inject_client(&mut self, frame: &[u8]) -> bool {
        put(&mut self.client_port, frame)
    }

    /// The next frame that the server sent to the attacker.
    pub fn hear(&mut self) -> Option<Vec<u8>> {
        self.inbox.pop_front()
    }

    /// The segments among the frames that the server sent to the attacker.
    pub fn hear_segments(&mut self) -> Vec<Segment> {
        self.inbox.drain(..).filter_map(|frame| Segment::parse(&frame)).collect()
    }

    /// One turn of everybody.
    pub fn tick(&mut self) {
        self.turn();
        self.now = self.now + TURN;
    }

    /// Turns until nothing is under way, or `turns` of them.
    pub fn settle(&mut self, turns: u64) {
        for _ in 0..turns {
            self.tick();
            if self.is_quiet() {
                return;
            }
        }
    }

    /// Lets this much time pass, with the turns that are due in it.
    ///
    /// # Panics
    /// If the server takes turns without end.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.pass_until(end, |_| false);
    }

    /// Lets time pass until `enough` says so, or `end`; whether it did.
    ///
    /// # Panics
    /// If the server takes turns without end.
    pub fn pass_until(&mut self, end: Time, mut enough: impl FnMut(&mut Self) -> bool) -> bool {
        let turns = self.traffic.turns;
        while self.now < end {
            if enough(self) {
                return true;
            }
            let answers = self.traffic.answers;
            self.turn();
            assert!(self.traffic.turns - turns < MOST_TURNS, "turns without end");
            // The attacker hears at once what was said to it.
            let quiet = self.is_quiet() && self.traffic.answers == answers;
            let next = if quiet { self.next_deadline() } else { self.now };
            self.now = next.max(self.now + TURN).min(end.max(self.now + TURN));
        }
        enough(self)
    }

    /// When something is due by itself.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        let server = self.server_turn.deadline.min(self.server.stack_deadline());
        let client = self.client.as_ref().map_or(Time::MAX, Silo::stack_deadline);
        server.min(client).min(self.client_turn.deadline)
    }

    /// Whether no frame is under way and nobody has more to do.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        !self.server_turn.more
            && !self.client_turn.more
            && self.server.link.waiting() == 0
            && self.client.as_ref().is_none_or(|client| client.link.waiting() == 0)
    }

    /// The last turn of the server.
    #[must_use]
    pub const fn server_turn(&self) -> Turn {
        self.server_turn
    }

    /// The client closes its connections and goes; its figures, if it was there.
    pub fn client_leaves(&mut self) -> Option<Figures> {
        let end = self.now + Duration::from_secs(600);
        let gone = self.pass_until(end, |arena| {
            let Some(client) = &mut arena.client else { return true };
            let Silo { app, stack, .. } = client;
            app.drain(stack) && stack.connections() == 0
        });
        assert!(gone, "the client cannot get rid of its connections");
        self.pass(Duration::from_secs(1));
        self.client_turn = RESTED;
        self.client.take()?.app.load.figures().cloned()
    }

    fn turn(&mut self) {
        self.server_turn = self.server.turn(self.now);
        self.traffic.turns += 1;
        let rested = self.server_turn.frames == 0 && !self.server_turn.more;
        self.traffic.idle_turns += u64::from(rested);
        self.carry_from_server();
        if let Some(client) = &mut self.client {
            self.client_turn = client.turn(self.now);
        }
        self.carry_from_client();
    }

    fn carry_from_server(&mut self) {
        let count = self.server_port.split().0.receive(self.now, RING);
        for index in 0..count {
            let frame = self.server_port.split().0.frame(index).to_vec();
            let to_client = frame.starts_with(&CLIENT_MAC.0);
            let to_all = frame[0] & 1 != 0;
            if (to_client || to_all) && self.client.is_some() {
                put(&mut self.client_port, &frame);
            }
            if !to_client {
                self.traffic.answers += 1;
                if self.inbox.len() >= INBOX {
                    self.inbox.pop_front();
                }
                self.inbox.push_back(frame);
            }
        }
        self.server_port.split().0.release();
        self.client_port.split().1.flush(self.now);
        // What the attacker sent since the last turn.
        self.server_port.split().1.flush(self.now);
    }

    fn carry_from_client(&mut self) {
        const OVERHEARD: usize = 64;
        let count = self.client_port.split().0.receive(self.now, RING);
        for index in 0..count {
            let frame = self.client_port.split().0.frame(index).to_vec();
            self.traffic.crowded_out += u64::from(!put(&mut self.server_port, &frame));
            if self.overheard.len() >= OVERHEARD {
                self.overheard.pop_front();
            }
            self.overheard.push_back(frame);
        }
        self.client_port.split().0.release();
        self.server_port.split().1.flush(self.now);
    }
}

/// Sends a copy of a frame; whether there was room.
pub(crate) fn put(port: &mut impl Link, frame: &[u8]) -> bool {
    let (_, mut tx) = port.split();
    let Some(slot) = tx.slot().and_then(|slot| slot.get_mut(..frame.len())) else { return false };
    slot.copy_from_slice(frame);
    tx.commit(frame.len(), Offload::NONE);
    true
}

/// The content of [`Respond::Size`], as its documentation and the first byte
/// that a browser shows have it.
pub(crate) fn pattern(size: u64) -> Vec<u8> {
    (0..size).map(|at| if at % 64 == 63 { b'\n' } else { b'0' + (at % 64 % 10) as u8 }).collect()
}
