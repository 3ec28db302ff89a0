//! At each limit: one byte less is served, one more is rejected.

use super::{RequestLimits, Seen, all, offer};

fn status(bytes: &[u8], limits: &RequestLimits) -> Option<u16> {
    offer(bytes, &[], limits).iter().find_map(|seen| match seen {
        Seen::Reject(status) => Some(*status),
        _ => None,
    })
}

/// RFC 9112 section 3.
#[test]
fn request_line() {
    let limits = RequestLimits { request_line: 100, ..RequestLimits::default() };
    // "GET / HTTP/1.1" is 14 bytes.
    let line = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(length - 14));
    assert_eq!(status(line(100).as_bytes(), &limits), None);
    assert_eq!(status(line(101).as_bytes(), &limits), Some(414));
    assert_eq!(status(&line(5000).as_bytes()[..101], &limits), None, "CR LF may follow");
    assert_eq!(status(&line(5000).as_bytes()[..102], &limits), Some(414), "without waiting for the end");
    let default = RequestLimits::default();
    assert_eq!(status(line(8192).as_bytes(), &default), None);
    assert_eq!(status(line(8193).as_bytes(), &default), Some(414));
    assert_eq!(status(&[b'G'; 9000], &default), Some(414));
}

/// A line that is too long and no request's is refused for what of it comes within the limit, however it is split.
#[test]
fn what_is_behind_the_longest_line_is_not_judged() {
    for line_feeds in [false, true] {
        let limits = RequestLimits { request_line: 40, line_feeds, ..RequestLimits::default() };
        for at in 0..50 {
            for (length, end) in
                [(45, ""), (45, "\r\n\r\n"), (41, "\r\n\r\n"), (40, "\r\n\r\n"), (41, "\n\n"), (60, "")]
            {
                let mut sent = format!("{}{end}", "a".repeat(length)).into_bytes();
                if let Some(byte) = sent.get_mut(at) {
                    *byte = b':';
                }
                let each: Vec<_> = (0..sent.len()).collect();
                let whole = offer(&sent, &[], &limits);
                assert_eq!(offer(&sent, &each, &limits), whole, "{} {line_feeds}", sent.escape_ascii());
                let expected = if sent.iter().take(42).all(|byte| *byte == b'a') { 414 } else { 400 };
                assert_eq!(status(&sent, &limits), Some(expected), "{} {line_feeds}", sent.escape_ascii());
            }
        }
    }
}

/// RFC 6585 section 5.
#[test]
fn head() {
    let limits = RequestLimits { head: 200, ..RequestLimits::default() };
    let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    let head = |length: usize| format!("{start}{}\r\n\r\n", "v".repeat(length - start.len() - 4));
    assert_eq!(status(head(200).as_bytes(), &limits), None);
    assert_eq!(status(head(201).as_bytes(), &limits), Some(431));
    assert_eq!(status(&head(5000).as_bytes()[..199], &limits), None);
    assert_eq!(status(&head(5000).as_bytes()[..200], &limits), Some(431));
    let largest = RequestLimits { head: u16::MAX, ..RequestLimits::default() };
    assert_eq!(status(head(65_535).as_bytes(), &largest), None);
    assert_eq!(status(head(65_536).as_bytes(), &largest), Some(431));
    assert_eq!(status(head(200_000).as_bytes(), &largest), Some(431));
}

#[test]
fn fields() {
    let head = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
    assert_eq!(status(head(100).as_bytes(), &RequestLimits::default()), None);
    assert_eq!(status(head(101).as_bytes(), &RequestLimits::default()), Some(431));
}

/// RFC 9110 section 15.5.14.
#[test]
fn body() {
    let limits = RequestLimits { body: 10, ..RequestLimits::default() };
    let sized = |length: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    assert_eq!(status(sized(10).as_bytes(), &limits), None);
    assert_eq!(status(sized(11).as_bytes(), &limits), Some(413));
    let chunks = |body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    assert_eq!(status(chunks("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n").as_bytes(), &limits), None);
    assert_eq!(status(chunks("5\r\nhello\r\n6\r\n").as_bytes(), &limits), Some(413), "before its first byte");
    assert_eq!(status(chunks("ffffffffffffffff\r\n").as_bytes(), &limits), Some(413));
    let none = RequestLimits { body: 0, ..RequestLimits::default() };
    assert_eq!(status(chunks("0\r\n\r\n").as_bytes(), &none), None);
}

/// RFC 9112 section 7.1.1: extensions must be bounded.
#[test]
fn chunk_lines() {
    let chunk = |length: usize| {
        let extension = "e".repeat(length - 2);
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;{extension}\r\nx\r\n0\r\n\r\n")
    };
    assert_eq!(status(chunk(256).as_bytes(), &RequestLimits::default()), None);
    assert_eq!(status(chunk(257).as_bytes(), &RequestLimits::default()), Some(400));
    let tight = RequestLimits { chunk_line: 12, ..RequestLimits::default() };
    let digits = |count: usize| {
        let zeros = "0".repeat(count - 1);
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{zeros}1\r\nx\r\n0\r\n\r\n")
    };
    for end in 0..20 {
        let cut = digits(12).len() - end;
        assert_eq!(offer(digits(12).as_bytes(), &[cut], &tight).len(), 3);
        assert_eq!(offer(digits(13).as_bytes(), &[cut], &tight)[1..], [Seen::Reject(400)], "however split");
    }
    let endless = chunk(100_000);
    assert_eq!(status(&endless.as_bytes()[..400], &RequestLimits::default()), Some(400), "without waiting for the end");
}

#[test]
fn trailers() {
    let limits = RequestLimits { trailers: 100, fields: 10, ..RequestLimits::default() };
    let body =
        |trailers: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailers}\r\n");
    let long = |length: usize| format!("X: {}\r\n", "t".repeat(length - 5));
    assert_eq!(status(body(&long(98)).as_bytes(), &limits), None);
    assert_eq!(status(body(&long(99)).as_bytes(), &limits), Some(431));
    assert_eq!(status(body(&"X: t\r\n".repeat(10)).as_bytes(), &limits), None);
    assert_eq!(status(body(&"X: t\r\n".repeat(11)).as_bytes(), &limits), Some(431));
}

/// A head that arrives byte by byte costs in proportion to its length: what
/// was looked at is not looked at again, except once when it is complete.
#[test]
fn slow_heads_are_not_scanned_again() {
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}X: {}\r\n\r\n", "X: y\r\n".repeat(90), "v".repeat(10_000));
    let ends: Vec<_> = (1..head.len()).collect();
    let limits = RequestLimits::default();
    assert_eq!(offer(head.as_bytes(), &ends, &limits), all(head.as_bytes()));
    let mut engine = super::RequestReader::new();
    for end in 1..head.len() {
        assert!(matches!(engine.on_bytes(&head.as_bytes()[..end], &limits), super::RequestEvent::NeedMore));
        assert_eq!(usize::from(engine.progress.scanned), end);
        let complete = head[..end].rfind('\n').map_or(0, |at| at + 1);
        assert_eq!(usize::from(engine.progress.checked), complete, "all complete lines are checked");
    }
}
