//! A node's audit, as far as lines are held against it.

use crate::line::Only;
use serde_json::Value;
use std::collections::BTreeMap;

/// Verdicts of which something else would be better.
const BETTER: [&str; 4] = ["improvable", "conflicts", "worse-than-default", "dangerous"];

/// Rows of a node at most: an audit has some hundreds.
const ROWS_LIMIT: usize = 100_000;

/// What a rule found on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FoundRow {
    /// The value; none where it could not be read.
    pub value: Option<String>,
    /// What would be better, if anything, why, and what that risks.
    pub better: Option<[String; 3]>,
}

/// What is known of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFacts {
    /// Its name.
    pub node: String,
    /// By the rule's name and the thing of several.
    rows: BTreeMap<(String, String), FoundRow>,
    kernel: String,
    processor: String,
    /// Its cores that are on line.
    cores: Vec<u32>,
}

impl NodeFacts {
    /// Reads what `nearside node audit --json` wrote on a node.
    ///
    /// # Errors
    /// If it is no audit.
    pub fn read(node: &str, result: &Value) -> Result<Self, &'static str> {
        let rows = result["rows"].as_array().filter(|_| result["kind"] == "audit" && result["schema"] == 1);
        let rows =
            rows.filter(|rows| rows.len() <= ROWS_LIMIT).ok_or("it is no result of nearside node audit --json")?;
        let mut found = BTreeMap::new();
        for row in rows {
            let text = |field: &str| row[field].as_str().map(str::to_owned);
            let name = text("key").zip(text("subject")).ok_or("a row of it has no name")?;
            let verdict = row["verdict"].as_str().unwrap_or_default();
            let value = text("value").filter(|_| !matches!(verdict, "unreadable" | "not-applicable"));
            let better = text("want").filter(|_| BETTER.contains(&verdict)).map(|want| {
                let words = |field: &str| text(field).unwrap_or_default();
                [want, words("why"), words("risk")]
            });
            found.insert(name, FoundRow { value, better });
        }
        let environment = &result["environment"];
        let text = |field: &str| environment[field].as_str().unwrap_or_default().to_owned();
        let cores = environment["cores"].as_array().into_iter().flatten();
        let cores = cores.filter_map(|core| core.as_u64().and_then(|core| u32::try_from(core).ok())).collect();
        let (kernel, processor) = (text("kernel"), text("processor"));
        Ok(Self { node: node.to_owned(), rows: found, kernel, processor, cores })
    }

    /// What the rule of this name found, of each thing that it is about; none where that could not be read.
    pub(crate) fn rows(&self, key: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
        let from = (key.to_owned(), String::new());
        let rows = self.rows.range(from..).take_while(move |((other, _), _)| other == key);
        rows.map(|((_, subject), row)| (subject.as_str(), row.value.as_deref()))
    }

    /// Names of rules that find one thing, and what each found.
    pub(crate) fn single_rows(&self) -> impl Iterator<Item = (&str, &FoundRow)> {
        let single = self.rows.iter().filter(|((_, subject), _)| subject.is_empty());
        single.map(|((key, _), row)| (key.as_str(), row))
    }

    /// The profile of tuned that is in force, as far as that is known.
    pub(crate) fn profile(&self) -> Option<&str> {
        let (_, found) = self.rows("tuned").next()?;
        let (profile, _) = found?.split_once(", ")?;
        Some(profile).filter(|profile| *profile != "none")
    }

    /// Its kernel's release.
    pub(crate) fn kernel(&self) -> &str {
        &self.kernel
    }

    pub(crate) fn cores(&self) -> &[u32] {
        &self.cores
    }

    /// Whether it is one of these nodes; none where that is not known.
    pub(crate) fn is(&self, only: Only) -> Option<bool> {
        if only == Only::RealTime {
            return self.is_real_time();
        }
        let has = |words: &[&str]| words.iter().any(|word| self.processor.contains(word));
        let its = if has(&["AMD"]) {
            Only::Amd
        } else if has(&["Intel"]) {
            Only::Intel
        } else if has(&["ARM", "Arm", "Neoverse", "Cortex", "Ampere"]) {
            Only::Arm
        } else {
            return None;
        };
        Some(its == only)
    }

    /// By the names of kernels of Red Hat, Debian and others: `5.14.0-70.rt21`, `6.12.0+rt`, `6.1.0-rt-amd64`.
    pub(crate) fn is_real_time(&self) -> Option<bool> {
        let words = self.kernel.split(|letter: char| !letter.is_ascii_alphanumeric());
        let is_rt =
            |word: &str| word.strip_prefix("rt").is_some_and(|rest| rest.bytes().all(|one| one.is_ascii_digit()));
        (!self.kernel.is_empty()).then(|| words.into_iter().any(is_rt))
    }
}
