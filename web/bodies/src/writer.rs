//! The thread that writes files.

use crate::folder::TempFolder;
use core::fmt::{Display, Formatter, Result as Written};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};

/// How often it is looked whether files that are still being sent are by now.
const LOOK: Duration = Duration::from_secs(1);

/// What went wrong with a file.
#[derive(Clone, PartialEq, Eq)]
pub struct BodyError {
    /// What failed: `open()`.
    pub call: &'static str,
    /// With what.
    pub path: Box<[u8]>,
    /// Why.
    pub why: Errno,
}

/// In the words of error logs: `open() "/a/b" failed (2: No such file or directory)`.
impl Display for BodyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let why = std::io::Error::from(self.why).to_string();
        let why = why.split(" (os error").next().unwrap_or_default();
        let path = String::from_utf8_lossy(&self.path);
        write!(f, "{} \"{path}\" failed ({}: {why})", self.call, self.why.raw_os_error())
    }
}

impl core::fmt::Debug for BodyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        Display::fmt(self, f)
    }
}

/// A file with a body in it.
#[derive(Debug)]
pub struct TempFile {
    pub file: Arc<OwnedFd>,
    pub folder: Arc<TempFolder>,
    /// Below the folder.
    pub name: Box<[u8]>,
    /// Its name is there, and goes with it.
    pub removes: bool,
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.removes {
            self.folder.remove(&self.name);
        }
    }
}

/// Which of a body's bytes are written where.
#[derive(Debug)]
pub enum BodyTarget {
    /// To this file.
    File(Arc<TempFile>),
    /// To one that is made.
    New { folder: Arc<TempFolder>, keeps: bool, removes: bool },
}

/// What there is to do; its ticket says whose it is.
#[derive(Debug)]
pub enum BodyJob {
    Write {
        ticket: u64,
        target: BodyTarget,
        bytes: Vec<u8>,
        offset: u64,
    },
    Read {
        ticket: u64,
        file: Arc<OwnedFd>,
        offset: u64,
        bytes: Vec<u8>,
        path: Box<[u8]>,
    },
    /// It is nobody's any more.
    LetGo(Arc<TempFile>),
}

/// What was done.
#[derive(Debug)]
pub struct BodyDone {
    pub ticket: u64,
    pub outcome: BodyOutcome,
}

#[derive(Debug)]
pub enum BodyOutcome {
    /// The file, and the memory that the bytes were in.
    Written(Result<Arc<TempFile>, BodyError>, Vec<u8>),
    /// What was read, and whether it is all that was asked for.
    Read(Result<(), BodyError>, Vec<u8>),
}

/// What both ends have.
#[derive(Debug, Default)]
pub struct Signals {
    /// Counts what was done; raised after it was told.
    pub posted: AtomicU32,
    /// Wakes the silo, once there is one.
    pub event: OnceLock<Arc<OwnedFd>>,
}

impl Signals {
    /// Something was done.
    pub fn tell(&self) {
        self.posted.fetch_add(1, Ordering::Release);
        if let Some(event) = self.event.get() {
            // A counter that is full is read by whoever is woken by it.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }
}

/// Works until nobody has work any more.
pub fn run(jobs: &Receiver<BodyJob>, done: &Sender<BodyDone>, signals: &Signals) {
    let mut left: Vec<Arc<TempFile>> = Vec::new();
    loop {
        let next = if left.is_empty() {
            jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            jobs.recv_timeout(LOOK)
        };
        match next {
            Ok(job) => {
                if let Some(finished) = work(job, &mut left) {
                    let _ = done.send(finished);
                    signals.tell();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        close_left(&mut left);
    }
}

/// The same where nobody waits: `left` has files that are nobody's any more.
pub fn run_all(jobs: &Receiver<BodyJob>, done: &Sender<BodyDone>, signals: &Signals, left: &mut Vec<Arc<TempFile>>) {
    while let Ok(job) = jobs.try_recv() {
        if let Some(finished) = work(job, left) {
            let _ = done.send(finished);
            signals.tell();
        }
    }
    close_left(left);
}

/// Closed here and nowhere else, for a file system may take its time: so a file stays until the
/// last who sends from it has closed it.
fn close_left(left: &mut Vec<Arc<TempFile>>) {
    left.retain(|file| Arc::strong_count(file) > 1 || Arc::strong_count(&file.file) > 1);
}

/// Does what there is to do; files that are nobody's any more are put to those that are
/// `left`.
pub fn work(job: BodyJob, left: &mut Vec<Arc<TempFile>>) -> Option<BodyDone> {
    let (ticket, outcome) = match job {
        BodyJob::Write { ticket, target, mut bytes, offset } => {
            let written = write(target, &bytes, offset);
            bytes.clear();
            (ticket, BodyOutcome::Written(written, bytes))
        }
        BodyJob::Read { ticket, file, offset, mut bytes, path } => {
            let read = read(&file, &mut bytes, offset);
            let read = read.map_err(|why| BodyError { call: "pread()", path, why });
            (ticket, BodyOutcome::Read(read, bytes))
        }
        BodyJob::LetGo(file) => {
            left.push(file);
            return None;
        }
    };
    Some(BodyDone { ticket, outcome })
}

fn write(target: BodyTarget, bytes: &[u8], offset: u64) -> Result<Arc<TempFile>, BodyError> {
    let file = match target {
        BodyTarget::File(file) => file,
        BodyTarget::New { folder, keeps, removes } => {
            let made = folder.create(keeps);
            let (file, name) = made.map_err(|(call, path, why)| BodyError { call, path: path.into(), why })?;
            Arc::new(TempFile { file: Arc::new(file), folder, name, removes })
        }
    };
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(&file.file, &bytes[written..], offset + written as u64) {
            Err(Errno::INTR) => {}
            Ok(more) if more > 0 => written += more,
            other => {
                let why = other.err().unwrap_or(Errno::NOSPC);
                return Err(BodyError { call: "pwrite()", path: file.folder.path(&file.name).into(), why });
            }
        }
    }
    Ok(file)
}

/// Fills `bytes`, or says why not.
fn read(file: &OwnedFd, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(file, &mut bytes[read..], offset + read as u64) {
            // Somebody has cut it.
            Ok(0) => return Err(Errno::IO),
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}
