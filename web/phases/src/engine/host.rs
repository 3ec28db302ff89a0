//! The host that a request names.

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

/// Writes the name of an authority, in lower case, without port and without a dot
/// at its end: `$host`.
pub(crate) fn host_of(authority: &[u8], out: &mut Vec<u8>) {
    let name = match authority {
        [b'[', ..] => authority.iter().position(|byte| *byte == b']').map_or(authority, |end| &authority[..=end]),
        _ => authority.split(|byte| *byte == b':').next().unwrap_or_default(),
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    out.extend(name.iter().map(u8::to_ascii_lowercase));
}
