//! Where results and their pages are written: as a whole or not at all.

use crate::measurement::ResultError;
use crate::read::files;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Names that are tried for a file beside its place, and links that are followed.
const TRIED: u32 = 16;

/// Writes a file as a whole: beside its place first, and there once all of it is on the disk. Whoever reads it finds
/// the old or the new, also where the disk is full. A link stays, and what it leads to is written; so do the rights of
/// what was there. A device, a pipe or a descriptor (`/dev/stdout`) is written to, and never replaced.
///
/// # Errors
/// If it cannot be written, with its name.
pub fn write_whole(place: &Path, text: &str) -> Result<(), ResultError> {
    written(place, text).map_err(|why| refused(place, &why))
}

/// Whether a file could be written there, for whoever measures first. What is there stays as it is, and nothing is left
/// behind.
///
/// # Errors
/// If it could not, with its name.
pub fn expect_writable(place: &Path) -> Result<(), ResultError> {
    let looked = || match target(place)? {
        Some(target) => match beside(&target) {
            Ok((beside, _)) => fs::remove_file(beside),
            Err(why) => in_place(&target).map(drop).map_err(|_| why),
        },
        // A pipe would wait here for who reads it.
        None if fs::metadata(place).is_ok_and(|found| !found.is_dir()) => Ok(()),
        None => opened(place).map(drop),
    };
    looked().map_err(|why| refused(place, &why))
}

/// Refuses to write a page onto one of what it is made of.
///
/// # Errors
/// Which that is.
pub fn refuse_onto(place: &Path, inputs: &[&Path]) -> Result<(), ResultError> {
    let whole = |path: &Path| path.canonicalize().ok();
    let is_same = |input: &PathBuf| place == *input || whole(place).is_some_and(|place| whole(input) == Some(place));
    let read = inputs.iter().flat_map(|input| files(input).unwrap_or_default());
    match inputs.iter().map(|input| input.to_path_buf()).chain(read).find(is_same) {
        Some(input) => Err(ResultError(format!("{} would be written onto itself: name another file", input.display()))),
        None => Ok(()),
    }
}

fn refused(place: &Path, why: &io::Error) -> ResultError {
    ResultError(format!("cannot write {}: {why}", place.display()))
}

/// The file that is to be replaced, or to be made; none where something is to be written to as it is.
fn target(place: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(place) {
        Ok(found) if found.is_file() && !is_descriptor(place) => place.canonicalize().map(Some),
        Ok(_) => Ok(None),
        // A link that leads to nothing has its file made where it leads.
        Err(_) if fs::symlink_metadata(place).is_ok() => Ok(None),
        Err(_) => Ok(Some(place.to_owned())),
    }
}

/// Whether a path leads to something that a process has open.
fn is_descriptor(place: &Path) -> bool {
    let mut at = place.to_owned();
    (0..TRIED).any(|_| {
        let found = at.starts_with("/proc") || at.starts_with("/dev/fd");
        if let Ok(next) = fs::read_link(&at) {
            at = at.parent().unwrap_or_else(|| Path::new("")).join(next);
        }
        found
    })
}

/// A new file in the folder of another.
fn beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for number in 0..TRIED {
        let path = target.with_file_name(format!(".nearside-{}-{number}.part", std::process::id()));
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(why) => last = why,
        }
        if last.kind() != ErrorKind::AlreadyExists {
            break;
        }
    }
    Err(last)
}

/// What is there, opened to be written to: nothing of it is cut.
fn opened(place: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(place)
}

/// A file that is there, in a folder in which none can be made.
fn in_place(target: &Path) -> io::Result<File> {
    File::options().write(true).open(target)
}

fn written(place: &Path, text: &str) -> io::Result<()> {
    let Some(target) = target(place)? else { return opened(place)?.write_all(text.as_bytes()) };
    let again = |why: io::Error| -> io::Result<()> {
        let mut file = in_place(&target).map_err(|_| why)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())
    };
    let (beside, mut file) = match beside(&target) {
        Ok(made) => made,
        Err(why) => return again(why),
    };
    let filled = file.write_all(text.as_bytes()).and_then(|()| {
        // The rights are those of the file that it replaces; where that cannot be, they are the usual ones.
        let _ = fs::metadata(&target).and_then(|old| file.set_permissions(old.permissions()));
        file.sync_data()
    });
    let moved = filled.map(|()| fs::rename(&beside, &target));
    if !matches!(moved, Ok(Ok(()))) {
        let _ = fs::remove_file(&beside);
    }
    // What another file system is mounted on is no place to move to.
    moved?.or_else(again)
}
