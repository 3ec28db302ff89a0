//! What each descriptor of this process is, as one look says.

use crate::kernel::{call, int};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What a descriptor is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mark {
    /// The kernel's: calls on it are passed on.
    Foreign = 0,
    /// A connection of ours.
    Connection = 1,
    /// A listener whose connections come by our stack.
    Listener = 2,
    /// One that will, once somebody looks for them.
    Listening = 3,
    /// A set of the kernel's that watches ours, too.
    Set = 4,
    /// This library's own: the program does not know that there is such a one.
    Own = 5,
}

/// Descriptors that are told apart; those beyond are the kernel's. More than any limit that is
/// usual for a server.
pub const MOST: usize = 1 << 20;

static MARKS: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];

/// What a descriptor is.
#[inline]
pub fn mark(fd: i32) -> Mark {
    // A negative number is beyond all.
    match MARKS.get(fd as u32 as usize).map_or(0, |mark| mark.load(Ordering::Relaxed)) {
        1 => Mark::Connection,
        2 => Mark::Listener,
        3 => Mark::Listening,
        4 => Mark::Set,
        5 => Mark::Own,
        _ => Mark::Foreign,
    }
}

/// No descriptor beyond this was ever marked.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// A descriptor is something else from now on.
pub fn set_mark(fd: i32, mark: Mark) {
    if let Some(place) = MARKS.get(fd as u32 as usize) {
        place.store(mark as u8, Ordering::Relaxed);
        HIGHEST.fetch_max(fd as u32, Ordering::Relaxed);
    }
}

/// The descriptors of a range that are not the kernel's alone.
pub fn marked(first: u32, last: u32) -> impl Iterator<Item = (i32, Mark)> {
    let last = last.min(HIGHEST.load(Ordering::Relaxed));
    (first..=last).map(|fd| (fd as i32, mark(fd as i32))).filter(|(_, mark)| *mark != Mark::Foreign)
}

/// Closes the descriptors of a range, but for those that are this library's own.
pub fn close_between(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let mut from = first;
    for (fd, _) in marked(first, last).filter(|(_, mark)| *mark == Mark::Own) {
        let own = fd.cast_unsigned();
        if own > from && call!(SYS_close_range, from, own - 1, flags) < 0 {
            return -1;
        }
        from = own + 1;
    }
    if from > last && from > first { 0 } else { int(call!(SYS_close_range, from, last, flags)) }
}
