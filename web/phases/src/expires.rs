//! `expires`, as it is written.

use crate::program::Expires;
use crate::units;

/// Reads the words of `expires`: `off`, `epoch`, `max`, `[modified] [@]time`, the
/// time perhaps with `-` or `+` before it.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Expires> {
    match text {
        b"off" => return Some(Expires::Off),
        b"epoch" => return Some(Expires::Epoch),
        b"max" => return Some(Expires::Max),
        _ => {}
    }
    let (modified, rest) = match text.strip_prefix(b"modified") {
        Some(rest) => (true, rest.trim_ascii_start()),
        None => (false, text),
    };
    let seconds = |text: &[u8]| units::time(text, true).ok().map(|millis| millis / 1000);
    if let Some(time) = rest.strip_prefix(b"@") {
        let second = seconds(time).filter(|second| *second <= 86_400 && !modified)?;
        return Some(Expires::Daily(second as u32));
    }
    let (negative, rest) = match rest {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let seconds = i64::try_from(seconds(rest)?).ok()?;
    let seconds = if negative { -seconds } else { seconds };
    Some(if modified { Expires::Modified(seconds) } else { Expires::Access(seconds) })
}

/// The same of a value behind the word `modified`, where such a time alone has a meaning.
#[must_use]
pub fn parse_modified(text: &[u8]) -> Option<Expires> {
    match parse(text)? {
        Expires::Access(seconds) => Some(Expires::Modified(seconds)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_behind_modified_is_a_time() {
        let read = |text: &str| format!("{:?}", parse_modified(text.as_bytes()));
        for (text, expected) in [
            ("1h", "Some(Modified(3600))"),
            ("-1", "Some(Modified(-1))"),
            ("epoch", "None"),
            ("off", "None"),
            ("@1h", "None"),
            ("modified 1h", "None"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_read() {
        let read = |text: &str| format!("{:?}", parse(text.as_bytes()));
        for (text, expected) in [
            ("1h", "Some(Access(3600))"),
            ("-1", "Some(Access(-1))"),
            ("+24h", "Some(Access(86400))"),
            ("modified +24h", "Some(Modified(86400))"),
            ("@15h30m", "Some(Daily(55800))"),
            ("max", "Some(Max)"),
            ("epoch", "Some(Epoch)"),
            ("off", "Some(Off)"),
            ("", "None"),
            ("never", "None"),
            ("@25h", "None"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
