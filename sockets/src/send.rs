//! From a queue to the kernel.

use crate::counters::Counters;
use crate::table::{Flags, Socket};
use app::SendFileError;
use rope::{Front, GATHER};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg, sockopt};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// Most bytes that one connection of a worker hands over before others have their
/// turn: some hundred microseconds of copying.
pub(crate) const BUDGET: usize = 2 << 20;

/// A file that is longer goes through sendfile's pipe in several pieces: 16
/// pages each.
const PIPE: u64 = 16 * 4_096;

/// How a queue was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// Empty.
    All,
    /// The kernel's buffer is full: it tells when there is room.
    Blocked,
    /// The budget is spent: go on in the next pass.
    Spent,
    /// A file was shorter than what was to be sent of it, or cannot be read.
    Truncated(SendFileError),
    /// What secures the connection made no record of it.
    Unsealed,
    /// The connection takes nothing any more.
    Failed(Errno),
}

/// Hands over what is queued, up to `budget`. `no_push`: as in
/// [`crate::StreamOptions`].
#[inline]
pub(crate) fn send_queue(conn: &mut Socket, (budget, no_push): (usize, bool), counters: &mut Counters) -> Sent {
    // The common case: one response, which the kernel takes at once.
    if let Front::Only(bytes) = conn.queue.front()
        && bytes.len() <= budget
        && let Some(fd) = conn.fd()
    {
        counters.sends += 1;
        let len = bytes.len();
        if let Ok(n) = send(fd, bytes, last_word(conn)) {
            counters.sent_bytes += n as u64;
            conn.queue.release(n as u64);
            if n == len {
                return Sent::All;
            }
            counters.sends_short += 1;
            return Sent::Blocked;
        }
    }
    send_slices(conn, (budget, no_push), counters)
}

#[inline(never)]
fn send_slices(conn: &mut Socket, (budget, no_push): (usize, bool), counters: &mut Counters) -> Sent {
    let mut left = budget;
    loop {
        cork(conn, no_push);
        let step = match (conn.queue.front(), conn.fd()) {
            (Front::Empty, _) | (_, None) => return Sent::All,
            (Front::File(file, offset, len), Some(fd)) => {
                let asked = usize::try_from(len).unwrap_or(usize::MAX).min(left);
                let mut at = offset;
                match sendfile(fd, file, Some(&mut at), asked) {
                    Ok(0) => return Sent::Truncated(SendFileError { call: "sendfile()", errno: None, at: offset }),
                    // Less may be for want of room, or of file: the next call
                    // tells which.
                    Ok(n) => {
                        counters.sent_file_bytes += n as u64;
                        Ok((n, n))
                    }
                    Err(e) if is_connections(e) => Err(e),
                    // The file's: it cannot be read, or not by sendfile(2).
                    Err(why) => {
                        let errno = Some(why.raw_os_error());
                        return Sent::Truncated(SendFileError { call: "sendfile()", errno, at: offset });
                    }
                }
            }
            (_, Some(fd)) => send_memory(conn, fd, left, no_push),
        };
        counters.sends += 1;
        match step {
            Ok((n, asked)) => {
                counters.sent_bytes += n as u64;
                conn.queue.release(n as u64);
                uncork(conn);
                left -= n;
                if n < asked {
                    counters.sends_short += 1;
                    return Sent::Blocked;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                counters.sends_short += 1;
                return Sent::Blocked;
            }
            Err(e) => return Sent::Failed(e),
        }
        if left == 0 && !conn.queue.is_empty() {
            return Sent::Spent;
        }
    }
}

/// Has segments fill while a long file goes. Each piece of the pipe asks the
/// kernel to wait for more, but for that one call: an acknowledgement that comes
/// between two pieces would send what is there. With 64 busy connections that
/// is two segments of 24 for a megabyte, which the client pays for.
#[inline]
fn cork(conn: &mut Socket, no_push: bool) {
    let long = matches!(conn.queue.front(), Front::File(_, _, len) if len > PIPE);
    // The kernel sends what is there after 200 ms in any case, so that a
    // failure costs nothing but segments.
    if long
        && no_push
        && !conn.flags.has(Flags::CORKED | Flags::UNIX)
        && conn.fd().is_some_and(|fd| sockopt::set_tcp_cork(fd, true).is_ok())
    {
        conn.flags.set(Flags::CORKED);
    }
}

/// What is there leaves, once no file is under way.
#[inline]
fn uncork(conn: &mut Socket) {
    if conn.flags.has(Flags::CORKED) && !matches!(conn.queue.front(), Front::File(..)) {
        conn.flags.clear(Flags::CORKED);
        if let Some(fd) = conn.fd() {
            // A connection that failed has nothing to send.
            let _ = sockopt::set_tcp_cork(fd, false);
        }
    }
}

/// Flags of a send. Where our FIN follows at once, what is sent waits for it:
/// both share a segment, and the peer is woken once.
#[inline]
fn last_word(conn: &Socket) -> SendFlags {
    if conn.flags.has(Flags::FINISHED) { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL }
}

/// Whether an error of sendfile(2) is the connection's, not the file's.
fn is_connections(e: Errno) -> bool {
    matches!(
        e,
        Errno::AGAIN
            | Errno::INTR
            | Errno::PIPE
            | Errno::CONNRESET
            | Errno::TIMEDOUT
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::NOTCONN
    )
}

/// One call for the pieces of memory that stand first. Returns how much of
/// how much was taken. Where a file comes next, the last segment waits for it
/// (MSG_MORE: TCP_CORK for one call).
fn send_memory(conn: &Socket, fd: BorrowedFd<'_>, limit: usize, no_push: bool) -> Result<(usize, usize), Errno> {
    let mut pieces = [IoSlice::new(&[]); GATHER];
    let gathered = conn.queue.gather(&mut pieces, limit);
    let mut flags = last_word(conn);
    if gathered.file_next && no_push {
        flags |= SendFlags::MORE;
    }
    let n = match &pieces[..gathered.pieces] {
        [only] => send(fd, only, flags),
        several => sendmsg(fd, several, &mut SendAncillaryBuffer::default(), flags),
    };
    n.map(|n| (n, gathered.bytes))
}
