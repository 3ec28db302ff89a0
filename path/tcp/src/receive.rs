//! What a receiver holds: in-order bytes that the application did not take
//! yet, and bytes that arrived ahead of a gap.
//!
//! Both lie in one buffer at their final places, so that a byte is copied
//! once on arrival however small its segment was, and the application sees
//! the in-order part as one slice. Made when a connection first needs it and
//! droppable when empty.
//!
//! ```text
//!   head          next (RCV.NXT)
//!    ▼             ▼
//!    [ contiguous  |  gap  | range |  gap  | range ]
//! ```
//!
//! Call order for an in-order segment: the application was offered the bytes
//! in the frame, if [`ReceiveBuffer::contiguous`] was empty, and took some:
//! `skip` those, `hold` the rest. With bytes held already: `hold` all of it,
//! then offer `contiguous` and `consume`. Then [`ReceiveBuffer::advance`]
//! joins what the segment reached, and RCV.NXT moves on by its result.

#[cfg(test)]
mod tests;

use wire::tcp::{MAX_SACK_BLOCKS, SackBlocks, SeqNum};

/// Disjoint ranges ahead of the gap. A segment that would need one more is
/// dropped and counted; the peer sends it again.
pub const MAX_RANGES: usize = 256;

/// The buffer gives up capacity above this when it empties.
const KEEP_CAPACITY: usize = 4 * 1024;

/// What became of bytes ahead of the gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// Kept; so many of them were new.
    Stored(u32),
    /// All of them were there already.
    Duplicate,
    /// Dropped: [`MAX_RANGES`] is reached.
    NoRange,
    /// Dropped: beyond the limit given.
    NoSpace,
}

/// `[start, end)` in the stream's own count, and when it last grew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: u64,
    end: u64,
    stamp: u32,
}

/// The received bytes of one connection that are not the application's yet.
#[derive(Clone, Debug, Default)]
pub struct ReceiveBuffer {
    /// Bytes from stream position `next - (head..)` on; see the module.
    data: Vec<u8>,
    /// Where the in-order bytes start in `data`.
    head: usize,
    /// How many in-order bytes there are.
    held: usize,
    /// Stream position of RCV.NXT, from an arbitrary origin.
    next: u64,
    /// Sorted, disjoint, not touching, above `next`.
    ranges: Vec<Range>,
    /// Counts insertions, for the order of SACK blocks.
    stamp: u32,
}

impl ReceiveBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps bytes that lie `offset` after RCV.NXT. `limit` bounds held and
    /// early bytes together, gaps included: the receive window.
    pub fn insert(&mut self, offset: u32, bytes: &[u8], limit: usize) -> Inserted {
        let offset = offset as usize;
        let span = offset.saturating_add(bytes.len());
        if self.held.saturating_add(span) > limit {
            return Inserted::NoSpace;
        }
        if bytes.is_empty() {
            return Inserted::Duplicate;
        }
        let start = self.next + offset as u64;
        let new = self.add_range(start, start + bytes.len() as u64);
        if let Inserted::Stored(_) = new {
            self.write(offset, bytes);
        }
        new
    }

    /// `len` in-order bytes were consumed in the frame, while nothing was
    /// held. RCV.NXT moves on by as many.
    pub fn skip(&mut self, len: usize) {
        debug_assert!(self.held == 0);
        self.next += len as u64;
        self.head = (self.head + len).min(self.data.len());
        self.compact();
    }

    /// Appends in-order bytes that were not consumed. RCV.NXT moves on by as
    /// many.
    pub fn hold(&mut self, bytes: &[u8]) {
        self.write(0, bytes);
        self.held += bytes.len();
        self.next += bytes.len() as u64;
    }

    /// Joins early bytes that [`ReceiveBuffer::skip`] or
    /// [`ReceiveBuffer::hold`] reached. Returns how many became in order;
    /// RCV.NXT moves on by as many.
    pub fn advance(&mut self) -> u32 {
        let reached = self.ranges.partition_point(|range| range.start <= self.next);
        let end = self.ranges.drain(..reached).map(|range| range.end).max().unwrap_or(0);
        let joined = end.saturating_sub(self.next);
        self.held += joined as usize;
        self.next += joined;
        joined as u32
    }

    /// The in-order bytes.
    #[inline]
    #[must_use]
    pub fn contiguous(&self) -> &[u8] {
        self.data.get(self.head..self.head + self.held).unwrap_or(&[])
    }

    /// Drops `len` in-order bytes from the front.
    pub fn consume(&mut self, len: usize) {
        let len = len.min(self.held);
        self.head += len;
        self.held -= len;
        self.compact();
    }

    /// Whether bytes ahead of a gap are held: such an ACK carries SACK blocks
    /// and is sent at once (RFC 5681 section 4.2).
    #[inline]
    #[must_use]
    pub fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether nothing is held at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held == 0 && self.ranges.is_empty()
    }

    /// Memory in use, in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.data.capacity() + self.ranges.capacity() * size_of::<Range>()
    }

    /// The SACK blocks to report: first `duplicate`, what came twice, if
    /// anything did (RFC 2883 section 4); then the range that grew last, or
    /// that the duplicate lies in, then the others from the most recent on
    /// (RFC 2018 section 4).
    #[must_use]
    pub fn sack_blocks(&self, rcv_nxt: SeqNum, duplicate: Option<(SeqNum, SeqNum)>) -> SackBlocks {
        let mut newest: [Option<&Range>; MAX_SACK_BLOCKS] = [None; MAX_SACK_BLOCKS];
        for range in &self.ranges {
            let mut candidate = Some(range);
            for place in &mut newest {
                let later = match (&candidate, &place) {
                    (Some(new), Some(old)) => self.age(new) < self.age(old),
                    (new, _) => new.is_some(),
                };
                if later {
                    core::mem::swap(place, &mut candidate);
                }
            }
        }
        let mut out = SackBlocks::EMPTY;
        if let Some((start, end)) = duplicate {
            out.push(start, end);
        }
        for range in newest.into_iter().flatten() {
            let edge = |position: u64| rcv_nxt.plus((position - self.next) as u32);
            out.push(edge(range.start), edge(range.end));
        }
        out
    }
}

impl ReceiveBuffer {
    /// Insertions since the range last grew.
    fn age(&self, range: &Range) -> u32 {
        self.stamp.wrapping_sub(range.stamp)
    }

    fn add_range(&mut self, start: u64, end: u64) -> Inserted {
        self.stamp = self.stamp.wrapping_add(1);
        let stamp = self.stamp;
        let first = self.ranges.partition_point(|range| range.end < start);
        let after = self.ranges.partition_point(|range| range.start <= end);
        let touched = self.ranges.get(first..after).unwrap_or(&[]);
        let (Some(low), Some(high)) = (touched.first(), touched.last()) else {
            if self.ranges.len() >= MAX_RANGES {
                return Inserted::NoRange;
            }
            self.ranges.insert(first, Range { start, end, stamp });
            return Inserted::Stored((end - start) as u32);
        };
        let had: u64 = touched.iter().map(|range| range.end - range.start).sum();
        let joined = Range { start: low.start.min(start), end: high.end.max(end), stamp };
        let new = (joined.end - joined.start) - had;
        self.ranges.drain(first + 1..after);
        if let Some(range) = self.ranges.get_mut(first) {
            *range = joined;
        }
        if new == 0 { Inserted::Duplicate } else { Inserted::Stored(new as u32) }
    }

    /// Writes at RCV.NXT plus `offset`.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let at = self.head + self.held + offset;
        let end = at + bytes.len();
        if self.data.len() == at {
            self.data.extend_from_slice(bytes);
            return;
        }
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        if let Some(place) = self.data.get_mut(at..end) {
            place.copy_from_slice(bytes);
        }
    }

    /// Moves the rest to the front once that is no longer than what was
    /// consumed before it: each byte consumed pays for one byte moved.
    fn compact(&mut self) {
        if self.is_empty() {
            self.data.clear();
            self.head = 0;
            self.data.shrink_to(KEEP_CAPACITY);
            return;
        }
        let rest = self.data.len() - self.head;
        if self.head >= rest {
            self.data.copy_within(self.head.., 0);
            self.data.truncate(rest);
            self.head = 0;
        }
    }
}
