//! What pacing does to flows, and what the network sees of it.

use core::time::Duration;
use link::{Impairment, Probability};
use sim::internet::{Flow, Internet, Queue, Ran};
use sim::simulate_paced;

/// Payload of a segment.
const SEGMENT: f64 = 1_448.0;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A flow that has this rate, in bytes per second.
fn at_rate(rate: u64, at: Duration) -> Flow {
    Flow { at, tcp: tcp::Config { max_pacing_rate: Some(rate), ..tcp::Config::default() }, ..Flow::default() }
}

/// Whatever the network does, with rates from a modem's to more than any path's: talks end,
/// whoever waits for a pacer is on a list for it, and what is sealed is sealed once.
#[test]
fn seeds_that_are_paced() {
    for seed in 0..12 {
        let outcome = simulate_paced(seed);
        assert_eq!(outcome.tally.violations, Vec::<String>::new(), "seed {seed}");
    }
}

/// Each flow has its rate in each second within two segments, and over five within 0.2 % and one,
/// counted by the receiver.
#[test]
fn flows_have_their_rate() {
    let rates: Vec<u64> = (0..40).map(|index| 50_000 + 10_000 * index).collect();
    let flows = rates.iter().enumerate().map(|(index, rate)| at_rate(*rate, millis(7 * index as u64))).collect();
    let path = Internet { rate: None, rtt: millis(30), flows, until: secs(8), ..Internet::default() };
    let ran = path.run();
    for (flow, rate) in ran.flows.iter().zip(rates) {
        let rate = rate as f64;
        for second in 2..7 {
            let got = flow.goodput(secs(second), secs(second + 1)) / 8.0;
            assert!((got - rate).abs() <= 2.0 * SEGMENT, "{rate} in second {second}: {got}");
        }
        let got = flow.goodput(secs(2), secs(7)) / 8.0 * 5.0;
        assert!((got - 5.0 * rate).abs() <= 0.002 * 5.0 * rate + SEGMENT, "{rate}: {got}");
        assert_eq!(flow.counters.retransmits, 0);
    }
}

/// One flow at a gigabit per second has it in each tenth of a second within one percent.
#[test]
fn a_fast_flow_has_its_rate() {
    let flows = vec![at_rate(125_000_000, Duration::ZERO)];
    let receiver = tcp::Config { receive_limit: 64 << 20, ..tcp::Config::default() };
    let path = Internet { rate: None, rtt: millis(5), flows, receiver, until: millis(1_200), ..Internet::default() };
    let ran = path.run();
    for tenth in 4..12 {
        let got = ran.flows[0].goodput(millis(100 * tenth), millis(100 * tenth + 100));
        assert!((got / 1e9 - 1.0).abs() <= 0.01, "tenth {tenth}: {got}");
    }
}

/// A rate below the path's leaves its queue empty; one above it is no rate.
#[test]
fn a_rate_below_the_path_needs_no_queue() {
    let run = |rate| {
        let path =
            Internet { queue: Queue::Frames(12), flows: vec![at_rate(rate, Duration::ZERO)], ..Internet::default() };
        path.run()
    };
    let slow = run(2_000_000);
    assert_eq!(slow.drops(), 0);
    assert!(slow.mean_queue() < 2.0 * 1_514.0, "{}", slow.mean_queue());
    assert!(run(1 << 40).drops() > 0);
}

/// The start of a flow, with and without pacing.
fn start(pace_start: bool, mbit: u64, queue: Queue) -> Ran {
    let tcp = tcp::Config { pace_start, ..tcp::Config::default() };
    let flows = vec![Flow { tcp, ..Flow::default() }];
    Internet { rate: Some(mbit * 1_000_000), queue, flows, until: millis(2_500), ..Internet::default() }.run()
}

/// The first 2.5 s of a flow lose hardly a packet, through queues of one and of half a
/// bandwidth-delay product: conservative slow start lost 47 and 499 there (RFC 9406 section 4.2).
#[test]
fn a_flow_starts_politely() {
    for (mbit, queue, most) in [(20, 100_000, 2), (100, 250_000, 20), (100, 500_000, 2)] {
        let ran = start(true, mbit, Queue::Bytes(queue));
        assert!(ran.drops() <= most, "{mbit} Mbit/s, {queue}: {} dropped", ran.drops());
        let share = ran.flows[0].goodput(Duration::ZERO, millis(2_500)) / (mbit as f64 * 1e6);
        assert!(share > 0.78, "{mbit} Mbit/s, {queue}: {share}");
    }
}

/// Answers of 100 kB lose nothing in a queue of ten packets, where what leaves at once does, and
/// come sooner for it; through longer queues, where nothing is lost either way, no later.
#[test]
fn short_answers_pass_short_queues() {
    let answer = |pace_start, frames| {
        let tcp = tcp::Config { pace_start, ..tcp::Config::default() };
        let flows = vec![Flow { bytes: 100_000, tcp, ..Flow::default() }];
        Internet { queue: Queue::Frames(frames), flows, ..Internet::default() }.run()
    };
    for frames in [10, 20, 50] {
        let (paced, bursts) = (answer(true, frames), answer(false, frames));
        assert_eq!(paced.drops(), 0, "{frames}");
        let ratio = paced.took.as_secs_f64() / bursts.took.as_secs_f64();
        let most = if bursts.drops() > 0 { 0.9 } else { 1.05 };
        assert!(ratio <= most, "{frames}: {ratio}");
    }
}

/// Two flows that begin at about one time share fairly, whichever is first: by Jain's index in
/// the median of four, and none of them is far from it.
#[test]
fn flows_that_begin_together_share() {
    let mut indices: Vec<f64> = [0, 13, 37, 71]
        .into_iter()
        .map(|apart| {
            let flows = [0, apart].map(|at| Flow { at: millis(at), ..Flow::default() }).to_vec();
            Internet { flows, until: secs(40), ..Internet::default() }.run().jain(secs(20), secs(40))
        })
        .collect();
    indices.sort_by(f64::total_cmp);
    assert!(indices[0] >= 0.9 && indices[1] >= 0.95, "{indices:?}");
}

/// What is late by half a round trip is not taken for lost, nor refused for its timestamp (RFC 7323
/// section 5.3), nor does it end slow start: hardly more is sent again than was dropped, the queue
/// of a bandwidth-delay product overflows seldom, and nearly all of the rate is used.
#[test]
fn reordering_floods_no_queue() {
    let run = |percent: f64, seed| {
        let reorder = Probability::new(percent / 100.0);
        let there = Impairment { reorder, reorder_by: millis(20), ..Impairment::default() };
        let (rate, queue) = (Some(50_000_000), Queue::Bytes(250_000));
        let ran = Internet { rate, queue, there, seed, until: secs(5), ..Internet::default() }.run();
        let retransmits = ran.flows[0].counters.retransmits;
        (ran.drops(), retransmits, ran.flows[0].goodput(secs(0), secs(5)))
    };
    for (percent, seed) in [(5.0, 1), (5.0, 6), (30.0, 1), (30.0, 4), (30.0, 6)] {
        let (drops, retransmits, goodput) = run(percent, seed);
        let told = format!("{percent} %, seed {seed}: {drops} dropped, {retransmits} sent again, {goodput}");
        assert!(drops <= 30 && retransmits <= drops + 20 && goodput > 43e6, "{told}");
    }
}

/// A start whose acknowledgements are late by up to two milliseconds, as by a machine that does
/// other things, loses no more for it.
#[test]
fn a_flow_starts_politely_where_acknowledgements_are_late() {
    for (jitter_us, seed) in [(500, 1), (500, 3), (1_000, 1), (1_000, 3), (1_000, 4)] {
        let there = Impairment { jitter: Duration::from_micros(jitter_us), ..Impairment::default() };
        let path = Internet { there, back: there, seed, until: millis(2_500), ..Internet::default() };
        let ran = path.run();
        let goodput = ran.flows[0].goodput(Duration::ZERO, millis(2_500));
        assert!(ran.drops() <= 5 && goodput > 17e6, "{jitter_us} {seed}: {} dropped, {goodput}", ran.drops());
    }
}
