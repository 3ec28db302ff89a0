//! Processors with AVX2 (Intel since 2013, AMD since 2015, but for some of
//! their small cores).

use crate::{BLOCK, Blocks, Marks, Work};
use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_extract_epi64, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256,
    _mm256_castsi256_si128, _mm256_cmpeq_epi8, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_movemask_epi8,
    _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_srli_epi64, _mm256_subs_epi8,
};
use core::sync::atomic::{AtomicU8, Ordering};

/// Proof that the processor has AVX2 and BMI1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

/// What the processor answered, once it was asked.
static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

impl Avx2 {
    /// The proof, if it is so.
    #[inline(always)]
    pub fn find() -> Option<Self> {
        match ANSWER.load(Ordering::Relaxed) {
            PRESENT => Some(Self(())),
            UNKNOWN => Self::ask(),
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn ask() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi1");
        ANSWER.store(if has { PRESENT } else { ABSENT }, Ordering::Relaxed);
        has.then_some(Self(()))
    }
}

/// Does the work, compiled for such a processor.
///
/// # Safety
/// The processor has AVX2 and BMI1, which `blocks` proves.
#[target_feature(enable = "avx2,bmi1")]
pub(crate) unsafe fn run<W: Work>(blocks: Avx2, work: W) -> W::Output {
    work.run(blocks)
}

impl Blocks for Avx2 {
    #[inline(always)]
    fn marks(self, block: &[u8; BLOCK]) -> Marks {
        // SAFETY: there is a value only where the processor has AVX2.
        unsafe { marks(block) }
    }

    #[inline(always)]
    fn stops(self, block: &[u8; BLOCK]) -> u32 {
        // SAFETY: as above.
        unsafe { mask(stops(load(block))) }
    }

    type Sum = __m256i;

    #[inline(always)]
    fn nothing(self) -> __m256i {
        // SAFETY: as above.
        unsafe { nothing() }
    }

    #[inline(always)]
    fn add(self, sum: __m256i, block: &[u8; BLOCK]) -> __m256i {
        // SAFETY: as above.
        unsafe { add(sum, load(block)) }
    }

    #[inline(always)]
    fn total(self, sum: __m256i) -> u64 {
        // SAFETY: as above.
        unsafe { total(sum) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn marks(block: &[u8; BLOCK]) -> Marks {
    let bytes = load(block);
    Marks { other: mask(others(bytes)), stop: mask(stops(bytes)) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &[u8; BLOCK]) -> __m256i {
    // SAFETY: a block has 32 bytes, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn nothing() -> __m256i {
    _mm256_setzero_si256()
}

/// Four sums of 64 bits, each of two words of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn add(sum: __m256i, words: __m256i) -> __m256i {
    let low = _mm256_and_si256(words, _mm256_set1_epi64x(0xffff_ffff));
    _mm256_add_epi64(sum, _mm256_add_epi64(low, _mm256_srli_epi64::<32>(words)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(sum: __m256i) -> u64 {
    let (low, high) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let pair = _mm_add_epi64(low, high);
    (_mm_cvtsi128_si64(pair) as u64).wrapping_add(_mm_extract_epi64::<1>(pair) as u64)
}

#[inline]
#[target_feature(enable = "avx2")]
fn mask(bytes: __m256i) -> u32 {
    _mm256_movemask_epi8(bytes) as u32
}

/// As for SSE2.
#[inline]
#[target_feature(enable = "avx2")]
fn stops(bytes: __m256i) -> __m256i {
    _mm256_subs_epi8(_mm256_add_epi8(bytes, _mm256_set1_epi8(1)), _mm256_set1_epi8(0x21))
}

/// Rows of the ASCII table (a bit for each upper half of a byte) in which the
/// lower half is that of a byte of a token.
const ROWS: [i8; 16] = {
    let mut rows = [0; 16];
    let mut byte = 0;
    while byte < 0x80 {
        if crate::portable::is_token(byte) {
            rows[(byte & 15) as usize] |= 1u8.wrapping_shl((byte >> 4) as u32) as i8;
        }
        byte += 1;
    }
    rows
};

/// All bytes of a token are found: the row of the byte's upper half, among those of its
/// lower half (Mula and Lemire, "Faster Base64 Encoding and Decoding using
/// AVX2 Instructions", 2018, look ranges up so).
#[inline]
#[target_feature(enable = "avx2")]
fn others(bytes: __m256i) -> __m256i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = ROWS;
    let rows = _mm256_setr_epi8(
        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p,
    );
    // None from 0x80 on.
    let row = _mm256_setr_epi8(
        1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0,
    );
    let half = _mm256_set1_epi8(15);
    // By the lower half; none from 0x80 on, here too.
    let of = _mm256_shuffle_epi8(rows, bytes);
    let own = _mm256_shuffle_epi8(row, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half));
    // Zero where the row is not among them.
    _mm256_cmpeq_epi8(_mm256_and_si256(of, own), _mm256_setzero_si256())
}
