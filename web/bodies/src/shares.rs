//! What bodies of a silo have in common: memory, files, and who writes them.

use crate::folder::TempFolder;
use crate::writer::{BodyError, BodyJob, TempFile};
use core::cell::{Cell, RefCell};
use helper::Twin;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What bodies may hold, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyLimits {
    /// Bytes of memory. Beyond it bodies go to files before their own memory is full,
    /// and those that hold nothing wait until others have let go of some.
    pub bytes: usize,
    /// Files. Beyond it a body that needs one has no place.
    pub files: usize,
    /// Bytes of a body that goes to a file which are handed to the thread that writes at
    /// once: each hand-over wakes that thread, and then the silo. Such a body has as much
    /// in memory, and as much again while that is written; once half of
    /// [`BodyLimits::bytes`] is held, no more than its buffer.
    pub piece: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 128 << 20, files: 16 << 10, piece: 128 << 10 }
    }
}

/// For [`ReceivedBody::on_written`](crate::ReceivedBody::on_written).
#[derive(Debug)]
pub struct Wrote {
    pub(crate) written: Result<Arc<TempFile>, BodyError>,
    /// What it was in, which is held.
    pub(crate) memory: Vec<u8>,
}

/// What bodies have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub folders: Vec<Arc<TempFolder>>,
    pub jobs: Sender<BodyJob>,
    /// Who writes, where that is no thread.
    pub twin: RefCell<Option<Twin>>,
    pub limits: BodyLimits,
    /// Bytes of memory that bodies hold.
    pub held: Cell<usize>,
    /// Bodies that have files, or are to.
    pub files: Cell<usize>,
    /// Jobs of which nothing was heard yet.
    pub under_way: Cell<usize>,
    /// Those that wait for memory.
    pub waiting: RefCell<VecDeque<u64>>,
    /// Memory of pieces that were written, for those that follow, as long as any body has
    /// a file.
    pub spare: RefCell<Vec<Vec<u8>>>,
}

/// Memory of so many pieces is kept: one is filled while the one before it is written.
const SPARE: usize = 2;

impl Common {
    pub fn is_full(&self) -> bool {
        self.held.get() >= self.limits.bytes
    }

    /// Bytes of a hand-over to who writes, of a body with so much of a buffer.
    pub fn piece(&self, buffer: usize) -> usize {
        let is_pressed = self.held.get() >= self.limits.bytes / 2;
        if is_pressed { buffer.min(self.limits.piece) } else { self.limits.piece }
    }

    /// Memory of a piece that was written, if there is any; it is held already.
    pub fn take_spare(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Memory that is held, of what was written: kept where it is that of a whole piece,
    /// else let go.
    pub fn give_spare(&self, memory: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        let is_whole = memory.capacity() >= self.limits.piece && memory.capacity() <= 2 * self.limits.piece;
        if is_whole && spare.len() < SPARE && self.files.get() > 0 && self.held.get() < self.limits.bytes / 2 {
            spare.push(memory);
        } else {
            self.let_go(memory.capacity());
        }
    }

    pub fn hold(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
    }

    pub fn let_go(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// Room for one file more; whether there is any.
    pub fn take_file(&self) -> bool {
        let has = self.files.get() < self.limits.files;
        self.files.set(self.files.get() + usize::from(has));
        has
    }

    pub fn give_file(&self) {
        self.files.set(self.files.get().saturating_sub(1));
        if self.files.get() == 0 {
            let spare = core::mem::take(&mut *self.spare.borrow_mut());
            spare.into_iter().for_each(|memory| self.let_go(memory.capacity()));
        }
    }

    pub fn folder(&self, number: u16) -> Option<&Arc<TempFolder>> {
        self.folders.get(usize::from(number))
    }

    /// Whether the job will be done.
    pub fn submit(&self, job: BodyJob) -> bool {
        let counts = !matches!(job, BodyJob::LetGo(_));
        let sent = self.jobs.send(job).is_ok();
        self.under_way.set(self.under_way.get() + usize::from(sent && counts));
        if let Some(twin) = &mut *self.twin.borrow_mut() {
            twin.run();
        }
        sent
    }

    pub fn wait(&self, ticket: u64) {
        self.waiting.borrow_mut().push_back(ticket);
    }
}
