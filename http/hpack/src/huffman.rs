//! The Huffman code (section 5.2, Appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of
//! their symbols, and the shorter come first. So the lengths say all, and the
//! tables for both directions are computed from them at compile time.
//!
//! Decoding looks [`BITS`] bits up at once, which are one or two symbols of the
//! frequent ones; the symbols of longer codes are found by their length.

use crate::error::Error;

/// The lengths of the codes of all bytes, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest codes; the last of them is EOS, which no string contains.
const LONGEST: usize = 30;

// The codes and EOS use up all that can be said: no bits are without a meaning.
const _: () = {
    let mut sum = 1u64;
    let mut symbol = 0;
    while symbol < 256 {
        sum += 1 << (LONGEST - LENGTHS[symbol] as usize);
        symbol += 1;
    }
    assert!(sum == 1 << LONGEST);
};

/// The codes by length.
struct Canonical {
    /// The first code of each length, in the highest bits of 32.
    first: [u64; LONGEST + 2],
    /// Where the symbols of each length begin in `symbols`.
    offset: [u16; LONGEST + 2],
    /// All symbols, by length and value.
    symbols: [u8; 256],
    /// The code of each symbol, in the lowest bits.
    codes: [u32; 256],
}

const LAID_OUT: Canonical = canonical();
static CANONICAL: Canonical = LAID_OUT;

const fn canonical() -> Canonical {
    let mut all = Canonical { first: [0; LONGEST + 2], offset: [0; LONGEST + 2], symbols: [0; 256], codes: [0; 256] };
    let (mut length, mut code, mut placed) = (1, 0u64, 0);
    while length <= LONGEST {
        all.first[length] = code << (32 - length);
        all.offset[length] = placed;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                all.symbols[placed as usize] = symbol as u8;
                all.codes[symbol] = code as u32;
                placed += 1;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    // EOS is what follows the last of the longest.
    all.first[LONGEST + 1] = (1 << 32) - (1 << (32 - LONGEST));
    all.offset[LONGEST + 1] = placed;
    all
}

/// Bits that are looked up at once.
const BITS: usize = 11;
const LOOKED_UP: usize = 1 << BITS;
const _: () = assert!(BITS >= 10, "the most frequent symbols have codes of five bits: two at once");

/// What [`BITS`] bits begin with: two symbols, how many of them are there (none
/// where the code is longer), and their bits.
#[derive(Clone, Copy)]
struct Found {
    symbols: [u8; 2],
    count: u8,
    bits: u8,
}

static FOUND: [Found; LOOKED_UP] = found();

const fn found() -> [Found; LOOKED_UP] {
    let mut one = [Found { symbols: [0; 2], count: 0, bits: 0 }; LOOKED_UP];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as usize;
        if length <= BITS {
            let mut at = (LAID_OUT.codes[symbol] as usize) << (BITS - length);
            let end = at + (1 << (BITS - length));
            while at < end {
                one[at] = Found { symbols: [symbol as u8, 0], count: 1, bits: length as u8 };
                at += 1;
            }
        }
        symbol += 1;
    }
    let mut two = one;
    let mut at = 0;
    while at < LOOKED_UP {
        if one[at].count == 1 {
            let second = one[(at << one[at].bits) & (LOOKED_UP - 1)];
            if second.count == 1 && (one[at].bits + second.bits) as usize <= BITS {
                two[at].symbols[1] = second.symbols[0];
                two[at].count = 2;
                two[at].bits += second.bits;
            }
        }
        at += 1;
    }
    two
}

/// The most bytes that a string of `length` coded bytes decodes to, and what
/// decoding may write beyond them.
pub(crate) const fn room(length: usize) -> usize {
    length * 8 / 5 + 2
}

/// Decodes `coded` to the front of `out`, which has [`room`] for it; how many bytes
/// that were.
pub(crate) fn decode(coded: &[u8], out: &mut [u8]) -> Result<usize, Error> {
    let mut state = Decoding { coded, ahead: 0, bits: 0, written: 0 };
    while state.refill_whole() {
        const _: () = assert!(5 * BITS <= 56);
        for _ in 0..5 {
            if !state.step(out) {
                state.step_long(out)?;
                break;
            }
        }
    }
    state.finish(out)
}

struct Decoding<'c> {
    coded: &'c [u8],
    /// The next bits, from the highest on. Below them are zeros, or some that come after
    /// them.
    ahead: u64,
    /// How many of them there are; at most 63.
    bits: u32,
    written: usize,
}

impl Decoding<'_> {
    /// Has at least 56 bits ahead; false where the string is nearly at its end.
    #[inline(always)]
    fn refill_whole(&mut self) -> bool {
        let Some((&next, _)) = self.coded.split_first_chunk::<8>() else { return false };
        self.ahead |= u64::from_be_bytes(next) >> self.bits;
        let bytes = (63 - self.bits) / 8;
        self.coded = self.coded.get(bytes as usize..).unwrap_or_default();
        self.bits += bytes * 8;
        true
    }

    /// As many bytes ahead as there are and as there is room for.
    #[inline(always)]
    fn refill(&mut self) {
        self.ahead &= !(u64::MAX >> self.bits);
        while self.bits < 56
            && let Some((&byte, rest)) = self.coded.split_first()
        {
            self.ahead |= u64::from(byte) << (56 - self.bits);
            self.bits += 8;
            self.coded = rest;
        }
    }

    /// What is found in the next bits, of which [`BITS`] are there; false for a longer code.
    #[inline(always)]
    fn step(&mut self, out: &mut [u8]) -> bool {
        let found = self.look_up();
        self.put(out, found.symbols, usize::from(found.count));
        self.drop(u32::from(found.bits));
        found.count != 0
    }

    /// A symbol with a code of more than [`BITS`], unless the string ends within it.
    #[cold]
    fn step_long(&mut self, out: &mut [u8]) -> Result<bool, Error> {
        self.refill();
        let (symbol, length) = long(self.ahead).ok_or(Error::HuffmanEos)?;
        let whole = length <= self.bits;
        if whole {
            self.put(out, [symbol, 0], 1);
            self.drop(length);
        }
        Ok(whole)
    }

    /// The last symbols, and what follows them.
    fn finish(mut self, out: &mut [u8]) -> Result<usize, Error> {
        self.refill();
        loop {
            let found = self.look_up();
            if found.count > 0 && u32::from(found.bits) <= self.bits {
                self.put(out, found.symbols, usize::from(found.count));
                self.drop(u32::from(found.bits));
            } else if !self.step_last(found, out)? {
                return self.padded();
            }
            if self.bits < BITS as u32 {
                self.refill();
            }
        }
    }

    /// One symbol near the end; false if what is left is none.
    fn step_last(&mut self, found: Found, out: &mut [u8]) -> Result<bool, Error> {
        if found.count == 0 {
            return self.step_long(out);
        }
        let length = u32::from(LENGTHS[usize::from(found.symbols[0])]);
        let whole = length <= self.bits;
        if whole {
            self.put(out, [found.symbols[0], 0], 1);
            self.drop(length);
        }
        Ok(whole)
    }

    /// What is left is less than a byte of ones (section 5.2).
    fn padded(self) -> Result<usize, Error> {
        let ones = self.ahead.leading_ones() >= self.bits;
        if self.bits < 8 && ones { Ok(self.written) } else { Err(Error::HuffmanPadding) }
    }

    #[inline(always)]
    fn look_up(&self) -> Found {
        FOUND[(self.ahead >> (64 - BITS)) as usize]
    }

    #[inline(always)]
    fn put(&mut self, out: &mut [u8], symbols: [u8; 2], count: usize) {
        if let Some(place) = out.get_mut(self.written..self.written + 2) {
            place.copy_from_slice(&symbols);
        }
        self.written += count;
    }

    #[inline(always)]
    const fn drop(&mut self, bits: u32) {
        self.ahead <<= bits;
        self.bits -= bits;
    }
}

/// The symbol of more than [`BITS`] that `ahead` begins with, and its length; `None` for
/// EOS.
fn long(ahead: u64) -> Option<(u8, u32)> {
    let all = &CANONICAL;
    let bits = ahead >> 32;
    for length in BITS + 1..=LONGEST {
        let count = u64::from(all.offset[length + 1] - all.offset[length]);
        let beyond = (bits - all.first[length].min(bits)) >> (32 - length);
        if bits >= all.first[length] && beyond < count {
            let symbol = all.symbols[usize::from(all.offset[length]) + beyond as usize];
            return Some((symbol, length as u32));
        }
    }
    None
}

/// The code of each symbol in the lower half, its length in the upper.
static CODES: [u64; 256] = codes();

const fn codes() -> [u64; 256] {
    let mut all = [0; 256];
    let mut symbol = 0;
    while symbol < 256 {
        all[symbol] = (LENGTHS[symbol] as u64) << 32 | LAID_OUT.codes[symbol] as u64;
        symbol += 1;
    }
    all
}

/// The bytes that `text` has when it is coded.
#[inline]
pub(crate) fn coded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `text` coded, which has `length` bytes then.
pub(crate) fn encode(text: &[u8], length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    // Four bytes at a time, of which the last may be padding of the padding.
    out.resize(start + length + 4, 0);
    let mut words = out.get_mut(start..).unwrap_or_default().chunks_exact_mut(4);
    let mut put = |word: u32| {
        if let Some(place) = words.next() {
            place.copy_from_slice(&word.to_be_bytes());
        }
    };
    let (mut ahead, mut bits) = (0u64, 0u32);
    for &byte in text {
        let code = CODES[usize::from(byte)];
        let length = (code >> 32) as u32;
        // What is above the last 32 bits was put already.
        ahead = ahead << length | (code & u64::from(u32::MAX));
        bits += length;
        if bits >= 32 {
            bits -= 32;
            put((ahead >> bits) as u32);
        }
    }
    // Ones follow: the beginning of EOS.
    put((ahead << (32 - bits)) as u32 | u32::MAX >> bits);
    out.truncate(start + length);
}
