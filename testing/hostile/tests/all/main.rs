//! One attack per test; see the crate's documentation.

mod blind;
mod budget;
mod crowd;
mod floods;
mod leaks;
mod memory;
mod neighbours;
mod noise;
mod sack_storm;
mod slow;
mod sockets;

use core::time::Duration;
use hostile::arena::Arena;

/// The client has made all its requests, and every response was right.
fn assert_served(arena: &mut Arena, requests: u64) {
    let end = arena.now + Duration::from_secs(1_000);
    let done = arena.pass_until(end, |arena| arena.client.as_ref().is_none_or(|client| client.app.done()));
    let client = arena.client.as_ref().expect("a client");
    assert!(done, "the client is stuck after {} of {requests} responses", client.app.right);
    assert_eq!(client.app.wrong, Vec::<String>::new());
    let figures = client.app.load.figures().expect("figures");
    let mut counts = figures.counts;
    counts.add(&figures.before);
    let errors = counts.errors;
    assert_eq!(errors.failed_requests() + errors.failed_connects(), 0, "{errors:?}");
    assert!(client.app.right >= requests, "{} of {requests}", client.app.right);
}

/// Nothing is left of anybody, and the server sleeps.
fn assert_forgotten(arena: &mut Arena) {
    let stack = &arena.server.stack;
    let left = [
        ("connections", stack.connections()),
        ("half-open handshakes", stack.half_open()),
        ("TIME-WAIT records", stack.time_wait()),
        ("bytes received", stack.receive_memory()),
    ];
    for (what, count) in left {
        assert_eq!(count, 0, "{what}");
    }
    assert_eq!(arena.server.app.snapshot().connections_open, 0);
    assert_sleeps(arena);
}

/// With nobody speaking, the server takes a few turns a second at most, and
/// none of them says that it has more to do.
fn assert_sleeps(arena: &mut Arena) {
    arena.settle(10_000);
    assert!(arena.is_quiet(), "there is still something to do");
    let turns = arena.traffic.turns;
    arena.pass(Duration::from_secs(100));
    let turns = arena.traffic.turns - turns;
    assert!(turns <= 500, "{turns} turns in 100 s of silence");
    assert!(!arena.server_turn().more);
}
