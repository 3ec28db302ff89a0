//! The parent: it keeps the right to open, and has given up everything else to do.
//! Signals go to it; it opens what they ask for, by the configuration, and passes
//! descriptors to the process that serves; it starts successors, takes in what has
//! ended, and tells the service manager.
//!
//! ```text
//!           Ready                     Followed, or the next one's Ready
//!  Coming ─────────► Serving ──────────────────────────────► Leaving
//!     │                 │                                       │
//!     └─ the one that serves goes on    └─ everybody stops, and so does the parent
//! ```
//!
//! It serves nobody, waits for nobody, and starts nothing that it was not asked
//! for: whoever started it is told by its end that the process which served is no
//! more, and starts both anew, or does not.

mod child;
mod followers;
mod manager;
mod opening;
mod quota;
mod traces;

use super::bell::Bell;
use super::control::{Channel, ChannelError};
use super::error_log::tell_syslog;
use super::pid_file;
use super::privileges::Decision;
use super::supervisor::restart_of;
use super::systemd;
use super::takeover::usual_control;
use super::waiting;
use super::ward::{self, FromChild, FromParent, NEIGHBOURS};
use crate::plan::{Control, ServePath, ServePlan};
use af_xdp::HostView;
use child::{Child, Role};
use core::net::IpAddr;
use core::time::Duration;
use cpu::Clock;
use driver::Kernel;
use followers::Followers;
use host::Layout;
use host::drivers::take_over_is_for;
use link::Wanted;
use manager::Manager;
use opening::Openings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};
use say::Failure;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGUSR1, SIGUSR2};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::Time;

/// How often it looks up where nothing happens.
const PULSE: Duration = Duration::from_secs(10);

/// How long the others may take to stop after the one that served has ended.
const OTHERS: Duration = Duration::from_secs(5);

/// Messages taken of one child in one look: the others have their turn then.
const MESSAGES: usize = 64;

/// Messages taken of one that has ended: as many as a socket holds by default, and more
/// than the ones that matter. Its end of the channel may be somebody else's by now.
const LAST_MESSAGES: usize = 1_024;

/// Told to stop so often, whoever is left is ended.
const ENOUGH: usize = 3;

/// Starts the process that serves `plan`, and stays until it has ended. Returns
/// how that ended.
///
/// # Errors
/// If it cannot be started.
pub fn run(plan: &ServePlan, decision: Decision) -> Result<ExitCode, Failure> {
    // Asked now: once the file is replaced, the kernel tells another name.
    let program = programs::own()?;
    let queues = match &plan.path {
        ServePath::Link { host, .. } => Layout::new(host)?.ports.iter().map(|port| port.queues).collect(),
        ServePath::Kernel(_) => Vec::new(),
    };
    let identity = decision.confinement.and_then(|confinement| confinement.identity);
    let bell = Arc::new(Bell::new()?);
    bell.on(&[SIGCHLD])?;
    let counted = |signals: &[(i32, usize)]| {
        let count = host::count_signals_as(signals)?;
        let numbers: Vec<i32> = signals.iter().map(|(signal, _)| *signal).collect();
        bell.on(&numbers)?;
        Ok::<_, std::io::Error>(Counted { count, seen: 0 })
    };
    let mut parent = Parent {
        stops: counted(plan.signals.stops())?,
        reloads: counted(&[(SIGHUP, 1)])?,
        reopens: counted(&[(SIGUSR1, 1)])?,
        restarts: counted(&[(SIGUSR2, 1)])?,
        openings: Openings::new(identity, Arc::clone(&bell)),
        plan: plan.clone(),
        program,
        queues,
        bell,
        children: Vec::new(),
        manager: Manager::default(),
        followers: Followers::default(),
        greeting: None,
        view: None,
        asked: (Time::ZERO, 0),
        stopping: false,
        end_at: None,
        outcome: None,
    };
    waiting::started();
    parent.begin()?;
    while parent.stays(Clock.now()) {
        let now = Clock.now();
        parent.on_ends(now);
        parent.on_children(now);
        parent.on_signals(now);
        parent.on_time(now);
        parent.tell_manager(now);
        if parent.stays(now) {
            parent.wait(now)?;
        }
    }
    parent.finish();
    Ok(ExitCode::from(parent.outcome.unwrap_or(0)))
}

struct Counted {
    count: Arc<AtomicUsize>,
    seen: usize,
}

impl Counted {
    fn now(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether it was asked for since the last look.
    fn is_new(&mut self) -> bool {
        let now = self.now();
        core::mem::replace(&mut self.seen, now) != now
    }
}

struct Parent {
    /// What is in force, as far as the parent opens it.
    plan: ServePlan,
    program: PathBuf,
    /// How many queues each link has.
    queues: Vec<u16>,
    bell: Arc<Bell>,
    stops: Counted,
    reloads: Counted,
    reopens: Counted,
    restarts: Counted,
    openings: Openings,
    children: Vec<Child>,
    /// What the service manager is told of what children say.
    manager: Manager,
    /// Who follows this parent, and was not started by it.
    followers: Followers,
    /// The parent that this one follows was greeted by this, which shows that this
    /// process lives.
    greeting: Option<Channel>,
    /// The interface whose neighbours are asked for.
    view: Option<HostView>,
    /// How many were, in the second that began then.
    asked: (Time, u32),
    stopping: bool,
    /// When whoever is left is ended.
    end_at: Option<Time>,
    /// How it is to end: as the one that served, once that has ended.
    outcome: Option<u8>,
}

impl Parent {
    /// Starts the first child.
    fn begin(&mut self) -> Result<(), Failure> {
        // Where nobody is told who is to be signalled, nobody need prove it.
        if say::manager::is_there() {
            match Followers::new() {
                Ok(followers) => self.followers = followers,
                Err(why) => say::warning(format_args!(
                    "the service manager will not be told of a successor that is started by hand: {why}"
                )),
            }
        }
        let first = Child::start(&self.program, None, self.followers.path().as_deref())?;
        self.children.push(first);
        Ok(())
    }

    /// Whether anybody is left to look after.
    fn stays(&self, now: Time) -> bool {
        !self.children.is_empty() || !self.stopping && self.followers.waits_until(now).is_some()
    }

    fn serving(&self) -> Option<&Child> {
        self.children.iter().find(|child| child.role == Role::Serving)
    }

    /// Takes in what has ended: children, and as the first process of a container
    /// whoever has no parent any more.
    fn on_ends(&mut self, now: Time) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            let Some(at) = self.children.iter().position(|child| child.pid == pid) else { continue };
            // What it said last decides what its end means: one that another has
            // followed ends at once where it has no connections, and both may be
            // there at one look.
            let _ = self.hear(at, LAST_MESSAGES, now);
            let child = self.children.remove(at);
            self.on_end(&child, status, now);
            traces::remove_of(&self.plan, child.pid);
        }
    }

    fn on_end(&mut self, child: &Child, status: WaitStatus, now: Time) {
        let pid = child.pid;
        match (child.role, self.serving().map(|serving| serving.pid)) {
            (Role::Coming, Some(serving)) => {
                let said = format!("the successor ended before it served: {}", told(status));
                say::error(format_args!("{said}; process {serving} serves on"));
                self.manager.supersede();
                systemd::ready(&format!("serving; {said}"));
            }
            (Role::Leaving, _) if status.exit_status() == Some(0) => {}
            (Role::Leaving, _) => say::warning(format_args!("process {pid}, which served before, {}", ended(status))),
            // It would have followed one that has ended meanwhile, as it was asked to.
            (Role::Coming, None) if self.outcome.is_some() => {
                say::error(format_args!("the successor ended before it served: {}", told(status)));
            }
            (Role::Coming | Role::Serving, _) => {
                self.outcome = Some(code(status));
                if status.exit_status().is_none() {
                    say::error(format_args!("process {pid}, which served, {}", ended(status)));
                }
                if !self.stopping && !self.children.is_empty() {
                    self.stop(2);
                    self.end_at = Some(now + OTHERS);
                }
            }
        }
    }

    /// What children say.
    fn on_children(&mut self, now: Time) {
        for at in 0..self.children.len() {
            let Err(why) = self.hear(at, MESSAGES, now) else { continue };
            let child = &mut self.children[at];
            child.silent = true;
            // Of one that is gone the end is seen next.
            if !matches!(why, ChannelError::Gone) {
                say::error(format_args!("process {} is ended, for it cannot be understood: {why}", child.pid));
                child.signal(Signal::KILL);
            }
        }
    }

    /// Takes what one child has said, and at most so many messages of it.
    fn hear(&mut self, at: usize, most: usize, now: Time) -> Result<(), ChannelError> {
        for _ in 0..most {
            let child = &mut self.children[at];
            if !child.may_speak(now) {
                break;
            }
            match child.channel.hear_words::<FromChild>()? {
                None => break,
                Some(said) => self.on_said(at, said, now),
            }
        }
        Ok(())
    }

    /// Tells the service manager what waits, as far as there is room.
    fn tell_manager(&mut self, now: Time) {
        if let Some(pid) = self.followers.look(now) {
            self.manager.followed(pid);
        }
        if let Some(pid) = self.followers.take_unproven(now) {
            say::warning(format_args!(
                "process {pid}, which is said to serve now, has not said so itself: the service manager is not told"
            ));
        }
        let every = systemd::watchdog();
        while let Some(told) = self.manager.next(now, every) {
            told.tell();
        }
    }

    fn on_said(&mut self, at: usize, said: FromChild, now: Time) {
        let role = self.children[at].role;
        match (said, role) {
            (FromChild::Ready { status }, Role::Coming) => {
                if let Some(plan) = self.openings.take_plan() {
                    self.adopt(*plan);
                }
                self.on_serving(at);
                self.manager.ready(&status);
            }
            (FromChild::Ready { status }, Role::Serving) => self.manager.ready(&status),
            (FromChild::Reloading { status }, Role::Serving) => self.manager.reloading(&status),
            (FromChild::Stopping, Role::Serving) => self.manager.stopping(),
            (FromChild::Alive, Role::Serving) => self.manager.alive(),
            (FromChild::Follows { at: path }, Role::Coming) => self.greet(&path),
            (FromChild::Followed { pid }, Role::Serving) => {
                self.children[at].role = Role::Leaving;
                // Of a child of this parent the next to say that it is ready tells. Else
                // somebody started it by hand, with a parent of its own or none.
                let ours = pid == std::process::id() || self.children.iter().any(|child| child.pid == pid);
                if !ours && say::manager::is_there() {
                    self.followers.on_claim(pid, now);
                }
            }
            (FromChild::Reloaded { well }, Role::Serving) => {
                if let Some(plan) = self.openings.take_plan().filter(|_| well) {
                    self.adopt(*plan);
                }
            }
            (FromChild::Lost { index, queue, mtu, mac }, Role::Serving) => {
                let (ServePath::Link { host, .. }, Some(queues)) = (&self.plan.path, self.queues.get(index)) else {
                    return;
                };
                if queue < *queues {
                    let channel = &self.children[at].channel;
                    self.openings.link(channel, host, (index, queue, *queues), Wanted { mtu, mac }, now);
                }
            }
            (FromChild::Neighbour { ip }, Role::Serving | Role::Leaving) => self.ask_neighbour(ip, now),
            // Of the moment, and the moment is over.
            _ => {}
        }
    }

    /// The process that a child follows has a parent, which is told by this one that it
    /// is to be signalled from then on.
    fn greet(&mut self, path: &str) {
        match ward::greeting_to(path.as_ref()) {
            Ok(channel) => self.greeting = Some(channel),
            Err(why) => say::warning(format_args!(
                "{path}: {why}: the service manager goes on with the process that is followed"
            )),
        }
    }

    /// This is in force, the parent's own error log included.
    fn adopt(&mut self, plan: ServePlan) {
        let now = core::mem::replace(&mut self.plan, plan);
        if now.error_log.file != self.plan.error_log.file {
            self.openings.reopen_error_log(&self.plan);
        }
        say::no_less_than(self.plan.error_log.level);
        if now.error_log.syslog != self.plan.error_log.syslog {
            tell_syslog(&self.plan);
        }
    }

    fn on_serving(&mut self, at: usize) {
        for child in self.children.iter_mut().filter(|child| child.role == Role::Serving) {
            child.role = Role::Leaving;
        }
        let child = &mut self.children[at];
        (child.role, child.deadline) = (Role::Serving, None);
        if let Some(path) = &self.plan.pid_file
            && let Err(why) = pid_file::write(path)
        {
            say::error(format_args!("cannot write {}: {why}", path.display()));
        }
    }

    fn ask_neighbour(&mut self, ip: IpAddr, now: Time) {
        let ServePath::Link { host, .. } = &self.plan.path else { return };
        let Some(Kernel::Beside(interface)) = host.links.first().map(|link| link.driver.kernel()) else { return };
        if !host.uses_host_addresses() || !is_neighbour(ip) {
            return;
        }
        if now.since(self.asked.0) >= Duration::from_secs(1) {
            self.asked = (now, 0);
        }
        self.asked.1 += 1;
        if self.asked.1 > NEIGHBOURS {
            return;
        }
        if self.view.is_none() {
            self.view = HostView::open(interface).ok();
        }
        if let Some(view) = &mut self.view {
            view.ask(ip);
            // The child hears what comes of it by a socket of its own.
            while view.poll().is_some() {}
        }
    }

    fn on_signals(&mut self, now: Time) {
        if self.stops.is_new() {
            if !self.stopping {
                self.manager.supersede();
                systemd::stopping();
            }
            self.stopping = true;
            self.stop(self.stops.now());
        }
        if self.stopping {
            return;
        }
        // What cannot be begun yet is asked for still: a successor, before the first child has said that it
        // serves, though its clients may know of that already.
        let is_first_awaited = self.serving().is_none() && restart_of(&self.plan).is_some();
        if !is_first_awaited && (self.restarts.is_new() || self.openings.wants_successor()) {
            self.restart(now);
        }
        // One after the other: what a successor was started for is in force when that serves, and what is asked for
        // meanwhile is looked at then.
        if self.openings.is_busy() || self.children.iter().any(|child| child.role == Role::Coming) {
            return;
        }
        let Some(serving) = self.serving() else { return };
        let channel = Arc::clone(&serving.channel);
        if self.reloads.is_new() {
            self.openings.reload(&channel, &self.plan);
        } else if self.reopens.is_new() {
            self.openings.reopen(&channel, &self.plan);
        }
    }

    /// Has all children stop; what is told by a channel that is full is told by a
    /// signal.
    fn stop(&mut self, times: usize) {
        let serves = self.serving().is_some();
        for child in &mut self.children {
            if times >= ENOUGH || child.role == Role::Coming && serves {
                child.signal(Signal::KILL);
            } else if child.channel.send(&FromParent::Stop { times }, &[]).is_err() {
                child.signal(Signal::TERM);
            }
        }
    }

    /// SIGUSR2: a successor is started, which asks the one that serves.
    fn restart(&mut self, now: Time) {
        let elsewhere = format!("{}, without --capture and faults", take_over_is_for());
        let refused = match (restart_of(&self.plan), self.serving().map(|serving| serving.pid)) {
            (None, _) => elsewhere.as_str(),
            (Some(_), None) => "none serves yet",
            (Some(_), Some(_)) if self.children.iter().any(|child| child.role == Role::Coming) => {
                "a successor is on its way"
            }
            (Some(restart), Some(serving)) => {
                let control = match &restart.control {
                    Control::Off => Ok(None),
                    Control::At(path) => Ok(Some(path.clone())),
                    Control::Usual => usual_control(serving).map(Some),
                };
                match control {
                    Ok(Some(control)) => {
                        self.manager.supersede();
                        systemd::reloading("starting a successor");
                        match Child::start(&self.program, Some(&control), self.followers.path().as_deref()) {
                            Ok(mut child) => {
                                say::info(format_args!("starting a successor: process {}", child.pid));
                                child.deadline = Some(now + restart.timeout);
                                self.children.push(child);
                            }
                            Err(why) => {
                                say::error(format_args!("{why}; process {serving} serves on"));
                                systemd::ready(&format!("serving; {why}"));
                            }
                        }
                        return;
                    }
                    Ok(None) => "there is no control socket (--control off)",
                    Err(_) => "there is no folder for control sockets",
                }
            }
        };
        say::warning(format_args!("no successor is started: {refused}"));
    }

    fn on_time(&mut self, now: Time) {
        let serves = self.serving().is_some();
        for child in &mut self.children {
            // One that has taken over by now is not ended: nobody else serves.
            if serves && child.deadline.is_some_and(|deadline| now >= deadline) {
                say::error(format_args!("the successor, process {}, did not serve in time", child.pid));
                child.deadline = None;
                child.signal(Signal::KILL);
            }
        }
        if self.end_at.take_if(|at| now >= *at).is_some() {
            self.children.iter_mut().for_each(|child| child.signal(Signal::KILL));
        }
    }

    /// Sleeps until something happens.
    fn wait(&self, now: Time) -> Result<(), Failure> {
        let hears = self.bell.hears();
        let mut fds = vec![PollFd::new(&hears, PollFlags::IN)];
        let channels = self.children.iter().filter(|child| !child.silent && child.quiet_until(now).is_none());
        fds.extend(channels.map(|child| PollFd::new(&*child.channel, PollFlags::IN)));
        self.followers.poll_fds(&mut fds, now);
        let own = [self.end_at, self.manager.room_at(now), self.followers.waits_until(now)];
        let quiet = self.children.iter().map(|child| child.quiet_until(now));
        let times = self.children.iter().map(|child| child.deadline).chain(own).chain(quiet).flatten();
        let until = times.filter(|time| *time > now).fold(now + PULSE, Time::min);
        // Rounded up: a deadline is over when this returns.
        let span = until.since(now) + Duration::from_micros(50);
        match poll(&mut fds, Some(&Timespec::try_from(span)?)) {
            Ok(_) | Err(Errno::INTR) => self.bell.heard(),
            Err(why) => return Err(format!("cannot wait (poll): {why}").into()),
        }
        Ok(())
    }

    /// All have ended: what they could not remove is removed.
    fn finish(&self) {
        if let Some(path) = &self.plan.pid_file {
            pid_file::remove(path);
        }
        traces::remove(&self.plan);
    }
}

/// Whether this can be somebody's own address on a link: no other is asked for.
const fn is_neighbour(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast()) && ip.octets()[0] != 0
        }
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()),
    }
}

fn told(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status: {code}"),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "for no reason that the kernel tells".to_owned(),
    }
}

fn ended(status: WaitStatus) -> String {
    format!("has ended ({})", told(status))
}

/// As a shell has it: that of the process, or 128 and the signal's number.
fn code(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or(0),
    };
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_neighbour_is_asked_for() {
        for text in ["192.0.2.7", "10.255.255.255", "fe80::1", "2001:db8::1"] {
            assert!(is_neighbour(text.parse().unwrap()), "{text}");
        }
        for text in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1"] {
            assert!(!is_neighbour(text.parse().unwrap()), "{text}");
        }
    }
}
