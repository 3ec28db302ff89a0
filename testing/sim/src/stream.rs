//! What a connection carries in one direction: bytes that follow from a key
//! and a position, so that a receiver can tell every byte that is missing,
//! doubled, moved or damaged.

use random::mix;

/// One direction of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of `key`; `up` from the side that connected.
    #[must_use]
    pub const fn new(key: u64, up: bool) -> Self {
        Self { key: mix(key ^ if up { 0x75_70 } else { 0x64_6f_77_6e }) }
    }

    /// The bytes from `position` on.
    pub fn fill(self, position: u64, out: &mut [u8]) {
        let mut at = position;
        let mut rest = out;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let part = &word[(at % 8) as usize..];
            let len = part.len().min(rest.len());
            let (head, tail) = rest.split_at_mut(len);
            head.copy_from_slice(&part[..len]);
            at += len as u64;
            rest = tail;
        }
    }

    /// The position of the first of `bytes` that is not the stream's.
    #[must_use]
    pub fn first_wrong(self, position: u64, bytes: &[u8]) -> Option<u64> {
        let mut at = position;
        let mut rest = bytes;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let part = &word[(at % 8) as usize..];
            let len = part.len().min(rest.len());
            if part[..len] != rest[..len] {
                let good = part.iter().zip(rest).take_while(|(a, b)| a == b).count();
                return Some(at + good as u64);
            }
            at += len as u64;
            rest = &rest[len..];
        }
        None
    }

    const fn word(self, index: u64) -> [u8; 8] {
        mix(self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any damage to a piece of the stream is found, and where it is.
    #[test]
    fn damage_is_found() {
        let stream = Stream::new(7, true);
        let mut bytes = [0; 100];
        for start in 0..20 {
            stream.fill(start, &mut bytes);
            assert_eq!(stream.first_wrong(start, &bytes), None);
            for at in 0..100 {
                bytes[at] ^= 0x10;
                assert_eq!(stream.first_wrong(start, &bytes), Some(start + at as u64));
                bytes[at] ^= 0x10;
            }
            assert!(stream.first_wrong(start + 1, &bytes).is_some());
            assert!(Stream::new(7, false).first_wrong(start, &bytes).is_some());
            assert!(Stream::new(8, true).first_wrong(start, &bytes).is_some());
        }
    }
}
