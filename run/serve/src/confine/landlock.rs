//! Which files a process may reach from now on (landlock(7)), and which other processes:
//! a ruleset that each thread takes upon itself, and none can take off.
//!
//! The crate of this name restricts the thread that calls it, with allocations
//! and errors of its own; here the ruleset is made once, and each thread takes it
//! by one system call within a signal handler.

use core::ffi::c_long;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// `LANDLOCK_CREATE_RULESET_VERSION`: asks which version the kernel has.
const VERSION: u32 = 1;

/// `LANDLOCK_CREATE_RULESET_ERRATA`: asks which faults of that version are mended.
const ERRATA: u32 = 1 << 1;

/// The second of version 6: signals between threads of one process that took rulesets
/// upon themselves one by one, as ours do, were refused.
const THREADS_SIGNAL: u32 = 1 << 1;

/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL`, since 6 (Linux 6.12).
const ABSTRACT_SOCKETS: u64 = 1 << 0;
const SIGNALS: u64 = 1 << 1;

/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: u32 = 1;

/// `LANDLOCK_ACCESS_FS_READ_FILE`.
const READ_FILE: u64 = 1 << 2;

/// `LANDLOCK_ACCESS_FS_READ_DIR`.
const READ_DIR: u64 = 1 << 3;

/// What temporary files take: `LANDLOCK_ACCESS_FS_WRITE_FILE`, `REMOVE_FILE`,
/// `MAKE_DIR` and `MAKE_REG`, beside reading.
const TEMPORARY: u64 = READ_FILE | 1 << 1 | 1 << 5 | 1 << 7 | 1 << 8;

/// Everything that is known of the file system, by version: from making and
/// removing of files (1) to `REFER` (2), `TRUNCATE` (3) and `IOCTL_DEV` (5).
const fn files(version: u32) -> u64 {
    match version {
        0 => 0,
        1 => 0x1fff,
        2 => 0x3fff,
        3 | 4 => 0x7fff,
        _ => 0xffff,
    }
}

/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`, since 4.
const fn network(version: u32) -> u64 {
    if version >= 4 { 0b11 } else { 0 }
}

/// `struct landlock_ruleset_attr`, as far as it is used.
#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
    scoped: u64,
}

impl Handled {
    /// As much of it as this version knows, in bytes.
    const fn len(version: u32) -> usize {
        match version {
            0..=3 => core::mem::offset_of!(Self, network),
            4 | 5 => core::mem::offset_of!(Self, scoped),
            _ => size_of::<Self>(),
        }
    }
}

/// What a process may do beside reading what it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowed {
    /// Tell what is in a folder.
    pub lists: bool,
    /// Connect over TCP: to upstreams.
    pub connects: bool,
    /// Connect to abstract Unix sockets of processes that have more rights.
    pub abstract_sockets: bool,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    folder: i32,
}

/// The kernel's version of Landlock.
///
/// # Errors
/// If it has none, or none is in force: why.
pub fn version() -> Result<u32, String> {
    // SAFETY: with this flag no attributes are read.
    let told = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, core::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(told).map_err(|_| {
        let why = io::Error::last_os_error();
        match why.raw_os_error() {
            Some(libc::ENOSYS) => "this kernel has no Landlock (Linux 5.13)".to_owned(),
            Some(libc::EOPNOTSUPP) => "Landlock is not in force (lsm= of the kernel's command line)".to_owned(),
            _ => format!("Landlock: {why}"),
        }
    })
}

/// A ruleset under which files below some folders can be read, and nothing else
/// can be done with any file.
#[derive(Debug)]
pub struct Ruleset(OwnedFd);

impl Ruleset {
    /// For reading files below `folders`, and, if that is allowed, what is in these; one
    /// that is not there is left out. No TCP is spoken but by sockets that are there,
    /// unless it connects to upstreams. No signal goes to another process, and no abstract
    /// socket of one is reached, as far as the kernel has that.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn reading<'a>(folders: impl IntoIterator<Item = &'a Path>, allowed: Allowed) -> Result<Self, String> {
        let Allowed { lists, connects, abstract_sockets } = allowed;
        let version = version()?;
        let handled = Handled {
            files: files(version),
            network: if connects { 0 } else { network(version) },
            scoped: scopes(version, errata(), abstract_sockets),
        };
        let len = Handled::len(version);
        // SAFETY: the attributes are valid for the length, and read only.
        let made = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, len, 0_u32) };
        let ruleset = Self(owned(made).map_err(|why| format!("Landlock: {why}"))?);
        for folder in folders {
            ruleset.allow(folder, if lists { READ_FILE | READ_DIR } else { READ_FILE })?;
        }
        Ok(ruleset)
    }

    /// Below `folders` files can be made, written and removed, too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn writing<'a>(&self, folders: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
        folders.into_iter().try_for_each(|folder| self.allow(folder, TEMPORARY))
    }

    fn allow(&self, folder: &Path, allowed: u64) -> Result<(), String> {
        let _asking = helper::waits::on(folder);
        let folder = match rustix::fs::open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(folder) => folder,
            // Without its rule nothing below it could be read, though it is there.
            Err(why @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(format!("Landlock: cannot open {}: {why}", folder.display()));
            }
            Err(_) => return Ok(()),
        };
        let rule = Beneath { allowed, folder: folder.as_raw_fd() };
        // SAFETY: the rule is valid, and read only; both descriptors are open.
        let added = unsafe {
            let rule = &raw const rule;
            libc::syscall(libc::SYS_landlock_add_rule, self.0.as_raw_fd(), PATH_BENEATH, rule, 0_u32)
        };
        if added < 0 { Err(format!("Landlock: {}", io::Error::last_os_error())) } else { Ok(()) }
    }

    /// For [`restrict`].
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// What is mended of the kernel's version; nothing where it does not tell.
fn errata() -> u32 {
    // SAFETY: with this flag no attributes are read.
    let told = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, core::ptr::null::<u8>(), 0_usize, ERRATA) };
    u32::try_from(told).unwrap_or(0)
}

/// What is kept within the process.
const fn scopes(version: u32, errata: u32, abstract_sockets: bool) -> u64 {
    if version < 6 {
        return 0;
    }
    let signals = if errata & THREADS_SIGNAL != 0 { SIGNALS } else { 0 };
    signals | if abstract_sockets { 0 } else { ABSTRACT_SOCKETS }
}

/// What of it this kernel does not keep within the process, for people: a signal's end is
/// seen to by the filter of system calls, too.
pub fn open_scopes() -> Option<&'static str> {
    let version = version().ok()?;
    (version < 6).then_some("this kernel keeps abstract sockets of others open to the process (Landlock 6, Linux 6.12)")
}

/// Has the calling thread take the ruleset with this descriptor upon itself, and
/// all threads that it starts. Async-signal-safe.
///
/// # Errors
/// The system's number.
pub fn restrict(ruleset: RawFd) -> Result<(), i32> {
    // SAFETY: takes numbers only.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) };
    super::checked(done)
}

fn owned(number: c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(number) {
        // SAFETY: the kernel just made it, for us.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scratch::Folder;
    use super::*;
    use std::fs;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_what_is_below_the_folders_can_be_read_and_nothing_written() {
        let version = match version() {
            Ok(version) => version,
            Err(why) => return println!("left out: {why}"),
        };
        let folder = Folder::new("landlock");
        let (inside, outside) = (folder.0.join("inside"), folder.0.join("outside"));
        for folder in [&inside, &outside] {
            fs::create_dir_all(folder.join("deep")).expect("made");
            fs::write(folder.join("deep/file"), "text").expect("written");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = listener.local_addr().expect("an address");
        let ruleset = Ruleset::reading([&*inside, Path::new("/nonexistent")], Allowed::default());
        let ruleset = ruleset.expect("made");
        let temporary = folder.0.join("temporary");
        fs::create_dir_all(&temporary).expect("made");
        ruleset.writing([&*temporary]).expect("allowed");
        std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).expect("taken");
            restrict(ruleset.number()).expect("restricted");
            assert_eq!(fs::read_to_string(inside.join("deep/file")).expect("read"), "text");
            fs::create_dir_all(temporary.join("1/23")).expect("made");
            fs::write(temporary.join("1/23/file"), "body").expect("written");
            fs::remove_file(temporary.join("1/23/file")).expect("removed");
            for refused in [
                fs::remove_dir(temporary.join("1/23")),
                fs::read_to_string(outside.join("deep/file")).map(drop),
                fs::write(inside.join("deep/file"), "other"),
                fs::write(inside.join("new"), "other"),
                fs::remove_file(inside.join("deep/file")),
                fs::read_dir(&inside).map(drop),
                std::os::unix::fs::symlink("/etc", inside.join("link")),
            ] {
                assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::PermissionDenied);
            }
            if version >= 4 {
                let refused = [TcpListener::bind("127.0.0.1:0").map(drop), TcpStream::connect(at).map(drop)];
                let refused = refused.map(|refused| refused.expect_err("refused").kind());
                assert_eq!(refused, [io::ErrorKind::PermissionDenied; 2]);
            }
        })
        .join()
        .expect("as told");
        drop(listener);
    }

    #[test]
    fn what_is_kept_within_goes_by_version_and_errata() {
        for (version, errata, open, scoped) in [
            (5, u32::MAX, false, 0),
            (6, 0, false, 0b01),
            (6, 0b10, false, 0b11),
            (7, 0b10, true, 0b10),
            (6, 0b01, true, 0),
        ] {
            assert_eq!(scopes(version, errata, open), scoped, "{version} {errata} {open}");
        }
        assert_eq!([1, 4, 6, 7].map(Handled::len), [8, 16, 24, 24]);
    }

    /// Each thread takes the ruleset by itself, as when the process gives its rights up.
    #[test]
    fn other_processes_are_out_of_reach_and_threads_are_not() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
        if version().map_or(0, |version| version) < 6 {
            return println!("left out: it takes Landlock 6 (Linux 6.12)");
        }
        let name = format!("nearside-scope-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let _listens = UnixListener::bind_addr(&address).expect("bound");
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().expect("started");
        let theirs = other.id().cast_signed();
        let send = |process: i32, thread: i32| {
            // SAFETY: takes numbers only, and no signal is sent.
            super::super::checked(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) })
        };
        let (allowing, denying) = (Allowed { abstract_sockets: true, ..Allowed::default() }, Allowed::default());
        for (allowed, reached) in [(allowing, true), (denying, false)] {
            let ruleset = Ruleset::reading([Path::new("/nonexistent")], allowed).expect("made");
            let (tell, told) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let number = ruleset.number();
            let waits = std::thread::spawn(move || {
                rustix::thread::set_no_new_privs(true).expect("taken");
                restrict(number).expect("restricted");
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("told");
                let _ = ended.recv();
            });
            let (neighbour, address) = (told.recv().expect("a thread"), address.clone());
            std::thread::spawn(move || {
                rustix::thread::set_no_new_privs(true).expect("taken");
                restrict(number).expect("restricted");
                assert_eq!(UnixStream::connect_addr(&address).is_ok(), reached);
                if errata() & THREADS_SIGNAL != 0 {
                    assert_eq!(send(theirs, theirs), Err(libc::EPERM));
                    let own = std::process::id().cast_signed();
                    assert_eq!(send(own, neighbour), Ok(()), "a thread of this process is called away from its wait");
                }
            })
            .join()
            .expect("as told");
            drop(end);
            waits.join().expect("as told");
        }
        other.kill().expect("told");
        other.wait().expect("ended");
    }
}
