//! Thousands of sequences of calls, on the kernel's sockets and on ours.

use calls::{Call, Chooser, Difference, Recipe, compare, shortened};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// A world of the kernel that nobody had lately, in this process or another.
fn next_world() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(976))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// What the kernel is given to deliver, where a first look showed a difference: it may have been
/// busy.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same while a sequence is made shorter, which takes hundreds of looks.
const HASTE: Duration = Duration::from_micros(200);

/// Differences that are shown.
const MOST_SHOWN: usize = 8;

fn agree(recipe: Recipe, sequences: u64) {
    let seeds = match number("NEARSIDE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NEARSIDE_SEQUENCES").unwrap_or(sequences),
    };
    calls::raise_limit();
    let mut found = Vec::new();
    for seed in seeds {
        let steps = Chooser::new(seed, recipe).sequence();
        let differs = |patience| compare(&steps, next_world(), patience).is_some();
        if differs(Duration::ZERO) && differs(PATIENCE) {
            found.push(shown(seed, &shortened(&steps, next_world, HASTE)));
            if found.len() == MOST_SHOWN {
                break;
            }
        }
    }
    assert!(found.is_empty(), "{recipe:?}\n{}", found.join("\n"));
}

/// A sequence, a call a line, and what the last came to.
fn shown(seed: u64, steps: &[(usize, Call)]) -> String {
    let mut text = format!("seed {seed}:\n");
    for (side, call) in steps {
        text += &format!("  {side} {call:?}\n");
    }
    match compare(steps, next_world(), PATIENCE) {
        Some(Difference { at, kernel, ours }) => text + &format!("  {at}: the kernel {kernel:?},\n  ours {ours:?}"),
        None => text + "  no difference any more",
    }
}

#[test]
fn short_connections_agree() {
    agree(Recipe { steps: 60, bytes: 14_000, resets: true, library: false }, 2_000);
}

#[test]
fn long_conversations_agree() {
    agree(Recipe { steps: 200, bytes: 14_000, resets: true, library: false }, 500);
}

#[test]
fn much_unread_agrees() {
    agree(Recipe { steps: 120, bytes: 48_000, resets: false, library: false }, 500);
}
