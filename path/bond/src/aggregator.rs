//! What the silos of an aggregation share: which ports take part.

use crate::lacp::{self, Lacp, Mux, Selected};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use wire::ethernet::{EthernetHeader, HEADER_LEN};
use wire::lacp::{DESTINATION, ETHER_SLOW, PDU_LEN, PortInfo, SlowPdu};
use wire::{Mac, Time};

/// Ports of one aggregation: as many as fit the sets that the packet path
/// reads, and twice what switches commonly allow.
pub const MAX_PORTS: usize = 16;
const _: () = assert!(MAX_PORTS <= u32::BITS as usize, "a set of ports is one word");

/// A frame of a slow protocol.
const FRAME_LEN: usize = HEADER_LEN + PDU_LEN;

/// How ports come to take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A port takes part while its link is up. The other side must be set up
    /// for it, and a link that is up but dead in one direction is not noticed.
    #[default]
    Static,
    /// A port takes part as the control protocol agrees with the other side.
    Lacp(lacp::Settings),
}

/// A port of an aggregation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// What it is called in messages and on the status page: `memif:a.sock`.
    pub name: String,
    /// Its part of the flows that we send, beside those of the other ports: for
    /// links that are alike in slots that are not. At least 1. What comes in,
    /// the other side spreads.
    pub weight: u8,
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
        Self { mac, mode: Mode::Static, min_links: 1, ports: vec![PortConfig { name: name.into(), weight: 1 }] }
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

/// How a port is: what an operator wants to see of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortView {
    /// A queue of it is up, at whichever silo.
    pub up: bool,
    /// Frames may leave through it.
    pub distributing: bool,
    /// What happened to it.
    pub counters: PortCounters,
    /// What its machines have come to; nothing in [`Mode::Static`].
    pub lacp: Option<LacpView>,
}

/// How a port's machines are, as last they changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LacpView {
    /// The receive machine's state.
    pub receive: lacp::ReceiveState,
    /// What selection says.
    pub selected: Selected,
    /// The mux machine's state.
    pub mux: Mux,
    /// This side's key.
    pub key: u16,
    /// The system at the other end; all zero without one.
    pub partner: Mac,
    /// Its key.
    pub partner_key: u16,
    /// Its number for the port.
    pub partner_port: u16,
    /// Data units of link aggregation control received.
    pub pdus_in: u64,
    /// And sent.
    pub pdus_out: u64,
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
    /// Ports with something to say to their partner.
    speaking: AtomicU32,
    /// When the machines want to be told the time, in nanoseconds.
    due: AtomicU64,
    /// The machines, if there are any; held by whoever changes the sets.
    decision: Mutex<Option<Lacp>>,
}

#[derive(Debug, Default)]
struct Port {
    /// Queues of it, at all silos, whose link is up.
    up: AtomicU32,
    joined: AtomicU64,
    left: AtomicU64,
    dropped_not_collecting: AtomicU64,
    told: Told,
}

/// A [`LacpView`] in words that are read without waiting for the machines:
/// their states with this side's key and the partner's; the partner's system
/// with its port; data units in, and out.
#[derive(Debug, Default)]
struct Told([AtomicU64; 4]);

impl Aggregator {
    /// An aggregation none of whose ports is up yet.
    #[must_use]
    pub fn new(mut config: Config) -> Arc<Self> {
        config.ports.truncate(MAX_PORTS);
        let ports: Box<[Port]> = config.ports.iter().map(|_| Port::default()).collect();
        let all = u32::MAX.checked_shr(u32::BITS - ports.len() as u32).unwrap_or(0);
        let (collecting, lacp) = match &config.mode {
            Mode::Static => (all, None),
            Mode::Lacp(settings) => (0, Some(Lacp::new(settings, config.mac, ports.len()))),
        };
        for (port, machines) in ports.iter().zip(lacp.iter().flat_map(Lacp::ports)) {
            port.told.write(machines);
        }
        Arc::new(Self {
            collecting: AtomicU32::new(collecting),
            distributing: AtomicU32::new(0),
            speaking: AtomicU32::new(0),
            due: AtomicU64::new(u64::MAX),
            ports,
            decision: Mutex::new(lacp),
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

    /// How port `port` is. Each figure is of this moment or of one shortly
    /// before: nobody is waited for.
    #[must_use]
    pub fn view(&self, port: usize) -> PortView {
        let Some(own) = self.ports.get(port) else { return PortView::default() };
        PortView {
            up: own.up.load(Ordering::Relaxed) > 0,
            distributing: self.distributing() >> port & 1 != 0,
            counters: self.counters(port),
            lacp: self.speaks_lacp().then(|| own.told.read()),
        }
    }

    /// Whether frames of slow protocols are to be told, and those of ports
    /// that do not collect to be dropped.
    pub(crate) fn speaks_lacp(&self) -> bool {
        matches!(self.config.mode, Mode::Lacp(_))
    }

    /// Ports with something to say: bit n is port n.
    pub(crate) fn speaking(&self) -> u32 {
        self.speaking.load(Ordering::Relaxed)
    }

    /// When [`Aggregator::poll`] has something to do.
    pub(crate) fn due(&self) -> Time {
        Time::from_nanos(self.due.load(Ordering::Relaxed))
    }

    /// A queue of `port` went up or down; told once each time.
    pub(crate) fn on_queue(&self, port: usize, up: bool, now: Time) {
        let Some(counts) = self.ports.get(port) else { return };
        let mut decision = self.decide();
        let (was, is) = if up {
            let before = counts.up.fetch_add(1, Ordering::Relaxed);
            (before > 0, true)
        } else {
            let before = counts.up.fetch_sub(1, Ordering::Relaxed);
            (true, before > 1)
        };
        if was == is {
            return;
        }
        match &mut *decision {
            Some(lacp) => {
                lacp.on_link(port, is, now);
                self.follow(lacp, now);
            }
            None => {
                let up = |(index, port): (usize, &Port)| u32::from(port.up.load(Ordering::Relaxed) > 0) << index;
                self.publish(self.ports.iter().enumerate().map(up).sum());
            }
        }
    }

    /// `port` received this frame of a slow protocol.
    pub(crate) fn on_slow(&self, port: usize, payload: &[u8], now: Time) {
        if let Some(lacp) = &mut *self.decide() {
            match SlowPdu::parse(payload) {
                Ok(pdu) => lacp.on_pdu(port, &pdu, now),
                Err(_) => lacp.on_malformed(port),
            }
            self.follow(lacp, now);
        }
    }

    /// Tells the machines the time, if they want to know. Never waits: if
    /// another silo is at it, all is well.
    pub(crate) fn poll(&self, now: Time) {
        if self.due() > now {
            return;
        }
        if let Some(lacp) = self.try_decide().as_deref_mut().and_then(Option::as_mut) {
            lacp.on_time(now);
            self.follow(lacp, now);
        }
    }

    /// Writes the next frame that `port` has to send, and returns its length.
    /// Never waits: what another silo has in hand is there the next time.
    pub(crate) fn poll_frame(&self, port: usize, now: Time, out: &mut [u8]) -> Option<usize> {
        let mut decision = self.try_decide()?;
        let lacp = decision.as_mut()?;
        if out.len() < FRAME_LEN {
            return None;
        }
        let pdu = lacp.poll_pdu(port, now);
        self.follow(lacp, now);
        let header = EthernetHeader { dst: DESTINATION, src: self.config.mac, vlan: None, ether_type: ETHER_SLOW };
        let len = header.emit(out);
        Some(len + pdu?.emit(&mut out[len..]))
    }

    /// Frames of a port that does not collect were dropped.
    pub(crate) fn on_dropped(&self, port: usize, frames: usize) {
        if let Some(port) = self.ports.get(port) {
            port.dropped_not_collecting.fetch_add(frames as u64, Ordering::Relaxed);
        }
    }

    /// Publishes what the machines have come to.
    fn follow(&self, lacp: &Lacp, now: Time) {
        self.collecting.store(lacp.collecting(), Ordering::Relaxed);
        self.speaking.store(lacp.speaking(now), Ordering::Relaxed);
        self.due.store(lacp.deadline(now).as_nanos(), Ordering::Relaxed);
        for (port, machines) in self.ports.iter().zip(lacp.ports()) {
            port.told.write(machines);
        }
        self.publish(lacp.distributing());
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

    fn decide(&self) -> MutexGuard<'_, Option<Lacp>> {
        self.decision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_decide(&self) -> Option<MutexGuard<'_, Option<Lacp>>> {
        match self.decision.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Told {
    fn write(&self, port: &lacp::Port) {
        let (actor, partner, counters) = (port.actor(), port.partner(), port.counters());
        let [a, b, c, d, e, f] = partner.system.0;
        let [high, low] = partner.port.to_be_bytes();
        let states = [port.receive() as u8, port.selected() as u8, port.mux() as u8].map(u64::from);
        let states = states[0] << 56 | states[1] << 48 | states[2] << 40;
        let words = [
            states | u64::from(actor.key) << 16 | u64::from(partner.key),
            u64::from_be_bytes([a, b, c, d, e, f, high, low]),
            counters.pdus_in,
            counters.pdus_out,
        ];
        for (told, word) in self.0.iter().zip(words) {
            told.store(word, Ordering::Relaxed);
        }
    }

    fn read(&self) -> LacpView {
        let [states, partner, pdus_in, pdus_out] = self.0.each_ref().map(|word| word.load(Ordering::Relaxed));
        let [a, b, c, d, e, f, high, low] = partner.to_be_bytes();
        let [receive, selected, mux, ..] = states.to_be_bytes();
        LacpView {
            receive: lacp::ReceiveState::from_number(receive),
            selected: Selected::from_number(selected),
            mux: Mux::from_number(mux),
            key: (states >> 16) as u16,
            partner: Mac([a, b, c, d, e, f]),
            partner_key: states as u16,
            partner_port: u16::from_be_bytes([high, low]),
            pdus_in,
            pdus_out,
        }
    }
}

/// What an operator wants to see, in the manner of Linux's
/// `/proc/net/bonding`.
impl fmt::Display for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distributing = self.distributing();
        match &self.config.mode {
            Mode::Static => writeln!(f, "mode: static")?,
            Mode::Lacp(lacp::Settings { active, rate, .. }) => {
                writeln!(f, "mode: LACP, {}, rate {rate}", if *active { "active" } else { "passive" })?;
            }
        }
        writeln!(f, "address: {}", self.config.mac)?;
        writeln!(f, "ports distributing: {} (at least {})", distributing.count_ones(), self.config.min_links)?;
        let decision = self.decide();
        for (index, (port, config)) in self.ports.iter().zip(&self.config.ports).enumerate() {
            let counters = self.counters(index);
            writeln!(f, "port {}: {}", index + 1, config.name)?;
            writeln!(f, "  link: {}", if port.up.load(Ordering::Relaxed) > 0 { "up" } else { "down" })?;
            writeln!(f, "  distributing: {}", if distributing >> index & 1 != 0 { "yes" } else { "no" })?;
            writeln!(f, "  joined {}, left {}", counters.joined, counters.left)?;
            writeln!(f, "  dropped while not collecting: {}", counters.dropped_not_collecting)?;
            if let Some(machines) = decision.as_ref().and_then(|lacp| lacp.ports().get(index)) {
                tell_machines(f, machines)?;
            }
        }
        Ok(())
    }
}

fn tell_machines(f: &mut fmt::Formatter<'_>, port: &lacp::Port) -> fmt::Result {
    let counters = port.counters();
    let [actor, partner] = port.churns().map(|churn| if churn { "churned" } else { "none" });
    writeln!(f, "  receive {:?}, selection {:?}, mux {:?}", port.receive(), port.selected(), port.mux())?;
    for (side, info, churn) in [("actor", port.actor(), actor), ("partner", port.partner(), partner)] {
        writeln!(f, "  {side}: system {} priority {}", info.system, info.system_priority)?;
        let PortInfo { key, port, port_priority, state, .. } = info;
        writeln!(f, "    key {key}, port {port} priority {port_priority}, state {:#04x}, churn {churn}", state.0)?;
    }
    writeln!(f, "  LACP in {}, out {}", counters.pdus_in, counters.pdus_out)?;
    let lacp::LacpCounters { markers_in, markers_out, markers_dropped, .. } = counters;
    writeln!(f, "  markers in {markers_in}, answered {markers_out}, dropped {markers_dropped}")?;
    let lacp::LacpCounters { looped, malformed, expired, .. } = counters;
    writeln!(f, "  looped {looped}, malformed {malformed}, partner fell silent {expired}")
}
