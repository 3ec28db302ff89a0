//! The host that a request names.

use crate::names::lower;
use semantics::{Form, Known, Request};

/// Whether a request names a host by a name that may be one, or none.
pub(crate) fn names_a_host(request: &Request<'_>) -> bool {
    let may_be = |authority: &[u8]| {
        let mut name = Vec::new();
        host_of(authority, &mut name);
        !name.is_empty() && !name.windows(2).any(|two| two == b"..")
    };
    let authority = request.authority();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-:".contains(byte);
    let in_target = request.form() != Form::Absolute || authority.starts_with(b"[") || authority.iter().all(plain);
    in_target && request.known(Known::Host).is_none_or(may_be) && (authority.is_empty() || may_be(authority))
}

/// Whether an authority may be none that [`names_a_host`], in a few steps: it begins
/// with a dot, or has two of them beside each other.
#[inline]
pub(crate) fn is_doubtful(authority: &[u8]) -> bool {
    authority.first() == Some(&b'.') || authority.windows(2).any(|two| two == b"..")
}

/// Writes the name of an authority, in lower case, without port and without a dot
/// at its end: `$host`.
pub(crate) fn host_of(authority: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(authority);
    let name = &mut out[start..];
    let has_colon = lower(name);
    let end = match name {
        [b'[', ..] => name.iter().position(|byte| *byte == b']').map_or(name.len(), |end| end + 1),
        _ if has_colon => name.iter().position(|byte| *byte == b':').unwrap_or(name.len()),
        _ => name.len(),
    };
    let end = if name[..end].ends_with(b".") { end - 1 } else { end };
    out.truncate(start + end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_small_letters_and_no_port() {
        for (authority, host) in [
            ("a.Example", "a.example"),
            ("A.EXAMPLE.:8080", "a.example"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("[2001:DB8::1", "[2001:db8::1"),
            (":80", ""),
            (".", ""),
            ("", ""),
        ] {
            let mut out = b"x".to_vec();
            host_of(authority.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out), Ok(format!("x{host}")), "{authority}");
        }
    }
}
