//! The server's side of HTTP/2, fed with what follows a connection's preface.

use super::http_server::check_known;
use crate::Target;
use crate::corpus::digest;
use h2::frame::{self, FrameHead, HEAD, Kind, PREFACE, setting};
use h2::{ErrorCode, HeadLimits, HeadMemory, Offer, ServerConnection, ServerEvent, ServerSettings};
use hpack::{HeaderField, put_static};
use std::collections::BTreeMap;

pub(crate) const TARGET: Target = Target {
    name: "h2_server",
    about: "frames mean the same however they are split, and what is held keeps its bounds",
    run,
    seeds,
    dictionary: DICTIONARY,
    test_runs: 20_000,
    max_len: 1024,
};

const DICTIONARY: &[&[u8]] = &[
    // Heads of frames: DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, PRIORITY_UPDATE.
    b"\0\0\x04\0\0\0\0\0\x01",
    b"\0\0\x04\0\x01\0\0\0\x01",
    b"\0\0\x04\0\x08\0\0\0\x03",
    b"\0\0\x04\x01\x05\0\0\0\x01",
    b"\0\0\x04\x01\x04\0\0\0\x03",
    b"\0\0\x04\x01\0\0\0\0\x05",
    b"\0\0\x09\x01\x25\0\0\0\x07",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x08\x06\0\0\0\0\0",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\xff\xff",
    b"\0\0\x04\x08\0\0\0\0\x01\x7f\xff\xff\xff",
    b"\0\0\x04\x09\x04\0\0\0\x05",
    b"\0\0\x07\x10\0\0\0\0\0\0\0\0\x01u=1",
    // Fields.
    b"\x82\x86\x84\x41\x01a",
    b"\x83\x86\x84\x41\x01a",
    b"\x0f\x0d\x014",
    b"\x40\x01a\x01b",
    b"\xbe",
    b"\x20",
];

/// So small that short inputs come to each.
const TIGHT: ServerSettings =
    ServerSettings { streams: 2, window: 40, head: HeadLimits { line: 30, bytes: 100, fields: 4 } };

#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Request(u32, Vec<u8>, Option<u64>, bool),
    Refused(u32, u16, Vec<u8>),
    Body(u32, Vec<u8>, bool),
    Trailers(u32, Vec<u8>),
    Malformed(u32),
    Reset(u32),
    Prioritized(u32),
    Ponged,
    Failed(u32),
}

fn run(input: &[u8]) {
    for settings in [ServerSettings::default(), TIGHT] {
        let whole = offer(input, &[], settings);
        assert_eq!(offer(input, &super::cuts(input), settings), whole, "split");
        if input.len() <= 256 && digest(input).is_multiple_of(8) {
            let each: Vec<_> = (0..input.len()).collect();
            assert_eq!(offer(input, &each, settings), whole, "byte by byte");
        }
    }
}

/// What the engine makes of `input`, offered as a data path does, in pieces that end at `cuts`; and
/// what it writes.
fn offer(input: &[u8], cuts: &[usize], settings: ServerSettings) -> (Vec<Seen>, Vec<u8>) {
    let (mut out, mut memory, mut seen, mut start) = (Vec::new(), HeadMemory::default(), Vec::new(), 0);
    let mut server: ServerConnection<u32> = ServerConnection::new(settings, &mut out);
    let first = Offer { bytes: PREFACE, second: 0, memory: &mut memory };
    assert!(matches!(server.on_bytes(first, &mut out), (24, ServerEvent::Nothing)));
    // How much of its body each stream has still to have, where that was told.
    let mut left: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    'all: for &end in cuts.iter().chain([&input.len()]) {
        loop {
            let offer = Offer { bytes: &input[start..end], second: 0, memory: &mut memory };
            let (taken, event) = server.on_bytes(offer, &mut out);
            let (one, answered) = take(event, &mut left);
            start += taken;
            if let Some(stream) = answered {
                if let Some(stream) = server.get_mut(stream) {
                    stream.data = stream.number;
                }
                answer(&mut server, stream, &mut out);
            }
            match one {
                Some(one @ Seen::Failed(_)) => {
                    seen.push(one);
                    break 'all;
                }
                Some(one) => join(&mut seen, one),
                None if taken == 0 => break,
                None => {}
            }
            assert!(server.streams().len() <= settings.streams as usize);
        }
    }
    check_frames(&out);
    (seen, out)
}

/// What an event says, and of which stream it is answered.
fn take(event: ServerEvent<'_, u32>, left: &mut BTreeMap<u32, Option<u64>>) -> (Option<Seen>, Option<u32>) {
    match event {
        ServerEvent::Nothing => (None, None),
        ServerEvent::Request { stream, request, length, ends } => {
            assert!(request.line().ends_with(b" HTTP/2.0") && request.head().ends_with(b"\r\n\r\n"));
            check_known(&request);
            assert!(left.insert(stream, length).is_none());
            (Some(Seen::Request(stream, request.head().to_vec(), length, ends)), Some(stream))
        }
        ServerEvent::Refused { stream, status, line } => {
            assert!(left.insert(stream, None).is_none());
            (Some(Seen::Refused(stream, status.code(), line.to_vec())), Some(stream))
        }
        ServerEvent::Body { stream, bytes, ends } => {
            if let Some(left) = left.get_mut(&stream).expect("a stream that is known") {
                *left = left.checked_sub(bytes.len() as u64).expect("no more than was told");
                assert!(!ends || *left == 0, "no less either");
            }
            (Some(Seen::Body(stream, bytes.to_vec(), ends)), None)
        }
        ServerEvent::Trailers { stream, lines } => (Some(Seen::Trailers(stream, lines.to_vec())), None),
        ServerEvent::Malformed { stream } => {
            *left.get_mut(&stream).expect("a stream that is known") = Some(0);
            (Some(Seen::Malformed(stream)), Some(stream))
        }
        ServerEvent::Reset(stream) => (Some(Seen::Reset(stream)), None),
        ServerEvent::Prioritized { stream } => (Some(Seen::Prioritized(stream)), None),
        ServerEvent::Ponged => (Some(Seen::Ponged), None),
        ServerEvent::Failed(failure) => (Some(Seen::Failed(failure.code.0)), None),
    }
}

/// Every other stream is answered, as far as there is room; of the rest some are reset.
fn answer(server: &mut ServerConnection<u32>, stream: u32, out: &mut Vec<u8>) {
    let mut block = Vec::new();
    put_static(HeaderField::new(b":status", b"200"), &mut block);
    match stream % 8 {
        1 => {}
        3 => server.send_block(stream, &block, true, out),
        5 => {
            server.send_block(stream, &block, false, out);
            let room = server.room(stream).min(100);
            out.extend_from_slice(&server.data(stream, room, true));
            out.extend(core::iter::repeat_n(b'x', room));
            server.end_soon(stream);
        }
        _ => server.reset(stream, ErrorCode::REFUSED_STREAM, out),
    }
}

fn join(all: &mut Vec<Seen>, one: Seen) {
    if let (Some(Seen::Body(stream, bytes, ends)), Seen::Body(of, more, last)) = (all.last_mut(), &one)
        && *stream == *of
        && !*ends
    {
        bytes.extend_from_slice(more);
        *ends = *last;
        return;
    }
    all.push(one);
}

/// What is written is whole frames, no longer than clients take.
fn check_frames(out: &[u8]) {
    let mut at = 0;
    while let Some(head) = FrameHead::read(&out[at..]) {
        assert!(head.length < 1 << 24 && !matches!(head.kind, Kind::PushPromise | Kind::Other(_)));
        at += HEAD + head.length as usize;
    }
    assert_eq!(at, out.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let block = b"\x82\x86\x84\x41\x01a";
    let post = b"\x83\x86\x84\x41\x01a\x0f\x0d\x014";
    let headers = |stream, block: &[u8], ends| {
        let mut out = Vec::new();
        frame::write_headers(&mut out, stream, block, ends, 5);
        out
    };
    let frame = |kind, flags, stream, payload: &[u8]| {
        let mut out = Vec::new();
        frame::write(&mut out, kind, flags, stream, payload);
        out
    };
    let mut settings = Vec::new();
    frame::write_settings(&mut settings, &[(setting::INITIAL_WINDOW_SIZE, 10), (setting::HEADER_TABLE_SIZE, 0)]);
    let streams: [Vec<Vec<u8>>; 6] = [
        vec![headers(1, block, true), headers(3, block, true), headers(5, block, true)],
        vec![headers(1, post, false), frame(Kind::Data, 0, 1, b"bo"), frame(Kind::Data, 1, 1, b"dy")],
        vec![headers(1, b"\x83\x86\x84\x41\x01a", false), headers(1, b"\x40\x01a\x01b", true)],
        vec![headers(9, block, false), frame(Kind::Data, 8, 9, b"\x02abc\0\0"), frame(Kind::Reset, 0, 9, &[0; 4])],
        vec![
            frame(Kind::Ping, 0, 0, &[7; 8]),
            frame(Kind::WindowUpdate, 0, 0, &[0, 0, 1, 0]),
            frame(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x01u=1, i"),
            headers(1, block, true),
        ],
        vec![headers(1, b"\x40\x01a\x01b\x82", true), headers(3, b"\xbe\x82\x86\x84\x41\x01a", true)],
    ];
    streams.into_iter().map(|frames| [settings.clone(), frames.concat()].concat()).collect()
}
