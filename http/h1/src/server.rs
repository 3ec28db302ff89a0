//! The server's engine: requests in.
//!
//! ```text
//!            Request            Body*           EndOfBody
//!  (head) ───────────► (body) ─────────► … ────────────────► (head)
//!     │                   │
//!     └── Reject ──► (closed): whatever follows is Ignored
//! ```
//!
//! The caller loops: offer the bytes there are, act on the event, drop
//! `consumed` bytes from the front, and again until `NeedMore`.

mod framing;
mod head;
mod limits;
mod plain;
mod transfer;

pub use limits::{RequestLimits, Timeouts, Waiting};
pub use plain::Plain;
pub use transfer::Transfer;

use crate::chunked::{self, Boundary, Bounds};
use crate::lines::{LineEnds, Progress, Section, canonical, section_of_line_feeds};
use semantics::scan::{find, is_token};
use semantics::{Request, Status};

/// What the offered bytes mean. `consumed` bytes are to be dropped from the
/// front before the next call.
#[derive(Clone, Copy, Debug)]
pub enum RequestEvent<'a> {
    /// Nothing complete; offer the same bytes again when more arrived.
    NeedMore,
    /// A request's head. If [`Transfer::framing`] is not `None`, `Body` events
    /// follow and end with `EndOfBody`.
    Request {
        /// The parsed head.
        request: Request<'a>,
        /// What it says of its message and the connection.
        transfer: Transfer,
        /// The length of the head.
        consumed: usize,
    },
    /// A complete head of which lines end in LF alone, where
    /// [`RequestLimits::line_feeds`] says that they may. What it asks for is told when
    /// [`crate::canonical`] of these bytes is offered, of which nobody but the caller
    /// sees what was sent; then these are to be dropped.
    LineFeeds {
        /// The length of the head as sent, empty lines before it included.
        consumed: usize,
    },
    /// Some of the body, in order. Never empty.
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
    /// The request cannot be served: answer with `status` and close, because
    /// where the next request begins is not known (RFC 9112 section 9.3).
    /// Comes once, then `Ignored`.
    Reject {
        /// What to answer.
        status: Status,
        /// All that was offered.
        consumed: usize,
    },
    /// Bytes after the last request that this connection serves: drop them,
    /// and close when the response is sent (RFC 9112 section 9.6). Never empty.
    Ignored {
        /// All that was offered.
        consumed: usize,
    },
}

/// Where in the message the next byte is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// In a head, or before it.
    #[default]
    Head,
    /// In a body of known length; `remaining` bytes are left.
    Length,
    /// Before the first chunk's line.
    FirstChunk,
    /// In a chunk; `remaining` bytes are left.
    Chunk,
    /// After a chunk's last byte.
    ChunkEnd,
    /// After the last request.
    Closed,
}

/// The receiving half of one server connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestReader {
    /// Bytes left of the body or the chunk.
    remaining: u64,
    /// Bytes that the chunks after this one may still have.
    allowance: u64,
    /// Of a head that is incomplete.
    progress: Progress,
    state: State,
    /// No request follows the one under way.
    last: bool,
    /// A request was seen.
    served: bool,
}

// A million idle connections each hold one.
const _: () = assert!(size_of::<RequestReader>() <= 32);

impl RequestReader {
    /// A new connection's engine.
    #[must_use]
    pub const fn new() -> Self {
        Self { remaining: 0, allowance: 0, progress: Progress::NONE, state: State::Head, last: false, served: false }
    }

    /// Takes a look at the bytes offered.
    #[inline(never)]
    pub fn on_bytes<'a>(&mut self, data: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        if self.state == State::Head { self.on_head(data, limits) } else { self.on_rest(data, limits) }
    }

    /// The plain head that `data` begins with, if one is expected; `None` for
    /// any other, which [`RequestReader::on_bytes`] is to be asked about. The engine
    /// is as before: [`RequestReader::pass`] moves it past the head.
    #[inline(always)]
    #[must_use]
    pub fn plain(&self, data: &[u8], limits: &RequestLimits) -> Option<Plain> {
        if self.state == State::Head && self.progress.is_none() { plain::parse(data, limits) } else { None }
    }

    /// Past a head that [`RequestReader::plain`] has just found: its bytes are to be
    /// dropped from the front.
    #[inline(always)]
    pub const fn pass(&mut self, keep_alive: bool) {
        self.served = true;
        if !keep_alive {
            self.close();
        }
    }

    /// Serves no request after the one under way: what follows it is
    /// [`RequestEvent::Ignored`]. The engine does this itself where the client asked
    /// for it ([`Transfer::keep_alive`] is false) and after a `Reject`; call it
    /// when the server decides so (drain, request limit).
    pub const fn close(&mut self) {
        self.last = true;
        if matches!(self.state, State::Head) {
            self.state = State::Closed;
        }
    }

    /// Gives back the last `bytes` of the [`RequestEvent::Body`] that was just
    /// returned: they are offered again, and not among those to be dropped.
    pub fn put_back(&mut self, bytes: u64) {
        self.remaining = self.remaining.saturating_add(bytes);
        if self.state == State::ChunkEnd {
            self.state = State::Chunk;
        }
    }

    /// Refuses more than `most` bytes of the body in chunks that is to begin,
    /// where that is less than [`RequestLimits::body`].
    pub fn limit_body(&mut self, most: u64) {
        self.allowance = self.allowance.min(most);
    }

    /// Takes as much of the body in chunks that has begun as there is: it is dropped.
    pub const fn allow_body(&mut self) {
        self.allowance = u64::MAX;
    }

    /// What the engine waits for, to choose a deadline
    /// ([`Timeouts::after`]).
    #[inline]
    #[must_use]
    pub const fn waiting(&self) -> Waiting {
        match self.state {
            State::Head if !self.progress.is_none() => Waiting::Head,
            State::Head if self.served => Waiting::KeepAlive,
            State::Head => Waiting::FirstHead,
            State::Length | State::FirstChunk | State::Chunk | State::ChunkEnd => Waiting::Body,
            State::Closed => Waiting::Nothing,
        }
    }

    fn on_head<'a>(&mut self, data: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        let Some(&first) = data.first() else { return RequestEvent::NeedMore };
        if first == b'\r' || first == b'\n' && limits.line_feeds {
            return self.after_empty_line(data, limits);
        }
        self.on_head_at(data, data, limits)
    }

    /// RFC 9112 section 2.2: a server should ignore at least one empty line
    /// before the request line, which some clients send after a body.
    #[cold]
    fn after_empty_line<'a>(&mut self, data: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        let head = match data {
            [b'\r'] | [b'\r', b'\n'] | [b'\n'] => return RequestEvent::NeedMore,
            [b'\r', b'\n', head @ ..] | [b'\n', head @ ..] => head,
            _ => return self.reject(data, Status::BAD_REQUEST),
        };
        let before = data.len() - head.len();
        match self.on_head_at(data, head, limits) {
            RequestEvent::Request { request, transfer, consumed } => {
                RequestEvent::Request { request, transfer, consumed: consumed + before }
            }
            RequestEvent::LineFeeds { consumed } => RequestEvent::LineFeeds { consumed: consumed + before },
            event => event,
        }
    }

    /// The head at the start of `head`, in `data`.
    #[inline(always)]
    fn on_head_at<'a>(&mut self, data: &'a [u8], head: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        let window = head.get(..usize::from(limits.head)).unwrap_or(head);
        if !self.progress.is_none() {
            match self.resume(window, limits) {
                Ok(()) => {}
                Err(stop) => return self.stop(data, window, limits, stop),
            }
        }
        // Parsed where it is returned, so that it is not copied.
        let mut event = RequestEvent::Request { request: Request::NONE, transfer: Transfer::NONE, consumed: 0 };
        if let RequestEvent::Request { request, transfer, consumed } = &mut event {
            match head::parse(window, limits, request, transfer) {
                Ok(()) => {
                    *consumed = request.head().len();
                    self.enter(transfer, limits);
                }
                Err(stop) => event = self.stop(data, window, limits, stop),
            }
        }
        event
    }

    /// Goes on with a head that was incomplete. `Ok` when the whole head may be
    /// there.
    #[cold]
    fn resume(&self, window: &[u8], limits: &RequestLimits) -> Result<(), head::Stop> {
        match self.progress.resume(window, limits.fields, LineEnds::of(limits.line_feeds)) {
            Section::Complete(_) => Ok(()),
            Section::Incomplete(checked, fields) => Err(head::Stop::Incomplete { checked, fields }),
            Section::Malformed => Err(head::Stop::Reject(Status::BAD_REQUEST)),
            Section::TooMany => Err(head::Stop::Reject(Status::REQUEST_HEADER_FIELDS_TOO_LARGE)),
        }
    }

    #[cold]
    #[inline(never)]
    fn stop<'a>(
        &mut self,
        data: &'a [u8],
        window: &[u8],
        limits: &RequestLimits,
        stop: head::Stop,
    ) -> RequestEvent<'a> {
        let stop = match stop {
            head::Stop::Reject(Status::BAD_REQUEST) if limits.line_feeds => match of_line_feeds(window, limits) {
                Some(Ok(consumed)) => {
                    self.progress = Progress::NONE;
                    return RequestEvent::LineFeeds { consumed };
                }
                Some(Err(stop)) => stop,
                None => stop,
            },
            stop => stop,
        };
        match stop {
            // Something else than HTTP, which may never send a line feed: TLS, say. However long it is,
            // and however it comes, it is that.
            head::Stop::Incomplete { checked: 0, .. } | head::Stop::Reject(_) if !may_be_method(window, limits) => {
                self.reject(data, Status::BAD_REQUEST)
            }
            head::Stop::Reject(status) => self.reject(data, status),
            head::Stop::Incomplete { checked: 0, .. } if window.len() > usize::from(limits.request_line) + 1 => {
                self.reject(data, Status::URI_TOO_LONG)
            }
            head::Stop::Incomplete { .. } if window.len() == usize::from(limits.head) => {
                self.reject(data, Status::REQUEST_HEADER_FIELDS_TOO_LARGE)
            }
            head::Stop::Incomplete { checked, fields } => {
                self.progress = Progress::at(window, checked, fields);
                RequestEvent::NeedMore
            }
        }
    }

    #[cold]
    fn reject<'a>(&mut self, data: &'a [u8], status: Status) -> RequestEvent<'a> {
        self.state = State::Closed;
        self.last = true;
        RequestEvent::Reject { status, consumed: data.len() }
    }

    /// Past a head.
    #[inline(always)]
    fn enter(&mut self, transfer: &Transfer, limits: &RequestLimits) {
        self.progress = Progress::NONE;
        self.served = true;
        self.last |= !transfer.keep_alive;
        if transfer.length != 0 {
            self.remaining = transfer.length;
            self.state = State::Length;
        } else if transfer.chunked {
            self.allowance = limits.body;
            self.state = State::FirstChunk;
        } else if self.last {
            self.state = State::Closed;
        }
    }

    /// Outside heads.
    fn on_rest<'a>(&mut self, data: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        match self.state {
            State::Head => RequestEvent::NeedMore,
            State::Length if self.remaining == 0 => self.end_of_body(0),
            State::Length | State::Chunk => self.body(data, 0),
            State::FirstChunk | State::ChunkEnd => self.boundary(data, limits),
            State::Closed if data.is_empty() => RequestEvent::NeedMore,
            State::Closed => RequestEvent::Ignored { consumed: data.len() },
        }
    }

    /// Body bytes after `skip` bytes of framing.
    #[inline]
    fn body<'a>(&mut self, data: &'a [u8], skip: usize) -> RequestEvent<'a> {
        let rest = data.get(skip..).unwrap_or_default();
        let take = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
        if take == 0 {
            return RequestEvent::NeedMore;
        }
        self.remaining -= take as u64;
        if self.remaining == 0 && self.state == State::Chunk {
            self.state = State::ChunkEnd;
        }
        RequestEvent::Body { bytes: &rest[..take], consumed: skip + take }
    }

    fn boundary<'a>(&mut self, data: &'a [u8], limits: &RequestLimits) -> RequestEvent<'a> {
        let bounds = Bounds {
            chunk_line: limits.chunk_line,
            trailers: limits.trailers,
            trailer_fields: limits.fields,
            skips_bad_trailers: false,
        };
        match chunked::boundary(data, self.state == State::FirstChunk, bounds) {
            Boundary::Incomplete => RequestEvent::NeedMore,
            Boundary::Chunk { size, .. } if size > self.allowance => self.reject(data, Status::CONTENT_TOO_LARGE),
            // The line is read again when the chunk's first byte is there:
            // there would be no event to consume it with.
            Boundary::Chunk { skip, .. } if skip == data.len() => RequestEvent::NeedMore,
            Boundary::Chunk { size, skip } => {
                self.allowance -= size;
                self.remaining = size;
                self.state = State::Chunk;
                self.body(data, skip)
            }
            Boundary::Last { skip, .. } => self.end_of_body(skip),
            Boundary::Malformed => self.reject(data, Status::BAD_REQUEST),
            Boundary::TooLarge => self.reject(data, Status::REQUEST_HEADER_FIELDS_TOO_LARGE),
        }
    }

    fn end_of_body<'a>(&mut self, consumed: usize) -> RequestEvent<'a> {
        self.state = if self.last { State::Closed } else { State::Head };
        RequestEvent::EndOfBody { consumed }
    }
}

/// Whether a request line may begin so (RFC 9112 section 3.1). What is behind the longest line and its
/// end does not count: a line of which so much came is refused before the rest of it is there.
#[cold]
fn may_be_method(window: &[u8], limits: &RequestLimits) -> bool {
    let line = window.iter().take(usize::from(limits.request_line) + 2);
    line.take_while(|byte| **byte != b' ').all(|byte| is_token(*byte))
}

/// A head that is none of lines that end in CR LF, where they may end in LF alone: its
/// length, or why there is none. `None` where line ends are not what is wrong with it.
#[cold]
fn of_line_feeds(window: &[u8], limits: &RequestLimits) -> Option<Result<usize, head::Stop>> {
    let first = find(window, 0, b'\n')? + 1;
    let line = canonical(window.get(..first)?);
    let (mut request, mut transfer) = (Request::NONE, Transfer::NONE);
    match head::parse(&line, limits, &mut request, &mut transfer) {
        Err(head::Stop::Incomplete { checked, .. }) if checked > 0 => {}
        Ok(()) | Err(head::Stop::Incomplete { .. }) => return None,
        Err(stop) => return Some(Err(stop)),
    }
    Some(match section_of_line_feeds(window, first, limits.fields)? {
        Section::Complete(end) => Ok(end),
        Section::Incomplete(checked, fields) => Err(head::Stop::Incomplete { checked, fields }),
        Section::Malformed => Err(head::Stop::Reject(Status::BAD_REQUEST)),
        Section::TooMany => Err(head::Stop::Reject(Status::REQUEST_HEADER_FIELDS_TOO_LARGE)),
    })
}

#[cfg(test)]
mod tests;
