//! Tests in a cluster, in virtual time: an API server that conflicts, forgets, does twice and delays; controllers,
//! workers and nodes that die, and objects that somebody deletes. What is asked, and how it is judged, is what runs.
//!
//! A seed reproduces a run: `NEARSIDE_SEED=N cargo test -p reconcile --test simulated`. `NEARSIDE_SEEDS=N` runs more of them.

mod world;

use control::{Outcome, ProblemKind};
use core::time::Duration;
use world::{ControllerDeath, Fault, Seen, Setting, World};

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NEARSIDE_SEED") {
        Some(one) => vec![one],
        None => (0..number("NEARSIDE_SEEDS").unwrap_or(usual)).collect(),
    }
}

/// Runs a world to its end, where nothing is left but Leases, and what a controller that died for good did not begin.
fn run(seed: u64, setting: &Setting) -> Vec<Seen> {
    let mut world = World::new(seed, setting.clone());
    world.run();
    let left: Vec<(String, String)> =
        world.cluster.objects.iter().map(|(path, one)| (path.clone(), one.to_string())).collect();
    let holders: Vec<String> = world
        .cluster
        .objects
        .iter()
        .filter(|(path, _)| path.starts_with("leases/"))
        .map(|(_, lease)| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
        .collect();
    let seen = world.seen();
    let dead = seen.iter().any(|one| one.ended.is_none());
    let only_leases = left.iter().all(|(path, _)| path.starts_with("leases/"));
    assert!(dead || only_leases, "{seed}: {left:#?}");
    assert!(dead || holders.iter().all(String::is_empty), "{seed}: {holders:?}");
    let suspended = left.iter().all(|(path, one)| !path.starts_with("jobs/") || one.contains("\"suspend\":true"));
    assert!(suspended, "{seed}: {left:#?}");
    seen
}

fn is_right(outcome: &Outcome<u64>, workers: u32) -> bool {
    outcome.is_valid() && outcome.workers.iter().filter_map(|one| one.measured).sum::<u64>() == (1 << workers) - 1
}

#[test]
fn without_a_fault_each_test_is_valid_and_has_the_target_alone() {
    for seed in seeds(20) {
        let mut setting = Setting::quiet(1 + (seed % 5) as u32);
        setting.tests = 2;
        let seen = run(seed, &setting);
        for one in &seen {
            let ended = one.ended.as_ref().expect("a controller");
            assert!(ended.outcome.as_ref().is_some_and(|outcome| is_right(outcome, setting.workers)), "{seed}");
            assert_eq!((&ended.failure, &ended.remains, one.loads.len()), (&None, &None, setting.workers as usize));
        }
        assert!(!overlap(&seen[0], &seen[1]), "{seed}");
    }
}

/// Whether two tests had their load on at one time.
fn overlap(one: &Seen, other: &Seen) -> bool {
    one.loads.iter().any(|(from, until)| other.loads.iter().any(|(begin, end)| from < end && begin < until))
}

#[test]
fn a_controller_that_dies_at_any_call_is_followed_by_one_that_goes_on_to_the_right_figures() {
    let mut calls = 0;
    for seed in seeds(1).into_iter().take(50) {
        for at in 0..40 {
            for sent in [false, true] {
                let mut setting = Setting::quiet(3);
                setting.deaths = vec![(ControllerDeath::AtCall(at, sent), Some(Duration::from_millis(400)))];
                let seen = run(seed, &setting);
                let ended = seen[0].ended.as_ref().expect("a controller");
                let right = ended.outcome.as_ref().is_some_and(|outcome| is_right(outcome, 3));
                // What one had decided when it died is gone with it, and so may be workers that it let go.
                let right = right || seen[0].decided;
                assert!(
                    right && ended.failure.is_none() && ended.remains.is_none(),
                    "{seed} {at} {sent}: {:?}",
                    ended.outcome
                );
                calls += seen[0].deaths;
            }
        }
    }
    assert!(calls >= 40, "{calls}");
}

/// Everything that can go wrong does at some time.
#[test]
fn every_run_ends_in_one_right_verdict_and_leaves_nothing_behind() {
    let (mut valid, mut invalid, mut failed, mut resumed, mut queued) = (0, 0, 0, 0, 0);
    for seed in seeds(200) {
        let setting = Setting::wild(seed);
        let seen = run(seed, &setting);
        for (test, one) in seen.iter().enumerate() {
            let Some(ended) = &one.ended else {
                assert!(one.deaths > 0, "{seed}: {test} has no end");
                continue;
            };
            match (&ended.outcome, &ended.failure) {
                (_, Some(why)) => {
                    failed += 1;
                    assert!(may_fail(&setting), "{seed}: {test}: {why}");
                }
                (Some(outcome), None) if outcome.is_valid() => {
                    valid += 1;
                    resumed += u32::from(one.deaths > 0);
                    assert!(is_right(outcome, setting.workers), "{seed}: {test}: {outcome:?}");
                    assert!(!must_fail(&setting, one, test), "{seed}: {test}: nobody is named");
                }
                (Some(outcome), None) => {
                    invalid += 1;
                    check_problems(seed, &setting, one, (test, seen[0].struck.is_some()), outcome);
                }
                (None, None) => panic!("{seed}: {test} ended without a word"),
            }
            let may_remain = setting.outage.is_some() || setting.trouble > 0;
            assert!(ended.remains.is_none() || may_remain, "{seed}: {:?}", ended.remains);
        }
        if let [one, other] = &seen[..] {
            queued += 1;
            assert!(!overlap(one, other) || may_share(&setting, &seen), "{seed}: two had the target");
        }
    }
    let each = valid > 150 && invalid > 20 && failed > 0 && resumed > 40 && queued > 60;
    assert!(seeds(200).len() < 200 || each, "{valid} {invalid} {failed} {resumed} {queued}");
}

/// What was deleted may be missing where it is needed next.
fn may_fail(setting: &Setting) -> bool {
    matches!(setting.fault, Fault::Object(_))
}

/// A worker that was struck while its load was on is named, if a controller was there to see it.
fn must_fail(setting: &Setting, seen: &Seen, test: usize) -> bool {
    let strikes = matches!(setting.fault, Fault::Killed { .. } | Fault::Node);
    test == 0 && strikes && seen.struck.is_some() && seen.deaths == 0
}

fn check_problems(seed: u64, setting: &Setting, seen: &Seen, (test, struck): (usize, bool), outcome: &Outcome<u64>) {
    for problem in &outcome.problems {
        let late = seen.half_told && problem.kind == ProblemKind::Late;
        let let_go = seen.decided && problem.kind == ProblemKind::Lost;
        // Workers end without a controller, and other tests may have the target before the next one.
        let alone =
            seen.deaths > 0 && (seen.alone > Duration::from_secs(20) || setting.tests > 1 || setting.deaths.len() > 1);
        let slow = setting.trouble > 0 || setting.outage.is_some() || setting.delay > 1_000;
        let by_fault = match (setting.fault, problem.kind) {
            (Fault::Object("leases/"), ProblemKind::TargetTaken) => true,
            (Fault::Object("jobs/" | "secrets/"), _) => true,
            (Fault::Killed { .. } | Fault::Deleted, _) => {
                struck && test == 0 && problem.worker == Some(setting.fault_at.1)
            }
            // Its other workers die with it.
            (Fault::Node, _) => struck && problem.worker.is_some_and(|worker| worker % 2 == setting.fault_at.1 % 2),
            _ => false,
        };
        let taken = problem.kind == ProblemKind::TargetTaken && setting.tests > 1 && slow;
        assert!(late || let_go || alone || by_fault || taken, "{seed}: {test}: {problem:?}");
    }
}

/// Whose Lease was deleted, or who had no answer for long, is displaced, and sees it a little later.
fn may_share(setting: &Setting, seen: &[Seen]) -> bool {
    let displaced = |one: &Seen| {
        let outcome = one.ended.as_ref().and_then(|ended| ended.outcome.as_ref());
        outcome.is_some_and(|outcome| outcome.problems.iter().any(|one| one.kind == ProblemKind::TargetTaken))
    };
    setting.fault == Fault::Object("leases/") || seen.iter().any(displaced)
}
