//! The link aggregation control protocol (IEEE 802.1AX-2014 clause 6.4): which
//! ports are joined with the same partner, and may carry frames.
//!
//! Time comes in as an argument, data units go in by [`Lacp::on_pdu`] and come
//! out of [`Lacp::poll_pdu`]; nothing here knows a link.
//!
//! One [`Lacp`] is one actor system with one aggregator: all ports have one
//! key, the ports of one partner and key are selected, and those of others
//! stand by. Against the standard's text:
//! - a port without partner carries nothing. The standard lets it be used as a
//!   link of its own; but who wants that sets up no protocol;
//! - a partner that is not heard is spoken to every second, not every thirty,
//!   until it answers: the timeout of the default partner is short;
//! - collecting and distributing are controlled independently, so nothing is
//!   sent to a partner that does not yet take it (802.1AX-2014 clause 6.4.15,
//!   figure 6-22);
//! - the state LACP_DISABLED is the static mode, which has no machines.
//!
//! The revision of 2020 counts its clauses and figures anew (the mux machine
//! is clause 6.4.13 there, transmission 6.4.14) and allows ten data units in a
//! second where this one allows three: who keeps to three keeps to both.

mod port;

pub use port::{LacpCounters, Mux, Port, ReceiveState, Selected};

use core::fmt;
use core::str::FromStr;
use wire::lacp::{LacpPdu, Marker, PortInfo, PortState, SlowPdu};
use wire::{Mac, Time};

/// How this side speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Lower is more important. Default 65535, the least: a switch decides.
    pub system_priority: u16,
    /// Ports of one system with the same key can be aggregated. Default 1.
    pub key: u16,
    /// Lower is more important. Default 255.
    pub port_priority: u16,
    /// Speaks without being spoken to. Default true; two that do not never
    /// come together.
    pub active: bool,
    /// How often the partner is to speak.
    pub rate: LacpRate,
}

impl Default for Settings {
    fn default() -> Self {
        Self { system_priority: u16::MAX, key: 1, port_priority: 255, active: true, rate: LacpRate::Fast }
    }
}

/// How often a partner is to speak, and so how soon its silence is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LacpRate {
    /// Each second; silence ends a port's part after 3 seconds.
    #[default]
    Fast,
    /// Each 30 seconds; silence ends a port's part after 90 seconds.
    Slow,
}

impl FromStr for LacpRate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fast" => Ok(Self::Fast),
            "slow" => Ok(Self::Slow),
            _ => Err("the rate is fast or slow"),
        }
    }
}

impl fmt::Display for LacpRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        })
    }
}

/// The other system, and its key: ports with the same one can be aggregated.
/// A port that its partner does not aggregate is alone in its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Group {
    system_priority: u16,
    system: Mac,
    key: u16,
    alone: Option<u16>,
}

/// All ports' machines, and the selection among them.
#[derive(Clone, Debug)]
pub struct Lacp {
    system: Mac,
    ports: Box<[Port]>,
    /// Whose ports are selected.
    group: Option<Group>,
}

/// Rounds until all machines of all ports have nothing left to do: a port's
/// longest way is from distributing down to detached, and to waiting again.
const MAX_ROUNDS: usize = 12;

impl Lacp {
    /// A system of `ports` ports that are all down.
    #[must_use]
    pub fn new(settings: &Settings, system: Mac, ports: usize) -> Self {
        let state = PortState::AGGREGATION
            .with(PortState::ACTIVITY, settings.active)
            .with(PortState::SHORT_TIMEOUT, settings.rate == LacpRate::Fast);
        let actor = |index: usize| PortInfo {
            system_priority: settings.system_priority,
            system,
            key: settings.key,
            port_priority: settings.port_priority,
            port: index as u16 + 1,
            state,
        };
        Self { system, ports: (0..ports).map(|index| Port::new(actor(index))).collect(), group: None }
    }

    /// The link of `port` went up or down. Ports are counted from 0 here, and
    /// from 1 on the wire.
    pub fn on_link(&mut self, port: usize, up: bool, now: Time) {
        if let Some(port) = self.ports.get_mut(port) {
            port.on_link(up, now);
            self.settle(now);
        }
    }

    /// `port` received a data unit.
    pub fn on_pdu(&mut self, port: usize, pdu: &SlowPdu, now: Time) {
        match pdu {
            SlowPdu::Lacp(pdu) => self.on_lacp(port, pdu, now),
            SlowPdu::Marker(marker) => {
                if let Some(port) = self.ports.get_mut(port) {
                    port.on_marker(marker);
                }
            }
        }
    }

    fn on_lacp(&mut self, index: usize, pdu: &LacpPdu, now: Time) {
        let system = self.system;
        let Some(port) = self.ports.get_mut(index).filter(|port| port.enabled()) else { return };
        if pdu.actor.system == system {
            // Our own, back from a loop or from another of our ports: such a
            // link leads nowhere, and its port goes the way of an unanswered
            // one (802.1AX-2014 clause 6.4.14.1).
            port.on_loop();
            return;
        }
        port.on_pdu(pdu, now);
        // The partner's port was moved here: where it was before, with the
        // link down, it is remembered no longer (802.1AX-2014 clause 6.4.12,
        // port_moved).
        for (other, moved) in self.ports.iter_mut().enumerate() {
            if other != index && !moved.enabled() && moved.is_partner(&pdu.actor) {
                moved.forget();
            }
        }
        self.settle(now);
    }

    /// `port` received a frame of a slow protocol that cannot be parsed.
    pub fn on_malformed(&mut self, port: usize) {
        if let Some(port) = self.ports.get_mut(port) {
            port.on_malformed();
        }
    }

    /// Lets pass what is due.
    pub fn on_time(&mut self, now: Time) {
        for port in &mut self.ports {
            port.on_time(now);
        }
        self.settle(now);
    }

    /// The next data unit to be sent by `port`. Ask again until `None`.
    #[must_use]
    pub fn poll_pdu(&mut self, port: usize, now: Time) -> Option<SlowPdu> {
        self.ports.get_mut(port)?.poll_pdu(now)
    }

    /// Ports that have something to say now: bit n is port n.
    #[must_use]
    pub fn speaking(&self, now: Time) -> u32 {
        self.set(|port| port.speak_at().is_some_and(|at| at <= now))
    }

    /// When time is to be told next, seen from `now`.
    #[must_use]
    pub fn deadline(&self, now: Time) -> Time {
        self.ports.iter().map(|port| port.deadline(now)).fold(Time::MAX, Time::min)
    }

    /// Ports whose frames are taken: bit n is port n.
    #[must_use]
    pub fn collecting(&self) -> u32 {
        self.set(|port| port.mux() >= Mux::Collecting)
    }

    /// Ports that frames may leave through: bit n is port n.
    #[must_use]
    pub fn distributing(&self) -> u32 {
        self.set(|port| port.mux() == Mux::Distributing)
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn set(&self, is: impl Fn(&Port) -> bool) -> u32 {
        self.ports.iter().enumerate().filter(|(_, port)| is(port)).fold(0, |set, (index, _)| set | 1 << index)
    }

    /// Runs selection and the mux machines until none has anything to do.
    fn settle(&mut self, now: Time) {
        for _ in 0..MAX_ROUNDS {
            self.select();
            let ready = self.ports.iter().all(|port| port.is_ready());
            let mut moved = false;
            for port in &mut self.ports {
                moved |= port.step_mux(ready, now);
            }
            if !moved {
                break;
            }
        }
        for port in &mut self.ports {
            port.watch(now);
        }
    }

    /// Selection logic (802.1AX-2014 clause 6.4.14): keeps to the group that
    /// has the ports while it has any, and else takes the one with the most
    /// ports, of these the most important partner's.
    fn select(&mut self) {
        let groups: Vec<Option<Group>> = self.ports.iter().map(group_of).collect();
        let size = |group: &Group| groups.iter().filter(|other| **other == Some(*group)).count();
        if self.group.is_none_or(|group| size(&group) == 0) {
            self.group = groups.iter().flatten().copied().min_by_key(|group| (usize::MAX - size(group), *group));
        }
        for (port, group) in self.ports.iter_mut().zip(&groups) {
            port.select(match group {
                None => Selected::Unselected,
                Some(_) if *group == self.group => Selected::Selected,
                Some(_) => Selected::Standby,
            });
        }
    }
}

fn group_of(port: &Port) -> Option<Group> {
    let partner = port.known_partner()?;
    let alone = !partner.state.has(PortState::AGGREGATION);
    Some(Group {
        system_priority: partner.system_priority,
        system: partner.system,
        key: partner.key,
        alone: alone.then_some(port.actor().port),
    })
}

/// The answer to a marker.
fn answer(marker: &Marker) -> SlowPdu {
    SlowPdu::Marker(Marker { response: true, ..*marker })
}

#[cfg(test)]
mod tests;
