//! What the generator does while all goes well.

use crate::world::{Dial, Reply, Then, World, assert_accounts, current_request, ms, plan, report, secured, us};
use app::App;
use core::net::IpAddr;
use core::time::Duration;
use load::{Ended, Reuse, Stage, Stop, Warning};
use std::collections::BTreeSet;

#[test]
fn each_connection_asks_again_when_it_is_answered() {
    let plan = plan();
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10));
    let figures = world.run();
    assert_eq!(figures.ended, Ended::AsPlanned);
    assert_eq!(figures.window, Duration::from_secs(1));
    assert_eq!(figures.warm_up, ms(100));
    // Four at a time, 100 µs each: 40,000 a second, give or take one each.
    let responses = figures.counts.traffic.responses;
    assert!((39_996..=40_004).contains(&responses), "{responses}");
    assert!((figures.rate - responses as f64).abs() < 1e-6);
    assert_eq!((figures.latency.min(), figures.latency.max()), (100_000, 100_000));
    assert_eq!(figures.latency.len(), responses);
    assert_eq!(figures.counts.statuses.success, responses);
    assert_eq!(figures.counts.traffic.body_bytes, 10 * responses);
    assert_eq!(figures.counts.traffic.received_bytes, 49 * responses);
    assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0);
    assert_eq!(figures.before.connections.established, 4);
    assert_eq!((figures.open, figures.most_open, figures.in_flight), (4, 4, 4));
    assert_eq!(figures.connect.len(), 4);
    assert_eq!(figures.connect.max(), 50_000);
    assert_accounts(&figures);
    let warnings = report(&plan, &figures).warnings;
    assert!(matches!(warnings[..], [Warning::FewSamples { .. }]), "{warnings:?}");
}

#[test]
fn warm_up_is_not_counted() {
    let plan = plan();
    let mut slow = 0;
    let start = core::cell::Cell::new(None);
    let mut world = World::new(&plan, |_, now| {
        let since = now.since(start.get().unwrap_or_else(|| {
            start.set(Some(now));
            now
        }));
        slow += u32::from(since < ms(50));
        Reply::ok(if since < ms(50) { ms(5) } else { us(100) }, 0)
    });
    let figures = world.run();
    assert_eq!(figures.latency.max(), 100_000);
    assert!(figures.before.traffic.responses > 0);
    drop(world);
    assert!(slow > 0);
}

#[test]
fn a_number_of_requests_is_met_exactly() {
    for (count, pipeline, reuse) in [
        (1_000, 1, Reuse::KeepAlive),
        (1, 1, Reuse::KeepAlive),
        (1_001, 4, Reuse::KeepAlive),
        (500, 1, Reuse::ServerCloses),
        (500, 1, Reuse::ClientCloses),
    ] {
        let mut plan = plan();
        plan.pipeline = pipeline;
        plan.reuse = reuse;
        plan.stop = Stop::Requests { count, within: Duration::from_secs(60) };
        let then = if reuse == Reuse::ServerCloses { Then::Finish } else { Then::Keep };
        let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1).then(then));
        let figures = world.run();
        assert_eq!(figures.ended, Ended::AsPlanned);
        assert_eq!(figures.counts.traffic.responses, count, "{reuse:?}");
        assert_eq!(figures.latency.len(), count);
        assert_eq!(figures.counts.traffic.received_bytes, figures.counts.traffic.responses * 39);
        assert_accounts(&figures);
        // Past the window nothing more is asked: all that the server saw was
        // answered before or within it.
        assert_eq!(world.asked, figures.before.traffic.sent + figures.counts.traffic.sent);
        let under_way_before = 4 * u64::from(pipeline);
        assert_eq!(figures.in_flight, under_way_before.saturating_sub(count));
    }
}

/// One of two servers knows the session: where it is the other, early data is sent again. Which requests may
/// be early does not change how many are asked of each.
#[test]
fn a_number_of_requests_is_met_exactly_when_they_are_early() {
    let servers = [secured::server(), secured::server()];
    let spans = [1, 40, 300];
    for (n, reuse) in [Reuse::ServerCloses, Reuse::ClientCloses, Reuse::ServerClosesAfter(2)].into_iter().enumerate() {
        let (dial, shake, reply) = (spans[n], spans[(n + 1) % 3], spans[(n + 2) % 3]);
        let mut plan = plan();
        plan.reuse = reuse;
        // In the midst of a handshake, or of a request.
        plan.warm_up = us(700);
        plan.stop = Stop::Requests { count: 60, within: Duration::from_secs(5) };
        plan.secured = Some(secured::sought());
        if n == 0 {
            let mut posted = plan.requests[0].clone();
            posted.item.method = "POST".to_owned();
            plan.requests.push(posted);
        }
        let then = if reuse == Reuse::ServerCloses { Then::Finish } else { Then::Keep };
        let mut posted = 0;
        let mut world = World::new(&plan, |_, _| {
            let request = current_request();
            posted += u64::from(request.starts_with(b"POST"));
            let is_last = request.windows(5).any(|five| five == b"close");
            Reply::ok(us(reply), 1).then(if is_last { Then::Finish } else { then })
        })
        .dial(|_| Dial::Accept(us(dial)))
        .shakes(|flight| (servers[usize::from(flight % 5 == 0)].clone(), us(shake)));
        let figures = world.run();
        drop(world);
        let told = format!("{n}: {figures:#?}");
        assert_eq!(figures.ended, Ended::AsPlanned, "{told}");
        assert_eq!(figures.counts.errors.total() + figures.before.errors.total(), 0, "{told}");
        assert_eq!(figures.counts.statuses.success, 60, "{told}");
        assert_accounts(&figures);
        let of = |counts: &load::Counts| (counts.connections.early, counts.connections.early_refused);
        let (before, within) = (of(&figures.before), of(&figures.counts));
        assert!(before.0 + within.0 >= 8 && before.1 + within.1 > 0, "{told}");
        // A time counts from the first sending: what is not taken waits for a flight before its reply.
        assert_eq!(figures.latency.max(), (shake + reply.max(shake)) * 1_000, "{told}");
        let sent = figures.before.traffic.sent + figures.counts.traffic.sent;
        assert!(n > 0 || (sent * 2 / 5..=sent * 3 / 5).contains(&posted), "{posted} of {sent}");
    }
}

#[test]
fn too_few_requests_end_at_the_time_given() {
    let mut plan = plan();
    plan.stop = Stop::Requests { count: 1_000_000, within: ms(200) };
    let mut world = World::new(&plan, |_, _| Reply::ok(ms(1), 1));
    let figures = world.run();
    assert_eq!(figures.ended, Ended::OutOfTime);
    assert_eq!(figures.window, ms(200));
    assert!(report(&plan, &figures).warnings.contains(&Warning::OutOfTime));
}

#[test]
fn a_pipeline_is_kept_full_and_each_request_timed_alone() {
    let mut plan = plan();
    plan.connections = 1;
    plan.pipeline = 4;
    // The server answers one after the other, 100 µs each.
    let mut free = wire::Time::ZERO;
    let mut world = World::new(&plan, |_, now| {
        free = free.max(now) + us(100);
        Reply::ok(free.since(now), 3)
    });
    world.run_for(ms(50));
    assert_eq!(world.path.under_way(), [4]);
    let figures = world.run();
    assert_accounts(&figures);
    assert!((9_998..=10_002).contains(&figures.counts.traffic.responses));
    // Each waits behind three others.
    assert_eq!(figures.latency.quantile(0.5) / 1_000, 400);
    assert_eq!((figures.latency.min(), figures.latency.max()), (400_000, 400_000));
    let warnings = report(&plan, &figures).warnings;
    assert!(matches!(warnings[..], [Warning::FewSamples { .. }]), "{warnings:?}");
}

#[test]
fn responses_may_come_in_pieces_and_together() {
    let mut plan = plan();
    plan.connections = 2;
    plan.pipeline = 2;
    let whole = crate::world::response("200 OK", 30);
    let mut world = World::new(&plan, |n, _| match n % 2 {
        // Nothing, then two at once.
        0 => Reply::bytes(us(20), [whole.clone(), whole.clone()].concat()),
        _ => Reply::nothing(),
    });
    let figures = world.run();
    assert!(figures.counts.traffic.responses > 10_000);
    assert_eq!(figures.counts.errors.total(), 0);

    plan.pipeline = 1;
    let mut world = World::new(&plan, |_, _| Reply {
        parts: whole.chunks(7).enumerate().map(|(n, part)| (us(10 + n as u64), part.to_vec())).collect(),
        then: Then::Keep,
    });
    let figures = world.run();
    assert!(figures.counts.traffic.responses > 10_000);
    assert_eq!(figures.counts.errors.total(), 0);
    // Timed to the last piece.
    assert_eq!(figures.latency.min(), 10_000 + 1_000 * (whole.len() as u64).div_ceil(7) - 1_000);
}

#[test]
fn a_new_connection_per_request_closed_by_the_server() {
    let mut plan = plan();
    plan.reuse = Reuse::ServerCloses;
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1).then(Then::Finish));
    let figures = world.run();
    assert!(String::from_utf8_lossy(&world.path.request).contains("\r\nConnection: close\r\n"));
    let (traffic, connections) = (figures.counts.traffic, figures.counts.connections);
    // 50 µs to connect, 100 µs to answer, four at a time.
    assert!(traffic.responses > 26_000, "{traffic:?}");
    assert!(connections.established.abs_diff(traffic.responses) <= 4, "{connections:?} {traffic:?}");
    assert_eq!(connections.reconnects, 0);
    assert_eq!(figures.latency.max(), 100_000);
    assert_eq!(figures.connect.max(), 50_000);
    assert!(figures.most_open <= 8, "{}", figures.most_open);
    assert_eq!(figures.counts.errors.total(), 0);
    // The server finishes first each time, so that TIME_WAIT is its.
    assert_eq!(world.path.log[0].1, "end");
    assert_accounts(&figures);
    let warnings = report(&plan, &figures).warnings;
    assert!(matches!(warnings[..], [Warning::FewSamples { .. }]), "{warnings:?}");
}

#[test]
fn a_new_connection_per_request_closed_by_us() {
    let mut plan = plan();
    plan.reuse = Reuse::ClientCloses;
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let figures = world.run();
    assert!(!String::from_utf8_lossy(&world.path.request).contains("Connection"));
    assert!(figures.counts.traffic.responses > 26_000);
    assert_eq!(world.path.log[0].1, "finish");
    assert_eq!(figures.counts.errors.total(), 0);
    assert_accounts(&figures);
}

#[test]
fn idle_connections_are_used_once_and_then_at_random() {
    let mut plan = plan();
    plan.connections = 1_000;
    plan.active = Some(8);
    plan.mix = true;
    plan.stop = Stop::After(ms(200));
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    world.run_for(ms(60));
    assert!(world.asked >= 1_000, "{} requests", world.asked);
    let mut used = BTreeSet::new();
    for _ in 0..2_000 {
        world.turn();
        assert!(world.path.under_way().len() <= 8);
        used.extend(world.path.busy_slots());
    }
    let figures = world.run();
    assert_eq!(figures.open, 1_000);
    assert!(figures.counts.traffic.responses > 14_000, "{}", figures.counts.traffic.responses);
    assert!(used.len() > 800, "only {} of 1,000 connections were used", used.len());
    assert_accounts(&figures);
    let warnings = report(&plan, &figures).warnings;
    assert!(matches!(warnings[..], [Warning::FewSamples { .. }]), "{warnings:?}");
}

#[test]
fn active_connections_stay_active_and_the_others_idle() {
    let mut plan = plan();
    plan.connections = 1_000;
    plan.active = Some(8);
    plan.stop = Stop::After(ms(200));
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    world.run_for(ms(60));
    assert!(world.asked >= 1_000, "each is used once: {} requests", world.asked);
    let mut used = BTreeSet::new();
    for _ in 0..2_000 {
        world.turn();
        used.extend(world.path.busy_slots());
    }
    let figures = world.run();
    assert_eq!(used.len(), 8);
    assert_eq!(figures.open, 1_000);
    assert!(figures.counts.traffic.responses > 14_000, "{}", figures.counts.traffic.responses);
    assert_accounts(&figures);
}

#[test]
fn the_ramp_is_bounded_in_each_turn_and_in_all() {
    let mut plan = plan();
    plan.connections = 1_000;
    plan.handshakes = 200;
    plan.stop = Stop::After(ms(10));
    let mut world = World::new(&plan, |_, _| Reply::ok(ms(5), 1)).dial(|_| Dial::Accept(ms(1)));
    let (mut before, mut most) = (0, 0);
    while world.path.taken() < 1_000 {
        world.turn();
        assert!(world.path.connects.len() - before <= 64);
        before = world.path.connects.len();
        most = most.max(world.path.handshakes());
    }
    assert_eq!(most, 200);
    assert_eq!(world.run().most_open, 1_000);
}

#[test]
fn source_and_target_addresses_take_turns() {
    let mut plan = plan();
    plan.sources = (1..=3).map(|n| IpAddr::from([10, 0, 0, n])).collect();
    plan.targets.push("10.0.0.2:81".parse().unwrap());
    plan.connections = 12;
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    world.turn();
    let pairs: BTreeSet<_> = world.path.connects.iter().copied().collect();
    assert_eq!(world.path.connects.len(), 12);
    assert_eq!(pairs.len(), 6, "{pairs:?}");
}

#[test]
fn draining_ends_early_with_figures_and_closes_everything() {
    let mut plan = plan();
    plan.connections = 600;
    plan.active = Some(10);
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    world.run_for(ms(500));
    assert!(world.load.figures().is_none());
    let mut turns = 0;
    while !world.load.drain(&mut world.path) {
        world.turn();
        turns += 1;
        assert!(turns < 1_000, "{} connections stay", world.load.held());
    }
    let figures = world.load.figures().expect("drained").clone();
    assert_eq!(figures.ended, Ended::Interrupted);
    assert!(figures.window > ms(300) && figures.window < ms(500));
    assert_eq!(figures.open, 600);
    assert_eq!(world.path.taken(), 0);
    assert!(report(&plan, &figures).warnings.contains(&Warning::Interrupted));
    assert_accounts(&figures);
}

#[test]
fn after_the_end_connections_close_and_nothing_is_asked() {
    let plan = plan();
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let figures = world.run();
    let asked = world.asked;
    for _ in 0..10 {
        world.turn();
    }
    assert_eq!(world.path.taken(), 0);
    assert_eq!(world.asked, asked);
    let later = world.load.figures().unwrap();
    assert_eq!(later.counts, figures.counts);
    assert!(world.load.drain(&mut world.path));
}

#[test]
fn another_thread_sees_the_progress() {
    let plan = plan();
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 1));
    let live = world.load.live();
    assert_eq!(live.read().stage, Stage::Waiting);
    world.run_for(ms(700));
    let progress = std::thread::spawn({
        let live = live.clone();
        move || live.read()
    })
    .join()
    .unwrap();
    assert_eq!((progress.stage, progress.open, progress.errors), (Stage::Measuring, 4, 0));
    assert!((19_000..21_000 * 2).contains(&progress.rate), "{progress:?}");
    assert_eq!(progress.p99_ns / 1_000, 100);
    assert!(progress.responses > 10_000);
    let figures = world.run();
    let progress = live.read();
    assert_eq!((progress.stage, progress.responses), (Stage::Ended, figures.counts.traffic.responses));
    assert_eq!(progress.measured, figures.window);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut plan = plan();
        plan.connections = 100;
        plan.active = Some(3);
        plan.mix = true;
        plan.seed = seed;
        let mut trace = Vec::new();
        let mut world = World::new(&plan, |n, _| Reply::ok(us(50 + n % 7), 1));
        world.run_for(ms(20));
        for _ in 0..200 {
            world.turn();
            trace.extend(world.path.busy_slots());
        }
        trace
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// A head after 100 µs, its content 200 µs later; connecting takes 50 µs.
#[test]
fn the_parts_of_a_request_are_told_apart_where_they_are_asked_for() {
    for (reuse, total) in [(Reuse::KeepAlive, 300_000), (Reuse::ServerCloses, 350_000)] {
        let mut plan = plan();
        plan.reuse = reuse;
        plan.parts = true;
        let close = reuse == Reuse::ServerCloses;
        let mut world = World::new(&plan, |_, _| Reply {
            parts: vec![
                (us(100), b"HTTP/1.1 200 OK\r\nServer: world/1\r\nContent-Length: 3\r\n\r\n".to_vec()),
                (us(300), b"abc".to_vec()),
            ],
            then: if close { Then::Finish } else { Then::Keep },
        });
        let figures = world.run();
        let samples = &figures.samples;
        assert!(figures.counts.traffic.responses > 1_000);
        assert_eq!(figures.server.as_deref(), Some("world/1"));
        assert_eq!((samples.waiting.min(), samples.waiting.max()), (100_000, 100_000));
        assert_eq!(samples.total.len(), figures.counts.traffic.responses);
        assert_eq!(samples.total.max(), total, "{reuse:?}");
        assert_eq!(figures.latency.max(), 300_000);
        let report = report(&plan, &figures);
        let waiting = report.waiting.expect("it was asked for");
        assert_eq!((waiting.max_ns, report.total.expect("as well").max_ns), (100_000, total));
        plan.parts = false;
        let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10));
        assert!(world.run().samples.waiting.is_empty());
    }
}
