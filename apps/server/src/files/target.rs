//! From a request target's path to a name below the root.
//!
//! A [`Key`] is the one way in to the file system: only [`normalise`] makes
//! one, so nothing that could leave the root is ever opened.

use std::sync::Arc;

/// A normalised path: relative, no empty or dot segment, no NUL. It ends with
/// `/` if the target did; empty is the root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key(Arc<[u8]>);

/// The target names nothing that could be a file's path: 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// `%` without two hexadecimal digits (RFC 3986 §2.1).
    Encoding,
    /// `%2F` or `%00`: a name cannot hold these, and decoding the first would
    /// change what the path means (RFC 3986 §2.2).
    Byte,
    /// More `..` than there are segments. RFC 3986 §5.2.4 would stay at the
    /// root; a client that means no harm never sends it.
    AboveRoot,
}

impl Key {
    /// The path, as it is opened.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a directory was asked for.
    pub fn is_directory(&self) -> bool {
        self.0.last().is_none_or(|&byte| byte == b'/')
    }

    /// The key for bytes that [`normalise`] wrote.
    pub(super) fn of(normalised: &[u8]) -> Self {
        Self(normalised.into())
    }
}

impl core::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Writes the normalised form of `raw` (a path as sent, beginning with `/`)
/// to `out`: percent-decoded exactly once, dot segments resolved (RFC 3986
/// §5.2.4), repeated slashes merged. A backslash is a byte like any other.
pub fn normalise(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    out.clear();
    let mut directory = false;
    for segment in raw.split(|&byte| byte == b'/') {
        let start = out.len();
        decode(segment, out)?;
        match out.get(start..).unwrap_or_default() {
            b"" => directory = true,
            b"." => {
                out.truncate(start);
                directory = true;
            }
            b".." => {
                out.truncate(start.checked_sub(1).ok_or(Refused::AboveRoot)?);
                let parent = out.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
                out.truncate(parent);
                directory = true;
            }
            _ => {
                out.push(b'/');
                directory = false;
            }
        }
    }
    if !directory {
        out.pop();
    }
    Ok(())
}

fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'%' {
            let digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
            let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
                return Err(Refused::Encoding);
            };
            (high * 16 + low) as u8
        } else {
            byte
        };
        if byte == b'/' || byte == 0 {
            return Err(Refused::Byte);
        }
        out.push(byte);
    }
    Ok(())
}

/// Writes `/` and the percent-encoded `path` and `/`: where a directory asked
/// for without its slash is. Made from the normalised path, never from the
/// target, so that it cannot begin with `//` and name another host.
pub fn encode_directory(path: &[u8], out: &mut Vec<u8>) {
    out.push(b'/');
    for &byte in path {
        // RFC 3986 §3.3: what may stand in a path segment as it is.
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out.push(b'/');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Result<String, Refused> {
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
        ] {
            assert_eq!(of(raw).as_deref(), Ok(key), "{raw}");
        }
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        for (raw, why) in [
            ("/%", Refused::Encoding),
            ("/%4", Refused::Encoding),
            ("/%zz", Refused::Encoding),
            ("/%+1", Refused::Encoding),
            ("/a%2fb", Refused::Byte),
            ("/a%2Fb", Refused::Byte),
            ("/%2e%2e%2fa", Refused::Byte),
            ("/a%00.html", Refused::Byte),
            ("/..", Refused::AboveRoot),
            ("/../a", Refused::AboveRoot),
            ("/%2e%2e/a", Refused::AboveRoot),
            ("/.%2e/a", Refused::AboveRoot),
            ("/a/../../a", Refused::AboveRoot),
            ("/./../a", Refused::AboveRoot),
            ("//../a", Refused::AboveRoot),
        ] {
            assert_eq!(of(raw), Err(why), "{raw}");
        }
    }

    /// Whatever is asked for: relative, no empty or dot segment, no NUL.
    #[test]
    fn no_key_leaves_the_root() {
        let pieces = ["/", ".", "..", "%2e", "%2E.", "%2f", "a", "\\", "%5c", "%00", "%25", "2e", "//", "%c0%af", "~"];
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let mut raw = b"/".to_vec();
            for _ in 0..8 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                raw.extend(pieces[seed as usize % pieces.len()].bytes());
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

    #[test]
    fn a_location_is_encoded_and_names_no_host() {
        let mut out = Vec::new();
        encode_directory(b"a b/\xc3\xa9\"\r\n", &mut out);
        assert_eq!(out, b"/a%20b/%C3%A9%22%0D%0A/");
    }
}
