//! What a receiver holds: in-order bytes that the application did not take
//! yet, and bytes that arrived ahead of a gap.
//!
//! The in-order bytes lie in one buffer, so that the application sees them as
//! one slice. Early bytes lie in a chunk for each range, and are moved behind
//! the in-order ones when the gap before them is filled: memory is taken for
//! bytes that came, never for the distance between them. Made when a
//! connection first needs it and droppable when empty.
//!
//! ```text
//!   head          next (RCV.NXT)
//!    ▼             ▼
//!    [ contiguous  |        [ range ]      [ range ]
//! ```
//!
//! Call order for an in-order segment: the application was offered the bytes
//! in the frame, if [`ReceiveBuffer::contiguous`] was empty, and took some:
//! `skip` those, `hold` the rest. With bytes held already: `hold` all of it,
//! then offer `contiguous` and `consume`. Then [`ReceiveBuffer::advance`]
//! joins what the segment reached, and RCV.NXT moves on by its result.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use wire::tcp::{MAX_SACK_BLOCKS, SackBlocks, SeqNum};

/// Disjoint ranges ahead of the gap. A segment that would need one more is
/// dropped and counted; the peer sends it again.
pub const MAX_RANGES: usize = 256;

/// Capacity below this is not given back while bytes are held.
const KEEP_CAPACITY: usize = 4 * 1024;

/// What the allocator adds to a chunk, about.
const ALLOCATION: usize = 16;

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

/// Bytes from `start` in the stream's own count on, and when they last grew.
#[derive(Clone, Debug)]
struct Range {
    start: u64,
    bytes: VecDeque<u8>,
    stamp: u32,
}

impl Range {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// What it costs beside its place in the list.
    fn charge(&self) -> usize {
        self.bytes.capacity() + ALLOCATION
    }

    fn append(&mut self, bytes: &[u8]) {
        let len = self.bytes.len();
        if self.bytes.capacity() - len < bytes.len() {
            self.bytes.reserve_exact(growth(len, bytes.len()));
        }
        self.bytes.extend(bytes);
    }

    /// Moves as many bytes as are added, not all that are there.
    fn prepend(&mut self, bytes: &[u8]) {
        self.append(bytes);
        self.bytes.rotate_right(bytes.len());
        self.start -= bytes.len() as u64;
    }

    /// Makes one range of this, `others` that follow it, and `bytes` from
    /// `start` on, which touch all of them. The smaller move to the larger:
    /// over its life a byte moves at most as often as its range can double.
    fn join(&mut self, others: Vec<Self>, start: u64, bytes: &[u8]) {
        for mut other in others {
            let gap = slice(bytes, start, self.end(), other.start);
            if self.bytes.len() >= other.bytes.len() {
                self.append(gap);
                self.append_range(&other);
            } else {
                other.prepend(gap);
                other.prepend_range(self);
                *self = other;
            }
        }
        self.append(slice(bytes, start, self.end(), start + bytes.len() as u64));
        self.prepend(slice(bytes, start, start, self.start));
    }

    fn append_range(&mut self, other: &Self) {
        let (front, back) = other.bytes.as_slices();
        self.append(front);
        self.append(back);
    }

    fn prepend_range(&mut self, other: &Self) {
        let (front, back) = other.bytes.as_slices();
        self.prepend(back);
        self.prepend(front);
    }
}

/// The received bytes of one connection that are not the application's yet.
#[derive(Clone, Debug, Default)]
pub struct ReceiveBuffer {
    /// In-order bytes, behind `head` consumed ones.
    data: Vec<u8>,
    /// Where the in-order bytes start in `data`.
    head: usize,
    /// How many of these are plaintext of records that were opened; the rest are records.
    opened: usize,
    /// Stream position of RCV.NXT, from an arbitrary origin.
    next: u64,
    /// Sorted, disjoint, not touching, above `next`.
    ranges: Vec<Range>,
    /// What all of their chunks cost.
    chunks: usize,
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
        let span = (offset as usize).saturating_add(bytes.len());
        if self.held().saturating_add(span) > limit {
            return Inserted::NoSpace;
        }
        if bytes.is_empty() {
            return Inserted::Duplicate;
        }
        self.add_range(self.next + u64::from(offset), bytes)
    }

    /// Of `len` bytes from `offset` after RCV.NXT on, the first that are held
    /// ahead of a gap: where they begin after RCV.NXT, and how many.
    #[must_use]
    pub fn first_early(&self, offset: u32, len: u32) -> Option<(u32, u32)> {
        let start = self.next + u64::from(offset);
        let end = start + u64::from(len);
        let at = self.ranges.partition_point(|range| range.end() <= start);
        let range = self.ranges.get(at).filter(|range| range.start < end)?;
        let (first, last) = (range.start.max(start), range.end().min(end));
        Some(((first - self.next) as u32, (last - first) as u32))
    }

    /// `len` in-order bytes were consumed in the frame, while nothing was
    /// held. RCV.NXT moves on by as many.
    pub const fn skip(&mut self, len: usize) {
        debug_assert!(self.held() == 0);
        self.next += len as u64;
    }

    /// Appends in-order bytes that were not consumed. RCV.NXT moves on by as
    /// many.
    pub fn hold(&mut self, bytes: &[u8]) {
        let len = self.data.len();
        if self.data.capacity() - len < bytes.len() {
            self.data.reserve_exact(growth(len, bytes.len()));
        }
        self.data.extend_from_slice(bytes);
        self.next += bytes.len() as u64;
    }

    /// Joins early bytes that [`ReceiveBuffer::skip`] or
    /// [`ReceiveBuffer::hold`] reached. Returns how many became in order;
    /// RCV.NXT moves on by as many.
    pub fn advance(&mut self) -> u32 {
        let before = self.next;
        let reached = self.ranges.partition_point(|range| range.start <= self.next);
        for range in self.ranges.drain(..reached) {
            self.chunks -= range.charge();
            let known = usize::try_from(self.next - range.start).unwrap_or(usize::MAX);
            let (front, back) = range.bytes.as_slices();
            let skipped = known.saturating_sub(front.len());
            self.data.extend_from_slice(front.get(known..).unwrap_or(&[]));
            self.data.extend_from_slice(back.get(skipped..).unwrap_or(&[]));
            self.next = self.next.max(range.end());
        }
        if self.ranges.is_empty() {
            self.ranges = Vec::new();
        }
        (self.next - before) as u32
    }

    /// The in-order bytes.
    #[inline]
    #[must_use]
    pub fn contiguous(&self) -> &[u8] {
        self.data.get(self.head..).unwrap_or(&[])
    }

    /// What is held is plaintext.
    pub const fn note_opened(&mut self) {
        self.opened = self.held();
    }

    /// The plaintext that is held.
    #[must_use]
    pub fn opened(&self) -> &[u8] {
        self.contiguous().get(..self.opened).unwrap_or(&[])
    }

    /// The records behind it, the last of which may not be all there.
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        self.contiguous().get(self.opened..).unwrap_or(&[])
    }

    /// The first `len` bytes of the records were opened, and `plain`, which is no longer, is
    /// what they carry. Of what lies before and behind, the shorter moves.
    pub fn open(&mut self, len: usize, plain: &[u8]) {
        let start = (self.head + self.opened).min(self.data.len());
        let end = (start + len).min(self.data.len());
        let plain = plain.get(..end - start).unwrap_or(plain);
        let spare = end - start - plain.len();
        if self.opened <= self.data.len() - end {
            self.data.copy_within(self.head..start, self.head + spare);
            self.head += spare;
            self.write(start + spare, plain);
        } else {
            self.write(start, plain);
            self.data.drain(end - spare..end);
        }
        self.opened += plain.len();
        if self.held() == 0 {
            self.compact();
        }
    }

    /// Forgets the records that were not opened: nothing follows.
    pub fn drop_sealed(&mut self) {
        self.data.truncate(self.head + self.opened);
        self.compact();
    }

    /// Drops `len` in-order bytes from the front.
    pub fn consume(&mut self, len: usize) {
        self.head += len.min(self.held());
        self.opened = self.opened.saturating_sub(len);
        self.compact();
    }

    /// Forgets the bytes ahead of the gap, although they were acknowledged
    /// selectively: the peer keeps them until they are acknowledged in order,
    /// and sends them again (RFC 2018 section 8).
    pub fn forget_early(&mut self) {
        self.ranges = Vec::new();
        self.chunks = 0;
    }

    /// Whether bytes ahead of a gap are held: such an ACK carries SACK blocks
    /// and is sent at once (RFC 5681 section 4.2).
    #[inline]
    #[must_use]
    pub const fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether nothing is held at all.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held() == 0 && self.ranges.is_empty()
    }

    /// Memory that the held bytes take, in bytes; none if there are none.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.data.capacity() + self.early_bytes()
    }

    /// Of these, what bytes ahead of a gap take.
    #[inline]
    #[must_use]
    pub const fn early_bytes(&self) -> usize {
        self.chunks + self.ranges.capacity() * size_of::<Range>()
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
            out.push(edge(range.start), edge(range.end()));
        }
        out
    }
}

impl ReceiveBuffer {
    /// Insertions since the range last grew.
    fn age(&self, range: &Range) -> u32 {
        self.stamp.wrapping_sub(range.stamp)
    }

    /// Writes over what stands at `at`.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.data.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// How many in-order bytes there are.
    const fn held(&self) -> usize {
        self.data.len() - self.head
    }

    fn add_range(&mut self, start: u64, bytes: &[u8]) -> Inserted {
        self.stamp = self.stamp.wrapping_add(1);
        let end = start + bytes.len() as u64;
        let first = self.ranges.partition_point(|range| range.end() < start);
        let after = self.ranges.partition_point(|range| range.start <= end);
        if first == after {
            if self.ranges.len() >= MAX_RANGES {
                return Inserted::NoRange;
            }
            let range = Range { start, bytes: VecDeque::from(bytes.to_vec()), stamp: self.stamp };
            self.chunks += range.charge();
            self.ranges.insert(first, range);
            return Inserted::Stored(bytes.len() as u32);
        }
        let touched = self.ranges.get(first..after).unwrap_or(&[]);
        let had: usize = touched.iter().map(|range| range.bytes.len()).sum();
        self.chunks -= touched.iter().map(Range::charge).sum::<usize>();
        let others: Vec<Range> = self.ranges.drain(first + 1..after).collect();
        let Some(place) = self.ranges.get_mut(first) else { return Inserted::NoRange };
        place.join(others, start, bytes);
        place.stamp = self.stamp;
        self.chunks += place.charge();
        let new = place.bytes.len() - had;
        if new == 0 { Inserted::Duplicate } else { Inserted::Stored(new as u32) }
    }

    /// Moves the rest to the front once that is no longer than what was
    /// consumed before it: each byte consumed pays for one byte moved. Memory
    /// goes with the bytes.
    fn compact(&mut self) {
        let rest = self.held();
        if rest == 0 {
            self.data = Vec::new();
            self.head = 0;
            return;
        }
        if self.head >= rest {
            self.data.drain(..self.head);
            self.head = 0;
            if self.data.capacity() > KEEP_CAPACITY.max(4 * rest) {
                self.data.shrink_to(2 * rest);
            }
        }
    }
}

/// How much longer a chunk is made that has no room for `more` bytes: a quarter
/// of what it is at least, so that a byte is moved a few times at most, and no
/// more, because all of it is charged.
fn growth(len: usize, more: usize) -> usize {
    more.max(len / 4)
}

/// Those of `bytes`, which begin at `start`, that lie between two positions.
fn slice(bytes: &[u8], start: u64, from: u64, to: u64) -> &[u8] {
    let at = |position: u64| position.saturating_sub(start) as usize;
    bytes.get(at(from)..at(to)).unwrap_or(&[])
}
