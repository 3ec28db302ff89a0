//! The scripts against the kernel, where that is allowed.

use conformance::linux::Linux;
use conformance::run::run;
use conformance::script::{Place, Script};
use std::sync::Mutex;

/// Scripts at a time: they wait much more than they work.
const AT_A_TIME: usize = 8;

#[test]
fn scripts_against_linux() {
    let queue = Mutex::new(conformance::scripts());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((name, text)) = queue.lock().ok().and_then(|mut queue| queue.pop()) {
                    let script = Script::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
                    if !script.on.contains(&Place::Linux) {
                        continue;
                    }
                    // The thread moves to a new network namespace each time.
                    let outcome = Linux::new(&script).map(|mut linux| run(&script, &mut linux));
                    outcomes.lock().unwrap_or_else(|e| panic!("{e}")).push((name, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(|e| panic!("{e}"));
    assert!(!outcomes.is_empty());
    if let Some((_, Err(reason))) = outcomes.iter().find(|(_, outcome)| outcome.is_err()) {
        println!("skipped, because the kernel cannot be tested here: {reason}");
        return;
    }
    let failed = |(name, outcome): &(String, _)| match outcome {
        Ok(Err(failure)) => Some(format!("{name}: {failure}")),
        _ => None,
    };
    let failures: Vec<_> = outcomes.iter().filter_map(failed).collect();
    assert!(failures.is_empty(), "{} of {} scripts:\n{}", failures.len(), outcomes.len(), failures.join("\n"));
}
