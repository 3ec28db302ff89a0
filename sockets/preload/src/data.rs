//! Bytes are received and sent: `recv` and `send`, and what else does the same.

use crate::kernel::{self, call, is_plausible, result};
use crate::marks::{Mark, mark};
use crate::worker::{SeatedWorker, patience, with};
use core::ffi::{c_int, c_uint, c_void};
use core::slice;
use libc::{iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};
use posix::{Attempt, Calls, Errno, Gather, MOST_BYTES, Result, Scatter};
use std::io::{IoSlice, IoSliceMut};

/// Pieces that are looked at without taking memory for it.
const FEW: usize = 8;

/// Whether a descriptor's bytes are ours to move: a connection's, or a listener's, which has none.
#[inline]
fn is_ours(fd: c_int) -> bool {
    mark(fd) == Mark::Connection
}

/// The vectors of a scattered buffer.
///
/// # Safety
/// `count` vectors can be read at `at`, unless it is no address.
unsafe fn vectors<'a>(at: *const iovec, count: usize) -> Result<&'a [iovec]> {
    if count > libc::UIO_MAXIOV as usize {
        return Err(Errno(libc::EMSGSIZE));
    }
    if count == 0 {
        return Ok(&[]);
    }
    if !is_plausible(at.cast()) {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: as the caller says.
    let vectors = unsafe { slice::from_raw_parts(at, count) };
    if vectors.iter().any(|vector| vector.iov_len > 0 && !is_plausible(vector.iov_base)) {
        return Err(Errno(libc::EFAULT));
    }
    Ok(vectors)
}

/// Receives into the caller's buffers.
///
/// # Safety
/// The vectors can be written to.
unsafe fn receive(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    // SAFETY: as the caller says; nobody else has a reference to the program's buffers.
    let slice = |vector: &iovec| match vector.iov_len {
        0 => IoSliceMut::new(&mut []),
        // SAFETY: as above.
        len => IoSliceMut::new(unsafe { slice::from_raw_parts_mut(vector.iov_base.cast(), len) }),
    };
    match vectors {
        [one] => receive_into(fd, &mut [slice(one)], flags),
        few => receive_into(fd, &mut few.iter().map(slice).collect::<Vec<_>>(), flags),
    }
}

fn receive_into(fd: c_int, slices: &mut [IoSliceMut<'_>], flags: c_int) -> Result<i64> {
    let mut out = Scatter::new(slices, MOST_BYTES);
    with(|worker| {
        match worker.calls().recv(fd, &mut out, flags) {
            Ok(Some(())) => return Ok(()),
            Ok(None) => {}
            Err(error) if out.filled() == 0 => return Err(error),
            Err(_) => return Ok(()),
        }
        let (nonblocking, timeout) = (worker.calls().is_nonblocking(fd)?, worker.calls().receive_timeout(fd)?);
        let limit = patience(nonblocking || flags & libc::MSG_DONTWAIT != 0, timeout);
        let outcome = worker.block(limit, |calls| calls.recv(fd, &mut out, flags));
        // What was filled counts, whatever came then.
        if out.filled() > 0 { Ok(()) } else { outcome }
    })?;
    Ok(out.filled() as i64)
}

/// Sends the caller's buffers.
///
/// # Safety
/// The vectors can be read.
unsafe fn transmit(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    // SAFETY: as the caller says.
    let slice = |vector: &iovec| match vector.iov_len {
        0 => IoSlice::new(&[]),
        // SAFETY: as above.
        len => IoSlice::new(unsafe { slice::from_raw_parts(vector.iov_base.cast(), len) }),
    };
    if vectors.len() > FEW {
        return transmit_from(fd, &vectors.iter().map(slice).collect::<Vec<_>>(), flags);
    }
    let mut few = [IoSlice::new(&[]); FEW];
    for (place, vector) in few.iter_mut().zip(vectors) {
        *place = slice(vector);
    }
    transmit_from(fd, &few[..vectors.len()], flags)
}

fn transmit_from(fd: c_int, slices: &[IoSlice<'_>], flags: c_int) -> Result<i64> {
    let mut from = Gather::new(slices, MOST_BYTES);
    let outcome = with(|worker| {
        let send = |calls: &mut Calls<'_>, from: &mut Gather<'_, '_>| -> Attempt<()> { calls.send(fd, from, flags) };
        if send(&mut worker.calls(), &mut from)?.is_some() {
            worker.turn_if_full();
            return Ok(());
        }
        let (nonblocking, timeout) = (worker.calls().is_nonblocking(fd)?, worker.calls().send_timeout(fd)?);
        let limit = patience(nonblocking || flags & libc::MSG_DONTWAIT != 0, timeout);
        worker.block(limit, |calls| send(calls, &mut from))
    });
    match (from.taken(), outcome) {
        (0, Err(error)) => {
            if error == Errno(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
                raise_pipe();
            }
            Err(error)
        }
        (taken, _) => Ok(taken as i64),
    }
}

/// SIGPIPE, as from the kernel.
fn raise_pipe() {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// `recv`.
///
/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are those of `recvfrom`, without an address.
    unsafe { recvfrom(fd, buf, len, flags, core::ptr::null_mut(), core::ptr::null_mut()) }
}

/// `recvfrom`: a stream's peer is not told.
///
/// # Safety
/// As for recvfrom(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_recvfrom, fd, buf, len, flags, addr, addr_len) as ssize_t;
    }
    if len > 0 && !is_plausible(buf) {
        return result(Err(Errno(libc::EFAULT))) as ssize_t;
    }
    let vector = iovec { iov_base: buf, iov_len: len.min(MOST_BYTES) };
    // SAFETY: the caller gives room for `len` bytes.
    let got = unsafe { receive(fd, &[vector], flags) };
    if got.is_ok() && is_plausible(addr_len.cast()) {
        // SAFETY: the caller gives a length to be changed.
        unsafe { *addr_len = 0 };
    }
    result(got) as ssize_t
}

/// `read`.
///
/// # Safety
/// As for read(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_read, fd, buf, len) as ssize_t;
    }
    if len == 0 {
        return 0;
    }
    // SAFETY: the arguments are those of `recv`.
    unsafe { recv(fd, buf, len, 0) }
}

/// `readv`.
///
/// # Safety
/// As for readv(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_readv, fd, iov, count) as ssize_t;
    }
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL));
    // SAFETY: the caller gives vectors that can be written to.
    let got = unsafe {
        count.and_then(|count| vectors(iov, count)).and_then(|vectors| {
            if vectors.iter().all(|vector| vector.iov_len == 0) { Ok(0) } else { receive(fd, vectors, 0) }
        })
    };
    result(got) as ssize_t
}

/// `recvmsg`: without control messages but `TCP_CM_INQ`.
///
/// # Safety
/// As for recvmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_recvmsg, fd, msg, flags) as ssize_t;
    }
    if !is_plausible(msg.cast()) {
        return result(Err(Errno(libc::EFAULT))) as ssize_t;
    }
    // SAFETY: the caller gives a header; its vectors can be written to.
    let got = unsafe {
        let msg = &mut *msg;
        let got = vectors(msg.msg_iov, msg.msg_iovlen).and_then(|vectors| receive(fd, vectors, flags));
        if got.is_ok() {
            (msg.msg_flags, msg.msg_namelen) = (0, 0);
            write_left(msg, with(|worker| Ok(worker.calls().left_to_read(fd))).ok().flatten());
        }
        got
    };
    result(got) as ssize_t
}

/// Adds the control message that says what is left to be read, if it is to be said and there is
/// room (`TCP_CM_INQ`).
///
/// # Safety
/// `msg_controllen` bytes can be written at `msg_control`.
unsafe fn write_left(msg: &mut msghdr, left: Option<c_int>) {
    // SAFETY: the macros only count, and find the first message's place in the room that the caller
    // vouches for, which is checked to be large enough.
    unsafe {
        let len = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as usize;
        let room = if is_plausible(msg.msg_control) { msg.msg_controllen } else { 0 };
        msg.msg_controllen = 0;
        let Some(left) = left.filter(|_| room >= len) else { return };
        msg.msg_controllen = len;
        let head = libc::CMSG_FIRSTHDR(msg);
        (*head).cmsg_level = libc::IPPROTO_TCP;
        (*head).cmsg_type = libc::TCP_CM_INQ;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as usize;
        libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(left);
    }
}

/// `send`.
///
/// # Safety
/// As for send(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are those of `sendto`, without an address.
    unsafe { sendto(fd, buf, len, flags, core::ptr::null(), 0) }
}

/// `sendto`: a connected stream has one peer, and the address is not looked at.
///
/// # Safety
/// As for sendto(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_sendto, fd, buf, len, flags, addr, addr_len) as ssize_t;
    }
    if len > 0 && !is_plausible(buf) {
        return result(Err(Errno(libc::EFAULT))) as ssize_t;
    }
    let vector = iovec { iov_base: buf.cast_mut(), iov_len: len.min(MOST_BYTES) };
    // SAFETY: the caller gives `len` bytes.
    result(unsafe { transmit(fd, &[vector], flags) }) as ssize_t
}

/// `write`.
///
/// # Safety
/// As for write(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_write, fd, buf, len) as ssize_t;
    }
    // SAFETY: the arguments are those of `send`.
    unsafe { send(fd, buf, len, 0) }
}

/// `writev`.
///
/// # Safety
/// As for writev(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_writev, fd, iov, count) as ssize_t;
    }
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL));
    // SAFETY: the caller gives vectors that can be read.
    let sent = unsafe { count.and_then(|count| vectors(iov, count)).and_then(|vectors| transmit(fd, vectors, 0)) };
    result(sent) as ssize_t
}

/// `sendmsg`. Control messages are for sockets that have something beside bytes: refused.
///
/// # Safety
/// As for sendmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        return call!(SYS_sendmsg, fd, msg, flags) as ssize_t;
    }
    if !is_plausible(msg.cast()) {
        return result(Err(Errno(libc::EFAULT))) as ssize_t;
    }
    // SAFETY: the caller gives a header; its vectors can be read.
    let sent = unsafe {
        let msg = &*msg;
        if msg.msg_controllen > 0 {
            Err(Errno(libc::EINVAL))
        } else {
            vectors(msg.msg_iov, msg.msg_iovlen).and_then(|vectors| transmit(fd, vectors, flags))
        }
    };
    result(sent) as ssize_t
}

/// Bytes of a file that are read at once.
const CHUNK: usize = 64 * 1024;

/// `sendfile`: the file is read, and sent as any bytes.
///
/// # Safety
/// As for sendfile(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(out: c_int, file: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    if !is_ours(out) {
        return call!(SYS_sendfile, out, file, offset, count) as ssize_t;
    }
    if !offset.is_null() && !is_plausible(offset.cast()) {
        return result(Err(Errno(libc::EFAULT))) as ssize_t;
    }
    // SAFETY: the caller gives an offset to be changed, or none.
    let start = unsafe { offset.as_ref() }.copied();
    let outcome = with(|worker| send_file(worker, out, file, start, count.min(MOST_BYTES)));
    if outcome == Err(Errno(libc::EPIPE)) {
        raise_pipe();
    }
    if let (Ok(sent), Some(start)) = (outcome, start) {
        // SAFETY: as above.
        unsafe { *offset = start + sent };
    }
    result(outcome) as ssize_t
}

/// `sendfile64`, which is the same.
///
/// # Safety
/// As for sendfile(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(out: c_int, file: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    // SAFETY: the arguments are those of `sendfile`.
    unsafe { sendfile(out, file, offset, count) }
}

/// Sends of a file what there is room for, from `start` or from where it stands.
fn send_file(worker: &mut SeatedWorker, out: c_int, file: c_int, start: Option<off64_t>, count: usize) -> Result<i64> {
    let nonblocking = worker.calls().is_nonblocking(out)?;
    let mut buffer = Vec::new();
    let mut sent = 0;
    while sent < count {
        // Nothing is read that cannot be sent: where a file stands is not to be taken back.
        let room = worker.calls().room(out)?.min(count - sent).min(CHUNK);
        if room == 0 {
            if sent > 0 {
                break;
            }
            let limit = patience(nonblocking, worker.calls().send_timeout(out)?);
            // An attempt to send nothing tells what is wrong, and has us told of room.
            worker.block(limit, |calls| {
                let has_room = calls.room(out)? > 0;
                let tried =
                    if has_room { Some(()) } else { calls.send(out, &mut Gather::new(&[IoSlice::new(b"x")], 1), 0)? };
                Ok(tried.filter(|()| has_room))
            })?;
            continue;
        }
        buffer.resize(room, 0);
        let at = buffer.as_mut_ptr();
        let got = match start {
            Some(start) => call!(SYS_pread64, file, at, room, start + sent as off64_t),
            None => call!(SYS_read, file, at, room),
        };
        if got < 0 {
            return if sent > 0 { Ok(sent as i64) } else { Err(Errno(kernel::errno())) };
        }
        if got == 0 {
            break;
        }
        let slices = [IoSlice::new(&buffer[..got as usize])];
        let mut from = Gather::new(&slices, MOST_BYTES);
        let outcome = worker.calls().send(out, &mut from, 0);
        sent += from.taken();
        if let Err(error) = outcome {
            return if sent > 0 { Ok(sent as i64) } else { Err(error) };
        }
        worker.turn_if_full();
    }
    Ok(sent as i64)
}

/// `splice`, `tee` and `vmsplice` of a connection of ours would have to copy through a pipe: refused.
///
/// # Safety
/// As for splice(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if is_ours(from) || is_ours(to) {
        return result(Err(Errno(libc::EINVAL))) as ssize_t;
    }
    call!(SYS_splice, from, from_offset, to, to_offset, len, flags) as ssize_t
}

/// `__read_chk`, as programs that were built with checks of buffers call `read`; the check is
/// that of the C library.
///
/// # Safety
/// As for read(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    check(len, room);
    // SAFETY: the arguments are those of `read`.
    unsafe { read(fd, buf, len) }
}

/// `__recv_chk`; likewise.
///
/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    check(len, room);
    // SAFETY: the arguments are those of `recv`.
    unsafe { recv(fd, buf, len, flags) }
}

/// `__recvfrom_chk`; likewise.
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
