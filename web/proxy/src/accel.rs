//! What an upstream may ask of us (`X-Accel-…`), and which of that is not listened to.

use crate::fields::Accel;
use semantics::number;

/// Fields whose meaning is ignored (`proxy_ignore_headers`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ignored(u8);

impl Ignored {
    /// Of names. Those that only a cache listens to count for nothing.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let bit = |name: &[u8]| {
            [
                (&b"X-Accel-Redirect"[..], Accel::Redirect),
                (b"X-Accel-Expires", Accel::Expires),
                (b"X-Accel-Limit-Rate", Accel::LimitRate),
                (b"X-Accel-Buffering", Accel::Buffering),
                (b"X-Accel-Charset", Accel::Charset),
            ]
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or(0, |(_, what)| 1 << *what as u8)
        };
        Self(names.into_iter().map(bit).fold(0, |all, one| all | one))
    }

    /// Whether this one is.
    #[must_use]
    pub const fn has(self, what: Accel) -> bool {
        self.0 & (1 << what as u8) != 0
    }
}

/// `X-Accel-Limit-Rate`: bytes a second; nothing if it is no number.
#[must_use]
pub fn limit_rate(value: &[u8]) -> Option<u64> {
    number::parse(value)
}

/// `X-Accel-Buffering`: `yes` or `no`.
#[must_use]
pub fn buffering(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"yes") {
        Some(true)
    } else if value.eq_ignore_ascii_case(b"no") {
        Some(false)
    } else {
        None
    }
}

/// `X-Accel-Redirect`: the path, decoded, and the query.
///
/// # Errors
/// It could lead out of a folder, as it is told to people: decoded, where that shows it.
pub fn redirect(value: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Vec<u8>> {
    let (path, query) = match value.iter().position(|byte| *byte == b'?') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &b""[..]),
    };
    let leads_up = |path: &[u8]| path.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    if path.is_empty() || leads_up(path) {
        return Err(value.to_vec());
    }
    let decoded = decoded(path).ok_or_else(|| value.to_vec())?;
    if leads_up(&decoded) || decoded.contains(&0) { Err(decoded) } else { Ok((decoded, query.to_vec())) }
}

fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let [high, low, behind @ ..] = after else { return None };
            let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
            decoded.push(digit(*high)? << 4 | digit(*low)?);
            rest = behind;
        } else {
            decoded.push(*byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_strictly() {
        assert_eq!((limit_rate(b"1000"), limit_rate(b"-1"), limit_rate(b"1k")), (Some(1000), None, None));
        assert_eq!((buffering(b"No"), buffering(b"YES"), buffering(b"maybe")), (Some(false), Some(true), None));
        let ignored = Ignored::of([&b"x-accel-redirect"[..], b"Vary"]);
        assert!(ignored.has(Accel::Redirect) && !ignored.has(Accel::Charset));
    }

    #[test]
    fn a_redirect_leads_nowhere_above() {
        assert_eq!(redirect(b"/a%20b?c=%20"), Ok((b"/a b".to_vec(), b"c=%20".to_vec())));
        for value in [&b"/../a"[..], b"/a/..", b"/%4", b"/%zz", b"", b"?a"] {
            assert_eq!(redirect(value), Err(value.to_vec()));
        }
        assert_eq!(redirect(b"/%2e%2e/a?b"), Err(b"/../a".to_vec()));
        assert_eq!(redirect(b"/a%00"), Err(b"/a\0".to_vec()));
    }
}
