//! A whole stack with an application, fed by a hostile peer.
//!
//! The input is a program: each step is a byte that says what happens, and its
//! arguments. The peer knows what the stack sent, so that few bytes reach deep
//! states; and it can send anything.

mod peer;
mod probe;
mod steps;

use crate::Target;
use core::time::Duration;
use link::{Link, Pair, PairConfig, PairLink, Receive, Transmit};
use peer::Peer;
use probe::Probe;
use silo::Silo;
use stack::{Address, Config, LinkOffload, Seeds, Stack};
use steps::Program;
use wire::{Offload, Time};

use crate::packets::{OUR_MAC, OUR_V4, OUR_V6};

pub(crate) const TARGET: Target = Target {
    name: "stack",
    about: "limits hold, bytes arrive once and in order, every frame is right, nothing is left over",
    run,
    seeds: steps::seeds,
    dictionary: steps::DICTIONARY,
    test_runs: 5_000,
    max_len: 1024,
};

/// Few, so that short inputs come to each.
const MAX_CONNECTIONS: usize = 6;
const MAX_HALF_OPEN: usize = 3;
const MAX_TIME_WAIT: usize = 3;
/// Of one connection, and of all together.
const RECEIVE_LIMIT: u32 = 64 << 10;
const RECEIVE_MEMORY: usize = 96 << 10;
/// Turns without new frames after which a stack must have nothing to do.
const MAX_TURNS: usize = 1000;
/// Slots of the link's ring.
const RING: usize = 64;

fn run(input: &[u8]) {
    let _ = live(input);
}

/// Runs a program to its end, and returns what is left of the world.
fn live(input: &[u8]) -> World {
    let mut program = Program::new(input);
    let mut world = World::new(program.byte());
    while let Some(step) = program.step() {
        world.take(step);
    }
    world.wind_up();
    world
}

/// The stack, its application, the peer, and the time.
struct World {
    silo: Silo<PairLink, Probe>,
    far: PairLink,
    peer: Peer,
    now: Time,
}

impl World {
    fn new(settings: u8) -> Self {
        let (near, far) = Pair::new(PairConfig { ring: RING, ..PairConfig::default() });
        let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
        let now = Time::from_nanos(1_000_000_000);
        let stack = Stack::new(config(settings), LinkOffload::default(), &seeds, now);
        Self { silo: Silo { link: near, stack, app: Probe::default() }, far, peer: Peer::default(), now }
    }

    fn take(&mut self, step: steps::Step<'_>) {
        match step {
            steps::Step::Raw(bytes) => {
                self.silo.app.trust_nothing();
                self.peer.trust_nothing();
                self.send(bytes);
            }
            steps::Step::Segment(segment) => {
                let frame = self.peer.build(&segment);
                self.send(&frame);
            }
            steps::Step::Wait(time) => self.now = self.now + time,
            steps::Step::Act(act) => self.silo.app.acts.push(act),
        }
        self.settle();
    }

    fn send(&mut self, frame: &[u8]) {
        let (_, tx) = self.far.split();
        if let Some(slot) = tx.slot()
            && let Some(slot) = slot.get_mut(..frame.len())
        {
            slot.copy_from_slice(frame);
            tx.commit(frame.len(), Offload::default());
        }
        tx.flush(self.now);
    }

    /// Turns until there is nothing to do, with answers to what asks for a
    /// hardware address in between.
    fn settle(&mut self) {
        for _ in 0..MAX_TURNS {
            let turn = self.silo.turn(self.now);
            self.check_limits();
            let answers = self.drain();
            let idle = answers.is_empty() && turn.frames == 0 && !turn.more;
            for answer in answers {
                self.send(&answer);
            }
            if idle {
                return;
            }
        }
        panic!("the stack is never done");
    }

    /// Takes what the stack sent, and checks it.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let (rx, _) = self.far.split();
        loop {
            let count = rx.receive(self.now, RING);
            if count == 0 {
                break;
            }
            for index in 0..count {
                answers.extend(self.peer.on_frame(rx.frame(index)));
            }
            rx.release();
        }
        answers
    }

    fn check_limits(&self) {
        let stack = &self.silo.stack;
        assert!(stack.connections() <= MAX_CONNECTIONS, "connections: {}", stack.connections());
        assert!(stack.half_open() <= MAX_HALF_OPEN, "half-open: {}", stack.half_open());
        // One may go beyond the limit, where there is nobody else to give way.
        let most = RECEIVE_MEMORY + RECEIVE_LIMIT as usize;
        assert!(stack.receive_memory() <= most, "receive memory: {}", stack.receive_memory());
    }

    /// The peer falls silent, the application lets go of everything: in the
    /// end, nothing is left.
    fn wind_up(&mut self) {
        self.silo.app.let_go();
        self.settle();
        // Through all retransmissions of a SYN,ACK, and TIME-WAIT.
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
            self.now = self.now + Duration::from_secs(seconds);
            self.settle();
        }
        let stack = &self.silo.stack;
        assert_eq!(stack.connections(), 0, "connections are left");
        assert_eq!(stack.half_open(), 0, "handshakes are left");
        assert_eq!(stack.receive_memory(), 0, "received bytes are left");
        self.silo.app.check_closed();
    }
}

fn config(settings: u8) -> Config {
    let mut config = Config::new(OUR_MAC, 1500);
    config.addresses =
        vec![Address { ip: OUR_V4.into(), prefix_len: 24 }, Address { ip: OUR_V6.into(), prefix_len: 64 }];
    config.listen = vec![80];
    config.max_connections = MAX_CONNECTIONS;
    config.max_half_open = MAX_HALF_OPEN;
    config.max_time_wait = MAX_TIME_WAIT;
    config.receive_memory = RECEIVE_MEMORY;
    config.tcp.receive_limit = RECEIVE_LIMIT;
    config.tcp.sack = settings & 1 == 0;
    config.tcp.timestamps = settings & 2 == 0;
    config.tcp.nagle = settings & 4 != 0;
    config.tcp.keepalive_idle = if settings & 8 == 0 { 0 } else { 10_000 };
    config.tcp.user_timeout = if settings & 16 == 0 { 0 } else { 30_000 };
    config.tcp.retries = if settings & 32 == 0 { 15 } else { 2 };
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds come to all that the target is about: else its assertions
    /// would be empty.
    #[test]
    fn the_seeds_reach_what_is_asserted() {
        let mut total = stack::Counters::default();
        let (mut received, mut retransmitted) = (0, 0);
        for seed in steps::seeds() {
            let world = live(&seed);
            let counters = world.silo.stack.counters();
            total.accepted += counters.accepted;
            total.connected += counters.connected;
            total.cookies_sent += counters.cookies_sent;
            total.cookies_accepted += counters.cookies_accepted;
            total.icmp_in += counters.icmp_in;
            total.neighbour_in += counters.neighbour_in;
            total.syn_dropped += counters.syn_dropped;
            received += world.silo.app.received;
            retransmitted += world.peer.repeated;
        }
        assert!(total.accepted > 8 && total.connected > 0, "{total:?}");
        assert!(total.cookies_sent > 0 && total.cookies_accepted > 0, "{total:?}");
        assert!(total.icmp_in > 0 && total.neighbour_in > 0, "{total:?}");
        assert!(received > 500, "bytes received: {received}");
        assert!(retransmitted > 1000, "bytes sent again: {retransmitted}");
    }
}
