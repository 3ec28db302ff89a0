//! The web server with nobody else about.

use sim::quiet::asker::Crowd;
use sim::quiet::cases::{self, Case};
use sim::quiet::site::Site;
use sim::quiet::{self, WIDE, World, over_sockets, over_stack, stuck};
use std::time::Duration;

#[track_caller]
fn object(objections: &[String]) {
    assert!(objections.is_empty(), "{} objections:\n{}", objections.len(), objections.join("\n"));
}

/// Answers that nothing but a clock, or others, would let go on: none.
#[test]
fn nothing_waits_for_a_clock_over_our_stack() {
    let site = Site::new("stack").expect("files");
    object(&over_stack(&site, &cases::all(), WIDE));
}

/// The same where what is between two servers is secured: the answers come by the first, which is
/// a client of the second's TLS.
#[test]
fn nothing_secured_waits_for_a_clock_over_our_stack() {
    let site = Site::secured("secured").expect("files");
    object(&over_stack(&site, &cases::secured(), WIDE));
}

/// And over kernel sockets.
#[test]
fn nothing_secured_waits_for_a_clock_over_kernel_sockets() {
    let site = Site::secured("secured-sockets").expect("files");
    object(&over_sockets(&site, &cases::secured(), None));
}

/// What helpers do takes no time that the machine decides.
#[test]
fn a_run_is_as_another() {
    let site = Site::new("again").expect("files");
    let cases = cases::of_helpers();
    assert!(cases.len() >= 4);
    let ends = quiet::ends(&site, &cases);
    for _ in 0..3 {
        assert_eq!(quiet::ends(&site, &cases), ends);
    }
}

/// The same where a connection's queue is empty as soon as the turn is over.
#[test]
fn nothing_waits_for_a_clock_over_kernel_sockets() {
    let site = Site::new("sockets").expect("files");
    object(&over_sockets(&site, &cases::all(), None));
}

/// What the client of a tunnel has sent arrives, though it ends while its upstream has taken little
/// of it, and takes long for the rest: as long as it takes any.
#[test]
fn what_was_sent_through_a_tunnel_arrives_over_our_stack() {
    let site = Site::new("tunnels").expect("files");
    let cases = cases::of_tunnels(400_000, &["swallow", "late", "snail", "slug"]);
    object(&over_stack(&site, &cases, stuck::WINDOW));
}

/// The same where the kernel has but little of it.
#[test]
fn what_was_sent_through_a_tunnel_arrives_over_kernel_sockets() {
    let site = Site::new("tunnels-sockets").expect("files");
    let cases = cases::of_tunnels(400_000, &["swallow", "late", "snail"]);
    object(&over_sockets(&site, &cases, Some(8 << 10)));
}

/// A page within another, whose turn has not come, waits for a place that others hold for ever: it
/// goes on as one of those leaves, though what stands before it does not.
#[test]
fn a_place_that_is_left_goes_to_who_waits_for_one() {
    let site = Site::new("places").expect("files");
    // Each holds three of 1,024; the page and what is beside it four.
    let mut world = World::new(&site, Crowd::default());
    let to = world.server_at;
    let crowd = world.clients();
    (crowd.to, crowd.left) = (Some(to), 340);
    crowd.request = b"GET /fssi/hold.shtml HTTP/1.1\r\nHost: quiet\r\n\r\n".to_vec();
    assert!(!world.run(Duration::from_secs(2), |_| false));
    assert_eq!(world.asked_for("never"), 1_020);
    world.clients().asker.ask(to, &Case::waiting());
    assert!(!world.run(Duration::from_secs(2), |_| false));
    assert_eq!((world.asked_for("never"), world.asked_for("second")), (1_023, 0), "no place is left");
    // More stay than are looked at for other reasons.
    world.clients().leaves = 1;
    assert!(!world.run(Duration::from_secs(2), |_| false));
    assert_eq!(world.asked_for("second"), 1);
}

/// Peers that stop in the middle, wherever they do: nothing of it is left once their time is over.
#[test]
fn whoever_stops_is_given_up() {
    let site = Site::new("stuck").expect("files");
    let cases = stuck::all();
    assert!(cases.len() > 200, "{}", cases.len());
    object(&stuck::over_stack(&site, &cases));
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
