//! GHASH as POLYVAL (RFC 8452 appendix A): blocks and keys with their bytes turned round,
//! and the key times x, so that products need not be shifted. Products of many blocks are
//! added before they are reduced, each with a power of the key (NIST SP 800-38D section
//! 6.4, by Horner's rule for several steps at once).

use crate::registers::{BLOCK, Instructions, load_128, load_256, store_128};
use core::arch::x86_64::{
    __m128i, __m256i, _mm_clmulepi64_si128, _mm_set1_epi64x, _mm_setr_epi8, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_shuffle_epi32, _mm_xor_si128, _mm256_castsi256_si128, _mm256_clmulepi64_epi128, _mm256_extracti128_si256,
    _mm256_setzero_si256, _mm256_shuffle_epi32, _mm256_xor_si256,
};

/// Powers that are kept: for the eight blocks of a chunk, and the one with the lengths.
pub(crate) const POWERS: usize = 9;

/// The powers of a key, the highest first, and behind the first power a zero: a pair that
/// begins with the first power then has nothing in its other half.
pub(crate) struct Powers {
    pub each: [[u8; BLOCK]; POWERS + 1],
    /// The two halves of each, added, in both halves: for Karatsuba's product.
    pub sums: [[u8; BLOCK]; POWERS + 1],
}

/// x^63 + x^62 + x^57: what x^128 is replaced by, but for its last term and times x^-64.
const REDUCER: i64 = 0xc200_0000_0000_0000_u64 as i64;

/// Both halves changed over.
const HALVES: i32 = 0x4e;

/// The powers of the key that AES makes of a block of zeros.
pub(crate) fn powers(_: Instructions, hashed: &[u8; BLOCK], powers: &mut Powers) {
    // SAFETY: there is a value of `Instructions` only where the processor has them.
    unsafe { make(hashed, powers) }
}

#[target_feature(enable = "avx2,aes,pclmulqdq")]
fn make(hashed: &[u8; BLOCK], powers: &mut Powers) {
    let mut turned = *hashed;
    turned.reverse();
    // Times x (RFC 8452 appendix A, mulX_POLYVAL); what leaves on top is not branched by.
    let value = u128::from_le_bytes(turned);
    let carried = (value >> 127).wrapping_neg() & 0xc200_0000_0000_0000_0000_0000_0000_0001;
    let first = load_128(&((value << 1) ^ carried).to_le_bytes());
    let mut power = first;
    for at in (0..POWERS).rev() {
        store_128(power, &mut powers.each[at]);
        store_128(_mm_xor_si128(power, _mm_shuffle_epi32::<HALVES>(power)), &mut powers.sums[at]);
        power = product(power, first);
    }
}

/// The product of two, reduced.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq")]
fn product(a: __m128i, b: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(a, b);
    let middle = _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(a, b), _mm_clmulepi64_si128::<0x10>(a, b));
    reduce(low, middle, _mm_clmulepi64_si128::<0x11>(a, b))
}

/// The low 128 bits are added away, 64 at a time, by multiples of the polynomial: what is
/// left is the product times x^-128, as POLYVAL has it.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq")]
fn reduce(low: __m128i, middle: __m128i, high: __m128i) -> __m128i {
    let reducer = _mm_set1_epi64x(REDUCER);
    let once = _mm_xor_si128(_mm_shuffle_epi32::<HALVES>(low), _mm_clmulepi64_si128::<0x00>(low, reducer));
    let middle = _mm_xor_si128(middle, once);
    let twice = _mm_xor_si128(_mm_shuffle_epi32::<HALVES>(middle), _mm_clmulepi64_si128::<0x00>(middle, reducer));
    _mm_xor_si128(high, twice)
}

/// A block with its bytes turned round.
#[inline]
#[target_feature(enable = "avx2,aes,pclmulqdq")]
pub(crate) fn turned(block: __m128i) -> __m128i {
    _mm_shuffle_epi8(block, _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
}

/// Products that are not yet reduced.
#[derive(Clone, Copy)]
pub(crate) struct Products {
    low: __m256i,
    middle: __m256i,
    high: __m256i,
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq")]
    pub(crate) fn none() -> Self {
        let zero = _mm256_setzero_si256();
        Self { low: zero, middle: zero, high: zero }
    }

    /// Adds two blocks, turned, times the powers that stand at `at` and behind it.
    #[inline]
    #[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq")]
    pub(crate) fn add(&mut self, blocks: __m256i, powers: &Powers, at: usize) {
        let (power, sum) = (pair(&powers.each, at), pair(&powers.sums, at));
        let halves = _mm256_xor_si256(blocks, _mm256_shuffle_epi32::<HALVES>(blocks));
        self.low = _mm256_xor_si256(self.low, _mm256_clmulepi64_epi128::<0x00>(blocks, power));
        self.high = _mm256_xor_si256(self.high, _mm256_clmulepi64_epi128::<0x11>(blocks, power));
        self.middle = _mm256_xor_si256(self.middle, _mm256_clmulepi64_epi128::<0x00>(halves, sum));
    }

    /// Their sum, reduced.
    #[inline]
    #[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq")]
    pub(crate) fn reduced(self) -> __m128i {
        let middle = _mm256_xor_si256(self.middle, _mm256_xor_si256(self.low, self.high));
        reduce(folded(self.low), folded(middle), folded(self.high))
    }
}

/// Both halves added.
#[inline]
#[target_feature(enable = "avx2")]
fn folded(pair: __m256i) -> __m128i {
    _mm_xor_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256::<1>(pair))
}

/// Two entries of a table.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(table: &[[u8; BLOCK]; POWERS + 1], at: usize) -> __m256i {
    load_256(table.as_flattened()[at * BLOCK..].first_chunk().unwrap_or(&[0; 32]))
}

/// Nothing yet.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn nothing() -> __m128i {
    _mm_setzero_si128()
}
