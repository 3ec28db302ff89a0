//! The requests of a site, as its list has them.
//!
//! ```text
//! host: www.example.org                   what follows is asked of this host
//! GET /
//! HEAD /a.txt 1.0 | Range: bytes=0-4      version, fields
//! GET / | Host: other.example             instead of the host above
//! GET / | -Host                           without one
//! POST /form | < a=1&b=2                  a body; its length is told
//! POST /form | <*70000                    a body of so many bytes
//! GET / | ~strict                         answers differ: a row of differences.rs
//! RAW GET / HTTP/1.1\r\nHost: a\r\n\r\n   these very bytes
//! ```
//!
//! In all of it `\r`, `\n`, `\t`, `\\`, `\xHH` are bytes, `{date PATH+60}` is the time at
//! which the file was modified, 60 s later, and `{etag PATH}` is its entity tag.

use crate::differences::{self, Difference};
use crate::twins::folder_of;
use semantics::date::HttpDate;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its line in the list, for people.
    pub(crate) line: String,
    /// What is sent.
    pub(crate) bytes: Vec<u8>,
    /// The method: answers to HEAD have no body.
    pub(crate) method: Vec<u8>,
    /// In which way answers differ.
    pub(crate) expected: Option<&'static Difference>,
    /// Its parts, unless it is written as it is sent.
    pub(crate) parts: Option<Parts>,
}

/// What requests are put together of.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) method: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) version: &'static str,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Parts {
    /// Whether a body is announced.
    pub(crate) fn is_framed(&self) -> bool {
        let framing = [&b"content-length"[..], b"transfer-encoding"];
        self.fields.iter().any(|(name, _)| framing.iter().any(|known| name.eq_ignore_ascii_case(known)))
    }
}

impl Asked {
    /// Of parts.
    pub(crate) fn of(line: String, parts: Parts, expected: Option<&'static Difference>) -> Self {
        let mut bytes = parts.method.clone();
        bytes.extend_from_slice(b" ");
        bytes.extend_from_slice(&parts.target);
        bytes.extend_from_slice(b" HTTP/");
        bytes.extend_from_slice(parts.version.as_bytes());
        bytes.extend_from_slice(b"\r\n");
        for (name, value) in &parts.fields {
            bytes.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&parts.body);
        Self { line, bytes, method: parts.method.clone(), expected, parts: Some(parts) }
    }
}

/// The list of the site `name`, whose files are below `prefix`, and what is asked of
/// every site.
pub(crate) fn of_site(name: &str, prefix: &Path) -> Vec<Asked> {
    let text = std::fs::read_to_string(folder_of(name).join("requests.txt")).unwrap();
    let common = std::fs::read_to_string(folder_of("common.txt")).unwrap();
    let mut lines = text.lines().chain(common.lines()).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let host = lines.next().and_then(|line| line.strip_prefix("host: ")).expect("a host in the first line");
    lines.map(|line| read(line, host, prefix)).collect()
}

/// The request of `line`, of the host that those of `list` are asked of.
pub(crate) fn one(line: &str, list: &[Asked], prefix: &Path) -> Asked {
    let fields = list.iter().find_map(|asked| asked.parts.as_ref()).map(|parts| &parts.fields);
    let host = fields.and_then(|fields| fields.first()).map(|(_, value)| value.clone()).unwrap_or_default();
    read(line, &String::from_utf8_lossy(&host), prefix)
}

pub(crate) fn read(line: &str, host: &str, prefix: &Path) -> Asked {
    let filled = fill(line, prefix);
    let mut pieces = filled.split(" | ");
    let first = pieces.next().unwrap_or_default();
    let mut expected = None;
    if let Some(raw) = first.strip_prefix("RAW ") {
        for piece in pieces {
            expected = row(piece, line);
        }
        let method = raw.split(' ').next().unwrap_or_default().into();
        return Asked { line: line.to_owned(), bytes: unescape(raw), method, expected, parts: None };
    }
    let words: Vec<&str> = first.split(' ').collect();
    let version = match words.get(2) {
        Some(&"1.0") => "1.0",
        None => "1.1",
        Some(other) => panic!("{line}: version {other}"),
    };
    let mut parts = Parts {
        method: unescape(words[0]),
        target: unescape(words[1]),
        version,
        fields: vec![(b"Host".to_vec(), host.into())],
        body: Vec::new(),
    };
    for piece in pieces {
        if piece == "-Host" {
            parts.fields.remove(0);
        } else if let Some(len) = piece.strip_prefix("<*") {
            parts.body = vec![b'x'; len.parse().expect("a length")];
        } else if let Some(body) = piece.strip_prefix("< ") {
            parts.body = unescape(body);
        } else if piece.starts_with('~') {
            expected = row(piece, line);
        } else {
            let (name, value) = piece.split_once(':').unwrap_or_else(|| panic!("{line}: {piece}"));
            let value = unescape(value.strip_prefix(' ').unwrap_or(value));
            if name == "Host" {
                parts.fields.remove(0);
                parts.fields.insert(0, (name.into(), value));
            } else {
                parts.fields.push((name.into(), value));
            }
        }
    }
    if !parts.body.is_empty() && !parts.is_framed() {
        parts.fields.push((b"Content-Length".to_vec(), parts.body.len().to_string().into_bytes()));
    }
    Asked::of(line.to_owned(), parts, expected)
}

/// The row that holds, if the nginx at hand is of a version that differs.
fn row(piece: &str, line: &str) -> Option<&'static Difference> {
    let name = piece.strip_prefix('~').unwrap_or_else(|| panic!("{line}: {piece}"));
    let mut rows = differences::rows(name).peekable();
    assert!(rows.peek().is_some(), "{line}: no difference has the name {name}");
    rows.find(|row| row.holds())
}

/// `{date …}` and `{etag …}` as they are of files below `prefix`.
fn fill(line: &str, prefix: &Path) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (what, after) = after.split_once('}').unwrap_or_else(|| panic!("{line}: no closing brace"));
        let (kind, path) = what.split_once(' ').unwrap_or_else(|| panic!("{line}: {what}"));
        let (path, shift) = match path.split_once(['+', '-']) {
            Some((file, shift)) if shift.bytes().all(|b| b.is_ascii_digit()) => {
                let seconds: i64 = shift.parse().unwrap();
                (file, if path.contains('+') { seconds } else { -seconds })
            }
            _ => (path, 0),
        };
        let file = std::fs::metadata(prefix.join(path)).unwrap_or_else(|e| panic!("{line}: {path}: {e}"));
        let time = file.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
        match kind {
            "date" => {
                let date = HttpDate::from_unix(time.saturating_add_signed(shift));
                out.push_str(std::str::from_utf8(date.as_bytes()).unwrap());
            }
            "etag" => out.push_str(&format!("\"{time:x}-{:x}\"", file.len())),
            _ => panic!("{line}: {kind}"),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The bytes of a text with `\r`, `\n`, `\t`, `\\` and `\xHH`.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first().expect("something after a backslash");
        rest = after;
        match kind {
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let digits = std::str::from_utf8(&rest[..2]).unwrap();
                out.push(u8::from_str_radix(digits, 16).expect("two digits"));
                rest = &rest[2..];
            }
            other => panic!("{text}: \\{}", char::from(other)),
        }
    }
    out
}
