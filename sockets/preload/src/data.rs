//! Bytes are received and sent: `recv` and `send`, and what else does the same.

use crate::flushing::flush_before;
use crate::kernel::{call, result};
use crate::marks::{Mark, mark};
use crate::memory::{self, Access, PORTION, check, is_there, one_portion, portion};
use crate::rights::{is_free_of_ours, note_received};
use crate::worker::{SeatedWorker, patience, usually, with};
use core::ffi::{c_int, c_uint, c_void};
use core::hint::cold_path;
use core::slice;
use libc::{iovec, msghdr, size_t, sockaddr, sockaddr_storage, socklen_t, ssize_t};
use posix::{Attempt, Errno, Gather, INBOX, MOST_BYTES, Result, Scatter};
use std::io::{IoSlice, IoSliceMut};

/// Whether a descriptor's bytes are ours to move: a connection's, or a listener's, which has none.
#[inline]
pub fn is_ours(fd: c_int) -> bool {
    mark(fd) == Mark::Connection
}

/// The vectors of a scattered buffer; `too_many` says what is wrong with more than there may be.
///
/// # Safety
/// Nobody changes them meanwhile.
#[inline]
unsafe fn vectors<'a>(at: *const iovec, count: usize, too_many: c_int) -> Result<&'a [iovec]> {
    // SAFETY: as the caller says.
    let vectors = unsafe { named(at, count, too_many) }?;
    check_lengths(vectors)?;
    Ok(vectors)
}

/// The same, whatever their lengths.
///
/// # Safety
/// As for [`vectors`].
#[inline]
unsafe fn named<'a>(at: *const iovec, count: usize, too_many: c_int) -> Result<&'a [iovec]> {
    if count > libc::UIO_MAXIOV as usize {
        return Err(Errno(too_many));
    }
    if count == 0 {
        return Ok(&[]);
    }
    check(Access::Read, at.cast(), count * size_of::<iovec>())?;
    // SAFETY: the kernel finds so much there, and the caller says that it stays.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// Linux: `copy_iovec_from_user` in lib/iov_iter.c.
fn check_lengths(vectors: &[iovec]) -> Result<()> {
    let is_wrong = vectors.iter().any(|vector| vector.iov_len > isize::MAX as usize);
    if is_wrong { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// The vectors of readv(2) and writev(2), by their number as those have it.
///
/// # Safety
/// As for [`vectors`].
unsafe fn counted<'a>(at: *const iovec, count: c_int) -> Result<&'a [iovec]> {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: as the caller says.
    unsafe { vectors(at, count, libc::EINVAL) }
}

const fn bytes_of(vectors: &[iovec]) -> usize {
    let (mut sum, mut at) = (0usize, 0);
    while at < vectors.len() {
        sum = sum.saturating_add(vectors[at].iov_len);
        at += 1;
    }
    sum
}

/// Receives into the program's buffers.
#[inline]
fn receive(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    if flags & libc::MSG_TRUNC == 0 && one_portion(Access::Write, vectors, INBOX).is_some() {
        // SAFETY: all of it was found.
        return unsafe { receive_portion(fd, vectors, flags) };
    }
    receive_portions(fd, vectors, flags)
}

/// The same into much, or into what is not all there: as far as it is. No more memory is looked at
/// than there may be something for: it may never have been touched.
#[cold]
fn receive_portions(fd: c_int, vectors: &[iovec], mut flags: c_int) -> Result<i64> {
    let all = bytes_of(vectors).min(MOST_BYTES);
    if flags & libc::MSG_TRUNC != 0 {
        // Nothing is copied, wherever that would be.
        return receive_into(fd, Scatter::uncopied(all), flags);
    }
    let is_whole = libc::MSG_WAITALL | libc::MSG_PEEK;
    let mut got = 0;
    loop {
        let readable = with(|worker| worker.calls().readable(fd)).unwrap_or(0);
        let most = if flags & is_whole == is_whole { PORTION } else { readable.clamp(INBOX, PORTION) };
        let part = match portion(Access::Write, vectors, got, most) {
            Ok(part) => part,
            // Linux finds out as it copies: who has nothing to copy hears of that.
            Err(error) if got == 0 => {
                let has_some = !memory::is_in_space(vectors) || is_anything_there(fd, flags)?;
                return if has_some { Err(error) } else { Ok(0) };
            }
            Err(_) => return Ok(got as i64),
        };
        // SAFETY: this part was found.
        match unsafe { receive_portion(fd, &part, flags) } {
            Ok(now) => {
                got += now as usize;
                let is_full = now as usize == bytes_of(&part) && now > 0;
                if !is_full || got >= all || flags & libc::MSG_PEEK != 0 {
                    return Ok(got as i64);
                }
                if flags & libc::MSG_WAITALL == 0 {
                    // What there is besides is not waited for.
                    flags |= libc::MSG_DONTWAIT;
                }
            }
            Err(_) if got > 0 => return Ok(got as i64),
            Err(error) => return Err(error),
        }
    }
}

/// Whether there is anything to read, and not the end.
fn is_anything_there(fd: c_int, flags: c_int) -> Result<bool> {
    let mut byte = [0];
    let flags = (flags & !(libc::MSG_WAITALL | libc::MSG_TRUNC)) | libc::MSG_PEEK;
    Ok(receive_into(fd, Scatter::new(&mut [IoSliceMut::new(&mut byte)], 1), flags)? > 0)
}

/// Receives into the program's buffers, which are there.
///
/// # Safety
/// The vectors can be written to.
unsafe fn receive_portion(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    // SAFETY: as the caller says; nobody else has a reference to the program's buffers.
    let slice = |vector: &iovec| match vector.iov_len {
        0 => IoSliceMut::new(&mut []),
        // SAFETY: as above.
        len => IoSliceMut::new(unsafe { slice::from_raw_parts_mut(vector.iov_base.cast(), len) }),
    };
    match vectors {
        [one] => receive_into(fd, Scatter::new(&mut [slice(one)], MOST_BYTES), flags),
        few => {
            let mut slices: Vec<_> = few.iter().map(slice).collect();
            receive_into(fd, Scatter::new(&mut slices, MOST_BYTES), flags)
        }
    }
}

fn receive_into(fd: c_int, mut out: Scatter<'_, '_>, flags: c_int) -> Result<i64> {
    with(|worker| match worker.calls().recv(fd, &mut out, flags) {
        Ok(Some(())) if out.filled() > 0 => Ok(()),
        first => receive_later(worker, fd, &mut out, (flags, first)),
    })?;
    Ok(out.filled() as i64)
}

/// The same where nothing has come, or not all, as far as the last turn knows.
#[cold]
fn receive_later(
    worker: &mut SeatedWorker,
    fd: c_int,
    out: &mut Scatter<'_, '_>,
    (flags, mut found): (c_int, Attempt<()>),
) -> Result<()> {
    if out.filled() == 0 && found.is_ok() && worker.turn_if_idle() {
        found = worker.calls().recv(fd, out, flags);
    }
    match found {
        Ok(None) => {}
        Ok(Some(())) => return Ok(()),
        // What was filled counts, whatever came then.
        Err(error) => return if out.filled() > 0 { Ok(()) } else { Err(error) },
    }
    let (nonblocking, timeout) = (worker.calls().is_nonblocking(fd)?, worker.calls().receive_timeout(fd)?);
    let limit = patience(nonblocking || flags & libc::MSG_DONTWAIT != 0, timeout);
    let outcome = worker.block_unless_signalled(limit, |calls, signalled| {
        let done = calls.recv(fd, out, flags)?;
        // A signal's handler ends the wait for more than has come.
        Ok(done.or((signalled && out.filled() > 0).then_some(())))
    });
    if out.filled() > 0 { Ok(()) } else { outcome }
}

/// Sends the program's buffers.
#[inline]
fn transmit(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    match one_portion(Access::Read, vectors, PORTION) {
        // SAFETY: all of it was found.
        Some(all) => transmit_found(fd, unsafe { slices_of(vectors) }, all, flags),
        None => transmit_portions(fd, vectors, flags),
    }
}

/// The same of `all` bytes that are there.
#[inline(always)]
fn transmit_found(fd: c_int, slices: &[IoSlice<'_>], all: usize, flags: c_int) -> Result<i64> {
    if flags & !USUAL == 0 {
        let sent = usually(
            #[inline(always)]
            |worker| {
                worker.calls().send_usual(fd, slices, all)?;
                worker.leave_soon(false);
                Some(())
            },
        );
        if sent.is_some() {
            return Ok(all as i64);
        }
        cold_path();
    }
    transmit_from(fd, Gather::new(slices, MOST_BYTES), flags)
}

/// Flags that change nothing where a call neither waits nor fails.
const USUAL: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// What vectors name.
///
/// # Safety
/// It can be read, as long as these are in use, and none is empty.
const unsafe fn slices_of(vectors: &[iovec]) -> &[IoSlice<'_>] {
    // SAFETY: `IoSlice` is laid out as `iovec` is, as its documentation says, and the caller vouches for
    // the memory.
    unsafe { slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len()) }
}

/// The same of much, or of what is not all there: as far as it is.
#[cold]
fn transmit_portions(fd: c_int, vectors: &[iovec], flags: c_int) -> Result<i64> {
    let all = bytes_of(vectors).min(MOST_BYTES);
    let (mut sent, mut flags) = (0, flags);
    loop {
        let part = match portion(Access::Read, vectors, sent, PORTION) {
            Ok(part) => part,
            // A connection that takes nothing says so first, but for an address that can be none.
            Err(error) if sent == 0 && memory::is_in_space(vectors) => {
                return transmit_from(fd, Gather::new(&[], 0), flags).and(Err(error));
            }
            Err(error) => return if sent > 0 { Ok(sent as i64) } else { Err(error) },
        };
        // SAFETY: this part was found, and what is empty left out.
        let slices = unsafe { slices_of(&part) };
        match transmit_from(fd, Gather::new(slices, MOST_BYTES), flags) {
            Ok(now) => {
                sent += now as usize;
                if (now as usize) < bytes_of(&part) || sent >= all {
                    return Ok(sent as i64);
                }
            }
            Err(_) if sent > 0 => return Ok(sent as i64),
            Err(error) => return Err(error),
        }
        // What was sent counts: who sent some is not signalled.
        flags |= libc::MSG_NOSIGNAL;
    }
}

fn transmit_from(fd: c_int, mut from: Gather<'_, '_>, flags: c_int) -> Result<i64> {
    let more = flags & libc::MSG_MORE != 0;
    let outcome = with(|worker| {
        if worker.calls().send(fd, &mut from, flags)?.is_some() {
            worker.leave_soon(more);
            return Ok(());
        }
        let (nonblocking, timeout) = (worker.calls().is_nonblocking(fd)?, worker.calls().send_timeout(fd)?);
        let limit = patience(nonblocking || flags & libc::MSG_DONTWAIT != 0, timeout);
        let outcome = worker.block_unless_signalled(limit, |calls, signalled| {
            let done = calls.send(fd, &mut from, flags)?;
            Ok(done.or((signalled && from.taken() > 0).then_some(())))
        });
        worker.leave_soon(more);
        outcome
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
pub fn raise_pipe() {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// `recv`.
///
/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are those of `recvfrom`, without an address.
    unsafe { recvfrom(fd, buf, len, flags, core::ptr::null_mut(), core::ptr::null_mut()) }
}

/// `recvfrom`: a stream's peer is not told.
///
/// # Safety
/// As for recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if !is_ours(fd) {
        flush_before(fd, libc::POLLIN);
        return call!(SYS_recvfrom, fd, buf, len, flags, addr, addr_len) as ssize_t;
    }
    let is_usual = addr.is_null() && flags & !USUAL == 0 && len.wrapping_sub(1) < INBOX;
    if is_usual && is_there(Access::Write, buf, len) {
        // SAFETY: it was found, and nobody else has a reference to the program's buffer.
        let room = unsafe { slice::from_raw_parts_mut(buf.cast(), len) };
        let got = usually(
            #[inline(always)]
            |worker| worker.calls().recv_usual(fd, room),
        );
        if let Some(got) = got {
            return got.cast_signed();
        }
        cold_path();
    }
    let got = receive(fd, &[iovec { iov_base: buf, iov_len: len.min(MOST_BYTES) }], flags);
    let got = if addr.is_null() { got } else { got.and_then(|got| no_name(addr_len).map(|()| got)) };
    result(got) as ssize_t
}

/// Where a peer would be told there is none (Linux: `move_addr_to_user` in net/socket.c).
fn no_name(len: *mut socklen_t) -> Result<()> {
    // SAFETY: any number is one.
    if unsafe { memory::read(len) }?.cast_signed() < 0 {
        return Err(Errno(libc::EINVAL));
    }
    memory::write(len, 0)
}

/// `read`.
///
/// # Safety
/// As for read(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        flush_before(fd, libc::POLLIN);
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
        flush_before(fd, libc::POLLIN);
        return call!(SYS_readv, fd, iov, count) as ssize_t;
    }
    // SAFETY: the program gives vectors, which no other thread of it changes meanwhile.
    let got = unsafe { counted(iov, count) }.and_then(|vectors| {
        if vectors.iter().all(|vector| vector.iov_len == 0) { Ok(0) } else { receive(fd, vectors, 0) }
    });
    result(got) as ssize_t
}

/// `recvmsg`: without control messages but `TCP_CM_INQ`.
///
/// # Safety
/// As for recvmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        flush_before(fd, libc::POLLIN);
        let got = call!(SYS_recvmsg, fd, msg, flags) as ssize_t;
        if got >= 0 {
            note_received(msg);
        }
        return got;
    }
    result(receive_message(fd, msg, flags)) as ssize_t
}

/// A flag of the kernel's own (`__sys_recvmsg` in net/socket.c).
const MSG_CMSG_COMPAT: c_int = c_int::MIN;

/// Receives as a header says, and writes into it what came beside bytes.
pub fn receive_message(fd: c_int, msg: *mut msghdr, flags: c_int) -> Result<i64> {
    if flags & MSG_CMSG_COMPAT != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: any bytes are a header; where it says that there is memory is looked at.
    let mut head = unsafe { memory::read(msg) }?;
    check_name_of(&head)?;
    // SAFETY: the program gives vectors, which no other thread of it changes meanwhile.
    let vectors = unsafe { vectors(head.msg_iov, head.msg_iovlen, libc::EMSGSIZE) }?;
    let got = receive(fd, vectors, flags)?;
    (head.msg_flags, head.msg_namelen) = (0, 0);
    let left = with(|worker| Ok(worker.calls().left_to_read(fd))).ok().flatten();
    // SAFETY: no more is written than was found there.
    unsafe { write_left(&mut head, left) };
    memory::write(msg, head)?;
    Ok(got)
}

/// Adds the control message that says what is left to be read, if it is to be said and there is
/// room (`TCP_CM_INQ`).
///
/// # Safety
/// What is written is the program's room for control messages, if it is there at all.
unsafe fn write_left(msg: &mut msghdr, left: Option<c_int>) {
    // SAFETY: the macros only count, and find the first message's place in the room, which is checked
    // to be there, and large enough.
    unsafe {
        let len = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as usize;
        let has_room = msg.msg_controllen >= len && is_there(Access::Write, msg.msg_control, len);
        msg.msg_controllen = 0;
        let Some(left) = left.filter(|_| has_room) else { return };
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
pub unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are those of `sendto`, without an address.
    unsafe { sendto(fd, buf, len, flags, core::ptr::null(), 0) }
}

/// `sendto`: a connected stream has one peer, and what the address says is not looked at.
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
    let named = if addr.is_null() { Ok(()) } else { is_name(addr, addr_len) };
    let vector = iovec { iov_base: buf.cast_mut(), iov_len: len.min(MOST_BYTES) };
    result(named.and_then(|()| transmit(fd, &[vector], flags))) as ssize_t
}

/// Whether a header's name has a length (Linux: `__copy_msghdr` in net/socket.c).
fn check_name_of(head: &msghdr) -> Result<()> {
    let is_wrong = !head.msg_name.is_null() && head.msg_namelen.cast_signed() < 0;
    if is_wrong { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// Whether a name could be one (Linux: `move_addr_to_kernel` in net/socket.c).
fn is_name(at: *const sockaddr, len: socklen_t) -> Result<()> {
    if len as usize > size_of::<sockaddr_storage>() {
        return Err(Errno(libc::EINVAL));
    }
    check(Access::Read, at.cast(), len as usize)
}

/// `write`.
///
/// # Safety
/// As for write(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
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
    // A negative number is too many.
    let count = count as u32 as usize;
    // SAFETY: the program gives vectors, which no other thread of it changes meanwhile.
    let sent = unsafe { named(iov, count, libc::EINVAL) }.and_then(|vectors| {
        match one_portion(Access::Read, vectors, PORTION) {
            // Linux: `do_iter_readv_writev` is not come to in fs/read_write.c.
            Some(0) => Ok(0),
            // SAFETY: all of it was found.
            Some(all) => transmit_found(fd, unsafe { slices_of(vectors) }, all, 0),
            None => {
                check_lengths(vectors)?;
                if bytes_of(vectors) == 0 { Ok(0) } else { transmit_portions(fd, vectors, 0) }
            }
        }
    });
    result(sent) as ssize_t
}

/// `sendmsg`. Control messages are for sockets that have something beside bytes: refused.
///
/// # Safety
/// As for sendmsg(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    if !is_ours(fd) {
        return match is_free_of_ours(msg) {
            Ok(()) => call!(SYS_sendmsg, fd, msg, flags) as ssize_t,
            Err(error) => result(Err(error)) as ssize_t,
        };
    }
    result(send_message(fd, msg, flags)) as ssize_t
}

/// Sends as a header says.
pub fn send_message(fd: c_int, msg: *const msghdr, flags: c_int) -> Result<i64> {
    // SAFETY: any bytes are a header; where it says that there is memory is looked at.
    let head = unsafe { memory::read(msg) }?;
    check_name_of(&head)?;
    if !head.msg_name.is_null() {
        let len = head.msg_namelen.min(size_of::<sockaddr_storage>() as socklen_t);
        is_name(head.msg_name.cast_const().cast(), len)?;
    }
    // SAFETY: the program gives vectors, which no other thread of it changes meanwhile.
    let vectors = unsafe { vectors(head.msg_iov, head.msg_iovlen, libc::EMSGSIZE) }?;
    if head.msg_controllen > c_int::MAX as usize {
        return Err(Errno(libc::ENOBUFS));
    }
    if head.msg_controllen > 0 {
        check(Access::Read, head.msg_control, head.msg_controllen)?;
        return Err(Errno(libc::EINVAL));
    }
    transmit(fd, vectors, flags)
}
