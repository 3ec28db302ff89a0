//! The program is started, and its link kept.

use crate::RunPlan;
use crate::listeners::Listeners;
use crate::orders::{Order, Orders};
use crate::processes::Processes;
use crate::seated::{Seats, descriptors};
use core::time::Duration;
use cpu::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Resource, Signal, WaitOptions, getrlimit, kill_process, wait};
use say::Failure;
use say::manager::{self, NotifyState};
use seats::{Ask, CHANNEL, ENDS_LOST, TERMS, Terms};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Time;

/// How long the program's last processes have, after it, to send what their peers have not taken. On
/// the kernel's sockets that is the kernel's affair, which stays.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// And how long to reset them after that.
const LAST_RESETS: Duration = Duration::from_secs(2);

/// More questions than a channel holds at once (`net.core.wmem_default`), so that all that was asked
/// before something happened is answered, and who asks without end keeps nobody else waiting.
const MOST_ASKED: usize = 1_024;

/// Kinds of sentences that are said once: there are no more calls than these.
const MOST_KINDS: usize = 256;

/// When the operator hears that it is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts the program and keeps its link.
pub(crate) fn keep(plan: &RunPlan, program: &Path, library: &Path) -> Result<ExitCode, Failure> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let too_long = watch_file_sizes().map_err(|why| format!("the signals: {why}"))?;
    let seats = Seats::open(&plan.terms, plan.workers.into(), &name).map_err(|why| {
        if too_long.load(Ordering::Relaxed) {
            let hint =
                "memory that processes share counts as a file, and this process may write none so long (ulimit -f)";
            return Failure::from(format!("{why}: {hint}"));
        }
        let (may, needed) = (getrlimit(Resource::Nofile).current, descriptors(plan.workers.into()));
        match may.filter(|may| *may < needed) {
            Some(may) => Failure::from(format!("{why}: it may have {may} descriptors, and needs {needed} (ulimit -n)")),
            None => why,
        }
    })?;
    let orders = Orders::new().map_err(|why| format!("the signals: {why}"))?;
    let listeners = Listeners::new().map_err(|why| format!("a set: {why}"))?;
    let (inherited, channel) = seats::pair().map_err(|why| format!("a channel: {why}"))?;
    let processes = Processes::of(&inherited).map_err(|why| format!("a channel: {why}"))?;
    let mut command = Command::new(program);
    command.args(&plan.arguments);
    let started = on_our_stack(command, &plan.terms, library, &inherited)?.spawn();
    let child = started.map_err(|why| format!("{}: {why}", program.display()))?;
    drop(inherited);
    let mut keeper = Keeper {
        seats,
        orders,
        listeners,
        channel: Some(channel),
        processes,
        child: Started::new(child),
        ended: None,
        undertaker: None,
        service: Service::Starts,
        said: HashSet::new(),
        plan,
        library,
    };
    let fail = |why: io::Error| Failure::from(format!("the program's link: {why}"));
    while keeper.look_after().map_err(fail)? {}
    Ok(exit_code(keeper.child.wait().map_err(fail)?))
}

/// How far the end of the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// Its last processes send what their peers have not taken, since then.
    Waits(Time),
    /// The same, and the operator knows.
    WaitsLong(Time),
    /// They were told to reset them, then.
    Resets(Time),
}

/// A process that the keeper has started and asks for by name, beside others whose parent it is.
struct Started {
    process: Child,
    /// How it has ended, where that was taken in among other ends.
    ended: Option<ExitStatus>,
}

impl Started {
    const fn new(process: Child) -> Self {
        Self { process, ended: None }
    }

    /// How it has ended, if it has.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().ok().flatten();
        }
        self.ended
    }

    /// The same, once it has.
    fn wait(&mut self) -> io::Result<ExitStatus> {
        match self.ended {
            Some(status) => Ok(status),
            None => self.process.wait(),
        }
    }
}

/// A process of the keeper's that ends what a killed one of the program's has left.
struct Undertaker {
    channel: OwnedFd,
    process: Started,
}

/// What a service manager knows of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Service {
    /// Nothing yet.
    Starts,
    /// One of its processes has listened on our stack.
    Listens,
    /// One had a seat after that, so that its clients are served.
    Serves,
    /// It has ended.
    Ends,
}

struct Keeper<'a> {
    seats: Seats,
    orders: Orders,
    listeners: Listeners,
    /// None: nobody of the program is there any more who could ask.
    channel: Option<OwnedFd>,
    processes: Processes,
    /// The process that was started.
    child: Started,
    ended: Option<Ended>,
    undertaker: Option<Undertaker>,
    service: Service,
    /// What was said once.
    said: HashSet<String>,
    plan: &'a RunPlan,
    library: &'a Path,
}

impl Keeper<'_> {
    /// Waits until something happens, and does what that asks for. Whether there is more to do.
    fn look_after(&mut self) -> io::Result<bool> {
        let now = Clock.now();
        let Self { seats, listeners, orders, channel, undertaker, .. } = self;
        let of_undertaker = undertaker.as_ref().map(|undertaker| &undertaker.channel);
        let asking: Vec<&OwnedFd> = channel.iter().chain(of_undertaker).collect();
        let first_asking = 2;
        let first_seat = first_asking + asking.len();
        let mut fds = vec![PollFd::from_borrowed_fd(orders.fd(), PollFlags::IN)];
        fds.push(PollFd::from_borrowed_fd(listeners.fd(), PollFlags::IN));
        fds.extend(asking.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)));
        fds.extend(seats.signs().map(|sign| PollFd::new(sign, PollFlags::IN)));
        let (link, patience) = seats.link();
        fds.extend(link.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let lost = if undertaker.is_none() { seats.lost_due() } else { Time::MAX };
        let ended = self.ended.filter(|_| channel.is_none()).map_or(Time::MAX, Ended::due);
        let due = seats.due().min(lost).min(ended);
        let patience = patience.min(due.since(now));
        match poll(&mut fds, Timespec::try_from(patience).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let is_asked = channel.is_some() && ready[first_asking];
        let is_undertaker = of_undertaker.is_some() && ready[first_seat - 1];
        let now = Clock.now();
        self.seats.look_after_link(now);
        if is_asked {
            let channel = self.channel.take();
            self.channel = channel.filter(|channel| self.answer_all(channel, now));
        }
        if is_undertaker && let Some(Undertaker { channel, mut process }) = self.undertaker.take() {
            if self.answer_all(&channel, now) {
                self.undertaker = Some(Undertaker { channel, process });
            } else {
                if !process.wait().is_ok_and(|status| status.success()) {
                    say::warning("peers of a process that was killed may not have heard of it");
                    self.seats.forget_lost();
                }
            }
        }
        // What a process asked before its end has been answered.
        self.seats.on_ends(now);
        self.seats.on_time(now);
        if ready[0] {
            self.obey();
        }
        if ready[1] {
            self.listeners.on_ready()?;
        }
        if self.undertaker.is_none() && self.seats.has_lost(now) {
            self.start_undertaker();
        }
        self.take_in_ends();
        let goes_on = self.goes_on(now);
        self.tell_manager(goes_on);
        Ok(goes_on)
    }

    /// Takes in all that have ended whose parent this is: what was started, and, as the first process of a
    /// container, those whose own parent is gone. Seats have heard of it by then.
    fn take_in_ends(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let status = ExitStatus::from_raw(status.as_raw());
            let undertaker = self.undertaker.as_mut().map(|undertaker| &mut undertaker.process);
            let is_it = |own: &&mut Started| i32::try_from(own.process.id()) == Ok(pid.as_raw_pid());
            if let Some(own) = undertaker.into_iter().chain([&mut self.child]).find(is_it) {
                own.ended = Some(status);
            }
        }
    }

    /// Tells the service manager when clients of the program are served, and when it has ended.
    fn tell_manager(&mut self, goes_on: bool) {
        if self.service == Service::Listens && self.seats.has_workers() {
            self.service = Service::Serves;
            manager::tell(&[NotifyState::Ready, NotifyState::Status("the program serves on our stack")]);
        }
        let is_ended = self.ended.is_some() && self.channel.is_none() || !goes_on;
        if is_ended && self.service != Service::Ends {
            self.service = Service::Ends;
            let status = if goes_on { "the program has ended; its peers take what it has written" } else { "ended" };
            manager::tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
        }
    }

    /// Takes all that was asked on a channel so far. Whether anybody has its other end.
    fn answer_all(&mut self, channel: &OwnedFd, now: Time) -> bool {
        let is_asked = || {
            let mut fds = [PollFd::new(channel, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        for _ in 0..MOST_ASKED {
            if !is_asked() {
                break;
            }
            if !self.answer(channel, now) {
                return false;
            }
        }
        true
    }

    /// Takes what is asked next. Whether anybody has the channel's other end.
    fn answer(&mut self, channel: &OwnedFd, now: Time) -> bool {
        match seats::receive(channel.as_fd()) {
            Ok(None) => return false,
            Ok(Some(asked)) => match (asked.ask, asked.descriptor) {
                (Ask::Seat, Some(to)) => self.seats.on_asked(to, now),
                (Ask::Link, Some(to)) => self.seats.on_asked_for_link(&to),
                (Ask::Heir(seat), Some(to)) => self.seats.on_heir(seat, to),
                (Ask::Refuse(epoch), _) => {
                    self.seats.on_refused(epoch);
                    // All workers are told, not only the one that has said so.
                    self.seats.look_after_link(now);
                }
                (Ask::InTheWay(seat), _) => self.seats.on_in_the_way(seat),
                (Ask::Listening, Some(listener)) => {
                    if self.service == Service::Starts {
                        self.service = Service::Listens;
                    }
                    if let Err(why) = self.listeners.watch(&listener) {
                        say::warning(format_args!("who connects to a listener at this host is not reset: {why}"));
                    }
                }
                (Ask::Say(sentence), _) => say::warning(format_args!("{sentence}")),
                (Ask::SayOnce(kind, sentence), _) => {
                    if self.said.len() < MOST_KINDS && self.said.insert(kind) {
                        say::warning(format_args!("{sentence}"));
                    }
                }
                (Ask::Seat | Ask::Link | Ask::Listening | Ask::Heir(_), None) => {
                    say::warning("a question without its descriptor is not answered")
                }
            },
            Err(why) => {
                say::warning(format_args!("what a process of the program asks is not understood: {why}"));
                return why.kind() == io::ErrorKind::InvalidData;
            }
        }
        true
    }

    /// Does what signals ask for.
    fn obey(&mut self) {
        for order in self.orders.take(Clock.now()) {
            let is_there = self.child.end().is_none();
            match order {
                Order::PassOn(signal) if is_there => {
                    if let Some(child) = i32::try_from(self.child.process.id()).ok().and_then(Pid::from_raw) {
                        // It may have ended by now.
                        let _ = kill_process(child, signal);
                    }
                }
                // A daemon, or what a shell has left.
                Order::PassOn(signal) => self.processes.signal_first(signal),
                Order::EndAtOnce => {
                    if is_there {
                        // It may have ended by now.
                        let _ = self.child.process.kill();
                    }
                    self.processes.signal_all(Signal::KILL);
                }
            }
            if self.channel.is_none() || order == Order::EndAtOnce {
                // Those that wait for their peers.
                self.seats.end_heirs(Signal::TERM);
                self.ended = Some(Ended::Resets(Clock.now()));
            }
        }
    }

    /// Starts a process that ends what others have left, with the same library.
    fn start_undertaker(&mut self) {
        let started = seats::pair().map_err(Failure::from).and_then(|(inherited, channel)| {
            let mut command = Command::new("/proc/self/exe");
            // Without the library it comes to its own arguments, which fail.
            command.env(ENDS_LOST, "1").arg("run");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut command = on_our_stack(command, &self.plan.terms, self.library, &inherited)?;
            let process = command.spawn().map_err(Failure::from)?;
            Ok(Undertaker { channel, process: Started::new(process) })
        });
        match started {
            Ok(undertaker) => self.undertaker = Some(undertaker),
            Err(why) => {
                say::warning(format_args!("peers of a process that was killed are not reset: {why}"));
                self.seats.forget_lost();
            }
        }
    }

    /// Whether the keeper goes on, once nobody of the program is left who could ask.
    fn goes_on(&mut self, now: Time) -> bool {
        // The end of a process is seen by its seat after the channel's.
        let is_busy = self.channel.is_some() || self.undertaker.is_some() || self.seats.has_workers();
        if is_busy || self.seats.has_lost(Time::MAX) {
            return true;
        }
        let left = self.seats.heirs();
        if left == 0 {
            return false;
        }
        match self.ended {
            None => self.ended = Some(Ended::Waits(now)),
            Some(Ended::Waits(since)) if now.since(since) >= PATIENCE => {
                say::warning(format_args!(
                    "the program has ended, and peers of {left} of its processes have not taken all that was written: \
                     they have {} s; a signal ends this at once",
                    LAST_WORDS.as_secs()
                ));
                self.ended = Some(Ended::WaitsLong(since));
            }
            Some(Ended::WaitsLong(since)) if now.since(since) >= LAST_WORDS => {
                say::warning("peers that have not taken all that was written are reset");
                self.seats.end_heirs(Signal::TERM);
                self.ended = Some(Ended::Resets(now));
            }
            Some(Ended::Resets(since)) if now.since(since) >= LAST_RESETS => {
                self.seats.end_heirs(Signal::KILL);
                return false;
            }
            Some(_) => {}
        }
        true
    }
}

impl Ended {
    /// When it goes a step further.
    fn due(self) -> Time {
        match self {
            Self::Waits(since) => since + PATIENCE,
            Self::WaitsLong(since) => since + LAST_WORDS,
            Self::Resets(since) => since + LAST_RESETS,
        }
    }
}

/// A write beyond the longest file that this process may write (setrlimit(2)) fails from now on, and does not end it
/// without a word. Whether there was one. The program has the signal's default again, for only handlers end where
/// another program begins.
fn watch_file_sizes() -> io::Result<Arc<AtomicBool>> {
    let came = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::clone(&came))?;
    Ok(came)
}

/// A command with the library preloaded, and with what it needs of the keeper.
fn on_our_stack(mut command: Command, terms: &Terms, library: &Path, inherited: &OwnedFd) -> Result<Command, Failure> {
    fcntl_setfd(inherited, FdFlags::empty()).map_err(|why| format!("the channel: {why}"))?;
    // One that is there stays, behind ours.
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    command.env(CHANNEL, inherited.as_raw_fd().to_string());
    command.env(TERMS, terms.to_string());
    Ok(command)
}

/// A process that a signal ended has 128 more than that, as a shell says it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
