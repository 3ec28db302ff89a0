//! More of something than there is room for.

use crate::{assert_forgotten, assert_served, assert_sleeps, memory};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use hostile::arena::{ATTACKER_MAC, Arena, SERVER, SERVER_MAC, SERVER_V6, Setup, server_end};
use hostile::crowd::{Crowd, Manner};
use hostile::frames::{self, End, Segment};
use hostile::rng::Rng;
use load::Reuse;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::icmpv6::Icmpv6;
use wire::tcp::{Flags, SeqNum, TcpOptions, Timestamps};

/// SYNs from everywhere, on-link and not, to a port that listens.
fn spoofed_syn(rng: &mut Rng) -> Vec<u8> {
    let bits = rng.word() as u32;
    let ip = if rng.one_in(2) {
        Ipv4Addr::from_bits(0x0a00_0000 | bits & 0x007f_ffff | 0x80_0000)
    } else {
        Ipv4Addr::from_bits(bits | 0x4000_0000 & 0x6fff_ffff)
    };
    let src = End { mac: ATTACKER_MAC, ip: IpAddr::V4(ip), port: rng.word() as u16 };
    let mut options = TcpOptions { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..TcpOptions::NONE };
    if rng.one_in(2) {
        options.timestamps = Some(Timestamps { value: rng.word() as u32, echo: 0 });
    }
    Segment::new(src, server_end(), Flags::SYN, SeqNum(rng.word() as u32), SeqNum(0)).options(options).frame()
}

/// A SYN flood far beyond the SYN queue: cookies serve the client, with
/// timestamps and without (RFC 4987 section 3.6).
#[test]
fn syn_flood() {
    for timestamps in [true, false] {
        let mut setup = Setup::new(2_649, 21).client(8, 3_000, Reuse::ServerCloses);
        setup.client.tcp.timestamps = timestamps;
        setup.stack.max_half_open = 1_024;
        let mut arena = Arena::new(setup);
        let mut rng = Rng::new(4);
        let before = memory::live();
        let mut most = 0;
        for _ in 0..3_000 {
            for _ in 0..24 {
                arena.inject(&spoofed_syn(&mut rng));
            }
            arena.tick();
            while arena.hear().is_some() {}
            assert!(arena.server.stack.half_open() <= 1_024);
            most = most.max(memory::live());
        }
        let counters = arena.server.stack.counters();
        assert!(counters.cookies_sent > 60_000 && counters.cookies_accepted > 100, "{counters:?}");
        assert_eq!(arena.server.stack.half_open(), 1_024);
        // The queue at 100 bytes an entry, its neighbours at 300 (their maps
        // included), and what the client and the harness hold.
        assert!(most - before < 12 << 20, "{} bytes", most - before);
        assert_served(&mut arena, 3_000);
        arena.client_leaves();
        // Five retransmissions: 63 s; TIME-WAIT: 60 s.
        arena.pass(Duration::from_secs(70));
        let counters = arena.server.stack.counters();
        let ended =
            counters.half_open_expired + counters.half_open_unreachable + counters.accepted - counters.cookies_accepted;
        assert_eq!(counters.handshakes, ended, "{counters:?}");
        arena.pass(Duration::from_secs(120));
        assert_forgotten(&mut arena);
    }
}

/// More connections than the table takes: they wait, are counted, and are
/// accepted once there is room. Those who are in are served.
#[test]
fn connection_flood() {
    let mut setup = Setup::new(500, 22).client(4, 2_000, Reuse::KeepAlive);
    setup.stack.max_connections = 300;
    let mut arena = Arena::new(setup);
    arena.settle(50);
    let mut crowd = Crowd::new();
    crowd.open(&mut arena, 0, 296);
    // Half a head each: none is idle.
    crowd.say(&mut arena, b"GET / HTTP");
    let full = arena.server.stack.connections();
    assert!((296..=300).contains(&full), "{full}");
    crowd.open(&mut arena, 1_000, 1_700);
    let counters = arena.server.stack.counters();
    assert_eq!(arena.server.stack.connections(), 300);
    assert!(counters.accept_deferred > 0, "{counters:?}");
    assert_served(&mut arena, 2_000);
    // The crowd says no more: heads do not come (60 s), lingering (5 s).
    arena.client_leaves();
    crowd.manner = Manner::Silent;
    arena.pass(Duration::from_secs(140));
    assert_eq!(arena.server.stack.connections(), 0);
    let mut late = Crowd::new();
    assert_eq!(late.open(&mut arena, 5_000, 5_200), 200);
    assert_eq!(arena.server.stack.connections(), 200);
    arena.pass(Duration::from_secs(200));
    assert_forgotten(&mut arena);
}

/// Handshakes begun while there was room and completed when there is none are
/// kept until there is (the connection limit, `accept_deferred`), also those
/// that only a cookie remembers.
#[test]
fn handshakes_wait_at_the_connection_limit() {
    for max_half_open in [64, 0] {
        let mut setup = Setup::new(10, 23);
        setup.stack.max_connections = 20;
        setup.stack.max_half_open = max_half_open;
        let mut arena = Arena::new(setup);
        let mut crowd = Crowd::new();
        // SYNs first, all acknowledgements after: each SYN finds room.
        crowd.manner = Manner::Silent;
        crowd.open(&mut arena, 0, 0);
        let ends: Vec<End> = (0..30).map(Crowd::end).collect();
        for (n, end) in ends.iter().enumerate() {
            arena.inject(&Segment::new(*end, server_end(), Flags::SYN, SeqNum(n as u32 * 7), SeqNum(0)).frame());
        }
        arena.settle(10);
        let answers = arena.hear_segments();
        assert_eq!(answers.len(), 30);
        let ack = |answer: &Segment| Segment::new(answer.dst, server_end(), Flags::ACK, answer.ack, answer.seq.plus(1));
        for answer in &answers {
            // Half a head: none is idle.
            arena.inject(&ack(answer).with(b"G").frame());
        }
        arena.settle(10);
        assert_eq!(arena.server.stack.connections(), 20);
        assert!(arena.server.stack.counters().accept_deferred >= 10);
        let resets = |arena: &mut Arena| arena.hear_segments().iter().filter(|s| s.flags.contains(Flags::RST)).count();
        assert_eq!(resets(&mut arena), 0, "a handshake that waits is not reset");
        // Those who are in go; the others try again, as TCPs do.
        for answer in &answers[..20] {
            let mut rst = ack(answer);
            rst.flags = Flags::RST;
            rst.seq = rst.seq.plus(1);
            arena.inject(&rst.frame());
        }
        arena.settle(10);
        for answer in &answers[20..] {
            arena.inject(&ack(answer).with(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").frame());
        }
        arena.settle(10);
        assert_eq!(arena.server.stack.connections(), 10, "half-open limit {max_half_open}");
        assert_eq!(arena.server.app.snapshot().responses_2xx, 10);
        arena.pass(Duration::from_secs(1_200));
        assert_forgotten(&mut arena);
    }
}

/// A front's kept connections, all of which a server that was killed has forgotten: each learns
/// of it by its next request, at once.
#[test]
fn a_front_learns_of_a_restart_on_all_its_connections() {
    let mut arena = Arena::new(Setup::new(1_000, 24).client(8, 5_000, Reuse::KeepAlive));
    let mut rng = Rng::new(10);
    let start = arena.now;
    let before = arena.server.stack.counters().resets_out;
    let mut told = std::collections::BTreeSet::new();
    for port in 0..10_000_u16 {
        let mut src = Crowd::end(7);
        src.port = 10_000 + port;
        let (seq, ack) = (SeqNum(rng.word() as u32), SeqNum(rng.word() as u32));
        let request = Segment::new(src, server_end(), Flags::ACK.union(Flags::PSH), seq, ack);
        arena.inject(&request.with(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").frame());
        if port % 20 == 19 {
            arena.tick();
        }
        told.extend(reset_ports(&mut arena));
    }
    arena.settle(10);
    told.extend(reset_ports(&mut arena));
    let span = arena.now.since(start);
    assert!(span < Duration::from_secs(1), "{span:?}");
    assert_eq!((told.len(), arena.server.stack.counters().resets_out - before), (10_000, 10_000));
}

/// The attacker's ports at which a reset came.
fn reset_ports(arena: &mut Arena) -> Vec<u16> {
    let heard = arena.hear_segments().into_iter();
    heard.filter(|segment| segment.flags.contains(Flags::RST)).map(|segment| segment.dst.port).collect()
}

/// ACKs, FINs, resets and their mixtures to open and closed ports: resets are
/// limited, and nothing is kept.
#[test]
fn segments_of_no_connection() {
    let mut setup = Setup::new(1_000, 24).client(8, 5_000, Reuse::KeepAlive);
    setup.stack.resets = stack::ResetRate { per_second: 1_000, depth: 1_000 };
    let mut arena = Arena::new(setup);
    let mut rng = Rng::new(9);
    let start = arena.now;
    for _ in 0..3_000 {
        for _ in 0..24 {
            let src = Crowd::end(rng.range(0, 1 << 20) as u32);
            let mut dst = server_end();
            dst.port = rng.pick(&[80, 81, 443, 1]);
            let kinds =
                [Flags::ACK, Flags::FIN | Flags::ACK, Flags::RST, Flags::SYN | Flags::ACK, Flags::FIN, Flags::NONE];
            let flags = rng.pick(&kinds);
            let (seq, ack) = (SeqNum(rng.word() as u32), SeqNum(rng.word() as u32));
            arena.inject(&Segment::new(src, dst, flags, seq, ack).with(b"x").frame());
        }
        arena.tick();
        while arena.hear().is_some() {}
    }
    let counters = arena.server.stack.counters();
    let span = arena.now.since(start).as_secs_f64();
    // At most one and a half of it in each second that was begun, and the depth.
    let most = 1_250.0 + 1_500.0 * (span.ceil() + 1.0);
    assert!(counters.resets_out as f64 <= most, "{} in {span} s", counters.resets_out);
    assert!(counters.resets_out >= 100 && counters.errors_limited > 50_000, "{counters:?}");
    assert_served(&mut arena, 5_000);
    arena.client_leaves();
    arena.pass(Duration::from_secs(100));
    assert_forgotten(&mut arena);
}

/// A table full of neighbours that nobody asked for, by ARP, by neighbour
/// discovery and by SYNs: it stays bounded, the client is served, a new
/// client as well, and an idle server does not keep itself busy with it.
#[test]
fn neighbour_flood() {
    let mut arena = Arena::new(Setup::new(700, 25).client(4, 4_000, Reuse::ServerCloses));
    let mut rng = Rng::new(2);
    let before = memory::live();
    for round in 0..3_000u32 {
        for n in 0..16 {
            let index = round * 16 + n;
            let mac = Mac([2, 1, (index >> 24) as u8, (index >> 16) as u8, (index >> 8) as u8, index as u8]);
            let ip = Ipv4Addr::from_bits(0x0a64_0000 + index);
            let request = ArpPacket {
                operation: Operation::Request,
                sender_mac: mac,
                sender_ip: ip,
                target_mac: Mac::ZERO,
                target_ip: SERVER,
            };
            arena.inject(&frames::arp(Mac::BROADCAST, &request));
            if n % 2 == 0 {
                let from = Ipv6Addr::from_bits(SERVER_V6.to_bits() + 0x1_0000 + u128::from(index));
                let message = Icmpv6::NeighborSolicitation { target: SERVER_V6, link_layer: Some(mac) };
                arena.inject(&frames::icmp_v6((mac, from), (SERVER_MAC, SERVER_V6), &message));
            }
            if n % 4 == 0 {
                arena.inject(&spoofed_syn(&mut rng));
            }
        }
        arena.tick();
        while arena.hear().is_some() {}
    }
    let counter = |arena: &Arena, wanted: &str| {
        arena.server.stack.neighbour_counters().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| count)
    };
    assert!(counter(&arena, "created") > 60_000 && counter(&arena, "evicted") > 40_000);
    assert!(memory::live() - before < 16 << 20, "{} bytes", memory::live() - before);
    assert_served(&mut arena, 4_000);
    arena.client_leaves();
    let solicited = counter(&arena, "solicited");
    let turns = arena.traffic.turns;
    let span = Duration::from_secs(60);
    arena.pass(span);
    let solicited = counter(&arena, "solicited") - solicited;
    assert!(solicited <= 60 * 1_000 + 100, "{solicited} solicitations in {span:?}");
    // While it asks a full table whether they are still there, it wakes for
    // each question that it may ask, and not more often.
    let turns = arena.traffic.turns - turns;
    assert!(turns <= 2 * 60 * 1_000, "{turns} turns in {span:?}");
    arena.pass(Duration::from_secs(300));
    assert_sleeps(&mut arena);
}

/// More connections closed than TIME-WAIT has records for: the oldest give
/// way, counted, and ports are used again (RFC 6191).
#[test]
fn time_wait_pressure() {
    let mut setup = Setup::new(64, 26).client(8, 6_000, Reuse::ServerCloses);
    setup.stack.max_time_wait = 500;
    let mut arena = Arena::new(setup);
    let end = arena.now + Duration::from_secs(50);
    arena.pass_until(end, |arena| {
        assert!(arena.server.stack.time_wait() <= 500);
        arena.client.as_ref().is_none_or(|client| client.app.done())
    });
    assert_served(&mut arena, 6_000);
    assert!(arena.server.stack.counters().time_wait_dropped > 5_000);
    arena.client_leaves();
    assert!(arena.server.stack.time_wait() > 400);
    arena.pass(Duration::from_secs(62));
    assert_forgotten(&mut arena);
}

/// A flood of heads that never end, held until they do: the limit on received
/// bytes holds for them as well.
#[test]
fn heads_without_end() {
    let mut setup = Setup::new(900, 28).client(8, 30_000, Reuse::KeepAlive);
    setup.stack.receive_memory = 1 << 20;
    let mut arena = Arena::new(setup);
    let mut crowd = Crowd::new();
    assert_eq!(crowd.open(&mut arena, 0, 300), 300);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\n");
    let line = [b"x: ".as_slice(), &[b'y'; 1_000], b"\r\n"].concat();
    let mut most = 0;
    for _ in 0..15 {
        crowd.say(&mut arena, &line);
        most = most.max(arena.server.stack.receive_memory());
    }
    // Those that hold much share three quarters.
    assert!(most > 700 << 10, "{most}: the limit was not put to the test");
    assert!(most <= 1 << 20, "{most} bytes held");
    let start = arena.now;
    assert_served(&mut arena, 30_000);
    assert!(arena.now.since(start) < Duration::from_secs(30), "served only once the memory was free");
    arena.client_leaves();
    crowd.manner = Manner::Silent;
    arena.pass(Duration::from_secs(200));
    assert_forgotten(&mut arena);
}
