//! The program's processes: those that have the other end of the keeper's channel.

use cpu::process_stat::parent_of;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::fd::AsFd;

/// Who is of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes {
    /// The inode of the channel's end that they have inherited.
    inode: u64,
}

impl Processes {
    /// Those that inherit this end of a channel.
    pub fn of(inherited: impl AsFd) -> Result<Self, rustix::io::Errno> {
        Ok(Self { inode: rustix::fs::fstat(inherited)?.st_ino })
    }

    /// All that have it.
    fn all(self) -> Vec<i32> {
        let wanted = format!("socket:[{}]", self.inode);
        let has_it = |process: &i32| {
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            targets.any(|target| target.as_os_str() == wanted.as_str())
        };
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|process| *process != own).filter(has_it).collect()
    }

    /// Those whose parent is none of them: a daemon's first.
    fn first(self) -> Vec<i32> {
        let all = self.all();
        all.iter().copied().filter(|process| !has_parent_among(*process, &all)).collect()
    }

    /// Sends a signal to the first of them.
    pub fn signal_first(self, signal: Signal) {
        send(&self.first(), signal);
    }

    /// Sends a signal to each.
    pub fn signal_all(self, signal: Signal) {
        send(&self.all(), signal);
    }
}

fn send(processes: &[i32], signal: Signal) {
    for process in processes.iter().filter_map(|process| Pid::from_raw(*process)) {
        // It may have ended by now.
        let _ = kill_process(process, signal);
    }
}

/// Whether a process's parent is one of those.
fn has_parent_among(process: i32, all: &[i32]) -> bool {
    let parent = u32::try_from(process).ok().and_then(parent_of);
    parent.is_some_and(|parent| all.iter().any(|one| u32::try_from(*one) == Ok(parent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    /// A shell and its child have what they inherited; the first of them is the shell.
    #[test]
    fn a_daemons_first_process_is_found() {
        let (inherited, _keeper) = seats::pair().unwrap();
        let processes = Processes::of(&inherited).unwrap();
        assert!(processes.all().is_empty(), "this one does not count");
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        let alone = crate::STARTS.write();
        let mut shell = Command::new("sh").args(["-c", "cat; true"]).stdin(Stdio::piped()).spawn().unwrap();
        drop(alone);
        fcntl_setfd(&inherited, FdFlags::CLOEXEC).unwrap();
        while processes.all().len() < 2 {
            std::thread::sleep(core::time::Duration::from_millis(5));
        }
        assert_eq!(processes.first(), [i32::try_from(shell.id()).unwrap()]);
        processes.signal_all(Signal::KILL);
        assert_eq!(shell.wait().unwrap().signal(), Some(9));
    }
}
