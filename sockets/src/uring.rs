//! Completions: the engine over io_uring(7).
//!
//! What a turn asks for (sends, closes, receives to begin) is put into the
//! ring and goes to the kernel with the one call that also waits: its cost is
//! shared by all requests of the turn. A connection is received from without
//! asking again (multishot), into buffers that the kernel chooses from; data
//! is offered where it lies, and the buffer is given back at once.
//!
//! A short response over a kept connection costs 0.2 system calls, where it
//! costs 2 with epoll, and about the same time. A connection with one request
//! is accepted through the ring and read, answered and closed past it
//! (`first`), because each pass through the ring costs more than a call that
//! does not wait; where its request comes later than itself, it costs some 7 %
//! more than with epoll. So `Engine::Auto` means epoll.
//!
//! Files go by sendfile(2), as with epoll: the ring's splice(2) would hand
//! each piece to a thread of the kernel, which costs more than it saves where
//! the file is in the page cache. The sockets are ordinary descriptors, not
//! the ring's own: sendfile, getpeername and the options need those.

mod buffers;
mod first;
mod reason;
mod ring;
mod sends;
mod tag;

pub use reason::NoRing;

use crate::accept::{self, Accepted, Accepting};
use crate::config::{Config, Model};
use crate::dispatch::{self, Driver, Engine};
use crate::listen::Listener;
use crate::luck::Luck;
use crate::net::Sockets;
use crate::send::Sent;
use crate::table::Flags;
use app::{App, Closed, ConnId};
use buffers::Buffers;
use core::time::Duration;
use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, Probe, cqueue, opcode};
use ring::Ring;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use tag::{connection, kind, tag_of};

/// What may be asked for before the kernel is called; more calls it early.
const SUBMISSIONS: u32 = 512;

/// What may have come up before it is seen to. The kernel keeps what comes
/// beyond (IORING_FEAT_NODROP), at a cost.
const COMPLETIONS: u32 = 4_096;

/// Completions taken in one pass, as with epoll.
const EVENTS: usize = 256;

/// Bytes of the buffer for first reads.
const BUFFER: usize = 64 * 1024;

/// Rounds of cancelling and waiting before memory that the kernel may still
/// use is left to it for good.
const END_ROUNDS: usize = 100;

/// The engine.
pub(crate) struct Uring {
    pub(crate) ring: Ring,
    buffers: Buffers,
    events: Vec<cqueue::Entry>,
    luck: Luck,
    /// For first reads, past the ring.
    buffer: Box<[u8]>,
    /// Connections that were accepted beyond the limit.
    waiting: VecDeque<(OwnedFd, Listener)>,
}

impl Config {
    /// The engine that a worker with this configuration will have, and, where
    /// io_uring was asked for or would have been tried, why not that. Makes a
    /// ring to find out.
    #[must_use]
    pub fn engine_to_be(&self) -> (crate::Engine, Option<NoRing>) {
        match Uring::wanted(self.engine, self.model == Model::Blocking) {
            Ok(_) => (crate::Engine::IoUring, None),
            Err(why) => (crate::Engine::Epoll, why),
        }
    }
}

impl Uring {
    /// A ring, if `engine` means that and there is one to be had; else why
    /// not, unless epoll was asked for. `blocking`: the worker waits in
    /// accept(2).
    pub(crate) fn wanted(engine: crate::Engine, blocking: bool) -> Result<Self, Option<NoRing>> {
        match engine {
            crate::Engine::Epoll => Err(None),
            _ if blocking => Err(Some(NoRing::Blocking)),
            crate::Engine::Auto => Err(Some(NoRing::Slower)),
            crate::Engine::IoUring => Self::new().map_err(Some),
        }
    }

    /// A ring of the calling thread: only that may use it.
    pub(crate) fn new() -> Result<Self, NoRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)
            .map_err(|e| reason::explain(&e))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|e| reason::explain(&e))?;
        for (code, name) in [
            (opcode::RecvMulti::CODE, "IORING_OP_RECV"),
            (opcode::Send::CODE, "IORING_OP_SEND"),
            (opcode::SendMsg::CODE, "IORING_OP_SENDMSG"),
            (opcode::AcceptMulti::CODE, "IORING_OP_ACCEPT"),
            (opcode::PollAdd::CODE, "IORING_OP_POLL_ADD"),
            (opcode::AsyncCancel2::CODE, "IORING_OP_ASYNC_CANCEL"),
            (opcode::Close::CODE, "IORING_OP_CLOSE"),
        ] {
            if !probe.is_supported(code) {
                return Err(NoRing::Old(name));
            }
        }
        let features = ring.params();
        if !features.is_feature_ext_arg() || !features.is_feature_nodrop() {
            return Err(NoRing::Old("IORING_FEAT_EXT_ARG"));
        }
        let buffers = Buffers::new(&ring.submitter()).map_err(|e| reason::explain(&e))?;
        let zero_copy = probe.is_supported(opcode::SendZc::CODE);
        let ring = Ring::new(ring, zero_copy);
        let (events, buffer) = (Vec::with_capacity(EVENTS), vec![0; BUFFER].into());
        Ok(Self { ring, buffers, events, luck: Luck::default(), buffer, waiting: VecDeque::new() })
    }

    /// Hands over what is asked for, and waits until something comes up, for
    /// no longer than `longest`. Returns how many things did.
    #[inline]
    pub(crate) fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        self.ring.watch_wake();
        self.ring.enter(longest)?;
        self.events.clear();
        self.events.extend(self.ring.completions().take(EVENTS));
        Ok(self.events.len())
    }

    /// Takes what came up to the application. Returns how much of it was of
    /// connections; what was accepted is counted by itself.
    #[inline]
    pub(crate) fn take_events<A: App>(
        &mut self,
        app: &mut A,
        net: &mut Sockets,
        accepting: &mut Accepting,
        clock: impl Fn() -> wire::Time,
    ) -> u64 {
        let mut connections = 0;
        for index in 0..self.events.len() {
            let (data, result, flags) = {
                let event = &self.events[index];
                (event.user_data(), event.result(), event.flags())
            };
            if !cqueue::more(flags) {
                self.ring.under_way -= 1;
            }
            match data >> 56 {
                kind::RECEIVE => {
                    if connections > 0 {
                        net.now = clock();
                    }
                    connections += 1;
                    self.received(app, net, data, result, flags);
                }
                kind::SEND => self.sent(app, net, data as u32, result, flags),
                kind::ROOM => {
                    connections += 1;
                    self.room(app, net, data);
                }
                kind::END => self.came_to_an_end(net, data, result),
                kind::LISTENER => self.ring.listener_came_up(accepting, data as u32, result),
                kind::ACCEPT => self.accepted(app, net, accepting, data as u32, result, flags),
                kind::WAKE => self.ring.woke(),
                kind::STOP => stopped(net, data, result),
                _ => {}
            }
        }
        while !self.waiting.is_empty()
            && accepting.make_room(app, net, &mut self.ring)
            && let Some((fd, listener)) = self.waiting.pop_front()
        {
            self.admit(app, net, accepting, fd, &listener);
        }
        self.begin_new(app, net);
        connections
    }

    /// Data arrived, or the end of it, or a receive ended.
    #[inline]
    fn received<A: App>(&mut self, app: &mut A, net: &mut Sockets, data: u64, result: i32, flags: u32) {
        let buffer = cqueue::buffer_select(flags);
        let Some(id) = connection(net, data) else {
            if let Some(buffer) = buffer {
                self.buffers.give_back(buffer);
            }
            net.counters.events_stale += u64::from(result != -libc::ECANCELED);
            return;
        };
        let more = cqueue::more(flags);
        if let Some(conn) = net.table.get_mut(id)
            && !more
        {
            conn.flags.clear(Flags::ARMED | Flags::STOPPING);
        }
        if result > 0
            && let Some(buffer) = buffer
        {
            dispatch::deliver(app, net, id, self.buffers.bytes(buffer, result as usize));
            self.buffers.give_back(buffer);
            dispatch::settle(app, net, &mut self.ring);
            return self.after_delivery(net, id, more);
        } else if result == 0 {
            if let Some(buffer) = buffer {
                self.buffers.give_back(buffer);
            }
            dispatch::ended(app, net, id);
            dispatch::settle(app, net, &mut self.ring);
            return self.watch_end(net, id);
        } else {
            self.receive_failed(net, id, Errno::from_raw_os_error(-result));
        }
        dispatch::settle(app, net, &mut self.ring);
    }

    /// Receives on, unless the application has to consume first.
    #[inline]
    fn after_delivery(&mut self, net: &mut Sockets, id: ConnId, more: bool) {
        let Some(conn) = net.table.get_mut(id) else { return };
        if conn.is_full() {
            self.stop_receiving(net, id);
        } else if !more && !conn.flags.has(Flags::CLOSES) {
            self.ring.receive(conn, id);
        }
    }

    /// What arrives from now on stays in the socket, and closes the peer's
    /// window.
    #[cold]
    fn stop_receiving(&mut self, net: &mut Sockets, id: ConnId) {
        let Some(conn) = net.table.get_mut(id) else { return };
        if !conn.flags.has(Flags::UNREAD) {
            net.counters.receive_stops += 1;
        }
        conn.flags.set(Flags::UNREAD);
        let waits = conn.waits_for_reader();
        if conn.flags.has(Flags::BROKEN) && !waits {
            return net.end(id, Closed::Reset);
        }
        if conn.flags.has(Flags::ARMED) && !conn.flags.has(Flags::STOPPING) {
            conn.flags.set(Flags::STOPPING);
            let cancel = CancelBuilder::user_data(tag_of(kind::RECEIVE, id));
            self.ring.push(opcode::AsyncCancel2::new(cancel).build(), tag_of(kind::STOP, id));
        }
        // What arrived before a reset is received first, where its reader goes on later.
        if !waits {
            self.watch_end(net, id);
        }
    }

    #[cold]
    fn receive_failed(&mut self, net: &mut Sockets, id: ConnId, e: Errno) {
        let Some(conn) = net.table.get_mut(id) else { return };
        match e {
            Errno::NOBUFS => net.counters.receives_no_buffer += 1,
            Errno::CANCELED | Errno::AGAIN | Errno::INTR => {}
            // Its reader has what came before that first.
            _ if conn.waits_for_reader() => return conn.flags.set(Flags::BROKEN | Flags::UNREAD),
            e => return dispatch::failed(net, id, e),
        }
        if !conn.is_full() {
            self.ring.receive(conn, id);
        } else if !conn.waits_for_reader() {
            // It may have come just before the receive did end.
            self.watch_end(net, id);
        }
    }

    /// A connection that is not received from is watched for its end only.
    #[cold]
    fn watch_end(&mut self, net: &mut Sockets, id: ConnId) {
        let Some(conn) = net.table.get_mut(id) else { return };
        if !conn.flags.has(Flags::WATCHES_END)
            && let Some(fd) = conn.fd().map(|fd| Fd(fd.as_raw_fd()))
        {
            conn.flags.set(Flags::WATCHES_END);
            // POLLERR and POLLHUP come unasked.
            self.ring.push(opcode::PollAdd::new(fd, 0).build(), tag_of(kind::END, id));
        }
    }

    #[cold]
    fn came_to_an_end(&mut self, net: &mut Sockets, data: u64, result: i32) {
        let Some(id) = connection(net, data) else { return };
        let Some(conn) = net.table.get_mut(id) else { return };
        conn.flags.clear(Flags::WATCHES_END);
        // One that is received from again hears of it there, after the data.
        if result > 0
            && !conn.flags.has(Flags::ARMED)
            && !conn.waits_for_reader()
            && let Some(fd) = conn.fd()
            && let Ok(Err(e)) = socket_error(fd)
        {
            dispatch::failed(net, id, e);
        }
    }

    /// The kernel took some of a queue, or none.
    #[inline]
    fn sent<A: App>(&mut self, app: &mut A, net: &mut Sockets, index: u32, result: i32, flags: u32) {
        let Some(sending) = self.ring.sends.get(index) else { return };
        let (id, zero_copy) = (sending.id, sending.zero_copy);
        if cqueue::notif(flags) {
            // It has let go of the memory, of which it told before.
            return self.ring.sends.release(index);
        }
        if !cqueue::more(flags) {
            self.ring.sends.release(index);
        }
        let Some(conn) = net.table.get_mut(id) else { return };
        conn.flags.clear(Flags::BLOCKED);
        let before = conn.queue.unsent();
        let sent = if let Ok(n) = usize::try_from(result) {
            conn.queue.release(n as u64);
            let all = before == n && !conn.flags.has(Flags::SECURED);
            net.counters.sent_bytes += n as u64;
            if let Some((_, secured)) = net.table.secured_mut(id) {
                // Only what was queued before goes through the ring.
                secured.clear = secured.clear.saturating_sub(n as u64);
            }
            if all { Sent::All } else { self.ring.send(net, id) }
        } else {
            match Errno::from_raw_os_error(-result) {
                Errno::AGAIN | Errno::INTR => self.ring.send(net, id),
                Errno::NOBUFS | Errno::NOMEM | Errno::OPNOTSUPP if zero_copy => {
                    // Pages cannot be pinned, or not for this socket.
                    self.ring.zero_copy = false;
                    self.ring.send(net, id)
                }
                e => Sent::Failed(e),
            }
        };
        dispatch::on_flushed(app, net, id, before, sent);
        dispatch::settle(app, net, &mut self.ring);
    }

    /// There is room to send, or a connect has its outcome.
    #[cold]
    fn room<A: App>(&mut self, app: &mut A, net: &mut Sockets, data: u64) {
        let Some(id) = connection(net, data) else { return };
        let Some(conn) = net.table.get_mut(id) else { return };
        conn.flags.clear(Flags::BLOCKED | Flags::WATCHES_ROOM);
        if conn.flags.has(Flags::CONNECTING) {
            dispatch::connected(app, net, id);
            if let Some(conn) = net.table.get_mut(id) {
                self.ring.receive(conn, id);
            }
        }
        dispatch::flush_id(app, net, &mut self.ring, id);
        dispatch::settle(app, net, &mut self.ring);
    }

    /// A multishot accept brought a connection, or ended.
    #[cold]
    fn accepted<A: App>(
        &mut self,
        app: &mut A,
        net: &mut Sockets,
        accepting: &mut Accepting,
        index: u32,
        result: i32,
        flags: u32,
    ) {
        let Some(watched) = self.ring.listeners.get_mut(index as usize) else { return };
        let listener = watched.listener.clone();
        if !cqueue::more(flags) {
            watched.armed = false;
        }
        if result >= 0 {
            net.counters.accepted += 1;
            // SAFETY: the kernel made this descriptor for us just now.
            let fd = unsafe { OwnedFd::from_raw_fd(result) };
            self.admit(app, net, accepting, fd, &listener);
        } else if result != -libc::ECANCELED
            && accept::failed(Errno::from_raw_os_error(-result), &mut net.counters) == Accepted::Pause
        {
            accepting.begin_pause(net);
            // Not before the pause is over.
            self.ring.forget(index as usize);
        }
        self.ring.arm_listener(index);
    }

    fn admit<A: App>(
        &mut self,
        app: &mut A,
        net: &mut Sockets,
        accepting: &mut Accepting,
        fd: OwnedFd,
        listener: &Listener,
    ) {
        // Who the peer is, is looked up if somebody asks.
        let Some(taken) = accept::welcome((fd, None), listener, net) else { return };
        if net.table.is_full() {
            return self.waiting.push_back((taken.0, listener.clone()));
        }
        if accept::admit(taken, listener, app, net, &mut self.ring) == Accepted::Pause {
            accepting.begin_pause(net);
        }
    }

    /// Cancels what is under way, and waits for it to end. What was accepted
    /// meanwhile is closed.
    fn end(&mut self) {
        self.waiting.clear();
        for _ in 0..END_ROUNDS {
            if self.ring.under_way == 0 {
                return;
            }
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            self.ring.push(cancel, kind::NOTHING << 56);
            if self.wait(Duration::from_millis(10)).is_err() {
                return;
            }
            for event in &self.events {
                let (kind, result) = (event.user_data() >> 56, event.result());
                self.ring.under_way -= usize::from(!cqueue::more(event.flags()));
                if kind == kind::ACCEPT && result >= 0 {
                    // SAFETY: the kernel made this descriptor for us.
                    drop(unsafe { OwnedFd::from_raw_fd(result) });
                }
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.ring.wake = None;
        self.end();
        if self.ring.under_way == 0 {
            self.buffers.free();
        } else {
            // The kernel may still read and write there: better lost than
            // somebody else's.
            core::mem::forget(core::mem::take(&mut self.ring.sends));
        }
    }
}

impl Engine for Uring {
    type Driver = Ring;

    fn driver(&mut self) -> &mut Ring {
        &mut self.ring
    }

    fn begin<A: App>(&mut self, app: &mut A, net: &mut Sockets) -> bool {
        self.begin_new(app, net);
        false
    }

    /// Goes on with a connection that was stopped, or broke.
    fn go_on<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId) {
        let Some(conn) = net.table.get_mut(id) else { return };
        conn.flags.clear(Flags::AGAIN);
        if conn.flags.has(Flags::BROKEN) && !conn.waits_for_reader() {
            let goes_on = !conn.flags.has(Flags::ARMED | Flags::ENDED) && !conn.is_full();
            if goes_on && conn.flags.has(Flags::UNREAD) {
                // What arrived before is received still, and then the end.
                self.ring.receive(conn, id);
            } else if !conn.flags.has(Flags::ARMED) {
                net.end(id, Closed::Reset);
            } else if let Some(fd) = conn.fd() {
                // The same.
                let _ = shutdown(fd, Shutdown::Both);
            }
        } else if conn.flags.has(Flags::UNREAD) && !conn.is_full() {
            // One that is just being stopped goes on when it has.
            self.ring.receive(conn, id);
        }
        dispatch::flush_id(app, net, &mut self.ring, id);
        dispatch::settle(app, net, &mut self.ring);
    }
}

/// A receive was told to end, and could not be found at that moment: it is
/// told again, if need be, with the next data.
#[cold]
fn stopped(net: &mut Sockets, data: u64, result: i32) {
    if result < 0
        && let Some(conn) = connection(net, data).and_then(|id| net.table.get_mut(id))
    {
        conn.flags.clear(Flags::STOPPING);
    }
}
