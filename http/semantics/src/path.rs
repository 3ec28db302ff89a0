//! The path of a request target: decoded, without dot segments (RFC 3986).

use crate::scan::marks_of;

/// A target names no path: 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathError {
    /// `%` without two hexadecimal digits (RFC 3986 §2.1).
    Encoding,
    /// `%00`: no name can hold it.
    Byte,
    /// More `..` than there are segments. RFC 3986 §5.2.4 would stay at the
    /// root; a client that means no harm never sends it.
    AboveRoot,
}

/// Writes the normalised form of `raw` (a path as sent, beginning with `/`)
/// to `out`, without its first slash: percent-decoded exactly once, and only
/// then taken apart: dot segments resolved (RFC 3986 §5.2.4), repeated slashes
/// merged. So `%2F` is a slash like any other, as for nginx; RFC 3986 §2.2 would
/// have it be a part of a name, which no file system has. A backslash is a byte
/// like any other.
///
/// # Errors
/// If it is no path; what is in `out` then means nothing.
pub fn normalise(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    normalise_as(raw, out, true)
}

/// As [`normalise`], but repeated slashes are merged only if it `merges`.
///
/// # Errors
/// See [`PathError`].
pub fn normalise_as(raw: &[u8], out: &mut Vec<u8>, merges: bool) -> Result<(), PathError> {
    out.clear();
    if is_normal(raw) {
        out.extend_from_slice(raw.get(1..).unwrap_or_default());
        return Ok(());
    }
    let mut rest = raw;
    // Where the segment under way begins, and whether it is behind the first
    // slash.
    let (mut start, mut behind) = (0, false);
    loop {
        let byte = next_byte(&mut rest)?;
        if let Some(byte) = byte.filter(|&byte| byte != b'/') {
            out.push(byte);
            continue;
        }
        if !merges && behind && byte.is_some() && out.len() == start {
            out.push(b'/');
            start = out.len();
            continue;
        }
        behind = true;
        let directory = end_segment(out, start)?;
        start = out.len();
        if byte.is_none() {
            if !directory {
                out.pop();
            }
            return Ok(());
        }
    }
}

/// Whether a path is normal as it was sent, but for its slash: nothing in it is percent-encoded, and no segment
/// is empty or begins with a dot. Of others that are so, some may be said not to be.
fn is_normal(raw: &[u8]) -> bool {
    let is_odd = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let slashes = marks_of(word, b'/');
        (slashes << 8) & (slashes | marks_of(word, b'.')) | marks_of(word, b'%') | marks_of(word, 0)
    };
    let Some(last) = raw.last_chunk::<8>() else {
        let plain = |byte: &u8| !matches!(byte, b'%' | 0);
        let joins = |two: &[u8]| matches!(two, [b'/', b'/' | b'.']);
        return raw.first() == Some(&b'/') && raw.iter().all(plain) && !raw.windows(2).any(joins);
    };
    // Eight bytes at a time, each piece from the last byte of the one before it.
    let (mut odd, mut rest) = (is_odd(last), raw);
    while let Some(word) = rest.first_chunk::<8>() {
        odd |= is_odd(word);
        rest = &rest[7..];
    }
    odd == 0 && raw.first() == Some(&b'/')
}

/// Takes the segment from `start` on into what is before it. Returns whether
/// it names a directory.
fn end_segment(out: &mut Vec<u8>, start: usize) -> Result<bool, PathError> {
    match out.get(start..).unwrap_or_default() {
        b"" => {}
        b"." => out.truncate(start),
        b".." => {
            out.truncate(start.checked_sub(1).ok_or(PathError::AboveRoot)?);
            let parent = out.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
            out.truncate(parent);
        }
        _ => {
            out.push(b'/');
            return Ok(false);
        }
    }
    Ok(true)
}

/// The next byte that `rest` stands for; none at its end.
fn next_byte(rest: &mut &[u8]) -> Result<Option<u8>, PathError> {
    let (byte, after) = match *rest {
        [] => return Ok(None),
        [b'%', escaped @ ..] => {
            let digit = |byte: u8| (byte as char).to_digit(16);
            let Some(([high, low], after)) = escaped.split_first_chunk() else { return Err(PathError::Encoding) };
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(PathError::Encoding) };
            ((high * 16 + low) as u8, after)
        }
        [byte, after @ ..] => (*byte, after),
    };
    *rest = after;
    if byte == 0 { Err(PathError::Byte) } else { Ok(Some(byte)) }
}

/// Writes `/` and the percent-encoded `path` and `/`: where a directory asked
/// for without its slash is. Made from the normalised path, never from the
/// target, so that it cannot begin with `//` and name another host.
pub fn encode_directory(path: &[u8], out: &mut Vec<u8>) {
    out.push(b'/');
    // RFC 3986 §3.3: what may stand in a path segment as it is.
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    percent_encode(path, |byte| !stays(byte), out);
    out.push(b'/');
}

/// Writes `bytes`, those that `is_encoded` percent-encoded (RFC 3986 section 2.1).
pub fn percent_encode(bytes: &[u8], is_encoded: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if is_encoded(byte) {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Whether nginx encodes a byte in a path (`NGX_ESCAPE_URI`): controls, space, what is
/// beyond ASCII, and `"#%?`, `<>\^`, backquote, `{|}`.
#[must_use]
pub const fn is_encoded_in_path(byte: u8) -> bool {
    matches!(
        byte,
        0..=b' ' | 0x7f.. | b'"' | b'#' | b'%' | b'?' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    fn of(raw: &str) -> Result<String, PathError> {
        let mut out = b"left over".to_vec();
        normalise(raw.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).expect("test paths are UTF-8"))
    }

    #[test]
    fn paths_are_decoded_once_and_dot_segments_resolved() {
        for (raw, key) in [
            ("/", ""),
            ("//", ""),
            ("/.", ""),
            ("/./", ""),
            ("/a", "a"),
            ("/a/", "a/"),
            ("/a//b", "a/b"),
            ("//a", "a"),
            ("/a/./b", "a/b"),
            ("/a/../b", "b"),
            ("/a/..", ""),
            ("/a/b/..", "a/"),
            ("/a/b/../", "a/"),
            ("/a/b/../../c/", "c/"),
            ("/a/.", "a/"),
            ("/%61", "a"),
            ("/%2e/a", "a"),
            ("/a/%2E%2e/b", "b"),
            ("/%252e%252e/a", "%2e%2e/a"),
            ("/a%20b", "a b"),
            ("/a+b", "a+b"),
            ("/...", "..."),
            ("/..a/.b", "..a/.b"),
            ("/\\..\\a", "\\..\\a"),
            ("/%5c..%5ca", "\\..\\a"),
            ("/a%2fb", "a/b"),
            ("/@scope%2Fname", "@scope/name"),
            ("/a%2f", "a/"),
            ("/%2f", ""),
            ("/%2F%2fa", "a"),
            ("/a%2f..%2fb", "b"),
            ("/a/b%2f..", "a/"),
            ("/a%2f%2e%2e%2fb", "b"),
            ("/a%252fb", "a%2fb"),
        ] {
            assert_eq!(of(raw).as_deref(), Ok(key), "{raw}");
        }
    }

    #[test]
    fn slashes_are_kept_where_they_are_not_to_be_merged() {
        for (raw, key) in [
            ("/", ""),
            ("//", "/"),
            ("/a//b", "a//b"),
            ("//a", "/a"),
            ("/a/", "a/"),
            ("/a//", "a//"),
            ("/a//../b", "a/b"),
            ("/a/.//b", "a//b"),
            ("/a%2f%2fb", "a//b"),
            ("//../a", "a"),
            ("/a/b//../..//c", "a//c"),
            ("//..", ""),
        ] {
            let mut out = Vec::new();
            normalise_as(raw.as_bytes(), &mut out, false).expect(raw);
            assert_eq!(String::from_utf8_lossy(&out), key, "{raw}");
        }
        assert_eq!(normalise_as(b"//../../a", &mut Vec::new(), false), Err(PathError::AboveRoot));
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        for (raw, why) in [
            ("/%", PathError::Encoding),
            ("/%4", PathError::Encoding),
            ("/%zz", PathError::Encoding),
            ("/%+1", PathError::Encoding),
            ("/%2e%2e%2fa", PathError::AboveRoot),
            ("/..%2fa", PathError::AboveRoot),
            ("/a%2f..%2f..%2fa", PathError::AboveRoot),
            ("/%2f..%2fa", PathError::AboveRoot),
            ("/a%2", PathError::Encoding),
            ("/a%00.html", PathError::Byte),
            ("/..", PathError::AboveRoot),
            ("/../a", PathError::AboveRoot),
            ("/%2e%2e/a", PathError::AboveRoot),
            ("/.%2e/a", PathError::AboveRoot),
            ("/a/../../a", PathError::AboveRoot),
            ("/./../a", PathError::AboveRoot),
            ("//../a", PathError::AboveRoot),
        ] {
            assert_eq!(of(raw), Err(why), "{raw}");
        }
    }

    /// Whatever is asked for: relative, no empty or dot segment, no NUL.
    #[test]
    fn no_path_leaves_the_root() {
        let pieces = ["/", ".", "..", "%2e", "%2E.", "%2f", "a", "\\", "%5c", "%00", "%25", "2e", "//", "%c0%af", "~"];
        let mut random = SplitMix64::new(0x9e37_79b9_7f4a_7c15);
        for _ in 0..20_000 {
            let mut raw = b"/".to_vec();
            for _ in 0..8 {
                raw.extend(pieces[random.below(pieces.len())].bytes());
            }
            let mut out = Vec::new();
            if normalise(&raw, &mut out).is_err() {
                continue;
            }
            assert!(!out.contains(&0) && out.first() != Some(&b'/'), "{raw:?}");
            let path = out.strip_suffix(b"/").unwrap_or(&out);
            if !path.is_empty() {
                for segment in path.split(|&byte| byte == b'/') {
                    assert!(!matches!(segment, b"" | b"." | b".."), "{raw:?} gave {out:?}");
                }
            }
        }
    }

    /// What is normal as it is comes out as what is taken apart does.
    #[test]
    fn what_is_normal_is_known_to_be() {
        let mut random = SplitMix64::new(7);
        let mut normal = 0;
        for _ in 0..60_000 {
            let mut raw = b"/".to_vec();
            raw.extend((0..random.below(30)).map(|_| b"abcdefghij/.-_~xyz\0%"[random.below(20)]));
            let mut segments = raw[1..].split(|byte| *byte == b'/').peekable();
            let mut wanted = !raw.iter().any(|byte| matches!(byte, b'%' | 0));
            while let Some(segment) = segments.next() {
                wanted &= !segment.starts_with(b".") && (!segment.is_empty() || segments.peek().is_none());
            }
            let is = is_normal(&raw);
            assert!(!is || wanted, "{}", raw.escape_ascii());
            normal += usize::from(is);
            if raw.contains(&b'%') {
                // What it stands for depends on what follows.
                continue;
            }
            // Percent-encoded, it is taken apart.
            let encoded = [&raw[..], b"%61"].concat();
            for merges in [true, false] {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                let found = normalise_as(&[&raw[..], b"a"].concat(), &mut one, merges);
                let apart = normalise_as(&encoded, &mut other, merges);
                assert_eq!((found, found.map(|()| one)), (apart, apart.map(|()| other)), "{}", raw.escape_ascii());
            }
        }
        assert!(normal > 10_000, "{normal}");
        assert!(!is_normal(b"") && !is_normal(b"a/b") && is_normal(b"/"));
    }

    #[test]
    fn a_location_is_encoded_and_names_no_host() {
        let mut out = Vec::new();
        encode_directory(b"a b/\xc3\xa9\"\r\n", &mut out);
        assert_eq!(out, b"/a%20b/%C3%A9%22%0D%0A/");
    }
}
