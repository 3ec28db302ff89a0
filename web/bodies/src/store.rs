//! A silo's end: bodies under way, and what there is of memory and files for them.

use crate::BodyRules;
use crate::folder::{FolderError, TempFolder, TempFolderRules};
use crate::received::ReceivedBody;
use crate::shares::{BodyLimits, Common, Wrote};
use crate::writer::{self, BodyDone, BodyError, BodyJob, BodyOutcome, Signals};
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;
use helper::Twin;
use rustix::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What has become of a body, by its ticket.
#[derive(Debug)]
pub enum BodyEvent {
    /// There is room: what was left of it is to be offered again, and its end told.
    Room,
    /// Some of its file was written.
    Written(Wrote),
    /// What was asked for of its file.
    Read(Result<Vec<u8>, BodyError>),
}

/// What a thread that may wait has made ready, for [`BodyStore::new`].
#[derive(Debug)]
pub struct BodyFolders {
    folders: Vec<Arc<TempFolder>>,
    jobs: Sender<BodyJob>,
    done: Receiver<BodyDone>,
    signals: Arc<Signals>,
    /// What writes, where that is no thread.
    twin: Option<Twin>,
}

impl BodyFolders {
    /// Opens folders, made if they are not there, and starts what writes in them, on
    /// `cpus`.
    ///
    /// # Errors
    /// One that cannot be made or opened; or the system has no more threads.
    pub fn open(folders: &[TempFolderRules], cpus: &[usize]) -> Result<Self, FolderError> {
        let open = |rules: &TempFolderRules| {
            if helper::opened::of(&rules.path).is_none() {
                rules.make(None)?;
            }
            Ok(Arc::new(TempFolder::new(rules.clone(), rules.open()?)))
        };
        let folders = folders.iter().map(open).collect::<Result<_, FolderError>>()?;
        let ((jobs, theirs), (their_done, done)) = (channel(), channel());
        let signals = Arc::new(Signals::default());
        let shared = Arc::clone(&signals);
        if helper::is_inline() {
            let mut left = Vec::new();
            let twin = Twin::new(move || writer::run_all(&theirs, &their_done, &shared, &mut left));
            return Ok(Self { folders, jobs, done, signals, twin: Some(twin) });
        }
        let started = helper::spawn_behind("body-files", cpus, helper::Behind::Tenth, move || {
            writer::run(&theirs, &their_done, &shared);
        });
        started.map_err(|why| FolderError {
            call: "pthread_create()",
            path: "body-files".into(),
            why: rustix::io::Errno::from_io_error(&why).unwrap_or(rustix::io::Errno::AGAIN),
        })?;
        Ok(Self { folders, jobs, done, signals, twin: None })
    }
}

/// Bodies of one silo that are read. Not `Send`.
#[derive(Debug)]
pub struct BodyStore {
    common: Rc<Common>,
    done: Receiver<BodyDone>,
    signals: Arc<Signals>,
    seen: u32,
}

impl BodyStore {
    /// A store; `event` becomes readable when there may be something to
    /// [take](Self::take).
    #[must_use]
    pub fn new(folders: BodyFolders, limits: BodyLimits, event: &Arc<OwnedFd>) -> Self {
        let BodyFolders { folders, jobs, done, signals, twin } = folders;
        let _ = signals.event.set(Arc::clone(event));
        let common = Common {
            folders,
            jobs,
            twin: RefCell::new(twin),
            limits,
            held: Cell::new(0),
            files: Cell::new(0),
            under_way: Cell::new(0),
            waiting: RefCell::default(),
            spare: RefCell::default(),
        };
        Self { common: Rc::new(common), done, signals, seen: 0 }
    }

    /// A body that begins, of so many bytes if that is known.
    #[must_use]
    pub fn begin(&self, rules: BodyRules, length: Option<u64>, ticket: u64) -> ReceivedBody {
        ReceivedBody::new(Rc::clone(&self.common), rules, length, ticket)
    }

    /// Whether [`BodyStore::take`] may have something: two or three loads.
    pub fn arrived(&mut self) -> bool {
        if self.common.under_way.get() > 0 {
            let posted = self.signals.posted.load(Ordering::Acquire);
            if core::mem::replace(&mut self.seen, posted) != posted {
                return true;
            }
        }
        self.has_room()
    }

    /// Whether one that waits for memory may have some: nobody says so but
    /// [`BodyStore::arrived`], which is to be asked.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.common.waiting.borrow().is_empty() && !self.common.is_full()
    }

    /// Whether the thread is at work, or has done what was not taken.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.common.under_way.get() > 0
    }

    /// What has become of a body; its ticket may be nobody's any more.
    pub fn take(&mut self) -> Option<(u64, BodyEvent)> {
        if let Ok(BodyDone { ticket, outcome }) = self.done.try_recv() {
            self.common.under_way.set(self.common.under_way.get().saturating_sub(1));
            let event = match outcome {
                BodyOutcome::Written(written, memory) => BodyEvent::Written(Wrote { written, memory }),
                BodyOutcome::Read(read, bytes) => {
                    self.common.let_go(bytes.capacity());
                    BodyEvent::Read(read.map(|()| bytes))
                }
            };
            return Some((ticket, event));
        }
        if self.common.is_full() {
            return None;
        }
        let ticket = self.common.waiting.borrow_mut().pop_front()?;
        Some((ticket, BodyEvent::Room))
    }

    /// For what was written of a body that is gone: its file goes, too.
    pub fn drop_written(&self, wrote: Wrote) {
        self.common.give_spare(wrote.memory);
        if let Ok(file) = wrote.written {
            self.common.submit(BodyJob::LetGo(file));
        }
    }

    /// Bytes of memory that bodies hold, and how many have files.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.common.held.get(), self.common.files.get())
    }
}

#[cfg(test)]
mod tests;
