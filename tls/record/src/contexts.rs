//! Keys made ready: what a cipher computes of a key before its first byte, some 600 bytes
//! and 150 ns for each. A thread keeps those of the keys that were used last, and makes
//! the others anew, so that a connection that rests costs none.
//!
//! What is dropped is zeroed by who made it; a test reads the process's memory to see that
//! (`tests/memory.rs`).

use crate::ready::Ready;
use crate::suite::{KEY_MAX, RecordCipher};
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};

/// Keys that a thread keeps ready: both directions of a thousand connections, in 1.3 MB.
pub(crate) const KEPT_MAX: usize = 2_048;

/// Whose turn it is to be named: no two keys of a process have one name.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static KEPT: RefCell<Contexts> = const { RefCell::new(Contexts { all: Vec::new(), free: Vec::new(), hand: 0 }) };
}

/// Where a key may be kept ready.
#[derive(Debug)]
pub(crate) struct Place {
    name: u64,
    slot: u32,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { name: NEXT.fetch_add(1, Ordering::Relaxed), slot: 0 }
    }
}

struct Contexts {
    all: Vec<Kept>,
    /// Places in `all` that are nobody's.
    free: Vec<u32>,
    /// Where the look for one to be given up goes on.
    hand: usize,
}

struct Kept {
    /// Whose it is; 0 for nobody's.
    name: u64,
    /// Whether it was used since the hand passed by.
    used: bool,
    key: Option<Ready>,
}

/// Has `act` work with a key made ready, of which `key` begins with as many bytes as the
/// cipher's has; `None` for want of memory.
#[inline(always)]
pub(crate) fn with<R>(
    place: &mut Place,
    cipher: RecordCipher,
    key: &[u8; KEY_MAX],
    act: impl FnOnce(&Ready) -> R,
) -> Option<R> {
    KEPT.with_borrow_mut(|kept| {
        let found = kept.all.get(place.slot as usize).is_some_and(|found| found.name == place.name);
        if !found {
            kept.make(place, cipher, key)?;
        }
        let found = kept.all.get_mut(place.slot as usize)?;
        found.used = true;
        found.key.as_ref().map(act)
    })
}

/// Gives up what is kept of a key.
pub(crate) fn forget(place: &Place) {
    // A thread that ends has given all up.
    let _ = KEPT.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && let Some(found) = kept.all.get_mut(place.slot as usize)
            && found.name == place.name
        {
            *found = Kept::NOTHING;
            kept.free.push(place.slot);
        }
    });
}

impl Kept {
    const NOTHING: Self = Self { name: 0, used: false, key: None };
}

impl Contexts {
    #[cold]
    fn make(&mut self, place: &mut Place, cipher: RecordCipher, key: &[u8; KEY_MAX]) -> Option<()> {
        let key = Ready::make(cipher, &key[..cipher.key_len()])?;
        let slot = self.room();
        self.all[slot] = Kept { name: place.name, used: true, key: Some(key) };
        place.slot = slot as u32;
        Some(())
    }

    /// A place that is nobody's, or one that was not used since the last look.
    fn room(&mut self) -> usize {
        if let Some(slot) = self.free.pop() {
            return slot as usize;
        }
        if self.all.len() < KEPT_MAX {
            self.all.push(Kept::NOTHING);
            return self.all.len() - 1;
        }
        loop {
            self.hand = (self.hand + 1) % KEPT_MAX;
            // Each look takes a mark away, so that the second time round ends it.
            if !core::mem::take(&mut self.all[self.hand].used) {
                return self.hand;
            }
        }
    }
}
