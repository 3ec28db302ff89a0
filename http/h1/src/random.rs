//! Messages made at random, for tests.

use random::SplitMix64;

/// Random bytes of messages.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 to `bound`, excluded.
    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// Up to `longest` letters, digits and dots, at least one.
    pub(crate) fn word(&mut self, longest: usize) -> String {
        let length = 1 + self.below(longest);
        (0..length).map(|_| char::from(b"abcXYZ019.-"[self.below(11)])).collect()
    }

    /// Positions in `length` bytes, ascending.
    pub(crate) fn ends(&mut self, length: usize) -> Vec<usize> {
        let mut ends: Vec<_> = (0..self.below(10)).map(|_| self.below(length + 1)).collect();
        ends.sort_unstable();
        ends
    }

    /// `bytes` with a few changes: bytes replaced, removed, inserted, pieces
    /// repeated. Those that are special to HTTP are preferred.
    pub(crate) fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        const SPECIAL: &[u8] = b"\r\n\r\n :\t0159afxA/?#.,;=\"\0\x7f\xff\x80-*";
        let mut bytes = bytes.to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len() + 1);
            let byte = if self.below(4) == 0 { self.next() as u8 } else { SPECIAL[self.below(SPECIAL.len())] };
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => {
                    let end = (at + self.below(30)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                3 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    }
}
