//! System calls on a host, each as one attempt that does not block.

use super::{Connection, Kind, Socket, Sockets};
use crate::errno::{self, Attempt, Errno, Result};
use crate::host::Host;
use crate::options::Options;
use app::{ConnId, Net};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Most bytes of one read or write; longer ones are cut, as Linux does.
const MOST_BYTES: usize = 0x7fff_f000;

/// Flags of `recv` that change what it does here.
const RECV_FLAGS: i32 = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL | libc::MSG_TRUNC;
/// Flags of `send` that mean something here, or nothing at all.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR | libc::MSG_MORE;

impl Host {
    /// `socket`, with a descriptor that is the caller's.
    pub fn socket(&mut self, fd: i32, domain: i32, kind: i32, protocol: i32) -> Result<()> {
        let v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
            libc::SOCK_STREAM => {}
            _ => return Err(Errno(libc::ESOCKTNOSUPPORT)),
        }
        if protocol != 0 && protocol != libc::IPPROTO_TCP {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        let options = Options::new(self.silo.app.send_limit);
        self.silo.app.open.insert(fd, Socket { kind: Kind::Fresh, v6, nonblocking, bound: None, options });
        Ok(())
    }

    /// `bind`.
    pub fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<()> {
        let ours = address.ip().is_unspecified()
            || self.silo.stack.config().addresses.iter().any(|own| own.ip == address.ip());
        let taken = self.silo.app.open.values().any(|other| {
            address.port() != 0 && matches!(other.kind, Kind::Listener { port, .. } if port == address.port())
        });
        let socket = self.silo.app.socket_mut(fd)?;
        if !matches!(socket.kind, Kind::Fresh) || socket.bound.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        if !ours {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        if taken {
            return Err(Errno(libc::EADDRINUSE));
        }
        socket.bound = Some(address);
        Ok(())
    }

    /// `listen`.
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Result<()> {
        let socket = self.silo.app.socket_mut(fd)?;
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        match &mut socket.kind {
            Kind::Listener { backlog: old, .. } => *old = backlog,
            Kind::Fresh => {
                // Without an address the kernel would choose a port.
                let port = socket.bound.map(|bound| bound.port()).filter(|port| *port != 0);
                let port = port.ok_or(Errno(libc::EOPNOTSUPP))?;
                socket.kind = Kind::Listener { port, backlog, queue: VecDeque::new() };
                let options = socket.options.of_stack(!socket.v6);
                self.silo.stack.listen(port);
                self.silo.stack.set_listener_options(port, options);
            }
            Kind::Stream(_) | Kind::Epoll(_) => return Err(Errno(libc::EINVAL)),
        }
        Ok(())
    }

    /// `accept`: the new connection's descriptor is the caller's. Returns the
    /// peer's address.
    pub fn accept(&mut self, fd: i32, new: i32) -> Attempt<SocketAddr> {
        let socket = self.silo.app.socket_mut(fd)?;
        let Kind::Listener { queue, .. } = &mut socket.kind else { return Err(Errno(libc::EINVAL)) };
        let Some(id) = queue.pop_front() else { return Ok(None) };
        let (v6, bound, options) = (socket.v6, socket.bound, socket.options);
        let peer = self.silo.stack.peer(id).or(bound).ok_or(Errno(libc::ECONNABORTED))?;
        self.silo.stack.set_nagle(id, !options.no_delay);
        self.silo.stack.set_cork(id, options.cork);
        self.hand_options(id, &options);
        let accepted = Socket { kind: Kind::Stream(id), v6, nonblocking: false, bound, options };
        self.silo.app.open.insert(new, accepted);
        Ok(Some(peer))
    }

    /// `connect`, its start: whether there was one yet is the caller's to see
    /// from [`Host::connected`].
    pub fn connect(&mut self, fd: i32, to: SocketAddr) -> Result<()> {
        let socket = self.silo.app.socket(fd)?;
        match socket.kind {
            Kind::Fresh => {}
            Kind::Stream(id) => {
                let known = self.silo.app.connection(id);
                if let Some(error) = known.error.take() {
                    return Err(error);
                }
                return Err(Errno(if known.established { libc::EISCONN } else { libc::EALREADY }));
            }
            Kind::Listener { .. } => return Err(Errno(libc::EISCONN)),
            Kind::Epoll(_) => return Err(Errno(libc::ENOTSOCK)),
        }
        if socket.bound.is_some_and(|bound| bound.port() != 0) {
            // The stack chooses local ports itself.
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let from = socket.bound.map(|bound| bound.ip()).filter(|ip| !ip.is_unspecified());
        let options = socket.options;
        let id = self.silo.stack.connect(from, to).map_err(errno::of_connect)?;
        self.silo.stack.set_nagle(id, !options.no_delay);
        self.silo.stack.set_cork(id, options.cork);
        self.hand_options(id, &options);
        let opened = Connection { last_data: self.now(), ..Connection::default() };
        self.silo.app.connections.insert(id, opened);
        self.silo.app.socket_mut(fd)?.kind = Kind::Stream(id);
        self.rest();
        Ok(())
    }

    /// Whether a `connect` came to an end.
    pub fn connected(&mut self, fd: i32) -> Attempt<()> {
        let id = self.silo.app.stream(fd)?;
        let connection = self.silo.app.connection(id);
        if let Some(error) = connection.error.take() {
            return Err(error);
        }
        Ok((connection.established || connection.closed.is_some()).then_some(()))
    }

    /// `recv` of at most `most` bytes into `out`; none at the end.
    pub fn recv(&mut self, fd: i32, out: &mut Vec<u8>, most: usize, flags: i32) -> Attempt<()> {
        if flags & !RECV_FLAGS != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let id = self.silo.app.stream(fd)?;
        let most = most.min(MOST_BYTES);
        let missing = most.saturating_sub(out.len() + self.silo.app.connection(id).data.len());
        if missing > 0 && self.silo.stack.held(id) > 0 {
            self.silo.app.connection(id).take = missing;
            self.silo.stack.resume(id);
            self.rest();
            self.silo.app.connection(id).take = 0;
        }
        let connection = self.silo.app.connection(id);
        if connection.data.is_empty() {
            return connection.nothing_to_read(out, most);
        }
        let len = connection.data.len().min(most - out.len());
        out.extend(connection.data.range(..len));
        if flags & libc::MSG_PEEK == 0 {
            connection.data.drain(..len);
        }
        let whole = flags & libc::MSG_WAITALL == 0 || out.len() == most || connection.ended;
        Ok(whole.then_some(()))
    }

    /// `send`: takes bytes from the front of `bytes`. Done when all of them
    /// are queued.
    pub fn send(&mut self, fd: i32, bytes: &mut &[u8], flags: i32) -> Attempt<()> {
        if flags & !SEND_FLAGS != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let socket = self.silo.app.socket(fd)?;
        let (limit, low_water) = (socket.options.send_limit, self.silo.app.low_water(socket));
        let id = match socket.kind {
            Kind::Stream(id) => id,
            Kind::Epoll(_) => return Err(Errno(libc::ENOTSOCK)),
            // Linux: `sk_stream_wait_connect` in net/core/stream.c.
            Kind::Fresh | Kind::Listener { .. } => return Err(Errno(libc::EPIPE)),
        };
        let connection = self.silo.app.connection(id);
        if let Some(error) = connection.error.take() {
            return Err(error);
        }
        if connection.finished || connection.closed.is_some() {
            return Err(Errno(libc::EPIPE));
        }
        if !connection.established {
            return Ok(None);
        }
        while !bytes.is_empty() {
            let room = limit.saturating_sub(self.silo.stack.unsent(id));
            let room = room.min(low_water.saturating_sub(self.not_sent(id)));
            if room == 0 {
                self.silo.app.connection(id).no_space = true;
                return Ok(None);
            }
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.silo.stack.set_more(id, flags & libc::MSG_MORE != 0 && later.is_empty());
            self.silo.stack.send_bytes(id, now);
            self.rest();
            *bytes = later;
        }
        Ok(Some(()))
    }

    /// `shutdown`.
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Result<()> {
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(Errno(libc::EINVAL));
        }
        if matches!(self.silo.app.socket(fd)?.kind, Kind::Listener { .. }) {
            return if how == libc::SHUT_WR { Err(Errno(libc::ENOTCONN)) } else { self.stop_listening(fd) };
        }
        let id = self.silo.app.stream(fd)?;
        let connection = self.silo.app.connection(id);
        if connection.closed.is_some() {
            return Err(Errno(libc::ENOTCONN));
        }
        connection.deaf |= how != libc::SHUT_WR;
        connection.in_events += 1;
        if how != libc::SHUT_RD {
            connection.finished = true;
            self.silo.stack.finish(id);
            self.rest();
        }
        Ok(())
    }

    /// `close`.
    pub fn close(&mut self, fd: i32) -> Result<()> {
        if matches!(self.silo.app.socket(fd)?.kind, Kind::Listener { .. }) {
            self.stop_listening(fd)?;
        }
        for other in self.silo.app.open.values_mut() {
            if let Kind::Epoll(epoll) = &mut other.kind {
                epoll.forget(fd);
            }
        }
        let socket = self.silo.app.open.remove(&fd).ok_or(Errno(libc::EBADF))?;
        if let Kind::Stream(id) = socket.kind {
            self.let_go(id, socket.options.reset_on_close);
            self.rest();
        }
        Ok(())
    }

    /// Bytes that can be read (`SIOCINQ`).
    pub fn readable(&mut self, fd: i32) -> Result<usize> {
        let id = self.silo.app.stream(fd)?;
        Ok(self.silo.stack.held(id) + self.silo.app.connection(id).data.len())
    }

    /// Bytes that can be read after a `recvmsg` that is to tell them; one more
    /// than none where the end can (Linux: `tcp_inq_hint` in net/ipv4/tcp.c).
    pub fn left_to_read(&mut self, fd: i32) -> Option<i32> {
        let socket = self.silo.app.socket(fd).ok().filter(|socket| socket.options.tell_left)?;
        let Kind::Stream(id) = socket.kind else { return None };
        let left = self.readable(fd).ok()?;
        let ended = self.silo.app.connection(id).ended;
        Some(i32::try_from(left).unwrap_or(i32::MAX).max(ended.into()))
    }

    /// Bytes that the peer did not acknowledge yet (`SIOCOUTQ`).
    pub fn unacknowledged(&self, fd: i32) -> Result<usize> {
        Ok(self.silo.stack.unsent(self.silo.app.stream(fd)?))
    }

    /// Bytes that were not sent yet (`SIOCOUTQNSD`).
    pub fn unsent(&self, fd: i32) -> Result<usize> {
        Ok(self.not_sent(self.silo.app.stream(fd)?))
    }

    /// The same for a connection.
    pub fn not_sent(&self, id: ConnId) -> usize {
        let sent = self.silo.stack.info(id).map_or(0, |info| info.in_flight);
        self.silo.stack.unsent(id).saturating_sub(sent as usize)
    }

    /// A listener accepts no more; what waited is reset.
    fn stop_listening(&mut self, fd: i32) -> Result<()> {
        let kind = core::mem::replace(&mut self.silo.app.socket_mut(fd)?.kind, Kind::Fresh);
        if let Kind::Listener { queue, .. } = kind {
            for id in queue {
                self.let_go(id, true);
            }
        }
        self.silo.stack.stop_listening();
        for socket in self.silo.app.open.values() {
            if let Kind::Listener { port, .. } = socket.kind {
                self.silo.stack.listen(port);
                self.silo.stack.set_listener_options(port, socket.options.of_stack(!socket.v6));
            }
        }
        self.rest();
        Ok(())
    }

    /// A connection loses its socket. With bytes unread it is reset, so that
    /// the peer knows that they were lost (RFC 2525 section 2.17).
    fn let_go(&mut self, id: ConnId, reset: bool) {
        let held = self.silo.stack.held(id);
        let connection = self.silo.app.connection(id);
        if connection.closed.is_some() {
            self.silo.app.connections.remove(&id);
            return;
        }
        connection.orphan = true;
        if reset || held > 0 || !connection.data.is_empty() || !connection.established {
            self.silo.stack.abort(id);
        } else {
            self.silo.stack.finish(id);
        }
    }
}

impl Sockets {
    /// Bytes not sent yet from which on a socket takes no more.
    pub fn low_water(&self, socket: &Socket) -> usize {
        match socket.options.not_sent_low_water {
            0 => self.not_sent_low_water as usize,
            own => own as usize,
        }
    }
}

impl Connection {
    /// What a read comes to that finds nothing.
    fn nothing_to_read(&mut self, out: &[u8], most: usize) -> Attempt<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.ended || self.deaf || self.closed.is_some() || most == out.len() {
            return Ok(Some(()));
        }
        // In SYN-SENT and SYN-RECEIVED too, data is waited for.
        Ok(None)
    }
}
