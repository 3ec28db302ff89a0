//! Bytes between descriptors of the kernel's and connections: `sendfile` and `splice`, which copy.

use crate::data::{is_ours, raise_pipe};
use crate::kernel::{self, call, is_ready, result};
use crate::memory;
use crate::worker::{SeatedWorker, have_done, is_anothers, patience, refuse, with};
use core::ffi::{c_int, c_uint, c_void};
use libc::{off64_t, size_t, ssize_t};
use posix::{Errno, Gather, MOST_BYTES, Result, Scatter};
use std::io::{IoSlice, IoSliceMut};

/// Bytes of a file that are read at once.
const CHUNK: usize = 64 * 1024;

/// `sendfile`: the file is read, and sent as any bytes.
///
/// # Safety
/// As for sendfile(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(out: c_int, file: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    if is_ours(file) {
        // Linux: `do_sendfile` in fs/read_write.c, and `splice_direct_to_actor` in fs/splice.c.
        return result(Err(Errno(if offset.is_null() { libc::EINVAL } else { libc::ESPIPE }))) as ssize_t;
    }
    if !is_ours(out) {
        return call!(SYS_sendfile, out, file, offset, count) as ssize_t;
    }
    let outcome = send_from(out, file, offset, count.min(MOST_BYTES));
    if outcome == Err(Errno(libc::EPIPE)) {
        raise_pipe();
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

fn send_from(out: c_int, file: c_int, offset: *mut off64_t, count: usize) -> Result<i64> {
    let start = match offset.is_null() {
        true => None,
        // SAFETY: any number is one.
        false => Some(unsafe { memory::read(offset) }?),
    };
    if start.is_some_and(|start| start < 0) {
        return Err(Errno(libc::EINVAL));
    }
    let sent = if is_anothers() {
        send_file_from_afar(out, file, start, count)
    } else {
        with(|worker| {
            let sent = send_file(worker, out, file, start, count);
            worker.leave_soon(false);
            sent
        })
    }?;
    start.map_or(Ok(()), |start| memory::write(offset, start + sent))?;
    Ok(sent)
}

/// Sends of a file what there is room for, from `start` or from where it stands.
fn send_file(worker: &mut SeatedWorker, out: c_int, file: c_int, start: Option<off64_t>, count: usize) -> Result<i64> {
    let mut buffer = Vec::new();
    let mut sent = 0;
    while sent < count {
        // Nothing is read that cannot be sent: where a file stands is not to be taken back.
        let room = worker.calls().room(out)?.min(count - sent).min(CHUNK);
        if room == 0 {
            if sent > 0 {
                break;
            }
            wait_for_room(worker, out, false)?;
            continue;
        }
        buffer.resize(room, 0);
        let at: *mut c_void = buffer.as_mut_ptr().cast();
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
        let (now, outcome) = send_bytes(worker, out, &buffer[..got as usize], 0);
        sent += now;
        if let Err(error) = outcome {
            return if sent > 0 { Ok(sent as i64) } else { Err(error) };
        }
        worker.turn_if_full();
    }
    Ok(sent as i64)
}

/// The same in another thread than the worker's: what may take long, reading, is done here, and the worker
/// sends what was read. Sockets that wait for room are not for that.
fn send_file_from_afar(out: c_int, file: c_int, start: Option<off64_t>, count: usize) -> Result<i64> {
    let at = match start {
        Some(start) => start,
        None => place_of(file, 0, libc::SEEK_CUR)?,
    };
    let mut sent = 0;
    let failed = loop {
        if sent == count {
            break None;
        }
        let piece = CHUNK.min(count - sent);
        match send_piece(out, file, at + sent as off64_t, piece) {
            Ok(now) => {
                sent += now;
                // There is no room for more, of which the program is told, or no more in the file.
                if now < piece {
                    break None;
                }
            }
            Err(error) => break Some(error),
        }
    };
    if start.is_none() {
        // Behind what was sent, not behind what was read.
        place_of(file, at + sent as off64_t, libc::SEEK_SET)?;
    }
    failed.filter(|_| sent == 0).map_or(Ok(sent as i64), Err)
}

/// Sends some of a file from this place on: how much; none at its end.
fn send_piece(out: c_int, file: c_int, at: off64_t, most: usize) -> Result<usize> {
    let mut buffer = vec![0; most];
    let got = call!(SYS_pread64, file, buffer.as_mut_ptr(), buffer.len(), at);
    if got < 0 {
        return Err(Errno(kernel::errno()));
    }
    buffer.truncate(got as usize);
    if buffer.is_empty() {
        return Ok(0);
    }
    have_done(SENDFILE, move |worker| {
        if !worker.calls().is_nonblocking(out)? {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        // It leaves with the turn in which this is done.
        let (now, outcome) = send_bytes(worker, out, &buffer, 0);
        if now > 0 { Ok(now) } else { outcome.and(Err(Errno(libc::EAGAIN))) }
    })
    .map_err(|error| if error == Errno(libc::EOPNOTSUPP) { refuse(SENDFILE) } else { error })
}

/// Where a file stands by now.
fn place_of(file: c_int, to: off64_t, from: c_int) -> Result<off64_t> {
    match call!(SYS_lseek, file, to, from) {
        at if at < 0 => Err(Errno(kernel::errno())),
        at => Ok(at),
    }
}

/// The call that threads may make.
const SENDFILE: &str = "sendfile";

/// Sends bytes that there is room for; how many, and what is wrong with the others.
fn send_bytes(worker: &mut SeatedWorker, out: c_int, bytes: &[u8], flags: c_int) -> (usize, Result<()>) {
    let slices = [IoSlice::new(bytes)];
    let mut from = Gather::new(&slices, MOST_BYTES);
    let outcome = worker.calls().send(out, &mut from, flags).map(|_| ());
    (from.taken(), outcome)
}

/// Waits, as the socket has it, until a connection takes something.
fn wait_for_room(worker: &mut SeatedWorker, out: c_int, dont_wait: bool) -> Result<()> {
    let nonblocking = worker.calls().is_nonblocking(out)? || dont_wait;
    let limit = patience(nonblocking, worker.calls().send_timeout(out)?);
    // An attempt to send nothing tells what is wrong, and has us told of room.
    worker.block(limit, |calls| {
        let has_room = calls.room(out)? > 0;
        let tried = if has_room { Some(()) } else { calls.send(out, &mut Gather::new(&[IoSlice::new(b"x")], 1), 0)? };
        Ok(tried.filter(|()| has_room))
    })
}

/// `splice` between a pipe and a connection of ours.
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
    let pipe = match (is_ours(from), is_ours(to)) {
        (false, false) => return call!(SYS_splice, from, from_offset, to, to_offset, len, flags) as ssize_t,
        (true, _) => to,
        (false, true) => from,
    };
    // Linux: `splice` and `do_splice` in fs/splice.c: neither has places, and one of both is a pipe.
    let of_pipe = if pipe == to { to_offset } else { from_offset };
    let refused = if len == 0 {
        return 0;
    } else if flags & !SPLICE_FLAGS != 0 || !is_pipe(pipe) {
        Some(libc::EINVAL)
    } else if !of_pipe.is_null() {
        Some(libc::ESPIPE)
    } else if !from_offset.is_null() || !to_offset.is_null() {
        Some(libc::EINVAL)
    } else {
        None
    };
    let outcome = match refused {
        Some(error) => Err(Errno(error)),
        None if pipe == to => splice_out(from, to, len, flags),
        None => splice_in(from, to, len, flags),
    };
    if outcome == Err(Errno(libc::EPIPE)) {
        raise_pipe();
    }
    result(outcome) as ssize_t
}

/// Linux: `SPLICE_F_ALL`.
const SPLICE_FLAGS: c_uint = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// `tee`, which is for two pipes.
///
/// # Safety
/// As for tee(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn tee(from: c_int, to: c_int, len: size_t, flags: c_uint) -> ssize_t {
    if is_ours(from) || is_ours(to) {
        return if len == 0 { 0 } else { result(Err(Errno(libc::EINVAL))) as ssize_t };
    }
    call!(SYS_tee, from, to, len, flags) as ssize_t
}

fn is_pipe(fd: c_int) -> bool {
    // The kernel says how much a pipe holds, and of nothing else.
    call!(SYS_fcntl, fd, libc::F_GETPIPE_SZ) >= 0
}

/// From a connection into a pipe: what the pipe took is then read, and nothing else.
fn splice_out(from: c_int, pipe: c_int, len: usize, flags: c_uint) -> Result<i64> {
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    if dont_wait && !is_ready(pipe, libc::POLLOUT) {
        return Err(Errno(libc::EAGAIN));
    }
    // A pipe that is ready takes so much at once, whoever else writes to it (pipe(7)).
    let most = if dont_wait { libc::PIPE_BUF } else { CHUNK };
    let mut buffer = vec![0; len.min(most)];
    let peeked = with(|worker| receive(worker, from, &mut buffer, libc::MSG_PEEK))?;
    let wrote = call!(SYS_write, pipe, buffer.as_ptr(), peeked);
    if wrote < 0 {
        return Err(Errno(kernel::errno()));
    }
    with(|worker| receive(worker, from, &mut buffer[..wrote as usize], 0))?;
    Ok(wrote)
}

fn receive(worker: &mut SeatedWorker, from: c_int, buffer: &mut [u8], flags: c_int) -> Result<usize> {
    let mut slices = [IoSliceMut::new(buffer)];
    let mut out = Scatter::new(&mut slices, MOST_BYTES);
    let (nonblocking, timeout) = (worker.calls().is_nonblocking(from)?, worker.calls().receive_timeout(from)?);
    worker.block(patience(nonblocking, timeout), |calls| calls.recv(from, &mut out, flags))?;
    Ok(out.filled())
}

/// From a pipe into a connection: no more is read than the connection takes.
fn splice_in(pipe: c_int, to: c_int, len: usize, flags: c_uint) -> Result<i64> {
    let dont_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let room = with(|worker| {
        if worker.calls().room(to)? == 0 {
            wait_for_room(worker, to, dont_wait)?;
        }
        worker.calls().room(to)
    })?;
    if dont_wait && !is_ready(pipe, libc::POLLIN) {
        return Err(Errno(libc::EAGAIN));
    }
    let mut buffer = vec![0; len.min(room).min(CHUNK)];
    let got = call!(SYS_read, pipe, buffer.as_mut_ptr(), buffer.len());
    if got < 0 {
        return Err(Errno(kernel::errno()));
    }
    let more = flags & libc::SPLICE_F_MORE != 0;
    with(|worker| {
        let flags = if more { libc::MSG_MORE } else { 0 };
        let (sent, outcome) = send_bytes(worker, to, &buffer[..got as usize], flags);
        worker.leave_soon(more);
        outcome.map(|()| sent as i64)
    })
}
