//! Lines as JSON, an object each, under the names that nginx's variables have:
//!
//! ```text
//! {"time":"2026-10-10T13:55:36+00:00","remote_addr":"10.0.0.1","request":"GET / HTTP/1.1",
//!  "status":200,"body_bytes_sent":2326,"http_referer":null,"http_user_agent":"curl/8"}
//! ```
//!
//! (in one line). Whatever is sent, a line is one object of valid UTF-8.

use super::{Line, TEXT_MAX};
use semantics::date::HttpDate;
use std::io::Write;

/// Bytes of a time, in its quotes.
pub(crate) const TIME_LEN: usize = 27;

/// The time of a second (RFC 3339).
pub(crate) fn time_of(date: &HttpDate) -> [u8; TIME_LEN] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    let date = date.as_bytes();
    let month = MONTHS.as_chunks::<3>().0.iter().position(|name| name == &date[8..11]).map_or(0, |at| at + 1);
    let mut time = *b"\"1994-11-06T08:49:37+00:00\"";
    time[1..5].copy_from_slice(&date[12..16]);
    time[6..8].copy_from_slice(&[b'0' + (month / 10) as u8, b'0' + (month % 10) as u8]);
    time[9..11].copy_from_slice(&date[5..7]);
    time[12..20].copy_from_slice(&date[17..25]);
    time
}

/// Everything up to the bytes sent. Returns where the time stands.
pub(crate) fn put_before(out: &mut Vec<u8>, time: &[u8; TIME_LEN], line: &Line<'_>) -> usize {
    out.extend_from_slice(b"{\"time\":");
    let time_at = out.len();
    out.extend_from_slice(time);
    out.extend_from_slice(b",\"remote_addr\":");
    // Writing to a vector does not fail.
    match line.peer.map(|peer| peer.ip().to_canonical()) {
        Some(address) => drop(write!(out, "\"{address}\"")),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"request\":");
    put_text(out, Some(line.request));
    drop(write!(out, ",\"status\":{},\"body_bytes_sent\":", line.status));
    time_at
}

/// What follows the bytes sent.
pub(crate) fn put_after(out: &mut Vec<u8>, line: &Line<'_>) {
    out.extend_from_slice(b",\"http_referer\":");
    put_text(out, line.referer);
    out.extend_from_slice(b",\"http_user_agent\":");
    put_text(out, line.agent);
    out.extend_from_slice(b"}\n");
}

/// A string, or nothing. What is no UTF-8 is written byte by byte, as Latin-1 would
/// have it. `text` may lie where a peer still writes to: what is looked at is what
/// was copied.
fn put_text(out: &mut Vec<u8>, text: Option<&[u8]>) {
    let Some(text) = text else {
        out.extend_from_slice(b"null");
        return;
    };
    let text = text.get(..TEXT_MAX).unwrap_or(text).to_vec();
    let is_text = core::str::from_utf8(&text).is_ok();
    out.push(b'"');
    for &byte in &text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..=0x1f | 0x7f => drop(write!(out, "\\u{byte:04x}")),
            _ if byte.is_ascii() || is_text => out.push(byte),
            _ => drop(write!(out, "\\u{byte:04x}")),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LINE_MAX;
    use std::net::SocketAddr;

    fn written(line: &Line<'_>) -> String {
        let mut out = Vec::new();
        put_before(&mut out, &time_of(&HttpDate::from_unix(784_111_777)), line);
        crate::put_bytes(&mut out, 2_326);
        put_after(&mut out, line);
        assert!(out.len() <= LINE_MAX, "{}", out.len());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_line_is_an_object() {
        let peer = SocketAddr::new("::ffff:10.0.0.1".parse().expect("one"), 1);
        let line = Line {
            peer: Some(peer),
            request: b"GET /\"a\\ HTTP/1.1",
            status: 200,
            referer: None,
            agent: Some("f\u{fc}r\n".as_bytes()),
        };
        let expected = "{\"time\":\"1994-11-06T08:49:37+00:00\",\"remote_addr\":\"10.0.0.1\",\
            \"request\":\"GET /\\\"a\\\\ HTTP/1.1\",\"status\":200,\"body_bytes_sent\":2326,\
            \"http_referer\":null,\"http_user_agent\":\"f\u{fc}r\\u000a\"}\n";
        assert_eq!(written(&line), expected);
    }

    #[test]
    fn every_byte_gives_one_object_in_one_line() {
        for byte in 0..=255_u8 {
            let line = Line { peer: None, request: &[b'a', byte, b'b'], status: 400, referer: None, agent: None };
            let text = written(&line);
            assert_eq!((text.matches('\n').count(), text.contains("\"remote_addr\":null")), (1, true), "{text}");
            let inner = text.split("\"request\":\"a").nth(1).and_then(|rest| rest.split("b\",\"status\"").next());
            let expected = match byte {
                b'"' => "\\\"".to_owned(),
                b'\\' => "\\\\".to_owned(),
                0x20..0x7f => char::from(byte).to_string(),
                _ => format!("\\u{byte:04x}"),
            };
            assert_eq!(inner, Some(expected.as_str()));
        }
        let long = vec![0xff; 60_000];
        written(&Line { peer: None, request: &long, status: 400, referer: Some(&long), agent: Some(&long) });
    }

    #[test]
    fn months_are_numbers() {
        for (seconds, month) in [(0, "1970-01-01"), (31_535_999, "1970-12-31"), (1_790_000_000, "2026-09-21")] {
            let time = time_of(&HttpDate::from_unix(seconds));
            assert!(time[1..].starts_with(month.as_bytes()), "{}", String::from_utf8_lossy(&time));
        }
    }
}
