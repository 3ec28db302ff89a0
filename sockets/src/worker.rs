//! One thread, and all it owns: connections, listening sockets, application.

use crate::accept::{Accepting, FULL_PAUSE};
use crate::blocking::{ATTEND_BLOCKED, Bell};
use crate::config::{Config, Model, StreamOptions};
use crate::connect::try_options;
use crate::counters::Counters;
use crate::dispatch;
use crate::epoll::{Epoll, Ready};
use crate::listen::Listener;
use crate::net::Sockets;
use crate::option::{self, OptionError};
use crate::steer::WorkCounter;
use crate::uring::{NoRing, Uring};
use app::{App, ConnId, Sources, Wake};
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;
use cpu::Clock;
use rustix::process::{Resource, getrlimit};
use rustix::thread::set_current_timer_slack;
use silo::{ATTEND_ASLEEP, ATTEND_EVERY, Next, Usage};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wire::Time;

/// The longest sleep, unless the attendant wants another: it is called this
/// often, even if nothing happens.
pub const ATTEND_IDLE: Duration = Duration::from_millis(50);

const _: () = assert!(FULL_PAUSE.as_nanos() >= ATTEND_IDLE.as_nanos(), "a full worker wakes no more often than one");

/// How often a connect to a Unix socket whose queue is full is tried again.
const CONNECT_RETRY: Duration = Duration::from_millis(1);

/// Connections of a server that are read from before their answers are sent:
/// the kernel's code for either stays in the core's first cache for so long.
/// The first of them waits for the others' reads.
const BATCH: u64 = 16;

/// Descriptors left to others than connections: listening sockets, files,
/// logs, the engine's own.
const SPARE_DESCRIPTORS: usize = 64;

/// Work beside the data path, at most once per [`ATTEND_EVERY`] and, while a
/// worker sleeps, when it wants to be: progress, statistics, signals, draining.
pub trait Attendant<A> {
    /// Looks after the worker.
    fn attend(&mut self, worker: &mut Worker<A>, now: Time, usage: &Usage) -> Next;

    /// When to look after a worker that sleeps, if nothing happens until then.
    /// Asked before it does.
    fn due(&self, worker: &Worker<A>, now: Time, usage: &Usage) -> Time {
        let _ = (worker, usage);
        now + ATTEND_IDLE
    }

    /// What else wakes a sleeping worker: readable until it was seen to.
    fn wake<'a>(&'a self, app: &'a A) -> Option<BorrowedFd<'a>> {
        let _ = app;
        None
    }
}

/// A core's share of the kernel data path.
///
/// Call order: [`Worker::new`] on the thread that is to run it, then
/// [`Worker::run`]. Sends to peers that are gone raise SIGPIPE where they come
/// from files (sendfile(2) takes no flags): the process ignores it, as Rust
/// programs do from their start.
pub struct Worker<A> {
    /// The application.
    pub app: A,
    net: Sockets,
    accepting: Accepting,
    engine: Engine,
    no_ring: Option<NoRing>,
    /// Whether to wait for connections in accept(2), for one at a time.
    blocking: bool,
    spin: Duration,
}

/// How a worker learns of work, with what that needs.
enum Engine {
    Epoll(Box<Epoll>),
    Uring(Box<Uring>),
}

/// Why a worker could not begin.
#[derive(Debug)]
pub enum StartError {
    /// An option that connections cannot have; of which listening socket, or
    /// of those that we open.
    Option(Option<crate::Endpoint>, OptionError),
    /// The kernel gives no epoll instance, or refuses to watch.
    Engine(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(Some(endpoint), e) => write!(f, "connections of {endpoint}: {e}"),
            Self::Option(None, e) => write!(f, "connections: {e}"),
            Self::Engine(e) => write!(f, "cannot wait for sockets (epoll): {e}"),
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Option(_, e) => Some(e),
            Self::Engine(e) => Some(e),
        }
    }
}

impl<A: App> Worker<A> {
    /// A worker that serves what comes to `listeners` (none, for a client).
    /// Sets the options of connections on them.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(config: Config, listeners: Vec<Listener>, app: A) -> Result<Self, StartError> {
        let Config { engine: wanted, model, max_connections, per_source, stream, connect_to, spin } = config;
        let mut net = Sockets::new(Clock.now(), affordable(max_connections), stream, connect_to);
        net.sources = Sources::new(per_source);
        try_options(&net).map_err(|e| StartError::Option(None, e))?;
        prepare(&listeners, &net.stream)?;
        let blocking = model == Model::Blocking && !listeners.is_empty();
        let (engine, no_ring) = match Uring::wanted(wanted, blocking) {
            Ok(uring) => (Engine::Uring(Box::new(uring)), None),
            Err(why) => (Engine::Epoll(Box::new(Epoll::new().map_err(StartError::Engine)?)), why),
        };
        net.passes.can = matches!(engine, Engine::Epoll(_));
        Ok(Self { app, net, accepting: Accepting::new(listeners), engine, no_ring, blocking, spin })
    }

    /// Has this worker tell what it has, for new connections to be dealt out
    /// by ([`crate::steer::Steering::seat`]). Before [`Worker::run`].
    pub fn set_seat(&mut self, seat: Option<WorkCounter>) {
        self.net.seat = seat;
    }

    /// From now on polls for so long after the last event
    /// ([`Config::spin`]).
    pub const fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// From now on holds at most so many connections
    /// ([`Config::max_connections`]); those beyond that it has, it keeps.
    pub fn set_max_connections(&mut self, connections: usize) {
        self.net.table.set_limit(affordable(connections));
    }

    /// Runs until the attendant stops it. Connections that are open then are
    /// reset: drain first.
    ///
    /// # Errors
    /// If the kernel no longer waits for sockets.
    pub fn run(&mut self, attendant: &mut impl Attendant<A>) -> io::Result<Usage> {
        // The kernel has waits end up to 50 µs late by default, to save power
        // (PR_SET_TIMERSLACK): a generator's requests would be as late. One
        // that refuses changes nothing else.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        // Refused: it waits where others share its core.
        let _ = cpu::sched::wake_at_once();
        let outcome = self.run_loop(attendant);
        self.stop_listening();
        self.net.end_all();
        match &mut self.engine {
            Engine::Epoll(epoll) => dispatch::settle(&mut self.app, &mut self.net, &mut epoll.poll),
            Engine::Uring(uring) => dispatch::settle(&mut self.app, &mut self.net, &mut uring.ring),
        };
        outcome
    }

    /// The application, and what it acts through: whatever it asks for is
    /// carried out in this worker's next pass.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut A, &mut Sockets) -> R) -> R {
        act(&mut self.app, &mut self.net)
    }

    /// Asks the application to finish what is under way ([`App::drain`]).
    /// Returns whether nothing is left.
    pub fn drain(&mut self) -> bool {
        self.app.drain(&mut self.net) && self.net.farewells.len() == 0
    }

    /// Accepts no more, and closes the listening sockets here: what waits in
    /// their queues is for whoever else has them.
    pub fn stop_listening(&mut self) {
        if let Some(seat) = &mut self.net.seat {
            seat.set_in_service(false);
        }
        match &mut self.engine {
            Engine::Epoll(epoll) => self.accepting.stop(&mut epoll.poll),
            Engine::Uring(uring) => self.accepting.stop(&mut uring.ring),
        }
    }

    /// Whether this worker accepts, or would if it could.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        !self.accepting.listeners().is_empty()
    }

    /// Connections open or opening.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.net.connections()
    }

    /// The socket of a connection, to ask the kernel about: what is read or sent by it is lost to
    /// this worker.
    #[must_use]
    pub fn stream(&self, id: ConnId) -> Option<BorrowedFd<'_>> {
        self.net.table.get(id).and_then(|socket| socket.fd())
    }

    /// As [`Sockets::incoming`].
    pub fn incoming(&self, from: usize, most: usize, each: &mut dyn FnMut(u32)) -> usize {
        self.net.incoming(from, most, each)
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.net.counters()
    }

    /// How this worker learns of work; where that is not io_uring, why not.
    #[must_use]
    pub const fn engine(&self) -> (crate::Engine, Option<&NoRing>) {
        match self.engine {
            Engine::Epoll(_) => (crate::Engine::Epoll, self.no_ring.as_ref()),
            Engine::Uring(_) => (crate::Engine::IoUring, None),
        }
    }

    fn run_loop(&mut self, attendant: &mut impl Attendant<A>) -> io::Result<Usage> {
        if self.blocking {
            self.accepting.set_bell(Bell::new(attendant.wake(&self.app))?);
        }
        let mut usage = Usage::default();
        let mut now = Clock.now();
        let mut busy_at = now;
        let mut attend_at = now;
        let mut until = now;
        let mut unattended = false;
        loop {
            let ready = self.wait(attendant, now, until)?;
            let woke = Clock.now();
            let slept = woke.since(now).as_nanos() as u64;
            if until == now {
                usage.idle_ns += slept;
            } else {
                usage.asleep_ns += slept;
                usage.sleeps += 1;
            }
            self.net.now = woke;
            let wake = self.pass(ready);
            // One that is about to wait in accept(2) is seen to before.
            if woke >= attend_at || self.accepting.blocks(&self.net) {
                attend_at = woke + ATTEND_EVERY;
                unattended = false;
                if attendant.attend(self, woke, &usage) == Next::Stop {
                    return Ok(usage);
                }
            } else {
                unattended |= ready > 0;
            }
            now = Clock.now();
            self.net.now = now;
            self.app.on_turn_over(now);
            match &mut self.engine {
                Engine::Epoll(epoll) => self.accepting.look_after(&mut self.net, &mut epoll.poll)?,
                Engine::Uring(uring) => self.accepting.look_after(&mut self.net, &mut uring.ring)?,
            }
            usage.turns += 1;
            usage.busy_turns += u64::from(ready > 0);
            usage.busy_ns += now.since(woke).as_nanos() as u64;
            if ready > 0 {
                busy_at = now;
            }
            until = self.until(wake, now, busy_at, |worker| attendant.due(worker, now, &usage));
            if unattended {
                // Something happened since: not only after a long sleep, and not by a wake-up of
                // its own for each request that comes alone.
                until = until.min(attend_at + (ATTEND_ASLEEP - ATTEND_EVERY)).max(now);
            }
        }
    }

    /// Waits until something comes up, or until then. Returns how much did.
    #[inline]
    fn wait(&mut self, attendant: &impl Attendant<A>, now: Time, until: Time) -> io::Result<usize> {
        if until > now && self.accepting.blocks(&self.net) {
            return Ok(self.accepting.block(&mut self.net, until));
        }
        let (wake, longest) = (attendant.wake(&self.app), until.since(now));
        match &mut self.engine {
            Engine::Epoll(epoll) => {
                epoll.poll.set_wake(wake)?;
                epoll.wait(longest)
            }
            Engine::Uring(uring) => {
                uring.ring.set_wake(wake)?;
                uring.wait(longest)
            }
        }
    }

    /// Takes what came up to the application, and its answers to the kernel.
    #[inline]
    fn pass(&mut self, ready: usize) -> Wake {
        let Self { app, net, accepting, engine, .. } = self;
        let closed = net.counters.closed;
        let accepted = net.counters.accepted;
        net.counters.waits += 1;
        net.counters.wakes += u64::from(ready > 0);
        let wake = match engine {
            Engine::Epoll(epoll) => {
                let events = take_ready(app, net, accepting, epoll, ready);
                finish_pass(app, net, accepting, epoll.as_mut(), (accepted, events))
            }
            Engine::Uring(uring) => {
                let events = uring.take_events(app, net, accepting, || Clock.now());
                let wake = finish_pass(app, net, accepting, uring.as_mut(), (accepted, events));
                uring.ring.watch_again();
                wake
            }
        };
        if net.counters.closed != closed {
            accepting.on_closed();
        }
        wake
    }

    /// Until when to wait for something to come up: `now`, if there is more
    /// to do.
    #[inline]
    fn until(&self, wake: Wake, now: Time, busy_at: Time, due: impl FnOnce(&Self) -> Time) -> Time {
        // An attendant may have left work, too.
        if wake == Wake::Now || self.net.has_more() || self.app.has_work() || now.since(busy_at) < self.spin {
            return now;
        }
        let mut until = due(self);
        if self.accepting.blocks(&self.net) {
            until = until.max(now + ATTEND_BLOCKED);
        }
        if let Some(seat) = &self.net.seat {
            until = until.min(now + seat.patience());
        }
        if let Wake::At(at) = wake {
            until = until.min(at);
        }
        if let Some(at) = self.net.timers.next() {
            until = until.min(at);
        }
        if let Some(at) = self.accepting.until() {
            until = until.min(at);
        }
        if let Some(at) = self.net.farewells.due() {
            until = until.min(at);
        }
        if !self.net.unanswered.is_empty() {
            until = until.min(now + CONNECT_RETRY);
        }
        until.max(now)
    }
}

/// Takes what epoll says is ready. Returns how much of it was connections.
#[inline]
fn take_ready<A: App>(
    app: &mut A,
    net: &mut Sockets,
    accepting: &mut Accepting,
    epoll: &mut Epoll,
    ready: usize,
) -> u64 {
    // What a client asks next is timed when it is queued.
    let batch = if accepting.listeners().is_empty() { 1 } else { BATCH };
    let mut connections = 0_u64;
    for index in 0..ready {
        match epoll.ready(index) {
            Ready::Connection(id, flags) => {
                if connections > 0 {
                    net.now = Clock.now();
                    app.on_turn_over(net.now);
                }
                connections += 1;
                epoll.on_event(app, net, id, flags);
                if connections.is_multiple_of(batch) {
                    dispatch::settle(app, net, &mut epoll.poll);
                }
            }
            Ready::Listener(index) => accepting.on_ready(index),
            Ready::Wake => {}
        }
    }
    dispatch::settle(app, net, &mut epoll.poll);
    connections
}

/// What follows the events, whatever told of them: what was left, what
/// listening sockets have, timers, the application's own turn. `before`: what
/// was accepted before this pass, and its events of connections.
#[inline]
fn finish_pass<A: App>(
    app: &mut A,
    net: &mut Sockets,
    accepting: &mut Accepting,
    engine: &mut impl dispatch::Engine,
    before: (u64, u64),
) -> Wake {
    let (accepted, events) = before;
    net.counters.events += events;
    if !net.again.is_empty() {
        for id in core::mem::take(&mut net.again) {
            net.now = Clock.now();
            engine.go_on(app, net, id);
        }
    }
    if accepting.has_ready() {
        accepting.take(app, net, engine.driver());
        if engine.begin(app, net) {
            accepting.begin_pause(net);
        }
        if events == 0 && net.counters.accepted == accepted {
            net.counters.wakes_empty += 1;
        }
    } else if let Some(seat) = &mut net.seat
        && accepting.is_watched()
        && net.counters.accepted == accepted
    {
        // Nothing came up, so nothing waits.
        seat.look(net.now);
    }
    if !net.unanswered.is_empty() {
        net.connect_again();
    }
    dispatch::run_timers(app, net, engine.driver());
    if net.farewells.len() > 0 {
        dispatch::look_at_farewells(net, engine.driver());
    }
    dispatch::own_turn(app, net, engine.driver())
}

/// Has the connections that listening sockets bring be as they are to be.
pub(crate) fn prepare(listeners: &[Listener], stream: &StreamOptions) -> Result<(), StartError> {
    for listener in listeners {
        let stream = listener.stream().unwrap_or(stream);
        option::set_stream(listener.as_fd(), stream, listener.is_unix())
            .map_err(|e| StartError::Option(Some(listener.endpoint().clone()), e))?;
        if !listener.is_unix() {
            option::acknowledge_with_answers(listener.as_fd());
        }
    }
    Ok(())
}

/// The limit on connections, cut to what the limit on descriptors allows.
pub(crate) fn affordable(connections: usize) -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.and_then(|n| usize::try_from(n).ok());
    let most = descriptors.map_or(usize::MAX, |n| n.saturating_sub(SPARE_DESCRIPTORS).max(1));
    connections.min(most).max(1)
}
