//! The web server with nobody else about.

use sim::quiet::asker::Crowd;
use sim::quiet::cases::{self, Case};
use sim::quiet::site::Site;
use sim::quiet::{World, over_sockets, over_stack};
use std::time::Duration;

#[track_caller]
fn object(objections: &[String]) {
    assert!(objections.is_empty(), "{} objections:\n{}", objections.len(), objections.join("\n"));
}

/// Answers that nothing but a clock, or others, would let go on: none.
#[test]
fn nothing_waits_for_a_clock_over_our_stack() {
    let site = Site::new("stack").expect("files");
    object(&over_stack(&site, &cases::all()));
}

/// The same where a connection's queue is empty as soon as the turn is over.
#[test]
fn nothing_waits_for_a_clock_over_kernel_sockets() {
    let site = Site::new("sockets").expect("files");
    object(&over_sockets(&site, &cases::all()));
}

/// As many as a silo has places for subrequests are held by others, for ever: one who is
/// innocent has pages that are made of hundreds all the same, and at once.
#[test]
fn those_who_wait_for_a_place_are_woken() {
    let site = Site::new("crowd").expect("files");
    for (clients, depth) in [(330, 8), (330, 11), (450, 8), (341, 5)] {
        let mut world = World::new(&site, Crowd::default());
        let to = world.server_at;
        let crowd = world.clients();
        (crowd.to, crowd.left) = (Some(to), clients);
        crowd.request = b"GET /fssi/hold.shtml HTTP/1.1\r\nHost: quiet\r\n\r\n".to_vec();
        assert!(!world.run(Duration::from_secs(2), |_| false));
        let case: Case = cases::of_tree(depth);
        world.watch();
        world.clients().asker.ask(to, &case);
        let done = world.run(Duration::from_secs(30), |crowd| crowd.asker.is_done());
        let asked = world.clients().asker.take();
        assert!(done, "{clients} and {depth}: {} bytes came", asked.arrived.len());
        assert_eq!(case.objection(&asked), None, "{clients} and {depth}");
        assert_eq!(world.rests(), None, "{clients} and {depth}");
    }
}
