//! Descriptors are doubled and closed, connections end.

use super::Calls;
use crate::errno::{Errno, Result};
use crate::slab::NONE;
use crate::socket::{Kind, Socket, Told};
use crate::table::{CHANGED, Descriptor, FAILED, ORPHAN_LINGERS};
use app::{ConnId, Net};
use core::net::SocketAddr;
use core::time::Duration;
use tcp::State;

/// How long the peer of a lost connection is asked for.
const LOST_LINGERS: Duration = Duration::from_secs(3);

impl Calls<'_> {
    /// `dup`: `new`, which is the caller's, refers to what `fd` does. What it
    /// referred to before is closed.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn dup(&mut self, fd: i32, new: i32) -> Result<()> {
        let to = self.table.descriptor(fd);
        if to == Descriptor::Foreign {
            return Err(Errno(libc::EBADF));
        }
        if fd == new {
            return Ok(());
        }
        match to {
            Descriptor::Socket(at) => {
                if let Some(socket) = self.table.sockets.get_mut(at) {
                    socket.refs += 1;
                }
            }
            Descriptor::Set(set) => self.table.watches.share(set),
            Descriptor::Foreign => {}
        }
        self.forget(new);
        self.table.set_descriptor(new, to);
        Ok(())
    }

    /// A number is given to something new: what it referred to, if that was ours and nobody
    /// said that it was closed, is closed now.
    pub(crate) fn forget(&mut self, fd: i32) {
        if self.table.is_ours(fd) {
            let closed = self.close(fd);
            debug_assert!(closed.is_ok(), "it was ours");
        }
    }

    /// `close`. The connection ends with the last descriptor of its socket; as
    /// in Linux, what watches it does so until then.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&mut self, fd: i32) -> Result<()> {
        let to = self.table.descriptor(fd);
        self.table.set_descriptor(fd, Descriptor::Foreign);
        match to {
            Descriptor::Foreign => return Err(Errno(libc::EBADF)),
            Descriptor::Set(set) => {
                for (socket, watch) in self.table.watches.release(set) {
                    if let Some(socket) = self.table.sockets.get_mut(socket) {
                        self.table.watches.remove(watch, &mut socket.watches);
                    }
                }
            }
            Descriptor::Socket(at) => {
                let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
                socket.refs = socket.refs.saturating_sub(1);
                if socket.refs == 0 {
                    self.release(at);
                }
            }
        }
        Ok(())
    }

    /// Nobody refers to a socket any more.
    fn release(&mut self, at: u32) {
        self.stop_listening(at);
        let Some(mut socket) = self.table.sockets.remove(at) else { return };
        while socket.watches != NONE {
            self.table.watches.remove(socket.watches, &mut socket.watches);
        }
        if let Kind::Stream(mut stream) = socket.kind {
            self.table.looks.answered(&mut stream);
            let unread = stream.readable() > 0;
            stream.inbox.clear(&mut self.table.spares);
            if stream.closed.is_some() {
                // Its number may be another's by now.
                return;
            }
            self.table.set_connection(stream.id, NONE);
            // What was not read is lost, and the peer is told (RFC 2525 section 2.17).
            if unread || socket.options.linger == Some(0) || !stream.established {
                self.stack.abort(stream.id);
            } else {
                if socket.options.cork {
                    self.stack.set_cork(stream.id, false);
                }
                self.stack.finish(stream.id);
                self.table.ends = true;
                if !stream.ended {
                    let until = self.stack.now() + ORPHAN_LINGERS;
                    self.stack.set_timer(stream.id, Some(until));
                }
            }
        }
    }

    /// Whether `close` of a descriptor resets a connection while bytes wait that were written: what of them
    /// its peer has room for is to leave before (`Silo::send_said`), as the kernel has sent it from within
    /// write(2). To be asked before.
    #[must_use]
    pub fn resets_unsent(&self, fd: i32) -> bool {
        let socket = self.socket_of(fd).ok().filter(|socket| socket.refs == 1);
        let stream = socket.and_then(Socket::stream).filter(|stream| stream.established && stream.closed.is_none());
        socket.zip(stream).is_some_and(|(socket, stream)| {
            let resets = stream.readable() > 0 || socket.options.linger == Some(0);
            resets && self.not_sent(stream) > 0
        })
    }

    /// The connection for which `close` of a descriptor waits, and how long at most, until its peer
    /// has all that was written and our end (`SO_LINGER`); `None`: it does not wait (Linux:
    /// `__tcp_close` in net/ipv4/tcp.c). To be asked before, and [`Calls::has_all`] after it.
    #[must_use]
    pub fn lingers(&self, fd: i32) -> Option<(ConnId, Duration)> {
        let socket = self.socket_of(fd).ok().filter(|socket| socket.refs == 1)?;
        let seconds = socket.options.linger.filter(|seconds| *seconds > 0)?;
        let stream = socket.stream().filter(|stream| stream.established && stream.closed.is_none())?;
        (stream.readable() == 0).then(|| (stream.id, Duration::from_secs(seconds.into())))
    }

    /// Whether the peer of a connection that was closed has all that was written and our end, or
    /// there is no such connection any more (Linux: `sk_stream_closing` in net/core/stream.c).
    #[must_use]
    pub fn has_all(&self, id: ConnId) -> bool {
        let state = self.stack.info(id).map(|info| info.state);
        !matches!(state, Some(State::FinWait1 | State::Closing | State::LastAck))
    }

    /// Connections whose peers have not taken all that was written, or our end.
    #[must_use]
    pub fn untaken(&self) -> usize {
        let infos = self.stack.connection_ids().filter_map(|id| self.stack.info(id));
        infos.filter(|info| info.in_flight > 0 || info.unsent > 0).count()
    }

    /// Ends all connections at once: their peers are reset.
    pub fn abort_all(&mut self) {
        let ids: Vec<ConnId> = self.stack.connection_ids().collect();
        ids.into_iter().for_each(|id| self.stack.abort(id));
    }

    /// A connection of another process with the same addresses, which was killed: its peer is to hear
    /// that nobody has it any more. What it expects is not known, and asked for as RFC 9293 section
    /// 3.5.1 has it: a SYN of the same flow, which the peer acknowledges (RFC 5961 section 4.2), for
    /// which it is reset. A peer that does not answer is forgotten.
    pub fn end_lost(&mut self, remote: SocketAddr, local: SocketAddr) {
        // One that this process has is not lost.
        let Ok(id) = self.stack.open_from(Some(local.ip()), local.port(), remote) else { return };
        let until = self.stack.now() + LOST_LINGERS;
        self.stack.set_timer(id, Some(until));
    }

    /// `connect` to no address (`AF_UNSPEC`): the socket is as new, but for its
    /// options (Linux: `tcp_disconnect` in net/ipv4/tcp.c).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn disconnect(&mut self, fd: i32) -> Result<()> {
        let at = self.number(fd)?;
        if self.is_listener(fd)? {
            self.stop_listening(at);
        }
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        if let Kind::Fresh(past) = &mut socket.kind {
            (past.deaf, past.finished) = (false, false);
        }
        if let Some(id) = socket.forget_connection() {
            self.table.set_connection(id, NONE);
            self.stack.abort(id);
        }
        self.table.wake(at, FAILED);
        Ok(())
    }

    /// `shutdown`.
    ///
    /// # Errors
    /// Linux': `inet_shutdown` in net/ipv4/af_inet.c.
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Result<()> {
        let at = self.number(fd)?;
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(Errno(libc::EINVAL));
        }
        let (read, write) = (how != libc::SHUT_WR, how != libc::SHUT_RD);
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        let outcome = match &mut socket.kind {
            Kind::Fresh(past) => {
                past.deaf |= read;
                past.finished |= write;
                Err(Errno(libc::ENOTCONN))
            }
            Kind::Listener(_) => {
                if read {
                    self.stop_listening(at);
                }
                Ok(())
            }
            Kind::Stream(stream) if stream.closed.is_some() => {
                if stream.told == Told::Connecting {
                    stream.told = Told::Disconnecting;
                }
                Err(Errno(libc::ENOTCONN))
            }
            Kind::Stream(stream) if !stream.established => return self.disconnect(fd),
            Kind::Stream(stream) => {
                stream.told = Told::Connected;
                stream.deaf |= read;
                stream.disturb();
                self.table.looks.answered(stream);
                stream.finished |= write;
                let id = stream.id;
                if write {
                    self.stack.finish(id);
                    self.table.ends = true;
                }
                Ok(())
            }
        };
        self.table.wake(at, CHANGED);
        outcome
    }
}
