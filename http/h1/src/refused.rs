//! What came that is no request, or not all of one: what is known of it all the same.

use crate::server::{RequestEvent, RequestLimits, RequestReader};
use semantics::{Offsets, Request};

/// Of what was no request, at most this much is told.
const LINE_MAX: usize = 8 << 10;

/// What is known of a head that is refused.
#[derive(Debug)]
pub struct RefusedHead {
    /// Its lines that are whole, or its first line alone, with an end of its own.
    image: Vec<u8>,
    offsets: Offsets,
}

impl RefusedHead {
    /// Of what came from a head's beginning on; `with_fields`: as far as these are whole.
    #[must_use]
    pub fn new(came: &[u8], with_fields: bool) -> Self {
        let blank = came.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let came = &came[blank..];
        let line = came.split(|&byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        let is_ended = came.get(line.len()..).is_some_and(|rest| rest.starts_with(b"\r\n") || rest.starts_with(b"\n"));
        let line = &line[..line.len().min(LINE_MAX)];
        if let Some(offsets) = offsets_of(line, b"").filter(|_| is_ended) {
            let lines = came.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let fields =
                came.get(..lines).filter(|_| with_fields).and_then(|lines| Some((lines, offsets_of_lines(lines)?)));
            if let Some((lines, offsets)) = fields {
                return Self { image: lines.to_vec(), offsets };
            }
            return Self { image: [line, b"\r\n"].concat(), offsets };
        }
        Self { image: [line, b"\r\n"].concat(), offsets: Offsets::of_line(line) }
    }

    /// What is told of it: its line, and the fields that are known. Without a target, its line is none.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request::new(&self.image, self.offsets)
    }
}

/// Where the parts of a head are that has this line and these fields; None where it is no
/// request's.
fn offsets_of(line: &[u8], fields: &[u8]) -> Option<Offsets> {
    // A request of HTTP/1.0 needs no Host, and has its parts in the same places.
    let http10 = line.strip_suffix(b"HTTP/1.1").map(|start| [start, b"HTTP/1.0"].concat());
    let head = [http10.as_deref().unwrap_or(line), b"\r\n", fields, b"\r\n"].concat();
    let limits = RequestLimits { request_line: u16::MAX, head: u16::MAX, ..RequestLimits::default() };
    match RequestReader::new().on_bytes(&head, &limits) {
        RequestEvent::Request { request, consumed, .. } if consumed == head.len() => Some(*request.at()),
        _ => None,
    }
}

/// The same of whole lines, where each ends in CR LF.
fn offsets_of_lines(lines: &[u8]) -> Option<Offsets> {
    let end = lines.windows(2).position(|two| two == b"\r\n")?;
    offsets_of(&lines[..end], &lines[end + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line, the method, the target, the host, and how long the head is told to be.
    fn told(came: &str, with_fields: bool) -> (String, String, String, String, usize) {
        let head = RefusedHead::new(came.as_bytes(), with_fields);
        let request = head.request();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (line, method) = (text(request.line()), text(request.method_name()));
        (line, method, text(request.target()), text(request.authority()), request.head().len())
    }

    #[test]
    fn what_is_whole_of_a_head_is_told() {
        let all = |line: &str, method: &str, target: &str, host: &str, length| {
            (line.to_owned(), method.to_owned(), target.to_owned(), host.to_owned(), length)
        };
        for (came, expected) in [
            ("", all("", "", "", "", 2)),
            ("GET", all("GET", "", "", "", 5)),
            ("GET /3 HT", all("GET /3 HT", "", "", "", 11)),
            ("GET /1 HTTP/1.1\r\n", all("GET /1 HTTP/1.1", "GET", "/1", "", 17)),
            ("\r\nGET /1 HTTP/1.1\r\n", all("GET /1 HTTP/1.1", "GET", "/1", "", 17)),
            ("GET /2 HTTP/1.1\r\nHost: a\r\nX: ", all("GET /2 HTTP/1.1", "GET", "/2", "a", 26)),
            ("GET http://b/2 HTTP/1.1\r\nHost", all("GET http://b/2 HTTP/1.1", "GET", "http://b/2", "b", 25)),
            ("GET /1 HTTP/1.1\r\n\u{1}: b\r\n", all("GET /1 HTTP/1.1", "GET", "/1", "", 17)),
        ] {
            assert_eq!(told(came, true), expected, "{came:?}");
        }
        // Of what is malformed, its line alone.
        let line = all("GET /2 HTTP/1.1", "GET", "/2", "", 17);
        assert_eq!(told("GET /2 HTTP/1.1\r\nHost: a\r\n: \r\n\r\n", false), line);
        assert_eq!(told("GET /2 HTTP/9.9\r\nHost: a\r\n\r\n", false).1, "");
    }
}
