//! Which descriptors are ready: `poll` and `epoll`.

use super::Calls;
use crate::errno::{Errno, Result};
use crate::options::Options;
use crate::slab::NONE;
use crate::socket::{Kind, Socket, Stream};
use crate::table::{Descriptor, SocketTable};
use crate::watches::{Interest, Watches};
use core::hint::cold_path;

/// As `poll` and `epoll` have them, which are the same bits.
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM).cast_unsigned();
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM).cast_unsigned();
const RDHUP: u32 = libc::EPOLLRDHUP.cast_unsigned();
const HUP: u32 = libc::EPOLLHUP.cast_unsigned();
const ERR: u32 = libc::EPOLLERR.cast_unsigned();

impl Calls<'_> {
    /// What a descriptor is ready for, of what is asked, in `poll`'s bits; errors and ends
    /// are told unasked. Who asks for room and finds none is to be told when there is some.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn events(&mut self, fd: i32, asked: u32) -> Result<u32> {
        match self.table.descriptor(fd) {
            Descriptor::Foreign => Err(Errno(libc::EBADF)),
            Descriptor::Set(set) => Ok(if self.is_any_ready(set) { IN & asked } else { 0 }),
            Descriptor::Socket(at) => Ok(self.events_of(at, asked | ERR | HUP)),
        }
    }

    /// Whether anything of a set is ready: what is not any more is taken out of its ready list (Linux:
    /// `__ep_eventpoll_poll` in fs/eventpoll.c).
    fn is_any_ready(&mut self, set: u32) -> bool {
        while let Some((watch, socket, asked)) = self.table.watches.first(set) {
            if asked != 0 && self.events_of(socket, asked) != 0 {
                return true;
            }
            self.table.watches.dequeue(watch);
        }
        false
    }

    /// Somebody polls descriptors: what was told before is over.
    pub fn begin_poll(&mut self) {
        self.table.looks.begin();
    }

    /// Somebody who polls is told of a descriptor: it is dealt with next.
    pub fn note_polled(&mut self, fd: i32) {
        if let Descriptor::Socket(at) = self.table.descriptor(fd) {
            self.note_found(at);
        }
    }

    #[inline]
    fn note_found(&mut self, at: u32) {
        if let Some(stream) = self.table.sockets.get_mut(at).and_then(Socket::stream_mut) {
            self.table.looks.found(stream);
        }
    }

    /// What a socket is ready for, of what is asked, as the look tells it that is made now.
    #[inline(always)]
    fn events_found(&mut self, at: u32, asked: u32) -> u32 {
        let SocketTable { sockets, looks, .. } = &mut *self.table;
        let Some(Socket { kind: Kind::Stream(stream), options, .. }) = sockets.get_mut(at) else {
            cold_path();
            return if asked == 0 { 0 } else { self.events_of(at, asked) };
        };
        if asked & OUT != 0 {
            // Room is looked for.
            cold_path();
            let events = self.events_of(at, asked);
            if events != 0 {
                self.note_found(at);
            }
            return events;
        }
        let events = stream.events_but_room(options) & asked;
        if events != 0 {
            looks.found(stream);
        }
        events
    }

    /// What a socket is ready for, of what is asked, and nothing unasked.
    fn events_of(&mut self, at: u32, asked: u32) -> u32 {
        let Some(socket) = self.table.sockets.get(at) else { return 0 };
        let events = match &socket.kind {
            Kind::Fresh(past) => {
                let ended = if past.deaf { IN | RDHUP } else { 0 };
                OUT | HUP | ended | if past.error.is_some() { ERR } else { 0 }
            }
            Kind::Listener(listener) if listener.queue.is_empty() => 0,
            Kind::Listener(_) => IN,
            Kind::Stream(stream) => {
                let mut events = stream.events_but_room(&socket.options);
                if asked & OUT != 0 && !stream.is_shut_for_writing() && stream.established {
                    if self.is_writable(socket, stream) {
                        events |= OUT;
                    } else {
                        self.note_no_space(at);
                    }
                }
                events
            }
        };
        events & asked
    }

    /// `epoll_create`, with a descriptor that is the caller's.
    pub fn create_set(&mut self, fd: i32) {
        self.forget(fd);
        let set = self.table.watches.create();
        self.table.set_descriptor(fd, Descriptor::Set(set));
    }

    /// `epoll_ctl`, of a socket in a set.
    ///
    /// # Errors
    /// Linux': `do_epoll_ctl` in fs/eventpoll.c. Sets in sets are refused by
    /// `EINVAL`.
    pub fn control(&mut self, epfd: i32, op: i32, fd: i32, events: u32, data: u64) -> Result<()> {
        let set = self.table.descriptor(epfd);
        let at = match self.table.descriptor(fd) {
            Descriptor::Foreign => return Err(Errno(libc::EBADF)),
            Descriptor::Set(_) => return Err(Errno(libc::EINVAL)),
            Descriptor::Socket(at) => at,
        };
        let set = match set {
            Descriptor::Set(set) => set,
            Descriptor::Socket(_) => return Err(Errno(libc::EINVAL)),
            Descriptor::Foreign => return Err(Errno(libc::EBADF)),
        };
        let interest = Interest { fd, events, data };
        interest.check(op)?;
        let Some(socket) = self.table.sockets.get_mut(at) else { return Err(Errno(libc::EBADF)) };
        let watches = &mut self.table.watches;
        let known = watches.find(socket.watches, set, fd);
        let watch = match (op, known) {
            (libc::EPOLL_CTL_ADD, _) => {
                let added = watches.add(set, at, &mut socket.watches, interest)?;
                if let Kind::Listener(listener) = &mut socket.kind {
                    listener.put_off = false;
                }
                added
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Errno(libc::ENOENT)),
            (libc::EPOLL_CTL_MOD, Some(watch)) => {
                watches.modify(watch, interest)?;
                watch
            }
            (libc::EPOLL_CTL_DEL, Some(watch)) => {
                watches.remove(watch, &mut socket.watches);
                let is_watched = socket.watches != NONE;
                if let Kind::Listener(listener) = &mut socket.kind {
                    listener.put_off = !is_watched;
                }
                return Ok(());
            }
            _ => return Err(Errno(libc::EINVAL)),
        };
        // Who asks anew is told of what stands, edge or not.
        let asked = self.table.watches.events(watch);
        if self.events_of(at, asked) != 0 {
            self.table.watches.enqueue(watch);
        }
        Ok(())
    }

    /// `epoll_wait`, as far as it does not wait: tells `each` what is ready and what it is
    /// known by, of at most `most`; how many that were. Costs nothing for those that are not
    /// in the ready list.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`.
    pub fn take_ready(&mut self, epfd: i32, most: usize, each: impl FnMut(u32, u64)) -> Result<usize> {
        let set = match self.table.descriptor(epfd) {
            Descriptor::Set(set) => set,
            Descriptor::Socket(_) => return Err(Errno(libc::EINVAL)),
            Descriptor::Foreign => return Err(Errno(libc::EBADF)),
        };
        self.table.looks.begin();
        // Looking at sockets changes nothing of who watches them.
        let mut watches = core::mem::replace(&mut self.table.watches, Watches::new());
        let count = watches.serve(set, most, |socket, asked| self.events_found(socket, asked), each);
        self.table.watches = watches;
        Ok(count)
    }
}

impl Stream {
    /// What it is ready for (Linux: `tcp_poll` in net/ipv4/tcp.c); whether it has room for more
    /// is not looked at.
    #[inline]
    fn events_but_room(&self, options: &Options) -> u32 {
        let mut events = 0;
        if self.readable() >= (options.receive_low_water as usize).max(1) {
            events |= IN;
        }
        if !self.is_disturbed() {
            return events;
        }
        cold_path();
        if self.error.is_some() {
            events |= ERR;
        }
        if self.closed.is_some() || (self.ended && self.finished) || (self.deaf && self.finished) {
            events |= HUP;
        }
        if self.is_shut_for_reading() {
            events |= IN | RDHUP;
        }
        if self.is_shut_for_writing() {
            events |= OUT;
        }
        events
    }
}
