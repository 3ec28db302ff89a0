//! What workers measured, added up.

use control::{Outcome, ProblemKind, WorkerOutcome};
use core::time::Duration;
use load::{Class, Figures, Interval, Objective, Outside, Plan, Recorder, Report, Request, Schedule, Stage, Trust};
use merge::{Timeline, Whole, WorkerFigures, WorkerMessage, faults, read};
use messages::{Counted, FromWorker, Measured, Throttling};
use random::SplitMix64;

fn plan() -> Plan {
    let mut plan = Plan::new(([10, 0, 0, 2], 80).into(), Request::get("a", "/"));
    plan.connections = 500;
    plan
}

/// What a worker of a run measured, with samples over nine decades.
fn measured(random: &mut SplitMix64, pooled: &mut [Recorder; 3]) -> WorkerFigures {
    let mut figures = Figures { silos: 1, window: Duration::from_secs(1), rate: 1_000.0, ..Figures::default() };
    for _ in 0..1_000 {
        let nanos = random.bits() >> (24 + random.up_to(39));
        let class = if random.below(50) == 0 { Class::TimedOut } else { Class::Success };
        figures.samples.classes[class as usize].record(nanos);
        figures.samples.service.record(nanos / 2);
        figures.samples.lag.record(nanos - nanos / 2);
        [nanos, nanos / 2, nanos - nanos / 2].into_iter().zip(&mut *pooled).for_each(|(one, pool)| pool.record(one));
    }
    figures.latency = figures.samples.latency();
    figures.counts.traffic.responses = 1_000;
    figures.counts.statuses.success = 1_000;
    figures.open = 10;
    Box::new(Measured { begun_ns: vec![5], figures, outside: Outside::default(), throttling: None })
}

/// As it comes to the controller.
fn sent(measured: WorkerFigures) -> Result<WorkerMessage, messages::BadMessage> {
    let line = FromWorker::<WorkerFigures, Box<Interval>>::Measured(measured).line();
    read(&line[..line.len() - 1], None)
}

fn buckets(recorder: &Recorder) -> Vec<(u64, u64)> {
    let histogram = recorder.histogram();
    histogram.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
}

#[test]
fn merged_counts_of_fifty_workers_are_those_of_all_samples_pooled() {
    let mut random = SplitMix64::new(50);
    let mut pooled = [Recorder::new(), Recorder::new(), Recorder::new()];
    let mut whole = Whole::default();
    for _ in 0..50 {
        let Ok(FromWorker::Measured(part)) = sent(measured(&mut random, &mut pooled)) else { panic!("no figures") };
        whole.add(&part.measured);
    }
    let figures = whole.figures();
    let [latency, service, lag] = &pooled;
    for (name, merged, pooled) in [
        ("latency", &figures.latency, latency),
        ("service", &figures.samples.service, service),
        ("lag", &figures.samples.lag, lag),
    ] {
        assert_eq!(buckets(merged), buckets(pooled), "{name}");
        assert_eq!((merged.min(), merged.max(), merged.len()), (pooled.min(), pooled.max(), 50_000), "{name}");
    }
    // So percentiles are of the whole. That of percentiles would be another.
    let report = whole.report(&plan(), &outcome(Vec::new()));
    assert_eq!(report.latency.p99_ns, latency.quantile(0.99));
    assert_eq!((report.silos, report.open, report.traffic.responses), (50, 500, 50_000));
    let objective: Objective = "p99<1ns".parse().expect("an objective");
    let judged = objective.judge(&report);
    assert!(!judged.met && judged.measured.is_some());
    assert!((report.throughput.requests_per_second - 50_000.0).abs() < 1e-6);
}

fn outcome(problems: Vec<control::Problem>) -> Outcome<WorkerFigures> {
    let workers: Vec<WorkerOutcome<WorkerFigures>> = Vec::new();
    Outcome { workers, problems, interrupted: false, skew: None, strangers: 0, refused: 0, impostors: Vec::new() }
}

#[test]
fn a_problem_of_a_worker_makes_the_whole_invalid_by_name() {
    let mut random = SplitMix64::new(1);
    let mut whole = Whole::default();
    whole.add(&measured(&mut random, &mut [Recorder::new(), Recorder::new(), Recorder::new()]));
    let problem = control::Problem { worker: Some(3), kind: ProblemKind::Lost, what: "it was killed".to_owned() };
    let report = whole.report(&plan(), &outcome(vec![problem]));
    assert_eq!((report.verdict.trust, report.verdict.trust.word()), (Trust::No, "INVALID"));
    assert_eq!(
        (report.verdict.reasons[0].what, report.verdict.reasons[0].sentence.as_str()),
        ("worker lost", "worker 3: it was killed")
    );
    assert_eq!(report.traffic.responses, 1_000, "what was measured stands beside it");
}

#[test]
fn little_s_law_is_of_the_whole() {
    let mut whole = Whole::default();
    for busy in [2_u64, 6] {
        let mut figures = Figures { silos: 1, window: Duration::from_secs(1), rate: 1_000.0, ..Figures::default() };
        for _ in 0..1_000 {
            figures.samples.classes[0].record(busy * 1_000_000);
        }
        figures.latency = figures.samples.latency();
        figures.in_progress.request_ns = u128::from(busy) * 1_000_000_000;
        figures.counts.traffic.responses = 1_000;
        whole.add(&Measured { begun_ns: Vec::new(), figures, outside: Outside::default(), throttling: None });
    }
    let law = whole.report(&plan(), &outcome(Vec::new())).littles_law;
    assert!((law.in_progress - 8.0).abs() < 1e-9 && (law.rate_times_latency - 8.0).abs() < 0.01, "{law:?}");
}

#[test]
fn a_quota_and_a_busy_generator_are_faults() {
    let mut measured = measured(&mut SplitMix64::new(2), &mut [Recorder::new(), Recorder::new(), Recorder::new()]);
    assert_eq!(faults(&plan(), &measured), []);
    measured.throttling = Some(Throttling { periods: 0, throttled_us: 0 });
    assert_eq!(faults(&plan(), &measured), []);
    measured.throttling = Some(Throttling { periods: 3, throttled_us: 12_000 });
    let second = Duration::from_secs(1);
    measured.outside.busy = Some(load::Busy { busy: second.mul_f64(0.99), total: second });
    let found = faults(&plan(), &measured);
    let kinds: Vec<ProblemKind> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [ProblemKind::Throttled, ProblemKind::Saturated], "{found:?}");
    assert!(found[0].1.contains("12.0 ms in 3 periods"), "{found:?}");
}

/// Lines of a worker changed in one place or more: read or refused, and what is read adds up to a report.
#[test]
fn whatever_a_worker_sends_there_is_a_report_or_a_refusal() {
    let mut random = SplitMix64::new(3);
    let mut part = measured(&mut random, &mut [Recorder::new(), Recorder::new(), Recorder::new()]);
    // Small enough that changes are not all within the buckets.
    part.figures.samples.classes[0].clear();
    part.figures.samples.classes[0].record_n(5_000, 900);
    part.figures.samples.service.clear();
    part.figures.samples.lag.clear();
    part.figures.samples.classes[Class::TimedOut as usize].clear();
    part.figures.server = Some("nginx".to_owned());
    let plans = [plan(), Plan { arrival: load::Arrival::Open(Schedule::poisson(5.0)), ..plan() }];
    let line = FromWorker::<WorkerFigures, Box<Interval>>::Measured(part).line();
    let (mut read_ones, mut refused) = (0, 0);
    for _ in 0..400 {
        let mut changed = line[..line.len() - 1].to_vec();
        for _ in 0..=random.below(2) {
            let digits: Vec<usize> = (0..changed.len()).filter(|at| changed[*at].is_ascii_digit()).collect();
            let at = digits[random.below(digits.len())];
            match random.below(5) {
                0 => changed[at] = b'0' + random.below(10) as u8,
                1 => drop(changed.splice(at..=at, b"18446744073709551615".iter().copied())),
                2 => drop(changed.splice(at..=at, b"1e308".iter().copied())),
                3 => drop(changed.splice(at..=at, b"1125899906842624".iter().copied())),
                _ => changed[at] = b"-.eE\"[]{},:x"[random.below(12)],
            }
        }
        match read(&changed, Some(&plans[0])) {
            Ok(FromWorker::Measured(part)) => {
                read_ones += 1;
                for plan in &plans {
                    let mut whole = Whole::default();
                    (0..3).for_each(|_| whole.add(&part.measured));
                    let report: Report = whole.report(plan, &outcome(Vec::new()));
                    assert!(report.traffic.responses <= 3 << 52);
                    assert!(report.server.as_deref().unwrap_or_default().is_ascii());
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(why) => {
                refused += 1;
                assert!(why.0.is_ascii(), "{why}");
            }
        }
    }
    assert!(read_ones > 40 && refused > 40, "{read_ones} {refused}");
}

fn interval(stage: Stage, start: u64, nanos: u64, spans: u32) -> Interval {
    let (start, end) = (Duration::from_secs(start), Duration::from_secs(start + u64::from(spans)));
    let mut interval = Interval { stage, start, end, spans, open: 4, ..Interval::default() };
    interval.counts.traffic.responses = 1;
    interval.samples.classes[0].record(nanos);
    interval
}

#[test]
fn intervals_of_the_same_place_are_one_whatever_clocks_say() {
    let mut timeline = Timeline::new(2);
    // The second worker was ready two seconds later, so that its times are others.
    timeline.add(0, 0, interval(Stage::WarmUp, 3, 100, 1));
    assert!(timeline.poll().is_none(), "the other's is to come");
    timeline.add(1, 0, interval(Stage::WarmUp, 1, 200, 1));
    let first = timeline.poll().expect("whole");
    timeline.add(0, 0, interval(Stage::Measuring, 4, 300, 1));
    timeline.add(0, 0, interval(Stage::Measuring, 4, 300, 1));
    timeline.add(1, 0, interval(Stage::Measuring, 2, 400, 2));
    assert_eq!((first.stage, first.number, first.counts.traffic.responses, first.open), (Stage::WarmUp, 0, 2, 8));
    assert_eq!(first.samples.classes[0].len(), 2);
    assert_eq!(first.length(), Duration::from_secs(1));
    let second = timeline.poll().expect("both are past it");
    assert_eq!((second.number, second.samples.classes[0].max()), (1, 400));
    assert_eq!(second.samples.classes[0].len(), 2, "what is said twice counts once");
    timeline.add(0, 1, interval(Stage::Measuring, 5, 500, 1));
    timeline.add(0, 2, interval(Stage::Measuring, 6, 500, 1));
    assert!(timeline.poll().is_some() && timeline.poll().is_none(), "the other's was of two places");
    timeline.end(0);
    timeline.end(1);
    assert!(timeline.poll().is_some(), "the last");
    assert!(timeline.poll().is_none() && timeline.late() == 0);
    timeline.add(0, 3, interval(Stage::Measuring, 4, 300, 1));
    timeline.add(9, 3, interval(Stage::Measuring, 4, 300, 1));
    assert!(timeline.poll().is_none(), "it has ended, and the other is none");
}

#[test]
fn one_that_is_left_out_moves_no_other() {
    let mut timeline = Timeline::new(2);
    for place in [0, 1, 2] {
        timeline.add(0, place, interval(Stage::Measuring, place, 100, 1));
    }
    // Said when nobody was there, and given up.
    timeline.add(1, 0, interval(Stage::Measuring, 0, 200, 1));
    timeline.add(1, 2, interval(Stage::Measuring, 2, 300, 1));
    timeline.add(1, u64::MAX, interval(Stage::Measuring, 3, 300, 1));
    (0..2).for_each(|worker| timeline.end(worker));
    let samples: Vec<_> = core::iter::from_fn(|| timeline.poll())
        .map(|one| (one.samples.classes[0].len(), one.samples.classes[0].max()))
        .collect();
    assert_eq!(samples, [(2, 200), (1, 100), (2, 300)]);
}

#[test]
fn one_that_is_far_behind_is_not_waited_for() {
    let mut timeline = Timeline::new(2);
    let mut given = 0;
    for second in 0..100 {
        timeline.add(0, second, interval(Stage::Measuring, second, 5, 1));
        given += u32::from(timeline.poll().is_some());
    }
    assert_eq!(given, 36);
    timeline.add(1, 0, interval(Stage::Measuring, 0, 5, 1));
    assert_eq!(timeline.late(), 1);
    timeline.add(1, 0, interval(Stage::WarmUp, 0, 5, 1));
    assert_eq!(timeline.late(), 1, "time does not go backwards");
}

#[test]
fn intervals_are_read_as_carefully() {
    let line = FromWorker::<WorkerFigures, Interval>::Interval(Counted {
        number: 0,
        place: 0,
        interval: interval(Stage::Measuring, 1, 7, 1),
    })
    .line();
    let text = String::from_utf8(line).expect("text");
    let text = text.trim_end();
    assert!(matches!(read(text.as_bytes(), None), Ok(FromWorker::Interval(_))));
    for (from, to) in
        [("\"spans\":1", "\"spans\":0"), ("\"secs\":2", "\"secs\":0"), ("\"open\":4", "\"open\":9999999999999999")]
    {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        assert!(read(changed.as_bytes(), None).is_err(), "{changed}");
    }
}
