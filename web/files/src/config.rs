//! What a server of files is told.

use crate::shared_content::Member;
use core::time::Duration;
use std::path::PathBuf;

/// A directory and how its files are served.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The root. Opened at the start and by [`crate::Files::reload`]:
    /// between these, renaming it changes nothing.
    pub root: PathBuf,
    /// Names tried, in order, for a target that ends in `/`.
    /// Default: `index.html`.
    pub index: Vec<String>,
    /// Whether symbolic links below the root are followed. Default: off.
    pub symlinks: Symlinks,
    /// Bytes of file content kept in memory by this silo. Default 64 MiB. Too
    /// small: files are read again (the page cache still serves them, but a
    /// request then waits for the helper thread). Too large: memory.
    pub cache_bytes: usize,
    /// The largest file held in memory as a whole; larger ones are streamed.
    /// Default 1 MiB, at most `cache_bytes`.
    pub cache_file_bytes: usize,
    /// Bytes of memory for blocks of larger files, which all streams of this silo send from, where the
    /// data path does not send files by itself. For content that is larger than memory and is not
    /// to go through the page cache: blocks are read past it. Default 0: each stream has what
    /// is read for it alone. Less than 16 blocks of 256 KiB are none.
    pub media_bytes: usize,
    /// Paths remembered, those without a file included. Default 8,192; about
    /// 500 bytes each beside their content.
    pub cache_entries: usize,
    /// No response is older than this and a second: an entry is checked at
    /// its first use after this time, and waited for where the last check is
    /// longer ago than that. Default 1 s, and at least 1 s.
    pub revalidate: Duration,
    /// Types by file extension (lower case, no dot), before the built-in
    /// table: `("wasm", "application/wasm")`.
    pub types: Vec<(String, String)>,
    /// The type of files whose extension is unknown.
    /// Default `application/octet-stream`.
    pub default_type: String,
    /// Where the file system is read.
    pub reader: ReaderKind,
    /// Shares content of more than 16 KiB with other silos, within the limit
    /// of [`crate::SharedContent::new`]; [`Directory::cache_bytes`] is then for what
    /// is smaller, of which each silo has its own. Default: shares nothing.
    pub shared_content: Option<Member>,
}

/// Whether symbolic links below the root are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symlinks {
    /// No: a path with one is answered 403.
    Off,
    /// Only while the path stays below the root; absolute links never do.
    /// Needs `openat2` (Linux 5.6); without it links are refused as with `Off`.
    WithinRoot,
    /// Yes, wherever they lead.
    On,
}

/// Where the file system is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReaderKind {
    /// On a helper thread: the silo never waits for a disk.
    Thread,
    /// Inside `on_turn`: deterministic, for simulation and tests.
    Inline,
}

/// Upper bounds on what peers can make a server of files hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLimits {
    /// Responses being streamed from files at once. Above: 503.
    pub streams: usize,
    /// Bytes of streamed chunks held for all connections together, beside
    /// 16 KiB that each stream always has. Half of it is shared evenly by the
    /// streams whose peers took something in the last second, half by the
    /// others, with at most [`FileLimits::stream_window`] for each. Where it is
    /// used up, what peers have left lying for a second is taken back; of
    /// those for whom that cannot be done, because all of it was sent, who has
    /// taken nothing for 10 s is reset.
    pub stream_bytes: usize,
    /// Bytes queued ahead for one stream: too small caps a long fat path at
    /// window / RTT; too large takes memory.
    pub stream_window: usize,
    /// Paths waiting to be looked up or read, and requests waiting for one of
    /// them. Above: 503.
    pub waiting: usize,
}

/// The smallest piece of a streamed file, bytes: what a stream is always
/// given, however many there are.
pub const SMALL_CHUNK: usize = 16 << 10;

impl Directory {
    /// `root` with the defaults.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            index: vec!["index.html".into()],
            symlinks: Symlinks::Off,
            cache_bytes: 64 << 20,
            cache_file_bytes: 1 << 20,
            media_bytes: 0,
            cache_entries: 8192,
            revalidate: Duration::from_secs(1),
            types: Vec::new(),
            default_type: "application/octet-stream".into(),
            reader: ReaderKind::Thread,
            shared_content: None,
        }
    }

    /// Brings it into its stated bounds.
    ///
    /// # Errors
    /// What cannot be brought there.
    pub fn check(&mut self) -> Result<(), Error> {
        // What is shared has a limit of its own.
        let most = if self.shared_content.is_some() { usize::MAX } else { self.cache_bytes };
        self.cache_file_bytes = self.cache_file_bytes.min(most).min(1 << 30);
        self.cache_entries = self.cache_entries.clamp(16, 1 << 24);
        self.revalidate = self.revalidate.max(Duration::from_secs(1));
        for name in &self.index {
            if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
                return Err(Error::IndexName(name.clone()));
            }
        }
        let values = self.types.iter().map(|(_, value)| value);
        for value in values.chain([&self.default_type]) {
            if value.is_empty() || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return Err(Error::TypeValue(value.clone()));
            }
        }
        Ok(())
    }
}

/// Why files could not be served. All are the operator's to mend; none passes
/// by retrying.
#[derive(Debug)]
pub enum Error {
    /// An index file's name that is not a plain file name.
    IndexName(String),
    /// A media type that could not stand in a header field.
    TypeValue(String),
    /// The root directory could not be opened.
    Root(PathBuf, std::io::Error),
    /// The helper thread or its wake-up descriptor could not be made.
    Helper(std::io::Error),
}
