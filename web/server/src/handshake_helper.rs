//! Handshakes on a thread of their own: a signature takes 15 to 400 us, and a silo has
//! other clients.
//!
//! ```text
//! silo ─submit─► ring ─► Acceptor::on_bytes ─► ring ─take─► silo
//! ```

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use handshake::{Acceptor, ConnectStep, Connector, Effort, Step};
use helper::{Behind, Sleeper};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// A handshake, whoever connected.
#[derive(Debug)]
pub enum Shaking {
    /// With a client.
    Client(Box<Acceptor>),
    /// With an upstream.
    Upstream(Box<Connector>),
}

/// A handshake, and what came of its bytes.
#[derive(Debug)]
pub enum Shook {
    /// With a client.
    Client(Box<Acceptor>, Step),
    /// With an upstream.
    Upstream(Box<Connector>, ConnectStep),
}

impl Shaking {
    /// How long it takes to work on it.
    pub fn effort(&self) -> Effort {
        match self {
            Self::Client(acceptor) => acceptor.effort(),
            // There are certificates to be verified.
            Self::Upstream(_) => Effort::Long,
        }
    }

    /// Works on it.
    pub fn on_bytes(self, bytes: &[u8]) -> Shook {
        match self {
            Self::Client(mut acceptor) => {
                let step = acceptor.on_bytes(bytes);
                Shook::Client(acceptor, step)
            }
            Self::Upstream(mut connector) => {
                let step = connector.on_bytes(bytes);
                Shook::Upstream(connector, step)
            }
        }
    }
}

/// Bytes for a handshake, and the handshake.
#[derive(Debug)]
struct Job {
    token: u64,
    shaking: Shaking,
    bytes: Vec<u8>,
    /// Readable when it was worked on: its silo's.
    event: Arc<OwnedFd>,
}

/// A handshake whose bytes were worked on.
#[derive(Debug)]
pub struct Finished {
    /// Whose it is, as it was told.
    pub token: u64,
    /// The handshake, and what came of it.
    pub shook: Shook,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts answers; raised after the answer is in the ring.
    posted: AtomicU32,
    stop: Arc<AtomicBool>,
}

/// The silo's end.
#[derive(Debug)]
pub struct HandshakeHelper {
    waiting: usize,
    most: usize,
    jobs: Producer<Job>,
    done: Consumer<Finished>,
    shared: Arc<Shared>,
    seen: u32,
    helper: Sleeper,
}

impl HandshakeHelper {
    /// Starts the thread, on `cpus`, for so many handshakes at once.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(most: usize, cpus: &[usize]) -> std::io::Result<Self> {
        let most = most.max(1);
        let (jobs, mut jobs_out) = RingBuffer::new(most);
        // What waits is bounded: the ring back is never full.
        let (mut done_in, done) = RingBuffer::new(most);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let whenever = (Behind::Tenth, Arc::clone(&shared.stop));
        let helper = Sleeper::start("handshakes", cpus, whenever, move || work(&mut jobs_out, &mut done_in, &theirs))?;
        Ok(Self { waiting: 0, most, jobs, done, shared, seen: 0, helper })
    }

    /// Has a handshake take `bytes`; `token` is the caller's, and `event` becomes readable when
    /// that is done.
    ///
    /// # Errors
    /// Too many are waited for: the handshake comes back.
    pub fn submit(
        &mut self,
        token: u64,
        shaking: Shaking,
        (bytes, event): (Vec<u8>, &Arc<OwnedFd>),
    ) -> Result<(), (Shaking, Vec<u8>)> {
        if self.waiting >= self.most {
            return Err((shaking, bytes));
        }
        if let Err(rtrb::PushError::Full(job)) = self.jobs.push(Job { token, shaking, bytes, event: Arc::clone(event) })
        {
            return Err((job.shaking, job.bytes));
        }
        self.waiting += 1;
        self.helper.wake();
        Ok(())
    }

    /// Whether [`HandshakeHelper::take`] may have something: one load.
    #[inline]
    pub fn arrived(&mut self) -> bool {
        let posted = self.shared.posted.load(Ordering::Acquire);
        core::mem::replace(&mut self.seen, posted) != posted
    }

    /// The same, asked without taking note of it.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.shared.posted.load(Ordering::Acquire) != self.seen
    }

    /// What was worked on next.
    pub fn take(&mut self) -> Option<Finished> {
        let finished = self.done.pop().ok()?;
        self.waiting -= 1;
        Some(finished)
    }
}

impl Drop for HandshakeHelper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // It works on one more at most, which nobody waits for.
        self.helper.wake();
    }
}

/// Works on all that there is, as far as it is not to stop.
fn work(jobs: &mut Consumer<Job>, done: &mut Producer<Finished>, shared: &Shared) {
    while !shared.stop.load(Ordering::Acquire) {
        let Ok(Job { token, shaking, bytes, event }) = jobs.pop() else { return };
        let shook = shaking.on_bytes(&bytes);
        // Never full: see `HandshakeHelper::start`.
        let _ = done.push(Finished { token, shook });
        shared.posted.fetch_add(1, Ordering::Release);
        // A counter that is full is read by whoever is woken by it.
        let _ = rustix::io::write(&event, &1_u64.to_ne_bytes());
    }
}
