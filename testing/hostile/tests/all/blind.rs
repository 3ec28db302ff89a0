//! Forgeries that aim at the connections of others.

use crate::{assert_forgotten, assert_served};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use hostile::arena::{ATTACKER_MAC, Arena, CLIENT, SERVER, SERVER_MAC, Setup, TURN, server_end};
use hostile::crowd::{Crowd, Peer, PeerState};
use hostile::frames::{self, End, Segment};
use hostile::rng::Rng;
use load::Reuse;
use wire::Mac;
use wire::icmpv4::Icmpv4;
use wire::tcp::{Flags, SeqNum, TcpOptions, Timestamps};

/// An arena with one open connection of the attacker's.
fn with_peer(setup: Setup, options: TcpOptions) -> (Arena, Crowd, Peer) {
    let mut arena = Arena::new(setup);
    let mut crowd = Crowd::new();
    crowd.options = options;
    assert_eq!(crowd.open(&mut arena, 0, 1), 1);
    arena.settle(10);
    let peer = *crowd.peers.values().next().expect("a peer");
    (arena, crowd, peer)
}

/// RFC 5961 sections 3, 4 and 5: resets, SYNs and text in the window but not
/// exactly right kill nothing, and are challenged within a limit.
#[test]
fn blind_in_window() {
    let (mut arena, _, peer) = with_peer(Setup::new(10, 31).client(4, 4_000, Reuse::KeepAlive), TcpOptions::NONE);
    let mut rng = Rng::new(1);
    let window = u32::from(peer.server_window);
    let start = arena.now;
    for _ in 0..2_000 {
        for _ in 0..12 {
            let ahead = rng.range(1, u64::from(window) - 1) as u32;
            let flags = rng.pick(&[Flags::RST, Flags::SYN, Flags::RST | Flags::ACK, Flags::SYN | Flags::ACK]);
            arena.inject(&peer.segment(flags, ahead, b"").frame());
            // Text with an acknowledgement that is out of the range.
            let mut text = peer.segment(Flags::ACK, 0, b"GET /evil HTTP/1.1\r\n\r\n");
            text.ack = text.ack.plus(rng.range(1 << 20, (1 << 31) - 1) as u32);
            arena.inject(&text.frame());
        }
        arena.tick();
        while arena.hear().is_some() {}
    }
    let tcp = *arena.server.stack.tcp_counters();
    assert!(tcp.resets_challenged > 5_000 && tcp.syns_challenged > 5_000 && tcp.bad_ack > 10_000, "{tcp:?}");
    let limited = arena.server.stack.counters().challenges_limited;
    let span = arena.now.since(start).as_secs_f64();
    let sent = tcp.challenge_acks - limited;
    // One in half a second for a connection.
    assert!(sent as f64 <= 1.0 + 2.0 * span, "{sent} challenges in {span} s");
    // The connection lives: its request is served.
    arena.inject(&peer.segment(Flags::ACK, 0, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").frame());
    arena.settle(10);
    let answer: Vec<u8> = arena.hear_segments().into_iter().flat_map(|segment| segment.payload).collect();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    assert_served(&mut arena, 4_000);
    arena.client_leaves();
    arena.pass(Duration::from_secs(1_200));
    assert_forgotten(&mut arena);
}

/// ICMP errors about the client's connections, forged without sight of their
/// sequence numbers, change nothing (RFC 5927); one that does quote the
/// flight, with an absurd MTU, leaves segments of a sound size.
#[test]
fn forged_icmp() {
    let mut arena = Arena::new(Setup::new(100_000, 32).client(4, 200, Reuse::KeepAlive));
    arena.settle(60);
    let mut rng = Rng::new(5);
    let router = End { mac: ATTACKER_MAC, ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)), port: 0 };
    for _ in 0..2_000 {
        let heard = arena.overheard.iter().rev().find_map(|frame| Segment::parse(frame));
        let Some(heard) = heard.filter(|segment| segment.src.ip == IpAddr::V4(CLIENT)) else { continue };
        for n in 0..8u32 {
            // Guesses far from the flight; and the real one with an MTU that
            // nobody has.
            let seq = if n == 0 { heard.ack } else { heard.ack.plus(0x1000_0000 + rng.range(0, 0x7000_0000) as u32) };
            let original = Segment::new(heard.dst, heard.src, Flags::ACK, seq, heard.seq).frame();
            let original = &original[14..];
            let message = match n % 3 {
                0 => Icmpv4::FragmentationNeeded { mtu: rng.pick(&[0, 1, 40, 68, 100]), original },
                1 => Icmpv4::DestinationUnreachable { code: rng.range(0, 3) as u8, original },
                _ => Icmpv4::FragmentationNeeded { mtu: 600, original },
            };
            arena.inject(&frames::icmp(router, server_end(), &message));
        }
        arena.tick();
    }
    assert!(arena.server.stack.counters().icmp_ignored > 2_000);
    for id in arena.server.stack.connection_ids().collect::<Vec<_>>() {
        let info = arena.server.stack.info(id).expect("a connection");
        assert!(info.mss >= 500, "{} bytes a segment", info.mss);
    }
    assert_served(&mut arena, 200);
    arena.client_leaves();
    arena.pass(Duration::from_secs(100));
    assert_forgotten(&mut arena);
}

/// Text injected at both ends, by one who sees the wire, leaves each side
/// refusing the other's segments. Each refusal is answered by an
/// acknowledgement (RFC 9293 section 3.10.7.4), which the other refuses in
/// turn: that exchange must not run at the speed of the wire. Here the other
/// end is a mirror that answers every segment with one that is refused.
#[test]
fn acknowledgements_of_desynchronised_ends() {
    for old_stamp in [false, true] {
        let stamps = Some(Timestamps { value: 1_000_000, echo: 0 }).filter(|_| old_stamp);
        let options = TcpOptions { timestamps: stamps, ..TcpOptions::NONE };
        let (mut arena, _, peer) = with_peer(Setup::new(10, 33), options);
        let mut refused = peer.segment(Flags::ACK, 0, b"");
        if old_stamp {
            // RFC 7323 section 5.3 refuses it.
            refused.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
        } else {
            refused.seq = refused.seq.minus(100);
        }
        let frame = refused.frame();
        arena.inject(&frame);
        let mut answers = 0;
        let end = arena.now + Duration::from_secs(10);
        arena.pass_until(end, |arena| {
            while arena.hear().is_some() {
                answers += 1;
                arena.inject(&frame);
            }
            false
        });
        // With an old timestamp it is only late, as Linux takes it too
        // (`tcp_disordered_ack`), and needs no answer.
        assert!(answers > 0 || old_stamp, "a refused segment is answered");
        assert!(answers <= 20, "{answers} answers in 10 s to a mirror: one in 500 ms at most");
    }
}

/// An attacker who owns a connection in TIME-WAIT cannot have the server
/// answer more than it is sent, nor two servers answer each other.
#[test]
fn segments_for_time_wait() {
    let (mut arena, mut crowd, _) = with_peer(Setup::new(10, 34), TcpOptions::NONE);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    arena.settle(10);
    crowd.pump(&mut arena);
    let peer = *crowd.peers.values().next().expect("a peer");
    assert_eq!(peer.state, PeerState::Finished);
    arena.inject(&peer.segment(Flags::FIN | Flags::ACK, 0, b"").frame());
    arena.settle(10);
    assert_eq!(arena.server.stack.time_wait(), 1);
    while arena.hear().is_some() {}
    let answers = arena.traffic.answers;
    for _ in 0..1_000 {
        for n in 0..16 {
            arena.inject(&peer.segment(Flags::ACK, 1_000_000 + n, b"x").frame());
        }
        arena.tick();
        while arena.hear().is_some() {}
    }
    let answers = arena.traffic.answers - answers;
    let span = TURN.as_secs_f64() * 1_000.0;
    assert!(answers > 0 && answers as f64 <= 1.0 + 2.0 * span, "{answers} answers in {span} s");
    // A FIN again is answered, and resets change nothing (RFC 1337).
    for ahead in [0, 1, 2] {
        arena.inject(&peer.segment(Flags::RST, ahead, b"").frame());
    }
    arena.pass(Duration::from_secs(1));
    assert_eq!(arena.server.stack.time_wait(), 1);
    arena.pass(Duration::from_secs(61));
    assert_forgotten(&mut arena);
}

/// Frames that claim to come from everybody, or from the server itself, are
/// not answered to everybody, and open nothing.
#[test]
fn sources_that_cannot_be() {
    let mut arena = Arena::new(Setup::new(10, 35));
    let macs = [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), Mac([0x33, 0x33, 0, 0, 0, 1])];
    let sources = [
        SERVER,
        Ipv4Addr::new(10, 255, 255, 255),
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(127, 0, 0, 1),
        Ipv4Addr::new(224, 0, 0, 1),
    ];
    let message = Icmpv4::EchoRequest { identifier: 1, sequence: 2, data: b"to all" };
    let mut attempts = 0;
    let cases = macs.iter().map(|mac| (*mac, CLIENT)).chain(sources.iter().map(|ip| (ATTACKER_MAC, *ip)));
    for (mac, ip) in cases {
        for port in [80, 81] {
            let src = End { mac, ip: IpAddr::V4(ip), port: 80 };
            let mut dst = server_end();
            dst.port = port;
            for flags in [Flags::SYN, Flags::ACK, Flags::FIN] {
                arena.inject(&Segment::new(src, dst, flags, SeqNum(1), SeqNum(2)).frame());
                attempts += 1;
            }
        }
        let src = End { mac, ip: IpAddr::V4(ip), port: 0 };
        arena.inject(&frames::icmp(src, server_end(), &message));
        arena.inject(&frames::packet(src, server_end(), 17, &[0; 8]));
    }
    arena.settle(20);
    let mut answers = Vec::new();
    while let Some(frame) = arena.hear() {
        answers.push(frame);
    }
    assert!(answers.iter().all(|frame| frame[0] & 1 == 0), "an answer to a group's Ethernet address");
    let segments: Vec<_> = answers.iter().filter_map(|frame| Segment::parse(frame)).collect();
    assert!(segments.is_empty(), "{attempts} attempts, answered: {segments:?}");
    assert!(answers.is_empty(), "{} answers to sources that cannot be", answers.len());
    assert_eq!(arena.server.stack.half_open(), 0);
    assert_eq!(SERVER_MAC.0[0] & 1, 0);
    assert_forgotten(&mut arena);
}
