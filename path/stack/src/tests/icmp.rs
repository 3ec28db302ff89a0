//! ICMP and neighbour discovery, in fragments too, and errors that are sent.

use super::Sent;
use crate::{Address, Config, LinkOffload, Seeds, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ethernet::{self, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::{Icmpv6, NEIGHBOR_HOP_LIMIT, NeighborAdvertisement, parameter_problem};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, FRAGMENT, Ipv6Header, NO_NEXT_HEADER, walk_extensions};
use wire::{Mac, Time, protocol};

const US: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEERS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PEERS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const ALL_NODES: Ipv6Addr = crate::ip::ALL_NODES;
/// The largest ping of iputils' (`ping -s 65507`), and ICMPv6's.
const LARGEST: usize = 65_507;

fn stack(mtu: u16) -> (Stack, Sent) {
    let mut config = Config::new(US, mtu);
    config.addresses =
        vec![Address { ip: IpAddr::V4(OURS), prefix_len: 24 }, Address { ip: IpAddr::V6(OURS_V6), prefix_len: 64 }];
    let stack = Stack::new(
        config,
        LinkOffload::default(),
        &Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] },
        Time::ZERO,
    );
    (stack, Sent { frames: Vec::new(), slot: Vec::new(), room: 256 })
}

fn frame(ether_type: u16, dst: Mac, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    EthernetHeader { dst, src: PEER, vlan: None, ether_type }.emit(&mut frame);
    [frame, packet.to_vec()].concat()
}

/// An ICMP message in pieces of `most` bytes.
fn pieces_v4(message: &Icmpv4<'_>, most: usize) -> Vec<Vec<u8>> {
    let mut bytes = vec![0; message.emit_len()];
    message.emit(&mut bytes);
    let piece = |(index, piece): (usize, &[u8])| {
        let header = Ipv4Header {
            src: PEERS,
            dst: OURS,
            protocol: protocol::ICMP,
            ttl: 64,
            dscp_ecn: 0,
            identification: 7,
            dont_fragment: false,
            more_fragments: index * most + piece.len() < bytes.len(),
            fragment_offset: (index * most) as u16,
            header_len: 20,
            payload_len: piece.len() as u16,
        };
        let mut packet = vec![0; ipv4::HEADER_LEN];
        header.emit(&mut packet);
        frame(ETHER_IPV4, US, &[packet, piece.to_vec()].concat())
    };
    bytes.chunks(most).enumerate().map(piece).collect()
}

fn packet_v6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        src,
        dst,
        next_header,
        hop_limit,
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
    };
    let mut packet = vec![0; ipv6::HEADER_LEN];
    header.emit(&mut packet);
    let to = if dst.is_multicast() { ipv6::multicast_mac(dst) } else { US };
    frame(ETHER_IPV6, to, &[packet, payload.to_vec()].concat())
}

fn pieces_v6(upper: &[u8], protocol: u8, most: usize) -> Vec<Vec<u8>> {
    let piece = |(index, piece): (usize, &[u8])| {
        let more = index * most + piece.len() < upper.len();
        let [high, low] = ((index * most) as u16 | u16::from(more)).to_be_bytes();
        let payload = [&[protocol, 0, high, low, 0, 0, 0, 9], piece].concat();
        packet_v6(PEERS_V6, OURS_V6, FRAGMENT, NEIGHBOR_HOP_LIMIT, &payload)
    };
    upper.chunks(most).enumerate().map(piece).collect()
}

fn bytes_v6(message: &Icmpv6<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 66_000];
    let len = message.emit(PEERS_V6, OURS_V6, &mut bytes);
    bytes.truncate(len);
    bytes
}

/// Puts what was sent together again; each frame is within the MTU.
fn together_v4(out: &mut Sent, mtu: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut identifications = std::collections::BTreeSet::new();
    let count = out.frames.len();
    for (index, frame) in out.frames.drain(..).enumerate() {
        let (ethernet, packet) = EthernetHeader::parse(&frame).unwrap();
        let (ip, piece) = Ipv4Header::parse(packet).unwrap();
        assert!(packet.len() <= mtu && ethernet.dst == PEER);
        assert_eq!((ip.src, ip.dst, ip.protocol), (OURS, PEERS, protocol::ICMP));
        assert_eq!((usize::from(ip.fragment_offset), ip.more_fragments), (whole.len(), index + 1 < count));
        assert_eq!(ip.dont_fragment, count == 1);
        identifications.insert(ip.identification);
        whole.extend_from_slice(piece);
    }
    assert_eq!(identifications.len(), 1);
    whole
}

fn together_v6(out: &mut Sent, mtu: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    let count = out.frames.len();
    for (index, frame) in out.frames.drain(..).enumerate() {
        let (_, packet) = EthernetHeader::parse(&frame).unwrap();
        let (ip, payload) = Ipv6Header::parse(packet).unwrap();
        assert!(packet.len() <= mtu);
        let upper = walk_extensions(ip.next_header, payload).unwrap();
        if let Some(piece) = upper.fragment {
            assert_eq!((usize::from(piece.offset), piece.more), (whole.len(), index + 1 < count));
        }
        assert_eq!((ip.src, ip.dst, upper.protocol), (OURS_V6, PEERS_V6, protocol::ICMPV6));
        whole.extend_from_slice(upper.payload);
    }
    whole
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// RFC 1122 section 3.2.2.6: whatever was reassembled is answered, with all of
/// its data.
#[test]
fn pings_of_any_size_are_answered_over_ipv4() {
    for (mtu, size) in [(1_500, 56), (1_500, 1_472), (1_500, 1_473), (1_500, 8_000), (1_500, LARGEST), (576, 3_000)] {
        let (mut stack, mut out) = stack(mtu);
        let data = text(size);
        for piece in pieces_v4(&Icmpv4::EchoRequest { identifier: 3, sequence: 4, data: &data }, 1_480) {
            let _ = stack.on_frame(&piece, false, &mut out);
        }
        let whole = together_v4(&mut out, mtu.into());
        assert_eq!(Icmpv4::parse(&whole), Ok(Icmpv4::EchoReply { identifier: 3, sequence: 4, data: &data }), "{size}");
    }
}

/// RFC 4443 section 4.2.
#[test]
fn pings_of_any_size_are_answered_over_ipv6() {
    for (mtu, size) in [(1_500, 56), (1_500, 1_452), (1_500, 1_453), (1_500, 8_000), (1_500, LARGEST), (1_280, 3_000)] {
        let (mut stack, mut out) = stack(mtu);
        let data = text(size);
        let bytes = bytes_v6(&Icmpv6::EchoRequest { identifier: 3, sequence: 4, data: &data });
        for piece in pieces_v6(&bytes, protocol::ICMPV6, 1_448) {
            let _ = stack.on_frame(&piece, false, &mut out);
        }
        let whole = together_v6(&mut out, mtu.into());
        let reply = Icmpv6::parse(&whole, OURS_V6, PEERS_V6, 64);
        assert_eq!(reply, Ok(Icmpv6::EchoReply { identifier: 3, sequence: 4, data: &data }), "{size}");
    }
}

/// RFC 8200 section 4.1: destination options may stand behind the fragment
/// header.
#[test]
fn options_in_the_fragmentable_part_are_walked() {
    let (mut stack, mut out) = stack(1_500);
    let data = text(2_000);
    let bytes = bytes_v6(&Icmpv6::EchoRequest { identifier: 3, sequence: 4, data: &data });
    let options = [protocol::ICMPV6, 0, 1, 4, 0, 0, 0, 0];
    for piece in pieces_v6(&[&options[..], &bytes].concat(), 60, 1_448) {
        let _ = stack.on_frame(&piece, false, &mut out);
    }
    let whole = together_v6(&mut out, 1_500);
    assert!(
        matches!(Icmpv6::parse(&whole, OURS_V6, PEERS_V6, 64), Ok(Icmpv6::EchoReply { data: got, .. }) if got == data)
    );
}

/// All of a reply or none of it, and within the limit of echo replies by what
/// they weigh.
#[test]
fn large_replies_are_bounded() {
    let ping = |stack: &mut Stack, out: &mut Sent| {
        let data = text(LARGEST);
        for piece in pieces_v4(&Icmpv4::EchoRequest { identifier: 3, sequence: 4, data: &data }, 1_480) {
            let _ = stack.on_frame(&piece, false, out);
        }
        core::mem::take(&mut out.frames).len()
    };
    let (mut full, mut out) = stack(1_500);
    out.room = 44;
    assert_eq!((ping(&mut full, &mut out), full.counters().replies_dropped), (0, 1));
    out.room = 45;
    assert_eq!(ping(&mut full, &mut out), 45);

    let mut config = full.config().clone();
    config.echo_per_second = 100;
    let mut limited = Stack::new(
        config,
        LinkOffload::default(),
        &Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] },
        Time::ZERO,
    );
    // A tenth of a second's, of which each takes eight.
    assert_eq!([45, 0, 0], core::array::from_fn(|_| ping(&mut limited, &mut out)));
    assert_eq!(limited.counters().errors_limited, 2);
}

/// RFC 6980 section 5: what says who has an address does not come in pieces.
#[test]
fn neighbour_discovery_in_fragments_is_refused() {
    let (mut stack, mut out) = stack(1_500);
    let told = NeighborAdvertisement {
        target: OURS_V6,
        router: false,
        solicited: true,
        replace: true,
        link_layer: Some(PEER),
    };
    for piece in pieces_v6(&bytes_v6(&Icmpv6::NeighborAdvertisement(told)), protocol::ICMPV6, 16) {
        let _ = stack.on_frame(&piece, false, &mut out);
    }
    assert_eq!((stack.counters().reassembled, stack.counters().malformed), (1, 1));
    assert_eq!((stack.counters().neighbour_in, stack.counters().address_conflicts), (0, 0));
}

/// The Parameter Problem that a frame leads to, if one: its code and pointer.
fn problem(stack: &mut Stack, out: &mut Sent, frame: &[u8]) -> Option<(u8, u32)> {
    let _ = stack.on_frame(frame, false, out);
    let told = out.frames.drain(..).next()?;
    let (_, packet) = EthernetHeader::parse(&told).unwrap();
    let (ip, message) = Ipv6Header::parse(packet).unwrap();
    assert_eq!((ip.src, ip.dst), (OURS_V6, PEERS_V6));
    match Icmpv6::parse(message, ip.src, ip.dst, ip.hop_limit).unwrap() {
        Icmpv6::ParameterProblem { code, pointer, original } => {
            assert_eq!(original, &frame[ethernet::HEADER_LEN..]);
            Some((code, pointer))
        }
        other => panic!("{other:?}"),
    }
}

/// RFC 8200 sections 4, 4.2, 4.4 and 4.5.
#[test]
fn what_is_wrong_with_headers_is_told() {
    use parameter_problem::{FIELD, NEXT_HEADER, OPTION};
    const DESTINATION: u8 = 60;
    let option = |kind: u8| [protocol::UDP, 0, 1, 0, kind, 2, 0, 0];
    let (mut stack, mut out) = stack(1_500);
    for (next_header, payload, expected) in [
        // Nobody handles it: ESP, and one that is none.
        (50, vec![0; 16], Some((NEXT_HEADER, 6))),
        (253, vec![0; 16], Some((NEXT_HEADER, 6))),
        (DESTINATION, vec![253, 0, 1, 4, 0, 0, 0, 0], Some((NEXT_HEADER, 40))),
        // Hop-by-hop options that do not stand first.
        (DESTINATION, [[0, 0, 1, 4, 0, 0, 0, 0], [6, 0, 1, 4, 0, 0, 0, 0]].concat(), Some((NEXT_HEADER, 40))),
        // No next header is no mistake (RFC 8200 section 4.7).
        (NO_NEXT_HEADER, vec![0; 16], None),
        // Unknown options: passed over is not told, nor is dropped in silence.
        (DESTINATION, option(0x5e).to_vec(), None),
        (DESTINATION, option(0x9e).to_vec(), Some((OPTION, 44))),
        (DESTINATION, option(0xde).to_vec(), Some((OPTION, 44))),
        // A routing header with a segment left.
        (43, vec![6, 0, 4, 1, 0, 0, 0, 0], Some((FIELD, 42))),
        // Fragments of lengths that no packet has.
        (FRAGMENT, [&[58, 0, 0, 1, 0, 0, 0, 9][..], &[0; 15]].concat(), Some((FIELD, 4))),
        (FRAGMENT, [&[58, 0, 0xff, 0xf8, 0, 0, 0, 9][..], &[0; 16]].concat(), Some((FIELD, 42))),
        // Too short for its own length.
        (DESTINATION, vec![6, 9, 1, 4, 0, 0, 0, 0], None),
    ] {
        let frame = packet_v6(PEERS_V6, OURS_V6, next_header, 64, &payload);
        assert_eq!(problem(&mut stack, &mut out, &frame), expected, "{next_header} {payload:?}");
    }
    // To a group, only where that is asked for (RFC 4443 section 2.4 (e.3)).
    for (kind, expected) in [(0x9e, Some((OPTION, 44))), (0xde, None)] {
        let frame = packet_v6(PEERS_V6, ALL_NODES, DESTINATION, 64, &option(kind));
        assert_eq!(problem(&mut stack, &mut out, &frame), expected);
    }
    // Not to those who are no host, and not for others.
    for (src, dst) in [(Ipv6Addr::UNSPECIFIED, OURS_V6), (OURS_V6, OURS_V6), (PEERS_V6, PEERS_V6)] {
        let frame = packet_v6(src, dst, DESTINATION, 64, &option(0x9e));
        assert_eq!(problem(&mut stack, &mut out, &frame), None, "{src} {dst}");
    }
}

/// RFC 4443 section 2.4 (f).
#[test]
fn problems_are_told_within_the_limit_of_errors() {
    let (mut stack, mut out) = stack(1_500);
    let frame = packet_v6(PEERS_V6, OURS_V6, 253, 64, &[0; 16]);
    let told = (0..10_000).filter(|_| problem(&mut stack, &mut out, &frame).is_some()).count();
    assert!((1..=1_500).contains(&told), "{told}");
    assert_eq!(stack.counters().errors_limited, 10_000 - told as u64);
}

/// RFC 1122 section 4.1.3.4, RFC 8200 section 8.1: of a datagram that is none
/// nobody is told, and over IPv6 that is one without a checksum, also where the
/// link vouches for it.
#[test]
fn a_datagram_that_is_none_is_not_answered() {
    let datagram = |checksum: [u8; 2]| [&[0, 9, 0, 7, 0, 12][..], &checksum, b"text"].concat();
    let right = |pseudo: wire::Sum| pseudo.add(wire::checksum::sum(&datagram([0, 0]))).finish().to_be_bytes();
    let of_v6 = right(wire::checksum::pseudo_v6(PEERS_V6, OURS_V6, protocol::UDP, 12));
    let of_v4 = right(wire::checksum::pseudo_v4(PEERS, OURS, protocol::UDP, 12));
    let packet_v4 = |datagram: &[u8]| {
        let header = Ipv4Header {
            src: PEERS,
            dst: OURS,
            protocol: protocol::UDP,
            ttl: 64,
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            header_len: ipv4::HEADER_LEN as u8,
            payload_len: datagram.len() as u16,
        };
        let mut packet = vec![0; ipv4::HEADER_LEN];
        header.emit(&mut packet);
        frame(ETHER_IPV4, US, &[packet, datagram.to_vec()].concat())
    };
    let packet_v6 = |datagram: &[u8]| packet_v6(PEERS_V6, OURS_V6, protocol::UDP, 64, datagram);
    let long = [datagram(of_v6), vec![0]].concat();
    for (verified, frame, told) in [
        (false, packet_v4(&datagram(of_v4)), 1),
        // Over IPv4 a datagram needs none.
        (false, packet_v4(&datagram([0, 0])), 1),
        (true, packet_v4(&datagram([0, 0])), 1),
        (false, packet_v4(&datagram([1, 1])), 0),
        (true, packet_v4(&datagram([1, 1])), 1),
        (false, packet_v4(&datagram(of_v4)[..7]), 0),
        (false, packet_v6(&datagram(of_v6)), 1),
        (true, packet_v6(&datagram(of_v6)), 1),
        (false, packet_v6(&datagram([0, 0])), 0),
        (true, packet_v6(&datagram([0, 0])), 0),
        (false, packet_v6(&datagram([1, 1])), 0),
        (false, packet_v6(&long), 0),
        (false, packet_v6(&datagram(of_v6)[..7]), 0),
    ] {
        let (mut stack, mut out) = stack(1_500);
        let _ = stack.on_frame(&frame, verified, &mut out);
        assert_eq!(out.frames.len(), told, "{verified} {frame:?}");
        let counters = stack.counters();
        assert_eq!((counters.malformed + counters.bad_checksum) as usize, 1 - told, "{counters:?}");
    }
}
