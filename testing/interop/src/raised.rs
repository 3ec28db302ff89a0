//! A flag that threads of a scope go on without.

use core::sync::atomic::{AtomicBool, Ordering};

/// Raises a flag when it is dropped, so also when a test panics before it would raise it: a
/// scope waits for its threads, and they for the flag, whatever became of the test.
pub struct Raised<'a>(pub &'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
