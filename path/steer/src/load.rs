//! How much each silo has to do, as it tells the others.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use link::Load;

/// A silo's load, in lines of its own: the silo writes one, and those that
/// give it connections the other.
#[derive(Debug, Default)]
pub(crate) struct Published {
    told: Told,
    given: Given,
}

#[repr(align(128))]
#[derive(Debug, Default)]
struct Told {
    /// Requests under way (upper half) and connections (lower half).
    load: AtomicU64,
    /// Connections given to it that this load counts.
    taken: AtomicU32,
}

#[repr(align(128))]
#[derive(Debug, Default)]
struct Given(AtomicU32);

impl Published {
    /// The silo tells its load, which counts the first `taken` connections
    /// that it was given.
    #[inline]
    pub fn tell(&self, load: Load, taken: u32) {
        self.told.load.store(u64::from(load.working) << 32 | u64::from(load.open), Ordering::Relaxed);
        self.told.taken.store(taken, Ordering::Release);
    }

    /// It is given a connection, which counts at once: a burst of new ones is
    /// spread although the load was told before it.
    pub fn give(&self) {
        self.given.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection did not get there.
    pub fn take_back(&self) {
        self.given.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests under way, then connections, both with those on their way.
    pub fn measure(&self) -> (u64, u64) {
        let taken = self.told.taken.load(Ordering::Acquire);
        let load = self.told.load.load(Ordering::Relaxed);
        // A connection may be taken between two looks: never less than none.
        let coming = (self.given.0.load(Ordering::Relaxed).wrapping_sub(taken) as i32).max(0) as u64;
        ((load >> 32) + coming, (load & 0xffff_ffff) + coming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_counts_until_it_is_told() {
        let silo = Published::default();
        silo.tell(Load { working: 2, open: 7 }, 0);
        assert_eq!(silo.measure(), (2, 7));
        silo.give();
        silo.give();
        assert_eq!(silo.measure(), (4, 9));
        silo.tell(Load { working: 2, open: 8 }, 1);
        assert_eq!(silo.measure(), (3, 9));
        silo.take_back();
        assert_eq!(silo.measure(), (2, 8));
    }
}
