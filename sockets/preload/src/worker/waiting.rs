//! Calls wait, and the stack takes its turns meanwhile.

use super::SeatedWorker;
use crate::deputy;
use crate::signals::as_set;
use crate::waited::{Waited, readable};
use core::ptr;
use core::time::Duration;
use cpu::Clock;
use link::Link;
use posix::{Attempt, Calls, Errno, Result};
use silo::idle::Action;
use std::os::fd::AsRawFd;
use wire::Time;

/// The last turn was just now: who asks again within this gets the same answer.
const JUST_NOW: Duration = Duration::from_micros(20);

impl SeatedWorker {
    /// Whether anything that the program did waits to leave.
    #[inline]
    pub fn has_to_leave(&self) -> bool {
        self.to_leave || self.silo.app.pending() > 0 || self.pace.holds()
    }

    /// Takes a turn, and what it and others before have sent is held back no longer: the program waits
    /// for something that is not ours.
    pub fn turn_and_send(&mut self) {
        self.turn();
        self.send_held();
    }

    /// What is held back leaves.
    pub(super) fn send_held(&mut self) {
        self.pace.send_held(&mut self.silo, self.turned);
    }

    /// Takes a turn unless one was taken just now: a program that asks again and again, and never
    /// waits, hears what has come. Whether it took one.
    pub fn turn_if_stale(&mut self) -> bool {
        let stale = Clock.now().since(self.turned) >= JUST_NOW;
        if stale {
            self.turn();
        }
        stale
    }

    /// The same of a call that finds nothing to be done: what was written leaves as well.
    pub fn turn_if_idle(&mut self) -> bool {
        if self.has_to_leave() {
            self.turn();
            return true;
        }
        self.turn_if_stale()
    }

    /// Lets time pass after a turn that has brought the caller nothing, as the policy says: sleeps until
    /// a frame comes, `also` is ready, a timer of the stack is due or the time is up; sleeps by the
    /// clock, which frames do not end; or comes back at once, to poll. `mask` counts meanwhile, as in
    /// ppoll(2). Whether any of `also` is ready: else it need not be looked at.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn wait(&mut self, also: &[libc::pollfd], timeout: Duration, mask: *const libc::sigset_t) -> Result<bool> {
        if self.more {
            return Ok(false);
        }
        let now = Clock.now();
        let until = if timeout == Duration::MAX { Time::MAX } else { now + timeout };
        let silo = &self.silo;
        match self.pace.next((self.turned, now), self.deadline.min(until), || silo.stack_deadline()) {
            Action::Poll => self.glance(now, also, mask),
            Action::Wait(longest) => {
                let mut fds = Waited::new(also);
                let nap = self.silo.link.arm(&mut |fd| fds.add(fd.as_raw_fd()));
                self.sleep(fds, longest.min(nap).min(self.longest_sleep()), mask)
            }
            Action::Sleep(span) => self.sleep(Waited::new(also), span, mask),
        }
    }

    /// Looks at the kernel's descriptors, and whether a signal has come, unless it has just done so.
    fn glance(&mut self, now: Time, also: &[libc::pollfd], mask: *const libc::sigset_t) -> Result<bool> {
        let own = self.signals.hold();
        if !self.pace.glances(now) {
            return Ok(false);
        }
        let mask = if mask.is_null() { as_set(&own) } else { mask };
        Waited::new(also).wait(Duration::ZERO, mask)
    }

    /// Sleeps until one of these is ready, or for so long.
    fn sleep(&mut self, mut fds: Waited, timeout: Duration, mask: *const libc::sigset_t) -> Result<bool> {
        let own = self.signals.hold();
        let mask = if mask.is_null() { as_set(&own) } else { mask };
        self.silo.link.set_attended(None);
        deputy::begin_sleep();
        let ready = fds.wait(timeout, mask);
        deputy::end_sleep();
        self.computes_since = Clock.now();
        self.silo.link.set_attended(Some(self.computes_since));
        ready
    }

    /// The same of a call that goes on, if `goes_on` says so, when a signal has come whose handler was
    /// installed with `SA_RESTART`: whether one has.
    fn wait_in_call(&mut self, timeout: Duration, goes_on: bool) -> Result<bool> {
        let Some((blocked, told_by)) = goes_on.then(|| self.signals.restarting()).flatten() else {
            return self.wait(&[], timeout, ptr::null()).map(|_| false);
        };
        let signalled = self.wait(&[readable(told_by)], timeout, as_set(&blocked))?;
        if signalled {
            self.signals.handle();
        }
        Ok(signalled)
    }

    /// Makes attempts of a call, and takes turns between them, until it comes to something or the
    /// time is up; without time there are two attempts at most, if the first was not just after a turn.
    ///
    /// # Errors
    /// The call's, `EAGAIN` for a time that is up, `EINTR`.
    pub fn block<T>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Calls<'_>) -> Attempt<T>,
    ) -> Result<T> {
        self.block_unless_signalled(timeout, |calls, _| attempt(calls))
    }

    /// The same of a call that a signal ends when it has come to something, even if it would go on
    /// otherwise: attempts are told that one has come. With a time of its own none goes on (signal(7)).
    pub fn block_unless_signalled<T>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Calls<'_>, bool) -> Attempt<T>,
    ) -> Result<T> {
        let until = timeout.map_or(Time::MAX, |timeout| Clock.now() + timeout);
        let mut signalled = false;
        loop {
            if let Some(done) = attempt(&mut self.calls(), signalled)? {
                return Ok(done);
            }
            if timeout == Some(Duration::ZERO) {
                let again = if self.turn_if_idle() { attempt(&mut self.calls(), signalled)? } else { None };
                return again.ok_or(Errno(libc::EAGAIN));
            }
            self.turn();
            if let Some(done) = attempt(&mut self.calls(), signalled)? {
                return Ok(done);
            }
            let left = until.since(Clock.now());
            if left.is_zero() {
                return Err(Errno(libc::EAGAIN));
            }
            signalled |= self.wait_in_call(left, timeout.is_none())?;
        }
    }
}
