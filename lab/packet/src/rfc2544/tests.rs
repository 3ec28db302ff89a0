//! The whole method on devices that are known: with the RFC's own times on a
//! model, and frame by frame in virtual time.

use super::*;
use crate::pause::PauseFrames;
use crate::trial::{LaneResult, LatencyDistribution, Losses, Sent, Stamped, StampedBy, TaggedStamps};
use crate::verdict::Word;

/// A device that passes `rate` frames of 64 bytes per second, fewer of longer
/// ones, and has a buffer of so many frames.
struct Model {
    bits: f64,
    buffer: f64,
    latency_ns: u64,
    recovery: f64,
    /// What the tester can send on time.
    sendable: f64,
    /// Of every so many trials one is spoilt by the tester.
    spoils: u32,
    trials: u32,
    seconds: f64,
    resets: u32,
    /// By stamps tagged frames take so much less than by the tester's clock.
    stamped: Option<u64>,
}

impl Model {
    fn new() -> Self {
        let (latency_ns, sendable) = (12_345, 20e6);
        let recovery = 0.25;
        Self {
            bits: 5e9,
            buffer: 1_000.0,
            latency_ns,
            recovery,
            sendable,
            spoils: 0,
            trials: 0,
            seconds: 0.0,
            resets: 0,
            stamped: None,
        }
    }

    fn rate(&self, size: u16) -> f64 {
        self.bits / 8.0 / (f64::from(size) + WIRE_OVERHEAD as f64)
    }

    /// Lost of one direction.
    fn lost(&self, ask: &AskedTrial, rate: f64, seconds: f64) -> u64 {
        let surplus = (rate - self.rate(ask.size)).max(0.0) * seconds;
        (surplus - self.buffer).max(0.0).round() as u64
    }

    fn trial(&mut self, ask: &AskedTrial, settings: &Settings) -> TrialResult {
        self.trials += 1;
        self.seconds += ask.seconds + settings.drain + settings.settle;
        let asked = ask.rate.unwrap_or(f64::INFINITY);
        let rate = asked.min(self.sendable);
        let first = ask.then.map_or(ask.seconds, |(after, _)| after);
        let mut frames = (rate * first).round() as u64;
        let lost = self.lost(ask, rate, first);
        let mut last_loss_ns = (lost > 0).then_some((first * 1e9) as u64);
        if let Some((after, share)) = ask.then {
            frames += (rate * share * (ask.seconds - after)).round() as u64;
            last_loss_ns = last_loss_ns.map(|_| ((after + self.recovery) * 1e9) as u64);
        }
        self.resets += u32::from(ask.reset.is_some());
        let missed = if asked.is_finite() { ((asked - rate).max(0.0) * first) as u64 } else { 0 };
        let late = if self.spoils > 0 && self.trials.is_multiple_of(self.spoils) { frames / 100 } else { 0 };
        let ns = self.latency_ns;
        let lane = |from: usize| LaneResult {
            from,
            to: 1 - from,
            rate: frames as f64 / ask.seconds,
            sent: Sent { frames, missed, late, ..Sent::default() },
            received: frames - lost,
            losses: Losses { frames: lost, events: u64::from(lost > 0), longest: lost },
            latency: LatencyDistribution {
                samples: 1_000_000,
                min_ns: ns,
                mean_ns: ns as f64,
                max_ns: ns,
                buckets: vec![(ns, 1_000_000)],
            },
            tagged_ns: ask.tag.map(|_| ns - self.stamped.unwrap_or(0)),
            tagged_by: self.stamped.filter(|_| ask.tag.is_some()).map(|_| TaggedStamps {
                stamped: Stamped { frames: 1, bound_ns: 40.0, ..Stamped::new(StampedBy::Nic) },
                tester_ns: Some(ns),
            }),
            last_loss_ns,
            silence_ns: if ask.reset.is_some() { 1_500_000_000 } else { 100 },
            came_last: true,
            ..LaneResult::default()
        };
        TrialResult {
            intended_seconds: ask.seconds,
            seconds: ask.seconds,
            complete: true,
            lanes: vec![lane(0), lane(1)],
            ..TrialResult::default()
        }
    }

    fn run(&mut self, settings: Settings) -> Method {
        let mut method = Method::new(settings.clone());
        let limit = self.trials + 100_000;
        while let Some(ask) = method.poll_trial() {
            assert!(self.trials < limit);
            let result = self.trial(&ask, &settings);
            method.on_trial(&result);
        }
        method
    }
}

fn memory() -> PauseFrames {
    PauseFrames::NotApplicable("shared memory".to_owned())
}

#[test]
fn the_whole_method_finds_what_a_device_is_known_for_and_is_complete() {
    let mut model = Model::new();
    let method =
        model.run(Settings { line_rate: Some(10e9), conditions: Condition::ALL.to_vec(), ..Settings::default() });
    let verdict = verdict(&method, &memory());
    assert_eq!((verdict.word, verdict.reasons.len()), (Word::Complete, 0), "{verdict}");
    assert_eq!(method.results().len(), 7 * Condition::ALL.len());
    for result in method.results() {
        let truth = model.rate(result.size);
        let found = result.rate().expect("a throughput");
        // A trial of 60 s may exceed the rate by the buffer's 1,000 frames.
        let most = truth + model.buffer / 60.0 + 1.0;
        assert!(found <= most && found > truth * 0.994, "{}: {found} of {truth}", result.size);
        assert!((result.theoretical - 2.0 * truth).abs() < 1.0);
        let burst = result.back_to_back.as_ref().expect("a burst");
        assert_eq!(burst.frames.len(), 50);
        // Half of a burst at line rate stays in the buffer.
        assert!((burst.mean / 2_000.0 - 1.0).abs() < 0.02, "{}: {}", result.size, burst.mean);
        let buffer = model.buffer / (2.0 * truth);
        assert!((burst.buffer_seconds / buffer - 1.0).abs() < 0.03, "{} {buffer}", burst.buffer_seconds);
        assert_eq!(result.latency.len(), 2);
        assert!(result.latency.iter().all(|it| it.tagged_ns.len() == 20 && it.mean_ns == 12_345.0));
        let recovery = result.recovery.as_ref().expect("a recovery");
        assert!(recovery.seconds.len() == 20 && recovery.without_loss == 0);
        assert!(recovery.seconds.iter().all(|it| it.is_some_and(|s| (s - 0.25).abs() < 1e-6)));
        // 100 % and 90 ... 60 % lose; 50 % and 40 % do not.
        let losing = result.loss.iter().filter(|point| point.lost > 0).count();
        assert_eq!((result.loss.len(), losing), (7, 5), "{:?}", result.loss);
    }
    let reset = method.results()[0].reset.as_ref().expect("a reset");
    assert_eq!((reset.silent_seconds.as_slice(), model.resets), ([Some(1.5)].as_slice(), 1));
    assert!(render(&method).contains("== 256 networks"));
}

#[test]
fn what_is_shortened_or_left_out_is_named_and_cannot_be_complete() {
    let mut model = Model::new();
    let method = model.run(Settings { line_rate: Some(10e9), ..Settings::quick() });
    let quick = verdict(&method, &memory());
    assert_eq!(quick.word, Word::Partial);
    for clause in [
        "sizes 128, 256, 1024, 1280 of section 9.1",
        "throughput: trials of 1 s, and not of 60 s (RFC 2544 section 24)",
        "latency: trials of 2 s",
        "latency: 2 trials, and not 20",
        "loss: trials of 1 s",
        "back-to-back: bursts of 0.2 s",
        "back-to-back: 3 searches, and not 50",
        "recovery: overloads of 1 s",
        "stragglers of 0.2 s",
        "settle of 0.1 s",
        "section 12",
        "section 11.1;",
        "section 11.2;",
        "section 11.3;",
        "one filter is left out (RFC 2544 section 11.4;",
        "25 filters are left out (RFC 2544 section 11.4;",
    ] {
        assert!(quick.reasons.iter().any(|reason| reason.contains(clause)), "{clause}\n{quick}");
    }
    // Each clause alone keeps the word from being COMPLETE.
    let all = || Settings { line_rate: Some(10e9), conditions: Condition::ALL.to_vec(), ..Settings::default() };
    for settings in [
        Settings { line_rate: None, ..all() },
        Settings { sizes: vec![64, 128, 256, 512, 1_024, 1_280], ..all() },
        Settings { tests: Test::ALL[..5].to_vec(), ..all() },
        Settings { throughput: 59.0, ..all() },
        Settings { latency: Repeated { seconds: 120.0, times: 19 }, ..all() },
        Settings { conditions: Condition::ALL[..6].to_vec(), ..all() },
        Settings { drain: 1.0, ..all() },
        Settings { settle: 4.0, ..all() },
    ] {
        let method = model.run(settings.clone());
        let verdict = verdict(&method, &memory());
        assert_eq!((verdict.word, verdict.reasons.len()), (Word::Partial, 1), "{verdict}\n{settings:?}");
    }
}

#[test]
fn a_tester_that_is_too_slow_or_away_says_so() {
    // It sends less than the device passes: nothing of the device is known.
    let mut slow = Model { sendable: 1e6, ..Model::new() };
    let settings = || Settings { line_rate: Some(10e9), sizes: vec![64], ..Settings::quick() };
    let method = slow.run(settings());
    let told = verdict(&method, &memory());
    for clause in ["the tester can send 1000000/s on time", "no bound of the device"] {
        assert!(told.reasons.iter().any(|reason| reason.contains(clause)), "{clause}\n{told}");
    }
    assert_eq!(told.word, Word::Partial);
    assert!(render(&method).contains("at least 1,000,000"), "{}", render(&method));
    assert!(!render(&Model::new().run(settings())).contains("at least"));
    // One in five trials is spoilt, and repeated.
    let mut away = Model { spoils: 5, ..Model::new() };
    let method = away.run(settings());
    assert_eq!(verdict(&method, &memory()).word, Word::Partial);
    assert!(method.results()[0].fails.is_empty());
    // All of them are.
    let mut gone = Model { spoils: 1, ..Model::new() };
    let method = gone.run(settings());
    assert_eq!(verdict(&method, &memory()).word, Word::Invalid);
    // Rates down to a hundredth of the first are tried, and no test that could not count.
    let fails = &method.results()[0].fails;
    assert!(
        fails.len() == 1 && fails[0].contains("at no rate down to") && gone.trials < 20,
        "{} {fails:?}",
        gone.trials
    );
}

#[test]
fn pause_frames_spoil_a_throughput() {
    let method = Model::new().run(Settings { line_rate: Some(10e9), sizes: vec![64], ..Settings::quick() });
    let seen = PauseFrames::Counted { frames: 3, told: "eth0".to_owned() };
    assert_eq!(verdict(&method, &seen).word, Word::Invalid);
    assert_eq!(verdict(&method, &PauseFrames::Unknown("eth0".to_owned())).word, Word::Invalid);
}

#[test]
fn a_device_at_line_rate_has_no_bursts_and_no_overload() {
    let mut model = Model { bits: 20e9, ..Model::new() };
    let method = model.run(Settings { line_rate: Some(10e9), sizes: vec![1_518], ..Settings::quick() });
    let result = &method.results()[0];
    assert_eq!(result.rate(), Some(result.theoretical));
    assert!(result.back_to_back.is_none() && result.recovery.is_none());
    assert_eq!(result.not_applicable.len(), 2);
    assert_eq!(result.loss.len(), 2);
}

#[test]
fn a_run_that_was_stopped_is_not_complete() {
    let mut method = Method::new(Settings::default());
    assert!(method.poll_trial().is_some());
    let stopped = verdict(&method, &memory());
    assert!(stopped.word == Word::Invalid && stopped.reasons[0].contains("no size came to its end"), "{stopped}");
    assert!(stopped.reasons.iter().any(|why| why == "it was stopped"), "{stopped}");
}

#[test]
fn whose_stamps_a_latency_is_by_stands_beside_it() {
    let settings = Settings { sizes: vec![64], tests: vec![Test::Throughput, Test::Latency], ..Settings::default() };
    let method = Model { stamped: Some(345), ..Model::new() }.run(settings.clone());
    let latency = &method.results()[0].latency[0];
    assert_eq!((latency.mean_ns, latency.tagged_ns.len(), latency.typical_ns), (12_000.0, 20, 12_345));
    assert_eq!(latency.stamped.as_ref().map(|stamped| stamped.tester_ns.len()), Some(20));
    let told = render(&method);
    let beside = "latency A→B: by the NIC's stamps of 20 tagged frames, each within 40.0 ns (the clocks of two ports); by \
                  the tester's own clock mean 12.3 µs, as are typical and worst";
    assert!(told.contains(beside), "{told}");
    assert!(!render(&Model::new().run(settings)).contains("stamps"));
}
