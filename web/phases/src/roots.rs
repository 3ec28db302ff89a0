//! Where roots lie once their links are followed (`$realpath_root`).

use std::collections::HashMap;

/// Roots that are known at once; a request may name others without end.
const ROOTS_MAX: usize = 1_024;

/// Where roots lie, by their paths.
#[derive(Debug, Default)]
pub(crate) struct RealRoots(HashMap<Box<[u8]>, RealRoot>);

/// Where one lies; `None`: nowhere.
#[derive(Debug)]
struct RealRoot {
    at: Option<Box<[u8]>>,
    /// When that was found out, in unix seconds.
    second: u64,
}

impl RealRoots {
    /// Where a root lies, as last found out; `Some(None)`: nowhere.
    pub fn get(&self, path: &[u8]) -> Option<Option<&[u8]>> {
        self.0.get(path).map(|root| root.at.as_deref())
    }

    /// Whether that was found out in this unix second.
    pub fn is_known(&self, path: &[u8], second: u64) -> bool {
        self.0.get(path).is_some_and(|root| root.second == second)
    }

    /// That was found out in this unix second.
    pub fn put(&mut self, path: Box<[u8]>, at: Option<Box<[u8]>>, second: u64) {
        if self.0.len() >= ROOTS_MAX && !self.0.contains_key(&path) {
            self.0.retain(|_, root| root.second == second);
            if self.0.len() >= ROOTS_MAX {
                self.0.clear();
            }
        }
        self.0.insert(path, RealRoot { at, second });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_known_for_a_second_and_not_without_end() {
        let mut roots = RealRoots::default();
        roots.put(b"/a"[..].into(), Some(b"/b"[..].into()), 1);
        roots.put(b"/c"[..].into(), None, 1);
        assert_eq!((roots.get(b"/a"), roots.get(b"/c"), roots.get(b"/d")), (Some(Some(&b"/b"[..])), Some(None), None));
        assert!(roots.is_known(b"/a", 1) && !roots.is_known(b"/a", 2) && !roots.is_known(b"/d", 1));
        for at in 0..3 * ROOTS_MAX as u64 {
            roots.put(at.to_string().into_bytes().into(), None, 2 + at / 2_000);
            assert!(roots.0.len() <= ROOTS_MAX && roots.get(at.to_string().as_bytes()).is_some());
        }
    }
}
