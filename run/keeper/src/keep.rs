//! The program is started, and its link kept.

use crate::RunPlan;
use crate::listeners::Listeners;
use link::Reopened;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use say::Failure;
use seats::{Ask, CHANNEL, TERMS};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use tap::Tap;

/// Who waits for a seat, at most: more processes than that are refused one.
const MOST_WAITING: usize = 64;

/// The link, as far as it is this process's affair.
enum Kept {
    /// A queue that is given to whoever has the seat.
    Tap(Box<Tap>),
    /// The worker opens it by itself.
    ByWorker,
}

impl Kept {
    fn open(link: &str) -> Result<Self, Failure> {
        match link.split(':').next() {
            Some("tap") => {
                let config: tap::Config = link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
                let tap = Tap::open(&config).map_err(|why| why.to_string())?;
                Ok(Self::Tap(Box::new(tap)))
            }
            Some("memif") => Ok(Self::ByWorker),
            _ => Err(format!("{link}: only tap and memif links carry programs so far").into()),
        }
    }

    fn share(&self) -> io::Result<Reopened> {
        match self {
            Self::Tap(tap) => tap.share(),
            Self::ByWorker => Ok(Reopened::default()),
        }
    }
}

/// The one seat: who has it, and who waits for it.
struct Seats {
    kept: Kept,
    /// The socket of who has it: its other end closes when that process ends.
    taken: Option<OwnedFd>,
    waiting: VecDeque<OwnedFd>,
}

impl Seats {
    fn on_asked(&mut self, to: OwnedFd) {
        if self.waiting.len() >= MOST_WAITING {
            let why = "too many processes wait for a seat";
            // Who asked may be gone.
            let _ = seats::give_seat(to.as_fd(), Err(why));
            return;
        }
        self.waiting.push_back(to);
        self.give();
    }

    fn on_left(&mut self) {
        self.taken = None;
        self.give();
    }

    /// Gives the seat, if it is free, to the first of those who wait and are still there.
    fn give(&mut self) {
        while self.taken.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            match self.kept.share() {
                Ok(Reopened { text, descriptors }) => {
                    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
                    if seats::give_seat(next.as_fd(), Ok((&text, &descriptors))).is_ok() {
                        self.taken = Some(next);
                    }
                }
                Err(why) => {
                    let _ = seats::give_seat(next.as_fd(), Err(&why.to_string()));
                }
            }
        }
    }
}

/// Starts the program and keeps its link.
pub(crate) fn keep(plan: &RunPlan, program: &Path, library: &Path) -> Result<ExitCode, Failure> {
    let kept = Kept::open(&plan.terms.link)?;
    let (inherited, channel) = seats::pair().map_err(|why| format!("a channel: {why}"))?;
    let mut child = start(plan, program, library, &inherited)?;
    drop(inherited);
    let mut seats = Seats { kept, taken: None, waiting: VecDeque::new() };
    let mut listeners = Listeners::new().map_err(|why| format!("a set: {why}"))?;
    let fail = |why: io::Error| Failure::from(format!("the program's link: {why}"));
    while look_after(&channel, &mut seats, &mut listeners).map_err(fail)? {}
    // The last process that could ask is gone.
    Ok(exit_code(child.wait().map_err(fail)?))
}

/// Waits until something happens, and does what that asks for. Whether the program goes on.
fn look_after(channel: &OwnedFd, seats: &mut Seats, listeners: &mut Listeners) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(channel, PollFlags::IN)];
    let set = listeners.fd();
    fds.push(PollFd::from_borrowed_fd(set, PollFlags::IN));
    if let Some(taken) = &seats.taken {
        fds.push(PollFd::new(taken, PollFlags::IN));
    }
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(why) => return Err(why.into()),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    if ready.get(2) == Some(&true) {
        seats.on_left();
    }
    if ready[1] {
        listeners.on_ready()?;
    }
    if !ready[0] {
        return Ok(true);
    }
    match seats::receive(channel.as_fd()) {
        Ok(None) => Ok(false),
        Ok(Some(asked)) => {
            match (asked.ask, asked.descriptor) {
                (Ask::Seat, Some(to)) => seats.on_asked(to),
                (Ask::Listening, Some(listener)) => listeners.watch(&listener)?,
                (Ask::Say(sentence), _) => say::warning(format_args!("{sentence}")),
                (Ask::Seat | Ask::Listening, None) => say::warning("a question without its descriptor is not answered"),
            }
            Ok(true)
        }
        Err(why) if why.kind() == io::ErrorKind::InvalidData => {
            say::warning(format_args!("what a process of the program asks is not understood: {why}"));
            Ok(true)
        }
        Err(why) => Err(why),
    }
}

fn start(plan: &RunPlan, program: &Path, library: &Path, inherited: &OwnedFd) -> Result<Child, Failure> {
    fcntl_setfd(inherited, FdFlags::empty()).map_err(|why| format!("the channel: {why}"))?;
    let mut command = Command::new(program);
    command.args(&plan.arguments);
    // One that is there stays, behind ours.
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    command.env(CHANNEL, inherited.as_raw_fd().to_string());
    command.env(TERMS, plan.terms.to_string());
    let started = command.spawn();
    Ok(started.map_err(|why| format!("{}: {why}", program.display()))?)
}

/// A process that a signal ended has 128 more than that, as a shell says it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
