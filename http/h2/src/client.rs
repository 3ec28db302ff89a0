//! The client's side of a connection: requests out, answers in.
//!
//! ```text
//! open ─► (poll_data)* ─► Head ─► (Data)* ─► Over
//!   └────────────┴───────────┴──────┴──────► Reset, Malformed, unprocessed
//! ```
//!
//! Each request has a place, from 0 to the number of streams less 1, which is its own until
//! [`ClientEvent::Over`], [`ClientEvent::Reset`], [`ClientEvent::Malformed`] or
//! [`ClientConnection::unprocessed`] names it.

mod receive;
mod seen;
mod streams;

use crate::error::ErrorCode;
use crate::frame::{self, FrameHead, Kind, MAX_STREAM, PAYLOAD, setting};
use hpack::{Decoder, Encoder, HeaderField, Indexing, Scratch};
use seen::Known;
use std::collections::VecDeque;
use std::ops::Range;
use streams::{Content, Streams};

/// The largest window (RFC 9113 section 6.9.1), and what a peer may not have it exceed.
const WINDOW_LIMIT: i64 = (1 << 31) - 1;

/// A window before anybody says otherwise (RFC 9113 section 6.9.2).
const WINDOW_DEFAULT: u32 = 65_535;

/// Streams that are opened before the server has said how many it takes. RFC 9113 section 3.4 lets
/// a client send before that, and a server may take none of what is too much: with one, few are refused.
const STREAMS_FIRST: u32 = 1;

/// Bytes of a block of fields, the fragments of its frames together.
const BLOCK_LIMIT: usize = 64 << 10;

/// What a client asks of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientSettings {
    /// Requests under way at a time, at most.
    pub streams: u16,
    /// Bytes of an answer's content that the server may send ahead of us, on each stream.
    pub stream_window: u32,
    /// Streams' windows begin with nothing, and are opened by [`ClientConnection::open_window`] alone: by who takes
    /// of an answer what it has room for.
    pub held: bool,
    /// The same, on all streams of the connection together; at least 65,535.
    pub connection_window: u32,
    /// Bytes of the table that answers' fields are decoded with.
    pub decoder_table: u32,
    /// Bytes of the table that requests' fields are encoded with, if the server allows that.
    pub encoder_table: u32,
}

impl Default for ClientSettings {
    /// 100 streams, windows of 2^30 - 1 and tables of 4,096 bytes, as h2load has them.
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: (1 << 30) - 1,
            held: false,
            connection_window: (1 << 30) - 1,
            decoder_table: hpack::TABLE_DEFAULT,
            encoder_table: hpack::TABLE_DEFAULT,
        }
    }
}

/// What the server's bytes mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent<'a> {
    /// There is too little to tell; nothing was consumed.
    NeedMore,
    /// Something between the two connections.
    Nothing,
    /// The same; more streams may be opened than before, or more content sent.
    Room,
    /// An answer's head: the final one. If nothing follows, `Over` comes next.
    Head {
        /// The request's place.
        place: u16,
        /// The status.
        status: u16,
        /// Whether it has a `grpc-encoding` other than `identity`: messages may be compressed.
        grpc_encoding: bool,
    },
    /// Some of the content. Never empty.
    Data {
        /// The request's place.
        place: u16,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// An answer is complete. Its place is free.
    Over {
        /// The request's place.
        place: u16,
        /// The status.
        status: u16,
        /// Bytes of content.
        content: u64,
        /// What `grpc-status` says in the block of fields that ended the stream: its trailers, or its
        /// head where nothing follows that. 65,535 where it is no number.
        grpc_status: Option<u16>,
    },
    /// The server ended the stream. Its place is free.
    Reset {
        /// The request's place.
        place: u16,
        /// Why.
        code: ErrorCode,
        /// Whether the server refused it (REFUSED_STREAM) as one of more than it takes, where it said
        /// how many those are after the stream was opened.
        beyond_limit: bool,
    },
    /// The answer is none (RFC 9113 section 8.1.1); we ended the stream. Its place is free.
    Malformed {
        /// The request's place.
        place: u16,
    },
    /// The server takes no further requests on this connection (RFC 9113 section 6.8). Those that
    /// it has not processed are told by [`ClientConnection::unprocessed`].
    GoAway {
        /// Why.
        code: ErrorCode,
    },
}

/// A piece of a request's content that may be sent: behind the frame's head, which is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataPiece {
    /// The request's place.
    pub place: u16,
    /// Which bytes of its content.
    pub range: Range<u64>,
}

/// What a request is, beside its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Requests of one number have the same fields.
    pub number: u32,
    /// Bytes of content.
    pub content: u64,
    /// No content is answered, whatever the answer's fields say (RFC 9110 section 9.3.2).
    pub is_head: bool,
}

/// The client's side of a connection.
#[derive(Debug)]
pub struct ClientConnection {
    settings: ClientSettings,
    encoder: Encoder,
    decoder: Decoder,
    streams: Streams,
    /// The stream that is opened next.
    next: u32,
    /// Streams that the server takes.
    allowed: u32,
    /// Streams below this one were open when the server said that it takes fewer than were.
    bounded: u32,
    /// The server's settings have come.
    settled: bool,
    /// No stream is opened any more: the last that the server processes.
    going: Option<u32>,
    /// Of the server's connection: bytes that may be sent, and the window of a new stream.
    window: i64,
    first_window: i64,
    /// Bytes of a payload that the server takes.
    payload: usize,
    /// Bytes that came since our window was last opened.
    received: u32,
    /// Requests with content to be sent, whose streams have a window.
    sending: VecDeque<u16>,
    /// DATA whose payload is under way.
    data: Option<Data>,
    /// A block whose CONTINUATION is under way: its stream, and whether that ends.
    continues: Option<(u32, bool)>,
    block: Vec<u8>,
    /// The head and the trailers that were decoded last.
    known: [Known; 2],
    /// The block that was encoded last, by its request's number and the encoder's count of changes.
    encoded: Vec<u8>,
    encoded_for: Option<(u32, u64)>,
}

/// DATA under way.
#[derive(Clone, Copy, Debug)]
struct Data {
    /// Whose it is, unless that is over.
    place: Option<u16>,
    content: u32,
    padding: u32,
    ends: bool,
}

impl ClientConnection {
    /// A connection's, which begins with what is written to `out` (RFC 9113 section 3.4).
    #[must_use]
    pub fn new(settings: ClientSettings, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(frame::PREFACE);
        let table = settings.decoder_table.min(hpack::TABLE_MOST);
        let entries = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, if settings.held { 0 } else { settings.stream_window.min(MAX_STREAM) }),
            (setting::HEADER_TABLE_SIZE, table),
        ];
        let told = if table == hpack::TABLE_DEFAULT { 2 } else { 3 };
        frame::write_settings(out, entries.get(..told).unwrap_or_default());
        if settings.connection_window > WINDOW_DEFAULT {
            frame::write_window_update(out, 0, settings.connection_window.min(MAX_STREAM) - WINDOW_DEFAULT);
        }
        Self {
            settings,
            encoder: Encoder::new(settings.encoder_table),
            // What the server keeps to until it has seen our settings may be more.
            decoder: Decoder::new(hpack::TABLE_DEFAULT.max(table)),
            streams: Streams::new(settings.streams),
            next: 1,
            allowed: STREAMS_FIRST,
            bounded: 0,
            settled: false,
            going: None,
            window: WINDOW_DEFAULT.into(),
            first_window: WINDOW_DEFAULT.into(),
            payload: PAYLOAD,
            received: 0,
            sending: VecDeque::new(),
            data: None,
            continues: None,
            block: Vec::new(),
            known: Default::default(),
            encoded: Vec::new(),
            encoded_for: None,
        }
    }

    /// Requests that may be opened now.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.going.is_some() || self.next > MAX_STREAM {
            return 0;
        }
        let most = usize::from(self.settings.streams).min(self.allowed as usize);
        most.saturating_sub(self.streams.open())
    }

    /// Requests under way.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.open()
    }

    /// Whether no further request will ever be opened.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.going.is_some() || self.next > MAX_STREAM
    }

    /// Whether the server's settings have come, which are the first that it sends.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.settled
    }

    /// The places of requests under way.
    pub fn places(&self) -> impl Iterator<Item = u16> {
        self.streams.places()
    }

    /// Opens a stream for a request, of which HEADERS are written to `out`; its place. Nothing where
    /// there is no [`ClientConnection::room`].
    pub fn open<'f>(
        &mut self,
        asked: Asked,
        fields: impl Iterator<Item = (HeaderField<'f>, Indexing)>,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        if self.room() == 0 {
            return None;
        }
        let stream = self.next;
        let content = Content { left: asked.content, is_head: asked.is_head, window: self.first_window };
        let place = self.streams.take(stream, content)?;
        self.next += 2;
        if self.encoded_for != Some((asked.number, self.encoder.changes())) {
            self.encoded.clear();
            self.encoder.begin(&mut self.encoded);
            let before = self.encoder.changes();
            for (field, indexing) in fields {
                self.encoder.encode(field, indexing, &mut self.encoded);
            }
            // What changed the table, or told of a change, is not to be said again.
            let again = before == self.encoder.changes() && self.encoded.first().is_none_or(|byte| byte & 0xe0 != 0x20);
            self.encoded_for = again.then_some((asked.number, before));
        }
        frame::write_headers(out, stream, &self.encoded, asked.content == 0, self.payload);
        if asked.content > 0 {
            self.sending.push_back(place);
            self.streams.set_queued(place, true);
        }
        Some(place)
    }

    /// The next piece of content that may be sent, as far as the server's windows are open; the
    /// head of its frame is written to `out`, and the piece itself is the caller's to send behind it.
    pub fn poll_data(&mut self, out: &mut Vec<u8>) -> Option<DataPiece> {
        while self.window > 0
            && let Some(place) = self.sending.pop_front()
        {
            let most = self.window.min(self.payload as i64);
            let Some((stream, range, ends)) = self.streams.take_content(place, most) else { continue };
            let length = (range.end - range.start) as u32;
            self.window -= i64::from(length);
            let flags = if ends { frame::END_STREAM } else { 0 };
            out.extend_from_slice(&FrameHead { length, kind: Kind::Data, flags, stream }.bytes());
            if !ends {
                self.sending.push_back(place);
                self.streams.set_queued(place, true);
            }
            return Some(DataPiece { place, range });
        }
        None
    }

    /// The place of a request that the server said it has not processed, after
    /// [`ClientEvent::GoAway`]: one by one, each free then.
    pub fn unprocessed(&mut self) -> Option<u16> {
        let last = self.going?;
        let place = self.streams.above(last)?;
        self.streams.release(place);
        Some(place)
    }

    /// Bytes that the server may still send on a request's stream, where windows are [held](ClientSettings::held).
    #[must_use]
    pub fn window(&self, place: u16) -> u32 {
        self.streams.opened(place)
    }

    /// Lets the server send so many bytes more on a request's stream, where windows are
    /// [held](ClientSettings::held): as many as a window may have (RFC 9113 section 6.9.1). What of a
    /// payload is padding counts, too.
    pub fn open_window(&mut self, place: u16, bytes: u32, out: &mut Vec<u8>) {
        let bytes = bytes.min(MAX_STREAM.saturating_sub(self.streams.opened(place)));
        if self.settings.held && bytes > 0 {
            self.streams.open_window(place, bytes);
            frame::write_window_update(out, self.streams.id(place), bytes);
        }
    }

    /// Ends a request's stream, whose answer is not waited for any longer. Its place is free.
    pub fn cancel(&mut self, place: u16, out: &mut Vec<u8>) {
        frame::write_reset(out, self.streams.id(place), ErrorCode::CANCEL);
        self.streams.release(place);
    }

    /// Says good bye: no error, and nothing of the server's was processed.
    pub fn leave(&self, out: &mut Vec<u8>) {
        frame::write_go_away(out, 0, ErrorCode::NO_ERROR);
    }

    /// What the offered bytes mean, and how many of them were taken. What the server is to be
    /// told is written to `out`.
    ///
    /// # Errors
    /// The connection is of no use any more; what the server is to be told of it is written to
    /// `out` (GOAWAY).
    #[inline]
    pub fn on_bytes<'a>(
        &mut self,
        bytes: &'a [u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientEvent<'a>), ErrorCode> {
        let result = self.receive(bytes, scratch, out);
        if let Err(code) = result {
            frame::write_go_away(out, 0, code);
        }
        result
    }
}

#[cfg(test)]
mod tests;
