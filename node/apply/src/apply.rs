//! A plan made true, step by step.

use crate::journal::{Change, Entry, FileChange, boot, journals, next_name, record};
use crate::kept::{Bytes, KeptAttributes};
use crate::machine::Machine;
use crate::obstacles::{container, obstacles};
use crate::persist::PersistedFile;
use crate::plan::TuningPlan;
use crate::refusal::Refusal;
use crate::undo::{Restored, restore_all, restore_files};
use audit::Evidence;
use core::fmt;

/// A plan that was applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// The journal's name.
    pub journal: String,
    /// How many settings or files were written.
    pub changes: usize,
}

/// Why a plan was not applied.
#[derive(Debug)]
pub enum ApplyError {
    /// Nothing was changed.
    Refused(Refusal),
    /// A change failed, and those before it were undone.
    Failed {
        /// The setting.
        path: String,
        /// How it failed.
        why: String,
        /// What became of it and those before it, the last first.
        restored: Vec<Restored>,
    },
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Failed { path, why, restored } => {
                let stuck = restored.iter().filter(|one| !one.outcome.is_as_before()).count();
                write!(f, "/{path}: {why}; ")?;
                match stuck {
                    0 => f.write_str("everything is as it was"),
                    stuck => write!(f, "{stuck} settings are not as they were: nearside node undo"),
                }
            }
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<Refusal> for ApplyError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Makes a plan true: each change stands in the journal, on disk, before it is
/// made, and is read back after; if one fails, all are undone.
///
/// With `try_seconds`, `guard` is called with the journal's name before the
/// first change: it starts the process that undoes the plan when nobody
/// confirms it ([`crate::waits`]).
///
/// # Errors
/// [`ApplyError::Refused`]: nothing was changed. [`ApplyError::Failed`].
pub fn apply(
    machine: &mut impl Machine,
    evidence: &Evidence,
    plan: &TuningPlan,
    try_seconds: Option<u64>,
    guard: impl FnOnce(&str) -> Result<(), String>,
) -> Result<Applied, ApplyError> {
    if let Some(refusal) = obstacles(machine, evidence, plan).into_iter().next() {
        return Err(refusal.into());
    }
    let _lock = lock(machine)?;
    free_of_others(machine)?;
    for step in &plan.steps {
        let now = machine.read(&step.path).unwrap_or_else(|why| why.to_string());
        if !step.form.same(&now, &step.found) {
            let (path, found) = (step.path.clone(), step.found.clone());
            return Err(Refusal::Changed { path, found, now: now.trim().to_owned() }.into());
        }
    }
    let name = begin(machine, &plan.id, try_seconds)?;
    if try_seconds.is_some()
        && let Err(why) = guard(&name)
    {
        // Without changes it is harmless where it cannot be removed.
        let _ = machine.forget(&name);
        return Err(Refusal::Guard(why).into());
    }
    let mut done: Vec<Change> = Vec::new();
    for step in &plan.steps {
        let change = step.change();
        if let Err(why) = record(machine, &name, &Entry::Write(change.clone())) {
            return Err(failed(machine, &name, &done, &step.path, format!("the journal cannot be kept: {why}")));
        }
        done.push(change);
        if let Err(why) = set_and_check(machine, &step.path, step) {
            return Err(failed(machine, &name, &done, &step.path, why));
        }
    }
    finish(machine, &name, done)
}

/// Puts files in their places, with the same journal.
///
/// # Errors
/// [`ApplyError::Refused`]: nothing was changed. [`ApplyError::Failed`].
pub fn write_files(
    machine: &mut impl Machine,
    plan: &TuningPlan,
    files: &[PersistedFile],
) -> Result<Applied, ApplyError> {
    if let Some(by) = container(machine).filter(|_| !plan.no_container) {
        return Err(Refusal::Container(by).into());
    }
    if machine.read("run/ostree-booted").is_ok() {
        return Err(Refusal::Image.into());
    }
    if files.is_empty() {
        return Err(Refusal::Empty.into());
    }
    let _lock = lock(machine)?;
    free_of_others(machine)?;
    let refused = |path: &str, why| Refusal::File { path: path.to_owned(), why };
    for file in files {
        let now = machine.file(&file.path).map_err(|why| refused(&file.path, why))?;
        if file.base.as_ref().is_some_and(|base| *base != now.map(|now| now.bytes)) {
            let found = "another text".to_owned();
            return Err(Refusal::Changed { path: file.path.clone(), found, now: "changed".to_owned() }.into());
        }
    }
    let name = begin(machine, &plan.id, None)?;
    let mut done: Vec<FileChange> = Vec::new();
    for file in files {
        if let Err(why) = write_file(machine, &name, file, &mut done) {
            let restored = restore_files(machine, &done, true);
            return Err(given_up(machine, &name, restored, &file.path, why));
        }
    }
    match record(machine, &name, &Entry::Applied) {
        Ok(()) => Ok(Applied { journal: name, changes: done.len() }),
        Err(why) => {
            let path = done.last().map(|change| change.path.clone()).unwrap_or_default();
            let restored = restore_files(machine, &done, true);
            Err(given_up(machine, &name, restored, &path, format!("the journal cannot be kept: {why}")))
        }
    }
}

/// Puts one file in its place; what stands in the journal of it is in `done`.
fn write_file(
    machine: &mut impl Machine,
    name: &str,
    file: &PersistedFile,
    done: &mut Vec<FileChange>,
) -> Result<(), String> {
    let found = machine.file(&file.path).map_err(|why| why.to_string())?;
    let change = FileChange {
        path: file.path.clone(),
        found: found.as_ref().map(|found| Bytes::of(&found.bytes)),
        attributes: found.as_ref().map(|found| KeptAttributes::of(&found.attributes)),
        wanted: Bytes::of(&file.bytes),
        folders: machine.missing_folders(&file.path).map_err(|why| why.to_string())?,
        whole: true,
    };
    let entry = Entry::File(change.clone());
    record(machine, name, &entry).map_err(|why| format!("the journal cannot be kept: {why}"))?;
    let folders = change.folders.clone();
    done.push(change);
    for folder in &folders {
        machine.make_folder(folder).map_err(|why| format!("/{folder}: {why}"))?;
    }
    let attributes = found.as_ref().map(|found| &found.attributes);
    machine.replace(&file.path, &file.bytes, attributes).map_err(|why| why.to_string())
}

fn lock(machine: &mut impl Machine) -> Result<crate::Lock, Refusal> {
    machine.lock().map_err(Refusal::Journal)?.ok_or(Refusal::Locked)
}

/// Refuses while another plan of this boot is in the balance.
fn free_of_others(machine: &impl Machine) -> Result<(), Refusal> {
    let boot = boot(machine).map_err(Refusal::Journal)?;
    for journal in journals(machine).map_err(Refusal::Journal)? {
        if journal.boot != boot || journal.is_empty() {
            continue;
        }
        if journal.pending() {
            return Err(Refusal::Pending(journal.plan));
        }
        if journal.unfinished() {
            return Err(Refusal::Unfinished(journal.plan));
        }
    }
    Ok(())
}

fn begin(machine: &mut impl Machine, plan: &str, try_seconds: Option<u64>) -> Result<String, Refusal> {
    let name = next_name(machine).map_err(Refusal::Journal)?;
    let boot = boot(machine).map_err(Refusal::Journal)?;
    let entry = Entry::Begin { plan: plan.to_owned(), boot, network: machine.network(), try_seconds };
    record(machine, &name, &entry).map_err(Refusal::Journal)?;
    Ok(name)
}

fn set_and_check(machine: &mut impl Machine, path: &str, step: &crate::Step) -> Result<(), String> {
    machine.set(path, &step.wanted).map_err(|why| format!("{} was refused: {why}", step.wanted))?;
    let now = machine.read(path).map_err(|why| format!("cannot be read back: {why}"))?;
    if step.form.same(&now, &step.wanted) {
        return Ok(());
    }
    Err(format!("is {} after {} was written", now.trim(), step.wanted))
}

/// Undoes what was done.
fn failed(machine: &mut impl Machine, name: &str, done: &[Change], path: &str, why: String) -> ApplyError {
    // The failed write itself may have come to another value than it was
    // told: what is there is ours, whatever it is.
    let (others, last) = done.split_at(done.len().saturating_sub(1));
    let mut restored = restore_all(machine, last, true);
    restored.extend(restore_all(machine, others, false));
    given_up(machine, name, restored, path, why)
}

/// The journal goes only when all is as before.
fn given_up(machine: &mut impl Machine, name: &str, restored: Vec<Restored>, path: &str, why: String) -> ApplyError {
    if restored.iter().all(|one| one.outcome.is_as_before()) {
        // Everything is as it was: a journal that stays says so again.
        let _ = machine.forget(name);
    }
    ApplyError::Failed { path: path.to_owned(), why, restored }
}

fn finish(machine: &mut impl Machine, name: &str, done: Vec<Change>) -> Result<Applied, ApplyError> {
    match record(machine, name, &Entry::Applied) {
        Ok(()) => Ok(Applied { journal: name.to_owned(), changes: done.len() }),
        Err(why) => {
            let path = done.last().map(|change| change.path.clone()).unwrap_or_default();
            Err(failed(machine, name, &done, &path, format!("the journal cannot be kept: {why}")))
        }
    }
}
