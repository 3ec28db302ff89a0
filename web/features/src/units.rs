//! Values of directives: numbers, sizes and times, in the forms that nginx reads.

/// A value is not of its form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadValue;

/// A number without sign, at most as large as a file can be.
///
/// # Errors
/// It is none.
pub fn number(text: &[u8]) -> Result<u64, BadValue> {
    if text.is_empty() {
        return Err(BadValue);
    }
    let add = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0')).ok_or(BadValue)?;
        let sum = sum.checked_mul(10).and_then(|sum| sum.checked_add(digit)).ok_or(BadValue)?;
        if sum > i64::MAX as u64 { Err(BadValue) } else { Ok(sum) }
    };
    text.iter().try_fold(0, add)
}

/// A number that is more than nothing.
pub(crate) fn positive(text: &[u8]) -> Option<u64> {
    number(text).ok().filter(|number| *number > 0)
}

fn scaled(text: &[u8], units: &[(u8, u32)]) -> Result<u64, BadValue> {
    let unit = |last: &u8| units.iter().find(|(letter, _)| *letter == last.to_ascii_lowercase());
    let Some((last, digits)) = text.split_last() else { return Err(BadValue) };
    let Some((_, shift)) = unit(last) else { return number(text) };
    let value = number(digits)?;
    if value > i64::MAX as u64 >> shift { Err(BadValue) } else { Ok(value << shift) }
}

/// Bytes in memory: a number, with `k` or `m` behind it.
///
/// # Errors
/// It is none.
pub fn size(text: &[u8]) -> Result<u64, BadValue> {
    scaled(text, &[(b'k', 10), (b'm', 20)])
}

/// Bytes of a file: a number, with `k`, `m` or `g` behind it.
///
/// # Errors
/// It is none.
pub fn offset(text: &[u8]) -> Result<u64, BadValue> {
    scaled(text, &[(b'k', 10), (b'm', 20), (b'g', 30)])
}

/// Units of time, from the longest, and their milliseconds.
const UNITS: [(&[u8], u64); 8] = [
    (b"y", 365 * 86_400_000),
    (b"M", 30 * 86_400_000),
    (b"w", 7 * 86_400_000),
    (b"d", 86_400_000),
    (b"h", 3_600_000),
    (b"m", 60_000),
    (b"s", 1_000),
    (b"ms", 1),
];

/// A time in milliseconds: numbers with units, each unit shorter than the one
/// before; a number without one, the last, is seconds. Where only whole seconds
/// are taken, `ms` is no unit.
///
/// # Errors
/// It is none.
pub fn time(text: &[u8], whole_seconds: bool) -> Result<u64, BadValue> {
    let units = if whole_seconds { &UNITS[..UNITS.len() - 1] } else { &UNITS[..] };
    let (mut rest, mut sum, mut next) = (text, 0_u64, 0);
    if rest.is_empty() {
        return Err(BadValue);
    }
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let value = number(&rest[..digits])?;
        rest = &rest[digits..];
        let letters: &[u8] = match rest {
            [b'm', b's', ..] if !whole_seconds => b"ms",
            [letter, ..] => core::slice::from_ref(letter),
            // Seconds without their letter.
            [] => b"s",
        };
        let at = units.iter().position(|(name, _)| *name == letters).filter(|at| *at >= next).ok_or(BadValue)?;
        rest = rest.get(letters.len()..).unwrap_or_default();
        next = at + 1;
        sum = value.checked_mul(units[at].1).and_then(|more| sum.checked_add(more)).ok_or(BadValue)?;
        // nginx allows blanks between them, in quotes.
        rest = rest.trim_ascii_start();
    }
    if sum > i64::MAX as u64 { Err(BadValue) } else { Ok(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, value) in
            [("0", 0), ("1k", 1024), ("1K", 1024), ("2m", 2 << 20), ("9223372036854775807", i64::MAX as u64)]
        {
            assert_eq!(size(text.as_bytes()), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1g", "1kk", "1 k", "9223372036854775808", "9007199254740992k", "0x1"] {
            assert_eq!(size(text.as_bytes()), Err(BadValue), "{text}");
        }
        assert_eq!(offset(b"3G"), Ok(3 << 30));
    }

    #[test]
    fn times_go_from_the_longest_unit_to_the_shortest() {
        for (text, value) in [
            ("0", 0),
            ("60", 60_000),
            ("60s", 60_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1d 12h", 129_600_000),
            ("1m1", 61_000),
            ("1M", 30 * 86_400_000),
            ("1y", 365 * 86_400_000),
        ] {
            assert_eq!(time(text.as_bytes(), false), Ok(value), "{text}");
        }
        for text in ["", "s", "1x", "1s1m", "1m1m", "1s1", "-1", "1.5s", "ms", "99999999999999999999", "400000000y"] {
            assert_eq!(time(text.as_bytes(), false), Err(BadValue), "{text}");
        }
        assert_eq!(time(b"1ms", true), Err(BadValue));
    }
}
