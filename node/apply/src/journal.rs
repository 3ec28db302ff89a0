//! What was written, on disk before it is.
//!
//! A journal is a file of lines, each a JSON object: [`Entry::Begin`], for each
//! change [`Entry::Write`] or [`Entry::File`] before it, then [`Entry::Applied`], and perhaps
//! [`Entry::Confirmed`] or [`Entry::Undone`]. A line that cannot be read is one
//! that a crash or a full disk cut off, and what it tells of did not happen:
//! it is on disk as a whole before anything else is done.

use crate::form::Form;
use crate::kept::{Bytes, KeptAttributes};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::io;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    Begin { plan: String, boot: String, network: String, try_seconds: Option<u64> },
    Write(Change),
    File(FileChange),
    Applied,
    Confirmed,
    Undone,
}

/// A change that was about to be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub path: String,
    pub form: Form,
    /// What was there; always there.
    pub found: Option<String>,
    pub wanted: String,
    /// A setting that this one's change takes out of force, with its value:
    /// `vm.dirty_bytes` beside `vm.dirty_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<(String, String)>,
    /// A file, as versions before [`FileChange`] wrote it: without what ended its
    /// last line.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub file: bool,
}

/// A file that was about to be replaced, which stays over a boot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub path: String,
    /// To the byte what was there; `None`: nothing was.
    pub found: Option<Bytes>,
    /// Whose that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<KeptAttributes>,
    pub wanted: Bytes,
    /// Folders that were made for it, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// Whether the texts are whole: they are not in [`Change::file`].
    #[serde(skip, default = "whole")]
    pub whole: bool,
}

const fn whole() -> bool {
    true
}

impl FileChange {
    /// As an earlier version wrote it.
    fn of_earlier(change: Change) -> Self {
        let found = change.found.map(|text| Bytes::of(text.as_bytes()));
        let wanted = Bytes::of(change.wanted.as_bytes());
        Self { path: change.path, found, attributes: None, wanted, folders: Vec::new(), whole: false }
    }
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
    pub(crate) files: Vec<FileChange>,
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
                        files: Vec::new(),
                    });
                }
                (Entry::Write(change), Some(journal)) if change.file => {
                    journal.files.push(FileChange::of_earlier(change));
                }
                (Entry::Write(change), Some(journal)) => journal.changes.push(change),
                (Entry::File(change), Some(journal)) => journal.files.push(change),
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

    /// Whether nothing was changed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.files.is_empty()
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
    // One of that number is none of ours.
    let next = last.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
    Ok(format!("{next:08}.journal"))
}

/// The boot that runs now.
pub(crate) fn boot(machine: &impl Machine) -> io::Result<String> {
    machine.read("proc/sys/kernel/random/boot_id")
}
