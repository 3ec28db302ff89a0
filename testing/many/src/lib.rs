//! A second protocol that carries exchanges, many on one connection, beside HTTP/1.1: for tests of
//! what the web server offers to such protocols. It has what HTTP/2 has of that, and no more: streams,
//! windows, priorities, trailers both ways, resets, and an end that is announced.
//!
//! A frame is a byte of its [kind](Kind), four of its stream and four of its length, and so many
//! bytes more. Numbers are big-endian.
//!
//! | frame | from | what follows its head |
//! | --- | --- | --- |
//! | `Q` | client | urgency, in a byte, with 8 for what is useful in parts; whether a body follows, in another; a request's head, as HTTP/1.1 has it |
//! | `B` | both | some of a body |
//! | `E` | both | fields behind it, as lines |
//! | `H` | server | status, in two bytes; length of the body, in eight, of which all bits are set where it is not known; fields, as lines |
//! | `P` | client | another urgency |
//! | `W` | both | so many bytes more may be sent of a body; of all together, if the stream is 0 |
//! | `R` | both | nothing: the exchange is over before its end |
//! | `G` | server | the last stream that is answered: no request is taken any more |
#![forbid(unsafe_code)]

use app::Body;
use connections::{CarriedHead, CarriedTerms, Io, Multiplexed, QueuedHead, WriteHead};
use exchange::{ConnectionFault, ExchangeId, Priority, Ready, ReplyFlow, RequestBody};
use h1::server::{RequestEvent, RequestLimits, RequestReader};
use std::collections::BTreeMap;

/// What clients ask for it by (RFC 7301).
pub const NAME: &[u8] = b"many/1";

/// Bytes of a frame before its content.
pub const HEAD: usize = 9;

/// Bytes of a body that may be sent at the beginning, on a stream, and of all of them together.
pub const WINDOW: (usize, usize) = (64 << 10, 256 << 10);

/// Bytes of a frame of a body, at most.
const FRAME: usize = 8 << 10;

/// Bytes of a frame that clients send, at most.
const FRAME_MAX: usize = 32 << 10;

/// Streams under way, at most.
const STREAMS: usize = 128;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A request.
    Request,
    /// Some of a body.
    Body,
    /// The end of one.
    End,
    /// The head of an answer.
    Head,
    /// Another priority.
    Priority,
    /// Room for more of a body.
    Window,
    /// The end of an exchange before its end.
    Reset,
    /// The end of all.
    GoAway,
}

const KINDS: [(Kind, u8); 8] = [
    (Kind::Request, b'Q'),
    (Kind::Body, b'B'),
    (Kind::End, b'E'),
    (Kind::Head, b'H'),
    (Kind::Priority, b'P'),
    (Kind::Window, b'W'),
    (Kind::Reset, b'R'),
    (Kind::GoAway, b'G'),
];

/// The head of a frame with so many bytes.
#[must_use]
pub fn frame_head(kind: Kind, stream: u32, length: usize) -> [u8; HEAD] {
    let letter = KINDS.iter().find(|(one, _)| *one == kind).map_or(0, |(_, letter)| *letter);
    let mut head = [letter; HEAD];
    head[1..5].copy_from_slice(&stream.to_be_bytes());
    head[5..].copy_from_slice(&(length as u32).to_be_bytes());
    head
}

/// A frame.
#[must_use]
pub fn frame(kind: Kind, stream: u32, content: &[u8]) -> Vec<u8> {
    [&frame_head(kind, stream, content.len())[..], content].concat()
}

/// The frame that bytes begin with: none yet, or none at all.
///
/// # Errors
/// There is no such kind, or it is longer than it may be.
pub fn read_frame(bytes: &[u8]) -> Result<Option<SeenFrame<'_>>, BadFrame> {
    let Some((&[letter, a, b, c, d, e, f, g, h], rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    let (kind, _) = KINDS.iter().find(|(_, one)| *one == letter).ok_or(BadFrame)?;
    let length = u32::from_be_bytes([e, f, g, h]) as usize;
    if length > FRAME_MAX {
        return Err(BadFrame);
    }
    Ok(rest.get(..length).map(|content| (*kind, u32::from_be_bytes([a, b, c, d]), content)))
}

/// A frame: what it is, its stream, and what it has.
pub type SeenFrame<'a> = (Kind, u32, &'a [u8]);

/// What is no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFrame;

/// A connection.
#[derive(Debug)]
pub struct Many {
    streams: BTreeMap<u32, Stream>,
    /// Bytes that its client takes of all bodies together.
    window: usize,
    /// The last stream that began.
    last: u32,
    /// Counts frames of bodies: who is useful in parts takes turns.
    served: u64,
    ended: bool,
    draining: bool,
}

/// An exchange, or what is ready in place of one.
#[derive(Debug)]
struct Stream {
    source: Source,
    priority: Priority,
    window: usize,
    served: u64,
}

#[derive(Debug)]
enum Source {
    Exchange(ExchangeId),
    Prepared { head: Option<Vec<u8>>, content: Body, left: (u32, u32) },
}

/// What a stream may send next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Head,
    Body(usize),
    End,
    Reset,
}

impl Many {
    /// One that begins.
    #[must_use]
    pub const fn new() -> Self {
        Self { streams: BTreeMap::new(), window: WINDOW.1, last: 0, served: 0, ended: false, draining: false }
    }

    /// One that begins, for a server that is to carry it.
    #[must_use]
    pub fn begin(_: CarriedTerms) -> Box<dyn Multiplexed> {
        Box::new(Self::new())
    }

    fn on_frame(&mut self, io: &mut dyn Io, kind: Kind, stream: u32, content: &[u8]) -> Result<(), BadFrame> {
        let exchange = match self.streams.get(&stream).map(|stream| &stream.source) {
            Some(Source::Exchange(id)) => Some(*id),
            Some(Source::Prepared { .. }) | None => None,
        };
        match (kind, exchange) {
            (Kind::Request, _) => return self.on_request(io, stream, content),
            (Kind::Body, Some(id)) => {
                io.body(id, content);
                self.give_back(io, stream, id);
            }
            (Kind::End, Some(id)) => io.body_end(id, content),
            (Kind::Priority, _) => {
                let priority = priority(*content.first().ok_or(BadFrame)?);
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.priority = priority;
                }
                if let Some(id) = exchange {
                    io.set_priority(id, priority);
                }
            }
            (Kind::Window, _) => {
                let more = u32::from_be_bytes(content.try_into().map_err(|_| BadFrame)?) as usize;
                let window = match stream {
                    0 => Some(&mut self.window),
                    _ => self.streams.get_mut(&stream).map(|stream| &mut stream.window),
                };
                if let Some(window) = window {
                    *window = window.saturating_add(more);
                }
            }
            (Kind::Reset, _) => {
                if self.streams.remove(&stream).is_some()
                    && let Some(id) = exchange
                {
                    io.reset(id);
                }
            }
            (Kind::Head | Kind::GoAway, _) => return Err(BadFrame),
            // Of one that is over by now.
            (Kind::Body | Kind::End, None) if stream <= self.last => {}
            (Kind::Body | Kind::End, None) => return Err(BadFrame),
        }
        Ok(())
    }

    fn on_request(&mut self, io: &mut dyn Io, number: u32, content: &[u8]) -> Result<(), BadFrame> {
        let [urgency, follows, head @ ..] = content else { return Err(BadFrame) };
        if number <= self.last {
            return Err(BadFrame);
        }
        let event = RequestReader::new().on_bytes(head, &RequestLimits::default());
        let RequestEvent::Request { request, consumed, .. } = event else { return Err(BadFrame) };
        if consumed != head.len() {
            return Err(BadFrame);
        }
        if self.draining || self.streams.len() >= STREAMS {
            // Nothing was done for it: its client may ask elsewhere.
            io.send(&frame(Kind::Reset, number, b""));
            return Ok(());
        }
        self.last = number;
        let priority = priority(*urgency);
        let server = io.common().server;
        let mut head = Vec::new();
        let mut write = |ready: &Ready| {
            head = ready_head(ready, server);
            head.len()
        };
        let prepared = if *follows == 0 { io.prepared(&request, &mut write) } else { None };
        let source = match prepared {
            Some((content, left)) => Source::Prepared { head: Some(head), content, left },
            None => {
                let body = if *follows == 0 { RequestBody::None } else { RequestBody::Unknown };
                let Some(id) = io.begin((priority, ReplyFlow::UNBOUNDED), &request, body) else { return Err(BadFrame) };
                Source::Exchange(id)
            }
        };
        self.streams.insert(number, Stream { source, priority, window: WINDOW.0, served: 0 });
        Ok(())
    }

    /// Tells a client how much more it may send of a body.
    fn give_back(&self, io: &mut dyn Io, stream: u32, id: ExchangeId) {
        let freed = io.freed(id);
        if freed > 0 {
            io.send(&frame(Kind::Window, stream, &(freed as u32).to_be_bytes()));
        }
    }

    /// What a stream may send now.
    fn next_of(&self, io: &dyn Io, stream: &Stream) -> Option<Next> {
        let (head, body, ends) = match &stream.source {
            Source::Exchange(id) => {
                let unsent = io.unsent(*id);
                if unsent.stop.is_some() {
                    return Some(Next::Reset);
                }
                (unsent.head, unsent.body, unsent.ends)
            }
            Source::Prepared { head, left: (start, end), .. } => (head.is_some(), (end - start) as usize, true),
        };
        let most = body.min(stream.window).min(self.window).min(FRAME).min(io.room());
        match (head, body) {
            (true, _) => Some(Next::Head),
            (false, 0) => ends.then_some(Next::End),
            (false, _) => (most > 0).then_some(Next::Body(most)),
        }
    }

    /// Who sends next: the most urgent, and of those who are useful in parts the one that has waited
    /// longest (RFC 9218 section 10).
    fn choose(&self, io: &dyn Io) -> Option<(u32, Next)> {
        let ready =
            self.streams.iter().filter_map(|(number, stream)| Some((*number, stream, self.next_of(io, stream)?)));
        let key = |number: u32, stream: &Stream| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, if incremental { stream.served } else { 0 }, number)
        };
        let first = ready.min_by_key(|(number, stream, _)| key(*number, stream))?;
        Some((first.0, first.2))
    }

    fn send(&mut self, io: &mut dyn Io, number: u32, next: Next) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        match (&mut stream.source, next) {
            (Source::Exchange(id), Next::Head) => {
                if let Some(head) = io.take_head(*id) {
                    io.send(&frame(Kind::Head, number, &head.written));
                }
            }
            (Source::Prepared { head, .. }, Next::Head) => {
                if let Some(head) = head.take() {
                    io.send(&frame(Kind::Head, number, &head));
                }
            }
            (source, Next::Body(most)) => {
                io.send(&frame_head(Kind::Body, number, most));
                match source {
                    Source::Exchange(id) => _ = io.pass(*id, most),
                    Source::Prepared { content, left: (start, _), .. } => {
                        io.send_body(content, (*start, *start + most as u32));
                        *start += most as u32;
                    }
                }
                self.served += 1;
                stream.served = self.served;
                stream.window -= most;
                self.window -= most;
            }
            (source, Next::End | Next::Reset) => {
                let trailers = match source {
                    Source::Exchange(id) => io.end(*id),
                    Source::Prepared { .. } => Vec::new(),
                };
                self.streams.remove(&number);
                let kind = if next == Next::End { Kind::End } else { Kind::Reset };
                io.send(&frame(kind, number, &trailers));
            }
        }
    }

    fn close_if_over(&self, io: &mut dyn Io) {
        if (self.draining || self.ended) && self.streams.is_empty() {
            io.close();
        }
    }
}

impl Default for Many {
    fn default() -> Self {
        Self::new()
    }
}

impl Multiplexed for Many {
    fn head_writer(&self) -> WriteHead {
        written
    }

    fn on_bytes(&mut self, io: &mut dyn Io, bytes: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            let done = match read_frame(rest) {
                Ok(None) => return used,
                Ok(Some((kind, stream, content))) => {
                    used += HEAD + content.len();
                    self.on_frame(io, kind, stream, content)
                }
                Err(bad) => Err(bad),
            };
            if done.is_err() {
                self.streams.clear();
                io.fail(ConnectionFault::Protocol("many", format_args!("client sent a wrong frame")));
                return bytes.len();
            }
        }
    }

    fn on_room(&mut self, io: &mut dyn Io) {
        let exchanges = self.streams.iter().filter_map(|(number, stream)| match stream.source {
            Source::Exchange(id) => Some((*number, id)),
            Source::Prepared { .. } => None,
        });
        for (number, id) in exchanges.collect::<Vec<_>>() {
            self.give_back(io, number, id);
        }
        while io.room() > 0
            && let Some((number, next)) = self.choose(io)
        {
            self.send(io, number, next);
        }
        self.close_if_over(io);
    }

    fn on_end(&mut self, io: &mut dyn Io, held: usize) {
        self.ended = true;
        if held > 0 {
            // A part of a frame.
            self.streams.clear();
            return io.fail(ConnectionFault::Protocol("many", format_args!("client left within a frame")));
        }
        self.close_if_over(io);
    }

    fn drain(&mut self, io: &mut dyn Io) {
        self.draining = true;
        io.send(&frame(Kind::GoAway, self.last, b""));
        self.close_if_over(io);
    }
}

const fn priority(byte: u8) -> Priority {
    Priority { urgency: byte & 7, incremental: byte & 8 != 0 }
}

fn head_of(status: u16, length: Option<u64>, fields: &[u8]) -> Vec<u8> {
    let mut content = status.to_be_bytes().to_vec();
    content.extend_from_slice(&length.unwrap_or(u64::MAX).to_be_bytes());
    content.extend_from_slice(fields);
    content
}

fn written(head: &CarriedHead<'_>) -> QueuedHead {
    let common = common_fields(head.date, head.server);
    let common = if head.status.is_interim() { &[][..] } else { &common };
    let written = head_of(head.status.code(), head.length, &[common, head.fields].concat());
    QueuedHead { status: head.status, bytes: (HEAD + written.len()) as u32, written, priority: None }
}

/// That of what is ready.
fn ready_head(ready: &Ready, server: bool) -> Vec<u8> {
    let (content, start) = ready.content();
    let fields = [common_fields(ready.date(), server), ready.field_lines()].concat();
    head_of(200, Some(u64::from(content.len() - start)), &fields)
}

/// The fields of all answers.
fn common_fields(date: &[u8], server: bool) -> Vec<u8> {
    [&b"Date: "[..], date, b"\r\n", if server { b"Server: nearside\r\n" } else { b"" }].concat()
}
