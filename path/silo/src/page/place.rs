//! Where pages lie.

use super::{EXTENSION, Reader};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where pages lie unless a path is given: `nearside` in XDG_RUNTIME_DIR, or
/// else a folder of this user's in /dev/shm. It is made if need be.
///
/// # Errors
/// If it cannot be made, or belongs to, or may be written by, somebody else.
pub fn usual_folder() -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if Path::new(&runtime).is_dir() => Path::new(&runtime).join("nearside"),
        _ => PathBuf::from(format!("/dev/shm/nearside-{uid}")),
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            let why = format!("cannot make {} for the statistics page: {e}", folder.display());
            return Err(io::Error::new(e.kind(), why));
        }
        _ => {}
    }
    // Anybody can make folders in /dev/shm, or a link that points elsewhere.
    let metadata = fs::symlink_metadata(&folder)?;
    if !metadata.is_dir() || metadata.uid() != uid || metadata.mode() & 0o022 != 0 {
        let why = format!("{} is not a folder of this user's alone", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(folder)
}

/// The path of this process's page in the [`usual_folder`].
///
/// # Errors
/// As [`usual_folder`].
pub fn usual_path() -> io::Result<PathBuf> {
    Ok(usual_folder()?.join(format!("{}.{EXTENSION}", std::process::id())))
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
