//! The dynamic table: names and values in one buffer, the oldest first.
//!
//! An entry's name and value lie beside each other and are never cut. What is
//! evicted leaves room at the front; when the end is reached, what is kept moves
//! there. Each entry counts 32 bytes more than it has here, so such a move makes
//! room for some entries at least.

use std::collections::VecDeque;

use crate::{ENTRY_OVERHEAD, TABLE_MOST};

/// The least that is taken for names and values, unless the table is smaller.
const LEAST: usize = 256;

#[derive(Debug)]
pub(crate) struct Table {
    /// Names and values; those of entries end with it.
    bytes: Vec<u8>,
    /// Where the oldest entry begins in `bytes`.
    start: usize,
    /// The position that `bytes` begins at. Positions are counted modulo 2^16.
    base: u16,
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// By section 4.1.
    size: u32,
    limit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The position of its name.
    at: u16,
    name: u16,
    value: u16,
}

// What the entries of a table have together is less than what positions can tell apart.
const _: () = assert!(TABLE_MOST - ENTRY_OVERHEAD < 1 << 16);

impl Table {
    pub(crate) const fn new(limit: u32) -> Self {
        let limit = if limit < TABLE_MOST { limit } else { TABLE_MOST };
        Self { bytes: Vec::new(), start: 0, base: 0, entries: VecDeque::new(), size: 0, limit }
    }

    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    #[cfg(test)]
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory taken.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Name and value of the entry that is `back` entries older than the newest.
    #[inline]
    pub(crate) fn get(&self, back: usize) -> Option<(&[u8], &[u8])> {
        let at = self.entries.len().checked_sub(back)?.checked_sub(1)?;
        let entry = self.entries.get(at)?;
        let start = usize::from(entry.at.wrapping_sub(self.base));
        let end = start + usize::from(entry.name) + usize::from(entry.value);
        self.bytes.get(start..end)?.split_at_checked(usize::from(entry.name))
    }

    /// What the table may have from now on; the oldest go until it is kept (section 4.3).
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit.min(TABLE_MOST);
        self.evict(self.limit);
        if self.limit == 0 {
            (self.bytes, self.entries) = (Vec::new(), VecDeque::new());
            (self.start, self.base) = (0, 0);
        }
    }

    /// Adds an entry; the oldest go for it. One larger than the table empties it, and is not
    /// added (section 4.4). Whether it was.
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) -> bool {
        let length = name.len() + value.len();
        if length > (self.limit.saturating_sub(ENTRY_OVERHEAD)) as usize || self.limit < ENTRY_OVERHEAD {
            self.evict(0);
            return false;
        }
        let size = length as u32 + ENTRY_OVERHEAD;
        self.evict(self.limit - size);
        if self.bytes.capacity() - self.bytes.len() < length {
            self.make_room(length);
        }
        let at = self.base.wrapping_add(self.bytes.len() as u16);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        // Both are less than the table's limit.
        self.entries.push_back(Entry { at, name: name.len() as u16, value: value.len() as u16 });
        self.size += size;
        true
    }

    /// The oldest go until no more than `most` is left.
    fn evict(&mut self, most: u32) {
        while self.size > most
            && let Some(oldest) = self.entries.pop_front()
        {
            let length = usize::from(oldest.name) + usize::from(oldest.value);
            self.start += length;
            self.size -= length as u32 + ENTRY_OVERHEAD;
        }
    }

    /// Moves what is kept to the front, and takes more memory where that is not half empty then.
    #[cold]
    fn make_room(&mut self, length: usize) {
        let kept = self.bytes.len() - self.start;
        self.base = self.base.wrapping_add(self.start as u16);
        self.bytes.drain(..self.start);
        self.start = 0;
        let most = self.limit as usize;
        let wanted = (2 * (kept + length)).clamp(LEAST.min(most), most);
        if self.bytes.capacity() < wanted {
            self.bytes.reserve_exact(wanted - kept);
        }
    }
}
