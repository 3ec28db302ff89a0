//! Ranges of bytes, as nginx reads them.

use core::ops::Range;
use exchange::Part;

/// What a Range field comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranged {
    /// It is not looked at, or asks for more than there is, or for more ranges than
    /// may be: all of it.
    Whole,
    /// These, at least one.
    Parts(Vec<Range<u64>>),
    /// None of them is there.
    Unsatisfiable,
}

/// Reads the value of a Range field for content of `length` bytes, of which at most
/// `most` ranges may be asked for.
pub fn parse(value: &[u8], length: u64, most: Option<u32>) -> Ranged {
    // A unit with nothing behind it is not looked at.
    let unit = value.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes="));
    let Some(mut rest) = unit.map(|_| &value[6..]).filter(|rest| !rest.is_empty()) else {
        return Ranged::Whole;
    };
    let (mut parts, mut left, mut size) = (Vec::new(), most.unwrap_or(u32::MAX), 0_u64);
    loop {
        rest = skip_spaces(rest);
        let mut suffix = false;
        let mut start = 0;
        if let [b'-', after @ ..] = rest {
            rest = after;
            suffix = true;
        } else {
            let Some((number, after)) = number(rest) else { return Ranged::Unsatisfiable };
            start = number;
            rest = skip_spaces(after);
            let [b'-', after @ ..] = rest else { return Ranged::Unsatisfiable };
            rest = skip_spaces(after);
        }
        let mut end = length;
        let open = !suffix && matches!(rest, [] | [b',', ..]);
        if !open {
            let Some((number, after)) = number(rest) else { return Ranged::Unsatisfiable };
            rest = skip_spaces(after);
            if suffix {
                start = length.saturating_sub(number);
            } else {
                end = number.saturating_add(1).min(length);
            }
        }
        let last = match rest {
            [] => true,
            [b',', after @ ..] => {
                rest = after;
                false
            }
            _ => return Ranged::Unsatisfiable,
        };
        if start < end {
            size = size.saturating_add(end - start);
            let Some(fewer) = left.checked_sub(1) else { return Ranged::Whole };
            left = fewer;
            parts.push(start..end);
        } else if start == 0 {
            // Content of no bytes has no ranges.
            return Ranged::Whole;
        }
        if last {
            break;
        }
    }
    if parts.is_empty() {
        return Ranged::Unsatisfiable;
    }
    if size > length { Ranged::Whole } else { Ranged::Parts(parts) }
}

/// The parts of several ranges (RFC 9110 section 14.6), and their length.
pub fn multipart(ranges: &[Range<u64>], media_type: Option<&[u8]>, size: u64, serial: u32) -> (Vec<Part>, u64) {
    let (mut parts, mut length) = (Vec::with_capacity(2 * ranges.len() + 1), 0);
    for range in ranges {
        let mut lines = format!("\r\n--{serial:020}\r\n").into_bytes();
        if let Some(media_type) = media_type {
            lines.extend_from_slice(b"Content-Type: ");
            lines.extend_from_slice(media_type);
            lines.extend_from_slice(b"\r\n");
        }
        lines.extend_from_slice(
            format!("Content-Range: bytes {}-{}/{size}\r\n\r\n", range.start, range.end - 1).as_bytes(),
        );
        length += lines.len() as u64 + range.end - range.start;
        parts.push(Part::Bytes(lines));
        parts.push(Part::Content(range.clone()));
    }
    let end = format!("\r\n--{serial:020}--\r\n").into_bytes();
    length += end.len() as u64;
    parts.push(Part::Bytes(end));
    (parts, length)
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[start..]
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut value = 0_u64;
    for digit in &text[..digits] {
        value =
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value <= i64::MAX as u64)?;
    }
    Some((value, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_nginx_reads_them() {
        let parts = |parts: &[(u64, u64)]| Ranged::Parts(parts.iter().map(|(from, to)| *from..*to).collect());
        for (value, expected) in [
            ("bytes=0-0", parts(&[(0, 1)])),
            ("bytes=0-", parts(&[(0, 100)])),
            ("bytes=-1", parts(&[(99, 100)])),
            ("bytes=-200", parts(&[(0, 100)])),
            ("bytes=5-1000", parts(&[(5, 100)])),
            ("bytes= 1 - 2 , 4-5", parts(&[(1, 3), (4, 6)])),
            ("Bytes=1-2", parts(&[(1, 3)])),
            ("bytes=100-", Ranged::Unsatisfiable),
            ("bytes=100-,1-2", parts(&[(1, 3)])),
            ("bytes=2-1", Ranged::Unsatisfiable),
            ("bytes=-0", Ranged::Unsatisfiable),
            ("bytes=", Ranged::Whole),
            ("bytes= ", Ranged::Unsatisfiable),
            ("bytes=a-b", Ranged::Unsatisfiable),
            ("bytes=1-2;", Ranged::Unsatisfiable),
            ("bytes=0-99,0-0", Ranged::Whole),
            ("bytes=0-0,1-1,2-2,3-3", Ranged::Whole),
            ("items=0-1", Ranged::Whole),
            ("bytes=99999999999999999999-", Ranged::Unsatisfiable),
        ] {
            assert_eq!(parse(value.as_bytes(), 100, Some(3)), expected, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0, None), Ranged::Whole);
    }
}
