//! The process ends, by itself and not by a signal: what was written reaches its peers, and they hear
//! of the end, as on the kernel's sockets.

use crate::kernel::{self, call};
use crate::marks::{Mark, marked};
use crate::worker::{Heir, become_worker, has_left, is_here, say, with};
use core::ffi::c_int;
use core::time::Duration;

/// Called by the dynamic linker at exit(3), after all that the program asked for (atexit(3)).
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    // Another thread's exit: the keeper sees to the peers, as after a signal.
    if is_here() {
        let left = with(|worker| {
            worker.leave();
            Ok(())
        });
        // In a signal's handler amid a call: likewise.
        if left.is_ok() {
            has_left();
        }
    }
}

/// Ends the process.
fn exit_now(status: c_int) -> ! {
    loop {
        call!(SYS_exit_group, status);
    }
}

/// Ends the process when what was written has left.
pub fn end_orderly(status: c_int) -> ! {
    end();
    exit_now(status)
}

/// `_exit`.
///
/// # Safety
/// As for _exit(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    end_orderly(status)
}

/// `_Exit`, which is the same.
///
/// # Safety
/// As for _exit(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    end_orderly(status)
}

/// `quick_exit`.
///
/// # Safety
/// As for quick_exit(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn quick_exit(status: c_int) -> ! {
    end();
    if let Some(next) = kernel::next(c"quick_exit") {
        // SAFETY: the symbol of this name is a function of this type in every C library.
        let next: unsafe extern "C" fn(c_int) -> ! = unsafe { core::mem::transmute(next) };
        // SAFETY: as the caller says.
        unsafe { next(status) }
    }
    exit_now(status)
}

/// `abort`.
///
/// # Safety
/// As for abort(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn abort() -> ! {
    // Where the program handles the signal it may go on after it.
    if kernel::is_default(libc::SIGABRT) {
        end();
    }
    if let Some(next) = kernel::next(c"abort") {
        // SAFETY: as above.
        let next: unsafe extern "C" fn() -> ! = unsafe { core::mem::transmute(next) };
        // SAFETY: as the caller says.
        unsafe { next() }
    }
    exit_now(128 + libc::SIGABRT)
}

/// How long connections that a killed process left are looked after: a peer that does not answer by
/// then has heard of it three times, or is gone.
const LOST_TIME: Duration = Duration::from_secs(5);

/// This process is there to end connections that a killed one left, and for nothing else.
pub fn end_lost() -> ! {
    let ended = become_worker().and_then(|()| {
        with(|worker| {
            worker.end_lost(LOST_TIME);
            Ok(())
        })
    });
    exit_now(c_int::from(ended.is_err()))
}

/// This process is about to become another program, which cannot have its connections: a child of it
/// ends them once that is so.
pub fn before_program() -> Option<Heir> {
    let is_kept = |fd: c_int| call!(SYS_fcntl, fd, libc::F_GETFD, 0) & i64::from(libc::FD_CLOEXEC) == 0;
    let open = marked(0, u32::MAX).filter(|(fd, mark)| *mark == Mark::Connection && is_kept(*fd)).count();
    if open > 0 {
        say(&format!(
            "process {} becomes another program with {open} descriptors of connections open, which that one cannot \
             have: connections on our stack end with the program that opened or accepted them",
            std::process::id()
        ));
    }
    if !is_here() {
        return None;
    }
    with(|worker| Ok(worker.before_program())).ok().flatten()
}

/// It did not: everything is as it was.
pub fn program_failed(heir: Option<Heir>) {
    let goes_on = heir.map(|heir| {
        with(|worker| {
            worker.go_on(heir);
            Ok(())
        })
    });
    debug_assert!(goes_on.is_none_or(|done| done.is_ok()), "it was this thread that had it");
}
