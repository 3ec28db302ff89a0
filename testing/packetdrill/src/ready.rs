//! Which descriptors are ready: `poll` and `epoll`.

use crate::errno::{Attempt, Errno, Result};
use crate::host::Host;
use crate::sockets::{Kind, Socket};
use app::{ConnId, Net};
use std::collections::BTreeMap;

/// Descriptors of one `poll` or `epoll`.
pub const MOST_WATCHED: usize = 1024;

/// A set of descriptors that `epoll` watches.
#[derive(Debug, Default)]
pub struct Epoll {
    watched: BTreeMap<i32, Watch>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    events: u32,
    data: u64,
    /// What the socket had counted when it was last reported.
    seen: (u64, u64),
}

impl Epoll {
    /// A descriptor was closed.
    pub fn forget(&mut self, fd: i32) {
        self.watched.remove(&fd);
    }

    fn control(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<()> {
        let known = self.watched.contains_key(&fd);
        match op {
            libc::EPOLL_CTL_ADD if known => return Err(Errno(libc::EEXIST)),
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !known => return Err(Errno(libc::ENOENT)),
            libc::EPOLL_CTL_ADD if self.watched.len() >= MOST_WATCHED => return Err(Errno(libc::ENOSPC)),
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
                // Being asked anew, an edge that still stands is told again.
                self.watched.insert(fd, Watch { events, data, seen: (0, 0) });
            }
            libc::EPOLL_CTL_DEL => self.forget(fd),
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(())
    }
}

impl Host {
    /// What a descriptor is ready for, in `poll`'s bits, which are `epoll`'s.
    pub fn events(&self, fd: i32) -> Result<u32> {
        let socket = self.silo.app.socket(fd)?;
        let events = match &socket.kind {
            Kind::Fresh => libc::POLLOUT | libc::POLLHUP,
            Kind::Listener { queue, .. } => {
                if queue.is_empty() {
                    0
                } else {
                    libc::POLLIN | libc::POLLRDNORM
                }
            }
            Kind::Stream(_) => self.stream_events(socket),
            Kind::Epoll(_) => 0,
        };
        Ok(events as u32)
    }

    /// Linux: `tcp_poll` in net/ipv4/tcp.c.
    fn stream_events(&self, socket: &Socket) -> i16 {
        let Kind::Stream(id) = socket.kind else { return 0 };
        let Some(connection) = self.silo.app.connections.get(&id) else { return libc::POLLHUP };
        let over = connection.closed.is_some();
        let mut events = 0;
        if connection.error.is_some() {
            events |= libc::POLLERR;
        }
        if over || (connection.ended && connection.finished) {
            events |= libc::POLLHUP;
        }
        if connection.ended || connection.deaf || over {
            events |= libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
        }
        if !connection.data.is_empty() || self.silo.stack.held(id) > 0 {
            events |= libc::POLLIN | libc::POLLRDNORM;
        }
        if self.is_writable(socket, id) || over || connection.finished {
            events |= libc::POLLOUT | libc::POLLWRNORM;
        }
        events
    }

    /// A third of the buffer is free, and the peer has been sent all but half of
    /// what may wait (Linux: `sk_stream_is_writeable` in include/net/sock.h,
    /// `__tcp_stream_memory_free` in include/net/tcp.h).
    fn is_writable(&self, socket: &Socket, id: ConnId) -> bool {
        let queued = self.silo.stack.unsent(id);
        let room = socket.options.send_limit.saturating_sub(queued);
        let established = self.silo.app.connections.get(&id).is_some_and(|connection| connection.established);
        let low_water = self.silo.app.low_water(socket);
        established && room > 0 && room >= queued / 2 && self.not_sent(id).saturating_mul(2) < low_water
    }

    /// Wakes those who found no room, where there is some now.
    pub fn note_write_space(&mut self) {
        let streams = self.silo.app.open.values().filter_map(|socket| match socket.kind {
            Kind::Stream(id) => Some((id, self.is_writable(socket, id))),
            _ => None,
        });
        let writable: Vec<_> = streams.filter(|(_, writable)| *writable).map(|(id, _)| id).collect();
        for id in writable {
            let connection = self.silo.app.connection(id);
            if core::mem::take(&mut connection.no_space) {
                connection.out_events += 1;
            }
        }
    }

    /// Notes that whoever asks finds no room.
    fn note_no_space(&mut self, fd: i32) {
        let Ok(socket) = self.silo.app.socket(fd) else { return };
        if let Kind::Stream(id) = socket.kind
            && !self.is_writable(socket, id)
        {
            self.silo.app.connection(id).no_space = true;
        }
    }

    /// Fills in what each descriptor is ready for; done when one is.
    pub fn poll(&mut self, fds: &mut [libc::pollfd]) -> Attempt<usize> {
        let mut ready = 0;
        for entry in fds.iter_mut().filter(|entry| entry.fd >= 0) {
            entry.revents = match self.events(entry.fd) {
                Ok(events) => events as i16 & (entry.events | libc::POLLERR | libc::POLLHUP),
                Err(_) => libc::POLLNVAL,
            };
            ready += usize::from(entry.revents != 0);
            if entry.events & libc::POLLOUT != 0 {
                self.note_no_space(entry.fd);
            }
        }
        Ok((ready > 0).then_some(ready))
    }

    /// `epoll_create`.
    pub fn epoll_create(&mut self, fd: i32) {
        let options = crate::options::Options::new(0);
        let kind = Kind::Epoll(Epoll::default());
        self.silo.app.open.insert(fd, Socket { kind, v6: false, nonblocking: false, bound: None, options });
    }

    /// `epoll_ctl`.
    pub fn epoll_ctl(&mut self, epfd: i32, op: i32, fd: i32, events: u32, data: u64) -> Result<()> {
        self.silo.app.socket(fd)?;
        match &mut self.silo.app.socket_mut(epfd)?.kind {
            Kind::Epoll(_) if epfd == fd => Err(Errno(libc::EINVAL)),
            Kind::Epoll(epoll) => epoll.control(op, fd, events, data),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// `epoll_wait`: events and data of what is ready, at most `most`.
    pub fn epoll_wait(&mut self, epfd: i32, most: usize) -> Attempt<Vec<(u32, u64)>> {
        let Kind::Epoll(epoll) = &self.silo.app.socket(epfd)?.kind else { return Err(Errno(libc::EINVAL)) };
        let mut ready = Vec::new();
        for (fd, watch) in epoll.watched.clone() {
            let counted = self.counted(fd);
            if watch.events & libc::EPOLLOUT as u32 != 0 {
                self.note_no_space(fd);
            }
            let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
            let mut events = self.events(fd)? & (watch.events | always);
            if watch.events & libc::EPOLLET as u32 != 0 && counted == watch.seen {
                events = 0;
            }
            if watch.events == 0 || events == 0 || ready.len() >= most {
                continue;
            }
            ready.push((events, watch.data));
            let once = watch.events & libc::EPOLLONESHOT as u32 != 0;
            if let Kind::Epoll(epoll) = &mut self.silo.app.socket_mut(epfd)?.kind
                && let Some(watch) = epoll.watched.get_mut(&fd)
            {
                watch.seen = counted;
                watch.events = if once { 0 } else { watch.events };
            }
        }
        Ok((!ready.is_empty()).then_some(ready))
    }

    /// What a socket counted; a new one has counted something, so that it is
    /// reported at first.
    fn counted(&self, fd: i32) -> (u64, u64) {
        let Ok(Socket { kind, .. }) = self.silo.app.socket(fd) else { return (0, 0) };
        match kind {
            Kind::Stream(id) => {
                let connection = self.silo.app.connections.get(id);
                connection.map_or((1, 1), |connection| (1 + connection.in_events, 1 + connection.out_events))
            }
            Kind::Listener { queue, .. } => (1 + queue.len() as u64, 1),
            Kind::Fresh | Kind::Epoll(_) => (1, 1),
        }
    }
}
