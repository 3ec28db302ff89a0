//! What is told of a test: its conditions, its verdict and its figures.

use crate::conditions::Conditions;
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

/// What is told of a test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TestStatus {
    conditions: Conditions,
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
        let conditions = Conditions::read(status, &ConditionKind::ALL.map(ConditionKind::word));
        let mut found = Self { conditions, ..Self::default() };
        let time = |field: &str| status[field].as_str().and_then(read);
        (found.started, found.completed) = (time("startTime"), time("completionTime"));
        let verdicts = [Verdict::Pass, Verdict::Fail, Verdict::Invalid];
        found.verdict = verdicts.into_iter().find(|one| status["verdict"] == one.word());
        found
    }

    /// Whether something is so.
    pub fn holds(&self, kind: ConditionKind) -> bool {
        self.conditions.holds(kind.word())
    }

    /// Something is so from now on, or is not; answers whether that, or why, is another than before.
    pub fn set(&mut self, kind: ConditionKind, holds: bool, why: (&str, &str), unix: u64) -> bool {
        self.conditions.set(kind.word(), holds, why, unix)
    }

    /// Whether it was told as much as this says: whoever changed it else, or not at all.
    pub fn is_told_by(&self, status: &Value) -> bool {
        let told = Self::read(status);
        told.verdict == self.verdict && self.conditions.say_the_same(&told.conditions)
    }

    /// As an object has it.
    pub fn json(&self, generation: i64) -> Value {
        let mut out = Map::new();
        out.insert("observedGeneration".to_owned(), json!(generation));
        out.insert(
            "conditions".to_owned(),
            self.conditions.json(&ConditionKind::ALL.map(ConditionKind::word), generation),
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::MESSAGE_LIMIT;

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
