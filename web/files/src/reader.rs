//! The way to the file system and back, without waiting.

mod lines;
mod thread;

use crate::blocks::BlockPlace;
use crate::config::{Directory, Error, ReaderKind};
use crate::cut::CutOutcome;
use crate::faults::ReadOutcome;
use crate::folder::{Listing, RealPath};
use crate::ids::{EntryId, WorkId};
use crate::target::Key;
use crate::worker::{FileReader, Found, Known, Source};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use disk::{Reads, Waker};
use exchange::HeadWriter;
use lines::{READS_MAX, ReadLines};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use wire::Time;

/// Jobs with the reader at once, beside the reads of its ring; what is more waits in line here.
/// Bounds also the results under way, so that the ring back is never full.
const IN_FLIGHT_MAX: usize = 64;

/// Answers that wait to be taken, at most.
pub const ANSWERS_MAX: usize = IN_FLIGHT_MAX + READS_MAX;

/// The file system hangs when no answer has come for so long.
const HANGS: Duration = Duration::from_secs(1);

/// What is cut.
#[derive(Debug)]
pub enum CutOf {
    /// Content in memory, from there on.
    Memory(Arc<Vec<u8>>, usize),
    File(Arc<Source>),
}

/// What the reader is asked.
#[derive(Debug)]
pub enum Job {
    /// Where does this path lead?
    LookUp {
        /// Who asks.
        entry: EntryId,
        key: Key,
        known: Option<Known>,
        /// Unix seconds.
        now: u64,
    },
    /// Is a streamed file what it was? It is opened for that, and stays open.
    Look {
        /// For whom.
        work: WorkId,
        source: Arc<Source>,
    },
    /// Some of a streamed file.
    Read {
        whom: ReadFor,
        source: Arc<Source>,
        offset: u64,
        length: usize,
        /// Used again for the answer.
        buffer: Vec<u8>,
    },
    /// What is in a folder?
    List {
        /// For whom.
        work: WorkId,
        path: Box<[u8]>,
    },
    /// Where does a path lie once no link is left in it?
    RealPath {
        /// For whom.
        work: WorkId,
        path: Box<[u8]>,
    },
    /// What of a film is sent from a time on?
    Cut {
        /// For whom.
        work: WorkId,
        of: CutOf,
        cutter: Box<mp4::Cutter>,
    },
    /// Open the root again.
    Reopen,
    /// From now on this one looks: another root, or other rules for it.
    Replace(Box<FileReader>),
}

/// What the reader answers.
#[derive(Debug)]
pub enum Done {
    LookUp { entry: EntryId, found: Found },
    Looked { work: WorkId, outcome: ReadOutcome },
    Read(ReadAnswer),
    Listed { work: WorkId, listing: Listing },
    RealPath { work: WorkId, path: Box<[u8]>, found: RealPath },
    Cut { work: WorkId, outcome: CutOutcome },
    Reopened,
}

/// For whom some of a file is read.
#[derive(Clone, Copy, Debug)]
pub enum ReadFor {
    /// A stream, and nobody else: so many bytes.
    Stream(WorkId),
    /// All streams: a block, past the page cache where that can be.
    Block(BlockPlace),
}

/// Some of a file, read.
#[derive(Debug)]
pub struct ReadAnswer {
    pub whom: ReadFor,
    /// The device that it is on (`st_dev`).
    device: u64,
    pub buffer: Vec<u8>,
    /// Where it begins in the buffer.
    pub from: usize,
    pub outcome: ReadOutcome,
}

/// The silo's end.
#[derive(Debug)]
pub struct Reader {
    side: Side,
    /// Jobs not yet with the reader; bounded by the limits on waiting paths
    /// and on streams, each of which has one job at most.
    line: VecDeque<Job>,
    in_flight: usize,
    /// Those that a ring reads: nobody waits behind them, and they behind nobody.
    reads: ReadLines,
    /// Since when an answer is waited for, as last seen; none came meanwhile. Answers of a ring
    /// are not meant.
    since: Option<Time>,
}

#[derive(Debug)]
enum Side {
    Inline(Box<FileReader>),
    Thread(Thread),
}

#[derive(Debug)]
struct Thread {
    jobs: Producer<Job>,
    done: Consumer<Done>,
    shared: Arc<Shared>,
    /// `shared.posted` when `done` was last looked into.
    seen: u32,
    handle: Option<JoinHandle<()>>,
    /// Wakes it, where it has a ring of reads.
    waker: Option<Arc<Waker>>,
}

#[derive(Debug)]
struct Shared {
    /// Counts answers. Raised after the answer is in the ring and the event
    /// is signalled, so whoever sees it rise finds both.
    posted: AtomicU32,
    stop: AtomicBool,
    /// Wakes a silo that sleeps in its data path: one for all that the silo
    /// waits for. Set before the first job.
    event: OnceLock<Arc<OwnedFd>>,
}

impl Reader {
    /// A reader of `directory`, whose root it opens and whose thread it starts
    /// on `cpus`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(directory: &Directory, heads: HeadWriter, cpus: &[usize]) -> Result<Self, Error> {
        let worker = FileReader::new(directory, heads)?;
        let side = match directory.reader {
            ReaderKind::Inline => Side::Inline(Box::new(worker)),
            ReaderKind::Thread => Side::Thread(Thread::start(worker, cpus).map_err(Error::Helper)?),
        };
        Ok(Self { side, line: VecDeque::new(), in_flight: 0, reads: ReadLines::default(), since: None })
    }

    /// From now on `event` becomes readable when an answer came;
    /// [`Reader::arrived`] makes it unreadable.
    pub(crate) fn wake(&mut self, event: &Arc<OwnedFd>) {
        if let Side::Thread(thread) = &self.side {
            let _ = thread.shared.event.set(Arc::clone(event));
        }
    }

    /// Puts a job in line; [`Reader::hand_over`] sends it on its way.
    pub fn submit(&mut self, job: Job) {
        match (&self.side, &job) {
            (Side::Thread(Thread { waker: Some(_), .. }), Job::Read { source, .. }) => {
                self.reads.push(source.identity().device, job);
            }
            _ => self.line.push_back(job),
        }
    }

    /// Once per turn: whether [`Reader::take`] may have something. One load
    /// where nothing is.
    #[inline]
    pub fn arrived(&mut self) -> bool {
        match &mut self.side {
            Side::Inline(_) => !self.line.is_empty(),
            Side::Thread(thread) => {
                let posted = thread.shared.posted.load(Ordering::Acquire);
                posted != thread.seen && thread.clear(posted)
            }
        }
    }

    /// The next answer.
    pub fn take(&mut self) -> Option<Done> {
        let done = match &mut self.side {
            Side::Inline(worker) => thread::serve(worker, self.line.pop_front()?),
            Side::Thread(thread) => {
                let done = thread.done.pop().ok()?;
                if let (Done::Read(answer), Some(_)) = (&done, &thread.waker) {
                    self.reads.end(answer.device);
                    return Some(done);
                }
                self.in_flight -= 1;
                done
            }
        };
        self.since = None;
        Some(done)
    }

    /// Once per turn, last: gives the reader what is in line. No system call
    /// unless the reader sleeps.
    #[inline]
    pub fn hand_over(&mut self) {
        if !self.line.is_empty() || self.reads.is_waiting() {
            self.push_line();
        }
    }

    /// Whether no answer is to come, nor a signal of one to be taken.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        let taken = match &self.side {
            Side::Inline(_) => true,
            Side::Thread(thread) => thread.shared.posted.load(Ordering::Acquire) == thread.seen,
        };
        taken && self.since.is_none() && !self.is_busy() && self.reads.is_empty()
    }

    /// Once per turn, after [`Reader::hand_over`]: whether an answer is still
    /// to come.
    #[inline]
    pub fn waits(&mut self, now: Time) -> bool {
        let busy = self.is_busy();
        self.since = if busy { Some(self.since.unwrap_or(now)) } else { None };
        busy || !self.reads.is_empty()
    }

    /// Whether the file system hangs: a disk that fails, a server that is
    /// away. What has to be looked up waits; what is in memory need not.
    #[inline]
    pub fn hangs(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now.since(since) >= HANGS)
    }

    /// Whether [`Reader::hand_over`] has something to send on its way, or [`Reader::take`] to
    /// do. What has no room there follows an answer.
    #[inline]
    pub fn has_line(&self) -> bool {
        (!self.line.is_empty() && self.in_flight < IN_FLIGHT_MAX) || self.reads.may_start()
    }

    /// Whether an answer is still to come, but for those of a ring.
    fn is_busy(&self) -> bool {
        self.in_flight > 0 || !self.line.is_empty()
    }

    /// Whether the answers come by [`Reader::take`] alone, with nobody else
    /// at work.
    pub fn is_inline(&self) -> bool {
        matches!(self.side, Side::Inline(_))
    }

    fn push_line(&mut self) {
        let Side::Thread(thread) = &mut self.side else { return };
        let mut pushed = false;
        while self.in_flight < IN_FLIGHT_MAX {
            let Some(job) = self.line.pop_front() else { break };
            if let Err(rtrb::PushError::Full(job)) = thread.jobs.push(job) {
                self.line.push_front(job);
                break;
            }
            self.in_flight += 1;
            pushed = true;
        }
        // As many as there are places for in the ring to the thread.
        while let Some(job) = self.reads.start() {
            pushed |= thread.jobs.push(job).is_ok();
        }
        if pushed {
            thread.wake();
        }
    }
}

impl Thread {
    fn start(worker: FileReader, cpus: &[usize]) -> std::io::Result<Self> {
        let (jobs, jobs_out) = RingBuffer::new(ANSWERS_MAX);
        let (done_in, done) = RingBuffer::new(ANSWERS_MAX);
        let (posted, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { posted, stop, event: OnceLock::new() });
        let theirs = Arc::clone(&shared);
        // Made before the process gives up the right to. Where there is none (an old kernel, a
        // container that forbids it) one piece is read at a time.
        let ring = Reads::new(READS_MAX as u16).ok();
        let waker = ring.as_ref().map(Reads::waker);
        let run = move || thread::run(worker, jobs_out, done_in, &theirs, ring);
        let handle = helper::spawn("file-reader", cpus, run)?;
        Ok(Self { jobs, done, shared, seen: 0, handle: Some(handle), waker })
    }

    #[cold]
    fn clear(&mut self, posted: u32) -> bool {
        self.seen = posted;
        if let Some(event) = self.shared.event.get() {
            // Not readable, if a former call, or that of another reader, took
            // this answer's signal along. Each looks in the same turn.
            let _ = rustix::io::read(event, &mut [0_u8; 8]);
        }
        true
    }

    fn wake(&self) {
        match (&self.waker, &self.handle) {
            (Some(waker), _) => waker.wake(),
            (None, Some(handle)) => handle.thread().unpark(),
            (None, None) => {}
        }
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
        if let Some(handle) = self.handle.take() {
            // A panic there was reported there.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests;
