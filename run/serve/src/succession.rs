//! The running process's side of a restart: it starts its successor, or is
//! asked by one, and gives it the listening sockets.
//!
//! ```text
//!            begin, or asked                 Ready
//!  Nobody ──────────────────► Coming ─────────────────► Followed
//!     ▲                         │
//!     └── crash, nonsense, ─────┘
//!         refusal, time out
//! ```

use super::control::{BATCH, Channel, ChannelError, Message, Offered, VERSION};
use super::systemd::OWN_VARIABLES;
use super::takeover;
use super::ward;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wire::Time;

/// How far it has come.
#[derive(Debug)]
pub struct Succession {
    program: PathBuf,
    timeout: Duration,
    coming: Option<Coming>,
}

#[derive(Debug)]
struct Coming {
    /// The successor, if we started it, and a descriptor that is readable
    /// once it has ended.
    child: Option<(Child, Option<OwnedFd>)>,
    channel: Option<Channel>,
    /// It said what it wants.
    greeted: bool,
    /// The process that is to be signalled in its place, as it says.
    main: Option<u32>,
    /// It was given what metrics are told by.
    has_metrics: bool,
    /// When it must serve.
    deadline: Time,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing yet.
    Pending,
    /// Process `.0` serves; [`Succession::give_way`] is next.
    Followed(u32),
    /// Nobody does but us: why.
    Failed(String),
}

impl Succession {
    /// Nobody follows. `program` is what a successor is started from.
    pub fn new(program: PathBuf, timeout: Duration) -> Self {
        Self { program, timeout, coming: None }
    }

    /// How long the next successor may take to serve.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Whether a successor is on its way.
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// Starts a successor with this process's arguments, which is to ask by
    /// the control socket at `control`.
    ///
    /// # Errors
    /// If it cannot be started; a sentence for the user.
    pub fn begin(&mut self, control: &Path, now: Time) -> Result<u32, String> {
        let mut command = Command::new(&self.program);
        command
            .arg0(takeover::own_name())
            .args(std::env::args_os().skip(1))
            .env(takeover::VARIABLE, control)
            .stdin(Stdio::null());
        for variable in OWN_VARIABLES {
            command.env_remove(variable);
        }
        let child = command.spawn().map_err(|why| format!("cannot start {}: {why}", self.program.display()))?;
        let id = child.id();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        // Without one (Linux before 5.3) its end is seen at the deadline.
        let ends = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.coming = Some(Coming {
            child: Some((child, ends)),
            channel: None,
            greeted: false,
            main: None,
            has_metrics: false,
            deadline: now + self.timeout,
        });
        Ok(id)
    }

    /// Somebody asks by the control socket.
    pub fn on_asked(&mut self, channel: Channel, now: Time) {
        let refuse = |why: &str| {
            // Whether it hears that is its own affair.
            let _ = channel.send(&Message::Refused { why: why.to_owned() }, &[]);
        };
        match &mut self.coming {
            Some(Coming { channel: Some(_), .. }) => refuse("another process is taking over"),
            Some(coming) => match &coming.child {
                Some((child, _)) if channel.peer().ok() != Some(child.id()) => refuse("a successor is being started"),
                _ => coming.channel = Some(channel),
            },
            None => {
                let deadline = now + self.timeout;
                self.coming = Some(Coming {
                    child: None,
                    channel: Some(channel),
                    greeted: false,
                    main: None,
                    has_metrics: false,
                    deadline,
                });
            }
        }
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let Some(coming) = &self.coming else { return Vec::new() };
        let ends = coming.child.as_ref().and_then(|(_, ends)| ends.as_ref());
        let ends = ends.map(|ends| PollFd::new(ends, PollFlags::IN));
        ends.into_iter().chain(coming.channel.as_ref().map(|channel| PollFd::new(channel, PollFlags::IN))).collect()
    }

    /// When to look again, if nothing happens.
    pub fn deadline(&self) -> Option<Time> {
        self.coming.as_ref().map(|coming| coming.deadline)
    }

    /// Goes on, if anything happened. `sockets` are those to be given.
    #[cfg(test)]
    pub fn step(&mut self, sockets: &[(Offered, BorrowedFd<'_>)], now: Time) -> Outcome {
        self.step_with(None, |channel| offer(channel, sockets), now)
    }

    /// Goes on, if anything happened. `give` gives the successor what it asks for; what `metrics` are told by, it is
    /// given if it takes that.
    pub fn step_with(
        &mut self,
        metrics: Option<BorrowedFd<'_>>,
        give: impl FnOnce(&Channel) -> Result<(), ChannelError>,
        now: Time,
    ) -> Outcome {
        let Some(coming) = &mut self.coming else { return Outcome::Pending };
        let failed = match coming.hear(metrics, give) {
            Ok(true) => {
                let pid = coming.channel.as_ref().and_then(|channel| channel.peer().ok());
                return Outcome::Followed(pid.unwrap_or(0));
            }
            Ok(false) => coming
                .ended()
                .or_else(|| (now >= coming.deadline).then(|| format!("did not serve within {:?}", self.timeout))),
            // It only looked whether anybody is here.
            Err(_) if !coming.greeted && coming.child.is_none() => {
                self.coming = None;
                return Outcome::Pending;
            }
            Err(why) => Some(coming.ended().unwrap_or_else(|| format!("failed: {why}"))),
        };
        match failed {
            None => Outcome::Pending,
            Some(why) => {
                self.give_up();
                Outcome::Failed(format!("the successor {why}"))
            }
        }
    }

    /// The process that is to be signalled once the successor serves: itself, or
    /// its parent.
    pub fn main_process(&self) -> Option<u32> {
        self.coming.as_ref().and_then(|coming| coming.main)
    }

    /// Whether the successor has what metrics are told by, and will say when it tells them.
    pub fn has_metrics(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| coming.has_metrics)
    }

    /// How to talk to the successor, once it has asked.
    pub fn channel(&self) -> Option<&Channel> {
        self.coming.as_ref().and_then(|coming| coming.channel.as_ref())
    }

    /// Tells the successor that everything is its own: the places of files
    /// must be free by now, for it takes them next. Returns the channel, for
    /// whoever is to show by it that this process lives.
    ///
    /// # Errors
    /// If it is gone after all.
    pub fn give_way(&mut self) -> Result<Option<Channel>, ChannelError> {
        let told = match self.coming.as_ref().and_then(|coming| coming.channel.as_ref()) {
            Some(channel) => channel.send(&Message::Yours, &[]),
            None => Err(ChannelError::Gone),
        };
        if let Err(why) = told {
            self.give_up();
            return Err(why);
        }
        // It is on its own now: nobody waits for it here.
        Ok(self.coming.take().and_then(|coming| coming.channel))
    }

    /// Ends a successor that does not serve yet.
    pub fn give_up(&mut self) {
        if let Some(Coming { child: Some((mut child, _)), .. }) = self.coming.take() {
            // Fails only if it ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Coming {
    /// Takes what the successor said. Whether it serves.
    fn hear(
        &mut self,
        exposed: Option<BorrowedFd<'_>>,
        give: impl FnOnce(&Channel) -> Result<(), ChannelError>,
    ) -> Result<bool, ChannelError> {
        let Some(channel) = &self.channel else { return Ok(false) };
        let Some(received) = channel.receive()? else { return Ok(false) };
        match received.message {
            Message::Hello { version: VERSION, pid, greets, metrics } if !self.greeted => {
                self.greeted = true;
                self.main = Some(pid);
                if let Some(at) = ward::greeted_at().filter(|_| greets) {
                    channel.send(&Message::Main { at }, &[])?;
                }
                if let Some(socket) = exposed.filter(|_| metrics) {
                    channel.send(&Message::Metrics, &[socket])?;
                    self.has_metrics = true;
                }
                give(channel)?;
                Ok(false)
            }
            Message::Hello { version, .. } if version != VERSION => {
                self.greeted = true;
                let why = format!("this process hands over by version {VERSION} of the protocol, not {version}");
                channel.send(&Message::Refused { why }, &[])?;
                Err(ChannelError::Nonsense)
            }
            Message::Ready if self.greeted => Ok(true),
            _ => Err(ChannelError::Nonsense),
        }
    }

    /// How the successor ended, if it did.
    fn ended(&mut self) -> Option<String> {
        let (child, _) = self.child.as_mut()?;
        let status = child.try_wait().ok()??;
        Some(format!("ended before it served: {status}"))
    }
}

/// Gives the sockets, a batch at a time.
///
/// # Errors
/// If the successor is gone.
pub fn offer(channel: &Channel, sockets: &[(Offered, BorrowedFd<'_>)]) -> Result<(), ChannelError> {
    let mut batches = sockets.chunks(BATCH).peekable();
    if batches.peek().is_none() {
        return channel.send(&Message::Sockets { offered: Vec::new(), more: false }, &[]);
    }
    while let Some(batch) = batches.next() {
        send_batch(channel, batch, batches.peek().is_some())?;
    }
    Ok(())
}

/// Offers listening sockets that are beside queues, which follow.
///
/// # Errors
/// As [`offer`].
pub fn offer_beside(channel: &Channel, sockets: &[(Offered, BorrowedFd<'_>)]) -> Result<(), ChannelError> {
    sockets.chunks(BATCH).try_for_each(|batch| send_batch(channel, batch, true))
}

fn send_batch(channel: &Channel, batch: &[(Offered, BorrowedFd<'_>)], more: bool) -> Result<(), ChannelError> {
    let offered = batch.iter().map(|(offer, _)| offer.clone()).collect();
    let descriptors: Vec<BorrowedFd<'_>> = batch.iter().map(|(_, socket)| *socket).collect();
    channel.send(&Message::Sockets { offered, more }, &descriptors)
}

#[cfg(test)]
mod tests;
