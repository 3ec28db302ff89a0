//! Calls that name a place in a file: a connection has none, and fails by `ESPIPE` as the kernel's
//! sockets do, by which programs tell a stream from a file. To the kernel its number is no open file
//! (`EBADF`).

use crate::data::is_ours;
use crate::kernel::{call, int, result};
use core::ffi::{c_int, c_void};
use libc::{iovec, off64_t, size_t, ssize_t};
use posix::Errno;

/// Calls at an offset: each by both of its names. A connection of ours has no such place, and below 0
/// nothing has (Linux: `ksys_pread64` and its like in fs/read_write.c).
macro_rules! at_offset {
    ($($(#[doc = $what:literal])+ $name:ident, $also:ident, $number:ident, ($($argument:ident: $type:ty),+);)+) => {
        $($(#[doc = $what])+
        ///
        /// # Safety
        /// As for pread(2) and pwrite(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, $($argument: $type,)+ offset: off64_t) -> ssize_t {
            if is_ours(fd) {
                return result(Err(Errno(if offset < 0 { libc::EINVAL } else { libc::ESPIPE }))) as ssize_t;
            }
            // The last is the offset's upper half, where a word has no room for it.
            call!($number, fd, $($argument,)+ offset, 0) as ssize_t
        }

        /// The same, as programs that were built for large files call it.
        ///
        /// # Safety
        /// As for pread(2) and pwrite(2).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $also(fd: c_int, $($argument: $type,)+ offset: off64_t) -> ssize_t {
            // SAFETY: the arguments are the caller's.
            unsafe { $name(fd, $($argument,)+ offset) }
        })+
    };
}

at_offset! {
    /// `pread`.
    pread, pread64, SYS_pread64, (buf: *mut c_void, len: size_t);
    /// `pwrite`.
    pwrite, pwrite64, SYS_pwrite64, (buf: *const c_void, len: size_t);
    /// `preadv`.
    preadv, preadv64, SYS_preadv, (iov: *const iovec, count: c_int);
    /// `pwritev`.
    pwritev, pwritev64, SYS_pwritev, (iov: *const iovec, count: c_int);
}

/// `lseek`.
///
/// # Safety
/// As for lseek(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn lseek(fd: c_int, to: off64_t, whence: c_int) -> off64_t {
    if is_ours(fd) {
        let is_known = (libc::SEEK_SET..=libc::SEEK_HOLE).contains(&whence);
        return result(Err(Errno(if is_known { libc::ESPIPE } else { libc::EINVAL })));
    }
    call!(SYS_lseek, fd, to, whence)
}

/// `lseek64`, which is the same.
///
/// # Safety
/// As for lseek(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn lseek64(fd: c_int, to: off64_t, whence: c_int) -> off64_t {
    // SAFETY: the arguments are those of `lseek`.
    unsafe { lseek(fd, to, whence) }
}

/// `ftruncate`: a stream has no length (Linux: `do_ftruncate` in fs/open.c).
///
/// # Safety
/// As for ftruncate(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, len: off64_t) -> c_int {
    if is_ours(fd) { int(result(Err(Errno(libc::EINVAL)))) } else { int(call!(SYS_ftruncate, fd, len)) }
}

/// `ftruncate64`, which is the same.
///
/// # Safety
/// As for ftruncate(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, len: off64_t) -> c_int {
    // SAFETY: the arguments are those of `ftruncate`.
    unsafe { ftruncate(fd, len) }
}
