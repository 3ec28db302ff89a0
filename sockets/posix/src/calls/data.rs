//! Bytes are received and sent.

use super::Calls;
use crate::buffers::{Gather, Scatter};
use crate::errno::{Attempt, Errno, Result};
use crate::socket::{Kind, Socket, Stream, Told};
use app::Net;
use core::hint::cold_path;

impl Calls<'_> {
    /// `recv`: fills `out`, and is done with what there is, or, with
    /// `MSG_WAITALL`, with all of it. Zero bytes are the end.
    ///
    /// Before another attempt what was filled stays: with `MSG_PEEK` an attempt
    /// that is not done has filled nothing; where nobody waits it is done with what there is.
    ///
    /// # Errors
    /// Linux': `tcp_recvmsg_locked` in net/ipv4/tcp.c. `EINVAL` for urgent data,
    /// of which there is none.
    pub fn recv(&mut self, fd: i32, out: &mut Scatter<'_, '_>, flags: i32) -> Attempt<()> {
        let at = self.number(fd)?;
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
            cold_path();
            // Linux: `inet_recv_error` in net/ipv4/af_inet.c: nothing is queued there.
            if flags & libc::MSG_ERRQUEUE != 0 {
                return Err(Errno(libc::EAGAIN));
            }
            if !matches!(socket.kind, Kind::Listener(_)) {
                return Err(Errno(libc::EINVAL));
            }
        }
        let stream = match &mut socket.kind {
            Kind::Stream(stream) => stream,
            Kind::Listener(_) => return Err(Errno(libc::ENOTCONN)),
            Kind::Fresh(past) => {
                if let Some(error) = past.error.take() {
                    return Err(error);
                }
                return if past.deaf { Ok(Some(())) } else { Err(Errno(libc::ENOTCONN)) };
            }
        };
        let special = flags & (libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_WAITALL);
        if special == 0 && stream.held == 0 && stream.inbox.len() > 0 {
            let taken = out.put(stream.inbox.bytes());
            stream.inbox.consume(taken, &mut self.table.spares);
            self.table.figures.exchanges += stream.begin_exchange();
            return Ok(Some(()));
        }
        cold_path();
        self.recv_more(at, out, flags)
    }

    #[inline(never)]
    fn recv_more(&mut self, at: u32, out: &mut Scatter<'_, '_>, flags: i32) -> Attempt<()> {
        let (peek, trunc) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_TRUNC != 0);
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        let low_water = (socket.options.receive_low_water as usize).max(1);
        let waits = flags & libc::MSG_DONTWAIT == 0 && !socket.nonblocking;
        let Some(stream) = socket.stream_mut() else { return Err(Errno(libc::ENOTCONN)) };
        let target = if flags & libc::MSG_WAITALL != 0 { usize::MAX } else { low_water };
        // Nobody waits for more than was asked for.
        let target = target.min(out.filled() + out.room());
        let readable = stream.readable();
        let over = stream.is_shut_for_reading() || stream.error.is_some();
        if peek && out.filled() + readable < target && !over && (waits || readable == 0) {
            return Ok(None);
        }
        if out.room() == 0 && (out.filled() > 0 || readable > 0) {
            return Ok(Some(()));
        }
        let take = |out: &mut Scatter<'_, '_>, bytes: &[u8]| if trunc { out.skip(bytes.len()) } else { out.put(bytes) };
        let taken = take(out, stream.inbox.bytes());
        if !peek {
            stream.inbox.consume(taken, &mut self.table.spares);
            if out.filled() > 0 || stream.held > 0 {
                self.table.figures.exchanges += stream.begin_exchange();
            }
        }
        let (id, held) = (stream.id, stream.held);
        if held > 0 && out.room() > 0 {
            let left = self.recv_held(at, out, peek, take);
            debug_assert!(left <= held, "what the stack holds of {id:?} is what it was left with");
        }
        let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) else {
            return Err(Errno(libc::EBADF));
        };
        if out.filled() > 0 && (out.filled() >= target || (peek && !waits)) {
            return Ok(Some(()));
        }
        self.table.looks.answered(stream);
        stream.nothing_to_read(out.filled())
    }

    /// Takes bytes that the stack holds; how many are left there.
    fn recv_held(
        &mut self,
        at: u32,
        out: &mut Scatter<'_, '_>,
        peek: bool,
        take: impl Fn(&mut Scatter<'_, '_>, &[u8]) -> usize,
    ) -> usize {
        let Some(id) = self.table.sockets.get(at).and_then(Socket::stream).map(|stream| stream.id) else { return 0 };
        let Some(mut held) = self.stack.take_held(id) else { return 0 };
        let taken = take(out, held.contiguous());
        let consumed = if peek { 0 } else { taken };
        held.consume(consumed);
        let left = held.contiguous().len();
        self.stack.put_held(id, held, consumed > 0);
        if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
            stream.held = left;
        }
        left
    }

    /// `send`: takes bytes from `from`, and is done when all of them are queued.
    /// What was taken counts, whatever comes of the rest.
    ///
    /// # Errors
    /// Linux': `tcp_sendmsg_locked` in net/ipv4/tcp.c. With `EPIPE` the caller
    /// raises SIGPIPE unless `MSG_NOSIGNAL` is set. `EOPNOTSUPP` for urgent data
    /// and for data with a SYN.
    pub fn send(&mut self, fd: i32, from: &mut Gather<'_, '_>, flags: i32) -> Attempt<()> {
        let at = self.number(fd)?;
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        let stream = match &mut socket.kind {
            Kind::Stream(stream) => stream,
            // Linux: `sk_stream_wait_connect` in net/core/stream.c.
            Kind::Fresh(past) => return Err(past.error.take().unwrap_or(Errno(libc::EPIPE))),
            Kind::Listener(listener) => return Err(listener.past.error.take().unwrap_or(Errno(libc::EPIPE))),
        };
        if flags & (libc::MSG_OOB | libc::MSG_FASTOPEN) != 0 {
            cold_path();
            // Linux: `tcp_sendmsg_fastopen` connects, as far as it is not.
            let is_connected = flags & libc::MSG_OOB == 0 && stream.told == Told::Connected && stream.error.is_none();
            return Err(Errno(if is_connected { libc::EISCONN } else { libc::EOPNOTSUPP }));
        }
        if stream.error.is_some() || stream.is_shut_for_writing() || !stream.established {
            cold_path();
            return stream.cannot_send();
        }
        let id = stream.id;
        stream.has_answered = true;
        self.table.looks.answered(stream);
        let more = flags & libc::MSG_MORE != 0;
        let mut room = self.room_of(at);
        while from.left() > 0 {
            if room == 0 {
                cold_path();
                self.note_no_space(at);
                return Ok(None);
            }
            let piece = from.next(room);
            room -= piece.len();
            self.stack.send_bytes(id, piece);
            self.table.pending += piece.len();
        }
        self.note_more(at, more);
        Ok(Some(()))
    }

    /// Whether more follows what was queued (`MSG_MORE`).
    fn note_more(&mut self, at: u32, more: bool) {
        let Some(socket) = self.table.sockets.get_mut(at) else { return };
        if socket.options.more == more {
            return;
        }
        cold_path();
        socket.options.more = more;
        if let Some(stream) = socket.stream() {
            self.stack.set_more(stream.id, more);
        }
    }

    /// Bytes that a socket takes now; 0 where it takes none, for whatever reason.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn room(&self, fd: i32) -> Result<usize> {
        let at = self.number(fd)?;
        let able = |stream: &Stream| stream.established && !stream.is_shut_for_writing() && stream.error.is_none();
        let stream = self.table.sockets.get(at).and_then(Socket::stream);
        Ok(if stream.is_some_and(able) { self.room_of(at) } else { 0 })
    }

    /// Bytes that can be read (`FIONREAD`).
    ///
    /// # Errors
    /// `EINVAL` for a listener.
    pub fn readable(&self, fd: i32) -> Result<usize> {
        match &self.socket_of(fd)?.kind {
            Kind::Listener(_) => Err(Errno(libc::EINVAL)),
            Kind::Stream(stream) => Ok(stream.readable()),
            Kind::Fresh(_) => Ok(0),
        }
    }

    /// Bytes that the peer did not acknowledge yet (`SIOCOUTQ`).
    ///
    /// # Errors
    /// `EINVAL` for a listener.
    pub fn unacknowledged(&self, fd: i32) -> Result<usize> {
        match &self.socket_of(fd)?.kind {
            Kind::Listener(_) => Err(Errno(libc::EINVAL)),
            Kind::Stream(stream) => Ok(self.stack.unsent(stream.id)),
            Kind::Fresh(_) => Ok(0),
        }
    }

    /// Bytes that were not sent yet (`SIOCOUTQNSD`).
    ///
    /// # Errors
    /// `EINVAL` for a listener.
    pub fn unsent(&self, fd: i32) -> Result<usize> {
        match &self.socket_of(fd)?.kind {
            Kind::Listener(_) => Err(Errno(libc::EINVAL)),
            Kind::Stream(stream) => Ok(self.not_sent(stream)),
            Kind::Fresh(_) => Ok(0),
        }
    }

    /// Bytes that can be read after a `recvmsg` that is to tell them (`TCP_INQ`); one
    /// more than none where the end can (Linux: `tcp_inq_hint` in net/ipv4/tcp.c).
    #[must_use]
    pub fn left_to_read(&self, fd: i32) -> Option<i32> {
        let socket = self.socket_of(fd).ok().filter(|socket| socket.options.tell_left)?;
        let stream = socket.stream()?;
        Some(i32::try_from(stream.readable()).unwrap_or(i32::MAX).max(stream.ended.into()))
    }
}

impl Stream {
    /// What a read comes to that found `filled` bytes and no more: Linux looks at the end
    /// before it looks at errors.
    fn nothing_to_read(&mut self, filled: usize) -> Attempt<()> {
        if self.ended || (filled > 0 && self.is_shut_for_reading()) {
            return Ok(Some(()));
        }
        if filled > 0 && self.error.is_some() {
            return Ok(Some(()));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        Ok(self.is_shut_for_reading().then_some(()))
    }

    /// What a write comes to on a connection that takes nothing.
    fn cannot_send(&mut self) -> Attempt<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.is_shut_for_writing() {
            return Err(Errno(libc::EPIPE));
        }
        // In SYN-SENT, the handshake is waited for.
        Ok(None)
    }
}
