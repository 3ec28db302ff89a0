//! A server's connection, with a client of bytes.

use crate::flood::Flood;
use crate::frame::{self, FrameHead, HEAD, Kind, PREFACE, setting};
use crate::{
    ErrorCode, FIRST_WINDOW, Failure, HeadLimits, HeadMemory, Offer, ServerConnection, ServerEvent, ServerSettings,
    StreamPriority, WINDOW_MAX,
};
use hpack::{Encoder, HeaderField, Indexing, TABLE_DEFAULT, put_static};

mod floods;
mod properties;
mod requests;
mod windows;

/// What a server's connection told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Request { stream: u32, head: String, length: Option<u64>, ends: bool },
    Refused { stream: u32, status: u16, line: String },
    Body { stream: u32, bytes: Vec<u8>, ends: bool },
    Trailers { stream: u32, lines: String },
    Reset(u32),
    Malformed(u32),
    Prioritized(u32),
    Ponged,
    Failed(Failure),
}

/// A server, and what it wrote.
pub(crate) struct World {
    pub server: ServerConnection<u32>,
    pub out: Vec<u8>,
    pub memory: HeadMemory,
    pub second: u32,
    pub encoder: Encoder,
}

pub(crate) const LIMITS: HeadLimits = HeadLimits { line: 200, bytes: 8_000, fields: 20 };

impl World {
    /// One whose client has said nothing.
    pub fn silent() -> Self {
        let mut out = Vec::new();
        let settings = ServerSettings { streams: 100, head: LIMITS, ..ServerSettings::default() };
        let server = ServerConnection::new(settings, &mut out);
        let encoder = Encoder::new(TABLE_DEFAULT);
        Self { server, out, memory: HeadMemory::default(), second: 0, encoder }
    }

    /// One whose client has begun.
    pub fn new() -> Self {
        let mut world = Self::silent();
        let mut bytes = PREFACE.to_vec();
        frame::write_settings(&mut bytes, &[]);
        assert_eq!(world.offer(&bytes), []);
        world.out.clear();
        world
    }

    /// What these bytes mean, all of which are taken.
    pub fn offer(&mut self, bytes: &[u8]) -> Vec<Seen> {
        let (seen, taken) = self.offer_some(bytes);
        assert_eq!(taken, bytes.len(), "{seen:?}");
        seen
    }

    /// What these bytes mean, as far as they are taken.
    pub fn offer_some(&mut self, bytes: &[u8]) -> (Vec<Seen>, usize) {
        let (mut seen, mut used) = (Vec::new(), 0);
        loop {
            let offer = Offer { bytes: &bytes[used..], second: self.second, memory: &mut self.memory };
            let (taken, event) = self.server.on_bytes(offer, &mut self.out);
            used += taken;
            match event {
                ServerEvent::Nothing => {}
                ServerEvent::Request { stream, request, length, ends } => {
                    let head = String::from_utf8(request.head().to_vec()).expect("text");
                    seen.push(Seen::Request { stream, head, length, ends });
                    // What its user knows of it is its number.
                    self.server.get_mut(stream).expect("one").data = stream;
                }
                ServerEvent::Refused { stream, status, line } => {
                    let line = String::from_utf8_lossy(line).into_owned();
                    seen.push(Seen::Refused { stream, status: status.code(), line });
                    self.server.get_mut(stream).expect("one").data = stream;
                }
                ServerEvent::Body { stream, bytes, ends } => {
                    seen.push(Seen::Body { stream, bytes: bytes.to_vec(), ends });
                }
                ServerEvent::Trailers { stream, lines } => {
                    seen.push(Seen::Trailers { stream, lines: String::from_utf8_lossy(lines).into_owned() });
                }
                ServerEvent::Malformed { stream } => seen.push(Seen::Malformed(stream)),
                ServerEvent::Reset(stream) => seen.push(Seen::Reset(stream)),
                ServerEvent::Prioritized { stream } => seen.push(Seen::Prioritized(stream)),
                ServerEvent::Ponged => seen.push(Seen::Ponged),
                ServerEvent::Failed(failure) => {
                    seen.push(Seen::Failed(failure));
                    return (seen, used);
                }
            }
            if taken == 0 {
                return (seen, used);
            }
        }
    }

    /// The block of these fields.
    pub fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.encode(HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Without, &mut block);
        }
        block
    }

    /// HEADERS of these fields.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
        let (block, mut bytes) = (self.block(fields), Vec::new());
        frame::write_headers(&mut bytes, stream, &block, ends, 16_384);
        bytes
    }

    /// A plain request.
    pub fn get(&mut self, stream: u32) -> Vec<Seen> {
        let bytes = self.headers(stream, &GET, true);
        self.offer(&bytes)
    }

    /// One whose body follows.
    pub fn post(&mut self, stream: u32) -> Vec<Seen> {
        let bytes = self.headers(stream, &POST, false);
        self.offer(&bytes)
    }

    /// The frames that it wrote since it was asked last: kind, flags, stream and payload.
    pub fn written(&mut self) -> Vec<(Kind, u8, u32, Vec<u8>)> {
        let (out, mut at, mut all) = (core::mem::take(&mut self.out), 0, Vec::new());
        while let Some(head) = FrameHead::read(&out[at..]) {
            let end = at + HEAD + head.length as usize;
            all.push((head.kind, head.flags, head.stream, out[at + HEAD..end].to_vec()));
            at = end;
        }
        assert_eq!(at, out.len(), "whole frames");
        all
    }

    /// The resets among them.
    pub fn resets(&mut self) -> Vec<(u32, ErrorCode)> {
        let all = self.written().into_iter().filter(|(kind, ..)| *kind == Kind::Reset);
        all.map(|(_, _, stream, payload)| (stream, ErrorCode(number(&payload)))).collect()
    }

    /// The room that it gave, by stream.
    pub fn given(&mut self) -> Vec<(u32, u32)> {
        let all = self.written().into_iter().filter(|(kind, ..)| *kind == Kind::WindowUpdate);
        all.map(|(_, _, stream, payload)| (stream, number(&payload))).collect()
    }
}

pub(crate) fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload.try_into().expect("four bytes"))
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];

pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];

pub(crate) const HEAD_OF_GET: &str = "GET / HTTP/2.0\r\nhost: a\r\n\r\n";

pub(crate) fn failed(code: ErrorCode) -> Seen {
    Seen::Failed(Failure { code, flood: None })
}

pub(crate) fn flooded(flood: Flood) -> Seen {
    Seen::Failed(Failure { code: ErrorCode::ENHANCE_YOUR_CALM, flood: Some(flood) })
}

pub(crate) fn data(stream: u32, bytes: &[u8], ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, Kind::Data, u8::from(ends), stream, bytes);
    out
}

pub(crate) fn frame_of(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, kind, flags, stream, payload);
    out
}

/// RFC 9113 section 3.4.
#[test]
fn a_connection_begins_with_settings_of_both_sides() {
    let mut world = World::silent();
    let settings = world.written();
    assert_eq!((settings[0].0, settings[1].0), (Kind::Settings, Kind::WindowUpdate));
    let told: Vec<(u16, u32)> = frame::settings(&settings[0].3).collect();
    assert!(
        told.contains(&(setting::NO_RFC7540_PRIORITIES, 1)) && told.contains(&(setting::MAX_CONCURRENT_STREAMS, 100))
    );
    for end in 0..PREFACE.len() {
        assert_eq!(world.offer_some(&PREFACE[..end]), (vec![], 0));
    }
    assert_eq!(world.offer(PREFACE), []);
    let mut bytes = Vec::new();
    frame::write_settings(&mut bytes, &[(setting::MAX_FRAME_SIZE, 20_000), (77, 1)]);
    assert_eq!(world.offer(&bytes), []);
    assert_eq!(world.written(), [(Kind::Settings, frame::ACK, 0, vec![])]);
    assert_eq!(world.server.payload(), 20_000);
    // Anything else fails, and says so.
    for bad in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.1", b"x"] {
        let mut world = World::silent();
        assert_eq!(world.offer(bad), [failed(ErrorCode::PROTOCOL_ERROR)]);
        assert_eq!(world.written().last().map(|frame| frame.0), Some(Kind::GoAway));
        assert_eq!(world.offer(PREFACE), []);
    }
    let mut world = World::silent();
    world.offer(PREFACE);
    assert_eq!(world.offer(&frame_of(Kind::Ping, 0, 0, &[0; 8])), [failed(ErrorCode::PROTOCOL_ERROR)]);
}

/// RFC 9113 section 6.5.2.
#[test]
fn settings_that_may_not_be_end_the_connection() {
    for (identifier, value, code) in [
        (setting::ENABLE_PUSH, 2, ErrorCode::PROTOCOL_ERROR),
        (setting::NO_RFC7540_PRIORITIES, 2, ErrorCode::PROTOCOL_ERROR),
        (setting::INITIAL_WINDOW_SIZE, 1 << 31, ErrorCode::FLOW_CONTROL_ERROR),
        (setting::MAX_FRAME_SIZE, (1 << 14) - 1, ErrorCode::PROTOCOL_ERROR),
        (setting::MAX_FRAME_SIZE, 1 << 24, ErrorCode::PROTOCOL_ERROR),
    ] {
        let mut bytes = Vec::new();
        frame::write_settings(&mut bytes, &[(identifier, value)]);
        assert_eq!(World::new().offer(&bytes), [failed(code)], "{identifier} {value}");
    }
}

#[test]
fn pings_are_answered_and_answers_told() {
    let mut world = World::new();
    assert_eq!(world.offer(&frame_of(Kind::Ping, 0, 0, b"12345678")), []);
    assert_eq!(world.written(), [(Kind::Ping, frame::ACK, 0, b"12345678".to_vec())]);
    assert_eq!(world.offer(&frame_of(Kind::Ping, frame::ACK, 0, b"12345678")), [Seen::Ponged]);
    assert_eq!(world.written(), []);
}

/// RFC 9113 sections 4.1, 5.5, 6: frames of a form that none has, or at a place where none may be.
#[test]
fn frames_keep_their_form() {
    let (protocol, size) = (ErrorCode::PROTOCOL_ERROR, ErrorCode::FRAME_SIZE_ERROR);
    let five = [0, 0, 0, 9, 1];
    for (kind, flags, stream, payload, code) in [
        (Kind::Data, 0, 0, &b"a"[..], protocol),
        (Kind::Data, 0, 1, b"a", protocol),
        (Kind::Headers, frame::END_HEADERS, 0, b"", protocol),
        (Kind::Headers, frame::END_HEADERS, 2, b"\x82", protocol),
        (Kind::Headers, frame::END_HEADERS | frame::PADDED, 1, b"\x02\x82", protocol),
        (Kind::Headers, frame::END_HEADERS | frame::PADDED, 1, b"", size),
        (Kind::Headers, frame::END_HEADERS | frame::PRIORITY, 1, b"\x82", size),
        (Kind::Headers, frame::END_HEADERS, 1, b"\xff", ErrorCode::COMPRESSION_ERROR),
        (Kind::Priority, 0, 0, &five, protocol),
        (Kind::Reset, 0, 0, &[0; 4], protocol),
        (Kind::Reset, 0, 1, &[0; 4], protocol),
        (Kind::Reset, 0, 1, &[0; 3], size),
        (Kind::Settings, 0, 1, b"", protocol),
        (Kind::Settings, 0, 0, b"12345", size),
        (Kind::Settings, frame::ACK, 0, b"123456", size),
        (Kind::PushPromise, 0, 1, &[0; 4], protocol),
        (Kind::Ping, 0, 1, &[0; 8], protocol),
        (Kind::Ping, 0, 0, &[0; 7], size),
        (Kind::GoAway, 0, 1, &[0; 8], protocol),
        (Kind::GoAway, 0, 0, &[0; 7], size),
        (Kind::WindowUpdate, 0, 0, &[0; 4], protocol),
        (Kind::WindowUpdate, 0, 0, &[0; 3], size),
        (Kind::WindowUpdate, 0, 1, &[0, 0, 0, 1], protocol),
        (Kind::Continuation, frame::END_HEADERS, 1, b"", protocol),
        (Kind::PriorityUpdate, 0, 1, &[0, 0, 0, 1], protocol),
        (Kind::PriorityUpdate, 0, 0, &[0, 0, 1], size),
        (Kind::PriorityUpdate, 0, 0, &[0, 0, 0, 2], protocol),
    ] {
        let mut world = World::new();
        let seen = world.offer(&frame_of(kind, flags, stream, payload));
        assert_eq!(seen, [failed(code)], "{kind:?} {flags} {stream} {payload:?}");
    }
    let long = FrameHead { length: 16_385, kind: Kind::Other(99), flags: 0, stream: 0 };
    assert_eq!(World::new().offer(&long.bytes()), [failed(size)]);
    // Of a stream alone.
    for (kind, stream, payload, code) in [
        (Kind::Priority, 7, &five[..4], size),
        (Kind::Priority, 9, &five, protocol),
        (Kind::WindowUpdate, 1, &[0; 4], protocol),
    ] {
        let mut world = World::new();
        assert_eq!(world.offer(&frame_of(kind, 0, stream, payload)), []);
        assert_eq!(world.resets(), [(stream, code)]);
        assert_eq!(world.get(11).len(), 1, "it goes on");
    }
    // What is not known is ignored.
    let mut world = World::new();
    assert_eq!(world.offer(&frame_of(Kind::Other(0xbb), 0xff, 77, b"anything")), []);
    assert_eq!(world.written(), []);
}

/// RFC 9218 sections 7 and 8; RFC 9113 section 5.3.
#[test]
fn priorities_come_by_field_by_update_and_by_weight() {
    let of = |urgency, incremental| StreamPriority { urgency, incremental };
    let update = |stream: u32, value: &str| {
        frame_of(Kind::PriorityUpdate, 0, 0, &[&stream.to_be_bytes(), value.as_bytes()].concat())
    };
    let mut world = World::new();
    let bytes = world.headers(1, &[&GET[..], &[("priority", "u=5, i")]].concat(), false);
    world.offer(&bytes);
    assert_eq!(world.server.get(1).map(|one| one.priority), Some(of(5, true)));
    assert_eq!(world.offer(&update(1, "u=0")), [Seen::Prioritized(1)]);
    assert_eq!(world.server.get(1).map(|one| one.priority), Some(of(0, false)));
    // Before its stream; the update is believed, not the field.
    assert_eq!(world.offer(&[update(5, "u=1"), update(5, "u=6")].concat()), []);
    for (stream, priority) in [(3, of(3, false)), (5, of(6, false))] {
        world.get(stream);
        assert_eq!(world.server.get(stream).map(|one| one.priority), Some(priority));
    }
    let block = world.block(&GET);
    let payload = [&[0, 0, 0, 3, 219][..], &block].concat();
    world.offer(&frame_of(Kind::Headers, frame::END_HEADERS | frame::PRIORITY, 7, &payload));
    assert_eq!(world.server.get(7).map(|one| one.priority), Some(of(1, false)));
}

/// RFC 9113 section 6.8.
#[test]
fn from_its_last_stream_on_a_connection_refuses() {
    let mut world = World::new();
    world.get(1);
    assert_eq!(world.server.close(), 1);
    assert_eq!(world.get(3), []);
    assert_eq!(world.resets(), [(3, ErrorCode::REFUSED_STREAM)]);
    let (mut out, mut block) = (Vec::new(), Vec::new());
    put_static(HeaderField::new(b":status", b"204"), &mut block);
    world.server.send_block(1, &block, true, &mut out);
    assert!(world.server.streams().is_empty());
}
