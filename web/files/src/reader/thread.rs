//! What the reader's thread does.
//!
//! Where there is a ring of reads, pieces of streamed files are read by it, many at a time, while
//! this thread looks at paths: a disk that takes long for a piece holds nobody else up.

use super::{CutOf, Done, Job, ReadAnswer, ReadFor, Shared};
use crate::blocks::ALIGNMENT;
use crate::cut::cut_memory;
use crate::faults::ReadOutcome;
use crate::folder::real_path;
use crate::worker::{FileReader, Source};
use core::sync::atomic::Ordering;
use disk::{ReadDone, ReadRange, Reads};
use rtrb::{Consumer, Producer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;

/// A read of the ring's.
#[derive(Debug)]
pub struct Reading {
    whom: ReadFor,
    source: Arc<Source>,
    range: ReadRange,
    began: Option<Instant>,
}

/// The way back to the silo.
struct Answers<'a> {
    done: Producer<Done>,
    shared: &'a Shared,
}

impl Answers<'_> {
    fn post(&mut self, done: Done) {
        // Never full: no more jobs are in flight than the ring has places.
        if self.done.push(done).is_ok() {
            if let Some(event) = self.shared.event.get() {
                // Full (2^64 unread signals) is signalled enough.
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
            self.shared.posted.fetch_add(1, Ordering::Release);
        }
    }
}

/// Until it is told to stop.
pub fn run(
    mut worker: FileReader,
    mut jobs: Consumer<Job>,
    done: Producer<Done>,
    shared: &Shared,
    mut ring: Option<Reads<Reading>>,
) {
    let mut answers = Answers { done, shared };
    while !shared.stop.load(Ordering::Acquire) {
        match (jobs.pop(), &mut ring) {
            (Ok(Job::Read { whom, source, offset, length, buffer }), Some(ring)) => {
                let range = ReadRange { offset, length, alignment: 1, aside: false };
                let reading = Reading { whom, source, range, began: None };
                if let Some(done) = start(&mut worker, ring, reading, buffer) {
                    answers.post(done);
                }
            }
            (Ok(job), ring) => {
                // It may take long: what is to be read is read meanwhile.
                if let Some(ring) = ring {
                    ring.submit();
                }
                answers.post(serve(&mut worker, job));
            }
            (Err(_), Some(ring)) => ring.wait(|| !jobs.is_empty() || shared.stop.load(Ordering::Acquire)),
            // An unpark between the look and this returns at once.
            (Err(_), None) => std::thread::park(),
        }
        while let Some((done, ring)) = ring.as_mut().and_then(|ring| Some((ring.take()?, ring))) {
            if let Some(done) = finish(&mut worker, ring, done) {
                answers.post(done);
            }
        }
    }
}

/// Begins a read; or what becomes of it, where that cannot be.
fn start(worker: &mut FileReader, ring: &mut Reads<Reading>, mut reading: Reading, buffer: Vec<u8>) -> Option<Done> {
    reading.began = probes::file_read::is_traced().then(instant);
    let mut file = match worker.open(&reading.source) {
        Ok(file) => Arc::clone(file),
        Err(outcome) => return Some(read_done(&reading, (buffer, 0), outcome)),
    };
    reading.range.aside = reading.source.may_hold_up();
    if let ReadFor::Block(_) = reading.whom
        && let Some(direct) = worker.open_direct(&reading.source)
    {
        (file, reading.range.alignment) = (direct, ALIGNMENT);
    }
    ask(ring, reading, file, buffer)
}

/// Asks the ring, which has as many places as there may be reads.
fn ask(ring: &mut Reads<Reading>, reading: Reading, file: Arc<OwnedFd>, buffer: Vec<u8>) -> Option<Done> {
    let range = reading.range;
    let (reading, buffer) = ring.start(reading, file, range, buffer).err()?;
    Some(read_done(&reading, (buffer, 0), ReadOutcome::Failed(Errno::BUSY)))
}

/// A read has come to its end; nothing, where it begins anew.
fn finish(worker: &mut FileReader, ring: &mut Reads<Reading>, done: ReadDone<Reading>) -> Option<Done> {
    let ReadDone { ticket: mut reading, buffer, from, outcome } = done;
    let ReadRange { offset, length, alignment, .. } = reading.range;
    let outcome = match outcome {
        Ok(()) => worker.look_after(&reading.source, offset, (length, buffer.len() - from)),
        // This file system reads only by its cache, whatever it said when the file was opened.
        Err(Errno::OPNOTSUPP | Errno::INVAL) if alignment > 1 => match worker.open(&reading.source) {
            Ok(file) => {
                let file = Arc::clone(file);
                (reading.range.alignment, reading.range.aside) = (1, true);
                return ask(ring, reading, file, buffer);
            }
            Err(outcome) => outcome,
        },
        Err(why) => ReadOutcome::Failed(why),
    };
    Some(read_done(&reading, (buffer, from), outcome))
}

/// Reads, and waits for that.
fn read_now(worker: &mut FileReader, reading: &Reading, mut buffer: Vec<u8>) -> Done {
    let outcome = worker.read(&reading.source, reading.range.offset, reading.range.length, &mut buffer);
    read_done(reading, (buffer, 0), outcome)
}

fn read_done(reading: &Reading, (buffer, from): (Vec<u8>, usize), outcome: ReadOutcome) -> Done {
    if let Some(began) = reading.began {
        let length = (buffer.len() - from) as u64;
        probes::file_read::fire(reading.source.path(), reading.range.offset, length, nanoseconds(began));
    }
    let device = reading.source.identity().device;
    Done::Read(ReadAnswer { whom: reading.whom, device, buffer, from, outcome })
}

/// Does a job, and waits for what it takes.
pub fn serve(worker: &mut FileReader, job: Job) -> Done {
    match job {
        Job::LookUp { entry, key, known, now } => {
            let began = probes::file_opened::is_traced().then(instant);
            let found = worker.look_up(&key, known.as_ref(), now);
            if let Some(began) = began {
                probes::file_opened::fire(key.as_bytes(), found.number(), nanoseconds(began));
            }
            Done::LookUp { entry, found }
        }
        Job::Read { whom, source, offset, length, buffer } => {
            let began = probes::file_read::is_traced().then(instant);
            let range = ReadRange { offset, length, alignment: 1, aside: false };
            read_now(worker, &Reading { whom, source, range, began }, buffer)
        }
        Job::Look { work, source } => {
            let outcome = worker.open(&source).err();
            Done::Looked { work, outcome: outcome.unwrap_or_else(|| worker.look_after(&source, 0, (0, 0))) }
        }
        Job::List { work, path } => Done::Listed { work, listing: worker.list(&path) },
        Job::RealPath { work, path } => {
            let found = real_path(&path);
            Done::RealPath { work, path, found }
        }
        Job::Cut { work, of, cutter } => {
            let outcome = match of {
                CutOf::Memory(bytes, start) => cut_memory(bytes.get(start..).unwrap_or_default(), *cutter),
                CutOf::File(source) => worker.cut(&source, *cutter),
            };
            Done::Cut { work, outcome }
        }
        Job::Reopen => {
            worker.reopen();
            Done::Reopened
        }
        Job::Replace(other) => {
            *worker = *other;
            Done::Reopened
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the file system took, for who traces it; no silo asks")]
fn instant() -> Instant {
    Instant::now()
}

fn nanoseconds(began: Instant) -> u64 {
    instant().saturating_duration_since(began).as_nanos() as u64
}
