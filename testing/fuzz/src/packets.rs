//! Frames as a peer on our link sends them, checksums included.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::arp::{ArpPacket, Operation};
use wire::checksum::{pseudo_v4, pseudo_v6, sum};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::Icmpv6;
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk_extensions};
use wire::tcp::{Flags, SeqNum, TcpHeader, TcpOptions, set_checksum};
use wire::udp::UdpHeader;
use wire::{Mac, Sum, protocol};

/// The Ethernet address of the stack under test.
pub const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The peer's.
pub const THEIR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The address of the stack under test.
pub const OUR_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The peer's.
pub const THEIR_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The address of the stack under test.
pub const OUR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// The peer's.
pub const THEIR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

/// From whom to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The sender.
    pub src: IpAddr,
    /// The receiver.
    pub dst: IpAddr,
}

impl Ends {
    /// From the peer to the stack, over IPv4.
    pub const V4: Self = Self { src: IpAddr::V4(THEIR_V4), dst: IpAddr::V4(OUR_V4) };
    /// From the peer to the stack, over IPv6.
    pub const V6: Self = Self { src: IpAddr::V6(THEIR_V6), dst: IpAddr::V6(OUR_V6) };
}

/// A TCP header to port 80 with usual values.
#[must_use]
pub const fn header(flags: Flags) -> TcpHeader {
    TcpHeader {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNum(1000),
        ack: SeqNum(0),
        flags,
        window: 65_535,
        urgent: 0,
        options: TcpOptions::NONE,
    }
}

/// A segment in a frame.
#[must_use]
pub fn tcp(ends: &Ends, header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; header.header_len()];
    header.emit(&mut segment);
    let pseudo = pseudo(ends, protocol::TCP, segment.len() + payload.len());
    set_checksum(&mut segment, pseudo.add(sum(payload)));
    segment.extend_from_slice(payload);
    frame(ends, protocol::TCP, &segment)
}

/// A datagram in a frame.
#[must_use]
pub fn udp(ends: &Ends, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 8];
    let header = UdpHeader { src_port: 5000, dst_port: 53 };
    header.emit(&mut datagram, payload.len(), sum(payload), pseudo(ends, protocol::UDP, payload.len() + 8));
    datagram.extend_from_slice(payload);
    frame(ends, protocol::UDP, &datagram)
}

/// An ICMP message in a frame.
#[must_use]
pub fn icmpv4(message: &Icmpv4<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emit_len()];
    message.emit(&mut bytes);
    frame(&Ends::V4, protocol::ICMP, &bytes)
}

/// An ICMPv6 message in a frame.
#[must_use]
pub fn icmpv6(message: &Icmpv6<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 1500];
    let len = message.emit(THEIR_V6, OUR_V6, &mut bytes);
    frame(&Ends::V6, protocol::ICMPV6, &bytes[..len])
}

/// An ARP packet in a frame.
#[must_use]
pub fn arp(operation: Operation) -> Vec<u8> {
    let packet =
        ArpPacket { operation, sender_mac: THEIR_MAC, sender_ip: THEIR_V4, target_mac: OUR_MAC, target_ip: OUR_V4 };
    let mut bytes = ethernet(ETHER_ARP);
    bytes.resize(14 + 28, 0);
    packet.emit(&mut bytes[14..]);
    bytes
}

/// A segment behind hop-by-hop options, destination options and a routing
/// header.
#[must_use]
pub fn extended() -> Vec<u8> {
    let mut bytes = tcp(&Ends::V6, &header(Flags::SYN), b"");
    let hop_by_hop = [60, 0, 5, 2, 0, 0, 1, 0];
    let destination = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [protocol::TCP, 0, 2, 0, 0, 0, 0, 0];
    bytes.splice(54..54, [hop_by_hop, destination, routing].concat());
    bytes[20] = 0;
    let len = (bytes.len() - 54) as u16;
    bytes[18..20].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// The first piece of a segment over IPv6.
#[must_use]
pub fn fragment() -> Vec<u8> {
    let mut bytes = tcp(&Ends::V6, &header(Flags::ACK), &[7; 12]);
    bytes.splice(54..54, [protocol::TCP, 0, 0, 1, 0, 0, 0, 9]);
    bytes[20] = 44;
    let len = (bytes.len() - 54) as u16;
    bytes[18..20].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// A packet with this payload in a frame, from the peer to the stack.
#[must_use]
pub fn frame(ends: &Ends, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (ends.src, ends.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = ethernet(ETHER_IPV4);
            bytes.resize(14 + 20, 0);
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                dscp_ecn: 0,
                identification: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                header_len: 20,
                payload_len: payload.len() as u16,
            };
            header.emit(&mut bytes[14..]);
            bytes.extend_from_slice(payload);
            bytes
        }
        (src, dst) => {
            let mut bytes = ethernet(ETHER_IPV6);
            bytes.resize(14 + 40, 0);
            let header = Ipv6Header {
                src: v6(src),
                dst: v6(dst),
                next_header: protocol,
                hop_limit: 255,
                traffic_class: 0,
                flow_label: 0,
                payload_len: payload.len() as u16,
            };
            header.emit(&mut bytes[14..]);
            bytes.extend_from_slice(payload);
            bytes
        }
    }
}

fn ethernet(ether_type: u16) -> Vec<u8> {
    let mut bytes = vec![0; 14];
    EthernetHeader { dst: OUR_MAC, src: THEIR_MAC, vlan: None, ether_type }.emit(&mut bytes);
    bytes
}

const fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn pseudo(ends: &Ends, protocol: u8, len: usize) -> Sum {
    match (ends.src, ends.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_v4(src, dst, protocol, len as u16),
        (src, dst) => pseudo_v6(v6(src), v6(dst), protocol, len as u32),
    }
}

/// Makes the checksums of a mutated frame right, as far as it can be told
/// where they are: few mutations reach what lies behind them otherwise.
pub fn repair(frame: &mut [u8]) {
    let Ok((header, _)) = EthernetHeader::parse(frame) else { return };
    let Some(packet) = frame.get_mut(header.header_len()..) else { return };
    match header.ether_type {
        ETHER_IPV4 => repair_v4(packet),
        ETHER_IPV6 => repair_v6(packet),
        _ => {}
    }
}

fn repair_v4(packet: &mut [u8]) {
    let header_len = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    if header_len < 20 {
        return;
    }
    if let Some(head) = packet.get_mut(..header_len) {
        put_checksum(head, 10, Sum::ZERO);
    }
    let Ok((header, _)) = Ipv4Header::parse(packet) else { return };
    if header.is_fragment() {
        return;
    }
    let (start, len) = (usize::from(header.header_len), usize::from(header.payload_len));
    let Some(payload) = packet.get_mut(start..start + len) else { return };
    let pseudo = pseudo_v4(header.src, header.dst, header.protocol, header.payload_len);
    repair_upper(header.protocol, payload, pseudo);
}

fn repair_v6(packet: &mut [u8]) {
    let Ok((header, payload)) = Ipv6Header::parse(packet) else { return };
    let Ok(upper) = walk_extensions(header.next_header, payload) else { return };
    if upper.fragment.is_some() {
        return;
    }
    let (protocol, start, len) = (upper.protocol, 40 + upper.offset, upper.payload.len());
    let pseudo = pseudo_v6(header.src, header.dst, protocol, len as u32);
    if let Some(payload) = packet.get_mut(start..start + len) {
        repair_upper(protocol, payload, pseudo);
    }
}

fn repair_upper(protocol: u8, payload: &mut [u8], pseudo: Sum) {
    match protocol {
        protocol::TCP => put_checksum(payload, 16, pseudo),
        protocol::UDP => put_checksum(payload, 6, pseudo),
        protocol::ICMP => put_checksum(payload, 2, Sum::ZERO),
        protocol::ICMPV6 => put_checksum(payload, 2, pseudo),
        _ => {}
    }
}

/// Makes `bytes` and `base` sum to all ones, by the field at `at`.
fn put_checksum(bytes: &mut [u8], at: usize, base: Sum) {
    if bytes.len() < at + 2 {
        return;
    }
    bytes[at..at + 2].fill(0);
    let checksum = base.add(sum(bytes)).finish();
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
