//! How many bytes this thread has allocated and not freed: tests run on
//! threads of their own, and an arena stays on its thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes allocated and not freed.
pub fn live() -> isize {
    LIVE.get()
}

fn count(by: isize) {
    // A thread that ends may free after its locals are gone.
    let _ = LIVE.try_with(|live| live.set(live.get() + by));
}

// SAFETY: every call is passed on to the system's allocator unchanged, and
// its answer back; counting touches a cell of the thread and allocates
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}
