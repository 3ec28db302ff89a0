//! The memory for received bytes, and those who would have all of it.

use crate::{assert_forgotten, assert_served, memory};
use core::time::Duration;
use hostile::arena::{Arena, Setup};
use hostile::crowd::{Crowd, Manner, Peer, PeerState};
use load::Reuse;
use wire::tcp::Flags;

/// Strangers' ends begin here, far from any crowd's.
const STRANGERS: u32 = 900_000;

/// Peers that scale windows, `count` of them.
fn crowd_of(arena: &mut Arena, count: u32) -> Crowd {
    let mut crowd = Crowd::new();
    crowd.options.window_scale = Some(7);
    assert_eq!(crowd.open(arena, 0, count), count as usize);
    crowd
}

/// The crowd's peers in a fixed order.
fn peers(crowd: &Crowd) -> Vec<Peer> {
    let mut peers: Vec<_> = crowd.peers.values().copied().collect();
    peers.sort_unstable_by_key(|peer| (peer.end.ip, peer.end.port));
    peers
}

/// Each says something, after which the windows are open.
fn open_windows(arena: &mut Arena, crowd: &mut Crowd) {
    crowd.say(arena, b"GET / HTTP/1.1\r\n");
    arena.pass(Duration::from_millis(60));
    crowd.pump(arena);
}

/// A newcomer's request with a head of so many bytes, in segments of up to
/// 1,400, 10 ms apart and never sent again; how long the answer took.
fn stranger_is_served(arena: &mut Arena, which: u32, len: usize) -> Duration {
    let mut crowd = Crowd::new();
    crowd.options.window_scale = Some(7);
    assert_eq!(crowd.open(arena, STRANGERS + which, STRANGERS + which + 1), 1);
    let peer = *crowd.peers.values().next().expect("a peer");
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nCookie: ".to_vec();
    head.resize(len.max(60) - 4, b'c');
    head.extend(b"\r\n\r\n");
    let start = arena.now;
    let (first, rest) = head.split_at(40);
    let mut sent = 0;
    for piece in core::iter::once(first).chain(rest.chunks(1_400)) {
        arena.pass(Duration::from_millis(10));
        while arena.hear().is_some() {}
        arena.inject(&peer.segment(Flags::ACK, sent, piece).frame());
        sent += piece.len() as u32;
    }
    let mut answer = Vec::new();
    let end = arena.now + Duration::from_millis(500);
    arena.pass_until(end, |arena| {
        let said = arena.hear_segments().into_iter().filter(|segment| segment.dst == peer.end);
        answer.extend(said.flat_map(|segment| segment.payload));
        !answer.is_empty()
    });
    let line = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "a head of {len} bytes in pieces: '{line}'");
    arena.now.since(start)
}

/// One byte at the far end of each of many windows takes what a byte takes:
/// nothing is refused to anybody, and it is all given back.
#[test]
fn far_ends_of_windows() {
    let mut arena = Arena::new(Setup::new(900, 27).client(2, 10_000, Reuse::KeepAlive));
    let before = memory::live();
    let mut crowd = crowd_of(&mut arena, 400);
    open_windows(&mut arena, &mut crowd);
    for round in 0..3 {
        for (n, peer) in peers(&crowd).into_iter().enumerate() {
            let window = u32::from(peer.server_window) << peer.server_shift;
            assert!(window > 100_000, "{window}");
            arena.inject(&peer.segment(Flags::ACK, window - 1 - round * 2, b"x").frame());
            if n % 16 == 15 {
                arena.tick();
            }
        }
        arena.settle(20);
    }
    let held = arena.server.stack.receive_memory();
    assert!((400..400 * 1_024).contains(&held), "{held} bytes charged for 1,200 bytes and 400 half heads");
    assert!(memory::live() - before < 4 << 20, "{}", memory::live() - before);
    let counters = *arena.server.stack.tcp_counters();
    assert_eq!((counters.out_of_order_dropped, counters.receive_full_dropped), (0, 0));
    stranger_is_served(&mut arena, 0, 100);
    assert_served(&mut arena, 10_000);
    arena.client_leaves();
    // No head comes: 60 s, and 5 s of lingering.
    arena.pass(Duration::from_secs(140));
    assert_eq!(crowd.count(PeerState::Open), 400, "the crowd was not asked");
    assert_forgotten(&mut arena);
}

/// The memory full of bytes ahead of gaps: they give way to requests that
/// come in pieces, long heads among them, and to nobody's harm but a
/// retransmission's (RFC 2018 section 8).
#[test]
fn early_bytes_give_way() {
    let mut setup = Setup::new(900, 28).client(2, 10_000, Reuse::KeepAlive);
    setup.stack.receive_memory = 1 << 20;
    let mut arena = Arena::new(setup);
    let mut crowd = crowd_of(&mut arena, 300);
    open_windows(&mut arena, &mut crowd);
    let mut most = 0;
    for ahead in 1..=8 {
        for (n, peer) in peers(&crowd).into_iter().enumerate() {
            arena.inject(&peer.segment(Flags::ACK, ahead * 1_401, &[b'x'; 1_400]).frame());
            if n % 16 == 15 {
                arena.tick();
            }
            most = most.max(arena.server.stack.receive_memory());
        }
        arena.settle(20);
    }
    assert!(most > 700 << 10, "{most}: the limit was not put to the test");
    assert!(most <= 1 << 20, "{most} bytes held");
    for (which, len) in [60, 400, 1_500, 3_000, 6_000].into_iter().enumerate() {
        stranger_is_served(&mut arena, which as u32, len);
    }
    assert!(arena.server.stack.counters().early_shed > 0);
    assert_eq!(arena.server.stack.counters().held_ended, 0, "nobody had to go");
    assert_served(&mut arena, 10_000);
    arena.client_leaves();
    crowd.manner = Manner::Silent;
    arena.pass(Duration::from_secs(200));
    assert_forgotten(&mut arena);
}

/// The memory full of half heads, each so short that the share kept for such
/// is used up too: the oldest end, newcomers are served.
#[test]
fn the_oldest_half_heads_give_way() {
    let mut setup = Setup::new(900, 29).client(2, 10_000, Reuse::KeepAlive);
    setup.stack.receive_memory = 1 << 20;
    let mut arena = Arena::new(setup);
    let mut crowd = crowd_of(&mut arena, 1_000);
    let half = [b"GET / HTTP/1.1\r\nCookie: ".as_slice(), &[b'c'; 1_300]].concat();
    let mut most = 0;
    for peer in peers(&crowd) {
        arena.inject(&peer.segment(Flags::ACK, 0, &half).frame());
        arena.tick();
        crowd.pump(&mut arena);
        most = most.max(arena.server.stack.receive_memory());
    }
    assert!(most > 1_000 << 10, "{most}: the limit was not put to the test");
    assert!(most <= 1 << 20, "{most} bytes held");
    for (which, len) in [60, 400, 1_500, 3_000, 6_000].into_iter().enumerate() {
        stranger_is_served(&mut arena, which as u32, len);
    }
    arena.settle(20);
    crowd.pump(&mut arena);
    let ended = arena.server.stack.counters().held_ended;
    assert!((200..450).contains(&ended), "{ended} had to go");
    // From the oldest on.
    let reset: Vec<bool> = peers(&crowd).iter().map(|peer| peer.state == PeerState::Reset).collect();
    let first_kept = reset.iter().position(|reset| !reset).expect("not all");
    assert!(first_kept >= 150, "the first that was kept is {first_kept}");
    assert!(reset[first_kept..].iter().all(|reset| !reset), "a younger one went before an older");
    assert_served(&mut arena, 10_000);
    arena.client_leaves();
    crowd.manner = Manner::Silent;
    arena.pass(Duration::from_secs(200));
    assert_forgotten(&mut arena);
}

/// Half a head, and then the end of what the peer sends, or a reset: nothing
/// is held for one that says no more, and its connection is over at once.
#[test]
fn a_half_head_and_a_close() {
    for flags in [Flags::FIN | Flags::ACK, Flags::RST] {
        let mut arena = Arena::new(Setup::new(900, 30));
        let mut crowd = crowd_of(&mut arena, 100);
        crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\nCook");
        assert!(arena.server.stack.receive_memory() > 0);
        for peer in peers(&crowd) {
            arena.inject(&peer.segment(flags, 0, b"").frame());
            if let Some(peer) = crowd.peers.get_mut(&(peer.end.ip, peer.end.port)) {
                peer.seq = peer.seq.plus(1);
            }
            arena.tick();
            crowd.pump(&mut arena);
        }
        arena.pass(Duration::from_millis(5));
        crowd.pump(&mut arena);
        arena.pass(Duration::from_millis(5));
        assert_eq!(arena.server.stack.receive_memory(), 0);
        assert_eq!(arena.server.stack.connections(), 0, "after {flags:?}");
        assert_forgotten(&mut arena);
    }
}

/// A drain does not wait for peers that went in the middle of a head.
#[test]
fn a_drain_after_half_heads() {
    let mut arena = Arena::new(Setup::new(900, 31));
    let mut crowd = crowd_of(&mut arena, 50);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\nCook");
    for peer in peers(&crowd) {
        arena.inject(&peer.segment(Flags::FIN | Flags::ACK, 0, b"").frame());
        if let Some(peer) = crowd.peers.get_mut(&(peer.end.ip, peer.end.port)) {
            peer.seq = peer.seq.plus(1);
        }
    }
    let start = arena.now;
    let end = start + Duration::from_secs(100);
    let drained = arena.pass_until(end, |arena| {
        crowd.pump(arena);
        let silo = &mut arena.server;
        app::App::drain(&mut silo.app, &mut silo.stack)
    });
    assert!(drained && arena.now.since(start) < Duration::from_secs(1), "after {:?}", arena.now.since(start));
}
