//! What a result is worth: a verdict that fails closed.

use crate::search::Found;
use crate::trial::TrialResult;
use core::fmt;
use serde::Serialize;

/// The word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Word {
    /// All that the method asks for was done.
    #[serde(rename = "COMPLETE")]
    Complete,
    /// Something was left out, which is named.
    #[serde(rename = "PARTIAL")]
    Partial,
    /// The figures are not to be used.
    #[serde(rename = "INVALID")]
    Invalid,
}

/// A verdict with its reasons.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Validity {
    /// The word.
    pub word: Word,
    /// What spoils it, and which clauses are missing.
    pub reasons: Vec<String>,
}

impl Default for Validity {
    fn default() -> Self {
        Self { word: Word::Complete, reasons: Vec::new() }
    }
}

impl Validity {
    /// Something is left out that the method does not insist on.
    pub fn names(&mut self, reason: impl Into<String>) {
        self.note(Word::Complete, reason.into());
    }

    /// Something is missing.
    pub fn lacks(&mut self, reason: impl Into<String>) {
        self.note(Word::Partial, reason.into());
    }

    /// Something is wrong.
    pub fn fails(&mut self, reason: impl Into<String>) {
        self.note(Word::Invalid, reason.into());
    }

    fn note(&mut self, word: Word, reason: String) {
        self.word = self.word.max(word);
        self.reasons.push(reason);
    }

    /// What searches found.
    pub fn judge_found(&mut self, found: &[Found]) {
        for found in found {
            match (&found.open, found.lower, found.upper) {
                (Some(why), ..) if why.contains("spoilt") => self.fails(format!("{}: {why}", found.goal.name)),
                (Some(why), ..) => self.lacks(format!("{}: {why}", found.goal.name)),
                (None, Some(lower), None) => self.lacks(format!(
                    "{}: no load failed: {lower:.0}/s is what the tester can send, and no bound of the device",
                    found.goal.name
                )),
                _ => {}
            }
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "COMPLETE",
            Self::Partial => "PARTIAL",
            Self::Invalid => "INVALID",
        })
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word.fmt(f)?;
        self.reasons.iter().try_for_each(|reason| write!(f, "\n  {reason}"))
    }
}

/// What frames with another trial's marks come to. On a link that nobody else has they are this
/// tester's own.
const OTHERS: &str = "frames of another trial came: of an earlier one, which the device held for longer than the \
                      drain, or of another tester on the wire";

/// Why a trial is none, if it is none: the tester did not do what it was to.
/// `late_limit` is the share of frames that may be late or missing.
#[must_use]
pub fn spoilt(result: &TrialResult, late_limit: f64) -> Option<String> {
    let late = result.late_share();
    let stamps = result.stamps_doubt();
    let backwards: u64 = result.lanes.iter().map(|lane| lane.backwards).sum();
    match () {
        () if !result.complete => Some("it was stopped, or a link was down".to_owned()),
        () if late > late_limit => Some(format!(
            "the tester sent {:.3} % of its frames late or not at all, more than {:.3} %",
            100.0 * late,
            100.0 * late_limit
        )),
        () if backwards > 0 => Some("the clock stepped".to_owned()),
        () if stamps.is_some() => stamps,
        () if result.others_marks > 0 => Some(OTHERS.to_owned()),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Goal;
    use crate::trial::{LaneResult, Sent};

    #[test]
    fn the_worst_word_counts_and_every_reason_stands() {
        let mut verdict = Validity::default();
        assert_eq!(verdict.to_string(), "COMPLETE");
        verdict.lacks("six sizes");
        let found = |open: Option<&str>, upper| Found {
            goal: Goal::ndr(),
            lower: Some(10.0),
            upper,
            conditional_throughput: None,
            open: open.map(str::to_owned),
        };
        verdict.judge_found(&[found(None, Some(11.0)), found(None, None)]);
        assert_eq!(verdict.word, Word::Partial);
        verdict.judge_found(&[found(Some("the tester spoilt 4 trials"), None)]);
        assert_eq!((verdict.word, verdict.reasons.len()), (Word::Invalid, 3));
        verdict.lacks("more");
        assert!(verdict.to_string().starts_with("INVALID\n  six sizes\n"));
    }

    #[test]
    fn a_trial_that_the_tester_spoilt_is_none() {
        let lane = |late| LaneResult { sent: Sent { frames: 1_000, late, ..Sent::default() }, ..LaneResult::default() };
        let of = |late| TrialResult { complete: true, lanes: vec![lane(late)], ..TrialResult::default() };
        assert_eq!(spoilt(&of(1), 0.001), None);
        assert!(spoilt(&of(2), 0.001).is_some_and(|why| why.contains("0.200 %")));
        assert!(spoilt(&TrialResult { others_marks: 1, ..of(0) }, 0.1).is_some());
        assert!(spoilt(&TrialResult { complete: false, ..of(0) }, 0.1).is_some());
    }
}
