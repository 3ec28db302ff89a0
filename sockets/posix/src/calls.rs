//! The calls, each as one attempt that does not block.
//!
//! Who blocks takes turns of the silo between attempts ([`Calls::after_turn`]
//! after each), for as long as the caller wants to wait. What a call queues
//! leaves in the next turn.

mod data;
mod end;
mod epoll;
mod inert;
mod listening;
mod open;
mod option;
mod room;
mod usual;

pub use open::Adopted;
pub use option::has_no_level;

use crate::errno::{Errno, Result};
use crate::socket::{Kind, Socket, unspecified};
use crate::table::{Descriptor, SocketTable};
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
