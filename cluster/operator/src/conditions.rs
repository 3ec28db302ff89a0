//! Conditions: what is or is not so of an object, why, and since when, as Kubernetes has them (meta/v1, `Condition`).

use crate::moment::{read, written};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The longest message of a condition (Kubernetes: 32,768), and of an event (1,024).
pub(crate) const MESSAGE_LIMIT: usize = 1_000;

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    holds: bool,
    reason: String,
    message: String,
    /// Since when it holds, or does not: seconds since 1970.
    since: u64,
}

/// Those of an object, by the words of their kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Conditions(BTreeMap<&'static str, Condition>);

impl Conditions {
    /// What a status tells of these kinds; what makes no sense is left out.
    pub fn read(status: &Value, kinds: &[&'static str]) -> Self {
        let mut found = Self::default();
        for one in status["conditions"].as_array().into_iter().flatten() {
            let Some(kind) = kinds.iter().find(|kind| one["type"] == **kind) else { continue };
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            let since = read(&text("lastTransitionTime")).unwrap_or(0);
            let holds = one["status"] == "True";
            found.0.insert(kind, Condition { holds, reason: text("reason"), message: text("message"), since });
        }
        found
    }

    /// Whether something is so.
    pub fn holds(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|one| one.holds)
    }

    /// Something is so from now on, or is not; answers whether that, or why, is another than before.
    pub fn set(&mut self, kind: &'static str, holds: bool, (reason, message): (&str, &str), unix: u64) -> bool {
        let message = shortened(message);
        let before = self.0.get(kind);
        if before.is_some_and(|one| one.holds == holds && one.reason == reason && one.message == message) {
            return false;
        }
        let since = before.filter(|one| one.holds == holds).map_or(unix, |one| one.since);
        self.0.insert(kind, Condition { holds, reason: reason.to_owned(), message, since });
        true
    }

    /// Whether the same is so for the same reasons, whatever the words and times.
    pub fn say_the_same(&self, others: &Self) -> bool {
        let essence = |(kind, one): (&&'static str, &Condition)| (*kind, one.holds, one.reason.clone());
        self.0.iter().map(essence).eq(others.0.iter().map(essence))
    }

    /// As an object has them, in this order.
    pub fn json(&self, kinds: &[&'static str], generation: i64) -> Value {
        let of = |kind: &&'static str| {
            let Condition { holds, reason, message, since } = self.0.get(kind)?;
            Some(json!({
                "type": kind,
                "status": if *holds { "True" } else { "False" },
                "reason": reason,
                "message": message,
                "lastTransitionTime": written(*since),
                "observedGeneration": generation,
            }))
        };
        kinds.iter().filter_map(of).collect()
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
