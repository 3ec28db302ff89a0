//! Taking connections from listening sockets, and leaving them alone while
//! that cannot succeed.

use crate::blocking::Bell;
use crate::counters::Counters;
use crate::dispatch::{self, Driver};
use crate::listen::Listener;
use crate::net::{Sockets, peer_of, unmapped};
use crate::table::Flags;
use app::{App, Closed, ConnId, Opened};
use core::net::SocketAddr;
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Time;

/// Connections taken from a queue of our own before others have their turn: some 17 us each, with
/// what is watched and read of them.
const BATCH_MAX: usize = 16;

/// A pause after an accept that failed for want of something: the first, and
/// the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// While all connections are in use and none is idle, one may become so: it is
/// looked for again after this.
pub(crate) const FULL_PAUSE: Duration = Duration::from_millis(50);

/// A worker's listening sockets.
#[derive(Debug)]
pub(crate) struct Accepting {
    listeners: Vec<Listener>,
    /// How many to take at once from each: as many as there were last time.
    batches: Vec<usize>,
    /// Those that came up in this pass.
    ready: Vec<usize>,
    watched: bool,
    /// For model `blocking`: the sockets are never watched, but waited on.
    bell: Option<Bell>,
    /// The connection that such a wait brought.
    brought: Option<Taken>,
    /// Nothing is taken before this.
    until: Option<Time>,
    pause: Duration,
    crowd: Crowd,
}

/// Where the search for connections that make room stands.
#[derive(Debug, Default)]
struct Crowd {
    /// The slot to go on from.
    hand: usize,
    /// None was found: not to be looked for again before this, unless a
    /// connection ends.
    rests_until: Option<Time>,
    /// None was found, and none has ended or been found since.
    busy: bool,
    /// What of this those were told who deal out new connections.
    told: bool,
}

/// What an engine does for listening sockets.
pub(crate) trait WatchListeners {
    /// Tells from now on when a listening socket has something; `index` is
    /// the same for the same socket always.
    fn watch_listener(&mut self, listener: &Listener, index: usize) -> io::Result<()>;

    /// No longer tells.
    fn forget_listener(&mut self, listener: &Listener, index: usize);
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
        Self {
            listeners,
            batches,
            ready: Vec::new(),
            watched: false,
            bell: None,
            brought: None,
            until: None,
            pause: PAUSE_MIN,
            crowd: Crowd::default(),
        }
    }

    pub(crate) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Whether something came up in this pass.
    pub(crate) const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether what comes up is told.
    pub(crate) const fn is_watched(&self) -> bool {
        self.watched
    }

    /// When to look again, if accepting pauses.
    pub(crate) fn until(&self) -> Option<Time> {
        self.until.into_iter().chain(self.crowd.rests_until.filter(|_| !self.watched)).min()
    }

    /// The listening socket with this index has something.
    pub(crate) fn on_ready(&mut self, index: usize) {
        self.ready.push(index);
    }

    /// Watches the sockets, or leaves them alone, as the moment demands.
    #[inline]
    pub(crate) fn look_after(&mut self, net: &mut Sockets, engine: &mut impl WatchListeners) -> io::Result<()> {
        let due = self.until.is_none_or(|until| net.now >= until);
        let rests = self.crowd.rests_until.is_some_and(|until| net.now < until) && net.table.is_full();
        let wanted = due && !rests && !self.listeners.is_empty() && self.bell.is_none();
        let same = wanted == self.watched && self.crowd.busy == self.crowd.told;
        if same { Ok(()) } else { self.change(wanted, net, engine) }
    }

    #[cold]
    fn change(&mut self, watch: bool, net: &mut Sockets, engine: &mut impl WatchListeners) -> io::Result<()> {
        self.crowd.told = self.crowd.busy;
        if let Some(seat) = &mut net.seat {
            seat.set_in_service(watch && !self.crowd.busy);
        }
        if core::mem::replace(&mut self.watched, watch) == watch {
            return Ok(());
        }
        if watch {
            self.until = None;
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            if watch {
                engine.watch_listener(listener, index)?;
            } else {
                engine.forget_listener(listener, index);
            }
        }
        Ok(())
    }

    /// From now on the sockets are waited on, by this thread.
    pub(crate) fn set_bell(&mut self, bell: Bell) {
        self.bell = Some(bell);
    }

    /// Whether the worker is to wait for a connection, and for nothing else.
    pub(crate) fn blocks(&self, net: &Sockets) -> bool {
        self.bell.is_some()
            && net.table.len() == 0
            && !self.listeners.is_empty()
            && self.until.is_none_or(|until| net.now >= until)
    }

    /// Waits for a connection, until then at the latest. Returns whether one
    /// came: it is taken in by [`Accepting::take`].
    pub(crate) fn block(&mut self, net: &mut Sockets, until: Time) -> usize {
        self.until = None;
        let (Some(bell), Some(listener)) = (&self.bell, self.listeners.first()) else { return 0 };
        let until = until.max(net.now);
        match bell.wait(net.now, until, || take_one(listener.as_fd(), &mut net.counters)) {
            Ok(taken) => {
                self.brought = Some(taken);
                self.ready.push(0);
                return 1;
            }
            Err(Accepted::Pause) => self.begin_pause(net),
            Err(_) => {}
        }
        0
    }

    /// A connection closed: what was wanting may be there again.
    #[inline]
    pub(crate) const fn on_closed(&mut self) {
        if self.until.is_some() {
            self.until = Some(Time::ZERO);
        }
        self.crowd.rests_until = None;
        self.crowd.busy = false;
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
        if let Some(taken) = self.brought.take().and_then(|taken| welcome(taken, listener, net)) {
            if admit(taken, listener, app, net, driver) == Accepted::Pause {
                self.begin_pause(net);
            }
            return;
        }
        let batch = if listener.is_shared() { 1 } else { self.batches[index] };
        let mut taken = 0;
        let mut last = Accepted::Empty;
        while taken < batch {
            // Who makes room is known before one is taken, and goes only for
            // one that is there.
            let room = match net.table.is_full() {
                true => find_idle(app, net, &mut self.crowd),
                false => Some(None),
            };
            let Some(idle) = room else { break };
            last = match take_one(listener.as_fd(), &mut net.counters) {
                Ok(taken) => match welcome(taken, listener, net) {
                    Some(taken) => {
                        displace(idle, app, net, driver);
                        admit(taken, listener, app, net, driver)
                    }
                    None => Accepted::Gone,
                },
                Err(why) => why,
            };
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

    /// Makes room for a connection that was taken already. Whether there is.
    pub(crate) fn make_room<A: App>(&mut self, app: &mut A, net: &mut Sockets, driver: &mut impl Driver) -> bool {
        if net.table.is_full() {
            let Some(idle) = find_idle(app, net, &mut self.crowd) else { return false };
            displace(idle, app, net, driver);
        }
        !net.table.is_full()
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
    pub(crate) fn stop(&mut self, engine: &mut impl WatchListeners) {
        if self.watched {
            for (index, listener) in self.listeners.iter().enumerate() {
                engine.forget_listener(listener, index);
            }
        }
        self.watched = false;
        self.until = None;
        self.ready.clear();
        self.brought = None;
        self.bell = None;
        self.listeners.clear();
    }
}

/// Of a full table, the connection that makes room for the next; the listening
/// sockets are left alone for a while if there is none.
#[cold]
fn find_idle<A: App>(app: &A, net: &mut Sockets, crowd: &mut Crowd) -> Option<Option<ConnId>> {
    let now = net.now;
    let found = net.table.find_idle(&mut crowd.hand, |id| app.idle(id, now));
    let busy = found.is_none();
    if busy {
        crowd.rests_until = Some(now + FULL_PAUSE);
    }
    net.counters.accept_limits += u64::from(busy && !crowd.busy);
    crowd.busy = busy;
    found.map(Some)
}

/// Ends the connection that makes room.
fn displace<A: App>(idle: Option<ConnId>, app: &mut A, net: &mut Sockets, driver: &mut impl Driver) {
    if let Some(id) = idle {
        net.counters.idle_displaced += 1;
        net.end(id, Closed::Finished);
        dispatch::settle(app, net, driver);
    }
}

/// A connection that was taken, and from whom.
pub(crate) type Taken = (OwnedFd, Option<SocketAddr>);

/// Takes one connection from the queue.
fn take_one(fd: BorrowedFd<'_>, counters: &mut Counters) -> Result<Taken, Accepted> {
    match acceptfrom_with(fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, peer)) => {
            counters.accepted += 1;
            Ok((fd, peer.and_then(|peer| peer.try_into().ok()).map(unmapped)))
        }
        Err(e) => Err(failed(e, counters)),
    }
}

/// Resets what was taken of a client that has as many connections as it may
/// have; looks up who that is, if it matters.
pub(crate) fn welcome((fd, peer): Taken, listener: &Listener, net: &mut Sockets) -> Option<Taken> {
    if !net.sources.is_on() || listener.is_unix() {
        return Some((fd, peer));
    }
    let peer = peer.or_else(|| peer_of(&fd));
    if peer.is_none_or(|peer| net.sources.admits(peer.ip())) {
        return Some((fd, peer));
    }
    net.counters.source_limited += 1;
    let _ = set_socket_linger(&fd, Some(Duration::ZERO));
    None
}

/// Makes what was taken a connection, and tells the application.
pub(crate) fn admit<A: App>(
    (fd, peer): Taken,
    listener: &Listener,
    app: &mut A,
    net: &mut Sockets,
    driver: &mut impl Driver,
) -> Accepted {
    let mut flags = Flags::UNWATCHED | if listener.is_unix() { Flags::UNIX } else { Flags::UNHEARD };
    if let Some(seat) = &mut net.seat {
        seat.taken();
        flags |= Flags::SEATED;
    }
    if peer.is_some() && net.sources.is_on() {
        flags |= Flags::COUNTED;
    }
    let Some(id) = net.table.insert(fd, peer, flags) else { return Accepted::Full };
    if net.farewells.len() > 0 {
        dispatch::crowd_farewells(net, driver);
    }
    if driver.watch(net, id).is_err() {
        // Watching needs memory, and fs.epoll.max_user_watches.
        net.counters.watch_errors += 1;
        if let Some((_, fd)) = net.table.vacate(id.index() as u32) {
            net.finished(flags & Flags::SEATED != 0);
            driver.close(fd, Flags::default());
            net.table.release(id.index() as u32);
        }
        return Accepted::Pause;
    }
    if let Some(peer) = peer {
        net.sources.opened(peer.ip());
    }
    app.on_open(net, id, Opened::Accepted);
    dispatch::settle(app, net, driver);
    Accepted::One
}

/// accept(2), "Error handling": errors of the connection itself are passed
/// on, and are to be treated like EAGAIN by retrying.
#[cold]
pub(crate) fn failed(e: Errno, counters: &mut Counters) -> Accepted {
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
