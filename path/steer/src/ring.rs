//! A bounded ring of bytes between two silos: one sends, one receives.
//!
//! A record is a header of 16 bytes and its bytes, padded to a multiple of 8,
//! all in one piece: where a record does not fit before the end of the ring,
//! the rest is skipped. The sender builds records in place and shows them all
//! at once ([`Producer::publish`]); the receiver reads them in place and gives
//! their room back all at once ([`Consumer::release`]).
//!
//! Positions are counts of bytes that run freely; a place in the ring is a
//! position modulo its size, a power of two. [`fit`] is the arithmetic, apart
//! from the memory.

use crate::region::{Part, Region};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Smallest ring, in bytes: a page.
pub(crate) const RING_MIN: usize = 4_096;
/// Largest ring, in bytes: far more than any silo forwards in a turn.
pub(crate) const RING_MAX: usize = 16 << 20;

/// Bytes of a record's header.
const HEADER: usize = 16;
/// What the end of the ring is filled up with.
const SKIP: u8 = 0xff;

/// A record's header: what it is, and how many bytes follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    /// Bytes that follow.
    pub len: u32,
    /// The user's; not [`SKIP`].
    pub kind: u8,
    /// The user's.
    pub flags: u8,
    /// The user's.
    pub note: u64,
}

impl Head {
    const fn words(self) -> [u64; 2] {
        [self.len as u64 | (self.kind as u64) << 32 | (self.flags as u64) << 40, self.note]
    }

    const fn of([word, note]: [u64; 2]) -> Self {
        Self { len: word as u32, kind: (word >> 32) as u8, flags: (word >> 40) as u8, note }
    }
}

/// Bytes that a record of `len` bytes takes.
#[inline]
const fn taken(len: usize) -> usize {
    HEADER + ((len + 7) & !7)
}

/// Where a record of `len` bytes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fit {
    /// Bytes to be skipped before it; 0, or what is left up to the end.
    pub skip: usize,
    /// Its offset in the ring.
    pub at: usize,
    /// Bytes of it.
    pub bytes: usize,
}

/// The place of a record of `len` bytes in a ring of `size` bytes that is
/// filled from `tail` to `head`; `None` if there is no room. A record of at
/// most `size / 2 - 16` bytes always fits into an empty ring.
#[inline]
pub(crate) const fn fit(size: usize, head: u64, tail: u64, len: usize) -> Option<Fit> {
    let free = size - head.wrapping_sub(tail) as usize;
    let at = head as usize & (size - 1);
    let bytes = taken(len);
    let straight = size - at;
    if bytes <= straight {
        return if bytes <= free { Some(Fit { skip: 0, at, bytes }) } else { None };
    }
    if straight + bytes <= free { Some(Fit { skip: straight, at: 0, bytes }) } else { None }
}

/// Two cache lines: CPUs fetch them in pairs, so what two silos write must not
/// share a pair.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Apart(AtomicU64);

/// What both ends share.
#[derive(Debug)]
struct Shared {
    /// Written by the producer: all before it can be read.
    head: Apart,
    /// Written by the consumer: all before it can be overwritten.
    tail: Apart,
    region: Arc<Region>,
    part: Part,
}

/// Both ends of a ring in `part` of `region`.
pub(crate) fn ring(region: &Arc<Region>, part: Part) -> (Producer, Consumer) {
    debug_assert!(part.len().is_power_of_two() && part.len() >= RING_MIN);
    let shared = Arc::new(Shared { head: Apart::default(), tail: Apart::default(), region: Arc::clone(region), part });
    let producer =
        Producer { size: part.len(), head: 0, published: 0, tail: 0, reserved: None, ring: Arc::clone(&shared) };
    (producer, Consumer { size: part.len(), read: 0, head: 0, ring: shared })
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Producer {
    size: usize,
    /// Records are written up to here.
    head: u64,
    /// And shown up to here.
    published: u64,
    /// The consumer's position when last looked at.
    tail: u64,
    /// The place of the record that is being built, and its longest length.
    reserved: Option<(Fit, usize)>,
    ring: Arc<Shared>,
}

impl Producer {
    #[inline]
    fn fit(&mut self, len: usize) -> Option<Fit> {
        let found = fit(self.size, self.head, self.tail, len);
        if found.is_some() {
            return found;
        }
        self.tail = self.ring.tail.0.load(Ordering::Acquire);
        fit(self.size, self.head, self.tail, len)
    }

    /// Room for a record of up to `len` bytes, whose contents are arbitrary;
    /// the same until it is committed. `None` if the ring is full.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        let found = match self.reserved {
            Some((found, longest)) if longest >= len => found,
            _ => self.fit(len)?,
        };
        self.reserved = Some((found, len));
        // SAFETY: `fit` found these bytes within the ring and free: between
        // `head` and the consumer's `tail` plus the size. The consumer does
        // not touch them before `publish`, and nobody else has this end.
        Some(unsafe { self.ring.region.slice_mut(self.ring.part, found.at + HEADER, len) })
    }

    /// Completes the record that was reserved, with its length cut to the
    /// reserved one. Does nothing without a reservation.
    #[inline]
    pub fn commit(&mut self, head: Head) {
        let Some((found, longest)) = self.reserved.take() else { return };
        let head = Head { len: head.len.min(longest as u32), ..head };
        if found.skip > 0 {
            let end = Head { len: 0, kind: SKIP, flags: 0, note: 0 };
            self.write(self.head as usize & (self.size - 1), end, found.skip >= HEADER);
        }
        self.write(found.at, head, true);
        self.head += (found.skip + taken(head.len as usize)) as u64;
    }

    #[inline]
    fn write(&self, at: usize, head: Head, whole: bool) {
        let words = head.words();
        let count = if whole { 2 } else { 1 };
        // SAFETY: as in `reserve`: `fit` found the place free and within the
        // ring; at its end at least 8 bytes are left, since all is padded.
        unsafe { self.ring.region.write(self.ring.part, at, &words[..count]) };
    }

    /// Adds a record with a copy of `bytes`. Whether there was room.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], kind: u8, flags: u8, note: u64) -> bool {
        let Some(slot) = self.reserve(bytes.len()) else { return false };
        slot.copy_from_slice(bytes);
        self.commit(Head { len: bytes.len() as u32, kind, flags, note });
        true
    }

    /// Records of `len` bytes for which there is surely room.
    #[inline]
    pub fn room(&self, len: usize) -> usize {
        let free = self.size - (self.head - self.ring.tail.0.load(Ordering::Acquire)) as usize;
        // What may have to be skipped at the end is no room.
        free.saturating_sub(taken(len)) / taken(len)
    }

    /// Shows all committed records to the consumer. Whether there were any.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.head == self.published {
            return false;
        }
        self.published = self.head;
        self.ring.head.0.store(self.head, Ordering::Release);
        true
    }
}

/// A record to be read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub head: Head,
    at: u32,
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Consumer {
    size: usize,
    /// Records are taken up to here; given back up to the shared `tail`.
    read: u64,
    /// The producer's position when last looked at.
    head: u64,
    ring: Arc<Shared>,
}

impl Consumer {
    /// The next record. Its bytes stay until [`Consumer::release`].
    #[inline]
    pub fn take(&mut self) -> Option<Record> {
        loop {
            if self.read == self.head {
                self.head = self.ring.head.0.load(Ordering::Acquire);
                if self.read == self.head {
                    return None;
                }
            }
            let at = self.read as usize & (self.size - 1);
            let whole = self.size - at >= HEADER;
            let mut words = [0; 2];
            // SAFETY: the producer published what lies before `head`, and
            // leaves it alone until `tail` has passed it. A record or what is
            // skipped begins here, and has at least 8 bytes up to the end.
            unsafe { self.ring.region.read(self.ring.part, at, &mut words[..if whole { 2 } else { 1 }]) };
            let head = Head::of(words);
            if head.kind == SKIP {
                self.read += (self.size - at) as u64;
                continue;
            }
            self.read += taken(head.len as usize) as u64;
            return Some(Record { head, at: at as u32 });
        }
    }

    /// Puts the last record taken back: it is the next again.
    pub fn put_back(&mut self, record: &Record) {
        self.read -= taken(record.head.len as usize) as u64;
    }

    /// The bytes of a record taken since the last release.
    #[inline]
    pub fn bytes(&self, record: &Record) -> &[u8] {
        // SAFETY: `take` found the record published; it stays as it is until
        // `release`, which needs this end exclusively.
        unsafe { self.ring.region.slice(self.ring.part, record.at as usize + HEADER, record.head.len as usize) }
    }

    /// Whether a record waits.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.read != self.head || self.ring.head.0.load(Ordering::Acquire) != self.read
    }

    /// Gives the room of all records taken back to the producer.
    #[inline]
    pub fn release(&mut self) {
        self.ring.tail.0.store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
