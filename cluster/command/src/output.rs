//! Files for results.

use say::{Failure, eprintln};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A file for results; one that cannot be written any more is given up with a message.
pub struct Output {
    name: String,
    file: Option<File>,
    failed: bool,
}

impl Output {
    /// Makes a file, if there is to be one.
    ///
    /// # Errors
    /// If it cannot be made, with its name.
    pub fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self { name: String::new(), file: None, failed: false }) };
        let name = path.display().to_string();
        let file = File::create(path).map_err(|why| format!("cannot write {name}: {why}"))?;
        Ok(Self { name, file: Some(file), failed: false })
    }

    /// Whether it could not be written to its end.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes to it, if somebody asked for it.
    pub fn write(&mut self, text: &str) {
        let Some(file) = &mut self.file else { return };
        if let Err(why) = file.write_all(text.as_bytes()) {
            eprintln!("nearside: cannot write {}: {why}; the test goes on without it", self.name);
            (self.file, self.failed) = (None, true);
        }
    }
}
