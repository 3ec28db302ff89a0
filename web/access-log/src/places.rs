//! Where lines of a set of logs go.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;

/// Where lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogPlace {
    /// Appended to this file.
    File {
        /// Its path.
        path: PathBuf,
        /// What waits before it is written; `None`: what one silo has gathered in
        /// a tenth of a second.
        buffering: Option<Buffering>,
    },
    /// To a file of each line's own: see [`crate::LogSet::named_line`].
    Named {
        /// Files that are kept open; `None`: none is.
        open: Option<OpenFiles>,
        /// Whether a path may lead over symbolic links.
        symlinks: bool,
    },
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// To a syslog server, each line a datagram.
    Syslog(SyslogPlace),
}

/// What waits before it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffering {
    /// Written when more than this many bytes wait…
    pub bytes: usize,
    /// …or the first has waited so long; `None`: any time.
    pub flush: Option<Duration>,
    /// Compressed at this level, 1 to 9: what is written at once is a member of
    /// its own (RFC 1952 section 2.2).
    #[cfg(feature = "compress")]
    pub gzip: Option<u8>,
}

/// Files that are kept open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFiles {
    /// How many, at most; the one that was not written to for longest is closed.
    pub most: usize,
    /// One that was not written to for so long is closed.
    pub inactive: Duration,
    /// After so long it is looked whether a path leads to another file by now.
    pub valid: Duration,
    /// One that was written to less often is not kept.
    pub uses: u32,
}

/// A syslog server, and how it is told (RFC 3164).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyslogPlace {
    /// Where it is.
    pub server: SyslogServer,
    /// By its number (RFC 3164 section 4.1.1).
    pub facility: u8,
    /// That of lines that have none of their own.
    pub severity: u8,
    /// Who tells.
    pub tag: String,
    /// Whether the name of this machine is told.
    pub hostname: bool,
}

/// Where a syslog server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyslogServer {
    /// It takes UDP here.
    Udp(SocketAddr),
    /// It takes datagrams at this socket.
    Unix(PathBuf),
}
