//! Names within other languages, as nginx writes them.

use semantics::path::percent_encode;

/// A part of a URI (RFC 3986 section 2.3).
pub(super) fn uri(text: &[u8], out: &mut Vec<u8>) {
    percent_encode(text, |byte| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte), out);
}

/// Text of a JSON string.
pub(super) fn json(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text);
    crate::logging::LogEscape::Json.apply(out, start);
}
