//! What stands in a request's target, decoded.

use core::fmt;
use std::borrow::Cow;

/// A `%` without two hexadecimal digits behind it (RFC 3986 section 2.1): a client's
/// fault, to be answered with 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadEscape;

impl fmt::Display for BadEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a % without two hexadecimal digits behind it")
    }
}

impl core::error::Error for BadEscape {}

/// The bytes that `text` stands for (RFC 3986 section 2.1), decoded once. Of a path take
/// its segments apart first, if a `%2F` in one of them is to be no slash; a path that is to
/// name a file is for [`semantics::path::normalise`].
///
/// # Errors
/// If a `%` is no escape.
pub fn percent_decoded(text: &[u8]) -> Result<Cow<'_, [u8]>, BadEscape> {
    decoded(text, false)
}

/// A name and its value.
pub type QueryPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The names and values of a query (`a=1&b=x%20y`), in their order, as forms are sent
/// (application/x-www-form-urlencoded, URL Standard section 5.1): `+` is a blank, a pair
/// without `=` has an empty value, empty pairs are left out.
///
/// Each is an error by itself if a `%` in it is no escape.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = Result<QueryPair<'_>, BadEscape>> {
    query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let mut parts = pair.splitn(2, |&byte| byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Ok((decoded(name, true)?, decoded(value, true)?))
    })
}

fn decoded(text: &[u8], form: bool) -> Result<Cow<'_, [u8]>, BadEscape> {
    if !text.iter().any(|&byte| byte == b'%' || form && byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let digit = |byte: u8| (byte as char).to_digit(16).ok_or(BadEscape);
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(match byte {
            b'%' => {
                let ([high, low], after) = after.split_first_chunk().ok_or(BadEscape)?;
                rest = after;
                (digit(*high)? * 16 + digit(*low)?) as u8
            }
            b'+' if form => b' ',
            byte => byte,
        });
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(percent_decoded(b"/a%20b+c%2F%2525"), Ok(Cow::Borrowed(&b"/a b+c/%25"[..])));
        assert!(matches!(percent_decoded(b"/plain"), Ok(Cow::Borrowed(_))), "nothing is copied");
        for bad in [&b"%"[..], b"%4", b"a%4g", b"%%41", b"%+1"] {
            assert_eq!(percent_decoded(bad), Err(BadEscape), "{bad:?}");
        }
    }

    #[test]
    fn a_query_is_pairs_in_their_order() {
        let pairs: Vec<_> = query_pairs(b"a=1&&b=x%3Dy+z=&c&=d&a=2&e=%zz").collect();
        let pair = |name: &'static [u8], value: &'static [u8]| Ok((Cow::Borrowed(name), Cow::Borrowed(value)));
        assert_eq!(
            pairs,
            [
                pair(b"a", b"1"),
                pair(b"b", b"x=y z="),
                pair(b"c", b""),
                pair(b"", b"d"),
                pair(b"a", b"2"),
                Err(BadEscape)
            ]
        );
        assert_eq!(query_pairs(b"").count(), 0);
    }
}
