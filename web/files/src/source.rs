//! A file that is streamed.

use crate::identity::Identity;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A file being streamed, in one state of it. Open from the first read until
/// the last stream of it ends, so that a file renamed over or unlinked in the
/// meantime is still sent as it was.
#[derive(Debug)]
pub struct Source {
    path: Arc<[u8]>,
    identity: Identity,
    pub file: OnceLock<Arc<OwnedFd>>,
    /// The same, past the page cache, where its file system can.
    pub direct: OnceLock<Option<Arc<OwnedFd>>>,
    place: OnceLock<FilePlace>,
    closings: Arc<Closings>,
}

/// Files that nobody needs any more, and whose closing asks somebody who may not answer ([`FilePlace::Remote`]): a
/// thread closes them. Each with its device (`st_dev`, inode(7)).
#[derive(Debug, Default)]
pub struct Closings(Mutex<Vec<(u64, Arc<OwnedFd>)>>);

impl Closings {
    /// All that there are now.
    pub fn take(&self) -> Vec<(u64, Arc<OwnedFd>)> {
        core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a file lies, as far as it matters who waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FilePlace {
    /// On a disk of this machine, or in its memory: ext4, XFS, Btrfs, F2FS, tmpfs.
    Local,
    /// With somebody who may not answer: another machine, or a process (FUSE).
    Remote,
    /// On something else of this machine, or on layers of something.
    Other,
}

impl FilePlace {
    /// By the number of its file system (`f_type`, statfs(2)). Asking may itself wait for whoever has it.
    fn of(file: &OwnedFd) -> Self {
        const LOCAL: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
        // FUSE, NFS, SMB 2 and 1, CIFS, Ceph, 9P, AFS, Coda, Lustre, OCFS2, GFS2.
        const REMOTE: [u32; 12] = [
            0x6573_5546,
            0x6969,
            0xfe53_4d42,
            0x517b,
            0xff53_4d42,
            0x00c3_6400,
            0x0102_1997,
            0x5346_414f,
            0x7375_7245,
            0x0bd0_0bd0,
            0x7461_636f,
            0x0116_1970,
        ];
        match rustix::fs::fstatfs(file).map(|of| of.f_type as u32) {
            Ok(kind) if LOCAL.contains(&kind) => Self::Local,
            Ok(kind) if REMOTE.contains(&kind) => Self::Remote,
            _ => Self::Other,
        }
    }
}

impl Source {
    pub fn new(path: Arc<[u8]>, identity: Identity, closings: Arc<Closings>) -> Self {
        let (file, direct, place) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { path, identity, file, direct, place, closings }
    }

    /// One that is open.
    #[cfg(test)]
    pub fn opened(path: Arc<[u8]>, identity: Identity, file: OwnedFd) -> Self {
        let source = Self::new(path, identity, Arc::default());
        let _ = (source.file.set(Arc::new(file)), source.direct.set(None));
        source.find_place();
        source
    }

    /// Its path.
    pub const fn path(&self) -> &Arc<[u8]> {
        &self.path
    }

    /// The state of it that is sent.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Asks where it lies, once: for a thread that may wait.
    pub fn find_place(&self) {
        if let Some(file) = self.file.get() {
            self.place.get_or_init(|| FilePlace::of(file));
        }
    }

    /// Whether its file system may hold up who begins to read it, whatever that is told: what is not known to be
    /// of this machine's disks and memory.
    pub fn may_hold_up(&self) -> bool {
        self.place.get() != Some(&FilePlace::Local)
    }

    /// Whether somebody has it who may not answer: no silo or worker waits for its bytes.
    pub fn is_remote(&self) -> bool {
        self.place.get() == Some(&FilePlace::Remote)
    }

    /// The file, if it is open.
    pub fn file(&self) -> Option<&Arc<OwnedFd>> {
        self.file.get()
    }

    /// The same past the page cache, if it is open so.
    pub fn direct(&self) -> Option<&Arc<OwnedFd>> {
        self.direct.get().and_then(Option::as_ref)
    }

    /// Whether it is open, and all is known that has to be asked before it is read; past the page cache, too,
    /// where that is wanted.
    pub fn is_open(&self, past_cache: bool) -> bool {
        let is_direct = !past_cache || self.direct.get().is_some();
        is_direct && self.file.get().is_some() && self.place.get().is_some()
    }

    /// Whether so many bytes that were read are all that was promised of so many that were asked for, of a file that
    /// is as it was: where that can be told without waiting.
    pub fn is_intact(&self, offset: u64, (asked, read): (usize, usize)) -> bool {
        let promised = self.identity.size.saturating_sub(offset).min(asked as u64);
        !self.may_hold_up()
            && read as u64 >= promised
            && self
                .file
                .get()
                .is_some_and(|file| rustix::fs::fstat(file).is_ok_and(|stat| Identity::of(&stat) == self.identity))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.is_remote() {
            return;
        }
        let files = [self.file.take(), self.direct.take().flatten()].into_iter().flatten();
        let mut closings = self.closings.0.lock().unwrap_or_else(PoisonError::into_inner);
        closings.extend(files.map(|file| (self.identity.device, file)));
    }
}
