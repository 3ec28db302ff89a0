//! Cache hints. On machines without them, nothing.

const CACHE_LINE: usize = 64;
/// Cache lines that a hint is for: headers, and all of a small message.
const LINES: usize = 3;

/// The `len` bytes at `start` will be read soon: the first cache lines of
/// them, and no further, because each line that is not needed is one that the
/// writer must take back. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_read(start: *const u8, len: u32) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let offset = line * CACHE_LINE;
        if line > 0 && len as usize <= offset {
            break;
        }
        // SAFETY: a prefetch is a hint; it neither faults nor changes memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// The first cache lines at `start` will be written soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_write(start: *mut u8) {
    // By instruction, because the compiler's hint takes a line without the right to write it on baseline x86-64.
    // Processors of 64 bits that have no PREFETCHW take it for a no-op.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it neither faults nor changes memory, registers or flags, whatever the address.
    unsafe {
        core::arch::asm!(
            "prefetchw [{start}]",
            "prefetchw [{start} + 64]",
            "prefetchw [{start} + 128]",
            start = in(reg) start,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

const _: () = assert!(LINES == 3 && CACHE_LINE == 64, "as written out above");
