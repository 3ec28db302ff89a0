//! Servers that answer wrongly.

use super::Random;

/// An answer to the request with this tag, well or not so well made, and whether the
/// connection ends behind it. Its body, where it has one, says whose it is.
pub(super) fn answer(random: &mut Random, tag: u32) -> (Vec<u8>, bool) {
    let body = format!("<{tag}>").repeat(1 + random.below(400) * random.below(10));
    let length = body.len();
    let chunked = || {
        let half = length / 2;
        let (one, other) = body.split_at(half.max(1));
        let mut out = format!("{:x}\r\n{one}\r\n", one.len());
        if !other.is_empty() {
            out += &format!("{:x};x=y\r\n{other}\r\n", other.len());
        }
        out
    };
    let head = "HTTP/1.1 200 OK\r\nServer: up\r\n";
    let text = match random.below(20) {
        0..5 => format!("{head}Content-Length: {length}\r\n\r\n{body}"),
        5 | 6 => format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\nX-T: 1\r\n\r\n", chunked()),
        7 => return (format!("HTTP/1.0 200 OK\r\n\r\n{body}").into(), true),
        8 => return (format!("{head}Content-Length: {}\r\n\r\n{body}", length + 7).into(), true),
        9 => return (format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunked()).into(), true),
        10 => format!("{head}Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n{body}"),
        11 => format!("{head}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
        12 => format!("{head}Content-Length: {length}\r\n\r\n{body}HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<0>"),
        13 => "garbage\r\n\r\n".to_owned(),
        14 => return (head.into(), true),
        15 => return (Vec::new(), true),
        16 => format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}"),
        17 => format!("HTTP/1.1 100 Continue\r\n\r\n{head}Content-Length: {length}\r\n\r\n{body}"),
        18 => format!("{head}X: {}\r\n\r\n", "a".repeat(9_000)),
        // Never.
        _ => String::new(),
    };
    (text.into(), random.below(3) == 0)
}
