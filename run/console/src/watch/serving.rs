//! Who serves for a process that was named: itself, or a child that it started.
//!
//! Servers that open ports as root keep a parent with its rights and let a child without them do
//! the work: nginx's master has workers, and this program's server a child of another user. Whoever
//! asks for the parent's number would see a process that does nothing.

use cpu::process_stat::parent_of;
use page::living_of_user;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Children that are named.
const NAMED: usize = 16;

/// Who is looked at, and what is to be said of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Serving {
    pub(super) pid: u32,
    pub(super) notes: Vec<String>,
}

/// A child that runs its parent's program.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Child {
    pid: u32,
    user: Option<u32>,
}

/// Who serves for this process.
pub(super) fn serving(pid: u32) -> Serving {
    let pages: BTreeSet<u32> = living_of_user().unwrap_or_default().iter().map(::page::Reader::pid).collect();
    decide(pid, user_of(pid), &children_of(pid), &pages)
}

/// One child that publishes what a server of ours does is who serves; of others it is only known
/// that they are there.
fn decide(pid: u32, user: Option<u32>, children: &[Child], pages: &BTreeSet<u32>) -> Serving {
    let itself = |notes| Serving { pid, notes };
    if children.is_empty() || pages.contains(&pid) {
        return itself(Vec::new());
    }
    let serves: Vec<&Child> = children.iter().filter(|child| pages.contains(&child.pid)).collect();
    if let [child] = serves.as_slice() {
        let rights = match child.user {
            Some(other) if child.user != user => format!(", which gave up its rights (user {other})"),
            _ => String::new(),
        };
        let note = format!("process {pid} looks after a child that serves, {}{rights}: that is shown", child.pid);
        return Serving { pid: child.pid, notes: vec![note] };
    }
    let named: Vec<String> = children
        .iter()
        .take(NAMED)
        .map(|child| match child.user {
            Some(other) if child.user != user => format!("{} (user {other})", child.pid),
            _ => child.pid.to_string(),
        })
        .collect();
    let more = children.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let first = children.first().map_or(pid, |child| child.pid);
    itself(vec![format!(
        "process {pid} has children that run the same program: {}{more}. What they do is not in its figures: --pid \
         {first} shows one of them",
        named.join(", ")
    )])
}

/// Its children that run the same program, by their numbers.
fn children_of(parent: u32) -> Vec<Child> {
    let program = program_of(parent);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut children: Vec<Child> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent) && program.is_some() && program_of(*pid) == program)
        .map(|pid| Child { pid, user: user_of(pid) })
        .collect();
    children.sort_by_key(|child| child.pid);
    children
}

/// Its file; where that may not be seen, its name.
fn program_of(pid: u32) -> Option<PathBuf> {
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| PathBuf::from(name.trim_end()));
    fs::read_link(format!("/proc/{pid}/exe")).ok().or_else(name)
}

/// Whose it is. The files of a process that nobody may look into are root's; the folder too.
fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok();
    let effective = status.as_deref().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    });
    effective.or_else(|| fs::metadata(format!("/proc/{pid}")).ok().map(|folder| folder.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(pid: u32, user: u32) -> Child {
        Child { pid, user: Some(user) }
    }

    #[test]
    fn a_child_of_ours_that_serves_is_followed_and_others_are_named() {
        let none = BTreeSet::new();
        let alone = decide(7, Some(0), &[], &none);
        assert_eq!(alone, Serving { pid: 7, notes: vec![] });
        let itself = decide(7, Some(0), &[child(8, 33)], &[7, 8].into());
        assert_eq!(itself, Serving { pid: 7, notes: vec![] });

        let ours = decide(7, Some(0), &[child(8, 33), child(9, 0)], &[8, 100].into());
        assert_eq!(ours.pid, 8);
        assert!(ours.notes[0].contains("gave up its rights (user 33): that is shown"), "{ours:?}");
        let same_user = decide(7, Some(33), &[child(8, 33)], &[8].into());
        assert!(same_user.pid == 8 && !same_user.notes[0].contains("rights"), "{same_user:?}");

        let nginx = decide(7, Some(0), &[child(8, 33), child(9, 33)], &none);
        assert_eq!(nginx.pid, 7);
        assert!(nginx.notes[0].contains("8 (user 33), 9 (user 33)") && nginx.notes[0].contains("--pid 8"), "{nginx:?}");
        let many: Vec<Child> = (8..108).map(|pid| child(pid, 0)).collect();
        let many = decide(7, Some(0), &many, &none);
        assert!(many.notes[0].contains(", 23 and 84 more."), "{many:?}");
    }

    #[test]
    fn processes_are_read() {
        let own = std::process::id();
        assert_eq!(parent_of(own), Some(std::os::unix::process::parent_id()));
        assert_eq!(user_of(own), Some(rustix::process::geteuid().as_raw()));
        assert!(program_of(own).is_some());
        assert!(children_of(std::os::unix::process::parent_id()).iter().all(|child| child.pid != 0));
    }
}
