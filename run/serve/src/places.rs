//! What is opened with rights that the process which serves has not, for it: so
//! that nobody without those rights can have anything else opened.

use super::confine::Identity;
use crate::plan::ServePlan;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use say::Failure;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Links followed on one path, at most (as the kernel's MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// Names of a root's that are looked at, at most.
const SAMPLE_MAX: usize = 1_000;

/// Names that are told.
const TOLD_MAX: usize = 3;

/// Opens the access log for a process that becomes `identity`. Where others than
/// root could have put something else in its place, it is opened with that
/// user's rights, and no more: a link would lead root to any file of theirs. A stream
/// of this process is not opened a second time, which nobody may do with a socket or with
/// another's pipe: it is the same one under another number.
///
/// # Errors
/// As open(2).
pub fn open_log(path: &Path, identity: Option<&Identity>) -> io::Result<OwnedFd> {
    let _asking = helper::waits::on(path);
    if let Some(stream) = own_stream(path) {
        return stream.try_clone_to_owned();
    }
    match identity {
        Some(user) if !is_roots_own(path) => as_user(user, || append(path)).or_else(|why| match why.kind() {
            // Where a group may write to /var/log, and the user not to the folder in
            // it: what is not there is made for him, and no link followed.
            io::ErrorKind::PermissionDenied => create_for(user, path).map_err(|_| why),
            _ => Err(why),
        }),
        _ => append(path),
    }
}

/// Whether [`open_log`] would open it: nothing is made.
///
/// # Errors
/// As open(2).
pub fn can_open_log(path: &Path, identity: Option<&Identity>) -> io::Result<()> {
    let _asking = helper::waits::on(path);
    if own_stream(path).is_some() {
        return Ok(());
    }
    match identity {
        Some(user) if !is_roots_own(path) => as_user(user, || can_append(path)).or_else(|why| {
            let is_new = std::fs::symlink_metadata(path).is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
            // What is not there is made for him.
            if why.kind() == io::ErrorKind::PermissionDenied && is_new { can_append(path) } else { Err(why) }
        }),
        _ => can_append(path),
    }
}

/// The stream of this process that `path` is, or leads to by way of links: as images for
/// containers have them in the places of logs.
fn own_stream(path: &Path) -> Option<BorrowedFd<'static>> {
    const FOLDERS: [&str; 2] = ["/proc/self/fd", "/dev/fd"];
    let mut at = std::path::absolute(path).ok()?;
    for _ in 0..LINKS_MAX {
        let (folder, name) = (at.parent()?, at.file_name()?);
        if FOLDERS.iter().any(|own| folder == Path::new(own)) {
            return match name.to_str()? {
                "1" => Some(rustix::stdio::stdout()),
                "2" => Some(rustix::stdio::stderr()),
                _ => None,
            };
        }
        let target = std::fs::read_link(&at).ok()?;
        at = folder.join(target);
    }
    None
}

/// Whether a file could be opened to be appended to, or made, with the rights of this
/// thread.
fn can_append(path: &Path) -> io::Result<()> {
    let access = |path: &Path, what: Access| rustix::fs::accessat(CWD, path, what, AtFlags::EACCESS);
    match access(path, Access::WRITE_OK) {
        // Whoever may write to a folder cannot write it.
        Ok(()) if path.is_dir() => Err(Errno::ISDIR.into()),
        Err(Errno::NOENT) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
        }
        asked => Ok(asked?),
    }
}

/// Has standard error lead to the file that `plan` names, if it does, as that is
/// now. A process that may not open it goes on with the one before.
pub fn reopen_error_log(plan: &ServePlan, identity: Option<&Identity>) {
    let Some(path) = &plan.error_log.file else { return };
    let opened = helper::opened::of(path).map_or_else(|| open_log(path, identity), Ok);
    let led = opened.and_then(|file| {
        // Another call than dup2(2), which is given up.
        // SAFETY: both are numbers of descriptors, of which the second is standard
        // error's whatever it leads to.
        let led = unsafe { libc::dup3(file.as_raw_fd(), libc::STDERR_FILENO, 0) };
        if led < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    });
    if let Err(why) = led {
        say::warning(format_args!("cannot open {} again: {why}", path.display()));
    }
}

/// Opened to be appended to, and read where it is a file: whether it ends within a
/// line is looked at. Never waits for whoever reads a pipe.
fn append(path: &Path) -> io::Result<OwnedFd> {
    let other = std::fs::metadata(path).is_ok_and(|data| !data.is_file());
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = |read: bool| {
        let mut options = File::options();
        options.create(true).append(true).read(read).custom_flags(flags.bits().cast_signed());
        options.open(path)
    };
    let file = match open(!other) {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => open(false)?,
        opened => opened?,
    };
    // Written to by a thread that may wait.
    let set = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, set - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Makes a new file that is the user's; nothing that is there is opened.
fn create_for(user: &Identity, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let made = rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)?;
    let (uid, gid) = (rustix::process::Uid::from_raw(user.uid), rustix::process::Gid::from_raw(user.gid));
    rustix::fs::fchown(&made, Some(uid), Some(gid))?;
    Ok(made)
}

/// Opens the root directory `path`.
///
/// # Errors
/// As open(2).
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let _asking = helper::waits::on(path);
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a file with settings. A pipe without a writer is not waited for.
///
/// # Errors
/// As open(2).
pub fn open_settings(path: &Path) -> io::Result<File> {
    let _asking = helper::waits::on(path);
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Whether root alone can say what `path` leads to: each folder on the way, by
/// way of links too, is root's, and nobody else may write to it.
fn is_roots_own(path: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let mut left: VecDeque<OsString> = names(&path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        if !is_roots_folder(&at, &next) {
            return false;
        }
        match std::fs::symlink_metadata(&next) {
            Ok(data) if data.is_symlink() => {
                links += 1;
                let Ok(target) = std::fs::read_link(&next) else { return false };
                if links > LINKS_MAX {
                    return false;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for name in names(&target).into_iter().rev() {
                    left.push_front(name);
                }
            }
            // The last may be made; none that is missing has anything below it.
            _ => at = next,
        }
    }
    true
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

/// Whether root alone can say what `entry` of `folder` is. Where everybody may
/// make files and nobody may move those of others (sticky), what is root's stays; a file
/// of root's with a second name may have been brought there by others (link(2)).
fn is_roots_folder(folder: &Path, entry: &Path) -> bool {
    let Ok(data) = std::fs::metadata(folder) else { return false };
    let mode = Mode::from_raw_mode(data.mode());
    let by_group = mode.contains(Mode::WGRP) && data.gid() != 0;
    let shared = by_group || mode.contains(Mode::WOTH);
    let is_named_once = |entry: &std::fs::Metadata| entry.is_dir() || entry.nlink() == 1;
    let stays = || std::fs::symlink_metadata(entry).is_ok_and(|entry| entry.uid() == 0 && is_named_once(&entry));
    data.uid() == 0 && (!shared || mode.contains(Mode::SVTX) && stays())
}

/// Does something with a user's rights, on a thread that has no others.
fn as_user<T: Send>(user: &Identity, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let acted = scope.spawn(|| {
            use rustix::process::{Gid, Uid};
            let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            rustix::thread::set_thread_groups(&groups)?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
            act()
        });
        acted.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })
}

/// Some of what is in a root, by name, for somebody to try to read it.
#[derive(Debug)]
pub struct Sample {
    path: PathBuf,
    root: OwnedFd,
    names: Vec<OsString>,
}

impl Sample {
    /// Of the root at `path`, with the rights that there are.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let root =
            open_root(path).map_err(|why| format!("cannot open the root directory {}: {why}", path.display()))?;
        let _asking = helper::waits::on(path);
        let entries = std::fs::read_dir(path).into_iter().flatten().take(SAMPLE_MAX).flatten();
        let kept = |entry: &std::fs::DirEntry| {
            entry.file_type().is_ok_and(|kind| !kind.is_symlink() && !kind.is_socket() && !kind.is_fifo())
        };
        let names = entries.filter(kept).map(|entry| entry.file_name()).collect();
        Ok(Self { path: path.to_owned(), root, names })
    }

    /// Says what of it cannot be read with the rights that there are by now, which
    /// are those of `user`.
    pub fn tell(&self, user: &str) {
        let (root, path) = (&self.root, self.path.display());
        let refused = |name: &Path, access: Access| {
            let told = rustix::fs::accessat(root, name, access, AtFlags::EACCESS);
            matches!(told, Err(Errno::ACCESS | Errno::PERM))
        };
        if refused(Path::new("."), Access::EXEC_OK) {
            return say::warning(format_args!("{user} may not look into {path}: every file there is refused (403)"));
        }
        let unreadable: Vec<String> = self
            .names
            .iter()
            .filter(|name| refused(Path::new(name), Access::READ_OK))
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if !unreadable.is_empty() {
            let (count, all) = (unreadable.len(), self.names.len());
            let told = unreadable.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = if count > TOLD_MAX { ", …" } else { "" };
            say::warning(format_args!("{user} may not read {count} of {all} names in {path}: {told}{more}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn nobody() -> Option<Identity> {
        let root = rustix::process::geteuid().is_root();
        if !root {
            println!("left out: this user is not root");
        }
        root.then(|| Identity::find("4321:4321").expect("numbers"))
    }

    #[test]
    fn a_link_to_a_stream_of_ours_is_that_stream() {
        let folder = Folder::new("places-stream");
        let of = |target: &str| {
            let link = folder.0.join("link");
            let _ = std::fs::remove_file(&link);
            symlink(target, &link).expect("a link");
            symlink("link", folder.0.join("again")).expect("a link");
            let found = own_stream(&folder.0.join("again")).map(|stream| stream.as_raw_fd());
            std::fs::remove_file(folder.0.join("again")).expect("made above");
            found
        };
        assert_eq!((of("/dev/stdout"), of("/dev/stderr")), (Some(1), Some(2)));
        assert_eq!((of("/proc/self/fd/1"), of("/dev/fd/2")), (Some(1), Some(2)));
        assert_eq!((of("/proc/self/fd/0"), of("/dev/null"), of("again"), of("/nowhere")), (None, None, None, None));
        assert!(own_stream(Path::new("/dev/stdout")).is_some() && can_open_log(Path::new("/dev/stderr"), None).is_ok());
    }

    #[test]
    fn a_log_where_others_write_is_opened_with_their_rights() {
        let Some(user) = nobody() else { return };
        let folder = Folder::new("places-log");
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).expect("set");
        let theirs = folder.0.join("theirs");
        std::fs::create_dir(&theirs).expect("made");
        chown(&theirs, Some(user.uid), Some(user.gid)).expect("given");
        let secret = folder.0.join("secret");
        std::fs::write(&secret, "precious").expect("written");
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("set");
        // As whoever has the folder would put it there.
        symlink(&secret, theirs.join("link.log")).expect("a link");
        symlink("../secret", theirs.join("other.log")).expect("a link");
        for name in ["link.log", "other.log"] {
            let refused = open_log(&theirs.join(name), Some(&user)).expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(!is_roots_own(&theirs.join(name)));
        }
        // A link of root's into a folder of theirs is theirs as well.
        symlink(theirs.join("link.log"), folder.0.join("to-theirs")).expect("a link");
        assert!(open_log(&folder.0.join("to-theirs"), Some(&user)).is_err());
        let plain = theirs.join("plain.log");
        drop(open_log(&plain, Some(&user)).expect("made"));
        assert_eq!(std::fs::metadata(&plain).expect("there").uid(), user.uid);
        assert_eq!(std::fs::read_to_string(&secret).expect("read"), "precious");
    }

    /// As where a group may write to /var/log.
    #[test]
    fn a_log_that_its_user_may_not_make_is_made_for_him() {
        let Some(user) = nobody() else { return };
        let folder = Folder::new("places-group");
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o775)).expect("set");
        chown(&folder.0, Some(0), Some(4)).expect("given");
        let logs = folder.0.join("logs");
        std::fs::create_dir(&logs).expect("made");
        std::fs::set_permissions(&logs, std::fs::Permissions::from_mode(0o755)).expect("set");
        let secret = folder.0.join("secret");
        std::fs::write(&secret, "precious").expect("written");
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("set");
        symlink(&secret, logs.join("link.log")).expect("a link");
        symlink(&logs, folder.0.join("other")).expect("a link");
        for path in [&secret, &logs.join("link.log"), &folder.0.join("other/new.log")] {
            let refused = open_log(path, Some(&user)).expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{}", path.display());
        }
        let made = logs.join("new.log");
        for _ in 0..2 {
            drop(open_log(&made, Some(&user)).expect("made, and opened again"));
        }
        assert_eq!(std::fs::metadata(&made).expect("there").uid(), user.uid);
        assert_eq!(std::fs::read_to_string(&secret).expect("read"), "precious");
    }

    /// Where protected_hardlinks of proc(5) is off, anybody gives any file a second name.
    #[test]
    fn a_file_with_a_second_name_is_not_root_s_own_where_others_make_files() {
        let Some(user) = nobody() else { return };
        let folder = Folder::new("places-links");
        let shared = folder.0.join("shared");
        std::fs::create_dir(&shared).expect("made");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).expect("set");
        let (secret, log) = (folder.0.join("secret"), shared.join("log"));
        std::fs::write(&secret, "precious").expect("written");
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("set");
        std::fs::write(&log, "").expect("written");
        assert!(is_roots_own(&log));
        std::fs::remove_file(&log).expect("removed");
        std::fs::hard_link(&secret, &log).expect("a second name");
        assert!(!is_roots_own(&log));
        let refused = open_log(&log, Some(&user)).expect_err("refused");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read_to_string(&secret).expect("read"), "precious");
    }

    #[test]
    fn folders_are_root_s_own_or_not() {
        if nobody().is_none() {
            return;
        }
        assert!(is_roots_own(Path::new("/etc/no-such-log")) && is_roots_own(Path::new("/etc/../etc/passwd")));
        assert!(is_roots_own(Path::new("/dev/null")));
        let folder = Folder::new("places-own");
        // In a folder where everybody writes: what is root's stays, all else may be others'.
        assert!(is_roots_own(&folder.0.join("access.log")));
        assert!(!is_roots_own(&std::env::temp_dir().join("nearside-no-such.log")));
    }

    #[test]
    fn a_log_is_appended_to_and_read() {
        let folder = Folder::new("places-append");
        let path = folder.0.join("log");
        std::fs::write(&path, "one\n").expect("written");
        let mut file = File::from(open_log(&path, None).expect("opened"));
        io::Write::write_all(&mut file, b"two\n").expect("appended");
        let mut text = String::new();
        File::open(&path).expect("there").read_to_string(&mut text).expect("read");
        assert_eq!(text, "one\ntwo\n");
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 7).expect("it can be read");
        let pipe = folder.0.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).expect("made");
        assert!(open_log(&pipe, None).is_err(), "nobody reads it, and nobody waits");
    }
}
