//! What was written leaves before the program waits for something that is not ours.

use crate::kernel::is_ready;
use crate::worker::{is_here, with_uncounted};
use core::ffi::{c_int, c_short};

/// The program is about to wait.
pub fn flush() {
    if is_here() {
        flush_if(|| true);
    }
}

/// The same before a call on a descriptor of the kernel's, if that would wait: it is asked where
/// something waits to leave, and nothing is lost by that where nothing does.
#[inline]
pub fn flush_before(fd: c_int, events: c_short) {
    if is_here() {
        flush_if(|| !is_ready(fd, events));
    }
}

#[inline]
fn flush_if(is_to_be: impl FnOnce() -> bool) {
    // In a signal's handler amid a call, that call sees to it.
    let _ = with_uncounted(|worker| {
        if worker.has_to_leave() && is_to_be() {
            worker.turn_and_send();
        }
        Ok(())
    });
}
