//! Several requests, connections of a bounded number of requests, ramps and
//! warm-ups.

use crate::world::{Reply, Then, World, assert_accounts, ms, plan, report, us};
use core::cell::RefCell;
use core::time::Duration;
use load::{Arrival, Class, Ended, Expect, Plan, Request, Reuse, Schedule, Stop, Warning, Weighted};
use std::collections::BTreeMap;
use wire::Time;

fn mixed(weights: &[u32]) -> Plan {
    let mut plan = plan();
    let request =
        |(n, weight): (usize, &u32)| Weighted { weight: *weight, item: Request::get("10.0.0.2", &format!("/{n}")) };
    plan.requests = weights.iter().enumerate().map(request).collect();
    plan
}

/// Requests by path.
fn paths(world: &World) -> BTreeMap<String, u64> {
    let path = |request: &[u8]| String::from_utf8_lossy(request).split(' ').nth(1).unwrap_or_default().to_owned();
    let mut paths = BTreeMap::new();
    for (request, times) in &world.path.requests {
        *paths.entry(path(request)).or_default() += times;
    }
    paths
}

#[test]
fn requests_are_drawn_as_their_weights_say() {
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(40_000.0))] {
        let mut plan = mixed(&[1, 2, 0, 5]);
        plan.arrival = arrival;
        let mut world = World::new(&plan, |_, _| Reply::ok(us(90), 3));
        let figures = world.run();
        assert_accounts(&figures);
        let paths = paths(&world);
        let all: u64 = paths.values().sum();
        assert!(all > 40_000, "{all}");
        assert!(!paths.contains_key("/2"));
        for (path, weight) in [("/0", 1.0), ("/1", 2.0), ("/3", 5.0)] {
            let (found, share) = (paths[path] as f64, weight / 8.0);
            let error = (all as f64 * share * (1.0 - share)).sqrt();
            assert!((found - all as f64 * share).abs() < 4.0 * error, "{path}: {found} of {all}");
        }
        // All have the same length here, so bytes are known.
        let sent = figures.counts.traffic.sent + figures.before.traffic.sent;
        let length = plan.first_request().bytes(plan.reuse).unwrap().len() as u64;
        assert_eq!(figures.counts.traffic.sent_bytes + figures.before.traffic.sent_bytes, sent * length);
        assert_eq!(report(&plan, &figures).setup.requests, 4);
    }
    let order = |seed| {
        let mut plan = mixed(&[1, 1]);
        plan.seed = seed;
        plan.stop = Stop::After(ms(10));
        let mut world = World::new(&plan, |_, _| Reply::ok(us(90), 3));
        world.run();
        paths(&world)
    };
    assert!(order(1) == order(1) && order(1) != order(2));
}

#[test]
fn each_request_has_its_own_expectation_and_method() {
    for pipeline in [1, 4] {
        let mut plan = mixed(&[1, 1, 1]);
        plan.pipeline = pipeline;
        plan.expect.length = Some(10);
        plan.requests[0].item.method = "HEAD".into();
        plan.requests[0].item.expect = Some(Expect { length: Some(0), status: Some(200) });
        plan.requests[1].item.expect = Some(Expect { length: None, status: Some(404) });
        let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10));
        let figures = world.run();
        assert_accounts(&figures);
        // A response to HEAD has no content whatever its length says, and one
        // in three should have been a 404.
        let errors = figures.counts.errors;
        assert_eq!((errors.wrong_length, errors.failed_requests()), (0, 0));
        let third = figures.counts.traffic.responses / 3;
        assert!(errors.wrong_status.abs_diff(third) < third / 20, "{errors:?}");
    }
}

#[test]
fn a_status_may_be_expected_of_a_single_request() {
    let mut plan = plan();
    plan.expect.status = Some(204);
    let mut world = World::new(&plan, |n, _| {
        Reply::bytes(us(100), crate::world::response(if n % 2 == 0 { "200 OK" } else { "204 No Content" }, 0))
    });
    let figures = world.run();
    let half = figures.counts.traffic.responses / 2;
    assert!(figures.counts.errors.wrong_status.abs_diff(half) <= 2, "{:?}", figures.counts.errors);
}

#[test]
fn a_connection_carries_as_many_requests_as_said() {
    for (reuse, pipeline) in [
        (Reuse::ServerClosesAfter(5), 1),
        (Reuse::ClientClosesAfter(5), 1),
        (Reuse::ServerClosesAfter(5), 2),
        (Reuse::ClientClosesAfter(5), 4),
        (Reuse::ClientClosesAfter(3), 4),
        (Reuse::ClientClosesAfter(1), 1),
    ] {
        for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(10_000.0))] {
            let open = arrival != Arrival::Closed;
            let n = u64::from(reuse.per_connection().unwrap());
            let mut plan = plan();
            (plan.reuse, plan.pipeline, plan.arrival) = (reuse, pipeline, arrival);
            // The server closes behind the fifth of each, as it is asked to.
            let last = plan.first_request().encode(true).unwrap();
            let closing = reuse.server_closes();
            let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
            while world.load.figures().is_none() {
                let before = world.path.requests.get(&last).copied().unwrap_or(0);
                world.turn();
                let after = world.path.requests.get(&last).copied().unwrap_or(0);
                assert!(closing || after == 0);
                assert!(before <= after);
            }
            let figures = world.load.figures().unwrap().clone();
            assert_accounts(&figures);
            let sent = figures.counts.traffic.sent + figures.before.traffic.sent;
            let mut connections = figures.before.connections;
            connections.add(&figures.counts.connections);
            if closing {
                // One in five said that it is the last.
                let lasts = world.path.requests.get(&last).copied().unwrap_or(0);
                assert!(lasts.abs_diff(sent / n) <= 5, "{lasts} of {sent}");
            } else {
                let expected = sent / n;
                assert!(connections.established.abs_diff(expected) <= 9, "{reuse:?} {open}: {connections:?} of {sent}");
                assert!(sent > 5_000, "{sent}");
            }
            assert_eq!(connections.reconnects, 0);
        }
    }
}

#[test]
fn the_server_closes_behind_the_last_of_a_connection() {
    let mut plan = plan();
    plan.reuse = Reuse::ServerClosesAfter(3);
    let last = plan.first_request().encode(true).unwrap();
    assert!(String::from_utf8_lossy(&last).contains("\r\nConnection: close\r\n"));
    // With one connection each third request is a last one.
    plan.connections = 1;
    let mut world = World::new(&plan, |n, _| match n % 3 {
        0 => {
            let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            Reply::bytes(us(100), closing).then(Then::Finish)
        }
        _ => Reply::ok(us(100), 0),
    });
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0);
    let sent = figures.counts.traffic.sent + figures.before.traffic.sent;
    assert!(world.path.requests[&last].abs_diff(sent / 3) <= 1);
    // 50 µs to connect and three times 100 µs.
    assert!(figures.counts.traffic.responses > 8_500, "{}", figures.counts.traffic.responses);
    assert_eq!(world.path.log[0].1, "end");
}

#[test]
fn the_ramp_is_spread_evenly() {
    let mut plan = plan();
    plan.connections = 100;
    plan.ramp = Duration::from_secs(1);
    let start = Time::from_millis(123_456);
    let mut world = World::new(&plan, |_, _| Reply::ok(ms(1), 1));
    let opened = RefCell::new(Vec::new());
    while world.path.connects.len() < 100 {
        let before = world.path.connects.len();
        let now = world.now();
        world.turn();
        opened.borrow_mut().extend((before..world.path.connects.len()).map(|n| (n, now.since(start))));
    }
    for (n, at) in opened.borrow().iter() {
        assert_eq!(at.as_micros().abs_diff(*n as u128 * 10_000), 0, "{n} at {at:?}");
    }
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!(figures.ramp, ms(990) + us(50));
    // The ramp's own figures: half of the connections on average, 1 ms each.
    let ramp = &figures.ramp_phase;
    assert_eq!((ramp.time, ramp.counts.connections.established), (figures.ramp, 100));
    let responses = ramp.counts.traffic.responses;
    assert!(responses.abs_diff(100 * 990 / 2) < 300, "{responses}");
    assert_eq!((ramp.latency.len(), ramp.latency.max()), (responses, 1_000_000));
    let warm_up = &figures.warm_up_phase;
    assert_eq!(warm_up.time, ms(100));
    assert!(warm_up.counts.traffic.responses.abs_diff(10_000) <= 100);
    let mut before = ramp.counts;
    before.add(&warm_up.counts);
    assert_eq!(before, figures.before);
}

#[test]
fn the_warm_up_lasts_for_a_number_of_requests() {
    let mut plan = plan();
    plan.warm_up = Duration::ZERO;
    plan.warm_up_requests = 1_000;
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let figures = world.run();
    assert!(figures.before.traffic.responses.abs_diff(1_000) <= 3, "{:?}", figures.before.traffic);
    assert!(figures.warm_up.abs_diff(ms(25)) < us(200), "{:?}", figures.warm_up);
    assert_eq!((figures.ended, figures.window), (Ended::AsPlanned, Duration::from_secs(1)));
    // And for a time, if that is longer; nor for ever.
    plan.warm_up = ms(50);
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    assert_eq!(world.run().warm_up, ms(50));
    plan.warm_up_requests = u64::MAX / 2;
    plan.ramp_limit = ms(200);
    plan.stop = Stop::Requests { count: 500, within: ms(100) };
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let figures = world.run();
    assert_eq!((figures.warm_up, figures.counts.traffic.responses), (ms(250), 500));
}

#[test]
fn littles_law_holds_whatever_happens() {
    for (n, arrival) in [Arrival::Closed, Arrival::Open(Schedule::poisson(3_000.0))].into_iter().enumerate() {
        for reuse in [Reuse::KeepAlive, Reuse::ClientCloses, Reuse::ServerClosesAfter(7), Reuse::ClientClosesAfter(7)] {
            let mut plan = mixed(&[1, 3]);
            (plan.arrival, plan.reuse) = (arrival.clone(), reuse);
            (plan.timeout, plan.connections) = (ms(150), 32);
            let mut seed = 7_u64 + n as u64;
            let mut roll = move |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % below
            };
            let mut world = World::new(&plan, |_, _| {
                let after = us(50 + roll(3_000));
                match roll(40) {
                    0 => Reply::nothing(),
                    1 => Reply::bytes(after, &b"HTTP"[..]).then(Then::Reset),
                    2 => Reply::bytes(after, &b"HTTP/1.1 2"[..]).then(Then::Finish),
                    3 => Reply::bytes(after, &b"SMTP\r\n\r\n"[..]),
                    4 => Reply::bytes(after, crate::world::response("500 Oh No", 2)),
                    _ => Reply::ok(after, 5),
                }
            });
            let figures = world.run();
            assert_accounts(&figures);
            assert!(figures.samples.class(Class::TimedOut).len() > 10);
            assert!(figures.samples.class(Class::Failed).len() > 10);
            let failed = figures.counts.errors.failed_requests();
            assert_eq!(figures.samples.ended(), figures.counts.traffic.responses + failed);
            let law = report(&plan, &figures).littles_law;
            assert!(law.off < 0.001 && law.in_progress > 0.5, "{reuse:?}: {law:?}");
        }
    }
}

#[test]
fn littles_law_finds_out_wrong_figures() {
    let plan = plan();
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let figures = world.run();
    let breaks = |spoil: &dyn Fn(&mut load::Figures)| {
        let mut figures = figures.clone();
        spoil(&mut figures);
        report(&plan, &figures).warnings.iter().any(|warning| matches!(warning, Warning::LittlesLaw { .. }))
    };
    let slower = |factor: f64| {
        let latency = (100_000.0 * factor) as u64;
        move |figures: &mut load::Figures| {
            let samples = figures.samples.ended();
            let recorder = &mut figures.samples.classes[Class::Success as usize];
            recorder.clear();
            (0..samples).for_each(|_| recorder.record(latency));
        }
    };
    assert!(!breaks(&|_| ()));
    // An integral, latencies or a rate that are 4 % off are found, 2 % are not.
    for (off, found) in [(0.96, true), (0.98, false), (1.02, false), (1.04, true)] {
        let scaled = |n: u128| (n as f64 * off) as u128;
        assert_eq!(breaks(&|figures| figures.in_progress.request_ns = scaled(figures.in_progress.request_ns)), found);
        assert_eq!(breaks(&slower(off)), found, "{off}");
    }
    assert!(breaks(&|figures| figures.samples.classes[0].clear()));
    assert!(breaks(&|figures| figures.in_progress.request_ns = 0));
    // A window of the wrong length changes both sides alike: it is the loop
    // that is too empty then.
    let mut longer = figures.clone();
    longer.window *= 2;
    let warnings = report(&plan, &longer).warnings;
    assert!(warnings.iter().any(|warning| matches!(warning, Warning::LoopNotFull { .. })), "{warnings:?}");
}
