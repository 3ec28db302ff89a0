//! Connections of which a part of a request's head has come.

/// Which they are, by their slots, and how many.
#[derive(Debug, Default)]
pub struct ReadingSet {
    bits: Vec<u64>,
    count: u64,
}

impl ReadingSet {
    /// Room for so many slots.
    pub fn new(slots: usize) -> Self {
        Self { bits: vec![0; slots.div_ceil(64)], count: 0 }
    }

    /// One more, if it is not yet.
    pub fn add(&mut self, slot: usize) {
        let (at, bit) = (slot / 64, 1 << (slot % 64));
        if at >= self.bits.len() {
            self.bits.resize(at + 1, 0);
        }
        self.count += u64::from(self.bits[at] & bit == 0);
        self.bits[at] |= bit;
    }

    /// It is none, or none any more.
    pub fn remove(&mut self, slot: usize) {
        let (at, bit) = (slot / 64, 1 << (slot % 64));
        if let Some(word) = self.bits.get_mut(at).filter(|word| **word & bit != 0) {
            *word &= !bit;
            self.count -= 1;
        }
    }

    /// How many there are.
    pub const fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_once() {
        let mut set = ReadingSet::new(3);
        for (slot, count) in [(0, 1), (0, 1), (2, 2), (64, 3), (1_000, 4)] {
            set.add(slot);
            assert_eq!(set.count(), count);
        }
        for (slot, count) in [(1, 4), (0, 3), (0, 3), (5_000, 3), (1_000, 2)] {
            set.remove(slot);
            assert_eq!(set.count(), count);
        }
    }
}
