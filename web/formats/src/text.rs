//! Text on its way into targets and fields.

use semantics::path::{is_encoded_in_path, percent_encode};

/// What is percent-encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// What may not stand in a path as it is ([`is_encoded_in_path`]).
    Path,
    /// Likewise in a query, where `&`, `+` and `;` are encoded too
    /// (`NGX_ESCAPE_ARGS`).
    Arguments,
}

/// Writes `bytes`, percent-encoded.
pub fn escape(bytes: &[u8], how: Escape, out: &mut Vec<u8>) {
    let in_arguments = |byte| how == Escape::Arguments && matches!(byte, b'&' | b'+' | b';');
    percent_encode(bytes, |byte| is_encoded_in_path(byte) || in_arguments(byte), out);
}

/// Writes a value that a field may have: what would end its line is a space.
pub fn field_value(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
}

/// A media type without the charset behind it.
pub fn bare_type(media_type: &[u8]) -> &[u8] {
    let charset = |at: &usize| {
        let rest = media_type[at + 1..].trim_ascii_start();
        rest.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"charset="))
    };
    let mut semicolons = (0..media_type.len()).filter(|at| media_type[*at] == b';');
    semicolons.find(charset).map_or(media_type, |at| &media_type[..at])
}

/// The charset that a media type says.
pub fn charset_of(media_type: &[u8]) -> Option<&[u8]> {
    let at = media_type.windows(8).position(|part| part.eq_ignore_ascii_case(b"charset="))?;
    let value = media_type[at + 8..].split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Writes a field.
pub fn put_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    field_value(value, out);
    out.extend_from_slice(b"\r\n");
}

/// Writes where a redirect leads: what would end its line is encoded.
pub fn location_value(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'\r' => out.extend_from_slice(b"%0D"),
            b'\n' => out.extend_from_slice(b"%0A"),
            0 => out.extend_from_slice(b"%00"),
            byte => out.push(*byte),
        }
    }
}
