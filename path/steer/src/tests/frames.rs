//! Frames for tests: what steering looks at is right, checksums are not.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{Icmpv6, NeighborAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{Flags, SeqNum, TcpHeader, TcpOptions};
use wire::{Mac, protocol};

pub(crate) const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const REMOTE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
pub(crate) const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
pub(crate) const REMOTE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, 1));

const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const REMOTE_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetHeader { dst: SERVER_MAC, src: REMOTE_MAC, vlan: None, ether_type }.emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}

fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let payload_len = payload.len() as u16;
    let mut head = [0; 40];
    let (ether_type, len) = match (from, to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                dscp_ecn: 0,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                header_len: 20,
                payload_len,
            };
            (ETHER_IPV4, header.emit(&mut head))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: 255,
                traffic_class: 0,
                flow_label: 0,
                payload_len,
            };
            (ETHER_IPV6, header.emit(&mut head))
        }
        _ => panic!("two families in one packet"),
    };
    let mut packet = head[..len].to_vec();
    packet.extend_from_slice(payload);
    ethernet(ether_type, &packet)
}

/// A TCP segment.
pub(crate) fn segment(from: (IpAddr, u16), to: (IpAddr, u16), flags: Flags, text: &[u8]) -> Vec<u8> {
    let header = TcpHeader {
        src_port: from.1,
        dst_port: to.1,
        seq: SeqNum(1),
        ack: SeqNum(1),
        flags,
        window: 1_000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    let mut bytes = [0; 60];
    let len = header.emit(&mut bytes);
    packet(from.0, to.0, protocol::TCP, &[&bytes[..len], text].concat())
}

/// The error that comes back for a frame that was sent.
pub(crate) fn icmp_error(sent: &[u8]) -> Vec<u8> {
    let original = &sent[14..];
    let mut bytes = [0; 1_500];
    if sent[14] >> 4 == 4 {
        let message = Icmpv4::DestinationUnreachable { code: icmpv4::unreachable::HOST, original };
        let len = message.emit(&mut bytes);
        packet(REMOTE_V4, SERVER_V4, protocol::ICMP, &bytes[..len])
    } else {
        icmp_v6(&Icmpv6::PacketTooBig { mtu: 1_280, original })
    }
}

fn icmp_v6(message: &Icmpv6<'_>) -> Vec<u8> {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (REMOTE_V6, SERVER_V6) else { unreachable!("both are IPv6") };
    let mut bytes = [0; 1_500];
    let len = message.emit(from, to, &mut bytes);
    packet(REMOTE_V6, SERVER_V6, protocol::ICMPV6, &bytes[..len])
}

/// A neighbour advertisement.
pub(crate) fn advertisement() -> Vec<u8> {
    let IpAddr::V6(target) = REMOTE_V6 else { unreachable!("it is IPv6") };
    icmp_v6(&Icmpv6::NeighborAdvertisement(NeighborAdvertisement {
        target,
        router: false,
        solicited: true,
        replace: true,
        link_layer: Some(REMOTE_MAC),
    }))
}

/// An ARP packet.
pub(crate) fn arp(operation: Operation) -> Vec<u8> {
    let (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) = (REMOTE_V4, SERVER_V4) else { unreachable!("both are IPv4") };
    let arp = ArpPacket { operation, sender_mac: REMOTE_MAC, sender_ip, target_mac: SERVER_MAC, target_ip };
    let mut bytes = [0; 28];
    arp.emit(&mut bytes);
    ethernet(ETHER_ARP, &bytes)
}
