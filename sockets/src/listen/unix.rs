//! Unix sockets, and their files.

use super::{BindError, failed};
use crate::config::ListenOptions;
use crate::endpoint::Endpoint;
use crate::endpoint::unix_address;
use rustix::fs::{Mode, OFlags, chmod, fchmod, fstat, lstat, open as open_file};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::os::fd::{AsRawFd, OwnedFd};
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

    /// Gives the file what of its mode the umask has taken. Of the very file,
    /// whatever its name leads to by now: a link there would have the mode of
    /// another file changed.
    fn widen(&self, mode: u32) -> Result<(), Errno> {
        let fd = open_file(&self.path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&fd)?;
        if Some((stat.st_dev, stat.st_ino)) != self.made {
            return Err(Errno::STALE);
        }
        if stat.st_mode & 0o7777 == mode {
            return Ok(());
        }
        chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::from_raw_mode(mode))
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
    let fd = socket(options.unix_mode).map_err(step("socket"))?;
    match bind(&fd, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) if is_stale(path) => {
            std::fs::remove_file(path).map_err(|e| BindError::System(at(), "remove the stale file", e))?;
            bind(&fd, &address).map_err(step("bind"))?;
        }
        Err(e) => return Err(step("bind")(e)),
    }
    let file = if is_abstract(path) { None } else { File::of(path) };
    if let (Some(mode), Some(file)) = (options.unix_mode, &file) {
        file.widen(mode).map_err(step("chmod"))?;
    }
    listen(&fd, i32::try_from(options.backlog).unwrap_or(i32::MAX)).map_err(step("listen"))?;
    Ok((fd, file))
}

/// A socket whose file is made with what the umask leaves of `mode`
/// (`unix_bind_bsd()` in net/unix/af_unix.c): at no time with more.
fn socket(mode: Option<u32>) -> Result<OwnedFd, Errno> {
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    if let Some(mode) = mode {
        fchmod(&fd, Mode::from_raw_mode(mode))?;
    }
    Ok(fd)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    /// Whatever the umask: who may not connect in the end could not before.
    #[test]
    fn a_socket_never_has_more_than_its_mode() {
        let path = std::env::temp_dir().join(format!("nearside-unix-mode-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        for allowed in [0o600, 0o660, 0o700, 0o777, 0] {
            let fd = socket(Some(allowed)).expect("a socket");
            bind(&fd, &unix_address(&path).expect("an address")).expect("bound");
            assert_eq!(mode(&path) & !allowed, 0, "{allowed:o}");
            let file = File::of(&path).expect("a file");
            file.widen(allowed).expect("ours");
            assert_eq!(mode(&path), allowed);
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_socket_has_no_other_file_changed() {
        let path = std::env::temp_dir().join(format!("nearside-unix-link-{}", std::process::id()));
        let victim = path.with_extension("victim");
        let _ = std::fs::remove_file(&path);
        std::fs::write(&victim, "precious").expect("written");
        std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o600)).expect("a mode");
        let fd = socket(Some(0o666)).expect("a socket");
        bind(&fd, &unix_address(&path).expect("an address")).expect("bound");
        let file = File::of(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        symlink(&victim, &path).expect("a link");
        assert_eq!(file.widen(0o666), Err(Errno::STALE));
        assert_eq!(mode(&victim), 0o600);
        drop(file);
        assert!(path.is_symlink(), "not ours to remove");
        for left in [path, victim] {
            std::fs::remove_file(left).expect("removed");
        }
    }
}
