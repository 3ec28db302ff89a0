//! A client that takes answers to pieces, and sees everything.

use memchr::memmem::find;
use rustix::net::{AddressFamily, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    /// Statuses of interim responses.
    pub(crate) interim: Vec<u16>,
    /// The first line; empty if the connection ended without an answer, or with
    /// one that has no head.
    pub(crate) line: String,
    /// Fields in their order, names in small letters.
    pub(crate) fields: Vec<(String, String)>,
    /// The body, out of its chunks.
    pub(crate) body: Vec<u8>,
    /// Fields behind it, likewise.
    pub(crate) trailers: Vec<(String, String)>,
    /// Whether the connection takes another request.
    pub(crate) lives: bool,
}

impl Answer {
    /// The status; none without a head.
    pub(crate) fn status(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// The value of the first field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Has it say that the connection ends, as one that ends should.
    pub(crate) fn say_close(&mut self) {
        for (_, value) in self.fields.iter_mut().filter(|(name, _)| name == "connection") {
            "close".clone_into(value);
        }
    }

    /// The body without its content coding.
    pub(crate) fn plain_body(&self) -> Vec<u8> {
        if self.field("content-encoding") != Some("gzip") || self.body.is_empty() {
            return self.body.clone();
        }
        let mut command = Command::new("gzip");
        command.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut gzip = command.spawn().expect("gzip (package gzip) starts");
        let mut into = gzip.stdin.take().expect("a pipe");
        let body = self.body.clone();
        let writer = std::thread::spawn(move || drop(into.write_all(&body)));
        let output = gzip.wait_with_output().expect("a child can be waited for");
        writer.join().expect("it writes and ends");
        // A part of a compressed file is compared as it is.
        if output.status.success() { output.stdout } else { self.body.clone() }
    }
}

/// A connection, and what has arrived on it beyond the last answer.
pub(crate) struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

/// Where clients are, wherever servers are.
const CLIENT: &str = "172.31.77.1";

/// Connects to `address`, from [`CLIENT`] where that is an address of this host.
fn connect(address: &str) -> io::Result<TcpStream> {
    let to: SocketAddr = address.parse().expect("an address and a port");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let from = SocketAddr::new(CLIENT.parse().expect("an address"), 0);
    let _ = rustix::net::bind(&socket, &from);
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        let stream = connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        stream.set_nodelay(true).unwrap();
        Self { stream, arrived: Vec::new() }
    }

    /// Sends `bytes` and takes what is answered to a request of this method.
    pub(crate) fn ask(&mut self, bytes: &[u8], method: &[u8]) -> Answer {
        // Who refuses a request may have stopped to read it.
        let _ = self.stream.write_all(bytes);
        let mut answer = self.take(method);
        let connection = |what: &str| answer.field("connection").is_some_and(|value| value.eq_ignore_ascii_case(what));
        let line = bytes.split(|byte| *byte == b'\r').find(|line| !line.is_empty());
        let old = line.is_some_and(|line| line.trim_ascii_start().ends_with(b"HTTP/1.0"));
        answer.lives &= if old { connection("keep-alive") } else { !connection("close") };
        answer
    }

    fn take(&mut self, method: &[u8]) -> Answer {
        let mut answer = Answer::default();
        loop {
            let Some(head) = self.head() else {
                answer.body = std::mem::take(&mut self.arrived);
                return answer;
            };
            let text = String::from_utf8_lossy(&head).into_owned();
            let mut lines = text.trim_end_matches("\r\n").split("\r\n");
            answer.line = lines.next().unwrap_or_default().to_owned();
            answer.fields = lines.map(field).collect();
            match answer.status() {
                Some(status @ 100..=199) => answer.interim.push(status),
                Some(status) => {
                    let bodiless = method == b"HEAD" || matches!(status, 204 | 304);
                    answer.lives = bodiless || self.body(&mut answer);
                    return answer;
                }
                None => panic!("no response: {text}"),
            }
        }
    }

    /// A head and the empty line behind it; none at the end.
    fn head(&mut self) -> Option<Vec<u8>> {
        loop {
            // An answer without a head, as HTTP/0.9 has it, ends with the connection.
            let headed = self.arrived.len() < 5 || self.arrived.starts_with(b"HTTP/");
            if headed && let Some(at) = find(&self.arrived, b"\r\n\r\n") {
                let rest = self.arrived.split_off(at + 4);
                return Some(std::mem::replace(&mut self.arrived, rest));
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Takes the body of `answer`; false if it ends with the connection.
    fn body(&mut self, answer: &mut Answer) -> bool {
        if answer.field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            while let Some(chunk) = self.chunk() {
                if chunk.is_empty() {
                    return self.trailers(answer);
                }
                answer.body.extend_from_slice(&chunk);
            }
            answer.body.extend_from_slice(b"(cut short)");
            return false;
        }
        let Some(length) = answer.field("content-length") else {
            while self.more() {}
            answer.body = std::mem::take(&mut self.arrived);
            return false;
        };
        let length: usize = length.parse().unwrap_or_else(|_| panic!("Content-Length: {length}"));
        while self.arrived.len() < length {
            if !self.more() {
                answer.body = std::mem::take(&mut self.arrived);
                answer.body.extend_from_slice(b"(cut short)");
                return false;
            }
        }
        let rest = self.arrived.split_off(length);
        answer.body = std::mem::replace(&mut self.arrived, rest);
        true
    }

    /// Fields behind the last chunk; false where the connection ends.
    fn trailers(&mut self, answer: &mut Answer) -> bool {
        loop {
            let Some(end) = find(&self.arrived, b"\r\n") else {
                if !self.more() {
                    return false;
                }
                continue;
            };
            let rest = self.arrived.split_off(end + 2);
            let line = String::from_utf8_lossy(&std::mem::replace(&mut self.arrived, rest)[..end]).into_owned();
            if line.is_empty() {
                return true;
            }
            answer.trailers.push(field(&line));
        }
    }

    /// One chunk, with what ends it; an empty one is the last, behind which fields may
    /// follow. None where the connection ends.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let end = loop {
            if let Some(at) = find(&self.arrived, b"\r\n") {
                break at;
            }
            if !self.more() {
                return None;
            }
        };
        let size = String::from_utf8_lossy(&self.arrived[..end]).into_owned();
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("a chunk of {size}"));
        if size == 0 {
            self.arrived.drain(..end + 2);
            return Some(Vec::new());
        }
        let whole = end + 2 + size + 2;
        while self.arrived.len() < whole {
            if !self.more() {
                return None;
            }
        }
        let rest = self.arrived.split_off(whole);
        let chunk = std::mem::replace(&mut self.arrived, rest);
        assert!(chunk.ends_with(b"\r\n"), "no line feed behind a chunk");
        Some(chunk[end + 2..whole - 2].to_vec())
    }

    /// Reads once; false at the end.
    fn more(&mut self) -> bool {
        let mut piece = [0; 16_384];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(len) => {
                self.arrived.extend_from_slice(&piece[..len]);
                true
            }
            Err(e) if e.kind() == ErrorKind::ConnectionReset => false,
            Err(e) => panic!("{e}, after {:?}", String::from_utf8_lossy(&self.arrived)),
        }
    }

    /// Whether nothing comes any more: what was said to close is closed. A server may
    /// wait for a while for the rest of a request `with_body`: it is told that none comes.
    pub(crate) fn ends(mut self, with_body: bool) -> bool {
        if with_body {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        self.arrived.clear();
        !self.more()
    }
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("a field without a colon: {line:?}"));
    (name.to_ascii_lowercase(), value.strip_prefix(' ').unwrap_or(value).to_owned())
}
