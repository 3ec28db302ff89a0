//! The limit on connections: idle ones make room.

use crate::{assert_forgotten, assert_served};
use core::time::Duration;
use hostile::arena::{Arena, Setup};
use hostile::crowd::{Crowd, Manner, PeerState};
use load::Reuse;
use wire::tcp::Flags;

const LIMIT: u32 = 300;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server all of whose connections are in use by a crowd.
fn full(size: u64, seed: u64) -> (Arena, Crowd) {
    let mut setup = Setup::new(size, seed);
    setup.stack.max_connections = LIMIT as usize;
    let mut arena = Arena::new(setup);
    let mut crowd = Crowd::new();
    assert_eq!(crowd.open(&mut arena, 0, LIMIT), LIMIT as usize);
    assert_eq!(arena.server.stack.connections(), LIMIT as usize);
    (arena, crowd)
}

/// A newcomer's SYN, acknowledgement and request, each sent once; how long
/// the answer took.
fn newcomer(arena: &mut Arena, which: u32) -> Option<Duration> {
    let mut crowd = Crowd::new();
    let start = arena.now;
    crowd.open(arena, 800_000 + which, 800_001 + which);
    crowd.say(arena, GET);
    let end = start + Duration::from_millis(100);
    arena.pass_until(end, |arena| {
        crowd.pump(arena);
        crowd.peers.values().any(|peer| peer.received > 0)
    });
    let served = crowd.peers.values().any(|peer| peer.received > 0);
    served.then(|| arena.now.since(start))
}

/// At a full table of idle connections, whether they have asked before or
/// never, each newcomer is answered within 10 ms. One that waited for long
/// goes for each, and none that is being answered.
#[test]
fn idle_connections_make_room() {
    for asked in [true, false] {
        let (mut arena, mut crowd) = full(100, 61);
        if asked {
            crowd.say(&mut arena, GET);
        }
        arena.pass(Duration::from_secs(5));
        crowd.pump(&mut arena);
        // Some ask again: these have not been idle for long.
        let mut lately = Crowd::new();
        lately.peers = crowd.peers.iter().filter(|(key, _)| key.1 % 8 == 0).map(|(k, p)| (*k, *p)).collect();
        lately.say(&mut arena, GET);
        arena.pass(Duration::from_millis(50));
        lately.pump(&mut arena);
        for which in 0..100 {
            let took = newcomer(&mut arena, which).expect("an answer");
            assert!(took < Duration::from_millis(10), "newcomer {which} waited for {took:?}");
            assert!(arena.server.stack.connections() <= LIMIT as usize);
        }
        assert_eq!(arena.server.stack.counters().idle_displaced, 100);
        arena.settle(20);
        lately.say(&mut arena, GET);
        arena.settle(20);
        lately.pump(&mut arena);
        let reset = lately.count(PeerState::Reset);
        assert_eq!(reset, 0, "{reset} of {} that had just asked", lately.peers.len());
        crowd.manner = Manner::Silent;
        arena.pass(Duration::from_secs(300));
        assert_forgotten(&mut arena);
    }
}

/// Connections with a request under way, a half head or a response that is
/// not taken, stay: newcomers wait until one ends.
#[test]
fn busy_connections_stay() {
    for (size, text) in [(1 << 20, GET), (100, b"GET / HTTP/1.1\r\nHost".as_slice())] {
        let (mut arena, mut crowd) = full(size, 62);
        crowd.manner = Manner::Silent;
        crowd.say(&mut arena, text);
        arena.pass(Duration::from_millis(100));
        assert_eq!(newcomer(&mut arena, 0), None);
        assert_eq!(arena.server.stack.counters().idle_displaced, 0);
        assert_eq!(arena.server.stack.connections(), LIMIT as usize);
        // One goes, and the next newcomer is served.
        let peer = *crowd.peers.values().next().expect("a peer");
        arena.inject(&peer.segment(Flags::RST, 0, b"").frame());
        arena.settle(4);
        assert!(newcomer(&mut arena, 1).is_some());
        arena.pass(Duration::from_secs(200));
        assert_forgotten(&mut arena);
    }
}

/// A flood of SYNs that nobody completes ends nobody's connection, nor does
/// one that completes them end what is being answered.
#[test]
fn forged_newcomers_displace_nobody() {
    let mut setup = Setup::new(1_000, 63).client(8, 4_000, Reuse::KeepAlive);
    setup.stack.max_connections = LIMIT as usize;
    let mut arena = Arena::new(setup);
    let mut crowd = Crowd::new();
    assert_eq!(crowd.open(&mut arena, 0, LIMIT - 8), LIMIT as usize - 8);
    crowd.say(&mut arena, GET);
    let mut forged = Crowd::new();
    forged.manner = Manner::Silent;
    forged.open(&mut arena, 100_000, 110_000);
    assert_eq!(arena.server.stack.counters().idle_displaced, 0);
    assert_eq!(crowd.count(PeerState::Open), LIMIT as usize - 8);
    forged.manner = Manner::Polite;
    forged.open(&mut arena, 120_000, 122_000);
    assert!(arena.server.stack.counters().idle_displaced > 500);
    assert_served(&mut arena, 4_000);
    arena.client_leaves();
    forged.manner = Manner::Silent;
    crowd.manner = Manner::Silent;
    arena.pass(Duration::from_secs(300));
    assert_forgotten(&mut arena);
}

/// One client's connections are limited where that is asked for, those of
/// others are not, and a proxy's are not; the limit holds for handshakes that
/// were begun before, and what ends may come again.
#[test]
fn one_client_has_its_limit() {
    for max_half_open in [4_096, 0] {
        let mut setup = Setup::new(100, 64).client(8, 500, Reuse::ServerCloses);
        setup.stack.max_half_open = max_half_open;
        let exempt = vec!["10.0.0.2/32".parse().expect("a prefix")];
        setup.stack.per_source = Some(app::SourceRule { limit: 5, exempt });
        let mut arena = Arena::new(setup);
        let mut crowd = Crowd::new();
        // All from one address, and from another.
        crowd.open(&mut arena, 0, 100);
        crowd.open(&mut arena, 40_000, 40_100);
        arena.settle(20);
        crowd.pump(&mut arena);
        let counters = arena.server.stack.counters();
        assert!(counters.source_limited >= 190, "{counters:?}");
        crowd.say(&mut arena, GET);
        arena.settle(20);
        crowd.pump(&mut arena);
        let served = |crowd: &Crowd| crowd.peers.values().filter(|peer| peer.received > 0).count();
        assert_eq!(served(&crowd), 10);
        assert!(crowd.count(PeerState::Reset) > 40, "told so, within the limit of resets");
        let peer = *crowd.peers.values().find(|peer| peer.received > 0).expect("a peer");
        arena.inject(&peer.segment(Flags::RST, 0, b"").frame());
        arena.settle(4);
        let index = if peer.end.ip == Crowd::end(0).ip { 200 } else { 40_200 };
        crowd.peers.clear();
        crowd.open(&mut arena, index, index + 2);
        crowd.say(&mut arena, GET);
        arena.settle(20);
        crowd.pump(&mut arena);
        assert_eq!(served(&crowd), 1, "in the place of one that went");
        assert_served(&mut arena, 500);
        arena.client_leaves();
        crowd.manner = Manner::Silent;
        arena.pass(Duration::from_secs(300));
        assert_forgotten(&mut arena);
    }
}

/// Half bodies that fill all places, a byte of each now and then, keep nobody out for long:
/// they are told 408, and newcomers have their places.
#[test]
fn half_bodies_make_room() {
    let mut setup = Setup::new(100, 65);
    setup.stack.max_connections = LIMIT as usize;
    setup.server.limits.connections = LIMIT as usize;
    let mut arena = Arena::new(setup);
    let mut crowd = Crowd::new();
    assert_eq!(crowd.open(&mut arena, 0, LIMIT), LIMIT as usize);
    crowd.say(&mut arena, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let drip = |arena: &mut Arena, crowd: &mut Crowd, seconds: u32| {
        for _ in 0..2 * seconds {
            arena.pass(Duration::from_millis(500));
            crowd.say(arena, b"x");
            crowd.pump(arena);
        }
    };
    drip(&mut arena, &mut crowd, 2);
    assert_eq!(newcomer(&mut arena, 0), None, "they have only begun");
    drip(&mut arena, &mut crowd, 3);
    for which in 1..50 {
        newcomer(&mut arena, which).expect("an answer");
    }
    let counters = arena.server.app.snapshot();
    assert_eq!(counters.gave_way_bodies, u64::from(LIMIT));
    assert_eq!(counters.responses_4xx, u64::from(LIMIT), "408");
}
