//! One body.

use crate::shares::{Common, Wrote};
use crate::writer::{BodyError, BodyJob, BodyTarget, TempFile};
use crate::{BodyFiles, BodyRules};
use app::Body;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::rc::Rc;
use std::sync::Arc;

/// A body that is whole.
#[derive(Clone, Debug)]
pub enum BodyContent {
    /// All of it, perhaps nothing.
    Memory(Body),
    /// All of it, in a file.
    File(BodyFile),
}

/// A file that is as long as its body.
#[derive(Clone, Debug)]
pub struct BodyFile {
    /// To be read by whoever may wait for it. Whoever keeps it keeps its place on the
    /// disk; nobody but the store's thread is to be the last.
    pub file: Arc<OwnedFd>,
    /// Bytes.
    pub length: u64,
}

impl BodyContent {
    /// Bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(body) => body.len().into(),
            Self::File(file) => file.length,
        }
    }
}

/// A body under way: bytes are [added](Self::add) until its [end](Self::end), and then
/// it has [content](Self::content).
#[derive(Debug)]
pub struct ReceivedBody {
    common: Rc<Common>,
    rules: BodyRules,
    length: Option<u64>,
    ticket: u64,
    /// What is in memory and not being written.
    memory: Vec<u8>,
    /// Bytes of memory that its content is in.
    held: usize,
    received: u64,
    /// Bytes in the file.
    written: u64,
    /// Those that are being written; none: nothing is.
    writing: Option<u64>,
    /// It waits for memory.
    waits: bool,
    /// It has a place among files.
    filed: bool,
    file: Option<Arc<TempFile>>,
    path: Box<[u8]>,
    ended: bool,
    content: Option<BodyContent>,
    /// A read is under way.
    reading: bool,
}

impl ReceivedBody {
    pub(crate) fn new(common: Rc<Common>, rules: BodyRules, length: Option<u64>, ticket: u64) -> Self {
        Self {
            common,
            rules,
            length,
            ticket,
            memory: Vec::new(),
            held: 0,
            received: 0,
            written: 0,
            writing: None,
            waits: false,
            filed: false,
            file: None,
            path: Box::default(),
            ended: false,
            content: None,
            reading: false,
        }
    }

    /// What [`BodyStore::take`](crate::BodyStore::take) knows it by.
    #[must_use]
    pub const fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Bytes that were added.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// What it holds, once it is whole and where it stays.
    #[must_use]
    pub const fn content(&self) -> Option<&BodyContent> {
        self.content.as_ref()
    }

    /// The path of its file, if it has one: of one without a name, what it was.
    #[must_use]
    pub const fn path(&self) -> Option<&[u8]> {
        if self.path.is_empty() { None } else { Some(&self.path) }
    }

    /// Bytes that it keeps in memory before some of it goes to a file: all of one that is
    /// known to be little longer than the buffer, and of one that has a file, or will have,
    /// as many as are written at once.
    fn room(&self) -> usize {
        let buffer = self.rules.buffer.max(1) as usize;
        match self.length {
            _ if self.filed => self.common.piece(buffer),
            Some(length) if length < self.longest() => usize::try_from(length).unwrap_or(usize::MAX),
            Some(_) => self.common.piece(buffer),
            None => buffer,
        }
    }

    /// A body of a known length that is shorter stays in memory.
    fn longest(&self) -> u64 {
        let buffer = u64::from(self.rules.buffer.max(1));
        buffer + buffer / 4
    }

    /// Whether it goes to a file, however much of it came.
    fn is_filed(&self) -> bool {
        self.filed
            || self.rules.in_file != BodyFiles::Long
            || self.length.is_some_and(|length| length >= self.longest())
    }

    /// Adds bytes; how many were taken. The rest is to be offered again when the store
    /// has an event for it.
    ///
    /// # Errors
    /// It has no place: no body will come of it.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<usize, BodyError> {
        let mut taken = 0;
        while !bytes.is_empty() {
            let room = self.room().saturating_sub(self.memory.len());
            let grows = self.memory.capacity() == self.memory.len();
            if room == 0 || grows && self.common.is_full() {
                if self.writing.is_some() {
                    break;
                }
                if self.memory.is_empty() {
                    if !core::mem::replace(&mut self.waits, true) {
                        self.common.wait(self.ticket);
                    }
                    break;
                }
                self.write()?;
                continue;
            }
            let (some, rest) = bytes.split_at(room.min(bytes.len()).min(self.grow(bytes.len())));
            self.memory.extend_from_slice(some);
            (bytes, taken) = (rest, taken + some.len());
        }
        self.received += taken as u64;
        Ok(taken)
    }

    /// Makes room in memory for some of so many bytes; how many there is room for.
    fn grow(&mut self, wanted: usize) -> usize {
        let free = self.memory.capacity() - self.memory.len();
        if free > 0 {
            return free;
        }
        if self.filed && self.memory.capacity() == 0 {
            self.memory = self.common.take_spare();
            if self.memory.capacity() > 0 {
                return self.memory.capacity();
            }
        }
        let len = self.memory.len();
        let most = self.room().saturating_sub(len);
        // Twice as much each time: what was announced may never come. Whoever has sent one
        // piece has the next as a whole.
        let has_sent = self.filed && self.written + self.writing.unwrap_or(0) >= most as u64;
        let wanted = if has_sent { most } else { wanted.max(len).max(512) };
        self.memory.reserve_exact(wanted.min(most));
        let capacity = self.memory.capacity();
        self.common.hold(capacity - len);
        capacity - len
    }

    /// No bytes follow. Whether it has [content](Self::content) by now; else the store
    /// will have events for it.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn end(&mut self) -> Result<bool, BodyError> {
        self.ended = true;
        self.settle()
    }

    /// Some of it was written. Whether it has content by now.
    ///
    /// # Errors
    /// It was not; no body will come of it.
    pub fn on_written(&mut self, wrote: Wrote) -> Result<bool, BodyError> {
        let Wrote { written, memory } = wrote;
        self.common.give_spare(memory);
        let bytes = self.writing.take().unwrap_or(0);
        let file = written?;
        self.written += bytes;
        if self.path.is_empty() {
            self.path = file.folder.path(&file.name).into();
        }
        self.file = Some(file);
        self.settle()
    }

    /// It waits for memory no more.
    pub const fn on_room(&mut self) {
        self.waits = false;
    }

    fn settle(&mut self) -> Result<bool, BodyError> {
        if !self.ended || self.writing.is_some() || self.content.is_some() {
            return Ok(self.content.is_some());
        }
        if self.is_filed() && (!self.memory.is_empty() || self.file.is_none()) {
            self.write()?;
            return Ok(false);
        }
        self.content = Some(match &self.file {
            Some(file) => {
                self.common.let_go(self.memory.capacity());
                self.memory = Vec::new();
                BodyContent::File(BodyFile { file: Arc::clone(&file.file), length: self.written })
            }
            None => BodyContent::Memory(Body::new(core::mem::take(&mut self.memory))),
        });
        if let Some(BodyContent::Memory(body)) = &self.content {
            self.held = body.bytes().capacity();
        }
        Ok(true)
    }

    /// Hands what is in memory to what writes it.
    fn write(&mut self) -> Result<(), BodyError> {
        let folder = self.common.folder(self.rules.folder);
        let failed = |why| {
            let path = folder.map_or_else(Vec::new, |folder| folder.path(b"")).into();
            Err(BodyError { call: "open()", path, why })
        };
        let target = match (&self.file, folder) {
            (Some(file), _) => BodyTarget::File(Arc::clone(file)),
            (None, None) => return failed(Errno::NOENT),
            (None, Some(folder)) => {
                if !self.filed && !self.common.take_file() {
                    return failed(Errno::MFILE);
                }
                self.filed = true;
                let (keeps, removes) = match self.rules.in_file {
                    BodyFiles::Long => (false, false),
                    BodyFiles::Kept => (true, false),
                    BodyFiles::Removed => (true, true),
                };
                BodyTarget::New { folder: Arc::clone(folder), keeps, removes }
            }
        };
        let bytes = core::mem::take(&mut self.memory);
        self.writing = Some(bytes.len() as u64);
        let (ticket, offset) = (self.ticket, self.written);
        if self.common.submit(BodyJob::Write { ticket, target, bytes, offset }) { Ok(()) } else { failed(Errno::IO) }
    }

    /// Asks for so many bytes of its file from `offset`, less at its end: the store has
    /// an event with them. Whether it does: one thing at a time is read.
    pub fn read(&mut self, offset: u64, most: usize) -> bool {
        let Some(BodyContent::File(BodyFile { file, length })) = &self.content else { return false };
        let bytes = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX).min(most);
        if self.reading || bytes == 0 {
            return false;
        }
        let (file, path) = (Arc::clone(file), self.path.clone());
        let bytes = vec![0; bytes];
        let capacity = bytes.capacity();
        self.reading = self.common.submit(BodyJob::Read { ticket: self.ticket, file, offset, bytes, path });
        self.common.hold(if self.reading { capacity } else { 0 });
        self.reading
    }

    /// The same body for another reader; none before it has [content](Self::content). It
    /// has its own ticket, and what it is in stays for as long as either is there.
    #[must_use]
    pub fn share(&self) -> Option<Self> {
        let content = self.content.clone()?;
        Some(Self {
            common: Rc::clone(&self.common),
            rules: self.rules,
            length: self.length,
            ticket: 0,
            memory: Vec::new(),
            held: 0,
            received: self.received,
            written: self.written,
            writing: None,
            waits: false,
            filed: self.filed && self.common.take_file(),
            file: self.file.clone(),
            path: self.path.clone(),
            ended: true,
            content: Some(content),
            reading: false,
        })
    }

    /// From now on the store knows it by this.
    pub const fn set_ticket(&mut self, ticket: u64) {
        self.ticket = ticket;
    }

    /// What was asked for is there.
    pub const fn on_read(&mut self) {
        self.reading = false;
    }
}

impl Drop for ReceivedBody {
    fn drop(&mut self) {
        // What is being written is counted until it is.
        self.common.let_go(self.held + self.memory.capacity());
        if self.filed {
            self.common.give_file();
        }
        self.content = None;
        if let Some(file) = self.file.take() {
            self.common.submit(BodyJob::LetGo(file));
        }
    }
}
