//! Where pages lie.

use super::{EXTENSION, Reader};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where only root can put anything.
const OF_ROOT: &str = "/run/nearside-0";

/// Where anybody can make folders, and nobody move those of others.
const SHARED: &str = "/dev/shm";

/// Where pages lie unless a path is given: `nearside` in XDG_RUNTIME_DIR, where that is
/// this user's; else for root /run/nearside-0, where that is memory, and for others (and
/// for root without) a folder of this user's in /dev/shm: `nearside-UID`, or where
/// somebody else has made that first, one whose name nobody can know before
/// ([`squatted`] tells). It is made if need be.
///
/// # Errors
/// If it cannot be made.
pub fn usual_folder() -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    if let Some(folder) = of_session(uid) {
        return make(folder, uid);
    }
    // On a disk what silos store would be written out, and they would wait for it.
    if uid == 0
        && is_memory(Path::new("/run"))
        && let Ok(folder) = make(OF_ROOT.into(), uid)
    {
        return Ok(folder);
    }
    shared(Path::new(SHARED), uid)
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
    for folder in of_session(uid).into_iter().chain(of_root).chain(shared_ones(Path::new(SHARED), uid)) {
        if !folders.contains(&folder) && check(&folder, uid).is_ok() {
            folders.push(folder);
        }
    }
    if folders.is_empty() {
        folders.push(usual_folder()?);
    }
    Ok(folders)
}

/// What is to be said where the usual folder is not the one of its usual name, because
/// somebody else has made that.
#[must_use]
pub fn squatted() -> Option<String> {
    let folder = usual_folder().ok()?;
    let plain = plain(Path::new(SHARED), rustix::process::getuid().as_raw());
    if folder == plain || folder.parent() != plain.parent() {
        return None;
    }
    let why = check(&plain, rustix::process::getuid().as_raw()).err()?;
    if why.kind() != io::ErrorKind::PermissionDenied {
        return None;
    }
    Some(format!("{why}; {} is taken in its place, which nearside status finds", folder.display()))
}

/// In the folder for things of this session: one that another user may change (as after
/// su(1)) is none.
fn of_session(uid: u32) -> Option<PathBuf> {
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let is_ours = fs::metadata(&runtime).is_ok_and(|data| data.uid() == uid || data.uid() == 0);
    (is_ours && is_steady(&runtime)).then(|| runtime.join("nearside"))
}

/// Whether nobody but a folder's owner can move what this user makes in it.
fn is_steady(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|data| data.is_dir() && (data.mode() & 0o022 == 0 || data.mode() & STICKY != 0))
}

/// `S_ISVTX` of inode(7).
const STICKY: u32 = 0o1000;

fn plain(within: &Path, uid: u32) -> PathBuf {
    within.join(format!("nearside-{uid}"))
}

/// Folders of this user's among those that anybody may have made, the one of the usual
/// name first.
fn shared_ones(within: &Path, uid: u32) -> Vec<PathBuf> {
    let (plain, prefix) = (plain(within, uid), format!("nearside-{uid}."));
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let mut others: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| check(path, uid).is_ok()).collect();
    others.sort();
    let plain = Some(plain).filter(|plain| check(plain, uid).is_ok());
    plain.into_iter().chain(others).collect()
}

/// This user's folder where anybody may make folders.
pub(super) fn shared(within: &Path, uid: u32) -> io::Result<PathBuf> {
    if !is_steady(within) {
        let why = format!("others may move what is in {}: XDG_RUNTIME_DIR can name another place", within.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if let Some(folder) = shared_ones(within, uid).into_iter().next() {
        return Ok(folder);
    }
    let plain = plain(within, uid);
    match make(plain.clone(), uid) {
        // Somebody else's, or something else.
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied && fs::symlink_metadata(&plain).is_ok() => {
            let mut random = [0; 8];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let mut name = plain.into_os_string();
            name.push(format!(".{:016x}", u64::from_ne_bytes(random)));
            make(name.into(), uid)
        }
        made => made,
    }
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
    let why = format!("{} {what}", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The path of this process's page in the [`usual_folder`].
///
/// # Errors
/// As [`usual_folder`].
pub fn usual_path() -> io::Result<PathBuf> {
    Ok(usual_folder()?.join(usual_name(std::process::id())))
}

/// What the page of a process of this PID namespace is called in the usual folder: by its number
/// and the namespace's, for processes of several namespaces that share a folder (containers, and
/// their host) may have one number.
#[must_use]
pub fn usual_name(process: u32) -> String {
    match namespace() {
        Some(namespace) => format!("{process}-{namespace}.{EXTENSION}"),
        None => format!("{process}.{EXTENSION}"),
    }
}

/// This process's PID namespace, by its number (namespaces(7)).
fn namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Whether a page has the [usual name](usual_name) that processes of another PID namespace give theirs:
/// whether they live cannot be seen from here.
fn is_of_another_namespace(path: &Path) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.split_once('-'));
    let of = name.and_then(|(process, namespace)| number(process).and(number(namespace)));
    of.is_some() && of != namespace()
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
/// Pages of dead processes are removed; those that processes of another PID namespace have
/// put there, which look dead from here, are left alone.
///
/// # Errors
/// If the folder cannot be read.
pub fn living(folder: &Path) -> io::Result<Vec<Reader>> {
    let mut living = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != EXTENSION) || is_of_another_namespace(&path) {
            continue;
        }
        // A page may go away at any moment, and a foreign file is not ours
        // to judge.
        match Reader::open(&path) {
            Ok(reader) if reader.is_alive() => living.push((path, reader)),
            Ok(_) => {
                let _ = fs::remove_file(&path);
            }
            // The link to a shared page whose process is gone.
            Err(_) if path.is_symlink() && !path.exists() => {
                let _ = fs::remove_file(&path);
            }
            Err(_) => {}
        }
    }
    living.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(living.into_iter().map(|(_, reader)| reader).collect())
}
