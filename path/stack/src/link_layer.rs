//! What stands beside TCP: ARP, neighbour discovery, ICMP, fragments.

use crate::addresses::ALL_NODES;
use crate::egress::DEFAULT_TTL;
use crate::fragments::{Fragment, Key, TimedOut, Whole};
use crate::ingress::{Arrival, Envelope};
use crate::neighbour::{NeighbourId, Output};
use crate::unreachable;
use crate::{Egress, Stack};
use app::Unreachable;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcp::Path;
use wire::arp::{ArpPacket, Operation};
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{self, Icmpv6, NeighborAdvertisement};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, FragmentInfo, Ipv6Header, Upper, walk_extensions};
use wire::{Mac, Offload, Original, WireError, protocol};

/// Neighbour messages sent in one turn; more wait for the next.
const NEIGHBOUR_BOUND: usize = 32;

impl Stack {
    /// The neighbour through which an envelope's sender is reached. Its own
    /// frame says where it is, if it is on our network: asking again would
    /// cost the handshake a round trip.
    pub(crate) fn neighbour_of(&mut self, envelope: &Envelope) -> NeighbourId {
        match self.routes.next_hop(envelope.src) {
            Some(hop) if hop == envelope.src && !self.config.host_neighbours => {
                self.neighbours.resolve_from(hop, envelope.mac, self.now)
            }
            // The host knows its routers, but a handshake does not wait for
            // what it says: whoever handed us the packet can hand one back.
            Some(hop) if self.config.host_neighbours => self.neighbours.resolve_through(hop, envelope.mac, self.now),
            Some(hop) => self.neighbours.resolve(hop, self.now),
            // No route: answer the way it came, as a host without routes can.
            None => self.neighbours.resolve_off_link(envelope.src, envelope.mac, self.now),
        }
    }

    pub(crate) fn on_arp(&mut self, bytes: &[u8], out: &mut impl Egress) {
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
            sender_mac: self.config.mac,
            sender_ip: packet.target_ip,
            target_mac: packet.sender_mac,
            target_ip: packet.sender_ip,
        };
        self.emit_arp(out, packet.sender_mac, &reply);
    }

    pub(crate) fn emit_arp(&mut self, out: &mut impl Egress, to: Mac, packet: &ArpPacket) {
        self.emit(out, to, ETHER_ARP, |body| packet.emit(body));
    }

    /// Sends what neighbour resolution has to send.
    #[inline]
    pub(crate) fn poll_link_layer(&mut self, out: &mut impl Egress) {
        for _ in 0..NEIGHBOUR_BOUND {
            if out.room() == 0 {
                self.blocked = true;
                return;
            }
            match self.neighbours.poll(self.now) {
                None => return,
                Some(Output::Solicit { target, .. }) if self.config.host_neighbours => self.want_neighbour(target),
                Some(Output::Solicit { target: IpAddr::V4(target), to }) => self.send_arp_request(target, to, out),
                Some(Output::Solicit { target: IpAddr::V6(target), to }) => self.send_solicitation(target, to, out),
                Some(Output::Frame(frame)) => {
                    self.retry_unresolved();
                    if let Some(slot) = out.slot().and_then(|slot| slot.get_mut(..frame.len())) {
                        slot.copy_from_slice(&frame);
                        out.commit(frame.len(), Offload::NONE);
                    } else {
                        self.counters.replies_dropped += 1;
                    }
                }
                Some(Output::Failed { held, .. }) => {
                    self.retry_unresolved();
                    for frame in held {
                        self.on_undeliverable(&frame);
                    }
                }
            }
        }
    }

    /// A neighbour answered, or will not: whoever waits tries again.
    fn retry_unresolved(&mut self) {
        while let Some(id) = self.unresolved.pop() {
            if self.slots.get(id).is_some() {
                self.make_ready(id.index() as u32);
            }
        }
    }

    fn send_arp_request(&mut self, target: Ipv4Addr, to: Option<Mac>, out: &mut impl Egress) {
        let Some(own) = self.source_v4(target) else { return };
        let request = ArpPacket {
            operation: Operation::Request,
            sender_mac: self.config.mac,
            sender_ip: own,
            target_mac: Mac::ZERO,
            target_ip: target,
        };
        self.emit_arp(out, to.unwrap_or(Mac::BROADCAST), &request);
    }

    /// Our address on the target's network, for asking from.
    fn source_v4(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let on_link = |address: &&crate::Address| match address.ip {
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
        let message = Icmpv6::NeighborSolicitation { target, link_layer: Some(self.config.mac) };
        self.send_icmp_v6(own, dst, mac, icmpv6::NEIGHBOR_HOP_LIMIT, &message, out);
    }

    pub(crate) fn on_icmp_v4(&mut self, envelope: &Envelope, payload: &[u8], out: &mut impl Egress) {
        self.counters.icmp_in += 1;
        let message = match Icmpv4::parse(payload) {
            Ok(message) => message,
            Err(error) => {
                self.drop_malformed(error);
                return;
            }
        };
        match message {
            Icmpv4::EchoRequest { .. } if self.is_forged(envelope.src) => self.counters.martian += 1,
            Icmpv4::EchoRequest { identifier, sequence, data } => {
                if !self.may_echo(data.len()) {
                    return;
                }
                let reply = Icmpv4::EchoReply { identifier, sequence, data };
                self.send_icmp_v4(envelope, &reply, out);
            }
            Icmpv4::FragmentationNeeded { mtu, .. } => self.on_smaller_path_told(message.original(), u32::from(mtu)),
            _ => self.on_icmp_error(message.original(), unreachable::of_v4(&message)),
        }
    }

    pub(crate) fn unreachable_v4(&mut self, envelope: &Envelope, code: u8, quoted: &[u8], out: &mut impl Egress) {
        let message = Icmpv4::DestinationUnreachable { code, original: quoted };
        self.send_icmp_v4(envelope, &message, out);
    }

    fn send_icmp_v4(&mut self, envelope: &Envelope, message: &Icmpv4<'_>, out: &mut impl Egress) {
        let IpAddr::V4(dst) = envelope.src else { return };
        let len = message.emit_len();
        let src = self.addresses.v4(envelope.local);
        if len + ipv4::HEADER_LEN > self.largest_to(envelope.src) {
            let mut bytes = vec![0; len];
            message.emit(&mut bytes);
            self.send_fragments_v4((src, dst), envelope, &bytes, out);
            return;
        }
        let header = Ipv4Header {
            src,
            dst,
            protocol: protocol::ICMP,
            ttl: DEFAULT_TTL,
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            header_len: ipv4::HEADER_LEN as u8,
            payload_len: len as u16,
        };
        self.emit(out, envelope.mac, ETHER_IPV4, |body| {
            let at = header.emit(body);
            at + message.emit(&mut body[at..])
        });
    }

    pub(crate) fn on_icmp_v6(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv6Header,
        payload: &[u8],
        local: Option<u16>,
        out: &mut impl Egress,
    ) {
        self.counters.icmp_in += 1;
        let message = match Icmpv6::parse(payload, ip.src, ip.dst, ip.hop_limit) {
            Ok(message) => message,
            Err(error) => {
                self.drop_malformed(error);
                return;
            }
        };
        match message {
            Icmpv6::EchoRequest { identifier, sequence, data } => {
                let Some(local) = local.filter(|_| !self.is_forged(IpAddr::V6(ip.src))) else { return };
                if !self.may_echo(data.len()) {
                    return;
                }
                let reply = Icmpv6::EchoReply { identifier, sequence, data };
                let envelope = Envelope { src: IpAddr::V6(ip.src), local, mac: ethernet.src };
                self.send_echo_v6(self.addresses.v6(local), &envelope, &reply, out);
            }
            Icmpv6::NeighborSolicitation { target, link_layer } => {
                self.on_solicitation(ethernet, ip, target, link_layer, out);
            }
            Icmpv6::NeighborAdvertisement(advertisement) => {
                self.counters.neighbour_in += 1;
                let mac = advertisement.link_layer.unwrap_or(ethernet.src);
                if !self.is_conflict(advertisement.target.into(), mac, false, out) {
                    self.neighbours.on_advertisement(&advertisement, self.now);
                }
            }
            Icmpv6::PacketTooBig { mtu, .. } => self.on_smaller_path_told(message.original(), mtu),
            _ => self.on_icmp_error(message.original(), unreachable::of_v6(&message)),
        }
    }

    /// RFC 4861 section 7.2.3 and 7.2.4.
    fn on_solicitation(
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
            link_layer: Some(self.config.mac),
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

    pub(crate) fn send_icmp_v6(
        &mut self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Mac,
        hop_limit: u8,
        message: &Icmpv6<'_>,
        out: &mut impl Egress,
    ) {
        let mtu = usize::from(self.config.mtu);
        self.emit(out, mac, ETHER_IPV6, |body| {
            let Some(room) = body.get_mut(ipv6::HEADER_LEN..mtu.min(body.len())) else { return 0 };
            let len = message.emit(src, dst, room);
            if len == 0 {
                return 0;
            }
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol::ICMPV6,
                hop_limit,
                traffic_class: 0,
                flow_label: 0,
                payload_len: len as u16,
            };
            header.emit(body) + len
        });
    }

    /// A packet for an upper layer that is not here: UDP, for which nobody
    /// listens, or one that nobody handles.
    pub(crate) fn on_other_v6(&mut self, envelope: &Envelope, upper: &Upper<'_>, packet: &[u8], out: &mut impl Egress) {
        if upper.protocol != protocol::UDP {
            self.on_unknown_header(envelope, upper, packet, out);
            return;
        }
        self.counters.udp_no_port += 1;
        let IpAddr::V6(dst) = envelope.src else { return };
        if self.is_forged(envelope.src) {
            return;
        }
        if !self.errors.take(envelope.src, self.now) {
            self.counters.errors_limited += 1;
            return;
        }
        let original = &packet[..self.quotable_v6(packet.len())];
        let message = Icmpv6::DestinationUnreachable { code: icmpv6::unreachable::PORT, original };
        let own = self.addresses.v6(envelope.local);
        self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
    }

    /// A frame of ours waited for a neighbour that does not answer. The hosts
    /// of today tell their own connections what a router would tell them by an
    /// ICMP error (`arp_error_report` in Linux's net/ipv4/arp.c).
    fn on_undeliverable(&mut self, frame: &[u8]) {
        let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else { return };
        let original =
            if ethernet.ether_type == ETHER_IPV4 { Original::parse_v4(packet) } else { Original::parse_v6(packet) };
        self.on_unreachable(original, Unreachable::Host);
    }

    pub(crate) fn on_smaller_path(&mut self, slot: u32, dst: IpAddr, mtu: u32) {
        // RFC 1191 section 3 and RFC 8201 section 4: never below the least
        // MTU of the family, never above our own.
        let least = if dst.is_ipv6() { ipv6::MIN_MTU as u32 } else { LEAST_MTU_V4 };
        let mtu = mtu.max(least).min(u32::from(self.config.mtu)) as u16;
        self.path_mtus.learn(dst, mtu, self.now);
        self.shrink_segments(slot, Path { mtu, v6: dst.is_ipv6() });
    }

    /// A connection's segments are to fit a path from now on.
    pub(crate) fn shrink_segments(&mut self, slot: u32, path: Path) {
        let before = self.slots.at(slot).tcp.buffered();
        let shrunk = self.with(slot, |tcp, cx, _| tcp.on_path_mtu(cx, path));
        self.account(slot, before);
        if shrunk {
            self.make_ready(slot);
            self.schedule(slot);
        }
    }

    pub(crate) fn on_fragment_v4(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv4Header,
        packet: &[u8],
        local: u16,
        out: &mut impl Egress,
    ) -> Option<Arrival<'static>> {
        self.on_fragments_late(out);
        self.counters.fragments_in += 1;
        let (head, rest) = packet.split_at_checked(ip.header_len.into())?;
        let payload = rest.get(..ip.payload_len.into())?;
        let key = Key {
            src: ip.src.into(),
            dst: ip.dst.into(),
            identification: u32::from(ip.identification),
            protocol: ip.protocol,
        };
        let envelope = Envelope { src: key.src, local, mac: ethernet.src };
        let (offset, more) = (ip.fragment_offset, ip.more_fragments);
        let piece = Fragment { key, protocol: ip.protocol, offset, more, payload, head, envelope };
        let Whole { protocol, payload } = self.reassembly.on_fragment(&piece, self.now)?;
        self.counters.reassembled += 1;
        match protocol {
            protocol::TCP => {
                let pseudo = pseudo_v4(ip.src, ip.dst, protocol::TCP, payload.len() as u16);
                self.on_whole_segment(&envelope, &payload, pseudo, out)
            }
            protocol::ICMP => {
                self.on_icmp_v4(&envelope, &payload, out);
                None
            }
            _ => {
                self.counters.not_for_us += 1;
                None
            }
        }
    }

    pub(crate) fn on_fragment_v6(
        &mut self,
        envelope: &Envelope,
        ip: &Ipv6Header,
        packet: &[u8],
        upper: &Upper<'_>,
        info: FragmentInfo,
        out: &mut impl Egress,
    ) -> Option<Arrival<'static>> {
        self.on_fragments_late(out);
        self.counters.fragments_in += 1;
        let payload = upper.payload;
        let head = packet.get(..ipv6::HEADER_LEN + upper.offset)?;
        let key = Key { src: ip.src.into(), dst: ip.dst.into(), identification: info.identification, protocol: 0 };
        let (protocol, envelope) = (upper.protocol, *envelope);
        let piece = Fragment { key, protocol, offset: info.offset, more: info.more, payload, head, envelope };
        let Whole { protocol, payload } = self.reassembly.on_fragment(&piece, self.now)?;
        self.counters.reassembled += 1;
        // What may stand behind the fragment header: destination options
        // (RFC 8200 section 4.1), and no second fragment header.
        let upper = match walk_extensions(protocol, &payload) {
            Ok(upper) if upper.fragment.is_none() => upper,
            Ok(_) => return self.drop_malformed(WireError::BadFragment),
            Err(error) => return self.drop_malformed(error),
        };
        match upper.protocol {
            protocol::TCP => {
                let pseudo = pseudo_v6(ip.src, ip.dst, protocol::TCP, upper.payload.len() as u32);
                self.on_whole_segment(&envelope, upper.payload, pseudo, out)
            }
            protocol::ICMPV6 => {
                // RFC 6980 section 5: neighbour discovery is not taken in
                // pieces, as if a router had passed it on.
                let (ip, ethernet) = (Ipv6Header { hop_limit: 0, ..*ip }, self.as_if_from(envelope.mac));
                self.on_icmp_v6(&ethernet, &ip, upper.payload, Some(envelope.local), out);
                None
            }
            _ => {
                self.counters.not_for_us += 1;
                None
            }
        }
    }

    /// Gives up packets whose pieces stayed out, and tells their senders (RFC
    /// 792, RFC 1122 section 3.3.2; RFC 8200 section 4.5, RFC 4443 section
    /// 3.3).
    pub(crate) fn on_fragments_late(&mut self, out: &mut impl Egress) {
        while let Some(packet) = self.reassembly.poll_timed_out(self.now) {
            let TimedOut { envelope, protocol, head_len, first } = &packet;
            if self.is_forged(envelope.src) || is_icmp_error(*protocol, &first[*head_len..]) {
                continue;
            }
            if self.config.steered && *protocol == protocol::TCP {
                // Every silo was shown the pieces, and would tell.
                continue;
            }
            if !self.errors.take(envelope.src, self.now) {
                self.counters.errors_limited += 1;
                continue;
            }
            match envelope.src {
                IpAddr::V4(_) => {
                    let quoted = first.len().min(head_len + 8);
                    let code = icmpv4::time_exceeded::REASSEMBLY;
                    let message = Icmpv4::TimeExceeded { code, original: &first[..quoted] };
                    self.send_icmp_v4(envelope, &message, out);
                }
                IpAddr::V6(dst) => {
                    let quoted = first.len().min(icmpv6::MAX_ORIGINAL).min(usize::from(self.config.mtu) - 48);
                    let code = icmpv6::time_exceeded::REASSEMBLY;
                    let message = Icmpv6::TimeExceeded { code, original: &first[..quoted] };
                    let own = self.addresses.v6(envelope.local);
                    self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
                }
            }
        }
    }

    /// A segment put together. Its bytes live only in this call, so what is
    /// for an application is held.
    fn on_whole_segment(
        &mut self,
        envelope: &Envelope,
        segment: &[u8],
        pseudo: wire::Sum,
        out: &mut impl Egress,
    ) -> Option<Arrival<'static>> {
        if self.config.steered && !self.knows_segment(envelope, segment) {
            // Every silo was shown the pieces: who knows the flow takes the
            // segment, and nobody else answers.
            self.counters.reassembled_foreign += 1;
            return None;
        }
        let arrival = self.on_tcp(envelope, segment, Some(pseudo), out)?;
        let Arrival { id, mut outcome, data, accepted } = arrival;
        self.hold(id, data);
        outcome.readable |= outcome.len > 0;
        outcome.len = 0;
        Some(Arrival { id, outcome, data: &[], accepted })
    }

    /// The header of a frame from `mac` to us.
    fn as_if_from(&self, mac: Mac) -> EthernetHeader {
        EthernetHeader { dst: self.config.mac, src: mac, vlan: self.config.vlan, ether_type: ETHER_IPV6 }
    }

    /// Writes a frame whose body `fill` writes; nothing is sent if it writes
    /// nothing.
    pub(crate) fn emit(
        &mut self,
        out: &mut impl Egress,
        dst: Mac,
        ether_type: u16,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let Some(slot) = out.slot() else {
            self.counters.replies_dropped += 1;
            return;
        };
        let header = EthernetHeader { dst, src: self.config.mac, vlan: self.config.vlan, ether_type };
        let at = header.emit(slot);
        let len = fill(&mut slot[at..]);
        if len > 0 {
            out.commit(at + len, Offload::NONE);
        }
    }
}

/// Whether an ICMP message is an error, about which no error is sent (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4(e)).
fn is_icmp_error(protocol: u8, message: &[u8]) -> bool {
    match (protocol, message.first()) {
        (protocol::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (protocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    }
}

/// Smaller MTUs are taken as this: a router that claims less is not believed
/// (Linux's `ip_rt_min_pmtu`, net/ipv4/route.c).
const LEAST_MTU_V4: u32 = 552;

#[cfg(test)]
mod tests;
