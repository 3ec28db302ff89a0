//! Several messages by one call: `recvmmsg` and `sendmmsg`.

use crate::data::{is_ours, receive_message, send_message};
use crate::flushing::flush_before;
use crate::kernel::{call, int, result};
use crate::memory;
use crate::rights::are_free_of_ours;
use crate::watching::duration;
use crate::worker::with;
use core::ffi::{c_int, c_uint};
use core::time::Duration;
use cpu::Clock;
use libc::{mmsghdr, timespec};
use posix::{Errno, Result};
use wire::Time;

/// The first message is waited for, and no other (Linux: include/linux/socket.h).
const MSG_WAITFORONE: c_int = 0x10000;

/// `recvmmsg`.
///
/// # Safety
/// As for recvmmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !is_ours(fd) {
        flush_before(fd, libc::POLLIN);
        return int(call!(SYS_recvmmsg, fd, messages, count, flags, timeout));
    }
    int(result(receive_many(fd, messages, count, flags, timeout)))
}

/// Linux: `do_recvmmsg` in net/socket.c: the time is looked at between messages, and what is left of
/// it is written.
fn receive_many(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    mut flags: c_int,
    timeout: *mut timespec,
) -> Result<i64> {
    let until = if timeout.is_null() { None } else { Some(end_of(timeout)?) };
    if let Some(error) = with(|worker| worker.calls().take_error_of(fd))? {
        return Err(error);
    }
    let mut done = 0;
    let mut outcome = Ok(());
    while done < count {
        let entry = messages.wrapping_add(done as usize);
        outcome = receive_message(fd, entry.cast(), flags & !MSG_WAITFORONE).and_then(|got| write_len(entry, got));
        if outcome.is_err() {
            break;
        }
        done += 1;
        if flags & MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        if until.is_some_and(|until| until <= Clock.now()) {
            break;
        }
    }
    if let Some(until) = until {
        let left = until.since(Clock.now());
        memory::write(timeout, timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() })?;
    }
    told(done, outcome)
}

/// When a time that a program gives is up.
fn end_of(timeout: *const timespec) -> Result<Time> {
    // SAFETY: any numbers are a time.
    let time = unsafe { memory::read(timeout) }?;
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(Errno(libc::EINVAL));
    }
    // Longer than anybody waits.
    Ok(Clock.now() + duration(&time).min(Duration::from_secs(1 << 32)))
}

/// `sendmmsg`.
///
/// # Safety
/// As for sendmmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if !is_ours(fd) {
        return match are_free_of_ours(messages, count) {
            Ok(()) => int(call!(SYS_sendmmsg, fd, messages, count, flags)),
            Err(error) => int(result(Err(error))),
        };
    }
    int(result(send_many(fd, messages, count, flags)))
}

/// Linux: `__sys_sendmmsg` in net/socket.c: it ends with the first message that does not go whole.
fn send_many(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Result<i64> {
    let count = count.min(libc::UIO_MAXIOV as c_uint);
    let mut done = 0;
    let mut outcome = Ok(());
    while done < count {
        let entry = messages.wrapping_add(done as usize);
        let sent = send_message(fd, entry.cast(), flags);
        outcome = sent.and_then(|sent| write_len(entry, sent));
        if outcome.is_err() {
            break;
        }
        done += 1;
    }
    told(done, outcome)
}

/// How long a message was.
fn write_len(entry: *mut mmsghdr, len: i64) -> Result<()> {
    let at = entry.wrapping_byte_add(core::mem::offset_of!(mmsghdr, msg_len));
    memory::write(at.cast(), len as c_uint)
}

/// How many messages went or came, or why none did.
const fn told(done: c_uint, outcome: Result<()>) -> Result<i64> {
    match outcome {
        Err(error) if done == 0 => Err(error),
        _ => Ok(done as i64),
    }
}
