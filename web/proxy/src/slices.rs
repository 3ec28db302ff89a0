//! Parts of a long answer: what of it a client begins with, and which part one is.

/// Where in an answer the part stands that came (`Content-Range`, RFC 9110
/// section 14.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentRange {
    /// Its first byte.
    pub start: u64,
    /// The byte behind its last.
    pub end: u64,
    /// Bytes of the whole, if these are told.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// Reads the value of a field, as nginx does: with spaces between any of its parts.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (start, rest) = number(skip_spaces(value.strip_prefix(b"bytes ")?))?;
        let rest = skip_spaces(rest).strip_prefix(b"-")?;
        let (last, rest) = number(skip_spaces(rest))?;
        let rest = skip_spaces(skip_spaces(rest).strip_prefix(b"/")?);
        let (complete, rest) = match rest.strip_prefix(b"*") {
            Some(rest) => (None, rest),
            None => number(rest).map(|(complete, rest)| (Some(complete), rest))?,
        };
        skip_spaces(rest).is_empty().then_some(Self { start, end: last + 1, complete })
    }
}

/// The first byte that the value of a `Range` field asks for; 0 where it does not say, or
/// says it of the end, or of several ranges.
#[must_use]
pub fn first_byte(range: &[u8]) -> u64 {
    let Some((unit, rest)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.contains(&b',') {
        return 0;
    }
    number(skip_spaces(rest)).map_or(0, |(start, _)| start)
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// A number of bytes, as many as a file may have, and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).filter(|(digits, _)| !digits.is_empty())?;
    let value = digits.iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value <= i64::MAX as u64)
    })?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_where_it_stands() {
        let told = |start, end, complete| Some(ContentRange { start, end, complete });
        for (value, expected) in [
            ("bytes 0-4/10", told(0, 5, Some(10))),
            ("bytes  0 - 4 / 10 ", told(0, 5, Some(10))),
            ("bytes 0-4/*", told(0, 5, None)),
            ("bytes 5-4/10", told(5, 5, Some(10))),
            ("bytes */10", None),
            ("bytes 0-4", None),
            ("bytes 0-4/10;", None),
            ("bytes=0-4/10", None),
            ("Bytes 0-4/10", None),
            ("bytes -4/10", None),
            ("bytes 0-9223372036854775807/9223372036854775808", None),
            ("bytes 0-9223372036854775807/*", told(0, 1 << 63, None)),
            ("", None),
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_client_begins_with_the_first_byte_that_it_tells() {
        for (value, expected) in [
            ("bytes=5-", 5),
            ("Bytes= 5-9", 5),
            ("bytes=-5", 0),
            ("bytes=5-6,8-9", 0),
            ("bytes=x", 0),
            ("bytes=", 0),
            ("items=5-", 0),
            ("bytes=9223372036854775807-", i64::MAX as u64),
            ("bytes=9223372036854775808-", 0),
        ] {
            assert_eq!(first_byte(value.as_bytes()), expected, "{value}");
        }
    }
}
