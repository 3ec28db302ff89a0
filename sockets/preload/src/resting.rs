//! Calls by which a program waits for something that is not ours: what was written leaves before.
//!
//! What is waited for by a futex (pthread_cond_wait(3), sem_wait(3)) has no name that could be taken
//! safely, for the C library calls it by itself, too: then, as while a program computes, the deputy
//! takes the turns.

use crate::flushing::flush;
use crate::next::before;
use core::ffi::{c_int, c_uint, c_void};
use libc::{clockid_t, id_t, idtype_t, pid_t, pthread_t, rusage, siginfo_t, sigset_t, timespec, useconds_t};

before! {
    flush:
    /// `sleep`.
    sleep, c"sleep", (seconds: c_uint) -> c_uint;
    /// `usleep`.
    usleep, c"usleep", (micros: useconds_t) -> c_int;
    /// `nanosleep`.
    nanosleep, c"nanosleep", (time: *const timespec, left: *mut timespec) -> c_int;
    /// `clock_nanosleep`.
    clock_nanosleep, c"clock_nanosleep",
        (clock: clockid_t, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int;
    /// `pause`.
    pause, c"pause", () -> c_int;
    /// `sigsuspend`.
    sigsuspend, c"sigsuspend", (mask: *const sigset_t) -> c_int;
    /// `sigwait`.
    sigwait, c"sigwait", (set: *const sigset_t, signal: *mut c_int) -> c_int;
    /// `sigwaitinfo`.
    sigwaitinfo, c"sigwaitinfo", (set: *const sigset_t, info: *mut siginfo_t) -> c_int;
    /// `sigtimedwait`.
    sigtimedwait, c"sigtimedwait", (set: *const sigset_t, info: *mut siginfo_t, time: *const timespec) -> c_int;
    /// `wait`.
    wait, c"wait", (status: *mut c_int) -> pid_t;
    /// `waitpid`.
    waitpid, c"waitpid", (process: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    /// `wait3`.
    wait3, c"wait3", (status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    /// `wait4`.
    wait4, c"wait4", (process: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    /// `waitid`.
    waitid, c"waitid", (kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int;
    /// `pthread_join`.
    pthread_join, c"pthread_join", (thread: pthread_t, value: *mut *mut c_void) -> c_int;
    /// `system`.
    system, c"system", (command: *const core::ffi::c_char) -> c_int;
}
