//! Taking connections from listening sockets, and leaving them alone while
//! that cannot succeed.

use crate::dispatch::{self, Driver};
use crate::epoll::Epoll;
use crate::listen::Listener;
use crate::net::{Sockets, unmapped};
use crate::table::Flags;
use app::{App, Opened};
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::io;
use std::os::fd::AsFd;
use wire::Time;

/// Connections taken from a queue of our own before others have their turn.
const BATCH_MAX: usize = 64;

/// A pause after an accept that failed for want of something: the first, and
/// the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A worker's listening sockets.
#[derive(Debug)]
pub(crate) struct Accepting {
    listeners: Vec<Listener>,
    /// How many to take at once from each: as many as there were last time.
    batches: Vec<usize>,
    /// Those that came up in this pass.
    ready: Vec<usize>,
    watched: bool,
    /// Nothing is taken before this.
    until: Option<Time>,
    pause: Duration,
}

/// What came of one accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accepted {
    /// A connection.
    One,
    /// The queue is empty.
    Empty,
    /// That one was gone; there may be others.
    Gone,
    /// None can be had for now.
    Pause,
    /// The limit on connections is reached.
    Full,
    /// A signal came.
    Interrupted,
}

impl Accepting {
    pub(crate) fn new(listeners: Vec<Listener>) -> Self {
        let batches = vec![1; listeners.len()];
        Self { listeners, batches, ready: Vec::new(), watched: false, until: None, pause: PAUSE_MIN }
    }

    pub(crate) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Whether something came up in this pass.
    pub(crate) const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When to look again, if accepting pauses.
    pub(crate) const fn until(&self) -> Option<Time> {
        self.until
    }

    /// The listening socket with this index has something.
    pub(crate) fn on_ready(&mut self, index: usize) {
        self.ready.push(index);
    }

    /// Watches the sockets, or leaves them alone, as the moment demands.
    #[inline]
    pub(crate) fn look_after(&mut self, net: &mut Sockets, epoll: &Epoll) -> io::Result<()> {
        let due = self.until.is_none_or(|until| net.now >= until);
        let wanted = due && !net.table.is_full() && !self.listeners.is_empty();
        if wanted == self.watched { Ok(()) } else { self.change(wanted, net, epoll) }
    }

    #[cold]
    fn change(&mut self, watch: bool, net: &mut Sockets, epoll: &Epoll) -> io::Result<()> {
        self.watched = watch;
        if watch {
            self.until = None;
        } else if self.until.is_none() && !self.listeners.is_empty() {
            net.counters.accept_limits += 1;
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            if watch {
                epoll.poll.watch_listener(listener.as_fd(), index, listener.is_exclusive())?;
            } else {
                epoll.poll.forget(listener.as_fd());
            }
        }
        Ok(())
    }

    /// A connection closed: what was wanting may be there again.
    #[inline]
    pub(crate) const fn on_closed(&mut self) {
        if self.until.is_some() {
            self.until = Some(Time::ZERO);
        }
    }

    /// Takes what came up in this pass: of a shared queue one connection, so
    /// that a worker takes no more than it gets to; of its own, a batch.
    pub(crate) fn take<A: App>(&mut self, app: &mut A, net: &mut Sockets, driver: &mut impl Driver) {
        let mut ready = core::mem::take(&mut self.ready);
        for index in ready.drain(..) {
            self.take_from(index, app, net, driver);
        }
        self.ready = ready;
    }

    fn take_from<A: App>(&mut self, index: usize, app: &mut A, net: &mut Sockets, driver: &mut impl Driver) {
        let Some(listener) = self.listeners.get(index) else { return };
        let batch = if listener.is_shared() { 1 } else { self.batches[index] };
        let mut taken = 0;
        let mut last = Accepted::Empty;
        while taken < batch {
            last = accept(listener, app, net, driver);
            match last {
                Accepted::One => taken += 1,
                Accepted::Gone | Accepted::Interrupted => {}
                Accepted::Empty | Accepted::Pause | Accepted::Full => break,
            }
        }
        self.batches[index] = match last {
            Accepted::One => (2 * batch).min(BATCH_MAX),
            _ => taken.max(1),
        };
        match last {
            Accepted::Pause => self.begin_pause(net),
            _ if taken > 0 => self.pause = PAUSE_MIN,
            _ => {}
        }
    }

    /// Leaves the sockets alone for a while: they stay ready, and to look at
    /// them again and again would only burn the core.
    #[cold]
    pub(crate) fn begin_pause(&mut self, net: &mut Sockets) {
        net.counters.accept_pauses += 1;
        self.until = Some(net.now + self.pause);
        self.pause = (2 * self.pause).min(PAUSE_MAX);
    }

    /// Takes no more, and gives the sockets up: what waits in a shared queue
    /// is for those that have it still.
    pub(crate) fn stop(&mut self, epoll: Option<&Epoll>) {
        if let Some(epoll) = epoll.filter(|_| self.watched) {
            for listener in &self.listeners {
                epoll.poll.forget(listener.as_fd());
            }
        }
        self.watched = false;
        self.until = None;
        self.ready.clear();
        self.listeners.clear();
    }
}

/// Takes one connection, and tells the application.
pub(crate) fn accept<A: App>(
    listener: &Listener,
    app: &mut A,
    net: &mut Sockets,
    driver: &mut impl Driver,
) -> Accepted {
    if net.table.is_full() {
        return Accepted::Full;
    }
    let (fd, peer) = match acceptfrom_with(listener.as_fd(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(taken) => taken,
        Err(e) => return failed(e, net),
    };
    net.counters.accepted += 1;
    let peer = peer.and_then(|peer| peer.try_into().ok()).map(unmapped);
    let flags = if listener.is_unix() { Flags::UNIX } else { 0 };
    let Some(id) = net.table.insert(fd, peer, flags) else { return Accepted::Full };
    if driver.watch(net, id).is_err() {
        // Watching needs memory, and fs.epoll.max_user_watches.
        net.counters.watch_errors += 1;
        if let Some((_, fd)) = net.table.vacate(id.index() as u32) {
            driver.close(fd);
            net.table.release(id.index() as u32);
        }
        return Accepted::Pause;
    }
    app.on_open(net, id, Opened::Accepted);
    dispatch::settle(app, net, driver);
    if listener.has_data_first() {
        net.read_soon(id);
    }
    Accepted::One
}

/// accept(2), "Error handling": errors of the connection itself are passed
/// on, and are to be treated like EAGAIN by retrying.
#[cold]
fn failed(e: Errno, net: &mut Sockets) -> Accepted {
    let counters = &mut net.counters;
    let (counter, accepted) = match e {
        Errno::AGAIN => (&mut counters.accepts_empty, Accepted::Empty),
        Errno::INTR => return Accepted::Interrupted,
        Errno::MFILE | Errno::NFILE => (&mut counters.accepts_no_descriptors, Accepted::Pause),
        Errno::NOBUFS | Errno::NOMEM => (&mut counters.accepts_no_memory, Accepted::Pause),
        Errno::CONNABORTED
        | Errno::NETDOWN
        | Errno::PROTO
        | Errno::NOPROTOOPT
        | Errno::HOSTDOWN
        | Errno::NONET
        | Errno::HOSTUNREACH
        | Errno::OPNOTSUPP
        | Errno::NETUNREACH => (&mut counters.accepts_aborted, Accepted::Gone),
        _ => (&mut counters.accepts_refused, Accepted::Pause),
    };
    *counter += 1;
    accepted
}
