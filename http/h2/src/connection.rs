//! What is known of a connection of a server's, and what its client's bytes mean.

use crate::error::{ErrorCode, FrameError};
use crate::flood::{Budgets, Flood};
use crate::frame::{self, OldPriority, PAYLOAD, setting};
use crate::head::{HeadLimits, HeadMemory};
use crate::priority::StreamPriority;
use crate::stream::{FIRST_WINDOW, Stream, Streams, WINDOW_MAX, Window};
use hpack::{Decoder, Encoder, TABLE_DEFAULT};
use semantics::{Request, Status};
use std::collections::VecDeque;

/// Bytes that the decoded heads of a connection's streams may have beyond twice what they had on
/// the wire, unless more is lent ([`ServerConnection::lend_heads`]). One more request is refused.
pub(crate) const HEADS_MAX: u32 = 48 << 10;

/// What a server says of itself at the beginning, and holds its clients to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Streams that may be open at a time. Default 128.
    pub streams: u32,
    /// Bytes of a body that may come before its reader has taken any. Default 65,536.
    pub window: u32,
    /// How much a head may be.
    pub head: HeadLimits,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self { streams: 128, window: 65_536, head: HeadLimits { line: 8_192, bytes: 32_768, fields: 1_000 } }
    }
}

/// What a client's bytes mean.
#[derive(Debug)]
pub enum ServerEvent<'a, T> {
    /// Nothing that the caller is to do something about.
    Nothing,
    /// A request. Its stream is open until it is [ended](ServerConnection::end) or
    /// [reset](ServerConnection::reset).
    Request {
        /// Its stream.
        stream: u32,
        /// What is asked for.
        request: Request<'a>,
        /// Its length, where a body follows that says it: `None` where that is not told.
        length: Option<u64>,
        /// No body follows.
        ends: bool,
    },
    /// A head that may not be: it is answered with this status, and its stream
    /// [reset](ServerConnection::reset) behind the answer.
    Refused {
        /// Its stream.
        stream: u32,
        /// What it is answered with.
        status: Status,
        /// Its request line, as far as it was read.
        line: &'a [u8],
    },
    /// Some of a body.
    Body {
        /// Its stream.
        stream: u32,
        /// These bytes; none where it only ends.
        bytes: &'a [u8],
        /// The body is complete.
        ends: bool,
    },
    /// A body is complete, and these lines came behind it.
    Trailers {
        /// Its stream.
        stream: u32,
        /// As `name: value`, each with its CR LF.
        lines: &'a [u8],
    },
    /// A body is not as long as its head says, or what came behind it may not be (RFC 9113 section 8.1.1):
    /// nothing more of it is told. It is answered so, if nothing was answered yet, and its stream
    /// [reset](ServerConnection::reset).
    Malformed {
        /// Its stream.
        stream: u32,
    },
    /// A stream is over before its end, of which this is known: by its client, or because it broke the
    /// protocol, which it is told.
    Reset(T),
    /// A stream has this priority from now on.
    Prioritized {
        /// It.
        stream: u32,
    },
    /// The client has answered the PING that we sent.
    Ponged,
    /// The client broke the protocol, which it was told: nothing it sends is looked at any more.
    Failed(Failure),
}

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What its client was told.
    pub code: ErrorCode,
    /// The flood that it was, if it was one.
    pub flood: Option<Flood>,
}

/// What is offered, and what is lent to look at it.
#[derive(Debug)]
pub struct Offer<'a> {
    /// The bytes that there are.
    pub bytes: &'a [u8],
    /// The second that it is, of any clock.
    pub second: u32,
    /// Memory for heads.
    pub memory: &'a mut HeadMemory,
}

/// A field section of which some has come (RFC 9113 section 4.3).
#[derive(Debug)]
pub(crate) struct Section {
    pub stream: u32,
    pub block: Vec<u8>,
    pub priority: Option<OldPriority>,
    pub ends_stream: bool,
}

/// DATA of which some has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub stream: u32,
    pub left: u32,
    pub padding: u32,
    pub ends: bool,
}

impl Data {
    /// What of it is there: its content, and bytes with the padding behind that.
    #[inline]
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], usize) {
        let content = bytes.get(..bytes.len().min(self.left as usize)).unwrap_or_default();
        self.left -= content.len() as u32;
        let mut taken = content.len();
        if self.left == 0 {
            let padding = (bytes.len() - taken).min(self.padding as usize);
            self.padding -= padding as u32;
            taken += padding;
        }
        (content, taken)
    }

    /// All of it has come.
    pub const fn is_over(self) -> bool {
        self.left == 0 && self.padding == 0
    }
}

/// A connection of a server. `T` is what its user knows of a stream.
#[derive(Debug)]
pub struct ServerConnection<T> {
    pub(crate) settings: ServerSettings,
    pub(crate) streams: Streams<T>,
    pub(crate) encoder: Encoder,
    pub(crate) decoder: Decoder,
    pub(crate) send: Window,
    /// Bytes that the client may send of all bodies.
    pub(crate) receive: Window,
    /// Bytes that came of bodies and were not given back.
    pub(crate) owed: u32,
    /// What windows have grown by, together.
    pub(crate) grown: u32,
    /// The window that streams begin with, as the client says.
    pub(crate) first_window: u32,
    /// Bytes of a payload that the client takes.
    pub(crate) payload: u32,
    /// The last stream of the client's.
    pub(crate) last: u32,
    pub(crate) section: Option<Box<Section>>,
    pub(crate) data: Option<Data>,
    /// Priorities that came before their streams.
    pub(crate) early: Vec<(u32, StreamPriority)>,
    pub(crate) heads: u32,
    /// Bytes that these may have, and more that are lent.
    pub(crate) heads_lent: u32,
    pub(crate) budgets: Budgets,
    pub(crate) stage: Stage,
    /// The client knows what we say of ourselves.
    pub(crate) is_known: bool,
    /// From this stream on none is begun.
    pub(crate) refuses_from: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Preface,
    /// SETTINGS come next (RFC 9113 section 3.4).
    Settings,
    Frames,
    Failed,
}

/// What ends with an error.
pub(crate) enum Wrong {
    Stream(u32, ErrorCode),
    /// What came of a stream is no request, of which its user is told.
    Malformed(u32),
    Connection(ErrorCode),
    Flood(Flood),
}

impl From<Flood> for Wrong {
    fn from(flood: Flood) -> Self {
        Self::Flood(flood)
    }
}

impl From<FrameError> for Wrong {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Connection(code) => Self::Connection(code),
            FrameError::Stream(stream, code) => Self::Stream(stream, code),
        }
    }
}

pub(crate) const PROTOCOL: Wrong = Wrong::Connection(ErrorCode::PROTOCOL_ERROR);
pub(crate) const COMPRESSION: Wrong = Wrong::Connection(ErrorCode::COMPRESSION_ERROR);

pub(crate) type Done<'a, T> = Result<ServerEvent<'a, T>, Wrong>;

impl<T> ServerConnection<T> {
    /// One that begins: its settings are to be sent first.
    #[must_use]
    pub fn new(settings: ServerSettings, out: &mut Vec<u8>) -> Self {
        frame::write_settings(
            out,
            &[
                (setting::MAX_CONCURRENT_STREAMS, settings.streams),
                (setting::INITIAL_WINDOW_SIZE, settings.window),
                (setting::MAX_FRAME_SIZE, PAYLOAD as u32),
                (setting::MAX_HEADER_LIST_SIZE, settings.head.bytes.into()),
                (setting::NO_RFC7540_PRIORITIES, 1),
            ],
        );
        // Each stream's window bounds what is held.
        frame::write_window_update(out, 0, WINDOW_MAX - FIRST_WINDOW);
        Self {
            settings,
            streams: Streams::new(),
            encoder: Encoder::new(TABLE_DEFAULT),
            decoder: Decoder::new(TABLE_DEFAULT),
            send: Window::new(FIRST_WINDOW),
            receive: Window::new(WINDOW_MAX),
            owed: 0,
            grown: 0,
            first_window: FIRST_WINDOW,
            payload: PAYLOAD as u32,
            last: 0,
            section: None,
            data: None,
            early: Vec::new(),
            heads: 0,
            heads_lent: 0,
            budgets: Budgets::new(),
            stage: Stage::Preface,
            is_known: false,
            refuses_from: u32::MAX,
        }
    }

    /// A stream is over.
    pub(crate) fn take(&mut self, number: u32, by_us: bool) -> Option<Stream<T>> {
        let stream = self.streams.remove(number, by_us)?;
        self.heads -= stream.head;
        // What came of its body, and was not given back, nobody holds.
        let left = (stream.receive.room() as u32).saturating_add(stream.owed);
        self.owed = self.owed.saturating_add(stream.target.saturating_sub(left));
        self.grown -= stream.target - self.settings.window;
        Some(stream)
    }

    /// Decoded heads may have so many bytes more than each connection's, from now on.
    pub const fn lend_heads(&mut self, bytes: u32) {
        self.heads_lent = bytes;
    }

    /// Bytes that decoded heads have beyond what each connection's may.
    #[must_use]
    pub const fn heads_beyond(&self) -> u32 {
        self.heads.saturating_sub(HEADS_MAX)
    }

    /// Nobody keeps a stream's head: it counts no more.
    pub fn forget_head(&mut self, number: u32) {
        if let Some(stream) = self.streams.get_mut(number) {
            self.heads -= core::mem::take(&mut stream.head);
        }
    }

    /// Whether a head has come in part.
    #[must_use]
    pub const fn is_within_head(&self) -> bool {
        self.section.is_some()
    }

    /// From now on no stream begins: which was the last that did. What begins later is refused.
    pub const fn close(&mut self) -> u32 {
        self.refuses_from = self.last + 1;
        self.last
    }

    /// A stream that is not over.
    #[must_use]
    pub fn get(&self, stream: u32) -> Option<&Stream<T>> {
        self.streams.get(stream)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, stream: u32) -> Option<&mut Stream<T>> {
        self.streams.get_mut(stream)
    }

    /// All that are not over, in the order of their numbers.
    #[must_use]
    pub const fn streams(&self) -> &VecDeque<Stream<T>> {
        &self.streams.all
    }
}
