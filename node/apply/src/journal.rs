//! What was written, on disk before it is.
//!
//! A journal is a file of lines, each a JSON object: [`Entry::Begin`], for each
//! change [`Entry::Write`] before it, then [`Entry::Applied`], and perhaps
//! [`Entry::Confirmed`] or [`Entry::Undone`]. A line that cannot be read is one
//! that a crash or a full disk cut off, and what it tells of did not happen:
//! it is on disk as a whole before anything else is done.

use crate::form::Form;
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::io;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    Begin { plan: String, boot: String, network: String, try_seconds: Option<u64> },
    Write(Change),
    Applied,
    Confirmed,
    Undone,
}

/// A change that was about to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub path: String,
    pub form: Form,
    /// What was there; `None`: a file that was not.
    pub found: Option<String>,
    pub wanted: String,
    /// A setting that this one's change takes out of force, with its value:
    /// `vm.dirty_bytes` beside `vm.dirty_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<(String, String)>,
    /// A file, which stays over a boot, rather than a setting.
    #[serde(default)]
    pub file: bool,
}

/// A journal as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    /// The file's name.
    pub name: String,
    /// The plan's id.
    pub plan: String,
    /// The boot in which it was written.
    pub boot: String,
    /// The network namespace in which it was written.
    pub network: String,
    /// Seconds after which it undoes itself, if it does.
    pub try_seconds: Option<u64>,
    /// Whether every change was made.
    pub applied: bool,
    /// Whether somebody said that it shall stay.
    pub confirmed: bool,
    /// Whether it was undone, as far as it could be.
    pub undone: bool,
    pub(crate) changes: Vec<Change>,
}

impl Journal {
    fn parse(name: &str, text: &str) -> Option<Self> {
        let mut journal = None;
        for line in text.lines() {
            let Ok(entry) = serde_json::from_str::<Entry>(line) else { continue };
            match (entry, journal.as_mut()) {
                (Entry::Begin { plan, boot, network, try_seconds }, None) => {
                    journal = Some(Self {
                        name: name.to_owned(),
                        plan,
                        boot,
                        network,
                        try_seconds,
                        applied: false,
                        confirmed: false,
                        undone: false,
                        changes: Vec::new(),
                    });
                }
                (Entry::Write(change), Some(journal)) => journal.changes.push(change),
                (Entry::Applied, Some(journal)) => journal.applied = true,
                (Entry::Confirmed, Some(journal)) => journal.confirmed = true,
                (Entry::Undone, Some(journal)) => journal.undone = true,
                _ => {}
            }
        }
        journal
    }

    /// Whether it waits for a confirmation.
    #[must_use]
    pub fn pending(&self) -> bool {
        self.applied && self.try_seconds.is_some() && !self.confirmed && !self.undone
    }

    /// Whether it ended in the middle.
    #[must_use]
    pub fn unfinished(&self) -> bool {
        !self.applied && !self.undone
    }
}

/// Every journal there is, the oldest first. One without a first line has
/// changed nothing, and is left out.
///
/// # Errors
/// If the folder or a journal cannot be read.
pub fn journals(machine: &impl Machine) -> io::Result<Vec<Journal>> {
    let mut found = Vec::new();
    for name in machine.journals()? {
        found.extend(Journal::parse(&name, &machine.journal(&name)?));
    }
    Ok(found)
}

pub(crate) fn record(machine: &mut impl Machine, name: &str, entry: &Entry) -> io::Result<()> {
    machine.record(name, &serde_json::to_string(entry)?)
}

/// The name of the next journal: names ascend with time.
pub(crate) fn next_name(machine: &impl Machine) -> io::Result<String> {
    let number = |name: &String| name.split('.').next().and_then(|digits| digits.parse::<u64>().ok());
    let last = machine.journals()?.iter().filter_map(number).max().unwrap_or(0);
    Ok(format!("{:08}.journal", last.saturating_add(1)))
}

/// The boot that runs now.
pub(crate) fn boot(machine: &impl Machine) -> io::Result<String> {
    machine.read("proc/sys/kernel/random/boot_id")
}
