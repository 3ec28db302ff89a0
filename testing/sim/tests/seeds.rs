//! Seeds, and what a seed promises.

use sim::simulate;

/// Seeds of `cargo test`; the soak runs many more.
const SEEDS: u64 = 300;

/// Threads that share them.
const THREADS: u64 = 2;

#[test]
fn seeds() {
    let part = |first: u64| {
        let mut failed = Vec::new();
        for seed in (first..SEEDS).step_by(THREADS as usize) {
            let outcome = simulate(seed);
            if !outcome.tally.violations.is_empty() {
                let violations = outcome.tally.violations.join("\n  ");
                failed.push(format!("seed {seed}:\n  {violations}\n  replay: cargo run -p sim -- --seed {seed}"));
            }
        }
        failed
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a panic is told above")).collect()
    });
    assert!(failed.is_empty(), "{} of {SEEDS} seeds failed\n{}", failed.len(), failed.join("\n"));
}

/// A seed runs the same every time, to the last turn and frame.
#[test]
fn a_seed_repeats() {
    for seed in [3, 14, 159] {
        assert_eq!(simulate(seed), simulate(seed));
    }
}

/// The table of loss, delay and buffer is as it was when it was last looked
/// at; `cargo run --release -p sim -- --bless` writes it anew.
#[test]
fn transfers_are_as_before() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/transfers.txt");
    let before = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(sim::transfer::table(), before);
}
