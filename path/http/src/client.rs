//! The client's engine: requests out, responses in.

use crate::response::{Sink, decimal};
use crate::{Fields, Framing, Method, Status, Version};

/// Bounds on what a server sends. Beyond a bound the response is
/// [`Error::TooLarge`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes in a response head; default 32768, at most 65535.
    pub head: u16,
    /// Field lines in a head; default 200.
    pub fields: u16,
    /// Interim (1xx) responses before the final one; default 8.
    pub interim: u8,
    /// Bytes of one chunk's header line, without CR LF; default 1024.
    pub chunk_line: u16,
    /// Bytes in the trailer section; default 16384.
    pub trailers: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: 32768, fields: 200, interim: 8, chunk_line: 1024, trailers: 16384 }
    }
}

/// Why a response cannot be used. The connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Not HTTP/1.x, or malformed: the server is to blame.
    Malformed,
    /// A bound of [`Limits`] was passed.
    TooLarge,
    /// A transfer coding other than chunked.
    UnsupportedCoding,
    /// The connection ended inside a response.
    Truncated,
}

/// A response head.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) fields_start: u16,
    /// The status.
    pub status: Status,
    /// The version.
    pub version: Version,
    /// Whether the connection can be used for another request.
    pub keep_alive: bool,
    /// How the body ends.
    pub framing: Framing,
}

impl<'a> Response<'a> {
    /// All field lines.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.head.get(usize::from(self.fields_start)..).unwrap_or_default())
    }
}

/// What the offered bytes mean. `consumed` bytes are to be dropped from the
/// front before the next call.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Nothing complete; offer the same bytes again when more arrived.
    NeedMore,
    /// An interim (1xx) response; the final one follows.
    Interim {
        /// The status.
        status: Status,
        /// The length of the head.
        consumed: usize,
    },
    /// The final response's head. If its framing is not `None`, `Body` events
    /// follow and end with `EndOfBody`.
    Response {
        /// The head.
        response: Response<'a>,
        /// The length of the head.
        consumed: usize,
    },
    /// Some of the body. Never empty.
    Body {
        /// Body bytes, transfer coding removed.
        bytes: &'a [u8],
        /// Their length and that of the framing before them.
        consumed: usize,
    },
    /// The body is complete. May come for an empty slice.
    EndOfBody {
        /// The length of the framing at the end.
        consumed: usize,
    },
    /// The response cannot be used. Every later call says so again.
    Failed {
        /// Why.
        error: Error,
    },
}

/// How far [`Engine::on_bytes_counted`] came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// `consumed` bytes are used, the response is not complete.
    NeedMore {
        /// Bytes to drop from the front.
        consumed: usize,
    },
    /// One response is complete.
    Complete {
        /// What it was.
        summary: Summary,
        /// Bytes to drop from the front; what follows is the next response.
        consumed: usize,
    },
    /// The response cannot be used.
    Failed {
        /// Why.
        error: Error,
    },
}

/// A complete response, body not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The status.
    pub status: Status,
    /// Whether the connection can be used for another request.
    pub keep_alive: bool,
    /// Bytes of body, transfer coding removed.
    pub body: u64,
}

/// The last response head that was parsed, and its meaning: a head equal to it
/// byte by byte, as most are under load, means the same and is not parsed
/// again. One for all connections of a caller.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    head: Vec<u8>,
}

/// The receiving half of one client connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Engine {
    remaining: u64,
    body: u64,
    resume: u16,
}

const _: () = assert!(size_of::<Engine>() <= 40);

impl Engine {
    /// A new connection's engine.
    #[must_use]
    pub const fn new() -> Self {
        Self { remaining: 0, body: 0, resume: 0 }
    }

    /// Takes a look at the bytes offered. `asked` is the method of the oldest
    /// request without a complete response: a response to HEAD has no body
    /// whatever its fields say.
    pub fn on_bytes<'a>(&mut self, data: &'a [u8], asked: Method, limits: &Limits) -> Event<'a> {
        let _ = (data, asked, limits);
        Event::NeedMore
    }

    /// As [`Engine::on_bytes`], until one response is complete, for callers
    /// that only count: the load generator. Interim responses are skipped.
    /// `memo` is shared by all connections of a caller.
    pub fn on_bytes_counted(&mut self, data: &[u8], asked: Method, limits: &Limits, memo: &mut Memo) -> Counted {
        let _ = (data, asked, limits, memo);
        Counted::NeedMore { consumed: 0 }
    }

    /// The server closed its side, after all its bytes were offered and
    /// `held` of them were left unconsumed. `Some` if that completes a
    /// response whose body ends with the connection; `None` between
    /// responses.
    ///
    /// # Errors
    /// [`Error::Truncated`] inside a response.
    pub fn on_end(&mut self, held: usize) -> Result<Option<Summary>, Error> {
        let _ = held;
        Ok(None)
    }
}

/// Writes one request head, in order: [`Head::new`], fields, [`Head::end`].
/// Method, target, names and values must be free of CR, LF and, in the first
/// two, of spaces.
#[must_use = "a head without `end` is not complete"]
#[derive(Debug)]
pub struct Head<'s, S: Sink> {
    out: &'s mut S,
}

impl<'s, S: Sink> Head<'s, S> {
    /// Starts a head with its request line and Host (RFC 9112 section 3.2).
    pub fn new(out: &'s mut S, method: &str, target: &[u8], host: &[u8]) -> Self {
        out.put(method.as_bytes());
        out.put(b" ");
        out.put(target);
        out.put(b" HTTP/1.1\r\nHost: ");
        out.put(host);
        out.put(b"\r\n");
        Self { out }
    }

    /// A field.
    pub fn field(self, name: &str, value: &[u8]) -> Self {
        self.out.put(name.as_bytes());
        self.out.put(b": ");
        self.out.put(value);
        self.out.put(b"\r\n");
        self
    }

    /// `Content-Length`.
    pub fn content_length(self, length: u64) -> Self {
        let mut digits = [0; 20];
        self.field("Content-Length", decimal(length, &mut digits))
    }

    /// `Connection: close`: no request follows on this connection.
    pub fn close(self) -> Self {
        self.field("Connection", b"close")
    }

    /// The empty line: the head is complete.
    pub fn end(self) {
        self.out.put(b"\r\n");
    }
}
