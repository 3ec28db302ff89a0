//! Values that a well-behaved host may send.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::array::uniform4;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_VLAN, EthernetHeader};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::{Icmpv6, NeighborAdvertisement, PrefixInformation, RouterAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::udp::UdpHeader;
use wire::{Mac, ipv6};

pub fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

/// A hardware address that one station can have.
pub fn station() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(|mut octets| {
        octets[0] = octets[0] & !1 | 2;
        Mac(octets)
    })
}

pub fn v6_unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits >> 3 | 1 << 125))
}

pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

pub fn ethernet() -> impl Strategy<Value = EthernetHeader> {
    let ether_type = any::<u16>().prop_filter("a second tag is payload", |kind| *kind != ETHER_VLAN);
    (mac(), mac(), option::of(any::<u16>()), ether_type).prop_map(|(dst, src, vlan, ether_type)| EthernetHeader {
        dst,
        src,
        vlan,
        ether_type,
    })
}

pub fn arp() -> impl Strategy<Value = ArpPacket> {
    (any::<bool>(), station(), any::<Ipv4Addr>(), mac(), any::<Ipv4Addr>()).prop_map(
        |(request, sender_mac, sender_ip, target_mac, target_ip)| {
            let operation = if request { Operation::Request } else { Operation::Reply };
            ArpPacket { operation, sender_mac, sender_ip, target_mac, target_ip }
        },
    )
}

pub fn ipv4(payload_len: u16) -> impl Strategy<Value = Ipv4Header> {
    let addresses = (any::<Ipv4Addr>(), any::<Ipv4Addr>());
    let bytes = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>());
    let fragment = (any::<bool>(), any::<bool>(), 0..=(u16::MAX - payload_len) >> 3);
    (addresses, bytes, fragment).prop_map(move |((src, dst), bytes, fragment)| {
        let (protocol, ttl, dscp_ecn, identification) = bytes;
        let (dont_fragment, more_fragments, eighths) = fragment;
        Ipv4Header {
            src,
            dst,
            protocol,
            ttl,
            dscp_ecn,
            identification,
            dont_fragment,
            more_fragments,
            fragment_offset: eighths << 3,
            header_len: 20,
            payload_len,
        }
    })
}

pub fn ipv6(payload_len: u16) -> impl Strategy<Value = Ipv6Header> {
    (v6_unicast(), any::<Ipv6Addr>(), any::<[u8; 3]>(), 0..1_u32 << 20).prop_map(
        move |(src, dst, [next_header, hop_limit, traffic_class], flow_label)| Ipv6Header {
            src,
            dst,
            next_header,
            hop_limit,
            traffic_class,
            flow_label,
            payload_len,
        },
    )
}

pub fn udp() -> impl Strategy<Value = UdpHeader> {
    (any::<u16>(), 1_u16..).prop_map(|(src_port, dst_port)| UdpHeader { src_port, dst_port })
}

/// Options as a stack sends them: those of a SYN, or selective
/// acknowledgements; timestamps with either.
pub fn tcp_options() -> impl Strategy<Value = TcpOptions> {
    let timestamps = || option::of((any::<u32>(), any::<u32>()).prop_map(|(value, echo)| Timestamps { value, echo }));
    let syn = (option::of(any::<u16>()), option::of(0_u8..=14), any::<bool>(), timestamps()).prop_map(
        |(mss, window_scale, sack_permitted, timestamps)| TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack: SackBlocks::EMPTY,
        },
    );
    let later = (timestamps(), vec((any::<u32>(), any::<u32>()), 0..=4)).prop_map(|(timestamps, blocks)| {
        let mut sack = SackBlocks::EMPTY;
        // Three blocks fit beside timestamps (RFC 2018 section 3).
        let fitting = if timestamps.is_some() { 3 } else { 4 };
        for (left, right) in blocks.into_iter().take(fitting) {
            assert!(sack.push(SeqNum(left), SeqNum(right)));
        }
        TcpOptions { timestamps, sack, ..TcpOptions::NONE }
    });
    prop_oneof![syn, later]
}

pub fn tcp() -> impl Strategy<Value = TcpHeader> {
    let numbers = (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>());
    let control = (any::<u8>(), any::<u16>(), any::<u16>());
    (numbers, control, tcp_options()).prop_map(|((src_port, dst_port, seq, ack), (flags, window, urgent), options)| {
        TcpHeader {
            src_port,
            dst_port,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: Flags(flags),
            window,
            urgent,
            options,
        }
    })
}

/// An ICMP message about, or with, `data`.
pub fn icmpv4(data: &[u8]) -> impl Strategy<Value = Icmpv4<'_>> {
    let pair = || (any::<u16>(), any::<u16>());
    let code = || any::<u8>().prop_filter("a variant of its own", |code| *code != 4);
    prop_oneof![
        pair().prop_map(move |(identifier, sequence)| Icmpv4::EchoRequest { identifier, sequence, data }),
        pair().prop_map(move |(identifier, sequence)| Icmpv4::EchoReply { identifier, sequence, data }),
        code().prop_map(move |code| Icmpv4::DestinationUnreachable { code, original: data }),
        any::<u16>().prop_map(move |mtu| Icmpv4::FragmentationNeeded { mtu, original: data }),
        any::<u8>().prop_map(move |code| Icmpv4::TimeExceeded { code, original: data }),
        any::<[u8; 2]>().prop_map(move |[code, pointer]| Icmpv4::ParameterProblem { code, pointer, original: data }),
    ]
}

fn prefix() -> impl Strategy<Value = PrefixInformation> {
    (any::<Ipv6Addr>(), 0..=128_u8, any::<[bool; 2]>(), any::<[u32; 2]>()).prop_map(
        |(prefix, len, [on_link, autonomous], [valid, preferred])| PrefixInformation {
            prefix,
            len,
            on_link,
            autonomous,
            valid,
            preferred,
        },
    )
}

fn router_advertisement() -> impl Strategy<Value = RouterAdvertisement> {
    let fixed = (any::<u8>(), any::<[bool; 2]>(), any::<u16>(), any::<[u32; 2]>());
    let options = (option::of(station()), option::of(1280_u32..), uniform4(prefix()), 0..=4_usize);
    (fixed, options).prop_map(
        |((hop_limit, [managed, other], router_lifetime, times), (link_layer, mtu, prefixes, count))| {
            let mut kept = prefixes.map(Some);
            kept[count..].fill(None);
            RouterAdvertisement {
                hop_limit,
                managed,
                other,
                router_lifetime,
                reachable_time: times[0],
                retransmit_timer: times[1],
                link_layer,
                mtu,
                prefixes: kept,
            }
        },
    )
}

/// An ICMPv6 message about, or with, `data`, and the addresses between which
/// it may be sent.
pub fn icmpv6(data: &[u8]) -> impl Strategy<Value = (Icmpv6<'_>, Ipv6Addr, Ipv6Addr)> {
    let pair = || (any::<u16>(), any::<u16>());
    let message = prop_oneof![
        any::<u8>().prop_map(move |code| Icmpv6::DestinationUnreachable { code, original: data }),
        (1_280..=u32::MAX).prop_map(move |mtu| Icmpv6::PacketTooBig { mtu, original: data }),
        any::<u8>().prop_map(move |code| Icmpv6::TimeExceeded { code, original: data }),
        (any::<u8>(), any::<u32>()).prop_map(move |(code, pointer)| Icmpv6::ParameterProblem {
            code,
            pointer,
            original: data
        }),
        pair().prop_map(move |(identifier, sequence)| Icmpv6::EchoRequest { identifier, sequence, data }),
        pair().prop_map(move |(identifier, sequence)| Icmpv6::EchoReply { identifier, sequence, data }),
        option::of(station()).prop_map(|link_layer| Icmpv6::RouterSolicitation { link_layer }),
        router_advertisement().prop_map(Icmpv6::RouterAdvertisement),
        (v6_unicast(), option::of(station()))
            .prop_map(|(target, link_layer)| Icmpv6::NeighborSolicitation { target, link_layer }),
        (v6_unicast(), any::<[bool; 3]>(), option::of(station())).prop_map(
            |(target, [router, solicited, replace], link_layer)| {
                Icmpv6::NeighborAdvertisement(NeighborAdvertisement { target, router, solicited, replace, link_layer })
            }
        ),
    ];
    (message, v6_unicast(), any::<u64>()).prop_map(|(message, dst, low)| {
        // Routers advertise from link-local addresses (RFC 4861 section 6.1.2).
        let src = Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(low));
        let dst = match message {
            Icmpv6::NeighborSolicitation { target, .. } => ipv6::solicited_node(target),
            _ => dst,
        };
        (message, src, dst)
    })
}

/// Two addresses of one family.
pub fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(src, dst)| (src.into(), dst.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(src, dst)| (src.into(), dst.into())),
    ]
}

/// The pseudo-header's sum for `len` bytes.
pub fn pseudo(addresses: (IpAddr, IpAddr), protocol: u8, len: usize) -> wire::Sum {
    match addresses {
        (IpAddr::V4(src), IpAddr::V4(dst)) => wire::checksum::pseudo_v4(src, dst, protocol, len as u16),
        (IpAddr::V6(src), IpAddr::V6(dst)) => wire::checksum::pseudo_v6(src, dst, protocol, len as u32),
        _ => unreachable!("addresses of one family"),
    }
}
