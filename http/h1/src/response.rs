//! Responses out: head writer and chunked body framing.

use semantics::Status;
use semantics::date::HttpDate;

/// Where a writer puts bytes.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes one response head, in order: [`ResponseHead::new`], fields, [`ResponseHead::end`].
///
/// Names and values are written as they are: they must be free of CR and LF,
/// which values copied from a request head that parsed are.
#[must_use = "a head without `end` is not complete"]
#[derive(Debug)]
pub struct ResponseHead<'s, S: Sink> {
    out: &'s mut S,
}

impl<'s, S: Sink> ResponseHead<'s, S> {
    /// Starts a head with its status line.
    pub fn new(out: &'s mut S, status: Status) -> Self {
        match status.line() {
            Some(line) => out.put(line),
            // RFC 9112 section 4: the space stays where there is no reason.
            None => {
                out.put(b"HTTP/1.1 ");
                out.put(decimal(u64::from(status.code()), &mut [0; 20]));
                out.put(b" \r\n");
            }
        }
        Self { out }
    }

    /// The same with another reason phrase: without control bytes, as whoever took it has seen to.
    #[cold]
    pub fn with_reason(out: &'s mut S, status: Status, reason: &[u8]) -> Self {
        out.put(b"HTTP/1.1 ");
        out.put(decimal(u64::from(status.code()), &mut [0; 20]));
        out.put(b" ");
        out.put(reason);
        out.put(b"\r\n");
        Self { out }
    }

    /// A field with a literal value.
    #[inline]
    pub fn field(self, name: &str, value: &[u8]) -> Self {
        self.out.put(name.as_bytes());
        self.out.put(b": ");
        self.out.put(value);
        self.out.put(b"\r\n");
        self
    }

    /// A field with a number as its value.
    #[inline]
    pub fn number(self, name: &str, value: u64) -> Self {
        let mut digits = [0; 20];
        self.field(name, decimal(value, &mut digits))
    }

    /// `Content-Length`.
    #[inline]
    pub fn content_length(self, length: u64) -> Self {
        // Pieces whose lengths are known are copied without a call.
        self.out.put(b"Content-Length: ");
        let mut line = [0; 22];
        line[20..].copy_from_slice(b"\r\n");
        let mut at = 20;
        let mut value = length;
        loop {
            at -= 1;
            line[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.out.put(&line[at..]);
        self
    }

    /// `Date` (RFC 9110 section 6.6.1).
    #[inline]
    pub fn date(self, date: &HttpDate) -> Self {
        let mut line = *b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        line[6..35].copy_from_slice(date.as_bytes());
        self.out.put(&line);
        self
    }

    /// `Last-Modified` (RFC 9110 section 8.8.2).
    #[inline]
    pub fn last_modified(self, date: &HttpDate) -> Self {
        self.field("Last-Modified", date.as_bytes())
    }

    /// `Transfer-Encoding: chunked`.
    #[inline]
    pub fn chunked(self) -> Self {
        self.out.put(b"Transfer-Encoding: chunked\r\n");
        self
    }

    /// Lines written before, each ended by CR LF: a head's constant part, and what
    /// it says of the connection (RFC 9112 section 9.3).
    #[inline]
    pub fn lines(self, lines: &[u8]) -> Self {
        self.out.put(lines);
        self
    }

    /// The empty line: the head is complete.
    #[inline]
    pub fn end(self) {
        self.out.put(b"\r\n");
    }
}

/// Decimal digits of `value`, in the end of `digits`.
#[inline]
pub fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

/// The line before a chunk of `length` bytes, which must not be zero
/// ([`LAST_CHUNK`] is that). After the chunk's bytes comes [`CHUNK_END`]
/// (RFC 9112 section 7.1).
pub fn chunk_start(out: &mut impl Sink, length: u64) {
    debug_assert!(length > 0, "a chunk of zero bytes ends the body");
    let mut digits = [0; 18];
    let mut at = 16;
    digits[16..].copy_from_slice(b"\r\n");
    let mut value = length;
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
        if value == 0 {
            break;
        }
    }
    out.put(&digits[at..]);
}

/// What follows a chunk's bytes.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The interim response that `Expect: 100-continue` waits for.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_everything() {
        let mut out = Vec::new();
        ResponseHead::new(&mut out, Status::PARTIAL_CONTENT)
            .lines(b"Server: nearside\r\n")
            .date(&HttpDate::from_unix(784_111_777))
            .last_modified(&HttpDate::from_unix(0))
            .field("Content-Type", b"text/plain")
            .field("Content-Range", b"bytes 500-999/1234")
            .content_length(500)
            .lines(b"Connection: close\r\n")
            .end();
        let expected = "HTTP/1.1 206 Partial Content\r\nServer: nearside\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
            Content-Range: bytes 500-999/1234\r\nContent-Length: 500\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
    }

    /// RFC 9112 section 4.
    #[test]
    fn status_lines() {
        for code in 0..=1000 {
            let Some(status) = Status::from_code(code) else {
                assert!(!(100..600).contains(&code));
                continue;
            };
            let mut out = Vec::new();
            ResponseHead::new(&mut out, status).end();
            let expected = format!("HTTP/1.1 {code} {}\r\n\r\n", status.reason());
            assert_eq!(String::from_utf8(out), Ok(expected));
        }
    }

    #[test]
    fn numbers() {
        for value in [0, 1, 9, 10, 15, 16, 99, 100, 255, 256, 65_535, 1 << 32, u64::MAX - 1, u64::MAX] {
            assert_eq!(decimal(value, &mut [0; 20]), value.to_string().as_bytes());
            if value > 0 {
                let mut out = Vec::new();
                chunk_start(&mut out, value);
                assert_eq!(out, format!("{value:x}\r\n").as_bytes());
            }
        }
    }
}
