//! The calls, each as one attempt that does not block.
//!
//! Who blocks takes turns of the silo between attempts ([`Calls::after_turn`]
//! after each), for as long as the caller wants to wait. What a call queues
//! leaves in the next turn.

mod data;
mod end;
mod epoll;
mod open;
mod option;

pub use open::{Adopted, is_v6_stream};

use crate::errno::{Errno, Result};
use crate::socket::{Kind, Socket, Stream};
use crate::table::{Descriptor, SocketTable, WRITABLE};
use app::Net;
use core::net::SocketAddr;
use stack::Stack;

/// Most bytes of one read or write; longer ones are cut (Linux: `MAX_RW_COUNT`).
pub const MOST_BYTES: usize = 0x7fff_f000;

/// The calls on the sockets of a table, over the stack that they belong to.
#[derive(Debug)]
pub struct Calls<'a> {
    /// The stack.
    pub stack: &'a mut Stack,
    /// The sockets.
    pub table: &'a mut SocketTable,
}

impl Calls<'_> {
    /// A turn of the silo is over: those who wait for room are told where there
    /// is some.
    #[inline]
    pub fn after_turn(&mut self) {
        if !self.table.roomless.is_empty() {
            self.tell_of_room();
        }
    }

    #[inline(never)]
    fn tell_of_room(&mut self) {
        let mut looked_at = core::mem::take(&mut self.table.roomless);
        let mut told = Vec::new();
        looked_at.retain(|&at| {
            let Some(socket) = self.table.sockets.get(at) else { return false };
            let Some(stream) = socket.stream() else { return false };
            let waits = stream.no_space && stream.closed.is_none();
            if waits && self.is_writable(socket, stream) {
                told.push(at);
            }
            // The stack tells of those whose queue is long.
            let again = waits && told.last() != Some(&at) && !self.is_told_by_stack(socket, stream);
            if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
                stream.listed = again;
            }
            again
        });
        self.table.roomless.append(&mut looked_at);
        for at in told {
            if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
                stream.no_space = false;
            }
            self.table.wake(at, WRITABLE);
        }
    }

    /// Whether [`app::App::on_sent`] comes before there is room.
    fn is_told_by_stack(&self, socket: &Socket, stream: &Stream) -> bool {
        socket.options.not_sent_low_water == 0
            && self.table.defaults.not_sent_low_water == u32::MAX
            && self.stack.unsent(stream.id) > app::SEND_LOW_WATER
    }

    /// Notes that somebody found no room in a socket, and is to be told when
    /// there is some.
    pub(crate) fn note_no_space(&mut self, at: u32) {
        let Some(socket) = self.table.sockets.get(at) else { return };
        let Some(stream) = socket.stream() else { return };
        let listed = stream.listed || !self.is_told_by_stack(socket, stream);
        let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) else { return };
        stream.no_space = true;
        if listed && !core::mem::replace(&mut stream.listed, true) {
            self.table.roomless.push(at);
        }
    }

    /// The socket of a descriptor, by its number.
    #[inline]
    pub(crate) fn number(&self, fd: i32) -> Result<u32> {
        match self.table.descriptor(fd) {
            Descriptor::Socket(at) => Ok(at),
            Descriptor::Set(_) => Err(Errno(libc::ENOTSOCK)),
            Descriptor::Foreign => Err(Errno(libc::EBADF)),
        }
    }

    /// The socket of a descriptor.
    #[inline]
    pub(crate) fn socket_of(&self, fd: i32) -> Result<&Socket> {
        self.table.sockets.get(self.number(fd)?).ok_or(Errno(libc::EBADF))
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn socket_mut(&mut self, fd: i32) -> Result<&mut Socket> {
        let at = self.number(fd)?;
        self.table.sockets.get_mut(at).ok_or(Errno(libc::EBADF))
    }

    /// Whether calls on a descriptor's socket do not block (`O_NONBLOCK`).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn is_nonblocking(&self, fd: i32) -> Result<bool> {
        Ok(self.socket_of(fd)?.nonblocking)
    }

    /// Has calls on a descriptor's socket block or not.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn set_nonblocking(&mut self, fd: i32, on: bool) -> Result<()> {
        self.socket_mut(fd)?.nonblocking = on;
        Ok(())
    }

    /// Whether a descriptor's socket accepts connections.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn is_listener(&self, fd: i32) -> Result<bool> {
        Ok(matches!(self.socket_of(fd)?.kind, Kind::Listener(_)))
    }

    /// Whether a descriptor's socket was made for IPv6: its addresses are told
    /// as such.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn is_v6(&self, fd: i32) -> Result<bool> {
        Ok(self.socket_of(fd)?.v6)
    }

    /// `getsockname`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn local_address(&self, fd: i32) -> Result<SocketAddr> {
        let socket = self.socket_of(fd)?;
        let (now, before) = match &socket.kind {
            Kind::Stream(stream) => (stream.local.or_else(|| self.stack.local(stream.id)), None),
            Kind::Fresh(past) => (None, past.local),
            Kind::Listener(_) => (None, None),
        };
        Ok(now.or(socket.bound).or(before).unwrap_or_else(|| unspecified(socket.v6)))
    }

    /// `getpeername`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `ENOTCONN` before the connection is there and when
    /// it is over (Linux: `inet_getname` in net/ipv4/af_inet.c).
    pub fn peer_address(&self, fd: i32) -> Result<SocketAddr> {
        let stream = self.socket_of(fd)?.stream().filter(|stream| stream.established && stream.closed.is_none());
        stream.and_then(|stream| stream.peer).ok_or(Errno(libc::ENOTCONN))
    }
}

/// No address and no port, of a family.
pub(crate) const fn unspecified(v6: bool) -> SocketAddr {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let ip = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}
