//! `ioctl` on connections.

use crate::kernel::{call, int, result};
use crate::marks::{Mark, mark};
use crate::memory;
use crate::worker::with;
use core::ffi::{c_int, c_ulong};
use posix::{Errno, Result};

/// Linux: include/uapi/linux/sockios.h and include/uapi/asm-generic/sockios.h.
const SIOCOUTQNSD: c_ulong = 0x894b;
const SIOCATMARK: c_ulong = 0x8905;
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
const FIOGETOWN: c_ulong = 0x8903;
const SIOCGPGRP: c_ulong = 0x8904;
const SIOCGSTAMP: c_ulong = 0x8906;
const SIOCGSTAMPNS: c_ulong = 0x8907;

/// `ioctl`. Variadic in C; on the 64-bit Linux ABIs (System V for x86-64, AAPCS64) a variadic argument
/// of a word is passed as a named one is.
///
/// # Safety
/// As for ioctl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    if mark(fd) != Mark::Connection {
        return int(call!(SYS_ioctl, fd, request, argument));
    }
    // A request is an int, whatever lies in the word's upper half.
    int(result(control(fd, request & 0xffff_ffff, argument).map(|()| 0)))
}

/// Linux: `do_vfs_ioctl` in fs/ioctl.c, `sock_ioctl` in net/socket.c and `tcp_ioctl` in
/// net/ipv4/tcp.c.
fn control(fd: c_int, request: c_ulong, argument: *mut c_int) -> Result<()> {
    match request {
        libc::FIOCLEX | libc::FIONCLEX => {
            let flags = if request == libc::FIOCLEX { libc::FD_CLOEXEC } else { 0 };
            // The number is the kernel's, and takes that.
            call!(SYS_fcntl, fd, libc::F_SETFD, flags);
            Ok(())
        }
        libc::FIONBIO => {
            // SAFETY: any number is one.
            let on = unsafe { memory::read(argument) }? != 0;
            with(|worker| worker.calls().set_nonblocking(fd, on))
        }
        libc::FIOASYNC => {
            // SAFETY: as above.
            let on = unsafe { memory::read(argument) }? != 0;
            // Nobody is signalled.
            if on { Err(Errno(libc::EOPNOTSUPP)) } else { Ok(()) }
        }
        FIOSETOWN | SIOCSPGRP => {
            // SAFETY: as above.
            let whom = unsafe { memory::read(argument) }?;
            if whom == 0 { Ok(()) } else { Err(Errno(libc::EINVAL)) }
        }
        FIOGETOWN | SIOCGPGRP => memory::write(argument, 0),
        // No packet was stamped.
        SIOCGSTAMP | SIOCGSTAMPNS => Err(Errno(libc::ENOENT)),
        // There is no urgent data.
        SIOCATMARK => memory::write(argument, 0),
        libc::FIONREAD => tell(
            argument,
            with(|worker| {
                let readable = worker.calls().readable(fd)?;
                if readable > 0 || !worker.turn_if_stale() { Ok(readable) } else { worker.calls().readable(fd) }
            }),
        ),
        libc::TIOCOUTQ | SIOCOUTQNSD => tell(
            argument,
            with(|worker| {
                worker.turn_if_stale();
                let calls = worker.calls();
                if request == SIOCOUTQNSD { calls.unsent(fd) } else { calls.unacknowledged(fd) }
            }),
        ),
        _ => Err(Errno(libc::ENOTTY)),
    }
}

/// A count is told where the program has room for a number.
fn tell(at: *mut c_int, count: Result<usize>) -> Result<()> {
    memory::write(at, c_int::try_from(count?).unwrap_or(c_int::MAX))
}

/// `sockatmark`, which the C library answers by its own call.
///
/// # Safety
/// As for sockatmark(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn sockatmark(fd: c_int) -> c_int {
    let mut at: c_int = 0;
    // SAFETY: the place is a local.
    if unsafe { ioctl(fd, SIOCATMARK, &raw mut at) } < 0 { -1 } else { at }
}
