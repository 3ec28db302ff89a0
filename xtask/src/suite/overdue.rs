//! Ends a test program that waits for what does not come.
//!
//! What a test waits for, the machine decides, and how long that takes nobody knows on a
//! machine that others use: so no wait of a test has an end of its own. The suite has one
//! for each program: then it is killed with all that it started, and the tests that had not
//! ended are named. The program is told when that will be, so that a test can say before
//! what it waits for.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long one program may take where nothing else is asked for: five times what the longest
/// takes beside a busy program.
pub(super) const USUAL: Duration = Duration::from_secs(20 * 60);

/// Names the time at which the program is killed, to the program: in seconds since 1970.
pub(super) const END: &str = "NEARSIDE_TESTS_END";

/// The time in `limit` from now, as [`END`] has it.
pub(super) fn end_after(limit: Duration) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "another process is told of the time")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    (now.unwrap_or_default() + limit).as_secs()
}

/// Runs `body` while it is looked after that the process `pid` ends within `limit`.
///
/// # Returns
/// What `body` does, and whether the process had to be killed.
pub(super) fn within<T>(pid: u32, limit: Duration, body: impl FnOnce() -> T) -> (T, bool) {
    let (over, ends) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let in_time = ends.recv_timeout(limit) != Err(RecvTimeoutError::Timeout);
            // Until the pipe that they all hold is closed: some start others meanwhile.
            while !in_time && ends.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
                kill_with_descendants(pid);
            }
            !in_time
        });
        let result = body();
        drop(over);
        (result, watch.join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
    })
}

/// How often what is left of a program that hangs is killed.
const AGAIN: Duration = Duration::from_millis(200);

/// Kills the process and what descends from it, the youngest generation last: whoever is
/// killed starts nobody.
fn kill_with_descendants(pid: u32) {
    let parents = parents();
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        family.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child));
        at += 1;
    }
    // Those that were killed before and are not waited for yet take no harm.
    for pid in family.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The parent of each process (`proc_pid_stat(5)`).
fn parents() -> BTreeMap<u32, u32> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Its name may have blanks and parentheses; then state and parent follow.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    folders
        .filter_map(|folder| folder.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect()
}

/// The tests that libtest has said to take long, and that have not ended since.
#[derive(Default, Debug)]
pub(super) struct Unended(Vec<String>);

impl Unended {
    /// Reads a line that a test program printed.
    pub(super) fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some((name, _)) = rest.split_once(" has been running for over ") {
            self.0.push(name.to_owned());
        } else if let Some((name, _)) = rest.split_once(" ... ") {
            self.0.retain(|known| known != name);
        }
    }

    /// Their names.
    pub(super) fn names(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::process::{Command, Stdio};

    /// A shell whose child holds the pipe, too: that a pipe ends shows that both have.
    fn run(script: &str, limit: Duration) -> (String, bool) {
        let (mut reads, writes) = pipe().unwrap();
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(writes).spawn().unwrap();
        let mut said = String::new();
        let (_, killed) = within(child.id(), limit, || reads.read_to_string(&mut said).unwrap());
        child.wait().unwrap();
        (said, killed)
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_started() {
        let (said, killed) = run("echo begun; (sleep 100000; echo never) & wait; echo never", Duration::from_secs(1));
        assert_eq!((said.as_str(), killed), ("begun\n", true));
    }

    #[test]
    fn a_program_that_ends_is_left_alone() {
        let (said, killed) = run("echo begun; (echo and its child) & wait; echo ended", Duration::from_secs(3_600));
        assert_eq!((said.as_str(), killed), ("begun\nand its child\nended\n", false));
    }

    #[test]
    fn tests_that_have_not_ended_are_known() {
        let mut unended = Unended::default();
        for line in [
            "test slow::a has been running for over 60 seconds",
            "test slow::b has been running for over 60 seconds",
            "test quick ... ok",
            "test slow::a ... ok",
            "testing has been running for over 60 seconds",
        ] {
            unended.read(line);
        }
        assert_eq!(unended.names(), ["slow::b"]);
    }
}
