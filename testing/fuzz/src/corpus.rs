//! Inputs on disk.

use crate::Target;
use std::io;
use std::path::{Path, PathBuf};

/// Where the committed inputs of a target are.
#[must_use]
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// All inputs in a folder, in the order of their names, so that a run does not
/// depend on the file system.
///
/// # Errors
/// If the folder or a file cannot be read.
pub fn read(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(std::fs::read).collect()
}

/// Writes an input under a name made of its contents. Returns the path.
///
/// # Errors
/// If it cannot be written.
pub fn write(folder: &Path, prefix: &str, input: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{prefix}{:016x}.bin", digest(input)));
    std::fs::write(&path, input)?;
    Ok(path)
}

/// The target's committed inputs.
///
/// # Errors
/// If they cannot be read.
pub fn committed(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    read(&folder(target))
}

/// FNV-1a: names inputs, and seeds what a target decides about one by itself.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
