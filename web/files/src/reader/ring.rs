//! Pieces of streamed files, many at a time: the thread of the ring reads, and opens and asks nothing that
//! could hold it up.

use super::{Answer, Done, Job, ReadAnswer, ReadFor, Ring, Shared, Task, Unchecked, thread};
use crate::blocks::ALIGNMENT;
use crate::faults::ReadOutcome;
use crate::reader::ANSWERS_MAX;
use crate::source::Source;
use core::sync::atomic::Ordering;
use disk::{ReadDone, ReadRange, Reads};
use rtrb::{Consumer, RingBuffer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;

/// A read of the ring's.
#[derive(Debug)]
pub(super) struct Reading {
    device: u64,
    whom: ReadFor,
    source: Arc<Source>,
    range: ReadRange,
    began: Option<Instant>,
}

impl Ring {
    /// Starts its thread on `cpus`.
    pub(super) fn start(reads: Reads<Reading>, shared: Arc<Shared>, cpus: &[usize]) -> std::io::Result<Self> {
        let (tasks, tasks_out) = RingBuffer::new(ANSWERS_MAX);
        let waker = reads.waker();
        let handle = helper::spawn("file-reader", cpus, move || run(tasks_out, &shared, reads))?;
        Ok(Self { tasks, waker, handle })
    }
}

/// Until it is told to stop.
fn run(mut tasks: Consumer<Task>, shared: &Shared, mut ring: Reads<Reading>) {
    while !shared.stop.load(Ordering::Acquire) {
        match tasks.pop() {
            Ok(Task { device, job: Job::Read { whom, source, offset, length, buffer } }) => {
                let range = ReadRange { offset, length, alignment: 1, aside: false };
                let began = probes::file_read::is_traced().then(thread::instant);
                let reading = Reading { device, whom, source, range, began };
                if let Some(answer) = start(&mut ring, reading, buffer) {
                    shared.post(answer);
                }
            }
            // Nothing else is asked of it.
            Ok(_) => {}
            Err(_) => ring.wait(|| !tasks.is_empty() || shared.stop.load(Ordering::Acquire)),
        }
        while let Some(done) = ring.take() {
            if let Some(answer) = finish(&mut ring, done) {
                shared.post(answer);
            }
        }
    }
}

/// Begins a read of a file that is open; or what becomes of it, where that cannot be.
fn start(ring: &mut Reads<Reading>, mut reading: Reading, buffer: Vec<u8>) -> Option<Answer> {
    let Some(mut file) = reading.source.file().cloned() else {
        return Some(answer(&reading, (buffer, 0), ReadOutcome::Failed(Errno::BADF)));
    };
    reading.range.aside = reading.source.may_hold_up();
    if let ReadFor::Block(_) = reading.whom
        && let Some(direct) = reading.source.direct()
    {
        (file, reading.range.alignment) = (Arc::clone(direct), ALIGNMENT);
    }
    ask(ring, reading, file, buffer)
}

/// Asks the ring, which has as many places as there may be reads.
fn ask(ring: &mut Reads<Reading>, reading: Reading, file: Arc<OwnedFd>, buffer: Vec<u8>) -> Option<Answer> {
    let range = reading.range;
    let (reading, buffer) = ring.start(reading, file, range, buffer).err()?;
    Some(answer(&reading, (buffer, 0), ReadOutcome::Failed(Errno::BUSY)))
}

/// A read has come to its end; nothing, where it begins anew.
fn finish(ring: &mut Reads<Reading>, done: ReadDone<Reading>) -> Option<Answer> {
    let ReadDone { ticket: mut reading, buffer, from, outcome } = done;
    let ReadRange { offset, length, alignment, .. } = reading.range;
    let outcome = match outcome {
        // Most files are what they were, and their own file system says so at once.
        Ok(()) if reading.source.is_intact(offset, (length, buffer.len() - from)) => ReadOutcome::Intact,
        Ok(()) => {
            let mut answer = answer(&reading, (buffer, from), ReadOutcome::Intact);
            if let Done::Read(read) = answer.done {
                let source = Arc::clone(&reading.source);
                answer.done = Done::Unchecked(Box::new(Unchecked { answer: read, source, offset, length }));
            }
            return Some(answer);
        }
        // This file system reads only by its cache, whatever it said when the file was opened.
        Err(Errno::OPNOTSUPP | Errno::INVAL) if alignment > 1 => match reading.source.file().cloned() {
            Some(file) => {
                (reading.range.alignment, reading.range.aside) = (1, true);
                return ask(ring, reading, file, buffer);
            }
            None => ReadOutcome::Failed(Errno::BADF),
        },
        Err(why) => ReadOutcome::Failed(why),
    };
    Some(answer(&reading, (buffer, from), outcome))
}

fn answer(reading: &Reading, (buffer, from): (Vec<u8>, usize), outcome: ReadOutcome) -> Answer {
    if let Some(began) = reading.began {
        let length = (buffer.len() - from) as u64;
        probes::file_read::fire(reading.source.path(), reading.range.offset, length, thread::nanoseconds(began));
    }
    let done = Done::Read(ReadAnswer { whom: reading.whom, buffer, from, outcome });
    Answer { device: reading.device, of_ring: true, done }
}
