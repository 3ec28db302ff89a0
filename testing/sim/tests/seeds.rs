//! Seeds, and what a seed promises.

use sim::simulate;

/// Seeds of `cargo test`; the soak runs many more.
const SEEDS: u64 = 60;

/// Seeds that are known to fail, all with heavy loss: an end that outlives
/// the other's TIME-WAIT or FIN-WAIT-2 hears a reset or nothing. They are in
/// docs/differences.md; each is to be mended and taken off this list.
const KNOWN: [u64; 3] = [38, 44, 45];

#[test]
fn seeds() {
    let mut failed = Vec::new();
    for seed in (0..SEEDS).filter(|seed| !KNOWN.contains(seed)) {
        let outcome = simulate(seed);
        if !outcome.tally.violations.is_empty() {
            let violations = outcome.tally.violations.join("\n  ");
            failed.push(format!("seed {seed}:\n  {violations}\n  replay: cargo run -p sim -- --seed {seed}"));
        }
    }
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
