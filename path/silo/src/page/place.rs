//! Where pages lie.

use super::{EXTENSION, Reader};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where only root can put anything.
const OF_ROOT: &str = "/run/nearside-0";

/// Where pages lie unless a path is given: `nearside` in XDG_RUNTIME_DIR, if that says
/// anything; else for root /run/nearside-0, where that is memory, and for others (and for
/// root without) a folder of this user's in /dev/shm. It is made if need be.
///
/// # Errors
/// If it cannot be made, or belongs to, or may be written by, somebody else.
pub fn usual_folder() -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    if let Some(folder) = of_session() {
        return make(folder, uid);
    }
    // On a disk what silos store would be written out, and they would wait for it.
    if uid == 0
        && is_memory(Path::new("/run"))
        && let Ok(folder) = make(OF_ROOT.into(), uid)
    {
        return Ok(folder);
    }
    make(in_memory(uid), uid)
}

/// The folders in which pages of this user's processes may lie: several where they were
/// started in different ways. Those that are not this user's alone are left out.
///
/// # Errors
/// As [`usual_folder`], if there is none.
pub fn usual_folders() -> io::Result<Vec<PathBuf>> {
    let uid = rustix::process::getuid().as_raw();
    let of_root = (uid == 0).then(|| PathBuf::from(OF_ROOT));
    let mut folders = Vec::new();
    for folder in of_session().into_iter().chain(of_root).chain([in_memory(uid)]) {
        if !folders.contains(&folder) && check(&folder, uid).is_ok() {
            folders.push(folder);
        }
    }
    if folders.is_empty() {
        folders.push(usual_folder()?);
    }
    Ok(folders)
}

fn of_session() -> Option<PathBuf> {
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    runtime.is_dir().then(|| runtime.join("nearside"))
}

fn in_memory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/nearside-{uid}"))
}

/// Whether files there are memory (statfs(2)): tmpfs or ramfs.
fn is_memory(folder: &Path) -> bool {
    const KINDS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::statfs(folder).is_ok_and(|found| KINDS.contains(&(found.f_type as u64)))
}

pub(super) fn make(folder: PathBuf, uid: u32) -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            let why = format!("cannot make {} for the statistics page: {e}", folder.display());
            return Err(io::Error::new(e.kind(), why));
        }
        _ => {}
    }
    check(&folder, uid)?;
    Ok(folder)
}

/// Anybody can make folders in /dev/shm, or a link that points elsewhere.
fn check(folder: &Path, uid: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(folder)?;
    let what = if !metadata.is_dir() {
        "is no folder".to_owned()
    } else if metadata.uid() != uid {
        format!("is user {}'s, who made it first", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        "may be written to by others".to_owned()
    } else {
        return Ok(());
    };
    let why = format!("{} {what}: XDG_RUNTIME_DIR can name another", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The path of this process's page in the [`usual_folder`].
///
/// # Errors
/// As [`usual_folder`].
pub fn usual_path() -> io::Result<PathBuf> {
    Ok(usual_folder()?.join(format!("{}.{EXTENSION}", std::process::id())))
}

/// The pages of this user's living processes, in [`usual_folders`].
///
/// # Errors
/// If there is no folder, or it cannot be read.
pub fn living_of_user() -> io::Result<Vec<Reader>> {
    let mut all = Vec::new();
    for folder in usual_folders()? {
        all.extend(living(&folder)?);
    }
    Ok(all)
}

/// The pages of living processes in `folder`, in the order of their paths.
/// Pages of dead processes are removed.
///
/// # Errors
/// If the folder cannot be read.
pub fn living(folder: &Path) -> io::Result<Vec<Reader>> {
    let mut living = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != EXTENSION) {
            continue;
        }
        // A page may go away at any moment, and a foreign file is not ours
        // to judge.
        if let Ok(reader) = Reader::open(&path) {
            if reader.is_alive() {
                living.push((path, reader));
            } else {
                let _ = fs::remove_file(&path);
            }
        }
    }
    living.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(living.into_iter().map(|(_, reader)| reader).collect())
}
