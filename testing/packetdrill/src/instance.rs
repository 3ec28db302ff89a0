//! An instance: a host that several threads make calls on.
//!
//! packetdrill makes calls that are expected to block from a second thread,
//! and meanwhile goes on with packets from the first. Time is moved by the
//! thread that is not in such a call, and only while no answer is on its way:
//! after each step it waits until those whose call came to an end have read
//! the clock. So it does not depend on the machine's speed what time they see.

use crate::errno::{Attempt, Errno, Result};
use crate::host::Host;
use crate::settings::Settings;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use wire::Time;

/// The most that a call waits, in the host's time, for a packet: beyond the
/// largest retransmission timeout.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The most that time waits for a thread, in real time: one that never reads
/// the clock after a call is none of packetdrill's.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a look at the clock costs: packetdrill turns in a loop until it shows
/// what it waits for.
const LOOK: Duration = Duration::from_micros(1);

/// An instance.
pub struct Instance {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    host: Host,
    /// The thread whose blocking calls move time themselves.
    master: ThreadId,
    /// Calls of other threads that wait, and until when.
    waiting: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    /// Threads whose call came to an end and who did not read the clock yet.
    returning: Vec<ThreadId>,
}

#[derive(Clone, Copy)]
struct Waiter {
    until: Option<Time>,
    /// It has looked at the host since the host last changed.
    looked: bool,
}

impl Instance {
    /// An instance whose time is moved by the calling thread.
    pub fn new(settings: Settings) -> Self {
        let state = State {
            host: Host::new(settings),
            master: thread::current().id(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            returning: Vec::new(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A call that does not block.
    pub fn call<T>(&self, call: impl FnOnce(&mut Host) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state.host);
        drop(self.settle(state));
        result
    }

    /// A call that blocks until `attempt` comes to something, `timeout` runs
    /// out (then `None`), or, on the master thread, nothing can happen any
    /// more.
    pub fn block<T>(&self, timeout: Option<Duration>, mut attempt: impl FnMut(&mut Host) -> Attempt<T>) -> Attempt<T> {
        let mut state = self.lock();
        let until = timeout.map(|timeout| state.host.now() + timeout);
        if state.master == thread::current().id() {
            return self.block_master(state, until, attempt);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let result = loop {
            match attempt(&mut state.host) {
                Ok(None) if until.is_some_and(|until| until <= state.host.now()) => break Ok(None),
                Ok(None) => {}
                result => break result,
            }
            state.waiting.insert(ticket, Waiter { until, looked: true });
            self.changed.notify_all();
            while state.waiting.get(&ticket).is_some_and(|waiter| waiter.looked) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        if state.waiting.remove(&ticket).is_some() {
            state.returning.push(thread::current().id());
        }
        self.changed.notify_all();
        result
    }

    /// On the thread that moves time, blocking is moving it.
    fn block_master<'a, T>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        until: Option<Time>,
        mut attempt: impl FnMut(&mut Host) -> Attempt<T>,
    ) -> Attempt<T> {
        let give_up = state.host.now() + LONGEST_WAIT;
        loop {
            match attempt(&mut state.host) {
                Ok(None) => {}
                result => {
                    drop(self.settle(state));
                    return result;
                }
            }
            let now = state.host.now();
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            if now >= give_up || (state.host.due().is_none() && until.is_none()) {
                return Err(Errno(libc::EDEADLK));
            }
            state = self.step(state, until.unwrap_or(give_up));
        }
    }

    /// A packet arrives.
    pub fn netdev_send(&self, packet: &[u8]) {
        self.call(|host| host.receive(packet));
    }

    /// The next packet that was or will be sent, and when; `None` where none
    /// will be.
    pub fn netdev_receive(&self) -> Option<(Time, Vec<u8>)> {
        let mut state = self.settle(self.lock());
        let limit = state.host.now() + LONGEST_WAIT;
        while !state.host.has_sent() && state.host.now() < limit {
            if state.host.due().is_none() && state.waiting.values().all(|waiter| waiter.until.is_none()) {
                break;
            }
            state = self.step(state, limit);
        }
        state.host.sent()
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Duration) {
        let state = self.settle(self.lock());
        let until = state.host.now() + span;
        drop(self.pass(state, until));
    }

    /// Reads the clock. That takes its time, but not from a call that just
    /// came to an end: it sees when that was.
    pub fn look(&self) -> Time {
        let mut state = self.lock();
        let me = thread::current().id();
        if state.returning.contains(&me) {
            state.returning.retain(|thread| *thread != me);
            self.changed.notify_all();
            return state.host.now();
        }
        state = self.settle(state);
        let until = state.host.now() + LOOK;
        self.pass(state, until).host.now()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves time to `until`, by way of all that is due before.
    fn pass<'a>(&'a self, mut state: MutexGuard<'a, State>, until: Time) -> MutexGuard<'a, State> {
        loop {
            state = self.step(state, until);
            if state.host.now() >= until {
                return state;
            }
        }
    }

    /// Moves time to what is due next, but not beyond `limit`, and lets those
    /// who wait see it.
    fn step<'a>(&'a self, mut state: MutexGuard<'a, State>, limit: Time) -> MutexGuard<'a, State> {
        let first = state.waiting.values().filter_map(|waiter| waiter.until).min();
        state.host.pass(first.map_or(limit, |first| first.min(limit)));
        self.settle(state)
    }

    /// Waits until every waiting call has seen the host as it is, and those
    /// that came to an end have read the clock.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let me = thread::current().id();
        state.returning.retain(|thread| *thread != me);
        if state.waiting.is_empty() && state.returning.is_empty() {
            return state;
        }
        for waiter in state.waiting.values_mut() {
            waiter.looked = false;
        }
        self.changed.notify_all();
        while state.waiting.values().any(|waiter| !waiter.looked) || !state.returning.is_empty() {
            let waited = self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                state.returning.clear();
                return state;
            }
        }
        state
    }
}

/// A call that does not wait: would it block, it fails.
pub fn at_once<T>(result: Attempt<T>) -> Result<T> {
    result.and_then(|value| value.ok_or(Errno(libc::EAGAIN)))
}
