//! Sockets and connections begin.

use super::Calls;
use crate::errno::{self, Attempt, Errno, Result};
use crate::socket::{Kind, Listener, Socket, Stream, Told, unspecified};
use crate::table::{Descriptor, FAILED};
use app::Net;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

/// Ports that a listener gets that asks for any (Linux:
/// `net.ipv4.ip_local_port_range`).
const PORTS: core::ops::RangeInclusive<u16> = 32_768..=60_999;

impl Calls<'_> {
    /// `socket`, with a descriptor that is the caller's.
    pub fn socket(&mut self, fd: i32, v6: bool, nonblocking: bool) {
        self.forget(fd);
        let socket = self.table.fresh(v6, nonblocking);
        let at = self.table.sockets.insert(socket);
        self.table.set_descriptor(fd, Descriptor::Socket(at));
    }

    /// `bind`. Port 0 is one that nobody has.
    ///
    /// # Errors
    /// `EINVAL` where it is bound, `EADDRNOTAVAIL` for an address that is not ours,
    /// `EADDRINUSE`.
    pub fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<()> {
        let at = self.number(fd)?;
        let socket = self.socket_of(fd)?;
        let ip = address.ip();
        if !ip.is_unspecified() && !self.stack.config().addresses.iter().any(|own| own.ip == ip) {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let over = match &socket.kind {
            Kind::Fresh(_) => true,
            Kind::Stream(stream) => stream.closed.is_some(),
            Kind::Listener(_) => false,
        };
        if !over || socket.bound.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        let any_port = address.port() == 0;
        let address = match address.port() {
            0 => self.free_port(at, ip).ok_or(Errno(libc::EADDRINUSE))?,
            _ if self.is_taken(at, address) => {
                // Linux: `__inet_bind` has set the address by then, and takes it back.
                self.socket_mut(fd)?.forget_address();
                return Err(Errno(libc::EADDRINUSE));
            }
            _ => address,
        };
        let socket = self.socket_mut(fd)?;
        socket.bound = Some(address);
        socket.any_port = any_port;
        socket.own_address = !ip.is_unspecified();
        if let Some(stream) = socket.stream_mut() {
            stream.local = Some(address);
        }
        Ok(())
    }

    /// Whether another socket has what this one would be bound to (Linux:
    /// `inet_csk_bind_conflict` in net/ipv4/inet_connection_sock.c).
    fn is_taken(&self, by: u32, address: SocketAddr) -> bool {
        let Some(socket) = self.table.sockets.get(by) else { return false };
        let (reuse, reuse_port) = (socket.options.reuse_address, socket.options.reuse_port);
        self.table.sockets.iter().any(|(at, other)| {
            let Some(bound) = other.bound.filter(|_| at != by) else { return false };
            let listens = matches!(other.kind, Kind::Listener(_));
            let both = reuse && other.options.reuse_address && !listens;
            let both_ports = reuse_port && other.options.reuse_port;
            bound.port() == address.port() && overlap(bound.ip(), address.ip()) && !both && !both_ports
        })
    }

    fn free_port(&mut self, by: u32, ip: IpAddr) -> Option<SocketAddr> {
        for _ in PORTS {
            let port = self.table.next_port.clamp(*PORTS.start(), *PORTS.end());
            self.table.next_port = if port == *PORTS.end() { *PORTS.start() } else { port + 1 };
            let address = SocketAddr::new(ip, port);
            if !self.is_taken(by, address) {
                return Some(address);
            }
        }
        None
    }

    /// `listen`. Without an address it is any, with a port that nobody has.
    ///
    /// # Errors
    /// `EINVAL` for a connection, `EADDRINUSE` where another listens.
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Result<()> {
        let at = self.number(fd)?;
        // Linux: the backlog is unsigned, and cut to `net.core.somaxconn`.
        let backlog = usize::try_from(backlog).unwrap_or(MOST_BACKLOG).min(MOST_BACKLOG);
        let socket = self.socket_mut(fd)?;
        match &mut socket.kind {
            Kind::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            Kind::Stream(_) => return Err(Errno(libc::EINVAL)),
            Kind::Fresh(_) => {}
        }
        let past = socket.past();
        let bound = match socket.bound {
            Some(bound) => bound,
            None => {
                let any = unspecified(socket.v6).ip();
                self.free_port(at, any).ok_or(Errno(libc::EADDRINUSE))?
            }
        };
        if self.is_listened_on(at, bound) {
            return Err(Errno(libc::EADDRINUSE));
        }
        let socket = self.socket_mut(fd)?;
        socket.any_port |= socket.bound.is_none();
        socket.bound = Some(bound);
        socket.kind = Kind::Listener(Listener { backlog, queue: VecDeque::new(), put_off: false, past });
        self.table.listeners.push(at);
        self.tell_listeners();
        Ok(())
    }

    fn is_listened_on(&self, by: u32, address: SocketAddr) -> bool {
        let reuse_port = self.table.sockets.get(by).is_some_and(|socket| socket.options.reuse_port);
        let mut others = self.table.listeners.iter().filter_map(|at| self.table.sockets.get(*at));
        others.any(|other| {
            let here = |bound: SocketAddr| bound.port() == address.port() && overlap(bound.ip(), address.ip());
            other.bound.is_some_and(here) && !(reuse_port && other.options.reuse_port)
        })
    }

    /// `accept`: the new connection's descriptor is the caller's. Returns the
    /// peer's address.
    ///
    /// # Errors
    /// `EINVAL` for what does not listen.
    pub fn accept(&mut self, fd: i32, new: i32, nonblocking: bool) -> Attempt<SocketAddr> {
        let socket = self.socket_mut(fd)?;
        let Kind::Listener(listener) = &mut socket.kind else { return Err(Errno(libc::EINVAL)) };
        let Some(at) = listener.queue.pop_front() else { return Ok(None) };
        let Some(accepted) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::ECONNABORTED)) };
        accepted.refs = 1;
        accepted.nonblocking = nonblocking;
        let options = accepted.options;
        let Some(stream) = accepted.stream() else { return Err(Errno(libc::ECONNABORTED)) };
        let (id, peer) = (stream.id, stream.peer.ok_or(Errno(libc::ECONNABORTED))?);
        self.forget(new);
        self.table.set_descriptor(new, Descriptor::Socket(at));
        if options.no_delay == self.table.defaults.nagle {
            self.stack.set_nagle(id, !options.no_delay);
        }
        if options.cork {
            self.stack.set_cork(id, true);
        }
        Ok(Some(peer))
    }

    /// Whether a connection waits to be accepted: what is worth a descriptor.
    ///
    /// # Errors
    /// As [`Calls::accept`].
    pub fn has_waiting(&self, fd: i32) -> Result<bool> {
        match &self.socket_of(fd)?.kind {
            Kind::Listener(listener) => Ok(!listener.queue.is_empty()),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// `connect`, as one call that does not wait. `EINPROGRESS` is that it has
    /// begun, or, to one that does, `EALREADY` that it goes on: who blocks waits
    /// by [`Calls::connected`].
    ///
    /// # Errors
    /// Linux': `inet_stream_connect` in net/ipv4/af_inet.c.
    pub fn connect(&mut self, fd: i32, to: SocketAddr) -> Result<()> {
        let at = self.number(fd)?;
        let socket = self.socket_of(fd)?;
        let past = match &socket.kind {
            Kind::Listener(_) => return Err(Errno(libc::EISCONN)),
            Kind::Stream(stream) if stream.told == Told::Connected => return Err(Errno(libc::EISCONN)),
            Kind::Stream(stream) if stream.told == Told::Disconnecting => return Err(Errno(libc::EINVAL)),
            Kind::Stream(_) => {
                return match self.connected(fd)? {
                    Some(()) => Ok(()),
                    None => Err(Errno(libc::EALREADY)),
                };
            }
            Kind::Fresh(past) => *past,
        };
        if to.port() == 0 || to.is_ipv6() && !socket.v6 {
            return Err(Errno(if to.port() == 0 { libc::ECONNREFUSED } else { libc::EAFNOSUPPORT }));
        }
        let from = socket.bound.map(|bound| bound.ip()).filter(|ip| !ip.is_unspecified());
        let options = socket.options;
        let v4 = to.is_ipv4();
        let port = socket.bound.map_or(0, |bound| bound.port());
        let id = self.stack.open_from(from, port, to).map_err(errno::of_connect)?;
        self.stack.set_nagle(id, !options.no_delay);
        self.stack.set_cork(id, options.cork);
        self.stack.set_options(id, options.of_stack(v4));
        let mut stream = Stream::new(id, Told::Connecting, self.stack.now());
        stream.peer = Some(to);
        (stream.deaf, stream.finished) = (past.deaf, past.finished);
        if past.deaf || past.finished {
            stream.disturb();
        }
        stream.local = self.stack.local(id);
        let socket = self.socket_mut(fd)?;
        socket.kind = Kind::Stream(Box::new(stream));
        self.table.set_connection(id, at);
        Err(Errno(libc::EINPROGRESS))
    }

    /// What `connect` comes to with an address that is none: what is connected, or about to be, says
    /// so first.
    ///
    /// # Errors
    /// As [`Calls::connect`], or else `error`.
    pub fn connect_nowhere(&mut self, fd: i32, error: Errno) -> Result<()> {
        match &self.socket_of(fd)?.kind {
            Kind::Fresh(_) => Err(error),
            // Whatever the address: it is not looked at.
            _ => self.connect(fd, unspecified(false)),
        }
    }

    /// Whether a `connect` came to an end, which it is then told of. One that
    /// failed leaves a socket that may connect again.
    ///
    /// # Errors
    /// Why it failed.
    pub fn connected(&mut self, fd: i32) -> Attempt<()> {
        let at = self.number(fd)?;
        let socket = self.socket_mut(fd)?;
        let Kind::Stream(stream) = &mut socket.kind else { return Err(Errno(libc::ENOTCONN)) };
        if stream.closed.is_some() {
            let error = stream.error.take().unwrap_or(Errno(libc::ECONNABORTED));
            if stream.told == Told::Connecting {
                socket.forget_connection();
                self.table.wake(at, FAILED);
            }
            return Err(error);
        }
        if !stream.established {
            return Ok(None);
        }
        stream.told = Told::Connected;
        Ok(Some(()))
    }

    /// A listener that another process made, or this one before it was ours:
    /// as `socket`, `bind` and `listen` would make it, with no look at who else
    /// has the address.
    pub fn adopt_listener(&mut self, fd: i32, adopted: &Adopted) {
        self.forget(fd);
        let mut socket: Socket = self.table.fresh(adopted.v6, adopted.nonblocking);
        socket.bound = Some(adopted.address);
        socket.options.v6_only = adopted.v6_only;
        socket.options.no_delay = adopted.no_delay;
        let backlog = usize::try_from(adopted.backlog).unwrap_or(MOST_BACKLOG).min(MOST_BACKLOG);
        let past = socket.past();
        socket.kind = Kind::Listener(Listener { backlog, queue: VecDeque::new(), put_off: false, past });
        let at = self.table.sockets.insert(socket);
        self.table.set_descriptor(fd, Descriptor::Socket(at));
        self.table.listeners.push(at);
        self.tell_listeners();
    }
}

/// Connections that may wait to be accepted, at most (Linux:
/// `net.core.somaxconn`).
const MOST_BACKLOG: usize = 4096;

/// What is to be known of a listener that was made elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// What it is bound to.
    pub address: SocketAddr,
    /// It was made for IPv6.
    pub v6: bool,
    /// It takes nothing over IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Calls on it do not block.
    pub nonblocking: bool,
    /// Its connections do not wait to fill segments (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Connections that may wait.
    pub backlog: i32,
}

/// Whether two addresses have an address in common.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}
