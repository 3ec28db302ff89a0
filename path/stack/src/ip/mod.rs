//! IP, and what belongs to it: our addresses and their presence on the link,
//! routes, neighbours, fragments, ICMP, and how a packet leaves.
//!
//! It knows of no transport. What arrived for one is the return value
//! ([`Ip::on_frame`] gives an [`Upward`]); whoever has something to send writes
//! it through an [`Outgoing`]. TCP does so today; UDP will stand beside it.
//! Each file owns its data: who reads it from elsewhere asks by a method.

mod addresses;
mod fragments;
mod icmp;
mod ingress;
mod neighbour;
mod output;
mod presence;
mod remembered;
mod resolution;
mod route;
mod unreachable;

#[cfg(test)]
pub(crate) use addresses::ALL_NODES;
pub(crate) use addresses::Addresses;
#[cfg(test)]
pub(crate) use fragments::TIMEOUT as REASSEMBLY_TIMEOUT;
#[cfg(test)]
pub(crate) use remembered::MAX_REMEMBERED;
#[cfg(test)]
pub(crate) use route::MAX_ROUTES;

/// Limits of reassembly, for a test of what is told of them.
#[cfg(test)]
pub(crate) const FRAGMENT_LIMITS: [usize; 6] = [
    fragments::MAX_PACKETS,
    fragments::MAX_PACKETS_PER_SOURCE,
    fragments::MAX_BYTES,
    fragments::MAX_BYTES_PER_SOURCE,
    fragments::MAX_PIECES,
    fragments::MAX_HEAD,
];

/// The same of neighbours.
#[cfg(test)]
pub(crate) const NEIGHBOUR_LIMITS: [usize; 3] =
    [neighbour::MAX_NEIGHBOURS, neighbour::MAX_INCOMPLETE, neighbour::MAX_HELD_FRAMES];
pub(crate) use ingress::{Packet, Trouble, Upward, is_martian_v4};
pub(crate) use neighbour::{NeighbourId, NeighbourTable};
pub(crate) use output::{Outgoing, network_len};
pub use presence::Conflict;

/// What a table of neighbours counts, and reassembly.
pub const NEIGHBOUR_HELP: &[(&str, &str)] = neighbour::NeighbourCounters::HELP;
pub const FRAGMENTS_HELP: &[(&str, &str)] = fragments::FragmentCounters::HELP;
#[cfg(test)]
pub(crate) use presence::PER_TURN as PRESENCE_PER_TURN;
pub(crate) use resolution::{Resolved, original_of};
#[cfg(test)]
pub(crate) use unreachable::{of_v4, of_v6};

use crate::config::{Config, Seeds};
use crate::counters::IpCounters;
use crate::egress::LinkOffload;
use crate::flow::Envelope;
use core::net::IpAddr;
use fragments::Reassembly;
use icmp::Icmp;
use presence::Presence;
use remembered::Remembered;
use resolution::HostNeighbours;
use route::{PathMtus, Routes};
use tcp::{Narrowed, Path};
use wire::plain::Station;
use wire::{Mac, Time, WireError};

/// A host's IP over one link.
#[derive(Debug)]
pub(crate) struct Ip {
    /// The turn's time.
    now: Time,
    /// Our Ethernet address.
    mac: Mac,
    /// The same where frames carry no tag, for plain ones.
    station: Station,
    /// The VLAN that all frames carry.
    vlan: Option<u16>,
    /// Largest packet, in bytes.
    mtu: u16,
    /// The largest packet that the link was made for.
    link_mtu: u16,
    offload: LinkOffload,
    /// Other silos have the same addresses.
    steered: bool,
    pub addresses: Addresses,
    presence: Presence,
    routes: Routes,
    pub neighbours: NeighbourTable,
    host: HostNeighbours,
    reassembly: Reassembly,
    path_mtus: PathMtus,
    /// By how many quarters of a round trip, less one, segments overtake each other on the
    /// way to a destination.
    reordering: Remembered<u8>,
    icmp: Icmp,
    counters: IpCounters,
}

/// The smallest MTU that is taken over: IPv4's least (RFC 791 section 3.2).
const MTU_LEAST: u16 = 68;

impl Ip {
    /// Of a stack with these settings, at `now`, over a link that does so much
    /// for it.
    pub fn new(config: &Config, offload: LinkOffload, seeds: &Seeds, now: Time) -> Self {
        let (presence, addresses) = Presence::new(config, seeds.table[0] ^ seeds.secret[1]);
        Self {
            now,
            mac: config.mac,
            station: if config.vlan.is_none() { Station::of(config.mac) } else { Station::NOBODY },
            vlan: config.vlan,
            mtu: config.mtu,
            link_mtu: config.mtu,
            offload,
            steered: config.steered,
            addresses,
            presence,
            routes: Routes::of(config),
            neighbours: NeighbourTable::new(now),
            host: HostNeighbours::new(config),
            reassembly: Reassembly::new(),
            path_mtus: PathMtus::new(),
            reordering: Remembered::default(),
            icmp: Icmp::new(config, seeds, now),
            counters: IpCounters::default(),
        }
    }

    /// A turn begins.
    #[inline(always)]
    pub const fn begin_turn(&mut self, now: Time) {
        self.now = now;
    }

    /// Whose plain frames are ours: nobody's, where frames carry a VLAN tag.
    #[inline(always)]
    pub const fn station(&self) -> Station {
        self.station
    }

    /// Whether frames carry no VLAN tag.
    #[inline(always)]
    pub const fn is_untagged(&self) -> bool {
        self.vlan.is_none()
    }

    /// Whether the link takes several segments in one piece.
    #[inline(always)]
    pub const fn is_cut_by_link(&self) -> bool {
        self.offload.checksum && self.offload.segmentation.is_some()
    }

    /// Largest packet, in bytes.
    #[inline(always)]
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Largest packet to `dst`, in bytes, as far as is known.
    #[inline]
    pub fn path_mtu(&self, dst: IpAddr) -> u16 {
        self.path_mtus.get(dst, self.now).unwrap_or(self.mtu).min(self.mtu)
    }

    /// A router says that the path to `dst` takes packets of `mtu` bytes at
    /// most; the caller has checked that it quotes a packet of ours. Returns
    /// what is believed of it.
    pub fn on_smaller_path(&mut self, dst: IpAddr, mtu: u32) -> Narrowed {
        // RFC 1191 section 3 and RFC 8201 section 4: never below the least
        // MTU of the family, never above our own. What IPv6 tells below its
        // own was refused with the message.
        let least = if dst.is_ipv6() { wire::ipv6::MIN_MTU as u32 } else { route::LEAST_MTU_V4 };
        let most = u32::from(self.mtu);
        // Packets of the least leave, for routers to fragment (`rt_mtu_locked`
        // in Linux's net/ipv4/route.c).
        let below_least = dst.is_ipv4() && mtu < least.min(most);
        let mtu = mtu.max(least).min(most) as u16;
        let (mtu, below_least) = self.path_mtus.learn(dst, mtu, below_least, self.now);
        Narrowed { path: Path { mtu: mtu.min(self.mtu), v6: dst.is_ipv6() }, below_least }
    }

    /// A connection found, by what arrives, that the path to `dst` takes packets
    /// of `mtu` bytes.
    pub fn on_path_found(&mut self, dst: IpAddr, mtu: u16) {
        self.path_mtus.find(dst, (mtu < self.mtu).then_some(mtu), self.now);
    }

    /// A connection found that segments to `dst` overtake each other, and by how
    /// much ([`tcp::Connection::take_reordering`]).
    pub fn on_reordering(&mut self, dst: IpAddr, widened: u8) {
        self.reordering.keep(dst, widened, self.now);
    }

    /// What is known of that.
    #[inline]
    pub fn reordering(&self, dst: IpAddr) -> Option<u8> {
        self.reordering.get(dst, self.now).copied()
    }

    /// Whether packets to `dst` may be fragmented on their way, as far as is
    /// known.
    #[inline]
    pub fn lets_fragment(&self, dst: IpAddr) -> bool {
        self.path_mtus.is_below_least(dst, self.now)
    }

    /// The link's MTU is this from now on, in bytes, as far as its slots are
    /// made for it. Returns the MTU from now on, if it is smaller than before.
    pub fn set_mtu(&mut self, mtu: u16) -> Option<u16> {
        let mtu = mtu.clamp(MTU_LEAST, self.link_mtu.max(MTU_LEAST));
        let smaller = mtu < self.mtu;
        self.mtu = mtu;
        smaller.then_some(mtu)
    }

    /// These routes are in force from now on.
    pub fn set_routes(&mut self, config: &Config) {
        self.routes = Routes::of(config);
    }

    /// The neighbour that packets to `dst` are handed to; `None` without a
    /// route.
    pub fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        self.routes.next_hop(dst)
    }

    /// Whether a source cannot be a host other than this one: an address of
    /// our own, a broadcast, a group or none (RFC 1122 section 3.2.1.3). Asked
    /// only where something would be opened for it or answered to it.
    pub fn is_forged(&self, src: IpAddr) -> bool {
        self.addresses.index(src).is_some()
            || match src {
                IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast() || self.routes.is_broadcast(ip),
                IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
            }
    }

    /// A frame was taken in.
    #[inline(always)]
    pub const fn count_frame(&mut self) {
        self.counters.frames_in += 1;
    }

    /// The frame at hand is to be taken again, and counted then.
    pub const fn forget_frame(&mut self) {
        self.counters.frames_in = self.counters.frames_in.saturating_sub(1);
    }

    /// What arrived cannot be read.
    #[cold]
    pub const fn drop_malformed(&mut self, error: WireError) {
        match error {
            WireError::BadChecksum => self.counters.bad_checksum += 1,
            _ => self.counters.malformed += 1,
        }
    }

    /// What arrived has a sender that there cannot be.
    pub const fn drop_martian(&mut self) {
        self.counters.martian += 1;
    }

    /// An ICMP error told nothing of what we have under way.
    pub const fn ignore_error(&mut self) {
        self.counters.icmp_ignored += 1;
    }

    /// A reply was dropped because no transmit slot was free.
    pub const fn drop_reply(&mut self) {
        self.counters.replies_dropped += 1;
    }

    /// An answer was not sent because of the limit of its kind.
    pub const fn limit_answer(&mut self) {
        self.counters.errors_limited += 1;
    }

    /// A segment put together again is, if anybody's, another silo's.
    pub const fn count_foreign(&mut self) {
        self.counters.reassembled_foreign += 1;
    }

    /// What was counted.
    #[inline(always)]
    pub const fn counters(&self) -> &IpCounters {
        &self.counters
    }

    /// Counts on from there: a way that was only tried is not counted.
    pub const fn set_counters(&mut self, counters: IpCounters) {
        self.counters = counters;
    }

    /// Reassembly's counters, with their names.
    pub fn fragment_counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.reassembly.counters().iter()
    }

    /// When there is something to do even if nothing arrives: what is to be
    /// sent, at `retry` at the earliest, and what is given up.
    pub fn next_deadline(&self, retry: Option<Time>) -> [Option<Time>; 3] {
        let later = |at: Time| retry.map_or(at, |retry| at.max(retry));
        [
            self.neighbours.next_deadline().map(later),
            self.presence.next_deadline().map(later),
            self.reassembly.next_deadline(),
        ]
    }

    /// The neighbour through which an envelope's sender is reached. Its own
    /// frame says where it is, if it is on our network: asking again would
    /// cost the handshake a round trip.
    pub fn neighbour_of(&mut self, envelope: &Envelope) -> NeighbourId {
        match self.routes.next_hop(envelope.src) {
            Some(hop) if hop == envelope.src && !self.host.is_asked() => {
                self.neighbours.resolve_from(hop, envelope.mac, self.now)
            }
            // The host knows its routers, but a handshake does not wait for
            // what it says: whoever handed us the packet can hand one back.
            Some(hop) if self.host.is_asked() => self.neighbours.resolve_through(hop, envelope.mac, self.now),
            Some(hop) => self.neighbours.resolve(hop, self.now),
            // No route: answer the way it came, as a host without routes can.
            None => self.neighbours.resolve_off_link(envelope.src, envelope.mac, self.now),
        }
    }
}
