//! What an audit of nodes came to, and what is told of it.

use crate::conditions::Conditions;
use crate::moment::{read, written};
use crate::status::Verdict;
use audits::{Change, Fleet, Kin, NodeRecord, NodeReport};
use serde_json::{Map, Value, json};
use spec::{Expectation, NodeAudit};

/// Kinds of nodes that a status has: of more the first are told, and counts are of all.
const ROWS_LIMIT: usize = 16;

/// Names of each kind.
const NAMES_LIMIT: usize = 8;

/// Differences of each kind.
const DIFFERENCES_LIMIT: usize = 16;

/// Nodes that are told with a reason.
const NODES_LIMIT: usize = 500;

/// Names in a sentence.
const NAMES_TOLD: usize = 5;

/// The longest text of a difference, in bytes.
const TEXT_LIMIT: usize = 300;

/// What is or is not so of an audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AuditCondition {
    /// It makes sense.
    Accepted,
    /// A round is on.
    Running,
    /// A round is over: what it came to stands there.
    Complete,
}

impl AuditCondition {
    const ALL: [Self; 3] = [Self::Accepted, Self::Running, Self::Complete];

    const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Running => "Running",
            Self::Complete => "Complete",
        }
    }
}

/// A node without an answer, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFailure {
    /// Its name.
    pub node: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

/// What a round came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditOutcome {
    /// In a word.
    pub verdict: Verdict,
    /// Why, in a word as conditions have it.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
    /// Nodes that are alike, and those that are not.
    pub fleet: Fleet,
    /// Nodes that did not answer in this round. Those that did in another are in `fleet` as they were then.
    pub failures: Vec<NodeFailure>,
    /// Nodes that are not asked, as they are kept for others.
    pub left_out: Vec<NodeFailure>,
    /// What changed since the round before, by the nodes' names.
    pub changes: Vec<(String, Vec<Change>)>,
    /// Reports that came without the token of their node.
    pub refused: u64,
}

impl AuditOutcome {
    /// Adds up what is known of nodes; those in `answered` have an audit of this round.
    pub(crate) fn of<'a>(
        audit: &NodeAudit,
        records: impl Iterator<Item = (&'a NodeRecord, bool)> + Clone,
        failures: Vec<NodeFailure>,
        left_out: Vec<NodeFailure>,
    ) -> Self {
        let fleet = Fleet::of(records.clone().map(|(record, _)| &record.report));
        let fresh = records.clone().filter(|(_, is_fresh)| *is_fresh).map(|(record, _)| record);
        let changed = |record: &NodeRecord| {
            let latest: Vec<Change> = record.latest().cloned().collect();
            (!latest.is_empty()).then(|| (record.report.node.clone(), latest))
        };
        let changes = fresh.filter_map(changed).collect();
        let missed = missed(audit, &fleet, records.map(|(record, _)| record));
        let (alike, differing) = (fleet.alike.nodes.len(), fleet.differing());
        let (verdict, reason, message) = if alike == 0 && failures.is_empty() {
            let why = match left_out.len() {
                0 => "no node has the labels that it asks for".to_owned(),
                count => format!("there is no node but {count} whose taints it does not tolerate"),
            };
            (Verdict::Invalid, "NoNodes", why)
        } else if !failures.is_empty() {
            let told: Vec<String> = failures.iter().take(NAMES_TOLD).map(ToString::to_string).collect();
            (Verdict::Invalid, "NodesFailed", with_more(told.join("; "), failures.len()))
        } else if !missed.is_empty() {
            (Verdict::Fail, "ExpectationMissed", missed.join("; "))
        } else if differing > 0 {
            (Verdict::Pass, "Differ", format!("{alike} alike, {differing} differ"))
        } else {
            (Verdict::Pass, "Alike", format!("{alike} alike"))
        };
        Self { verdict, reason, message, fleet, failures, left_out, changes, refused: 0 }
    }

    /// The same of nodes that were not seen before.
    #[must_use]
    pub fn of_reports(audit: &NodeAudit, reports: &[NodeReport], failures: Vec<NodeFailure>) -> Self {
        let records: Vec<NodeRecord> = reports.iter().cloned().map(NodeRecord::first).collect();
        Self::of(audit, records.iter().map(|record| (record, true)), failures, Vec::new())
    }

    /// Nodes that answered, or were to.
    #[must_use]
    pub fn nodes(&self) -> usize {
        let fleet = &self.fleet;
        let has = |node: &String| {
            core::iter::once(&fleet.alike).chain(&fleet.others).any(|kin| kin.nodes.binary_search(node).is_ok())
        };
        let without = self.failures.iter().filter(|failure| !has(&failure.node)).count();
        fleet.alike.nodes.len() + fleet.differing() + without
    }
}

impl core::fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}: {}", self.node, self.reason, self.message)
    }
}

/// What is not as it is to be: each in a sentence that names nodes.
fn missed<'a>(audit: &NodeAudit, fleet: &Fleet, records: impl Iterator<Item = &'a NodeRecord> + Clone) -> Vec<String> {
    let mut missed = Vec::new();
    for expected in &audit.expect {
        let mut names: Vec<String> = match expected {
            Expectation::Alike => fleet.others.iter().flat_map(|kin| kin.nodes.iter().cloned()).collect(),
            Expectation::NothingWorse | Expectation::NothingDangerous => {
                let is_worse = |record: &&NodeRecord| match expected {
                    Expectation::NothingDangerous => record.report.has_dangerous(),
                    _ => record.report.has_worse(),
                };
                records.clone().filter(is_worse).map(|record| record.report.node.clone()).collect()
            }
        };
        if !names.is_empty() {
            let count = names.len();
            names.truncate(NAMES_TOLD);
            missed.push(format!("{} is not so of {}", expected.word(), with_more(names.join(", "), count)));
        }
    }
    missed
}

/// What is told of the first, and how many more there are.
fn with_more(told: String, count: usize) -> String {
    match count.saturating_sub(NAMES_TOLD) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// What is told of an audit.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct AuditStatus {
    conditions: Conditions,
    pub verdict: Option<Verdict>,
    /// When the latest round began.
    pub round: Option<u64>,
    /// When the latest round was over.
    pub completed: Option<u64>,
    /// When the next one begins.
    pub next: Option<u64>,
    /// Why nodes did not answer.
    pub failures: Vec<NodeFailure>,
    /// Reports of the latest round that came without the token of their node.
    pub refused: u64,
    /// Counts and rows, as they are told.
    figures: Map<String, Value>,
}

/// What of a status is shown and not read again.
const FIGURES: [&str; 6] = ["nodes", "alike", "differing", "failed", "changed", "rows"];

impl AuditStatus {
    /// What was told before.
    pub fn read(status: &Value) -> Self {
        let conditions = Conditions::read(status, &AuditCondition::ALL.map(AuditCondition::word));
        let mut found = Self { conditions, ..Self::default() };
        let verdicts = [Verdict::Pass, Verdict::Fail, Verdict::Invalid];
        found.verdict = verdicts.into_iter().find(|one| status["verdict"] == one.word());
        found.round = status["round"].as_u64();
        found.refused = status["refused"].as_u64().unwrap_or(0);
        let time = |field: &str| status[field].as_str().and_then(read);
        (found.completed, found.next) = (time("completionTime"), time("nextTime"));
        let failures = status["failures"].as_array().into_iter().flatten();
        found.failures = failures.filter_map(NodeFailure::read).collect();
        for (name, value) in status.as_object().into_iter().flatten() {
            if FIGURES.contains(&name.as_str()) || name == "leftOut" {
                found.figures.insert(name.clone(), value.clone());
            }
        }
        found
    }

    pub fn holds(&self, kind: AuditCondition) -> bool {
        self.conditions.holds(kind.word())
    }

    /// Something is so from now on, or is not; answers whether that, or why, is another than before.
    pub fn set(&mut self, kind: AuditCondition, holds: bool, why: (&str, &str), unix: u64) -> bool {
        self.conditions.set(kind.word(), holds, why, unix)
    }

    /// What a round came to; answers whether that is another than before.
    pub fn take(&mut self, outcome: &AuditOutcome) -> bool {
        let before = (self.verdict, self.failures.clone(), self.figures.clone());
        self.verdict = Some(outcome.verdict);
        self.failures = outcome.failures.iter().take(NODES_LIMIT).cloned().collect();
        let fleet = &outcome.fleet;
        let kinds = core::iter::once(&fleet.alike).chain(&fleet.others).filter(|kin| !kin.nodes.is_empty());
        let rows: Vec<Value> = kinds.take(ROWS_LIMIT).map(row).collect();
        let left_out = outcome.left_out.iter().take(NODES_LIMIT).map(NodeFailure::json).collect::<Vec<Value>>();
        self.figures.clear();
        for (name, value) in [
            ("nodes", json!(outcome.nodes())),
            ("alike", json!(fleet.alike.nodes.len())),
            ("differing", json!(fleet.differing())),
            ("failed", json!(outcome.failures.len())),
            ("changed", json!(outcome.changes.len())),
            ("rows", json!(rows)),
            ("leftOut", json!(left_out)),
        ] {
            self.figures.insert(name.to_owned(), value);
        }
        before != (self.verdict, self.failures.clone(), self.figures.clone())
    }

    /// Whether it was told as much as this says: whoever changed it else, or not at all.
    pub fn is_told_by(&self, status: &Value) -> bool {
        let told = Self::read(status);
        (self.verdict, self.round, self.completed, self.refused)
            == (told.verdict, told.round, told.completed, told.refused)
            && self.conditions.say_the_same(&told.conditions)
            && self.figures == told.figures
    }

    /// As an object has it.
    pub fn json(&self, generation: i64) -> Value {
        let mut out = self.figures.clone();
        out.insert("observedGeneration".to_owned(), json!(generation));
        out.insert("refused".to_owned(), json!(self.refused));
        out.insert(
            "conditions".to_owned(),
            self.conditions.json(&AuditCondition::ALL.map(AuditCondition::word), generation),
        );
        out.insert("failures".to_owned(), self.failures.iter().map(NodeFailure::json).collect());
        for (field, value) in [
            ("verdict", self.verdict.map(|verdict| json!(verdict.word()))),
            ("round", self.round.map(|round| json!(round))),
            ("startTime", self.round.map(|round| json!(written(round)))),
            ("completionTime", self.completed.map(|at| json!(written(at)))),
            ("nextTime", self.next.map(|at| json!(written(at)))),
        ] {
            if let Some(value) = value {
                out.insert(field.to_owned(), value);
            }
        }
        out.into()
    }
}

impl NodeFailure {
    fn json(&self) -> Value {
        json!({ "node": self.node, "reason": self.reason, "message": self.message })
    }

    fn read(found: &Value) -> Option<Self> {
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        Some(Self { node: text("node")?, reason: text("reason")?, message: text("message")? })
    }
}

/// Nodes that are alike, as one row.
fn row(kin: &Kin) -> Value {
    let names: Vec<&String> = kin.nodes.iter().take(NAMES_LIMIT).collect();
    let text = |text: String| {
        let end = text.floor_char_boundary(TEXT_LIMIT);
        text.get(..end).unwrap_or_default().to_owned()
    };
    let told = kin.differences.iter().take(DIFFERENCES_LIMIT).map(|one| text(one.to_string()));
    let mut told: Vec<String> = told.collect();
    if let Some(more @ 1..) = kin.differences.len().checked_sub(DIFFERENCES_LIMIT) {
        told.push(format!("and {more} more"));
    }
    json!({ "nodes": kin.nodes.len(), "names": names, "differences": told })
}
