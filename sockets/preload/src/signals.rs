//! Signals while a call of ours waits: those whose handlers were installed with `SA_RESTART` have it
//! go on, as signal(7) has it, and the others end it with `EINTR`.
//!
//! From the first sleep of a call to its end all signals are held back, but for the sleeps themselves:
//! so one that comes amid a turn ends the next sleep, and is not forgotten.
//!
//! ppoll(2), by which calls of ours sleep, always ends with `EINTR`, and does not say whose handler
//! ran. So signals of the first kind stay blocked while a call sleeps that may go on, and a descriptor
//! (signalfd(2)) tells that one waits: the sleep is over, and its handler runs before the next. Which
//! signals those are the kernel is asked, anew when the program has changed a handler.

use crate::kernel::call;
use crate::marks::{Mark, set_mark};
use crate::next::before;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{sighandler_t, sigset_t};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Signals of the kernel's set, which has as many bits.
const SIGNALS: c_int = 64;

/// Bytes of that set.
const SET: usize = 8;

/// How often the program has changed a handler.
static CHANGES: AtomicU32 = AtomicU32::new(1);

fn note_change() {
    CHANGES.fetch_add(1, Ordering::Relaxed);
}

/// A handler as the kernel has it (`struct sigaction` of asm/signal.h, as generic and x86 have it).
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// What a thread does with signals while its calls wait.
#[derive(Debug, Default)]
pub struct Signals {
    /// The program's mask, while signals are held back.
    held: Option<u64>,
    /// How many changes of handlers are known.
    seen: u32,
    /// Those that have calls go on.
    restarting: u64,
    told_by: Option<OwnedFd>,
    /// What that tells of.
    told: u64,
}

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Those that are not held back: a thread raises them itself by what it does, the C library by what
/// another does (its own are 32 and 33), or a driver that is held up by its peer amid a turn (SIGURG:
/// drivers/memif/src/bell.rs).
const NEVER_HELD: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGURG)
    | bit(32)
    | bit(33);

impl Signals {
    /// A call is about to sleep: signals are held back until [`Signals::release`]. The program's mask.
    pub fn hold(&mut self) -> u64 {
        *self.held.get_or_insert_with(|| {
            let (all, mut own) = (!NEVER_HELD, 0u64);
            call!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &raw const all, &raw mut own, SET);
            own
        })
    }

    /// The call is over. What was held back is handled now.
    #[inline]
    pub fn release(&mut self) {
        if let Some(own) = self.held.take() {
            unblock(own);
        }
    }

    /// While a call sleeps that may go on: the mask that counts, and the descriptor that is readable
    /// when a signal has come that has it go on; `None` where there is no such one.
    pub fn restarting(&mut self) -> Option<(u64, c_int)> {
        let changes = CHANGES.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.seen, changes) != changes {
            self.restarting = (1..=SIGNALS).filter(|signal| restarts(*signal)).fold(0, |set, signal| set | bit(signal));
        }
        if self.restarting == 0 {
            return None;
        }
        let own = self.hold();
        // What the program blocks itself is none of the call's.
        let wanted = self.restarting & !own;
        if wanted == 0 {
            return None;
        }
        if self.told != wanted || self.told_by.is_none() {
            let known = self.told_by.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
            let fd = call!(SYS_signalfd4, known, &raw const wanted, SET, flags) as c_int;
            if fd < 0 {
                return None;
            }
            self.told = wanted;
            if known < 0 {
                set_mark(fd, Mark::Own);
                // SAFETY: the kernel has just made it, and nobody else knows it.
                self.told_by = Some(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        let fd = self.told_by.as_ref().map(AsRawFd::as_raw_fd)?;
        Some((own | wanted, fd))
    }

    /// A signal has come that has the call go on: its handler runs.
    pub fn handle(&mut self) {
        self.release();
        self.hold();
    }
}

#[cold]
fn unblock(own: u64) {
    call!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const own, ptr::null_mut::<u64>(), SET);
}

/// Whether a call goes on when this signal's handler has run.
fn restarts(signal: c_int) -> bool {
    if bit(signal) & NEVER_HELD != 0 {
        return false;
    }
    let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let known = call!(SYS_rt_sigaction, signal, ptr::null::<Action>(), &raw mut action, SET);
    let has_handler = action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
    known == 0 && has_handler && action.flags & libc::SA_RESTART as usize != 0
}

before! {
    note_change:
    /// `sigaction`.
    sigaction, c"sigaction", (signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    /// `signal`.
    signal, c"signal", (signal: c_int, handler: sighandler_t) -> sighandler_t;
    /// `signal`, as System V had it: for one time, and without `SA_RESTART`.
    sysv_signal, c"sysv_signal", (signal: c_int, handler: sighandler_t) -> sighandler_t;
    /// The same, for programs that ask for nothing but the standard.
    __sysv_signal, c"__sysv_signal", (signal: c_int, handler: sighandler_t) -> sighandler_t;
    /// `siginterrupt`.
    siginterrupt, c"siginterrupt", (signal: c_int, interrupts: c_int) -> c_int;
    /// `sigset`.
    sigset, c"sigset", (signal: c_int, handler: sighandler_t) -> sighandler_t;
}

/// What ppoll(2) takes of a set: the C library's is longer.
pub fn as_set(signals: &u64) -> *const sigset_t {
    ptr::from_ref(signals).cast()
}
