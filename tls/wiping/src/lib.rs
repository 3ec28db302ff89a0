//! Memory that secrets stood in is overwritten before it is given back, whoever had it.
//!
//! What keeps a key zeroes it when it is dropped, and cannot where a value was moved: the place
//! that it was moved from, in a box that is freed or on the stack, keeps a copy. A handshake
//! moves its secrets from state to state, in a library that is not ours. So while one is worked
//! on, all that its thread gives back is overwritten first ([`during`], with [`WipingAlloc`] as
//! the program's allocator), and behind it the stack that it used ([`stack`]).

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;

thread_local! {
    /// Without a destructor: an allocator may ask for it at any time.
    static ON: Cell<bool> = const { Cell::new(false) };
}

/// Bytes of stack that are overwritten: several times what a handshake takes.
const DEPTH: usize = 48 << 10;

/// Has `work` work with secrets: what it frees is overwritten first, and the stack below it afterwards.
#[inline(never)]
pub fn during<R>(work: impl FnOnce() -> R) -> R {
    /// Also where it panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ON.set(self.0);
        }
    }
    let before = Before(ON.replace(true));
    let is_within = before.0;
    let result = apart(work);
    drop(before);
    // One within another's lies where the other overwrites.
    if !is_within {
        stack();
    }
    result
}

/// In a frame of its own, which lies where [`stack`] overwrites.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Overwrites the stack below the caller.
#[inline(never)]
pub fn stack() {
    let mut area = [0_u8; DEPTH];
    // It is written, because somebody may look.
    black_box(&mut area);
}

/// An allocator that overwrites what is given back while secrets are worked with.
#[derive(Clone, Copy, Default, Debug)]
pub struct WipingAlloc<A>(pub A);

// SAFETY: all is done by the other, with what the caller has promised; beside that, memory of the caller's
// that is given back is written to, as far as it goes.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of this function.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if ON.get() {
            // SAFETY: the caller gives back so many bytes, which nobody reads any more.
            unsafe { at.write_bytes(0, layout.size()) };
            // It is written, because somebody may look.
            black_box(at);
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ON.get() {
            // SAFETY: as above.
            return unsafe { self.0.realloc(at, layout, size) };
        }
        // It could move, and leave a copy behind.
        // SAFETY: the caller promises that the size is none too large for the alignment, and not zero.
        let layout_next = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let next = unsafe { self.0.alloc(layout_next) };
        if !next.is_null() {
            // SAFETY: both are as long as is copied, and one of them is new.
            unsafe { next.copy_from_nonoverlapping(at, layout.size().min(size)) };
            // SAFETY: the caller gives it back by this call.
            unsafe { self.dealloc(at, layout) };
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use std::alloc::System;

    thread_local! {
        /// What stood in memory that was given back.
        static GIVEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }

    struct Looking;

    // SAFETY: the system's, but that what is given back is looked at before.
    unsafe impl GlobalAlloc for Looking {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promises are those of this function.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: it is the caller's still, and was written whole by the test.
            let bytes = unsafe { core::slice::from_raw_parts(at, layout.size()) }.to_vec();
            GIVEN.with_borrow_mut(|given| given.push(bytes));
            // SAFETY: as above.
            unsafe { System.dealloc(at, layout) }
        }
    }

    fn filled(size: usize) -> (*mut u8, Layout) {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        // SAFETY: the size is not zero.
        let at = unsafe { WipingAlloc(Looking).alloc(layout) };
        assert!(!at.is_null());
        // SAFETY: it is as long, and ours.
        unsafe { at.write_bytes(7, size) };
        (at, layout)
    }

    fn given() -> Vec<Vec<u8>> {
        GIVEN.with_borrow_mut(core::mem::take)
    }

    #[test]
    fn what_is_given_back_is_overwritten_while_secrets_are_worked_with() {
        let (at, layout) = filled(40);
        // SAFETY: it was made above, and is not used any more.
        unsafe { WipingAlloc(Looking).dealloc(at, layout) };
        assert_eq!(given(), [vec![7; 40]]);
        let (at, layout) = filled(40);
        // SAFETY: as above.
        during(|| unsafe { WipingAlloc(Looking).dealloc(at, layout) });
        assert_eq!(given(), [vec![0; 40]]);
        let (at, layout) = filled(40);
        // SAFETY: it was made above, with this layout.
        let next = during(|| unsafe { WipingAlloc(Looking).realloc(at, layout, 64) });
        assert_eq!(given(), [vec![0; 40]], "it did not stay where it was");
        // SAFETY: so many bytes were copied.
        assert_eq!(unsafe { core::slice::from_raw_parts(next, 40) }, [7; 40]);
        // SAFETY: it was made above, and is not used any more.
        unsafe { System.dealloc(next, Layout::from_size_align(64, 8).expect("a layout")) };
        let panicked = std::panic::catch_unwind(|| during(|| panic!("it may")));
        assert!(panicked.is_err() && !ON.get());
    }

    #[inline(never)]
    fn leave(seed: u8) -> usize {
        let area = [seed; 4_096];
        black_box(&area);
        area.as_ptr().addr()
    }

    #[test]
    fn the_stack_is_overwritten() {
        let place = during(|| leave(0x5a));
        let here = 0_u8;
        let distance = (&raw const here).addr().abs_diff(place);
        assert!(distance < DEPTH, "it was within what is overwritten: {distance}");
    }

    #[test]
    fn one_within_another_is_overwritten_with_it() {
        let frees = || {
            let (at, layout) = filled(40);
            // SAFETY: it was made above, and is not used any more.
            unsafe { WipingAlloc(Looking).dealloc(at, layout) };
        };
        during(|| {
            during(|| leave(0x5a));
            frees();
        });
        assert_eq!(given(), [vec![0; 40]], "the end of the one within ends nothing");
        frees();
        assert_eq!(given(), [vec![7; 40]]);
    }
}
