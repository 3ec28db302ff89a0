//! What is told of a test: its conditions, its verdict and its figures.

use crate::moment::{read, written};
use serde_json::{Map, Value, json};

/// What is or is not so of a test, in the order in which that becomes known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ConditionKind {
    /// It makes sense.
    Accepted,
    /// Its workers are ready.
    Prepared,
    /// Its load is on.
    Running,
    /// It is over.
    Complete,
}

impl ConditionKind {
    const ALL: [Self; 4] = [Self::Accepted, Self::Prepared, Self::Running, Self::Complete];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Prepared => "Prepared",
            Self::Running => "Running",
            Self::Complete => "Complete",
        }
    }
}

/// What a test came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// What it expects is met.
    Pass,
    /// It is not, or nothing was measured.
    Fail,
    /// The figures are not of what was asked for, or there are none.
    Invalid,
}

impl Verdict {
    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
        }
    }
}

/// What was measured, as it is shown in a table; what is not known is left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// How many of the workers measured: `3/3`.
    pub workers: Option<String>,
    /// Responses a second.
    pub rate: Option<String>,
    /// Requests sent, of those that were due.
    pub rate_of_due: Option<String>,
    /// The latency that 99 of 100 requests kept.
    pub p99: Option<String>,
    /// How far apart workers began.
    pub skew: Option<String>,
}

/// What becomes of a test that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// Another test has its target.
    Waits {
        /// Which.
        holder: String,
    },
    /// Its pods may begin.
    Begun,
    /// Its workers are ready.
    Prepared,
    /// Its load is on.
    Loading,
    /// It came to this; what it made is still there, until the order to let it go.
    Ended(Box<Ending>),
    /// Nothing of it is left: who ran it is gone.
    Over,
}

/// What a test came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// In a word.
    pub verdict: Verdict,
    /// Why, in a word as conditions have it.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
    /// What was measured.
    pub figures: Figures,
    /// The whole result, as `nearside load --json` has it, if there is one.
    pub result: Option<String>,
}

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub holds: bool,
    pub reason: String,
    pub message: String,
    /// Since when it holds, or does not.
    pub since: u64,
}

/// The longest message of a condition (Kubernetes: 32,768), and of an event (1,024).
pub(crate) const MESSAGE_LIMIT: usize = 1_000;

/// What is told of a test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TestStatus {
    conditions: [Option<Condition>; 4],
    pub verdict: Option<Verdict>,
    pub figures: Figures,
    pub started: Option<u64>,
    pub completed: Option<u64>,
    /// The object with the whole result.
    pub result: Option<String>,
}

impl TestStatus {
    /// What was told of it before, conditions that make no sense left out.
    pub fn read(status: &Value) -> Self {
        let mut found = Self::default();
        let listed = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        for one in listed {
            let Some(kind) = ConditionKind::ALL.into_iter().find(|kind| one["type"] == kind.word()) else { continue };
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            let since = read(&text("lastTransitionTime")).unwrap_or(0);
            let holds = one["status"] == "True";
            found.conditions[kind as usize] =
                Some(Condition { holds, reason: text("reason"), message: text("message"), since });
        }
        let time = |field: &str| status[field].as_str().and_then(read);
        (found.started, found.completed) = (time("startTime"), time("completionTime"));
        let verdicts = [Verdict::Pass, Verdict::Fail, Verdict::Invalid];
        found.verdict = verdicts.into_iter().find(|one| status["verdict"] == one.word());
        found
    }

    /// Whether something is so.
    pub fn holds(&self, kind: ConditionKind) -> bool {
        self.conditions[kind as usize].as_ref().is_some_and(|one| one.holds)
    }

    /// Something is so from now on, or is not; answers whether that, or why, is another than before.
    pub fn set(&mut self, kind: ConditionKind, holds: bool, (reason, message): (&str, &str), unix: u64) -> bool {
        let place = &mut self.conditions[kind as usize];
        let message = shortened(message);
        let before = place.as_ref();
        let same = before.is_some_and(|one| one.holds == holds && one.reason == reason && one.message == message);
        if same {
            return false;
        }
        let since = before.filter(|one| one.holds == holds).map_or(unix, |one| one.since);
        *place = Some(Condition { holds, reason: reason.to_owned(), message, since });
        true
    }

    /// Whether it was told as much as this says: whoever changed it else, or not at all.
    pub fn is_told_by(&self, status: &Value) -> bool {
        let told = Self::read(status);
        let essence = |one: &Option<Condition>| one.as_ref().map(|one| (one.holds, one.reason.clone()));
        let same = |(ours, theirs)| essence(ours) == essence(theirs);
        told.verdict == self.verdict && self.conditions.iter().zip(&told.conditions).all(same)
    }

    /// As an object has it.
    pub fn json(&self, generation: i64) -> Value {
        let mut out = Map::new();
        out.insert("observedGeneration".to_owned(), json!(generation));
        let of = |kind: &ConditionKind| {
            let Condition { holds, reason, message, since } = self.conditions[*kind as usize].as_ref()?;
            Some(json!({
                "type": kind.word(),
                "status": if *holds { "True" } else { "False" },
                "reason": reason,
                "message": message,
                "lastTransitionTime": written(*since),
                "observedGeneration": generation,
            }))
        };
        out.insert("conditions".to_owned(), ConditionKind::ALL.iter().filter_map(of).collect());
        let Figures { workers, rate, rate_of_due, p99, skew } = self.figures.clone();
        for (field, text) in [
            ("verdict", self.verdict.map(|verdict| verdict.word().to_owned())),
            ("startTime", self.started.map(written)),
            ("completionTime", self.completed.map(written)),
            ("result", self.result.clone()),
            ("workers", workers),
            ("rate", rate),
            ("rateOfDue", rate_of_due),
            ("p99", p99),
            ("skew", skew),
        ] {
            if let Some(text) = text {
                out.insert(field.to_owned(), text.into());
            }
        }
        out.into()
    }
}

/// A text of at most so many bytes as a message has.
pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= MESSAGE_LIMIT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MESSAGE_LIMIT - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_is_written_and_keeps_since_when_a_condition_holds() {
        let mut status = TestStatus::default();
        assert!(status.set(ConditionKind::Accepted, true, ("Accepted", "it makes sense"), 100));
        assert!(!status.set(ConditionKind::Accepted, true, ("Accepted", "it makes sense"), 200), "the same");
        assert!(status.set(ConditionKind::Prepared, false, ("Queued", ""), 200));
        assert!(status.set(ConditionKind::Prepared, false, ("TargetBusy", "another"), 300));
        (status.verdict, status.started, status.completed) = (Some(Verdict::Fail), Some(100), Some(400));
        let json = status.json(7);
        assert_eq!(json["conditions"][1]["lastTransitionTime"], "1970-01-01T00:03:20Z", "false since then");
        assert_eq!((&json["verdict"], &json["observedGeneration"]), (&json!("fail"), &json!(7)));
        assert_eq!(TestStatus::read(&json), status);
        assert!(status.is_told_by(&json));
        let mut other = json.clone();
        other["conditions"][0]["status"] = json!("False");
        assert!(!status.is_told_by(&other) && !status.is_told_by(&Value::Null));
        for nonsense in [json!("x"), json!({ "conditions": 7 }), json!({ "conditions": [7, { "type": "Running" }] })] {
            assert!(!TestStatus::read(&nonsense).holds(ConditionKind::Running));
        }
        assert!(status.set(ConditionKind::Running, false, ("Ended", &"é".repeat(4_000)), 500));
        assert!(status.json(1)["conditions"][2]["message"].as_str().is_some_and(|text| text.len() <= MESSAGE_LIMIT));
    }
}
