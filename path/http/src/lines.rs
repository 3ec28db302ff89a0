//! Field lines, one at a time: what heads and trailer sections share.
//!
//! A line that does not parse is judged only once it is complete, so that the
//! verdict does not depend on how the bytes were split.

use crate::scan::{Line, find, skip_value, split_value, token_len};
use vector::BLOCK;

/// What follows a field line, `name ":" OWS value OWS CR LF`, without
/// whitespace before the colon (RFC 9112 section 5.1) and not folded
/// (section 5.2). `None` if it is malformed or incomplete: a bare CR or LF and
/// control bytes are refused (RFC 9112 section 2.2, RFC 9110 section 5.5).
#[inline]
pub(crate) fn skip_field(rest: &[u8]) -> Option<&[u8]> {
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
pub(crate) fn value_at(head: &[u8], start: usize) -> &[u8] {
    let value = split_value(head.get(start..).unwrap_or_default());
    value.map_or(&[], |(value, _)| trim(value))
}

/// Without optional whitespace (SP and HTAB) around it (RFC 9110
/// section 5.6.3).
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether the line that begins at `start` is complete: then it is malformed,
/// if it could not be parsed.
#[cold]
pub(crate) fn is_complete(data: &[u8], start: usize) -> bool {
    find(data, start, b'\n').is_some()
}

/// How far an incomplete head was looked at, so that the work is in proportion
/// to its bytes however slowly they arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    /// Bytes that were looked at, 0 for none yet.
    pub scanned: u16,
    /// How far complete and valid lines reach in them.
    pub checked: u16,
    /// Field lines among these.
    fields: u16,
}

impl Progress {
    /// Nothing was looked at.
    pub const NONE: Self = Self { scanned: 0, checked: 0, fields: 0 };

    /// All of `window` was looked at: complete lines end at `checked` (0 within
    /// the first line), and `fields` of them are field lines.
    pub const fn at(window: &[u8], checked: usize, fields: u16) -> Self {
        Self { scanned: window.len() as u16, checked: checked as u16, fields }
    }

    /// Whether nothing was looked at.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.scanned == 0
    }

    /// Goes on with what is new in `window`. `Complete` when the head may be
    /// there as a whole, to be parsed from its start.
    #[cold]
    pub fn resume(self, window: &[u8], most_fields: u16) -> Section {
        let checked = usize::from(self.checked);
        if find(window, usize::from(self.scanned), b'\n').is_none() {
            return Section::Incomplete(checked, self.fields);
        }
        if checked == 0 { Section::Complete(0) } else { section(window, checked, self.fields, most_fields) }
    }
}

/// How far complete field lines reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    /// The empty line was found; the section ends before this position.
    Complete(usize),
    /// All complete lines are valid; they end here, and there are this many.
    Incomplete(usize, u16),
    /// A complete line is no field line.
    Malformed,
    /// More lines than `most`.
    TooMany,
}

/// Checks field lines from `at` on, after `count` earlier ones.
pub(crate) fn section(data: &[u8], at: usize, mut count: u16, most: u16) -> Section {
    let mut rest = data.get(at..).unwrap_or_default();
    loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            return Section::Complete(data.len() - after.len());
        }
        let Some(next) = skip_field(rest) else { break };
        if count >= most {
            return Section::TooMany;
        }
        count += 1;
        rest = next;
    }
    let at = data.len() - rest.len();
    if is_complete(data, at) { Section::Malformed } else { Section::Incomplete(at, count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::scan::{is_field_byte, is_token};

    /// The words of RFC 9112 section 5 and RFC 9110 section 5.5, a byte at a
    /// time.
    fn by_bytes(rest: &[u8]) -> Option<&[u8]> {
        let name = rest.iter().position(|&byte| !is_token(byte)).filter(|&name| name > 0)?;
        let value = rest[name..].strip_prefix(b":")?;
        let end = value.iter().position(|&byte| !is_field_byte(byte))?;
        value[end..].strip_prefix(b"\r\n")
    }

    /// Whatever the lengths, and wherever something stands that may not.
    #[test]
    fn many_bytes_at_once_are_looked_at_like_each_alone() {
        let mut random = Random::new(20);
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
            (lines, refused) = (lines + usize::from(wanted.is_some()), refused + usize::from(wanted.is_none()));
        }
        assert!(lines > 20_000 && refused > 10_000, "{lines} {refused}");
    }
}
