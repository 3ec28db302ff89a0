//! The short pass over plain heads: nothing but what the whole parser makes of
//! them, too.

use super::{RequestEvent, RequestLimits, RequestReader};
use crate::random::Random;
use crate::{Framing, Version};
use semantics::{Known, Method};

/// If `data` begins with a plain head, the whole parser says the same of it;
/// and either leaves the engine as the other does. Returns whether it does.
pub(crate) fn agrees(engine: RequestReader, data: &[u8], limits: &RequestLimits) -> bool {
    let Some(plain) = engine.plain(data, limits) else { return false };
    let (mut whole, mut short) = (engine, engine);
    let RequestEvent::Request { request, transfer, consumed } = whole.on_bytes(data, limits) else {
        panic!("no request: {:?}", data.escape_ascii().to_string())
    };
    short.pass(plain.keep_alive());
    assert_eq!(short, whole);
    assert_eq!((plain.path(data), plain.len(), plain.keep_alive()), (request.path(), consumed, transfer.keep_alive()));
    assert_eq!(plain.host(data), request.authority());
    let name = request.authority().split(|byte| *byte == b':').next();
    assert_eq!(Some(plain.host_name(data)), name);
    assert_eq!((request.method(), transfer.version()), (Method::Get, Version::Http11));
    assert!(request.is_plain() && !transfer.expect_continue() && transfer.framing() == Framing::None);
    // What logs are told of it.
    let told = plain.request(data);
    assert_eq!((told.line(), told.target(), told.query()), (request.line(), request.target(), request.query()));
    assert_eq!((told.head(), told.method(), told.authority()), (request.head(), Method::Get, request.authority()));
    let host = request.authority();
    let others = [
        [host, b"x"].concat(),
        [b"x", host].concat(),
        host.split_last().map_or(b"x".to_vec(), |(_, but)| but.to_vec()),
    ];
    for one in [&request, &told] {
        assert!(one.is_host(host) && others.iter().all(|other| !one.is_host(other)), "{:?}", host.escape_ascii());
    }
    let often = [
        (Known::Host, "host"),
        (Known::UserAgent, "user-agent"),
        (Known::Referer, "referer"),
        (Known::AcceptEncoding, "accept-encoding"),
        (Known::Via, "via"),
        (Known::Authorization, "authorization"),
    ];
    for (known, name) in often {
        assert_eq!(told.known(known), request.known(known));
        assert_eq!(told.known(known), request.fields().find(|field| field.is(name)).map(|field| field.value));
        assert_eq!(told.at().repeats(known), request.at().repeats(known));
    }
    true
}

fn is_plain(head: &str) -> bool {
    agrees(RequestReader::new(), head.as_bytes(), &RequestLimits::default())
}

/// What browsers and tools send.
const PLAIN: [&str; 15] = [
    "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET /some/path?q=1?2 HTTP/1.1\r\nHOST: a-name.of-some-length.example.org\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: \r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 10.0.0.2:8080\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nconnection: keep-alive\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html\r\n\
     Accept-Language: en\r\nAccept-Encoding: gzip\r\nReferer: http://a/\r\nConnection: keep-alive\r\nDNT: 1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\nGET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nvia:b\r\nVIA: \t c\r\nAuthorization:  Basic eDp5 \r\nReferer:\r\nUser-Agent: \r\n\r\n",
    "GET /a?b HTTP/1.1\r\nHost: www.example.org\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2, 10.0.0.3\r\nAccept-Encoding: gzip, \
     br\r\naccept-encoding: zstd\r\nVia: 1.1 one, 1.1 two\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: b\r\nX: y\r\nReferer: http://www.example.org/a-page-of-some-length.html?with=arguments\r\n\
     User-Agent: m\r\n\r\nGET /b HTTP/1.1\r\nHost: b\r\nUser-Agent: n\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: b\r\nCache-Control: no-cache\r\nCookie: c\r\ncache-control: max-age=0\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer some-token-that-is-long-enough\r\nAuthorizatioN2: Basic x\r\n\
     Connection: close\r\nAccept: */*\r\nDNT: 1\r\n\r\n",
];

#[test]
fn what_browsers_and_tools_send_is_plain() {
    for head in PLAIN {
        assert!(is_plain(head), "{head:?}");
    }
}

/// Each is served or rejected by the whole parser alone.
#[test]
fn whatever_means_more_is_not_plain() {
    for head in [
        "HEAD / HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "get / HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "GET /#a HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: 10.0.0.2\r\n\r\n",
        "GET / http/1.1\r\nHost: 10.0.0.2\r\n\r\n",
        "GET / HTTP/1.1\nHost: 10.0.0.2\n\n",
        "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : 10.0.0.2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:  10.0.0.2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2:65536\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2:8a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2:80:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2/\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nHost: 10.0.0.2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nBad : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nA: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nA: b\nc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nConnection: close, upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nContent-Length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nRange: bytes=0-\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nIf-Range: \"a\"\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nIf-Match: *\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nIf-None-Match: *\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nIf-Modified-Since: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nIf-Unmodified-Since: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nContent-Range: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.2\r\nAuthorization: a\r\nAccept: b\r\nauthorization: c\r\n\r\n",
    ] {
        assert!(!is_plain(head), "{head:?}");
    }
}

/// Every plain head with every byte at every place: what the short pass lets
/// through is what the whole parser lets through (RFC 9112 section 3.2: Host).
#[test]
fn with_any_byte_anywhere_it_agrees_with_the_whole_parser() {
    for head in PLAIN {
        let mut bytes = head.as_bytes().to_vec();
        for at in 0..bytes.len() {
            let was = bytes[at];
            for byte in 0..=u8::MAX {
                bytes[at] = byte;
                agrees(RequestReader::new(), &bytes, &RequestLimits::default());
            }
            bytes[at] = was;
        }
    }
}

/// Hosts of every length are found, with anything behind them, and no byte
/// that belongs to no name is, wherever it is.
#[test]
fn hosts_of_every_length_are_looked_at_as_a_whole() {
    for length in 0..50 {
        for fields in ["", "X: y\r\n", "Connection: close\r\n"] {
            let host = "a-b.cd9Z".repeat(7)[..length].to_owned();
            assert!(is_plain(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")), "{length} {fields:?}");
            for at in 0..length {
                for byte in "/@[`{ ,;\t\0\x7f".chars() {
                    let bad = format!("{}{byte}{}", &host[..at], &host[at + 1..]);
                    let head = format!("GET / HTTP/1.1\r\nHost: {bad}\r\n{fields}\r\n");
                    assert!(!is_plain(&head), "{head:?}");
                }
            }
        }
    }
}

/// An incomplete head is not plain, however much of it is there.
#[test]
fn a_part_of_a_head_is_not_plain() {
    for head in &PLAIN[..9] {
        for end in 0..head.len() {
            assert!(!is_plain(&head[..end]), "{:?}", &head[..end]);
        }
    }
}

#[test]
fn a_head_beyond_a_limit_is_not_plain() {
    let head = b"GET /123 HTTP/1.1\r\nHost: a\r\nA: b\r\nConnection: close\r\n\r\n";
    // The short pass leaves a head to the whole parser that is longer than the
    // longest request line.
    let just = RequestLimits {
        request_line: head.len() as u16,
        head: head.len() as u16,
        fields: 3,
        ..RequestLimits::default()
    };
    assert!(agrees(RequestReader::new(), head, &just));
    let longer = RequestLimits { request_line: just.request_line - 1, ..just };
    for less in [
        longer,
        RequestLimits { request_line: 16, ..just },
        RequestLimits { head: just.head - 1, ..just },
        RequestLimits { fields: 2, ..just },
        RequestLimits { fields: 0, ..just },
    ] {
        assert!(!agrees(RequestReader::new(), head, &less), "{less:?}");
        if less == longer {
            continue;
        }
        assert!(matches!(RequestReader::new().on_bytes(head, &less), RequestEvent::Reject { .. }), "{less:?}");
    }
    let short = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(!agrees(RequestReader::new(), short, &RequestLimits { fields: 0, ..just }));
}

/// Where no head is expected, and where the engine waits for the rest of one.
#[test]
fn only_where_a_head_begins() {
    let head = PLAIN[0].as_bytes();
    let limits = RequestLimits::default();
    let mut engine = RequestReader::new();
    assert!(matches!(engine.on_bytes(&head[..9], &limits), RequestEvent::NeedMore));
    assert_eq!(engine.plain(head, &limits), None, "some of it was looked at already");
    let mut closed = RequestReader::new();
    closed.pass(false);
    assert_eq!(closed.plain(head, &limits), None, "the last request was seen");
    let mut body = RequestReader::new();
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n";
    assert!(matches!(body.on_bytes(post, &limits), RequestEvent::Request { .. }));
    assert_eq!(body.plain(head, &limits), None, "a body");
}

/// Lines of all lengths, among them such as matter, at each place of a head;
/// the most fields that there may be are counted alike.
#[test]
fn long_heads_are_taken_like_the_whole_parser_takes_them() {
    const NAMES: [&str; 14] = [
        "Accept",
        "sec-ch-ua-platform",
        "User-Agent",
        "Upgrade-Insecure-Requests",
        "A-Name-Of-More-Than-Thirty-Two-Bytes",
        "x_y",
        "Cookie",
        "Referer",
        "Cache-Control",
        "Authorization",
        "Range",
        "If-None-Match",
        "Expect",
        "Connection",
    ];
    let mut random = Random::new(21);
    let (mut plain, mut other) = (0, 0);
    for _ in 0..20_000 {
        let mut head = "GET /a/path HTTP/1.1\r\nHost: www.example.org\r\n".to_owned();
        // Mostly none of those that matter, which are the last.
        let names = if random.below(3) == 0 { NAMES.len() } else { 9 };
        for _ in 0..random.below(14) {
            let name = NAMES[random.below(names)];
            let value = if name == "Connection" {
                ["close", "keep-alive", "Upgrade"][random.below(3)].to_owned()
            } else {
                (0..random.below(80)).map(|_| char::from(b"ab;= \t"[random.below(6)])).collect()
            };
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let limits = RequestLimits { fields: 3 + random.below(12) as u16, ..RequestLimits::default() };
        let doubled = head.matches("Authorization:").count() > 1;
        match agrees(RequestReader::new(), head.as_bytes(), &limits) {
            true => plain += 1,
            false => other += 1,
        }
        assert!(!doubled || !agrees(RequestReader::new(), head.as_bytes(), &RequestLimits::default()));
        // Nothing but whole heads is taken.
        let cut = random.below(head.len());
        assert!(!agrees(RequestReader::new(), &head.as_bytes()[..cut], &limits));
    }
    assert!(plain > 5_000 && other > 2_000, "{plain} {other}");
}
