//! What a client may ask of the server, in bytes and in time.

use core::time::Duration;

/// Bounds on what a client sends. At each bound the request is rejected with
/// the status named, and the connection closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimits {
    /// Bytes in the request line, without CR LF; default 8192 (RFC 9112
    /// section 3 asks for at least 8000). Beyond: 414.
    pub request_line: u16,
    /// Bytes in the whole head, request line and empty line included; default
    /// 16384, at most 65535. Beyond: 431.
    pub head: u16,
    /// Field lines in a head; default 100. Beyond: 431.
    pub fields: u16,
    /// Bytes in a body, chunked or not; default 1 MiB. Beyond: 413.
    pub body: u64,
    /// Bytes of one chunk's header line, extensions included, without CR LF;
    /// default 256. Beyond: 400.
    pub chunk_line: u16,
    /// Bytes in the trailer section; default 4096. Beyond: 431.
    pub trailers: u16,
    /// Whether lines of a head may end in LF alone (RFC 9112 section 2.2); default no.
    /// Such a head is not parsed where it lies: [`super::RequestEvent::LineFeeds`].
    /// A CR without LF is refused either way, and chunks keep to CR LF.
    pub line_feeds: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            request_line: 8192,
            head: 16384,
            fields: 100,
            body: 1 << 20,
            chunk_line: 256,
            trailers: 4096,
            line_feeds: false,
        }
    }
}

/// What a connection waits for from its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// The first byte of the first request.
    FirstHead,
    /// The rest of a head of which some arrived.
    Head,
    /// More of a body.
    Body,
    /// The next request, after one was served.
    KeepAlive,
    /// Nothing: no more requests are served.
    Nothing,
}

/// How long a client may let the server wait. The engine reads no clock: the
/// caller sets a timer of [`Timeouts::after`] and acts when it runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// For a complete head, from the opening of the connection or from the
    /// head's first byte, not extended by progress (else a client could hold
    /// a connection with a byte now and then); default 60 s. Then: 408.
    pub header: Duration,
    /// Between two arrivals of body bytes; default 60 s. Then: 408.
    pub body: Duration,
    /// For the next request's first byte, from the end of the last response;
    /// default 75 s. Then: close without a response.
    pub keep_alive: Duration,
    /// Between two advances of the client's acknowledgements while something
    /// is to be sent; default 60 s. Then: reset.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(60),
            body: Duration::from_secs(60),
            keep_alive: Duration::from_secs(75),
            send: Duration::from_secs(60),
        }
    }
}

impl Timeouts {
    /// How long the client may take for what is waited for; `None` when
    /// nothing is.
    #[inline]
    #[must_use]
    pub const fn after(&self, waiting: Waiting) -> Option<Duration> {
        match waiting {
            Waiting::FirstHead | Waiting::Head => Some(self.header),
            Waiting::Body => Some(self.body),
            Waiting::KeepAlive => Some(self.keep_alive),
            Waiting::Nothing => None,
        }
    }
}

impl Waiting {
    /// Whether each arrival starts the time anew. A head's time is fixed at
    /// its first byte.
    #[inline]
    #[must_use]
    pub const fn restarts_on_progress(self) -> bool {
        matches!(self, Self::Body)
    }

    /// Whether a client that lets the time run out is told so with 408
    /// (RFC 9110 section 15.5.9); an idle connection is just closed.
    #[inline]
    #[must_use]
    pub const fn answers_408(self) -> bool {
        matches!(self, Self::Head | Self::Body)
    }
}
