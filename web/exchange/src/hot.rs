//! From a path as it was sent straight to what is known of it.

use core::hint::cold_path;

/// Places in a set: how many paths with the same set a look-up compares.
const WAYS: usize = 4;

/// Longer paths take the long way (normalisation) every time.
const PATH_MAX: usize = 256;

/// A set-associative table of raw paths. A path in it was normalised before;
/// a full set forgets one of its paths, so nothing a client sends makes the
/// table grow or a look-up take longer.
///
/// A `seed` keeps paths of several hosts apart; whoever uses one compares what it
/// finds, for two seeds may make one of two paths.
#[derive(Debug)]
pub struct Hot<T> {
    slots: Box<[Slot<T>]>,
    /// Number of sets, less one.
    mask: usize,
    /// The way to replace next.
    turn: usize,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    hash: u64,
    entry: T,
    path: Box<[u8]>,
}

impl<T: Copy> Hot<T> {
    /// A table for about `paths` paths; `entry` is nobody's.
    #[must_use]
    pub fn new(paths: usize, entry: T) -> Self {
        let sets = paths.div_ceil(WAYS).next_power_of_two();
        Self { slots: vec![Slot { hash: 0, entry, path: Box::default() }; sets * WAYS].into(), mask: sets - 1, turn: 0 }
    }

    /// The entry that `path` led to, if still known. Entries come and go: the
    /// caller compares the generation.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, path: &[u8], seed: u64) -> Option<T> {
        let hash = hash(path) ^ seed | 1 << 63;
        let set = (hash as usize & self.mask) * WAYS;
        let ways: &[Slot<T>; WAYS] = self.slots.get(set..)?.first_chunk()?;
        let first = ways.iter().find(|slot| slot.hash == hash)?;
        if equal(&first.path, path) {
            return Some(first.entry);
        }
        cold_path();
        // Two paths with one hash.
        ways.iter().find(|slot| slot.hash == hash && *slot.path == *path).map(|slot| slot.entry)
    }

    /// Remembers where `path` leads.
    pub fn insert(&mut self, path: &[u8], seed: u64, entry: T) {
        if path.is_empty() || path.len() > PATH_MAX {
            return;
        }
        let hash = hash(path) ^ seed | 1 << 63;
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

/// Spreads well and need not withstand anyone, since the whole path is
/// compared. With its highest bit set it is never 0, which is the hash of an empty
/// place.
#[inline(always)]
fn hash(path: &[u8]) -> u64 {
    let length = path.len() as u64;
    let (first, last) = ends(path);
    let mut hash = fold(first ^ length, last);
    if path.len() > 16 {
        for word in path.as_chunks::<8>().0 {
            hash = fold(hash, u64::from_le_bytes(*word));
        }
    }
    hash
}

/// The product of two words, its halves laid over each other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
    product as u64 ^ (product >> 64) as u64
}

/// The first and the last eight bytes, which overlap in paths shorter than
/// sixteen; with the length they are all of such a path.
#[inline(always)]
pub(crate) fn ends(path: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (path.first_chunk::<8>(), path.last_chunk::<8>()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (path.first_chunk::<4>(), path.last_chunk::<4>()) {
        return (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
    }
    match *path {
        [a] => (a.into(), 0),
        [a, b] => (a.into(), b.into()),
        [a, b, c] => (u64::from(a) << 8 | u64::from(b), c.into()),
        _ => (0, 0),
    }
}

/// As `==`, without a call for short paths.
#[inline(always)]
#[must_use]
pub fn equal(kept: &[u8], path: &[u8]) -> bool {
    kept.len() == path.len() && if path.len() <= 16 { ends(kept) == ends(path) } else { kept == path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_again_and_replaced() {
        let mut hot = Hot::new(64, 0);
        assert_eq!(hot.get(b"/", 0), None);
        hot.insert(b"/", 0, 1);
        hot.insert(b"/a/long/path/with/many/segments.html", 0, 2);
        assert_eq!(hot.get(b"/", 0), Some(1));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.html", 0), Some(2));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.htm", 0), None);
        hot.insert(b"/", 0, 3);
        assert_eq!(hot.get(b"/", 0), Some(3));
        assert_eq!(hot.get(b"", 0), None, "an empty place is not an empty path");
    }

    #[test]
    fn paths_are_compared_in_every_byte() {
        for length in 1..40_usize {
            let path: Vec<u8> = (0..length).map(|at| at as u8 + 64).collect();
            assert!(equal(&path, &path.clone()));
            assert_eq!(hash(&path), hash(&path.clone()));
            for at in 0..length {
                let mut other = path.clone();
                other[at] ^= 1;
                assert!(!equal(&path, &other) && hash(&path) != hash(&other), "byte {at} of {length}");
            }
            assert!(!equal(&path, &path[1..]));
        }
    }

    #[test]
    fn seeds_keep_one_path_apart() {
        let mut hot = Hot::new(16, 0);
        hot.insert(b"/a", 1, 1);
        hot.insert(b"/a", 2, 2);
        assert_eq!([hot.get(b"/a", 1), hot.get(b"/a", 2), hot.get(b"/a", 3)], [Some(1), Some(2), None]);
    }

    #[test]
    fn a_full_table_forgets_but_does_not_grow() {
        let mut hot = Hot::new(16, 0);
        for at in 0..1000 {
            let path = format!("/file-{at}");
            hot.insert(path.as_bytes(), 0, at);
            assert_eq!(hot.get(path.as_bytes(), 0), Some(at));
        }
        assert_eq!(hot.slots.len(), 16);
        let kept = (0..1000).filter(|at| hot.get(format!("/file-{at}").as_bytes(), 0) == Some(*at)).count();
        assert_eq!(kept, 16);
    }

    #[test]
    fn a_path_too_long_to_keep_is_not_kept() {
        let mut hot = Hot::new(16, 0);
        let path = vec![b'a'; PATH_MAX + 1];
        hot.insert(&path, 0, 1);
        assert_eq!(hot.get(&path, 0), None);
    }
}
