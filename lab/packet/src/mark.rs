//! What every frame of a test carries: whose it is, which one it is, and when
//! it left. Eighteen bytes, which the smallest frame has room for.
//!
//! ```text
//! signature 32 | lane 8 | sequence 48 | time 40 | check 16
//! ```
//!
//! The signature is the trial's own, so that two testers on one wire tell their
//! frames apart, and one tells those of its trials. The check covers all before it; a sum would not see bytes
//! that changed places.

/// Bytes of a mark.
pub const LEN: usize = 18;

/// Times wrap after so many bits of ticks: some six minutes at 3 GHz.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// What a mark says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The trial.
    pub signature: u32,
    /// The stream and direction.
    pub lane: u8,
    /// Which frame of it, from 0 on.
    pub sequence: u64,
    /// When it left, in ticks: the low bits of it.
    pub time: u64,
}

/// What the bytes in a mark's place are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// A mark of this signature.
    Ours(Mark),
    /// A whole mark of another trial, which has this signature.
    Theirs(u32),
    /// No mark, or one that is damaged; whether it has our signature.
    Broken(bool),
}

impl Mark {
    /// The mark's bytes, as three words and their parts: what a checksum is
    /// made of.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> (u64, u64, u16) {
        let first = (self.signature as u64) << 32 | (self.lane as u64) << 24 | (self.sequence >> 24) & 0xff_ffff;
        let second = (self.sequence & 0xff_ffff) << TIME_BITS | self.time & TIME_MASK;
        (first, second, check(first, second))
    }

    /// Reads a mark.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8; LEN], signature: u32) -> Read {
        let (first, rest) = bytes.split_at(8);
        let (second, sum) = rest.split_at(8);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (first, second) = (word(first), word(second));
        let whole = check(first, second).to_be_bytes() == *sum;
        let theirs = (first >> 32) as u32;
        if !whole {
            return Read::Broken(theirs == signature);
        }
        if theirs != signature {
            return Read::Theirs(theirs);
        }
        Read::Ours(Self {
            signature,
            lane: (first >> 24) as u8,
            sequence: (first & 0xff_ffff) << 24 | second >> TIME_BITS,
            time: second & TIME_MASK,
        })
    }

    /// Whether it was made at this tick.
    #[inline]
    #[must_use]
    pub const fn is_of(&self, tick: u64) -> bool {
        self.time == tick & TIME_MASK
    }

    /// Ticks since the mark was made; `None` where the clock has stepped back:
    /// they would be half of what can be told, or more.
    #[inline]
    #[must_use]
    pub const fn age(&self, now: u64) -> Option<u64> {
        let age = now.wrapping_sub(self.time) & TIME_MASK;
        if age <= TIME_MASK / 2 { Some(age) } else { None }
    }
}

/// Sixteen bits of a product that every bit of both words goes into.
#[inline]
const fn check(first: u64, second: u64) -> u16 {
    let product = ((first ^ 0x9e37_79b9_7f4a_7c15) as u128) * ((second ^ 0xd1b5_4a32_d192_ed03) as u128);
    let folded = (product as u64) ^ (product >> 64) as u64;
    (folded ^ folded >> 32) as u16 ^ (folded >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first sequence number that does not fit in 48 bits: at 20 million a second that
    /// takes 162 days.
    const SEQUENCE_LIMIT: u64 = 1 << 48;

    fn bytes(mark: &Mark) -> [u8; LEN] {
        let (first, second, check) = mark.words();
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..16].copy_from_slice(&second.to_be_bytes());
        bytes[16..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn a_mark_comes_back_as_it_was(
            signature: u32, lane: u8, sequence in 0..SEQUENCE_LIMIT, time in 0..=TIME_MASK,
        ) {
            let mark = Mark { signature, lane, sequence, time };
            prop_assert_eq!(Mark::read(&bytes(&mark), signature), Read::Ours(mark));
            prop_assert_eq!(Mark::read(&bytes(&mark), !signature), Read::Theirs(signature));
        }

        #[test]
        fn a_flipped_bit_is_seen(sequence in 0..SEQUENCE_LIMIT, time in 0..=TIME_MASK, bit in 0..LEN * 8) {
            let mark = Mark { signature: 0x1234_5678, lane: 3, sequence, time };
            let mut bytes = bytes(&mark);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // A check of 16 bits may let one in 65,536 through; what it then says is another mark.
            prop_assert_ne!(Mark::read(&bytes, mark.signature), Read::Ours(mark));
        }
    }

    #[test]
    fn bytes_that_change_places_are_seen() {
        let mut unseen = 0;
        for sequence in 0..20_000 {
            let mut bytes = bytes(&Mark { signature: 7, lane: 0, sequence, time: sequence * 1_000 + 5 });
            let before = bytes;
            bytes.swap(9, 12);
            let seen = matches!(Mark::read(&bytes, 7), Read::Broken(true));
            unseen += u64::from(!seen && before != bytes);
        }
        assert!(unseen <= 3, "{unseen} of 20,000");
    }

    #[test]
    fn time_wraps_and_does_not_run_back() {
        let mark = Mark { signature: 0, lane: 0, sequence: 0, time: TIME_MASK - 5 };
        assert_eq!(mark.age(TIME_MASK + 11), Some(16));
        assert_eq!(mark.age(TIME_MASK - 6), None);
    }
}
