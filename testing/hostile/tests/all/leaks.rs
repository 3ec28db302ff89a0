//! What an attacker learns of others' connections by counting what is left of
//! limits that both share: nothing.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use hostile::arena::{ATTACKER_MAC, Arena, Setup, server_end};
use hostile::crowd::{Crowd, Peer, PeerState};
use hostile::frames::{End, Segment};
use hostile::rng::Rng;
use wire::tcp::{Flags, SeqNum, TcpOptions};

/// How often the best guess is right, in percent, that takes the truth from
/// whether a count is above a threshold. `counts` has those of the false cases
/// first.
fn best_guess(counts: &[Vec<usize>; 2]) -> usize {
    let total = counts[0].len() + counts[1].len();
    let most = counts.iter().flatten().max().copied().unwrap_or(0);
    let right = (0..=most + 1).map(|threshold| {
        let below = |set: &Vec<usize>| set.iter().filter(|count| **count < threshold).count();
        let right = below(&counts[0]) + counts[1].len() - below(&counts[1]);
        right.max(total - right)
    });
    right.max().unwrap_or(0) * 100 / total
}

/// Challenges for the attacker's own connections, which a SYN on each provokes
/// (RFC 5961 section 4.2).
fn provoke(arena: &mut Arena, own: &[Peer], victim: End) -> usize {
    let mut got = 0;
    for chunk in own.chunks(16) {
        for peer in chunk {
            arena.inject(&peer.segment(Flags::SYN, 1, b"").frame());
        }
        arena.tick();
        got += arena.hear_segments().iter().filter(|segment| segment.dst != victim).count();
    }
    got
}

/// Whether blind resets hit the window of somebody else's connection cannot be
/// told from how many challenges the attacker's own get: right after, or when
/// each may be challenged again, with the limit of all as it is or so low that
/// the attacker uses it up (RFC 5961 section 7, CVE-2016-5696).
#[test]
fn challenges_tell_nothing_of_others() {
    const TRIALS: u64 = 100;
    for (all, wait) in [(None, 40), (None, 520), (Some(100), 40), (Some(100), 520)] {
        let mut seen = [Vec::new(), Vec::new()];
        for trial in 0..TRIALS {
            let hit = trial % 2 == 1;
            let mut setup = Setup::new(10, 5_000 + trial);
            setup.stack.challenge_acks_per_second = all.unwrap_or(setup.stack.challenge_acks_per_second);
            let mut arena = Arena::new(setup);
            let mut crowd = Crowd::new();
            crowd.options = TcpOptions { mss: Some(1460), ..TcpOptions::NONE };
            assert_eq!(crowd.open(&mut arena, 0, 200), 200);
            let peer = |n| crowd.peers[&(Crowd::end(n).ip, Crowd::end(n).port)];
            let own: Vec<Peer> = (0..199).map(peer).collect();
            let victim = peer(199);
            arena.pass(Duration::from_millis(1_000 + (trial % 7) * 100));
            while arena.hear().is_some() {}
            provoke(&mut arena, &own, victim.end);
            arena.pass(Duration::from_millis(wait));
            while arena.hear().is_some() {}
            let guess = if hit { 30_000 } else { 0x4000_0000 };
            for n in 0..20 {
                arena.inject(&victim.segment(Flags::RST, guess + n, b"").frame());
                if n % 10 == 9 {
                    arena.tick();
                }
            }
            arena.settle(4);
            assert_eq!(arena.server.stack.tcp_counters().resets_challenged, if hit { 20 } else { 0 });
            while arena.hear().is_some() {}
            let left = provoke(&mut arena, &own, victim.end);
            seen[usize::from(hit)].push(left);
        }
        let right = best_guess(&seen);
        assert!(right < 75, "right in {right} of 100, limit {all:?}, {wait} ms between: {seen:?}");
    }
}

/// A connection is challenged at most once in half a second, whoever provokes
/// it, and again after that.
#[test]
fn a_connection_is_challenged_twice_a_second() {
    let mut arena = Arena::new(Setup::new(10, 77));
    let mut crowd = Crowd::new();
    assert_eq!(crowd.open(&mut arena, 0, 2), 2);
    let peer = |n| crowd.peers[&(Crowd::end(n).ip, Crowd::end(n).port)];
    let (one, other) = (peer(0), peer(1));
    arena.pass(Duration::from_secs(1));
    while arena.hear().is_some() {}
    let mut answers = 0;
    for _ in 0..100 {
        arena.inject(&one.segment(Flags::RST, 100, b"").frame());
        arena.pass(Duration::from_millis(50));
        answers += arena.hear_segments().len();
    }
    assert!((9..=11).contains(&answers), "{answers} in 5 s");
    arena.inject(&one.segment(Flags::RST, 100, b"").frame());
    arena.inject(&other.segment(Flags::RST, 100, b"").frame());
    arena.settle(4);
    let heard = arena.hear_segments();
    assert!(heard.iter().any(|segment| segment.dst == other.end), "another's limit is its own");
}

/// Whether a 4-tuple has a connection cannot be told from how many resets the
/// attacker's own segments of no connection get. Where it has none, forged
/// ones are answered by resets, and those must not come out of what is left
/// for others.
#[test]
fn resets_tell_nothing_of_others() {
    const TRIALS: u64 = 60;
    let mut seen = [Vec::new(), Vec::new()];
    for trial in 0..TRIALS {
        let exists = trial % 2 == 1;
        let mut setup = Setup::new(10, 9_000 + trial);
        // As deep as 150 segments empty it.
        setup.stack.resets_per_source = stack::ResetRate { per_second: 50, depth: 50 };
        let mut arena = Arena::new(setup);
        let mut crowd = Crowd::new();
        assert_eq!(crowd.open(&mut arena, 0, 1), 1);
        let mut forged = *crowd.peers.values().next().expect("a peer");
        // Anywhere in a second.
        arena.pass(Duration::from_millis(1_500 + trial * 137 % 400));
        while arena.hear().is_some() {}
        forged.end.port += u16::from(!exists);
        let mut rng = Rng::new(trial);
        for _ in 0..40 {
            let mut segment = forged.segment(Flags::ACK, 0, b"");
            (segment.seq, segment.ack) = (SeqNum(rng.word() as u32), SeqNum(rng.word() as u32));
            arena.inject(&segment.frame());
        }
        arena.tick();
        while arena.hear().is_some() {}
        let me = End { mac: ATTACKER_MAC, ip: IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)), port: 4000 };
        for n in 0..150 {
            arena.inject(&Segment::new(me, server_end(), Flags::ACK, SeqNum(n), SeqNum(n)).frame());
        }
        arena.settle(10);
        let answers = arena.hear_segments();
        let resets = answers.iter().filter(|s| s.dst == me && s.flags.contains(Flags::RST)).count();
        assert!((25..=75).contains(&resets), "{resets} for one source in a second");
        seen[usize::from(exists)].push(resets);
    }
    let right = best_guess(&seen);
    assert!(right < 75, "right in {right} of 100: {seen:?}");
}

/// What ICMP errors use up is not what resets have, and the other way round.
#[test]
fn errors_and_resets_have_limits_of_their_own() {
    let mut arena = Arena::new(Setup::new(10, 78));
    arena.pass(Duration::from_millis(1_100));
    let me = End { mac: ATTACKER_MAC, ip: IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)), port: 4000 };
    let datagram = [0x10, 0, 0x20, 0, 0, 8, 0, 0];
    for _ in 0..200 {
        arena.inject(&hostile::frames::packet(me, server_end(), wire::protocol::UDP, &datagram));
    }
    arena.settle(10);
    let mut unreachable = 0;
    while let Some(frame) = arena.hear() {
        unreachable += usize::from(frame.get(23) == Some(&wire::protocol::ICMP));
    }
    assert!((25..=75).contains(&unreachable), "{unreachable} ICMP errors");
    arena.inject(&Segment::new(me, server_end(), Flags::ACK, SeqNum(1), SeqNum(1)).frame());
    arena.settle(4);
    assert_eq!(arena.hear_segments().len(), 1, "a reset");
}

/// RFC 1122 section 4.2.2.13 (b): the next connection of a flow in TIME-WAIT
/// begins beyond the last number of the one before, which sent more than the
/// clock of 4 µs counts (RFC 9293 section 3.4.1).
#[test]
fn numbers_go_on_after_time_wait() {
    for seed in 70..78 {
        let mut arena = Arena::new(Setup::new(8 << 20, seed));
        let mut crowd = Crowd::new();
        crowd.options.window_scale = Some(7);
        assert_eq!(crowd.open(&mut arena, 0, 1), 1);
        crowd.say(&mut arena, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        for _ in 0..200_000 {
            arena.tick();
            crowd.pump(&mut arena);
            if crowd.count(PeerState::Finished) == 1 {
                break;
            }
        }
        let peer = *crowd.peers.values().next().expect("a peer");
        assert!(peer.received > 8 << 20);
        arena.inject(&peer.segment(Flags::FIN | Flags::ACK, 0, b"").frame());
        arena.settle(20);
        while arena.hear().is_some() {}
        assert_eq!(arena.server.stack.time_wait(), 1);
        arena.pass(Duration::from_secs(1));
        let syn = Segment::new(peer.end, server_end(), Flags::SYN, peer.seq.plus(100_000), SeqNum(0));
        arena.inject(&syn.frame());
        arena.settle(20);
        let answer = arena.hear_segments().into_iter().find(|segment| segment.flags.contains(Flags::SYN));
        let isn = answer.expect("a SYN,ACK").seq;
        assert_eq!(arena.server.stack.counters().time_wait_reused, 1);
        assert!(isn.after(peer.ack), "{isn:?} after {:?}", peer.ack);
    }
}
