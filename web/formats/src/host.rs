//! The host that a request names.

use exchange::lower_name;
use semantics::scan::marks_of;
use semantics::{Form, Known, Request};

/// Whether a request names a host by a name that may be one, or none. Paths are made of it
/// (`root /srv/$host`): what leads up, or to hidden files, is no name.
///
/// `authority` is what it names.
pub fn names_a_host(request: &Request<'_>, authority: &[u8]) -> bool {
    let may_be = |authority: &[u8]| !matches!(authority, [] | [b':', ..]) && !has_empty_label(authority);
    if matches!(request.form(), Form::Origin | Form::Asterisk) {
        // It is Host's value.
        return !request.at().has(Known::Host) || may_be(authority);
    }
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-:".contains(byte);
    let in_target = request.form() != Form::Absolute || authority.starts_with(b"[") || authority.iter().all(plain);
    in_target && request.known(Known::Host).is_none_or(may_be) && (authority.is_empty() || may_be(authority))
}

/// Whether the name of an authority has an empty label, but for one dot at its end: it begins
/// with a dot, or has two of them beside each other.
#[inline]
pub fn has_empty_label(authority: &[u8]) -> bool {
    let (Some(first), Some(last)) = (authority.first_chunk::<8>(), authority.last_chunk::<8>()) else {
        return authority.first() == Some(&b'.') || authority.windows(2).any(|two| two == b"..");
    };
    // As if a dot stood before it.
    if two_dots(*first, 0x80) {
        return true;
    }
    if authority.len() < 16 {
        // The one begins where the other ends, or before.
        return two_dots(*last, 0);
    }
    // Eight bytes at a time, each piece from the last byte of the one before it.
    let mut rest = authority;
    while let Some(word) = rest.first_chunk::<8>() {
        if two_dots(*word, 0) {
            return true;
        }
        rest = &rest[7..];
    }
    two_dots(*last, 0)
}

/// Whether two of eight bytes beside each other are dots; perhaps also where a `/`
/// follows one, which no host has. `before` says whether one stands before them: by the
/// highest bit of the lowest byte.
#[inline]
const fn two_dots(word: [u8; 8], before: u64) -> bool {
    let dots = marks_of(u64::from_le_bytes(word), b'.');
    dots & (dots << 8 | before) != 0
}

/// Writes the name of an authority, in lower case, without port and without a dot
/// at its end: `$host`.
pub fn host_of(authority: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(authority);
    let name = &mut out[start..];
    let has_colon = lower_name(name);
    let end = match name {
        [b'[', ..] => name.iter().position(|byte| *byte == b']').map_or(name.len(), |end| end + 1),
        _ if has_colon => name.iter().position(|byte| *byte == b':').unwrap_or(name.len()),
        _ => name.len(),
    };
    let end = if name[..end].ends_with(b".") { end - 1 } else { end };
    out.truncate(start + end);
}

/// The port that an authority names.
pub fn port_of(authority: &[u8]) -> Option<&[u8]> {
    let behind_address = authority.iter().rposition(|byte| *byte == b']').map_or(0, |end| end + 1);
    let colon = authority.get(behind_address..)?.iter().position(|byte| *byte == b':')?;
    authority.get(behind_address + colon + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever the dots are.
    #[test]
    fn what_may_be_no_host_is_found() {
        for length in 1..40 {
            let plain: Vec<u8> = (0..length).map(|at| if at % 2 == 1 { b'.' } else { b'-' }).collect();
            assert!(!has_empty_label(&plain), "{}", plain.escape_ascii());
            for at in 0..length {
                let mut dotted = vec![b'a'; length];
                dotted[at] = b'.';
                assert_eq!(has_empty_label(&dotted), at == 0);
                if at + 1 < length {
                    dotted[at + 1] = b'.';
                    assert!(has_empty_label(&dotted), "{}", dotted.escape_ascii());
                }
            }
        }
        assert!(!has_empty_label(b""));
    }

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
