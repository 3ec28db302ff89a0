//! The server's HTTP engine, fed with a connection's bytes.

use crate::Target;
use crate::corpus::digest;
use h1::server::{RequestEvent, RequestLimits, RequestReader, Transfer};
use h1::{Framing, Version};
use semantics::conditional::{Validators, evaluate};
use semantics::{Form, Known, Method, Request};

pub(crate) const TARGET: Target = Target {
    name: "http_server",
    about: "requests are read the same however they are split, and as they were sent",
    run,
    seeds,
    dictionary: DICTIONARY,
    test_runs: 20_000,
    max_len: 1024,
};

pub(crate) const DICTIONARY: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b": ",
    b":",
    b"GET / HTTP/1.1\r\n",
    b"HEAD ",
    b"POST ",
    b"CONNECT a:1 ",
    b"OPTIONS * ",
    b"http://a/",
    b"?",
    b"#",
    b" HTTP/1.0\r\n",
    b" HTTP/2.0\r\n",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Range: bytes=0-4,-1\r\n",
    b"If-None-Match: \"a\", W/\"b\"\r\n",
    b"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    b"If-Range: \"a\"\r\n",
    b"5;a=b\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nA: b\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"\0",
    b"\x7f",
    b"\xff~",
];

/// So small that short inputs come to each.
const TIGHT: RequestLimits =
    RequestLimits { request_line: 40, head: 150, fields: 5, body: 12, chunk_line: 12, trailers: 24, line_feeds: false };

#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Head(Vec<u8>, Framing, bool),
    Body(Vec<u8>),
    End,
    Reject(u16),
    Ignored(usize),
}

fn run(input: &[u8]) {
    let loose = [RequestLimits::default(), TIGHT].map(|limits| RequestLimits { line_feeds: true, ..limits });
    for limits in [RequestLimits::default(), TIGHT].into_iter().chain(loose) {
        let whole = offer(input, &[], &limits);
        assert_eq!(offer(input, &super::cuts(input), &limits), whole, "split");
        if input.len() <= 256 && digest(input).is_multiple_of(8) {
            let each: Vec<_> = (0..input.len()).collect();
            assert_eq!(offer(input, &each, &limits), whole, "byte by byte");
        }
    }
}

/// What the engine makes of `input`, offered as a data path does: in pieces
/// that end at `cuts`.
fn offer(input: &[u8], cuts: &[usize], limits: &RequestLimits) -> Vec<Seen> {
    let (mut engine, mut seen, mut start) = (RequestReader::new(), Vec::new(), 0);
    // Every event but the end of a body takes at least a byte.
    let mut events = 2 * input.len() + 2;
    for &end in cuts.iter().chain([&input.len()]) {
        loop {
            events = events.checked_sub(1).unwrap_or_else(|| panic!("no progress"));
            let data = &input[start..end];
            let plain = engine.plain(data, limits);
            let mut passed = engine;
            let event = engine.on_bytes(data, limits);
            if let Some(plain) = plain {
                let RequestEvent::Request { request, transfer, consumed } = event else {
                    panic!("plain, and no request")
                };
                passed.pass(plain.keep_alive());
                assert_eq!(passed, engine, "the short pass and the whole parser");
                let of_whole = (request.path(), consumed, transfer.keep_alive(), transfer.framing());
                assert_eq!((plain.path(data), plain.len(), plain.keep_alive(), Framing::None), of_whole);
                assert!(request.method() == Method::Get && request.is_plain() && transfer.version() == Version::Http11);
            }
            match event {
                RequestEvent::NeedMore => {
                    events += 1;
                    break;
                }
                RequestEvent::Request { request, transfer, consumed } => {
                    check_request(&request, &transfer, without_line_feed(&data[..consumed], limits));
                    seen.push(Seen::Head(request.head().to_vec(), transfer.framing(), transfer.keep_alive()));
                    start += consumed;
                }
                RequestEvent::LineFeeds { consumed } => {
                    seen.push(of_line_feeds(&mut engine, &data[..consumed], limits));
                    if let Some(Seen::Reject(_)) = seen.last() {
                        return seen;
                    }
                    start += consumed;
                }
                RequestEvent::Body { bytes, consumed } => {
                    assert!(!bytes.is_empty() && data[..consumed].ends_with(bytes));
                    match seen.last_mut() {
                        Some(Seen::Body(body)) => body.extend_from_slice(bytes),
                        _ => seen.push(Seen::Body(bytes.to_vec())),
                    }
                    start += consumed;
                }
                RequestEvent::EndOfBody { consumed } => {
                    assert!(consumed <= data.len());
                    seen.push(Seen::End);
                    start += consumed;
                }
                RequestEvent::Reject { status, consumed } => {
                    assert!(consumed == data.len() && (400..=505).contains(&status.code()));
                    seen.push(Seen::Reject(status.code()));
                    return seen;
                }
                RequestEvent::Ignored { consumed } => {
                    assert!(consumed == data.len() && consumed > 0);
                    match seen.last_mut() {
                        Some(Seen::Ignored(count)) => *count += consumed,
                        _ => seen.push(Seen::Ignored(consumed)),
                    }
                    start += consumed;
                }
            }
        }
    }
    seen
}

/// Without the empty line before a head that may end in LF alone.
fn without_line_feed<'a>(sent: &'a [u8], limits: &RequestLimits) -> &'a [u8] {
    sent.strip_prefix(b"\n").filter(|_| limits.line_feeds).unwrap_or(sent)
}

/// A head of lines that end in LF alone: read as a strict server reads what is offered in
/// its place.
fn of_line_feeds(engine: &mut RequestReader, sent: &[u8], limits: &RequestLimits) -> Seen {
    assert!(limits.line_feeds);
    let head = h1::canonical(sent);
    let mut strict = RequestReader::new();
    let again = strict.on_bytes(&head, &RequestLimits { line_feeds: false, ..*limits });
    match (engine.on_bytes(&head, limits), again) {
        (RequestEvent::Request { request, transfer, consumed }, RequestEvent::Request { request: other, .. }) => {
            assert_eq!((consumed, request.head()), (head.len(), other.head()));
            check_request(&request, &transfer, &head);
            Seen::Head(request.head().to_vec(), transfer.framing(), transfer.keep_alive())
        }
        (RequestEvent::Reject { status, .. }, RequestEvent::Reject { status: other, .. }) => {
            assert_eq!(status, other);
            Seen::Reject(status.code())
        }
        (event, _) => panic!("{event:?} of {:?}", head.escape_ascii().to_string()),
    }
}

fn check_request(request: &Request<'_>, transfer: &Transfer, consumed: &[u8]) {
    let head = request.head();
    assert!(consumed == head || consumed.strip_prefix(b"\r\n") == Some(head));

    // The parts of the request line, put together, are the line.
    let version: &[u8] = match transfer.version() {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => request.line().last_chunk::<8>().expect("a version"),
    };
    assert_eq!([request.method_name(), request.target(), version].join(&b' '), request.line());
    let query = request.query().map_or(Vec::new(), |query| [b"?", query].concat());
    let path_and_query = [request.path(), &query].concat();
    match request.form() {
        Form::Origin => assert!(request.path().starts_with(b"/") && path_and_query == request.target()),
        Form::Absolute => {
            let start = [&b"://"[..], request.authority(), &path_and_query].concat();
            assert!(request.target().ends_with(&start));
        }
        Form::Authority => assert_eq!((request.authority(), &path_and_query[..]), (request.target(), &b""[..])),
        Form::Asterisk => assert_eq!((request.target(), &path_and_query[..]), (&b"*"[..], &b""[..])),
    }

    // The fields, put together, are the rest, blanks aside; and none of them
    // holds what could end it early.
    let mut rest = &head[request.line().len() + 2..];
    for field in request.fields() {
        assert!(!field.name.is_empty() && rest.starts_with(field.name));
        let line = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line's end");
        assert!(rest[..line].ends_with(field.value) || rest[..line].trim_ascii_end().ends_with(field.value));
        assert!(!rest[..line].iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n')));
        rest = &rest[line + 2..];
    }
    assert_eq!(rest, b"\r\n");
    check_known(request);
    check_framing(request, transfer);
}

pub(crate) fn check_known(request: &Request<'_>) {
    for (known, name) in [
        (Known::Host, "host"),
        (Known::Range, "range"),
        (Known::IfRange, "if-range"),
        (Known::IfMatch, "if-match"),
        (Known::IfNoneMatch, "if-none-match"),
        (Known::IfModifiedSince, "if-modified-since"),
        (Known::IfUnmodifiedSince, "if-unmodified-since"),
        (Known::AcceptEncoding, "accept-encoding"),
        (Known::UserAgent, "user-agent"),
        (Known::Referer, "referer"),
        (Known::Connection, "connection"),
        (Known::ContentLength, "content-length"),
        (Known::TransferEncoding, "transfer-encoding"),
        (Known::Expect, "expect"),
    ] {
        let first = request.fields().find(|field| field.is(name)).map(|field| field.value);
        assert_eq!(request.known(known), first, "{name}");
    }
    let validators = Validators { etag: Some(b"\"a\""), last_modified: Some(784_111_777) };
    let _ = evaluate(request.method(), &request.preconditions(), &validators, 1_700_000_000);
    if let Some(value) = request.range() {
        super::http_values::check_range(value, 1000);
        assert!(!request.is_plain());
    }
}

/// RFC 9112 section 6.3, said in another way.
fn check_framing(request: &Request<'_>, transfer: &Transfer) {
    let values = |name: &str| -> Vec<&[u8]> {
        request.fields().filter(|field| field.is(name)).map(|field| field.value).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match transfer.framing() {
        Framing::Chunked => {
            assert!(lengths.is_empty() && transfer.version() == Version::Http11);
            assert!(codings.len() == 1 && codings[0].eq_ignore_ascii_case(b"chunked"));
        }
        Framing::Length(length) => {
            let text = core::str::from_utf8(lengths[0]).expect("digits");
            assert_eq!((lengths.len(), text.parse()), (1, Ok(length)));
            assert!(codings.is_empty() && length > 0);
        }
        Framing::None => {
            assert!(codings.is_empty() && lengths.iter().all(|text| text.iter().all(|&byte| byte == b'0')))
        }
        Framing::UntilClose => panic!("a request's end is never that of the connection"),
    }
    let hosts = values("host");
    assert!(hosts.len() == 1 || hosts.is_empty() && transfer.version() == Version::Http10);
}

fn seeds() -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    h1::client::RequestHead::new(&mut written, "PUT", b"/a?b=c", b"example.org:8080")
        .field("User-Agent", b"x/1")
        .field("Accept-Encoding", b"gzip")
        .content_length(5)
        .end();
    written.extend_from_slice(b"hello");
    h1::client::RequestHead::new(&mut written, "GET", b"/", b"[::1]").close().end();
    let streams: [&[u8]; 9] = [
        b"GET /index.html HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        b"\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\nUser-Agent: old/1.0 (a long comment, longer than words)\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n\
            GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nignored",
        b"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\", W/\"b\"\r\nIf-None-Match: *\r\n\
          Range: bytes=0-4,-5\r\nIf-Range: \"x\"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nReferer: http://b/\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nGET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\nhello world",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
    ];
    let mut seeds: Vec<_> = streams.iter().map(|stream| stream.to_vec()).collect();
    seeds.push(written);
    seeds
}
