//! Numbers in bytes, most significant first.

use core::ops::Range;

/// Bytes of the head of a box: its length and its name.
pub const BOX_HEAD: usize = 8;

/// The same with a version, flags, and how many entries follow.
pub const TABLE_HEAD: usize = 16;

/// The number at `at`; 0 beyond the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

/// The same of eight bytes.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |eight| u64::from_be_bytes(*eight))
}

/// Writes the lower half of a number at `at`, as far as there is room.
pub fn put_u32(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &(value as u32).to_be_bytes());
}

/// The same of eight bytes.
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_be_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = at.checked_add(value.len()).and_then(|end| bytes.get_mut(at..end)) {
        place.copy_from_slice(value);
    }
}

/// Entries of a table of `bytes` bytes each, from where the box's head ends; none if they do not
/// fit into the box, which ends at `end`.
pub fn entries(at: usize, count: u32, bytes: usize, end: usize) -> Option<Range<usize>> {
    let last = (count as usize).checked_mul(bytes)?.checked_add(at)?;
    (last <= end).then_some(at..last)
}
