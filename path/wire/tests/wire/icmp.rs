use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{self, Icmpv6, NEIGHBOR_HOP_LIMIT, NeighborAdvertisement, PrefixInformation, RouterAdvertisement};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::{Flags, SeqNum, TcpHeader, TcpOptions};
use wire::{Mac, Original, WireError, checksum, ipv6, protocol};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn tcp_header() -> TcpHeader {
    TcpHeader {
        src_port: 80,
        dst_port: 40_000,
        seq: SeqNum(0xdead_beef),
        ack: SeqNum(1),
        flags: Flags::ACK,
        window: 1000,
        urgent: 0,
        options: TcpOptions::NONE,
    }
}

fn v4_segment() -> Vec<u8> {
    let mut packet = vec![0; 40];
    let header = Ipv4Header {
        src: Ipv4Addr::new(10, 0, 0, 2),
        dst: Ipv4Addr::new(203, 0, 113, 9),
        protocol: protocol::TCP,
        ttl: 1,
        dscp_ecn: 0,
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: 20,
        payload_len: 20,
    };
    header.emit(&mut packet);
    tcp_header().emit(&mut packet[20..]);
    packet
}

fn v6_segment() -> Vec<u8> {
    let mut packet = vec![0; 60];
    let header = Ipv6Header {
        src: "2001:db8::2".parse().unwrap(),
        dst: "2001:db8:1::9".parse().unwrap(),
        next_header: protocol::TCP,
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
        payload_len: 20,
    };
    header.emit(&mut packet);
    tcp_header().emit(&mut packet[40..]);
    packet
}

fn expected(src: IpAddr, dst: IpAddr) -> Option<Original> {
    let seq = SeqNum(0xdead_beef);
    Some(Original { src, dst, protocol: protocol::TCP, src_port: 80, dst_port: 40_000, seq })
}

/// RFC 1191 section 4, and RFC 792: a header and eight bytes come back.
#[test]
fn fragmentation_needed_names_the_segment() {
    let segment = v4_segment();
    let error = Icmpv4::FragmentationNeeded { mtu: 1280, original: &segment[..28] };
    let mut bytes = [0; 64];
    let len = error.emit(&mut bytes);
    assert_eq!(bytes[..2], [3, 4]);
    assert_eq!(bytes[4..8], [0, 0, 5, 0]);
    let parsed = Icmpv4::parse(&bytes[..len]).unwrap();
    assert_eq!(parsed, error);
    let original = expected([10, 0, 0, 2].into(), [203, 0, 113, 9].into());
    assert_eq!(parsed.original(), original);

    // Too little of it.
    assert_eq!(Icmpv4::TimeExceeded { code: 0, original: &segment[..27] }.original(), None);
    // A later fragment has no ports.
    let mut fragment = segment;
    fragment[7] = 1;
    assert_eq!(Original::parse_v4(&fragment), None);
}

#[test]
fn packet_too_big_names_the_segment() {
    let segment = v6_segment();
    let (src, dst): (Ipv6Addr, Ipv6Addr) = ("2001:db8::ffff".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let error = Icmpv6::PacketTooBig { mtu: 1400, original: &segment };
    let mut bytes = [0; 128];
    let len = error.emit(src, dst, &mut bytes);
    let parsed = Icmpv6::parse(&bytes[..len], src, dst, 60).unwrap();
    assert_eq!(parsed, error);
    assert_eq!(parsed.original(), expected("2001:db8::2".parse().unwrap(), "2001:db8:1::9".parse().unwrap()));
    // RFC 8201 section 4: every link carries 1,280 bytes.
    for (mtu, believed) in [(1_280, true), (1_279, false), (1, false), (0, false)] {
        let mut bytes = [0; 128];
        let len = Icmpv6::PacketTooBig { mtu, original: &segment }.emit(src, dst, &mut bytes);
        assert_eq!(Icmpv6::parse(&bytes[..len], src, dst, 60).is_ok(), believed, "{mtu}");
    }
    // The addresses are part of the checksum (RFC 4443 section 2.3).
    assert_eq!(Icmpv6::parse(&bytes[..len], src, src, 60), Err(WireError::BadChecksum));
}

/// RFC 1812 section 4.3.2.3 and RFC 4443 section 2.4(c).
#[test]
fn errors_stay_within_what_every_host_takes() {
    let long = [7; 3000];
    let mut bytes = [0; 3000];
    let error = Icmpv4::DestinationUnreachable { code: icmpv4::unreachable::PORT, original: &long };
    assert_eq!(20 + error.emit(&mut bytes), 576);
    let src = Ipv6Addr::LOCALHOST;
    let error = Icmpv6::DestinationUnreachable { code: icmpv6::unreachable::PORT, original: &long };
    assert_eq!(40 + error.emit(src, src, &mut bytes), 1280);
}

#[test]
fn icmpv4_refusals() {
    let mut bytes = [0; 12];
    Icmpv4::EchoRequest { identifier: 1, sequence: 2, data: b"ping" }.emit(&mut bytes);
    assert_eq!(Icmpv4::parse(&bytes[..7]), Err(WireError::Truncated));
    bytes[9] ^= 1;
    assert_eq!(Icmpv4::parse(&bytes), Err(WireError::BadChecksum));
    // Redirect (5) is not followed (RFC 1122 section 3.3.1.2 lets a host that
    // routes by configuration ignore it).
    let mut redirect = [5, 0, 0, 0, 0, 0, 0, 0];
    let sum = checksum::sum(&redirect).finish();
    redirect[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(Icmpv4::parse(&redirect), Err(WireError::Unsupported));
}

fn link_local(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
}

/// Emits, changes a byte, puts the checksum right and parses.
fn changed(message: &Icmpv6<'_>, src: Ipv6Addr, dst: Ipv6Addr, change: impl Fn(&mut Vec<u8>)) -> Result<(), WireError> {
    let mut bytes = vec![0; 256];
    let len = message.emit(src, dst, &mut bytes);
    bytes.truncate(len);
    change(&mut bytes);
    bytes[2..4].fill(0);
    let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, bytes.len() as u32);
    let checksum = pseudo.add(checksum::sum(&bytes)).finish();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    Icmpv6::parse(&bytes, src, dst, NEIGHBOR_HOP_LIMIT).map(|_| ())
}

/// RFC 4861 section 7.1.1.
#[test]
fn neighbor_solicitation_is_validated() {
    let (src, target) = (link_local(1), link_local(2));
    let group = ipv6::solicited_node(target);
    let asked = Icmpv6::NeighborSolicitation { target, link_layer: Some(MAC) };
    assert_eq!(changed(&asked, src, group, |_| {}), Ok(()));
    assert_eq!(changed(&asked, src, group, |bytes| bytes[1] = 1), Err(WireError::Unsupported));
    assert_eq!(changed(&asked, src, group, |bytes| bytes[25] = 0), Err(WireError::BadOption));
    assert_eq!(changed(&asked, src, group, |bytes| bytes[25] = 2), Err(WireError::Truncated));
    assert_eq!(changed(&asked, src, group, |bytes| bytes[8] = 0xff), Err(WireError::BadAddress));
    assert_eq!(changed(&asked, src, group, |bytes| bytes.truncate(23)), Err(WireError::Truncated));
    // An option that nobody knows is passed over.
    assert_eq!(changed(&asked, src, group, |bytes| bytes.extend([200, 1, 0, 0, 0, 0, 0, 0])), Ok(()));

    let mut bytes = [0; 64];
    let len = asked.emit(src, group, &mut bytes);
    assert_eq!(Icmpv6::parse(&bytes[..len], src, group, 254), Err(WireError::BadHopLimit));

    // A probe for a duplicate address (RFC 4862 section 5.4.2).
    let probe = Icmpv6::NeighborSolicitation { target, link_layer: None };
    let nowhere = Ipv6Addr::UNSPECIFIED;
    assert_eq!(changed(&probe, nowhere, group, |_| {}), Ok(()));
    assert_eq!(changed(&probe, nowhere, target, |_| {}), Err(WireError::BadAddress));
    assert_eq!(changed(&asked, nowhere, group, |_| {}), Err(WireError::BadAddress));
}

/// RFC 4861 section 7.1.2.
#[test]
fn neighbor_advertisement_is_validated() {
    let target = link_local(2);
    let answer = Icmpv6::NeighborAdvertisement(NeighborAdvertisement {
        target,
        router: false,
        solicited: true,
        replace: true,
        link_layer: Some(MAC),
    });
    assert_eq!(changed(&answer, target, link_local(1), |_| {}), Ok(()));
    let all_nodes = "ff02::1".parse().unwrap();
    assert_eq!(changed(&answer, target, all_nodes, |_| {}), Err(WireError::BadAddress));
    // Without the solicited flag it may go to everybody.
    assert_eq!(changed(&answer, target, all_nodes, |bytes| bytes[4] = 0x20), Ok(()));
}

/// RFC 4861 sections 6.1.1 and 6.1.2.
#[test]
fn router_messages_are_validated() {
    let all_routers = "ff02::2".parse().unwrap();
    let ask = Icmpv6::RouterSolicitation { link_layer: Some(MAC) };
    assert_eq!(changed(&ask, link_local(1), all_routers, |_| {}), Ok(()));
    assert_eq!(changed(&ask, Ipv6Addr::UNSPECIFIED, all_routers, |_| {}), Err(WireError::BadAddress));

    let all_nodes = "ff02::1".parse().unwrap();
    let advertisement =
        Icmpv6::RouterAdvertisement(RouterAdvertisement { router_lifetime: 1800, ..Default::default() });
    assert_eq!(changed(&advertisement, link_local(1), all_nodes, |_| {}), Ok(()));
    let global = "2001:db8::1".parse().unwrap();
    assert_eq!(changed(&advertisement, global, all_nodes, |_| {}), Err(WireError::BadAddress));
    assert_eq!(
        changed(&advertisement, link_local(1), all_nodes, |bytes| bytes.truncate(15)),
        Err(WireError::Truncated)
    );
}

#[test]
fn router_advertisement_options_are_read_with_care() {
    let prefix = |len| PrefixInformation {
        prefix: "2001:db8::".parse().unwrap(),
        len,
        on_link: true,
        autonomous: true,
        valid: 86_400,
        preferred: 14_400,
    };
    let advertisement = RouterAdvertisement {
        mtu: Some(1279),
        prefixes: [Some(prefix(129)), Some(prefix(64)), None, None],
        ..RouterAdvertisement::default()
    };
    let (src, dst) = (link_local(1), "ff02::1".parse().unwrap());
    let mut bytes = [0; 256];
    let len = Icmpv6::RouterAdvertisement(advertisement).emit(src, dst, &mut bytes);
    let parsed = Icmpv6::parse(&bytes[..len], src, dst, NEIGHBOR_HOP_LIMIT).unwrap();
    // An MTU below the smallest (RFC 4861 section 6.3.4) and a prefix longer
    // than an address are passed over.
    let kept = RouterAdvertisement { mtu: None, prefixes: [Some(prefix(64)), None, None, None], ..advertisement };
    assert_eq!(parsed, Icmpv6::RouterAdvertisement(kept));
}
