//! Files: from a path as sent to the bytes to send.
//!
//! ```text
//!  silo thread                         reader thread
//!  target ─► store ─ Job ─► [ring] ──► worker ─► openat2, fstat, read
//!            store ◄─ Done ─ [ring] ◄──┘
//! ```
//!
//! The silo never touches the file system: it asks the reader, parks the
//! request, and goes on.

mod hot;
pub mod reader;
pub mod shared_content;
pub mod store;
pub mod target;
mod types;
mod worker;

pub use types::Types;
pub use worker::{FileReader, Found, ReadOutcome, Source};
