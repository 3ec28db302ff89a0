//! One node's audit, as far as nodes are compared by it.

use core::fmt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The form of results that this reads (`schema`).
const SCHEMA: u64 = 1;

/// The worst verdict.
const DANGEROUS: &str = "dangerous";

/// Those that are worse than what the kernel does by itself.
const WORSE: [&str; 4] = ["worse-than-default", "conflicts", "refused", "removed"];

/// Rows of a node at most: an audit has some hundreds.
const ROWS_LIMIT: usize = 100_000;

/// Which setting of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SettingName {
    /// The rule's name, as the audit has it.
    pub key: String,
    /// Which thing of several, as `eth0`; else empty.
    pub subject: String,
}

impl fmt::Display for SettingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, subject } = self;
        if subject.is_empty() { f.write_str(key) } else { write!(f, "{key} ({subject})") }
    }
}

/// What a setting of a node is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SettingState {
    /// The value in force.
    pub value: String,
    /// How good or bad it is, in the audit's word.
    pub verdict: String,
    /// What would be better, where the audit says so.
    pub want: Option<String>,
}

impl SettingState {
    pub(crate) fn json(&self) -> Value {
        json!({ "value": self.value, "verdict": self.verdict, "want": self.want })
    }

    pub(crate) fn read(found: &Value) -> Option<Self> {
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        Some(Self { value: text("value")?, verdict: text("verdict")?, want: text("want") })
    }
}

impl fmt::Display for SettingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.value.is_empty() { "none" } else { &self.value };
        write!(f, "{value} ({})", self.verdict)
    }
}

/// Why something is no audit that can be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportError {
    /// It is another kind of result, or none.
    NotAnAudit,
    /// It is of a form that this does not know.
    Schema(u64),
    /// A row lacks a field, which is named.
    Row(usize, &'static str),
    /// It has more rows than an audit has.
    TooLong,
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAudit => f.write_str("it is no result of nearside node audit --json"),
            Self::Schema(schema) => write!(f, "it is of the form {schema}, and {SCHEMA} is read here"),
            Self::Row(number, field) => write!(f, "its row {number} has no {field}"),
            Self::TooLong => write!(f, "it has more than {ROWS_LIMIT} rows"),
        }
    }
}

impl core::error::Error for ReportError {}

/// One node's audit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    /// The node's name.
    pub node: String,
    /// When it was made, in seconds since 1970; 0 where that is not known.
    pub made: u64,
    /// What the node was judged for.
    pub role: String,
    /// What it has of what is compared.
    pub(crate) settings: BTreeMap<Arc<SettingName>, Arc<SettingState>>,
}

impl NodeReport {
    /// Reads what `nearside node audit --json` wrote on a node.
    ///
    /// Rows of interfaces that are virtual are left out: there is one for each pod, of a name that chance gave it. Rows
    /// of processes are known by their program, without the numbers of processes.
    ///
    /// # Errors
    /// If it is no audit, or of a form that this does not know.
    pub fn read(node: &str, result: &Value) -> Result<Self, ReportError> {
        if result["kind"] != "audit" {
            return Err(ReportError::NotAnAudit);
        }
        match result["schema"].as_u64() {
            Some(SCHEMA) => {}
            Some(other) => return Err(ReportError::Schema(other)),
            None => return Err(ReportError::NotAnAudit),
        }
        let rows = result["rows"].as_array().ok_or(ReportError::NotAnAudit)?;
        if rows.len() > ROWS_LIMIT {
            return Err(ReportError::TooLong);
        }
        let virtual_ones: BTreeSet<&str> = rows
            .iter()
            .filter(|row| row["key"] == "virtual interface" && row["value"] == "virtual")
            .filter_map(|row| row["subject"].as_str())
            .collect();
        let mut settings: BTreeMap<SettingName, SettingState> = BTreeMap::new();
        for (number, row) in rows.iter().enumerate() {
            let text = |field: &'static str| row[field].as_str().ok_or(ReportError::Row(number, field));
            let (key, subject) = (text("key")?, text("subject")?);
            if subject.split(' ').next().is_some_and(|first| virtual_ones.contains(first)) {
                continue;
            }
            let subject = if is_of_processes(key) { without_numbers(subject) } else { subject.to_owned() };
            let state = SettingState {
                value: text("value")?.to_owned(),
                verdict: text("verdict")?.to_owned(),
                want: row["want"].as_str().map(str::to_owned),
            };
            // Several servers of one program: the last by order of their values, whoever began first.
            let found = settings.entry(SettingName { key: key.to_owned(), subject }).or_insert_with(|| state.clone());
            if state > *found {
                *found = state;
            }
        }
        let (made, role) = (result["made"].as_u64().unwrap_or(0), result["role"].as_str().unwrap_or_default());
        let settings = settings.into_iter().map(|(name, state)| (Arc::new(name), Arc::new(state))).collect();
        Ok(Self { node: node.to_owned(), made, role: role.to_owned(), settings })
    }

    /// What of a setting this node has, if it has it.
    #[must_use]
    pub fn state(&self, setting: &SettingName) -> Option<&SettingState> {
        self.settings.get(setting).map(Arc::as_ref)
    }

    /// Whether something is dangerous there.
    #[must_use]
    pub fn has_dangerous(&self) -> bool {
        self.settings.values().any(|state| state.verdict == DANGEROUS)
    }

    /// Whether something is worse than what the kernel does by itself, contradicts another setting, is refused, not
    /// there any more, or dangerous: as `nearside node audit` ends with another status than 0.
    #[must_use]
    pub fn has_worse(&self) -> bool {
        self.settings.values().any(|state| state.verdict == DANGEROUS || WORSE.contains(&state.verdict.as_str()))
    }
}

/// What a setting is, for people; that it is not there, where a node has none.
pub(crate) fn shown(state: Option<&SettingState>) -> String {
    state.map_or("not there".to_owned(), ToString::to_string)
}

/// Whether the subjects of a rule are processes, each with its number.
fn is_of_processes(key: &str) -> bool {
    key.ends_with(" of servers")
}

/// A text without the words that are numbers.
fn without_numbers(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    words.collect::<Vec<&str>>().join(" ")
}
