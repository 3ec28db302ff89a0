//! A file that is streamed.

use crate::identity::Identity;
use rustix::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

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
    holds_up: OnceLock<bool>,
}

impl Source {
    pub fn new(path: Arc<[u8]>, identity: Identity) -> Self {
        Self { path, identity, file: OnceLock::new(), direct: OnceLock::new(), holds_up: OnceLock::new() }
    }

    /// One that is open.
    #[cfg(test)]
    pub fn opened(path: Arc<[u8]>, identity: Identity, file: OwnedFd) -> Self {
        let file = OnceLock::from(Arc::new(file));
        Self { file, direct: OnceLock::from(None), ..Self::new(path, identity) }
    }

    /// Its path.
    pub const fn path(&self) -> &Arc<[u8]> {
        &self.path
    }

    /// The state of it that is sent.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether its file system may hold up who begins to read it, whatever that is told: those of disks of this
    /// machine, and of its memory, do not (ext4, XFS, Btrfs, F2FS, tmpfs: statfs(2)).
    pub fn may_hold_up(&self) -> bool {
        const LOCAL: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
        let is_local = |file| rustix::fs::fstatfs(file).is_ok_and(|of| LOCAL.contains(&(of.f_type as u32)));
        self.file.get().is_none_or(|file| *self.holds_up.get_or_init(|| !is_local(file)))
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
        is_direct && self.file.get().is_some() && self.holds_up.get().is_some()
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
