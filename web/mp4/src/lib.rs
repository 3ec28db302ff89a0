//! Seeking in mp4 files (ISO/IEC 14496-12): a new head, and which bytes of the file follow it, so
//! that what is sent plays from a time on, as nginx's `ngx_http_mp4_module` makes it.
//!
//! ```text
//!  file:  ftyp  moov ( mvhd trak … )  mdat ( …………[ media ]… )
//!  sent:  ftyp' moov'( mvhd'trak'… )  mdat'( [ media ]      )
//!         └──────── head ──────────────────┘
//! ```
//!
//! Nothing is read here: a [`Cutter`] says which bytes it wants, and is given them.
//!
//! | module | for |
//! | --- | --- |
//! | `span` | from when to when, by a query |
//! | `cutter` | the boxes of the file, one after the other |
//! | `movie` | the boxes within `moov`, and the new head |
//! | `track` | what is known of a track |
//! | `samples` | `stts`, `stss`, `ctts`: which samples are in it |
//! | `chunks` | `stsc`, `stsz`, `stco`, `co64`: where those lie |
//! | `table` | numbers in bytes |
#![forbid(unsafe_code)]

mod chunks;
mod cutter;
mod error;
mod movie;
mod samples;
mod span;
mod table;
mod track;

pub use cutter::{Cutter, Step};
pub use error::Error;
pub use span::{Span, argument};

use core::ops::Range;

/// How files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Bytes that are looked at at once (`mp4_buffer_size`): a `ftyp` that does not lie within
    /// as many is too large. Default 512 KiB.
    pub buffer: u64,
    /// The largest `moov` that is cut (`mp4_max_buffer_size`), bytes. So many are held while it
    /// is, and what is sent of it until its client has that. Default 10 MiB, at most 1 GiB.
    pub largest_moov: u64,
    /// What is sent begins with a frame that needs no other, and an edit list hides what is
    /// before the time (`mp4_start_key_frame`). Default: no.
    pub start_key_frame: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { buffer: 512 << 10, largest_moov: 10 << 20, start_key_frame: false }
    }
}

/// What is sent in place of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// What comes first.
    pub head: Vec<u8>,
    /// Which bytes of the file follow it.
    pub media: Range<u64>,
}
