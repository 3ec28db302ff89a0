//! The program is started, and its link kept.

use crate::RunPlan;
use crate::listeners::Listeners;
use crate::seated::Seats;
use cpu::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use say::Failure;
use seats::{Ask, CHANNEL, TERMS};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Starts the program and keeps its link.
pub(crate) fn keep(plan: &RunPlan, program: &Path, library: &Path) -> Result<ExitCode, Failure> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut seats = Seats::open(&plan.terms, plan.workers.into(), &name)?;
    let (inherited, channel) = seats::pair().map_err(|why| format!("a channel: {why}"))?;
    let mut child = start(plan, program, library, &inherited)?;
    drop(inherited);
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
    let taken: Vec<usize> = seats.taken().map(|(seat, _)| seat).collect();
    fds.extend(seats.taken().map(|(_, held)| PollFd::new(held, PollFlags::IN)));
    let (link, patience) = seats.link();
    fds.extend(link.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut fds, Timespec::try_from(patience).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(why) => return Err(why.into()),
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    seats.look_after_link(Clock.now());
    let mut ended: Vec<usize> =
        taken.iter().zip(&ready[2..]).filter(|(_, ended)| **ended).map(|(seat, _)| *seat).collect();
    // Of each two things may tell.
    ended.dedup();
    ended.into_iter().for_each(|seat| seats.on_left(seat));
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
                (Ask::Link, Some(to)) => seats.on_asked_for_link(&to),
                (Ask::Refuse(epoch), _) => {
                    seats.on_refused(epoch);
                    // All workers are told, not only the one that has said so.
                    seats.look_after_link(Clock.now());
                }
                (Ask::Listening, Some(listener)) => listeners.watch(&listener)?,
                (Ask::Say(sentence), _) => say::warning(format_args!("{sentence}")),
                (Ask::Seat | Ask::Link | Ask::Listening, None) => {
                    say::warning("a question without its descriptor is not answered")
                }
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
