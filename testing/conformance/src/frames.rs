//! The script's side of the wire: segments into Ethernet frames and back.

pub use crate::family::{Family, PEER_IP, PEER_IP_V6};

use crate::script::{OptionKind, Segment, Stamp};
use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv6::{Icmpv6, NEIGHBOR_HOP_LIMIT, NeighborAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{self, Ipv6Header};
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Mac, checksum, protocol, tcp};

/// Our address, the side under test.
pub const OUR_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Length of the prefix that both share.
pub const PREFIX_LEN: u8 = 24;
/// Our address over IPv6.
pub const OUR_IP_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// Length of the prefix that both share.
pub const PREFIX_LEN_V6: u8 = 64;
/// The port that ours listens on, or that the peer is reached at.
pub const SERVICE_PORT: u16 = 8080;
/// The peer's port where it connects.
pub const PEER_PORT: u16 = 40_000;

const PEER_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x02]);

/// The peer's initial sequence number: scripts cross the wrap.
const PEER_ISN: SeqNum = SeqNum(u32::MAX - 500);

/// Largest frame that a script sends.
const FRAME_LEN: usize = 14 + 40 + 60 + 9_000;

/// The byte at a position of either side's stream.
#[must_use]
pub const fn pattern(position: u32) -> u8 {
    (position.wrapping_mul(0x9e37_79b1) >> 21) as u8
}

/// A frame of ours, as the script reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A TCP segment.
    Segment(Segment),
    /// What must be answered for the script to go on: an ARP request or a
    /// neighbour solicitation.
    Answer(Vec<u8>),
    /// Anything else, such as neighbour discovery.
    Other,
    /// A frame that no host may send, and why.
    Broken(String),
}

/// The script's view of both ends.
#[derive(Clone, Debug)]
pub struct Wire {
    family: Family,
    our_mac: Option<Mac>,
    our_port: u16,
    /// The peer's usual port.
    peer_port: u16,
    /// Our initial sequence numbers, by the peer's port.
    our_isn: HashMap<u16, SeqNum>,
    /// All of them, in the order in which they were first seen.
    isns: Vec<SeqNum>,
    /// The timestamp that ours sent last.
    last_stamp: u32,
}

impl Wire {
    /// Ours listens, and the peer connects.
    #[must_use]
    pub fn listening(family: Family) -> Self {
        let (our_port, peer_port) = (SERVICE_PORT, PEER_PORT);
        Self { family, our_mac: None, our_port, peer_port, our_isn: HashMap::new(), isns: Vec::new(), last_stamp: 0 }
    }

    /// Ours connects; its port is learned from its SYN.
    #[must_use]
    pub fn connecting(family: Family) -> Self {
        Self { our_port: 0, peer_port: SERVICE_PORT, ..Self::listening(family) }
    }

    /// Whether our hardware address is known.
    #[must_use]
    pub const fn resolved(&self) -> bool {
        self.our_mac.is_some()
    }

    /// Asks for our hardware address.
    #[must_use]
    pub fn ask(&self) -> Vec<u8> {
        match self.family {
            Family::V4 => arp(Operation::Request, Mac::BROADCAST, Mac::ZERO),
            Family::V6 => {
                let group = ipv6::solicited_node(OUR_IP_V6);
                let message = Icmpv6::NeighborSolicitation { target: OUR_IP_V6, link_layer: Some(PEER_MAC) };
                neighbour(ipv6::multicast_mac(group), group, &message)
            }
        }
    }

    /// A segment of the peer as a frame.
    #[must_use]
    pub fn encode(&self, segment: &Segment) -> Vec<u8> {
        let port = segment.port.unwrap_or(self.peer_port);
        let our_isn = self.our_isn.get(&port).copied().unwrap_or_default();
        let mut sack = SackBlocks::EMPTY;
        for &(left, right) in &segment.sack {
            sack.push(our_isn.plus(left), our_isn.plus(right));
        }
        let stamp = |stamp| match stamp {
            Stamp::Is(value) => value,
            Stamp::Last | Stamp::Any => self.last_stamp,
        };
        let header = TcpHeader {
            src_port: port,
            dst_port: self.our_port,
            seq: PEER_ISN.plus(segment.seq.unwrap_or(0)),
            ack: segment.ack.map_or(SeqNum(0), |ack| our_isn.plus(ack)),
            flags: segment.flags,
            window: segment.window.unwrap_or(u16::MAX),
            urgent: 0,
            options: TcpOptions {
                mss: segment.mss,
                window_scale: segment.scale,
                sack_permitted: segment.sack_permitted,
                timestamps: segment.timestamps.map(|(v, e)| Timestamps { value: stamp(v), echo: stamp(e) }),
                sack,
            },
        };
        let first = segment.seq.unwrap_or(0).wrapping_sub(1);
        let payload: Vec<u8> = (0..segment.len).map(|i| pattern(first.wrapping_add(i))).collect();
        self.frame(&header, &payload, segment.corrupt)
    }

    fn frame(&self, header: &TcpHeader, payload: &[u8], corrupt: bool) -> Vec<u8> {
        let mut frame = vec![0; FRAME_LEN];
        let dst = self.our_mac.unwrap_or(Mac::BROADCAST);
        let len = header.header_len() + payload.len();
        let ether_type = if self.family == Family::V4 { ETHER_IPV4 } else { ETHER_IPV6 };
        let mut at = EthernetHeader { dst, src: PEER_MAC, vlan: None, ether_type }.emit(&mut frame);
        let pseudo = match self.family {
            Family::V4 => {
                at += ipv4(len as u16).emit(&mut frame[at..]);
                checksum::pseudo_v4(PEER_IP, OUR_IP, protocol::TCP, len as u16)
            }
            Family::V6 => {
                at += ipv6(OUR_IP_V6, protocol::TCP, 64, len as u16).emit(&mut frame[at..]);
                checksum::pseudo_v6(PEER_IP_V6, OUR_IP_V6, protocol::TCP, len as u32)
            }
        };
        let start = at;
        at += header.emit(&mut frame[at..]);
        frame[at..at + payload.len()].copy_from_slice(payload);
        at += payload.len();
        frame.truncate(at);
        tcp::set_checksum(&mut frame[start..], pseudo);
        if corrupt {
            frame[start + usize::from(tcp::CHECKSUM_OFFSET)] ^= 0x55;
        }
        frame
    }

    /// Reads a frame of ours.
    pub fn decode(&mut self, frame: &[u8]) -> Seen {
        let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else {
            return Seen::Broken("no Ethernet header".into());
        };
        match ethernet.ether_type {
            ETHER_ARP => self.decode_arp(packet),
            ETHER_IPV4 => self.decode_ip(packet),
            ETHER_IPV6 => self.decode_ipv6(ethernet.src, packet),
            _ => Seen::Other,
        }
    }

    fn decode_arp(&mut self, packet: &[u8]) -> Seen {
        let Ok(packet) = ArpPacket::parse(packet) else { return Seen::Broken("ARP".into()) };
        if packet.sender_ip == OUR_IP {
            self.our_mac = Some(packet.sender_mac);
        }
        if packet.operation == Operation::Request && packet.target_ip == PEER_IP {
            return Seen::Answer(arp(Operation::Reply, packet.sender_mac, packet.sender_mac));
        }
        Seen::Other
    }

    fn decode_ip(&mut self, packet: &[u8]) -> Seen {
        let (ip, segment) = match Ipv4Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return Seen::Broken(format!("IPv4: {error}")),
        };
        if ip.protocol != protocol::TCP || ip.dst != PEER_IP {
            return Seen::Other;
        }
        let pseudo = checksum::pseudo_v4(ip.src, ip.dst, ip.protocol, ip.payload_len);
        match TcpHeader::parse(segment, pseudo) {
            Ok((header, payload, _)) => self.segment(&header, payload),
            Err(error) => Seen::Broken(format!("TCP: {error}")),
        }
    }

    fn decode_ipv6(&mut self, src: Mac, packet: &[u8]) -> Seen {
        let (ip, upper) = match Ipv6Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return Seen::Broken(format!("IPv6: {error}")),
        };
        match ip.next_header {
            protocol::TCP if ip.dst == PEER_IP_V6 => {
                let pseudo = checksum::pseudo_v6(ip.src, ip.dst, protocol::TCP, upper.len() as u32);
                match TcpHeader::parse(upper, pseudo) {
                    Ok((header, payload, _)) => self.segment(&header, payload),
                    Err(error) => Seen::Broken(format!("TCP: {error}")),
                }
            }
            protocol::ICMPV6 => match Icmpv6::parse(upper, ip.src, ip.dst, ip.hop_limit) {
                Ok(message) => self.decode_icmp_v6(src, ip.src, &message),
                Err(error) => Seen::Broken(format!("ICMPv6: {error}")),
            },
            _ => Seen::Other,
        }
    }

    fn decode_icmp_v6(&mut self, mac: Mac, src: Ipv6Addr, message: &Icmpv6<'_>) -> Seen {
        if src == OUR_IP_V6 {
            self.our_mac = Some(mac);
        }
        match message {
            Icmpv6::NeighborSolicitation { target, .. } if *target == PEER_IP_V6 => {
                let answer = NeighborAdvertisement {
                    target: PEER_IP_V6,
                    router: false,
                    solicited: true,
                    replace: true,
                    link_layer: Some(PEER_MAC),
                };
                Seen::Answer(neighbour(mac, src, &Icmpv6::NeighborAdvertisement(answer)))
            }
            _ => Seen::Other,
        }
    }

    fn segment(&mut self, header: &TcpHeader, payload: &[u8]) -> Seen {
        let port = header.dst_port;
        if header.flags.contains(Flags::SYN) {
            if self.our_isn.insert(port, header.seq) != Some(header.seq) {
                self.isns.push(header.seq);
            }
            self.our_port = header.src_port;
        }
        let isn = self.our_isn.get(&port).copied().unwrap_or_default();
        let seq = header.seq.forward_from(isn);
        if let Some(stamps) = header.options.timestamps {
            self.last_stamp = stamps.value;
        }
        let first = seq.wrapping_sub(1);
        let expected = (0..payload.len() as u32).map(|i| pattern(first.wrapping_add(i)));
        if !payload.iter().copied().eq(expected) {
            return Seen::Broken(format!("the {} bytes at seq {seq} are not what was sent", payload.len()));
        }
        let relative = |seq: SeqNum| seq.forward_from(PEER_ISN);
        Seen::Segment(Segment {
            flags: header.flags,
            seq: Some(seq),
            ack: header.flags.contains(Flags::ACK).then(|| relative(header.ack)),
            len: payload.len() as u32,
            window: Some(header.window),
            mss: header.options.mss,
            scale: header.options.window_scale,
            sack_permitted: header.options.sack_permitted,
            timestamps: header.options.timestamps.map(|t| (Stamp::Is(t.value), Stamp::Is(t.echo))),
            sack: header.options.sack.as_slice().iter().map(|&(l, r)| (relative(l), relative(r))).collect(),
            present: Vec::new(),
            absent: Vec::new(),
            corrupt: false,
            port: Some(port),
            at: None,
        })
    }

    /// How far our last initial sequence number is after the one before it.
    #[must_use]
    pub fn isn_step(&self) -> Option<u32> {
        let [.., before, last] = self.isns[..] else { return None };
        Some(last.forward_from(before))
    }

    /// How `got` differs from what the script expects; `None` if it does not.
    #[must_use]
    pub fn mismatch(&self, expected: &Segment, got: &Segment) -> Option<&'static str> {
        fn differs<T: PartialEq>(expected: Option<T>, got: Option<T>) -> bool {
            expected.is_some() && expected != got
        }
        let stamp = |expected: Stamp, got: Stamp| expected != Stamp::Any && expected != got;
        let stamps = match (expected.timestamps, got.timestamps) {
            (Some((v, e)), Some((got_v, got_e))) => stamp(v, got_v) || stamp(e, got_e),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let there = |kind: &OptionKind| match kind {
            OptionKind::Mss => got.mss.is_some(),
            OptionKind::Scale => got.scale.is_some(),
            OptionKind::SackPermitted => got.sack_permitted,
            OptionKind::Timestamps => got.timestamps.is_some(),
            OptionKind::Sack => !got.sack.is_empty(),
        };
        let checks = [
            (expected.flags.without(Flags::PSH) != got.flags.without(Flags::PSH), "flags"),
            (differs(expected.seq, got.seq), "seq"),
            (differs(expected.ack, got.ack), "ack"),
            (expected.len != got.len, "len"),
            (differs(expected.window, got.window), "win"),
            (differs(expected.mss, got.mss), "mss"),
            (differs(expected.scale, got.scale), "wscale"),
            (expected.sack_permitted && !got.sack_permitted, "sackok"),
            (stamps, "ts"),
            (!expected.sack.is_empty() && expected.sack != got.sack, "sack"),
            (!expected.present.iter().all(there), "an option that must be there"),
            (expected.absent.iter().any(there), "an option that must be absent"),
            (got.port != Some(expected.port.unwrap_or(self.peer_port)), "port"),
        ];
        checks.into_iter().find(|(differs, _)| *differs).map(|(_, field)| field)
    }
}

/// The peer's IPv4 header.
const fn ipv4(payload_len: u16) -> Ipv4Header {
    Ipv4Header {
        src: PEER_IP,
        dst: OUR_IP,
        protocol: protocol::TCP,
        ttl: 64,
        dscp_ecn: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: 0,
        payload_len,
    }
}

/// The peer's IPv6 header.
const fn ipv6(dst: Ipv6Addr, next_header: u8, hop_limit: u8, payload_len: u16) -> Ipv6Header {
    Ipv6Header { src: PEER_IP_V6, dst, next_header, hop_limit, traffic_class: 0, flow_label: 0, payload_len }
}

/// A neighbour discovery message of the peer.
fn neighbour(mac: Mac, dst: Ipv6Addr, message: &Icmpv6<'_>) -> Vec<u8> {
    let mut body = vec![0; 64];
    let len = message.emit(PEER_IP_V6, dst, &mut body);
    let mut frame = vec![0; 14 + ipv6::HEADER_LEN];
    let at = EthernetHeader { dst: mac, src: PEER_MAC, vlan: None, ether_type: ETHER_IPV6 }.emit(&mut frame);
    ipv6(dst, protocol::ICMPV6, NEIGHBOR_HOP_LIMIT, len as u16).emit(&mut frame[at..]);
    frame.extend_from_slice(&body[..len]);
    frame
}

/// An ARP packet of the peer.
fn arp(operation: Operation, dst: Mac, target_mac: Mac) -> Vec<u8> {
    let mut frame = vec![0; 14 + wire::arp::PACKET_LEN];
    let at = EthernetHeader { dst, src: PEER_MAC, vlan: None, ether_type: ETHER_ARP }.emit(&mut frame);
    let packet = ArpPacket { operation, sender_mac: PEER_MAC, sender_ip: PEER_IP, target_mac, target_ip: OUR_IP };
    packet.emit(&mut frame[at..]);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the peer sends is what a host would read, and is read back as it
    /// was written.
    #[test]
    fn segments_survive_the_wire() {
        let wire = Wire::listening(Family::V4);
        let segment = Segment {
            flags: Flags::SYN,
            seq: Some(0),
            len: 100,
            mss: Some(1_000),
            timestamps: Some((Stamp::Is(5), Stamp::Is(6))),
            ..Segment::default()
        };
        for corrupt in [false, true] {
            let frame = wire.encode(&Segment { corrupt, ..segment.clone() });
            let (_, packet) = EthernetHeader::parse(&frame).unwrap_or_else(|e| panic!("{e}"));
            let (ip, tcp) = Ipv4Header::parse(packet).unwrap_or_else(|e| panic!("{e}"));
            let pseudo = checksum::pseudo_v4(ip.src, ip.dst, ip.protocol, ip.payload_len);
            let parsed = TcpHeader::parse(tcp, pseudo);
            assert_eq!(parsed.is_err(), corrupt);
            let Ok((header, payload, _)) = parsed else { continue };
            assert_eq!((header.seq, header.options.mss, payload.len()), (PEER_ISN, Some(1_000), 100));
            assert_eq!(header.options.timestamps, Some(Timestamps { value: 5, echo: 6 }));
        }
    }
}
