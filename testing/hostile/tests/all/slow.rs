//! Peers that take their time, or vanish: what they hold is given back within
//! the limits that the server states.

use crate::{assert_forgotten, assert_served, memory};
use core::time::Duration;
use hostile::arena::{Arena, Setup};
use hostile::crowd::{Crowd, Manner, PeerState};
use load::Reuse;
use server::Counters;
use wire::tcp::Flags;

const PEERS: u32 = 100;

/// Peers that are open, and a client beside them.
fn crowded(size: u64, seed: u64, manner: Manner, window: u16) -> (Arena, Crowd) {
    let mut arena = Arena::new(Setup::new(size, seed).client(4, 500, Reuse::KeepAlive));
    let mut crowd = Crowd::new();
    crowd.window = window;
    assert_eq!(crowd.open(&mut arena, 0, PEERS), PEERS as usize);
    crowd.manner = manner;
    (arena, crowd)
}

/// Lets the server serve the client and then wait for the crowd.
fn gone_within(arena: &mut Arena, crowd: &mut Crowd, limit: Duration) -> Counters {
    assert_served(arena, 500);
    arena.client_leaves();
    let end = arena.now + limit;
    let gone = arena.pass_until(end, |arena| {
        crowd.pump(arena);
        arena.server.stack.connections() == 0
    });
    assert!(gone, "{} connections are left after {limit:?}", arena.server.stack.connections());
    let counters = arena.server.app.snapshot();
    // What follows a connection is TIME-WAIT.
    arena.pass(Duration::from_secs(62));
    crowd.manner = Manner::Silent;
    assert_forgotten(arena);
    counters
}

/// Connections on which nothing is ever said: 60 s for the first head.
#[test]
fn says_nothing() {
    let (mut arena, mut crowd) = crowded(10, 41, Manner::Polite, 0xffff);
    let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(67));
    assert_eq!(counters.timeouts_header, u64::from(PEERS));
}

/// Slowloris: a byte of the head now and then does not extend its time.
#[test]
fn slow_head() {
    let (mut arena, mut crowd) = crowded(10, 42, Manner::Polite, 0xffff);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\n");
    for _ in 0..28 {
        arena.pass(Duration::from_secs(2));
        crowd.say(&mut arena, b"x");
    }
    assert!(crowd.count(PeerState::Open) >= PEERS as usize - 1, "given up too early");
    let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(11));
    assert_eq!(counters.timeouts_header, u64::from(PEERS));
    assert_eq!(counters.responses_4xx, u64::from(PEERS), "408");
}

/// A body that stops coming: 60 s.
#[test]
fn body_that_stops() {
    let (mut arena, mut crowd) = crowded(10, 43, Manner::Polite, 0xffff);
    crowd.say(&mut arena, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
    let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(67));
    assert_eq!(counters.timeouts_body, u64::from(PEERS));
}

/// Keep-alive connections without a next request: 65 s.
#[test]
fn idle_keep_alive() {
    let (mut arena, mut crowd) = crowded(10, 44, Manner::Polite, 0xffff);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(72));
    assert_eq!(counters.timeouts_keep_alive, u64::from(PEERS));
}

/// Asks for much, takes nothing, and answers every probe (sockstress): given
/// up a keep-alive time and a send time after.
#[test]
fn zero_window() {
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] {
        let (mut arena, mut crowd) = crowded(1 << 20, 45, Manner::Polite, 0);
        crowd.say(&mut arena, request.as_bytes());
        let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(135));
        assert_eq!(counters.timeouts_send, u64::from(PEERS), "{request}");
    }
}

/// The same, and the peer has said that it sends no more: that must not be
/// taken for the end.
#[test]
fn zero_window_after_fin() {
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] {
        let (mut arena, mut crowd) = crowded(1 << 20, 46, Manner::Polite, 0);
        let before = memory::live();
        crowd.say(&mut arena, request.as_bytes());
        finish(&mut arena, &mut crowd);
        let counters = gone_within(&mut arena, &mut crowd, Duration::from_secs(135));
        assert_eq!(counters.timeouts_send, u64::from(PEERS), "{request}");
        assert!(memory::live() - before < 1 << 20, "{}", memory::live() - before);
    }
}

/// Takes the whole response and finishes, but never acknowledges our FIN: no
/// application waits for anything, so the connection does not wait for
/// fifteen retransmissions either.
#[test]
fn last_acknowledgement_missing() {
    for (request, early) in
        [("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false), ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true)]
    {
        let (mut arena, mut crowd) = crowded(100, 47, Manner::Unfinishing, 0xffff);
        crowd.say(&mut arena, request.as_bytes());
        if !early {
            arena.pass(Duration::from_millis(1));
            crowd.pump(&mut arena);
        }
        finish(&mut arena, &mut crowd);
        gone_within(&mut arena, &mut crowd, Duration::from_secs(70));
    }
}

/// Peers that vanish: in the middle of the response, before its first byte
/// arrives, and right after the handshake.
#[test]
fn vanishes() {
    for (size, request) in [
        (1 << 20, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (10, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        (10, "G"),
    ] {
        let (mut arena, mut crowd) = crowded(size, 48, Manner::Silent, 0xffff);
        crowd.say(&mut arena, request.as_bytes());
        gone_within(&mut arena, &mut crowd, Duration::from_secs(135));
        assert_eq!(arena.server.stack.receive_memory(), 0);
    }
}

/// Takes a little and vanishes in the middle.
#[test]
fn vanishes_half_way() {
    let (mut arena, mut crowd) = crowded(1 << 20, 49, Manner::Polite, 8_000);
    crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..20 {
        arena.tick();
        crowd.pump(&mut arena);
    }
    assert!(crowd.peers.values().all(|peer| peer.received > 0));
    crowd.manner = Manner::Silent;
    gone_within(&mut arena, &mut crowd, Duration::from_secs(135));
}

/// SYNs whose senders never speak again: five retransmissions, 63 s.
#[test]
fn half_open() {
    let mut arena = Arena::new(Setup::new(10, 50).client(4, 500, Reuse::KeepAlive));
    let mut crowd = Crowd::new();
    crowd.manner = Manner::Silent;
    crowd.open(&mut arena, 0, PEERS);
    assert_eq!(arena.server.stack.half_open(), PEERS as usize);
    gone_within(&mut arena, &mut crowd, Duration::from_secs(64));
    let counters = arena.server.stack.counters();
    // Their addresses answer no ARP either.
    assert_eq!(counters.half_open_expired + counters.half_open_unreachable, u64::from(PEERS));
}

/// Requests without end from a peer that takes no responses: what is queued
/// stays within the server's limit for a connection.
#[test]
fn pipelines_and_takes_nothing() {
    let (mut arena, mut crowd) = crowded(10_000, 51, Manner::Polite, 0);
    let before = memory::live();
    let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50);
    for _ in 0..20 {
        crowd.say(&mut arena, &requests);
    }
    let held = memory::live() - before;
    let limits = PEERS as isize * (256 << 10);
    assert!(held < limits, "{held} bytes for queues of a shared body");
    assert!(arena.server.app.snapshot().back_pressure > 0);
    gone_within(&mut arena, &mut crowd, Duration::from_secs(200));
}

/// Every peer that is still open sends FIN.
fn finish(arena: &mut Arena, crowd: &mut Crowd) {
    let mut peers: Vec<_> = crowd.peers.values().copied().filter(|peer| peer.state != PeerState::Reset).collect();
    peers.sort_unstable_by_key(|peer| (peer.end.ip, peer.end.port));
    for peer in peers {
        arena.inject(&peer.segment(Flags::FIN | Flags::ACK, 0, b"").frame());
        if let Some(peer) = crowd.peers.get_mut(&(peer.end.ip, peer.end.port)) {
            peer.seq = peer.seq.plus(1);
        }
        arena.tick();
        crowd.pump(arena);
    }
}
