//! From a path to what it leads to, without leaving the root: by the kernel, or
//! name by name.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CString;

/// Links in one path, as the kernel has it (MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// Names on the way of one path with its links: the kernel's limit of 4,096
/// bytes, for each of them.
const NAMES_MAX: usize = 64 << 10;

/// Times that `openat2` is tried again when a rename elsewhere made it uncertain
/// where `..` leads.
const ATTEMPTS: usize = 32;

/// A name, and the folder that it stands in; `None`: the root.
type Entry = (Option<OwnedFd>, CString);

/// The folder of an entry below `root`.
pub(crate) fn of<'a>(folder: Option<&'a OwnedFd>, root: BorrowedFd<'a>) -> BorrowedFd<'a> {
    folder.map_or(root, AsFd::as_fd)
}

/// Opens what `path` leads to by one call.
pub(crate) fn in_root(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// The same without that call.
pub(crate) fn by_names(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (folder, name) = end(root, path)?;
    // A name that became a link meanwhile leads nowhere.
    rustix::fs::openat(of(folder.as_ref(), root), &name, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens what an `O_PATH` descriptor shows: that, and nothing that came to its
/// place since.
pub(crate) fn open_seen(seen: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(shown(seen), flags, Mode::empty())
}

/// What an open descriptor is called.
pub(crate) fn shown(seen: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", seen.as_raw_fd())
}

/// The entry that a path names; the last name is not followed.
pub(crate) fn entry(root: BorrowedFd<'_>, path: &str) -> Result<Entry, Errno> {
    let (folders, last) = match path.trim_end_matches('/').rsplit_once('/') {
        Some((folders, last)) => (folders, last),
        None => ("", path.trim_end_matches('/')),
    };
    if matches!(last, "" | "." | "..") {
        return Err(Errno::INVAL);
    }
    let mut walk = Walk::new(root, &format!("{folders}/."));
    let (folder, _) = walk.end()?;
    Ok((folder, CString::new(last).map_err(|_| Errno::INVAL)?))
}

/// The entry that a path leads to at the end of links. It need not be there; of a
/// folder it is `.` in it.
pub(crate) fn end(root: BorrowedFd<'_>, path: &str) -> Result<Entry, Errno> {
    Walk::new(root, path).end()
}

/// The way from the root to where a path has led so far.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// The folders below the root that stand open: `..` goes back one, whatever
    /// their names mean by now.
    folders: Vec<OwnedFd>,
    /// Names to come, the next one last.
    ahead: Vec<Vec<u8>>,
    links: usize,
    names: usize,
}

impl<'a> Walk<'a> {
    fn new(root: BorrowedFd<'a>, path: &str) -> Self {
        let mut walk = Self { root, folders: Vec::new(), ahead: Vec::new(), links: 0, names: 0 };
        walk.splice(path.as_bytes());
        walk
    }

    /// Puts a path before what is to come.
    fn splice(&mut self, path: &[u8]) {
        if path.starts_with(b"/") {
            self.folders.clear();
        }
        // What ends with a slash is a folder.
        if path.ends_with(b"/") {
            self.ahead.push(b".".to_vec());
        }
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        self.ahead.extend(names.rev().map(<[u8]>::to_vec));
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.root, AsFd::as_fd)
    }

    fn end(&mut self) -> Result<Entry, Errno> {
        while let Some(name) = self.ahead.pop() {
            self.names += 1;
            if self.names > NAMES_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            match name.as_slice() {
                b"." => {}
                b".." => drop(self.folders.pop()),
                _ => {
                    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
                    if let Some(name) = self.step(name)? {
                        return Ok((self.folders.pop(), name));
                    }
                }
            }
        }
        Ok((self.folders.pop(), CString::from(c".")))
    }

    /// Goes on by one name; gives it back if it is the last one and no link.
    fn step(&mut self, name: CString) -> Result<Option<CString>, Errno> {
        let last = self.ahead.is_empty();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(self.here(), &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if last => return Ok(Some(name)),
            other => other?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink => {
                self.links += 1;
                if self.links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
                if target.is_empty() {
                    return Err(Errno::NOENT);
                }
                self.splice(target.as_bytes());
                Ok(None)
            }
            _ if last => Ok(Some(name)),
            FileType::Directory => {
                self.folders.push(found);
                Ok(None)
            }
            _ => Err(Errno::NOTDIR),
        }
    }
}
