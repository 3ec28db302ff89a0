//! Parts of a long answer, as an upstream gives them that is asked by slices: well, and as
//! broken ones do.

use crate::upstream::huge;

/// From here on what is broken is broken.
const BROKEN_FROM: usize = 2_000;

/// Which bytes a `Range` field asks for, of so many.
fn asked(head: &str, length: usize) -> Option<(usize, usize)> {
    let value = head.lines().find_map(|line| line.strip_prefix("Range: bytes="))?;
    let (start, last) = value.split_once('-')?;
    let last = last.parse().map_or(length, |last: usize| length.min(last + 1));
    Some((start.parse().ok()?, last))
}

/// Answers to a name that begins with `ranged`; whether another request may follow.
pub(crate) fn answer(
    name: &str,
    (method, ends): (&str, &str),
    head: &str,
    send: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    let kind = name.strip_prefix("ranged-").unwrap_or_default();
    let length = match kind {
        "short" => 700,
        "exact" => 2_000,
        _ => 10_000,
    };
    let whole = huge(length);
    let has_body = method != "HEAD";
    let with_body = |head: String, body: &[u8]| [head.as_bytes(), if has_body { body } else { b"" }].concat();
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let all = || {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{ends}ETag: \"e\"\r\n{modified}Accept-Ranges: bytes\r\nContent-Length: {length}\r\n\r\n"
        );
        with_body(head, whole)
    };
    let Some((start, end)) = asked(head, length) else { return send(&all()) };
    if start >= end {
        let head = format!(
            "HTTP/1.1 416 Range Not Satisfiable\r\n{ends}Content-Range: bytes */{length}\r\nContent-Length: 4\r\n\r\n"
        );
        return send(&with_body(head, b"none"));
    }
    let broken = start >= BROKEN_FROM;
    match kind {
        "whole" if broken => return send(&all()),
        "gone" if broken => {
            let head = format!("HTTP/1.1 404 Not Found\r\n{ends}Content-Length: 4\r\n\r\n");
            return send(&with_body(head, b"gone"));
        }
        "error" if broken => {
            let head = format!("HTTP/1.1 500 Internal Server Error\r\n{ends}Content-Length: 6\r\n\r\n");
            return send(&with_body(head, b"broken"));
        }
        "dies" if broken => return false,
        _ => {}
    }
    let end = if kind == "longer" { length } else { end };
    let first = if kind == "shifted" && broken { start + 1 } else { start };
    let told = told(kind, (start, first, end, length));
    let (framing, body) = framed(kind, &whole[first..end]);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\n{ends}{told}{modified}Accept-Ranges: bytes\r\nX-Start: {start}\r\n\
         Content-Type: text/plain\r\n{framing}\r\n"
    );
    send(&with_body(head, &body))
}

/// The range and the tag of a part that begins at `first` where `start` was asked for.
fn told(kind: &str, (start, first, end, length): (usize, usize, usize, usize)) -> String {
    let broken = start >= BROKEN_FROM;
    let complete = match kind {
        "grown" => (length + start).to_string(),
        "star" => "*".to_owned(),
        _ => length.to_string(),
    };
    let range = match kind {
        "none" => String::new(),
        "garbled" => format!("Content-Range: bytes x-{}/{complete}\r\n", end - 1),
        _ => format!("Content-Range: bytes {first}-{}/{complete}\r\n", end - 1),
    };
    let etag = match kind {
        "untagged" => String::new(),
        "lost-tag" if broken => String::new(),
        "tags" => format!("ETag: \"e{}\"\r\n", usize::from(broken)),
        _ => "ETag: \"e\"\r\n".to_owned(),
    };
    range + &etag
}

/// How the end of a body is told, and what is sent of it.
fn framed(kind: &str, body: &[u8]) -> (String, Vec<u8>) {
    if kind != "chunked" {
        return (format!("Content-Length: {}\r\n", body.len()), body.to_vec());
    }
    let (one, other) = body.split_at(body.len() / 2);
    let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    let chunks: Vec<u8> = [one, other].iter().filter(|piece| !piece.is_empty()).flat_map(|one| chunk(one)).collect();
    ("Transfer-Encoding: chunked\r\n".to_owned(), [&chunks[..], b"0\r\n\r\n"].concat())
}
