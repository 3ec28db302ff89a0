//! From a path as it was sent straight to its entry.

use super::reader::EntryId;

/// Places in a set: how many paths with the same set a look-up compares.
const WAYS: usize = 4;

/// Longer paths take the long way (normalisation) every time.
const PATH_MAX: usize = 256;

/// A set-associative table of raw paths. A path in it was normalised before;
/// a full set forgets one of its paths, so nothing a client sends makes the
/// table grow or a look-up take longer.
#[derive(Debug)]
pub struct Hot {
    slots: Box<[Slot]>,
    /// Number of sets, less one.
    mask: usize,
    /// The way to replace next.
    turn: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    hash: u64,
    entry: EntryId,
    path: Box<[u8]>,
}

impl Hot {
    /// A table for about `paths` paths.
    pub fn new(paths: usize) -> Self {
        let sets = paths.div_ceil(WAYS).next_power_of_two();
        let entry = EntryId { slot: u32::MAX, generation: 0 };
        Self { slots: vec![Slot { hash: 0, entry, path: Box::default() }; sets * WAYS].into(), mask: sets - 1, turn: 0 }
    }

    /// The entry that `path` led to, if still known. Entries come and go: the
    /// caller compares the generation.
    #[inline]
    pub fn get(&self, path: &[u8]) -> Option<EntryId> {
        let hash = hash(path);
        let set = (hash as usize & self.mask) * WAYS;
        let ways = self.slots.get(set..set + WAYS)?;
        ways.iter().find(|slot| slot.hash == hash && *slot.path == *path).map(|slot| slot.entry)
    }

    /// Remembers where `path` leads.
    pub fn insert(&mut self, path: &[u8], entry: EntryId) {
        if path.is_empty() || path.len() > PATH_MAX {
            return;
        }
        let hash = hash(path);
        let set = (hash as usize & self.mask) * WAYS;
        let Some(ways) = self.slots.get_mut(set..set + WAYS) else { return };
        let at = match ways.iter().position(|slot| slot.hash == hash && *slot.path == *path) {
            Some(at) => at,
            None => ways.iter().position(|slot| slot.path.is_empty()).unwrap_or_else(|| {
                self.turn = (self.turn + 1) % WAYS;
                self.turn
            }),
        };
        ways[at] = Slot { hash, entry, path: path.into() };
    }
}

/// Eight bytes at a time; spreads well and need not withstand anyone, since
/// the whole path is compared.
#[inline]
fn hash(path: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Never 0 for the empty path, as that of an empty place is.
    let mut hash = path.len() as u64 + 1;
    let (words, rest) = path.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
        hash ^= hash >> 32;
    }
    let mut last = 0;
    for &byte in rest {
        last = last << 8 | u64::from(byte);
    }
    hash = (hash ^ last).wrapping_mul(ODD);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u32) -> EntryId {
        EntryId { slot, generation: 7 }
    }

    #[test]
    fn paths_are_found_again_and_replaced() {
        let mut hot = Hot::new(64);
        assert_eq!(hot.get(b"/"), None);
        hot.insert(b"/", entry(1));
        hot.insert(b"/a/long/path/with/many/segments.html", entry(2));
        assert_eq!(hot.get(b"/"), Some(entry(1)));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.html"), Some(entry(2)));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.htm"), None);
        hot.insert(b"/", entry(3));
        assert_eq!(hot.get(b"/"), Some(entry(3)));
        assert_eq!(hot.get(b""), None, "an empty place is not an empty path");
    }

    #[test]
    fn a_full_table_forgets_but_does_not_grow() {
        let mut hot = Hot::new(16);
        for at in 0..1000 {
            let path = format!("/file-{at}");
            hot.insert(path.as_bytes(), entry(at));
            assert_eq!(hot.get(path.as_bytes()), Some(entry(at)));
        }
        assert_eq!(hot.slots.len(), 16);
        let kept = (0..1000).filter(|at| hot.get(format!("/file-{at}").as_bytes()) == Some(entry(*at))).count();
        assert_eq!(kept, 16);
    }

    #[test]
    fn a_path_too_long_to_keep_is_not_kept() {
        let mut hot = Hot::new(16);
        let path = vec![b'a'; PATH_MAX + 1];
        hot.insert(&path, entry(1));
        assert_eq!(hot.get(&path), None);
    }
}
