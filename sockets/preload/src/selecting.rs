//! `select` and `pselect`, by what `poll` says (Linux: `do_select` in fs/select.c).

use crate::kernel::{self, call, int, result, set_errno};
use crate::marks::{MOST, Mark};
use crate::memory::{self, Access, is_there};
use crate::watching::{given, poll_all};
use crate::worker::is_here;
use core::ffi::{c_int, c_long};
use core::ptr;
use core::time::Duration;
use cpu::Clock;
use libc::{fd_set, pollfd, sigset_t, timespec, timeval};
use posix::{Errno, Result};

/// What makes a descriptor ready in each of the three sets (Linux: `POLLIN_SET`, `POLLOUT_SET` and
/// `POLLEX_SET`).
const KINDS: [c_int; 3] = [
    (libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR) as c_int,
    (libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR) as c_int,
    libc::POLLPRI as c_int,
];

/// Bits of a word of a set, which are as many as the kernel's.
const BITS: usize = c_long::BITS as usize;

/// One of the caller's sets, of which there may be none.
#[derive(Clone, Copy)]
struct Set(*mut c_long);

impl Set {
    /// # Safety
    /// The set has a word for `fd`, if it is one.
    unsafe fn has(self, fd: usize) -> bool {
        // SAFETY: as the caller says.
        !self.0.is_null() && unsafe { self.0.add(fd / BITS).read() } >> (fd % BITS) & 1 != 0
    }

    /// # Safety
    /// As for [`Set::has`].
    unsafe fn put(self, fd: usize, on: bool) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: as the caller says.
        let word = unsafe { &mut *self.0.add(fd / BITS) };
        let bit = 1 << (fd % BITS);
        *word = if on { *word | bit } else { *word & !bit };
    }
}

/// `select`. What is left of the time is written, as Linux does.
///
/// # Safety
/// As for select(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    if !is_concerned() {
        return int(call!(SYS_select, count, read, write, except, time));
    }
    let until = match patience_of(time) {
        Ok(patience) => patience.map(|patience| (Clock.now(), patience)),
        Err(error) => return int(result(Err(error))),
    };
    let patience = until.map_or(Duration::MAX, |(_, patience)| patience);
    // SAFETY: the sets are the caller's.
    let ready = unsafe { select_all(count, [read, write, except], patience, ptr::null()) };
    if let Some((begun, patience)) = until {
        let left = patience.saturating_sub(Clock.now().since(begun));
        let left = timeval { tv_sec: left.as_secs().cast_signed(), tv_usec: left.subsec_micros().into() };
        // Where it cannot be written it is not (Linux: `poll_select_finish` in fs/select.c).
        let _ = memory::write(time, left);
    }
    ready
}

/// How long `select` waits; `None`: for ever.
fn patience_of(time: *const timeval) -> Result<Option<Duration>> {
    if time.is_null() {
        return Ok(None);
    }
    // SAFETY: any numbers are a time.
    let time = unsafe { memory::read(time) }?;
    if time.tv_sec < 0 || time.tv_usec < 0 {
        return Err(Errno(libc::EINVAL));
    }
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    Ok(Some(seconds.saturating_add(Duration::from_micros(time.tv_usec.unsigned_abs()))))
}

/// `pselect`.
///
/// # Safety
/// As for pselect(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if !is_concerned() {
        // The kernel writes what is left, the C library's call does not; it takes the mask with its
        // length.
        // SAFETY: any numbers are a time.
        let mut left = unsafe { memory::read(time) }.ok();
        if left.is_none() && !time.is_null() {
            return int(result(Err(Errno(libc::EFAULT))));
        }
        let left = left.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let mask = [mask.addr(), 8];
        return int(call!(SYS_pselect6, count, read, write, except, left, mask.as_ptr()));
    }
    match given(time) {
        // SAFETY: the sets are the caller's.
        Ok(patience) => unsafe { select_all(count, [read, write, except], patience, mask) },
        Err(error) => int(result(Err(error))),
    }
}

/// Whether a descriptor of ours may be among any.
fn is_concerned() -> bool {
    is_here() || crate::marks::marked(0, u32::MAX).any(|(_, mark)| mark == Mark::Listening)
}

/// # Safety
/// Each set has words for `count` descriptors, or is null; the mask is null or one.
unsafe fn select_all(count: c_int, sets: [*mut fd_set; 3], patience: Duration, mask: *const sigset_t) -> c_int {
    let Ok(count) = usize::try_from(count) else { return int(result(Err(Errno(libc::EINVAL)))) };
    // Nobody has more descriptors than there may be (Linux: `core_sys_select` in fs/select.c).
    let count = count.min(MOST);
    let bytes = count.div_ceil(BITS) * size_of::<c_long>();
    if sets.iter().any(|set| !set.is_null() && !is_there(Access::Write, (*set).cast(), bytes)) {
        return int(result(Err(Errno(libc::EFAULT))));
    }
    let sets = sets.map(|set| Set(set.cast()));
    let mut entries = Vec::new();
    for fd in 0..count {
        let asked = sets.iter().zip(KINDS).filter(|(set, _)| {
            // SAFETY: `fd` is below the count.
            unsafe { set.has(fd) }
        });
        let events = asked.fold(0, |events, (_, kind)| events | kind);
        if events != 0 {
            entries.push(pollfd { fd: fd as c_int, events: events as i16, revents: 0 });
        }
    }
    // SAFETY: the entries are a local's.
    let found = unsafe { poll_all(entries.as_mut_ptr(), entries.len() as libc::nfds_t, patience, mask) };
    if found < 0 {
        return found;
    }
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0 && !is_open(entry.fd)) {
        set_errno(libc::EBADF);
        return -1;
    }
    let mut ready = 0;
    for entry in &entries {
        let fd = entry.fd as usize;
        for (set, kind) in sets.iter().zip(KINDS) {
            // SAFETY: `fd` is below the count.
            let is_ready = unsafe { set.has(fd) } && c_int::from(entry.revents) & kind != 0;
            // SAFETY: as above.
            unsafe { set.put(fd, is_ready) };
            ready += c_int::from(is_ready);
        }
    }
    ready
}

/// Whether there is such a descriptor.
fn is_open(fd: c_int) -> bool {
    call!(SYS_fcntl, fd, libc::F_GETFD, 0) >= 0 || kernel::errno() != libc::EBADF
}
