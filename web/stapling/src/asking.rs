//! A question over HTTP (RFC 6960 appendix A), with a time limit.

use crate::order::{Responder, StapleOrder};
use core::net::SocketAddr;
use core::time::Duration;
use h1::Framing;
use h1::client::{ResponseEvent, ResponseLimits, ResponseReader};
use resolver::{Resolution, Resolver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use semantics::Method;
use semantics::path::percent_encode;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use x509::OCSP_ANSWER_MAX;

/// How long a responder may take in all, its name and all of its addresses included.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long each of its addresses may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// What a response may have beside its content.
const HEAD_MAX: usize = 16 << 10;

/// What it takes to ask.
pub(crate) struct Asker {
    pub resolver: Resolver,
    /// Readable when the resolver has an answer.
    pub event: Arc<OwnedFd>,
    /// Of the last question to it.
    pub ticket: u64,
}

/// The end of the time that something may take.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "the thread waits, and knows for how long; no silo does")]
    fn after(span: Duration) -> Self {
        Self(Instant::now() + span)
    }

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Waits until `fd` is ready for this; whether it is.
    fn wait(self, fd: &impl AsFd, ready: PollFlags) -> bool {
        loop {
            let left = self.left();
            let span =
                Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(0), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(fd, ready)], Some(&span)) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Why there is no answer, and at which address.
pub(crate) type Fault = (String, Option<SocketAddr>);

/// Asks a responder. Returns its answer's bytes, and where they came from.
pub(crate) fn ask(order: &StapleOrder, asker: &mut Asker) -> Result<(Vec<u8>, SocketAddr), Fault> {
    let deadline = Deadline::after(PATIENCE);
    let responder = &order.responder;
    let request = request(responder, order.question());
    let mut fault = ("no address of OCSP responder".to_owned(), None);
    for address in addresses(responder, asker, deadline).map_err(|why| (why, None))? {
        let at = |why| (why, Some(address));
        match connected(address, deadline) {
            Ok(socket) => {
                return converse(&socket, &request, deadline).map(|answer| (answer, address)).map_err(at);
            }
            Err(why) => fault = at(format!("connect() failed ({})", told(why))),
        }
    }
    Err(fault)
}

/// A fault of the system's, as nginx has it.
fn told(why: Errno) -> String {
    let text = std::io::Error::from(why).to_string();
    format!("{}: {}", why.raw_os_error(), text.split(" (os error").next().unwrap_or_default())
}

/// Where it is.
fn addresses(responder: &Responder, asker: &mut Asker, deadline: Deadline) -> Result<Vec<SocketAddr>, String> {
    let Some(rules) = &responder.rules else { return Ok(responder.addresses.clone()) };
    let host = String::from_utf8_lossy(&responder.host);
    let failed = |why: &str| format!("{host} could not be resolved ({why})");
    // Answers to earlier questions may be late.
    asker.ticket += 1;
    let ticket = asker.ticket;
    asker.resolver.ask(ticket, rules, &responder.host, None).map_err(|why| failed(&why.to_string()))?;
    loop {
        while let Some((told, answer)) = asker.resolver.take() {
            if told != ticket {
                continue;
            }
            return match answer.found {
                Ok(Resolution::Addresses(found)) => {
                    Ok(found.iter().map(|address| SocketAddr::new(*address, responder.port)).collect())
                }
                Ok(Resolution::Service(_)) => Err(failed("no addresses")),
                Err(why) => Err(failed(&why.to_string())),
            };
        }
        if !deadline.wait(&asker.event, PollFlags::IN) {
            return Err(failed("110: Operation timed out"));
        }
        let _ = rustix::io::read(&asker.event, &mut [0_u8; 8]);
    }
}

/// A connection to it.
fn connected(address: SocketAddr, deadline: Deadline) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(why) => return Err(why),
    }
    let sooner = Deadline::after(CONNECT.min(deadline.left()));
    if !sooner.wait(&socket, PollFlags::OUT) {
        return Err(Errno::TIMEDOUT);
    }
    // Nothing is sent: it tells what came of the connection.
    send(&socket, &[], SendFlags::NOSIGNAL).map(|_| socket)
}

/// What is sent. Short questions are in the address, so that what stands between may know the answer
/// (RFC 5019 section 5).
fn request(responder: &Responder, question: &[u8]) -> Vec<u8> {
    /// RFC 5019 section 5 has them up to 255 bytes, encoded.
    const SHORT: usize = 255;
    let mut encoded = Vec::new();
    percent_encode(&base64(question), |byte| !byte.is_ascii_alphanumeric(), &mut encoded);
    let (method, body): (&[u8], &[u8]) = if encoded.len() <= SHORT { (b"GET ", b"") } else { (b"POST ", question) };
    let mut request = [method, &responder.path].concat();
    if body.is_empty() {
        if request.last() != Some(&b'/') {
            request.push(b'/');
        }
        request.extend_from_slice(&encoded);
    }
    request.extend_from_slice(b" HTTP/1.0\r\nHost: ");
    request.extend_from_slice(&responder.host);
    if responder.port != 80 {
        request.extend_from_slice(format!(":{}", responder.port).as_bytes());
    }
    if !body.is_empty() {
        let fields = format!("\r\nContent-Type: application/ocsp-request\r\nContent-Length: {}", body.len());
        request.extend_from_slice(fields.as_bytes());
    }
    request.extend_from_slice(b"\r\n\r\n");
    request.extend_from_slice(body);
    request
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| number << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { letter } else { b'=' });
        }
    }
    text
}

/// Sends the request, and reads the answer.
fn converse(socket: &OwnedFd, request: &[u8], deadline: Deadline) -> Result<Vec<u8>, String> {
    let late = || "OCSP responder timed out (110: Connection timed out)".to_owned();
    let mut rest = request;
    while !rest.is_empty() {
        match send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if deadline.wait(socket, PollFlags::OUT) => {}
            Err(Errno::AGAIN) => return Err(late()),
            Err(why) => return Err(format!("send() failed ({})", told(why))),
        }
    }
    let mut received = Vec::new();
    let mut room = [0; 4_096];
    loop {
        match recv(socket, &mut room[..], RecvFlags::empty()) {
            Ok((0, _)) => return content(&received, true).unwrap_or_else(|| Err(PREMATURE.to_owned())),
            Ok((read, _)) => received.extend_from_slice(&room[..read]),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) if deadline.wait(socket, PollFlags::IN) => continue,
            Err(Errno::AGAIN) => return Err(late()),
            Err(why) => return Err(format!("recv() failed ({})", told(why))),
        }
        if deadline.left().is_zero() {
            return Err(late());
        }
        if received.len() > OCSP_ANSWER_MAX + HEAD_MAX {
            return Err("OCSP responder sent too long response".to_owned());
        }
        if let Some(whole) = content(&received, false) {
            return whole;
        }
    }
}

const PREMATURE: &str = "OCSP responder prematurely closed connection";

/// The content of a response, or why it has none; `None` while it is not whole. `over`: nothing more
/// follows.
fn content(mut received: &[u8], over: bool) -> Option<Result<Vec<u8>, String>> {
    // As with nginx, lines of a head may end in LF alone.
    let limits = ResponseLimits { head: HEAD_MAX as u16, line_feeds: true, ..Default::default() };
    let mut reader = ResponseReader::new();
    let mut content = Vec::new();
    let mut until_end = false;
    loop {
        let head;
        let mut event = reader.on_bytes(received, Method::Get, &limits);
        let mut of_line_feeds = None;
        if let ResponseEvent::LineFeeds { consumed } = event {
            head = h1::canonical(received.get(..consumed).unwrap_or_default());
            of_line_feeds = Some(consumed);
            event = reader.on_bytes(&head, Method::Get, &limits);
        }
        let consumed = match event {
            ResponseEvent::NeedMore if over && until_end => return Some(Ok(content)),
            ResponseEvent::NeedMore => return None,
            ResponseEvent::Interim { consumed, .. } => consumed,
            ResponseEvent::Response { response, consumed } => {
                if response.status.code() != 200 {
                    return Some(Err(format!("OCSP responder sent invalid \"{}\" status", response.status.code())));
                }
                let kind = response.fields().find(|field| field.is("content-type")).map(|field| field.value);
                let other = kind.filter(|kind| !kind.eq_ignore_ascii_case(b"application/ocsp-response"));
                if let Some(other) = other.map(String::from_utf8_lossy) {
                    return Some(Err(format!("OCSP responder sent invalid \"Content-Type\" header: \"{other}\"")));
                }
                until_end = response.framing == Framing::UntilClose;
                consumed
            }
            ResponseEvent::Body { bytes, consumed } => {
                content.extend_from_slice(bytes);
                consumed
            }
            ResponseEvent::EndOfBody { .. } => return Some(Ok(content)),
            ResponseEvent::LineFeeds { .. } | ResponseEvent::Failed { .. } => {
                return Some(Err("OCSP responder sent invalid response".to_owned()));
            }
        };
        received = received.get(of_line_feeds.unwrap_or(consumed)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responder(path: &[u8]) -> Responder {
        let (host, path) = (b"ocsp.example".to_vec(), path.to_vec());
        Responder { host, port: 8_080, path, addresses: Vec::new(), rules: None }
    }

    #[test]
    fn questions_are_asked_in_the_address_where_they_are_short() {
        assert_eq!(base64(b""), b"");
        assert_eq!(base64(b"a"), b"YQ==");
        assert_eq!(base64(b"ab"), b"YWI=");
        assert_eq!(base64(&[0xfb, 0xff, 0xfe, 0]), b"+//+AA==");
        let asked = request(&responder(b"/"), &[0xfb, 0xff, 0xfe, 0]);
        assert_eq!(asked, b"GET /%2B%2F%2F%2BAA%3D%3D HTTP/1.0\r\nHost: ocsp.example:8080\r\n\r\n");
        let asked = request(&responder(b"/a"), b"abc");
        assert!(asked.starts_with(b"GET /a/YWJj HTTP/1.0\r\n"));
        let long = request(&responder(b"/a"), &[1; 300]);
        assert!(long.starts_with(b"POST /a HTTP/1.0\r\n") && long.ends_with(&[b"\r\n\r\n", &[1; 300][..]].concat()));
    }

    #[test]
    fn content_is_taken_when_it_is_whole() {
        let head = "HTTP/1.0 200 OK\r\nContent-Type: application/ocsp-response\r\n";
        let told = format!("{head}Content-Length: 3\r\n\r\nabc");
        for cut in 0..told.len() {
            assert_eq!(content(&told.as_bytes()[..cut], false), None, "{cut}");
        }
        assert_eq!(content(told.as_bytes(), false), Some(Ok(b"abc".to_vec())));
        let open = format!("{head}\r\nabc");
        assert_eq!(content(open.as_bytes(), false), None);
        assert_eq!(content(open.as_bytes(), true), Some(Ok(b"abc".to_vec())));
        let line_feeds = told.replace('\r', "");
        assert_eq!(content(line_feeds.as_bytes(), false), Some(Ok(b"abc".to_vec())));
        assert_eq!(content(&line_feeds.as_bytes()[..line_feeds.len() - 1], false), None);
        for (bad, why) in [
            ("HTTP/1.0 404 No\r\nContent-Length: 0\r\n\r\n", "OCSP responder sent invalid \"404\" status"),
            (
                "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n",
                "OCSP responder sent invalid \"Content-Type\" header: \"text/html\"",
            ),
            ("SSH-2.0\r\n\r\n", "OCSP responder sent invalid response"),
        ] {
            assert_eq!(content(bad.as_bytes(), false), Some(Err(why.to_owned())));
        }
    }
}
