//! From a path as it was sent straight to what is known of it.

use crate::index::{Index, equal};
use core::hint::cold_path;

/// Longer paths take the long way (normalisation) every time.
const PATH_MAX: usize = 256;

/// Paths as they were sent, bounded in number: nothing that a client sends makes the table
/// grow beyond that or a look-up take longer, and while there is room none pushes another
/// out. A path in it was looked at before.
#[derive(Debug)]
pub struct Hot<T> {
    index: Index,
    places: Vec<Place<T>>,
    /// Places, at most.
    most: usize,
    /// The place to replace next.
    hand: usize,
}

#[derive(Clone, Debug)]
struct Place<T> {
    path: Box<[u8]>,
    entry: T,
}

impl<T: Copy> Hot<T> {
    /// A table for so many paths, hashed by these secret keys.
    #[must_use]
    pub fn new(paths: usize, keys: [u64; 2]) -> Self {
        Self { index: Index::new(paths, keys), places: Vec::new(), most: paths, hand: 0 }
    }

    /// The entry that `path` led to, if still known. Entries come and go: the
    /// caller compares their serials.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<T> {
        let hash = self.index.path_hash(path);
        if let Some(at) = self.index.first(hash)
            && let Some(place) = self.places.get(at as usize)
            && equal(&place.path, path)
        {
            return Some(place.entry);
        }
        cold_path();
        self.get_further(path, hash)
    }

    /// The same of a path whose first bucket is another's.
    #[inline(never)]
    fn get_further(&self, path: &[u8], hash: u64) -> Option<T> {
        let is = |at: u32| self.places.get(at as usize).is_some_and(|place| *place.path == *path);
        let at = self.index.find(hash, is)?;
        self.places.get(at as usize).map(|place| place.entry)
    }

    /// Forgets all paths.
    pub fn clear(&mut self) {
        self.index.clear();
        (self.places, self.hand) = (Vec::new(), 0);
    }

    /// Remembers where `path` leads.
    pub fn insert(&mut self, path: &[u8], entry: T) {
        if path.len() > PATH_MAX || self.most == 0 {
            return;
        }
        let hash = self.index.path_hash(path);
        let places = &self.places;
        if let Some(at) = self.index.find(hash, |at| places.get(at as usize).is_some_and(|place| *place.path == *path))
        {
            self.places[at as usize].entry = entry;
            return;
        }
        let place = Place { path: path.into(), entry };
        let at = self.places.len();
        if at < self.most {
            self.places.push(place);
            self.index.insert(hash, at as u32);
            return;
        }
        let at = self.hand;
        self.hand = (at + 1) % self.most;
        let old = core::mem::replace(&mut self.places[at], place);
        self.index.remove(self.index.path_hash(&old.path), at as u32);
        self.index.insert(hash, at as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [u64; 2] = [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321];

    #[test]
    fn paths_are_found_again_and_replaced() {
        let mut hot = Hot::new(64, KEYS);
        assert_eq!(hot.get(b"/"), None);
        hot.insert(b"/", 1);
        hot.insert(b"/a/long/path/with/many/segments.html", 2);
        assert_eq!(hot.get(b"/"), Some(1));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.html"), Some(2));
        assert_eq!(hot.get(b"/a/long/path/with/many/segments.htm"), None);
        hot.insert(b"/", 3);
        assert_eq!((hot.get(b"/"), hot.places.len()), (Some(3), 2));
        hot.clear();
        assert_eq!((hot.get(b"/"), hot.get(b"")), (None, None));
        hot.insert(b"/", 4);
        assert_eq!(hot.get(b"/"), Some(4));
    }

    #[test]
    fn paths_are_compared_in_every_byte() {
        let hot: Hot<u8> = Hot::new(1, KEYS);
        for length in 1..40_usize {
            let path: Vec<u8> = (0..length).map(|at| at as u8 + 64).collect();
            assert!(equal(&path, &path.clone()));
            let hash = hot.index.path_hash(&path);
            assert_eq!(hash, hot.index.path_hash(&path.clone()));
            for at in 0..length {
                let mut other = path.clone();
                other[at] ^= 1;
                assert!(!equal(&path, &other) && hash != hot.index.path_hash(&other), "byte {at} of {length}");
            }
            assert!(!equal(&path, &path[1..]));
        }
    }

    /// All that there is room for, and not more.
    #[test]
    fn a_full_table_forgets_but_does_not_grow() {
        let mut hot = Hot::new(1_000, KEYS);
        let path = |at: usize| format!("/file-{at}").into_bytes();
        for at in 0..1_000 {
            hot.insert(&path(at), at);
        }
        assert!((0..1_000).all(|at| hot.get(&path(at)) == Some(at)));
        for at in 1_000..5_500 {
            hot.insert(&path(at), at);
            assert_eq!(hot.get(&path(at)), Some(at));
        }
        assert_eq!(hot.places.len(), 1_000);
        assert!((4_500..5_500).all(|at| hot.get(&path(at)) == Some(at)));
        assert!((0..4_500).all(|at| hot.get(&path(at)).is_none()));
    }

    #[test]
    fn a_path_too_long_to_keep_is_not_kept() {
        let mut hot = Hot::new(16, KEYS);
        let path = vec![b'a'; PATH_MAX + 1];
        hot.insert(&path, 1);
        assert_eq!(hot.get(&path), None);
    }
}
