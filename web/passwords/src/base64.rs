//! Base64 (RFC 4648), read as nginx reads it: what follows a `=` does not count,
//! nor do bits that are too many.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What `text` stands for; `url` for the letters of section 5.
#[must_use]
pub fn decode(text: &[u8], url: bool) -> Option<Vec<u8>> {
    let text = text.split(|byte| *byte == b'=').next()?;
    if text.len() % 4 == 1 {
        return None;
    }
    let value = |byte: &u8| {
        Some(match (*byte, url) {
            (b'A'..=b'Z', _) => byte - b'A',
            (b'a'..=b'z', _) => byte - b'a' + 26,
            (b'0'..=b'9', _) => byte - b'0' + 52,
            (b'+', false) | (b'-', true) => 62,
            (b'/', false) | (b'_', true) => 63,
            _ => return None,
        })
    };
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.chunks(4) {
        let mut word = 0;
        for byte in four {
            word = word << 6 | u32::from(value(byte)?);
        }
        word <<= 6 * (4 - four.len());
        out.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    Some(out)
}

/// The text for `bytes`, with `=` to a whole number of fours.
#[must_use]
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= three.len() { letter } else { b'=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        // RFC 4648 section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text.as_bytes());
            assert_eq!(decode(text.as_bytes(), false).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(decode(text.trim_end_matches('=').as_bytes(), true).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode(b"-_-_", true), decode(b"+/+/", false));
        assert_eq!(decode(b"Zh=x", false).as_deref(), Some(&b"f"[..]));
        for (text, url) in [("Z", false), ("Zm9vY", false), ("Zm9 v", false), ("-_", false), ("+/", true)] {
            assert_eq!(decode(text.as_bytes(), url), None, "{text}");
        }
    }
}
