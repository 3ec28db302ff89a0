//! Readiness: the engine over epoll(7).
//!
//! Connections are watched edge-triggered and once: what a request costs is
//! its share of one epoll_wait(2), a recv(2) and a send(2). A read that
//! returns less than was asked for has emptied the socket, so no second one
//! finds that out; and whether there is room to send is asked for only once a
//! send has found none.

use crate::accept::WatchListeners;
use crate::dispatch::{self, Driver, Engine};
use crate::listen::Listener;
use crate::luck::Luck;
use crate::net::Sockets;
use crate::passing;
use crate::sealing;
use crate::send::{self, Sent};
use crate::table::{Flags, PIECE, Socket};
use app::{App, ConnId};
use core::time::Duration;
use cpu::Clock;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Events taken in one pass. More amortise more, and have the last of them
/// wait longer.
const EVENTS: usize = 256;

/// The receive buffer that all connections of a worker share: it stays in the
/// cache, and data is offered where it lies.
const BUFFER: usize = 64 * 1024;

/// Reads of one connection before others have their turn.
const READS: usize = 4;

/// What a connection is watched for from the start. PRI, because a read stops
/// at an urgent mark, and is short though there is more.
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::PRI).union(EventFlags::ET);
const ARRIVALS_AND_ROOM: EventFlags = ARRIVALS.union(EventFlags::OUT);

/// Everything but plain arrival: then a short read does not mean that the
/// socket is empty, because its end, or its error, is still to be read.
const READ_ON: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// What is no connection: the data of its events begins here.
const OTHERS: u64 = crate::table::RESERVED as u64;
const WAKE: u64 = u32::MAX as u64;

/// The engine.
pub(crate) struct Epoll {
    pub(crate) poll: Poll,
    events: Box<[Event]>,
    ready: usize,
    buffer: Box<[u8]>,
}

/// The epoll instance.
#[derive(Debug)]
pub(crate) struct Poll {
    fd: OwnedFd,
    /// Waits of less than a millisecond: epoll_pwait2(2), Linux 5.11, if it
    /// is to be had.
    fine: bool,
    /// Connections just accepted, which are not watched yet.
    new: Vec<ConnId>,
    luck: Luck,
    /// The number of the descriptor that ends a wait, and our own copy of it:
    /// its number may have come to name something else since.
    wake: Option<(i32, OwnedFd)>,
}

/// What came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ready {
    /// A connection.
    Connection(ConnId, EventFlags),
    /// The listening socket with this index.
    Listener(usize),
    /// The application's, or the attendant's, own descriptor.
    Wake,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { poll: Poll::new()?, events: vec![event; EVENTS].into(), ready: 0, buffer: vec![0; BUFFER].into() })
    }

    /// Waits until something comes up, for no longer than `longest`. Returns
    /// how many things did: see [`Epoll::ready`].
    #[inline]
    pub(crate) fn wait(&mut self, longest: Duration) -> io::Result<usize> {
        self.ready = self.poll.wait(&mut self.events, longest)?;
        Ok(self.ready)
    }

    /// What came up, by index.
    #[inline]
    pub(crate) fn ready(&self, index: usize) -> Ready {
        let Event { flags, data } = self.events[index];
        let data = data.u64();
        let slot = data & u64::from(u32::MAX);
        match slot {
            WAKE => Ready::Wake,
            OTHERS.. => Ready::Listener((slot - OTHERS) as usize),
            _ => Ready::Connection(ConnId::new(slot as u32, (data >> 32) as u32), flags),
        }
    }

    /// Takes an event of a connection to the application, whose answer is for
    /// [`dispatch::settle`].
    #[inline]
    pub(crate) fn on_event<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId, flags: EventFlags) {
        let Some(conn) = net.table.get_mut(id) else {
            net.counters.events_stale += 1;
            return;
        };
        if conn.flags.has(Flags::CONNECTING | Flags::BLOCKED) {
            if conn.flags.has(Flags::CONNECTING) {
                return self.on_connect(app, net, id, flags);
            }
            if flags.contains(EventFlags::OUT) {
                conn.flags.clear(Flags::BLOCKED);
                let fed = conn.flags.has(Flags::FED);
                dispatch::flush_id(app, net, &mut self.poll, id);
                if fed && let Some((from, _)) = net.passes.to(id) {
                    net.read_on(from);
                }
            }
        }
        if flags.intersects(EventFlags::IN | READ_ON) {
            self.read(app, net, id, flags.intersects(READ_ON));
        }
    }

    #[cold]
    fn on_connect<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId, flags: EventFlags) {
        if flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
            dispatch::connected(app, net, id);
            if flags.intersects(EventFlags::IN | READ_ON) {
                self.read(app, net, id, true);
            }
            // What was queued meanwhile.
            dispatch::flush_id(app, net, &mut self.poll, id);
        }
        dispatch::settle(app, net, &mut self.poll);
    }

    /// Reads what arrived. `on`: also past a short read.
    #[inline]
    fn read<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId, on: bool) {
        for _ in 0..READS {
            let Some(conn) = net.table.get_mut(id) else { return };
            if conn.flags.has(Flags::PASSES) {
                return passing::go(app, net, &mut self.poll, id);
            }
            if conn.is_full() {
                return stop_reading(net, id, on);
            }
            let Some(fd) = conn.fd() else { return };
            let on = on || conn.flags.has(Flags::UNIX | Flags::BROKEN);
            let most = if conn.flags.has(Flags::LITTLE) { PIECE } else { BUFFER };
            match recv(fd, &mut self.buffer[..most], RecvFlags::empty()) {
                Ok((0, _)) => return dispatch::ended(app, net, id),
                Ok((n, _)) => {
                    dispatch::deliver(app, net, id, &self.buffer[..n]);
                    if n < most && !on {
                        return;
                    }
                    if goes_on_later(net, id) {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return nothing_left(net, id),
                Err(Errno::INTR) => {}
                Err(e) => return dispatch::failed(net, id, e),
            }
        }
        if let Some(conn) = net.table.get_mut(id) {
            conn.flags.set(Flags::UNREAD);
            net.go_on(id);
        }
    }
}

impl Engine for Epoll {
    type Driver = Poll;

    fn driver(&mut self) -> &mut Poll {
        &mut self.poll
    }

    /// Begins with the connections that were accepted in this pass. Their
    /// first request has often arrived: it is read, answered, and, if that was
    /// all, the connection closed, before it would have to be watched.
    /// Returns whether one could not be watched, for want of memory.
    fn begin<A: App>(&mut self, app: &mut A, net: &mut Sockets) -> bool {
        let mut refused = false;
        let mut new = core::mem::take(&mut self.poll.new);
        for id in new.drain(..) {
            if self.poll.luck.tries() {
                net.now = Clock.now();
                let before = net.counters.receives_empty;
                self.read(app, net, id, false);
                self.poll.luck.learn(net.counters.receives_empty == before);
                dispatch::settle(app, net, &mut self.poll);
            }
            if net.table.get(id).is_some() && self.poll.add(net, id).is_err() {
                // Watching needs memory, and fs.epoll.max_user_watches.
                refused = true;
                net.counters.watch_errors += 1;
                net.end(id, app::Closed::Aborted);
                dispatch::settle(app, net, &mut self.poll);
            }
        }
        self.poll.new = new;
        refused
    }

    /// Goes on with a connection that was stopped.
    fn go_on<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId) {
        let Some(conn) = net.table.get_mut(id) else { return };
        conn.flags.clear(Flags::AGAIN);
        let read = conn.flags.has(Flags::UNREAD | Flags::BROKEN);
        dispatch::flush_id(app, net, &mut self.poll, id);
        if read {
            self.read(app, net, id, true);
        }
        dispatch::settle(app, net, &mut self.poll);
    }
}

/// Whether the application wants what it left before anything more: else that would be
/// copied behind it.
fn goes_on_later(net: &mut Sockets, id: ConnId) -> bool {
    let wants = net.table.get(id).is_some_and(|conn| conn.flags.has(Flags::RESUMED) && conn.held() > 0);
    if wants {
        net.read_on(id);
    }
    wants
}

/// A read found nothing.
#[cold]
fn nothing_left(net: &mut Sockets, id: ConnId) {
    net.counters.receives_empty += 1;
    let Some(conn) = net.table.get_mut(id) else { return };
    conn.flags.clear(Flags::UNREAD);
    if conn.flags.has(Flags::BROKEN) {
        net.end(id, app::Closed::Reset);
    }
}

/// The application has to consume first: what arrives meanwhile closes the
/// peer's window. A connection that is dead already ends here, unless its
/// reader has said that it goes on later: the kernel keeps what arrived before
/// a reset, and tells of that behind it.
#[cold]
fn stop_reading(net: &mut Sockets, id: ConnId, look: bool) {
    net.counters.receive_stops += 1;
    let Some(conn) = net.table.get_mut(id) else { return };
    conn.flags.set(Flags::UNREAD);
    if conn.waits_for_reader() {
        return;
    }
    if conn.flags.has(Flags::BROKEN) {
        return net.end(id, app::Closed::Reset);
    }
    if look
        && let Some(fd) = conn.fd()
        && let Ok(Err(e)) = rustix::net::sockopt::socket_error(fd)
    {
        dispatch::failed(net, id, e);
    }
}

impl Poll {
    fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let fine = fine_waits(fd.as_fd());
        Ok(Self { fd, fine, new: Vec::new(), luck: Luck::default(), wake: None })
    }

    /// No longer watches a descriptor. Closing it would not do where another
    /// descriptor names the same socket.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // It fails only if it was not watched.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Has `fd` end a wait, in place of what did so far.
    pub(crate) fn set_wake(&mut self, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if fd.as_ref().map(AsRawFd::as_raw_fd) == self.wake.as_ref().map(|(number, _)| *number) {
            return Ok(());
        }
        self.change_wake(fd)
    }

    #[cold]
    fn change_wake(&mut self, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if let Some((_, old)) = self.wake.take() {
            self.forget(old.as_fd());
        }
        if let Some(fd) = fd {
            let copy = fd.try_clone_to_owned()?;
            epoll::add(&self.fd, &copy, EventData::new_u64(WAKE), EventFlags::IN)?;
            self.wake = Some((fd.as_raw_fd(), copy));
        }
        Ok(())
    }

    /// Has `fd` end waits for as long as it is there.
    pub(crate) fn watch_wake(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(WAKE), EventFlags::IN)?)
    }

    /// Readable while a wait would bring something.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    #[inline]
    fn wait(&self, events: &mut [Event], longest: Duration) -> io::Result<usize> {
        let waited = match longest {
            span if self.fine && !span.is_zero() => wait_fine(self.fd.as_fd(), events, span),
            span => {
                // Rounded up: a deadline is never early.
                let millis = span.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i64;
                let span = Timespec { tv_sec: millis / 1_000, tv_nsec: (millis % 1_000) * 1_000_000 };
                epoll::wait(&self.fd, events, Some(&span))
            }
        };
        match waited {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }
}

impl WatchListeners for Poll {
    /// Level-triggered, so that what is left in its queue comes up again.
    /// Exclusive: of those that wait for it in vain, one is woken.
    fn watch_listener(&mut self, listener: &Listener, index: usize) -> io::Result<()> {
        let mut flags = EventFlags::IN;
        if listener.is_exclusive() {
            flags |= EventFlags::EXCLUSIVE;
        }
        Ok(epoll::add(&self.fd, listener.as_fd(), EventData::new_u64(OTHERS + index as u64), flags)?)
    }

    fn forget_listener(&mut self, listener: &Listener, _index: usize) {
        self.forget(listener.as_fd());
    }
}

impl Driver for Poll {
    fn watch(&mut self, net: &mut Sockets, id: ConnId) -> io::Result<()> {
        if net.table.get(id).is_some_and(|conn| conn.flags.has(Flags::UNWATCHED)) {
            self.new.push(id);
            return Ok(());
        }
        self.add(net, id)
    }

    #[inline]
    fn send(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let Some(conn) = net.table.get_mut(id) else { return Sent::All };
        let sent = if conn.flags.has(Flags::SECURED) {
            sealing::send_queue(net, id)
        } else {
            send::send_queue(conn, (net.send_budget, net.stream.no_push), &mut net.counters)
        };
        let Some(conn) = net.table.get_mut(id) else { return sent };
        if sent == Sent::Blocked && !conn.flags.has(Flags::WATCHES_ROOM | Flags::UNWATCHED) {
            return self.ask_for_room(conn, id);
        }
        sent
    }

    fn watch_room(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        match net.table.get_mut(id) {
            Some(conn) if !conn.flags.has(Flags::WATCHES_ROOM | Flags::UNWATCHED) => self.ask_for_room(conn, id),
            _ => Sent::Blocked,
        }
    }

    fn leave(&mut self, fd: BorrowedFd<'_>, _flags: Flags) {
        self.forget(fd);
    }

    fn close(&mut self, fd: OwnedFd, _flags: Flags) {
        // Nobody else has it, so closing ends the watch.
        drop(fd);
    }
}

impl Poll {
    /// Has the kernel tell of a connection from now on.
    fn add(&self, net: &mut Sockets, id: ConnId) -> io::Result<()> {
        let Some(conn) = net.table.get_mut(id) else { return Ok(()) };
        let mut flags = ARRIVALS;
        if conn.flags.has(Flags::CONNECTING | Flags::BLOCKED) {
            conn.flags.set(Flags::WATCHES_ROOM);
            flags = ARRIVALS_AND_ROOM;
        }
        conn.flags.clear(Flags::UNWATCHED);
        let Some(fd) = conn.fd() else { return Ok(()) };
        Ok(epoll::add(&self.fd, fd, data(id), flags)?)
    }

    #[cold]
    fn ask_for_room(&self, conn: &mut Socket, id: ConnId) -> Sent {
        let Some(fd) = conn.fd() else { return Sent::All };
        match epoll::modify(&self.fd, fd, data(id), ARRIVALS_AND_ROOM) {
            Ok(()) => {
                conn.flags.set(Flags::WATCHES_ROOM);
                Sent::Blocked
            }
            Err(e) => Sent::Failed(e),
        }
    }
}

#[inline]
fn data(id: ConnId) -> EventData {
    EventData::new_u64(u64::from(id.generation()) << 32 | id.index() as u64)
}

/// Whether epoll_pwait2(2) is to be had: asked only of kernels that have it,
/// because some sandboxes end a process for a call that they do not know.
fn fine_waits(fd: BorrowedFd<'_>) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
    version >= (5, 11) && wait_fine(fd, &mut [event], Duration::ZERO).is_ok()
}

#[inline]
fn wait_fine(fd: BorrowedFd<'_>, events: &mut [Event], longest: Duration) -> Result<usize, Errno> {
    let span = libc::timespec {
        tv_sec: libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    // SAFETY: the kernel writes at most `events.len()` events, which have its
    // layout; `span` outlives the call; no signal mask is given.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            fd.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            &raw const span,
            core::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    usize::try_from(ready).map_err(|_| {
        let e = io::Error::last_os_error();
        Errno::from_io_error(&e).unwrap_or(Errno::IO)
    })
}
