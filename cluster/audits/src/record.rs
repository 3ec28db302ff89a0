//! What is kept of a node from audit to audit: what it is, and what changed, and since when.

use crate::drift::drift;
use crate::report::{NodeReport, SettingName, SettingState};
use serde_json::{Value, json};

/// A setting of a node that became another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which setting.
    pub setting: SettingName,
    /// What it was; none where there was none.
    pub was: Option<SettingState>,
    /// What it became; none where there is none any more.
    pub is: Option<SettingState>,
    /// When it was seen as it was, for the last time, in seconds since 1970.
    pub seen: u64,
    /// When it was seen as it is, for the first time, in seconds since 1970.
    pub since: u64,
}

/// What is kept of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRecord {
    /// The latest audit.
    pub report: NodeReport,
    /// What changed, the latest first.
    pub changes: Vec<Change>,
}

impl NodeRecord {
    /// That of a node that was not seen before.
    #[must_use]
    pub fn first(report: NodeReport) -> Self {
        Self { report, changes: Vec::new() }
    }

    /// That of the same node after another audit: of what changed the latest `history` are kept.
    #[must_use]
    pub fn follow(&self, now: NodeReport, history: usize) -> Self {
        let since = now.made;
        let fresh = drift(&self.report, &now).into_iter();
        let fresh = fresh.map(|one| Change { setting: one.setting, was: one.was, is: one.is, seen: one.seen, since });
        let changes = fresh.chain(self.changes.iter().cloned()).take(history).collect();
        Self { report: now, changes }
    }

    /// What changed in the latest audit.
    pub fn latest(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.since == self.report.made)
    }

    /// What changed, as it is kept.
    #[must_use]
    pub fn changes_json(&self) -> Value {
        self.changes.iter().map(Change::json).collect()
    }

    /// What was kept: an audit, and what changed; changes that make no sense are left out.
    #[must_use]
    pub fn read(report: NodeReport, changes: &Value) -> Self {
        let changes = changes.as_array().map(Vec::as_slice).unwrap_or_default();
        Self { report, changes: changes.iter().filter_map(Change::read).collect() }
    }
}

impl Change {
    fn json(&self) -> Value {
        let state = |state: &Option<SettingState>| state.as_ref().map(SettingState::json);
        let Self { setting, was, is, seen, since } = self;
        json!({
            "key": setting.key, "subject": setting.subject, "was": state(was), "is": state(is),
            "seen": seen, "since": since,
        })
    }

    fn read(found: &Value) -> Option<Self> {
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        let setting = SettingName { key: text("key")?, subject: text("subject")? };
        let state = |field: &str| SettingState::read(&found[field]);
        let (seen, since) = (found["seen"].as_u64()?, found["since"].as_u64()?);
        Some(Self { setting, was: state("was"), is: state("is"), seen, since })
    }
}

impl core::fmt::Display for Change {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let shown = crate::report::shown;
        write!(f, "{}: was {}, is {}", self.setting, shown(self.was.as_ref()), shown(self.is.as_ref()))
    }
}
