//! Frames: parsed, written again, parsed again.

use crate::Target;
use crate::packets::{self, Ends};
use wire::arp::{ArpPacket, Operation};
use wire::checksum::{pseudo_v4, pseudo_v6, sum};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{self, Icmpv6, NeighborAdvertisement, PrefixInformation, RouterAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk_extensions};
use wire::tcp::{Flags, TcpHeader};
use wire::udp::{self, UdpHeader};
use wire::{LinkVouched, Sum, protocol};

pub(crate) const TARGET: Target = Target {
    name: "frame",
    about: "what is parsed is written as it was, and parsed alike again",
    run,
    seeds,
    dictionary: &[
        &[0x81, 0, 0, 1],
        &[8, 0],
        &[8, 6],
        &[0x86, 0xdd],
        &[0x45, 0],
        &[0x46, 0],
        &[0x60, 0, 0, 0],
        &[44, 0],
        &[0, 0, 1, 4],
        &[60, 0, 5, 2],
        &[43, 0],
    ],
    test_runs: 20_000,
    max_len: 1600,
};

fn run(frame: &[u8]) {
    check(frame);
    // Few mutations keep a checksum right.
    let mut repaired = frame.to_vec();
    packets::repair(&mut repaired);
    check(&repaired);
}

fn check(frame: &[u8]) {
    let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else {
        assert!(frame.len() < 18, "every frame that is long enough has an Ethernet header");
        return;
    };
    let mut out = [0; 18];
    let len = ethernet.emit(&mut out);
    assert_eq!(out[..len], frame[..len]);
    assert_eq!(len + packet.len(), frame.len());
    match ethernet.ether_type {
        ETHER_ARP => check_arp(packet),
        ETHER_IPV4 => check_ipv4(packet),
        ETHER_IPV6 => check_ipv6(packet),
        _ => {}
    }
}

fn check_arp(packet: &[u8]) {
    if let Ok(arp) = ArpPacket::parse(packet) {
        let mut out = [0; 28];
        assert_eq!(arp.emit(&mut out), 28);
        assert_eq!(out, packet[..28]);
        assert_eq!(arp.emit(&mut out[..27]), 0);
    }
}

fn check_ipv4(packet: &[u8]) {
    let Ok((header, payload)) = Ipv4Header::parse(packet) else { return };
    assert_eq!(usize::from(header.payload_len), payload.len());
    assert_eq!(payload, &packet[usize::from(header.header_len)..][..payload.len()]);
    // Options are passed over and not written, and room for them may be needed.
    if payload.len() + 20 <= usize::from(u16::MAX) {
        let mut again = vec![0; 20];
        assert_eq!(header.emit(&mut again), 20);
        again.extend_from_slice(payload);
        assert_eq!(Ipv4Header::parse(&again), Ok((Ipv4Header { header_len: 20, ..header }, payload)));
    }
    if header.is_fragment() {
        return;
    }
    let pseudo = pseudo_v4(header.src, header.dst, header.protocol, header.payload_len);
    match header.protocol {
        protocol::TCP => check_tcp(payload, pseudo),
        protocol::UDP => check_udp(payload, pseudo, true),
        protocol::ICMP => check_icmpv4(payload),
        _ => {}
    }
}

fn check_ipv6(packet: &[u8]) {
    let Ok((header, payload)) = Ipv6Header::parse(packet) else { return };
    let mut out = [0; 40];
    assert_eq!(header.emit(&mut out), 40);
    assert_eq!(out, packet[..40]);
    assert_eq!(usize::from(header.payload_len), payload.len());
    let Ok(upper) = walk_extensions(header.next_header, payload) else { return };
    assert_eq!(upper.payload, &payload[upper.offset..]);
    if let Some(fragment) = upper.fragment {
        assert!(fragment.offset != 0 || fragment.more);
        assert!(usize::from(fragment.offset) + upper.payload.len() <= usize::from(u16::MAX), "within a packet");
        return;
    }
    let pseudo = pseudo_v6(header.src, header.dst, upper.protocol, upper.payload.len() as u32);
    match upper.protocol {
        protocol::TCP => check_tcp(upper.payload, pseudo),
        protocol::UDP => check_udp(upper.payload, pseudo, false),
        protocol::ICMPV6 => check_icmpv6(upper.payload, &header),
        _ => {}
    }
}

fn check_tcp(segment: &[u8], pseudo: Sum) {
    let trusted = TcpHeader::parse_trusted(segment, LinkVouched::new());
    let Ok((header, payload, _)) = TcpHeader::parse(segment, pseudo) else { return };
    let (same, _, _) = trusted.expect("what is right is also right without its checksum");
    assert_eq!(same, header);
    let mut again = vec![0; 60];
    let len = header.emit(&mut again);
    again.truncate(len);
    // The pseudo-header's length changes with the options that are written.
    let base = pseudo.subtract(length_sum(segment.len())).add(length_sum(len + payload.len()));
    wire::tcp::set_checksum(&mut again, base.add(sum(payload)));
    again.extend_from_slice(payload);
    let (parsed, rest, _) = TcpHeader::parse(&again, base).expect("our own segment");
    assert_eq!(rest, payload);
    assert_eq!((parsed.seq, parsed.ack, parsed.flags), (header.seq, header.ack, header.flags));
    assert_eq!((parsed.window, parsed.urgent), (header.window, header.urgent));
    assert_eq!(parsed.options.timestamps, header.options.timestamps);
}

/// What a length adds to a pseudo-header.
fn length_sum(len: usize) -> Sum {
    Sum::ZERO.add_u32(len as u32)
}

fn check_udp(datagram: &[u8], pseudo: Sum, v4: bool) {
    let pseudo = if v4 && !udp::has_checksum(datagram) { None } else { Some(pseudo) };
    let Ok((header, payload, _)) = UdpHeader::parse(datagram, pseudo) else { return };
    assert_eq!(payload, &datagram[8..]);
    if let Some(pseudo) = pseudo {
        let mut out = [0; 8];
        assert_eq!(header.emit(&mut out, payload.len(), sum(payload), pseudo), 8);
        let again = [&out[..], payload].concat();
        let (parsed, rest, _) = UdpHeader::parse(&again, Some(pseudo)).expect("our own datagram");
        assert_eq!((parsed, rest), (header, payload));
    }
}

fn check_icmpv4(message: &[u8]) {
    let Ok(parsed) = Icmpv4::parse(message) else { return };
    let mut out = vec![0; message.len()];
    let len = parsed.emit(&mut out);
    assert_eq!(len, parsed.emit_len());
    if message.len() <= icmpv4::MAX_ORIGINAL + icmpv4::HEADER_LEN {
        assert_eq!(Icmpv4::parse(&out[..len]), Ok(parsed));
    }
    if let Some(original) = parsed.original() {
        assert_eq!(Icmpv4::parse(&out[..len]).expect("our own message").original(), Some(original));
    }
}

fn check_icmpv6(message: &[u8], header: &Ipv6Header) {
    let (src, dst, hops) = (header.src, header.dst, header.hop_limit);
    let Ok(parsed) = Icmpv6::parse(message, src, dst, hops) else { return };
    // Unknown options of neighbour discovery are not written again, so it is
    // never longer.
    let mut out = vec![0; message.len() + 64];
    let len = parsed.emit(src, dst, &mut out);
    let again = Icmpv6::parse(&out[..len], src, dst, hops).expect("our own message");
    if message.len() <= icmpv6::MAX_ORIGINAL + icmpv6::HEADER_LEN {
        assert_eq!(again, parsed);
    }
    assert_eq!(again.original(), parsed.original());
}

fn seeds() -> Vec<Vec<u8>> {
    let ends = Ends::V4;
    let six = Ends::V6;
    let segment = |flags: Flags, payload: &[u8]| packets::tcp(&ends, &packets::header(flags), payload);
    let mut seeds = vec![
        packets::arp(Operation::Request),
        packets::arp(Operation::Reply),
        segment(Flags::SYN, b""),
        segment(Flags::ACK, b"GET / HTTP/1.1\r\n\r\n"),
        packets::tcp(&six, &packets::header(Flags::FIN | Flags::ACK), b"x"),
        packets::udp(&ends, b"datagram"),
        packets::udp(&six, b"datagram"),
    ];
    let mut tagged = segment(Flags::RST, b"");
    tagged.splice(12..12, [0x81, 0, 0x20, 7]);
    seeds.push(tagged);
    let quoted = &segment(Flags::ACK, b"12345678")[14..];
    for message in [
        Icmpv4::EchoRequest { identifier: 1, sequence: 2, data: b"ping" },
        Icmpv4::EchoReply { identifier: 1, sequence: 2, data: b"ping" },
        Icmpv4::DestinationUnreachable { code: 3, original: quoted },
        Icmpv4::FragmentationNeeded { mtu: 1400, original: quoted },
        Icmpv4::TimeExceeded { code: 0, original: quoted },
        Icmpv4::ParameterProblem { code: 0, pointer: 20, original: quoted },
    ] {
        seeds.push(packets::icmpv4(&message));
    }
    let quoted = &packets::tcp(&six, &packets::header(Flags::ACK), b"12345678")[14..];
    let target = packets::OUR_V6;
    let link_layer = Some(packets::THEIR_MAC);
    let prefix =
        PrefixInformation { prefix: target, len: 64, on_link: true, autonomous: true, valid: 600, preferred: 300 };
    let mut advertisement =
        RouterAdvertisement { router_lifetime: 1800, link_layer, mtu: Some(1500), ..Default::default() };
    advertisement.prefixes[0] = Some(prefix);
    for message in [
        Icmpv6::EchoRequest { identifier: 1, sequence: 2, data: b"ping" },
        Icmpv6::PacketTooBig { mtu: 1280, original: quoted },
        Icmpv6::DestinationUnreachable { code: 4, original: quoted },
        Icmpv6::ParameterProblem { code: 1, pointer: 6, original: quoted },
        Icmpv6::NeighborSolicitation { target, link_layer },
        Icmpv6::NeighborAdvertisement(NeighborAdvertisement {
            target,
            router: false,
            solicited: true,
            replace: true,
            link_layer,
        }),
        Icmpv6::RouterAdvertisement(advertisement),
        Icmpv6::RouterSolicitation { link_layer },
    ] {
        seeds.push(packets::icmpv6(&message));
    }
    seeds.push(packets::extended());
    seeds.push(packets::fragment());
    seeds
}
