//! Bodies of requests that something reads: in memory as long as they are short, in
//! a file beyond that, which a thread of its own writes.
//!
//! ```text
//!  bytes ──► ReceivedBody ── fits ───────────────────► BodyContent::Memory
//!               │    ▲
//!    full, jobs │    │ written, room again
//!               ▼    │
//!          (body-files) ── files in a TempFolder ────► BodyContent::File
//! ```
//!
//! Nothing here waits: what cannot be taken is left to the caller, who is told when
//! there is room again ([`BodyStore::take`]). All that can be filled has a limit: what
//! one body holds in memory ([`BodyRules::buffer`]; one that goes to a file
//! [`BodyLimits::piece`], twice while it is written), what all hold, and how many have
//! files ([`BodyLimits`]).
#![forbid(unsafe_code)]

mod folder;
mod received;
mod shares;
mod store;
mod writer;

pub use folder::{FolderError, TempFolderRules};
pub use received::{BodyContent, BodyFile, ReceivedBody};
pub use shares::{BodyLimits, Wrote};
pub use store::{BodyEvent, BodyFolders, BodyStore};
pub use writer::BodyError;

/// What a place says of bodies that are read there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyRules {
    /// Bytes that are kept in memory (`client_body_buffer_size`).
    pub buffer: u32,
    /// Which are in files (`client_body_in_file_only`).
    pub in_file: BodyFiles,
    /// The folder of those, by its number in the store's list
    /// (`client_body_temp_path`).
    pub folder: u16,
}

impl BodyRules {
    /// Two pages of memory, of 4 KiB each: as nginx has them where nothing is said.
    pub const BUFFER: u32 = 8 << 10;
}

impl Default for BodyRules {
    fn default() -> Self {
        Self { buffer: Self::BUFFER, in_file: BodyFiles::Long, folder: 0 }
    }
}

/// Which bodies are in files, and how long these are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BodyFiles {
    /// Those that are too long for memory, in files that have no name.
    #[default]
    Long,
    /// All, in files that stay.
    Kept,
    /// All, in files whose names go with their requests.
    Removed,
}
