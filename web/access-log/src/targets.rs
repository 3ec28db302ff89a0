//! Any number of logs with one writer: what is open, and the writer's end.

use crate::Error;
use crate::handing::{Buffer, Writing, give_back};
use crate::named::NamedFiles;
use crate::places::{Buffering, LogPlace};
use crate::record::Record;
use crate::sink::{Appended, Patience, StandardStream};
use crate::syslog::{SyslogHead, SyslogSocket};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rtrb::{Consumer, Producer};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A buffer that was made longer for one line gives back what is more than this.
const KEPT: usize = 256 << 10;

/// Who does not read what is written is waited for so long, and then not until
/// there is room again.
const READER: Duration = Duration::from_secs(1);

/// Logs that are open, for all silos: what one writes is never torn by another.
#[derive(Debug)]
pub struct OpenLogs {
    targets: Vec<Mutex<Target>>,
    syslog: Vec<Option<SyslogHead>>,
    /// How often files were to be opened again.
    reopens: AtomicU64,
}

/// One log.
#[derive(Debug)]
struct Target {
    way: Way,
    buffering: Option<Buffering>,
    /// What waits, and its lines.
    pending: Vec<u8>,
    lines: u64,
    due: Option<Instant>,
    patience: Patience,
    /// The value of `reopens` that it was opened for.
    opened: u64,
}

#[derive(Debug)]
enum Way {
    File(PathBuf, Appended),
    Named(NamedFiles),
    Standard(StandardStream),
    Syslog(SyslogSocket),
}

impl OpenLogs {
    /// Opens logs at their places, which lines name by their number. Files are
    /// made if they are not there.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(places: &[LogPlace]) -> Result<Arc<Self>, Error> {
        let targets = places.iter().map(|place| Target::open(place).map(Mutex::new)).collect::<Result<_, _>>()?;
        let head = |place: &LogPlace| match place {
            LogPlace::Syslog(place) => Some(SyslogHead::new(place)),
            _ => None,
        };
        let syslog = places.iter().map(head).collect();
        Ok(Arc::new(Self { targets, syslog, reopens: AtomicU64::new(0) }))
    }

    /// What begins a line to a syslog server.
    #[inline]
    pub(crate) fn syslog_head(&self, log: u16) -> Option<&SyslogHead> {
        self.syslog.get(usize::from(log))?.as_ref()
    }

    pub(crate) fn ask_reopen(&self) {
        self.reopens.fetch_add(1, Ordering::AcqRel);
    }

    /// The writer's thread.
    pub(crate) fn write(&self, mut full: Consumer<Buffer>, mut empty: Producer<Vec<u8>>, writing: &Writing) {
        let (mut waiting, mut reopened) = (BTreeSet::new(), 0);
        loop {
            // Looked at before the ring: what was handed over before is written.
            let stop = writing.stop.load(Ordering::Acquire);
            while let Ok(Buffer { mut bytes, .. }) = full.pop() {
                self.batch(&bytes, writing, &mut waiting);
                bytes.clear();
                bytes.shrink_to(KEPT);
                give_back(&mut empty, bytes);
            }
            let reopens = self.reopens.load(Ordering::Acquire);
            if reopens != reopened {
                reopened = reopens;
                // The first writer that looks does it for all.
                self.targets.iter().for_each(|target| lock(target).reopen(reopens, writing));
            }
            if stop {
                waiting.iter().for_each(|log: &u16| self.flush(*log, None, writing));
                return;
            }
            match self.flush_due(&mut waiting, writing) {
                Some(time) => std::thread::park_timeout(time),
                None => std::thread::park(),
            }
        }
    }

    fn batch(&self, bytes: &[u8], writing: &Writing, waiting: &mut BTreeSet<u16>) {
        let mut rest = bytes;
        while let Some((record, behind)) = Record::first(rest) {
            rest = behind;
            let Some(target) = self.targets.get(usize::from(record.log)) else { continue };
            let mut target = lock(target);
            target.take(&record, writing);
            if !target.pending.is_empty() {
                waiting.insert(record.log);
            }
        }
    }

    /// Writes what has waited long enough; how long the next is to wait.
    fn flush_due(&self, waiting: &mut BTreeSet<u16>, writing: &Writing) -> Option<Duration> {
        if waiting.is_empty() {
            return None;
        }
        let (now, mut next) = (now(), None::<Instant>);
        waiting.retain(|log| {
            self.flush(*log, Some(now), writing);
            let target = lock(&self.targets[usize::from(*log)]);
            next = match (next, target.due) {
                (Some(next), Some(due)) => Some(next.min(due)),
                (next, due) => next.or(due),
            };
            !target.pending.is_empty()
        });
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Writes what waits, if it is due at `now`; all of it without.
    fn flush(&self, log: u16, now: Option<Instant>, writing: &Writing) {
        let mut target = lock(&self.targets[usize::from(log)]);
        if now.is_none_or(|now| target.due.is_some_and(|due| due <= now)) {
            target.flush(writing);
        }
    }
}

impl Target {
    fn open(place: &LogPlace) -> Result<Self, Error> {
        let mut kept = None;
        let way = match place {
            LogPlace::File { path, buffering } => {
                let file = Appended::open(path).map_err(|error| Error::Open(path.clone(), error))?;
                kept.clone_from(buffering);
                Way::File(path.clone(), file)
            }
            LogPlace::Named { open, symlinks } => Way::Named(NamedFiles::new(open.clone(), *symlinks)),
            LogPlace::Stdout => Way::Standard(StandardStream::Out),
            LogPlace::Stderr => Way::Standard(StandardStream::Error),
            LogPlace::Syslog(place) => Way::Syslog(SyslogSocket::new(place.server.clone())),
        };
        let patience = Patience::bounded(READER);
        Ok(Self { way, buffering: kept, pending: Vec::new(), lines: 0, due: None, patience, opened: 0 })
    }

    /// Takes lines: writes them, or has them wait.
    fn take(&mut self, record: &Record<'_>, writing: &Writing) {
        let Some(buffering) = &self.buffering else {
            if self.put(record, &writing.hurry).is_err() {
                writing.lose(record.count());
            }
            return;
        };
        let (bytes, flush) = (buffering.bytes, buffering.flush);
        // Lines are never divided: what is written at once is what nginx writes.
        for line in record.lines.split_inclusive(|byte| *byte == b'\n') {
            if self.pending.len() + line.len() > bytes {
                self.flush(writing);
            }
            if self.pending.is_empty() {
                self.due = flush.map(|flush| now() + flush);
            }
            self.pending.extend_from_slice(line);
            self.lines += 1;
        }
        if self.pending.len() > bytes {
            self.flush(writing);
        }
    }

    fn flush(&mut self, writing: &Writing) {
        let (mut pending, lines) = (core::mem::take(&mut self.pending), core::mem::take(&mut self.lines));
        self.due = None;
        if pending.is_empty() {
            return;
        }
        let written = self
            .put_compressed(&pending)
            .unwrap_or_else(|| self.put(&Record { log: 0, path: b"", root: b"", lines: &pending }, &writing.hurry));
        if written.is_err() {
            writing.lose(lines);
        }
        pending.clear();
        pending.shrink_to(KEPT);
        self.pending = pending;
    }

    /// What is compressed has no lines that could be torn. None is, unless it is a file's.
    #[cfg(feature = "compress")]
    fn put_compressed(&mut self, lines: &[u8]) -> Option<io::Result<()>> {
        let level = self.buffering.as_ref()?.gzip?;
        let Way::File(_, file) = &mut self.way else { return None };
        Some(file.append_whole(&gzip::member(lines, level)))
    }

    #[cfg(not(feature = "compress"))]
    const fn put_compressed(&mut self, _lines: &[u8]) -> Option<io::Result<()>> {
        None
    }

    fn put(&mut self, record: &Record<'_>, hurry: &AtomicBool) -> io::Result<()> {
        match &mut self.way {
            Way::File(_, file) => file.append(record.lines, hurry, &mut self.patience),
            Way::Named(files) => files.append(record, now(), hurry),
            Way::Standard(stream) => stream.append(record.lines, hurry, &mut self.patience),
            Way::Syslog(socket) => socket.send(record.lines),
        }
    }

    /// Opens files again, unless another writer did.
    fn reopen(&mut self, reopens: u64, writing: &Writing) {
        if self.opened == reopens {
            return;
        }
        self.opened = reopens;
        // What waits belongs to the file as it was.
        self.flush(writing);
        match &mut self.way {
            Way::File(path, file) => {
                // If it cannot be opened, the old one is better than none.
                if let Ok(new) = Appended::open(path) {
                    *file = new;
                }
            }
            Way::Named(files) => files.close(),
            Way::Standard(_) | Way::Syslog(_) => {}
        }
    }
}

/// What a panic of another writer has left is whole: lines are taken at the end.
fn lock(target: &Mutex<Target>) -> std::sync::MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "the writer waits, and knows for how long; no silo does")]
fn now() -> Instant {
    Instant::now()
}
