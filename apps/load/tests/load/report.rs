//! The report: figures, and warnings.

use crate::world::{ms, plan, us};
use core::time::Duration;
use load::{
    Arrival, Busy, BusySource, Class, Cpu, Ended, Figures, Floor, Outside, Plan, Ports, Recorder, Report, Request,
    Reuse, Schedule, Spoils, Stop, Warning,
};

/// What 64 connections would have counted in 2 s at 250 µs each.
fn figures() -> Figures {
    let mut figures = Figures {
        ramp: ms(3),
        warm_up: ms(1_000),
        window: Duration::from_secs(2),
        open: 64,
        most_open: 64,
        in_flight: 64,
        oldest_in_flight: us(230),
        silos: 1,
        ..Figures::default()
    };
    for n in 0..512_000_u64 {
        figures.latency.record(200_000 + (n % 1_000) * 100);
    }
    figures.latency.record(1_900_123);
    figures.samples.classes[Class::Success as usize] = figures.latency.clone();
    figures.in_progress.request_ns = 64 * 2_000_000_000;
    figures.connect.record(120_000);
    figures.before.connections.attempted = 64;
    figures.before.connections.established = 64;
    figures.counts.traffic.responses = 512_001;
    figures.counts.traffic.sent = 512_001;
    figures.counts.traffic.received_bytes = 512_001 * 120;
    figures.counts.traffic.body_bytes = 512_001 * 13;
    figures.counts.traffic.sent_bytes = 512_001 * 37;
    figures.counts.statuses.success = 512_001;
    figures.rate = 256_000.5;
    figures.turns.all = 900_000;
    figures.turns.busy = 100_000;
    figures.turns.time = Duration::from_secs(2);
    figures.turns.busy_time = ms(1_000);
    figures.turns.longest = us(80);
    figures
}

fn plan64() -> Plan {
    let mut plan = plan();
    plan.connections = 64;
    plan
}

fn busy(millis: u64) -> Option<Busy> {
    Some(Busy { busy: ms(millis), total: ms(2_000) })
}

#[test]
fn nothing_speaks_against_a_sound_run() {
    let report = Report::new(&plan64(), &figures(), busy(800));
    assert_eq!(report.warnings, []);
    assert_eq!(report.client.source, BusySource::Runtime);
    assert!((report.client.busy_fraction - 0.4).abs() < 1e-9);
    // Of each 10 µs by the stamps, the runtime knows 2 to be waiting.
    assert_eq!(report.client.mean_busy_turn_ns, 8_000);
    assert!((report.client.responses_per_busy_turn - 5.12).abs() < 0.001);
    assert_eq!((report.latency.min_ns, report.latency.max_ns), (200_000, 1_900_123));
    assert!((report.latency.mean_ns - 249_950.0).abs() < 250.0);
    for (quantile, exact) in [(report.latency.p50_ns, 250_000), (report.latency.p99_ns, 299_000)] {
        assert!(quantile.abs_diff(exact) < exact / 1_000, "{quantile}");
    }
}

#[test]
fn the_generators_own_limit_is_named() {
    let saturated = |report: &Report| report.warnings.first().copied();
    let report = Report::new(&plan64(), &figures(), busy(1_800));
    assert_eq!(saturated(&report), Some(Warning::ClientSaturated { busy_fraction: 0.9 }));
    let report = Report::new(&plan64(), &figures(), busy(1_799));
    assert_eq!(report.warnings, []);
    // Without the runtime's account there is an upper bound only.
    let mut figures = figures();
    assert_eq!(Report::new(&plan64(), &figures, None).warnings, []);
    figures.turns.busy_time = ms(1_900);
    let report = Report::new(&plan64(), &figures, None);
    assert_eq!(saturated(&report), Some(Warning::ClientMaybeSaturated { busy_fraction: 0.95 }));
    assert_eq!(report.client.source, BusySource::UpperBound);
}

#[test]
fn figures_that_contradict_each_other_are_named() {
    // Half of the time is missing in each latency.
    let mut figures = figures();
    figures.in_progress.request_ns *= 2;
    let report = Report::new(&plan64(), &figures, busy(100));
    let [Warning::LittlesLaw { in_progress, measured }] = report.warnings[..] else {
        panic!("{:?}", report.warnings);
    };
    assert!((in_progress - 128.0).abs() < 0.1 && (measured - 64.0).abs() < 0.1, "{measured}");
}

#[test]
fn each_shortcoming_has_its_warning() {
    type Spoil = fn(&mut Figures);
    type Expected = fn(&Warning) -> bool;
    let cases: [(Spoil, Expected); 8] = [
        (|f| f.ended = Ended::Interrupted, |w| *w == Warning::Interrupted),
        (|f| f.ended = Ended::OutOfTime, |w| *w == Warning::OutOfTime),
        (|f| f.most_open = 63, |w| *w == Warning::RampIncomplete { opened: 63, planned: 64 }),
        (|f| f.before.connections.no_port = 1, |w| *w == Warning::ConnectPaused { no_port: 1, full: 0, no_route: 0 }),
        (|f| f.counts.errors.reset = 6_000, |w| matches!(w, Warning::Failures { .. })),
        (|f| f.counts.statuses.success -= 6_000, |w| matches!(w, Warning::NotSuccess { .. })),
        (|f| f.oldest_in_flight = ms(2), |w| *w == Warning::Stalled { in_flight: 64, oldest_ns: 2_000_000 }),
        (|f| f.turns.busy = 10_000, |w| *w == Warning::CoarseStamps { turn_ns: 40_000, median_ns: 250_111 }),
    ];
    for (spoil, expected) in cases {
        let mut figures = figures();
        spoil(&mut figures);
        let warnings = Report::new(&plan64(), &figures, busy(400)).warnings;
        assert!(warnings.len() == 1 && expected(&warnings[0]), "{warnings:?}");
        assert!(!warnings[0].to_string().is_empty());
    }
}

#[test]
fn what_the_surroundings_know_is_weighed() {
    let ns = |micros: u64| micros * 1_000;
    let floor = |mean_ns: f64| Some(Floor { mean_ns, ..Floor::default() });
    let cpu = |run_delay_ns: u64| Some(Cpu { run_delay_ns, ..Cpu::default() });
    let ports = |used: u64| Some(Ports { used, available: 1_000 });
    let cases = [
        (
            Outside {
                floor: floor(124_000.0),
                cpu: cpu(ns(20_000)),
                ports: ports(799),
                busy: busy(400),
                ..Outside::default()
            },
            None,
        ),
        (
            Outside { floor: floor(126_000.0), ..Outside::default() },
            Some(Warning::NearFloor { floor_ns: 126_000, mean_ns: 249_955 }),
        ),
        (Outside { cpu: cpu(ns(50_000)), ..Outside::default() }, Some(Warning::NoCore { fraction: 0.025 })),
        (
            Outside { ports: ports(800), ..Outside::default() },
            Some(Warning::PortsShort { used: 800, available: 1_000 }),
        ),
    ];
    for (outside, expected) in cases {
        let report = Report::new(&plan64(), &figures(), outside.clone());
        assert_eq!(report.warnings, expected.into_iter().collect::<Vec<_>>());
        assert_eq!(
            (report.client.floor, report.client.cpu, report.client.ports),
            (outside.floor, outside.cpu, outside.ports)
        );
    }
}

/// Each is said in words, and stands beside a figure.
#[test]
fn the_generators_own_shortcomings_are_said() {
    let mut figures = figures();
    for _ in 0..2_000 {
        figures.samples.delay.record(60_000);
    }
    figures.samples.delay.record(1_200_000);
    for _ in 0..6_000 {
        figures.samples.lag.record(30_000);
    }
    (figures.schedule.due, figures.schedule.unsent) = (600_000, 6_001);
    let mut plan = plan64();
    plan.arrival = Arrival::Open(Schedule::constant(300_000.0));
    figures.samples.service = figures.latency.clone();
    let report = Report::new(&plan, &figures, busy(400));
    let expected = [
        Warning::RateMissed { target: 300_000.0, achieved: 256_000.5 },
        Warning::Unsent { unsent: 6_001, oldest_ns: 0 },
        Warning::ScheduleLag { lag_ns: 30_000, median_ns: 250_111 },
        Warning::SchedulingDelay { delay_ns: 60_031, median_ns: 250_111 },
        Warning::GeneratorStalled { longest_ns: 1_200_000, max_ns: 1_900_123 },
    ];
    assert_eq!(report.warnings, expected);
    let spoils: Vec<Spoils> = report.warnings.iter().map(Warning::spoils).collect();
    assert_eq!(spoils, [Spoils::Rate, Spoils::Tail, Spoils::Uncorrected, Spoils::Latency, Spoils::Tail]);
    for warning in &report.warnings {
        assert!(warning.to_string().len() > 30, "{warning}");
    }
}

#[test]
fn percentiles_on_few_samples_are_named() {
    for (samples, first) in [(19, 50.0), (999, 99.0), (1_000, 99.9), (99_999, 99.99)] {
        let mut figures = figures();
        figures.latency = Recorder::new();
        (0..samples).for_each(|_| figures.latency.record(250_000));
        let warnings = Report::new(&plan64(), &figures, busy(400)).warnings;
        let few = |w: &Warning| *w == Warning::FewSamples { samples, percentile: first };
        assert!(warnings.iter().any(few), "{warnings:?}");
    }
}

#[test]
fn figures_of_several_silos_add_up() {
    let mut all = Figures::default();
    let (one, mut two) = (figures(), figures());
    two.ended = Ended::OutOfTime;
    two.turns.busy_time = ms(1_500);
    two.ramp = ms(5);
    for figures in [&one, &two, &Figures::default()] {
        all.merge(figures);
    }
    assert_eq!((all.silos, all.ended, all.ramp, all.window), (2, Ended::OutOfTime, ms(5), one.window));
    assert_eq!(all.latency.len(), 2 * 512_001);
    assert_eq!(all.counts.traffic.responses, 2 * 512_001);
    assert_eq!(all.rate, 2.0 * one.rate);
    assert_eq!(all.open, 128);
    assert_eq!(all.turns, two.turns);
    let mut plan = plan64();
    plan.connections = 128;
    let report = Report::new(&plan, &all, None);
    assert_eq!(report.warnings, [Warning::OutOfTime]);
    assert!((report.client.responses_per_busy_turn - 5.12).abs() < 0.001);
}

#[test]
fn shares_of_a_plan_add_up_to_it() {
    let mut whole = plan();
    whole.connections = 1_001;
    whole.active = Some(10);
    whole.handshakes = 100;
    whole.sources = (0..7).map(|n| core::net::IpAddr::from([10, 0, 0, n])).collect();
    whole.stop = Stop::Requests { count: 1_000_003, within: ms(1) };
    for silos in [1, 2, 3, 7] {
        let shares: Vec<Plan> = (0..silos).filter_map(|n| whole.share(n, silos)).collect();
        assert_eq!(shares.len(), silos as usize);
        assert_eq!(shares.iter().map(|plan| plan.connections).sum::<u32>(), 1_001);
        assert_eq!(shares.iter().filter_map(|plan| plan.active).sum::<u32>(), 10);
        assert_eq!(shares.iter().map(|plan| plan.sources.len()).sum::<usize>(), 7);
        let count = |plan: &Plan| match plan.stop {
            Stop::Requests { count, .. } => count,
            Stop::After(_) => 0,
        };
        assert_eq!(shares.iter().map(count).sum::<u64>(), 1_000_003);
        for plan in &shares {
            assert_eq!(plan.check(), Ok(()));
        }
    }
    assert!(whole.share(2, 2).is_none() && whole.share(0, 0).is_none());
    whole.connections = 1;
    whole.active = None;
    assert!(whole.share(0, 2).is_some() && whole.share(1, 2).is_none());
    // Who has a part has all of it: nothing goes to silos without connections,
    // or without requests.
    whole.warm_up_requests = 7;
    for (connections, count) in [(1, 50), (64, 1)] {
        whole.connections = connections;
        whole.stop = Stop::Requests { count, within: ms(1) };
        let shares: Vec<Plan> = (0..4).filter_map(|n| whole.share(n, 4)).collect();
        let [only] = shares.as_slice() else { panic!("{} parts", shares.len()) };
        assert_eq!((only.stop, only.connections, only.warm_up_requests), (whole.stop, connections, 7));
        assert_eq!(only.handshakes, 100);
    }
}

#[test]
fn plans_that_cannot_be_run_are_refused() {
    type Spoil = fn(&mut Plan);
    let spoils: [Spoil; 24] = [
        |p| p.targets.clear(),
        |p| p.connections = 0,
        |p| p.connections = u32::MAX,
        |p| p.active = Some(0),
        |p| p.active = Some(p.connections + 1),
        |p| p.pipeline = 0,
        |p| p.pipeline = 65,
        |p| (p.pipeline, p.reuse) = (2, Reuse::ServerCloses),
        |p| (p.active, p.reuse) = (Some(1), Reuse::ClientCloses),
        |p| (p.active, p.pipeline) = (Some(1), 2),
        |p| p.sources = vec!["fd00::1".parse().unwrap()],
        |p| p.timeout = Duration::ZERO,
        |p| p.timeout = Duration::from_secs(1_001),
        |p| p.connect_timeout = Duration::from_micros(999),
        |p| p.connect_timeout = Duration::from_secs(1_001),
        |p| p.handshakes = 0,
        |p| p.stop = Stop::After(Duration::ZERO),
        |p| p.stop = Stop::Requests { count: 0, within: Duration::from_secs(1) },
        |p| p.requests[0].item.method = "GET / HTTP/1.1\r\n".into(),
        |p| p.requests[0].item.path = "no/slash".into(),
        |p| p.requests[0].item.path = "/a b".into(),
        |p| p.requests[0].item.host = "a\r\nX: y".into(),
        |p| p.requests[0].item.headers = vec![("X".into(), "a\r\nY: b".into())],
        |p| p.requests[0].item.headers = vec![("content-length".into(), "7".into())],
    ];
    assert_eq!(plan().check(), Ok(()));
    for (n, spoil) in spoils.into_iter().enumerate() {
        let mut plan = plan();
        spoil(&mut plan);
        let error = plan.check().expect_err(&format!("number {n} should be refused"));
        assert!(!error.to_string().is_empty());
        assert!(load::Load::new(plan).is_err());
    }
}

#[test]
fn the_request_as_sent() {
    let mut request = Request::get("example.org:8080", "/a?b=c");
    request.headers = vec![("Accept".into(), "text/html".into())];
    let text = |request: &Request, reuse| String::from_utf8(request.bytes(reuse).unwrap()).unwrap();
    assert_eq!(
        text(&request, Reuse::KeepAlive),
        "GET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: text/html\r\n\r\n"
    );
    (request.method, request.body) = ("POST".into(), b"12345".to_vec());
    assert_eq!(
        text(&request, Reuse::ServerCloses),
        "POST /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: text/html\r\n\
         Connection: close\r\nContent-Length: 5\r\n\r\n12345"
    );
}
