//! What is asked for at an upstream.

use semantics::path::{is_encoded_in_path, percent_encode};

/// What a request asks us for, as far as its target there depends on it.
#[derive(Clone, Copy, Debug)]
pub struct TargetSource<'a> {
    /// The target as it was sent.
    pub sent: &'a [u8],
    /// Whether that is still what is asked for: nothing has rewritten it.
    pub as_sent: bool,
    /// The path: decoded, or rewritten.
    pub path: &'a [u8],
    /// The query; empty for none.
    pub query: &'a [u8],
    /// Whether the path is to be percent-encoded: it was when it was sent, or is
    /// another by now.
    pub quoted: bool,
    /// Bytes of the path that the location stands for; none where it is rewritten, or
    /// the location is not a prefix.
    pub location: Option<usize>,
}

/// Writes the target of the request to an upstream whose URL has this `uri`.
///
/// Without one, the target goes as it was sent. With one, it stands in place of the
/// location's prefix of the path.
pub fn write(source: &TargetSource<'_>, uri: &[u8], out: &mut Vec<u8>) {
    if uri.is_empty() && source.as_sent {
        out.extend_from_slice(source.sent);
        return;
    }
    let replaced = match source.location {
        Some(length) if !uri.is_empty() => length.min(source.path.len()),
        _ => 0,
    };
    if source.location.is_some() {
        out.extend_from_slice(uri);
    }
    let rest = source.path.get(replaced..).unwrap_or_default();
    if source.quoted {
        percent_encode(rest, is_encoded_in_path, out);
    } else {
        out.extend_from_slice(rest);
    }
    if !source.query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(source.query);
    }
}

/// Makes the target that `out` ends with, from `start` on, one that can stand in a request
/// line: a byte that ends a word or a line there, which would make it another request, is
/// encoded (RFC 3986 section 2.1).
pub fn make_safe(out: &mut Vec<u8>, start: usize) {
    let ends_a_word = |byte: u8| matches!(byte, 0..=b' ' | 0x7f);
    let target = out.get(start..).unwrap_or_default();
    // Looked at whole: nearly none has any.
    if target.iter().fold(false, |any, &byte| any | ends_a_word(byte)) {
        encode(out, start);
    }
}

#[cold]
fn encode(out: &mut Vec<u8>, start: usize) {
    for byte in out.split_off(start) {
        match byte {
            0..=b' ' | 0x7f => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: TargetSource<'_> = TargetSource {
        sent: b"/name/a%20b?q",
        as_sent: true,
        path: b"/name/a b",
        query: b"q",
        quoted: true,
        location: Some(6),
    };

    fn of(source: TargetSource<'_>, uri: &str) -> String {
        let mut out = Vec::new();
        write(&source, uri.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_uri_stands_in_place_of_the_location() {
        assert_eq!(of(SENT, ""), "/name/a%20b?q");
        assert_eq!(of(SENT, "/remote/"), "/remote/a%20b?q");
        assert_eq!(of(SENT, "/"), "/a%20b?q");
        assert_eq!(of(SENT, "/script?x="), "/script?x=a%20b?q");
        // Rewritten.
        let rewritten = TargetSource { as_sent: false, location: None, path: b"/other", query: b"", ..SENT };
        assert_eq!(of(rewritten, ""), "/other");
        assert_eq!(of(rewritten, "/remote/"), "/other");
        // The location is longer than what is left.
        assert_eq!(of(TargetSource { location: Some(99), ..SENT }, "/x"), "/x?q");
        let plain = TargetSource { quoted: false, path: b"/name/a", query: b"", ..SENT };
        assert_eq!(of(plain, "/b/"), "/b/a");
    }

    #[test]
    fn a_target_is_one_word() {
        for (target, made) in [
            ("", ""),
            ("/a?b", "/a?b"),
            ("/\u{e4}", "/\u{e4}"),
            ("/a b c", "/a%20b%20c"),
            ("/a\r\nX: 1", "/a%0D%0AX:%201"),
            ("/\0\t\x7f", "/%00%09%7F"),
        ] {
            let mut out = [b"GET x ", target.as_bytes()].concat();
            make_safe(&mut out, 6);
            assert_eq!(out, [b"GET x ", made.as_bytes()].concat(), "{target:?}");
        }
    }
}
