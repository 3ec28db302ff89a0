//! The file system, blocking: what the reader thread does for the silo.

use crate::Types;
use crate::config::{Directory, Error, Symlinks};
use crate::cut::CutOutcome;
use crate::faults::ReadOutcome;
use crate::identity::Identity;
use crate::links::LinkRule;
use crate::shared_content::{Member, Shared};
use crate::source::Source;
use crate::target::Key;
use core::hash::Hasher;
use core::sync::atomic::{AtomicBool, Ordering};
use exchange::{FileMeta, HeadWriter, JOINED_MAX, Meta};
use mp4::{Cutter, Step};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Advice, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use semantics::date::HttpDate;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Times that a file which changes while it is read is read again.
const READ_ATTEMPTS: u32 = 3;

/// Times that an `openat2` is tried again when a rename elsewhere made it
/// unsure whether the path left the root.
const OPEN_ATTEMPTS: u32 = 8;

/// A state of a file that was found before.
#[derive(Clone, Debug)]
pub struct Known {
    pub identity: Identity,
    /// Whether it may have changed without a change of its times.
    pub racy: bool,
    /// The content, if it is not joined to its head.
    pub content: Option<Shared>,
}

/// What is there, and is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// A file without the permission to, which somebody may execute, or nobody.
    File {
        /// Whether somebody may.
        executable: bool,
    },
    /// A directory without the permission to.
    Directory,
    /// A pipe, a socket, a device.
    Other,
}

impl Unread {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File { executable: stat.st_mode & 0o111 != 0 },
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// The file is as it was.
    Unchanged,
    /// A file, read as a whole.
    File(Box<FileContent>),
    /// A file to be streamed.
    Large { meta: Meta, identity: Identity, path: Arc<[u8]> },
    /// A directory, asked for without its slash.
    Directory,
    /// Nothing.
    Missing,
    /// Something that is not served: no permission on the way to it, a link, a directory
    /// without index file.
    Forbidden,
    /// The same, and it is known what it is.
    Unread(Unread),
    /// The look-up failed for a reason of ours; trying again may help.
    Failed(Option<LookError>),
}

/// What the system said of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookError {
    /// Which call: `open()` or `pread()`.
    pub call: &'static str,
    /// What it said.
    pub why: Errno,
}

impl Found {
    /// Its number, as tracers see it ([`probes::file_opened`]).
    pub const fn number(&self) -> u64 {
        match self {
            Self::Unchanged | Self::File(_) | Self::Large { .. } => 0,
            Self::Directory => 1,
            Self::Missing => 2,
            Self::Forbidden | Self::Unread(_) => 3,
            Self::Failed(_) => 4,
        }
    }
}

/// A file's content and the head of its 200 response.
#[derive(Debug)]
pub struct FileContent {
    pub meta: Meta,
    pub identity: Identity,
    /// Whether it may yet change without a change of its times.
    pub racy: bool,
    /// The head, and behind it the content if that is short.
    pub message: Vec<u8>,
    pub head_len: usize,
    /// Where in the head the date begins.
    pub date_at: u16,
    /// The content, if it is not in `message`.
    pub content: Option<Shared>,
}

/// The root and how its files are served.
#[derive(Debug)]
pub struct FileReader {
    /// Where the root was, and is looked for again.
    path: PathBuf,
    /// Nobody holds it while the file system is asked.
    root: RwLock<Arc<OwnedFd>>,
    index: Vec<String>,
    symlinks: Symlinks,
    whole_max: u64,
    /// The most that is kept behind its head.
    joined_max: usize,
    shared_content: Option<Member>,
    heads: HeadWriter,
    types: Types,
    /// False once the kernel said that it has no `openat2`.
    openat2: AtomicBool,
}

impl FileReader {
    /// A reader of `directory`, whose root it opens.
    ///
    /// # Errors
    /// The root cannot be opened.
    pub fn new(directory: &Directory, heads: HeadWriter) -> Result<Self, Error> {
        let path = directory.root.clone();
        let root = open_root(&path).map_err(|error| Error::Root(path.clone(), error.into()))?;
        Ok(Self {
            path,
            root: RwLock::new(Arc::new(root)),
            index: directory.index.clone(),
            symlinks: directory.symlinks,
            whole_max: directory.cache_file_bytes as u64,
            joined_max: JOINED_MAX.min(directory.cache_bytes),
            shared_content: directory.shared_content.clone(),
            heads,
            types: Types::new(&directory.types, &directory.default_type),
            openat2: AtomicBool::new(true),
        })
    }

    /// Opens the root again: its name may lead to another directory by now.
    /// Where it leads to none, what was served is served on.
    pub fn reopen(&self) {
        if let Ok(root) = open_root(&self.path) {
            *self.root.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(root);
        }
    }

    /// Where the root is looked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What `key` leads to now. `now` in unix seconds.
    pub fn look_up(&self, key: &Key, known: Option<&Known>, now: u64) -> Found {
        let opened = if key.is_directory() { self.open_index(key) } else { self.open_file(key.as_bytes().to_vec()) };
        match opened {
            Ok((path, fd, stat)) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => self.read_file(path, &fd, &stat, known, now),
                FileType::Directory => Found::Directory,
                _ => Found::Unread(Unread::Other),
            },
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL) => Found::Missing,
            // NXIO is a socket.
            Err(Errno::ACCESS | Errno::NXIO) if !key.is_directory() => self.unread(key),
            // LOOP and XDEV are `openat2`'s words for a link that is not to
            // be followed.
            Err(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV | Errno::NXIO) => Found::Forbidden,
            Err(why) => Found::Failed(Some(LookError { call: "open()", why })),
        }
    }

    /// What it is that may not be opened.
    fn unread(&self, key: &Key) -> Found {
        let stat = self.open_path(key.as_bytes(), OFlags::PATH).and_then(|fd| rustix::fs::fstat(&fd));
        stat.map_or(Found::Forbidden, |stat| Found::Unread(Unread::of(&stat)))
    }

    /// The file of a streamed one, open, as it was found.
    pub fn open<'a>(&self, source: &'a Source) -> Result<&'a Arc<OwnedFd>, ReadOutcome> {
        if let Some(file) = source.file.get() {
            source.find_place();
            return Ok(file);
        }
        match self.open_file(source.path().to_vec()) {
            Ok((_, fd, stat)) if self.keeps_promise(source, &stat) => {
                // A hint only: a file system that ignores it still reads.
                let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Sequential);
                let file = source.file.get_or_init(|| Arc::new(fd));
                source.find_place();
                Ok(file)
            }
            Err(why @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)) => Err(ReadOutcome::Failed(why)),
            _ => Err(ReadOutcome::Changed),
        }
    }

    /// The same past the page cache (O_DIRECT), if its file system can.
    pub fn open_direct(&self, source: &Source) -> Option<Arc<OwnedFd>> {
        if let Some(direct) = source.direct.get() {
            return direct.clone();
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::DIRECT;
        let opened = self.open_path(source.path(), flags).and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        let is_same = |stat: &Stat| (stat.st_dev, stat.st_ino) == (source.identity().device, source.identity().inode);
        let direct = opened.ok().filter(|(stat, _)| is_same(stat)).map(|(_, fd)| Arc::new(fd));
        source.direct.get_or_init(|| direct).clone()
    }

    /// Fills `buffer` with `length` bytes of a streamed file from `offset`, or with as many as
    /// there are up to its end.
    pub fn read(&self, source: &Source, offset: u64, length: usize, buffer: &mut Vec<u8>) -> ReadOutcome {
        let file = match self.open(source) {
            Ok(file) => file,
            Err(outcome) => return outcome,
        };
        buffer.resize(length, 0);
        match fill(file, buffer, offset) {
            Ok(read) => {
                buffer.truncate(read);
                self.look_after(source, offset, (length, read))
            }
            Err(why) => ReadOutcome::Failed(why),
        }
    }

    /// What became of a read of a streamed file, which asked for so many bytes and had so many. It is
    /// looked at after the read: what was read before a change is intact.
    pub fn look_after(&self, source: &Source, offset: u64, (asked, read): (usize, usize)) -> ReadOutcome {
        let promised = source.identity().size.saturating_sub(offset).min(asked as u64);
        let stat = source.file.get().map(rustix::fs::fstat);
        let intact = read as u64 >= promised && matches!(stat, Some(Ok(stat)) if self.keeps_promise(source, &stat));
        if intact { ReadOutcome::Intact } else { ReadOutcome::Changed }
    }

    /// Cuts a film, in one state of its file.
    pub fn cut(&self, source: &Source, mut cutter: Cutter) -> CutOutcome {
        loop {
            match cutter.poll() {
                Ok(Step::Read(range)) => {
                    let (length, mut bytes) = ((range.end - range.start) as usize, Vec::new());
                    match self.read(source, range.start, length, &mut bytes) {
                        ReadOutcome::Intact => cutter.on_read(bytes),
                        ReadOutcome::Changed => return CutOutcome::Changed,
                        ReadOutcome::Failed(_) => return CutOutcome::Failed,
                    }
                }
                Ok(Step::Whole) => return CutOutcome::Cut(None),
                Ok(Step::Cut(cut)) => return CutOutcome::Cut(Some(cut)),
                Err(why) => return CutOutcome::Refused(why),
            }
        }
    }

    /// Whether a file that is being sent may still be sent to the length that
    /// was promised, being as `stat` says by now.
    ///
    /// It may have grown (a log, a recording), have been touched, renamed,
    /// renamed over or unlinked. What was written over cannot be told from
    /// what was touched, but where the times were put back: of length and time
    /// of modification being the same, a later time of change remains, and
    /// nothing that would explain it.
    fn keeps_promise(&self, source: &Source, stat: &Stat) -> bool {
        let (then, now) = (*source.identity(), Identity::of(stat));
        if now == then {
            return true;
        }
        if (now.device, now.inode) != (then.device, then.inode) || now.size < then.size {
            return false;
        }
        let explained = (now.size, now.modified) != (then.size, then.modified) || now.attributes != then.attributes;
        explained || !self.leads_to(source.path(), &now)
    }

    /// Whether the file that `path` leads to is this one.
    fn leads_to(&self, path: &[u8], identity: &Identity) -> bool {
        let found = self.open_path(path, OFlags::PATH).and_then(|fd| rustix::fs::fstat(&fd));
        found.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (identity.device, identity.inode))
    }

    fn open_index(&self, key: &Key) -> Result<(Vec<u8>, OwnedFd, Stat), Errno> {
        for at in 0..self.index.len() {
            let path = [key.as_bytes(), self.index[at].as_bytes()].concat();
            match self.open_file(path) {
                Err(Errno::NOENT) => {}
                // A directory with an index file's name is not an index file.
                Ok((_, _, stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
                other => return other,
            }
        }
        // Without an index file: not found, or found and not to be listed.
        self.open_path(key.as_bytes(), OFlags::PATH | OFlags::DIRECTORY)?;
        Err(Errno::ACCESS)
    }

    fn open_file(&self, path: Vec<u8>) -> Result<(Vec<u8>, OwnedFd, Stat), Errno> {
        // NONBLOCK: opening a pipe that nobody writes to must not wait.
        let fd = self.open_path(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok((path, fd, stat))
    }

    /// Opens what [`semantics::path::normalise`] named; the kernel sees to it
    /// that no link leads elsewhere.
    pub(crate) fn open_path(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if let Some((rule, path)) = LinkRule::read(path) {
            return rule.open(&self.root(), path, flags);
        }
        let path = if path.is_empty() { b"." } else { path };
        let resolve = match self.symlinks {
            Symlinks::On => return rustix::fs::openat(self.root(), path, flags, Mode::empty()),
            Symlinks::WithinRoot => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            Symlinks::Off => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
        };
        for _ in 0..OPEN_ATTEMPTS {
            if !self.openat2.load(Ordering::Relaxed) {
                break;
            }
            match rustix::fs::openat2(self.root(), path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Before Linux 5.6; PERM also where a sandbox does not know it.
                Err(Errno::NOSYS) => self.openat2.store(false, Ordering::Relaxed),
                Err(Errno::PERM) => return self.open_by_steps(path, flags),
                other => return other,
            }
        }
        if self.openat2.load(Ordering::Relaxed) { Err(Errno::AGAIN) } else { self.open_by_steps(path, flags) }
    }

    /// Without `openat2`: one segment at a time, none of them a link.
    fn open_by_steps(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut segments = path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).peekable();
        let root = self.root();
        let mut at: Option<OwnedFd> = None;
        while let Some(segment) = segments.next() {
            let from = at.as_ref().unwrap_or(&root).as_fd();
            let last = segments.peek().is_none();
            let step = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
            let next = rustix::fs::openat(from, segment, step | OFlags::NOFOLLOW, Mode::empty());
            at = Some(match next {
                // With DIRECTORY and NOFOLLOW a link is reported as no directory.
                Err(Errno::NOTDIR) if is_link(from, segment) => return Err(Errno::LOOP),
                other => other?,
            });
        }
        at.ok_or(Errno::NOENT)
    }

    fn read_file(&self, path: Vec<u8>, fd: &OwnedFd, stat: &Stat, known: Option<&Known>, now: u64) -> Found {
        let identity = Identity::of(stat);
        if let Some(known) = known.filter(|known| known.identity == identity && !known.racy) {
            match &known.content {
                None => return Found::Unchanged,
                Some(content) if content.is_kept() => return self.still_asked_for(&path, identity, content, now),
                // It was taken from all silos, to make room.
                Some(_) => {}
            }
        }
        if identity.size > self.whole_max {
            return self.to_be_streamed(path, identity);
        }
        let Some(member) = self.shared_content.as_ref().filter(|_| identity.size > self.joined_max as u64) else {
            let (identity, content) = match self.read_whole(fd, identity) {
                Ok(found) => found,
                Err(why) => return Found::Failed(why),
            };
            let etag = content_etag(&content);
            return self.found(&path, identity, Content::Own(content), &etag, now);
        };
        self.look_up_shared(member, path, fd, identity, now)
    }

    /// Content that is as it was. If another domain has it, and it is asked
    /// for again, it comes to this one.
    fn still_asked_for(&self, path: &[u8], identity: Identity, content: &Shared, now: u64) -> Found {
        let Some(Member { shared_content, domain, .. }) = &self.shared_content else { return Found::Unchanged };
        let nearest = shared_content.find(*domain, path, &identity, now);
        let size = content.bytes.len();
        let near = match nearest {
            Some(nearest) if nearest.domain == content.domain => {
                if content.domain == *domain || !shared_content.reserve(size, true, now) {
                    return Found::Unchanged;
                }
                // Touched here first, and so near.
                let copy = (content.bytes.to_vec(), &*content.etag);
                shared_content.put(*domain, path, identity, copy, (true, true), now)
            }
            Some(nearest) => nearest,
            None => return Found::Unchanged,
        };
        let etag = Arc::clone(&near.etag);
        self.found(path, identity, Content::Shared(near), &etag, now)
    }

    /// Content to be shared: what another silo has, or else what is read.
    fn look_up_shared(&self, member: &Member, path: Vec<u8>, fd: &OwnedFd, identity: Identity, now: u64) -> Found {
        let Member { shared_content, domain, .. } = member;
        if let Some(shared) = shared_content.find(*domain, &path, &identity, now) {
            let etag = Arc::clone(&shared.etag);
            return self.found(&path, identity, Content::Shared(shared), &etag, now);
        }
        let size = identity.size as usize;
        if !shared_content.reserve(size, false, now) {
            return self.to_be_streamed(path, identity);
        }
        match self.read_whole(fd, identity) {
            // It grew or shrank while it was read: room was made for another.
            Ok((found, _)) if found.size != identity.size => {
                shared_content.give_up(size, false);
                Found::Failed(None)
            }
            Ok((identity, content)) => {
                let etag = content_etag(&content);
                let settled = !identity.is_racy(now);
                let shared = shared_content.put(*domain, &path, identity, (content, &etag), (false, settled), now);
                self.found(&path, identity, Content::Shared(shared), &etag, now)
            }
            Err(why) => {
                shared_content.give_up(size, false);
                Found::Failed(why)
            }
        }
    }

    /// A file's content in one state of it, and which; or what the system said, if it did.
    fn read_whole(&self, fd: &OwnedFd, mut identity: Identity) -> Result<(Identity, Vec<u8>), Option<LookError>> {
        let mut content = Vec::new();
        for attempt in 1.. {
            content.clear();
            content.resize(identity.size as usize, 0);
            let failed = |why| Some(LookError { call: "pread()", why });
            let read = fill(fd, &mut content, 0).map_err(failed)?;
            let after = rustix::fs::fstat(fd).map_err(failed)?;
            let after = Identity::of(&after);
            if after == identity && read == content.len() {
                break;
            }
            identity = after;
            if attempt == READ_ATTEMPTS || identity.size > self.whole_max {
                // Written to without pause: no state of it can be had.
                return Err(None);
            }
        }
        Ok((identity, content))
    }

    fn to_be_streamed(&self, path: Vec<u8>, identity: Identity) -> Found {
        let meta = self.meta(&path, &identity, identity.etag());
        Found::Large { meta, identity, path: path.into() }
    }

    fn found(&self, path: &[u8], identity: Identity, content: Content, etag: &str, now: u64) -> Found {
        let meta = self.meta(path, &identity, etag.to_owned());
        let racy = identity.is_racy(now);
        let joined = match &content {
            Content::Own(bytes) if bytes.len() <= self.joined_max => bytes.len(),
            _ => 0,
        };
        let mut message = Vec::with_capacity(512 + joined);
        self.heads.write(&mut message, &meta, &HttpDate::from_unix(now));
        let head_len = message.len();
        let content = match content {
            Content::Own(bytes) if bytes.len() <= self.joined_max => {
                message.extend_from_slice(&bytes);
                None
            }
            Content::Own(bytes) => Some(Shared::alone(bytes, etag)),
            Content::Shared(shared) => Some(shared),
        };
        Found::File(Box::new(FileContent {
            meta,
            identity,
            racy,
            message,
            head_len,
            date_at: self.heads.date_at(),
            content,
        }))
    }

    fn meta(&self, path: &[u8], identity: &Identity, etag: String) -> Meta {
        let modified = u64::try_from(identity.modified.0).unwrap_or(0);
        Meta { size: identity.size, content_type: self.types.of(path), file: Some(FileMeta { etag, modified }) }
    }

    #[cfg(test)]
    fn without_openat2(&self) {
        self.openat2.store(false, Ordering::Relaxed);
    }
}

/// Where content comes from.
enum Content {
    Own(Vec<u8>),
    Shared(Shared),
}

/// Strong (RFC 9110 §8.8.1): by content, so that it changes with every byte
/// and servers with the same files agree.
fn content_etag(content: &[u8]) -> String {
    #[allow(deprecated, reason = "SipHash 2-4 with a fixed key: the default hasher may change between toolchains")]
    let mut hasher = core::hash::SipHasher::new();
    hasher.write(content);
    format!("\"{:x}-{:016x}\"", content.len(), hasher.finish())
}

/// Whether the root directory `path` is there, and may be searched.
///
/// # Errors
/// As open(2).
pub fn look_at_root(path: &Path) -> std::io::Result<()> {
    Ok(open_root(path).map(drop)?)
}

fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let _asking = helper::waits::on(path);
    let root = match helper::opened::of(path) {
        Some(root) => root,
        None => rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?,
    };
    // What was opened so may be searched by nobody: every file would be refused.
    rustix::fs::statat(&root, ".", rustix::fs::AtFlags::empty())?;
    Ok(root)
}

/// Reads into `buffer` until it is full or the file ends.
fn fill(fd: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn is_link(directory: impl AsFd, name: &[u8]) -> bool {
    rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests;
