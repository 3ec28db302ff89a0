//! Where lines go: a file that others append to as well, or a standard stream,
//! whose other end may be a pipe that nobody reads.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub enum Sink {
    File(PathBuf, Appended),
    Standard(StandardStream),
}

/// A standard stream, of which the process has one.
#[derive(Clone, Copy, Debug)]
pub enum StandardStream {
    Out,
    Error,
}

impl Sink {
    /// Appends lines. Waits for whoever reads them, but in a `hurry` only for a
    /// moment.
    pub fn append(&mut self, lines: &[u8], hurry: &AtomicBool) -> io::Result<()> {
        let mut patience = Patience::default();
        match self {
            Self::File(_, file) => file.append(lines, hurry, &mut patience),
            Self::Standard(stream) => stream.append(lines, hurry, &mut patience),
        }
    }

    /// Opens a file again; a stream stays what it is.
    pub fn reopen(&mut self) {
        if let Self::File(path, file) = self
            && let Ok(new) = Appended::open(path)
        {
            // If it cannot be opened, the old one is better than none.
            *file = new;
        }
    }
}

impl StandardStream {
    pub fn append(self, lines: &[u8], hurry: &AtomicBool, patience: &mut Patience) -> io::Result<()> {
        // A pipe takes 4 KiB in one piece: the lines of several threads are kept
        // apart here, with whether half of one was written last.
        static TORN: [Mutex<bool>; 2] = [const { Mutex::new(false) }; 2];
        let mut torn = TORN[self as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let fd = match self {
            Self::Out => stdout.as_fd(),
            Self::Error => stderr.as_fd(),
        };
        if *torn {
            write_all(fd, b"\n", hurry, patience)?;
        }
        *torn = true;
        write_all(fd, lines, hurry, patience)?;
        *torn = false;
        Ok(())
    }
}

/// A pipe that has room takes so much at once (PIPE_BUF of pipe(7)).
const PIECE: usize = 4_096;

/// How long one that is full is waited for before it is looked whether there is
/// hurry.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long somebody who does not read is waited for.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// The most; `None`: as long as it takes.
    bound: Option<Duration>,
    /// There was no room for so long when it was written last: others wait for
    /// the same thread.
    spent: bool,
}

impl Patience {
    /// So long, and then not at all until there is room.
    pub const fn bounded(bound: Duration) -> Self {
        Self { bound: Some(bound), spent: false }
    }

    /// How long it is waited at once.
    fn time(&self) -> Timespec {
        match self.bound {
            Some(_) if self.spent => Timespec::default(),
            Some(bound) => Timespec::try_from(bound).unwrap_or(LOOK),
            None => LOOK,
        }
    }
}

/// Nobody read a stream when it was to be finished: others need not wait as
/// long.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Writes all of it, but in a `hurry` never waits long for a reader, nor longer
/// than `patience` has it.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], hurry: &AtomicBool, patience: &mut Patience) -> io::Result<()> {
    while !bytes.is_empty() {
        // In a hurry it tries once more, and that is all.
        let last = hurry.load(Ordering::Acquire);
        let time = if last && UNREAD.load(Ordering::Relaxed) { Timespec::default() } else { patience.time() };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match poll(&mut fds, Some(&time)) {
            Ok(0) if last => {
                UNREAD.store(true, Ordering::Relaxed);
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(0) if patience.bound.is_some() => {
                patience.spent = true;
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(why) => return Err(why.into()),
        }
        match rustix::io::write(fd, &bytes[..bytes.len().min(PIECE)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                UNREAD.store(false, Ordering::Relaxed);
                patience.spent = false;
                bytes = bytes.get(written..).unwrap_or_default();
            }
            // Somebody else filled it.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

/// Times that something could not be written as a whole, to any log: whoever
/// appends to the same file finds half a line at its end.
pub static TORN: AtomicU64 = AtomicU64::new(0);

/// A file that several may append whole lines to.
#[derive(Debug)]
pub struct Appended {
    pub file: File,
    /// It has a reader, who may be slow: it is a pipe.
    read: bool,
    /// [`TORN`] when the file's end was last looked at; `None` before.
    seen: Option<u64>,
}

impl Appended {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = match helper::opened::of(path) {
            Some(file) => file.into(),
            None => {
                let _asking = helper::waits::on(path);
                File::options().create(true).append(true).open(path)?
            }
        };
        Self::from_file(file)
    }

    /// What is open already.
    pub fn from_file(file: File) -> io::Result<Self> {
        let read = !file.metadata()?.is_file();
        Ok(Self { file, read, seen: None })
    }

    /// Appends lines. If half a line stands at the file's end, because the
    /// disk was full or a process was killed, they begin on one of their own.
    pub fn append(&mut self, lines: &[u8], hurry: &AtomicBool, patience: &mut Patience) -> io::Result<()> {
        let torn = TORN.load(Ordering::Acquire);
        let mut apart = Vec::new();
        let mut lines = lines;
        if self.seen != Some(torn) {
            if self.ends_within_line() {
                // In one call: nobody else's line comes between.
                apart.push(b'\n');
                apart.extend_from_slice(lines);
                lines = &apart;
            }
            self.seen = Some(torn);
        }
        let file = self.file.as_fd();
        let written = if self.read { write_all(file, lines, hurry, patience) } else { self.file.write_all(lines) };
        if written.is_err() {
            TORN.fetch_add(1, Ordering::AcqRel);
        }
        written
    }

    /// Appends what has no lines.
    #[cfg(feature = "compress")]
    pub fn append_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn ends_within_line(&self) -> bool {
        let last = || {
            let data = self.file.metadata()?;
            if !data.is_file() || data.len() == 0 {
                // What a pipe was given is gone.
                return Ok(b'\n');
            }
            let mut byte = [0];
            // What another process opened for this one can be read.
            if self.file.read_exact_at(&mut byte, data.len() - 1).is_err() {
                // What appends cannot read; opened by the descriptor, because
                // the name may lead elsewhere by now.
                let file = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
                file.read_exact_at(&mut byte, data.len() - 1)?;
            }
            io::Result::Ok(byte[0])
        };
        // A file that may not be read gets an empty line rather than a joined
        // one.
        last().map_or(self.seen.is_some(), |byte| byte != b'\n')
    }
}
