//! What the emulated paths of the simulator do to flows.

use core::time::Duration;
use sim::internet::{Change, Flow, Internet, PathChange, Queue};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A bottleneck passes what its rate says, and its queue is as long as it is
/// told, in bytes or in frames.
#[test]
fn a_bottleneck_has_its_rate_and_its_queue() {
    let [bytes, frames] = [Queue::Bytes(50_000), Queue::Frames(20)].map(|queue| {
        let path = Internet { rate: Some(10_000_000), queue, until: secs(5), ..Internet::default() };
        let ran = path.run();
        // Of a frame of 1,514 bytes 1,448 are payload.
        let most = 10e6 * 1_448.0 / 1_514.0;
        let rate = ran.flows[0].goodput(secs(1), secs(5));
        assert!((0.7 * most..=1.001 * most).contains(&rate), "{queue:?}: {rate}");
        assert!(ran.drops() > 0 && ran.path[0].lost == 0 && ran.path[1].queue_dropped == 0);
        ran.mean_queue()
    });
    assert!(bytes < 50_000.0 && frames < 20.0 * 1_514.0 && frames < bytes, "{bytes} {frames}");
}

/// Two runs of one path are the same, and another seed's are not.
#[test]
fn a_path_repeats() {
    let path = |seed| {
        let there = link::Impairment { loss: link::Probability::new(0.02), ..link::Impairment::default() };
        Internet { there, until: secs(2), seed, ..Internet::default() }.run().flows.remove(0).received
    };
    assert_eq!(path(1), path(1));
    assert_ne!(path(1), path(2));
}

/// Flows begin when they are told to, and end with what they carry.
#[test]
fn flows_begin_and_end() {
    let flow = |at, bytes| Flow { at: secs(at), bytes, ..Flow::default() };
    let ran = Internet { flows: vec![flow(0, 500_000), flow(2, 1_000_000)], ..Internet::default() }.run();
    for (flow, (at, bytes)) in ran.flows.iter().zip([(0, 500_000), (2, 1_000_000)]) {
        assert_eq!(flow.received.iter().sum::<u64>(), bytes);
        assert_eq!(flow.received.iter().take(at * 10).sum::<u64>(), 0);
        assert!(flow.ended.is_some_and(|ended| ended > secs(at as u64) && ended < secs(5)), "{:?}", flow.ended);
    }
    assert!(ran.took < secs(5), "{:?}", ran.took);
}

/// Nothing passes in an outage, and what goes another way has that one's round
/// trip.
#[test]
fn outages_and_routes() {
    let change = |at, what| Change { at: secs(at), what };
    let changes = vec![change(2, PathChange::Outage), change(4, PathChange::Mended)];
    let ran = Internet { changes, ..Internet::default() }.run();
    let gap = ran.flows[0].longest_gap(secs(2), secs(10));
    assert!((1_900..4_500).contains(&gap.as_millis()), "{gap:?}");
    // The flow fills the queue of either, which is one of the longer's.
    let changes = vec![change(3, PathChange::Route(Duration::from_millis(10)))];
    let path = Internet { rate: Some(5_000_000), rtt: Duration::from_millis(200), ..Internet::default() };
    let slow = path.run().path[0].passed;
    let fast = Internet { changes, ..path }.run().path[0].passed;
    assert!(fast > slow, "{fast} {slow}");
}
