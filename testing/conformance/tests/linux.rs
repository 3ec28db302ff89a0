//! The scripts against the kernel, where that is allowed.

use conformance::linux::Linux;
use conformance::run::{Failure, run};
use conformance::script::{Place, Script};
use std::sync::Mutex;

/// Scripts at a time: they wait much more than they work.
const AT_A_TIME: usize = 8;

/// Tries of a script that does not hold at first. What it says of times is a
/// matter of the kernel, which a busy machine can only stretch: a script that
/// holds once holds.
const TRIES: usize = 5;

type Outcome = Result<Result<(), Failure>, String>;

/// Runs a script. The thread moves to a new network namespace each time.
fn against_linux(script: &Script) -> Outcome {
    Linux::new(script).map(|mut linux| run(script, &mut linux))
}

#[test]
fn scripts_against_linux() {
    let mut scripts = Vec::new();
    for (name, text) in conformance::scripts() {
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        if script.on.contains(&Place::Linux) {
            scripts.push((name, script));
        }
    }
    let queue = Mutex::new(scripts.iter().collect::<Vec<_>>());
    let outcomes = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(|e| panic!("{e}")).pop();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((name, script)) = next() {
                    let outcome = against_linux(script);
                    outcomes.lock().unwrap_or_else(|e| panic!("{e}")).push((name, script, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(|e| panic!("{e}"));
    assert!(!outcomes.is_empty());
    if let Some((_, _, Err(reason))) = outcomes.iter().find(|(_, _, outcome)| outcome.is_err()) {
        println!("skipped, because the kernel cannot be tested here: {reason}");
        return;
    }
    // Again one by one, with nothing beside them that this test started.
    for (_, script, outcome) in outcomes.iter_mut().filter(|(_, _, outcome)| matches!(outcome, Ok(Err(_)))) {
        let again = || std::thread::scope(|scope| scope.spawn(|| against_linux(script)).join());
        let mut tries = (1..TRIES).map(|_| again().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        if let Some(holds) = tries.find(|outcome| matches!(outcome, Ok(Ok(())))) {
            *outcome = holds;
        }
    }
    let failed = |(name, _, outcome): &(&String, &Script, Outcome)| match outcome {
        Ok(Err(failure)) => Some(format!("{name}: {failure}")),
        _ => None,
    };
    let failures: Vec<_> = outcomes.iter().filter_map(failed).collect();
    assert!(failures.is_empty(), "{} of {} scripts:\n{}", failures.len(), outcomes.len(), failures.join("\n"));
}
