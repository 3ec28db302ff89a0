//! A folder for a test, which goes away with it.

use std::path::PathBuf;

/// See the module.
pub(super) struct Folder(pub PathBuf);

impl Folder {
    /// One that no other test has, if none has this name.
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-serve-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
