//! A program in the background of a scenario.

use super::wait_for;
use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time for a program to come up, and to end when asked to, on emulated cores.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines of its end that are told of a program that failed.
const LINES: usize = 20;

/// A child process that does not outlive this value.
pub struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `command`; what it says goes to a file.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let log = PathBuf::from(format!("/tmp/said-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&log)?;
        let name = format!("{command:?}").replace('"', "");
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Self { child: child.map_err(|why| format!("{name}: {why}"))?, name, log })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has said.
    ///
    /// # Errors
    /// If the file is gone.
    pub fn said(&self) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// `why`, and the end of what the program said.
    pub fn blame(&self, why: impl core::fmt::Display) -> Failure {
        let said = self.said().unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        format!("{why}\n--- {} said:\n{end}\n---", self.name).into()
    }

    /// Waits until it has said `words`.
    ///
    /// # Errors
    /// If it does not in time, or ends.
    pub fn wait_until_said(&mut self, words: &str) -> Result<(), Failure> {
        self.wait(&format!("the words {words:?}"), |running| Ok(running.said()?.contains(words)))
    }

    /// Waits until `ready`, while it runs.
    ///
    /// # Errors
    /// If that takes too long, or it ends.
    pub fn wait(&mut self, what: &str, ready: impl FnMut(&Self) -> Result<bool, Failure>) -> Result<(), Failure> {
        self.wait_long(what, PATIENCE, ready)
    }

    /// As [`Running::wait`], for so long.
    ///
    /// # Errors
    /// As [`Running::wait`].
    pub fn wait_long(
        &mut self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut(&Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let waited = wait_for(what, limit, || {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{what}: it has ended, {status}").into());
            }
            Ok(ready(self)?.then_some(()))
        });
        waited.map_err(|why| self.blame(why))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// If it is gone.
    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Asks it to end (SIGTERM), and waits until it has; it must end well.
    /// Everything that it said.
    ///
    /// # Errors
    /// If it does not end in time, or with a failure.
    pub fn stop(mut self) -> Result<String, Failure> {
        self.signal(Signal::TERM)?;
        let ended = wait_for("the end after SIGTERM", PATIENCE, || Ok(self.child.try_wait()?));
        match ended {
            Ok(status) if status.success() => self.said(),
            Ok(status) => Err(self.blame(format!("{status} after SIGTERM"))),
            Err(why) => Err(self.blame(why)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended takes no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
