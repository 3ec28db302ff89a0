//! Intervals: what another thread sees while the run lasts.

use crate::world::{Reply, Then, World, assert_accounts, ms, plan, us};
use core::time::Duration;
use load::{Arrival, Class, Figures, INTERVALS_LIMIT, Interval, Plan, Recorder, Schedule, Stage};

fn lively() -> Plan {
    let mut plan = plan();
    plan.arrival = Arrival::Open(Schedule::poisson(5_000.0));
    plan.timeout = ms(50);
    plan.warm_up = ms(250);
    plan
}

fn answer(n: u64) -> Reply {
    match n % 50 {
        0 => Reply::nothing(),
        1 => Reply::bytes(us(70), &b"HTTP/1.1 2"[..]).then(Then::Reset),
        2 => Reply::bytes(us(80), crate::world::response("503 Busy", 3)),
        n => Reply::ok(us(100 + n), 1),
    }
}

fn assert_same(one: &Recorder, other: &Recorder) {
    assert_eq!((one.len(), one.min(), one.max()), (other.len(), other.min(), other.max()));
    assert!(one.histogram() == other.histogram(), "not the same distribution");
}

fn assert_sum(sum: &Interval, figures: &Figures) {
    assert_eq!(sum.counts, figures.counts);
    for class in Class::ALL {
        assert_same(sum.samples.class(class), figures.samples.class(class));
    }
    assert_same(&sum.samples.service, &figures.samples.service);
    assert_same(&sum.samples.lag, &figures.samples.lag);
    assert_eq!(sum.in_progress.request_ns, figures.in_progress.request_ns);
    assert_eq!(sum.length(), figures.window);
    assert_eq!(sum.due, figures.schedule.due);
    assert_eq!((sum.open, sum.in_flight), (figures.open, figures.in_flight));
}

#[test]
fn intervals_add_up_to_the_run() {
    let mut world = World::new(&lively(), |n, _| answer(n));
    let mut intervals = world.load.intervals(ms(100));
    let mut all: Vec<Interval> = Vec::new();
    while world.load.figures().is_none() {
        world.turn();
        while let Some(interval) = intervals.take() {
            all.push(interval.clone());
        }
    }
    let figures = world.load.figures().unwrap().clone();
    assert_accounts(&figures);
    assert!(intervals.is_over());
    assert_eq!(figures.intervals_merged, 0);
    // No gap, and each in one stage: ramp, three of the warm-up, ten.
    let stages: Vec<Stage> = all.iter().map(|interval| interval.stage).collect();
    assert_eq!(stages.iter().filter(|stage| **stage == Stage::Ramp).count(), 1);
    assert_eq!(stages.iter().filter(|stage| **stage == Stage::WarmUp).count(), 3);
    assert!(stages.is_sorted());
    for (n, interval) in all.iter().enumerate() {
        assert_eq!((interval.number, interval.spans), (n as u64, 1));
        let before = n.checked_sub(1).map_or(Duration::ZERO, |n| all[n].end);
        assert_eq!(interval.start, before);
        assert!(interval.length() <= ms(106), "{:?}", interval.length());
    }
    let measured: Vec<&Interval> = all.iter().filter(|interval| interval.stage == Stage::Measuring).collect();
    assert!((9..=10).contains(&measured.len()), "{}", measured.len());
    let mut sum = Interval::default();
    measured.iter().for_each(|interval| sum.merge(interval));
    assert_sum(&sum, &figures);
    let rate = measured[3].rate();
    assert!((3_000.0..7_000.0).contains(&rate), "{rate}");
    // Those before are what the figures say of the phases.
    let mut warm = Interval::default();
    all.iter().filter(|interval| interval.stage == Stage::WarmUp).for_each(|interval| warm.merge(interval));
    assert_eq!(warm.counts, figures.warm_up_phase.counts);
    assert_same(&warm.samples.latency(), &figures.warm_up_phase.latency);
}

#[test]
fn the_run_is_the_same_with_and_without_a_collector() {
    let run = |collect: bool| {
        let mut world = World::new(&lively(), |n, _| answer(n));
        let intervals = collect.then(|| world.load.intervals(ms(100)));
        let figures = world.run();
        drop(intervals);
        figures
    };
    let (with, without) = (run(true), run(false));
    // But for a microsecond here and there: a turn more is a turn more.
    assert!(with.counts.traffic.responses.abs_diff(without.counts.traffic.responses) <= 2);
    assert_eq!(with.schedule.due, without.schedule.due);
    let off = with.latency.total() / without.latency.total();
    assert!((off - 1.0).abs() < 0.005, "{off}");
    assert!(with.intervals_merged > 0);
}

#[test]
fn a_collector_that_is_slow_loses_nothing() {
    for takes_from in [usize::MAX, 1_500] {
        let mut world = World::new(&lively(), |n, _| answer(n));
        let mut intervals = world.load.intervals(ms(10));
        let mut sum = Interval::default();
        let (mut turns, mut taken, mut spans, mut longest) = (0, 0, 0, 0);
        let mut collect = |intervals: &mut load::Intervals| {
            while let Some(interval) = intervals.take() {
                taken += 1;
                spans += interval.spans;
                longest = longest.max(interval.spans);
                if interval.stage == Stage::Measuring {
                    sum.merge(&interval);
                }
            }
        };
        while world.load.figures().is_none() {
            world.turn();
            turns += 1;
            if turns > takes_from && turns % 3 == 0 {
                collect(&mut intervals);
            }
        }
        collect(&mut intervals);
        let figures = world.load.figures().unwrap().clone();
        assert!(intervals.is_over());
        assert_sum(&sum, &figures);
        assert!(figures.intervals_merged > 0 && longest > 1, "{}", figures.intervals_merged);
        if takes_from == usize::MAX {
            // Memory for so many, and for the ends of the three stages.
            assert!(taken <= INTERVALS_LIMIT + 3, "{taken}");
        }
        assert!((125..=140).contains(&spans), "{spans} of 10 ms each");
    }
}

#[test]
fn silos_merge_exactly() {
    let mut total = Figures::default();
    let mut together = Recorder::new();
    let mut whole = lively();
    whole.connections = 12;
    let mut seen = Interval::default();
    let (mut request_ns, mut due) = (0, 0);
    for index in 0..3 {
        let plan = whole.share(index, 3).unwrap();
        assert_eq!(plan.connections, 4);
        let mut world = World::new(&plan, |n, _| answer(n));
        let mut intervals = world.load.intervals(Duration::from_secs(100));
        let figures = world.run();
        while let Some(interval) = intervals.take() {
            if interval.stage == Stage::Measuring {
                seen.merge(&interval);
            }
        }
        total.merge(&figures);
        together.merge(&figures.latency);
        request_ns += figures.in_progress.request_ns;
        due += figures.schedule.due;
    }
    assert_same(&total.latency, &together);
    assert_eq!((total.in_progress.request_ns, total.schedule.due, total.silos), (request_ns, due, 3));
    // Side by side, not one after the other.
    assert_sum(&seen, &total);
    assert_eq!(seen.spans, 1);
    let report = crate::world::report(&whole, &total);
    assert!(report.littles_law.off < 0.002, "{:?}", report.littles_law);
    let target = report.schedule.unwrap().target_rate;
    assert!((target - 5_000.0).abs() < 5.0 * 5_000.0_f64.sqrt(), "{target}");
}

#[test]
fn a_collector_on_another_thread_sees_the_whole_run() {
    let mut world = World::new(&lively(), |n, _| answer(n));
    let mut intervals = world.load.intervals(ms(20));
    let collector = std::thread::spawn(move || {
        let mut sum = Interval::default();
        loop {
            let over = intervals.is_over();
            while let Some(interval) = intervals.take() {
                if interval.stage == Stage::Measuring {
                    sum.merge(&interval);
                }
            }
            if over {
                return sum;
            }
            std::thread::yield_now();
        }
    });
    let figures = world.run();
    let sum = collector.join().unwrap();
    assert_sum(&sum, &figures);
}
