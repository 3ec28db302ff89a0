//! Addresses announced, asked for, and defended.

use super::Sent;
use crate::ip::{ALL_NODES, PRESENCE_PER_TURN as PER_TURN};
use crate::{Address, Config, Conflict, Detection, LinkOffload, Seeds, Stack};
use app::Net;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, ETHER_IPV6, EthernetHeader};
use wire::icmpv6::{self, Icmpv6, NeighborAdvertisement};
use wire::ipv6::{self, Ipv6Header};
use wire::{Mac, Time, protocol};

const US: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

/// What was said of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Announced(IpAddr),
    AskedFor(IpAddr),
    Answered(IpAddr),
}

fn said(out: &mut Sent) -> Vec<Said> {
    out.frames
        .drain(..)
        .map(|frame| {
            let (ethernet, packet) = EthernetHeader::parse(&frame).unwrap();
            if ethernet.ether_type == ETHER_ARP {
                let arp = ArpPacket::parse(packet).unwrap();
                return match arp.operation {
                    Operation::Reply => Said::Answered(arp.sender_ip.into()),
                    Operation::Request if arp.sender_ip.is_unspecified() => Said::AskedFor(arp.target_ip.into()),
                    Operation::Request => {
                        assert_eq!((arp.sender_ip, ethernet.dst), (arp.target_ip, Mac::BROADCAST));
                        Said::Announced(arp.sender_ip.into())
                    }
                };
            }
            let (ip, message) = Ipv6Header::parse(packet).unwrap();
            match Icmpv6::parse(message, ip.src, ip.dst, ip.hop_limit).unwrap() {
                Icmpv6::NeighborSolicitation { target, link_layer: None } => {
                    assert_eq!((ip.src, ip.dst), (Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(target)));
                    Said::AskedFor(target.into())
                }
                Icmpv6::NeighborAdvertisement(told) if told.replace && !told.solicited && ip.dst == ALL_NODES => {
                    Said::Announced(told.target.into())
                }
                Icmpv6::NeighborAdvertisement(told) => Said::Answered(told.target.into()),
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

fn both(said: fn(IpAddr) -> Said) -> Vec<Said> {
    vec![said(OURS.into()), said(OURS_V6.into())]
}

fn stack(detection: Detection) -> (Stack, Sent) {
    let mut config = Config::new(US, 1500);
    config.addresses =
        vec![Address { ip: OURS.into(), prefix_len: 24 }, Address { ip: OURS_V6.into(), prefix_len: 64 }];
    config.detection = detection;
    let seeds = Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] };
    (Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO), Sent::default())
}

/// Lets time pass by milliseconds; what was said, and when.
fn pass(stack: &mut Stack, out: &mut Sent, millis: u64) -> Vec<(u64, Said)> {
    let start = stack.now().as_nanos() / 1_000_000;
    let mut all = Vec::new();
    for ms in start..start + millis {
        stack.begin_turn(Time::from_millis(ms));
        stack.on_timers(out);
        stack.poll_transmit(out);
        all.extend(said(out).into_iter().map(|said| (ms - start, said)));
    }
    stack.begin_turn(Time::from_millis(start + millis));
    all
}

fn arp(operation: Operation, mac: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 14 + 28];
    let at = EthernetHeader { dst: Mac::BROADCAST, src: mac, vlan: None, ether_type: ETHER_ARP }.emit(&mut frame);
    ArpPacket { operation, sender_mac: mac, sender_ip, target_mac: US, target_ip }.emit(&mut frame[at..]);
    frame
}

fn neighbour_discovery(src: Ipv6Addr, dst: Ipv6Addr, message: &Icmpv6<'_>) -> Vec<u8> {
    let mut frame = vec![0; 200];
    let ethernet = EthernetHeader { dst: ipv6::multicast_mac(dst), src: OTHER, vlan: None, ether_type: ETHER_IPV6 };
    let at = ethernet.emit(&mut frame);
    let len = message.emit(src, dst, &mut frame[at + ipv6::HEADER_LEN..]);
    let header = Ipv6Header {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: icmpv6::NEIGHBOR_HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: len as u16,
    };
    header.emit(&mut frame[at..]);
    frame.truncate(at + ipv6::HEADER_LEN + len);
    frame
}

fn advertised(target: Ipv6Addr) -> Vec<u8> {
    let told =
        NeighborAdvertisement { target, router: false, solicited: false, replace: true, link_layer: Some(OTHER) };
    neighbour_discovery(target, ALL_NODES, &Icmpv6::NeighborAdvertisement(told))
}

fn asked(target: Ipv6Addr) -> Vec<u8> {
    let message = Icmpv6::NeighborSolicitation { target, link_layer: None };
    neighbour_discovery(Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(target), &message)
}

/// RFC 5227 section 2.3, RFC 4861 section 7.2.6: at once, and once more; and
/// again when the link was away.
#[test]
fn addresses_are_announced_when_the_link_comes_up() {
    let (mut stack, mut out) = stack(Detection::Announce);
    assert_eq!(pass(&mut stack, &mut out, 100), []);
    for _ in 0..2 {
        stack.on_link_up();
        let said = pass(&mut stack, &mut out, 10_000);
        let announced: Vec<u64> =
            said.iter().filter(|(_, said)| *said == Said::Announced(OURS.into())).map(|(ms, _)| *ms).collect();
        assert_eq!(announced, [0, 2_000]);
        let first: Vec<Said> = said.iter().filter(|(ms, _)| *ms < 10).map(|(_, said)| *said).collect();
        assert_eq!(first, [both(Said::Announced), both(Said::AskedFor)].concat());
        assert_eq!(said.len(), 8);
    }
    assert_eq!(stack.next_deadline(), None);
}

#[test]
fn nothing_is_said_where_that_is_not_wanted() {
    for change in [
        |config: &mut Config| config.detection = Detection::Off,
        |config: &mut Config| config.host_neighbours = true,
        |config: &mut Config| config.announces = false,
    ] {
        let (of, mut out) = stack(Detection::Announce);
        let mut config = of.config().clone();
        change(&mut config);
        let mut stack = Stack::new(
            config,
            LinkOffload::default(),
            &Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] },
            Time::ZERO,
        );
        stack.on_link_up();
        assert_eq!(pass(&mut stack, &mut out, 10_000), []);
    }
}

/// RFC 5227 section 2.4 (c): defended, but not more often than each 10 s; told
/// as often, and counted each time.
#[test]
fn another_with_our_address_is_told_of_and_the_address_defended() {
    let (mut stack, mut out) = stack(Detection::Announce);
    stack.on_link_up();
    pass(&mut stack, &mut out, 5_000);
    let claims =
        [arp(Operation::Reply, OTHER, OURS, OURS), arp(Operation::Request, OTHER, OURS, THEIRS), advertised(OURS_V6)];
    for round in 1..=3 {
        for _ in 0..100 {
            for claim in &claims {
                let _ = stack.on_frame(claim, false, &mut out);
            }
        }
        assert_eq!(said(&mut out), both(Said::Announced));
        let told: Vec<Conflict> = core::iter::from_fn(|| stack.poll_conflict()).collect();
        let conflict = |ip| Conflict { ip, mac: OTHER, unused: false };
        assert_eq!(told, [conflict(OURS.into()), conflict(OURS_V6.into())]);
        assert_eq!(stack.counters().address_conflicts, round * 300);
        pass(&mut stack, &mut out, 10_000);
    }
    // Our own word come back is no conflict, nor is a question for the
    // address, which is answered.
    let _ = stack.on_frame(&arp(Operation::Request, US, OURS, OURS), false, &mut out);
    assert_eq!(said(&mut out), []);
    let _ = stack.on_frame(&arp(Operation::Request, OTHER, Ipv4Addr::UNSPECIFIED, OURS), false, &mut out);
    let _ = stack.on_frame(&asked(OURS_V6), false, &mut out);
    assert_eq!(said(&mut out)[0], Said::Answered(OURS.into()));
    assert_eq!((stack.poll_conflict(), stack.counters().address_conflicts), (None, 900));
}

/// RFC 5227 section 2.1.1, RFC 4862 section 5.4: asked for three times, used
/// after that, and answered for only then.
#[test]
fn an_address_is_used_once_nobody_claimed_it() {
    let (mut stack, mut out) = stack(Detection::Wait);
    stack.on_link_up();
    let question = arp(Operation::Request, OTHER, THEIRS, OURS);
    let mut asked = Vec::new();
    let mut waited = 0;
    while stack.is_asking() {
        asked.extend(pass(&mut stack, &mut out, 1).into_iter().map(|(_, said)| said));
        if stack.is_asking() {
            let _ = stack.on_frame(&question, false, &mut out);
            assert_eq!(out.frames.len(), 0, "answered for an address that is not ours yet");
        }
        waited += 1;
        assert!(waited <= 7_002, "still asking");
    }
    assert!(waited >= 4_000, "used after {waited} ms");
    let count = |what: Said| asked.iter().filter(|said| **said == what).count();
    assert_eq!((count(Said::AskedFor(OURS.into())), count(Said::AskedFor(OURS_V6.into()))), (3, 3));
    assert_eq!((count(Said::Announced(OURS.into())), count(Said::Announced(OURS_V6.into()))), (1, 1));
    let _ = stack.on_frame(&question, false, &mut out);
    assert_eq!(said(&mut out), [Said::Answered(OURS.into())]);
    let again: Vec<Said> = pass(&mut stack, &mut out, 3_000).into_iter().map(|(_, said)| said).collect();
    assert_eq!(again, both(Said::Announced));
}

/// Whoever has an address keeps it, and whoever asks for it as we do gets it
/// as little as we (RFC 5227 section 2.1.1, RFC 4862 section 5.4.3); it is
/// asked for again after a minute.
#[test]
fn an_address_that_somebody_has_is_not_used_before_it_is_free() {
    for claims in [
        [arp(Operation::Reply, OTHER, OURS, OURS), advertised(OURS_V6)],
        [arp(Operation::Request, OTHER, Ipv4Addr::UNSPECIFIED, OURS), asked(OURS_V6)],
    ] {
        let (mut stack, mut out) = stack(Detection::Wait);
        stack.on_link_up();
        pass(&mut stack, &mut out, 2_000);
        for claim in claims.iter().chain(&claims) {
            let _ = stack.on_frame(claim, false, &mut out);
        }
        assert_eq!(said(&mut out), []);
        let conflict = |ip| Conflict { ip, mac: OTHER, unused: true };
        let told: Vec<Conflict> = core::iter::from_fn(|| stack.poll_conflict()).collect();
        assert_eq!(told, [conflict(OURS.into()), conflict(OURS_V6.into())]);
        let said = pass(&mut stack, &mut out, 20_000);
        assert!(!stack.is_asking() && said.iter().all(|(_, said)| matches!(said, Said::AskedFor(_))), "{said:?}");
        assert_eq!(stack.ip.addresses.iter().count(), 0);
        // It is free.
        let said = pass(&mut stack, &mut out, 60_000);
        assert!(said.iter().any(|(_, said)| *said == Said::Announced(OURS.into())), "{said:?}");
        assert_eq!(stack.ip.addresses.iter().count(), 2);
    }
}

/// Thousands of addresses are announced by and by, and whole.
#[test]
fn many_addresses_do_not_fill_a_turn() {
    let mut config = Config::new(US, 1500);
    let address = |n: u32| Address { ip: Ipv4Addr::from_bits(0x0a00_0001 + n).into(), prefix_len: 8 };
    config.addresses = (0..3_000).map(address).collect();
    config.detection = Detection::Announce;
    let seeds = Seeds { table: [1; 4], secret: [2; 4], timestamps: [9; 2] };
    let (mut stack, mut out) = (Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO), Sent::default());
    stack.on_link_up();
    let mut first = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let now: Vec<_> = pass(&mut stack, &mut out, 1);
        assert!(now.len() <= 2 * PER_TURN, "{} in a turn", now.len());
        first.extend(now.into_iter().filter_map(|(_, said)| match said {
            Said::Announced(ip) => Some(ip),
            _ => None,
        }));
    }
    assert_eq!(first.len(), 3_000);
}
