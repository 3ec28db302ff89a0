//! Tests in virtual time: workers, their clocks, the ways between, and what dies. Controller and workers' side are
//! those that run.
//!
//! A seed reproduces a run: `NEARSIDE_SEED=N cargo test -p control`. `NEARSIDE_SEEDS=N` runs more of them.

mod world;

use control::{Gone, ProblemKind};
use world::{Death, Setting, World};

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NEARSIDE_SEED") {
        Some(one) => vec![one],
        None => (0..number("NEARSIDE_SEEDS").unwrap_or(usual)).collect(),
    }
}

#[test]
fn without_a_fault_a_test_is_valid_and_its_workers_begin_together() {
    for seed in seeds(50) {
        let mut world = World::new(seed, Setting::quiet(1 + (seed % 12) as u32));
        let seen = world.run();
        let outcome = seen.outcome.expect("a controller");
        assert!(outcome.is_valid(), "{seed}: {:?}", outcome.problems);
        let sum: u64 = outcome.workers.iter().filter_map(|worker| worker.measured).sum();
        assert_eq!(sum, seen.measured, "{seed}");
        // Clocks are hours apart, and what is told is what was.
        let (skew, (first, last)) = (outcome.skew.expect("they began"), seen.begun.expect("they began"));
        let off = skew.spread.abs_diff(last.since(first));
        assert!(off <= 2 * skew.error, "{seed}: {skew:?}, and in truth {:?}", last.since(first));
        assert!(last.since(first).as_micros() < 100_000, "{seed}: {skew:?}");
    }
}

/// Everything that can die dies at some time, messages come late, twice, and not at all.
#[test]
fn every_run_ends_in_the_right_verdict_and_nothing_is_left_waiting() {
    let (mut valid, mut invalid, mut restarted, mut resumed) = (0, 0, 0, 0);
    for seed in seeds(200) {
        let setting = Setting::wild(seed);
        let (lossless, broken) = (setting.lost == 0, setting.breaks > 0);
        let mut world = World::new(seed, setting);
        let seen = world.run();
        let Some(outcome) = seen.outcome else {
            assert!(seen.controller_died_for_good, "{seed}");
            continue;
        };
        restarted += u32::from(seen.restarts > 0);
        for problem in &outcome.problems {
            let causes = &seen.causes[problem.worker.expect("a worker's") as usize];
            assert!(causes.contains(&problem.kind), "{seed}: {problem}, and its causes are {causes:?}");
        }
        // One that is named ends the test for the others, whose faults may be known too late.
        let must = seen.must.iter().any(|must| *must);
        assert!(
            !must || !outcome.problems.is_empty() || outcome.interrupted,
            "{seed}: nobody is named: {:?}",
            seen.must
        );
        for (worker, (counted, said)) in seen.intervals.iter().enumerate() {
            // Each once, in its order, whatever came twice or was said again.
            assert!(counted.is_sorted_by(|one, next| one < next), "{seed}: worker {worker}: {counted:?}");
            assert!(counted.last().is_none_or(|last| last < said), "{seed}: worker {worker}: {counted:?} of {said}");
            // What is lost without the connection that it was on is told to nobody.
            let whole = lossless && outcome.workers[worker].measured.is_some() && seen.restarts == 0;
            assert!(!whole || counted.len() as u64 == *said, "{seed}: worker {worker}: {counted:?} of {said}");
            resumed += u32::from(whole && broken && *said > 0);
        }
        if outcome.is_valid() {
            valid += 1;
            let sum: u64 = outcome.workers.iter().filter_map(|worker| worker.measured).sum();
            assert_eq!(sum, seen.measured, "{seed}: each once");
        } else {
            invalid += 1;
        }
    }
    let each = valid > 40 && invalid > 40 && restarted > 15 && resumed > 40;
    assert!(seeds(200).len() < 200 || each, "{valid} {invalid} {restarted} {resumed}");
}

#[test]
fn a_worker_that_is_killed_is_named_within_five_seconds() {
    for seed in seeds(100) {
        for death in [
            Death::Process(Gone::Signal(9)),
            Death::Process(Gone::OutOfMemory),
            Death::Process(Gone::Evicted),
            Death::Machine,
        ] {
            let mut setting = Setting::quiet(5);
            (setting.death, setting.dies_after) = (Some((2, death)), 500);
            let mut world = World::new(seed, setting);
            let seen = world.run();
            let outcome = seen.outcome.expect("a controller");
            let kind = match death {
                Death::Process(Gone::OutOfMemory) => ProblemKind::OutOfMemory,
                Death::Process(Gone::Evicted) => ProblemKind::Evicted,
                _ => ProblemKind::Lost,
            };
            let found: Vec<(Option<u32>, ProblemKind)> =
                outcome.problems.iter().map(|one| (one.worker, one.kind)).collect();
            assert_eq!(found, [(Some(2), kind)], "{seed} {death:?}: {:?}", outcome.problems);
            let took = seen.over.since(seen.died.expect("it died"));
            assert!(took.as_secs_f64() < 5.0, "{seed} {death:?}: {took:?}");
        }
    }
}

#[test]
fn strangers_and_reports_that_come_twice_change_nothing() {
    let mut refused = 0;
    for seed in seeds(50) {
        let mut setting = Setting::quiet(3);
        (setting.strangers, setting.liars) = (20, true);
        let mut world = World::new(seed, setting);
        let seen = world.run();
        let outcome = seen.outcome.expect("a controller");
        assert!(outcome.is_valid(), "{seed}: {:?}", outcome.problems);
        assert_eq!(outcome.workers.iter().filter_map(|worker| worker.measured).sum::<u64>(), seen.measured);
        assert!(outcome.strangers >= 20, "{seed}: {}", outcome.strangers);
        // Some of them had the last worker's token, and said to be the first.
        refused += outcome.refused;
        assert!(outcome.refused <= outcome.strangers, "{seed}");
        let told: Vec<String> = outcome.impostors.iter().map(ToString::to_string).collect();
        let expected = "who has the token of worker 2 said to be worker 0, and was refused";
        assert!(
            told.iter().all(|one| one == expected) && told.len() as u64 == outcome.refused.min(1),
            "{seed}: {told:?}"
        );
    }
    assert!(refused > 50, "{refused}");
}
