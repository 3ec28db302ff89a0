//! RFC 9112 section 11.2: whatever two recipients might read differently is
//! refused.

use super::{Seen, all, rejected};

const HOST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Section 6.3, rules 3 to 5.
#[test]
fn doubtful_lengths() {
    for (lines, status) in [
        ("Content-Length: 5\r\nContent-Length: 5", 400),
        ("Content-Length: 5\r\nContent-Length: 6", 400),
        ("Content-Length: 5\r\ncontent-length: 5", 400),
        ("Content-Length: 5, 5", 400),
        ("Content-Length: 5,", 400),
        ("Content-Length: +5", 400),
        ("Content-Length: -5", 400),
        ("Content-Length: 0x5", 400),
        ("Content-Length: 5 5", 400),
        ("Content-Length: 5;", 400),
        ("Content-Length: 5.0", 400),
        ("Content-Length: 1e1", 400),
        ("Content-Length: \u{665}", 400),
        ("Content-Length:", 400),
        ("Content-Length: 18446744073709551616", 400),
        ("Content-Length: 99999999999999999999999999", 400),
        ("Content-Length: 18446744073709551615", 413),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", 400),
        ("Transfer-Encoding: gzip\r\nContent-Length: 5", 400),
    ] {
        assert_eq!(rejected(&format!("{HOST}{lines}")), Some(status), "{lines}");
    }
}

/// What two recipients may take the first, the last or both of has one line, wherever the
/// other is and however it is written (nginx refuses these; all others it takes).
#[test]
fn fields_of_one_line() {
    const ONCE: [&str; 9] = [
        "Authorization",
        "Expect",
        "If-Match",
        "If-None-Match",
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Range",
        "Content-Range",
        "Host",
    ];
    const OFTEN: [&str; 8] =
        ["Accept-Encoding", "Range", "User-Agent", "Via", "Cookie", "X-Forwarded-For", "Cache-Control", "Content-Type"];
    let value = |name: &str| if name == "Expect" { "100-continue" } else { "x" };
    let doubled = |name: &str, between: &str, again: &str| {
        let host = if name == "Host" { "" } else { "Host: a\r\n" };
        format!("GET / HTTP/1.1\r\n{host}{name}: {}\r\n{between}{again}:{}", value(name), value(name))
    };
    let many = "Accept: */*\r\nCache-Control: no-cache\r\n".repeat(6);
    for between in ["", "Accept: */*\r\n", "DNT: 1\r\nConnection: keep-alive\r\n", &many] {
        for name in ONCE {
            let once = format!("GET / HTTP/1.0\r\n{between}{name}: {}\r\n{name}s: {}", value(name), value(name));
            assert_eq!(rejected(&once), None, "{once}");
            for again in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                let head = doubled(name, between, &again);
                assert_eq!(rejected(&head), Some(400), "{head}");
                assert_eq!(rejected(&head.replacen("GET", "PUT", 1)), Some(400), "{head}");
            }
        }
        for name in OFTEN {
            assert_eq!(rejected(&doubled(name, between, name)), None, "{name}");
        }
    }
}

/// Sections 6.1 and 7.
#[test]
fn doubtful_codings() {
    for (lines, status) in [
        ("Transfer-Encoding: gzip", 400),
        ("Transfer-Encoding: identity", 400),
        ("Transfer-Encoding: chunked, gzip", 400),
        ("Transfer-Encoding: chunked, identity", 400),
        ("Transfer-Encoding: chunked, chunked", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", 400),
        ("Transfer-Encoding: xchunked", 400),
        ("Transfer-Encoding: chunkedx", 400),
        ("Transfer-Encoding: \"chunked\"", 400),
        ("Transfer-Encoding: chunked;a=b", 400),
        ("Transfer-Encoding: ,chunked", 400),
        ("Transfer-Encoding: chunked,", 400),
        ("Transfer-Encoding: chunk ed", 400),
        ("Transfer-Encoding:", 400),
        ("Transfer-Encoding: \u{b}chunked", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501),
        ("Transfer-Encoding: identity, chunked", 501),
    ] {
        assert_eq!(rejected(&format!("{HOST}{lines}")), Some(status), "{lines}");
    }
    assert_eq!(rejected(&format!("{HOST}Transfer-Encoding:\tchunked ")), None);
    assert_eq!(rejected(&format!("{HOST}TRANSFER-ENCODING: CHUNKED")), None);
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked";
    assert_eq!(rejected(old), Some(400), "section 6.1: not in HTTP/1.0");
}

/// Sections 2.2, 5.1 and 5.2; RFC 9110 section 5.5.
#[test]
fn doubtful_lines() {
    for lines in [
        "Content-Length : 5",
        "Content-Length\t: 5",
        " Content-Length: 5",
        "\tContent-Length: 5",
        "X: a\r\n folded",
        "X: a\r\n\tfolded",
        "Transfer-Encoding:\r\n chunked",
        ": no name",
        "no colon",
        "X\0: a",
        "X: a\0b",
        "X: a\rContent-Length: 5",
        "X: a\nContent-Length: 5",
        "X: a\r\rContent-Length: 5",
        "X: a\n\nGET / HTTP/1.1",
        "X\r: a",
        "X: a\x7f",
        "X: a\x08",
        "X(y): a",
        "X\u{e9}: a",
        "\u{feff}X: a",
        "\r",
        "\rX: a",
    ] {
        assert_eq!(rejected(&format!("{HOST}{lines}")), Some(400), "{lines:?}");
    }
}

/// Section 2.2: a bare LF may be taken for a line's end; here it never is.
#[test]
fn bare_line_feeds() {
    for bytes in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET /\nHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r \n",
    ] {
        assert_eq!(all(bytes.as_bytes()), [Seen::Reject(400)], "{bytes:?}");
    }
}

/// Section 3: exactly one space between the parts.
#[test]
fn doubtful_request_lines() {
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.1\t",
        "GET / HTTP/1.1\r",
        "GET /\rHTTP/1.1",
        "GET / / HTTP/1.1",
        "GET",
        "GET ",
        "GET / ",
        "GET\0/ HTTP/1.1",
    ] {
        assert_eq!(rejected(&format!("{line}\r\nHost: a")), Some(400), "{line:?}");
    }
}

/// Section 7.1.
#[test]
fn doubtful_chunks() {
    for body in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "+1\r\nx\r\n",
        "0x1\r\nx\r\n",
        " 1\r\nx\r\n",
        "1 x\r\nx\r\n",
        "1 1\r\nx\r\n",
        "1\t\n\r\nx\r\n",
        "1x\r\nx\r\n",
        "1\nx\r\n",
        "1\r\r\nx\r\n",
        "1;a\nx\r\n",
        "1;a\rb\r\nx\r\n",
        "1;a\0\r\nx\r\n",
        "1\r\nxy\r\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nx\rX",
        "1\r\nx0\r\n\r\n",
        "10000000000000000\r\nx\r\n",
        "fffffffffffffffff\r\nx\r\n",
        "0\r\nX : a\r\n\r\n",
        "0\r\n folded\r\n\r\n",
        "0\r\nX: a\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\n\n",
    ] {
        let seen = all(format!("{HOST}Transfer-Encoding: chunked\r\n\r\n{body}").as_bytes());
        assert_eq!(seen.last(), Some(&Seen::Reject(400)), "{body:?}: {seen:?}");
    }
}
