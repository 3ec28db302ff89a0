//! What the silos of an aggregation share: which ports take part.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::Mac;

/// Ports of one aggregation: as many as fit the sets that the packet path
/// reads, and twice what switches commonly allow.
pub const MAX_PORTS: usize = 16;
const _: () = assert!(MAX_PORTS <= u32::BITS as usize, "a set of ports is one word");

/// How ports come to take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A port takes part while its link is up. The other side must be set up
    /// for it, and a link that is up but dead in one direction is not noticed.
    #[default]
    Static,
}

/// A port of an aggregation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// What it is called in messages and on the status page: `memif:a.sock`.
    pub name: String,
}

/// An aggregation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The hardware address that all ports answer to.
    pub mac: Mac,
    /// How ports come to take part.
    pub mode: Mode,
    /// Fewer ports than this and none takes part: for one who would rather
    /// have another way used than half of this one. Default 1.
    pub min_links: usize,
    /// The ports, at most [`MAX_PORTS`]; those beyond are not used.
    pub ports: Vec<PortConfig>,
}

impl Config {
    /// One port that is used while its link is up: no aggregation.
    #[must_use]
    pub fn single(mac: Mac, name: &str) -> Self {
        Self { mac, mode: Mode::Static, min_links: 1, ports: vec![PortConfig { name: name.into() }] }
    }
}

/// What happened to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Times that it began to take part.
    pub joined: u64,
    /// Times that it ceased to.
    pub left: u64,
    /// Frames received and dropped because the port did not collect.
    pub dropped_not_collecting: u64,
}

/// Which ports take part, as all silos see it at the same time.
#[derive(Debug)]
pub struct Aggregator {
    config: Config,
    /// Ports whose frames are taken.
    collecting: AtomicU32,
    /// Ports that frames may leave through.
    distributing: AtomicU32,
    ports: Box<[Port]>,
    /// Held by whoever changes the sets.
    decision: Mutex<()>,
}

#[derive(Debug, Default)]
struct Port {
    /// Queues of it, at all silos, whose link is up.
    up: AtomicU32,
    joined: AtomicU64,
    left: AtomicU64,
    dropped_not_collecting: AtomicU64,
}

impl Aggregator {
    /// An aggregation none of whose ports is up yet.
    #[must_use]
    pub fn new(mut config: Config) -> Arc<Self> {
        config.ports.truncate(MAX_PORTS);
        let ports = config.ports.iter().map(|_| Port::default()).collect();
        let all = u32::MAX.checked_shr(u32::BITS - config.ports.len() as u32).unwrap_or(0);
        Arc::new(Self {
            collecting: AtomicU32::new(all),
            distributing: AtomicU32::new(0),
            ports,
            decision: Mutex::new(()),
            config,
        })
    }

    /// How it was made.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The hardware address of all ports.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.config.mac
    }

    /// The ports whose frames are taken: bit n is port n.
    #[inline]
    #[must_use]
    pub fn collecting(&self) -> u32 {
        self.collecting.load(Ordering::Relaxed)
    }

    /// The ports that frames may leave through: bit n is port n. A silo none
    /// of whose own ports is among them asks another one.
    #[inline]
    #[must_use]
    pub fn distributing(&self) -> u32 {
        self.distributing.load(Ordering::Relaxed)
    }

    /// What happened to port `port`; nothing to one that there is not.
    #[must_use]
    pub fn counters(&self, port: usize) -> PortCounters {
        let Some(port) = self.ports.get(port) else { return PortCounters::default() };
        PortCounters {
            joined: port.joined.load(Ordering::Relaxed),
            left: port.left.load(Ordering::Relaxed),
            dropped_not_collecting: port.dropped_not_collecting.load(Ordering::Relaxed),
        }
    }

    /// A queue of `port` went up or down; told once each time.
    pub(crate) fn on_queue(&self, port: usize, up: bool) {
        let Some(counts) = self.ports.get(port) else { return };
        let _decision = self.decide();
        if up {
            counts.up.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.up.fetch_sub(1, Ordering::Relaxed);
        }
        let ups = self.ports.iter().enumerate().filter(|(_, port)| port.up.load(Ordering::Relaxed) > 0);
        self.publish(ups.fold(0, |set, (index, _)| set | 1 << index));
    }

    /// From now on these ports distribute, if they are enough.
    fn publish(&self, able: u32) {
        let enough = able.count_ones() as usize >= self.config.min_links;
        let now = if enough { able } else { 0 };
        let before = self.distributing.swap(now, Ordering::Relaxed);
        for (index, port) in self.ports.iter().enumerate() {
            match (before >> index & 1, now >> index & 1) {
                (0, 1) => port.joined.fetch_add(1, Ordering::Relaxed),
                (1, 0) => port.left.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    }

    fn decide(&self) -> MutexGuard<'_, ()> {
        self.decision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an operator wants to see, in the manner of Linux's
/// `/proc/net/bonding`.
impl fmt::Display for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distributing = self.distributing();
        writeln!(
            f,
            "mode: {}",
            match self.config.mode {
                Mode::Static => "static",
            }
        )?;
        writeln!(f, "address: {}", self.config.mac)?;
        writeln!(f, "ports distributing: {} (at least {})", distributing.count_ones(), self.config.min_links)?;
        for (index, (port, config)) in self.ports.iter().zip(&self.config.ports).enumerate() {
            let counters = self.counters(index);
            writeln!(f, "port {}: {}", index + 1, config.name)?;
            writeln!(f, "  link: {}", if port.up.load(Ordering::Relaxed) > 0 { "up" } else { "down" })?;
            writeln!(f, "  distributing: {}", if distributing >> index & 1 != 0 { "yes" } else { "no" })?;
            writeln!(f, "  joined, left: {} {}", counters.joined, counters.left)?;
            writeln!(f, "  dropped, not collecting: {}", counters.dropped_not_collecting)?;
        }
        Ok(())
    }
}
