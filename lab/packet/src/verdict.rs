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
    /// What spoils it, and then which clauses are missing.
    pub reasons: Vec<String>,
    /// How many of them spoil it.
    #[serde(skip)]
    fatal: usize,
}

impl Default for Validity {
    fn default() -> Self {
        Self { word: Word::Complete, reasons: Vec::new(), fatal: 0 }
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
        // The gravest first: of many, readers see the first ones.
        if word == Word::Invalid {
            self.reasons.insert(self.fatal, reason);
            self.fatal += 1;
        } else {
            self.reasons.push(reason);
        }
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

/// Frames of a trial of this program's that is over: what held them was asked to wait for them.
const EARLIER: &str = "frames of an earlier trial of this program came: the device, or a queue on the way, held them \
                       for longer than the drain (--drain)";

/// Of frames with a mark that is no trial's of this program the mark is all that is seen. Nobody
/// else need be there: a link of two programs' own may still hold what an earlier one sent.
const OTHERS: &str = "frames had the mark of a trial that was none of this program's, and whose it was cannot be \
                      seen: did an earlier run leave frames in the device or on the link, is a capture of one sent \
                      here, or does another tester run?";

/// What a frame that is there before it left comes to.
const BACKWARDS: &str = "frames came before they left, by their marks and the clock: it stepped, or differs from core \
                         to core";

/// Of what has no trial, or one without frames.
pub const NOTHING: &str = "nothing was measured: no frame was sent";

/// Of a trial that did not come to its end. What is missing then, nobody knows whose fault it is: what
/// ended the tester may have ended the device.
const CUT_OFF: &str = "it was stopped, or a link was down";

/// Of the time of a trial of probes the tester may be away from its rings for this share: of the rest
/// there is no sample.
const AWAY_LIMIT: f64 = 0.1;

/// All that the tester did wrong in a trial, which then is none. `late_limit` is the share of frames
/// that may be late or missing, and that of probes that it may have been away from.
#[must_use]
pub fn faults(result: &TrialResult, late_limit: f64) -> Vec<String> {
    let late = result.late_share();
    let backwards: u64 = result.lanes.iter().map(|lane| lane.backwards).sum();
    let late = (late > late_limit).then(|| {
        format!(
            "the tester sent {:.3} % of its frames late or not at all, more than {:.3} %",
            100.0 * late,
            100.0 * late_limit
        )
    });
    let others = [
        away_from_probes(result, late_limit),
        (backwards > 0).then(|| BACKWARDS.to_owned()),
        result.stamps_doubt(),
        (result.earlier_marks > 0).then(|| EARLIER.to_owned()),
        (result.others_marks > 0).then(|| OTHERS.to_owned()),
    ];
    late.into_iter().chain(others.into_iter().flatten()).collect()
}

/// Probes have one frame in flight and are never late: each time that the tester is away may make one
/// sample of each longer by its own fault.
fn away_from_probes(result: &TrialResult, late_limit: f64) -> Option<String> {
    let probes = || result.lanes.iter().filter(|lane| lane.probe);
    let frames: u64 = probes().map(|lane| lane.sent.frames).sum();
    let met = result.stalls.count.saturating_mul(probes().count() as u64).min(frames);
    let time = result.stalls.total_ns as f64 / (1e9 * result.seconds).max(1.0);
    let spoils = met as f64 > late_limit * frames as f64 || time > AWAY_LIMIT;
    (probes().next().is_some() && result.stalls.count > 0 && spoils).then(|| {
        let (time, count) = (100.0 * time.min(1.0), result.stalls.count);
        format!(
            "the tester was away from its rings for {time:.3} % of the time, in {count} times, while {frames} probes \
             were on their way: their latencies may be its own"
        )
    })
}

/// Why a trial is none, if it is none: it did not come to its end, or the tester did not do what it was
/// to ([`faults`]).
#[must_use]
pub fn spoilt(result: &TrialResult, late_limit: f64) -> Option<String> {
    if result.complete { faults(result, late_limit).into_iter().next() } else { Some(CUT_OFF.to_owned()) }
}

/// What one trial is worth: what it lacks by its end does not hide what the tester did wrong before.
#[must_use]
pub fn worth(result: &TrialResult, late_limit: f64) -> Validity {
    let mut verdict = Validity::default();
    if !result.complete {
        verdict.lacks(format!("it ended early: {CUT_OFF}"));
    }
    faults(result, late_limit).into_iter().for_each(|why| verdict.fails(why));
    if result.offered() == 0 {
        verdict.fails(NOTHING);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Goal;
    use crate::trial::{LaneResult, Sent, Stalls};

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
        assert!(
            verdict.to_string().starts_with("INVALID\n  ndr: the tester spoilt 4 trials\n  six sizes\n"),
            "{verdict}"
        );
    }

    #[test]
    fn a_trial_that_the_tester_spoilt_is_none() {
        let lane = |late| LaneResult { sent: Sent { frames: 1_000, late, ..Sent::default() }, ..LaneResult::default() };
        let of = |late| TrialResult { complete: true, lanes: vec![lane(late)], ..TrialResult::default() };
        assert_eq!(spoilt(&of(1), 0.001), None);
        assert!(spoilt(&of(2), 0.001).is_some_and(|why| why.contains("0.200 %")));
        // No more is said than a mark shows: whose frames these are is asked.
        let others = spoilt(&TrialResult { others_marks: 1, ..of(0) }, 0.1).expect("spoilt");
        assert!(others.contains("cannot be seen") && others.ends_with('?'), "{others}");
        let earlier = spoilt(&TrialResult { earlier_marks: 1, ..of(0) }, 0.1).expect("spoilt");
        assert!(earlier.contains("of this program came") && !earlier.contains("tester"), "{earlier}");
        let lanes = vec![LaneResult { backwards: 1, ..lane(0) }];
        assert!(spoilt(&TrialResult { lanes, ..of(0) }, 0.1).is_some_and(|why| why.contains("differs from core")));
        assert!(spoilt(&TrialResult { complete: false, ..of(0) }, 0.1).is_some());
    }

    #[test]
    fn an_early_end_does_not_hide_what_the_tester_did_wrong() {
        let lane = LaneResult { sent: Sent { frames: 100, missed: 900, ..Sent::default() }, ..LaneResult::default() };
        let cut = TrialResult { lanes: vec![lane], ..TrialResult::default() };
        let verdict = worth(&cut, 0.001);
        assert_eq!((verdict.word, verdict.reasons.len()), (Word::Invalid, 2), "{verdict}");
        assert!(verdict.reasons[0].contains("90.000 %") && verdict.reasons[1].contains("ended early"), "{verdict}");
        let lane = LaneResult { sent: Sent { frames: 100, ..Sent::default() }, ..LaneResult::default() };
        let sound = |complete| TrialResult { complete, lanes: vec![lane.clone()], ..TrialResult::default() };
        assert_eq!(
            (worth(&sound(false), 0.001).word, worth(&sound(true), 0.001)),
            (Word::Partial, Validity::default())
        );
        assert_eq!(worth(&TrialResult::default(), 0.001).word, Word::Invalid, "nothing was sent");
    }

    #[test]
    fn probes_count_while_the_tester_is_at_its_rings() {
        let lane =
            |probe, frames| LaneResult { probe, sent: Sent { frames, ..Sent::default() }, ..LaneResult::default() };
        let of = |lanes: Vec<LaneResult>, count, total_ns| TrialResult {
            complete: true,
            seconds: 2.0,
            stalls: Stalls { count, total_ns, longest_ns: total_ns },
            lanes,
            ..TrialResult::default()
        };
        let probes = |frames| vec![lane(true, frames), lane(true, frames)];
        // 20 absences of a million probes, 0.2 % of the time; and nearly all of the time.
        assert_eq!(spoilt(&of(probes(500_000), 20, 4_000_000), 0.001), None);
        let away = spoilt(&of(probes(87), 171, 1_980_000_000), 0.001).expect("away");
        assert!(away.contains("99.000 %") && away.contains("174 probes"), "{away}");
        // A few probes that were met are a share as frames that were late, and so is the time that nobody probed.
        assert!(spoilt(&of(probes(5_000), 20, 4_000_000), 0.001).is_some());
        assert!(spoilt(&of(probes(500_000), 1, 400_000_000), 0.001).is_some());
        // Paced frames that were due meanwhile are counted as late.
        assert_eq!(spoilt(&of(vec![lane(false, 87)], 171, 1_980_000_000), 0.001), None);
    }
}
