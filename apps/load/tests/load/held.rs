//! A load that waits for its start: parts of one load on many machines begin together.

use crate::world::{Dial, Reply, Then, World, assert_accounts, ms, plan, us};
use core::cell::RefCell;
use load::{Arrival, Ended, Plan, Reuse, Schedule, Stage};
use wire::Time;

fn held(arrival: Arrival) -> Plan {
    Plan { held: true, arrival, ..plan() }
}

#[test]
fn connections_open_and_nothing_is_asked_before_the_start() {
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(1_000.0)), Arrival::Open(Schedule::poisson(1e3))]
    {
        let plan = held(arrival);
        let first = RefCell::new(None);
        let mut world = World::new(&plan, |_, now: Time| {
            first.borrow_mut().get_or_insert(now);
            Reply::ok(us(100), 10)
        });
        let live = world.load.live();
        world.run_for(ms(2_000));
        assert!(live.is_ready() && live.begun().is_none() && first.borrow().is_none(), "{:?}", plan.arrival);
        assert_eq!((live.read().open, live.read().stage), (4, Stage::Ramp));
        let start = world.now() + ms(250);
        live.start_at(start);
        // The first time counts.
        live.start_at(start + ms(500));
        world.run_for(ms(249));
        assert!(first.borrow().is_none());
        let figures = world.run();
        assert_accounts(&figures);
        let begun = live.begun().expect("it began");
        assert!(begun >= start && begun.since(start) < us(10), "{begun:?} for {start:?}");
        assert!(first.borrow().is_some_and(|first| first >= start));
        assert_eq!((figures.ended, figures.warm_up, figures.window), (Ended::AsPlanned, ms(100), ms(1_000)));
        assert!(figures.ramp < ms(10), "the wait is no part of opening: {:?}", figures.ramp);
        assert!(figures.counts.traffic.responses > 900 && figures.latency.max() < 102_000, "{:?}", figures.latency);
        if plan.arrival == Arrival::Closed {
            // All four have a request under way at any time.
            assert!(figures.counts.traffic.responses >= 39_000, "{:?}", figures.counts.traffic);
        }
    }
}

/// Requests fall due from the time that was set, by the clock, and not from the turn that finds it passed.
#[test]
fn a_generator_that_is_late_keeps_its_places() {
    let plan = held(Arrival::Open(Schedule::constant(1_000.0)));
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10));
    let live = world.load.live();
    world.run_for(ms(100));
    let start = world.now() + ms(50);
    live.start_at(start);
    world.run_for(ms(49));
    world.pause(ms(31));
    let figures = world.run();
    assert_accounts(&figures);
    let late = live.begun().expect("it began").since(start);
    assert!((ms(29)..ms(32)).contains(&late), "{late:?}");
    // The lateness is in the warm-up, and counts from when each was due.
    let sent = figures.warm_up_phase.counts.traffic.sent + figures.counts.traffic.sent;
    assert!(sent.abs_diff(1_100) <= 1, "none is left out, the last may be of the next moment: {sent}");
    assert!(figures.warm_up_phase.latency.max() >= 28_000_000, "{}", figures.warm_up_phase.latency.max());
}

#[test]
fn who_cannot_open_all_is_ready_when_the_time_for_it_is_over() {
    let mut plan = held(Arrival::Closed);
    (plan.ramp_limit, plan.connect_timeout) = (ms(300), ms(100));
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10))
        .dial(|n| if n == 2 { Dial::Accept(us(50)) } else { Dial::Ignore });
    let live = world.load.live();
    world.run_for(ms(290));
    assert!(!live.is_ready());
    world.run_for(ms(30));
    assert!(live.is_ready() && live.read().open == 1);
    live.start_at(world.now() + ms(20));
    let figures = world.run();
    assert_accounts(&figures);
    assert!(figures.counts.traffic.responses > 9_000, "{:?}", figures.counts.traffic);
}

#[test]
fn a_new_connection_for_each_request_is_opened_after_the_start() {
    let plan = Plan { reuse: Reuse::ServerCloses, ..held(Arrival::Closed) };
    let mut world = World::new(&plan, |_, _| Reply::ok(us(100), 10).then(Then::Finish));
    let live = world.load.live();
    world.run_for(ms(20));
    assert!(live.is_ready() && world.path.connects.is_empty());
    live.start_at(world.now() + ms(20));
    let figures = world.run();
    assert!(figures.counts.traffic.responses > 1_000, "{:?}", figures.counts.traffic);
}
