//! Frames as an attacker forges them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::arp::{self, ArpPacket};
use wire::checksum::{pseudo_v4, pseudo_v6, sum};
use wire::ethernet::{self, ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::Icmpv6;
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::tcp::{self, Flags, SeqNum, TcpHeader, TcpOptions};
use wire::{Mac, Sum, protocol};

/// One end of a forged segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its port.
    pub port: u16,
}

/// A TCP segment to forge, or one that was received.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Sender.
    pub src: End,
    /// Receiver.
    pub dst: End,
    /// SEG.SEQ
    pub seq: SeqNum,
    /// SEG.ACK
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// The window field.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
    /// The text.
    pub payload: Vec<u8>,
}

impl Segment {
    /// A bare segment with the largest unscaled window.
    #[must_use]
    pub fn new(src: End, dst: End, flags: Flags, seq: SeqNum, ack: SeqNum) -> Self {
        Self { src, dst, seq, ack, flags, window: 0xffff, options: TcpOptions::NONE, payload: Vec::new() }
    }

    /// The same with text.
    #[must_use]
    pub fn with(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The same with these options.
    #[must_use]
    pub fn options(mut self, options: TcpOptions) -> Self {
        self.options = options;
        self
    }

    /// The frame, correct in every checksum.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let header = TcpHeader {
            src_port: self.src.port,
            dst_port: self.dst.port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: self.options,
        };
        let mut segment = vec![0; header.header_len()];
        header.emit(&mut segment);
        let len = segment.len() + self.payload.len();
        let text = sum(&self.payload);
        let pseudo = pseudo(self.src.ip, self.dst.ip, protocol::TCP, len);
        tcp::set_checksum(&mut segment, pseudo.add(text));
        segment.extend_from_slice(&self.payload);
        packet(self.src, self.dst, protocol::TCP, &segment)
    }

    /// The segment in a frame; `None` if there is no sound one.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
        let (src, dst, upper) = match ethernet.ether_type {
            ETHER_IPV4 => {
                let (ip, upper) = Ipv4Header::parse(packet).ok()?;
                (ip.protocol == protocol::TCP).then_some((IpAddr::V4(ip.src), IpAddr::V4(ip.dst), upper))?
            }
            ETHER_IPV6 => {
                let (ip, upper) = Ipv6Header::parse(packet).ok()?;
                (ip.next_header == protocol::TCP).then_some((IpAddr::V6(ip.src), IpAddr::V6(ip.dst), upper))?
            }
            _ => return None,
        };
        let (header, payload, _) = TcpHeader::parse(upper, pseudo(src, dst, protocol::TCP, upper.len())).ok()?;
        Some(Self {
            src: End { mac: ethernet.src, ip: src, port: header.src_port },
            dst: End { mac: ethernet.dst, ip: dst, port: header.dst_port },
            seq: header.seq,
            ack: header.ack,
            flags: header.flags,
            window: header.window,
            options: header.options,
            payload: payload.to_vec(),
        })
    }
}

/// A packet of any protocol, with a correct header. Ports are not looked at.
#[must_use]
pub fn packet(src: End, dst: End, protocol: u8, upper: &[u8]) -> Vec<u8> {
    match (src.ip, dst.ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let header = ipv4_header(a, b, protocol, upper.len());
            let mut packet = vec![0; ipv4::HEADER_LEN];
            header.emit(&mut packet);
            packet.extend_from_slice(upper);
            ethernet(src.mac, dst.mac, ETHER_IPV4, &packet)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let header = Ipv6Header {
                src: a,
                dst: b,
                next_header: protocol,
                hop_limit: 255,
                traffic_class: 0,
                flow_label: 0,
                payload_len: upper.len() as u16,
            };
            let mut packet = vec![0; ipv6::HEADER_LEN];
            header.emit(&mut packet);
            packet.extend_from_slice(upper);
            ethernet(src.mac, dst.mac, ETHER_IPV6, &packet)
        }
        _ => Vec::new(),
    }
}

/// An IPv4 header as ordinary hosts send it.
#[must_use]
pub fn ipv4_header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: usize) -> Ipv4Header {
    Ipv4Header {
        src,
        dst,
        protocol,
        ttl: 64,
        dscp_ecn: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: ipv4::HEADER_LEN as u8,
        payload_len: payload_len as u16,
    }
}

/// A piece of an IPv4 packet.
#[must_use]
pub fn fragment(src: End, dst: End, header: Ipv4Header, piece: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    Ipv4Header { payload_len: piece.len() as u16, dont_fragment: false, ..header }.emit(&mut packet);
    packet.extend_from_slice(piece);
    ethernet(src.mac, dst.mac, ETHER_IPV4, &packet)
}

/// An ICMP message.
#[must_use]
pub fn icmp(src: End, dst: End, message: &Icmpv4<'_>) -> Vec<u8> {
    let mut upper = vec![0; message.emit_len()];
    message.emit(&mut upper);
    packet(src, dst, protocol::ICMP, &upper)
}

/// An ICMPv6 message.
#[must_use]
pub fn icmp_v6(src: (Mac, Ipv6Addr), dst: (Mac, Ipv6Addr), message: &Icmpv6<'_>) -> Vec<u8> {
    let mut upper = vec![0; 1_400];
    let len = message.emit(src.1, dst.1, &mut upper);
    upper.truncate(len);
    let end = |(mac, ip): (Mac, Ipv6Addr)| End { mac, ip: IpAddr::V6(ip), port: 0 };
    packet(end(src), end(dst), protocol::ICMPV6, &upper)
}

/// An ARP packet.
#[must_use]
pub fn arp(to: Mac, packet: &ArpPacket) -> Vec<u8> {
    let mut body = vec![0; arp::PACKET_LEN];
    packet.emit(&mut body);
    ethernet(packet.sender_mac, to, ETHER_ARP, &body)
}

/// A frame around anything.
#[must_use]
pub fn ethernet(src: Mac, dst: Mac, ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    EthernetHeader { dst, src, vlan: None, ether_type }.emit(&mut frame);
    frame.extend_from_slice(body);
    frame
}

/// Makes the checksums of an IPv4 frame right again, as far as its headers
/// still say where they are.
pub fn mend(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(ethernet::HEADER_LEN..) else { return };
    if packet.len() < ipv4::HEADER_LEN || packet[0] >> 4 != 4 {
        return;
    }
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).min(packet.len());
    if header_len < ipv4::HEADER_LEN || header_len > total {
        return;
    }
    packet[10..12].fill(0);
    let checksum = sum(&packet[..header_len]).finish();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let address = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    let (src, dst, protocol) = (address(12), address(16), packet[9]);
    let upper = &mut packet[header_len..total];
    let (at, start) = match protocol {
        protocol::TCP => (16, pseudo_v4(src, dst, protocol, upper.len() as u16)),
        protocol::UDP => (6, pseudo_v4(src, dst, protocol, upper.len() as u16)),
        protocol::ICMP => (2, Sum::ZERO),
        _ => return,
    };
    if upper.len() < at + 2 {
        return;
    }
    upper[at..at + 2].fill(0);
    let checksum = start.add(sum(upper)).finish();
    upper[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Sum {
    match (src, dst) {
        (IpAddr::V4(a), IpAddr::V4(b)) => pseudo_v4(a, b, protocol, len as u16),
        (IpAddr::V6(a), IpAddr::V6(b)) => pseudo_v6(a, b, protocol, len as u32),
        _ => Sum::ZERO,
    }
}
