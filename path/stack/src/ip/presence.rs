//! Our addresses on the link: announced (RFC 5227 section 2.3, RFC 4861
//! section 7.2.6), asked for before or beside their use (RFC 5227 section 2.1,
//! RFC 4862 section 5.4), and defended (RFC 5227 section 2.4).
//!
//! What is to be said goes by steps, each for all addresses: see
//! [`Presence::begin`].

use super::Ip;
use super::addresses::{ALL_NODES, Addresses};
use crate::config::{Address, Config, Detection};
use crate::egress::Egress;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use wire::arp::{ArpPacket, Operation};
use wire::icmpv6::{self, Icmpv6, NeighborAdvertisement};
use wire::{Mac, Time, ipv6};

/// RFC 5227 section 1.1: PROBE_WAIT, up to which the first question waits, so
/// that hosts that start together do not ask together.
const PROBE_WAIT_MS: u64 = 1_000;
/// PROBE_MIN and PROBE_MAX: between two questions, of PROBE_NUM = 3.
const PROBE_MIN: Duration = Duration::from_secs(1);
const PROBE_SPAN_MS: u64 = 1_000;
/// ANNOUNCE_WAIT: after the last question.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// ANNOUNCE_INTERVAL: between two announcements, of ANNOUNCE_NUM = 2. Longer
/// than RFC 4861's RetransTimer, of whose MAX_NEIGHBOR_ADVERTISEMENT = 3 it
/// leaves out one.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// DEFEND_INTERVAL: an address is defended once in it.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// RATE_LIMIT_INTERVAL: after a conflict, an address is asked for again.
const RETRY: Duration = Duration::from_secs(60);

/// Addresses that one turn speaks for; the others follow in the next.
pub(crate) const PER_TURN: usize = 32;
/// Between two such turns: 32,000 addresses in a second at most.
const TURN_GAP: Duration = Duration::from_millis(1);
/// Conflicts that wait to be told; more are only counted.
const CONFLICTS: usize = 64;
/// Addresses whose last defence is remembered; beyond, none is defended.
const DEFENDED: usize = 1_024;

/// Somebody else has an address of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The address.
    pub ip: IpAddr,
    /// Who has it.
    pub mac: Mac,
    /// We do not use it: [`Detection::Wait`] found out before.
    pub unused: bool,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Asks whether somebody has the addresses.
    Probe,
    /// Says that we have them.
    Announce,
    /// Uses those that nobody claimed.
    Accept,
}

/// An address that is not used yet.
#[derive(Clone, Copy, Debug)]
struct Tentative {
    address: Address,
    claimed: bool,
}

/// How far we are.
#[derive(Debug)]
pub(super) struct Presence {
    detection: Detection,
    /// We announce and ask for the others that have the same addresses, too.
    announces: bool,
    /// What is still to be done, the next first, each with what it waits for
    /// after the one before.
    steps: VecDeque<(Step, Duration)>,
    /// The address that the first step goes on with.
    next: usize,
    /// When that is due; [`Time::MAX`] if nothing is.
    due: Time,
    tentative: Vec<Tentative>,
    /// The first look at the tentative addresses is not over.
    awaited: bool,
    defended: BTreeMap<IpAddr, Time>,
    conflicts: VecDeque<Conflict>,
    random: u64,
}

impl Presence {
    /// Of a stack with these settings, and the addresses that it uses from the
    /// start.
    pub fn new(config: &Config, random: u64) -> (Self, Addresses) {
        let waits = config.detection == Detection::Wait && !config.host_neighbours;
        let tentative = if waits { config.addresses.clone() } else { Vec::new() };
        let used = Addresses::new(if waits { &[] } else { &config.addresses });
        let this = Self {
            detection: if config.host_neighbours { Detection::Off } else { config.detection },
            announces: config.announces,
            steps: VecDeque::new(),
            next: 0,
            due: Time::MAX,
            awaited: waits,
            tentative: tentative.into_iter().map(|address| Tentative { address, claimed: false }).collect(),
            defended: BTreeMap::new(),
            conflicts: VecDeque::new(),
            random: random | 1,
        };
        (this, used)
    }

    /// The link is there from `now` on.
    fn begin(&mut self, now: Time) {
        if self.detection == Detection::Off {
            return;
        }
        self.steps = if self.tentative.is_empty() {
            // The question behind the announcement, for neighbours whose stale
            // entry it mends are to be heard at once. Both again: a frame may
            // be lost.
            [
                (Step::Announce, Duration::ZERO),
                (Step::Probe, Duration::ZERO),
                (Step::Probe, PROBE_MIN),
                (Step::Announce, ANNOUNCE_INTERVAL.saturating_sub(PROBE_MIN)),
            ]
            .into()
        } else {
            self.questions()
        };
        self.start(now);
    }

    fn questions(&mut self) -> VecDeque<(Step, Duration)> {
        let mut wait = |span| Duration::from_millis(self.draw() % span);
        [
            (Step::Probe, wait(PROBE_WAIT_MS)),
            (Step::Probe, PROBE_MIN + wait(PROBE_SPAN_MS)),
            (Step::Probe, PROBE_MIN + wait(PROBE_SPAN_MS)),
            (Step::Accept, ANNOUNCE_WAIT),
            (Step::Announce, Duration::ZERO),
            (Step::Announce, ANNOUNCE_INTERVAL),
        ]
        .into()
    }

    /// Marsaglia's xorshift64: when a question is asked is no secret.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn start(&mut self, now: Time) {
        self.next = 0;
        self.due = self.steps.front().map_or(Time::MAX, |(_, wait)| now + *wait);
    }

    /// The step at hand is done.
    fn advance(&mut self, now: Time) {
        self.steps.pop_front();
        self.start(now);
        if self.steps.is_empty() && !self.tentative.is_empty() {
            // RFC 5227 section 2.1.1: not faster than this.
            self.steps = self.questions();
            self.tentative.iter_mut().for_each(|tentative| tentative.claimed = false);
            self.start(now + RETRY);
        }
    }

    fn tentative(&mut self, ip: IpAddr) -> Option<&mut Tentative> {
        self.tentative.iter_mut().find(|tentative| tentative.address.ip == ip)
    }

    /// Whether neighbour discovery of this group is about an address that we
    /// ask for.
    pub fn awaits_group(&self, group: Ipv6Addr) -> bool {
        let solicits = |ip| matches!(ip, IpAddr::V6(ip) if ipv6::solicited_node(ip) == group);
        self.tentative.iter().any(|tentative| solicits(tentative.address.ip))
    }

    fn tell(&mut self, conflict: Conflict) {
        if self.conflicts.len() < CONFLICTS {
            self.conflicts.push_back(conflict);
        }
    }

    /// Whether an address is to be defended now.
    fn defends(&mut self, ip: IpAddr, now: Time) -> bool {
        if self.defended.len() >= DEFENDED {
            self.defended.retain(|_, last| now < *last + DEFEND_INTERVAL);
        }
        let due = self.defended.get(&ip).is_none_or(|last| *last + DEFEND_INTERVAL <= now);
        let may = due && (self.defended.contains_key(&ip) || self.defended.len() < DEFENDED);
        if may {
            self.defended.insert(ip, now);
        }
        may
    }

    /// When there is something to say.
    pub fn next_deadline(&self) -> Option<Time> {
        (self.due < Time::MAX).then_some(self.due)
    }

    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }
}

impl Ip {
    /// The link is there, or there again: our addresses are announced, or
    /// asked for, as [`Config::detection`] says.
    pub fn on_link_up(&mut self) {
        self.presence.begin(self.now);
    }

    /// Whether no address is used yet, because it is first asked whether
    /// somebody has it ([`Detection::Wait`], after [`Ip::on_link_up`]).
    pub fn is_asking(&self) -> bool {
        self.presence.awaited
    }

    /// The next host that has an address of ours: at most one in 10 s for each
    /// address.
    pub fn poll_conflict(&mut self) -> Option<Conflict> {
        self.presence.conflicts.pop_front()
    }

    /// Whether there is something to say about our addresses.
    #[inline(always)]
    pub fn has_to_speak(&self) -> bool {
        self.presence.is_due(self.now)
    }

    /// Says what is due about our addresses. Whether there were slots for it.
    #[cold]
    pub fn poll_presence(&mut self, out: &mut impl Egress) -> bool {
        while self.presence.is_due(self.now) {
            let Some((step, _)) = self.presence.steps.front().copied() else { return true };
            if step == Step::Accept {
                self.accept_addresses();
                self.presence.advance(self.now);
                continue;
            }
            for _ in 0..PER_TURN {
                let asked = step == Step::Probe && !self.presence.tentative.is_empty();
                let ip = match asked {
                    true => self.presence.tentative.get(self.presence.next).map(|tentative| tentative.address.ip),
                    false => self.addresses.iter().nth(self.presence.next).map(|address| address.ip),
                };
                let Some(ip) = ip.filter(|_| self.presence.announces) else {
                    self.presence.advance(self.now);
                    break;
                };
                if out.room() == 0 {
                    return false;
                }
                self.presence.next += 1;
                match step {
                    Step::Probe => self.send_probe(ip, out),
                    _ => self.send_announcement(ip, out),
                }
            }
            if self.presence.next > 0 {
                self.presence.due = self.now + TURN_GAP;
            }
        }
        true
    }

    /// Uses the addresses that nobody claimed.
    fn accept_addresses(&mut self) {
        let tentative = core::mem::take(&mut self.presence.tentative);
        let (claimed, free): (Vec<_>, Vec<_>) = tentative.into_iter().partition(|tentative| tentative.claimed);
        free.iter().for_each(|tentative| self.addresses.add(tentative.address));
        self.presence.tentative = claimed;
        self.presence.awaited = false;
    }

    /// RFC 5227 section 2.1.1; RFC 4862 section 5.4.2, without our hardware
    /// address.
    fn send_probe(&mut self, ip: IpAddr, out: &mut impl Egress) {
        match ip {
            IpAddr::V4(ip) => self.send_own_arp(Ipv4Addr::UNSPECIFIED, ip, out),
            IpAddr::V6(target) => {
                let group = ipv6::solicited_node(target);
                let message = Icmpv6::NeighborSolicitation { target, link_layer: None };
                let (src, mac) = (Ipv6Addr::UNSPECIFIED, ipv6::multicast_mac(group));
                self.send_icmp_v6(src, group, mac, icmpv6::NEIGHBOR_HOP_LIMIT, &message, out);
            }
        }
    }

    /// RFC 5227 section 2.3; RFC 4861 section 7.2.6, with leave to replace
    /// what is known.
    fn send_announcement(&mut self, ip: IpAddr, out: &mut impl Egress) {
        self.counters.announcements += 1;
        match ip {
            IpAddr::V4(ip) => self.send_own_arp(ip, ip, out),
            IpAddr::V6(target) => {
                let link_layer = Some(self.mac);
                let answer =
                    NeighborAdvertisement { target, router: false, solicited: false, replace: true, link_layer };
                let message = Icmpv6::NeighborAdvertisement(answer);
                let mac = ipv6::multicast_mac(ALL_NODES);
                self.send_icmp_v6(target, ALL_NODES, mac, icmpv6::NEIGHBOR_HOP_LIMIT, &message, out);
            }
        }
    }

    fn send_own_arp(&mut self, sender_ip: Ipv4Addr, target_ip: Ipv4Addr, out: &mut impl Egress) {
        let packet = ArpPacket {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender_ip,
            target_mac: Mac::ZERO,
            target_ip,
        };
        self.emit_arp(out, Mac::BROADCAST, &packet);
    }

    /// An ARP packet or a message of neighbour discovery says that `mac` has
    /// the address `ip`; `asks`: or asks whether somebody has it, which is
    /// what hosts do that start together with us. Whether that is a conflict.
    pub(super) fn is_conflict(&mut self, ip: IpAddr, mac: Mac, asks: bool, out: &mut impl Egress) -> bool {
        if mac == self.mac {
            // What we said, come back; or another silo, or who was here before.
            return false;
        }
        if let Some(tentative) = self.presence.tentative(ip) {
            let news = !core::mem::replace(&mut tentative.claimed, true);
            self.counters.address_conflicts += 1;
            if news {
                self.presence.tell(Conflict { ip, mac, unused: true });
            }
            return true;
        }
        if asks || self.addresses.index(ip).is_none() {
            return false;
        }
        self.counters.address_conflicts += 1;
        if self.presence.detection != Detection::Off && self.presence.defends(ip, self.now) {
            self.presence.tell(Conflict { ip, mac, unused: false });
            self.send_announcement(ip, out);
        }
        true
    }
}
