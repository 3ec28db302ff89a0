//! A small server that requests are passed on to: what it answers is said by the last
//! part of the path. Most of it is what servers do that are broken.

use crate::ranged;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Where it listens, in the namespace of a test.
const ADDRESS: &str = "0.0.0.0:9000";

/// How long it waits before it answers late, and before it gives up.
const LATE: Duration = Duration::from_millis(2_500);

/// How long it waits before it answers soon.
const SOON: Duration = Duration::from_millis(400);

/// Fields that say for how long an answer holds.
const DATED: &str = "Expires: Thu, 01 Jan 2004 00:00:00 GMT\r\nCache-Control: no-store\r\nCache-Control: private\r\n";

/// Fields of many kinds.
const FIELDS: &str = "Content-Type: text/html; charset=utf-8\r\nX-One: 1\r\nx-two: 2\r\nServer: up\r\n\
    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"e\"\r\nX-Pad: x\r\nVary: Cookie\r\n\
    Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: no-cache\r\n\
    Keep-Alive: timeout=5\r\nX-Hidden: x\r\nSet-Cookie: a=b; Path=/old/; Domain=old.org\r\n\
    Set-Cookie: c=d; Secure\r\nAccept-Ranges: bytes\r\n";

/// Starts it; it ends with the process.
pub(crate) fn start() {
    // While nobody waits for it.
    let _ = huge(0);
    let listener = TcpListener::bind(ADDRESS).expect("a port of the test's own");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
}

fn serve(mut stream: TcpStream) {
    // Answers of several pieces wait for nobody's acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut arrived = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut arrived) {
        let line = head.split("\r\n").next().unwrap_or_default();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        let keeps = line.ends_with("1.1") && !head.to_ascii_lowercase().contains("connection: close");
        let name = path.rsplit('/').next().unwrap_or_default();
        if name == "switch" {
            return switch(&mut stream, arrived);
        }
        if !answer(&mut stream, name, (method, keeps), &head, &body) || !keeps {
            return;
        }
    }
}

/// Speaks another protocol from here on: five bytes come, and go back. They look like an
/// answer to whoever compares.
fn switch(stream: &mut TcpStream, mut arrived: Vec<u8>) {
    let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\nX-A: b\r\n\r\n";
    let mut piece = [0; 5];
    let mut told = stream.write_all(head).is_ok();
    while told && arrived.len() < piece.len() {
        told = stream.read(&mut piece).is_ok_and(|length| {
            arrived.extend_from_slice(&piece[..length]);
            length > 0
        });
    }
    let back = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", &*arrived].concat();
    let _ = stream.write_all(&back);
}

/// The first line of the request that comes.
pub(crate) fn request_line(stream: &mut TcpStream) -> Option<String> {
    let (head, _) = request(stream, &mut Vec::new())?;
    head.split("\r\n").next().map(str::to_owned)
}

/// A head, and its body.
pub(crate) fn request(stream: &mut TcpStream, arrived: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut more = |arrived: &mut Vec<u8>| {
        let mut piece = [0; 16_384];
        match stream.read(&mut piece) {
            Ok(length) if length > 0 => arrived.extend_from_slice(&piece[..length]),
            _ => return None,
        }
        Some(())
    };
    let end = loop {
        if let Some(at) = arrived.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(arrived)?;
    };
    let rest = arrived.split_off(end);
    let head = String::from_utf8_lossy(&std::mem::replace(arrived, rest)).into_owned();
    let field = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
        Some(line[name.len()..].trim().to_owned())
    };
    if field("transfer-encoding:").is_some() {
        // As it came: in how many chunks is not told.
        while !arrived.ends_with(b"0\r\n\r\n") {
            more(arrived)?;
        }
        return Some((head, std::mem::take(arrived)));
    }
    let length: usize = field("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
    while arrived.len() < length {
        more(arrived)?;
    }
    let rest = arrived.split_off(length);
    Some((head, std::mem::replace(arrived, rest)))
}

/// Answers; whether another request may follow.
fn answer(stream: &mut TcpStream, name: &str, (method, keeps): (&str, bool), head: &str, body: &[u8]) -> bool {
    let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
    // Who keeps the connection otherwise may ask there again before its end comes.
    let ends = if keeps { "" } else { "Connection: close\r\n" };
    let whole = |status: &str, fields: &str, body: &[u8]| {
        let length = body.len();
        let mut out = format!("HTTP/1.1 {status}\r\n{fields}{ends}Content-Length: {length}\r\n\r\n").into_bytes();
        if method != "HEAD" {
            out.extend_from_slice(body);
        }
        out
    };
    if name.starts_with("ranged") {
        return ranged::answer(name, (method, ends), head, &mut send);
    }
    let odd = answer_oddly(name, (method, ends), &mut send);
    if let Some(goes_on) = odd.or_else(|| answer_wrongly(name, &mut send)) {
        return goes_on;
    }
    let text = "Content-Type: text/plain\r\n";
    match name {
        "chunked" => {
            send(format!("HTTP/1.1 200 OK\r\n{text}{ends}Transfer-Encoding: chunked\r\n\r\n").as_bytes())
                && (method == "HEAD" || send(b"5;a=b\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"))
        }
        "close" => {
            send(format!("HTTP/1.0 200 OK\r\n{text}\r\nup to the end").as_bytes());
            false
        }
        "close-huge" => {
            let _ = send(b"HTTP/1.0 200 OK\r\n\r\n") && send(huge(1_000_000));
            false
        }
        "empty" => send(format!("HTTP/1.1 204 No Content\r\n{ends}X-A: b\r\n\r\n").as_bytes()),
        "big" => send(&whole("200 OK", text, &[b'x'; 100_000])),
        "huge" => send(&whole("200 OK", text, huge(1_000_000))),
        "fields" => send(&whole("200 OK", FIELDS, b"<p>fields</p>\n")),
        "dated" => send(&whole("200 OK", DATED, b"dated\n")),
        "moved" => send(&whole("301 Moved Permanently", "Location: http://172.31.77.1:9000/there?a=b\r\n", b"")),
        "away" => send(&whole("302 Found", "Location: http://elsewhere.example/\r\n", b"gone")),
        "below" => send(&whole("302 Found", "Location: /below/\r\n", b"")),
        "refresh" => send(&whole("200 OK", "Refresh: 5; url=http://172.31.77.1:9000/there\r\n", b"soon")),
        "unmodified" => send(format!("HTTP/1.1 304 Not Modified\r\n{ends}ETag: \"e\"\r\n\r\n").as_bytes()),
        "missing" => send(&whole("404 Not Found", text, b"nothing here\n")),
        "error" => send(&whole("500 Internal Server Error", text, b"broken\n")),
        "busy" => send(&whole("503 Service Unavailable", "Retry-After: 7\r\n", b"busy\n")),
        "secret" => send(&whole("401 Unauthorized", "WWW-Authenticate: Basic realm=\"up\"\r\n", b"who?\n")),
        // What it was asked, for whoever logs it.
        "told" => {
            let line = head.split("\r\n").next().unwrap_or_default();
            let original = head.lines().find_map(|line| line.strip_prefix("X-Original-URI: ")).unwrap_or("-");
            let fields = format!("X-Told: {line} {} {original}\r\n", body.len());
            send(&whole("200 OK", &fields, b"told"))
        }
        "inside" => send(&whole("200 OK", "X-Accel-Redirect: /kept/page.html\r\nSet-Cookie: in=side\r\n", b"no")),
        "named" => send(&whole("200 OK", "X-Accel-Redirect: @kept\r\n", b"no")),
        "above" => send(&whole("200 OK", "X-Accel-Redirect: /kept/../../etc/passwd\r\n", b"no")),
        _ => {
            // What it was asked, but for what differs by whom.
            let kept: Vec<&str> = head.split("\r\n").filter(|line| !line.is_empty()).collect();
            let told = [kept.join("\n").as_bytes(), b"\n\n", body].concat();
            send(&whole("200 OK", text, &told))
        }
    }
}

/// Bytes that tell where they stand.
pub(crate) fn huge(length: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let byte = |at: u32| at.wrapping_mul(2_654_435_761).to_be_bytes()[0];
    &BYTES.get_or_init(|| (0..1_000_000).map(byte).collect())[..length]
}

/// What is an answer, if not as others write it; nothing if it is to be another.
fn answer_oddly(name: &str, (method, ends): (&str, &str), send: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool> {
    let (fields, body) = match name {
        "padded-chunks" => ("Transfer-Encoding: chunked", "3  \r\nhel\r\n2\t\r\nlo\r\n0 \r\n\r\n"),
        "zeros-of-chunks" => {
            ("Transfer-Encoding: chunked", "00000000000000000000005\r\nhello\r\n000000000000000000000\r\n\r\n")
        }
        "bad-trailers" => ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\nX-A: b\r\nno colon\r\n\r\n"),
        "no-bytes" => ("Content-Length: 0", ""),
        "lost" => ("Accept-Ranges: bytes\r\nX-Accel-Redirect: /nowhere\r\nContent-Length: 2", "no"),
        _ => return None,
    };
    let body = if method == "HEAD" { "" } else { body };
    Some(send(format!("HTTP/1.1 200 OK\r\n{ends}{fields}\r\n\r\n{body}").as_bytes()))
}

/// What is no answer, or not all of one; nothing if it is to be one.
fn answer_wrongly(name: &str, send: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool> {
    Some(match name {
        "nothing" => false,
        "garbage" => {
            send(b"GARBAGE\r\n\r\n");
            false
        }
        "half-head" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Le");
            false
        }
        "bad-field" => {
            send(b"HTTP/1.1 200 OK\r\nA B: c\r\nContent-Length: 0\r\n\r\n");
            false
        }
        "huge-head" => {
            send(&[b"HTTP/1.1 200 OK\r\nX-A: ".as_slice(), &[b'a'; 20_000], b"\r\nContent-Length: 0\r\n\r\n"].concat());
            false
        }
        "cut-length" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it");
            false
        }
        "cut-huge" => {
            let _ = send(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n") && send(huge(700_000));
            false
        }
        "surplus-huge" => {
            let _ = send(b"HTTP/1.1 200 OK\r\nContent-Length: 700000\r\n\r\n") && send(huge(700_010));
            false
        }
        "cut-chunk" => {
            send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n9\r\nwor");
            false
        }
        "soon" => {
            thread::sleep(SOON);
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsoon\n")
        }
        "late" => {
            thread::sleep(LATE);
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlate\n")
        }
        "late-body" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
            thread::sleep(LATE);
            false
        }
        "too-much" => send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour and more"),
        "two-lengths" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 8\r\n\r\nfourfour");
            false
        }
        "chunks-of-length" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n");
            false
        }
        "no-length" => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 4x\r\n\r\nfour");
            false
        }
        "hints" => {
            send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour");
            false
        }
        _ => return None,
    })
}
