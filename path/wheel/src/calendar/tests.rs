use super::*;
use random::SplitMix64;
use std::collections::BTreeMap;

const TICK: u64 = 1 << TICK_SHIFT;

/// Spans of all sizes, up to 2 to the power of `bits`.
fn span(rng: &mut SplitMix64, bits: usize) -> u64 {
    let bits = 8 + rng.below(bits - 8);
    rng.below(1 << bits) as u64
}

/// What comes up by `now`.
fn due(calendar: &mut Calendar, now: u64) -> Vec<u32> {
    let mut slots = Vec::new();
    assert!(calendar.take(now, usize::MAX, |slot| slots.push(slot)));
    slots
}

/// Against a list of deadlines: no slot comes early, none later than a bucket's
/// time after it, none that was taken out, and each once; and whoever sleeps
/// until the next is due misses none.
#[test]
fn agrees_with_a_list() {
    for seed in 0..30 {
        let mut rng = SplitMix64::new(seed);
        let slots = 1 + rng.below(200) as u32;
        let mut calendar = Calendar::new(slots as usize);
        let mut list = BTreeMap::new();
        let mut now = rng.below(1 << 40) as u64;
        for _ in 0..20_000 {
            let slot = rng.below(slots as usize) as u32;
            match rng.below(8) {
                0 => {
                    calendar.remove(slot);
                    list.remove(&slot);
                }
                1..4 => {
                    let at = now + span(&mut rng, 28);
                    assert!(calendar.enter(slot, at, now));
                    list.insert(slot, at);
                }
                _ => {
                    now = match calendar.next() {
                        Some(next) if rng.below(2) == 0 => next.max(now),
                        _ => now + span(&mut rng, 26),
                    };
                    for slot in due(&mut calendar, now) {
                        let at = list.remove(&slot).expect("it stands there");
                        assert!(at <= now, "early by {}", at - now);
                    }
                    let missed = list.values().find(|at| **at + TICK <= now);
                    assert_eq!(missed, None, "seed {seed}");
                }
            }
            assert_eq!(calendar.entries(), list.len());
            let covered = list.get(&slot).map(|at| calendar.covers(slot, *at));
            assert_eq!(covered.unwrap_or_else(|| calendar.covers(slot, u64::MAX)), covered.is_some());
            let next = list.values().min().map(|at| at.div_ceil(TICK));
            let told = calendar.next().map(|at| at / TICK);
            // What has passed comes with the next bucket.
            assert_eq!(told.is_some(), next.is_some());
            assert!(told.zip(next).is_none_or(|(told, next)| told <= next.max(now / TICK + 1)), "{told:?} {next:?}");
        }
    }
}

/// What is further off than the ring is refused, and the slot stands nowhere.
#[test]
fn far_is_for_others() {
    let mut calendar = Calendar::new(4);
    let now = 77 * TICK;
    assert!(calendar.enter(1, now, now));
    assert!(!calendar.enter(1, now + BUCKETS * TICK, now));
    assert_eq!((calendar.entries(), calendar.next()), (0, None));
    assert!(calendar.enter(2, now + (BUCKETS - 1) * TICK, now));
    assert_eq!(calendar.next(), Some(now + (BUCKETS - 1) * TICK));
    assert!(!calendar.is_due(now + (BUCKETS - 1) * TICK - 1));
    assert_eq!(due(&mut calendar, now + 2 * BUCKETS * TICK), [2]);
    assert!(!calendar.enter(3, u64::MAX, now));
}

/// A time that jumps: all are due, once, and what is entered then is not lost.
#[test]
fn a_jump() {
    let mut calendar = Calendar::new(8);
    for slot in 0..8 {
        assert!(calendar.enter(slot, u64::from(slot) * 500 * TICK, 0));
    }
    let now = 1 << 50;
    let mut slots = due(&mut calendar, now);
    slots.sort_unstable();
    assert_eq!(slots, (0..8).collect::<Vec<_>>());
    assert!(calendar.enter(5, now + 1, now));
    // An earlier time finds nothing, and does no harm.
    assert_eq!(due(&mut calendar, 3), Vec::<u32>::new());
    assert_eq!(due(&mut calendar, now + 2 * TICK), [5]);
}

/// Of what is due, no more than is asked for; the rest next.
#[test]
fn a_crowd() {
    let mut calendar = Calendar::new(1_000);
    for slot in 0..1_000 {
        assert!(calendar.enter(slot, TICK + u64::from(slot), 0));
    }
    let mut slots = Vec::new();
    let mut turns = 0;
    while !calendar.take(3 * TICK, 64, |slot| slots.push(slot)) {
        turns += 1;
        assert!(calendar.is_due(3 * TICK));
    }
    slots.sort_unstable();
    assert_eq!((slots, turns), ((0..1_000).collect(), 15));
}
