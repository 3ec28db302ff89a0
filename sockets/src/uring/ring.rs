//! What is asked of the kernel through the ring, and what of it is under way.

use super::buffers;
use super::sends::{Sending, Sends};
use super::tag::{kind, tag, tag_of};
use crate::accept::{Accepting, WatchListeners};
use crate::dispatch::Driver;
use crate::listen::Listener;
use crate::net::Sockets;
use crate::sealing;
use crate::send::{self, BUDGET, Sent};
use crate::table::{Flags, PIECE, Socket};
use app::ConnId;
use core::time::Duration;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rope::{Front, GATHER};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// Bodies from this size on are sent without a copy, to other machines: pages
/// are pinned and let go again, which must cost less than to copy them. Over
/// loopback and virtual pairs the kernel copies all the same, so that no
/// better value was measured there.
const ZERO_COPY_FROM: usize = 64 * 1024;

/// What says that operations of a connection are under way.
const UNDER_WAY: u32 = Flags::ARMED | Flags::BLOCKED | Flags::WATCHES_ROOM | Flags::WATCHES_END;

/// The ring, and what is under way in it.
pub(crate) struct Ring {
    ring: IoUring,
    pub(super) sends: Sends,
    /// Operations that the kernel has not finished.
    pub(super) under_way: usize,
    pub(super) listeners: Vec<Watched>,
    /// Connections just accepted, which nothing was received from yet.
    pub(super) new: Vec<ConnId>,
    /// The number of the descriptor that ends a wait, our own copy of it, and
    /// whether it is watched at this moment.
    pub(super) wake: Option<(i32, OwnedFd, bool)>,
    pub(super) zero_copy: bool,
}

/// A listening socket that is, or was, watched.
pub(super) struct Watched {
    pub(super) listener: Listener,
    /// It is to be.
    wanted: bool,
    /// An operation is under way.
    pub(super) armed: bool,
}

impl Driver for Ring {
    fn watch(&mut self, net: &mut Sockets, id: ConnId) -> io::Result<()> {
        let Some(conn) = net.table.get_mut(id) else { return Ok(()) };
        if conn.flags.has(Flags::CONNECTING) {
            self.watch_room(conn, id);
        } else if conn.flags.has(Flags::UNWATCHED) {
            self.new.push(id);
        } else {
            self.receive(conn, id);
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let Some(conn) = net.table.get_mut(id) else { return Sent::All };
        if conn.flags.has(Flags::SECURED) {
            return self.send_secured(net, id);
        }
        match conn.queue.front() {
            Front::Empty => Sent::All,
            Front::Only(_) if !closes(conn.flags) => self.send_one(net, id),
            Front::Several if !closes(conn.flags) => self.send_several(net, id),
            // What goes through the ring comes back through it, before the
            // connection can be closed: a call of its own costs less.
            _ => {
                let sent = send::send_queue(conn, (net.send_budget, net.stream.no_push), &mut net.counters);
                if sent == Sent::Blocked {
                    self.watch_room(conn, id);
                }
                sent
            }
        }
    }

    fn leave(&mut self, fd: BorrowedFd<'_>, flags: Flags) {
        if flags.has(UNDER_WAY) {
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd.as_raw_fd())).all()).build();
            self.push(cancel, kind::NOTHING << 56);
        }
    }

    fn close(&mut self, fd: OwnedFd, flags: Flags) {
        if !flags.has(UNDER_WAY) {
            return drop(fd);
        }
        // What is under way keeps the socket open: it ends first.
        let fd = Fd(fd.into_raw_fd());
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::fd(fd).all()).build();
        self.push(cancel, kind::NOTHING << 56);
        self.push(opcode::Close::new(fd).build(), kind::NOTHING << 56);
    }
}

impl WatchListeners for Ring {
    fn watch_listener(&mut self, listener: &Listener, index: usize) -> io::Result<()> {
        if index == self.listeners.len() {
            self.listeners.push(Watched { listener: listener.clone(), wanted: false, armed: false });
        }
        self.listeners[index].wanted = true;
        self.arm_listener(index as u32);
        Ok(())
    }

    fn forget_listener(&mut self, _listener: &Listener, index: usize) {
        self.forget(index);
    }
}

impl Ring {
    /// Nothing is under way in `ring` yet.
    pub(super) fn new(ring: IoUring, zero_copy: bool) -> Self {
        let (sends, listeners) = (Sends::default(), Vec::new());
        Self { ring, sends, under_way: 0, listeners, new: Vec::new(), wake: None, zero_copy }
    }

    /// What came up since the last call.
    #[inline]
    pub(super) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.ring.completion()
    }

    /// No longer waits for a listening socket.
    pub(super) fn forget(&mut self, index: usize) {
        let Some(watched) = self.listeners.get_mut(index) else { return };
        watched.wanted = false;
        if watched.armed {
            let kind = if watched.listener.is_shared() { kind::LISTENER } else { kind::ACCEPT };
            let cancel = CancelBuilder::user_data(tag(kind, 0, index as u32));
            self.push(opcode::AsyncCancel2::new(cancel).build(), kind::NOTHING << 56);
            // At once: others are to have what comes from now on.
            let _ = self.ring.submit();
        }
    }

    /// Has `fd` end a wait, in place of what did so far.
    pub(crate) fn set_wake(&mut self, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if fd.as_ref().map(AsRawFd::as_raw_fd) == self.wake.as_ref().map(|(number, _, _)| *number) {
            return Ok(());
        }
        if let Some((_, old, armed)) = self.wake.take()
            && armed
        {
            let cancel = CancelBuilder::user_data(kind::WAKE << 56);
            self.push(opcode::AsyncCancel2::new(cancel).build(), kind::NOTHING << 56);
            drop(old);
        }
        if let Some(fd) = fd {
            self.wake = Some((fd.as_raw_fd(), fd.try_clone_to_owned()?, false));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn watch_wake(&mut self) {
        if let Some((_, fd, armed)) = &mut self.wake
            && !*armed
        {
            *armed = true;
            let fd = Fd(fd.as_raw_fd());
            self.push(opcode::PollAdd::new(fd, libc::POLLIN as u32).build(), kind::WAKE << 56);
        }
    }

    pub(super) fn woke(&mut self) {
        if let Some((_, _, armed)) = &mut self.wake {
            *armed = false;
        }
    }

    /// One call for what is asked for and what came up.
    #[inline]
    pub(super) fn enter(&mut self, longest: Duration) -> io::Result<()> {
        let entered = if longest.is_zero() {
            let pending = self.ring.submission().len() as u32;
            // SAFETY: no argument is given. Work that the kernel deferred is
            // done only if completions are asked for.
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(pending, 0, ENTER_GETEVENTS, None) }
        } else {
            let span = Timespec::new().sec(longest.as_secs()).nsec(longest.subsec_nanos());
            self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&span))
        };
        match entered {
            Ok(_) => Ok(()),
            Err(e) => match Errno::from_io_error(&e) {
                // Nothing came up; a signal; or there is no room for what
                // comes up until what has is taken, or memory is short for a
                // moment: the rest is handed over with the next call.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// Asks for an operation.
    #[inline]
    pub(super) fn push(&mut self, entry: squeue::Entry, data: u64) {
        let entry = entry.user_data(data);
        self.under_way += 1;
        // SAFETY: what the entry points to stays until its completion: send
        // queues' memory by `sends`, buffers and messages likewise.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.make_room();
        }
    }

    #[cold]
    fn make_room(&self) {
        // Whatever it says, the queue is shorter then, or is tried again.
        let _ = self.ring.submit();
    }

    /// Receives from a connection until told otherwise.
    #[inline]
    pub(super) fn receive(&mut self, conn: &mut Socket, id: ConnId) {
        let Some(fd) = conn.fd().map(|fd| Fd(fd.as_raw_fd())) else { return };
        if conn.flags.has(Flags::ARMED | Flags::ENDED) {
            return;
        }
        if conn.flags.has(Flags::LITTLE) {
            // Little of it, and what arrives behind that stays with the kernel.
            conn.flags.clear(Flags::UNREAD);
            return self.receive_once(conn, id);
        }
        conn.flags.set(Flags::ARMED);
        conn.flags.clear(Flags::UNREAD);
        self.push(opcode::RecvMulti::new(fd, buffers::GROUP).build(), tag_of(kind::RECEIVE, id));
    }

    /// Receives what a new connection begins with, and little where that was said. Often it is
    /// all: then nothing is left to be cancelled.
    pub(super) fn receive_once(&mut self, conn: &mut Socket, id: ConnId) {
        let Some(fd) = conn.fd().map(|fd| Fd(fd.as_raw_fd())) else { return };
        conn.flags.set(Flags::ARMED);
        // Without a length, as much as a buffer holds.
        let most = if conn.flags.has(Flags::LITTLE) { PIECE as u32 } else { 0 };
        let receive = opcode::Recv::new(fd, core::ptr::null_mut(), most).buf_group(buffers::GROUP).build();
        self.push(receive.flags(squeue::Flags::BUFFER_SELECT), tag_of(kind::RECEIVE, id));
    }

    #[cold]
    pub(super) fn watch_room(&mut self, conn: &mut Socket, id: ConnId) {
        let Some(fd) = conn.fd().map(|fd| Fd(fd.as_raw_fd())) else { return };
        conn.flags.set(Flags::WATCHES_ROOM);
        self.push(opcode::PollAdd::new(fd, libc::POLLOUT as u32).build(), tag_of(kind::ROOM, id));
    }

    /// Records stand in a buffer that all connections share, so that a call of its own
    /// takes them.
    fn send_secured(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let sent = sealing::send_queue(net, id);
        if sent == Sent::Blocked
            && let Some(conn) = net.table.get_mut(id)
        {
            self.watch_room(conn, id);
        }
        sent
    }

    #[inline]
    fn send_one(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let Some(conn) = net.table.get(id) else { return Sent::All };
        let (Front::Only(bytes), Some(fd)) = (conn.queue.front(), conn.fd()) else { return Sent::All };
        let Some(body) = conn.queue.bodies().next().cloned() else { return Sent::All };
        let (address, len) = (bytes.as_ptr(), bytes.len().min(BUDGET) as u32);
        let fd = Fd(fd.as_raw_fd());
        net.counters.sends += 1;
        let zero_copy = self.zero_copy && bytes.len() >= ZERO_COPY_FROM && is_elsewhere(net, id);
        let index = self.sends.put(Sending::one(id, body, zero_copy));
        let entry = if zero_copy {
            net.counters.sends_zero_copy += 1;
            opcode::SendZc::new(fd, address, len).flags(libc::MSG_NOSIGNAL).build()
        } else {
            opcode::Send::new(fd, address, len).flags(libc::MSG_NOSIGNAL).build()
        };
        self.push(entry, tag(kind::SEND, 0, index));
        Sent::Blocked
    }

    #[inline(never)]
    fn send_several(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let Some(conn) = net.table.get(id) else { return Sent::All };
        let Some(fd) = conn.fd().map(|fd| Fd(fd.as_raw_fd())) else { return Sent::All };
        let mut pieces = [IoSlice::new(&[]); GATHER];
        let gathered = conn.queue.gather(&mut pieces, BUDGET);
        let bodies = conn.queue.bodies().take(gathered.pieces).cloned().collect();
        let (sending, message) = Sending::several(id, bodies, &pieces[..gathered.pieces]);
        let index = self.sends.put(sending);
        let more = if gathered.file_next && net.stream.no_push { libc::MSG_MORE } else { 0 };
        net.counters.sends += 1;
        let entry = opcode::SendMsg::new(fd, message).flags((libc::MSG_NOSIGNAL | more) as u32).build();
        self.push(entry, tag(kind::SEND, 0, index));
        Sent::Blocked
    }

    /// Waits for a listening socket: for connections, if the queue is ours;
    /// else for a chance at one, so that a worker takes no more than it gets
    /// to.
    pub(super) fn arm_listener(&mut self, index: u32) {
        let Some(watched) = self.listeners.get_mut(index as usize) else { return };
        if watched.armed || !watched.wanted {
            return;
        }
        watched.armed = true;
        let fd = Fd(watched.listener.as_fd().as_raw_fd());
        let (entry, kind) = if watched.listener.is_shared() {
            let exclusive = if watched.listener.is_exclusive() { EPOLLEXCLUSIVE } else { 0 };
            (opcode::PollAdd::new(fd, libc::POLLIN as u32 | exclusive).build(), kind::LISTENER)
        } else {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            (opcode::AcceptMulti::new(fd).flags(flags).build(), kind::ACCEPT)
        };
        self.push(entry, tag(kind, 0, index));
    }

    /// A shared listening socket came up.
    #[cold]
    pub(super) fn listener_came_up(&mut self, accepting: &mut Accepting, index: u32, result: i32) {
        let Some(watched) = self.listeners.get_mut(index as usize) else { return };
        watched.armed = false;
        if result > 0 && watched.wanted {
            accepting.on_ready(index as usize);
        }
    }

    /// Watches again what came up in this pass.
    #[inline]
    pub(crate) fn watch_again(&mut self) {
        for index in 0..self.listeners.len() {
            self.arm_listener(index as u32);
        }
    }
}

/// `IORING_ENTER_GETEVENTS` and `EPOLLEXCLUSIVE` (`linux/io_uring.h`,
/// `linux/eventpoll.h`).
const ENTER_GETEVENTS: u32 = 1;
const EPOLLEXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// Whether a connection is closed once everything is sent.
const fn closes(flags: Flags) -> bool {
    flags.has(Flags::FINISHED) && flags.has(Flags::CLOSES)
}

/// Whether the peer is on another machine, as far as addresses tell.
fn is_elsewhere(net: &Sockets, id: ConnId) -> bool {
    use app::Net;
    match (net.peer(id), net.local(id)) {
        (Some(peer), Some(local)) => peer.ip() != local.ip() && !peer.ip().is_loopback(),
        _ => false,
    }
}
