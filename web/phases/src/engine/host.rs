//! The host that a request names.

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
