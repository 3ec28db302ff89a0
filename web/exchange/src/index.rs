//! From a path to the place where what is known of it is kept.

use core::hint::cold_path;

/// A table of places by the hash of a path and a seed: open addressing, linear
/// probing, eight bytes a bucket, at most half full. Who asks compares what it
/// finds, for two paths may have one hash.
///
/// Clients choose the paths, so the hash is keyed: they cannot aim at a bucket, and
/// a look-up stays short whatever they ask for.
#[derive(Debug)]
pub struct Index {
    buckets: Box<[Bucket]>,
    mask: usize,
    keys: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The lower half of the hash: where it belongs, and what tells it apart.
    tag: u32,
    at: u32,
}

const EMPTY: Bucket = Bucket { tag: 0, at: u32::MAX };

impl Index {
    /// A table for so many places, hashed by these secret keys.
    #[must_use]
    pub fn new(places: usize, keys: [u64; 2]) -> Self {
        let buckets = vec![EMPTY; (2 * places).next_power_of_two().max(2)].into_boxed_slice();
        Self { mask: buckets.len() - 1, buckets, keys }
    }

    /// The hash of `path`, as far as the seed tells others of the same path apart.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, path: &[u8], seed: u64) -> u64 {
        let [a, b] = self.keys;
        fold(self.path_hash(path) ^ a, seed ^ b)
    }

    /// The hash of `path`, where it is all that counts.
    #[inline(always)]
    #[must_use]
    pub fn path_hash(&self, path: &[u8]) -> u64 {
        let [a, b] = self.keys;
        let (first, last) = ends(path);
        let mut hash = fold(first ^ a, last ^ b ^ path.len() as u64);
        if path.len() > 16 {
            for word in path.as_chunks::<8>().0 {
                hash = fold(hash ^ a, u64::from_le_bytes(*word) ^ b);
            }
        }
        hash
    }

    /// Forgets all places.
    pub fn clear(&mut self) {
        self.buckets.fill(EMPTY);
    }

    /// What stands in the first bucket of this hash, if that is of it: nearly always it is what
    /// is looked for. [`Index::find`] looks further; no place is `u32::MAX`.
    #[inline(always)]
    pub(crate) fn first(&self, hash: u64) -> Option<u32> {
        let bucket = self.buckets.get(hash as usize & self.mask)?;
        (bucket.tag == hash as u32).then_some(bucket.at)
    }

    /// The first place with this hash that `is` it.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut next = hash as usize & self.mask;
        loop {
            let bucket = self.buckets.get(next)?;
            if bucket.tag == hash as u32 && bucket.at != EMPTY.at && is(bucket.at) {
                return Some(bucket.at);
            }
            if bucket.at == EMPTY.at {
                return None;
            }
            cold_path();
            next = (next + 1) & self.mask;
        }
    }

    /// Notes that what has this hash is `at` this place. Not for more places than the
    /// table was made for.
    pub fn insert(&mut self, hash: u64, at: u32) {
        let mut next = hash as usize & self.mask;
        while self.buckets[next].at != EMPTY.at {
            next = (next + 1) & self.mask;
        }
        self.buckets[next] = Bucket { tag: hash as u32, at };
    }

    /// Forgets that what has this hash is `at` this place.
    pub fn remove(&mut self, hash: u64, at: u32) {
        let mut hole = hash as usize & self.mask;
        while self.buckets[hole].at != at {
            if self.buckets[hole].at == EMPTY.at {
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        // What stands behind it moves up, as far as it may: no gap is left that a
        // look-up would end at.
        let mut next = hole;
        loop {
            next = (next + 1) & self.mask;
            let bucket = self.buckets[next];
            if bucket.at == EMPTY.at {
                break;
            }
            let from_home = next.wrapping_sub(bucket.tag as usize) & self.mask;
            if from_home >= (next.wrapping_sub(hole) & self.mask) {
                self.buckets[hole] = bucket;
                hole = next;
            }
        }
        self.buckets[hole] = EMPTY;
    }
}

/// The product of two words, its halves laid over each other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The first and the last eight bytes, which overlap in paths shorter than
/// sixteen; with the length they are all of such a path.
#[inline(always)]
fn ends(path: &[u8]) -> (u64, u64) {
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
    use random::SplitMix64;
    use std::collections::HashMap;

    /// Against a map: places that come and go, in a table that is as full as it may be.
    #[test]
    fn places_are_found_as_long_as_they_are_there() {
        let mut random = SplitMix64::new(0x1234_5678_9abc_def1);
        let mut next = |below: u64| random.up_to(below - 1);
        let mut index = Index::new(64, [next(u64::MAX), next(u64::MAX)]);
        let mut model: HashMap<(Vec<u8>, u64), u32> = HashMap::new();
        let mut names: Vec<Option<(Vec<u8>, u64)>> = vec![None; 64];
        for _ in 0..20_000 {
            let path = format!("/{}", "x".repeat(next(30) as usize)).into_bytes();
            let name = (path, next(4));
            let hash = index.hash(&name.0, name.1);
            let found = index.find(hash, |at| names[at as usize].as_ref() == Some(&name));
            assert_eq!(found, model.get(&name).copied());
            let at = next(64) as usize;
            if found.is_none() {
                if let Some(old) = names[at].replace(name.clone()) {
                    model.remove(&old);
                    index.remove(index.hash(&old.0, old.1), at as u32);
                }
                model.insert(name, at as u32);
                index.insert(hash, at as u32);
            }
        }
        assert!(model.len() > 50, "the table was full: {}", model.len());
        for (name, at) in &model {
            let hash = index.hash(&name.0, name.1);
            assert_eq!(index.find(hash, |at| names[at as usize].as_ref() == Some(name)), Some(*at));
        }
    }

    #[test]
    fn keys_make_other_hashes_and_so_do_seeds() {
        let (one, other) = (Index::new(8, [1 << 60 | 5, 1 << 59 | 3]), Index::new(8, [1 << 58 | 7, 1 << 57 | 9]));
        for path in [&b"/"[..], b"/index.html", b"/a/longer/path/than/sixteen/bytes.html"] {
            assert_ne!(one.hash(path, 0), other.hash(path, 0));
            assert_ne!(one.hash(path, 0), one.hash(path, 1));
        }
        assert_eq!(one.find(one.hash(b"", 0), |_| true), None, "an empty bucket is no place");
    }
}
