//! Requests that come before their connection's handshake is over (RFC 8470).
//!
//! Whoever listens on the way may have sent them again, to another server of the same keys if not to
//! this one. So GET and HEAD alone, which change nothing, are looked at before; what else comes first
//! waits, with all that is behind it, for the client's Finished.

use app::{ConnId, Net};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Connections whose handshakes are not over, and may ask already.
#[derive(Debug, Default)]
pub struct EarlyConnections {
    all: BTreeMap<u32, Early>,
}

#[derive(Debug)]
struct Early {
    generation: u32,
    /// Its handshake is over.
    over: Arc<AtomicBool>,
    /// A request waits for that.
    waits: bool,
}

impl EarlyConnections {
    /// One whose handshake is `over` once this is set.
    pub fn insert(&mut self, id: ConnId, over: &Arc<AtomicBool>) {
        let early = Early { generation: id.generation(), over: Arc::clone(over), waits: false };
        self.all.insert(id.index() as u32, early);
    }

    /// It is gone.
    pub fn remove(&mut self, id: ConnId) {
        if self.all.get(&(id.index() as u32)).is_some_and(|early| early.generation == id.generation()) {
            self.all.remove(&(id.index() as u32));
        }
    }

    /// Whether what a connection sends is to wait, of which this is the first.
    #[inline]
    pub fn holds(&mut self, id: ConnId, first: &[u8]) -> bool {
        !self.all.is_empty() && self.holds_one(id, first)
    }

    #[cold]
    fn holds_one(&mut self, id: ConnId, first: &[u8]) -> bool {
        let early = self.all.get_mut(&(id.index() as u32)).filter(|early| early.generation == id.generation());
        let Some(early) = early.filter(|early| !early.over.load(Ordering::Relaxed)) else { return false };
        early.waits = !is_safe(first);
        early.waits
    }

    /// Whether a request waits that may be looked at by now.
    pub fn goes_on(&self, id: ConnId) -> bool {
        let early = self.all.get(&(id.index() as u32)).filter(|early| early.generation == id.generation());
        early.is_some_and(|early| early.waits && early.over.load(Ordering::Relaxed))
    }

    /// A turn: those whose handshakes are over go on.
    pub fn on_turn<N: Net + ?Sized>(&mut self, net: &mut N) {
        if self.all.is_empty() {
            return;
        }
        self.all.retain(|index, early| {
            let over = early.over.load(Ordering::Relaxed);
            if over && early.waits {
                net.resume(ConnId::new(*index, early.generation));
            }
            !over
        });
    }
}

/// Whether a request that begins so changes nothing (RFC 9110 section 9.2.1), as far as it is there.
fn is_safe(first: &[u8]) -> bool {
    [&b"GET "[..], b"HEAD "].iter().any(|method| first.starts_with(method) || method.starts_with(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_waits() {
        let mut all = EarlyConnections::default();
        let (id, other, over) = (ConnId::new(7, 1), ConnId::new(7, 2), Arc::new(AtomicBool::new(false)));
        assert!(!all.holds(id, b"POST / HTTP/1.1"));
        all.insert(id, &over);
        for safe in [&b""[..], b"G", b"GET", b"GET / HTTP/1.1", b"HE", b"HEAD / HTTP/1.1"] {
            assert!(!all.holds(id, safe), "{safe:?}");
        }
        for held in [&b"P"[..], b"POST / HTTP/1.1", b"GETS / HTTP/1.1", b"get / HTTP/1.1", b"\r\nGET / HTTP/1.1"] {
            assert!(all.holds(id, held), "{held:?}");
        }
        assert!(!all.holds(other, b"POST / HTTP/1.1"), "another connection at the same place");
        assert!(!all.goes_on(id));
        over.store(true, Ordering::Relaxed);
        assert!(all.goes_on(id) && !all.goes_on(other));
        assert!(!all.holds(id, b"POST / HTTP/1.1"));
        all.remove(other);
        assert_eq!(all.all.len(), 1);
        all.remove(id);
        assert!(all.all.is_empty());
    }
}
