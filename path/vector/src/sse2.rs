//! Every x86-64 processor: SSE2, a block in two halves.

use crate::{BLOCK, Blocks, Marks, Work};
use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_add_epi64, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_cvtsi128_si64,
    _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8, _mm_set1_epi64x, _mm_setzero_si128, _mm_srli_epi64,
    _mm_subs_epi8, _mm_unpackhi_epi64,
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2;

/// Does the work, apart from whoever asks for it: what blocks are compared with
/// would else be made ready where the processor has more.
#[inline(never)]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    work.run(Sse2)
}

impl Blocks for Sse2 {
    #[inline(always)]
    fn marks(self, block: &[u8; BLOCK]) -> Marks {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { marks(block) }
    }

    #[inline(always)]
    fn stops(self, block: &[u8; BLOCK]) -> u32 {
        // SAFETY: as above.
        unsafe { all_stops(halves(block)) }
    }

    type Sum = __m128i;

    #[inline(always)]
    fn nothing(self) -> __m128i {
        // SAFETY: as above.
        unsafe { nothing() }
    }

    #[inline(always)]
    fn add(self, sum: __m128i, block: &[u8; BLOCK]) -> __m128i {
        // SAFETY: as above.
        unsafe { add(sum, halves(block)) }
    }

    #[inline(always)]
    fn total(self, sum: __m128i) -> u64 {
        // SAFETY: as above.
        unsafe { total(sum) }
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn marks(block: &[u8; BLOCK]) -> Marks {
    let [low, high] = halves(block);
    Marks { other: !pair(tokens(low), tokens(high)), stop: all_stops([low, high]) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn all_stops([low, high]: [__m128i; 2]) -> u32 {
    pair(stops(low), stops(high))
}

#[inline]
#[target_feature(enable = "sse2")]
fn halves(block: &[u8; BLOCK]) -> [__m128i; 2] {
    let (words, _) = block.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| i64::from_le_bytes(*word));
    // The compiler makes one load of two.
    [_mm_set_epi64x(word(1), word(0)), _mm_set_epi64x(word(3), word(2))]
}

#[inline]
#[target_feature(enable = "sse2")]
fn nothing() -> __m128i {
    _mm_setzero_si128()
}

/// Two sums of 64 bits, each of four words of a block.
#[inline]
#[target_feature(enable = "sse2")]
fn add(sum: __m128i, [low, high]: [__m128i; 2]) -> __m128i {
    let mask = _mm_set1_epi64x(0xffff_ffff);
    let even = _mm_add_epi64(_mm_and_si128(low, mask), _mm_and_si128(high, mask));
    let odd = _mm_add_epi64(_mm_srli_epi64::<32>(low), _mm_srli_epi64::<32>(high));
    _mm_add_epi64(sum, _mm_add_epi64(even, odd))
}

#[inline]
#[target_feature(enable = "sse2")]
fn total(sum: __m128i) -> u64 {
    let other = _mm_unpackhi_epi64(sum, sum);
    (_mm_cvtsi128_si64(sum) as u64).wrapping_add(_mm_cvtsi128_si64(other) as u64)
}

#[inline]
#[target_feature(enable = "sse2")]
fn pair(low: __m128i, high: __m128i) -> u32 {
    (_mm_movemask_epi8(low) as u32) | (_mm_movemask_epi8(high) as u32) << 16
}

/// The mask takes signs. With 1 added, 0x7f and all from 0x80 on but 0xff are
/// negative, and 0xff is zero; less 0x21, what was below 0x20 is, too. This
/// subtraction does not wrap.
#[inline]
#[target_feature(enable = "sse2")]
fn stops(bytes: __m128i) -> __m128i {
    _mm_subs_epi8(_mm_add_epi8(bytes, _mm_set1_epi8(1)), _mm_set1_epi8(0x21))
}

/// Letters, digits and `-`: moved so that each range begins with the least
/// number that there is.
#[inline]
#[target_feature(enable = "sse2")]
fn tokens(bytes: __m128i) -> __m128i {
    let lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    let letter = below(_mm_add_epi8(lower, _mm_set1_epi8((0x80 - b'a') as i8)), 26);
    let digit = below(_mm_add_epi8(bytes, _mm_set1_epi8((0x80 - b'0') as i8)), 10);
    let dash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'-' as i8));
    _mm_or_si128(_mm_or_si128(letter, digit), dash)
}

#[inline]
#[target_feature(enable = "sse2")]
fn below(bytes: __m128i, count: i8) -> __m128i {
    _mm_cmpgt_epi8(_mm_set1_epi8(i8::MIN + count), bytes)
}
