//! Names within other languages, as nginx writes them.

/// Text of HTML and XML.
pub(super) fn html(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            other => out.push(*other),
        }
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A part of a URI (RFC 3986 section 2.3).
pub(super) fn uri(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Text of a JSON string.
pub(super) fn json(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text);
    crate::logging::LogEscape::Json.apply(out, start);
}
