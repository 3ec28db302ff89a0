//! The silo's end.

use crate::lookups::{Addresses, ResolveError, ResolverRules};
use crate::rings::{NameDone, NameJob, ResolverShared};
use crate::thread::Thread;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The most that wait for names.
const WAITING_MAX: usize = 4_096;

/// Too much waits already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolverBusy;

impl fmt::Display for ResolverBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many names are asked for")
    }
}

impl core::error::Error for ResolverBusy {}

/// Resolves names on a thread of its own, for one silo.
pub struct Resolver {
    jobs: Producer<NameJob>,
    done: Consumer<NameDone>,
    shared: Arc<ResolverShared>,
    waiting: usize,
    seen: u32,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Resolver {
    /// Starts the thread, on `cpus`. `event` becomes readable when there is something
    /// to take.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(event: &Arc<OwnedFd>, cpus: &[usize]) -> std::io::Result<Self> {
        let (jobs, jobs_out) = RingBuffer::new(WAITING_MAX);
        // What waits is bounded: the ring back is never full.
        let (done_in, done) = RingBuffer::new(WAITING_MAX);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(ResolverShared { posted: AtomicU32::new(0), stop: AtomicBool::new(false), wake });
        let (theirs, event) = (Arc::clone(&shared), Arc::clone(event));
        // It sees that it is to stop, and nobody waits for that.
        let _ = helper::spawn_behind("resolver", cpus, helper::Behind::Tenth, move || {
            Thread::new(jobs_out, done_in, theirs, event).run();
        })?;
        Ok(Self { jobs, done, shared, waiting: 0, seen: 0 })
    }

    /// Asks for the addresses of a name; `ticket` is the caller's.
    ///
    /// # Errors
    /// Too much waits.
    pub fn ask(&mut self, ticket: u64, rules: &Arc<ResolverRules>, name: &[u8]) -> Result<(), ResolverBusy> {
        if self.waiting >= WAITING_MAX {
            return Err(ResolverBusy);
        }
        let job = NameJob { ticket, rules: Arc::clone(rules), name: name.into() };
        self.jobs.push(job).map_err(|_| ResolverBusy)?;
        self.waiting += 1;
        self.wake();
        Ok(())
    }

    /// Whether [`Resolver::take`] may have something: one load.
    #[inline]
    pub fn arrived(&mut self) -> bool {
        let posted = self.shared.posted.load(Ordering::Acquire);
        core::mem::replace(&mut self.seen, posted) != posted
    }

    /// What was found out next, by its ticket.
    pub fn take(&mut self) -> Option<(u64, Result<Addresses, ResolveError>)> {
        let done = self.done.pop().ok()?;
        self.waiting -= 1;
        Some(done)
    }

    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
    }
}
