//! Deadlines closer than a millisecond: one for each slot, in buckets of some
//! 65 µs.
//!
//! Unlike in the wheel a slot stands here once, and is moved or taken out when
//! its deadline changes: deadlines are near, and nearly all of them come. What
//! it costs does not depend on how many there are. Further off than the ring of
//! buckets spans is for the wheel.

use core::ops::Range;

/// Log2 of a bucket's nanoseconds.
const TICK_SHIFT: u32 = 16;
/// Buckets: they span 268 ms.
const BUCKETS: u64 = 4096;
const WORDS: usize = BUCKETS as usize / 64;

const _: () = assert!(WORDS == 64, "one bit a word");

/// Where a slot stands: its neighbours in the bucket's list. Slots are counted
/// from one, so that what was never used is zero and takes no memory.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The slot behind it; 0 is none.
    next: u32,
    /// The slot before it; 0 is none.
    previous: u32,
    /// Its bucket, counted from one; 0 where the slot does not stand here.
    bucket: u32,
}

/// The calendar. Times are in nanoseconds.
#[derive(Debug)]
pub struct Calendar {
    /// First slot of each bucket.
    heads: Box<[u32]>,
    /// Which buckets have slots, and which of these words are not zero.
    used: [u64; WORDS],
    words: u64,
    links: Vec<Link>,
    /// All ticks before this one are worked off.
    tick: u64,
    entries: usize,
    /// While there are some: the earliest bucket with slots.
    due: u64,
}

impl Calendar {
    /// An empty one for so many slots. What is not used costs no memory.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            heads: vec![0; BUCKETS as usize].into(),
            used: [0; WORDS],
            words: 0,
            links: Vec::with_capacity(slots),
            tick: 0,
            entries: 0,
            due: 0,
        }
    }

    /// Where the buckets and links are.
    pub fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        let heads = self.heads.as_ptr_range();
        each(heads.start.addr()..heads.end.addr());
        let links = self.links.as_ptr().addr();
        each(links..links + self.links.capacity() * size_of::<Link>());
    }

    /// Slots that stand here.
    #[inline]
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// When the next slot is due, at the latest; `None` if none stands here.
    #[inline]
    #[must_use]
    pub const fn next(&self) -> Option<u64> {
        if self.entries == 0 { None } else { Some(self.due << TICK_SHIFT) }
    }

    /// Whether [`Calendar::take`] has something to give.
    #[inline]
    #[must_use]
    const fn is_due(&self, now: u64) -> bool {
        self.entries != 0 && self.due <= now >> TICK_SHIFT
    }

    /// Has `slot` come up at `at`, or up to a bucket's time later; what has
    /// passed, with the next bucket. Returns whether that is near enough for
    /// the calendar: otherwise the slot stands nowhere.
    pub fn enter(&mut self, slot: u32, at: u64, now: u64) -> bool {
        self.remove(slot);
        if self.entries == 0 {
            // Nothing was worked off while nothing was there.
            self.tick = self.tick.max(now >> TICK_SHIFT);
        }
        // Never early: what came early would come again.
        let tick = at.div_ceil(1 << TICK_SHIFT).max(self.tick);
        if tick - self.tick >= BUCKETS {
            return false;
        }
        self.push(slot, tick);
        true
    }

    /// Whether a slot stands here and comes up at `at` at the latest, or in the
    /// bucket behind it.
    #[must_use]
    pub fn covers(&self, slot: u32, at: u64) -> bool {
        let Some(link) = self.links.get(slot as usize).filter(|link| link.bucket != 0) else { return false };
        let ahead = u64::from(link.bucket - 1).wrapping_sub(self.tick) % BUCKETS;
        self.tick + ahead <= at.div_ceil(1 << TICK_SHIFT).max(self.tick)
    }

    fn push(&mut self, slot: u32, tick: u64) {
        let bucket = (tick % BUCKETS) as usize;
        let index = slot as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, Link::default());
        }
        let next = core::mem::replace(&mut self.heads[bucket], slot + 1);
        if let Some(behind) = self.links.get_mut((next as usize).wrapping_sub(1)) {
            behind.previous = slot + 1;
        }
        self.links[index] = Link { next, previous: 0, bucket: bucket as u32 + 1 };
        self.used[bucket / 64] |= 1 << (bucket % 64);
        self.words |= 1 << (bucket / 64);
        self.due = if self.entries == 0 { tick } else { self.due.min(tick) };
        self.entries += 1;
    }

    /// Takes a slot out, if it stands here.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        if self.entries != 0 && self.links.get(slot as usize).is_some_and(|link| link.bucket != 0) {
            self.unlink(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Link { next, previous, bucket } = core::mem::take(&mut self.links[slot as usize]);
        let bucket = bucket as usize - 1;
        if let Some(behind) = self.links.get_mut((next as usize).wrapping_sub(1)) {
            behind.previous = previous;
        }
        match self.links.get_mut((previous as usize).wrapping_sub(1)) {
            Some(before) => before.next = next,
            None => self.heads[bucket] = next,
        }
        self.entries -= 1;
        if self.heads[bucket] == 0 {
            self.used[bucket / 64] &= !(1 << (bucket % 64));
            if self.used[bucket / 64] == 0 {
                self.words &= !(1 << (bucket / 64));
            }
            self.due = self.tick + self.ahead().unwrap_or(0);
        }
    }

    /// Hands slots that are due at `now` to `each`, up to `most` of them: they
    /// stand here no more. Returns whether that were all.
    pub fn take(&mut self, now: u64, most: usize, mut each: impl FnMut(u32)) -> bool {
        let last = now >> TICK_SHIFT;
        for _ in 0..most {
            if self.entries == 0 || self.due > last {
                break;
            }
            self.tick = self.due;
            let head = self.heads[(self.due % BUCKETS) as usize];
            let Some(slot) = head.checked_sub(1) else { break };
            self.unlink(slot);
            each(slot);
        }
        if self.is_due(now) {
            return false;
        }
        self.tick = self.tick.max(last + 1);
        true
    }

    /// Ticks from the current one until the next bucket with slots.
    fn ahead(&self) -> Option<u64> {
        let at = (self.tick % BUCKETS) as u32;
        let (word, bit) = ((at / 64) as usize, at % 64);
        let first = self.used[word] & (u64::MAX << bit);
        let bucket = if first != 0 {
            word as u32 * 64 + first.trailing_zeros()
        } else {
            if self.words == 0 {
                return None;
            }
            // The words behind this one, around the ring, this one last.
            let turned = self.words.rotate_right((word as u32 + 1) % 64);
            let next = (word + 1 + turned.trailing_zeros() as usize) % WORDS;
            next as u32 * 64 + self.used[next].trailing_zeros()
        };
        Some(u64::from(bucket.wrapping_sub(at)) % BUCKETS)
    }
}

#[cfg(test)]
mod tests;
