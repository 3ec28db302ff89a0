//! Unix sockets, and their files.

use super::{BindError, failed};
use crate::config::{Endpoint, ListenOptions};
use crate::connect::unix_address;
use rustix::fs::{Mode, chmod, lstat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The file of a Unix socket of ours: removed when this is dropped, if it is
/// still the one that we made.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// Device and inode; `None` once it is somebody else's.
    made: Option<(u64, u64)>,
}

impl File {
    /// The file that stands at `path` now.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let made = identity(path)?;
        Some(Self { path: path.to_owned(), made: Some(made) })
    }

    /// It stays.
    pub(super) fn keep(mut self) {
        self.made = None;
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.made.is_some() && identity(&self.path) == self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on a path, or on an abstract name.
pub(super) fn open(path: &Path, options: &ListenOptions) -> Result<(OwnedFd, Option<File>), BindError> {
    let at = || Endpoint::Unix(path.to_owned());
    let step = |step| move |e: Errno| failed(Endpoint::Unix(path.to_owned()), step, e);
    let address = unix_address(path).map_err(step("address"))?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None).map_err(step("socket"))?;
    match bind(&fd, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) if is_stale(path) => {
            std::fs::remove_file(path).map_err(|e| BindError::System(at(), "remove the stale file", e))?;
            bind(&fd, &address).map_err(step("bind"))?;
        }
        Err(e) => return Err(step("bind")(e)),
    }
    let file = if is_abstract(path) { None } else { File::of(path) };
    if let (Some(mode), Some(_)) = (options.unix_mode, &file) {
        chmod(path, Mode::from_raw_mode(mode)).map_err(step("chmod"))?;
    }
    listen(&fd, i32::try_from(options.backlog).unwrap_or(i32::MAX)).map_err(step("listen"))?;
    Ok((fd, file))
}

fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().first() == Some(&b'@')
}

/// Whether `path` is a socket on which nobody answers: what a server that was
/// killed leaves behind.
fn is_stale(path: &Path) -> bool {
    let is_socket = lstat(path).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_socket());
    let tried = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
        .and_then(|fd| connect(&fd, &unix_address(path)?));
    is_socket && tried == Err(Errno::CONNREFUSED)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    lstat(path).ok().map(|stat| (stat.st_dev, stat.st_ino))
}
