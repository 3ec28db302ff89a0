//! The server's engine: RFC 9112, and RFC 9110 where said.

use super::*;
use crate::{Framing, Version};
use semantics::{Form, Known, Method};

mod limits;
mod line_feeds;
mod plain;
mod properties;
mod smuggling;

/// An event, bodies in one piece, so that it does not depend on how the bytes
/// were split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    Request { line: Vec<u8>, fields: Vec<(Vec<u8>, Vec<u8>)>, framing: Framing, keep_alive: bool, expect: bool },
    Body(Vec<u8>),
    End,
    Reject(u16),
    Ignored(usize),
}

impl Seen {
    fn of(request: &Request<'_>, transfer: &Transfer) -> Self {
        Self::Request {
            line: request.line().to_vec(),
            fields: request.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect(),
            framing: transfer.framing(),
            keep_alive: transfer.keep_alive(),
            expect: transfer.expect_continue(),
        }
    }
}

/// Offers `bytes` as a data path does, in pieces that end at `ends`.
pub(super) fn offer(bytes: &[u8], ends: &[usize], limits: &RequestLimits) -> Vec<Seen> {
    let mut engine = RequestReader::new();
    let (mut seen, mut start) = (Vec::new(), 0);
    for &end in ends.iter().chain([&bytes.len()]) {
        loop {
            let data = &bytes[start..end];
            plain::agrees(engine, data, limits);
            let consumed = match engine.on_bytes(data, limits) {
                RequestEvent::NeedMore => break,
                RequestEvent::LineFeeds { consumed } => {
                    let head = crate::canonical(&data[..consumed]);
                    match engine.on_bytes(&head, limits) {
                        RequestEvent::Request { request, transfer, consumed } => {
                            assert_eq!((consumed, request.head()), (head.len(), &head[..]));
                            seen.push(Seen::of(&request, &transfer));
                        }
                        RequestEvent::Reject { status, .. } => {
                            seen.push(Seen::Reject(status.code()));
                            return seen;
                        }
                        event => panic!("{event:?} of {:?}", head.escape_ascii().to_string()),
                    }
                    consumed
                }
                RequestEvent::Request { request, transfer, consumed } => {
                    assert_eq!(request.head(), &data[consumed - request.head().len()..consumed]);
                    seen.push(Seen::of(&request, &transfer));
                    consumed
                }
                RequestEvent::Body { bytes, consumed } => {
                    assert!(!bytes.is_empty() && bytes.len() <= consumed);
                    match seen.last_mut() {
                        Some(Seen::Body(body)) => body.extend_from_slice(bytes),
                        _ => seen.push(Seen::Body(bytes.to_vec())),
                    }
                    consumed
                }
                RequestEvent::EndOfBody { consumed } => {
                    seen.push(Seen::End);
                    consumed
                }
                RequestEvent::Reject { status, consumed } => {
                    assert_eq!(consumed, data.len());
                    seen.push(Seen::Reject(status.code()));
                    // Where it was noticed depends on the pieces.
                    return seen;
                }
                RequestEvent::Ignored { consumed } => {
                    assert!(consumed == data.len() && consumed > 0);
                    match seen.last_mut() {
                        Some(Seen::Ignored(count)) => *count += consumed,
                        _ => seen.push(Seen::Ignored(consumed)),
                    }
                    consumed
                }
            };
            assert!(consumed <= data.len());
            start += consumed;
        }
    }
    seen
}

pub(super) fn all(bytes: &[u8]) -> Vec<Seen> {
    offer(bytes, &[], &RequestLimits::default())
}

/// The only request in `bytes`, which are its head.
fn request(bytes: &[u8]) -> Request<'_> {
    message(bytes).0
}

/// As [`request`], with what it says of its message.
fn message(bytes: &[u8]) -> (Request<'_>, Transfer) {
    match RequestReader::new().on_bytes(bytes, &RequestLimits::default()) {
        RequestEvent::Request { request, transfer, consumed } if consumed == bytes.len() => (request, transfer),
        event => panic!("{event:?}"),
    }
}

/// The status that the head `lines`, after which an empty line is put, is
/// rejected with; `None` if it is served.
pub(super) fn rejected(lines: &str) -> Option<u16> {
    match all(format!("{lines}\r\n\r\n").as_bytes()).last() {
        Some(Seen::Reject(status)) => Some(*status),
        Some(Seen::Request { .. }) => None,
        other => panic!("{lines:?}: {other:?}"),
    }
}

/// Section 3.
#[test]
fn a_request_line() {
    let (request, transfer) = message(b"GET /where?q=now&x HTTP/1.1\r\nHost: www.example.org\r\n\r\n");
    assert_eq!(request.method(), Method::Get);
    assert_eq!(request.method_name(), b"GET");
    assert_eq!(request.target(), b"/where?q=now&x");
    assert_eq!(request.path(), b"/where");
    assert_eq!(request.query(), Some(&b"q=now&x"[..]));
    assert_eq!(request.form(), Form::Origin);
    assert_eq!(request.authority(), b"www.example.org");
    assert_eq!(transfer.version(), Version::Http11);
    assert_eq!(request.line(), b"GET /where?q=now&x HTTP/1.1");
    assert_eq!(transfer.framing(), Framing::None);
    assert!(transfer.keep_alive() && !transfer.expect_continue() && request.is_plain());
}

/// RFC 9110 section 9.1.
#[test]
fn methods_are_case_sensitive_tokens() {
    let names =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "PROPFIND", "M-SEARCH", "G", "!"];
    for name in names {
        let head = format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = request(head.as_bytes());
        assert_eq!(request.method(), Method::from_name(name.as_bytes()), "{name}");
        assert_eq!(request.method_name(), name.as_bytes());
    }
    for name in ["", "G(T", "G\tT", "GE\u{e9}", "\"GET\"", "GET:", "GET  "] {
        assert_eq!(rejected(&format!("{name} / HTTP/1.1\r\nHost: a")), Some(400), "{name}");
    }
}

/// Section 3.2.
#[test]
fn targets_of_all_lengths_are_found() {
    for length in 1..100 {
        for query in [None, Some(0), Some(1), Some(length)] {
            let path = format!("/{}", "p".repeat(length - 1));
            let target = match query {
                None => path.clone(),
                Some(query) => format!("{path}?{}", "q?/".repeat(query)),
            };
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let request = request(head.as_bytes());
            assert_eq!(request.target(), target.as_bytes());
            assert_eq!(request.path(), path.as_bytes());
            assert_eq!(request.query().map(<[u8]>::len), query.map(|query| query * 3));
        }
    }
    for target in ["/%2e%2e/", "//", "/!\"$&'()*+,;=:@~[]{}|\\^`<>", "/\u{e9}?\u{e9}!", "/\u{7ff}\u{10ffff}~"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(request(head.as_bytes()).target(), target.as_bytes());
    }
    for target in
        ["", "index.html", "/a b", "/#part", "/?q#part", "/\t", "/\u{7f}", "?q", "http:/a", "http://", "ftp://a/"]
    {
        assert_eq!(rejected(&format!("GET {target} HTTP/1.1\r\nHost: a")), Some(400), "{target}");
    }
    // False marks of the word-wise search: 0xff before a byte that it makes
    // look like another.
    let mut head = b"GET /\xff~\xff>\xff~?\xff~\xff> HTTP/1.1\r\nHost: a\r\nX: \xff~\xff\x7e\r\n\r\n".to_vec();
    assert_eq!(request(&head).path(), b"/\xff~\xff>\xff~");
    head[6] = 0x7f;
    assert_eq!(all(&head), [Seen::Reject(400)]);
}

/// Sections 3.2.2 to 3.2.4.
#[test]
fn forms_of_the_target() {
    let absolute = request(b"GET HTTP://Example.org:80/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_eq!((absolute.form(), absolute.authority()), (Form::Absolute, &b"Example.org:80"[..]));
    assert_eq!((absolute.path(), absolute.query()), (&b"/a"[..], Some(&b"b"[..])));
    let no_path = request(b"GET http://example.org HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_eq!((no_path.path(), no_path.query(), no_path.authority()), (&b""[..], None, &b"example.org"[..]));
    let no_path = request(b"OPTIONS https://[::1]:8?x HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_eq!((no_path.path(), no_path.query()), (&b""[..], Some(&b"x"[..])));
    let connect = request(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    assert_eq!((connect.form(), connect.authority()), (Form::Authority, &b"example.org:443"[..]));
    let asterisk = request(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((asterisk.form(), asterisk.target(), asterisk.path()), (Form::Asterisk, &b"*"[..], &b""[..]));
    for line in [
        "GET * HTTP/1.1",
        "GET example.org:443 HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "CONNECT http://a/ HTTP/1.1",
        "OPTIONS *x HTTP/1.1",
        "GET http://user@example.org/ HTTP/1.1",
        "GET http://user:password@example.org/ HTTP/1.1",
    ] {
        assert_eq!(rejected(&format!("{line}\r\nHost: a")), Some(400), "{line}");
    }
}

/// Section 2.3; RFC 9110 sections 2.5 and 15.6.6.
#[test]
fn versions() {
    for (version, status) in [
        ("HTTP/1.1", None),
        ("HTTP/1.0", None),
        ("HTTP/1.2", None),
        ("HTTP/1.9", None),
        ("HTTP/0.9", Some(505)),
        ("HTTP/2.0", Some(505)),
        ("HTTP/3.0", Some(505)),
        ("HTTP/2", Some(400)),
        ("HTTP/1.", Some(400)),
        ("HTTP/1.10", Some(400)),
        ("HTTP/01.1", Some(400)),
        ("http/1.1", Some(400)),
        ("HTTP/1,1", Some(400)),
        ("HTTP/1.1 ", Some(400)),
        ("HTTPS/1.1", Some(400)),
        ("ICY/1.1", Some(400)),
        ("", Some(400)),
    ] {
        assert_eq!(rejected(&format!("GET / {version}\r\nHost: a")), status, "{version}");
    }
    assert_eq!(rejected("GET /"), Some(400), "HTTP/0.9");
    assert_eq!(all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), [Seen::Reject(505)], "the preface of HTTP/2");
}

/// Section 2.2: one empty line before the request line is ignored.
#[test]
fn an_empty_line_first() {
    let seen = all(b"\r\nGET / HTTP/1.0\r\n\r\n");
    assert!(matches!(&seen[..], [Seen::Request { .. }]), "{seen:?}");
    assert_eq!(all(b"\r\n\r\nGET / HTTP/1.0\r\n\r\n"), [Seen::Reject(400)]);
    assert_eq!(all(b"\nGET / HTTP/1.0\r\n\r\n"), [Seen::Reject(400)]);
    assert_eq!(all(b"\rGET / HTTP/1.0\r\n\r\n"), [Seen::Reject(400)]);
    assert_eq!(all(b"\r\n"), []);
}

/// What is not HTTP is told at its first byte, without waiting for a line.
#[test]
fn other_protocols_are_told_at_once() {
    assert_eq!(all(b"\x16\x03\x01"), [Seen::Reject(400)], "TLS");
    assert_eq!(all(b"\0"), [Seen::Reject(400)]);
}

/// Section 5; RFC 9110 section 5.5.
#[test]
fn fields() {
    let head = b"GET / HTTP/1.1\r\nHost:a\r\nEmpty:\r\nBlank: \t \r\nX-Tabs:\t a\tb \t\r\nutf: \xc3\xa9\xff\r\n\
        a-very-long-name-that-has_all~kinds.of!chars#in$it%and&more'*+^`|: v\r\n\r\n";
    let fields: Vec<_> = request(head).fields().map(|field| (field.name, field.value)).collect();
    assert_eq!(
        fields,
        [
            (&b"Host"[..], &b"a"[..]),
            (b"Empty", b""),
            (b"Blank", b""),
            (b"X-Tabs", b"a\tb"),
            (b"utf", b"\xc3\xa9\xff"),
            (b"a-very-long-name-that-has_all~kinds.of!chars#in$it%and&more'*+^`|", b"v"),
        ]
    );
    for length in 0..80 {
        let head = format!("GET / HTTP/1.1\r\nHost: {0}\r\n{0}x: {0}\r\n\r\n", "n".repeat(length));
        let fields: Vec<_> = request(head.as_bytes()).fields().map(|field| field.value.len()).collect();
        assert_eq!(fields, [length, length]);
    }
}

#[test]
fn known_fields_are_found_in_any_case() {
    let names = [
        ("Host", Known::Host),
        ("Range", Known::Range),
        ("If-Range", Known::IfRange),
        ("If-Match", Known::IfMatch),
        ("If-None-Match", Known::IfNoneMatch),
        ("If-Modified-Since", Known::IfModifiedSince),
        ("If-Unmodified-Since", Known::IfUnmodifiedSince),
        ("Accept-Encoding", Known::AcceptEncoding),
        ("User-Agent", Known::UserAgent),
        ("Referer", Known::Referer),
        ("Connection", Known::Connection),
    ];
    for (name, known) in names {
        for name in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
            // HTTP/1.0, so that Host can be among the others.
            let head = format!("GET / HTTP/1.0\r\n{name}: \t the-value \r\n{name}x: no\r\nx{name}: no\r\n\r\n");
            let parsed = request(head.as_bytes());
            assert_eq!(parsed.known(known), Some(&b"the-value"[..]), "{name}");
            for (_, other) in names.iter().filter(|(_, other)| *other != known) {
                assert_eq!(parsed.known(*other), None, "{name}");
            }
            // A dash is compared exactly, although CR differs from it in the
            // case bit alone.
            if name.contains('-') {
                let head = format!("GET / HTTP/1.0\r\n{}: x\r\n\r\n", name.replace('-', "\r"));
                assert_eq!(all(head.as_bytes()), [Seen::Reject(400)]);
            }
        }
    }
}

#[test]
fn conditions_are_collected() {
    let plain = |line: &str| request(format!("GET / HTTP/1.0\r\n{line}: x\r\n\r\n").as_bytes()).is_plain();
    assert!(plain("Host") && plain("Accept-Encoding") && plain("Connection") && plain("X-If-Match"));
    for name in ["Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"] {
        assert!(!plain(name), "{name}");
    }
    let parsed = request(b"GET / HTTP/1.0\r\nIf-None-Match: \"a\"\r\nRange: bytes=0-1\r\n\r\n");
    let lines: Vec<_> = parsed.preconditions().if_none_match.expect("present").collect();
    assert_eq!(lines, [b"\"a\""]);
    assert_eq!(parsed.range(), Some(&b"bytes=0-1"[..]));
    let repeated = request(b"GET / HTTP/1.0\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n");
    assert_eq!(repeated.range(), None, "an invalid Range is ignored");
}

/// Section 3.2: 400 for a missing, repeated or invalid Host.
#[test]
fn host() {
    for (lines, status) in [
        ("HTTP/1.1\r\nHost: a", None),
        ("HTTP/1.1\r\nHost:", None),
        ("HTTP/1.1\r\nHost: [2001:db8::1]:8080", None),
        ("HTTP/1.1\r\nHost:   10.0.0.2:80  ", None),
        ("HTTP/1.1\r\nHost: %41-._~!$&'()*+,;=", None),
        ("HTTP/1.0", None),
        ("HTTP/1.1", Some(400)),
        ("HTTP/1.1\r\nHost: a\r\nHost: a", Some(400)),
        ("HTTP/1.0\r\nHost: a\r\nHost: b", Some(400)),
        ("HTTP/1.1\r\nHost: a b", Some(400)),
        ("HTTP/1.1\r\nHost: a/", Some(400)),
        ("HTTP/1.1\r\nHost: a@b", Some(400)),
        ("HTTP/1.1\r\nHost: a\tb", Some(400)),
        ("HTTP/1.1\r\nHost: \u{e9}", Some(400)),
        ("HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaa/aaaaaaaa", Some(400)),
        ("HTTP/1.1\r\nHost: <a>", Some(400)),
        ("HTTP/1.0\r\nHost: a:b:c", Some(400)),
    ] {
        assert_eq!(rejected(&format!("GET / {lines}")), status, "{lines}");
    }
}

/// Section 3.2 and RFC 3986 sections 3.2.2 and 3.2.3: a host and a port are not
/// any sequence of their characters, wherever they stand.
#[test]
fn an_authority_has_a_shape() {
    let good = [
        "a",
        "a:",
        "a:0",
        "a:80",
        "a:65535",
        "a:0000065535",
        "www.example.org:8080",
        "10.0.0.2:80",
        "a_b.c-d",
        "%41b%2D",
        "a%20b:1",
        "a~!$&'()*+,;=b",
        "[::]",
        "[::1]:8080",
        "[2001:db8::1]",
        "[::ffff:10.0.0.2]:",
        "[v1.a:b]:80",
    ];
    let bad = [
        ":",
        ":80",
        "a:b",
        "a:b:c",
        "a:80:80",
        "a:65536",
        "a:99999",
        "a:18446744073709551696",
        "a:+80",
        "a:-1",
        "]][[",
        "[",
        "]",
        "[]",
        "[]:80",
        "[::1",
        "::1",
        "[::1]80",
        "[::1]:x",
        "[::1]a",
        "[1::2::3]",
        "[10.0.0.2]",
        "[a]",
        "[fe80::1%25eth0]",
        "[v.a]",
        "[v1.]",
        "[vx.a]",
        "a[b",
        "a]",
        "a%zz",
        "a%",
        "a%4",
        "%",
    ];
    for (authority, status) in good.map(|good| (good, None)).into_iter().chain(bad.map(|bad| (bad, Some(400)))) {
        for lines in [
            format!("GET / HTTP/1.1\r\nHost: {authority}"),
            format!("GET / HTTP/1.1\r\nhOST:\t{authority} "),
            format!("GET / HTTP/1.0\r\nHost: {authority}"),
            format!("GET http://{authority}/ HTTP/1.1\r\nHost: a"),
            format!("GET http://{authority} HTTP/1.1\r\nHost: a"),
            format!("CONNECT {authority} HTTP/1.1\r\nHost: a"),
        ] {
            assert_eq!(rejected(&lines), status, "{lines}");
        }
    }
}

/// Section 9.3.
#[test]
fn persistence() {
    for (lines, keep_alive) in [
        ("HTTP/1.1\r\nHost: a", true),
        ("HTTP/1.1\r\nHost: a\r\nConnection: keep-alive", true),
        ("HTTP/1.1\r\nHost: a\r\nConnection: close", false),
        ("HTTP/1.1\r\nHost: a\r\nConnection: CLOSE", false),
        ("HTTP/1.1\r\nHost: a\r\nConnection: upgrade ,\tclose", false),
        ("HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nConnection: close", false),
        ("HTTP/1.1\r\nHost: a\r\nConnection: closed", true),
        ("HTTP/1.0", false),
        ("HTTP/1.0\r\nConnection: Keep-Alive", true),
        ("HTTP/1.0\r\nConnection: keep-alive, close", false),
        ("HTTP/1.0\r\nConnection: x\r\nConnection: keep-alive", true),
    ] {
        let head = format!("GET / {lines}\r\n\r\n");
        assert_eq!(message(head.as_bytes()).1.keep_alive(), keep_alive, "{lines}");
        let pipelined = format!("{head}{head}");
        let events = all(pipelined.as_bytes());
        if keep_alive {
            assert!(matches!(&events[..], [Seen::Request { .. }, Seen::Request { .. }]), "{lines}");
        } else {
            // Section 9.6: no request after the last one is processed.
            assert!(matches!(&events[..], [Seen::Request { .. }, Seen::Ignored(rest)] if *rest == head.len()));
        }
    }
}

/// Section 6.3.
#[test]
fn bodies() {
    let seen = all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let [Seen::Request { framing, .. }, body, end, Seen::Request { .. }] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((framing, body, end), (&Framing::Length(5), &Seen::Body(b"hello".to_vec()), &Seen::End));
    let seen = all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(matches!(&seen[..], [Seen::Request { framing: Framing::None, .. }, Seen::Request { .. }]), "{seen:?}");
    let seen = all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi, you");
    assert_eq!(seen[1..], [Seen::Body(b"hi".to_vec()), Seen::End, Seen::Ignored(5)]);
}

/// Section 7.1.
#[test]
fn chunked_bodies() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let after = |body: &str| all(format!("{head}{body}").as_bytes())[1..].to_vec();
    let text = |text: &str| Seen::Body(text.as_bytes().to_vec());
    assert_eq!(after("5\r\nhello\r\n0\r\n\r\n"), [text("hello"), Seen::End]);
    assert_eq!(after("0\r\n\r\n"), [Seen::End]);
    assert_eq!(after("5\r\nhello\r\nB\r\n, all world\r\n000\r\n\r\n"), [text("hello, all world"), Seen::End]);
    assert_eq!(after("5;a=b\r\nhello\r\n0;x\r\nTrailer: t\r\nOther:\r\n\r\n"), [text("hello"), Seen::End]);
    assert_eq!(after("5 ; a=\"b c\"\r\nhello\r\n0\r\n\r\n"), [text("hello"), Seen::End]);
    assert_eq!(after("5 \t\r\nhello\r\n0 \r\n\r\n"), [text("hello"), Seen::End]);
    let zeros = "0".repeat(40);
    assert_eq!(after(&format!("{zeros}5\r\nhello\r\n{zeros}\r\n\r\n")), [text("hello"), Seen::End]);
    for odd in ["5 5\r\nhello", "5 x\r\nhello", "5 \nhello", " 5\r\nhello", "0\r\nno colon\r\n\r\n"] {
        assert_eq!(after(odd).last(), Some(&Seen::Reject(400)), "{odd:?}");
    }
    assert_eq!(after("1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n"), [text("abcdefghijklmnopqrstuvwxyz")]);
    let seen = after("1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(matches!(&seen[..], [Seen::Body(_), Seen::End, Seen::Request { .. }]), "{seen:?}");
    let huge = RequestLimits { body: u64::MAX, ..RequestLimits::default() };
    let body = format!("{head}ffffffffffffffff\r\nx");
    assert_eq!(offer(body.as_bytes(), &[], &huge)[1..], [text("x")]);
}

/// RFC 9110 section 10.1.1.
#[test]
fn expectations() {
    for (lines, expected) in [
        ("HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue", Ok(true)),
        ("HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue", Ok(true)),
        ("HTTP/1.1\r\nHost: a\r\nExpect: 100-continue", Ok(false)),
        ("HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue", Ok(false)),
        ("HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue", Ok(false)),
        ("HTTP/1.0\r\nContent-Length: 5\r\nExpect: wonders", Ok(false)),
        ("HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: wonders", Err(417)),
        ("HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: wonders", Err(400)),
    ] {
        let seen = all(format!("PUT / {lines}\r\n\r\n").as_bytes());
        match (&seen[0], expected) {
            (Seen::Request { expect, .. }, Ok(expected)) => assert_eq!(*expect, expected, "{lines}"),
            (Seen::Reject(status), Err(expected)) => assert_eq!(*status, expected),
            (seen, _) => panic!("{lines}: {seen:?}"),
        }
    }
}

#[test]
fn what_is_waited_for() {
    let limits = RequestLimits::default();
    let mut engine = RequestReader::new();
    assert_eq!(engine.waiting(), Waiting::FirstHead);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
    assert!(matches!(engine.on_bytes(&head[..20], &limits), RequestEvent::NeedMore));
    assert_eq!(engine.waiting(), Waiting::Head);
    assert!(matches!(engine.on_bytes(head, &limits), RequestEvent::Request { .. }));
    assert_eq!(engine.waiting(), Waiting::Body);
    assert!(matches!(engine.on_bytes(b"x", &limits), RequestEvent::Body { .. }));
    assert!(matches!(engine.on_bytes(b"", &limits), RequestEvent::EndOfBody { consumed: 0 }));
    assert_eq!(engine.waiting(), Waiting::KeepAlive);
    assert!(matches!(engine.on_bytes(b"", &limits), RequestEvent::NeedMore));
    engine.close();
    assert_eq!(engine.waiting(), Waiting::Nothing);
    assert!(matches!(engine.on_bytes(b"", &limits), RequestEvent::NeedMore));
    assert!(matches!(engine.on_bytes(b"GET", &limits), RequestEvent::Ignored { consumed: 3 }));

    let timeouts = Timeouts::default();
    assert_eq!(timeouts.after(Waiting::Head), Some(timeouts.header));
    assert_eq!(timeouts.after(Waiting::KeepAlive), Some(timeouts.keep_alive));
    assert_eq!(timeouts.after(Waiting::Nothing), None);
    assert!(Waiting::Head.answers_408() && Waiting::Body.answers_408() && !Waiting::KeepAlive.answers_408());
    assert!(!Waiting::Head.restarts_on_progress(), "a byte now and then must not hold a connection");
}

/// A request under way is finished, what follows is not served.
#[test]
fn close_within_a_request() {
    let limits = RequestLimits::default();
    let mut engine = RequestReader::new();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
    assert!(matches!(engine.on_bytes(head, &limits), RequestEvent::Request { .. }));
    engine.close();
    assert!(matches!(engine.on_bytes(b"xGET", &limits), RequestEvent::Body { consumed: 1, .. }));
    assert!(matches!(engine.on_bytes(b"GET", &limits), RequestEvent::EndOfBody { consumed: 0 }));
    assert!(matches!(engine.on_bytes(b"GET", &limits), RequestEvent::Ignored { consumed: 3 }));
}

/// What cannot become a request is refused at its first bytes: it may never send a line feed.
#[test]
fn what_is_no_method_is_not_waited_for() {
    let limits = RequestLimits::default();
    for (bytes, refused) in [
        (&b"\x16\x03\x01"[..], true),
        (b"\0", true),
        (b"GE\x80", true),
        (b"\r\n\x16", true),
        (b"GET", false),
        (b"GET /\x16", false),
        (b"\r", false),
        (b"x-a", false),
    ] {
        let event = RequestReader::new().on_bytes(bytes, &limits);
        assert_eq!(matches!(event, RequestEvent::Reject { status: Status::BAD_REQUEST, .. }), refused, "{event:?}");
    }
    // However long it is: as if its first byte had come alone.
    let long = [b"\xe2".repeat(20_000), b"\r\n\r\n".to_vec()].concat();
    for bytes in [&long[..], &long[..10_000]] {
        let event = RequestReader::new().on_bytes(bytes, &limits);
        assert!(matches!(event, RequestEvent::Reject { status: Status::BAD_REQUEST, .. }), "{event:?}");
    }
}
