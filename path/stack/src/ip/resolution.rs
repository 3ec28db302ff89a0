//! Resolution of neighbours on the wire: ARP (RFC 826) and neighbour discovery
//! (RFC 4861), or the host's word for them.

use super::Ip;
use super::addresses::ALL_NODES;
use super::neighbour::Output;
use crate::config::{Address, Config};
use crate::egress::Egress;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, EthernetHeader};
use wire::icmpv6::{self, Icmpv6, NeighborAdvertisement};
use wire::ipv6::{self, Ipv6Header};
use wire::{Mac, Offload, Original};

/// Neighbours that wait to be asked for. More are asked for at their next try,
/// a second later.
const WANTED_LIMIT: usize = 1_024;

/// The host's neighbours in place of our own (see
/// [`Config::host_neighbours`]): who is wanted of them.
#[derive(Debug)]
pub(super) struct HostNeighbours {
    asked: bool,
    wanted: VecDeque<IpAddr>,
}

impl HostNeighbours {
    pub fn new(config: &Config) -> Self {
        Self { asked: config.host_neighbours, wanted: VecDeque::new() }
    }

    /// Whether the host is asked, and not the network.
    pub const fn is_asked(&self) -> bool {
        self.asked
    }

    fn want(&mut self, ip: IpAddr) {
        if self.wanted.len() < WANTED_LIMIT {
            self.wanted.push_back(ip);
        }
    }
}

/// What a step of resolution came to.
#[derive(Debug)]
pub(crate) enum Resolved {
    /// There is nothing more to do now.
    Done,
    /// Somebody was asked.
    Asked,
    /// A neighbour answered: who waits for one may go on.
    Answered,
    /// A neighbour does not answer. These frames waited for it.
    Failed(VecDeque<Box<[u8]>>),
}

impl Ip {
    /// The next neighbour that the host is to resolve.
    #[inline]
    pub fn poll_wanted(&mut self) -> Option<IpAddr> {
        self.host.wanted.pop_front()
    }

    /// The host knows a neighbour's hardware address.
    pub fn on_host(&mut self, ip: IpAddr, mac: Mac, proven: bool) {
        self.neighbours.on_host(ip, mac, proven, self.now);
    }

    /// The host knows a neighbour's hardware address no longer.
    pub fn on_host_lost(&mut self, ip: IpAddr) {
        self.neighbours.on_host_lost(ip, self.now);
    }

    /// Whether neighbours, or our addresses on the link, have something to
    /// send.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.presence.is_due(self.now) || self.neighbours.is_due(self.now)
    }

    /// Sends one thing that resolution has to send. There is a slot for it.
    #[inline(always)]
    pub fn poll_resolution(&mut self, out: &mut impl Egress) -> Resolved {
        match self.neighbours.poll(self.now) {
            None => Resolved::Done,
            Some(output) => self.send_output(output, out),
        }
    }

    #[cold]
    fn send_output(&mut self, output: Output, out: &mut impl Egress) -> Resolved {
        match output {
            Output::Solicit { target, .. } if self.host.asked => self.host.want(target),
            Output::Solicit { target: IpAddr::V4(target), to } => self.send_arp_request(target, to, out),
            Output::Solicit { target: IpAddr::V6(target), to } => self.send_solicitation(target, to, out),
            Output::Frame(frame) => {
                if let Some(slot) = out.slot().and_then(|slot| slot.get_mut(..frame.len())) {
                    slot.copy_from_slice(&frame);
                    out.commit(frame.len(), Offload::NONE);
                } else {
                    self.drop_reply();
                }
                return Resolved::Answered;
            }
            Output::Failed { held, .. } => return Resolved::Failed(held),
        }
        Resolved::Asked
    }

    pub(super) fn on_arp(&mut self, bytes: &[u8], out: &mut impl Egress) {
        let packet = match ArpPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.drop_malformed(error);
                return;
            }
        };
        self.counters.neighbour_in += 1;
        // RFC 5227 sections 1.1 and 2.1.1: a probe names no sender.
        let (claimed, asks) = match packet.sender_ip.is_unspecified() {
            true => (packet.target_ip, true),
            false => (packet.sender_ip, false),
        };
        if self.is_conflict(claimed.into(), packet.sender_mac, asks, out)
            || self.addresses.index_v4(packet.sender_ip).is_some()
        {
            // Somebody else claims an address of ours (RFC 5227 section 2.4),
            // or our own word came back: nothing is learned from it.
            return;
        }
        let for_us = self.addresses.index_v4(packet.target_ip).is_some();
        let on_link = self.routes.is_on_link(packet.sender_ip.into());
        self.neighbours.on_arp(&packet, for_us && on_link, self.now);
        if !for_us || packet.operation != Operation::Request {
            return;
        }
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender_ip: packet.target_ip,
            target_mac: packet.sender_mac,
            target_ip: packet.sender_ip,
        };
        self.emit_arp(out, packet.sender_mac, &reply);
    }

    pub(super) fn emit_arp(&mut self, out: &mut impl Egress, to: Mac, packet: &ArpPacket) {
        self.emit(out, to, ETHER_ARP, |body| packet.emit(body));
    }

    fn send_arp_request(&mut self, target: Ipv4Addr, to: Option<Mac>, out: &mut impl Egress) {
        let Some(own) = self.source_v4(target) else { return };
        let request = ArpPacket {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender_ip: own,
            target_mac: Mac::ZERO,
            target_ip: target,
        };
        self.emit_arp(out, to.unwrap_or(Mac::BROADCAST), &request);
    }

    /// Our address on the target's network, for asking from.
    fn source_v4(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let on_link = |address: &&Address| match address.ip {
            IpAddr::V4(ip) => {
                let host_bits = 32 - u32::from(address.prefix_len.min(32));
                (ip.to_bits() ^ target.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            IpAddr::V6(_) => false,
        };
        match self.addresses.iter().find(on_link).map(|address| address.ip) {
            Some(IpAddr::V4(ip)) => Some(ip),
            _ => self.addresses.default_index(false).map(|index| self.addresses.v4(index)),
        }
    }

    fn send_solicitation(&mut self, target: Ipv6Addr, to: Option<Mac>, out: &mut impl Egress) {
        let Some(own) = self.addresses.default_index(true).map(|index| self.addresses.v6(index)) else { return };
        let group = ipv6::solicited_node(target);
        let (dst, mac) = match to {
            Some(mac) => (target, mac),
            None => (group, ipv6::multicast_mac(group)),
        };
        let message = Icmpv6::NeighborSolicitation { target, link_layer: Some(self.mac) };
        self.send_icmp_v6(own, dst, mac, icmpv6::NEIGHBOR_HOP_LIMIT, &message, out);
    }

    /// RFC 4861 section 7.2.3 and 7.2.4.
    pub(super) fn on_solicitation(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv6Header,
        target: Ipv6Addr,
        link_layer: Option<Mac>,
        out: &mut impl Egress,
    ) {
        self.counters.neighbour_in += 1;
        let probes = ip.src.is_unspecified();
        // RFC 4862 section 5.4.3.
        let (claimed, mac) = if probes { (target, ethernet.src) } else { (ip.src, link_layer.unwrap_or(ethernet.src)) };
        if self.is_conflict(claimed.into(), mac, probes, out)
            || self.addresses.index_v6(target).is_none()
            || self.addresses.index_v6(ip.src).is_some()
        {
            return;
        }
        if let Some(mac) = link_layer.filter(|_| !probes && self.routes.is_on_link(IpAddr::V6(ip.src))) {
            self.neighbours.on_sender(IpAddr::V6(ip.src), mac, self.now);
        }
        let answer = NeighborAdvertisement {
            target,
            router: false,
            solicited: !probes,
            replace: true,
            link_layer: Some(self.mac),
        };
        // A probe for a duplicate address has no sender to answer: all nodes
        // are told (RFC 4862 section 5.4).
        let (dst, mac) = if probes {
            (ALL_NODES, ipv6::multicast_mac(ALL_NODES))
        } else {
            (ip.src, link_layer.unwrap_or(ethernet.src))
        };
        let message = Icmpv6::NeighborAdvertisement(answer);
        self.send_icmp_v6(target, dst, mac, icmpv6::NEIGHBOR_HOP_LIMIT, &message, out);
    }

    pub(super) fn on_advertisement(
        &mut self,
        ethernet: &EthernetHeader,
        advertisement: &NeighborAdvertisement,
        out: &mut impl Egress,
    ) {
        self.counters.neighbour_in += 1;
        let mac = advertisement.link_layer.unwrap_or(ethernet.src);
        if !self.is_conflict(advertisement.target.into(), mac, false, out) {
            self.neighbours.on_advertisement(advertisement, self.now);
        }
    }
}

/// The packet of ours that a frame holds, which waited for a neighbour that
/// does not answer. The hosts of today tell their own connections what a
/// router would tell them by an ICMP error (`arp_error_report` in Linux's
/// net/ipv4/arp.c).
pub(crate) fn original_of(frame: &[u8]) -> Option<Original> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    if ethernet.ether_type == ETHER_IPV4 { Original::parse_v4(packet) } else { Original::parse_v6(packet) }
}
