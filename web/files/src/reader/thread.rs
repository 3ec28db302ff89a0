//! What a thread that looks does.

use super::{Answer, CutOf, Done, Job, ReadAnswer, ReadFor, Shared, Task, Unchecked, lock};
use crate::cut::cut_memory;
use crate::folder::real_path;
use crate::mounts::Mounts;
use crate::source::Source;
use crate::worker::FileReader;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

impl Shared {
    /// The way back to the silo.
    pub(super) fn post(&self, answer: Answer) {
        // Never full: no more is under way than the ring has places.
        if lock(&self.answers).push(answer).is_ok() {
            if let Some(event) = self.event.get() {
                // Full (2^64 unread signals) is signalled enough.
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
            self.posted.fetch_add(1, Ordering::Release);
        }
    }

    /// What a thread does next, if there is anything for it.
    fn next_task(&self) -> Option<Task> {
        let mut desk = lock(&self.desk);
        let (desk, tasks) = &mut *desk;
        let task = desk.next(|| tasks.pop().ok());
        if task.is_none() && desk.is_at_rest() {
            // Nobody is held up any more.
            self.is_stalled.store(false, Ordering::Release);
        }
        task
    }
}

/// Until it is told to stop. `is_first`: it looks always, and not only where another is held up.
pub fn run(shared: &Shared, is_first: bool, has_ring: bool) {
    while !shared.stop.load(Ordering::Acquire) {
        let looks = is_first || shared.is_stalled.load(Ordering::Acquire);
        let Some(Task { device, job }) = looks.then(|| shared.next_task()).flatten() else {
            // An unpark between the look and this returns at once.
            std::thread::park();
            continue;
        };
        let done = match job {
            Job::Read { whom, source, offset, length, buffer } if has_ring => {
                open(&lock_worker(shared), whom, source, (offset, length), buffer)
            }
            job => {
                let before = lock_worker(shared);
                let mut worker = Arc::clone(&before);
                let mut done = serve(&mut worker, job);
                if !Arc::ptr_eq(&before, &worker) {
                    *lock(&shared.worker) = Arc::clone(&worker);
                }
                if let Done::Reopened(mounts) = &mut done {
                    *mounts = Some(Box::new(Mounts::read(worker.path())));
                }
                done
            }
        };
        lock(&shared.desk).0.end(device);
        shared.post(Answer { device, of_ring: false, done });
    }
}

fn lock_worker(shared: &Shared) -> Arc<FileReader> {
    Arc::clone(&lock(&shared.worker))
}

/// Opens what the ring is to read.
fn open(
    worker: &FileReader,
    whom: ReadFor,
    source: Arc<Source>,
    (offset, length): (u64, usize),
    buffer: Vec<u8>,
) -> Done {
    if let Err(outcome) = worker.open(&source) {
        return Done::Read(ReadAnswer { whom, buffer, from: 0, outcome });
    }
    if let ReadFor::Block(_) = whom {
        worker.open_direct(&source);
    }
    Done::Opened(Job::Read { whom, source, offset, length, buffer })
}

/// Does a job, and waits for what it takes.
pub fn serve(worker: &mut Arc<FileReader>, job: Job) -> Done {
    match job {
        Job::LookUp { entry, key, known, now } => {
            let began = probes::file_opened::is_traced().then(instant);
            let found = worker.look_up(&key, known.as_ref(), now);
            if let Some(began) = began {
                probes::file_opened::fire(key.as_bytes(), found.number(), nanoseconds(began));
            }
            Done::LookUp { entry, found }
        }
        Job::Read { whom, source, offset, length, mut buffer } => {
            let began = probes::file_read::is_traced().then(instant);
            let outcome = worker.read(&source, offset, length, &mut buffer);
            if let Some(began) = began {
                probes::file_read::fire(source.path(), offset, buffer.len() as u64, nanoseconds(began));
            }
            Done::Read(ReadAnswer { whom, buffer, from: 0, outcome })
        }
        Job::Check(read) => {
            let Unchecked { mut answer, source, offset, length } = *read;
            answer.outcome = worker.look_after(&source, offset, (length, answer.buffer.len() - answer.from));
            Done::Read(answer)
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
        Job::Close { file, .. } => {
            drop(file);
            Done::Closed
        }
        Job::Reopen => {
            worker.reopen();
            Done::Reopened(None)
        }
        Job::Replace(other) => {
            *worker = Arc::from(other);
            Done::Reopened(None)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the file system took, for who traces it; no silo asks")]
pub fn instant() -> Instant {
    Instant::now()
}

pub fn nanoseconds(began: Instant) -> u64 {
    instant().saturating_duration_since(began).as_nanos() as u64
}
