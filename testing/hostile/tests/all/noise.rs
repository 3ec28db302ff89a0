//! Frames that nobody should send.

use crate::{assert_forgotten, assert_served};
use core::time::Duration;
use hostile::arena::{Arena, Setup};
use hostile::noise::{KINDS, Noise};
use hostile::soak::{FRAMES_PER_TURN, Soak};
use load::Reuse;

/// 100,000 bad frames of all kinds, beside a keep-alive client.
#[test]
fn noise_beside_keep_alive() {
    let mut soak = Soak::new(7, 20_000);
    let turns = 100_000 / FRAMES_PER_TURN as u64 + 1;
    soak.turns(turns);
    assert_eq!(soak.violations(), Vec::<String>::new());
    assert!(soak.arena.traffic.injected >= 100_000);
    let stack = &soak.arena.server.stack;
    let counted = stack.counters();
    for (name, count) in counted.iter() {
        let expected =
            ["malformed", "bad_checksum", "martian", "not_for_us", "fragments_in", "icmp_in", "neighbour_in"];
        assert!(!expected.contains(&name) || count > 0, "no {name} among the noise");
    }
    // Rate limits hold: at most one and a half of the rate in each second that
    // was begun.
    let span = f64::from(turns as u32) * hostile::arena::TURN.as_secs_f64();
    let resets = stack.config().resets;
    let most = 1.25 * f64::from(resets.depth) + 1.5 * f64::from(resets.per_second) * (span.ceil() + 1.0);
    assert!(counted.resets_out as f64 <= most, "{} resets in {span} s", counted.resets_out);
    assert_served(&mut soak.arena, 20_000);
    soak.end();
    assert_forgotten(&mut soak.arena);
}

/// The same beside a client that opens a connection for each request.
#[test]
fn noise_beside_new_connections() {
    for reuse in [Reuse::ServerCloses, Reuse::ClientCloses] {
        let mut arena = Arena::new(Setup::new(300, 3).client(8, 3_000, reuse));
        let mut noise = Noise::new(11);
        for _ in 0..2_000 {
            for _ in 0..FRAMES_PER_TURN {
                let frame = noise.frame(&arena.overheard);
                arena.inject(&frame);
            }
            arena.tick();
            while arena.hear().is_some() {}
        }
        assert!(noise.made.iter().all(|made| *made > 100), "{:?} of {KINDS} kinds", noise.made);
        assert_served(&mut arena, 3_000);
        arena.client_leaves();
        arena.pass(Duration::from_secs(1_200));
        assert_forgotten(&mut arena);
    }
}

/// The same seed is the same run, to the last counter.
#[test]
fn a_seed_replays() {
    let run = || {
        let mut soak = Soak::new(5, u64::MAX);
        soak.turns(400);
        soak.report()
    };
    assert_eq!(run(), run());
}
