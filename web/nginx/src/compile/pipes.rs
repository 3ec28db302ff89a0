//! What named pipes gave, which give it once: for all places of a configuration that name
//! them, and for the process that reads the same configuration to serve by it.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

type Given = BTreeMap<PathBuf, Zeroizing<Vec<u8>>>;

thread_local! {
    /// To the configuration that is compiled.
    static NOW: RefCell<Given> = RefCell::default();
}

/// To the one that was compiled last.
static LAST: Mutex<Given> = Mutex::new(BTreeMap::new());

/// To a process that had this one read them, too.
static BROUGHT: Mutex<Given> = Mutex::new(BTreeMap::new());

/// What the pipe at `path` gave, or gives now by `read`.
pub(super) fn of(path: &Path, read: impl FnOnce() -> io::Result<Zeroizing<Vec<u8>>>) -> io::Result<Zeroizing<Vec<u8>>> {
    if let Some(known) = NOW.with_borrow(|now| now.get(path).cloned()) {
        return Ok(known);
    }
    let brought = BROUGHT.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    let bytes = brought.map_or_else(read, Ok)?;
    NOW.with_borrow_mut(|now| now.insert(path.to_owned(), bytes.clone()));
    Ok(bytes)
}

/// A configuration is compiled: the next one reads its pipes again.
pub(super) fn forget() {
    let given = NOW.with_borrow_mut(core::mem::take);
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = given;
}

/// What pipes gave to the configuration that was compiled last, for [`bring_piped`]; none if
/// there were none. It is given once.
#[must_use]
pub fn take_piped() -> Option<Zeroizing<Vec<u8>>> {
    let given = core::mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner));
    let mut all = Zeroizing::new(Vec::new());
    for (path, bytes) in &given {
        for part in [path.as_os_str().as_bytes(), bytes] {
            all.extend_from_slice(&(part.len() as u64).to_be_bytes());
            all.extend_from_slice(part);
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Has the next configuration take from `told` what [`take_piped`] gave another process, in
/// place of the pipes.
///
/// # Errors
/// It cannot be read, or is cut.
pub fn bring_piped(told: &mut dyn Read) -> io::Result<()> {
    let mut all = Zeroizing::new(Vec::new());
    told.read_to_end(&mut all)?;
    let mut rest = all.as_slice();
    let mut part = || -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let Some((length, behind)) = rest.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (bytes, after) = behind.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        rest = after;
        Ok(Some(Zeroizing::new(bytes.to_vec())))
    };
    let mut brought = Given::new();
    while let Some(path) = part()? {
        let bytes = part()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        brought.insert(super::path_of(&path), bytes);
    }
    *BROUGHT.lock().unwrap_or_else(PoisonError::into_inner) = brought;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gives_once_for_a_configuration_and_for_the_process_behind_it() {
        let (one, other) = (Path::new("/nonexistent/one.pipe"), Path::new("/nonexistent/other.pipe"));
        let gives = |text: &'static [u8]| move || Ok(Zeroizing::new(text.to_vec()));
        let gone = || Err(io::ErrorKind::TimedOut.into());
        assert_eq!(of(one, gives(b"key")).unwrap().as_slice(), b"key");
        assert_eq!(of(one, gone).unwrap().as_slice(), b"key");
        assert_eq!(of(other, gives(b"")).unwrap().as_slice(), b"");
        forget();
        assert!(of(one, gone).is_err(), "the next configuration reads it again");
        let told = take_piped().expect("two gave something");
        assert!(take_piped().is_none());
        assert!(bring_piped(&mut &told[..told.len() - 1]).is_err());
        bring_piped(&mut told.as_slice()).unwrap();
        assert_eq!((of(one, gone).unwrap().as_slice(), of(other, gone).unwrap().as_slice()), (&b"key"[..], &b""[..]));
        forget();
        assert!(of(one, gone).is_err(), "what was brought is for one configuration");
    }
}
