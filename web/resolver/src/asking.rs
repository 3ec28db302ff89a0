//! The silo's end.

use crate::lookups::{NameAnswer, ResolverRules};
use crate::rings::{NameDone, NameJob, ResolverShared};
use crate::thread::Thread;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use helper::Twin;
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

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
    /// Who resolves them, where that is no thread: it asks and waits at once.
    twin: Option<Twin>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Resolver {
    /// Starts the thread, on `cpus`.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(cpus: &[usize]) -> std::io::Result<Self> {
        let (jobs, jobs_out) = RingBuffer::new(WAITING_MAX);
        // What waits is bounded: the ring back is never full.
        let (done_in, done) = RingBuffer::new(WAITING_MAX);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (posted, stop, event) = (AtomicU32::new(0), AtomicBool::new(false), OnceLock::new());
        let shared = Arc::new(ResolverShared { posted, stop, event, wake });
        let theirs = Arc::clone(&shared);
        let mut twin = None;
        if helper::is_inline() {
            let mut thread = Thread::new(jobs_out, done_in, theirs);
            twin = Some(Twin::new(move || thread.run_all()));
        } else {
            // It sees that it is to stop, and nobody waits for that.
            let _ = helper::spawn_behind("resolver", cpus, helper::Behind::Tenth, move || {
                Thread::new(jobs_out, done_in, theirs).run();
            })?;
        }
        Ok(Self { jobs, done, shared, waiting: 0, seen: 0, twin })
    }

    /// Has `event` become readable when there is something to take, from before anything
    /// is asked for on.
    pub fn wake_by(&self, event: &Arc<OwnedFd>) {
        let _ = self.shared.event.set(Arc::clone(event));
    }

    /// Asks for the addresses of a name, or of the hosts of a service there; `ticket` is
    /// the caller's.
    ///
    /// # Errors
    /// Too much waits.
    pub fn ask(
        &mut self,
        ticket: u64,
        rules: &Arc<ResolverRules>,
        name: &[u8],
        service: Option<&[u8]>,
    ) -> Result<(), ResolverBusy> {
        if self.waiting >= WAITING_MAX {
            return Err(ResolverBusy);
        }
        let service = service.map(Into::into);
        let job = NameJob { ticket, rules: Arc::clone(rules), name: name.into(), service };
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
    pub fn take(&mut self) -> Option<(u64, NameAnswer)> {
        let done = self.done.pop().ok()?;
        self.waiting -= 1;
        Some(done)
    }

    fn wake(&mut self) {
        if let Some(twin) = &mut self.twin {
            return twin.run();
        }
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if self.twin.is_none() {
            self.wake();
        }
    }
}
