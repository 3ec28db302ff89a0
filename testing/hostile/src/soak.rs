//! Noise at line rate for a long time, beside a client that must be served.

use crate::arena::{Arena, Setup};
use crate::noise::Noise;
use core::fmt::Write;
use core::time::Duration;
use load::Reuse;

/// Bad frames for each turn of the server: with the client's own, less than
/// the burst that it takes, so that no frame is lost for want of room.
pub const FRAMES_PER_TURN: usize = 24;

/// Noise beside a client.
pub struct Soak {
    /// The stations.
    pub arena: Arena,
    noise: Noise,
}

impl Soak {
    /// A client with keep-alive connections that goes on for `requests`.
    #[must_use]
    pub fn new(seed: u64, requests: u64) -> Self {
        let setup = Setup::new(2_649, seed).client(16, requests, Reuse::KeepAlive);
        Self { arena: Arena::new(setup), noise: Noise::new(seed ^ 0xbad) }
    }

    /// So many turns full of noise.
    pub fn turns(&mut self, turns: u64) {
        for _ in 0..turns {
            for _ in 0..FRAMES_PER_TURN {
                let frame = self.noise.frame(&self.arena.overheard);
                self.arena.inject(&frame);
            }
            self.arena.tick();
            while self.arena.hear().is_some() {}
        }
    }

    /// What broke a promise so far; empty if nothing did.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut out = Vec::new();
        let stack = &self.arena.server.stack;
        let config = stack.config();
        if stack.connections() > config.max_connections {
            out.push(format!("{} connections", stack.connections()));
        }
        if stack.half_open() > config.max_half_open {
            out.push(format!("{} half-open handshakes", stack.half_open()));
        }
        if stack.receive_memory() > config.receive_memory + config.tcp.receive_limit as usize {
            out.push(format!("{} bytes of received data", stack.receive_memory()));
        }
        if let Some(client) = &self.arena.client {
            out.extend(client.app.wrong.iter().cloned());
        }
        out
    }

    /// Responses to the client that were right to the last byte.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.arena.client.as_ref().map_or(0, |client| client.app.right)
    }

    /// The noise is over: the client's last responses come, it leaves, and
    /// the server forgets the attacker.
    ///
    /// # Panics
    /// If something is left, or the client lost a request.
    pub fn end(&mut self) {
        let figures = self.arena.client_leaves();
        if let Some(figures) = figures {
            let mut errors = figures.counts.errors;
            errors.add(&figures.before.errors);
            assert_eq!(errors.failed_requests() + errors.failed_connects(), 0, "{errors:?}");
        }
        // Fifteen retransmissions to peers that never were take this long.
        self.arena.pass(Duration::from_secs(1_200));
        let stack = &self.arena.server.stack;
        let left = (stack.connections(), stack.half_open(), stack.receive_memory());
        assert_eq!(left, (0, 0, 0), "connections, half-open handshakes, bytes received");
    }

    /// What was sent, and what became of it.
    #[must_use]
    pub fn report(&self) -> String {
        let mut out = String::new();
        for (name, made) in crate::noise::NAMES.iter().zip(self.noise.made) {
            let _ = writeln!(out, "  {made:>12} {name}");
        }
        let stack = &self.arena.server.stack;
        let counters = stack.counters().iter().chain(stack.tcp_counters().iter());
        let _ = writeln!(out, "what the server counted:");
        for (name, count) in counters.chain(stack.neighbour_counters()).chain(stack.fragment_counters()) {
            if count > 0 {
                let _ = writeln!(out, "  {count:>12} {name}");
            }
        }
        out
    }
}
