//! What the server is told: typed, with every limit named and defaulted.

use crate::program::Program;
use access_log::{AccessLog, LineFormat};
use connections::{ConnectionNumbers, ExchangeTerms, HeadTerms, Limits, Timeouts};
use core::net::SocketAddr;
use core::time::Duration;
use exchange::EXCHANGE_SLOTS_MAX;
use files::{Directory, SMALL_CHUNK};
use latency::SeriesBoard;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything a server is told. `Config::respond` and
/// `Config::directory` give the defaults; every field may then be changed.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is served.
    pub content: Content,
    /// Whether responses carry `Server: nearside`. Costs 18 bytes a response.
    pub server_header: bool,
    /// Whether every head says whether its connection goes on (`Connection`), where the
    /// version of HTTP means it without, too (RFC 9112 section 9.3). Costs 24 bytes a
    /// response. Default: what a configuration of nginx's is served by does, as nginx
    /// does, and nothing else.
    pub says_persistence: bool,
    /// Where the access log goes.
    pub access_log: AccessLog,
    /// Upper bounds on what peers can make us hold.
    pub limits: Limits,
    /// How long peers may take.
    pub timeouts: Timeouts,
    /// Limits and times of heads, by the numbers that listeners have, in place of those
    /// above; [`exchange::HEAD_TERMS_MAX`] at most. Default: none.
    pub head_terms: Vec<HeadTerms>,
    /// Times of exchanges, by the numbers that listeners have, and handlers give exchanges,
    /// in place of those above; [`exchange::EXCHANGE_TERMS_MAX`] at most. Default: none.
    pub exchange_terms: Vec<ExchangeTerms>,
    /// CPUs that the helper threads (file reader, log writer) may run on;
    /// empty means those of the process's main thread. Helpers never inherit
    /// the silo's pinning: on the silo's core they would wait for its spin.
    pub helper_cpus: Vec<usize>,
    /// What lines of access logs look like; those of a configuration say so
    /// themselves. Default: nginx's `combined`.
    pub log_format: LineFormat,
    /// Where latencies are counted; they are not without. Default: none.
    pub latency: Option<SeriesBoard>,
    /// How connections are numbered. Default: as those of the only silo.
    pub numbers: ConnectionNumbers,
    /// What each request costs before it is answered, for experiments with a
    /// directory's files or one response. Default: nothing but the answer.
    pub work: Option<RequestWork>,
}

/// What each request costs.
#[derive(Clone, Copy, Debug)]
pub struct RequestWork {
    /// So much of the time that a core gives to the thread that answers.
    pub span: Duration,
    /// Spends it: the clock is not read here.
    pub burn: fn(Duration),
}

/// What is served.
#[derive(Clone, Debug)]
pub enum Content {
    /// The files below a directory.
    Directory(Directory),
    /// The same bytes for every target and any method but CONNECT and TRACE:
    /// for measuring.
    Respond(Respond),
    /// What a configuration says, with files wherever it says: of the directory
    /// count its limits alone.
    Program(Arc<Program>, Directory),
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

/// The largest [`Respond::Size`], bytes: with its head it fits into a connection's queue, which
/// holds 2^30 bytes (`rope::MAX_QUEUED`).
pub const RESPOND_SIZE_MAX: u64 = (1 << 30) - (64 << 10);

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

    /// What a configuration says.
    #[must_use]
    pub fn program(program: Arc<Program>) -> Self {
        Self { says_persistence: true, ..Self::with(Content::Program(program, Directory::everything())) }
    }

    fn with(content: Content) -> Self {
        Self {
            content,
            server_header: true,
            says_persistence: false,
            access_log: AccessLog::Off,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            head_terms: Vec::new(),
            exchange_terms: Vec::new(),
            helper_cpus: Vec::new(),
            log_format: LineFormat::default(),
            latency: None,
            numbers: ConnectionNumbers::default(),
            work: None,
        }
    }

    /// What files are served within.
    #[must_use]
    pub const fn file_limits(&self) -> files::FileLimits {
        files::FileLimits {
            streams: self.limits.streams,
            stream_bytes: self.limits.stream_bytes,
            stream_window: self.limits.stream_window,
            waiting: self.limits.waiting,
        }
    }

    /// Whether clients of some address begin with a handshake of TLS.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        matches!(&self.content, Content::Program(program, _) if program.speaks_tls())
    }

    /// What clients of an address begin their URLs with.
    #[must_use]
    pub fn scheme_at(&self, address: SocketAddr) -> &'static str {
        let speaks =
            |content: &Content| matches!(content, Content::Program(program, _) if program.speaks_tls_at(address));
        if speaks(&self.content) { "https" } else { "http" }
    }

    /// Brings settings into their stated bounds.
    ///
    /// # Errors
    /// What cannot be brought there.
    pub fn checked(mut self) -> Result<Self, ConfigError> {
        let limits = &mut self.limits;
        limits.unsent_bytes = limits.unsent_bytes.max(app::SEND_LOW_WATER + 1);
        limits.connections = limits.connections.clamp(1, EXCHANGE_SLOTS_MAX as usize);
        limits.waiting = limits.waiting.max(1);
        limits.stream_window = limits.stream_window.max(SMALL_CHUNK);
        self.content.check()?;
        Ok(self)
    }
}

impl Content {
    /// The files that are served, or their limits.
    #[must_use]
    pub const fn directory(&self) -> Option<&Directory> {
        match self {
            Self::Directory(directory) | Self::Program(_, directory) => Some(directory),
            Self::Respond(_) => None,
        }
    }

    /// The same, to be changed.
    #[must_use]
    pub const fn directory_mut(&mut self) -> Option<&mut Directory> {
        match self {
            Self::Directory(directory) | Self::Program(_, directory) => Some(directory),
            Self::Respond(_) => None,
        }
    }

    fn check(&mut self) -> Result<(), ConfigError> {
        match self {
            Self::Respond(Respond::Size(size)) if *size > RESPOND_SIZE_MAX => Err(ConfigError::RespondTooLarge(*size)),
            Self::Directory(directory) | Self::Program(_, directory) => Ok(directory.check()?),
            _ => Ok(()),
        }
    }
}

/// Why a server could not start. All are the operator's to mend; none passes
/// by retrying.
#[derive(Debug)]
pub enum ConfigError {
    /// [`Respond::Size`] above [`RESPOND_SIZE_MAX`].
    RespondTooLarge(u64),
    /// What is served is to be of another kind, which no server that is running takes up.
    OtherKind,
    /// An index file's name that is not a plain file name.
    IndexName(String),
    /// A media type that could not stand in a header field.
    TypeValue(String),
    /// The root directory could not be opened.
    Root(PathBuf, std::io::Error),
    /// The access log could not be opened.
    Log(PathBuf, std::io::Error),
    /// A folder for bodies of requests could not be opened.
    BodyFolder(String),
    /// A helper thread or its wake-up descriptor could not be made.
    Helper(std::io::Error),
}

impl From<files::Error> for ConfigError {
    fn from(error: files::Error) -> Self {
        match error {
            files::Error::IndexName(name) => Self::IndexName(name),
            files::Error::TypeValue(value) => Self::TypeValue(value),
            files::Error::Root(path, error) => Self::Root(path, error),
            files::Error::Helper(error) => Self::Helper(error),
        }
    }
}

impl From<access_log::Error> for ConfigError {
    fn from(error: access_log::Error) -> Self {
        match error {
            access_log::Error::Open(path, error) => Self::Log(path, error),
            access_log::Error::Helper(error) => Self::Helper(error),
        }
    }
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::RespondTooLarge(size) => {
                write!(f, "a response of {size} bytes is too large to hold in memory: at most {RESPOND_SIZE_MAX}")
            }
            Self::OtherKind => f.write_str("another kind of content needs another server"),
            Self::IndexName(name) => write!(f, "index file {name:?} is not a plain file name"),
            Self::TypeValue(value) => write!(f, "media type {value:?} cannot stand in a header field"),
            Self::Root(path, error) => write!(f, "cannot open the root directory {}: {error}", path.display()),
            Self::Log(path, error) => write!(f, "cannot open the access log {}: {error}", path.display()),
            Self::BodyFolder(why) => f.write_str(why),
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
