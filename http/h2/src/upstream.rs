//! The client's side of a connection that a proxy has: many questions at a time, whose answers go on as
//! those who asked take them.
//!
//! ```text
//! open ─► (data)* ─► Head ─► (Data ─► give_back)* ─► Trailers or the end
//!   └────────┴─────────┴───────┴───────────────────► Reset, Malformed, unprocessed; or `reset`
//! ```
//!
//! A stream is open until it has ended on both sides, is reset, or is told by
//! [`UpstreamConnection::unprocessed`]. What comes of a body is held by who asked, at most as much as its
//! stream's window has; the connection's window is given back as bytes come, so that an answer that nobody
//! takes holds up no other.

mod control;
mod fields;
mod receive;

use crate::connection::Data;
use crate::error::ErrorCode;
use crate::flood::{Budgets, Flood};
use crate::frame::{self, FrameHead, HEAD, Kind, MAX_STREAM, PAYLOAD, setting};
use crate::head::HeadMemory;
use crate::stream::{FIRST_WINDOW, WINDOW_MAX, Window};
use core::hash::{BuildHasherDefault, Hasher};
use hpack::{Decoder, Encoder, HeaderField, Indexing, TABLE_DEFAULT};
use std::borrow::Cow;
use std::collections::HashMap;

/// Streams that are opened before the server has said how many it takes: RFC 9113 section 6.5.2
/// recommends that it takes as many.
const STREAMS_FIRST: u32 = 100;

/// What a proxy asks of its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpstreamSettings {
    /// Streams that may be open at a time, whatever the server takes. Default 1,024.
    pub streams: u32,
    /// Bytes of an answer's body that come before any of it is taken. Default 65,536.
    pub window: u32,
    /// The same for who asks and [takes nothing yet](Question::waits). Default 2,048.
    pub little: u32,
    /// Fields of a head, at most. Default 1,000.
    pub fields: u16,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { streams: 1_024, window: 65_536, little: 2_048, fields: 1_000 }
    }
}

/// A question, beside its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question<T> {
    /// What its asker knows of it.
    pub data: T,
    /// No body follows.
    pub ends: bool,
    /// Its answer has no body, whatever its fields say (RFC 9110 section 9.3.2).
    pub is_head: bool,
    /// Bytes of its answer's head, at most.
    pub head_max: u32,
    /// Its asker takes nothing of a body yet: little of that comes until it [does](UpstreamConnection::widen).
    pub waits: bool,
}

/// What a server's bytes mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpstreamTold<'a, T> {
    /// There is too little to tell: nothing was taken.
    NeedMore,
    /// Nothing that the caller is to do something about.
    Nothing,
    /// More may be sent than before, by this one, or by any.
    Room(Option<T>),
    /// The server's settings have come: more may be sent, or opened.
    Settings,
    /// The head of an answer.
    Head {
        /// Of whom.
        data: T,
        /// Its stream.
        stream: u32,
        /// Its status: less than 200 where the answer itself follows.
        status: u16,
        /// Its fields as `name: value` lines, each with its CR LF.
        lines: &'a [u8],
        /// Bytes of its body, if that is told.
        length: Option<u64>,
        /// No body follows.
        ends: bool,
    },
    /// Some of a body: to be [given back](UpstreamConnection::give_back) once it is taken.
    Data {
        /// Of whom.
        data: T,
        /// Its stream.
        stream: u32,
        /// These bytes; none where it only ends.
        bytes: &'a [u8],
        /// The body is complete.
        ends: bool,
    },
    /// A body is complete, and these lines came behind it.
    Trailers {
        /// Of whom.
        data: T,
        /// As `name: value`, each with its CR LF.
        lines: &'a [u8],
    },
    /// The server has ended a stream before its end, or wants no more of its body behind its answer.
    Reset {
        /// Of whom.
        data: T,
        /// Why.
        code: ErrorCode,
    },
    /// The answer is none, which the server was told: the stream is over.
    Malformed {
        /// Of whom.
        data: T,
        /// What is wrong, for people.
        told: Cow<'static, str>,
    },
    /// No stream is opened any more. Those that are not processed are told by
    /// [`UpstreamConnection::unprocessed`].
    GoAway {
        /// Why.
        code: ErrorCode,
    },
    /// The server has answered a [PING](UpstreamConnection::ping).
    Ponged,
}

/// Why a connection is of no use any more: the server was told so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamFault {
    /// What it was told.
    pub code: ErrorCode,
    /// The flood that it was, if it was one.
    pub flood: Option<Flood>,
    /// What is wrong, for people.
    pub told: Cow<'static, str>,
}

impl UpstreamFault {
    pub(crate) fn new(code: ErrorCode, told: impl Into<Cow<'static, str>>) -> Self {
        Self { code, flood: None, told: told.into() }
    }
}

impl From<Flood> for UpstreamFault {
    fn from(flood: Flood) -> Self {
        let told = match flood {
            Flood::Settings => "upstream sent too many settings frames".into(),
            Flood::Ping => "upstream sent too many ping frames".into(),
            other => format!("upstream sent too much of http2 frames ({})", other.name()).into(),
        };
        Self { code: ErrorCode::ENHANCE_YOUR_CALM, flood: Some(flood), told }
    }
}

/// A stream that is open on either side.
#[derive(Debug)]
struct AskedStream<T> {
    data: T,
    /// Bytes that may be sent, and that may come.
    send: Window,
    receive: Window,
    /// How large that window is when nothing of it is used.
    target: u32,
    /// Bytes that were given back, of which the server was not told.
    owed: u32,
    /// Bytes of the body that are to come, if that was told.
    left: Option<u64>,
    /// The status of the answer's head; 0 before it.
    status: u16,
    is_head: bool,
    head_max: u32,
    /// The server sends no more, and we do not.
    remote_ended: bool,
    local_ended: bool,
}

/// Numbers of streams are ours to choose: they need no secret.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) ^ u64::from(*byte);
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

type StreamTable<T> = HashMap<u32, AskedStream<T>, BuildHasherDefault<NumberHasher>>;

/// The client's side of a connection to an upstream. `T` is what its user knows of a stream.
#[derive(Debug)]
pub struct UpstreamConnection<T> {
    settings: UpstreamSettings,
    encoder: Encoder,
    decoder: Decoder,
    streams: StreamTable<T>,
    /// The stream that is opened next.
    next: u32,
    /// Streams that the server takes.
    allowed: u32,
    /// Its settings have come.
    settled: bool,
    /// No stream is opened any more: the last that the server processes.
    going: Option<u32>,
    /// Bytes that may be sent of all bodies, and that a new stream may send.
    send: Window,
    first_window: u32,
    /// Bytes that may come of all bodies, and those of which the server was not told that they came.
    receive: Window,
    owed: u32,
    /// What windows of streams have grown by, together.
    grown: u32,
    /// Bytes of a payload that the server takes.
    payload: usize,
    data: Option<Data>,
    /// A block whose CONTINUATION is under way: its stream, and whether that ends.
    continues: Option<(u32, bool)>,
    block: Vec<u8>,
    budgets: Budgets,
    /// Bytes of a request's block, while it is made.
    encoded: Vec<u8>,
}

impl<T: Copy> UpstreamConnection<T> {
    /// One that begins with what is written to `out` (RFC 9113 section 3.4).
    #[must_use]
    pub fn new(settings: UpstreamSettings, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(frame::PREFACE);
        // Of streams whose askers take what comes the window is opened at once.
        let entries = [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, settings.little.min(WINDOW_MAX))];
        frame::write_settings(out, &entries);
        // Each stream's window bounds what is held.
        frame::write_window_update(out, 0, WINDOW_MAX - FIRST_WINDOW);
        Self {
            settings,
            encoder: Encoder::new(TABLE_DEFAULT),
            decoder: Decoder::new(TABLE_DEFAULT),
            streams: StreamTable::default(),
            next: 1,
            allowed: STREAMS_FIRST,
            settled: false,
            going: None,
            send: Window::new(FIRST_WINDOW),
            first_window: FIRST_WINDOW,
            receive: Window::new(WINDOW_MAX),
            owed: 0,
            grown: 0,
            payload: PAYLOAD,
            data: None,
            continues: None,
            block: Vec::new(),
            budgets: Budgets::new(),
            encoded: Vec::new(),
        }
    }

    /// Streams that are open.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Streams that may be opened now.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_leaving() {
            return 0;
        }
        (self.allowed.min(self.settings.streams) as usize).saturating_sub(self.streams.len())
    }

    /// Whether nothing of any body may be sent until the server opens the connection's window.
    #[must_use]
    pub const fn is_shut(&self) -> bool {
        self.send.room() == 0
    }

    /// Whether no stream will ever be opened any more.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.going.is_some() || self.next > MAX_STREAM
    }

    /// Opens a stream for a question, whose HEADERS are written to `out`; nothing where there is no
    /// [room](Self::room).
    pub fn open<'f>(
        &mut self,
        question: Question<T>,
        fields: impl Iterator<Item = (HeaderField<'f>, Indexing)>,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let stream = self.next;
        self.next += 2;
        self.encoded.clear();
        self.encoder.begin(&mut self.encoded);
        for (field, indexing) in fields {
            self.encoder.encode(field, indexing, &mut self.encoded);
        }
        frame::write_headers(out, stream, &self.encoded, question.ends, self.payload);
        let Question { data, ends, is_head, head_max, waits } = question;
        let target = if waits { self.settings.little } else { self.settings.window };
        if target > self.settings.little {
            frame::write_window_update(out, stream, target - self.settings.little);
        }
        let asked = AskedStream {
            data,
            send: Window::new(self.first_window),
            receive: Window::new(target),
            target,
            owed: 0,
            left: None,
            status: 0,
            is_head,
            head_max,
            remote_ended: false,
            local_ended: ends,
        };
        self.streams.insert(stream, asked);
        Some(stream)
    }

    /// Bytes of a body that may be sent on a stream now, in one frame.
    #[must_use]
    pub fn data_room(&self, stream: u32) -> usize {
        let Some(asked) = self.streams.get(&stream).filter(|asked| !asked.local_ended) else { return 0 };
        asked.send.room().min(self.send.room()).min(self.payload)
    }

    /// Whether a stream waits for its own window, whatever the connection's is.
    #[must_use]
    pub fn is_blocked(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|asked| asked.send.room() == 0)
    }

    /// The head of DATA with so many bytes, for which there is [room](Self::data_room): these follow.
    #[must_use]
    pub fn data(&mut self, stream: u32, bytes: usize, ends: bool) -> [u8; HEAD] {
        if let Some(asked) = self.streams.get_mut(&stream) {
            let taken = asked.send.take(bytes) && self.send.take(bytes);
            debug_assert!(taken, "no more than there is room for");
            // Windows are opened again for what is sent, that of the stream and the connection's, and
            // round trips measured by it.
            self.budgets.give_back(Flood::Window);
            self.budgets.give_back(Flood::Window);
            self.budgets.give_back(Flood::Ping);
            self.budgets.sent(bytes as u64);
            asked.local_ended |= ends;
            let is_over = asked.local_ended && asked.remote_ended;
            if is_over {
                self.forget(stream);
            }
        }
        let flags = if ends { frame::END_STREAM } else { 0 };
        FrameHead { length: bytes as u32, kind: Kind::Data, flags, stream }.bytes()
    }

    /// Who asked has taken so many bytes of a body: its server may send more, of which it is told now and
    /// then. A window that is read grows.
    pub fn give_back(&mut self, number: u32, bytes: usize, out: &mut Vec<u8>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = GROWN_ALL.saturating_sub(self.grown);
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.owed = stream.owed.saturating_add(bytes);
        if stream.remote_ended || stream.owed < stream.target / 2 {
            return;
        }
        // Who reads all that comes is to be sent more within a round trip; who has waited so far says when.
        let grows = match stream.target < self.settings.window {
            true => 0,
            false => stream.target.min(GROWN_MAX.max(stream.target) - stream.target).min(room),
        };
        let increment = stream.owed.saturating_add(grows);
        if stream.receive.change(increment.into()) {
            (stream.owed, stream.target) = (0, stream.target + grows);
            self.grown += grows;
            frame::write_window_update(out, number, increment);
        }
    }

    /// Who asked and took nothing of the answer's body does from now on: as much comes as for others.
    pub fn widen(&mut self, number: u32, out: &mut Vec<u8>) {
        let window = self.settings.window;
        let Some(stream) = self.streams.get_mut(&number).filter(|stream| stream.target < window) else { return };
        let increment = window - stream.target;
        if !stream.remote_ended && stream.receive.change(increment.into()) {
            stream.target = window;
            frame::write_window_update(out, number, increment);
        }
    }

    /// A stream is not wanted any more: of one that is not over the server is told why.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if self.forget(stream).is_some() {
            frame::write_reset(out, stream, code);
        }
    }

    /// One of which the server said that it has not processed it, after [`UpstreamTold::GoAway`]: one by
    /// one, each over then.
    pub fn unprocessed(&mut self) -> Option<T> {
        let last = self.going?;
        let stream = self.streams.keys().copied().filter(|stream| *stream > last).min()?;
        self.forget(stream).map(|asked| asked.data)
    }

    /// All that are open, each over then: the connection is of no use any more.
    pub fn drain(&mut self) -> Vec<T> {
        let mut streams: Vec<(u32, T)> = self.streams.drain().map(|(number, asked)| (number, asked.data)).collect();
        streams.sort_unstable_by_key(|(number, _)| *number);
        streams.into_iter().map(|(_, data)| data).collect()
    }

    /// Asks whether the server is there: it [answers](UpstreamTold::Ponged).
    pub fn ping(&self, out: &mut Vec<u8>) {
        frame::write(out, Kind::Ping, 0, 0, &PING);
    }

    /// Says good bye: no error, and nothing of the server's was processed.
    pub fn leave(&self, out: &mut Vec<u8>) {
        frame::write_go_away(out, 0, ErrorCode::NO_ERROR);
    }

    /// The server sends no more on a stream.
    fn end_remote(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.remote_ended = true;
        if stream.local_ended {
            self.forget(number);
        }
    }

    /// A stream is not what it may be: it is over, and the server told so. One that makes us do that again
    /// and again loses its connection.
    fn fail<'a>(&mut self, number: u32, code: ErrorCode, told: Cow<'static, str>, out: &mut Vec<u8>) -> Told<'a, T> {
        if number == 0 || self.is_idle(number) {
            return Err(UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, told));
        }
        self.budgets.spend(Flood::MadeReset)?;
        frame::write_reset(out, number, code);
        let found: Option<AskedStream<T>> = self.forget(number);
        Ok(found.map_or(UpstreamTold::Nothing, |asked| UpstreamTold::Malformed { data: asked.data, told }))
    }

    /// A stream that was never opened (RFC 9113 section 5.1, idle).
    const fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream >= self.next
    }

    /// A stream is over.
    fn forget(&mut self, stream: u32) -> Option<AskedStream<T>> {
        let asked = self.streams.remove(&stream)?;
        self.grown -= asked.target.saturating_sub(self.settings.window);
        Some(asked)
    }
}

fn unexpected(kind: Kind) -> UpstreamFault {
    UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, format!("upstream sent unexpected http2 frame: {}", kind.byte()))
}

/// What PINGs have: nothing else is asked by one.
const PING: [u8; 8] = *b"nearside";

/// Bytes of a stream's window that follow from its body being read, at most, and of all.
const GROWN_MAX: u32 = 1 << 20;
const GROWN_ALL: u32 = 4 << 20;

/// Bytes of a block of fields, the fragments of its frames together.
const BLOCK_MAX: usize = 128 << 10;

const _: () = assert!(BLOCK_MAX >= 2 * PAYLOAD, "a head that goes on behind its first frame is read");

/// What is lent while a block is decoded.
type Memory<'m> = &'m mut HeadMemory;

type Told<'a, T> = Result<UpstreamTold<'a, T>, UpstreamFault>;

#[cfg(test)]
mod tests;
