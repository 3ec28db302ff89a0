//! Commands of the user's that a test runs at the device: by the shell, for a time
//! that has a limit, with what they complain of.

use cpu::Clock;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// One that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// Of what it complains of, the end is told: as many bytes.
const TOLD: usize = 300;

/// Runs one to its end, or until the user has enough.
///
/// # Errors
/// A sentence for the user: why it failed.
pub fn run(command: &str, is_stopped: &dyn Fn() -> bool) -> Result<(), String> {
    run_for(command, LIMIT, is_stopped)
}

fn run_for(command: &str, limit: Duration, is_stopped: &dyn Fn() -> bool) -> Result<(), String> {
    let failed = |why: &dyn core::fmt::Display| format!("'{command}' {why}");
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // What it starts ends with it.
        .process_group(0)
        .spawn()
        .map_err(|why| failed(&format!("cannot be run: {why}")))?;
    let complaint = child.stderr.take();
    // Not joined where the command left somebody behind who holds the pipe open.
    let listening = thread::Builder::new().name("near-command".to_owned()).spawn(move || complaint.map(end_of));
    let began = Clock.now();
    let outcome = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ok(()),
            Ok(Some(status)) => break Err(format!("failed: {status}")),
            Err(why) => break Err(format!("cannot be waited for: {why}")),
            Ok(None) if is_stopped() => break Err("was ended".to_owned()),
            Ok(None) if Clock.now().since(began) >= limit => break Err(format!("took longer than {limit:?}")),
            Ok(None) => thread::sleep(LOOK),
        }
    };
    let Err(why) = outcome else { return Ok(()) };
    end(&mut child);
    let said = listening.ok().filter(|thread| thread.is_finished() || waited(thread));
    let said = said.and_then(|thread| thread.join().ok().flatten()).unwrap_or_default();
    match said.trim() {
        "" => Err(failed(&why)),
        said => Err(failed(&format!("{why}: {said}"))),
    }
}

/// Ends it, and all that it started and did not put aside.
fn end(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// Who has listened to the end has it a moment after that.
fn waited<T>(thread: &thread::JoinHandle<T>) -> bool {
    (0..10).any(|_| {
        thread::sleep(LOOK);
        thread.is_finished()
    })
}

/// The last that is read, in bounded memory, however much it is.
fn end_of(mut from: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let beyond = kept.len().saturating_sub(TOLD);
        kept.drain(..beyond);
    }
    // Of the terminal's own words none is left.
    String::from_utf8_lossy(&kept).chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_why() {
        let run = |command: &str| run_for(command, Duration::from_secs(60), &|| false);
        assert_eq!(run("exit 0"), Ok(()));
        let why = run("echo no such filter >&2; exit 3").expect_err("it fails");
        assert!(why.contains("exit status: 3: no such filter"), "{why}");
        // However much it says, the end is told, and it is not held up.
        let why = run("yes complaint | head -c 3000000 >&2; printf '\\033[2Jlast' >&2; exit 1").expect_err("it fails");
        assert!(why.len() < 2 * TOLD + 100 && why.ends_with(" [2Jlast"), "{why}");
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_what_it_started() {
        let file = std::env::temp_dir().join(format!("nearside-command-{}", std::process::id()));
        let command = format!("(sleep 60; echo late) & echo $! > {}; wait", file.display());
        let begun = || std::fs::read_to_string(&file).ok().and_then(|pid| pid.trim().parse::<i32>().ok());
        let why = run_for(&command, Duration::from_secs(60), &|| begun().is_some()).expect_err("it is ended");
        assert!(why.contains("was ended"), "{why}");
        let child = begun().and_then(Pid::from_raw).expect("its child");
        let gone = |_| {
            thread::sleep(LOOK);
            // One that is dead may wait for its new parent to hear of it.
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        assert!((0..500).any(gone), "what it started lives on");
        let why = run_for("sleep 60", Duration::from_millis(1), &|| false).expect_err("it takes too long");
        assert!(why.contains("took longer than"), "{why}");
        std::fs::remove_file(&file).expect("the file");
    }
}
