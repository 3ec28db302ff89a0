//! A folder of the demo's own, removed with it.

use crate::child::{PREFIX, is_stale};
use crate::error::Error;
use crate::pages::give_back_stale;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, and removes those of demos that were killed.
    pub fn make() -> Result<Self, Error> {
        Self::with_mode(0o755)
    }

    /// Makes one that nobody else may look into.
    pub fn private() -> Result<Self, Error> {
        Self::with_mode(0o700)
    }

    fn with_mode(mode: u32) -> Result<Self, Error> {
        let place = std::env::temp_dir();
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            // Only our own: anybody may make a folder of this name.
            let owner = entry.metadata().ok().filter(std::fs::Metadata::is_dir).map(|data| data.uid());
            let ours = owner == Some(rustix::process::geteuid().as_raw());
            if ours && is_stale(&entry.file_name().to_string_lossy()) {
                give_back_stale(&entry.path());
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        // Process ids are the container's: another may have the same, and the same folder for files of a while.
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|why| Error::io("cannot draw a name")(why.into()))?;
        let path = place.join(format!("{PREFIX}{}-{:08x}", std::process::id(), u32::from_ne_bytes(random)));
        DirBuilder::new().mode(mode).create(&path).map_err(Error::io(format!("cannot make {}", path.display())))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
