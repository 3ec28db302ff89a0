//! The client's engine: requests out, responses in.

mod head;
mod noted;
mod plain;

pub use noted::NotedLines;

use crate::chunked::{self, Boundary, Bounds};
use crate::lines::{LineEnds, Progress, Section};
use crate::response::{Sink, decimal};
use crate::{Framing, Version};
use plain::Plain;
use semantics::{Fields, Method, Status};

/// Bounds on what a server sends. Beyond a bound the response is
/// [`Error::TooLarge`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseLimits {
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
    /// Whether lines of a head may end in LF alone (RFC 9112 section 2.2); default no.
    /// Such a head is not parsed where it lies: [`ResponseEvent::LineFeeds`].
    /// A CR without LF is refused either way, and chunks keep to CR LF.
    pub line_feeds: bool,
    /// Trailers that are no fields cost an answer nothing but themselves; else it is malformed. On by default.
    pub skips_bad_trailers: bool,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            head: 32768,
            fields: 200,
            interim: 8,
            chunk_line: 1024,
            trailers: 16384,
            line_feeds: false,
            skips_bad_trailers: true,
        }
    }
}

/// Why a response cannot be used. The connection must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Not HTTP/1.x, or malformed: the server is to blame.
    Malformed,
    /// A bound of [`ResponseLimits`] was passed.
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
    /// Whether the name of a field begins with `x` or `X`, as those do that no standard has (RFC 6648).
    pub has_x_field: bool,
}

impl<'a> Response<'a> {
    /// Where in the head its fields begin.
    #[inline]
    #[must_use]
    pub fn fields_start(&self) -> usize {
        usize::from(self.fields_start)
    }

    /// All field lines.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.head.get(usize::from(self.fields_start)..).unwrap_or_default())
    }
}

/// What the offered bytes mean. `consumed` bytes are to be dropped from the
/// front before the next call.
#[derive(Clone, Copy, Debug)]
pub enum ResponseEvent<'a> {
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
    /// A complete head, of an interim response or the final one, of which lines end in LF
    /// alone, where [`ResponseLimits::line_feeds`] says that they may. What it says is
    /// told when [`crate::canonical`] of these bytes is offered, instead of which these
    /// are to be dropped.
    LineFeeds {
        /// The length of the head as sent.
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
        /// The lines of the trailer section (RFC 9112 section 7.1.2), each with its
        /// CR LF: field lines, whatever their names. Empty where there are none.
        trailers: &'a [u8],
    },
    /// The response cannot be used. Every later call says so again.
    Failed {
        /// Why.
        error: Error,
    },
}

/// How far [`ResponseReader::on_bytes_counted`] came.
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

/// What a final response's head means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Meaning {
    status: Status,
    keep_alive: bool,
    framing: Framing,
}

impl Meaning {
    fn of(response: &Response<'_>) -> Self {
        Self { status: response.status, keep_alive: response.keep_alive, framing: response.framing }
    }
}

/// Where in the message the next byte is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// In a head, or before it.
    #[default]
    Head,
    /// In a body of known length; `remaining` bytes are left.
    Length,
    /// In a body that ends with the connection.
    UntilClose,
    /// Before the first chunk's line.
    FirstChunk,
    /// In a chunk; `remaining` bytes are left.
    Chunk,
    /// After a chunk's last byte.
    ChunkEnd,
    /// No further response can be told from what follows.
    Closed,
    /// A response could not be used.
    Failed,
}

/// The receiving half of one client connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseReader {
    /// Bytes left of the body or the chunk.
    remaining: u64,
    /// Bytes of body so far.
    body: u64,
    status: Status,
    /// Of a head that is incomplete.
    progress: Progress,
    /// Interim responses before this one.
    interim: u8,
    keep_alive: bool,
    state: State,
    error: Error,
}

// The load generator holds a million.
const _: () = assert!(size_of::<ResponseReader>() <= 32);

impl Default for ResponseReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseReader {
    /// A new connection's engine.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            remaining: 0,
            body: 0,
            status: Status::OK,
            progress: Progress::NONE,
            interim: 0,
            keep_alive: true,
            state: State::Head,
            error: Error::Malformed,
        }
    }

    /// Takes a look at the bytes offered. `asked` is the method of the oldest
    /// request without a complete response: a response to HEAD has no body
    /// whatever its fields say.
    ///
    /// Bytes after the last response of a connection that is not kept alive
    /// are [`Error::Malformed`].
    pub fn on_bytes<'a>(&mut self, data: &'a [u8], asked: Method, limits: &ResponseLimits) -> ResponseEvent<'a> {
        match self.state {
            State::Head => self.on_head(data, asked, limits, drop),
            State::Length if self.remaining == 0 => self.end_of_body(0, b""),
            State::Length | State::Chunk => self.on_body(data, 0),
            State::UntilClose => {
                self.remaining = u64::MAX;
                self.on_body(data, 0)
            }
            State::FirstChunk | State::ChunkEnd => self.on_boundary(data, limits),
            State::Closed if data.is_empty() => ResponseEvent::NeedMore,
            State::Closed => self.fail(Error::Malformed),
            State::Failed => ResponseEvent::Failed { error: self.error },
        }
    }

    /// As [`ResponseReader::on_bytes`], until one response is complete, for callers
    /// that only count: the load generator. Interim responses are skipped.
    #[inline]
    pub fn on_bytes_counted(&mut self, data: &[u8], asked: Method, limits: &ResponseLimits) -> Counted {
        if self.state == State::Head
            && self.progress.is_none()
            && asked == Method::Get
            && let Some(plain) = plain::parse(data, limits)
        {
            return self.count_plain(plain, data, asked, limits);
        }
        self.count(data, 0, asked, limits)
    }

    #[inline(always)]
    fn count_plain(&mut self, plain: Plain, data: &[u8], asked: Method, limits: &ResponseLimits) -> Counted {
        let (head, body) = (plain.head as usize, u64::from(plain.body));
        // Nearly always, the body is there with its head.
        if let Some(rest) = data.get(head..)
            && rest.len() >= plain.body as usize
        {
            self.interim = 0;
            self.body = body;
            self.status = Status::OK;
            self.keep_alive = true;
            return Counted::Complete { summary: self.summary(), consumed: head + plain.body as usize };
        }
        self.enter(Meaning { status: Status::OK, keep_alive: true, framing: Framing::Length(body) });
        self.count(data, head, asked, limits)
    }

    #[inline(never)]
    fn count(&mut self, data: &[u8], mut at: usize, asked: Method, limits: &ResponseLimits) -> Counted {
        loop {
            let rest = data.get(at..).unwrap_or_default();
            match self.on_bytes(rest, asked, limits) {
                ResponseEvent::NeedMore => return Counted::NeedMore { consumed: at },
                ResponseEvent::Interim { consumed, .. } | ResponseEvent::Body { consumed, .. } => at += consumed,
                ResponseEvent::Response { response, consumed } => {
                    at += consumed;
                    if response.framing == Framing::None {
                        return Counted::Complete { summary: self.summary(), consumed: at };
                    }
                }
                ResponseEvent::EndOfBody { consumed, .. } => {
                    return Counted::Complete { summary: self.summary(), consumed: at + consumed };
                }
                ResponseEvent::LineFeeds { .. } => {
                    self.fail(Error::Malformed);
                    return Counted::Failed { error: Error::Malformed };
                }
                ResponseEvent::Failed { error } => return Counted::Failed { error },
            }
        }
    }

    /// The server closed its side, after all its bytes were offered and
    /// `held` of them were left unconsumed. `Some` if that completes a
    /// response whose body ends with the connection; `None` between
    /// responses.
    ///
    /// # Errors
    /// [`Error::Truncated`] inside a response (RFC 9112 section 8).
    pub fn on_end(&mut self, held: usize) -> Result<Option<Summary>, Error> {
        match self.state {
            State::UntilClose => {
                self.state = State::Closed;
                Ok(Some(self.summary()))
            }
            State::Failed => Err(self.error),
            State::Head | State::Closed if held == 0 && self.interim == 0 => Ok(None),
            _ => {
                self.fail(Error::Truncated);
                Err(Error::Truncated)
            }
        }
    }

    /// Bytes that are left of a body of known length.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        (self.state == State::Length).then_some(self.remaining)
    }

    /// Whether what comes next is a body's, with no framing before it.
    #[must_use]
    pub const fn is_within_content(&self) -> bool {
        matches!(self.state, State::Length | State::UntilClose | State::Chunk)
    }

    /// So many bytes of such a body went by without being offered.
    pub fn skip(&mut self, bytes: u64) {
        if self.state == State::Length {
            let bytes = bytes.min(self.remaining);
            self.remaining -= bytes;
            self.body += bytes;
        }
    }

    /// Bytes of the current or last response's body so far.
    #[inline]
    #[must_use]
    pub const fn body_len(&self) -> u64 {
        self.body
    }

    fn summary(&self) -> Summary {
        Summary { status: self.status, keep_alive: self.keep_alive, body: self.body }
    }

    fn on_head<'a>(
        &mut self,
        data: &'a [u8],
        asked: Method,
        limits: &ResponseLimits,
        note: impl FnMut(usize),
    ) -> ResponseEvent<'a> {
        let window = data.get(..usize::from(limits.head)).unwrap_or(data);
        if !self.progress.is_none()
            && let Err(stop) = self.resume(window, limits)
        {
            return self.stop(window, asked, limits, stop);
        }
        match head::parse(window, asked, limits, note) {
            Ok(response) if response.status.is_interim() => {
                // RFC 9110 section 15.2: a client skips them, though not
                // without end.
                self.interim = self.interim.saturating_add(1);
                self.progress = Progress::NONE;
                if self.interim > limits.interim {
                    return self.fail(Error::TooLarge);
                }
                ResponseEvent::Interim { status: response.status, consumed: response.head.len() }
            }
            Ok(response) => {
                self.enter(Meaning::of(&response));
                ResponseEvent::Response { response, consumed: response.head.len() }
            }
            Err(stop) => self.stop(window, asked, limits, stop),
        }
    }

    /// Past a final response's head.
    #[inline(always)]
    fn enter(&mut self, head: Meaning) {
        self.progress = Progress::NONE;
        self.interim = 0;
        self.body = 0;
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        match head.framing {
            Framing::Length(length) => {
                self.remaining = length;
                self.state = State::Length;
            }
            Framing::None => self.state = if head.keep_alive { State::Head } else { State::Closed },
            Framing::Chunked => self.state = State::FirstChunk,
            Framing::UntilClose => self.state = State::UntilClose,
        }
    }

    /// Goes on with a head that was incomplete. `Ok` when the whole head may be
    /// there.
    #[cold]
    fn resume(&self, window: &[u8], limits: &ResponseLimits) -> Result<(), head::Stop> {
        match self.progress.resume(window, limits.fields, LineEnds::of(limits.line_feeds)) {
            Section::Complete(_) => Ok(()),
            Section::Incomplete(checked, fields) => Err(head::Stop::Incomplete { checked, fields }),
            Section::Malformed => Err(head::Stop::Fail(Error::Malformed)),
            Section::TooMany => Err(head::Stop::Fail(Error::TooLarge)),
        }
    }

    #[cold]
    fn stop<'a>(
        &mut self,
        window: &[u8],
        asked: Method,
        limits: &ResponseLimits,
        stop: head::Stop,
    ) -> ResponseEvent<'a> {
        let stop = match stop {
            head::Stop::Fail(Error::Malformed) if limits.line_feeds => match head::of_line_feeds(window, asked, limits)
            {
                Some(Ok(consumed)) => {
                    self.progress = Progress::NONE;
                    return ResponseEvent::LineFeeds { consumed };
                }
                Some(Err(stop)) => stop,
                None => stop,
            },
            stop => stop,
        };
        match stop {
            head::Stop::Fail(error) => self.fail(error),
            head::Stop::Incomplete { .. } if window.len() == usize::from(limits.head) => self.fail(Error::TooLarge),
            head::Stop::Incomplete { checked, fields } => {
                self.progress = Progress::at(window, checked, fields);
                ResponseEvent::NeedMore
            }
        }
    }

    #[cold]
    fn fail<'a>(&mut self, error: Error) -> ResponseEvent<'a> {
        self.state = State::Failed;
        self.error = error;
        ResponseEvent::Failed { error }
    }

    /// Body bytes after `skip` bytes of framing.
    fn on_body<'a>(&mut self, data: &'a [u8], skip: usize) -> ResponseEvent<'a> {
        let rest = data.get(skip..).unwrap_or_default();
        let take = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
        if take == 0 {
            return ResponseEvent::NeedMore;
        }
        self.remaining -= take as u64;
        self.body += take as u64;
        if self.remaining == 0 && self.state == State::Chunk {
            self.state = State::ChunkEnd;
        }
        ResponseEvent::Body { bytes: &rest[..take], consumed: skip + take }
    }

    fn on_boundary<'a>(&mut self, data: &'a [u8], limits: &ResponseLimits) -> ResponseEvent<'a> {
        let bounds = Bounds {
            chunk_line: limits.chunk_line,
            trailers: limits.trailers,
            trailer_fields: limits.fields,
            skips_bad_trailers: limits.skips_bad_trailers,
        };
        match chunked::boundary(data, self.state == State::FirstChunk, bounds) {
            Boundary::Incomplete => ResponseEvent::NeedMore,
            // The line is read again when the chunk's first byte is there:
            // there would be no event to consume it with.
            Boundary::Chunk { skip, .. } if skip == data.len() => ResponseEvent::NeedMore,
            Boundary::Chunk { size, skip } => {
                self.remaining = size;
                self.state = State::Chunk;
                self.on_body(data, skip)
            }
            Boundary::Last { skip, trailers } => {
                // Without the empty line at their end.
                let lines = data.get(trailers..skip.saturating_sub(2)).unwrap_or_default();
                self.end_of_body(skip, lines)
            }
            Boundary::Malformed => self.fail(Error::Malformed),
            Boundary::TooLarge => self.fail(Error::TooLarge),
        }
    }

    #[inline(always)]
    fn end_of_body<'a>(&mut self, consumed: usize, trailers: &'a [u8]) -> ResponseEvent<'a> {
        self.state = if self.keep_alive { State::Head } else { State::Closed };
        ResponseEvent::EndOfBody { consumed, trailers }
    }
}

/// Writes one request head, in order: [`RequestHead::new`], fields, [`RequestHead::end`].
/// Method, target, names and values must be free of CR, LF and, in the first
/// two, of spaces.
#[must_use = "a head without `end` is not complete"]
#[derive(Debug)]
pub struct RequestHead<'s, S: Sink> {
    out: &'s mut S,
}

impl<'s, S: Sink> RequestHead<'s, S> {
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

#[cfg(test)]
mod tests;
