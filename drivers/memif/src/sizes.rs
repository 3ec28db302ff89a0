//! How large a client's memory is.

use crate::ring::ring_bytes;

pub(crate) const CACHE_LINE: u32 = 64;
/// Two cache lines: CPUs fetch them in pairs, so rings of different queues
/// must not share a pair.
pub(crate) const RING_SPACING: usize = 128;
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// Bytes that a client's memory takes, before rounding to pages; `None` if
/// offsets of 32 bits do not reach all of it.
pub(crate) fn own_bytes(queues: u16, log2_ring_size: u8, buffer_size: u32) -> Option<u32> {
    let rings = 2 * u64::from(queues);
    let ring = ring_bytes(log2_ring_size).next_multiple_of(RING_SPACING) as u64;
    let bytes = rings * (ring + (u64::from(stride(buffer_size)) << log2_ring_size));
    u32::try_from(bytes).ok().filter(|&bytes| u64::from(bytes) <= u64::from(u32::MAX) - HUGE_PAGE)
}

/// Bytes between the starts of two buffers: an odd number of cache lines, so that
/// they do not share sets.
pub(crate) fn stride(buffer_size: u32) -> u32 {
    (buffer_size.div_ceil(CACHE_LINE) | 1) * CACHE_LINE
}
