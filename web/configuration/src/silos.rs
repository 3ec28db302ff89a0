//! What silos have counted, where one is to tell of all.

use core::sync::atomic::{AtomicU64, Ordering};
use exchange::Totals;
use std::sync::{Arc, Mutex, PoisonError};

/// The silos that have a program.
#[derive(Debug, Default)]
pub struct Silos {
    shares: Mutex<Vec<Arc<SiloShare>>>,
}

/// What one has counted.
#[derive(Debug, Default)]
pub struct SiloShare {
    connections: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    reading: AtomicU64,
    writing: AtomicU64,
}

impl Silos {
    /// One more.
    #[must_use]
    pub fn join(&self) -> Arc<SiloShare> {
        let share = Arc::new(SiloShare::default());
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&share));
        share
    }

    /// What all have counted, as each last told; and how many requests are under way.
    #[must_use]
    pub fn totals(&self) -> (Totals, u64) {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&SiloShare) -> &AtomicU64| shares.iter().map(|share| of(share).load(Ordering::Relaxed)).sum();
        let totals = Totals {
            connections: sum(|share| &share.connections),
            open: sum(|share| &share.open),
            requests: sum(|share| &share.requests),
            reading: sum(|share| &share.reading),
        };
        (totals, sum(|share| &share.writing))
    }
}

impl SiloShare {
    /// Tells what was counted by now.
    pub fn publish(&self, totals: Totals, writing: u64) {
        self.writing.store(writing, Ordering::Relaxed);
        self.connections.store(totals.connections, Ordering::Relaxed);
        self.open.store(totals.open, Ordering::Relaxed);
        self.requests.store(totals.requests, Ordering::Relaxed);
        self.reading.store(totals.reading, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_have_counted_is_told() {
        let silos = Silos::default();
        let (one, other) = (silos.join(), silos.join());
        one.publish(Totals { connections: 3, open: 1, requests: 10, reading: 1 }, 1);
        other.publish(Totals { connections: 4, open: 2, requests: 20, reading: 3 }, 2);
        one.publish(Totals { connections: 5, open: 0, requests: 11, reading: 0 }, 0);
        assert_eq!(silos.totals(), (Totals { connections: 9, open: 2, requests: 31, reading: 3 }, 2));
    }
}
