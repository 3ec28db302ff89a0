//! The server's side of a connection: what its client sends, and what that means.
//!
//! ```text
//!  bytes ─► on_bytes ─► one event after the other: a request, some of its body, its end …
//!                └────► what is to be answered to settings and pings, at the end of `out`
//!  head, DATA, end ─► (sending) ─► `out`
//! ```
//!
//! The caller offers bytes until nothing of them is taken. What is written to `out` is sent in
//! order, whatever else is.

use crate::error::{ErrorCode, FrameError};
use crate::flood::{Budgets, Flood};
use crate::frame::{self, Frame, FrameHead, HEAD, Kind, OldPriority, PAYLOAD, PREFACE, setting};
use crate::head::{HeadFacts, HeadLimits, HeadMemory, HeadReader, is_plain_name, is_plain_value};
use crate::priority::StreamPriority;
use crate::stream::{Closed, FIRST_WINDOW, Stream, Streams, WINDOW_MAX, Window};
use hpack::{Decoder, Encoder};
use semantics::{Request, Status};

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

/// Bytes that the decoded heads of a connection's streams may have beyond twice what they had on
/// the wire. One more request is refused.
const HEADS_MAX: u32 = 96 << 10;

/// Bytes of a stream's window that follow from its body being read, at most, and of all.
const GROWN_MAX: u32 = 1 << 20;
const ALL_GROWN_MAX: u32 = 4 << 20;

/// Priorities that are kept for streams that have not begun.
const EARLY_PRIORITIES: usize = 16;

/// What a client's bytes mean.
#[derive(Debug)]
pub enum ServerEvent<'a> {
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
    /// A stream is over before its end: by its client, or because it broke the protocol, which
    /// it is told.
    Reset {
        /// It.
        stream: u32,
    },
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
struct Section {
    stream: u32,
    block: Vec<u8>,
    priority: Option<OldPriority>,
    ends_stream: bool,
}

/// DATA of which some has come.
#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    left: u32,
    padding: u32,
    ends: bool,
}

/// A connection of a server. `T` is what its user knows of a stream.
#[derive(Debug)]
pub struct ServerConnection<T> {
    pub(crate) settings: ServerSettings,
    pub(crate) streams: Streams<T>,
    pub(crate) encoder: Encoder,
    decoder: Decoder,
    pub(crate) send: Window,
    /// Bytes that the client may send of all bodies.
    receive: Window,
    /// Bytes that came of bodies and were not given back.
    owed: u32,
    /// What windows have grown by, together.
    grown: u32,
    /// The window that streams begin with, as the client says.
    first_window: u32,
    /// Bytes of a payload that the client takes.
    pub(crate) payload: u32,
    /// The last stream of the client's.
    last: u32,
    section: Option<Box<Section>>,
    data: Option<Data>,
    /// Priorities that came before their streams.
    early: Vec<(u32, StreamPriority)>,
    heads: u32,
    budgets: Budgets,
    stage: Stage,
    /// From this stream on none is begun.
    refuses_from: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Preface,
    /// SETTINGS come next (RFC 9113 section 3.4).
    Settings,
    Frames,
    Failed,
}

/// What ends with an error.
enum Wrong {
    Stream(u32, ErrorCode),
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

const PROTOCOL: Wrong = Wrong::Connection(ErrorCode::PROTOCOL_ERROR);

type Done<'a> = Result<ServerEvent<'a>, Wrong>;

impl<T: Default> ServerConnection<T> {
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
            encoder: Encoder::new(),
            decoder: Decoder::new(TABLE),
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
            budgets: Budgets::new(),
            stage: Stage::Preface,
            refuses_from: u32::MAX,
        }
    }

    /// Takes some of what is offered, from the front, and says how much and what that means. Where
    /// nothing of it was taken, more has to come.
    pub fn on_bytes<'a>(&mut self, offer: Offer<'a>, out: &mut Vec<u8>) -> (usize, ServerEvent<'a>) {
        let Offer { bytes, second, memory } = offer;
        self.budgets.refill(second);
        let (taken, done) = match self.stage {
            Stage::Failed => return (bytes.len(), ServerEvent::Nothing),
            Stage::Preface => self.preface(bytes),
            Stage::Settings | Stage::Frames if self.data.is_some() => self.more_data(bytes),
            Stage::Settings | Stage::Frames => self.frame(bytes, memory, out),
        };
        let wrong = match done {
            Ok(event) => return (taken, event),
            Err(wrong) => wrong,
        };
        let wrong = match wrong {
            Wrong::Stream(stream, code) => match self.budgets.spend(Flood::MadeReset) {
                Ok(()) => {
                    frame::write_reset(out, stream, code);
                    let known = self.take(stream, true).is_some();
                    return (taken, if known { ServerEvent::Reset { stream } } else { ServerEvent::Nothing });
                }
                Err(flood) => Wrong::Flood(flood),
            },
            wrong => wrong,
        };
        let failure = match wrong {
            Wrong::Flood(flood) => Failure { code: ErrorCode::ENHANCE_YOUR_CALM, flood: Some(flood) },
            Wrong::Connection(code) | Wrong::Stream(_, code) => Failure { code, flood: None },
        };
        self.stage = Stage::Failed;
        frame::write_go_away(out, self.last, failure.code);
        (bytes.len(), ServerEvent::Failed(failure))
    }

    fn preface<'a>(&mut self, bytes: &'a [u8]) -> (usize, Done<'a>) {
        let some = bytes.len().min(PREFACE.len());
        if bytes.get(..some) != PREFACE.get(..some) {
            return (0, Err(PROTOCOL));
        }
        if some < PREFACE.len() {
            return (0, Ok(ServerEvent::Nothing));
        }
        self.stage = Stage::Settings;
        (PREFACE.len(), Ok(ServerEvent::Nothing))
    }

    fn frame<'a>(
        &mut self,
        bytes: &'a [u8],
        memory: &'a mut HeadMemory,
        out: &mut Vec<u8>,
    ) -> (usize, Done<'a>) {
        let Some(head) = FrameHead::read(bytes) else { return (0, Ok(ServerEvent::Nothing)) };
        if let Err(wrong) = self.check(head) {
            return (0, Err(wrong));
        }
        let rest = bytes.get(HEAD..).unwrap_or_default();
        if head.kind == Kind::Data {
            return match frame::data_padding(head, rest.first().copied()) {
                Ok(None) => (0, Ok(ServerEvent::Nothing)),
                Ok(Some(around)) => (HEAD + around.0 as usize, self.data(head, around)),
                Err(error) => (0, Err(error.into())),
            };
        }
        let Some(payload) = rest.get(..head.length as usize) else { return (0, Ok(ServerEvent::Nothing)) };
        let done = frame::read(head, payload).map_err(Wrong::from);
        let done = self.noted(head).and(done).and_then(|frame| self.on_frame(frame, memory, out));
        (HEAD + payload.len(), done)
    }

    /// What is wrong with a frame by its head alone.
    fn check(&self, head: FrameHead) -> Result<(), Wrong> {
        let expected = match (self.stage, &self.section) {
            (Stage::Settings, _) => head.kind == Kind::Settings && !head.has(frame::ACK),
            // RFC 9113 section 6.10.
            (_, Some(section)) => head.kind == Kind::Continuation && head.stream == section.stream,
            (_, None) => head.kind != Kind::Continuation,
        };
        match () {
            () if head.length as usize > PAYLOAD => Err(Wrong::Connection(ErrorCode::FRAME_SIZE_ERROR)),
            () if !expected => Err(PROTOCOL),
            () => Ok(()),
        }
    }

    /// A whole frame that is no DATA: what it is of all bytes.
    fn noted(&mut self, head: FrameHead) -> Result<(), Wrong> {
        let is_useful = matches!(head.kind, Kind::Headers | Kind::Continuation);
        self.budgets.note(HEAD as u64 + u64::from(head.length), if is_useful { head.length.into() } else { 0 })?;
        Ok(())
    }

    fn on_frame<'a>(&mut self, frame: Frame<'a>, memory: &'a mut HeadMemory, out: &mut Vec<u8>) -> Done<'a> {
        match frame {
            Frame::Headers { stream, block, priority, ends_stream, ends_headers } => {
                let section = Section { stream, block: Vec::new(), priority, ends_stream };
                self.budgets.clear(Flood::Continuation);
                if ends_headers {
                    return self.on_section(&section, block, memory, out);
                }
                self.section = Some(Box::new(Section { block: block.to_vec(), ..section }));
            }
            Frame::Continuation { block, ends_headers, .. } => {
                self.budgets.spend(Flood::Continuation)?;
                let Some(section) = &mut self.section else { return Err(PROTOCOL) };
                section.block.extend_from_slice(block);
                // Compressed it is no longer than what it is decoded to may be.
                if section.block.len() > usize::from(self.settings.head.bytes) {
                    return Err(Wrong::Flood(Flood::Continuation));
                }
                if ends_headers && let Some(section) = self.section.take() {
                    return self.on_section(&section, &section.block, memory, out);
                }
            }
            Frame::Priority { stream, .. } => {
                self.budgets.spend(Flood::Priority)?;
                // RFC 9113 section 5.3.2: nothing follows from it.
                let _ = stream;
            }
            Frame::PriorityUpdate { stream, value } => return self.on_priority(stream, value),
            Frame::Reset { stream, .. } => return self.on_reset(stream),
            Frame::Settings { entries } => {
                self.budgets.spend(Flood::Settings)?;
                self.on_settings(entries)?;
                self.stage = Stage::Frames;
                frame::write(out, Kind::Settings, frame::ACK, 0, &[]);
            }
            Frame::Ping { data } => {
                self.budgets.spend(Flood::Ping)?;
                frame::write(out, Kind::Ping, frame::ACK, 0, &data);
            }
            Frame::PingAck { .. } => return Ok(ServerEvent::Ponged),
            Frame::WindowUpdate { stream, increment } => self.on_window(stream, increment)?,
            // RFC 9113 section 8.4.
            Frame::PushPromise { .. } => return Err(PROTOCOL),
            Frame::SettingsAck => {}
            // What a server would push: nothing.
            Frame::GoAway { .. } => self.budgets.spend(Flood::Empty)?,
            Frame::Other => self.budgets.spend(Flood::Empty)?,
        }
        Ok(ServerEvent::Nothing)
    }

    /// A field section is complete: a request's, or what follows a body.
    fn on_section<'a>(
        &mut self,
        section: &Section,
        block: &[u8],
        memory: &'a mut HeadMemory,
        out: &mut Vec<u8>,
    ) -> Done<'a> {
        let number = section.stream;
        if let Some(at) = self.streams.find(number) {
            let trailers = self.trailers(block, memory);
            let stream = &mut self.streams.all[at];
            if core::mem::replace(&mut stream.remote_ended, true) {
                return trailers.and(Err(Wrong::Stream(number, ErrorCode::STREAM_CLOSED)));
            }
            let whole = stream.left.is_none_or(|left| left == 0) && section.ends_stream;
            return match trailers {
                Ok(true) if whole => Ok(ServerEvent::Trailers { stream: number, lines: &memory.lines }),
                Ok(_) => Err(Wrong::Stream(number, ErrorCode::PROTOCOL_ERROR)),
                Err(wrong) => Err(wrong),
            };
        }
        if number <= self.last {
            self.trailers(block, memory)?;
            return match self.streams.closed(number) {
                Closed::ByUs => Ok(ServerEvent::Nothing),
                Closed::ByPeer => Err(Wrong::Connection(ErrorCode::STREAM_CLOSED)),
                Closed::LongAgo => Err(PROTOCOL),
            };
        }
        if number % 2 == 0 {
            return Err(PROTOCOL);
        }
        self.last = number;
        if section.priority.is_some_and(|priority| priority.depends_on == number) {
            self.trailers(block, memory)?;
            return Err(Wrong::Stream(number, ErrorCode::PROTOCOL_ERROR));
        }
        self.on_request(section, block, memory, out)
    }

    /// Decodes a block of plain fields into lines; whether they may be so. The table has to follow,
    /// whoever wants them.
    fn trailers(&mut self, block: &[u8], memory: &mut HeadMemory) -> Result<bool, Wrong> {
        memory.lines.clear();
        let (lines, most) = (&mut memory.lines, usize::from(self.settings.head.bytes));
        let mut fits = true;
        self.decoder
            .decode(block, |name, value| {
                fits &= is_plain_name(name) && is_plain_value(value);
                fits &= lines.len() + name.len() + value.len() + 4 <= most;
                if fits {
                    [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
                }
            })
            .map_err(|_| Wrong::Connection(ErrorCode::COMPRESSION_ERROR))?;
        Ok(fits)
    }

    fn on_request<'a>(
        &mut self,
        section: &Section,
        block: &[u8],
        memory: &'a mut HeadMemory,
        out: &mut Vec<u8>,
    ) -> Done<'a> {
        let (stream, ends) = (section.stream, section.ends_stream);
        let mut reader = HeadReader::new(memory, self.settings.head);
        let decoded = self.decoder.decode(block, |name, value| reader.field(name, value));
        decoded.map_err(|_| Wrong::Connection(ErrorCode::COMPRESSION_ERROR))?;
        let found = reader.finish();
        let head = found.as_ref().map_or(0, |(request, _)| request.head().len() as u32);
        // What was sent of it was paid for.
        let head = head.saturating_sub(2 * block.len() as u32);
        let early = self.early.iter().position(|(number, _)| *number == stream);
        let early = early.map(|at| self.early.swap_remove(at).1);
        if stream >= self.refuses_from || self.streams.all.len() >= self.settings.streams as usize {
            return self.refuse(stream, out);
        }
        if self.heads.saturating_add(head) > HEADS_MAX {
            self.budgets.spend(Flood::Heads)?;
            return self.refuse(stream, out);
        }
        let (request, facts) = match found {
            Ok(found) => found,
            Err(fault) => {
                self.budgets.spend(Flood::MadeReset)?;
                self.open(section, HeadFacts { length: None, priority: None }, (0, early));
                return Ok(ServerEvent::Refused { stream, status: fault.status, line: memory.line() });
            }
        };
        self.budgets.give_back(Flood::Ping);
        self.open(section, facts, (head, early));
        if ends && facts.length.is_some_and(|length| length > 0) {
            // RFC 9113 section 8.1.1.
            return Err(Wrong::Stream(stream, ErrorCode::PROTOCOL_ERROR));
        }
        Ok(ServerEvent::Request { stream, request, length: facts.length, ends })
    }

    fn open(&mut self, section: &Section, facts: HeadFacts, (head, early): (u32, Option<StreamPriority>)) {
        let weight = section.priority.map(|priority| StreamPriority::of_weight(priority.weight));
        self.heads += head;
        self.streams.all.push(Stream {
            number: section.stream,
            data: T::default(),
            // RFC 9218 section 7: an update overrides the field.
            priority: early.or(facts.priority).or(weight).unwrap_or_default(),
            served: 0,
            send: Window::new(self.first_window),
            receive: Window::new(self.settings.window),
            target: self.settings.window,
            owed: 0,
            left: facts.length.filter(|_| !section.ends_stream),
            head,
            remote_ended: section.ends_stream,
        });
    }

    /// Nothing is done for it.
    fn refuse<'a>(&mut self, stream: u32, out: &mut Vec<u8>) -> Done<'a> {
        self.streams.note_closed(stream, true);
        frame::write_reset(out, stream, ErrorCode::REFUSED_STREAM);
        Ok(ServerEvent::Nothing)
    }

    /// The head of DATA, with the bytes before its content and behind it.
    fn data<'a>(&mut self, head: FrameHead, (before, padding): (u32, u32)) -> Done<'a> {
        let left = head.length - before - padding;
        self.budgets.note(HEAD as u64 + u64::from(head.length), left.into())?;
        let ends = head.has(frame::END_STREAM);
        if left == 0 && !ends {
            self.budgets.spend(if padding > 0 { Flood::Padding } else { Flood::Empty })?;
        }
        // RFC 9113 section 6.9.1: padding counts.
        if !self.receive.take(head.length as usize) {
            return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
        }
        self.data = Some(Data { stream: head.stream, left, padding, ends });
        self.owed = self.owed.saturating_add(before + padding);
        if head.stream > self.last {
            return Err(PROTOCOL);
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            return match self.streams.closed(head.stream) {
                Closed::ByUs => Ok(ServerEvent::Nothing),
                Closed::ByPeer | Closed::LongAgo => Err(Wrong::Stream(head.stream, ErrorCode::STREAM_CLOSED)),
            };
        };
        if stream.remote_ended {
            return Err(Wrong::Stream(head.stream, ErrorCode::STREAM_CLOSED));
        }
        if !stream.receive.take(head.length as usize) {
            return Err(Wrong::Stream(head.stream, ErrorCode::FLOW_CONTROL_ERROR));
        }
        stream.owed += before + padding;
        if let Some(told) = &mut stream.left {
            // RFC 9113 section 8.1.1: as many as Content-Length says.
            match told.checked_sub(left.into()) {
                Some(rest) if rest == 0 || !ends => *told = rest,
                _ => return Err(Wrong::Stream(head.stream, ErrorCode::PROTOCOL_ERROR)),
            }
        }
        Ok(ServerEvent::Nothing)
    }

    /// What of DATA is there.
    fn more_data<'a>(&mut self, bytes: &'a [u8]) -> (usize, Done<'a>) {
        let Some(mut data) = self.data.take() else { return (0, Ok(ServerEvent::Nothing)) };
        let content = bytes.get(..bytes.len().min(data.left as usize)).unwrap_or_default();
        data.left -= content.len() as u32;
        let mut taken = content.len();
        if data.left == 0 {
            let padding = (bytes.len() - taken).min(data.padding as usize);
            data.padding -= padding as u32;
            taken += padding;
        }
        let is_over = data.left == 0 && data.padding == 0;
        let ends = is_over && data.ends;
        if !is_over {
            self.data = Some(data);
        }
        let Some(stream) = self.streams.get_mut(data.stream).filter(|stream| !stream.remote_ended) else {
            // Nobody's.
            self.owed = self.owed.saturating_add(content.len() as u32);
            return (taken, Ok(ServerEvent::Nothing));
        };
        stream.remote_ended = ends;
        if content.is_empty() && !ends {
            return (taken, Ok(ServerEvent::Nothing));
        }
        self.budgets.give_back(Flood::Ping);
        (taken, Ok(ServerEvent::Body { stream: data.stream, bytes: content, ends }))
    }

    fn on_priority<'a>(&mut self, number: u32, value: &[u8]) -> Done<'a> {
        self.budgets.spend(Flood::Priority)?;
        let priority = StreamPriority::of_field(value);
        if let Some(stream) = self.streams.get_mut(number) {
            stream.priority = priority;
            return Ok(ServerEvent::Prioritized { stream: number });
        }
        if number % 2 == 0 {
            // RFC 9218 section 7.1: of a push, and there are none.
            return Err(PROTOCOL);
        }
        if number > self.last {
            match self.early.iter_mut().find(|(early, _)| *early == number) {
                Some((_, told)) => *told = priority,
                None if self.early.len() < EARLY_PRIORITIES => self.early.push((number, priority)),
                None => self.budgets.spend(Flood::Priority)?,
            }
        }
        Ok(ServerEvent::Nothing)
    }

    fn on_reset<'a>(&mut self, stream: u32) -> Done<'a> {
        if stream > self.last {
            return Err(PROTOCOL);
        }
        if self.take(stream, false).is_none() {
            self.budgets.spend(Flood::Empty)?;
            return Ok(ServerEvent::Nothing);
        }
        let spent = self.budgets.spend(Flood::RapidReset);
        spent.map(|()| ServerEvent::Reset { stream }).map_err(Wrong::from)
    }

    fn on_settings(&mut self, entries: &[u8]) -> Result<(), Wrong> {
        for (identifier, value) in frame::settings(entries) {
            match identifier {
                setting::HEADER_TABLE_SIZE => self.encoder.set_table_max(value as usize),
                setting::ENABLE_PUSH | setting::NO_RFC7540_PRIORITIES if value > 1 => return Err(PROTOCOL),
                setting::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
                }
                setting::INITIAL_WINDOW_SIZE => {
                    let by = i64::from(value) - i64::from(self.first_window);
                    self.first_window = value;
                    // RFC 9113 section 6.9.2.
                    if !self.streams.all.iter_mut().all(|stream| stream.send.change(by)) {
                        return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
                    }
                }
                setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => return Err(PROTOCOL),
                setting::MAX_FRAME_SIZE => self.payload = value,
                _ => {}
            }
        }
        Ok(())
    }

    fn on_window(&mut self, number: u32, increment: u32) -> Result<(), Wrong> {
        if increment < SMALL_INCREMENT {
            self.budgets.spend(Flood::Window)?;
        }
        let too_much = if number == 0 {
            (!self.send.change(increment.into())).then_some(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR))
        } else if let Some(stream) = self.streams.get_mut(number) {
            (!stream.send.change(increment.into())).then_some(Wrong::Stream(number, ErrorCode::FLOW_CONTROL_ERROR))
        } else if number > self.last {
            Some(PROTOCOL)
        } else {
            // One that is over meanwhile.
            None
        };
        too_much.map_or(Ok(()), Err)
    }
}

/// Less than that a window grows by is counted.
const SMALL_INCREMENT: u32 = 64;

/// Bytes of the table that clients encode fields with (RFC 7541 section 4.2).
const TABLE: usize = 4_096;

impl<T> ServerConnection<T> {
    /// A stream is over.
    pub(crate) fn take(&mut self, number: u32, by_us: bool) -> Option<Stream<T>> {
        let stream = self.streams.remove(number, by_us)?;
        self.heads -= stream.head;
        self.grown -= stream.target - self.settings.window;
        Some(stream)
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
    pub fn streams(&self) -> &[Stream<T>] {
        &self.streams.all
    }

    /// A body's reader has taken so many bytes of it: its client may send more, of which it is told
    /// now and then. A window that is read grows.
    pub fn give_back(&mut self, number: u32, bytes: usize, out: &mut Vec<u8>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.owed = self.owed.saturating_add(bytes);
        if self.owed >= 1 << 20 {
            let owed = core::mem::take(&mut self.owed);
            if self.receive.change(owed.into()) {
                frame::write_window_update(out, 0, owed);
            }
        }
        let room = ALL_GROWN_MAX - self.grown;
        let Some(stream) = self.streams.get_mut(number) else { return };
        stream.owed = stream.owed.saturating_add(bytes);
        if stream.remote_ended || stream.owed < stream.target / 2 {
            return;
        }
        // Who reads all that comes is to be sent more within a round trip.
        let most = GROWN_MAX.max(stream.target) - stream.target;
        let grows = if bytes > 0 { stream.target.min(most).min(room) } else { 0 };
        let increment = stream.owed + grows;
        if stream.receive.change(increment.into()) {
            (stream.owed, stream.target) = (0, stream.target + grows);
            self.grown += grows;
            frame::write_window_update(out, number, increment);
        }
    }
}
