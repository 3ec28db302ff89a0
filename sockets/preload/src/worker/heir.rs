//! A worker ends: a child of it sends what its peers have not taken, as the kernel does where a
//! process ends whose sockets are the kernel's.
//!
//! All that is known of connections lies in the worker's own memory, of which a child of fork(2) has a
//! copy. So the child goes on with the worker's seat, with nothing else of the program's, until its
//! peers have all or the time is up, and no peer and no parent notices the change:
//!
//! ```text
//! exit:   close all ─► wait a moment ─► fork ─► the process ends
//!                                        └────► the child sends, and ends
//! execve: fork ─► the process becomes another program, which closes a pipe
//!          └────► the child sees that, closes all, sends, and ends
//! ```
//!
//! Before the process goes on, the keeper knows whose its seat is when it is gone.

use super::{SeatedWorker, place, say, set_heir};
use crate::figures::losses;
use crate::kernel::{self, call, int};
use crate::marks::{Mark, close_between, set_mark};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::LinkState;
use sharing::LONGEST_PARKED;
use std::io;
use std::os::fd::BorrowedFd;

/// A process that ends waits so long for its peers: most acknowledge within a round trip, and no child
/// is needed.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// And so long where there can be no child.
const WITHOUT_HEIR: Duration = Duration::from_secs(1);

/// How long the child waits for peers that do not take what was written; then they are reset (Linux:
/// `tcp_fin_timeout`).
const HEIR_LIVES: Duration = Duration::from_secs(60);

/// How long a handshake is waited for whose listener is closed: a peer that is there has answered by then, or asked
/// again. Those that are not there, as in a flood of SYNs, hold no seat for longer.
const HANDSHAKES: Duration = LONGEST_PARKED;

/// Seconds after which a child ends whatever holds it up.
const HEIR_ENDS: u32 = 70;

/// How long a process waits until the keeper knows of its child, or is gone: a busy machine may have
/// both wait for their turns.
const TAKES_OVER: c_int = 10_000;

/// The child of a process, as its parent has it.
#[derive(Debug)]
pub struct Heir {
    /// Its child sees this close.
    orders: c_int,
}

/// When a child goes on with the seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// At once: the process ends.
    Now,
    /// When the process is another program.
    WithNextProgram,
}

/// SIGTERM: what is left is not waited for.
static ENDS_NOW: AtomicBool = AtomicBool::new(false);

impl SeatedWorker {
    /// The process ends: what was written leaves. What its peers do not take at once is a child's to
    /// send, and where there can be none the process itself waits a little, and says what it lost.
    pub fn leave(&mut self) {
        self.close_all();
        self.tell_losses();
        let untaken = self.drain(LAST_WORDS);
        if untaken > 0 && self.is_peer_gone() {
            say(&format!(
                "process {} ends, and {untaken} connections are over whose peers did not take all that was written: \
                 nobody is at the link's other end",
                std::process::id()
            ));
        } else if untaken > 0 {
            if self.make_heir(When::Now).is_some() {
                return;
            }
            let lost = self.drain(WITHOUT_HEIR);
            if lost > 0 {
                say(&format!(
                    "process {} ends, and {lost} connections whose peers did not take all that was written are reset: \
                     it could not leave them to a child",
                    std::process::id()
                ));
                self.reset_all();
            }
        }
        self.silo.link.forget_flows();
    }

    /// Nobody is at the link's other end, nor will anybody be who knows of its connections: a process was there, over
    /// memif. An interface without a carrier gets it back, and its hosts have waited, as they do for the kernel's
    /// sockets.
    fn is_peer_gone(&self) -> bool {
        self.carrier != LinkState::Up && place().is_some_and(|place| place.terms.link.starts_with("memif"))
    }

    /// The process is about to become another program.
    pub fn before_program(&mut self) -> Option<Heir> {
        if self.silo.stack.connections() + self.silo.stack.half_open() == 0 {
            return None;
        }
        let heir = self.make_heir(When::WithNextProgram);
        if heir.is_none() {
            // What was written is on its way at least.
            self.drain(LAST_WORDS);
        }
        heir
    }

    /// It did not become one, and goes on as it was: the child ends.
    pub fn go_on(&mut self, heir: Heir) {
        call!(SYS_write, heir.orders, c"x".as_ptr(), 1usize);
        kernel::close(heir.orders);
        self.is_left = false;
    }

    fn close_all(&mut self) {
        let ports: Vec<u16> = self.silo.app.doors().map(|(port, _)| port).collect();
        let ours: Vec<i32> = self.silo.app.ours().collect();
        for fd in ours {
            self.leave_before_reset(fd);
            let closed = self.calls().close(fd);
            debug_assert!(closed.is_ok(), "it was told as ours");
        }
        // Other processes may listen there.
        ports.into_iter().for_each(|port| self.on_listener_closed(port));
    }

    /// The operator hears of frames that were lost between workers, if any were.
    fn tell_losses(&self) {
        if let Some(sentence) = losses(self.silo.link.passing()) {
            say(&sentence);
        }
    }

    fn reset_all(&mut self) {
        self.calls().abort_all();
        self.turn_and_send();
    }

    /// Takes turns until peers have all, or the time is up: how many have not. Handshakes that are under way are
    /// completed, for who was answered takes its connection for open: another worker accepts it then.
    fn drain(&mut self, limit: Duration) -> usize {
        let began = Clock.now();
        loop {
            self.turn();
            let lasts = Clock.now().since(began);
            let handshakes = if lasts < HANDSHAKES { self.silo.stack.half_open() } else { 0 };
            let untaken = self.calls().untaken() + self.silo.app.unclaimed() + handshakes;
            let left = limit.saturating_sub(lasts);
            if left.is_zero() || ENDS_NOW.load(Ordering::Relaxed) || !(untaken > 0 || self.has_more()) {
                self.send_held();
                return untaken;
            }
            let pause = if handshakes > 0 { left.min(HANDSHAKES.saturating_sub(lasts)) } else { left };
            // A signal's handler is the program's, which is at its end.
            let _ = self.wait(&[], pause, ptr::null());
        }
    }

    /// Makes the child, which does not come back from here.
    fn make_heir(&mut self, when: When) -> Option<Heir> {
        let (from_parent, orders) = pipe()?;
        let Some((answers, to_parent)) = pipe() else {
            for fd in [from_parent, orders] {
                kernel::close(fd);
            }
            return None;
        };
        // What all seats share is not a child's by default.
        let made = self.silo.link.set_inherited(true).is_ok() && {
            let _held = ChildSignal::hold();
            set_heir(true);
            // SAFETY: the child calls what this library has, and nothing of the program's.
            let first = unsafe { libc::fork() };
            if first == 0 {
                // SAFETY: as above. Nobody waits for a child of a child, and its end is nobody's signal.
                let second = unsafe { libc::fork() };
                if second != 0 {
                    end(c_int::from(second < 0));
                }
                kernel::close(orders);
                kernel::close(answers);
                self.live_on(when, from_parent, to_parent);
            }
            set_heir(false);
            let _ = self.silo.link.set_inherited(false);
            first > 0 && ended_well(first)
        };
        kernel::close(from_parent);
        kernel::close(to_parent);
        let has_seat = made && is_answered(answers);
        kernel::close(answers);
        if !has_seat {
            kernel::close(orders);
            return None;
        }
        self.is_left = true;
        Some(Heir { orders })
    }

    /// The child's life.
    fn live_on(&mut self, when: When, from_parent: c_int, to_parent: c_int) -> ! {
        // The page is not here.
        core::mem::forget(self.column.take());
        [from_parent, to_parent].iter().for_each(|fd| set_mark(*fd, Mark::Own));
        settle_down();
        if let Some(place) = place() {
            // SAFETY: the channel is open, for it is this library's own.
            let channel = unsafe { BorrowedFd::borrow_raw(place.channel) };
            match seats::take_over_seat(channel, self.silo.link.seat()) {
                // The parent's is closed, by which the keeper sees that the parent has gone.
                Ok(held) => self.held = held,
                // The keeper has seen the parent go before: the seat is another's by now.
                Err(why) if why.kind() == io::ErrorKind::Other => end(1),
                // Without a keeper nobody gets it.
                Err(_) => {}
            }
            // The keeper sees by this one whether there is anybody of the program.
            kernel::close(place.channel);
        }
        call!(SYS_write, to_parent, c"x".as_ptr(), 1usize);
        kernel::close(to_parent);
        if when == When::WithNextProgram && !is_other_program(from_parent) {
            end(0);
        }
        self.close_all();
        if self.drain(HEIR_LIVES) > 0 {
            self.reset_all();
        }
        self.silo.link.forget_flows();
        end(0)
    }
}

/// Waits until a process is another program, which has the pipe no more, or has ended. Not if it could
/// not become that.
fn is_other_program(pipe: c_int) -> bool {
    let mut byte = 0u8;
    loop {
        match call!(SYS_read, pipe, &raw mut byte, 1usize) {
            0 => return true,
            1 => return false,
            _ => {}
        }
    }
}

fn end(status: c_int) -> ! {
    loop {
        call!(SYS_exit_group, status);
    }
}

/// The end that is read from, and the one that is written to.
fn pipe() -> Option<(c_int, c_int)> {
    let mut ends: [c_int; 2] = [-1; 2];
    let made = call!(SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC);
    (made == 0).then_some((ends[0], ends[1]))
}

/// Whether a child has ended well; one whose end nobody waits for (SIGCHLD is ignored) is taken to.
fn ended_well(child: libc::pid_t) -> bool {
    let mut status: c_int = 0;
    loop {
        let ended = call!(SYS_wait4, child, &raw mut status, 0, ptr::null::<libc::rusage>());
        match kernel::errno() {
            _ if ended >= 0 => return status == 0,
            libc::EINTR => {}
            errno => return errno == libc::ECHILD,
        }
    }
}

/// Whether the keeper knows of the child. Where that is not told in time it may, when it goes on.
fn is_answered(answers: c_int) -> bool {
    let mut fds = [libc::pollfd { fd: answers, events: libc::POLLIN, revents: 0 }];
    let limit = libc::timespec { tv_sec: i64::from(TAKES_OVER / 1_000), tv_nsec: 0 };
    let none = ptr::null::<libc::sigset_t>();
    let found = int(call!(SYS_ppoll, fds.as_mut_ptr(), 1usize, &raw const limit, none, 8usize));
    let mut byte = 0u8;
    found == 0 || call!(SYS_read, answers, &raw mut byte, 1usize) == 1
}

/// This process is no part of the program any more, nor of its terminal's job: no handler of the
/// program's runs in it, and nothing stays open that somebody may wait for.
fn settle_down() {
    extern "C" fn on_term(_signal: c_int) {
        ENDS_NOW.store(true, Ordering::Relaxed);
    }
    for signal in 1..=libc::SIGRTMAX() {
        let handler = match signal {
            // The last is this library's own affair (drivers/memif/src/guard.rs).
            libc::SIGKILL | libc::SIGSTOP | libc::SIGBUS => continue,
            libc::SIGTERM => on_term as extern "C" fn(c_int) as usize,
            libc::SIGSEGV | libc::SIGILL | libc::SIGFPE | libc::SIGABRT | libc::SIGTRAP | libc::SIGSYS => libc::SIG_DFL,
            libc::SIGALRM => libc::SIG_DFL,
            _ => libc::SIG_IGN,
        };
        kernel::set_handler(signal, handler);
    }
    // SAFETY: zeros are a valid set, of none; it is the calling thread's mask that is set.
    unsafe {
        let none: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::alarm(HEIR_ENDS);
    }
    call!(SYS_setsid);
    call!(SYS_chdir, c"/".as_ptr());
    call!(SYS_prctl, libc::PR_SET_NAME, c"nearside-ends".as_ptr(), 0, 0, 0);
    close_between(0, u32::MAX, 0);
    // What is opened from here on is nobody's output.
    for fd in 0..3 {
        if call!(SYS_fcntl, fd, libc::F_GETFD, 0) < 0 {
            call!(SYS_openat, libc::AT_FDCWD, c"/dev/null".as_ptr(), libc::O_RDWR, 0);
        }
    }
}

/// The signal of a child that the program knows nothing of is held back meanwhile, and taken away.
struct ChildSignal {
    before: libc::sigset_t,
    /// It is that of a child of the program's.
    was_pending: bool,
}

impl ChildSignal {
    fn own() -> libc::sigset_t {
        // SAFETY: zeros are a valid set, which gets one signal.
        unsafe {
            let mut own: libc::sigset_t = core::mem::zeroed();
            libc::sigaddset(&raw mut own, libc::SIGCHLD);
            own
        }
    }

    fn hold() -> Self {
        // SAFETY: zeros are valid sets, and the calls fill them.
        unsafe {
            let own = Self::own();
            let (mut before, mut pending): (libc::sigset_t, libc::sigset_t) = core::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const own, &raw mut before);
            libc::sigpending(&raw mut pending);
            let was_pending = libc::sigismember(&raw const pending, libc::SIGCHLD) == 1;
            Self { before, was_pending }
        }
    }
}

impl Drop for ChildSignal {
    fn drop(&mut self) {
        // SAFETY: the sets are valid, and no information is asked for.
        unsafe {
            if !self.was_pending {
                let none: libc::timespec = core::mem::zeroed();
                let own = Self::own();
                libc::sigtimedwait(&raw const own, ptr::null_mut(), &raw const none);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
