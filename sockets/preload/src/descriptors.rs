//! Descriptors are closed, doubled and asked about: `close`, `dup`, `fcntl`, options and addresses.

use crate::address;
use crate::kernel::{self, call, int, result};
use crate::marks::{Mark, close_between, mark, marked, set_mark};
use crate::memory::{self, Access, check};
use crate::worker::{close_from_afar, end_from_afar, is_here, is_of_worker, with};
use crate::{inherited, watches};
use core::ffi::{c_int, c_long, c_uint, c_void};
use core::net::SocketAddr;
use core::ptr;
use libc::{sockaddr, socklen_t};
use posix::{Errno, Result, has_no_level};

/// A descriptor's number is given to something else, or to nothing: what we have under it ends.
pub fn let_go(fd: c_int) {
    let was = mark(fd);
    match was {
        Mark::Foreign => {
            inherited::forget(fd);
            watches::forget(fd);
        }
        Mark::Own => {}
        Mark::Listening => set_mark(fd, Mark::Foreign),
        Mark::Connection | Mark::Listener | Mark::Set if !is_here() => {
            set_mark(fd, Mark::Foreign);
            end_from_afar(fd);
        }
        Mark::Connection | Mark::Listener | Mark::Set => {
            // In a signal's handler amid a call the number is free when it is given to something new.
            let _ = with(|worker| {
                let lingers = worker.calls().lingers(fd);
                worker.close(fd);
                if was == Mark::Connection {
                    worker.leave_ended();
                }
                if let Some((id, limit)) = lingers {
                    // As the kernel has it, whether or not calls on it blocked. A signal ends it.
                    let _ = worker.block(Some(limit), |calls| Ok(calls.has_all(id).then_some(())));
                }
                Ok(())
            });
            set_mark(fd, Mark::Foreign);
        }
    }
}

/// `close`.
///
/// # Safety
/// As for close(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    match mark(fd) {
        // A loop over all numbers finds nothing there.
        Mark::Own => return int(result(Err(Errno(libc::EBADF)))),
        Mark::Connection | Mark::Listener | Mark::Set if !is_here() && close_from_afar(fd) => return 0,
        _ => {}
    }
    let_go(fd);
    kernel::close(fd)
}

/// `close_range`: descriptors of ours among them end as by `close`.
///
/// # Safety
/// As for close_range(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        marked(first, last).for_each(|(fd, _)| let_go(fd));
    }
    close_between(first, last, flags)
}

/// `dup`.
///
/// # Safety
/// As for dup(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    doubled(fd, int(call!(SYS_dup, fd)))
}

/// `dup2`.
///
/// # Safety
/// As for dup2(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, new: c_int) -> c_int {
    if fd == new {
        // The kernel says whether there is such a one.
        return if call!(SYS_fcntl, fd, libc::F_GETFD, 0) < 0 { -1 } else { new };
    }
    // SAFETY: the arguments are those of `dup3`.
    unsafe { dup3(fd, new, 0) }
}

/// `dup3`.
///
/// # Safety
/// As for dup3(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int {
    if mark(new) == Mark::Own {
        // A number that the program chose, and that we have: dup(2) has this for a number that is
        // just being taken.
        return int(result(Err(Errno(libc::EBUSY))));
    }
    let done = int(call!(SYS_dup3, fd, new, flags));
    if done >= 0 {
        let_go(new);
    }
    doubled(fd, done)
}

/// The kernel made another descriptor of one: it is what that is.
fn doubled(fd: c_int, new: c_int) -> c_int {
    let what = mark(fd);
    if new < 0 || matches!(what, Mark::Foreign | Mark::Own) {
        return new;
    }
    let is_doubled = what == Mark::Listening || with(|worker| worker.calls().dup(fd, new)).is_ok();
    // Of its parent's a child has nothing but the number, and is told so.
    if is_doubled || (is_of_worker() && what == Mark::Connection) {
        set_mark(new, what);
    }
    new
}

/// `fcntl`. Variadic in C; on the 64-bit Linux ABIs (System V for x86-64, AAPCS64) a variadic
/// argument of a word is passed as a named one is.
///
/// # Safety
/// As for fcntl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if mark(fd) == Mark::Connection {
        match command {
            libc::F_GETFL => {
                let flags = |on| i64::from(libc::O_RDWR | if on { libc::O_NONBLOCK } else { 0 });
                return int(result(with(|worker| worker.calls().is_nonblocking(fd)).map(flags)));
            }
            libc::F_SETFL => {
                // Flags are an int, whatever lies in the word's upper half.
                let refused = match argument as c_int {
                    // Linux: `setfl` in fs/fcntl.c.
                    flags if flags & libc::O_DIRECT != 0 => Some(libc::EINVAL),
                    // Nobody is signalled.
                    flags if flags & libc::O_ASYNC != 0 => Some(libc::EOPNOTSUPP),
                    _ => None,
                };
                let on = argument as c_int & libc::O_NONBLOCK != 0;
                let set = refused
                    .map_or_else(|| with(|worker| worker.calls().set_nonblocking(fd, on)), |error| Err(Errno(error)));
                return int(result(set.map(|()| 0)));
            }
            // Who is signalled (SIGIO), and by what: nobody is. Who reads has no leases.
            libc::F_GETOWN | F_GETSIG | libc::F_NOTIFY => return 0,
            libc::F_SETOWN | F_SETSIG if argument == 0 => return 0,
            libc::F_GETLEASE => return libc::F_UNLCK,
            libc::F_GETFD | libc::F_SETFD | libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {}
            // The kernel has these for files that are open, and the number's is none.
            libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
            | libc::F_SETLEASE => return int(result(Err(Errno(libc::EBADF)))),
            libc::F_GETPIPE_SZ | libc::F_SETPIPE_SZ => return int(result(Err(Errno(libc::EBADF)))),
            F_GETOWN_EX | F_SETOWN_EX => return int(result(no_owner(argument))),
            _ => return int(result(Err(Errno(libc::EINVAL)))),
        }
    }
    let done = int(call!(SYS_fcntl, fd, command, argument));
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { doubled(fd, done) } else { done }
}

/// Linux: include/uapi/asm-generic/fcntl.h.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;

/// Nobody is signalled, which takes a place to say so.
fn no_owner(at: c_long) -> Result<i64> {
    check(Access::Read, at as *const c_void, 2 * size_of::<c_int>())?;
    Err(Errno(libc::EINVAL))
}

/// `fcntl64`, as programs that were built for large files call it.
///
/// # Safety
/// As for fcntl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the arguments are those of `fcntl`.
    unsafe { fcntl(fd, command, argument) }
}

/// `getsockopt`: what a program may ask for until it changes is looked at anew.
///
/// # Safety
/// As for getsockopt(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if mark(fd) != Mark::Connection {
        return int(call!(SYS_getsockopt, fd, level, name, value, len));
    }
    int(result(tell_option(fd, (level, name), value, len).map(|()| 0)))
}

fn tell_option(fd: c_int, (level, name): (c_int, c_int), value: *mut c_void, len: *mut socklen_t) -> Result<()> {
    if has_no_level(with(|worker| worker.calls().is_v6(fd))?, level) {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // SAFETY: any number is one.
    let room = unsafe { memory::read(len) }?;
    let room = usize::try_from(room.cast_signed()).map_err(|_| Errno(libc::EINVAL))?;
    let option = with(|worker| {
        worker.turn_if_stale();
        worker.calls().option(fd, level, name, room)
    })?;
    let count = option.len().min(room);
    check(Access::Write, value, count)?;
    // SAFETY: so many bytes were found there, and the option is ours.
    unsafe { ptr::copy_nonoverlapping(option.as_ptr(), value.cast(), count) };
    memory::write(len, count as socklen_t)
}

/// Longest value of an option that means anything here.
const LONGEST_OPTION: usize = 64;

/// `setsockopt`; of a listener, both the kernel's and ours.
///
/// # Safety
/// As for setsockopt(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    let what = mark(fd);
    if !matches!(what, Mark::Connection | Mark::Listener) {
        return int(call!(SYS_setsockopt, fd, level, name, value, len));
    }
    if what == Mark::Listener {
        let done = int(call!(SYS_setsockopt, fd, level, name, value, len));
        if done < 0 {
            return done;
        }
    }
    match (what, set_option(fd, (level, name), value, len)) {
        // The kernel took it: what it does not mean here is harmless at a listener.
        (Mark::Listener, _) => 0,
        (_, set) => int(result(set.map(|()| 0))),
    }
}

fn set_option(fd: c_int, (level, name): (c_int, c_int), value: *const c_void, len: socklen_t) -> Result<()> {
    let count = usize::try_from(len.cast_signed()).map_err(|_| Errno(libc::EINVAL))?.min(LONGEST_OPTION);
    if has_no_level(with(|worker| worker.calls().is_v6(fd))?, level) {
        return Err(Errno(libc::ENOPROTOOPT));
    }
    check(Access::Read, value, count)?;
    let mut copy = [0u8; LONGEST_OPTION];
    // SAFETY: so many bytes were found there.
    unsafe { ptr::copy_nonoverlapping(value.cast(), copy.as_mut_ptr(), count) };
    with(|worker| {
        worker.calls().set_option(fd, level, name, &copy[..count])?;
        // What was held back may leave.
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CORK)
            || (level, name) == (libc::IPPROTO_TCP, libc::TCP_NODELAY)
        {
            worker.leave_soon(false);
        }
        Ok(())
    })
}

/// `getsockname`.
///
/// # Safety
/// As for getsockname(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if mark(fd) != Mark::Connection {
        return int(call!(SYS_getsockname, fd, addr, len));
    }
    let found = with(|worker| {
        let calls = worker.calls();
        Ok((calls.local_address(fd)?, calls.is_v6(fd)?))
    });
    tell(found, addr, len)
}

/// `getpeername`.
///
/// # Safety
/// As for getpeername(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if mark(fd) != Mark::Connection {
        return int(call!(SYS_getpeername, fd, addr, len));
    }
    let found = with(|worker| {
        let found = match worker.calls().peer_address(fd) {
            // It may be connected by now.
            Err(Errno(libc::ENOTCONN)) if worker.turn_if_stale() => worker.calls().peer_address(fd),
            found => found,
        };
        Ok((found?, worker.calls().is_v6(fd)?))
    });
    tell(found, addr, len)
}

/// Writes an address to the caller.
fn tell(found: Result<(SocketAddr, bool)>, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    int(result(found.and_then(|(address, v6)| address::write(address, v6, addr, len)).map(|()| 0)))
}

/// `shutdown`. A listener that is shut down is none any more, in this process and, by the kernel's
/// socket, for whoever looks at it next; it may listen again.
///
/// # Safety
/// As for shutdown(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    match mark(fd) {
        Mark::Connection => {
            let done = with(|worker| {
                let done = worker.calls().shutdown(fd, how);
                worker.leave_ended();
                done
            });
            int(result(done.map(|()| 0)))
        }
        Mark::Listener | Mark::Listening if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) => {
            let_go(fd);
            int(call!(SYS_shutdown, fd, how))
        }
        _ => int(call!(SYS_shutdown, fd, how)),
    }
}
