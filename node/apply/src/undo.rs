//! Settings put back, and plans confirmed.

use crate::journal::{Change, Entry, FileChange, Journal, boot, journals, record};
use crate::machine::Machine;
use crate::refusal::Refusal;
use serde::Serialize;

/// What became of one change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Is as it was before the plan.
    Restored,
    /// Was so already: never written, or put back by somebody.
    AsBefore,
    /// Somebody else wrote it since: it was left alone.
    Foreign(String),
    /// Could not be put back.
    Failed(String),
    /// Is not there any more: it went with its device or module.
    Gone,
    /// Was written in another network namespace: it is undone there.
    OtherNetwork,
    /// Was written in another boot, which is over: so is the change.
    OtherBoot,
}

impl Outcome {
    /// Whether the setting is now as it was before the plan.
    #[must_use]
    pub const fn is_as_before(&self) -> bool {
        matches!(self, Self::Restored | Self::AsBefore)
    }

    /// Whether nothing is left to be done about it.
    const fn is_settled(&self) -> bool {
        matches!(self, Self::Restored | Self::AsBefore | Self::Gone | Self::OtherBoot)
    }
}

/// One change, undone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Restored {
    /// The setting or file.
    pub path: String,
    /// What it was before the plan; of a file, which may be for root alone to
    /// read, how long it was.
    pub value: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Which plans are undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which<'a> {
    /// The last one that is in force.
    Last,
    /// Every one, the last first.
    All,
    /// That of the journal of this name, unless it was confirmed meanwhile.
    Unconfirmed(&'a str),
}

/// Puts back what plans changed, the last change first. What somebody else
/// wrote since is left alone, unless `force` is set; values of another boot
/// are never written.
///
/// # Errors
/// [`Refusal::Locked`], [`Refusal::NoJournal`], [`Refusal::Journal`].
pub fn undo(machine: &mut impl Machine, which: Which<'_>, force: bool) -> Result<Vec<Restored>, Refusal> {
    let _lock = machine.lock().map_err(Refusal::Journal)?.ok_or(Refusal::Locked)?;
    let mut known = journals(machine).map_err(Refusal::Journal)?;
    known.reverse();
    let chosen: Vec<Journal> = match which {
        Which::All => known,
        Which::Last => {
            let in_force = known.iter().position(|journal| !journal.undone || force).unwrap_or(0);
            known.into_iter().skip(in_force).take(1).collect()
        }
        Which::Unconfirmed(name) => {
            known.retain(|journal| journal.name == name && !journal.confirmed && !journal.undone);
            known
        }
    };
    if chosen.is_empty() {
        return Err(Refusal::NoJournal("there is no plan to undo"));
    }
    let boot = boot(machine).map_err(Refusal::Journal)?;
    let mut all = Vec::new();
    for journal in chosen {
        let restored = of_journal(machine, &journal, &boot, force);
        if restored.iter().all(|one| one.outcome.is_settled()) {
            machine.forget(&journal.name).map_err(Refusal::Journal)?;
        } else if !journal.undone
            && !restored.iter().any(|one| matches!(one.outcome, Outcome::Failed(_) | Outcome::OtherNetwork))
        {
            // What was left alone can still be forced. Where that cannot be
            // written down, it is told once more the next time.
            let _ = record(machine, &journal.name, &Entry::Undone);
        }
        all.extend(restored);
    }
    Ok(all)
}

fn of_journal(machine: &mut impl Machine, journal: &Journal, boot: &str, force: bool) -> Vec<Restored> {
    if journal.boot == boot {
        // The kernel has these once for each namespace; elsewhere the same
        // path is another setting.
        let elsewhere = journal.network != machine.network();
        let of_network = |change: &Change| {
            ["proc/sys/net/", "sys/class/net/", "ethtool/"].iter().any(|start| change.path.starts_with(start))
        };
        let (others, ours): (Vec<Change>, Vec<Change>) =
            journal.changes.iter().cloned().partition(|change| elsewhere && of_network(change));
        let mut all = restore_files(machine, &journal.files, force);
        all.extend(restore_all(machine, &ours, force));
        all.extend(others.iter().map(|change| left(change, Outcome::OtherNetwork)));
        return all;
    }
    // Files stay over a boot, settings do not: writing what was right for
    // another kernel's run would be a change, not an undoing.
    let mut all: Vec<Restored> = journal.changes.iter().map(|change| left(change, Outcome::OtherBoot)).collect();
    all.extend(restore_files(machine, &journal.files, force));
    all
}

/// A change that is not touched.
fn left(change: &Change, outcome: Outcome) -> Restored {
    Restored { path: change.path.clone(), value: change.found.clone().unwrap_or_default(), outcome }
}

/// Puts changes back, the last first.
pub(crate) fn restore_all(machine: &mut impl Machine, changes: &[Change], force: bool) -> Vec<Restored> {
    let restore = |change: &Change| Restored {
        path: change.path.clone(),
        value: change.found.clone().unwrap_or_default(),
        outcome: restore(machine, change, force),
    };
    changes.iter().rev().map(restore).collect()
}

/// Puts files back, the last first.
pub(crate) fn restore_files(machine: &mut impl Machine, changes: &[FileChange], force: bool) -> Vec<Restored> {
    let restore = |change: &FileChange| Restored {
        path: change.path.clone(),
        value: match change.found.as_ref().and_then(crate::kept::Bytes::bytes) {
            Some(bytes) => format!("its {} bytes", bytes.len()),
            None => "not there".to_owned(),
        },
        outcome: restore_file(machine, change, force).unwrap_or_else(Outcome::Failed),
    };
    changes.iter().rev().map(restore).collect()
}

fn restore(machine: &mut impl Machine, change: &Change, force: bool) -> Outcome {
    let found = change.found.as_deref().unwrap_or_default();
    let as_before = |machine: &dyn Fn(&str) -> Option<String>| {
        let own = machine(&change.path).is_some_and(|now| change.form.same(&now, found));
        let partner = change.partner.as_ref();
        own && partner.is_none_or(|(path, value)| machine(path).is_some_and(|now| now.trim() == value))
    };
    let now = match machine.read(&change.path) {
        Ok(now) => now,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Outcome::Gone,
        Err(why) => return Outcome::Failed(format!("cannot be read: {why}")),
    };
    if as_before(&|path| machine.read(path).ok()) {
        return Outcome::AsBefore;
    }
    if !force && !change.form.same(&now, &change.wanted) && !change.form.same(&now, found) {
        return Outcome::Foreign(now.trim().to_owned());
    }
    // Writing the partner puts this one out of force, as it was.
    let (path, value) = match &change.partner {
        Some((path, value)) => (path.as_str(), value.as_str()),
        None => (change.path.as_str(), change.form.written(found)),
    };
    if let Err(why) = machine.set(path, value) {
        return Outcome::Failed(format!("{value} was refused: {why}"));
    }
    if as_before(&|path| machine.read(path).ok()) {
        return Outcome::Restored;
    }
    let now = machine.read(&change.path).unwrap_or_default();
    Outcome::Failed(format!("is {} after {value} was written", now.trim()))
}

/// Puts a file back to the byte, or says why that cannot be.
fn restore_file(machine: &mut impl Machine, change: &FileChange, force: bool) -> Result<Outcome, String> {
    let path = &change.path;
    let unread = |why: std::io::Error| format!("cannot be read: {why}");
    let damaged = || "the journal is damaged: what it keeps is no file".to_owned();
    let found = match &change.found {
        Some(found) => Some(found.bytes().ok_or_else(damaged)?),
        None => None,
    };
    let wanted = change.wanted.bytes().ok_or_else(damaged)?;
    let now = machine.file(path).map_err(unread)?;
    // What an interrupted writing left is nobody's.
    machine.sweep(path).map_err(|why| why.to_string())?;
    let bytes = now.as_ref().map(|now| now.bytes.as_slice());
    if bytes == found.as_deref() {
        remove_folders(machine, &change.folders);
        return Ok(Outcome::AsBefore);
    }
    let ours = match change.whole {
        true => bytes == Some(&*wanted),
        false => bytes.is_some_and(|now| now.trim_ascii_end() == wanted.trim_ascii_end()),
    };
    if !ours && !force {
        return Ok(Outcome::Foreign(bytes.map_or_else(|| "gone".to_owned(), |_| "another text".to_owned())));
    }
    if !change.whole && found.is_some() && !force {
        return Err("an earlier version wrote the journal, which left out how the text ends and bytes that are none: \
                    --force puts the rest back"
            .to_owned());
    }
    let done = match (&found, &now) {
        (Some(found), Some(now)) => machine.replace(path, found, Some(&now.attributes)),
        // It went meanwhile, and with it whose it was.
        (Some(found), None) => {
            let attributes =
                change.attributes.as_ref().map(|kept| kept.attributes().ok_or_else(damaged)).transpose()?;
            machine.replace(path, found, attributes.as_ref())
        }
        (None, Some(_)) => machine.remove(path),
        (None, None) => Ok(()),
    };
    done.map_err(|why| why.to_string())?;
    remove_folders(machine, &change.folders);
    let now = machine.file(path).map_err(unread)?;
    match now.as_ref().map(|now| now.bytes.as_slice()) == found.as_deref() {
        true => Ok(Outcome::Restored),
        false => Err("is another text after what was there was written".to_owned()),
    }
}

/// Removes folders that were made for a file. One that has others' files by now
/// stays.
fn remove_folders(machine: &mut impl Machine, folders: &[String]) {
    for folder in folders.iter().rev() {
        if machine.remove(folder).is_err() {
            break;
        }
    }
}

/// Lets a plan stay that would undo itself.
///
/// # Errors
/// [`Refusal::Locked`], [`Refusal::NoJournal`], [`Refusal::Journal`].
pub fn confirm(machine: &mut impl Machine) -> Result<String, Refusal> {
    let _lock = machine.lock().map_err(Refusal::Journal)?.ok_or(Refusal::Locked)?;
    let boot = boot(machine).map_err(Refusal::Journal)?;
    let known = journals(machine).map_err(Refusal::Journal)?;
    let pending = known.into_iter().rfind(|journal| journal.pending() && journal.boot == boot);
    let journal = pending.ok_or(Refusal::NoJournal("no plan waits for a confirmation"))?;
    record(machine, &journal.name, &Entry::Confirmed).map_err(Refusal::Journal)?;
    Ok(journal.plan)
}

/// Whether the plan of this journal still waits for a confirmation, or is in
/// the middle of being applied. Where that cannot be told, it does.
#[must_use]
pub fn waits(machine: &impl Machine, name: &str) -> bool {
    let Ok(known) = journals(machine) else { return true };
    known.iter().any(|journal| journal.name == name && !journal.confirmed && !journal.undone)
}
