//! The tester against devices with known faults, in virtual time: it finds
//! each, to the frame.

mod dut;
mod method;
mod pace;
mod stamper;

use super::*;
use crate::schedule::MILLI;
use core::cell::Cell;
use dut::{Did, Dut, Faults};
use link::{Pair, PairConfig, PairLink};

/// A tick is a nanosecond.
const HZ: u64 = 1_000_000_000;
/// Usually.
const TURN: u64 = 100;

/// A tester and a device, joined by pairs.
struct World {
    tester: Tester,
    dut: Dut,
    near: Vec<PairLink>,
    far: Vec<PairLink>,
    now: u64,
    /// Virtual time of a turn of each side.
    pace: u64,
}

impl World {
    fn new(plan: Plan, ports: usize, faults: Faults) -> Self {
        let config = PairConfig { ring: 256, ..PairConfig::default() };
        let (near, far) = (0..ports).map(|_| Pair::new(config)).unzip();
        plan.check(ports).expect("a good plan");
        Self { tester: Tester::new(plan, ports, HZ, 1_000), dut: Dut::new(faults), near, far, now: 0, pace: TURN }
    }

    fn turn(&mut self) {
        // Reading the clock takes its time, too.
        let now = Cell::new(self.now);
        let mut clock = || {
            now.set(now.get() + 1);
            now.get()
        };
        self.tester.turn(&mut self.near, &mut clock, Time::ZERO);
        self.now += self.pace;
        self.dut.turn(&mut self.far, self.now);
    }

    fn run(&mut self) -> TrialResult {
        while self.tester.stage(self.now) != TrialStage::Over {
            self.turn();
        }
        self.tester.result(self.now)
    }
}

fn stream(name: &str, pacing: Pacing) -> Stream {
    Stream { name: name.to_owned(), shape: Shape::default(), pacing, ways: [true, false] }
}

fn rate(per_second: u64) -> Pacing {
    Pacing::Rate { milli: per_second * MILLI, burst: 1 }
}

fn plan(streams: Vec<Stream>, duration: Duration) -> Plan {
    let (drain, give_up) = (Duration::from_millis(2), Duration::from_millis(1));
    Plan { streams, duration, drain, give_up, signature: 0xabcd_1234, ..Plan::default() }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One stream at a million frames a second for `ms`, through these faults.
fn million(ms: u64, faults: Faults) -> (TrialResult, Did) {
    let mut world = World::new(plan(vec![stream("load", rate(1_000_000))], millis(ms)), 2, faults);
    let result = world.run();
    (result, world.dut.did(0))
}

#[test]
fn a_device_without_fault_has_none() {
    let (result, did) = million(100, Faults::default());
    let lane = &result.lanes[0];
    assert_eq!((lane.sent.frames, lane.received, lane.lost(), did.received), (100_000, 100_000, 0, 100_000));
    assert_eq!((lane.arrivals.duplicates, lane.arrivals.reordered, lane.damaged), (0, 0, 0));
    assert_eq!((result.foreign, result.damaged_unknown, result.others_marks), (0, 0, 0));
    assert!((lane.rate - 1e6).abs() < 1.0 && result.complete, "{}", lane.rate);
    assert!(lane.loss_bound().is_some_and(|bound| (bound - 2.995_69e-5).abs() < 1e-9));
    use crate::trial::{LaneResult, Sent};
    // Of two frames that came nobody can say more, and of one.
    let of = |frames| LaneResult { sent: Sent { frames, ..Sent::default() }, ..LaneResult::default() }.loss_bound();
    let near = |frames, bound: f64| assert!(of(frames).is_some_and(|found| (found - bound).abs() < 1e-12), "{frames}");
    near(1, 0.95);
    near(2, 1.0 - 0.05_f64.sqrt());
    near(10, 1.0 - 0.05_f64.powf(0.1));
    // A frame is sent in the turn in which it is due, or the next.
    assert!(lane.gaps.p50_ns.abs_diff(1_000) <= TURN && lane.gaps.behind_max_ns <= TURN + 10);
    assert_eq!(result.stalls.count, 0);
}

#[test]
fn one_drop_in_a_million_is_found() {
    // Ten a microsecond, and a microsecond a turn: two million in some hundred thousand turns.
    let mut world = World::new(
        plan(vec![stream("load", rate(10_000_000))], millis(210)),
        2,
        Faults { drop: 1_000_000, ..Faults::default() },
    );
    world.pace = 1_000;
    let (result, did) = (world.run(), world.dut.did(0));
    let losses = result.lanes[0].losses;
    assert_eq!((did.dropped, losses.frames, losses.events, losses.longest), (3, 3, 3, 1));
}

#[test]
fn every_fault_is_found_to_the_frame() {
    let faults = Faults { drop: 1_000, duplicate: 500, swap: 700, hold: 900, delay: 5_000, ..Faults::default() };
    let (result, did) = million(100, faults);
    let lane = &result.lanes[0];
    assert_eq!(lane.arrivals.duplicates, did.duplicated);
    assert_eq!(lane.losses.frames, did.dropped + did.received - lane.arrivals.unique - did.dropped);
    // Swapped bytes lie in the mark of so small a frame: it cannot be told which frame it was, so it counts as lost, too.
    assert!(result.damaged_unknown >= did.swapped && did.swapped > 100, "{} {did:?}", result.damaged_unknown);
    assert_eq!(lane.arrivals.unique + did.dropped + did.swapped, did.received, "{did:?}");
    assert!(lane.arrivals.reordered == did.held && lane.arrivals.reordered_by <= 3, "{:?} {did:?}", lane.arrivals);
    assert!((100..=200).contains(&did.duplicated) && (100..=112).contains(&did.held));
}

#[test]
fn bytes_that_change_places_in_a_long_frame_are_damage_and_no_loss() {
    let mut one = stream("long", rate(100_000));
    one.shape.sizes = vec![1_518];
    let mut world = World::new(plan(vec![one], millis(50)), 2, Faults { swap: 10, ..Faults::default() });
    let result = world.run();
    let (lane, did) = (&result.lanes[0], world.dut.did(0));
    assert_eq!((lane.damaged, lane.lost(), result.damaged_unknown), (did.swapped, 0, 0));
    assert_eq!(did.swapped, 500);
}

#[test]
fn a_capture_is_sent_at_its_times_and_its_losses_are_found() {
    use crate::replay::tests::{frame, pcap};
    // A hundred frames, of which no two are alike, ten microseconds apart.
    let frames: Vec<(u64, Vec<u8>)> = (0..100).map(|n| (u64::from(n) * 10_000, frame(n, 60))).collect();
    let capture = || crate::replay::Replay::read(pcap(&frames, true, false).as_slice()).expect("a capture");
    let of = |text: &str, drop: u64| {
        let spec = crate::spec::ReplaySpec::parse(text).expect("right");
        let stream = spec.stream("replay", capture(), [true, false]).expect("a stream");
        let mut world = World::new(plan(vec![stream], millis(20)), 2, Faults { drop, ..Faults::default() });
        let result = world.run();
        (result, world.dut.did(0))
    };
    let (result, did) = of("x.pcap,loop=3", 0);
    let lane = &result.lanes[0];
    assert_eq!((lane.sent.frames, lane.received, lane.lost(), did.received), (300, 300, 0, 300));
    assert!(lane.replayed && lane.intended_rate.is_none() && lane.latency.samples == 0, "{lane:?}");
    assert!(lane.gaps.p50_ns.abs_diff(10_000) <= 2 * TURN && lane.gaps.behind_max_ns <= 2 * TURN, "{:?}", lane.gaps);
    assert_eq!((result.foreign, result.damaged_unknown, lane.sent.missed, lane.sent.too_long), (0, 0, 0, 0));
    // At a rate, over and over: 20 ms of a million a second, every tenth lost.
    let (result, did) = of("x.pcap,rate=1M,loop=on", 10);
    let lane = &result.lanes[0];
    assert_eq!((lane.sent.frames, lane.losses.frames, lane.arrivals.duplicates), (20_000, did.dropped, 0));
    assert_eq!((did.dropped, lane.arrivals.unique), (2_000, 18_000));
    // The trial ends before the capture does: 20 ms have 20 of a thousand a second.
    let (result, _) = of("x.pcap,rate=1k,loop=2", 0);
    assert_eq!(result.lanes[0].sent.frames + result.lanes[0].unreached, 200);
    assert!((175..=185).contains(&result.lanes[0].unreached), "{}", result.lanes[0].unreached);
    // As fast as the ring takes them, once.
    let (result, _) = of("x.pcap,rate=max", 0);
    assert_eq!((result.lanes[0].sent.frames, result.lanes[0].sent.too_long, result.lanes[0].lost()), (100, 0, 0));
}

#[test]
fn frames_that_a_link_does_not_take_are_refused_before_they_are_sent() {
    use crate::replay::tests::{frame, pcap};
    let tagged = |len| {
        let mut frame = frame(3, len);
        frame[12..14].copy_from_slice(&[0x81, 0]);
        frame
    };
    let of = |frames: Vec<Vec<u8>>, mtus: &[u16]| {
        let frames: Vec<(u64, Vec<u8>)> = frames.into_iter().map(|frame| (0, frame)).collect();
        let capture = crate::replay::Replay::read(pcap(&frames, true, false).as_slice()).expect("a capture");
        let spec = crate::spec::ReplaySpec::parse("x.pcap").expect("right");
        let stream = spec.stream("replay 1", capture, [true, false]).expect("a stream");
        plan(vec![stream], millis(20)).check_links(mtus)
    };
    assert_eq!(of(vec![frame(1, 1_514), tagged(1_518)], &[1_500]), Ok(()));
    assert_eq!(of(vec![frame(1, 9_014)], &[9_000, 1_500]), Ok(()), "the other link sends nothing");
    let why = of(vec![frame(1, 60), frame(2, 1_515), tagged(1_600)], &[1_500]).expect_err("too long");
    assert!(why.contains("replay 1: 2 of 3 frames") && why.contains("frame 3 of 1600 bytes, and link 1"), "{why}");
    let why = of(vec![tagged(1_519)], &[1_500]).expect_err("too long");
    assert!(why.contains("frame 1 of the capture has 1519 bytes"), "{why}");
    let mut made = stream("load", rate(1_000));
    made.ways = [true, true];
    made.shape.sizes = vec![64, 1_518];
    let mut plan = plan(vec![made], millis(20));
    assert_eq!(plan.check_links(&[1_500, 1_500]), Ok(()));
    assert!(
        plan.check_links(&[1_500, 1_400]).is_err_and(|why| why.contains("1518 bytes, and link 2 has an MTU of 1400"))
    );
    plan.streams[0].shape.sizes.push(9_018);
    assert!(plan.check_links(&[1_500, 9_000]).is_err_and(|why| why.contains("frames have 9018 bytes, and link 1")));
}

#[test]
fn delays_are_measured_as_they_are() {
    for delay in [10_000, 100_000, 1_000_000] {
        let (result, _) = million(20, Faults { delay, ..Faults::default() });
        let latency = &result.lanes[0].latency;
        // Up to a turn to be sent and one to be received, and the bucket's width.
        for at in [latency.min_ns, latency.quantile(0.5), latency.max_ns] {
            assert!((delay..=delay + 3 * TURN + delay / 500).contains(&at), "{delay}: {at}");
        }
    }
    let (result, _) = million(100, Faults { delay: 10_000, jitter: 10_000, ..Faults::default() });
    let latency = &result.lanes[0].latency;
    assert!(latency.min_ns >= 10_000 && latency.max_ns <= 20_500 && latency.max_ns > latency.min_ns + 2_000);
    assert_eq!(result.lanes[0].arrivals.reordered, 0);
}

#[test]
fn a_device_that_is_too_slow_loses_what_is_above_its_rate() {
    // It passes half a million a second; the queue holds 100.
    let (result, did) = million(100, Faults { service: Some((2_000, 100)), ..Faults::default() });
    let lane = &result.lanes[0];
    assert_eq!(lane.losses.frames, did.dropped);
    assert!((lane.loss_ratio() - 0.5).abs() < 0.01, "{}", lane.loss_ratio());
    // Frames that wait, at 2 us each.
    assert!((195_000..=205_000).contains(&lane.latency.max_ns), "{}", lane.latency.max_ns);
}

#[test]
fn what_finds_the_ring_full_when_it_is_due_is_lost_at_the_entrance_and_never_sent() {
    // For 50 ms it takes nothing: 256 frames wait in the ring, the others had no room.
    let faults = Faults { stall: (20_000_000, 70_000_000), ..Faults::default() };
    let (result, did) = million(100, faults);
    let lane = &result.lanes[0];
    assert_eq!(lane.sent.frames + lane.sent.entrance, 100_000);
    assert!(lane.sent.entrance.abs_diff(50_000 - 256) <= 2, "{}", lane.sent.entrance);
    assert_eq!((lane.losses.frames, lane.lost(), did.received), (0, lane.sent.entrance, lane.sent.frames));
    assert!(lane.latency.max_ns >= 49_900_000, "who waited in the ring waited for all of it");
    assert!(lane.loss_bound().is_none());
}

#[test]
fn a_tester_that_was_away_says_so() {
    let mut world = World::new(plan(vec![stream("load", rate(1_000_000))], millis(20)), 2, Faults::default());
    while world.now < 5_000_000 {
        world.turn();
    }
    // Away for 500 us: made up for. Away for 3 ms: what was due for more than 1 ms is missed.
    world.now += 500_000;
    world.turn();
    while world.now < 10_000_000 {
        world.turn();
    }
    world.now += 3_000_000;
    let result = world.run();
    let sent = result.lanes[0].sent;
    assert!(sent.missed.abs_diff(2_000) <= 5, "{}", sent.missed);
    assert_eq!(sent.frames + sent.missed + sent.entrance, 20_000);
    assert!((1_300..=1_700).contains(&(sent.late + sent.entrance)), "{sent:?}");
    assert_eq!(result.stalls.count, 2);
    assert!(result.stalls.longest_ns.abs_diff(3_000_000) < 1_000, "{:?}", result.stalls);
    assert!(result.late_share() > 0.15);
    // Of all gaps more than one in a hundred are those of catching up, of those of calm milliseconds none.
    let lane = &result.lanes[0];
    let calm = lane.calm.expect("slices");
    assert!(lane.gaps.deviation_p99_ns > 500 && calm.deviation_p99_ns.is_some_and(|p99| p99 <= TURN + 8), "{lane:?}");
    assert!((13..=16).contains(&calm.calm) && calm.slices > calm.calm && calm.samples > 12_000, "{calm:?}");
}

#[test]
fn a_probe_has_one_frame_in_flight_beside_a_background() {
    let mut probe = stream("probe", Pacing::Probe(None));
    probe.shape.sizes = vec![76];
    probe.ways = [true, true];
    let mut background = stream("background", rate(2_000_000));
    background.ways = [true, true];
    let faults = Faults { delay: 20_000, ..Faults::default() };
    let mut world = World::new(plan(vec![probe, background], millis(20)), 2, faults);
    let result = world.run();
    for lane in &result.lanes {
        assert_eq!((lane.lost(), lane.arrivals.reordered), (0, 0), "{lane:?}");
        if lane.probe {
            // 20 us and a turn or two for each.
            assert!((940..=1_000).contains(&lane.sent.frames), "{}", lane.sent.frames);
        } else {
            assert_eq!(lane.sent.frames, 40_000);
        }
    }
    assert_eq!(result.lanes.len(), 4);
}

#[test]
fn a_probe_that_is_lost_is_given_up_and_the_next_one_leaves() {
    let mut lost = plan(vec![stream("probe", Pacing::Probe(Some(50_000 * MILLI)))], millis(20));
    lost.probe_timeout = millis(1);
    let mut world = World::new(lost, 2, Faults { drop: 5, ..Faults::default() });
    let result = world.run();
    let lane = &result.lanes[0];
    let did = world.dut.did(0);
    assert_eq!(lane.losses.frames, did.dropped);
    assert!(lane.sent.timeouts.abs_diff(did.dropped) <= 1 && did.dropped > 10, "{lane:?}");
}

#[test]
fn the_same_port_takes_back_what_it_sent() {
    let mut mixed = stream("mix", Pacing::Max);
    mixed.shape.sizes = Shape::imix();
    let mut world = World::new(plan(vec![mixed], millis(2)), 1, Faults::default());
    let result = world.run();
    let lane = &result.lanes[0];
    assert_eq!((lane.from, lane.to, lane.lost(), lane.damaged), (0, 0, 0, 0));
    assert!(lane.sent.frames > 10_000 && lane.intended_rate.is_none());
    assert!((lane.mean_size - 353.83).abs() < 0.01);
}

#[test]
fn bursts_are_due_at_once_where_they_are_asked_for() {
    let bursts = stream("bursts", Pacing::Rate { milli: 1_000_000 * MILLI, burst: 10 });
    let mut world = World::new(plan(vec![bursts], millis(10)), 2, Faults::default());
    let result = world.run();
    let gaps = result.lanes[0].gaps;
    assert_eq!(result.lanes[0].sent.frames, 10_000);
    assert!(gaps.p50_ns < 10 && gaps.p99_ns > 9_000, "{gaps:?}");
}

#[test]
fn a_second_stage_has_its_own_rate_and_the_last_loss_is_timed() {
    let mut two = plan(vec![stream("load", rate(1_000_000))], millis(20));
    two.stage = Some(RateStep { after: millis(5), share: 0.5 });
    two.tag_after = Some(Duration::from_micros(300));
    // It passes 800,000 a second, and has room for 100.
    let faults = Faults { service: Some((1_250, 100)), delay: 3_000, ..Faults::default() };
    let mut world = World::new(two, 2, faults);
    let result = world.run();
    let lane = &result.lanes[0];
    assert_eq!((lane.sent.frames, lane.sent.missed), (5_000 + 7_500, 0));
    // A fifth of the first stage's have no room; those that wait leave within some microseconds.
    let last = lane.last_loss_ns.expect("losses");
    assert!((4_990_000..5_010_000).contains(&last) && lane.lost() > 800, "{last} {}", lane.lost());
    let tagged = lane.tagged_ns.expect("a tag");
    assert!((70_000..85_000).contains(&tagged), "{tagged}: it waits behind sixty");
    assert!(lane.came_last && lane.silence_ns < 5_000 && lane.stretching == 0.0);
}

#[test]
fn gaps_that_are_other_than_due_and_stretching_are_told() {
    let (result, _) = million(20, Faults::default());
    let lane = &result.lanes[0];
    assert!(lane.gaps.deviation_p99_ns <= TURN && lane.stretching < 1e-3, "{lane:?}");
    assert_eq!(lane.last_loss_ns, None);
    // Away at the end: what was due then is missed.
    let mut world = World::new(plan(vec![stream("load", rate(1_000_000))], millis(20)), 2, Faults::default());
    while world.now < 15_000_000 {
        world.turn();
    }
    world.now += 5_500_000;
    let result = world.run();
    let sent = result.lanes[0].sent;
    assert_eq!(sent.frames + sent.missed + sent.entrance, 20_000);
    assert!(sent.missed > 4_000 && result.stalls.count == 1, "{sent:?} {:?}", result.stalls);
}

#[test]
fn two_testers_on_one_wire_do_not_take_each_others_frames() {
    let one = stream("one", rate(100_000));
    let config = PairConfig { ring: 256, ..PairConfig::default() };
    let (mut a, mut b) = Pair::new(config);
    let mut first = Tester::new(plan(vec![one.clone()], millis(5)), 1, HZ, 0);
    let mut second = Tester::new(Plan { signature: 77, ..plan(vec![one], millis(5)) }, 1, HZ, 0);
    for now in (0..8_000_000).step_by(500) {
        first.turn(core::slice::from_mut(&mut a), &mut || now, Time::ZERO);
        second.turn(core::slice::from_mut(&mut b), &mut || now, Time::ZERO);
    }
    let (first, second) = (first.result(8_000_000), second.result(8_000_000));
    for result in [first, second] {
        assert_eq!((result.others_marks, result.lanes[0].received), (500, 0));
        assert_eq!(result.lanes[0].losses.frames, 500);
    }
}

#[test]
fn frames_of_a_trial_before_are_known_as_the_programs_own() {
    let one = stream("one", rate(100_000));
    let config = PairConfig { ring: 256, ..PairConfig::default() };
    let (mut a, mut b) = Pair::new(config);
    let before = || Plan { signature: 77, ..plan(vec![one.clone()], millis(1)) };
    let mut first = Tester::new(before(), 1, HZ, 0);
    for now in (0..1_500_000).step_by(500) {
        first.turn(core::slice::from_mut(&mut a), &mut || now, Time::ZERO);
    }
    // They lay in the ring until the next trial began.
    for (earlier, expected) in [(vec![5, 77], (100, 0)), (vec![5], (0, 100))] {
        let next = Plan { signature: 78, earlier, ..plan(vec![one.clone()], millis(1)) };
        let mut second = Tester::new(next, 1, HZ, 2_000_000);
        for now in (2_000_000..4_000_000).step_by(500) {
            second.turn(core::slice::from_mut(&mut b), &mut || now, Time::ZERO);
        }
        let result = second.result(4_000_000);
        assert_eq!((result.earlier_marks, result.others_marks), expected);
        let mut again = Tester::new(before(), 1, HZ, 4_000_000);
        for now in (4_000_000..5_500_000).step_by(500) {
            again.turn(core::slice::from_mut(&mut a), &mut || now, Time::ZERO);
        }
    }
}

#[test]
fn a_device_that_swaps_addresses_and_ports_is_no_fault() {
    let mut world = World::new(plan(vec![stream("load", rate(1_000_000))], millis(5)), 1, Faults::default());
    let settings = crate::forward::Settings { mode: crate::forward::Mode::FiveTuple, ..Default::default() };
    let mut forwarder = crate::forward::Forwarder::new(settings);
    while world.tester.stage(world.now) != TrialStage::Over {
        world.now += TURN;
        let now = world.now;
        world.tester.turn(&mut world.near, &mut || now, Time::ZERO);
        forwarder.turn(&mut world.far, Time::ZERO);
    }
    let result = world.tester.result(world.now);
    assert_eq!((result.lanes[0].lost(), result.lanes[0].damaged, result.damaged_unknown), (0, 0, 0));
}

#[test]
fn a_clock_that_steps_back_is_told() {
    let mut world = World::new(plan(vec![stream("load", rate(10_000_000))], millis(5)), 2, Faults::default());
    while world.now < 2_000_000 {
        world.turn();
    }
    world.dut.turn(&mut world.far, world.now);
    let before = world.now;
    world.now -= 1_000_000;
    world.turn();
    assert!(before > world.now && world.tester.result(world.now).lanes[0].backwards > 0);
}

#[test]
fn a_plan_without_sense_is_refused() {
    let small = |size| {
        let mut stream = stream("small", rate(1));
        stream.shape = Shape { sizes: vec![size], ends: Shape::ends_v6(), ..Shape::default() };
        plan(vec![stream], millis(1))
    };
    assert!(small(64).check(2).unwrap_err().contains("84 at least"));
    assert!(small(84).check(2).is_ok());
    assert!(plan(Vec::new(), millis(1)).check(2).is_err());
    let mut both = plan(vec![stream("both", rate(1))], millis(1));
    both.streams[0].ways = [true, true];
    assert!(both.check(1).unwrap_err().contains("one direction") && both.check(2).is_ok());
}

#[test]
fn a_trial_that_is_stopped_is_not_complete() {
    let mut world = World::new(plan(vec![stream("load", rate(1_000_000))], millis(50)), 2, Faults::default());
    while world.now < 10_000_000 {
        world.turn();
    }
    world.tester.stop(world.now);
    let result = world.run();
    assert!(!result.complete && result.lanes[0].lost() == 0);
    assert!((result.seconds - 0.01).abs() < 1e-4 && (result.intended_seconds - 0.05).abs() < 1e-9);
}

/// A frame as it came, with another time in its mark.
fn forge(frame: &[u8], by: u64) -> Vec<u8> {
    let Seen::Ours(mut mark, at) = look(frame, 0xabcd_1234) else { panic!("no mark of ours") };
    mark.time = mark.time.wrapping_sub(by);
    let (first, second, check) = mark.words();
    let mut forged = frame.to_vec();
    let bytes = [&first.to_be_bytes()[..], &second.to_be_bytes(), &check.to_be_bytes()].concat();
    forged[at..at + bytes.len()].copy_from_slice(&bytes);
    forged
}

#[test]
fn a_probe_with_another_time_than_it_left_at_is_made_up() {
    let mut world = World::new(plan(vec![stream("probe", Pacing::Probe(None))], millis(1)), 2, Faults::default());
    let mut forged = 0;
    while world.tester.stage(world.now) != TrialStage::Over {
        let now = world.now;
        world.tester.turn(&mut world.near, &mut || now, Time::ZERO);
        world.now += 5_000;
        // Whoever is on the wire is ahead of each, and would make it 3 us older, or younger.
        let (one, two) = world.far.split_at_mut(1);
        let ((rx, _), (_, tx)) = (one[0].split(), two[0].split());
        for index in 0..rx.receive(Time::ZERO, 8) {
            for frame in [
                forge(rx.frame(index), 3_000),
                forge(rx.frame(index), 0_u64.wrapping_sub(3_000)),
                rx.frame(index).to_vec(),
            ] {
                tx.slot().expect("room")[..frame.len()].copy_from_slice(&frame);
                tx.commit(frame.len(), wire::Offload::NONE);
            }
            forged += 2;
        }
        rx.release();
        tx.flush(Time::ZERO);
    }
    let result = world.tester.result(world.now);
    let lane = &result.lanes[0];
    assert!(lane.sent.frames > 90 && lane.lost() == 0, "{lane:?}");
    assert_eq!((result.damaged_unknown, lane.received, lane.backwards), (forged, lane.sent.frames, 0));
    assert_eq!((lane.latency.min_ns, lane.latency.max_ns), (5_000, 5_000));
}
