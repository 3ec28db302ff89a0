//! What the generator does when something goes wrong: it counts it, goes on,
//! and ends at its time.

use crate::world::{Dial, Reply, Then, World, assert_accounts, ms, plan, report, response, us};
use app::{ConnectError, Net};
use core::time::Duration;
use load::{Arrival, Ended, Errors, Figures, Interval, Plan, Reuse, Schedule, Stage, Stop, Warning, Weighted};

/// Runs a world in which every tenth request fares as `bad` says.
fn every_tenth(plan: &Plan, bad: impl Fn() -> Reply) -> Figures {
    let mut world = World::new(plan, |n, _| if n % 10 == 0 { bad() } else { Reply::ok(us(100), 10) });
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.window, Duration::from_secs(1), "the run lasts as planned");
    assert!(figures.counts.traffic.responses > 1_000, "the rest goes on: {:?}", figures.counts);
    figures
}

/// Asserts that about a tenth of the requests failed, in `field` and nowhere
/// else, and that lost connections were replaced.
fn assert_tenth(figures: &Figures, field: impl Fn(&mut Errors) -> &mut u64) {
    let mut errors = figures.counts.errors;
    let failed = core::mem::take(field(&mut errors));
    let ended = failed + figures.counts.traffic.responses;
    assert!(failed.abs_diff(ended / 10) <= 2, "{failed} of {ended}");
    assert_eq!(errors.total(), 0, "{errors:?}");
    assert_eq!(figures.open, 4);
    assert!(figures.counts.connections.reconnects.abs_diff(failed) <= 4);
}

#[test]
fn a_reset_in_place_of_a_response() {
    let figures = every_tenth(&plan(), || Reply { parts: vec![(us(10), b"HTTP/1.1 2".to_vec())], then: Then::Reset });
    assert_tenth(&figures, |errors| &mut errors.reset);
    let warnings = report(&plan(), &figures).warnings;
    assert!(matches!(warnings[0], Warning::Failures { fraction } if (fraction - 0.1).abs() < 0.01), "{warnings:?}");
}

#[test]
fn a_close_in_place_of_a_response() {
    let figures = every_tenth(&plan(), || Reply::nothing().then(Then::Finish));
    assert_tenth(&figures, |errors| &mut errors.unanswered);
}

#[test]
fn a_close_within_a_response() {
    for cut in [5, 20, 45] {
        let whole = response("200 OK", 10);
        let figures = every_tenth(&plan(), || Reply::bytes(us(10), &whole[..cut]).then(Then::Finish));
        assert_tenth(&figures, |errors| &mut errors.truncated);
    }
}

#[test]
fn tcp_giving_up() {
    let figures = every_tenth(&plan(), || Reply::bytes(us(10), &b"HTTP"[..]).then(Then::TimeOut));
    assert_tenth(&figures, |errors| &mut errors.tcp_timed_out);
}

#[test]
fn a_response_that_is_not_http() {
    for bad in ["220 smtp.example ready\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"]
    {
        let figures = every_tenth(&plan(), || Reply::bytes(us(10), bad));
        assert_tenth(&figures, |errors| &mut errors.malformed);
    }
}

#[test]
fn more_bytes_than_were_asked_for() {
    let two = [response("200 OK", 10), response("200 OK", 10)].concat();
    let figures = every_tenth(&plan(), || Reply::bytes(us(100), two.clone()));
    // The first is a response; what follows costs the connection, and the
    // request that was just sent on it.
    let errors = figures.counts.errors;
    assert!(errors.unasked > 100);
    assert_eq!((errors.malformed, errors.total()), (errors.unasked, 2 * errors.unasked));
}

#[test]
fn a_response_of_another_length() {
    let mut plan = plan();
    plan.expect.length = Some(10);
    let figures = every_tenth(&plan, || Reply::ok(us(100), 11));
    let (errors, responses) = (figures.counts.errors, figures.counts.traffic.responses);
    assert!(errors.wrong_length.abs_diff(responses / 10) <= 1);
    assert_eq!(errors.total(), errors.wrong_length);
    assert_eq!(figures.before.connections.established + figures.counts.connections.established, 4);
}

#[test]
fn statuses_are_counted_by_class() {
    let plan = plan();
    let mut world = World::new(&plan, |n, _| {
        Reply::bytes(us(100), response(["200 OK", "302 Found", "404 Not Found", "503 Busy"][n as usize % 4], 0))
    });
    let figures = world.run();
    let statuses = figures.counts.statuses;
    assert_eq!(statuses.total(), figures.counts.traffic.responses);
    for count in [statuses.success, statuses.redirection, statuses.client_error, statuses.server_error] {
        assert!(count.abs_diff(10_000) <= 4, "{statuses:?}");
    }
    assert!(report(&plan, &figures).warnings.iter().any(|warning| matches!(warning, Warning::NotSuccess { .. })));
}

#[test]
fn a_response_that_ends_with_the_connection() {
    // RFC 9112 §6.3 rule 8.
    let plan = plan();
    let mut world =
        World::new(&plan, |_, _| Reply::bytes(us(100), "HTTP/1.1 200 OK\r\n\r\nall of it").then(Then::Finish));
    let figures = world.run();
    assert!(figures.counts.traffic.responses > 10_000);
    assert_eq!(figures.counts.traffic.body_bytes, 9 * figures.counts.traffic.responses);
    assert_eq!(figures.counts.errors.total(), 0);
    assert!(figures.counts.connections.reconnects > 10_000);
    assert_accounts(&figures);
}

#[test]
fn a_server_that_closes_between_requests() {
    // As servers do after a number of requests: RFC 9112 §9.6.
    let plan = plan();
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut world = World::new(&plan, |n, _| match n % 100 {
        0 => Reply::bytes(us(100), last).then(Then::Finish),
        _ => Reply::ok(us(100), 0),
    });
    let figures = world.run();
    assert_eq!(figures.counts.errors.total(), 0);
    assert!(figures.counts.connections.reconnects > 300);
    assert_accounts(&figures);
}

#[test]
fn slow_requests_are_errors_and_samples() {
    let mut plan = plan();
    plan.timeout = ms(50);
    let mut world = World::new(&plan, |n, _| if n % 1_000 == 0 { Reply::nothing() } else { Reply::ok(us(100), 0) });
    let figures = world.run();
    let errors = figures.counts.errors;
    assert!(errors.timeouts >= 10, "{errors:?}");
    assert_eq!(errors.total(), errors.timeouts);
    assert_eq!(figures.latency.len(), figures.counts.traffic.responses + errors.timeouts);
    // Never early, and late by what the timer's resolution is here.
    assert_eq!(figures.latency.max(), 50_000_000);
    assert!(figures.latency.quantile(0.9999) >= 50_000_000);
    assert_accounts(&figures);
}

#[test]
fn a_whole_pipeline_times_out() {
    let mut plan = plan();
    plan.connections = 1;
    plan.pipeline = 3;
    plan.timeout = ms(20);
    let mut world =
        World::new(&plan, |n, _| if (5_000..5_003).contains(&n) { Reply::nothing() } else { Reply::ok(us(100), 0) });
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.counts.errors.timeouts, 3);
    assert_eq!(figures.counts.connections.reconnects, 1);
    assert!(figures.latency.max() >= 20_000_000);
}

#[test]
fn a_server_that_vanishes_does_not_hang_the_run() {
    let mut plan = plan();
    for (timeout, connections) in [(ms(10_000), 64), (ms(100), 64), (ms(100), 1)] {
        (plan.timeout, plan.connect_timeout) = (timeout, timeout);
        plan.connections = connections;
        let gone = Duration::from_millis(123_456 + 600);
        let dead = |now: wire::Time| now.since(wire::Time::ZERO) > gone;
        let vanished = core::cell::Cell::new(false);
        let mut world = World::new(&plan, |_, now| {
            vanished.set(dead(now));
            if vanished.get() { Reply::nothing() } else { Reply::ok(us(100), 0) }
        })
        .dial(|_| if vanished.get() { Dial::Ignore } else { Dial::Accept(us(50)) });
        let figures = world.run();
        assert_eq!(figures.ended, Ended::AsPlanned);
        assert_eq!(figures.window, Duration::from_secs(1));
        assert!(figures.counts.traffic.responses > 1_000);
        assert_accounts(&figures);
        let warnings = report(&plan, &figures).warnings;
        if timeout > ms(1_000) {
            let stalled = |warning: &Warning| match *warning {
                Warning::Stalled { in_flight, oldest_ns } => in_flight == 64 && oldest_ns > 400_000_000,
                _ => false,
            };
            assert!(warnings.iter().any(stalled), "{warnings:?}");
        } else {
            assert_eq!(figures.counts.errors.timeouts, u64::from(connections));
            assert!(figures.counts.errors.connect_timeouts >= u64::from(connections));
        }
    }
}

#[test]
fn a_server_that_refuses_all_connections() {
    let mut plan = plan();
    plan.ramp_limit = ms(500);
    plan.connections = 1_000;
    let mut world = World::new(&plan, |_, _| Reply::nothing()).dial(|_| Dial::Refuse(us(20)));
    let figures = world.run();
    assert_eq!(figures.ramp, ms(500));
    assert_eq!(figures.window, Duration::from_secs(1));
    let refused = figures.counts.errors.refused;
    // Backed off to ten bursts a second, of at most 64 connects a turn.
    assert!(refused > 0 && refused <= 11 * 1_024, "{refused}");
    assert_eq!(figures.rate, 0.0);
    let warnings = report(&plan, &figures).warnings;
    assert!(warnings.contains(&Warning::NoResponses));
    assert!(warnings.contains(&Warning::RampIncomplete { opened: 0, planned: 1_000 }));
}

#[test]
fn connects_that_fail_are_counted_by_kind_and_tried_again() {
    let mut plan = plan();
    plan.connect_timeout = ms(30);
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 0)).dial(|n| match n {
        1..=3 => Dial::Refuse(us(10)),
        4..=5 => Dial::Unreachable(us(10)),
        6 => Dial::Ignore,
        _ => Dial::Accept(us(50)),
    });
    let figures = world.run();
    let errors = figures.before.errors;
    assert_eq!((errors.refused, errors.connect_unreachable, errors.connect_timeouts), (3, 2, 1));
    assert_eq!(errors.failed_connects(), 6);
    assert_eq!(figures.open, 4);
    assert_eq!(figures.counts.errors.total(), 0);
    assert!(figures.ramp >= ms(30), "{:?}", figures.ramp);
}

#[test]
fn a_data_path_that_cannot_connect() {
    for (error, opened) in [(ConnectError::NoPort, 0), (ConnectError::NoRoute, 0), (ConnectError::Full, 2)] {
        let mut plan = plan();
        plan.ramp_limit = ms(100);
        plan.sources = vec!["10.0.0.1".parse().unwrap(), "10.0.0.3".parse().unwrap()];
        let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 0));
        match error {
            ConnectError::Full => world.path.limit = 2,
            _ => world.path.refuse = Some(error),
        }
        let figures = world.run();
        assert_eq!(figures.most_open, opened);
        let mut all = figures.before.connections;
        all.add(&figures.counts.connections);
        let pauses = [all.no_port, all.no_route, all.full];
        let expected = [error == ConnectError::NoPort, error == ConnectError::NoRoute, error == ConnectError::Full];
        for (count, expected) in pauses.into_iter().zip(expected) {
            // Paused 1 to 100 ms each time: the turns do not spin on it.
            assert!((count > 0) == expected && count < 40, "{error:?}: {all:?}");
        }
        assert!(
            report(&plan, &figures).warnings.iter().any(|warning| matches!(warning, Warning::ConnectPaused { .. }))
        );
    }
}

#[test]
fn one_source_without_ports_does_not_stop_the_others() {
    let mut plan = plan();
    plan.sources = vec!["10.0.0.1".parse().unwrap(), "10.0.0.3".parse().unwrap()];
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 0));
    world.path.portless = Some(plan.sources[0]);
    let figures = world.run();
    assert_eq!(figures.open, 4);
    assert_eq!(figures.before.connections.no_port, 0);
}

#[test]
fn a_server_that_does_not_close_as_asked() {
    let mut plan = plan();
    plan.reuse = Reuse::ServerCloses;
    plan.timeout = ms(20);
    let figures = every_tenth_closing(&plan);
    let errors = figures.counts.errors;
    assert!(errors.unclosed > 10, "{errors:?}");
    assert_eq!(errors.total(), errors.unclosed);
    assert_accounts(&figures);
}

fn every_tenth_closing(plan: &Plan) -> Figures {
    let mut world =
        World::new(plan, |n, _| Reply::ok(us(100), 1).then(if n % 10 == 0 { Then::Keep } else { Then::Finish }));
    world.run()
}

#[test]
fn bytes_on_an_idle_connection_end_it() {
    let mut plan = plan();
    plan.connections = 3;
    plan.active = Some(1);
    let mut world = World::new(&plan, |n, _| match n {
        // One of the first requests is answered twice, the second time when
        // its connection stands idle.
        2 => Reply { parts: vec![(us(10), response("200 OK", 0)), (us(5_000), b"?".to_vec())], then: Then::Keep },
        _ => Reply::ok(ms(20), 0),
    });
    let figures = world.run();
    assert_eq!(figures.before.errors.unasked, 1);
    assert_eq!((figures.open, figures.counts.errors.total()), (3, 0));
    assert_eq!(figures.before.connections.reconnects, 1);
    assert_accounts(&figures);
}

#[test]
fn late_calls_and_foreign_connections_do_no_harm() {
    use app::{App, Closed, ConnId, Opened};
    let plan = plan();
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 0));
    world.run_for(ms(10));
    for id in [ConnId::new(0, 99), ConnId::new(12_345, 1)] {
        world.load.on_open(&mut world.path, id, Opened::Accepted);
        assert_eq!(world.load.on_data(&mut world.path, id, b"HTTP/1.1 200 OK\r\n\r\n"), 19);
        world.load.on_sent(&mut world.path, id);
        world.load.on_timer(&mut world.path, id);
        world.load.on_end(&mut world.path, id, 0);
        world.load.on_close(&mut world.path, id, Closed::Reset);
        world.path.abort(id);
    }
    let figures = world.run();
    assert_eq!(figures.open, 4);
    assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0);
}

/// A plan of any kind.
fn misfortunate(seed: u64) -> Plan {
    let mut plan = plan();
    plan.connections = 1 + (seed % 20) as u32;
    plan.reuse = [Reuse::KeepAlive, Reuse::ServerCloses, Reuse::ClientCloses][(seed % 3) as usize];
    if seed > 60 && seed.is_multiple_of(3) {
        plan.reuse = [Reuse::ServerClosesAfter(4), Reuse::ClientClosesAfter(3)][(seed % 2) as usize];
        plan.pipeline = 1 + (seed % 5) as u16;
    }
    if seed > 80 {
        plan.requests = (0..seed % 4 + 1)
            .map(|weight| Weighted { weight: weight as u32 + 1, ..plan.requests[0].clone() })
            .collect();
        plan.requests[0].item.method = "HEAD".into();
    }
    if plan.reuse == Reuse::KeepAlive {
        match seed % 4 {
            0 => plan.pipeline = 1 + (seed % 7) as u16,
            1 => plan.active = Some(plan.connections.div_ceil(3)),
            _ => {}
        }
    }
    if seed > 100 {
        let schedule = if seed.is_multiple_of(2) { Schedule::poisson } else { Schedule::constant };
        plan.arrival = Arrival::Open(schedule(500.0 * (seed % 100 + 1) as f64));
        plan.active = None;
    }
    // Connects are given up earlier than requests, later, or alike.
    (plan.timeout, plan.connect_timeout) = (ms(15), ms(10 + 5 * (seed % 3)));
    plan.ramp_limit = ms(50);
    plan.warm_up = ms(20);
    plan.stop = match seed % 5 {
        0 => Stop::Requests { count: 500, within: ms(300) },
        _ => Stop::After(ms(200)),
    };
    plan
}

/// Any mixture of misfortunes: the accounts stay right, the run ends on time.
#[test]
fn accounts_hold_under_random_misfortune() {
    for seed in 1..=80_u64 {
        let plan = misfortunate(seed);
        let dice = core::cell::Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let roll = |sides: u64| {
            let mut x = dice.get();
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            dice.set(x);
            x % sides
        };
        let closes = plan.reuse == Reuse::ServerCloses;
        let mut world = World::new(&plan, |_, _| {
            let whole = response("200 OK", roll(100) as usize);
            let after = us(1 + roll(300));
            match roll(40) {
                0 => Reply::nothing(),
                1 => Reply::bytes(after, &whole[..roll(whole.len() as u64) as usize]).then(Then::Finish),
                2 => Reply::bytes(after, &whole[..roll(whole.len() as u64) as usize]).then(Then::Reset),
                3 => Reply::bytes(after, "nonsense\r\n\r\n"),
                4 => Reply::bytes(after, [whole.clone(), whole].concat()),
                5 => Reply::nothing().then(Then::TimeOut),
                6 => Reply::bytes(after, response("500 Oops", 3)).then(Then::Finish),
                7 => Reply::bytes(after, whole).then(Then::Reset),
                8 => Reply::bytes(after + ms(20), whole),
                _ if closes => Reply::bytes(after, whole).then(Then::Finish),
                _ => Reply::bytes(after, whole),
            }
        })
        .dial(|_| match roll(20) {
            0 => Dial::Refuse(us(30)),
            1 => Dial::Ignore,
            2 => Dial::Unreachable(us(30)),
            _ => Dial::Accept(us(1 + roll(200))),
        });
        let mut intervals = world.load.intervals(ms(20));
        let live = world.load.live();
        let mut sum = Interval::default();
        while world.load.figures().is_none() {
            world.turn();
            if seed > 130 && world.now().as_micros().is_multiple_of(64) {
                live.set_rate((world.now().as_micros() % 1_000) as f64 * 100.0);
            }
            while let Some(interval) = intervals.take() {
                if interval.stage == Stage::Measuring {
                    sum.merge(&interval);
                }
            }
        }
        let figures = world.load.figures().expect("just seen").clone();
        assert_accounts(&figures);
        assert_eq!(sum.counts, figures.counts, "seed {seed}");
        assert_eq!(sum.due, figures.schedule.due, "seed {seed}");
        let ended = figures.counts.traffic.responses + figures.counts.errors.failed_requests();
        assert_eq!(figures.samples.ended(), ended, "seed {seed}");
        let law = report(&plan, &figures).littles_law;
        assert!(law.off < 0.002, "seed {seed}: {law:?}");
        assert!(figures.counts.traffic.responses > 0, "seed {seed}");
        assert!(world.elapsed() <= ms(50 + 20 + 300 + 1), "seed {seed}: {:?}", world.elapsed());
        assert!(figures.most_open <= 3 * u64::from(plan.connections) + 1, "seed {seed}: {}", figures.most_open);
        for _ in 0..200 {
            world.turn();
        }
        assert_eq!((world.load.held(), world.path.taken()), (0, 0), "seed {seed}");
    }
}
