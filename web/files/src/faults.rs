//! What file systems fail at while files are sent, for who keeps a log.

use crate::Files;
use crate::ids::WorkId;
use exchange::ExchangeId;
use rustix::io::Errno;
use std::sync::Arc;

/// How a read from a file that is being sent went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The bytes are what was promised.
    Intact,
    /// The file cannot keep what its state promised.
    Changed,
    /// The file system failed, or no more files can be opened: what it said.
    Failed(Errno),
}

/// Faults that wait to be told, at most: those beyond are of the same disk, and as soon.
const FAULTS_MAX: usize = 16;

/// A file that could not be read on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileFault {
    /// Its path.
    pub path: Arc<[u8]>,
    /// What the system said.
    pub why: Errno,
    /// The number of who asked for it, where nothing of its answer was sent yet and [`Files::next_woken`]
    /// tells of it.
    pub waiter: Option<u32>,
    /// Whose answer it was, which may be over by now.
    pub exchange: ExchangeId,
}

impl Files {
    /// What failed since this was asked last.
    pub fn next_fault(&mut self) -> Option<FileFault> {
        self.faults.pop_front()
    }

    /// The path of a file that is being sent to this exchange, which has this mark with us.
    pub fn streamed_path(&mut self, id: ExchangeId, mark: Option<u32>) -> Option<Arc<[u8]>> {
        let work = self.works.at(mark?, id)?;
        Some(Arc::clone(self.works.get(work)?.stream.as_ref()?.source.path()))
    }

    pub(crate) fn note_fault(&mut self, work: WorkId, why: Errno) {
        self.counters.file_errors += 1;
        let Some(work) = self.works.get(work) else { return };
        let Some(stream) = work.stream.as_ref().filter(|_| self.faults.len() < FAULTS_MAX) else { return };
        let waiter = work.guest.filter(|_| stream.head.is_some());
        self.faults.push_back(FileFault { path: Arc::clone(stream.source.path()), why, waiter, exchange: work.id });
    }
}
