//! The way to the file system and back, without waiting.
//!
//! ```text
//!  silo                                 threads that look          thread of the ring
//!  look, list, open ─► line of its ───► one, or more where that ─┐
//!                      device           one is held up           ├─► answers
//!  read ─────────────► the same ──────────────────────────────► ring ─┘
//!       of a file that is not open ───► opened ──► (again)
//!       of a file system that may hold up who asks for a state ◄── read, then looked at
//! ```

mod desk;
mod lines;
mod ring;
mod thread;

use crate::blocks::BlockPlace;
use crate::config::{Directory, Error, ReaderKind};
use crate::cut::CutOutcome;
use crate::faults::ReadOutcome;
use crate::folder::{Listing, RealPath};
use crate::ids::{EntryId, WorkId};
use crate::links::LinkRule;
use crate::mounts::Mounts;
use crate::source::{Closings, Source};
use crate::target::Key;
use crate::worker::{FileReader, Found, Known};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use desk::{Desk, LOOKERS};
use disk::{Reads, Waker};
use exchange::HeadWriter;
use lines::{DeviceLines, PLACES};
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use wire::Time;

/// Answers that wait to be taken, at most: of what threads do, of reads, and of a change. Bounds what is
/// under way, so that the ring back is never full.
pub const ANSWERS_MAX: usize = 2 * PLACES + 1;

/// The file system hangs when no answer has come for so long.
pub const HANGS: Duration = Duration::from_secs(1);

/// A thread that has not answered for so long is helped by the others.
const STALLS: Duration = Duration::from_millis(50);

/// Changes of the root are no device's.
const NO_DEVICE: u64 = u64::MAX;

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
    /// What became of a streamed file that was read from: its file system may hold up who asks.
    Check(Box<Unchecked>),
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
    /// Nobody needs a file any more, which lies on this device.
    Close { device: u64, file: Arc<OwnedFd> },
    /// Open the root again.
    Reopen,
    /// From now on this one looks: another root, or other rules for it.
    Replace(Box<FileReader>),
}

/// What the reader answers.
#[derive(Debug)]
pub enum Done {
    LookUp {
        entry: EntryId,
        found: Found,
    },
    Looked {
        work: WorkId,
        outcome: ReadOutcome,
    },
    Read(ReadAnswer),
    /// What is to be read is open now.
    Opened(Job),
    /// It was read, and is to be looked at.
    Unchecked(Box<Unchecked>),
    Listed {
        work: WorkId,
        listing: Listing,
    },
    RealPath {
        work: WorkId,
        path: Box<[u8]>,
        found: RealPath,
    },
    Cut {
        work: WorkId,
        outcome: CutOutcome,
    },
    Closed,
    /// What is mounted now, where somebody has looked.
    Reopened(Option<Box<Mounts>>),
}

/// A job, and the device that it may be held up by (`st_dev` in inode(7)).
#[derive(Debug)]
pub struct Task {
    device: u64,
    job: Job,
}

/// What became of one.
#[derive(Debug)]
struct Answer {
    device: u64,
    /// By the ring of reads.
    of_ring: bool,
    done: Done,
}

/// Some of a file that was read, and how much was asked for.
#[derive(Debug)]
pub struct Unchecked {
    answer: ReadAnswer,
    source: Arc<Source>,
    offset: u64,
    length: usize,
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
    pub buffer: Vec<u8>,
    /// Where it begins in the buffer.
    pub from: usize,
    pub outcome: ReadOutcome,
}

/// The silo's end.
#[derive(Debug)]
pub struct Reader {
    side: Side,
    /// Jobs whose answers were not taken.
    jobs: usize,
    /// Another root, or the same opened anew: what is looked for after it waits for that.
    changes: VecDeque<Job>,
    is_changing: bool,
    /// What threads do; bounded by the limits on waiting paths and on streams, each of which has one
    /// job at most.
    looks: DeviceLines,
    /// Those that a ring reads: nobody waits behind them, and they behind nobody.
    reads: DeviceLines,
    /// Files that nobody needs any more.
    closings: Arc<Closings>,
    /// Those of `looks` that close a file: nobody waits for them.
    closing: usize,
    /// Since when an answer is waited for, as last seen; none came meanwhile. Answers of a ring
    /// are not meant.
    since: Option<Time>,
}

#[derive(Debug)]
enum Side {
    /// What is in line, and who does it when it is asked for.
    Inline(Arc<FileReader>, VecDeque<Job>),
    Thread(Thread),
}

#[derive(Debug)]
struct Thread {
    tasks: Producer<Task>,
    done: Consumer<Answer>,
    shared: Arc<Shared>,
    /// `shared.posted` when `done` was last looked into.
    seen: u32,
    /// The first of them is the one that does all, as long as it comes back.
    lookers: Vec<JoinHandle<()>>,
    ring: Option<Ring>,
    mounts: Mounts,
}

/// The ring of reads, and its thread.
#[derive(Debug)]
struct Ring {
    tasks: Producer<Task>,
    waker: Arc<Waker>,
    handle: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// Counts answers. Raised after the answer is in the ring and the event
    /// is signalled, so whoever sees it rise finds both.
    posted: AtomicU32,
    stop: AtomicBool,
    /// A thread is held up: all of them do what there is to do, until none is.
    is_stalled: AtomicBool,
    /// Wakes a silo that sleeps in its data path: one for all that the silo
    /// waits for. Set before the first job.
    event: OnceLock<Arc<OwnedFd>>,
    /// Who looks; another after a change.
    worker: Mutex<Arc<FileReader>>,
    /// What is taken, and where more of it comes from. No silo locks it, and no thread for longer than it
    /// takes to look.
    desk: Mutex<(Desk, Consumer<Task>)>,
    answers: Mutex<Producer<Answer>>,
}

/// What a lock holds is whole whenever it is let go of.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    /// A reader of `directory`, whose root it opens and whose threads it starts
    /// on `cpus`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(directory: &Directory, heads: HeadWriter, cpus: &[usize]) -> Result<Self, Error> {
        let worker = FileReader::new(directory, heads)?;
        let side = match directory.reader {
            ReaderKind::Inline => Side::Inline(Arc::new(worker), VecDeque::new()),
            ReaderKind::Thread => {
                let mounts = Mounts::read(&directory.root);
                Side::Thread(Thread::start(worker, mounts, cpus).map_err(Error::Helper)?)
            }
        };
        Ok(Self {
            side,
            jobs: 0,
            changes: VecDeque::new(),
            is_changing: false,
            looks: DeviceLines::default(),
            reads: DeviceLines::default(),
            closings: Arc::default(),
            closing: 0,
            since: None,
        })
    }

    /// From now on `event` becomes readable when an answer came;
    /// [`Reader::arrived`] makes it unreadable.
    pub(crate) fn wake(&mut self, event: &Arc<OwnedFd>) {
        if let Side::Thread(thread) = &self.side {
            let _ = thread.shared.event.set(Arc::clone(event));
        }
    }

    /// Where files go that nobody needs any more.
    pub const fn closings(&self) -> &Arc<Closings> {
        &self.closings
    }

    /// Has closed what nobody needs any more.
    pub fn close(&mut self) {
        for (device, file) in self.closings.take() {
            self.closing += 1;
            self.submit(Job::Close { device, file });
        }
    }

    /// Puts a job in line; [`Reader::hand_over`] sends it on its way.
    pub fn submit(&mut self, job: Job) {
        self.jobs += 1;
        let thread = match &mut self.side {
            Side::Inline(_, line) => return line.push_back(job),
            Side::Thread(thread) => thread,
        };
        match job {
            Job::Reopen | Job::Replace(_) => self.changes.push_back(job),
            Job::Read { ref source, whom, .. }
                if thread.ring.is_some() && source.is_open(matches!(whom, ReadFor::Block(_))) =>
            {
                self.reads.push(source.identity().device, job);
            }
            job => self.looks.push(thread.device_of(&job), job),
        }
    }

    /// Whether a device that holds up who asks it has three quarters of `most`, which is all that may be looked
    /// for: more of it would leave nothing to the others.
    pub fn is_full_of(&self, path: &[u8], known: Option<&Known>, most: usize) -> bool {
        let Side::Thread(thread) = &self.side else { return false };
        thread.shared.is_stalled.load(Ordering::Relaxed)
            && self.looks.of(thread.device_of_path(path, known)) >= most - most / 4
    }

    /// Once per turn: whether [`Reader::take`] may have something. One load
    /// where nothing is.
    #[inline]
    pub fn arrived(&mut self) -> bool {
        match &mut self.side {
            Side::Inline(_, line) => !line.is_empty(),
            Side::Thread(thread) => {
                let posted = thread.shared.posted.load(Ordering::Acquire);
                posted != thread.seen && thread.clear(posted)
            }
        }
    }

    /// The next answer.
    pub fn take(&mut self) -> Option<Done> {
        loop {
            let thread = match &mut self.side {
                Side::Inline(worker, line) => {
                    let done = thread::serve(worker, line.pop_front()?);
                    (self.since, self.jobs) = (None, self.jobs - 1);
                    self.closing -= usize::from(matches!(done, Done::Closed));
                    return Some(done);
                }
                Side::Thread(thread) => thread,
            };
            let Answer { device, of_ring, done } = thread.done.pop().ok()?;
            if of_ring {
                self.reads.end(device);
            } else {
                self.since = None;
                self.closing -= usize::from(matches!(done, Done::Closed));
                match &done {
                    Done::Reopened(_) => self.is_changing = false,
                    _ => self.looks.end(device),
                }
            }
            match done {
                Done::Opened(job) => self.reads.push(device, job),
                Done::Unchecked(read) => self.looks.push(device, Job::Check(read)),
                done => {
                    self.jobs -= 1;
                    match done {
                        // Where that can no longer be told, it is what it was.
                        Done::Reopened(Some(mounts)) if mounts.is_known() => thread.mounts = *mounts,
                        done => return Some(done),
                    }
                }
            }
        }
    }

    /// Once per turn, last: gives the reader what is in line. No system call
    /// unless the reader sleeps.
    #[inline]
    pub fn hand_over(&mut self) {
        if !self.changes.is_empty() || self.looks.is_waiting() || self.reads.is_waiting() {
            self.push_lines();
        }
    }

    /// Whether no answer is to come, nor a signal of one to be taken.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        let taken = match &self.side {
            Side::Inline(..) => true,
            Side::Thread(thread) => thread.shared.posted.load(Ordering::Acquire) == thread.seen,
        };
        taken && self.jobs == 0
    }

    /// Once per turn, after [`Reader::hand_over`]: whether an answer is still
    /// to come.
    #[inline]
    pub fn waits(&mut self, now: Time) -> bool {
        let busy = self.is_busy();
        self.since = if busy { Some(self.since.unwrap_or(now)) } else { None };
        if self.is_silent(now, STALLS)
            && let Side::Thread(thread) = &self.side
        {
            thread.help();
        }
        busy || !self.reads.is_empty()
    }

    /// Whether an answer is waited for, and none has come for so long.
    #[inline]
    pub fn is_silent(&self, now: Time, span: Duration) -> bool {
        self.since.is_some_and(|since| now.since(since) >= span)
    }

    /// Whether the file system hangs: a disk that fails, a server that is
    /// away. What has to be looked up waits; what is in memory need not.
    #[inline]
    pub fn hangs(&self, now: Time) -> bool {
        self.is_silent(now, HANGS)
    }

    /// For how long no answer has come, if one is waited for.
    pub fn silence(&self, now: Time) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether [`Reader::hand_over`] has something to send on its way, or [`Reader::take`] to
    /// do. What has no room there follows an answer.
    #[inline]
    pub fn has_line(&self) -> bool {
        let may_change = !self.changes.is_empty() && !self.is_changing;
        self.has_inline() || may_change || (!self.is_changing && self.looks.may_start()) || self.reads.may_start()
    }

    /// Whether something is to be done here, where nobody else does it.
    #[inline]
    fn has_inline(&self) -> bool {
        matches!(&self.side, Side::Inline(_, line) if !line.is_empty())
    }

    /// Whether an answer is still to come, but for those of a ring.
    fn is_busy(&self) -> bool {
        self.has_inline() || self.is_changing || !self.changes.is_empty() || self.looks.len() > self.closing
    }

    /// Whether the answers come by [`Reader::take`] alone, with nobody else
    /// at work.
    pub fn is_inline(&self) -> bool {
        matches!(self.side, Side::Inline(..))
    }

    #[cold]
    #[inline(never)]
    fn push_lines(&mut self) {
        let Side::Thread(thread) = &mut self.side else { return };
        let mut pushed = false;
        // One change at a time, and nothing beside it: what is looked for after it is so by the new rules. What
        // is being looked for is looked for again, where somebody waits for it.
        if !self.is_changing
            && let Some(job) = self.changes.pop_front()
        {
            self.is_changing = thread.tasks.push(Task { device: NO_DEVICE, job }).is_ok();
            pushed = true;
        }
        // As many as there are places for in the ring to the threads.
        while !self.is_changing
            && let Some(task) = self.looks.start()
        {
            pushed |= thread.tasks.push(task).is_ok();
        }
        if pushed {
            thread.wake_lookers();
        }
        let Some(ring) = &mut thread.ring else { return };
        let mut pushed = false;
        while let Some(task) = self.reads.start() {
            pushed |= ring.tasks.push(task).is_ok();
        }
        if pushed {
            ring.waker.wake();
        }
    }
}

impl Thread {
    fn start(worker: FileReader, mounts: Mounts, cpus: &[usize]) -> std::io::Result<Self> {
        let (tasks, tasks_out) = RingBuffer::new(ANSWERS_MAX);
        let (done_in, done) = RingBuffer::new(ANSWERS_MAX);
        let shared = Arc::new(Shared {
            posted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            event: OnceLock::new(),
            worker: Mutex::new(Arc::new(worker)),
            desk: Mutex::new((Desk::new(), tasks_out)),
            answers: Mutex::new(done_in),
        });
        // Made before the process gives up the right to. Where there is none (an old kernel, a
        // container that forbids it) threads read, a piece at a time each.
        let ring = match Reads::new(PLACES as u16) {
            Ok(reads) => Some(Ring::start(reads, Arc::clone(&shared), cpus)?),
            Err(_) => None,
        };
        let has_ring = ring.is_some();
        let mut this = Self { tasks, done, shared, seen: 0, lookers: Vec::new(), ring, mounts };
        for number in 0..LOOKERS {
            let shared = Arc::clone(&this.shared);
            let run = move || thread::run(&shared, number == 0, has_ring);
            this.lookers.push(helper::spawn("file-reader", cpus, run)?);
        }
        Ok(this)
    }

    /// The device that a job may be held up by.
    fn device_of(&self, job: &Job) -> u64 {
        match job {
            Job::LookUp { key, known, .. } => self.device_of_path(key.as_bytes(), known.as_ref()),
            Job::List { path, .. } | Job::RealPath { path, .. } => self.device_of_path(path, None),
            Job::Look { source, .. } | Job::Read { source, .. } => source.identity().device,
            Job::Check(read) => read.source.identity().device,
            Job::Cut { of: CutOf::File(source), .. } => source.identity().device,
            Job::Close { device, .. } => *device,
            Job::Cut { of: CutOf::Memory(..), .. } | Job::Reopen | Job::Replace(_) => NO_DEVICE,
        }
    }

    /// The device of a path: where it was found, or where it lies by its text.
    fn device_of_path(&self, path: &[u8], known: Option<&Known>) -> u64 {
        let path = LinkRule::read(path).map_or(path, |(_, path)| path);
        known.map_or_else(|| self.mounts.device_of(path), |known| known.identity.device)
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

    /// The one that does all, and the others where it is held up.
    fn wake_lookers(&self) {
        let all = self.shared.is_stalled.load(Ordering::Acquire);
        let woken = if all { LOOKERS } else { 1 };
        self.lookers.iter().take(woken).for_each(|looker| looker.thread().unpark());
    }

    /// All look, until nobody is held up any more.
    #[cold]
    fn help(&self) {
        if !self.shared.is_stalled.swap(true, Ordering::AcqRel) {
            self.wake_lookers();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.lookers.iter().for_each(|looker| looker.thread().unpark());
        if let Some(Ring { waker, handle, .. }) = self.ring.take() {
            waker.wake();
            // A panic there was reported there.
            let _ = handle.join();
        }
        // Who is held up may never come back, and has nothing but what it shares.
        if !self.shared.is_stalled.load(Ordering::Acquire) {
            self.lookers.drain(..).for_each(|looker| _ = looker.join());
        }
    }
}

#[cfg(test)]
mod tests;
