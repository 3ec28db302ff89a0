//! Gaps by what they went to, and how long they were.

use crate::cause::Cause;
use crate::timeline::Attribution;
use std::collections::HashMap;

/// A gap in a thread's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// When it began, nanoseconds of the clock of events.
    pub from: u64,
    /// When it was over.
    pub until: u64,
}

impl Gap {
    /// Its length in nanoseconds.
    #[must_use]
    pub const fn nanos(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

/// A gap, and what it went to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The gap.
    pub gap: Gap,
    /// What it went to.
    pub verdict: Attribution,
}

/// Lower ends of the histogram's rows, nanoseconds.
pub const ROWS: [u64; 22] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// A gap's row: that of what is shorter is the first.
#[must_use]
pub fn row(nanos: u64) -> usize {
    ROWS.partition_point(|start| *start <= nanos).saturating_sub(1)
}

/// Causes told apart; of more, those that come later are told together.
const CAUSES_LIMIT: usize = 1_024;

/// The longest gaps that are kept whole.
const WORST_LIMIT: usize = 20;

/// What gaps went to one cause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Gaps that went mostly to it.
    pub gaps: u64,
    /// The longest of them.
    pub longest: u64,
    /// How often it had a part in a gap.
    pub parts: u64,
    /// Nanoseconds of all its parts.
    pub nanos: u64,
}

/// All gaps of a core.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many.
    pub gaps: u64,
    /// Their time, nanoseconds.
    pub nanos: u64,
    /// How many of each length, as [`ROWS`].
    pub rows: [u64; ROWS.len()],
    /// How many have a time from which events are missing.
    pub incomplete: u64,
    /// The longest, first.
    pub worst: Vec<Named>,
    causes: HashMap<Cause, Account>,
    interrupted: HashMap<u32, u64>,
    /// Of causes beyond the limit.
    pub others: Account,
}

impl Tally {
    /// Adds a gap.
    pub fn add(&mut self, named: Named) {
        let nanos = named.gap.nanos();
        self.gaps += 1;
        self.nanos += nanos;
        self.rows[row(nanos)] += 1;
        self.incomplete += u64::from(named.verdict.incomplete);
        for (cause, part) in &named.verdict.parts {
            let account = self.account(cause);
            account.parts += 1;
            account.nanos += part;
        }
        for (thread, nanos) in &named.verdict.interrupted {
            if self.interrupted.contains_key(thread) || self.interrupted.len() < CAUSES_LIMIT {
                *self.interrupted.entry(*thread).or_default() += nanos;
            }
        }
        let main = self.account(&named.verdict.cause);
        main.gaps += 1;
        main.longest = main.longest.max(nanos);
        let at = self.worst.partition_point(|worse| worse.gap.nanos() >= nanos);
        if at < WORST_LIMIT {
            self.worst.insert(at, named);
            self.worst.truncate(WORST_LIMIT);
        }
    }

    fn account(&mut self, cause: &Cause) -> &mut Account {
        if !self.causes.contains_key(cause) && self.causes.len() >= CAUSES_LIMIT {
            return &mut self.others;
        }
        self.causes.entry(cause.clone()).or_default()
    }

    /// What interrupts took while a thread had the core, nanoseconds.
    #[must_use]
    pub fn interrupted(&self, cause: &Cause) -> u64 {
        match cause {
            Cause::Thread { thread, .. } => self.interrupted.get(thread).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Its causes, those that took most first.
    #[must_use]
    pub fn causes(&self) -> Vec<(&Cause, &Account)> {
        let mut all: Vec<(&Cause, &Account)> = self.causes.iter().collect();
        all.sort_by(|one, other| other.1.nanos.cmp(&one.1.nanos).then_with(|| one.0.cmp(other.0)));
        all
    }

    /// The longest gap, nanoseconds.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.worst.first().map_or(0, |worst| worst.gap.nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(from: u64, nanos: u64, parts: &[(Cause, u64)]) -> Named {
        let verdict =
            Attribution { cause: parts[0].0.clone(), parts: parts.to_vec(), interrupted: vec![], incomplete: false };
        Named { gap: Gap { from, until: from + nanos }, verdict }
    }

    #[test]
    fn rows_begin_where_they_say() {
        assert_eq!([0, 99, 100, 199, 200].map(row), [0, 0, 0, 0, 1]);
        assert_eq!((row(4_999), row(5_000), row(u64::MAX)), (4, 5, ROWS.len() - 1));
    }

    #[test]
    fn parts_and_gaps_are_counted_apart() {
        let mut tally = Tally::default();
        tally.add(named(0, 5_000, &[(Cause::Tick, 3_000), (Cause::Nmi, 2_000)]));
        tally.add(named(9_000, 7_000, &[(Cause::Nmi, 7_000)]));
        assert_eq!((tally.gaps, tally.nanos, tally.longest()), (2, 12_000, 7_000));
        let causes = tally.causes();
        assert_eq!(*causes[0].0, Cause::Nmi);
        assert_eq!(*causes[0].1, Account { gaps: 1, longest: 7_000, parts: 2, nanos: 9_000 });
        assert_eq!(*causes[1].1, Account { gaps: 1, longest: 5_000, parts: 1, nanos: 3_000 });
    }

    #[test]
    fn the_longest_are_kept_and_causes_have_a_limit() {
        let mut tally = Tally::default();
        for n in 0..3_000_u32 {
            let thread = Cause::Thread { thread: n, name: "x".into(), work: None };
            tally.add(named(0, u64::from(n) + 1, &[(thread, u64::from(n) + 1)]));
        }
        assert_eq!(tally.worst.len(), WORST_LIMIT);
        assert_eq!((tally.longest(), tally.worst[19].gap.nanos()), (3_000, 2_981));
        assert_eq!(tally.causes().len(), CAUSES_LIMIT);
        let mut interrupted = named(0, 9, &[(Cause::Tick, 9)]);
        interrupted.verdict.interrupted = (0..5_000).map(|thread| (thread, 2)).collect();
        tally.add(interrupted);
        let of = |thread| tally.interrupted(&Cause::Thread { thread, name: "x".into(), work: None });
        assert_eq!((of(3), of(4_999), tally.interrupted(&Cause::Tick)), (2, 0, 0));
        assert_eq!(tally.interrupted.len(), CAUSES_LIMIT);
        assert_eq!(tally.others.gaps, 3_001 - CAUSES_LIMIT as u64);
        assert_eq!(tally.rows.iter().sum::<u64>(), 3_001);
    }
}
