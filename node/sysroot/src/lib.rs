//! What lies below a machine's root: its own `/`, or a folder that has another
//! machine's files (a mounted disk, a container's root, a must-gather).
//!
//! ```text
//!   path below the root ─► Sysroot ─► openat2(RESOLVE_IN_ROOT)  ─► file, names, status
//!                                 └─► name by name, where that is refused
//!                                 └─► NamedFile: a folder and a name in it, to be replaced
//! ```
//!
//! Whoever filled such a folder chose its links, pipes, devices and lengths, and
//! may change them while they are read. So a path never leads out of the root:
//! an absolute link and `..` end at it. Nothing but a plain file is opened, and
//! none is waited for; every reading has a limit. The folder is opened once:
//! what its name means later is of no matter.
//!
//! What a hard link leads to cannot be told from what lies there: it can be read
//! by whoever made it, and [`Sysroot::open_to_set`] refuses to write to it.

#![forbid(unsafe_code)]

mod attributes;
mod named;
mod walk;

#[cfg(test)]
mod tests;

pub use attributes::FileAttributes;
pub use named::{NamedFile, PlainFile};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names that are read of a folder, at most: no machine has more processes,
/// interfaces or interrupts.
const NAMES_MAX: usize = 1 << 20;

/// The files of a machine. Paths are relative to its root; one that begins with
/// a slash begins there as well.
#[derive(Clone, Debug)]
pub struct Sysroot {
    path: PathBuf,
    /// Opened when the value was made; or why it could not be.
    folder: Result<Arc<OwnedFd>, Errno>,
    /// Whether openat2 is to be tried: false once the kernel said that it has
    /// none.
    openat2: Arc<AtomicBool>,
}

/// What is at a path, at the end of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A folder.
    Folder,
    /// A plain file.
    File,
    /// A pipe, a socket, a device.
    Other,
}

impl Sysroot {
    /// The machine whose root is the folder at `path`. One that cannot be
    /// opened has no files: each reading says why.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map(Arc::new);
        Self { path: path.to_owned(), folder, openat2: Arc::new(AtomicBool::new(true)) }
    }

    /// The machine that this process is on.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::at(Path::new("/"))
    }

    /// Whether this is the root that this process itself has: its drivers and
    /// services can be asked, too.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The folder, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file below it lies as this process calls it, for messages.
    #[must_use]
    pub fn shown(&self, path: &str) -> PathBuf {
        let mut shown = self.path.clone();
        shown.push(path.trim_start_matches('/'));
        shown
    }

    /// Opens a plain file for reading, and waits for nobody.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::InvalidInput`] for what is no plain
    /// file.
    pub fn open(&self, path: &str) -> io::Result<File> {
        self.open_plain(path, OFlags::RDONLY, |_| Ok(()))
    }

    /// Opens a plain file that is there, for its text to be replaced as one
    /// writes settings of procfs and sysfs: in its place, from its start.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::InvalidInput`] for what is no plain
    /// file, or has another name as well: what is written would be there, too.
    pub fn open_to_set(&self, path: &str) -> io::Result<File> {
        self.open_plain(path, OFlags::WRONLY | OFlags::TRUNC, only_name)
    }

    /// The same, and nothing is changed: whether it could be.
    ///
    /// # Errors
    /// As [`Self::open_to_set`].
    pub fn may_set(&self, path: &str) -> io::Result<()> {
        self.open_plain(path, OFlags::WRONLY, only_name).map(drop)
    }

    /// What a plain file says, up to `limit` bytes; what is behind them is left.
    ///
    /// # Errors
    /// As [`Self::open`], and of reading.
    pub fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The same as text; bytes that are none are U+FFFD.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn text(&self, path: &str, limit: u64) -> io::Result<String> {
        self.read(path, limit).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(why) => String::from_utf8_lossy(why.as_bytes()).into_owned(),
        })
    }

    /// The names in a folder that are UTF-8, ascending; at most 1,048,576.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = self.resolve(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
            if names.len() >= NAMES_MAX {
                break;
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What a link says, which need not be there.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::InvalidInput`] for what is no link.
    pub fn link(&self, path: &str) -> io::Result<String> {
        let (folder, name) = walk::entry(self.folder()?, path)?;
        let text = rustix::fs::readlinkat(walk::of(folder.as_ref(), self.folder()?), &name, Vec::new())?;
        Ok(text.to_string_lossy().into_owned())
    }

    /// What is at a path, if it can be told.
    #[must_use]
    pub fn kind(&self, path: &str) -> Option<FileKind> {
        let stat = self.status(path).ok()?;
        Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => FileKind::Folder,
            FileType::RegularFile => FileKind::File,
            _ => FileKind::Other,
        })
    }

    /// The rights of what is at a path: the lower twelve bits of its mode.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn mode(&self, path: &str) -> io::Result<u32> {
        Ok(self.status(path)?.st_mode & 0o7777)
    }

    /// Whether this process may read and write what is at a path: it is not
    /// opened, which does something to some devices.
    #[must_use]
    pub fn may_use(&self, path: &str) -> bool {
        let wanted = Access::READ_OK | Access::WRITE_OK;
        let seen = self.resolve(path, OFlags::PATH | OFlags::CLOEXEC);
        seen.is_ok_and(|seen| rustix::fs::accessat(CWD, walk::shown(&seen), wanted, AtFlags::EACCESS).is_ok())
    }

    /// A file by its folder and its name, to be replaced or removed. Links are
    /// followed first, the last one as well: so what a link leads to is replaced,
    /// and the link stays.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::NotFound`] if there is no such
    /// folder.
    pub fn named(&self, path: &str) -> io::Result<NamedFile> {
        let root = self.folder()?;
        let (folder, name) = walk::end(root, path)?;
        let folder = walk::of(folder.as_ref(), root);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(NamedFile::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?, name))
    }

    /// Which folders are missing on the way to a path, the outermost first.
    ///
    /// # Errors
    /// As the kernel says of those that are there.
    pub fn missing_folders(&self, path: &str) -> io::Result<Vec<String>> {
        let path = path.trim_matches('/');
        let mut missing = Vec::new();
        for (at, _) in path.match_indices('/') {
            match self.status(&path[..at]) {
                Err(Errno::NOENT) => missing.push(path[..at].to_owned()),
                Err(why) => return Err(why.into()),
                Ok(_) => {}
            }
        }
        Ok(missing)
    }

    /// Makes a folder, whose own must be there, with the rights `mode`; one that
    /// is there stays as it is. It is on disk when this returns.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::AlreadyExists`] where there is
    /// something else.
    pub fn make_folder(&self, path: &str, mode: u32) -> io::Result<()> {
        let folder = self.named(path)?;
        match folder.make_folder(mode) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && self.kind(path) == Some(FileKind::Folder) => {
                Ok(())
            }
            other => other,
        }
    }

    /// Opens a folder as a root of its own, if it is no link, belongs to `owner`
    /// and nobody else may write there.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::PermissionDenied`] if it is another's.
    pub fn private(&self, path: &str, owner: u32) -> io::Result<Self> {
        let root = self.folder()?;
        let (parent, name) = walk::entry(root, path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(walk::of(parent.as_ref(), root), &name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&folder)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_folder || stat.st_uid != owner || stat.st_mode & 0o022 != 0 {
            let path = self.shown(path);
            let why = format!("{} is no folder of this user's that no other may write to", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { path: self.shown(path), folder: Ok(Arc::new(folder)), openat2: Arc::clone(&self.openat2) })
    }

    fn folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.folder.as_ref().map(|folder| folder.as_fd()).map_err(|why| *why)
    }

    /// What is at the end of a path; it is not opened.
    fn status(&self, path: &str) -> Result<Stat, Errno> {
        rustix::fs::fstat(self.resolve(path, OFlags::PATH | OFlags::CLOEXEC)?)
    }

    /// Opens what a path leads to without leaving the root.
    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.folder()?;
        let path = match path.trim_start_matches('/') {
            "" => ".",
            path => path,
        };
        if self.is_this_machine() {
            // There is nothing outside of it.
            return rustix::fs::openat(root, path, flags, Mode::empty());
        }
        if self.openat2.load(Ordering::Relaxed) {
            match walk::in_root(root, path, flags) {
                // Before Linux 5.6; PERM where a sandbox does not know it;
                // AGAIN where names change all the time.
                Err(Errno::NOSYS) => self.openat2.store(false, Ordering::Relaxed),
                Err(Errno::PERM | Errno::AGAIN) => {}
                other => return other,
            }
        }
        walk::by_names(root, path, flags)
    }

    /// Opens a plain file that `fits`: nothing else, for opening alone does
    /// something to a device or a pipe.
    fn open_plain(&self, path: &str, flags: OFlags, fits: fn(&Stat) -> io::Result<()>) -> io::Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let plain = |stat: &Stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => fits(stat),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file")),
        };
        let seen = self.resolve(path, OFlags::PATH | OFlags::CLOEXEC)?;
        let before = rustix::fs::fstat(&seen)?;
        plain(&before)?;
        match walk::open_seen(&seen, flags) {
            Ok(file) => Ok(File::from(file)),
            // Without procfs, or where it is not for this process, the path is
            // taken once more. What may have come there meanwhile is not
            // cut off, which opening it would do.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => {
                let file = self.resolve(path, flags.difference(OFlags::TRUNC))?;
                let now = rustix::fs::fstat(&file)?;
                plain(&now)?;
                if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino) {
                    return Err(Errno::AGAIN.into());
                }
                if flags.contains(OFlags::TRUNC) {
                    rustix::fs::ftruncate(&file, 0)?;
                }
                Ok(File::from(file))
            }
            Err(why) => Err(why.into()),
        }
    }
}

/// Refuses a file that has several names: one may be outside of the root.
fn only_name(stat: &Stat) -> io::Result<()> {
    match stat.st_nlink {
        0 | 1 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it has another name as well (a hard link)")),
    }
}

/// What is at a name of an open folder, and no link followed.
fn status_at(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}
