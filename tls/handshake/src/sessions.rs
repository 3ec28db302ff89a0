//! Sessions that are kept here, by the number that their client has (`ssl_session_cache`).

use crate::tickets::unix_second;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use zeroize::Zeroizing;

/// Bytes that a session takes beside its own: nginx has some 4,000 in a MiB.
const OVERHEAD: usize = 160;

/// Sessions of several servers, in so many bytes. The oldest gives way.
#[derive(Debug)]
pub struct SessionCache {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<Box<[u8]>, Session>,
    /// In the order in which they came, with the numbers that they then had.
    order: VecDeque<(Box<[u8]>, u64)>,
    bytes: usize,
    count: u64,
}

impl core::fmt::Debug for Kept {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Kept").field("sessions", &self.sessions.len()).field("bytes", &self.bytes).finish()
    }
}

struct Session {
    bytes: Zeroizing<Vec<u8>>,
    until: u64,
    number: u64,
}

impl SessionCache {
    /// One of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// The process's of this name, which outlives reloads; made with so many bytes if it is not
    /// there, or has another size.
    #[must_use]
    pub fn named(name: &[u8], bytes_max: usize) -> Arc<Self> {
        type Named = HashMap<Box<[u8]>, Arc<SessionCache>>;
        static ALL: OnceLock<Mutex<Named>> = OnceLock::new();
        let mut all = ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(name).filter(|known| known.bytes_max == bytes_max) {
            return Arc::clone(known);
        }
        let made = Arc::new(Self::new(bytes_max));
        all.insert(name.into(), Arc::clone(&made));
        made
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: Box<[u8]>, bytes: Vec<u8>, until: u64) -> bool {
        let size = cost(&key, &bytes);
        let mut kept = self.kept();
        if size > self.bytes_max / 2 {
            return false;
        }
        kept.remove(&key);
        while kept.bytes + size > self.bytes_max {
            let Some((oldest, number)) = kept.order.pop_front() else { break };
            // One of this name may have come since.
            if kept.sessions.get(&oldest).is_some_and(|session| session.number == number) {
                kept.remove(&oldest);
            }
        }
        kept.count += 1;
        let number = kept.count;
        kept.order.push_back((key.clone(), number));
        kept.sessions.insert(key, Session { bytes: Zeroizing::new(bytes), until, number });
        kept.bytes += size;
        // What was taken out leaves its place in the order behind.
        if kept.order.len() > 2 * kept.sessions.len() + 64 {
            let Kept { sessions, order, .. } = &mut *kept;
            order.retain(|(key, number)| sessions.get(key).is_some_and(|session| session.number == *number));
        }
        true
    }

    fn get(&self, key: &[u8], now: u64, takes: bool) -> Option<Vec<u8>> {
        let mut kept = self.kept();
        let session = kept.sessions.get(key)?;
        let bytes = (session.until > now).then(|| session.bytes.to_vec());
        if takes || bytes.is_none() {
            kept.remove(key);
        }
        bytes
    }
}

impl Kept {
    fn remove(&mut self, key: &[u8]) {
        if let Some((key, session)) = self.sessions.remove_entry(key) {
            self.bytes -= cost(&key, &session.bytes);
        }
    }
}

fn cost(key: &[u8], bytes: &[u8]) -> usize {
    2 * key.len() + bytes.len() + OVERHEAD
}

/// The sessions of one server: its own alone, whoever shares the cache.
#[derive(Debug)]
pub(crate) struct BoundSessions {
    pub cache: Option<Arc<SessionCache>>,
    pub binding: [u8; 32],
    /// Seconds.
    pub lifetime: u32,
}

impl BoundSessions {
    fn key(&self, id: &[u8]) -> Box<[u8]> {
        [&self.binding[..16], id].concat().into()
    }

    /// Whether there is one of this name.
    pub fn has(&self, id: &[u8]) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.kept().sessions.contains_key(&self.key(id)))
    }
}

impl StoresServerSessions for BoundSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let until = unix_second() + u64::from(self.lifetime);
        self.cache.as_ref().is_some_and(|cache| cache.put(self.key(&key), value, until))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get(&self.key(key), unix_second(), false)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.as_ref()?.get(&self.key(key), unix_second(), true)
    }

    fn can_cache(&self) -> bool {
        self.cache.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let cache = SessionCache::new(10 * 1_000);
        for at in 0..100_u8 {
            assert!(cache.put([at].into(), vec![at; 1_000 - OVERHEAD - 2], 10));
        }
        assert_eq!(cache.get(&[89], 5, false), None, "it gave way");
        for at in 90..100_u8 {
            assert_eq!(cache.get(&[at], 5, false).map(|bytes| bytes[0]), Some(at));
        }
        assert!(!cache.put([1].into(), vec![0; 6_000], 10), "it would be most of all");
        assert_eq!(cache.get(&[99], 10, false), None, "its time is over");
        assert_eq!(cache.get(&[98], 5, true).map(|bytes| bytes[0]), Some(98));
        assert_eq!(cache.get(&[98], 5, true), None, "it was taken");
        let kept = cache.kept();
        assert_eq!((kept.sessions.len(), kept.bytes), (8, 8_000));
    }

    #[test]
    fn places_of_what_was_taken_do_not_grow() {
        let cache = SessionCache::new(1 << 20);
        for at in 0..10_000_u32 {
            assert!(cache.put(at.to_be_bytes().into(), vec![0; 100], 10));
            assert!(cache.get(&at.to_be_bytes(), 5, true).is_some());
        }
        let kept = cache.kept();
        assert!(kept.order.len() <= 65, "{}", kept.order.len());
        assert_eq!(kept.bytes, 0);
    }

    #[test]
    fn a_session_is_its_servers_alone() {
        let cache = Some(SessionCache::named(b"one", 1 << 20));
        let one = BoundSessions { cache: cache.clone(), binding: [1; 32], lifetime: 300 };
        let other = BoundSessions { cache, binding: [2; 32], lifetime: 300 };
        assert!(one.put(b"id".to_vec(), b"session".to_vec()));
        assert_eq!(other.get(b"id"), None);
        assert_eq!(one.get(b"id"), Some(b"session".to_vec()));
        let none = BoundSessions { cache: None, binding: [1; 32], lifetime: 300 };
        assert!(!none.can_cache() && !none.put(b"id".to_vec(), Vec::new()));
    }
}
