//! One answer of a server, asked before it is loaded: HTTP/1.1 over a plain socket, read to its
//! end within limits.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest answer that is read, in bytes.
const ANSWER_LIMIT: u64 = 256 << 20;

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// What a URL names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    secured: bool,
    host: String,
    address: String,
    path: String,
}

/// An answer, as far as it is compared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlainAnswer {
    status: u16,
    coding: String,
    content: Vec<u8>,
}

impl Target {
    /// Reads `http://HOST[:PORT]/PATH`.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("{url}: write http://HOST:PORT/PATH"))?;
        let secured = match scheme {
            "http" => false,
            "https" => true,
            other => return Err(format!("{url}: {other} is no scheme that is compared; http and https are")),
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let clean = |text: &str| text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return Err(format!("{url:?}: write http://HOST:PORT/PATH, with %20 and the like for other letters"));
        }
        let named = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if secured { 443 } else { 80 };
        let address = if named { host.to_owned() } else { format!("{host}:{port}") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { secured, host: host.to_owned(), address, path: path.to_owned() })
    }

    /// Whether an answer can be had without TLS.
    pub const fn can_be_asked(&self) -> bool {
        !self.secured
    }

    /// Whether somebody listens there.
    pub fn connects(&self) -> bool {
        self.connect().is_ok()
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::other("the name has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, SILENCE) {
                Ok(stream) => return Ok(stream),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Asks once.
    pub fn ask(&self) -> Result<PlainAnswer, String> {
        let told = |why: std::io::Error| why.to_string();
        let mut stream = self.connect().map_err(told)?;
        stream.set_read_timeout(Some(SILENCE)).map_err(told)?;
        stream.set_write_timeout(Some(SILENCE)).map_err(told)?;
        let head = format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.host);
        stream.write_all(head.as_bytes()).map_err(told)?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_LIMIT + 1).read_to_end(&mut bytes).map_err(told)?;
        if bytes.len() as u64 > ANSWER_LIMIT {
            return Err(format!("the answer is longer than {} MiB: --force skips the comparison", ANSWER_LIMIT >> 20));
        }
        PlainAnswer::parse(&bytes)
    }
}

impl PlainAnswer {
    /// Reads status, coding and content (RFC 9112).
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or("the answer has no whole head")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok());
        let status = status.ok_or("this is no answer of HTTP/1")?;
        let (mut coding, mut chunked, mut length) = (String::new(), false, None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "content-encoding" => coding = value.trim().to_ascii_lowercase(),
                "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
                "content-length" => length = value.trim().parse::<usize>().ok(),
                _ => {}
            }
        }
        let rest = &bytes[end + 4..];
        let content = match (chunked, length) {
            (true, _) => unchunked(rest)?,
            (false, Some(length)) if rest.len() < length => {
                return Err(format!("the answer ended after {} of {length} bytes", rest.len()));
            }
            (false, Some(length)) => rest[..length].to_vec(),
            (false, None) => rest.to_vec(),
        };
        Ok(Self { status, coding, content })
    }

    /// What is not alike in another's answer.
    pub fn unlike(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.status != other.status {
            found.push(format!("status: {} and {}", self.status, other.status));
        }
        if self.coding != other.coding {
            let told = |coding: &str| if coding.is_empty() { "none".to_owned() } else { coding.to_owned() };
            found.push(format!("content coding: {} and {}", told(&self.coding), told(&other.coding)));
        }
        let (ours, theirs) = (self.content.len(), other.content.len());
        if ours != theirs {
            found.push(format!("content: {ours} bytes and {theirs}"));
        } else if let Some(at) = self.content.iter().zip(&other.content).position(|(a, b)| a != b) {
            found.push(format!("content: {ours} bytes each, the first other one at {at}"));
        }
        found
    }
}

/// The content of chunks (RFC 9112 §7.1).
fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").ok_or("the answer ended within its chunks")?;
        let size = String::from_utf8_lossy(&rest[..end]);
        let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16);
        let size = size.map_err(|_| "a chunk has no size".to_owned())?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(content);
        }
        let chunk = rest.get(..size).ok_or("the answer ended within a chunk")?;
        content.extend_from_slice(chunk);
        rest = rest.get(size + 2..).ok_or("the answer ended within its chunks")?;
    }
}
