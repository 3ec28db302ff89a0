//! One result: what it is of, what it says of itself, and its figures.

use ::packet::compare::RunFigure;
use environment::{Fingerprint, ResultKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a result says that it is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Worth {
    /// Nothing speaks against its figures.
    Complete,
    /// Something is missing or in doubt, which is named.
    Partial,
    /// The figures are not to be used.
    Invalid,
}

impl Worth {
    /// As results write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "COMPLETE",
            Self::Partial => "PARTIAL",
            Self::Invalid => "INVALID",
        }
    }
}

/// A result's verdict on itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnVerdict {
    /// In a word.
    pub worth: Worth,
    /// Why, the gravest first.
    pub reasons: Vec<String>,
}

impl Worth {
    /// What a word means; one that is none of these is no good sign.
    #[must_use]
    pub fn of(word: &str) -> Self {
        let known = [Self::Complete, Self::Partial, Self::Invalid].into_iter().find(|worth| worth.word() == word);
        known.unwrap_or(Self::Partial)
    }
}

impl OwnVerdict {
    /// The verdict in a result: as all write it today, or as `nearside load`, searches and files
    /// under way wrote it before.
    #[must_use]
    pub fn of(whole: &Value) -> Option<Self> {
        let mut found = Self::written(whole);
        if whole.get("complete").and_then(Value::as_bool) == Some(false) {
            found = Some(Self::at_least(found, Worth::Partial, "it ended early"));
        }
        if whole.pointer("/found/invalid").and_then(Value::as_bool) == Some(true) {
            found = Some(Self::at_least(found, Worth::Invalid, "the machine spoilt too many runs"));
        }
        found
    }

    fn written(whole: &Value) -> Option<Self> {
        let verdict = whole.get("verdict")?;
        let text = |key: &str| verdict.get(key).and_then(Value::as_str);
        let worth = match (text("word"), text("trust")) {
            (Some("COMPLETE"), _) | (None, Some("yes")) => Worth::Complete,
            (Some("PARTIAL"), _) | (None, Some("with-care")) => Worth::Partial,
            (Some("INVALID"), _) | (None, Some("no")) => Worth::Invalid,
            _ => return None,
        };
        let sentence = |reason: &Value| match reason {
            Value::String(text) => Some(text.clone()),
            other => other.get("sentence").and_then(Value::as_str).map(str::to_owned),
        };
        let reasons = verdict.get("reasons").and_then(Value::as_array).into_iter().flatten();
        Some(Self { worth, reasons: reasons.filter_map(sentence).collect() })
    }

    fn at_least(found: Option<Self>, worth: Worth, why: &str) -> Self {
        match found {
            Some(found) if found.worth >= worth => found,
            Some(found) => Self { worth, reasons: [vec![why.to_owned()], found.reasons].concat() },
            None => Self { worth, reasons: vec![why.to_owned()] },
        }
    }
}

/// One result, read from what its command wrote.
#[derive(Clone, PartialEq, Debug)]
pub struct KnownResult {
    /// Its file.
    pub name: String,
    /// What it is of.
    pub kind: ResultKind,
    /// What it says that it is worth; of earlier versions, not all say it.
    pub verdict: Option<OwnVerdict>,
    /// The machine; of earlier versions, not all tell.
    pub machine: Option<Fingerprint>,
    /// What was asked for: results that differ in it are not one thing measured twice.
    pub asked: BTreeMap<String, String>,
    /// What was measured; what is no answer is left out.
    pub figures: Vec<RunFigure>,
}

/// Why something is no result of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultError(pub String);

impl core::fmt::Display for ResultError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ResultError {}
