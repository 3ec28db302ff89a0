//! Connections on kernel sockets beside those of a silo: what a
//! [`crate::Worker`] is, without a loop and a wait of its own.
//!
//! The silo's turn calls [`KernelHalf::pass`], which asks the kernel at most
//! once, and without waiting. Before the silo sleeps, the descriptor of
//! [`KernelHalf::as_fd`] is among what wakes it: it is readable while something
//! is to be asked for, so that nothing is missed between the last pass and the
//! sleep.

use crate::accept::Accepting;
use crate::config::StreamOptions;
use crate::connect::try_options;
use crate::counters::Counters;
use crate::dispatch::{self, Engine};
use crate::epoll::{Epoll, Ready};
use crate::listen::Listener;
use crate::net::Sockets;
use crate::worker::{StartError, affordable, prepare};
use app::{App, SourceRule, Sources, Wake};
use core::fmt;
use core::time::Duration;
use cpu::Clock;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Time;

/// How often the kernel is asked while it has nothing: a system call more in
/// each of many short turns would cost the silo's own connections more than the
/// wait of 5 µs on average costs these.
const ASK_EVERY: Duration = Duration::from_micros(10);

/// How long the connections of the kernel may keep the silo's own waiting, in
/// one turn; what is left goes on in the next.
const SHARE: Duration = Duration::from_micros(200);

/// Events that are taken before their answers are sent.
const BATCH: usize = 4;

/// Bytes that one connection hands to the kernel in one turn: some 30 µs of
/// copying.
const SEND_BUDGET: usize = 256 * 1024;

/// What a [`KernelHalf`] is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HalfConfig {
    /// The most connections that it holds, accepted and opened. Default 4,096,
    /// cut to what the limit on descriptors allows. Each takes a slot of the
    /// application's table from the start, used or not.
    pub connections: usize,
    /// How many connections each client may have.
    pub per_source: Option<SourceRule>,
    /// Options of each connection.
    pub stream: StreamOptions,
}

impl Default for HalfConfig {
    fn default() -> Self {
        Self { connections: 4_096, per_source: None, stream: StreamOptions::default() }
    }
}

/// A silo's connections on kernel sockets, and its listening sockets.
pub struct KernelHalf {
    pub(crate) net: Sockets,
    accepting: Accepting,
    epoll: Box<Epoll>,
    /// Events that the kernel told and that were not taken yet: the next, and
    /// behind the last.
    told: (usize, usize),
    /// The kernel is not asked before this.
    ask_at: Time,
    /// When the silo was told to come again.
    due: Time,
    /// Readable while there is something to do that came after the last pass.
    nudge: OwnedFd,
    nudged: bool,
    slots: u32,
}

impl fmt::Debug for KernelHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { net, slots, .. } = self;
        f.debug_struct("KernelHalf")
            .field("connections", &net.connections())
            .field("slots", slots)
            .finish_non_exhaustive()
    }
}

impl KernelHalf {
    /// Connections beside a silo's, which come from `listeners` and from what
    /// the application opens. To be made on the silo's thread.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(config: HalfConfig, listeners: Vec<Listener>) -> Result<Self, StartError> {
        let HalfConfig { connections, per_source, stream } = config;
        let connections = affordable(connections);
        let now = Clock.now();
        let mut net = Sockets::new(now, connections, stream, None);
        net.sources = Sources::new(per_source);
        net.send_budget = SEND_BUDGET;
        net.passes.can = true;
        try_options(&net).map_err(|why| StartError::Option(None, why))?;
        prepare(&listeners, &net.stream)?;
        let epoll = Box::new(Epoll::new().map_err(StartError::Engine)?);
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let nudge = nudge.map_err(|why| StartError::Engine(why.into()))?;
        epoll.poll.watch_wake(nudge.as_fd()).map_err(StartError::Engine)?;
        Ok(Self {
            net,
            accepting: Accepting::new(listeners),
            epoll,
            told: (0, 0),
            ask_at: Time::ZERO,
            due: Time::ZERO,
            nudge,
            nudged: false,
            slots: u32::try_from(connections).unwrap_or(u32::MAX),
        })
    }

    /// Slots that its connections can ever have: from 0 on.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Connections open or opening.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.net.connections()
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.net.counters()
    }

    /// Accepts no more, and closes the listening sockets here.
    pub fn stop_listening(&mut self) {
        self.accepting.stop(&mut self.epoll.poll);
    }

    /// Whether it accepts, or would if it could.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        !self.accepting.listeners().is_empty()
    }

    /// One turn: what the kernel tells, timers, and the application's own turn
    /// with what comes of it. Returns when to come again.
    #[inline]
    pub(crate) fn pass<A: App>(&mut self, app: &mut A, now: Time) -> Wake {
        self.net.now = now;
        let busy = (now >= self.ask_at || self.nudged) && self.ask(app, now);
        let wake = dispatch::own_turn(app, &mut self.net, &mut self.epoll.poll);
        if busy || self.net.has_more() || self.told.0 < self.told.1 {
            self.due = now;
            return Wake::Now;
        }
        let times = [self.net.timers.next(), self.accepting.until(), self.net.farewells.due()];
        self.due = times.into_iter().flatten().min().unwrap_or(Time::MAX);
        if self.due == Time::MAX { wake } else { wake.earlier(Wake::At(self.due)) }
    }

    /// Takes what the kernel has. Returns whether that was anything.
    fn ask<A: App>(&mut self, app: &mut A, now: Time) -> bool {
        if core::mem::take(&mut self.nudged) {
            let _ = rustix::io::read(&self.nudge, &mut [0; 8]);
        }
        let closed = self.net.counters.closed;
        if self.told.0 == self.told.1 && (self.net.connections() > 0 || self.is_listening()) {
            self.net.counters.waits += 1;
            // It fails for what is no epoll instance alone.
            self.told = (0, self.epoll.wait(Duration::ZERO).unwrap_or(0));
            self.net.counters.wakes += u64::from(self.told.1 > 0);
        }
        let busy = self.told.0 < self.told.1 || !self.net.again.is_empty();
        if busy {
            let until = Clock.now() + SHARE;
            self.take_events(app, until);
            self.go_on(app, until);
            self.accept(app);
        }
        dispatch::run_timers(app, &mut self.net, &mut self.epoll.poll);
        dispatch::look_at_farewells(&mut self.net, &mut self.epoll.poll);
        if self.net.counters.closed != closed {
            self.accepting.on_closed();
        }
        if self.accepting.look_after(&mut self.net, &mut self.epoll.poll).is_err() {
            self.net.counters.watch_errors += 1;
            self.accepting.begin_pause(&mut self.net);
        }
        // Where there was something, there may be more by the next turn.
        self.ask_at = if busy { now + Duration::from_nanos(1) } else { now + ASK_EVERY };
        busy
    }

    fn take_events<A: App>(&mut self, app: &mut A, until: Time) {
        let Self { net, epoll, told: (next, end), accepting, .. } = self;
        let mut taken = 0;
        while *next < *end {
            match epoll.ready(*next) {
                Ready::Connection(id, flags) => {
                    net.counters.events += 1;
                    epoll.on_event(app, net, id, flags);
                    taken += 1;
                }
                Ready::Listener(index) => accepting.on_ready(index),
                Ready::Wake => {}
            }
            *next += 1;
            if taken == BATCH {
                taken = 0;
                dispatch::settle(app, net, &mut epoll.poll);
                if Clock.now() >= until {
                    break;
                }
            }
        }
        dispatch::settle(app, net, &mut epoll.poll);
    }

    /// Goes on with connections that were stopped so that others have their turn.
    fn go_on<A: App>(&mut self, app: &mut A, until: Time) {
        if self.net.again.is_empty() {
            return;
        }
        let mut waiting = core::mem::take(&mut self.net.again);
        let mut gone = 0;
        for id in &waiting {
            self.epoll.go_on(app, &mut self.net, *id);
            gone += 1;
            if Clock.now() >= until {
                break;
            }
        }
        waiting.drain(..gone);
        waiting.append(&mut self.net.again);
        self.net.again = waiting;
    }

    fn accept<A: App>(&mut self, app: &mut A) {
        let Self { net, epoll, accepting, .. } = self;
        if accepting.has_ready() {
            accepting.take(app, net, epoll.driver());
            if epoll.begin(app, net) {
                accepting.begin_pause(net);
            }
        }
    }

    /// Carries out what the application asked for outside of a pass. What that
    /// leaves to be done wakes the silo, if it sleeps.
    pub(crate) fn settle<A: App>(&mut self, app: &mut A) {
        if self.net.has_more() {
            dispatch::settle(app, &mut self.net, &mut self.epoll.poll);
        }
        let later = self.net.timers.next().unwrap_or(Time::MAX) < self.due;
        if (later || self.net.has_more() || app.has_work()) && !self.nudged {
            self.nudged = true;
            // A full one is readable, too.
            let _ = rustix::io::write(&self.nudge, &1_u64.to_ne_bytes());
        }
    }

    /// Ends every connection, and accepts no more.
    pub(crate) fn end_all<A: App>(&mut self, app: &mut A) {
        self.stop_listening();
        self.net.end_all();
        dispatch::settle(app, &mut self.net, &mut self.epoll.poll);
    }
}

impl AsFd for KernelHalf {
    /// Readable while a pass would find something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.poll.as_fd()
    }
}
