//! Field lines, one at a time: what heads and trailer sections share.

use crate::scan::{Line, skip_value, split_value, token_len};
use vector::BLOCK;

/// What follows a field line, `name ":" OWS value OWS CR LF`, without
/// whitespace before the colon (RFC 9112 section 5.1) and not folded
/// (section 5.2). `None` if it is malformed or incomplete: a bare CR or LF and
/// control bytes are refused (RFC 9112 section 2.2, RFC 9110 section 5.5).
#[inline]
#[must_use]
pub fn skip_field(rest: &[u8]) -> Option<&[u8]> {
    if rest.len() >= BLOCK {
        return vector::run(Line(rest));
    }
    let name = token_len(rest);
    match rest.get(name..) {
        Some([b':', value @ ..]) if name > 0 => skip_value(value),
        _ => None,
    }
}

/// The value that begins at `start` of a valid head, without optional
/// whitespace around it (RFC 9110 section 5.5).
#[inline]
#[must_use]
pub fn value_at(head: &[u8], start: usize) -> &[u8] {
    let value = split_value(head.get(start..).unwrap_or_default());
    value.map_or(&[], |(value, _)| trim(value))
}

/// Without optional whitespace (SP and HTAB) around it (RFC 9110
/// section 5.6.3).
#[inline]
#[must_use]
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    // Nearly all have one space before them.
    if let [b' ', value @ ..] = bytes
        && let ([first, ..], [.., last]) = (value, value)
        && *first > b' '
        && *last > b' '
    {
        return value;
    }
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{NamedLine, is_field_byte, is_token};
    use random::SplitMix64;

    /// The words of RFC 9112 section 5 and RFC 9110 section 5.5, a byte at a
    /// time.
    fn by_bytes(rest: &[u8]) -> Option<&[u8]> {
        let name = rest.iter().position(|&byte| !is_token(byte)).filter(|&name| name > 0)?;
        let value = rest[name..].strip_prefix(b":")?;
        let end = value.iter().position(|&byte| !is_field_byte(byte))?;
        value[end..].strip_prefix(b"\r\n")
    }

    /// The parts of a line, a byte at a time; a name may be missing.
    fn parts_by_bytes(rest: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
        let name = rest.iter().position(|&byte| !is_token(byte))?;
        let value = rest[name..].strip_prefix(b":")?;
        let end = value.iter().position(|&byte| !is_field_byte(byte))?;
        Some((&rest[..name], &value[..end], value[end..].strip_prefix(b"\r\n")?))
    }

    /// Whatever the lengths, and wherever something stands that may not.
    #[test]
    fn blanks_around_a_value_are_no_part_of_it() {
        for (text, value) in [
            ("", ""),
            (" ", ""),
            (" a", "a"),
            (" ab", "ab"),
            ("  a", "a"),
            (" a ", "a"),
            ("\ta", "a"),
            (" \t a b\t ", "a b"),
            (" a\t", "a"),
            ("a", "a"),
        ] {
            assert_eq!(trim(text.as_bytes()), value.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn many_bytes_at_once_are_looked_at_like_each_alone() {
        let mut random = SplitMix64::new(20);
        let (mut lines, mut refused) = (0, 0);
        for _ in 0..60_000 {
            let mut line: Vec<u8> = (0..random.below(45)).map(|_| b"aZ-_~9b"[random.below(7)]).collect();
            line.extend_from_slice(b": ");
            line.extend((0..random.below(90)).map(|_| b"v w\t\"\xe4/"[random.below(7)]));
            line.extend_from_slice(b"\r\n");
            line.extend((0..random.below(70)).map(|_| b"\r\nab: "[random.below(6)]));
            if random.below(2) == 0 {
                let at = random.below(line.len());
                line[at] = b"\0\x08\n\r\x1f\x20:\x7f\x80\xff@["[random.below(12)];
            }
            line.truncate(random.below(line.len() * 2).max(1));
            let wanted = by_bytes(&line);
            assert_eq!(skip_field(&line), wanted, "{}", line.escape_ascii());
            assert_eq!(vector::run(NamedLine(&line)), parts_by_bytes(&line), "{}", line.escape_ascii());
            (lines, refused) = (lines + usize::from(wanted.is_some()), refused + usize::from(wanted.is_none()));
        }
        assert!(lines > 20_000 && refused > 10_000, "{lines} {refused}");
    }
}
