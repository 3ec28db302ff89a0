//! One process that the parent started.

use super::super::control::Channel;
use super::super::systemd::OWN_VARIABLES;
use super::super::{takeover, ward};
use super::quota::Quota;
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use wire::Time;

/// Tells a service manager of the process that it started, and of no other.
const MANAGERS: [&str; 2] = ["NOTIFY_SOCKET", "WATCHDOG_PID"];

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It starts.
    Coming,
    /// It serves.
    Serving,
    /// Another one serves; it ends when its connections have.
    Leaving,
}

/// See the module.
#[derive(Debug)]
pub struct Child {
    /// Its process id, which is its own until the parent has taken its end in.
    pub pid: u32,
    /// How far it has come.
    pub role: Role,
    /// How the two talk.
    pub channel: Arc<Channel>,
    /// When it must serve.
    pub deadline: Option<Time>,
    /// Nothing more is heard of it.
    pub silent: bool,
    /// Messages that were taken of it.
    heard: Quota,
}

/// Messages taken of one child in a second, at most: what it may say by itself is far
/// less, and who says more waits, as do those who write to it.
const MESSAGES: u32 = 2_048;

impl Child {
    /// Starts one from `program`, with this process's arguments, which is to
    /// follow the one whose control socket is at `take_over`. This parent takes greetings
    /// of those that follow it at `greeted_at`.
    ///
    /// # Errors
    /// If it cannot be started: a sentence for the user.
    pub fn start(program: &Path, take_over: Option<&Path>, greeted_at: Option<&Path>) -> Result<Self, String> {
        let told = |why: std::io::Error| format!("cannot start {}: {why}", program.display());
        let (ours, theirs) = Channel::pair().map_err(told)?;
        ours.refuse_descriptors();
        let mut command = Command::new(program);
        command
            .arg0(takeover::own_name())
            .args(std::env::args_os().skip(1))
            .env(ward::VARIABLE, std::process::id().to_string());
        // A terminal's Ctrl-C comes to the parent, which tells it.
        command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        MANAGERS.iter().for_each(|name| _ = command.env_remove(name));
        match greeted_at {
            Some(path) => command.env(ward::MAIN_VARIABLE, path),
            None => command.env_remove(ward::MAIN_VARIABLE),
        };
        if let Some(control) = take_over {
            command.env(takeover::VARIABLE, control);
            OWN_VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
        }
        let left = crate::left::hand_on(&mut command).map_err(told)?;
        // Waited for by the parent, with all that end.
        let child = command.spawn().map_err(told)?;
        drop(left);
        let (pid, channel) = (child.id(), Arc::new(ours));
        Ok(Self { pid, role: Role::Coming, channel, deadline: None, silent: false, heard: Quota::default() })
    }

    /// Whether one more message may be taken of it now.
    pub fn may_speak(&mut self, now: Time) -> bool {
        self.heard.take(now, MESSAGES)
    }

    /// When it is heard again, if it has said too much.
    pub fn quiet_until(&self, now: Time) -> Option<Time> {
        self.heard.full_until(now, MESSAGES).filter(|_| !self.silent)
    }

    /// Sends it a signal.
    pub fn signal(&mut self, signal: Signal) {
        // One that has ended, and was not waited for, takes no harm.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, signal));
    }
}
