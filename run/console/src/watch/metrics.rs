//! The last sample, for whoever asks over HTTP.

use ::watch::{MEDIA_TYPE, Sample, openmetrics};
use core::time::Duration;
use say::Failure;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Answers on an address, one connection after the other: those who collect
/// metrics are few. It ends with the process.
pub(super) struct Server {
    text: Arc<Mutex<String>>,
}

/// A request's head is no longer, bytes.
const LONGEST_HEAD: usize = 8 << 10;

/// Nobody has the server for longer.
const PATIENCE: Duration = Duration::from_secs(2);

impl Server {
    pub(super) fn listen(address: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).map_err(|why| format!("{address}: {why}"))?;
        let text = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&text);
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is its own affair; out of descriptors,
                // the next try is to be later.
                match stream.and_then(|stream| answer(stream, &shown)) {
                    Err(why) if why.raw_os_error() == Some(libc::EMFILE) => thread::sleep(PATIENCE),
                    _ => {}
                }
            }
        })?;
        Ok(Self { text })
    }

    pub(super) fn show(&self, sample: &Sample) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = openmetrics(sample);
    }
}

fn answer(mut stream: TcpStream, text: &Mutex<String>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let until = perf::clock::raw() + u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = Duration::from_nanos(until.saturating_sub(perf::clock::raw()));
        if left.is_zero() || head.len() > LONGEST_HEAD {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 1_024];
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = first.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", MEDIA_TYPE, text.lock().unwrap_or_else(PoisonError::into_inner).clone())
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let body = if method == b"HEAD" { String::new() } else { body };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let text = Mutex::new("x 1\n# EOF\n".to_owned());
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(request).expect("sent");
        client.shutdown(std::net::Shutdown::Write).expect("it is open");
        let (server, _) = listener.accept().expect("a client");
        let _ = answer(server, &text);
        let mut response = String::new();
        let _ = client.read_to_string(&mut response);
        response
    }

    #[test]
    fn metrics_are_at_their_place_only() {
        let found = asked(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"), "{found}");
        assert!(found.ends_with("Content-Length: 10\r\nConnection: close\r\n\r\nx 1\n# EOF\n"), "{found}");
        assert!(asked(b"HEAD /metrics?x HTTP/1.1\r\n\r\n").ends_with("close\r\n\r\n"));
        assert!(asked(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(asked(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert_eq!(asked(b"GET /metrics"), "", "it went away");
        assert_eq!(asked(&[b'x'; 20_000]), "", "too long");
    }
}
