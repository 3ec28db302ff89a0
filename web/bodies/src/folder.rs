//! Folders of temporary files.

use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names of files that are tried, at most: others are taken by whoever shares the
/// folder.
const NAMES_MAX: u32 = 64;

/// Only its owner does anything in it.
const FOLDER_MODE: Mode = Mode::RWXU;

/// The number of the file made last, by whichever silo: they are in one folder.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A folder that temporary files are in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TempFolderRules {
    /// Where it is.
    pub path: PathBuf,
    /// The lengths of names of folders within folders in it, at most three; 0 is
    /// none.
    pub levels: [u8; 3],
}

/// A folder that cannot be made or used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderError {
    /// What failed: `mkdir()`.
    pub call: &'static str,
    /// With what.
    pub path: PathBuf,
    /// Why.
    pub why: Errno,
}

impl core::fmt::Display for FolderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let why = std::io::Error::from(self.why).to_string();
        // As the system says it, without the number behind it.
        let why = why.split(" (os error").next().unwrap_or_default();
        write!(f, "{} \"{}\" failed ({}: {why})", self.call, self.path.display(), self.why.raw_os_error())
    }
}

impl std::error::Error for FolderError {}

impl TempFolderRules {
    /// Makes the folder, if it is not there, and has it be `owner`'s, if it is
    /// another's: a user and a group. One that is there is given away only where root
    /// alone could have put it there, for others might have put a link to another folder
    /// in its place.
    ///
    /// # Errors
    /// What failed.
    pub fn make(&self, owner: Option<(u32, u32)>) -> Result<(), FolderError> {
        let _asking = helper::waits::on(&self.path);
        let failed = |call| move |why| FolderError { call, path: self.path.clone(), why };
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let within = self.path.parent().filter(|within| !within.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let within = rustix::fs::open(within, flags, Mode::empty()).map_err(failed("mkdir()"))?;
        let is_new = match rustix::fs::mkdirat(&within, name, FOLDER_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(why) => return Err(failed("mkdir()")(why)),
        };
        let opened = match rustix::fs::openat(&within, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            // A link: whoever made it has seen to the rest.
            Err(Errno::NOTDIR | Errno::LOOP) => return open(&self.path).map(drop).map_err(failed("open()")),
            opened => opened.map_err(failed("open()"))?,
        };
        let stat = rustix::fs::fstat(&opened).map_err(failed("stat()"))?;
        let Some((user, group)) = owner.filter(|(user, _)| stat.st_uid != *user) else { return Ok(()) };
        if !is_new && !is_roots_alone(&rustix::fs::fstat(&within).map_err(failed("stat()"))?) {
            return Err(failed("chown()")(Errno::PERM));
        }
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        let chowned = rustix::fs::chownat(&opened, "", Some(user), Some(group), AtFlags::EMPTY_PATH);
        chowned.map_err(failed("chown()"))
    }

    /// Whether [`Self::make`] would refuse to give a folder that is there to this user, as far as
    /// can be told without doing it.
    ///
    /// # Errors
    /// Why it would.
    pub fn can_be_given(&self, user: u32) -> Result<(), FolderError> {
        let _asking = helper::waits::on(&self.path);
        let within = self.path.parent().filter(|within| !within.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (Ok(stat), Ok(around)) = (rustix::fs::lstat(&self.path), rustix::fs::stat(within)) else { return Ok(()) };
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_folder && stat.st_uid != user && !is_roots_alone(&around) {
            return Err(FolderError { call: "chown()", path: self.path.clone(), why: Errno::PERM });
        }
        Ok(())
    }

    /// Opens the folder.
    ///
    /// # Errors
    /// What failed.
    pub fn open(&self) -> Result<OwnedFd, FolderError> {
        let _asking = helper::waits::on(&self.path);
        open(&self.path).map_err(|why| FolderError { call: "open()", path: self.path.clone(), why })
    }
}

/// Whether nobody but root can put something else into a folder's places.
fn is_roots_alone(folder: &Stat) -> bool {
    folder.st_uid == 0 && folder.st_mode & (Mode::WGRP | Mode::WOTH).as_raw_mode() == 0
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    match helper::opened::of(path) {
        Some(opened) => Ok(opened),
        None => rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()),
    }
}

/// A folder, open.
#[derive(Debug)]
pub struct TempFolder {
    rules: TempFolderRules,
    opened: OwnedFd,
}

/// A file that was made in it: its descriptor, and its name below the folder.
pub type Made = (OwnedFd, Box<[u8]>);

impl TempFolder {
    pub const fn new(rules: TempFolderRules, opened: OwnedFd) -> Self {
        Self { rules, opened }
    }

    /// The path of what has this name in it.
    pub fn path(&self, name: &[u8]) -> Vec<u8> {
        [self.rules.path.as_os_str().as_bytes(), b"/", name].concat()
    }

    /// Makes a file; without a name, unless it `keeps` it.
    pub fn create(&self, keeps: bool) -> Result<Made, (&'static str, Vec<u8>, Errno)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut name = Vec::new();
        for _ in 0..NAMES_MAX {
            name = self.name(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
            let mut made = rustix::fs::openat(&self.opened, &name, flags, Mode::RUSR | Mode::WUSR);
            if matches!(made, Err(Errno::NOENT)) && self.rules.levels != [0; 3] {
                self.make_folders(&name)?;
                made = rustix::fs::openat(&self.opened, &name, flags, Mode::RUSR | Mode::WUSR);
            }
            match made {
                Ok(file) => {
                    if !keeps {
                        self.remove(&name);
                    }
                    return Ok((file, name.into()));
                }
                Err(Errno::EXIST) => {
                    // Others have been here: on, by as many as nobody else goes.
                    LAST.fetch_add(std::process::id().wrapping_mul(123_457), Ordering::Relaxed);
                }
                Err(why) => return Err(("open()", self.path(&name), why)),
            }
        }
        Err(("open()", self.path(&name), Errno::EXIST))
    }

    /// Removes what has this name in it.
    pub fn remove(&self, name: &[u8]) {
        // Nothing is to be done about one that stays.
        let _ = rustix::fs::unlinkat(self.opened.as_fd(), name, AtFlags::empty());
    }

    /// The name of the file with this number: its last digits name the folders that it
    /// is in.
    fn name(&self, number: u32) -> Vec<u8> {
        let digits = format!("{number:010}").into_bytes();
        let mut name = Vec::with_capacity(24);
        let mut end = digits.len();
        for level in self.rules.levels.iter().map(|level| usize::from(*level)).filter(|level| *level > 0) {
            let start = end.saturating_sub(level);
            name.extend_from_slice(&digits[start..end]);
            name.push(b'/');
            end = start;
        }
        name.extend_from_slice(&digits);
        name
    }

    fn make_folders(&self, name: &[u8]) -> Result<(), (&'static str, Vec<u8>, Errno)> {
        for (at, _) in name.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            match rustix::fs::mkdirat(&self.opened, &name[..at], FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(("mkdir()", self.path(&name[..at]), why)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_lies_in_folders_of_its_last_digits() {
        let opened = || open(Path::new("/")).expect("there");
        let folder = |levels| TempFolder::new(TempFolderRules { path: "/t".into(), levels }, opened());
        for (levels, number, name) in [
            ([0, 0, 0], 123_457, "0000123457"),
            ([1, 2, 0], 123_457, "7/45/0000123457"),
            ([2, 2, 2], 4_294_967_295, "95/72/96/4294967295"),
            ([10, 0, 0], 1, "0000000001/0000000001"),
        ] {
            assert_eq!(folder(levels).name(number), name.as_bytes());
        }
        assert_eq!(folder([1, 0, 0]).path(b"1/x"), b"/t/1/x");
    }

    #[test]
    fn a_folder_is_made_and_what_fails_is_told_as_nginx_tells_it() {
        let around = std::env::temp_dir().join(format!("nearside-temp-folder-{}", std::process::id()));
        std::fs::create_dir_all(&around).expect("made");
        std::fs::set_permissions(&around, std::fs::Permissions::from_mode(0o777)).expect("opened to all");
        let path = around.join("in");
        let rules = |path: PathBuf| TempFolderRules { path, levels: [1, 0, 0] };
        let made = rules(path.clone());
        made.make(None).expect("made");
        made.make(None).expect("there");
        // Whoever may write where it lies may have put it there.
        let by = rustix::process::geteuid().as_raw();
        made.make(Some((by, by))).expect("it is ours");
        let why = made.make(Some((by + 1, by))).expect_err("others may write to the folder around it");
        assert_eq!((why.call, why.why), ("chown()", Errno::PERM));
        // As `-t` says beforehand.
        assert_eq!(made.can_be_given(by), Ok(()));
        assert_eq!(made.can_be_given(by + 1), Err(why));
        let folder = TempFolder::new(made.clone(), made.open().expect("opened"));
        for keeps in [false, true] {
            let (_, name) = folder.create(keeps).expect("made");
            assert_eq!(path.join(std::str::from_utf8(&name).expect("digits")).exists(), keeps);
        }
        std::fs::remove_dir_all(&path).expect("removed");
        let (call, told, why) = folder.create(false).expect_err("gone");
        assert!(told.starts_with(path.as_os_str().as_bytes()));
        assert_eq!((call, why), ("mkdir()", Errno::NOENT));
        let why = rules(path.join("deep/er")).make(None).expect_err("no folder for it").to_string();
        assert_eq!(why, format!("mkdir() \"{}/deep/er\" failed (2: No such file or directory)", path.display()));
        std::fs::remove_dir_all(around).expect("removed");
    }
}
