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

fn changing(changes: &[(u64, PathChange)], path: Internet) -> Internet {
    let changes = changes.iter().map(|&(ms, what)| Change { at: Duration::from_millis(ms), what }).collect();
    Internet { changes, ..path }
}

fn least_mss(flow: &sim::internet::FlowRan) -> u16 {
    flow.mss.iter().filter(|mss| **mss > 0).min().copied().unwrap_or(0)
}

/// RFC 8899 section 4.3: where long packets begin to vanish a transfer goes on
/// within 2 s, and finds what passes: from the start, amid a transfer, and where
/// the round trip is long.
#[test]
fn a_black_hole_does_not_stall() {
    for (at, rtt) in [(0, 40), (3_000, 40), (3_000, 10), (3_000, 150)] {
        let path = Internet { rtt: Duration::from_millis(rtt), ..Internet::default() };
        let ran = changing(&[(at, PathChange::BlackHole(1_400))], path).run();
        let flow = &ran.flows[0];
        let from = Duration::from_millis(at);
        let gap = flow.longest_gap(from, secs(10));
        assert!(gap <= secs(2), "{at} {rtt}: {gap:?}");
        // Of a packet of 1,400 bytes 52 are headers with timestamps.
        let last = flow.mss.iter().rev().find(|mss| **mss > 0).copied().unwrap_or(0);
        assert!((1_340..=1_348).contains(&last), "{at} {rtt}: {last}");
        assert_eq!(flow.counters.path_mtu_black_holes, 1);
        let rate = flow.goodput(secs(8), secs(10));
        // A long round trip takes longer to have its window back.
        assert!(rate > if rtt > 100 { 10e6 } else { 15e6 }, "{at} {rtt}: {rate}");
    }
}

/// Loss and outages of packets of all sizes lower no segment's size, or for one
/// probe's time.
#[test]
fn what_befalls_all_sizes_lowers_none() {
    for seed in 1..=5 {
        let loss = link::Impairment { loss: link::Probability::new(0.03), ..link::Impairment::default() };
        let lossy = Internet { there: loss, seed, ..Internet::default() };
        let outage = [(3_000, PathChange::Outage), (5_000, PathChange::Mended)];
        for path in
            [lossy.clone(), changing(&outage, Internet { seed, ..Internet::default() }), changing(&outage, lossy)]
        {
            let ran = path.run();
            let flow = &ran.flows[0];
            let short = flow.mss.iter().filter(|mss| (1..1_448).contains(*mss)).count();
            // Of ticks of 100 ms: a round trip takes 40.
            assert!(short <= 3, "seed {seed}: {short} ticks with segments of {}", least_mss(flow));
            assert_eq!((flow.counters.path_mtu_black_holes, flow.mss.last()), (0, Some(&1_448)), "seed {seed}");
        }
    }
}

/// A long path is filled by one flow, though its receiver begins with a window
/// and its sender's application with a queue of much less.
#[test]
fn windows_open_to_what_a_path_takes() {
    let flow = |tcp: tcp::Config| Flow { bytes: 50_000_000, tcp, ..Flow::default() };
    let path = |tcp: tcp::Config| Internet {
        rate: Some(200_000_000),
        rtt: Duration::from_millis(100),
        queue: Queue::Bytes(2_500_000),
        flows: vec![flow(tcp.clone())],
        receiver: tcp,
        until: secs(120),
        ..Internet::default()
    };
    let took = |tcp| path(tcp).run().flows[0].ended.expect("it ends").as_secs_f64();
    let usual = took(tcp::Config::default());
    let narrow = took(tcp::Config { receive_limit: 1 << 20, ..tcp::Config::default() });
    let starved = took(tcp::Config { send_limit: 0, ..tcp::Config::default() });
    assert!(usual < 3.6, "{usual}");
    assert!(narrow > 1.4 * usual && starved > 1.4 * usual, "{usual} {narrow} {starved}");
}
