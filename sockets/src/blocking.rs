//! Model `blocking`: a thread that waits in accept(2), and how it is called
//! away.
//!
//! The kernel wakes threads in accept(2) first in, first out. A wait with a
//! timeout would put its thread behind the others each time, so there is none:
//! a second thread, the bell, watches what else the worker waits for, and
//! interrupts it by a signal.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use cpu::Clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use wire::Time;

/// A thread that waits in accept(2) is not called away for its attendant before
/// so long: long enough to keep the order of those that wait
/// while connections come at all.
pub(crate) const ATTEND_BLOCKED: Duration = Duration::from_millis(500);

/// How soon the bell looks again while its worker does not wait: one that it
/// wakes for is at work until then.
const LOOK: Duration = ATTEND_BLOCKED;

/// Between two signals to a thread that did not hear the first, which came
/// just before its call.
const AGAIN: Duration = Duration::from_millis(1);

/// Ignored by default, so that one which comes too late does nothing.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The bell of one worker. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct Bell {
    gate: Arc<Gate>,
    /// Has the bell look at once.
    nudge: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// What both threads know.
#[derive(Debug, Default)]
struct Gate {
    /// When the worker began to wait, 0 while it does not.
    since: AtomicU64,
    /// Until when it may.
    until: AtomicU64,
    /// When the bell looks next.
    looks: AtomicU64,
    closed: AtomicBool,
}

impl Bell {
    /// A bell for the calling thread, that also rings when `wake` is
    /// readable.
    pub(crate) fn new(wake: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let worker = hear()?;
        let gate = Arc::new(Gate::default());
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wake = wake.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let theirs = (Arc::clone(&gate), nudge.try_clone()?);
        let thread = std::thread::Builder::new()
            .name("near-bell".into())
            .spawn(move || attend(&theirs.0, theirs.1.as_fd(), wake.as_ref().map(AsFd::as_fd), worker))?;
        Ok(Self { gate, nudge, thread: Some(thread) })
    }

    /// Waits in `call`, which a signal interrupts at `until` at the latest.
    pub(crate) fn wait<R>(&self, now: Time, until: Time, call: impl FnOnce() -> R) -> R {
        self.gate.until.store(until.as_nanos(), Ordering::Relaxed);
        // Either this sees how long the bell sleeps, or the bell this.
        self.gate.since.store(now.as_nanos().max(1), Ordering::SeqCst);
        if self.gate.looks.load(Ordering::SeqCst) > until.as_nanos() {
            self.nudge();
        }
        let outcome = call();
        self.gate.since.store(0, Ordering::Release);
        outcome
    }

    fn nudge(&self) {
        // One that is full is readable, which is all that matters.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.gate.closed.store(true, Ordering::Release);
        self.nudge();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The bell's thread.
fn attend(gate: &Gate, nudge: BorrowedFd<'_>, wake: Option<BorrowedFd<'_>>, worker: libc::pid_t) {
    while !gate.closed.load(Ordering::Acquire) {
        let woken = wait(gate, nudge, wake);
        let since = gate.since.load(Ordering::Acquire);
        let until = Time::from_nanos(gate.until.load(Ordering::Relaxed));
        if since == 0 || !(woken || Clock.now() >= until) {
            if woken {
                // It is at work, and sees to it by itself.
                std::thread::sleep(AGAIN);
            }
            continue;
        }
        // A signal that comes between the worker's note and its call is lost:
        // hence until it has left.
        while gate.since.load(Ordering::Acquire) == since {
            ring(worker);
            std::thread::sleep(AGAIN);
        }
    }
}

/// Sleeps until the worker's wait is over, or a little where there is none;
/// whether `wake` is readable.
fn wait(gate: &Gate, nudge: BorrowedFd<'_>, wake: Option<BorrowedFd<'_>>) -> bool {
    let now = Clock.now();
    // Told first, so that a wait that ends sooner nudges.
    gate.looks.store(u64::MAX, Ordering::SeqCst);
    let looks = match gate.since.load(Ordering::SeqCst) {
        0 => now + LOOK,
        _ => Time::from_nanos(gate.until.load(Ordering::Relaxed)).max(now),
    };
    gate.looks.store(looks.as_nanos(), Ordering::SeqCst);
    let mut fds = [nudge, wake.unwrap_or(nudge)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // Rounded up: a wait is over when this returns.
    let span = Timespec::try_from(looks.since(now) + Duration::from_micros(1)).ok();
    let ready = poll(&mut fds, span.as_ref()).unwrap_or(0);
    if !fds[0].revents().is_empty() {
        // Nobody else reads it.
        let _ = rustix::io::read(nudge, &mut [0; 8]);
    }
    ready > 0 && wake.is_some() && !fds[1].revents().is_empty()
}

/// Has the calling thread hear the signal; returns its id.
fn hear() -> io::Result<libc::pid_t> {
    extern "C" fn heard(_signal: libc::c_int) {}
    // SAFETY: an all-zero sigaction and sigset_t are valid values, which the
    // calls below fill; the handler does nothing, so it may run at any time.
    // Without SA_RESTART a call that it interrupts returns (signal(7)).
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = heard as extern "C" fn(libc::c_int) as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(SIGNAL, &raw const action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        match libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut()) {
            0 => Ok(libc::gettid()),
            e => Err(io::Error::from_raw_os_error(e)),
        }
    }
}

fn ring(worker: libc::pid_t) {
    // SAFETY: takes numbers only. The worker lives: it joins this thread
    // before it ends.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), worker, SIGNAL);
    }
}
