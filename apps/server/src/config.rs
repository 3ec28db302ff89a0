//! What the server is told: typed, with every limit named and defaulted.

use crate::files::shared_content::Member;
use core::time::Duration;
use std::path::PathBuf;

/// Everything a [`crate::Server`] is told. `Config::respond` and
/// `Config::directory` give the defaults; every field may then be changed.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is served.
    pub content: Content,
    /// Whether responses carry `Server: nearside`. Costs 18 bytes a response.
    pub server_header: bool,
    /// Where the access log goes.
    pub access_log: AccessLog,
    /// Upper bounds on what peers can make us hold.
    pub limits: Limits,
    /// How long peers may take.
    pub timeouts: Timeouts,
    /// CPUs that the helper threads (file reader, log writer) may run on;
    /// empty means those of the process's main thread. Helpers never inherit
    /// the silo's pinning: on the silo's core they would wait for its spin.
    pub helper_cpus: Vec<usize>,
}

/// What is served.
#[derive(Clone, Debug)]
pub enum Content {
    /// The files below a directory.
    Directory(Directory),
    /// The same bytes for every target and any method but CONNECT and TRACE:
    /// for measuring.
    Respond(Respond),
}

/// The bytes of [`Content::Respond`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Respond {
    /// This text, as `text/plain; charset=utf-8`.
    Text(String),
    /// So many bytes of a printable pattern, as `application/octet-stream`;
    /// at most [`RESPOND_SIZE_MAX`], since they are held in memory.
    Size(u64),
}

/// The largest [`Respond::Size`], bytes.
pub const RESPOND_SIZE_MAX: u64 = 1 << 30;

/// A directory and how its files are served.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The root. Opened at the start and by [`crate::Server::reload`]:
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

/// Where the access log goes, in nginx's `combined` format (times in UTC).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessLog {
    /// Nowhere.
    Off,
    /// Appended to this file; opened again by [`crate::Server::reopen_log`].
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Upper bounds on what peers can make us hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections with state here. Default 1,048,576; 64 bytes of address
    /// space each, touched on use. One more is reset and counted.
    pub connections: usize,
    /// Bounds on a request: head, fields, body (read and discarded).
    pub http: h1::server::Limits,
    /// Requests answered on one connection; the last carries
    /// `Connection: close`. Default none.
    pub requests_per_connection: Option<u32>,
    /// Bytes queued towards a peer above which its next pipelined request
    /// waits. Default 256 KiB; at least one more than `app::SEND_LOW_WATER`.
    pub unsent_bytes: usize,
    /// Responses being streamed from files at once. Default 16,384.
    /// Above: 503.
    pub streams: usize,
    /// Bytes of streamed chunks held for all connections together, beside
    /// 16 KiB that each stream always has. Default 256 MiB. Half of it is
    /// shared evenly by the streams whose peers took something in the last
    /// second, half by the others, with at most [`Limits::stream_window`] for
    /// each. Where it is used up, what peers have left lying for a second is
    /// taken back; of those for whom that cannot be done, because all of it was
    /// sent, who has taken nothing for 10 s is reset.
    pub stream_bytes: usize,
    /// Bytes queued ahead for one stream. Default 2 MiB: too small caps a
    /// long fat path at window / RTT; too large takes memory.
    pub stream_window: usize,
    /// Paths waiting to be looked up or read, and requests waiting for one of
    /// them. Default 4,096. Above: 503.
    pub waiting: usize,
    /// Log bytes waiting for the writer thread. Default 1 MiB. Above, lines
    /// are dropped and counted.
    pub log_bytes: usize,
}

/// How long peers may take. Resolution about a millisecond.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// For heads, bodies, the next request (default 65 s) and the taking of a
    /// response. The last is kept to a sixteenth, and never exceeded, for
    /// responses that fill the queue; one that fits is given up at the latest a
    /// keep-alive time later.
    pub http: h1::server::Timeouts,
    /// From our FIN to the peer's. Default 5 s. Then reset.
    pub linger: Duration,
    /// From the start of a drain to the reset of what is left. Default 30 s.
    pub drain: Duration,
}

impl Config {
    /// The same response for every request, for measuring.
    #[must_use]
    pub fn respond(respond: Respond) -> Self {
        Self::with(Content::Respond(respond))
    }

    /// The files below `root`.
    #[must_use]
    pub fn directory(root: impl Into<PathBuf>) -> Self {
        Self::with(Content::Directory(Directory::new(root)))
    }

    fn with(content: Content) -> Self {
        Self {
            content,
            server_header: true,
            access_log: AccessLog::Off,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            helper_cpus: Vec::new(),
        }
    }

    /// Brings settings into their stated bounds, or says which cannot be.
    pub(crate) fn checked(mut self) -> Result<Self, ConfigError> {
        let limits = &mut self.limits;
        limits.unsent_bytes = limits.unsent_bytes.max(app::SEND_LOW_WATER + 1);
        limits.connections = limits.connections.clamp(1, u32::MAX as usize);
        limits.waiting = limits.waiting.max(1);
        limits.stream_window = limits.stream_window.max(SMALL_CHUNK);
        match &mut self.content {
            Content::Respond(Respond::Size(size)) if *size > RESPOND_SIZE_MAX => {
                return Err(ConfigError::RespondTooLarge(*size));
            }
            Content::Respond(_) => {}
            Content::Directory(directory) => directory.check()?,
        }
        Ok(self)
    }
}

/// The smallest piece of a streamed file, bytes: what a stream is always
/// given, however many there are.
pub(crate) const SMALL_CHUNK: usize = 16 << 10;

// A head that the engine accepts is held by the data path until it is whole.
const _: () = assert!(app::HELD_LIMIT > u16::MAX as usize);

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
            cache_entries: 8192,
            revalidate: Duration::from_secs(1),
            types: Vec::new(),
            default_type: "application/octet-stream".into(),
            reader: ReaderKind::Thread,
            shared_content: None,
        }
    }

    fn check(&mut self) -> Result<(), ConfigError> {
        // What is shared has a limit of its own.
        let most = if self.shared_content.is_some() { usize::MAX } else { self.cache_bytes };
        self.cache_file_bytes = self.cache_file_bytes.min(most).min(1 << 30);
        self.cache_entries = self.cache_entries.clamp(16, 1 << 24);
        self.revalidate = self.revalidate.max(Duration::from_secs(1));
        for name in &self.index {
            if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
                return Err(ConfigError::IndexName(name.clone()));
            }
        }
        let values = self.types.iter().map(|(_, value)| value);
        for value in values.chain([&self.default_type]) {
            if value.is_empty() || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return Err(ConfigError::TypeValue(value.clone()));
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1 << 20,
            http: h1::server::Limits::default(),
            requests_per_connection: None,
            unsent_bytes: 256 << 10,
            streams: 16_384,
            stream_bytes: 256 << 20,
            stream_window: 2 << 20,
            waiting: 4096,
            log_bytes: 1 << 20,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            http: h1::server::Timeouts { keep_alive: Duration::from_secs(65), ..h1::server::Timeouts::default() },
            linger: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}

/// Why a server could not start. All are the operator's to mend; none passes
/// by retrying.
#[derive(Debug)]
pub enum ConfigError {
    /// [`Respond::Size`] above [`RESPOND_SIZE_MAX`].
    RespondTooLarge(u64),
    /// An index file's name that is not a plain file name.
    IndexName(String),
    /// A media type that could not stand in a header field.
    TypeValue(String),
    /// The root directory could not be opened.
    Root(PathBuf, std::io::Error),
    /// The access log could not be opened.
    Log(PathBuf, std::io::Error),
    /// A helper thread or its wake-up descriptor could not be made.
    Helper(std::io::Error),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::RespondTooLarge(size) => {
                write!(f, "a response of {size} bytes is too large to hold in memory: at most {RESPOND_SIZE_MAX}")
            }
            Self::IndexName(name) => write!(f, "index file {name:?} is not a plain file name"),
            Self::TypeValue(value) => write!(f, "media type {value:?} cannot stand in a header field"),
            Self::Root(path, error) => write!(f, "cannot open the root directory {}: {error}", path.display()),
            Self::Log(path, error) => write!(f, "cannot open the access log {}: {error}", path.display()),
            Self::Helper(error) => write!(f, "cannot start a helper thread: {error}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Root(_, error) | Self::Log(_, error) | Self::Helper(error) => Some(error),
            _ => None,
        }
    }
}
