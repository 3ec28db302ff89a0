//! Frames (RFC 9113 sections 4 and 6): read where they lie, and written.
//!
//! Either side reads and writes all of them. What a frame means to a stream, and whether it may
//! come now, is not looked at here.

use crate::error::{ErrorCode, FrameError};

/// Bytes of a frame before its payload (RFC 9113 section 4.1).
pub const HEAD: usize = 9;

/// What a client's connection begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a payload that each side takes, unless it says that it takes more (RFC 9113
/// section 4.2).
pub const PAYLOAD: usize = 1 << 14;

/// What a frame is (RFC 9113 section 6; RFC 9218 section 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// DATA: some of a body.
    Data,
    /// HEADERS: a field section, or its beginning.
    Headers,
    /// PRIORITY, which has no effect any more.
    Priority,
    /// RST_STREAM: the end of a stream before its end.
    Reset,
    /// SETTINGS: what its sender holds itself and its peer to.
    Settings,
    /// PUSH_PROMISE: a request that its sender answers unasked.
    PushPromise,
    /// PING: what is to come back.
    Ping,
    /// GOAWAY: the end of all.
    GoAway,
    /// WINDOW_UPDATE: room for more of a body.
    WindowUpdate,
    /// CONTINUATION: more of a field section.
    Continuation,
    /// PRIORITY_UPDATE: how urgent a stream is from now on.
    PriorityUpdate,
    /// One that is ignored (section 5.5).
    Other(u8),
}

impl Kind {
    const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::Reset,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            16 => Self::PriorityUpdate,
            other => Self::Other(other),
        }
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Headers => 1,
            Self::Priority => 2,
            Self::Reset => 3,
            Self::Settings => 4,
            Self::PushPromise => 5,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::WindowUpdate => 8,
            Self::Continuation => 9,
            Self::PriorityUpdate => 16,
            Self::Other(other) => other,
        }
    }
}

/// Nothing of its kind follows on the stream; of SETTINGS and PING: an answer to one.
pub const END_STREAM: u8 = 1;
/// It answers the peer's (SETTINGS, PING).
pub const ACK: u8 = 1;
/// No CONTINUATION follows.
pub const END_HEADERS: u8 = 4;
/// The payload begins with the length of what is behind it.
pub const PADDED: u8 = 8;
/// The payload has a stream that it depends on, and a weight.
pub const PRIORITY: u8 = 32;

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// Bytes of its payload, less than 2^24.
    pub length: u32,
    /// What it is.
    pub kind: Kind,
    /// [`END_STREAM`] and others.
    pub flags: u8,
    /// Its stream, less than 2^31; 0: the connection's.
    pub stream: u32,
}

impl FrameHead {
    /// The head that bytes begin with, if there are enough of them.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<HEAD>()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::of(kind),
            flags,
            // The reserved bit is ignored.
            stream: u32::from_be_bytes([d, e, f, g]) & MAX_STREAM,
        })
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; HEAD] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind.byte(), self.flags, d, e, f, g]
    }

    /// Whether it has this flag.
    #[must_use]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The last stream that there may be.
pub const MAX_STREAM: u32 = (1 << 31) - 1;

/// What RFC 7540 said of priorities (section 5.3): a stream to depend on, whether alone, and a
/// weight of 1 to 256, less 1. Checked, and but for the weight forgotten (RFC 9113 section 5.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldPriority {
    /// That stream.
    pub depends_on: u32,
    /// The weight less 1.
    pub weight: u8,
}

/// A frame, with its payload where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// [`Kind::Headers`].
    Headers {
        /// Its stream.
        stream: u32,
        /// What of the field section is here.
        block: &'a [u8],
        /// What RFC 7540 said of its priority, if that is there.
        priority: Option<OldPriority>,
        /// No body follows.
        ends_stream: bool,
        /// Nor does CONTINUATION.
        ends_headers: bool,
    },
    /// [`Kind::Priority`].
    Priority {
        /// Its stream.
        stream: u32,
        /// What it says.
        priority: OldPriority,
    },
    /// [`Kind::Reset`].
    Reset {
        /// Its stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// [`Kind::Settings`].
    Settings {
        /// Of 6 bytes each; see [`settings`].
        entries: &'a [u8],
    },
    /// The peer has ours.
    SettingsAck,
    /// [`Kind::PushPromise`].
    PushPromise {
        /// The stream that it belongs to.
        stream: u32,
    },
    /// [`Kind::Ping`].
    Ping {
        /// What is to come back.
        data: [u8; 8],
    },
    /// The answer to one.
    PingAck {
        /// What came back.
        data: [u8; 8],
    },
    /// [`Kind::GoAway`].
    GoAway {
        /// The last stream that its sender does anything for.
        last: u32,
        /// Why.
        code: ErrorCode,
        /// For people.
        debug: &'a [u8],
    },
    /// [`Kind::WindowUpdate`].
    WindowUpdate {
        /// Its stream; 0: all together.
        stream: u32,
        /// Bytes more, at least one.
        increment: u32,
    },
    /// [`Kind::Continuation`].
    Continuation {
        /// Its stream.
        stream: u32,
        /// More of the field section.
        block: &'a [u8],
        /// Nothing of it follows.
        ends_headers: bool,
    },
    /// [`Kind::PriorityUpdate`].
    PriorityUpdate {
        /// The stream that it is about.
        stream: u32,
        /// As the `priority` field has it.
        value: &'a [u8],
    },
    /// One of no known kind.
    Other,
}

const CONNECTION_PROTOCOL: FrameError = FrameError::Connection(ErrorCode::PROTOCOL_ERROR);
const CONNECTION_SIZE: FrameError = FrameError::Connection(ErrorCode::FRAME_SIZE_ERROR);

/// Reads a frame whose payload is all there. That of DATA is not for here: it is taken as it
/// comes ([`data_padding`]).
///
/// # Errors
/// Its form is none that RFC 9113 section 6 has.
pub fn read<'a>(head: FrameHead, payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    let stream = head.stream;
    match head.kind {
        Kind::Data | Kind::Other(_) => Ok(Frame::Other),
        Kind::Headers => headers(head, payload),
        Kind::Priority => {
            of_stream(stream)?;
            let five = payload.first_chunk::<5>().filter(|_| payload.len() == 5);
            let priority = old_priority(five.ok_or(FrameError::Stream(stream, ErrorCode::FRAME_SIZE_ERROR))?);
            check_dependency(stream, priority)?;
            Ok(Frame::Priority { stream, priority })
        }
        Kind::Reset => {
            of_stream(stream)?;
            Ok(Frame::Reset { stream, code: ErrorCode(u32::from_be_bytes(exactly(payload)?)) })
        }
        Kind::Settings => settings_frame(head, payload),
        Kind::PushPromise => {
            of_stream(stream)?;
            Ok(Frame::PushPromise { stream })
        }
        Kind::Ping => {
            of_connection(stream)?;
            let data = exactly(payload)?;
            Ok(if head.has(ACK) { Frame::PingAck { data } } else { Frame::Ping { data } })
        }
        Kind::GoAway => {
            of_connection(stream)?;
            let ([a, b], debug) = (pair(payload)?, payload.get(8..).unwrap_or_default());
            Ok(Frame::GoAway { last: a & MAX_STREAM, code: ErrorCode(b), debug })
        }
        Kind::WindowUpdate => match u32::from_be_bytes(exactly(payload)?) & MAX_STREAM {
            // RFC 9113 section 6.9.
            0 if stream == 0 => Err(CONNECTION_PROTOCOL),
            0 => Err(FrameError::Stream(stream, ErrorCode::PROTOCOL_ERROR)),
            increment => Ok(Frame::WindowUpdate { stream, increment }),
        },
        Kind::Continuation => {
            of_stream(stream)?;
            Ok(Frame::Continuation { stream, block: payload, ends_headers: head.has(END_HEADERS) })
        }
        Kind::PriorityUpdate => {
            of_connection(stream)?;
            let (number, value) = payload.split_first_chunk::<4>().ok_or(CONNECTION_SIZE)?;
            let stream = u32::from_be_bytes(*number) & MAX_STREAM;
            // RFC 9218 section 7.1.
            of_stream(stream)?;
            Ok(Frame::PriorityUpdate { stream, value })
        }
    }
}

fn headers<'a>(head: FrameHead, payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    of_stream(head.stream)?;
    let mut block = without_padding(head, payload)?;
    let mut priority = None;
    if head.has(PRIORITY) {
        let (five, rest) = block.split_first_chunk::<5>().ok_or(CONNECTION_SIZE)?;
        (priority, block) = (Some(old_priority(five)), rest);
    }
    let (ends_stream, ends_headers) = (head.has(END_STREAM), head.has(END_HEADERS));
    Ok(Frame::Headers { stream: head.stream, block, priority, ends_stream, ends_headers })
}

fn settings_frame<'a>(head: FrameHead, payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    of_connection(head.stream)?;
    match (head.has(ACK), payload.len()) {
        (true, 0) => Ok(Frame::SettingsAck),
        (false, length) if length % 6 == 0 => Ok(Frame::Settings { entries: payload }),
        _ => Err(CONNECTION_SIZE),
    }
}

/// Bytes before the content of DATA, and behind it, by its head and its first byte: nothing where
/// that is missing.
///
/// # Errors
/// It is of no stream, or there is more padding than payload (RFC 9113 section 6.1).
pub fn data_padding(head: FrameHead, first: Option<u8>) -> Result<Option<(u32, u32)>, FrameError> {
    of_stream(head.stream)?;
    if !head.has(PADDED) {
        return Ok(Some((0, 0)));
    }
    match (head.length, first) {
        (0, _) => Err(CONNECTION_SIZE),
        (_, None) => Ok(None),
        (length, Some(padding)) if u32::from(padding) >= length => Err(CONNECTION_PROTOCOL),
        (_, Some(padding)) => Ok(Some((1, padding.into()))),
    }
}

/// The error of a stream that depends on itself (RFC 7540 section 5.3.1).
///
/// # Errors
/// It does.
pub fn check_dependency(stream: u32, priority: OldPriority) -> Result<(), FrameError> {
    if priority.depends_on == stream {
        return Err(FrameError::Stream(stream, ErrorCode::PROTOCOL_ERROR));
    }
    Ok(())
}

fn without_padding(head: FrameHead, payload: &[u8]) -> Result<&[u8], FrameError> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(CONNECTION_SIZE)?;
    let end = rest.len().checked_sub(usize::from(*padding)).ok_or(CONNECTION_PROTOCOL)?;
    rest.get(..end).ok_or(CONNECTION_PROTOCOL)
}

const fn old_priority(&[a, b, c, d, weight]: &[u8; 5]) -> OldPriority {
    OldPriority { depends_on: u32::from_be_bytes([a, b, c, d]) & MAX_STREAM, weight }
}

const fn of_stream(stream: u32) -> Result<(), FrameError> {
    if stream == 0 { Err(CONNECTION_PROTOCOL) } else { Ok(()) }
}

const fn of_connection(stream: u32) -> Result<(), FrameError> {
    if stream == 0 { Ok(()) } else { Err(CONNECTION_PROTOCOL) }
}

fn exactly<const N: usize>(payload: &[u8]) -> Result<[u8; N], FrameError> {
    payload.try_into().map_err(|_| CONNECTION_SIZE)
}

fn pair(payload: &[u8]) -> Result<[u32; 2], FrameError> {
    let &[a, b, c, d, e, f, g, h] = payload.first_chunk::<8>().ok_or(CONNECTION_SIZE)?;
    Ok([u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])])
}

/// The entries of SETTINGS: identifiers and values.
pub fn settings(entries: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    entries.chunks_exact(6).map(|entry| match *entry {
        [a, b, c, d, e, f] => (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])),
        _ => (0, 0),
    })
}

/// Identifiers of settings (RFC 9113 section 6.5.2; RFC 9218 section 2.1).
pub mod setting {
    /// Bytes of the table that fields may be encoded with. Default 4,096.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether pushes are taken. Default 1.
    pub const ENABLE_PUSH: u16 = 2;
    /// Streams that the peer may have open. Default: no bound.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// Bytes of a body that may be sent on a stream at its beginning. Default 65,535.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// Bytes of a payload that is taken. Default 16,384.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Bytes of fields that are taken, with 32 for each. Default: no bound.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether priorities of RFC 7540 are ignored. Default 0.
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Writes a frame.
pub fn write(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHead { length: payload.len() as u32, kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// Writes SETTINGS of these identifiers and values.
pub fn write_settings(out: &mut Vec<u8>, entries: &[(u16, u32)]) {
    let head = FrameHead { length: 6 * entries.len() as u32, kind: Kind::Settings, flags: 0, stream: 0 };
    out.extend_from_slice(&head.bytes());
    for (identifier, value) in entries {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes WINDOW_UPDATE, of a stream or of the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, Kind::WindowUpdate, 0, stream, &increment.to_be_bytes());
}

/// Writes RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, Kind::Reset, 0, stream, &code.0.to_be_bytes());
}

/// Writes GOAWAY.
pub fn write_go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&last.to_be_bytes());
    payload[4..].copy_from_slice(&code.0.to_be_bytes());
    write(out, Kind::GoAway, 0, 0, &payload);
}

/// Writes a block of fields: as HEADERS, and CONTINUATION as far as a frame of `most` bytes does
/// not hold it.
pub fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends_stream: bool, most: usize) {
    let (first, mut rest) = block.split_at(block.len().min(most));
    let flags = |rest: &[u8]| if rest.is_empty() { END_HEADERS } else { 0 };
    write(out, Kind::Headers, flags(rest) | if ends_stream { END_STREAM } else { 0 }, stream, first);
    while !rest.is_empty() {
        let (some, after) = rest.split_at(rest.len().min(most));
        write(out, Kind::Continuation, flags(after), stream, some);
        rest = after;
    }
}
