//! Seeds, and what a seed promises.

use sim::{Outcome, simulate, simulate_sealed, simulate_silos};
use stack::shadow::Way;

/// Seeds of `cargo test`; the soak runs many more.
const SEEDS: u64 = 32;

/// Threads that share them.
const THREADS: u64 = 2;

/// Runs `count` seeds of `simulate`, of which none may fail.
fn run(count: u64, option: &str, simulate: fn(u64) -> Outcome) -> Vec<Outcome> {
    let part = |first: u64| {
        let mut failed = Vec::new();
        let mut outcomes = Vec::new();
        for seed in (first..count).step_by(THREADS as usize) {
            let outcome = simulate(seed);
            if !outcome.tally.violations.is_empty() {
                let violations = outcome.tally.violations.join("\n  ");
                failed
                    .push(format!("seed {seed}:\n  {violations}\n  replay: cargo run -p sim -- --seed {seed}{option}"));
            }
            outcomes.push(outcome);
        }
        (failed, outcomes)
    };
    let (failed, outcomes): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().map(|part| part.join().expect("a panic is told above")).unzip()
    });
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{} of {count} seeds failed\n{}", failed.len(), failed.join("\n"));
    outcomes.into_iter().flatten().collect()
}

/// In each, short ways are held against the general ones (tests/drift.rs shows
/// that this finds what it should).
#[test]
fn seeds() {
    let outcomes = run(SEEDS, "", simulate);
    for way in Way::ALL {
        let compared: u64 = outcomes.iter().filter_map(|outcome| outcome.compared.get(&way)).sum();
        assert!(compared > SEEDS / 10, "{way:?}: compared {compared} times");
    }
}

/// Those of ten thousand in which a short way was taken while RACK waited for
/// what may only be reordered.
#[test]
fn seeds_with_a_reordering_timer() {
    for seed in [265, 1_094, 3_193, 3_452, 4_233, 5_592, 7_911] {
        assert_eq!(simulate(seed).tally.violations, Vec::<String>::new(), "seed {seed}");
    }
}

/// Those of ten thousand in which an acknowledgement came when nothing was late any more, by a short
/// way.
#[test]
fn seeds_with_late_segments() {
    for seed in [2_534, 3_984] {
        assert_eq!(simulate(seed).tally.violations, Vec::<String>::new(), "seed {seed}");
    }
}

/// One of ten thousand in which an update of keys was lost, with more to send behind it.
#[test]
fn a_seed_with_a_lost_key_update() {
    assert_eq!(simulate(1_695).tally.violations, Vec::<String>::new());
}

/// One of ten thousand in which a segment came again at the time of a keepalive
/// probe, each time: its acknowledgement was thought to be in the probe.
#[test]
fn a_seed_with_a_probe_at_the_time_of_an_acknowledgement() {
    assert_eq!(simulate(7_573).tally.violations, Vec::<String>::new());
}

/// Hosts of several silos, with a queue for each or one for all: hash, local
/// and least, flows that a failover moves, and whatever the network does.
#[test]
fn seeds_of_several_silos() {
    let outcomes = run(SEEDS / 3, " --silos", simulate_silos);
    for ways in
        ["forwarded_in", "lent_in", "messages_in", "flows_steered", "flows_forgotten", "strays_passed", "strays_owned"]
    {
        let taken: u64 = outcomes.iter().filter_map(|outcome| outcome.steering.get(ways)).sum();
        assert!(taken > 0, "{ways}: no seed went this way");
    }
}

/// All of it in records: what is lost, overtaken, probed for and cut by shorter packets is
/// sealed again as what it was, and nothing else is ever sealed under its number.
#[test]
fn seeds_that_are_sealed() {
    let outcomes = run(SEEDS / 4, " --sealed", simulate_sealed);
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    assert!(sum(|outcome| outcome.tally.sealed) > SEEDS);
    assert!(sum(|outcome| outcome.tally.updates) > SEEDS);
}

/// A seed runs the same every time, to the last turn and frame.
#[test]
fn a_seed_repeats() {
    for seed in [3, 14, 159] {
        assert_eq!(simulate(seed), simulate(seed));
        assert_eq!(simulate_silos(seed), simulate_silos(seed));
    }
}

fn snapshot(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The table of loss, delay and buffer is as it was when it was last looked
/// at; `cargo run --release -p sim -- --bless` writes it anew.
#[test]
fn transfers_are_as_before() {
    assert_eq!(sim::transfer::table(), snapshot("transfers.txt"));
}

/// The same of the table of paths: bottlenecks, competing flows, loss and
/// reordering, outages, black holes and routes that change.
#[test]
fn paths_are_as_before() {
    assert_eq!(sim::internet::table(""), snapshot("internet.txt"));
}
