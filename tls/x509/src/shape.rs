//! Whether bytes have the shape of DER (ITU-T X.690), asked before the library's parser,
//! which is in C, has what a peer sent: of lengths that contradict each other, that are
//! indefinite or not as short as can be, and of depth without end it sees nothing.

/// How deep values lie in each other, at most: names within names within extensions.
const DEPTH_MAX: u8 = 24;

/// Whether these are one sequence, and nothing behind it.
#[must_use]
pub fn is_sequence(bytes: &[u8]) -> bool {
    let whole = split(bytes).is_some_and(|(content, behind)| !content.is_empty() && behind.is_empty());
    whole && bytes[0] == 0x30 && is_der(bytes)
}

/// Whether these are values, one behind the other, each with a length that fits, down to those that hold
/// no others.
pub(crate) fn is_der(bytes: &[u8]) -> bool {
    holds_values(bytes, DEPTH_MAX)
}

fn holds_values(mut rest: &[u8], depth: u8) -> bool {
    while let Some(tag) = rest.first() {
        let Some((content, behind)) = split(rest) else { return false };
        let is_constructed = tag & 0x20 != 0;
        if is_constructed && (depth == 0 || !holds_values(content, depth - 1)) {
            return false;
        }
        rest = behind;
    }
    true
}

/// The content of the first value, and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [tag, first, behind @ ..] = bytes else { return None };
    // No type of X.509 has a number that does not fit into the first byte.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let digits = usize::from(first & 0x7f);
    if first & 0x80 == 0 {
        return behind.split_at_checked(digits);
    }
    let (written, behind) = behind.split_at_checked(digits).filter(|_| matches!(digits, 1..=3))?;
    let length = written.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let is_short = length >= 0x80 && written[0] != 0;
    behind.split_at_checked(length).filter(|_| is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_fit_and_are_short() {
        let long = |length: usize| [&[0x30, 0x82, (length >> 8) as u8, length as u8][..], &vec![0; length]].concat();
        for good in [
            &[][..],
            &[0x05, 0],
            &[0x30, 3, 2, 1, 5],
            &[0x30, 0x81, 0x80].iter().copied().chain([4, 0x7e]).chain([0; 0x7e]).collect::<Vec<_>>(),
            &[2, 1, 5, 2, 1, 6],
            &long(0x400),
        ] {
            assert!(is_der(good), "{good:02x?}");
        }
        for bad in [
            &[0x30][..],
            &[0x30, 1],
            &[0x30, 3, 2, 2, 5],
            &[0x30, 4, 2, 1, 5],
            &[0x30, 0x80, 2, 1, 5, 0, 0],
            &[0x30, 0x81, 3, 2, 1, 5],
            &[4, 0x82, 0, 0x80],
            &[0x3f, 0x81, 0],
            &[4, 0x84, 0, 0, 0, 1, 0],
            &[4, 0xff],
            &long(0x400)[..0x300],
        ] {
            assert!(!is_der(bad), "{bad:02x?}");
        }
        assert!(is_sequence(&[0x30, 3, 2, 1, 5]));
        for other in [&[][..], &[0x30, 0], &[2, 1, 5], &[0x30, 3, 2, 1, 5, 0], b"junk\n"] {
            assert!(!is_sequence(other), "{other:02x?}");
        }
        let deep = (0..30).fold(Vec::new(), |inner: Vec<u8>, _| [&[0x30, inner.len() as u8][..], &inner].concat());
        assert!(!is_der(&deep) && is_der(&deep[12..]));
    }
}
