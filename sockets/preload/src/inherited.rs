//! Sets of descriptors that a child of fork(2) has from its parent, and that watch nothing of ours but
//! listeners: those are the child's, too, and it goes on with the set as if it had made it.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A listener in a set: its descriptor, for what it is watched, and what it is known by.
pub type WatchedListener = (c_int, u32, u64);

/// The sets, and what they watch. Empty but in children of workers.
static SETS: Mutex<Vec<(c_int, Vec<WatchedListener>)>> = Mutex::new(Vec::new());

/// Whether there is any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notes a set.
pub fn note(set: c_int, listeners: Vec<WatchedListener>) {
    SETS.lock().unwrap_or_else(PoisonError::into_inner).push((set, listeners));
    ANY.store(true, Ordering::Relaxed);
}

/// Takes what a set watches, if it is one of these.
#[inline]
pub fn take(set: c_int) -> Option<Vec<WatchedListener>> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = sets.iter().position(|(known, _)| *known == set)?;
    Some(sets.swap_remove(at).1)
}

/// A descriptor is something else from now on.
#[inline]
pub fn forget(fd: c_int) {
    // What it watched is nobody's.
    let _ = take(fd);
}
