//! What is in a folder.

use crate::worker::FileReader;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Names that a listing has, at most.
const NAMES_MAX: usize = 1 << 17;

/// What is at a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The name.
    pub name: Box<[u8]>,
    /// A folder, or a file; neither is something else.
    pub kind: NameKind,
    /// Bytes.
    pub size: u64,
    /// Unix seconds.
    pub modified: i64,
}

/// What kind of thing is at a name, at the end of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// Neither.
    Other,
}

/// What is in a folder, but for `.` and `..`; or why it cannot be told.
pub type Listing = Result<Vec<Name>, ListError>;

/// Where a path lies once no link is left in it; or why that cannot be told.
pub type RealPath = io::Result<Box<[u8]>>;

/// Follows the links of `path`.
pub fn real_path(path: &[u8]) -> RealPath {
    let found = std::fs::canonicalize(OsStr::from_bytes(path))?;
    Ok(found.into_os_string().into_vec().into())
}

/// Why what is in a folder cannot be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListError {
    /// There is no such folder.
    Missing,
    /// It may not be read.
    Forbidden,
    /// It could not be read, or has more than 131,072 names.
    Failed,
}

impl From<Errno> for ListError {
    fn from(why: Errno) -> Self {
        match why {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Self::Missing,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Self::Forbidden,
            _ => Self::Failed,
        }
    }
}

impl FileReader {
    /// What is in the folder at `path`.
    pub(crate) fn list(&self, path: &[u8]) -> Listing {
        let folder = self.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if names.len() >= NAMES_MAX {
                return Err(ListError::Failed);
            }
            // A link that leads nowhere is told as the link that it is.
            let stat =
                statat(&folder, name, AtFlags::empty()).or_else(|_| statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW));
            match stat {
                Ok(stat) => names.push(Name::of(name.to_bytes(), &stat)),
                // Gone by now.
                Err(Errno::NOENT) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(names)
    }
}

impl Name {
    fn of(name: &[u8], stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => NameKind::Folder,
            FileType::RegularFile => NameKind::File,
            _ => NameKind::Other,
        };
        Self { name: name.into(), kind, size: u64::try_from(stat.st_size).unwrap_or(0), modified: stat.st_mtime }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use exchange::HeadWriter;

    #[test]
    fn names_are_told_with_what_they_are() {
        let folder = std::env::temp_dir().join(format!("nearside-folder-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).expect("a folder");
        std::fs::write(folder.join("file"), b"12345").expect("a file");
        let _ = std::os::unix::fs::symlink("nowhere", folder.join("link"));
        let reader = FileReader::new(&Directory::everything(), HeadWriter::nothing()).expect("a reader");
        let path = folder.to_string_lossy().trim_start_matches('/').as_bytes().to_vec();
        let mut names = reader.list(&path).expect("a listing");
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let told: Vec<_> = names.iter().map(|name| (String::from_utf8_lossy(&name.name), name.kind)).collect();
        assert_eq!(
            told,
            [("file".into(), NameKind::File), ("link".into(), NameKind::Other), ("sub".into(), NameKind::Folder)]
        );
        assert_eq!(names[0].size, 5);
        assert_eq!(reader.list(&[&path, &b"/none"[..]].concat()), Err(ListError::Missing));
        assert_eq!(reader.list(&[&path, &b"/file"[..]].concat()), Err(ListError::Missing));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
