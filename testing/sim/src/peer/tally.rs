//! What happened at hosts, and what must not.

use std::collections::BTreeSet;

/// What happened at one host, or at all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections opened, on either side.
    pub opened: u64,
    /// Ended with both sides finished.
    pub finished: u64,
    /// Ended by our abort.
    pub aborted: u64,
    /// Ended by the peer's reset, which was due.
    pub reset: u64,
    /// Ended without an answer, where the peer had aborted.
    pub timed_out: u64,
    /// Ended without an orderly end of the last segments, after all was done.
    pub late: u64,
    /// Connects that failed and were tried again.
    pub retried: u64,
    /// Bytes received and found right.
    pub bytes: u64,
    /// Connections that were sealed, on either side.
    pub sealed: u64,
    /// Keys made by updates.
    pub updates: u64,
    /// What must not happen, in words; the first few.
    pub violations: Vec<String>,
    /// Ends that were late, and what the other sides must bear out.
    pub to_bear_out: Vec<End>,
    /// Ends with both sides finished.
    pub whole: BTreeSet<End>,
    /// Talks that the other side must never have heard of.
    pub unheard: Vec<u64>,
    /// Talks that were accepted.
    pub heard: BTreeSet<u64>,
}

/// One side's end of a talk: its key, and whether it is the side that
/// connected.
pub type End = (u64, bool);

/// Violations told at most: the first is what matters.
const MOST_VIOLATIONS: usize = 8;

impl Tally {
    /// Notes a violation.
    pub fn complain(&mut self, what: String) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// For the reader.
    #[must_use]
    pub fn without_ends(&self) -> Self {
        let (whole, heard) = (BTreeSet::new(), BTreeSet::new());
        Self { to_bear_out: Vec::new(), unheard: Vec::new(), whole, heard, ..self.clone() }
    }

    /// Every end that was late must have a whole one on the other side, and
    /// what was cut off before it was heard of none at all.
    pub fn bear_out(&mut self) {
        for key in core::mem::take(&mut self.unheard) {
            if self.heard.contains(&key) {
                self.complain(format!("key {key:016x}: the connecting side was cut off, the other had accepted"));
            }
        }
        for (key, connected) in core::mem::take(&mut self.to_bear_out) {
            if !self.whole.contains(&(key, !connected)) {
                let side = if connected { "connecting" } else { "accepting" };
                self.complain(format!("key {key:016x}: the {side} side was cut off, the other did not finish either"));
            }
        }
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.finished += other.finished;
        self.aborted += other.aborted;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.late += other.late;
        self.retried += other.retried;
        self.bytes += other.bytes;
        self.sealed += other.sealed;
        self.updates += other.updates;
        self.to_bear_out.extend_from_slice(&other.to_bear_out);
        self.whole.extend(&other.whole);
        self.unheard.extend_from_slice(&other.unheard);
        self.heard.extend(&other.heard);
        for violation in &other.violations {
            self.complain(violation.clone());
        }
    }
}
