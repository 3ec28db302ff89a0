//! The shapes, on a small scale.

use super::*;
use crate::procedure::Progress;
use demo::child::Interrupt;

fn settings(models: &[&str]) -> Settings {
    Settings {
        workers: 4,
        connections: 40,
        requests: 600,
        keep_alive: false,
        service: "wait:1ms".to_owned(),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
    }
}

fn run(settings: &Settings, arm: usize) -> Run {
    let interrupt = Interrupt::watch().expect("signals");
    let progress = Progress::default();
    let setting = Setting { seed: 7, interrupt: &interrupt, progress: &progress };
    AcceptQueue::new(settings).expect("good").run(arm, &setting).expect("it runs")
}

#[test]
fn every_request_is_answered_once() {
    for keep_alive in [false, true] {
        let settings = Settings { keep_alive, ..settings(&["exclusive", "reuseport"]) };
        for arm in 0..2 {
            let run = run(&settings, arm);
            assert_eq!(run.errors, 0);
            assert_eq!(run.latency.as_ref().expect("latencies").count, 600);
            let served = run.details["requests of each worker"].split(' ').map(|n| n.parse::<u64>().expect("a count"));
            assert_eq!(served.sum::<u64>(), 600);
            // No request takes less than its service, no worker more than one
            // at a time.
            assert!(run.figures["min"] >= 1.0, "{:?}", run.figures);
            assert!(run.figures["throughput"] <= 4_000.0, "{:?}", run.figures);
        }
    }
}

#[test]
fn a_model_that_serves_one_to_its_end_starves_the_others() {
    let kept = Settings { keep_alive: true, ..settings(&["blocking"]) };
    let arms = AcceptQueue::new(&kept).expect("good").arms();
    assert!(arms[0].left_out.as_ref().is_some_and(|why| why.contains("never")));
    assert_eq!(AcceptQueue::new(&settings(&["blocking"])).expect("good").arms()[0].left_out, None);
}

#[test]
fn services_read_as_they_are_written() {
    for text in ["wait:1.8ms", "burn:0.25ms", "exp:2000ms"] {
        assert_eq!(text.parse::<Service>().expect(text).to_string(), text);
    }
    assert_eq!("auto:1800us".parse::<Service>().expect("good").for_cores(true).to_string(), "burn:1.8ms");
    assert_eq!("auto:1.8ms".parse::<Service>().expect("good").for_cores(false).to_string(), "wait:1.8ms");
    for text in ["", "wait", "wait:", "wait:1", "wait:1h", "nap:1ms", "wait:0ms", "wait:-1ms", "wait:11s", "wait:NaNs"]
    {
        assert!(text.parse::<Service>().is_err(), "{text}");
    }
}

#[test]
fn a_service_takes_no_less_than_its_time() {
    let mut random = stats::Random::new(1);
    let begun = demo::machine::now();
    for text in ["wait:2ms", "burn:2ms"] {
        text.parse::<Service>().expect(text).occupy(&mut random);
    }
    assert!(begun.elapsed() >= std::time::Duration::from_millis(4));
}

#[test]
fn checks_say_what_was_found() {
    let arm = |name: &str, dev: f64, throughput: f64| {
        let figures = [("dev", dev), ("mean", 30.0), ("throughput", throughput), ("fairness", 1.0)];
        let run = Run { figures: figures.map(|(name, value)| (name.to_owned(), value)).into(), ..Run::default() };
        let (repeats, left_out, conditions) = (None, None, BTreeMap::new());
        ArmResults { name: name.to_owned(), repeats, conditions, left_out, runs: vec![run] }
    };
    let kept = |settings: &Settings, arms: &[ArmResults]| -> Vec<Option<bool>> {
        AcceptQueue::new(settings).expect("good").checks(arms).iter().map(|check| check.kept).collect()
    };
    let all = settings(&["exclusive", "reuseport", "least"]);
    let good = [arm("exclusive", 1.6, 6_600.0), arm("reuseport", 25.0, 6_500.0), arm("least", 2.0, 6_500.0)];
    assert_eq!(kept(&all, &good), [Some(true); 5]);
    let bad = [arm("exclusive", 9.0, 6_600.0), arm("reuseport", 25.0, 6_500.0), arm("least", 20.0, 6_000.0)];
    assert_eq!(kept(&all, &bad), [Some(true), Some(false), Some(false), Some(false), Some(false)]);
    assert_eq!(kept(&all, &good[..2])[3..], [None, None], "least was left out");
}
