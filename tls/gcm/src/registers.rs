//! Registers from memory and back, and the proof that the processor has all that is done
//! with them.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
};

/// Bytes of a block of AES.
pub(crate) const BLOCK: usize = 16;

/// Bytes of a register.
pub(crate) const PAIR: usize = 2 * BLOCK;

/// Proof that the processor has what everything here is compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions(());

impl Instructions {
    /// The proof, if it is so: the standard library asks the processor once.
    #[inline]
    pub(crate) fn find() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
            && std::arch::is_x86_feature_detected!("vaes")
            && std::arch::is_x86_feature_detected!("vpclmulqdq");
        has.then_some(Self(()))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_128(bytes: &[u8; BLOCK]) -> __m128i {
    // SAFETY: sixteen bytes are read, wherever they lie.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_256(bytes: &[u8; PAIR]) -> __m256i {
    // SAFETY: thirty-two bytes are read, wherever they lie.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_128(block: __m128i, bytes: &mut [u8; BLOCK]) {
    // SAFETY: sixteen bytes are written, wherever they lie.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_256(blocks: __m256i, bytes: &mut [u8; PAIR]) {
    // SAFETY: thirty-two bytes are written, wherever they lie.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), blocks) }
}
