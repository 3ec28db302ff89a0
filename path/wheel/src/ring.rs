//! Buckets, and what is in them.

use core::ops::Range;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The entries of all buckets.
#[derive(Debug)]
pub(crate) struct Store {
    /// Slot, and next entry of the same list.
    entries: Vec<(u32, u32)>,
    /// The list of entries that are free.
    free: u32,
}

impl Store {
    pub(crate) fn new(room: usize) -> Self {
        Self { entries: Vec::with_capacity(room), free: NONE }
    }

    /// Where the entries are, what is not used yet included.
    pub(crate) fn memory(&self) -> Range<usize> {
        let start = self.entries.as_ptr().addr();
        start..start + self.entries.capacity() * size_of::<(u32, u32)>()
    }

    /// Puts `slot` in front of `list`.
    #[inline]
    fn push(&mut self, list: &mut u32, slot: u32) {
        let entry = (slot, *list);
        *list = match self.entries.get_mut(self.free as usize) {
            Some(free) => core::mem::replace(&mut self.free, core::mem::replace(free, entry).1),
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
    }

    /// Takes the first of `list`.
    #[inline]
    fn pop(&mut self, list: &mut u32) -> Option<u32> {
        let at = *list;
        let entry = self.entries.get_mut(at as usize)?;
        *list = core::mem::replace(&mut entry.1, core::mem::replace(&mut self.free, at));
        Some(entry.0)
    }
}

/// Buckets by tick, and which of them have entries: 64 for each of `WORDS`.
#[derive(Debug)]
pub(crate) struct Ring<const WORDS: usize> {
    buckets: Box<[u32]>,
    used: [u64; WORDS],
    /// Which of these words are not zero.
    words: u64,
}

impl<const WORDS: usize> Ring<WORDS> {
    const LEN: u32 = {
        assert!(WORDS <= 64, "one bit a word");
        WORDS as u32 * 64
    };

    pub(crate) fn new() -> Self {
        Self { buckets: vec![NONE; Self::LEN as usize].into(), used: [0; WORDS], words: 0 }
    }

    pub(crate) fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    #[inline]
    pub(crate) fn push(&mut self, store: &mut Store, tick: u32, slot: u32) {
        let at = tick % Self::LEN;
        store.push(&mut self.buckets[at as usize], slot);
        self.used[at as usize / 64] |= 1 << (at % 64);
        self.words |= 1 << (at / 64);
    }

    #[inline]
    pub(crate) fn pop(&mut self, store: &mut Store, tick: u32) -> Option<u32> {
        let at = tick % Self::LEN;
        let bucket = &mut self.buckets[at as usize];
        let slot = store.pop(bucket);
        if *bucket == NONE {
            let used = &mut self.used[at as usize / 64];
            *used &= !(1 << (at % 64));
            if *used == 0 {
                self.words &= !(1 << (at / 64));
            }
        }
        slot
    }

    #[inline]
    pub(crate) fn has(&self, tick: u32) -> bool {
        let at = tick % Self::LEN;
        self.used[at as usize / 64] & (1 << (at % 64)) != 0
    }

    /// Ticks from `now` until the next bucket with entries: 1 to once around.
    #[inline]
    pub(crate) fn ahead(&self, now: u32) -> Option<u32> {
        if self.words == 0 {
            return None;
        }
        let first = now.wrapping_add(1) % Self::LEN;
        let (word, bit) = (first / 64, first % 64);
        // The first word comes twice: its upper bits first, the lower ones at
        // the end.
        let upper = self.used[word as usize] & (u64::MAX << bit);
        if upper != 0 {
            return Some(upper.trailing_zeros() - bit + 1);
        }
        let behind = self.words & (u64::MAX << word << 1);
        let next = if behind != 0 { behind } else { self.words }.trailing_zeros();
        let steps = if next > word { next - word } else { next + WORDS as u32 - word };
        Some(steps * 64 + self.used[next as usize].trailing_zeros() - bit + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    /// What is ahead, by a look at each bucket in turn.
    #[test]
    fn what_is_ahead_is_the_next_bucket_with_entries() {
        let mut numbers = SplitMix64::new(7);
        let mut random = |n: usize| numbers.below(n) as u32;
        let (mut ring, mut store) = (Ring::<3>::new(), Store::new(0));
        for _ in 0..20_000 {
            let tick = random(192);
            // Mostly few are used.
            if random(10) < 3 {
                ring.push(&mut store, tick, 0);
            } else {
                while ring.pop(&mut store, tick).is_some() {}
            }
            let now = random(400);
            let seen = (1..=192).find(|ahead| ring.has(now + ahead));
            assert_eq!(ring.ahead(now), seen);
        }
    }
}
