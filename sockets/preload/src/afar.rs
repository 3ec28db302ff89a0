//! What other threads have the worker end or do: it is the worker's alone to do.

use crate::kernel::call;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the worker is to end, or do.
#[derive(Clone, Copy, Debug)]
pub enum Afar {
    /// What a descriptor was closed of, which is open until then: its number is not to be another's before.
    Descriptor(c_int),
    /// The same, where the number has something else by now.
    Number(c_int),
    /// The connection that has waited longest at a listener, which that thread cannot have.
    FirstWaiting(c_int),
    /// What lies there for it ([`crate::worker::have_done`]), for threads that wait for that.
    Errands,
}

static ASKED: Mutex<Vec<Afar>> = Mutex::new(Vec::new());

/// Whether there is any.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// What wakes the worker.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// What an eventfd is written.
static RING: u64 = 1;

/// The worker begins, and is woken by this descriptor.
pub fn set_bell(bell: c_int) {
    BELL.store(bell, Ordering::Relaxed);
}

/// Asks the worker, and wakes it.
pub fn ask(what: Afar) {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    IS_ASKED.store(true, Ordering::Release);
    call!(SYS_write, BELL.load(Ordering::Relaxed), &raw const RING, size_of::<u64>());
}

/// Whether the worker was asked.
#[inline]
pub fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// What it was asked.
pub fn take() -> Vec<Afar> {
    IS_ASKED.store(false, Ordering::Relaxed);
    core::mem::take(&mut *ASKED.lock().unwrap_or_else(PoisonError::into_inner))
}
