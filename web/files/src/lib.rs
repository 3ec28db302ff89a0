//! Files: from a path as sent to the bytes to send, as a handler of exchanges.
//!
//! ```text
//!  silo thread                         reader thread
//!  target ─► store ─ Job ─► [ring] ──► worker ─► openat2, fstat, read
//!            store ◄─ Done ─ [ring] ◄──┘
//! ```
//!
//! The silo never touches the file system: it asks the reader, parks the
//! request, and goes on.
//!
//! | module | for |
//! | --- | --- |
//! | `answer` | from a request to a reply |
//! | `guest`, `folder` | files and lists of them for a handler with rules of its own |
//! | `pump`, `stream` | large files, a piece at a time |
//! | `media`, `blocks` | those that are larger than memory: blocks that streams share |
//! | `excerpt` | what is sent in place of a file: bytes, and behind them some of it |
//! | `cut`, `cuts` | films from a time on, and who waits for them |
//! | `work` | requests that are not answered at once |
//! | `store`, `prepared`, `store::messages` | what is known of paths, and content in memory |
//! | `reader`, `worker`, `mounts` | the threads that look and read, what they do, and which devices hold them up |
//! | `shared_content` | content that silos share |
//! | `target`, `types` | from a target to a name, from a name to its media type |
#![forbid(unsafe_code)]

mod answer;
mod blocks;
mod config;
mod counters;
mod cut;
mod cuts;
mod excerpt;
mod faults;
mod folder;
mod guest;
mod identity;
mod ids;
mod links;
mod media;
mod mounts;
mod prepared;
mod pump;
mod reader;
mod shared_content;
mod source;
mod store;
mod stream;
mod target;
mod types;
mod work;
mod worker;

pub use config::{Directory, Error, FileLimits, ReaderKind, SMALL_CHUNK, Symlinks};
pub use counters::Counters;
pub use cuts::Cutting;
pub use excerpt::Excerpt;
pub use faults::FileFault;
pub use folder::{ListError, Listing, Name, NameKind, RealPath};
pub use guest::{FileId, InMemory, Lead, Look, Overloaded, Streamed};
pub use ids::Stamp;
pub use links::LinkRule;
pub use reader::Reader;
pub use shared_content::{Held, Member, SharedContent};
pub use store::FileHead;
pub use stream::{Rate, RateKept};
pub use types::Types;
pub use worker::{FileReader, LookError, Unread, look_at_root};

use app::Reads;
use exchange::HeadWriter;
use reader::Job;
use rustix::fd::OwnedFd;
use semantics::date::HttpDate;
use std::collections::VecDeque;
use std::sync::Arc;
use store::Store;
use work::Works;

/// Why pieces of files are not read many at a time (io_uring(7)), where that is so: asked before a process gives
/// rights up.
#[must_use]
pub fn why_no_ring() -> Option<std::io::Error> {
    disk::Reads::<()>::new(1).err()
}

/// The files below one root, for one silo. Not `Send`: made on the silo's
/// thread.
#[derive(Debug)]
pub struct Files {
    store: Store,
    reader: Reader,
    works: Works,
    streams: stream::Active,
    limits: FileLimits,
    counters: Counters,
    /// The unix second, and its date.
    second: u64,
    date: HttpDate,
    /// Makes multipart boundaries differ.
    serial: u32,
    /// Requests that wait for the file reader: to be looked up, or for the
    /// next piece of what they are sent.
    working: u32,
    /// Whether the file system hangs: see [`Reader::hangs`].
    hangs: bool,
    /// What was looked for since it was last heard of, to see whether it does.
    probes: u8,
    /// A request began to wait for a look that nobody had asked for: those
    /// behind it may need one as well.
    looks_ahead: bool,
    /// Requests behind it that may still be told.
    ahead: usize,
    /// Requests of another handler that go on.
    woken: VecDeque<u32>,
    faults: VecDeque<FileFault>,
    /// What folders have, for those of them that asked.
    listings: Vec<(u32, Listing)>,
    real_paths: Vec<(u32, Box<[u8]>, RealPath)>,
    cuts: cuts::Cuts,
    /// What streams share of large files, if they do.
    blocks: Option<blocks::Blocks>,
}

/// New rules for a [`Files`] that goes on, made ready by a thread that may wait.
#[derive(Debug)]
pub struct NewRules {
    /// Who looks below the root, if that is another or looks otherwise.
    reader: Option<Box<FileReader>>,
    /// The most content to hold.
    cache_bytes: usize,
}

impl NewRules {
    /// What makes files that are served as `now` says be served as `next` says.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prepare(now: &Directory, next: &Directory, heads: HeadWriter) -> Result<Self, Error> {
        let reader = match is_read_alike(now, next) {
            true => None,
            false => Some(Box::new(FileReader::new(next, heads)?)),
        };
        Ok(Self { reader, cache_bytes: next.cache_bytes })
    }
}

/// Whether files are found and read by the same rules.
fn is_read_alike(one: &Directory, other: &Directory) -> bool {
    (&one.root, &one.index, one.symlinks, one.cache_file_bytes)
        == (&other.root, &other.index, other.symlinks, other.cache_file_bytes)
        // What is kept behind its head.
        && one.cache_bytes == other.cache_bytes
}

impl Files {
    /// The files of `directory`, read by `reader`, which was made for it.
    /// `event` becomes readable when the reader has an answer: a silo that
    /// sleeps waits for it too.
    #[must_use]
    pub fn new(directory: &Directory, mut reader: Reader, limits: FileLimits, event: &Arc<OwnedFd>) -> Self {
        reader.wake(event);
        Self {
            store: Store::new(directory),
            reader,
            works: Works::default(),
            streams: stream::Active::default(),
            limits,
            counters: Counters::default(),
            second: 0,
            date: HttpDate::from_unix(0),
            serial: 0,
            working: 0,
            hangs: false,
            probes: 0,
            looks_ahead: false,
            ahead: 0,
            woken: VecDeque::new(),
            faults: VecDeque::new(),
            listings: Vec::new(),
            real_paths: Vec::new(),
            cuts: cuts::Cuts::default(),
            blocks: blocks::Blocks::new(directory.media_bytes),
        }
    }

    /// Looks for the root again, which may be another directory by now, and at
    /// every file before it is next sent. Nothing that is under way is touched:
    /// a response that has begun is finished from the file that it began with.
    pub fn reload(&mut self) {
        self.reader.submit(Job::Reopen);
        self.store.expire();
    }

    /// Takes new rules up, for what begins from now on. To be followed by
    /// [`Files::reload`].
    pub fn change(&mut self, rules: NewRules) {
        self.store.set_limit(rules.cache_bytes);
        if let Some(reader) = rules.reader {
            self.reader.submit(Job::Replace(reader));
            self.store.forget_all();
        }
    }

    /// Looks every path up again before it is used, whatever is known of it.
    /// What connections are being sent they get to the end.
    pub fn forget(&mut self) {
        self.store.forget_all();
    }

    /// What was sent of content that lies in other NUMA domains, by domain.
    pub fn far_reads(&self) -> impl Iterator<Item = (u16, &Reads)> {
        self.store.far_reads()
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (cache_bytes, cache_entries) = self.store.held();
        let (cache_common_bytes, cache_copy_bytes) = self.store.held_in_common();
        Counters {
            cache_bytes,
            cache_entries,
            cache_common_bytes,
            cache_copy_bytes,
            far_bytes: self.far_reads().map(|(_, reads)| reads.bytes()).sum(),
            far_frames: self.far_reads().map(|(_, reads)| reads.frames()).sum(),
            requests_waiting: u64::from(self.working),
            block_bytes: self.blocks.as_ref().map_or(0, |blocks| blocks.bytes() as u64),
            cache_looks: self.store.looks,
            cache_evictions: self.store.evictions,
            ..self.counters
        }
    }
}
