//! What a message costs, in instructions: run under callgrind with a case and
//! a count, twice; the difference of the totals over that of the counts is
//! the cost of one.
//!
//! ```text
//! cargo build --release -p nearside-h1 --example instructions
//! for n in 1000 2000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null instructions minimal $n
//! done
//! ```

use std::hint::black_box;

use h1::client::{self, Counted};
use h1::response::ResponseHead;
use h1::server::{RequestEvent, RequestLimits, RequestReader};
use semantics::Method;

const MINIMAL: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n";
const CURL: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 10.0.0.2\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
const BROWSER: &[u8] = b"GET /assets/site.css?v=12 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/css,*/*;q=0.1\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: http://www.example.com/\r\n\
    Connection: keep-alive\r\n\
    If-None-Match: \"66f1a2b3-1a2b\"\r\n\
    Sec-Fetch-Dest: style\r\n\
    Sec-Fetch-Mode: no-cors\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nearside\r\n\
    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 13\r\n\
    Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    ETag: \"66f1a2b3-1a2b\"\r\n\
    Accept-Ranges: bytes\r\n\r\nHello, world!";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1000);
    match case.as_str() {
        "minimal" => serve(MINIMAL, count),
        "curl" => serve(CURL, count),
        "browser" => serve(BROWSER, count),
        "response" => receive(count),
        "counted" => receive_counted(count, false),
        "counted-other" => receive_counted(count, true),
        "head" => write_heads(count),
        "date" => dates(count),
        _ => {
            eprintln!("cases: minimal curl browser response counted counted-other head date");
            std::process::exit(2);
        }
    }
}

fn serve(bytes: &[u8], count: u32) {
    let limits = RequestLimits::default();
    let mut engine = RequestReader::new();
    for _ in 0..count {
        match engine.on_bytes(black_box(bytes), &limits) {
            RequestEvent::Request { request, consumed, .. } => {
                black_box((request.method(), request.path(), request.is_plain(), consumed));
            }
            event => panic!("{event:?}"),
        }
    }
}

fn receive(count: u32) {
    let limits = client::ResponseLimits::default();
    let mut engine = client::ResponseReader::new();
    for _ in 0..count {
        let mut at = 0;
        while at < RESPONSE.len() {
            match engine.on_bytes(black_box(&RESPONSE[at..]), Method::Get, &limits) {
                client::ResponseEvent::Response { consumed, .. } | client::ResponseEvent::Body { consumed, .. } => {
                    at += consumed
                }
                event => panic!("{event:?}"),
            }
        }
        assert!(matches!(engine.on_bytes(&[], Method::Get, &limits), client::ResponseEvent::EndOfBody { .. }));
    }
}

fn receive_counted(count: u32, other_head_each_time: bool) {
    let limits = client::ResponseLimits::default();
    let mut engine = client::ResponseReader::new();
    let mut other = RESPONSE.to_vec();
    for n in 0..count {
        if other_head_each_time {
            other[60] = b'0' + (n % 10) as u8;
        }
        match engine.on_bytes_counted(black_box(&other), Method::Get, &limits) {
            Counted::Complete { summary, consumed } => {
                black_box((summary, consumed));
            }
            counted => panic!("{counted:?}"),
        }
    }
}

fn write_heads(count: u32) {
    let mut out = Vec::with_capacity(1024);
    let date = semantics::date::HttpDate::from_unix(784_111_777);
    for n in 0..count {
        out.clear();
        ResponseHead::new(&mut out, semantics::Status::OK)
            .lines(b"Server: nearside\r\n")
            .date(&date)
            .field("Content-Type", b"text/plain")
            .content_length(u64::from(black_box(n)))
            .end();
        black_box(&out);
    }
}

fn dates(count: u32) {
    for n in 0..count {
        black_box(semantics::date::HttpDate::from_unix(784_111_777 + u64::from(n)));
    }
}
