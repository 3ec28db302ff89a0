//! Who has an address: forged claims, and take-overs that are none.

use crate::{assert_forgotten, assert_served};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use hostile::arena::{ATTACKER_MAC, Arena, CLIENT, SERVER, SERVER_MAC, SERVER_V6, Setup};
use hostile::arena::{TURN, server_end};
use hostile::frames::{self, End, Segment};
use hostile::rng::Rng;
use load::Reuse;
use stack::Detection;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::icmpv6::{Icmpv6, NeighborAdvertisement};
use wire::tcp::{Flags, SeqNum};

/// Another box, which takes the server's address over.
const SUCCESSOR_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);

fn claim(operation: Operation, mac: Mac, of: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let packet = ArpPacket { operation, sender_mac: mac, sender_ip: of, target_mac: SERVER_MAC, target_ip: target };
    frames::arp(Mac::BROADCAST, &packet)
}

/// Frames with the client's address from elsewhere, again and again while it
/// is served: nothing that is for it goes to the attacker, and it is served as
/// fast as without.
#[test]
fn forged_claims_steal_nothing_from_a_client_that_answers() {
    let forgeries: [fn(&mut Rng) -> Vec<u8>; 4] = [
        |_| claim(Operation::Request, ATTACKER_MAC, CLIENT, CLIENT),
        |_| claim(Operation::Request, ATTACKER_MAC, CLIENT, SERVER),
        |_| claim(Operation::Reply, ATTACKER_MAC, CLIENT, SERVER),
        |rng| {
            let forged = End { mac: ATTACKER_MAC, ip: IpAddr::V4(CLIENT), port: rng.range(1, 1_000) as u16 };
            Segment::new(forged, server_end(), Flags::SYN, SeqNum(rng.word() as u32), SeqNum(0)).frame()
        },
    ];
    for forgery in forgeries {
        let mut arena = Arena::new(Setup::new(10_000, 81).client(4, 4_000, Reuse::KeepAlive));
        let mut rng = Rng::new(2);
        arena.settle(20);
        while arena.hear().is_some() {}
        let mut stolen = 0;
        for _ in 0..2_000 {
            arena.inject(&forgery(&mut rng));
            arena.tick();
            let heard = core::iter::from_fn(|| arena.hear()).filter(|frame| frame.starts_with(&ATTACKER_MAC.0));
            stolen +=
                heard.filter_map(|frame| Segment::parse(&frame)).filter(|s| s.dst.ip == IpAddr::V4(CLIENT)).count();
        }
        assert_eq!(stolen, 0, "segments for the client went to the attacker");
        let counts = arena.server.stack.neighbour_counters().find(|(name, _)| *name == "disputed");
        assert!(counts.is_some_and(|(_, disputed)| disputed > 0), "nothing was looked into");
        assert_served(&mut arena, 4_000);
        arena.client_leaves();
        arena.pass(Duration::from_secs(1_200));
        assert_forgotten(&mut arena);
    }
}

/// The server's box dies, and another one has its address and says so: a
/// client that knows the old one, and asks the moment that it heard, has its
/// answer 10 ms after the announcement.
#[test]
fn a_client_with_a_stale_neighbour_is_answered_within_10_ms_of_the_announcement() {
    let mut arena = Arena::new(Setup::new(10, 82).client(1, 100, Reuse::ServerCloses));
    assert_served(&mut arena, 100);
    arena.pass(Duration::from_secs(5));

    let mut other = Setup::new(10, 83).client(1, 1, Reuse::ServerCloses);
    other.stack.mac = SUCCESSOR_MAC;
    other.stack.detection = Detection::Announce;
    let other = Arena::new(other);
    (arena.server.stack, arena.server.app) = (other.server.stack, other.server.app);
    arena.server.stack.begin_turn(arena.now);
    arena.server.stack.on_link_up();
    let announced = arena.now;
    arena.pass(TURN);
    // It asks.
    let client = arena.client.as_mut().expect("a client");
    client.app = other.client.expect("another client").app;
    let answered = arena.pass_until(announced + Duration::from_millis(10), |arena| {
        arena.client.as_ref().is_some_and(|client| client.app.right == 1)
    });
    assert!(answered, "no answer 10 ms after the announcement");
    // Between the two lie the questions to the old box.
    assert!(arena.now.since(announced) >= Duration::from_millis(6), "{:?}", arena.now.since(announced));
}

/// The same the other way round: a client's box is another one, which says
/// nothing of it. Its first SYN is answered as soon as the old one was asked
/// in vain.
#[test]
fn a_client_that_moved_is_answered_without_an_announcement() {
    let mut arena = Arena::new(Setup::new(10, 84));
    let (old, ip) = (Mac([2, 0, 0, 0, 0, 9]), Ipv4Addr::new(10, 0, 0, 9));
    let first = End { mac: old, ip: IpAddr::V4(ip), port: 7_000 };
    // One that has answered.
    arena.inject(&Segment::new(first, server_end(), Flags::SYN, SeqNum(9), SeqNum(0)).frame());
    arena.settle(10);
    let syn_ack = heard_by(&mut arena, old).pop().expect("an answer");
    arena.inject(&Segment::new(first, server_end(), Flags::ACK, SeqNum(10), syn_ack.seq.plus(1)).frame());
    arena.settle(10);
    assert_eq!(arena.server.stack.connections(), 1);

    let moved = End { mac: ATTACKER_MAC, port: 7_001, ..first };
    let start = arena.now;
    arena.inject(&Segment::new(moved, server_end(), Flags::SYN, SeqNum(9), SeqNum(0)).frame());
    let mut answered = None;
    while arena.now < start + Duration::from_millis(20) && answered.is_none() {
        arena.pass(TURN);
        for frame in core::iter::from_fn(|| arena.hear()).collect::<Vec<_>>() {
            if Segment::parse(&frame).is_some_and(|segment| segment.dst.port == 7_001) {
                assert!(frame.starts_with(&ATTACKER_MAC.0), "answered to the old box");
                answered = Some(arena.now);
            } else if frame.starts_with(&Mac::BROADCAST.0) {
                // Asked for by ARP, it answers.
                arena.inject(&claim(Operation::Reply, ATTACKER_MAC, ip, SERVER));
            }
        }
    }
    let waited = answered.expect("an answer within 20 ms").since(start);
    assert!(waited <= Duration::from_millis(10), "{waited:?}");
}

fn heard_by(arena: &mut Arena, mac: Mac) -> Vec<Segment> {
    // Without a client station, all that the server sends is heard.
    let all: Vec<Vec<u8>> = core::iter::from_fn(|| arena.hear()).collect();
    all.iter().filter(|frame| frame.starts_with(&mac.0)).filter_map(|frame| Segment::parse(frame)).collect()
}

/// RFC 1122 section 2.3.2.1: a flood from addresses that no route leads to, or
/// that nobody on the link has, gives nobody cause to ask for anything.
#[test]
fn floods_from_anywhere_are_not_asked_for() {
    for on_link in [false, true] {
        let mut arena = Arena::new(Setup::new(10, 85).client(4, 1_000, Reuse::KeepAlive));
        let mut rng = Rng::new(7);
        let mut asked = 0;
        for _ in 0..15_000 {
            let net = if on_link { 0x0a80_0000 } else { 0x4000_0000 };
            let ip = Ipv4Addr::from_bits(net | rng.word() as u32 & 0x007f_ffff);
            let src = End { mac: ATTACKER_MAC, ip: IpAddr::V4(ip), port: rng.word() as u16 };
            arena.inject(&Segment::new(src, server_end(), Flags::SYN, SeqNum(rng.word() as u32), SeqNum(0)).frame());
            arena.pass(Duration::from_millis(2));
            let broadcast = |frame: &Vec<u8>| frame.starts_with(&Mac::BROADCAST.0);
            asked += core::iter::from_fn(|| arena.hear()).filter(broadcast).count();
        }
        arena.pass(Duration::from_secs(60));
        let counters: Vec<_> = arena.server.stack.neighbour_counters().collect();
        let value = |name: &str| counters.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value);
        // The client alone is asked for.
        assert!(asked <= 2 && value("solicited") <= 10 && value("put_off") == 0, "{asked} broadcasts; {counters:?}");
        assert_served(&mut arena, 1_000);
    }
}

/// Forged claims to the server's own address, by ARP and by neighbour
/// discovery: counted each, defended once in 10 s, and told as often; nobody
/// is served worse.
#[test]
fn claims_to_the_servers_address_are_defended_within_a_limit() {
    let mut setup = Setup::new(10, 86).client(4, 2_000, Reuse::KeepAlive);
    setup.stack.detection = Detection::Announce;
    let mut arena = Arena::new(setup);
    arena.server.stack.on_link_up();
    let told = NeighborAdvertisement {
        target: SERVER_V6,
        router: false,
        solicited: false,
        replace: true,
        link_layer: Some(ATTACKER_MAC),
    };
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let message = Icmpv6::NeighborAdvertisement(told);
    let advertised =
        frames::icmp_v6((ATTACKER_MAC, SERVER_V6), (wire::ipv6::multicast_mac(all_nodes), all_nodes), &message);
    arena.pass(Duration::from_secs(5));
    while arena.hear().is_some() {}
    let start = arena.now;
    let mut announced = 0;
    for _ in 0..3_000 {
        arena.inject(&claim(Operation::Request, ATTACKER_MAC, SERVER, SERVER));
        arena.inject(&advertised);
        arena.pass(Duration::from_millis(10));
        announced += core::iter::from_fn(|| arena.hear()).filter(|frame| frame[0] & 1 != 0).count();
    }
    let rounds = arena.now.since(start).as_secs() as usize / 10 + 1;
    assert!(announced <= 2 * rounds, "{announced} announcements in {rounds} times 10 s");
    assert!(announced >= 4);
    assert_eq!(arena.server.stack.counters().address_conflicts, 6_000);
    let told = core::iter::from_fn(|| arena.server.stack.poll_conflict()).count();
    assert_eq!(told, announced);
    assert_served(&mut arena, 2_000);
}
