//! Packets whose pieces stay out, and what their senders are told.

use super::Sent;
use crate::ip::REASSEMBLY_TIMEOUT as TIMEOUT;
use crate::{Address, Arrived, Config, LinkOffload, Seeds, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::{Icmpv4, time_exceeded as v4};
use wire::icmpv6::{Icmpv6, MAX_ORIGINAL, parameter_problem, time_exceeded as v6};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::{Mac, Time, protocol};

const US: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEERS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PEERS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn stack() -> Stack {
    with(config())
}

fn with(config: Config) -> Stack {
    Stack::new(config, LinkOffload::default(), &Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] }, Time::ZERO)
}

fn config() -> Config {
    let mut config = Config::new(US, 1500);
    config.addresses =
        vec![Address { ip: IpAddr::V4(OURS), prefix_len: 24 }, Address { ip: IpAddr::V6(OURS_V6), prefix_len: 64 }];
    config.errors_per_source = 8;
    config
}

fn frame(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; wire::ethernet::HEADER_LEN];
    EthernetHeader { dst: US, src: PEER, vlan: None, ether_type }.emit(&mut frame);
    [frame, packet.to_vec()].concat()
}

/// The packet of a piece of an IPv4 packet.
fn piece_v4(src: Ipv4Addr, protocol: u8, identification: u16, offset: u16, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Header {
        src,
        dst: OURS,
        protocol,
        ttl: 64,
        dscp_ecn: 0,
        identification,
        dont_fragment: false,
        more_fragments: true,
        fragment_offset: offset,
        header_len: ipv4::HEADER_LEN as u8,
        payload_len: payload.len() as u16,
    };
    let mut packet = vec![0; ipv4::HEADER_LEN];
    header.emit(&mut packet);
    [packet, payload.to_vec()].concat()
}

/// The same for IPv6, behind an empty destination options header.
fn piece_v6(next_header: u8, offset: u16, payload: &[u8]) -> Vec<u8> {
    const OPTIONS: [u8; 8] = [44, 0, 1, 4, 0, 0, 0, 0];
    let [high, low] = (offset | 1).to_be_bytes();
    let fragment = [next_header, 0, high, low, 0, 0, 0, 7];
    let header = Ipv6Header {
        src: PEERS_V6,
        dst: OURS_V6,
        next_header: 60,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        payload_len: (OPTIONS.len() + fragment.len() + payload.len()) as u16,
    };
    let mut packet = vec![0; ipv6::HEADER_LEN];
    header.emit(&mut packet);
    [&packet[..], &OPTIONS, &fragment, payload].concat()
}

/// Gives the pieces, and then no more for as long as they are waited for.
/// What is sent then, and not a moment before.
fn wait_for_the_rest(stack: &mut Stack, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out = Sent::default();
    for frame in frames {
        assert!(matches!(stack.on_frame(frame, false, &mut out), Arrived::Nothing));
    }
    let end = Time::ZERO + TIMEOUT;
    assert_eq!(stack.next_deadline(), Some(end));
    stack.begin_turn(Time::from_nanos(end.as_nanos() - 1));
    stack.on_timers(&mut out);
    assert!(out.frames.is_empty());
    stack.begin_turn(end);
    stack.on_timers(&mut out);
    assert_eq!(stack.next_deadline(), None);
    out.frames
}

/// RFC 792, RFC 1122 section 3.3.2: the header and eight bytes are quoted.
#[test]
fn an_ipv4_packet_whose_rest_stays_out() {
    let first = piece_v4(PEERS, protocol::UDP, 1, 0, &[7; 64]);
    let sent = wait_for_the_rest(&mut stack(), &[frame(ETHER_IPV4, &first)]);
    let [sent] = &sent[..] else { panic!("{sent:?}") };
    let (ethernet, packet) = EthernetHeader::parse(sent).unwrap();
    let (ip, message) = Ipv4Header::parse(packet).unwrap();
    assert_eq!((ethernet.dst, ip.src, ip.dst, ip.protocol), (PEER, OURS, PEERS, protocol::ICMP));
    let quoted = &first[..ipv4::HEADER_LEN + 8];
    assert_eq!(Icmpv4::parse(message), Ok(Icmpv4::TimeExceeded { code: v4::REASSEMBLY, original: quoted }));
}

/// RFC 8200 section 4.5, RFC 4443 section 3.3: as much is quoted as fits into
/// a packet of the least MTU.
#[test]
fn an_ipv6_packet_whose_rest_stays_out() {
    let first = piece_v6(protocol::UDP, 0, &[7; 1_400]);
    let sent = wait_for_the_rest(&mut stack(), &[frame(ETHER_IPV6, &first)]);
    let [sent] = &sent[..] else { panic!("{sent:?}") };
    let (ethernet, packet) = EthernetHeader::parse(sent).unwrap();
    let (ip, message) = Ipv6Header::parse(packet).unwrap();
    assert_eq!((ethernet.dst, ip.src, ip.dst, packet.len()), (PEER, OURS_V6, PEERS_V6, ipv6::MIN_MTU));
    let parsed = Icmpv6::parse(message, ip.src, ip.dst, ip.hop_limit);
    let expected = Icmpv6::TimeExceeded { code: v6::REASSEMBLY, original: &first[..MAX_ORIGINAL] };
    assert_eq!(parsed, Ok(expected));
}

/// RFC 1122 section 3.2.2 and 3.3.2, RFC 4443 section 2.4(e): nobody is told
/// of a packet without its first piece, of an error, or from no host.
#[test]
fn not_every_sender_is_told() {
    let later = frame(ETHER_IPV4, &piece_v4(PEERS, protocol::UDP, 1, 64, &[7; 64]));
    let error = frame(ETHER_IPV4, &piece_v4(PEERS, protocol::ICMP, 2, 0, &[3; 64]));
    let broadcast = frame(ETHER_IPV4, &piece_v4(Ipv4Addr::new(10, 0, 0, 255), protocol::UDP, 3, 0, &[7; 64]));
    let error_v6 = frame(ETHER_IPV6, &piece_v6(protocol::ICMPV6, 0, &[1; 64]));
    let frames = [later, error, broadcast, error_v6];
    let mut stack = stack();
    assert_eq!(wait_for_the_rest(&mut stack, &frames), Vec::<Vec<u8>>::new());
    let timed_out = stack.fragment_counters().find(|(name, _)| *name == "timed_out").unwrap();
    assert_eq!(timed_out.1, frames.len() as u64);
    // A question is none.
    let asked = frame(ETHER_IPV4, &piece_v4(PEERS, protocol::ICMP, 2, 0, &[8; 64]));
    let mut stack = self::stack();
    assert_eq!(wait_for_the_rest(&mut stack, &[asked]).len(), 1);
}

/// They have the limit of all errors to their source; and a piece that comes late also finds
/// those before it given up.
#[test]
fn senders_are_told_at_a_limited_rate() {
    let mut stack = stack();
    let frames: Vec<_> =
        (0..16).map(|id| frame(ETHER_IPV4, &piece_v4(PEERS, protocol::UDP, id, 0, &[7; 64]))).collect();
    let told = wait_for_the_rest(&mut stack, &frames).len();
    assert!((4..=12).contains(&told), "{told} in a second");
    assert_eq!(stack.counters().errors_limited, 16 - told as u64);
    let mut out = Sent::default();
    assert!(matches!(stack.on_frame(&frames[0], false, &mut out), Arrived::Nothing));
    stack.begin_turn(Time::ZERO + TIMEOUT * 2 + Duration::from_secs(1));
    assert!(matches!(stack.on_frame(&frames[1], false, &mut out), Arrived::Nothing));
    assert_eq!(out.frames.len(), 1);
}

/// RFC 8200 section 4.5, RFC 7112 section 5: a first piece without all headers is
/// dropped, and its sender told, but not by each of several silos; what follows
/// of it makes no packet.
#[test]
fn a_first_piece_without_all_headers() {
    for steered in [false, true] {
        let mut config = config();
        config.steered = steered;
        let mut stack = with(config);
        let mut out = Sent::default();
        let first = piece_v6(protocol::TCP, 0, &[7; 16]);
        assert!(matches!(stack.on_frame(&frame(ETHER_IPV6, &first), false, &mut out), Arrived::Nothing));
        assert_eq!((stack.counters().malformed, stack.next_deadline()), (1, None));
        if steered {
            assert!(out.frames.is_empty());
            continue;
        }
        let [sent] = &out.frames[..] else { panic!("{:?}", out.frames) };
        let (ip, message) = Ipv6Header::parse(EthernetHeader::parse(sent).unwrap().1).unwrap();
        let code = parameter_problem::FIRST_FRAGMENT;
        let expected = Icmpv6::ParameterProblem { code, pointer: 0, original: &first };
        assert_eq!(Icmpv6::parse(message, ip.src, ip.dst, ip.hop_limit), Ok(expected));
        // One with all of them waits for the rest.
        stack.on_frame(&frame(ETHER_IPV6, &piece_v6(protocol::TCP, 0, &[7; 24])), false, &mut out);
        assert_eq!((out.frames.len(), stack.next_deadline()), (1, Some(Time::ZERO + TIMEOUT)));
    }
}
