//! The open loop: the schedule sets the pace, whatever the server does.

use crate::world::{Dial, Reply, Then, World, assert_accounts, ms, plan, report, us};
use core::cell::RefCell;
use core::time::Duration;
use load::{Arrival, Class, Plan, Recorder, Reuse, Schedule, Shape, Spacing, Stage, Step, Stop, Warning};
use wire::Time;

fn open(schedule: Schedule) -> Plan {
    let mut plan = plan();
    plan.arrival = Arrival::Open(schedule);
    plan
}

fn assert_same(found: &Recorder, expected: &Recorder) {
    assert_eq!((found.len(), found.min(), found.max()), (expected.len(), expected.min(), expected.max()));
    assert!(found.histogram() == expected.histogram(), "not the same distribution");
}

#[test]
fn requests_leave_when_they_are_due() {
    let plan = open(Schedule::constant(1_000.0));
    let seen = RefCell::new(Vec::new());
    let mut world = World::new(&plan, |_, now: Time| {
        seen.borrow_mut().push(now);
        Reply::ok(us(100), 10)
    });
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.schedule.due, 1_000);
    assert!(figures.counts.traffic.responses.abs_diff(1_000) <= 1);
    assert_eq!((figures.latency.min(), figures.latency.max()), (100_000, 100_000));
    assert_eq!((figures.samples.lag.max(), figures.samples.delay.max()), (0, 0));
    assert_same(&figures.samples.service, &figures.latency);
    for pair in seen.borrow().windows(2) {
        assert_eq!(pair[1].since(pair[0]), ms(1));
    }
    // All four connections in turn.
    assert_eq!((figures.open, figures.most_open), (4, 4));
    let report = report(&plan, &figures);
    assert!(matches!(report.warnings[..], [Warning::FewSamples { .. }]), "{:?}", report.warnings);
    assert!((report.littles_law.in_progress - 0.1).abs() < 0.001, "{:?}", report.littles_law);
    let schedule = report.schedule.expect("an open loop");
    assert!((schedule.target_rate - 1_000.0).abs() < 1e-6 && schedule.achieved_fraction > 0.998);
}

/// What a stall of the server does to requests that are due every
/// millisecond: four connections, each request in order of its due time.
fn queue_of_four(due: impl Iterator<Item = u64>, answered: impl Fn(u64) -> u64) -> [Vec<(u64, u64)>; 2] {
    let mut free = [0_u64; 4];
    let (mut latency, mut lag) = (Vec::new(), Vec::new());
    for due in due {
        let first = free.iter_mut().min().expect("four");
        let sent = due.max(*first);
        *first = answered(sent);
        latency.push((*first, *first - due));
        lag.push((sent, sent - due));
    }
    [latency, lag]
}

#[test]
fn a_stall_of_the_server_is_seen_by_all_who_would_have_come() {
    let mut plan = open(Schedule::constant(1_000.0));
    plan.stop = Stop::After(Duration::from_secs(10));
    let start = ms(123_456).as_nanos() as u64;
    // One second from 3 s on; whoever comes in it is answered at its end.
    let (from, until) = (start + 3_000_000_000, start + 4_000_000_000);
    let answered = |now: u64| if (from..until).contains(&now) { until + 100_000 } else { now + 100_000 };
    let mut world = World::new(&plan, |_, now| {
        let now = now.as_nanos();
        Reply::ok(Duration::from_nanos(answered(now) - now), 10)
    });
    let figures = world.run();
    assert_accounts(&figures);

    // By hand, from the first to the last request that is due. Connecting
    // takes 50 µs and the first request 1 ms more; the window opens 100 ms
    // after connecting.
    let window = start + 50_000 + 100_000_000;
    let end = window + 10_000_000_000;
    let due = (1..).map(|k| start + 50_000 + k * 1_000_000).take_while(|due| *due <= end);
    let [latency, lag] = queue_of_four(due, answered);
    let recorded = |samples: &[(u64, u64)]| {
        let mut recorder = Recorder::new();
        let inside = |(at, _): &&(u64, u64)| (window + 1..=end).contains(at);
        samples.iter().filter(inside).for_each(|(_, span)| recorder.record(*span));
        recorder
    };
    assert_same(&figures.latency, &recorded(&latency));
    assert_same(&figures.samples.lag, &recorded(&lag));
    // And in words: of 10,000 requests, number i of the stall waits for the
    // rest of the second, and for its place among those that four connections
    // work off, 40 in a millisecond.
    let millis = |ns: u64| ns as f64 * 1e-6;
    for (quantile, i) in [(0.95, 500.0), (0.99, 100.0), (0.999, 10.0)] {
        let expected = 1_000.0 - i + i / 40.0 + 0.1;
        let found = millis(figures.latency.quantile(quantile));
        assert!((found - expected).abs() < 2.0, "{quantile}: {found} for {expected}");
    }
    assert!((millis(figures.latency.max()) - 1_000.0).abs() < 1.0);
    // The uncorrected figures know of four slow requests.
    assert_eq!(figures.samples.service.quantile(0.999) / 1_000, 100);
    assert!(millis(figures.samples.service.max()) > 990.0);
    let warnings = report(&plan, &figures).warnings;
    assert!(warnings.iter().any(|warning| matches!(warning, Warning::ScheduleLag { .. })), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| matches!(warning, Warning::LittlesLaw { .. })), "{warnings:?}");
}

#[test]
fn more_than_the_server_can_do_is_counted_and_said() {
    let mut plan = open(Schedule::constant(2_000.0));
    plan.connections = 1;
    plan.warm_up = Duration::ZERO;
    // 1,000 a second at most.
    let mut world = World::new(&plan, |_, _| Reply::ok(ms(1), 10));
    let figures = world.run();
    assert_accounts(&figures);
    // The one due at the very end is not of this window.
    assert_eq!((figures.schedule.due, figures.schedule.unsent_before), (1_999, 0));
    let sent = figures.counts.traffic.sent;
    assert!((999..=1_001).contains(&sent), "{sent}");
    assert_eq!(figures.schedule.unsent, 1_999 - sent);
    // Number 1,001 was due at 500 ms.
    let oldest = figures.schedule.oldest_unsent;
    assert!(oldest.abs_diff(ms(500)) <= ms(1), "{oldest:?}");
    // The last answered waited for half a second, too.
    assert!(figures.latency.max().abs_diff(500_000_000) < 2_000_000, "{}", figures.latency.max());
    assert!(figures.samples.service.max() < 1_002_000);
    let warnings = report(&plan, &figures).warnings;
    for expected in [
        |warning: &Warning| matches!(warning, Warning::RateMissed { target, achieved } if *target == 1_999.0 && *achieved < 1_002.0),
        |warning: &Warning| matches!(warning, Warning::Unsent { unsent, .. } if *unsent >= 998),
        |warning: &Warning| matches!(warning, Warning::ScheduleLag { .. }),
    ] {
        assert!(warnings.iter().any(expected), "{warnings:?}");
    }
}

#[test]
fn a_backlog_of_any_schedule_keeps_its_times() {
    let step = |rate, span| Step { rate, time: span };
    let shapes = [
        Shape::Constant(3_000.0),
        Shape::Steps(vec![step(500.0, ms(100)), step(8_000.0, ms(300)), step(0.0, ms(200)), step(1_000.0, ms(1))]),
        Shape::Ramp { from: 100.0, to: 5_000.0, over: ms(900) },
    ];
    for spacing in [Spacing::Even, Spacing::Poisson] {
        for shape in &shapes {
            let plan = open(Schedule { shape: shape.clone(), spacing, first_gap: 1.0 });
            // A server that stands still again and again, beside one that does
            // not: the same requests are due at the same times.
            let due_times = |stalls: bool| {
                let sent = RefCell::new(Vec::new());
                let mut world = World::new(&plan, |_, now: Time| {
                    sent.borrow_mut().push(now);
                    let phase = now.as_millis() % 100;
                    Reply::ok(if stalls && phase < 60 { ms(60 - phase) } else { us(20) }, 0)
                });
                let figures = world.run();
                assert_accounts(&figures);
                let in_flight_before = figures.before.traffic.sent - figures.before.traffic.responses;
                let all = figures.before.traffic.sent + figures.counts.traffic.sent;
                (figures.schedule, figures.samples.lag.total(), in_flight_before, all)
            };
            let (calm, calm_lag, _, sent) = due_times(false);
            let (stalled, stalled_lag, _, sent_late) = due_times(true);
            assert_eq!(stalled.due, calm.due, "{shape:?} {spacing:?}");
            assert!(calm_lag < stalled_lag / 10.0, "{calm_lag} beside {stalled_lag}");
            assert_eq!(sent_late + stalled.unsent, sent + calm.unsent, "{shape:?} {spacing:?}");
        }
    }
}

#[test]
fn the_rate_is_changed_while_it_runs() {
    for stall in [Duration::ZERO, ms(150)] {
        let plan = open(Schedule::constant(1_000.0));
        let seen = RefCell::new(Vec::new());
        let start = Time::from_millis(123_456);
        let mut world = World::new(&plan, |_, now: Time| {
            let since = now.since(start);
            seen.borrow_mut().push(since);
            // With a stall, changes come while requests wait.
            let held = (ms(350)..ms(350) + stall).contains(&since);
            Reply::ok(if held { ms(350) + stall - since } else { us(100) }, 0)
        });
        let live = world.load.live();
        world.run_for(ms(400));
        assert_eq!(world.load.progress(world.now()).target_rate, 1_000.0);
        live.set_rate(f64::NAN);
        live.set_rate(-1.0);
        live.set_rate(5_000.0);
        world.run_for(ms(200));
        live.set_rate(0.0);
        world.run_for(ms(300));
        live.set_rate(2_000.0);
        let figures = world.run();
        assert_accounts(&figures);
        // 300 ms at 1,000, 200 ms at 5,000, 300 ms of none, 200 ms at 2,000.
        let due = figures.schedule.due as f64;
        let exact = 299.95 + 1_000.0 + 400.1;
        // A change is seen with the next turn: 1 ms later, or after the pause
        // 5 ms at most.
        assert!((exact - 15.0..=exact + 1.0).contains(&due), "{due} for {exact}");
        assert_eq!(figures.schedule.unsent, 0);
        let inside = |from, to| seen.borrow().iter().filter(|at| (from..to).contains(*at)).count();
        if stall.is_zero() {
            // At once, and without a burst.
            assert!(inside(ms(401), ms(411)).abs_diff(50) <= 1, "{}", inside(ms(401), ms(411)));
            assert!(inside(ms(905), ms(915)).abs_diff(20) <= 1, "{}", inside(ms(905), ms(915)));
            assert_eq!(figures.samples.lag.max(), 0);
        } else {
            assert!(inside(ms(350), ms(500)) <= 8, "{}", inside(ms(350), ms(500)));
        }
        assert_eq!(inside(ms(610), ms(890)), 0);
    }
}

#[test]
fn a_new_connection_for_each_request() {
    for reuse in [Reuse::ServerCloses, Reuse::ClientCloses] {
        let mut plan = open(Schedule::constant(1_000.0));
        plan.reuse = reuse;
        let then = if reuse == Reuse::ServerCloses { Then::Finish } else { Then::Keep };
        let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1).then(then));
        let figures = world.run();
        assert_accounts(&figures);
        assert_eq!((figures.ramp, figures.schedule.due), (Duration::ZERO, 1_000));
        assert!(figures.counts.traffic.responses.abs_diff(1_000) <= 1);
        // Due, then connected to in 50 µs: the wait for it is in the latency.
        assert_eq!(figures.latency.max() / 1_000, 150, "{reuse:?}");
        assert_eq!(figures.samples.service.max() / 1_000, 100);
        assert_eq!(figures.samples.lag.min() / 1_000, 50);
        assert_eq!(figures.counts.errors.total(), 0);
        assert!(figures.counts.connections.established.abs_diff(1_000) <= 1);
    }
}

#[test]
fn a_pipeline_takes_what_is_due() {
    let mut plan = open(Schedule::constant(4_000.0));
    plan.connections = 1;
    plan.pipeline = 4;
    // 1 ms each, answered in order: four are under way at a time.
    let mut world = World::new(&plan, |_, _| Reply::ok(ms(1), 1));
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.schedule.due, 4_000);
    assert!(figures.schedule.unsent <= 1, "{:?}", figures.schedule);
    assert_eq!(figures.samples.service.max() / 1_000, 1_000);
}

#[test]
fn a_number_of_requests_is_met_exactly() {
    let mut plan = open(Schedule::constant(10_000.0));
    plan.stop = Stop::Requests { count: 777, within: Duration::from_secs(5) };
    let mut world = World::new(&plan, |_, _| Reply::ok(us(300), 1));
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!((figures.counts.traffic.responses, figures.schedule.unsent), (777, 0));
    assert!(figures.schedule.due.abs_diff(777) <= 3, "{:?}", figures.schedule);
    assert_eq!(figures.latency.len(), 777);
}

#[test]
fn a_generator_that_stands_still_is_found_out() {
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(1_000.0))] {
        let mut plan = plan();
        plan.arrival = arrival;
        let run = |pause: Duration| {
            let mut world = World::new(&plan, |_, _| Reply::ok(us(200), 0));
            world.run_for(ms(500));
            world.pause(pause);
            let figures = world.run();
            report(&plan, &figures)
        };
        let calm = run(Duration::ZERO);
        assert!(calm.warnings.iter().all(|w| matches!(w, Warning::FewSamples { .. })), "{:?}", calm.warnings);
        assert!(calm.delay.samples >= 150, "{:?}", calm.delay);
        let stalled = run(ms(100));
        let found = |warning: &Warning| matches!(warning, Warning::GeneratorStalled { longest_ns, .. } if *longest_ns >= 95_000_000);
        assert!(stalled.warnings.iter().any(found), "{:?}", stalled.warnings);
        // The open loop knows what it missed.
        if stalled.schedule.is_some() {
            assert!(stalled.latency.p99_ns > 80_000_000, "{:?}", stalled.latency);
        }
    }
}

#[test]
fn a_generator_that_is_always_late_is_found_out() {
    let plan = open(Schedule::constant(1_000.0));
    let mut world = World::new(&plan, |_, _| Reply::ok(us(200), 0));
    while world.load.figures().is_none() {
        world.turn();
        // Half of the turns come 70 µs late.
        if world.now().as_micros() % 2_000 < 1_000 {
            world.pause(us(70));
        }
    }
    let warnings = report(&plan, world.load.figures().expect("ended")).warnings;
    let late = |warning: &Warning| matches!(warning, Warning::SchedulingDelay { delay_ns: 69_000..=71_000, .. });
    assert!(warnings.iter().any(late), "{warnings:?}");
}

#[test]
fn failures_are_samples_from_the_due_time() {
    let mut plan = open(Schedule::constant(1_000.0));
    plan.timeout = ms(20);
    plan.connections = 64;
    // One in ten is never answered, one in ten is cut off after 3 ms.
    let mut world = World::new(&plan, |n, _| match n % 10 {
        0 => Reply::nothing(),
        1 => Reply::bytes(ms(3), &b"HTTP/1.1 2"[..]).then(Then::Reset),
        2 => Reply::bytes(us(100), crate::world::response("404 Not Found", 3)),
        _ => Reply::ok(us(100), 1),
    });
    let figures = world.run();
    assert_accounts(&figures);
    let class = |class| figures.samples.class(class);
    assert!(class(Class::TimedOut).len().abs_diff(100) <= 2);
    assert!(class(Class::TimedOut).min() >= 20_000_000 && class(Class::TimedOut).max() <= 22_000_000);
    assert!(class(Class::Failed).len().abs_diff(100) <= 2);
    assert_eq!(class(Class::Failed).quantile(0.5) / 1_000, 3_000);
    assert!(class(Class::ClientError).len().abs_diff(100) <= 1);
    assert_eq!(class(Class::Success).max() / 1_000, 100);
    let ended = figures.counts.traffic.responses + figures.counts.errors.failed_requests();
    assert_eq!(figures.samples.ended(), ended);
    assert_eq!(figures.latency.len(), ended - class(Class::Failed).len());
    // The uncorrected times are of the same requests.
    let (service, failed) = (&figures.samples.service, &figures.samples.service_failed);
    assert_eq!((service.len(), failed.len()), (figures.latency.len(), class(Class::Failed).len()));
    let report = report(&plan, &figures);
    assert_eq!(report.classes.len(), 4);
    assert!(report.littles_law.off < 0.002, "{:?}", report.littles_law);
}

#[test]
fn a_server_that_vanishes_does_not_hang_the_run() {
    for reuse in [Reuse::KeepAlive, Reuse::ClientCloses, Reuse::ClientClosesAfter(3)] {
        let mut plan = open(Schedule::poisson(20_000.0));
        (plan.timeout, plan.connect_timeout, plan.reuse) = (ms(100), ms(100), reuse);
        let gone = Time::from_millis(123_456 + 600);
        let dead = RefCell::new(false);
        let mut world = World::new(&plan, |_, now| {
            dead.replace(now > gone);
            if now > gone { Reply::nothing() } else { Reply::ok(us(100), 0) }
        })
        .dial(|_| if *dead.borrow() { Dial::Ignore } else { Dial::Accept(us(50)) });
        let figures = world.run();
        assert_accounts(&figures);
        assert_eq!(figures.window, Duration::from_secs(1));
        assert!(
            (9_500..10_900).contains(&(figures.schedule.unsent - figures.schedule.unsent_before))
                || reuse != Reuse::KeepAlive,
            "{:?}",
            figures.schedule
        );
        assert!(figures.schedule.oldest_unsent > ms(400));
        assert_eq!(world.load.live().read().stage, Stage::Ended);
    }
}
