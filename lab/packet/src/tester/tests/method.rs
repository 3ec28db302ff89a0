//! RFC 2544 frame by frame, in virtual time, through a device whose rate,
//! buffer, latency and failings are known.

use super::*;
use crate::modifiers::Managed;
use crate::pause::PauseFrames;
use crate::rfc2544::{Condition, Method, Repeated, Settings, SizeResult, Test, verdict};
use crate::verdict::spoilt;

/// Frames per second that the device passes, and frames that wait in it.
const RATE: f64 = 5_000.0;
const ROOM: usize = 100;
/// Losses go on so long after an overload.
const HANGOVER: u64 = 300_000_000;
/// A line of twice the device's rate.
const LINE: f64 = 2.0 * RATE * (64.0 + 20.0) * 8.0;

fn settings() -> Settings {
    Settings {
        sizes: vec![64],
        conditions: vec![Condition::Plain, Condition::Networks],
        line_rate: Some(LINE),
        min_rate: 100.0,
        width: 0.02,
        throughput: 0.6,
        latency: Repeated { seconds: 0.2, times: 2 },
        loss: 0.2,
        bursts: Repeated { seconds: 0.5, times: 3 },
        recovery: Repeated { seconds: 0.6, times: 2 },
        reset: Repeated { seconds: 0.5, times: 1 },
        drain: 0.05,
        settle: 0.0,
        ceiling: 0.01,
        ..Settings::default()
    }
}

/// Follows the method through a device that stands still while it is reset.
fn run(settings: Settings, faults: Faults) -> Method {
    let mut method = Method::new(settings.clone());
    let one = stream("load", Pacing::Max);
    let mut trials = 0;
    while let Some(ask) = method.poll_trial() {
        trials += 1;
        assert!(trials < 500);
        let reset = ask.reset.map_or((0, 0), |after| {
            let from = 1_000 + (after * 1e9) as u64;
            (from, from + 70_000_000)
        });
        let plan = ask.plan(&one, &settings, (trials, u64::from(trials)));
        let mut world = World::new(plan, 2, Faults { stall: reset, ..faults });
        // As many turns as a frame has at a line rate so low.
        world.pace = 10_000;
        let mut result = world.run();
        fill(&mut result, &world.tester.recorders);
        method.on_trial(&result);
    }
    method
}

fn faults() -> Faults {
    Faults { service: Some((200_000, ROOM)), hangover: HANGOVER, ..Faults::default() }
}

fn check(result: &SizeResult) {
    let rate = result.rate().expect("a throughput");
    // The buffer takes what is above the rate for the time of a trial.
    let most = RATE + ROOM as f64 / 0.6;
    assert!(rate <= most * 1.001 && rate >= RATE * 0.98, "{rate}");
    // Half of what comes at line rate stays: the buffer is full after twice its frames.
    let burst = result.back_to_back.as_ref().expect("a burst");
    assert!((burst.mean - 2.0 * ROOM as f64).abs() <= 4.0, "{burst:?}");
    for latency in &result.latency {
        assert_eq!(latency.tagged_ns.len(), 2);
        // Above its rate frames wait, up to all of the buffer.
        assert!(latency.mean_ns >= 200_000.0 && latency.mean_ns <= 200_000.0 * (ROOM + 1) as f64);
    }
    assert!(result.loss[0].lost > 700 && result.loss.last().is_some_and(|point| point.lost == 0));
    let recovery = result.recovery.as_ref().expect("a recovery");
    for seconds in recovery.seconds.iter().map(|seconds| seconds.expect("an end")) {
        // Every fiftieth frame is lost until then, at some 2,800 a second.
        let hangover = HANGOVER as f64 / 1e9;
        assert!(seconds <= hangover + 1e-3 && seconds > hangover - 0.025, "{seconds}");
    }
}

#[test]
fn the_whole_method_finds_what_the_device_is() {
    let method = run(settings(), faults());
    assert_eq!(method.results().len(), 2);
    for result in method.results() {
        assert!(result.fails.is_empty(), "{result:?}");
        check(result);
    }
    let reset = method.results()[0].reset.as_ref().expect("a reset");
    let silent = reset.silent_seconds[0].expect("it came back");
    // Nothing comes for as long as it stands still, and until the next is passed on.
    assert!((0.069..0.073).contains(&silent), "{silent}");
}

#[test]
fn a_device_that_does_not_come_back_from_a_reset_says_so() {
    let only =
        Settings { tests: vec![Test::Throughput, Test::Reset], conditions: vec![Condition::Plain], ..settings() };
    let mut method = Method::new(only.clone());
    let one = stream("load", Pacing::Max);
    while let Some(ask) = method.poll_trial() {
        let stall = ask.reset.map_or((0, 0), |after| ((after * 1e9) as u64, u64::MAX));
        let mut world = World::new(ask.plan(&one, &only, (1, 1)), 2, Faults { stall, ..faults() });
        world.pace = 10_000;
        let result = world.run();
        method.on_trial(&result);
    }
    let reset = method.results()[0].reset.as_ref().expect("a reset");
    assert_eq!(reset.silent_seconds, [None]);
    assert!(method.results()[0].lacks.iter().any(|why| why.contains("nothing came any more")));
}

#[test]
fn frames_of_section_11_take_the_places_of_the_tests_and_are_counted_apart() {
    let managed = Managed { addresses: ["198.18.0.1".parse().expect("it"); 2], community: "public".to_owned() };
    for (condition, sent) in [(Condition::Broadcast, 120), (Condition::Management, 3), (Condition::Routing, 1)] {
        let settings = Settings { managed: Some(managed.clone()), ..settings() };
        let mut ask =
            Method::new(Settings { conditions: vec![condition], ..settings.clone() }).poll_trial().expect("one");
        (ask.rate, ask.seconds, ask.tag) = (Some(4_000.0), 3.0, Some(1.6));
        let plan = ask.plan(&stream("load", Pacing::Max), &settings, (7, 7));
        // Every thousandth frame is lost, whichever it is; and the device floods what is for all.
        let mut world = World::new(plan, 2, Faults { drop: 1_000, delay: 5_000, ..Faults::default() });
        world.pace = 10_000;
        let (result, did) = (world.run(), world.dut.did(0));
        let lane = &result.lanes[0];
        let modified = lane.modified.expect("such frames");
        assert_eq!((modified.sent, modified.refused), (sent, 0));
        assert_eq!(lane.sent.frames + modified.sent, 12_000);
        assert_eq!(did.received, 12_000);
        // To the frame: what is lost of the test's own, and no frame that nobody knows.
        assert_eq!(lane.lost() + modified.sent - modified.came, did.dropped, "{lane:?}");
        assert_eq!((result.foreign, result.damaged_unknown, lane.damaged), (0, 0, 0));
        assert!((lane.rate - 4_000.0).abs() < 1e-6 && lane.tagged_ns.is_some(), "{lane:?}");
        assert!(lane.stretching < 1e-3 && spoilt(&result, 0.001).is_none());
    }
}

#[test]
fn queries_that_nobody_answers_keep_a_run_from_complete() {
    let managed = Managed { addresses: ["198.18.0.1".parse().expect("it"); 2], community: "public".to_owned() };
    let only = Settings {
        tests: vec![Test::Loss],
        conditions: vec![Condition::Management],
        managed: Some(managed),
        ..settings()
    };
    let method = run(only, faults());
    let verdict = verdict(&method, &PauseFrames::NotApplicable("memory".to_owned()));
    assert!(verdict.reasons.iter().any(|why| why.contains("the device is not managed")), "{verdict}");
}
