//! A file that is replaced as a whole.

use crate::{FileAttributes, status_at};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};

/// What a file is called that is not yet whole.
const NEW: &[u8] = b".nearside-new";

/// The rights of a file that was not there: everybody may read it.
const USUAL: u32 = 0o644;

/// An open folder, and a name in it that is no link, of what is there or not.
#[derive(Debug)]
pub struct NamedFile {
    folder: OwnedFd,
    name: CString,
}

/// What a file says, and what of it is kept when that is replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainFile {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Rights, owner, labels.
    pub attributes: FileAttributes,
}

impl NamedFile {
    pub(crate) const fn new(folder: OwnedFd, name: CString) -> Self {
        Self { folder, name }
    }

    /// What is there; `None`: nothing is.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::InvalidInput`] for what is no plain
    /// file or has several names, [`io::ErrorKind::FileTooLarge`] for one of more
    /// than `limit` bytes.
    pub fn read(&self, limit: u64) -> io::Result<Option<PlainFile>> {
        let wrong = |why: &'static str| io::Error::new(io::ErrorKind::InvalidInput, why);
        let plain = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        match status_at(self.folder.as_fd(), &self.name) {
            Err(Errno::NOENT) => return Ok(None),
            Err(why) => return Err(why.into()),
            Ok(stat) if !plain(stat.st_mode) => return Err(wrong("it is no plain file")),
            Ok(_) => {}
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if !plain(stat.st_mode) {
            return Err(wrong("it is no plain file"));
        }
        if stat.st_nlink > 1 {
            return Err(wrong("it has another name as well (a hard link), which would keep the old text"));
        }
        let attributes = FileAttributes::of(&file, &stat)?;
        let mut bytes = Vec::new();
        File::from(file).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
        }
        Ok(Some(PlainFile { bytes, attributes }))
    }

    /// Puts a file of these bytes in the place of what is there: whoever looks
    /// finds one or the other whole, and the new one is on disk when this
    /// returns. It has these attributes; `None`: those that a new file has.
    ///
    /// # Errors
    /// As the kernel says, or which attribute cannot be kept; what was there is
    /// then there still.
    pub fn replace(&self, bytes: &[u8], attributes: Option<&FileAttributes>) -> io::Result<()> {
        let new = self.unfinished();
        self.sweep()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Until it has its owner nobody else may read it.
        let mode = if attributes.is_some() { 0o600 } else { USUAL };
        let file = rustix::fs::openat(&self.folder, &new, flags, Mode::from_raw_mode(mode))?;
        let written = self.fill(file, bytes, attributes);
        let done = written.and_then(|()| Ok(rustix::fs::renameat(&self.folder, &new, &self.folder, &self.name)?));
        if let Err(why) = done {
            // What is half there must not lie about; that it cannot be removed
            // either changes nothing of the error.
            let _ = rustix::fs::unlinkat(&self.folder, &new, AtFlags::empty());
            return Err(why);
        }
        self.on_disk()
    }

    fn fill(&self, file: OwnedFd, bytes: &[u8], attributes: Option<&FileAttributes>) -> io::Result<()> {
        match attributes {
            Some(attributes) => attributes.give(&file)?,
            // Whatever the mask of this process; file systems without rights refuse.
            None => _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(USUAL)),
        }
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Removes what an interrupted [`Self::replace`] left.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn sweep(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, self.unfinished(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Removes a file, or the folder of this name if it is empty.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn remove(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Err(Errno::ISDIR) => rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?,
            other => other?,
        }
        self.on_disk()
    }

    pub(crate) fn make_folder(&self, mode: u32) -> io::Result<()> {
        rustix::fs::mkdirat(&self.folder, &self.name, Mode::from_raw_mode(mode))?;
        self.on_disk()
    }

    /// Opens it to add to it, made with the rights 0600 if it is not there; a
    /// file of another user's, or with another name, is refused.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::PermissionDenied`].
    pub fn append(&self, owner: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::from_raw_mode(0o600))?;
        let stat = rustix::fs::fstat(&file)?;
        let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !plain || stat.st_uid != owner || stat.st_nlink > 1 || stat.st_mode & 0o022 != 0 {
            let why = "it is no plain file of this user's that no other may write to";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(File::from(file))
    }

    /// Sees to it that the folder's entries are on disk.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn on_disk(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.folder) {
            // A file system that has no such call for folders.
            Err(Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    fn unfinished(&self) -> CString {
        let name = [self.name.to_bytes(), NEW].concat();
        CString::new(name).unwrap_or_default()
    }
}
