//! What programs call that were built with checks of buffers (`_FORTIFY_SOURCE`): the check is that of
//! the C library.

use crate::data::{read, recv, recvfrom};
use core::ffi::{c_int, c_void};
use libc::{size_t, sockaddr, socklen_t, ssize_t};

/// `__read_chk`.
///
/// # Safety
/// As for read(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    check(len, room);
    // SAFETY: the arguments are those of `read`.
    unsafe { read(fd, buf, len) }
}

/// `__recv_chk`.
///
/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    check(len, room);
    // SAFETY: the arguments are those of `recv`.
    unsafe { recv(fd, buf, len, flags) }
}

/// `__recvfrom_chk`.
///
/// # Safety
/// As for recvfrom(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: the arguments are those of `recvfrom`.
    unsafe { recvfrom(fd, buf, len, flags, addr, addr_len) }
}

/// A buffer is as large as is said, or the program ends, as the C library has it.
fn check(len: usize, room: usize) {
    if len > room {
        // SAFETY: it only ends the process.
        unsafe { libc::abort() }
    }
}
