//! The client's engine: RFC 9112 sections 4, 6.3, 7 and 8.

use super::*;
use crate::random::Random;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Interim(u16),
    Response { status: u16, framing: Framing, keep_alive: bool, fields: usize },
    Body(Vec<u8>),
    End,
    Failed(Error),
    Closed(Result<Option<Summary>, Error>),
}

/// A head of lines that end in LF alone.
fn of_line_feeds(engine: &mut ResponseReader, sent: &[u8], asked: Method, limits: &ResponseLimits) -> Seen {
    let head = crate::canonical(sent);
    match engine.on_bytes(&head, asked, limits) {
        ResponseEvent::Interim { status, .. } => Seen::Interim(status.code()),
        ResponseEvent::Response { response, .. } => Seen::Response {
            status: response.status.code(),
            framing: response.framing,
            keep_alive: response.keep_alive,
            fields: response.fields().count(),
        },
        ResponseEvent::Failed { error } => Seen::Failed(error),
        event => panic!("{event:?} of {:?}", head.escape_ascii().to_string()),
    }
}

/// Offers `bytes` as a data path does, in pieces that end at `ends`, then the
/// end of the stream.
fn offer(bytes: &[u8], ends: &[usize], asked: Method, limits: &ResponseLimits) -> Vec<Seen> {
    let mut engine = ResponseReader::new();
    let (mut seen, mut start) = (Vec::new(), 0);
    for &end in ends.iter().chain([&bytes.len()]) {
        loop {
            let data = &bytes[start..end];
            let consumed = match engine.on_bytes(data, asked, limits) {
                ResponseEvent::NeedMore => break,
                ResponseEvent::Interim { status, consumed } => {
                    seen.push(Seen::Interim(status.code()));
                    consumed
                }
                ResponseEvent::LineFeeds { consumed } => {
                    seen.push(of_line_feeds(&mut engine, &data[..consumed], asked, limits));
                    if let Some(Seen::Failed(_)) = seen.last() {
                        return seen;
                    }
                    consumed
                }
                ResponseEvent::Response { response, consumed } => {
                    let (status, fields) = (response.status.code(), response.fields().count());
                    seen.push(Seen::Response {
                        status,
                        framing: response.framing,
                        keep_alive: response.keep_alive,
                        fields,
                    });
                    consumed
                }
                ResponseEvent::Body { bytes, consumed } => {
                    assert!(!bytes.is_empty() && bytes.len() <= consumed);
                    match seen.last_mut() {
                        Some(Seen::Body(body)) => body.extend_from_slice(bytes),
                        _ => seen.push(Seen::Body(bytes.to_vec())),
                    }
                    consumed
                }
                ResponseEvent::EndOfBody { consumed, trailers } => {
                    assert!(
                        data[..consumed].ends_with(&[trailers, b"\r\n"].concat())
                            || consumed == 0 && trailers.is_empty()
                    );
                    seen.push(Seen::End);
                    consumed
                }
                ResponseEvent::Failed { error } => {
                    assert!(
                        matches!(engine.on_bytes(data, asked, limits), ResponseEvent::Failed { error: again } if again == error)
                    );
                    seen.push(Seen::Failed(error));
                    return seen;
                }
            };
            assert!(consumed <= data.len());
            start += consumed;
        }
    }
    seen.push(Seen::Closed(engine.on_end(bytes.len() - start)));
    seen
}

fn all(bytes: &str) -> Vec<Seen> {
    offer(bytes.as_bytes(), &[], Method::Get, &ResponseLimits::default())
}

/// Framing and persistence, or why there are none.
type Verdict = Result<(Framing, bool), Error>;

/// Complete responses with the bytes of their bodies, and how it ended.
type Sums = (Vec<(u16, u64)>, Result<Option<u64>, Error>);

/// What comes of the response with this head.
fn head(lines: &str, asked: Method) -> Verdict {
    match offer(format!("{lines}\r\n\r\n").as_bytes(), &[], asked, &ResponseLimits::default())[0] {
        Seen::Response { framing, keep_alive, .. } => Ok((framing, keep_alive)),
        Seen::Failed(error) => Err(error),
        ref other => panic!("{lines}: {other:?}"),
    }
}

/// Section 6.3, and section 9.3 for persistence.
#[test]
fn framing() {
    use Framing::{Chunked, Length, None, UntilClose};
    let cases: [(&str, Method, Verdict); 33] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.1 200 OK\r\ncontent-length:5 ", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0", Method::Get, Ok((None, true))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close", Method::Get, Ok((Length(5), false))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x, Close", Method::Get, Ok((Length(5), false))),
        ("HTTP/1.2 200 OK\r\nContent-Length: 5", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5", Method::Get, Ok((Length(5), false))),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Method::Get, Ok((Chunked, true))),
        ("HTTP/1.1 200\r\nContent-Length: 5", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.1 200 \r\nContent-Length: 5", Method::Get, Ok((Length(5), true))),
        ("HTTP/1.1 599 What\u{e9}ver\tthis is", Method::Get, Ok((UntilClose, false))),
        ("HTTP/1.1 200 OK", Method::Get, Ok((UntilClose, false))),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive", Method::Get, Ok((UntilClose, false))),
        ("HTTP/1.1 204 No Content", Method::Get, Ok((None, true))),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5", Method::Get, Ok((None, true))),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Method::Get, Ok((None, true))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5", Method::Head, Ok((None, true))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Method::Head, Ok((None, true))),
        ("HTTP/1.1 200 OK", Method::Head, Ok((None, true))),
        ("HTTP/1.1 200 OK", Method::Connect, Ok((None, false))),
        ("HTTP/1.1 403 No\r\nContent-Length: 5", Method::Connect, Ok((Length(5), true))),
        ("HTTP/1.1 101 Switching Protocols", Method::Get, Ok((None, false))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5", Method::Get, Err(Error::Malformed)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5", Method::Get, Err(Error::Malformed)),
        ("HTTP/1.1 200 OK\r\nContent-Length: x", Method::Get, Err(Error::Malformed)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", Method::Get, Err(Error::Malformed)),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", Method::Get, Err(Error::Malformed)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", Method::Get, Err(Error::UnsupportedCoding)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked", Method::Get, Err(Error::UnsupportedCoding)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked", Method::Get, Err(Error::UnsupportedCoding)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
            Method::Get,
            Err(Error::UnsupportedCoding),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding:", Method::Get, Err(Error::UnsupportedCoding)),
    ];
    for (lines, asked, expected) in cases {
        assert_eq!(head(lines, asked), expected, "{lines}");
    }
}

/// Section 4, and what section 2.2 and RFC 9110 section 5.5 let a client refuse.
#[test]
fn malformed_heads() {
    for lines in [
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 600 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200 OK\nX: y",
        "HTTP/1.1 200 OK\r\nX : y",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded",
        "HTTP/1.1 200 OK\r\nno colon",
        "HTTP/1.1 200 OK\r\nX: a\0",
        "ICY 200 OK",
        "",
    ] {
        assert_eq!(head(lines, Method::Get), Err(Error::Malformed), "{lines:?}");
    }
    assert_eq!(all("SSH-2.0-x"), [Seen::Failed(Error::Malformed)], "told at the first byte");
}

#[test]
fn bodies() {
    let response = |framing, keep_alive, fields| Seen::Response { status: 200, framing, keep_alive, fields };
    let text = |text: &str| Seen::Body(text.as_bytes().to_vec());
    assert_eq!(
        all("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
        [
            response(Framing::Length(5), true, 1),
            text("hello"),
            Seen::End,
            response(Framing::Length(2), true, 1),
            text("hi"),
            Seen::End,
            Seen::Closed(Ok(None)),
        ]
    );
    assert_eq!(
        all("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n"),
        [response(Framing::Chunked, true, 1), text("hello world"), Seen::End, Seen::Closed(Ok(None))]
    );
    let ok = |body| Some(Summary { status: Status::OK, keep_alive: false, body });
    assert_eq!(
        all("HTTP/1.1 200 OK\r\n\r\neverything"),
        [response(Framing::UntilClose, false, 0), text("everything"), Seen::Closed(Ok(ok(10)))]
    );
    assert_eq!(all("HTTP/1.1 200 OK\r\n\r\n"), [response(Framing::UntilClose, false, 0), Seen::Closed(Ok(ok(0)))]);
}

/// What servers write in chunks beside what section 7.1 has, and others take.
#[test]
fn chunks_of_servers_that_are_not_exact() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let response = |framing, keep_alive, fields| Seen::Response { status: 200, framing, keep_alive, fields };
    let hello = [response(Framing::Chunked, true, 1), Seen::Body(b"hello".to_vec()), Seen::End, Seen::Closed(Ok(None))];
    let zeros = "0".repeat(40);
    for body in [
        "5  \r\nhello\r\n0\r\n\r\n".to_owned(),
        "5\t\r\nhello\r\n0 \r\n\r\n".to_owned(),
        "5 \t;x=y\r\nhello\r\n0\r\n\r\n".to_owned(),
        format!("{zeros}5\r\nhello\r\n{zeros}\r\n\r\n"),
        "5\r\nhello\r\n0\r\nno colon\r\n\r\n".to_owned(),
        "5\r\nhello\r\n0\r\nT: v\r\n: x\r\nT\0 :\r\n\r\n".to_owned(),
    ] {
        let bytes = format!("{head}{body}");
        assert_eq!(all(&bytes), hello, "{body:?}");
        // Nothing is told of trailers that are none, and what follows is the next answer.
        let two = all(&format!("{bytes}{bytes}"));
        assert_eq!((&two[..3], &two[3..]), (&hello[..3], &hello[..]), "{body:?}");
    }
    let malformed = |body: &str| all(&format!("{head}{body}")).last() == Some(&Seen::Failed(Error::Malformed));
    for body in ["5 5\r\nhello", "5 x\r\nhello", "5 \nhello", "0\r\nno\rcolon\r\n\r\n", "0\r\nno colon\n\r\n"] {
        assert!(malformed(body), "{body:?}");
    }
    assert!(malformed(&format!("{}5\r\nhello", "0".repeat(1024))), "as long as a line may be");
    assert!(malformed(&format!("{zeros}10000000000000000\r\n")), "more than there is");
    for body in ["5 ", "0\r\nno colon\r\n", "0\r\nno colon"] {
        assert_eq!(all(&format!("{head}{body}")).last(), Some(&Seen::Closed(Err(Error::Truncated))), "{body:?}");
    }
    let tight = ResponseLimits { fields: 3, trailers: 30, ..ResponseLimits::default() };
    for body in ["0\r\n x\r\n\r\n".to_owned() + &"y".repeat(40), format!("0\r\n{}\r\n", " x\r\n".repeat(3))] {
        assert!(
            !offer(format!("{head}{body}").as_bytes(), &[], Method::Get, &tight)
                .contains(&Seen::Failed(Error::TooLarge))
        );
    }
    for body in [format!("0\r\n x\r\n{}", "y".repeat(40)), format!("0\r\n{}\r\n", " x\r\n".repeat(4))] {
        let seen = offer(format!("{head}{body}").as_bytes(), &[], Method::Get, &tight);
        assert_eq!(seen.last(), Some(&Seen::Failed(Error::TooLarge)), "{body:?}");
    }
}

/// Section 8.
#[test]
fn truncated_responses() {
    for bytes in [
        "H",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        assert_eq!(all(bytes).last(), Some(&Seen::Closed(Err(Error::Truncated))), "{bytes:?}");
    }
    assert_eq!(all(""), [Seen::Closed(Ok(None))]);
}

/// RFC 9110 section 15.2.
#[test]
fn interim_responses_are_skipped() {
    let seen = all("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n");
    assert!(matches!(seen[..], [Seen::Interim(100), Seen::Interim(103), Seen::Response { status: 204, .. }, _]));
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(9);
    assert_eq!(all(&endless).last(), Some(&Seen::Failed(Error::TooLarge)));
}

/// Bytes that no request asked for after the last response are an error.
#[test]
fn bytes_after_the_last_response() {
    let seen = all("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(seen[2..], [Seen::End, Seen::Failed(Error::Malformed)]);
}

#[test]
fn limits() {
    let limits = ResponseLimits { head: 100, fields: 3, chunk_line: 20, trailers: 30, ..ResponseLimits::default() };
    let seen = |bytes: &str| offer(bytes.as_bytes(), &[], Method::Get, &limits);
    let start = "HTTP/1.1 204 OK\r\nX: ";
    let head = |length: usize| format!("{start}{}\r\n\r\n", "v".repeat(length - start.len() - 4));
    assert!(matches!(seen(&head(100))[0], Seen::Response { .. }));
    assert_eq!(seen(&head(101)), [Seen::Failed(Error::TooLarge)]);
    let fields = |count| format!("HTTP/1.1 204 OK\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(matches!(seen(&fields(3))[0], Seen::Response { .. }));
    assert_eq!(seen(&fields(4)), [Seen::Failed(Error::TooLarge)]);
    let chunked =
        |body: &str| seen(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"))[1..].to_vec();
    assert_eq!(chunked(&format!("1;{}\r\nx", "e".repeat(18)))[0], Seen::Body(b"x".to_vec()));
    assert_eq!(chunked(&format!("1;{}\r\nx", "e".repeat(19))), [Seen::Failed(Error::Malformed)]);
    assert_eq!(chunked("0\r\nX: 012345678901234567890123456789\r\n\r\n"), [Seen::Failed(Error::TooLarge)]);
    assert_eq!(chunked("10000000000000000\r\n"), [Seen::Failed(Error::Malformed)]);
}

const STREAMS: [&str; 10] = [
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html\r\n\
     Content-Length: 3\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n\
     ETag: \"66f1a2b3-1a2b\"\r\nAccept-Ranges: bytes\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTrailer: x\r\nCookie: y\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 304 N\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nconnection: keep-alive\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nLong: 0123456789abcdef0123456789abcdef0123456789abcdef\t0123456789\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nContent-Length: 1\r\n\r\nz",
];

const TIGHT: ResponseLimits = ResponseLimits {
    head: 120,
    fields: 6,
    interim: 2,
    chunk_line: 10,
    trailers: 20,
    line_feeds: false,
    skips_bad_trailers: true,
};

#[test]
fn every_split_gives_the_same_events() {
    for stream in STREAMS {
        for limits in [ResponseLimits::default(), TIGHT] {
            let bytes = stream.as_bytes();
            let whole = offer(bytes, &[], Method::Get, &limits);
            for first in 0..bytes.len() {
                for second in (first..bytes.len()).step_by(5) {
                    assert_eq!(offer(bytes, &[first, second], Method::Get, &limits), whole, "{stream:?}");
                }
            }
        }
    }
}

#[test]
fn mutated_streams_give_the_same_events_however_split() {
    let mut random = Random::new(4);
    for round in 0..30_000 {
        let bytes = random.mutated(STREAMS[round % STREAMS.len()].as_bytes());
        let limits = if random.below(2) == 0 { ResponseLimits::default() } else { TIGHT };
        let asked = if random.below(8) == 0 { Method::Head } else { Method::Get };
        let whole = offer(&bytes, &[], asked, &limits);
        let ends = random.ends(bytes.len());
        assert_eq!(offer(&bytes, &ends, asked, &limits), whole, "{:?}", bytes.escape_ascii().to_string());
        let each: Vec<_> = (0..bytes.len()).collect();
        if round % 10 == 0 {
            assert_eq!(offer(&bytes, &each, asked, &limits), whole, "{:?}", bytes.escape_ascii().to_string());
        }
    }
}

/// Lines that end in LF alone, where they may: the same heads as by CR LF, however the
/// bytes are split; none where they may not.
#[test]
fn heads_mean_the_same_whichever_line_ends_they_have() {
    let mut random = Random::new(8);
    let loose = |limits: ResponseLimits| ResponseLimits { line_feeds: true, ..limits };
    let mut bare = 0;
    for round in 0..20_000 {
        let stream = STREAMS[round % STREAMS.len()];
        let (head, rest) = stream.split_once("\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        for line in head.split("\r\n").chain([""]) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(if random.below(2) == 0 { b"\n" } else { b"\r\n" });
        }
        bytes.extend_from_slice(rest.as_bytes());
        let limits = ResponseLimits::default();
        let strict = offer(stream.as_bytes(), &[], Method::Get, &limits);
        assert_eq!(offer(&bytes, &[], Method::Get, &loose(limits)), strict, "{stream:?}");
        if bytes != stream.as_bytes() {
            bare += 1;
            let seen = offer(&bytes, &[], Method::Get, &limits);
            assert_eq!(seen.first(), Some(&Seen::Failed(Error::Malformed)), "{stream:?}");
        }
        let bytes = random.mutated(&bytes);
        let limits = if random.below(2) == 0 { limits } else { TIGHT };
        let whole = offer(&bytes, &[], Method::Get, &loose(limits));
        let ends = random.ends(bytes.len());
        let split = offer(&bytes, &ends, Method::Get, &loose(limits));
        assert_eq!(split, whole, "{:?}", bytes.escape_ascii().to_string());
    }
    assert!(bare > 10_000, "{bare}");
}

/// What [`ResponseReader::on_bytes_counted`] says, by its short way or without, is
/// what the events say.
#[test]
fn counting_agrees_with_the_events() {
    let mut random = Random::new(5);
    let mut plain = 0;
    for round in 0..30_000 {
        let stream = STREAMS[round / 3 % STREAMS.len()].as_bytes();
        let bytes = if random.below(2) == 0 { stream.to_vec() } else { random.mutated(stream) };
        let asked = if random.below(8) == 0 { Method::Head } else { Method::Get };
        let limits = if random.below(4) == 0 { TIGHT } else { ResponseLimits::default() };
        plain += usize::from(super::plain::parse(&bytes, &limits).is_some());
        let mut ends = random.ends(bytes.len());
        ends.push(bytes.len());
        assert_eq!(
            counted(&bytes, &ends, asked, &limits),
            summed(&offer(&bytes, &ends, asked, &limits)),
            "{:?}",
            bytes.escape_ascii().to_string()
        );
    }
    assert!(plain > 1_000, "the short way is taken: {plain}");
}

fn counted(bytes: &[u8], ends: &[usize], asked: Method, limits: &ResponseLimits) -> Sums {
    let (mut engine, mut start, mut complete) = (ResponseReader::new(), 0, Vec::new());
    for &end in ends {
        loop {
            match engine.on_bytes_counted(&bytes[start..end], asked, limits) {
                Counted::NeedMore { consumed } => {
                    start += consumed;
                    break;
                }
                Counted::Complete { summary, consumed } => {
                    start += consumed;
                    complete.push((summary.status.code(), summary.body));
                }
                Counted::Failed { error } => return (complete, Err(error)),
            }
        }
    }
    (complete, engine.on_end(bytes.len() - start).map(|last| last.map(|last| last.body)))
}

fn summed(seen: &[Seen]) -> Sums {
    let (mut complete, mut current) = (Vec::new(), (0, 0));
    for seen in seen {
        match seen {
            Seen::Interim(_) => {}
            Seen::Response { status, framing, .. } => {
                current = (*status, 0);
                if *framing == Framing::None {
                    complete.push(current);
                }
            }
            Seen::Body(body) => current.1 = body.len() as u64,
            Seen::End => complete.push(current),
            Seen::Failed(error) => return (complete, Err(*error)),
            Seen::Closed(end) => return (complete, end.map(|last| last.map(|last| last.body))),
        }
    }
    panic!("{seen:?}")
}

/// A head written by the server's writer is read as it was written.
#[test]
fn written_responses_are_read() {
    use crate::response;
    let mut random = Random::new(6);
    for _ in 0..2_000 {
        let body = random.word(50);
        let (chunked, keep_alive) = (random.below(2) == 0, random.below(2) == 0);
        let mut out = Vec::new();
        let head =
            response::ResponseHead::new(&mut out, Status::NOT_FOUND).field("X-Word", random.word(100).as_bytes());
        let head = if chunked { head.chunked() } else { head.content_length(body.len() as u64) };
        head.lines(if keep_alive { b"" } else { b"Connection: close\r\n" }).end();
        if chunked {
            for part in body.as_bytes().chunks(20) {
                response::chunk_start(&mut out, part.len() as u64);
                out.extend_from_slice(part);
                out.extend_from_slice(response::CHUNK_END);
            }
            out.extend_from_slice(response::LAST_CHUNK);
        } else {
            out.extend_from_slice(body.as_bytes());
        }
        let ends = random.ends(out.len());
        let seen = offer(&out, &ends, Method::Get, &ResponseLimits::default());
        let framing = if chunked { Framing::Chunked } else { Framing::Length(body.len() as u64) };
        let fields = 2 + usize::from(!keep_alive);
        assert_eq!(
            seen,
            [
                Seen::Response { status: 404, framing, keep_alive, fields },
                Seen::Body(body.into_bytes()),
                Seen::End,
                Seen::Closed(Ok(None))
            ]
        );
    }
}

/// A length of ten digits and more is the general way's: it fits no number here.
#[test]
fn a_plain_length_has_at_most_nine_digits() {
    let limits = ResponseLimits::default();
    for (length, is_plain) in [("999999999", true), ("1000000000", false), ("9999999999", false)] {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(super::plain::parse(bytes.as_bytes(), &limits).is_some(), is_plain, "{length}");
        let seen = all(&bytes);
        let told = |seen: &Seen| matches!(seen, Seen::Response { framing: Framing::Length(told), .. } if told.to_string() == length);
        assert!(seen.first().is_some_and(told), "{seen:?}");
    }
}

/// RFC 6648: wherever it stands, and whatever its case; values do not count.
#[test]
fn names_that_begin_with_x_are_told() {
    for (lines, has) in [
        ("A: x\r\nContent-Type: text/x\r\n", false),
        ("X-A: b\r\nServer: c\r\n", true),
        ("Server: c\r\nx-a: b\r\n", true),
        ("Ax: b\r\nTx-X: X\r\n", false),
        ("", false),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let mut reader = ResponseReader::new();
        match reader.on_bytes(head.as_bytes(), Method::Get, &ResponseLimits::default()) {
            ResponseEvent::Response { response, .. } => assert_eq!(response.has_x_field, has, "{lines}"),
            event => panic!("{event:?}"),
        }
    }
}
