//! Whether passwords are right, found out on a thread of its own.

mod worker;

use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use helper::{Behind, Sleeper};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::Time;
use worker::Worker;

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerifierLimits {
    /// Of all clients together.
    pub all: usize,
    /// Of one client: an address of version 4, or the first 64 bits of one of
    /// version 6. A page asks for some thirty things at once.
    pub source: u32,
    /// How long one that was right is known to be.
    pub known: Duration,
    /// How many are known, at most.
    pub known_most: usize,
}

impl Default for VerifierLimits {
    fn default() -> Self {
        Self { all: 1_024, source: 64, known: Duration::from_secs(10), known_most: 4_096 }
    }
}

/// What a client says of itself, and where that is looked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The file of users.
    pub file: Box<[u8]>,
    /// The user's name.
    pub user: Box<[u8]>,
    /// The password.
    pub password: Box<[u8]>,
}

/// No log and no panic tells a password.
impl core::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credentials").field("file", &self.file).field("user", &self.user).finish_non_exhaustive()
    }
}

/// What was found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The password is the user's.
    Right,
    /// It is not: status 401.
    Mismatch,
    /// The file has no such user: status 401.
    NoUser,
    /// There is no such file: status 403.
    NoFile,
    /// The file cannot be read, or is larger than 16 MiB: status 500.
    Unreadable,
    /// The hash is of no method that is known: status 500.
    Unusable,
}

/// Too much waits already; the password was not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// Of this client.
    Source,
    /// Of all clients together.
    All,
}

/// Who is asked, for counting: see [`VerifierLimits::source`].
type Source = Option<(bool, u64)>;

#[derive(Debug)]
struct Job {
    ticket: u64,
    source: Source,
    credentials: Credentials,
    now: Time,
}

#[derive(Debug)]
struct Done {
    ticket: u64,
    source: Source,
    verdict: Verdict,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts answers; raised after the answer is in the ring.
    posted: AtomicU32,
    stop: Arc<AtomicBool>,
}

/// The silo's end.
#[derive(Debug)]
pub struct Verifier {
    limits: VerifierLimits,
    waiting: usize,
    sources: BTreeMap<Source, u32>,
    jobs: Producer<Job>,
    done: Consumer<Done>,
    shared: Arc<Shared>,
    seen: u32,
    helper: Sleeper,
}

impl Verifier {
    /// Starts the thread, on `cpus`. `event` becomes readable when there is
    /// something to take.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(limits: VerifierLimits, event: &Arc<OwnedFd>, cpus: &[usize]) -> std::io::Result<Self> {
        let limits = VerifierLimits { all: limits.all.max(1), ..limits };
        let (jobs, jobs_out) = RingBuffer::new(limits.all);
        // What waits is bounded: the ring back is never full.
        let (done_in, done) = RingBuffer::new(limits.all);
        let shared = Arc::new(Shared::default());
        let (theirs, event) = (Arc::clone(&shared), Arc::clone(event));
        let mut worker = Worker::new(limits, jobs_out, done_in, theirs, event);
        let whenever = (Behind::Tenth, Arc::clone(&shared.stop));
        let helper = Sleeper::start("passwords", cpus, whenever, move || worker.work())?;
        let (waiting, sources) = (0, BTreeMap::new());
        Ok(Self { limits, waiting, sources, jobs, done, shared, seen: 0, helper })
    }

    /// Asks whether a password is right; `ticket` is the caller's, and `source`
    /// the client's address (none at a Unix socket, whose clients are one).
    ///
    /// # Errors
    /// Too much waits.
    pub fn submit(
        &mut self,
        ticket: u64,
        source: Option<IpAddr>,
        credentials: Credentials,
        now: Time,
    ) -> Result<(), Busy> {
        let source = source.map(|source| match source.to_canonical() {
            IpAddr::V4(address) => (false, u64::from(address.to_bits())),
            IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64),
        });
        if self.waiting >= self.limits.all {
            return Err(Busy::All);
        }
        let count = self.sources.entry(source).or_insert(0);
        if *count >= self.limits.source {
            return Err(Busy::Source);
        }
        *count += 1;
        // The ring has a place for each that may wait.
        if self.jobs.push(Job { ticket, source, credentials, now }).is_err() {
            self.settle(source);
            return Err(Busy::All);
        }
        self.waiting += 1;
        self.helper.wake();
        Ok(())
    }

    /// Whether [`Verifier::take`] may have something: one load.
    #[inline]
    pub fn arrived(&mut self) -> bool {
        let posted = self.shared.posted.load(Ordering::Acquire);
        core::mem::replace(&mut self.seen, posted) != posted
    }

    /// Whether [`Verifier::arrived`] would say so.
    #[inline]
    #[must_use]
    pub fn has_posted(&self) -> bool {
        self.shared.posted.load(Ordering::Acquire) != self.seen
    }

    /// What was found out next, by its ticket.
    pub fn take(&mut self) -> Option<(u64, Verdict)> {
        let Done { ticket, source, verdict } = self.done.pop().ok()?;
        self.waiting -= 1;
        self.settle(source);
        Some((ticket, verdict))
    }

    /// How many wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn settle(&mut self, source: Source) {
        if let Some(count) = self.sources.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&source);
            }
        }
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // It computes at most one hash more; a file system that hangs is not
        // waited for.
        self.helper.wake();
    }
}

#[cfg(test)]
mod tests;
