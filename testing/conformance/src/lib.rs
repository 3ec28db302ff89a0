//! Conformance scripts: packets in, packets out, one behaviour per file.
//!
//! The same script runs against our stack under virtual time and, where the
//! behaviour is common, against Linux through a TAP device in real time.

pub mod family;
pub mod frames;
pub mod linux;
pub mod puppet;
pub mod run;
pub mod script;
pub mod stack;

use std::path::Path;

/// All scripts: their names and texts, in order.
///
/// # Panics
/// If they cannot be read: they are part of the repository.
#[must_use]
pub fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut scripts: Vec<_> = files
        .map(|entry| entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "script"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text)
        })
        .collect();
    scripts.sort();
    scripts
}
