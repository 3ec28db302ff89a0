//! System calls as the kernel has them, past the names that this library has taken.
//!
//! Each sets `errno` as the C library's own does.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr;
use posix::{Errno, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Makes a system call.
macro_rules! call {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: the kernel looks at all that it is given, and fails with EFAULT where that is not
        // the caller's memory; what memory it writes to is the caller's affair, as it is without us.
        unsafe { libc::syscall(libc::$number $(, $argument)*) }
    };
}
pub(crate) use call;

/// What the kernel returned, as a number.
pub const fn int(result: c_long) -> c_int {
    result as c_int
}

/// Sets the calling thread's `errno`.
pub fn set_errno(errno: i32) {
    // SAFETY: the location is the calling thread's own, and valid.
    unsafe { *libc::__errno_location() = errno }
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// A number that a socket option has.
pub fn number_option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    let got = call!(SYS_getsockopt, fd, level, name, &raw mut value, &raw mut len);
    (got == 0).then_some(value)
}

/// Whether calls on a descriptor of the kernel's do not block.
pub fn is_nonblocking(fd: c_int) -> bool {
    call!(SYS_fcntl, fd, libc::F_GETFL, 0) & c_long::from(libc::O_NONBLOCK) != 0
}

/// How many descriptors this process may have (`RLIMIT_NOFILE`).
pub fn descriptors_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let got = call!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, ptr::null::<libc::rlimit>(), &raw mut limit);
    if got == 0 { limit.rlim_cur } else { u64::MAX }
}

/// Whether a descriptor is an epoll set, which does not watch `nobody`.
///
/// # Errors
/// The kernel's: it refuses a descriptor that nobody has by `EBADF`, and then by `EINVAL` what is no
/// set.
pub fn is_set(fd: c_int, nobody: c_int) -> Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let found = call!(SYS_epoll_ctl, fd, libc::EPOLL_CTL_DEL, nobody, &raw mut event);
    match errno() {
        errno if found < 0 && errno != libc::ENOENT => Err(Errno(errno)),
        _ => Ok(()),
    }
}

/// Whether a descriptor is ready, or has an error; a file always is.
pub fn is_ready(fd: c_int, events: i16) -> bool {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    call!(SYS_ppoll, &raw mut entry, 1, &raw const now, 0usize, 8usize) != 0
}

/// Closes a descriptor of the kernel's.
pub fn close(fd: c_int) -> c_int {
    int(call!(SYS_close, fd))
}

/// The function of this name that comes after this library's own: mostly the C library's.
pub fn next(name: &CStr) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: the name is a string.
    ptr::NonNull::new(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
}

/// Whether a signal does to this process what it does by default.
pub fn is_default(signal: c_int) -> bool {
    // SAFETY: zeros are a valid action, which the call fills; nothing is changed.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_DFL
    }
}

/// Has a signal ignored, do what it does by default, or call a function that may be called at any time.
pub fn set_handler(signal: c_int, handler: libc::sighandler_t) {
    // SAFETY: zeros are a valid action, with no flags and an empty mask; the handler is one of those.
    // Fails for signals that the C library keeps for itself, which have handlers of its own.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// A C result: -1 and `errno` on failure.
pub fn result(outcome: Result<i64>) -> i64 {
    outcome.unwrap_or_else(|Errno(errno)| {
        set_errno(errno);
        -1
    })
}

/// Whether some process listens on a port, by the kernel's tables of this network namespace: the
/// same listening socket, which it had from a common parent, or one of its own. Not if nobody can
/// tell.
pub fn is_listened_on(port: u16) -> bool {
    listeners().any(|listener| listener == port)
}

/// All such ports.
pub fn listened_on() -> Vec<u16> {
    let mut ports: Vec<u16> = listeners().collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The ports of listeners. They stand first in the tables, whose rest may be long and is not read.
fn listeners() -> impl Iterator<Item = u16> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter().filter_map(|table| File::open(table).ok());
    let lines = |table| BufReader::with_capacity(PIECE, table).lines().skip(1);
    tables.flat_map(move |table| lines(table).map_while(|line| listening(&line.ok()?)))
}

/// The kernel makes some 27 lines at a time.
const PIECE: usize = 4096;

/// The port of a line of these tables, if it is a listener's. Documentation/networking/proc_net_tcp.rst:
/// the second word is ADDRESS:PORT and the fourth the state, all in hexadecimal; 0A listens.
fn listening(line: &str) -> Option<u16> {
    const LISTENS: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(1);
    let port = u16::from_str_radix(words.next()?.rsplit(':').next()?, 16).ok()?;
    (words.nth(1)? == LISTENS).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_kernel_says_who_listens() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let shared = listener.try_clone().unwrap();
            drop(listener);
            assert!(is_listened_on(port) && listened_on().contains(&port));
            drop(shared);
            assert!(!is_listened_on(port));
        }
    }
}
