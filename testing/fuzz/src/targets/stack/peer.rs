//! The peer: it knows what the stack sent, and checks it.

use super::steps::{Options, Segment};
use crate::packets::{self, Ends, OUR_MAC, OUR_V4, OUR_V6, THEIR_MAC, THEIR_V4, THEIR_V6};
use core::net::IpAddr;
use std::collections::BTreeMap;
use wire::arp::{ArpPacket, Operation};
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv6::{Icmpv6, NeighborAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Sum, protocol};

/// Ports that the peer connects from; those above answer the stack's own
/// connections.
const FIRST_PORT: u16 = 40_000;
/// The port that the stack's application connects to.
pub(super) const SERVER_PORT: u16 = 9_000;
/// The largest packet that the link carries.
const MTU: usize = 1500;

/// What the peer knows of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The peer's next sequence number.
    next: u32,
    /// The stack's first, once it sent one.
    iss: Option<u32>,
    /// What the peer expects next of the stack.
    expected: u32,
    /// The stack's last timestamp, if it uses them.
    timestamp: Option<u32>,
    /// The stack's port, for connections that it opened.
    local_port: Option<u16>,
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    flows: BTreeMap<(bool, u16), Flow>,
    /// Raw frames were sent: contents may be anything.
    anything: bool,
    clock: u32,
    /// Bytes that the stack sent again.
    pub repeated: usize,
}

impl Peer {
    pub(super) fn trust_nothing(&mut self) {
        self.anything = true;
    }

    /// A segment as a frame. Its payload is what its sequence numbers say, so
    /// that overlapping segments agree.
    pub(super) fn build(&mut self, segment: &Segment<'_>) -> Vec<u8> {
        // Flow 4 of each eight is that of the stack's own connections; odd
        // ones use IPv6.
        let v6 = segment.flow % 2 == 1;
        let port = if segment.flow % 8 / 2 == 2 { SERVER_PORT } else { FIRST_PORT + segment.flow as u16 };
        self.clock = self.clock.wrapping_add(1);
        let flow =
            self.flows.entry((v6, port)).or_insert_with(|| Flow { next: u32::from(port) << 16, ..Flow::default() });
        let seq = flow.next.wrapping_add_signed(segment.seq);
        let options = match segment.options {
            Options::Raw(_) | Options::None => TcpOptions::NONE,
            Options::Usual | Options::Sack(_) if segment.flags.contains(Flags::SYN) => TcpOptions {
                mss: Some(1460),
                window_scale: Some(5),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: self.clock, echo: flow.timestamp.unwrap_or(0) }),
                sack: SackBlocks::EMPTY,
            },
            options => flow.usual(self.clock, options),
        };
        let header = TcpHeader {
            src_port: port,
            dst_port: flow.local_port.unwrap_or(80),
            seq: SeqNum(seq),
            ack: SeqNum(flow.expected.wrapping_add_signed(segment.ack)),
            flags: segment.flags,
            window: segment.window,
            urgent: 0,
            options,
        };
        let first = seq.wrapping_add(u32::from(segment.flags.contains(Flags::SYN)));
        let payload: Vec<u8> = (0..segment.len as u32).map(|at| first.wrapping_add(at) as u8).collect();
        if segment.seq == 0 {
            let controls =
                u32::from(segment.flags.contains(Flags::SYN)) + u32::from(segment.flags.contains(Flags::FIN));
            flow.next = flow.next.wrapping_add(segment.len as u32 + controls);
        }
        let ends = if v6 { Ends::V6 } else { Ends::V4 };
        let frame = packets::tcp(&ends, &header, &payload);
        match segment.options {
            Options::Raw(bytes) => with_options(frame, bytes, v6),
            _ => frame,
        }
    }

    /// Checks a frame of the stack, and learns from it. Returns the answer, if
    /// the frame asks for a hardware address.
    pub(super) fn on_frame(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let (ethernet, packet) = EthernetHeader::parse(frame).expect("an Ethernet header");
        assert!(ethernet.src == OUR_MAC && ethernet.vlan.is_none());
        assert!(packet.len() <= MTU, "a packet of {} bytes", packet.len());
        match ethernet.ether_type {
            ETHER_ARP => {
                let arp = ArpPacket::parse(packet).expect("an ARP packet");
                let asks = arp.operation == Operation::Request && arp.target_ip == THEIR_V4;
                asks.then(|| packets::arp(Operation::Reply))
            }
            ETHER_IPV4 => {
                let (header, payload) = Ipv4Header::parse(packet).expect("an IPv4 packet");
                assert_eq!(header.src, OUR_V4);
                let pseudo = pseudo_v4(header.src, header.dst, header.protocol, header.payload_len);
                if header.protocol == protocol::TCP {
                    self.on_segment(payload, pseudo, header.dst.into());
                }
                None
            }
            ETHER_IPV6 => self.on_ipv6(packet),
            other => panic!("a frame of type {other:#06x}"),
        }
    }

    fn on_ipv6(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (header, payload) = Ipv6Header::parse(packet).expect("an IPv6 packet");
        let pseudo = pseudo_v6(header.src, header.dst, header.next_header, payload.len() as u32);
        match header.next_header {
            protocol::TCP => {
                assert_eq!(header.src, OUR_V6);
                self.on_segment(payload, pseudo, header.dst.into());
                None
            }
            protocol::ICMPV6 => {
                let message =
                    Icmpv6::parse(payload, header.src, header.dst, header.hop_limit).expect("an ICMPv6 message");
                match message {
                    Icmpv6::NeighborSolicitation { target, .. } if target == THEIR_V6 => Some(advertisement()),
                    _ => None,
                }
            }
            other => panic!("a packet of protocol {other}"),
        }
    }

    fn on_segment(&mut self, segment: &[u8], pseudo: Sum, to: IpAddr) {
        let (header, payload, _) = TcpHeader::parse(segment, pseudo).expect("a segment");
        let flags = header.flags;
        assert!(!(flags.contains(Flags::SYN) && flags.intersects(Flags::FIN | Flags::RST)), "{flags:?}");
        assert!(!(flags.contains(Flags::RST) && flags.contains(Flags::FIN)), "{flags:?}");
        if to != IpAddr::V4(THEIR_V4) && to != IpAddr::V6(THEIR_V6) {
            return;
        }
        let flow = self.flows.entry((to.is_ipv6(), header.dst_port)).or_default();
        if flags.contains(Flags::RST) {
            return;
        }
        if flags.contains(Flags::SYN) {
            assert!(payload.is_empty(), "data in a SYN");
            flow.iss = Some(header.seq.0);
            flow.expected = header.seq.0.wrapping_add(1);
            flow.timestamp = header.options.timestamps.map(|timestamps| timestamps.value);
            if header.dst_port == SERVER_PORT {
                flow.local_port = Some(header.src_port);
            }
            return;
        }
        if flow.local_port.is_some_and(|port| port != header.src_port) {
            // Of an earlier connection to the same port.
            return;
        }
        if let Some(timestamps) = header.options.timestamps {
            flow.timestamp = Some(timestamps.value);
        }
        // Sent once or again, a byte of the stream is the same.
        if let (Some(iss), false) = (flow.iss, self.anything) {
            let first = header.seq.0.wrapping_sub(iss).wrapping_sub(1);
            for (at, &byte) in payload.iter().enumerate() {
                assert_eq!(byte, first.wrapping_add(at as u32) as u8, "byte {at} of {header:?}");
            }
        }
        let end = header.seq.0.wrapping_add(payload.len() as u32 + u32::from(flags.contains(Flags::FIN)));
        if end.wrapping_sub(flow.expected).cast_signed() > 0 {
            flow.expected = end;
        } else {
            self.repeated += payload.len();
        }
    }
}

impl Flow {
    fn usual(&self, clock: u32, options: Options<'_>) -> TcpOptions {
        let timestamps = self.timestamp.map(|echo| Timestamps { value: clock, echo });
        let mut sack = SackBlocks::EMPTY;
        if let Options::Sack(ahead) = options {
            // Behind what the peer acknowledges, were it to expect less.
            let left = self.expected.wrapping_sub(u32::from(ahead) * 100);
            sack.push(SeqNum(left), SeqNum(left.wrapping_add(100)));
        }
        TcpOptions { timestamps, sack, ..TcpOptions::NONE }
    }
}

fn advertisement() -> Vec<u8> {
    packets::icmpv6(&Icmpv6::NeighborAdvertisement(NeighborAdvertisement {
        target: THEIR_V6,
        router: false,
        solicited: true,
        replace: true,
        link_layer: Some(THEIR_MAC),
    }))
}

/// Puts any bytes where the options of a segment without any would be.
fn with_options(mut frame: Vec<u8>, options: &[u8], v6: bool) -> Vec<u8> {
    let start = if v6 { 54 } else { 34 };
    let mut block = options.to_vec();
    block.resize(block.len().next_multiple_of(4), 0);
    frame[start + 12] = ((20 + block.len()) as u8 / 4) << 4;
    let added = block.len() as u16;
    frame.splice(start + 20..start + 20, block);
    let length = if v6 { 18 } else { 16 };
    let total = u16::from_be_bytes([frame[length], frame[length + 1]]) + added;
    frame[length..length + 2].copy_from_slice(&total.to_be_bytes());
    packets::repair(&mut frame);
    frame
}
