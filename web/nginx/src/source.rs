//! Where the files of a configuration come from.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files by their paths.
pub trait ConfFiles {
    /// The whole file, of at most `most` bytes.
    ///
    /// # Errors
    /// It cannot be read; [`io::ErrorKind::FileTooLarge`] if it is longer.
    fn read(&mut self, path: &Path, most: usize) -> io::Result<Vec<u8>>;

    /// The files that `pattern` matches, by their names' order; none is no error.
    ///
    /// # Errors
    /// A folder cannot be read.
    fn matching(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>>;
}

/// Those of this machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Disk;

impl ConfFiles for Disk {
    fn read(&mut self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        let _asking = helper::waits::on(path);
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(most as u64 + 1).read_to_end(&mut text)?;
        if text.len() > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
    }

    fn matching(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let _asking = helper::waits::on(Path::new(pattern));
        // As glob(7): a dot at the start of a name is matched by a dot alone.
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let found =
            glob::glob_with(pattern, options).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        // A folder that cannot be read has no file that matches, as for nginx.
        let mut found: Vec<PathBuf> = found.filter_map(Result::ok).collect();
        found.sort();
        Ok(found)
    }
}
