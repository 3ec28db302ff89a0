//! Descriptors of connections: numbers that are taken, with which the kernel does nothing (`O_PATH`).
//!
//! To whoever looks at one (fstat(2), /proc) it is a socket, for it was opened as the path of one. All
//! are copies of the first, which are cheaper to have than another look at a path.

use crate::kernel::{self, call, int};
use crate::marks::{Mark, set_mark};
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicI32, Ordering};
use posix::{Errno, Result};
use std::ffi::CString;

/// The one that the others are copies of.
static FIRST: AtomicI32 = AtomicI32::new(NONE);

const NONE: c_int = -1;

/// A descriptor that nothing can be done with but to close it: its number is taken.
pub fn placeholder(close_on_exec: bool) -> Result<c_int> {
    let mut first = FIRST.load(Ordering::Relaxed);
    if first == NONE {
        first = open_first()?;
    }
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    done(int(call!(SYS_fcntl, first, command, 0)))
}

#[cold]
fn open_first() -> Result<c_int> {
    let socket = int(call!(SYS_socket, libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
    let path = CString::new(format!("/proc/self/fd/{socket}")).unwrap_or_default();
    // Where there is no /proc it is a folder's.
    let first = done(socket).and_then(|_| open(&path)).or_else(|_| open(c"/"));
    if socket >= 0 {
        kernel::close(socket);
    }
    let first = first?;
    set_mark(first, Mark::Own);
    FIRST.store(first, Ordering::Relaxed);
    Ok(first)
}

fn open(path: &CStr) -> Result<c_int> {
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    done(int(call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0)))
}

fn done(fd: c_int) -> Result<c_int> {
    if fd < 0 { Err(Errno(kernel::errno())) } else { Ok(fd) }
}

/// This process is a child: the first was closed with all that is this library's own.
pub fn forget() {
    FIRST.store(NONE, Ordering::Relaxed);
}
