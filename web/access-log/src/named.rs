//! Files that requests decide the paths of.

use crate::places::OpenFiles;
use crate::record::Record;
use crate::sink::{Appended, Patience};
use core::sync::atomic::AtomicBool;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files that requests decide the paths of: each line's is opened, and closed
/// again, but for those that rules keep open.
#[derive(Debug)]
pub(crate) struct NamedFiles {
    rules: Option<OpenFiles>,
    symlinks: bool,
    open: BTreeMap<Box<[u8]>, NamedFile>,
    /// By when they were written to last, as a number that grows.
    order: BTreeMap<u64, Box<[u8]>>,
    next: u64,
}

#[derive(Debug)]
struct NamedFile {
    /// None, while it was not written to often enough.
    file: Option<Appended>,
    number: u64,
    used: Instant,
    checked: Instant,
    uses: u32,
}

/// A file that a client decides the name of is no pipe that somebody reads.
const READER: Duration = Duration::ZERO;

impl NamedFiles {
    pub const fn new(rules: Option<OpenFiles>, symlinks: bool) -> Self {
        Self { rules, symlinks, open: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// Closes all.
    pub fn close(&mut self) {
        self.open.clear();
        self.order.clear();
    }

    /// Appends a record's lines to its file.
    pub fn append(&mut self, record: &Record<'_>, now: Instant, hurry: &AtomicBool) -> io::Result<()> {
        self.close_inactive(now);
        let mut patience = Patience::bounded(READER);
        let Some(rules) = &self.rules else {
            return self.opened(record)?.append(record.lines, hurry, &mut patience);
        };
        let (most, valid, least) = (rules.most, rules.valid, rules.uses);
        self.next += 1;
        let number = self.next;
        let mut known = match self.open.remove(record.path) {
            Some(known) => {
                self.order.remove(&known.number);
                known
            }
            None => NamedFile { file: None, number, used: now, checked: now, uses: 0 },
        };
        (known.number, known.used, known.uses) = (number, now, known.uses.saturating_add(1));
        if now.saturating_duration_since(known.checked) >= valid {
            known.checked = now;
            known.file = known.file.filter(|file| same(&file.file, record.path) && root_is_there(record.root));
        }
        let mut file = match known.file.take() {
            Some(file) => file,
            None => {
                known.checked = now;
                self.opened(record)?
            }
        };
        let written = file.append(record.lines, hurry, &mut patience);
        known.file = (known.uses >= least).then_some(file);
        while self.open.len() >= most
            && let Some((oldest, _)) = self.order.first_key_value()
        {
            self.forget(*oldest);
        }
        if most > 0 {
            self.open.insert(record.path.into(), known);
            self.order.insert(number, record.path.into());
        }
        written
    }

    fn forget(&mut self, number: u64) {
        if let Some(path) = self.order.remove(&number) {
            self.open.remove(&path);
        }
    }

    /// Closes what nobody has written to for long.
    fn close_inactive(&mut self, now: Instant) {
        let Some(rules) = &self.rules else { return };
        let inactive = rules.inactive;
        while let Some((number, path)) = self.order.first_key_value() {
            let number = *number;
            let old = self.open.get(path).is_none_or(|file| now.saturating_duration_since(file.used) >= inactive);
            if !old {
                return;
            }
            self.forget(number);
        }
    }

    fn opened(&self, record: &Record<'_>) -> io::Result<Appended> {
        if !root_is_there(record.root) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(0o644);
        let file = match self.symlinks {
            true => rustix::fs::open(record.path, flags, mode),
            false => rustix::fs::openat2(CWD, record.path, flags, mode, ResolveFlags::NO_SYMLINKS),
        };
        Appended::from_file(File::from(file?))
    }
}

/// Whether a path still leads to this file.
fn same(file: &File, path: &[u8]) -> bool {
    let (Ok(ours), Ok(theirs)) = (file.metadata(), std::fs::metadata(Path::new(OsStr::from_bytes(path)))) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
}

fn root_is_there(root: &[u8]) -> bool {
    root.is_empty() || std::fs::metadata(Path::new(OsStr::from_bytes(root))).is_ok_and(|found| found.is_dir())
}
