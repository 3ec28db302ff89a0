//! The client's HTTP engine, fed with a connection's bytes.

use crate::Target;
use h1::client::{Counted, Error, ResponseEvent, ResponseLimits, ResponseReader, Summary};
use h1::{Framing, response};
use semantics::{Method, Status};

pub(crate) const TARGET: Target = Target {
    name: "http_client",
    about: "responses are read the same however they are split, and counted as they are read",
    run,
    seeds,
    dictionary: DICTIONARY,
    test_runs: 20_000,
    max_len: 1024,
};

const DICTIONARY: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b": ",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"5;a=b\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nA: b\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"\0",
    b"\xff~",
];

/// So small that short inputs come to each.
const TIGHT: ResponseLimits = ResponseLimits {
    head: 100,
    fields: 5,
    interim: 2,
    chunk_line: 12,
    trailers: 24,
    line_feeds: false,
    skips_bad_trailers: true,
};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Interim(u16),
    Head(u16, Framing, bool),
    Body(Vec<u8>),
    End,
    Over(Result<Option<Summary>, Error>),
}

fn run(input: &[u8]) {
    for asked in [Method::Get, Method::Head] {
        for limits in [ResponseLimits::default(), TIGHT] {
            let whole = offer(input, &[], asked, &limits);
            let cuts = super::cuts(input);
            assert_eq!(offer(input, &cuts, asked, &limits), whole, "split");
            let expected = summed(&whole);
            assert_eq!(counted(input, &cuts, asked, &limits), expected, "counted");
            assert_eq!(counted(input, &[], asked, &limits), expected, "counted whole");
            let loose = ResponseLimits { line_feeds: true, ..limits };
            let whole = offer(input, &[], asked, &loose);
            assert_eq!(offer(input, &cuts, asked, &loose), whole, "split, with line feeds");
        }
    }
}

fn offer(input: &[u8], cuts: &[usize], asked: Method, limits: &ResponseLimits) -> Vec<Seen> {
    let (mut engine, mut seen, mut start) = (ResponseReader::new(), Vec::new(), 0);
    // Every event but the end of a body takes at least a byte.
    let mut events = 2 * input.len() + 2;
    for &end in cuts.iter().chain([&input.len()]) {
        loop {
            events = events.checked_sub(1).unwrap_or_else(|| panic!("no progress"));
            let data = &input[start..end];
            match engine.on_bytes(data, asked, limits) {
                ResponseEvent::NeedMore => {
                    events += 1;
                    break;
                }
                ResponseEvent::Interim { status, consumed } => {
                    assert!(status.is_interim() && consumed <= data.len());
                    seen.push(Seen::Interim(status.code()));
                    start += consumed;
                }
                ResponseEvent::Response { response, consumed } => {
                    assert!(response.fields().count() <= usize::from(limits.fields) && consumed <= data.len());
                    seen.push(Seen::Head(response.status.code(), response.framing, response.keep_alive));
                    start += consumed;
                }
                ResponseEvent::LineFeeds { consumed } => {
                    assert!(limits.line_feeds);
                    let head = h1::canonical(&data[..consumed]);
                    match engine.on_bytes(&head, asked, limits) {
                        ResponseEvent::Interim { status, consumed } => {
                            assert_eq!(consumed, head.len());
                            seen.push(Seen::Interim(status.code()));
                        }
                        ResponseEvent::Response { response, consumed } => {
                            assert_eq!(consumed, head.len());
                            seen.push(Seen::Head(response.status.code(), response.framing, response.keep_alive));
                        }
                        ResponseEvent::Failed { error } => {
                            seen.push(Seen::Over(Err(error)));
                            return seen;
                        }
                        event => panic!("{event:?} of {:?}", head.escape_ascii().to_string()),
                    }
                    start += consumed;
                }
                ResponseEvent::Body { bytes, consumed } => {
                    assert!(!bytes.is_empty() && data[..consumed].ends_with(bytes));
                    match seen.last_mut() {
                        Some(Seen::Body(body)) => body.extend_from_slice(bytes),
                        _ => seen.push(Seen::Body(bytes.to_vec())),
                    }
                    start += consumed;
                }
                ResponseEvent::EndOfBody { consumed, trailers } => {
                    assert!(consumed <= data.len());
                    assert!(
                        consumed == 0 && trailers.is_empty()
                            || data[..consumed].ends_with(&[trailers, b"\r\n"].concat())
                    );
                    seen.push(Seen::End);
                    start += consumed;
                }
                ResponseEvent::Failed { error } => {
                    seen.push(Seen::Over(Err(error)));
                    return seen;
                }
            }
        }
    }
    seen.push(Seen::Over(engine.on_end(input.len() - start)));
    seen
}

/// Statuses and body lengths of complete responses, and how it ended.
type Sums = (Vec<(u16, u64)>, Result<Option<Summary>, Error>);

fn counted(input: &[u8], cuts: &[usize], asked: Method, limits: &ResponseLimits) -> Sums {
    let (mut engine, mut complete, mut start) = (ResponseReader::new(), Vec::new(), 0);
    for &end in cuts.iter().chain([&input.len()]) {
        loop {
            match engine.on_bytes_counted(&input[start..end], asked, limits) {
                Counted::NeedMore { consumed } => {
                    start += consumed;
                    break;
                }
                Counted::Complete { summary, consumed } => {
                    assert!(consumed <= end - start);
                    start += consumed;
                    complete.push((summary.status.code(), summary.body));
                }
                Counted::Failed { error } => return (complete, Err(error)),
            }
        }
    }
    let over = engine.on_end(input.len() - start);
    (complete, over)
}

fn summed(seen: &[Seen]) -> Sums {
    let (mut complete, mut current) = (Vec::new(), (0, 0));
    for seen in seen {
        match seen {
            Seen::Interim(_) => {}
            Seen::Head(status, framing, _) => {
                current = (*status, 0);
                if *framing == Framing::None {
                    complete.push(current);
                }
            }
            Seen::Body(body) => current.1 = body.len() as u64,
            Seen::End => complete.push(current),
            Seen::Over(over) => return (complete, *over),
        }
    }
    panic!("no end")
}

fn seeds() -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    response::ResponseHead::new(&mut written, Status::OK).field("Content-Type", b"text/plain").chunked().end();
    response::chunk_start(&mut written, 5);
    written.extend_from_slice(b"hello\r\n");
    written.extend_from_slice(response::LAST_CHUNK);
    response::ResponseHead::new(&mut written, Status::NOT_FOUND).content_length(2).field("Connection", b"close").end();
    written.extend_from_slice(b"no");
    let streams: [&[u8]; 6] = [
        b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    let mut seeds: Vec<_> = streams.iter().map(|stream| stream.to_vec()).collect();
    seeds.push(written);
    seeds
}
