//! Cache hints. On machines without them, nothing.

/// The first cache line at `start` will be read soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_read(start: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it neither faults nor changes memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

/// The first cache line at `start` will be written soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_write(start: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it neither faults nor changes memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(start.cast_const().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}
