//! Folders and logs that another process has opened for this one, which may not
//! open them itself any more: what is to be opened is looked for here first.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// By path, as the configuration has it.
static OPENED: Mutex<BTreeMap<PathBuf, OwnedFd>> = Mutex::new(BTreeMap::new());

/// From now on `path` is what `opened` is: a folder, or a file that is appended
/// to. In place of what it was before.
pub fn bring(path: PathBuf, opened: OwnedFd) {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(path, opened);
}

/// What was opened as `path`, if anything.
#[must_use]
pub fn of(path: &Path) -> Option<OwnedFd> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).get(path)?.try_clone().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_brought_last_is_taken() {
        let path = Path::new("/nonexistent/brought");
        assert!(of(path).is_none());
        for at in [std::env::temp_dir(), "/dev/null".into()] {
            bring(path.to_owned(), std::fs::File::open(&at).expect("there").into());
            let opened = std::fs::File::from(of(path).expect("brought")).metadata().expect("told");
            assert_eq!(opened.is_dir(), at != Path::new("/dev/null"));
        }
    }
}
