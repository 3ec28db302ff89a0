//! Memory placement: huge pages for what is large, and a count of
//! allocations for the test that expects none.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ffi::c_void;
use core::{fmt, ptr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::System;
use std::path::Path;

/// Size and alignment of a transparent huge page on the machines that this
/// runs on (x86-64, and arm64 with 4 KiB pages).
const HUGE_PAGE: usize = 2 * 1024 * 1024;

/// An allocator that asks for huge pages for what is large.
///
/// A connection table of a million entries spans a hundred thousand ordinary
/// pages, far beyond any TLB: each request then pays a page walk beside its
/// cache miss. In huge pages it spans a few hundred. Allocations of 2 MiB and
/// more are mappings of their own, aligned to 2 MiB and advised with
/// MADV_HUGEPAGE, which works where the kernel is set to `madvise` (the usual
/// setting) or `always`; where it is set to `never` they are ordinary memory.
/// Everything smaller is the system allocator's.
///
/// Memory is still given page by page as it is touched, and zeroed memory is
/// not touched. The cost: a large allocation is rounded up to 2 MiB, and
/// sparse use of one takes whole huge pages.
///
/// Use: `#[global_allocator] static ALLOCATOR: HugeAlloc = HugeAlloc;`
#[derive(Clone, Copy, Debug, Default)]
pub struct HugeAlloc;

impl HugeAlloc {
    /// Whether an allocation is a mapping of its own. The same answer for the
    /// same layout always, as deallocation depends on it.
    #[inline]
    const fn is_large(layout: &Layout) -> bool {
        layout.size() >= HUGE_PAGE && layout.align() <= HUGE_PAGE
    }
}

// SAFETY: a layout is served by mappings or by `System`, and by the same of
// the two again on release, as `is_large` looks at nothing but the layout.
// Mappings have at least the size asked for and an alignment of 2 MiB, which
// is at least the one asked for. Nothing here panics or allocates.
unsafe impl GlobalAlloc for HugeAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::is_large(&layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::is_large(&layout) {
            // A fresh mapping reads as zero.
            return map(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if Self::is_large(&layout) {
            // SAFETY: `start` and the layout are those of a mapping made by
            // `map`, which the caller gives up.
            unsafe { unmap(start, rounded(layout.size())) };
            return;
        }
        // SAFETY: the caller's promises are passed on, for memory of `System`.
        unsafe { System.dealloc(start, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size`, rounded up to the
        // alignment, does not overflow `isize`.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Self::is_large(&layout), Self::is_large(&new)) {
            // SAFETY: the caller's promises are passed on, for memory of `System`.
            (false, false) => unsafe { System.realloc(start, layout, size) },
            (true, true) if rounded(layout.size()) == rounded(size) => start,
            _ => {
                // SAFETY: `new` has a size of its own right; the old block
                // is readable for its size, the new one writable for its, and
                // they are apart; the old one is the caller's to release.
                unsafe {
                    let to = self.alloc(new);
                    if !to.is_null() {
                        ptr::copy_nonoverlapping(start, to, layout.size().min(size));
                        self.dealloc(start, layout);
                    }
                    to
                }
            }
        }
    }
}

/// A mapping of at least `size` bytes, aligned to 2 MiB, all zero; null if
/// there is no memory.
#[cold]
fn map(size: usize) -> *mut u8 {
    let Some(size) = size.checked_next_multiple_of(HUGE_PAGE) else { return ptr::null_mut() };
    let Some(room) = size.checked_add(HUGE_PAGE) else { return ptr::null_mut() };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at a place that the kernel chooses
    // touches no memory of ours.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), room, access, MapFlags::PRIVATE) };
    let Ok(mapped) = mapped else { return ptr::null_mut() };
    let mapped = mapped.cast::<u8>();
    let before = mapped.addr().next_multiple_of(HUGE_PAGE) - mapped.addr();
    // SAFETY: `before` is below 2 MiB, by which the mapping is larger than
    // `size`; so both cuts lie in it, and nobody has seen it yet.
    unsafe {
        let start = mapped.add(before);
        unmap(mapped, before);
        unmap(start.add(size), HUGE_PAGE - before);
        // Advice, which a kernel without transparent huge pages refuses.
        let _ = madvise(start.cast::<c_void>(), size, Advice::LinuxHugepage);
        start
    }
}

/// Gives back `size` bytes of mappings from `start` on; none is no work.
///
/// # Safety
/// The range is mapped, a multiple of the page size, and nobody's any more.
unsafe fn unmap(start: *mut u8, size: usize) {
    if size > 0 {
        // SAFETY: the caller's promise. A refusal (the limit on mappings
        // would be passed by a split) leaves the memory mapped: a leak, and
        // no harm.
        let _ = unsafe { munmap(start.cast::<c_void>(), size) };
    }
}

/// What [`map`] takes for `size` bytes, which it has taken before.
const fn rounded(size: usize) -> usize {
    size.next_multiple_of(HUGE_PAGE)
}

/// An allocator that counts, for each thread, what it passes to another: for
/// the test that the fast path allocates nothing.
///
/// Use: `#[global_allocator] static ALLOCATOR: CountingAlloc =
/// CountingAlloc::new(System);` and compare [`allocations`] before and after.
#[derive(Clone, Copy, Debug)]
pub struct CountingAlloc<A = System>(A);

impl<A> CountingAlloc<A> {
    /// Counts what `allocator` does.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of this thread so far, reallocations included, if
/// [`CountingAlloc`] is the program's allocator; zero otherwise.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[inline]
fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
}

// SAFETY: everything is passed on unchanged to an allocator that keeps the
// contract. Counting neither allocates nor panics: the counter needs no
// start-up and no destructor, so it is there from a thread's first
// instruction to its last.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAlloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.realloc(start, layout, size) }
    }
}

/// The huge pages of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HugePages {
    /// Whether [`HugeAlloc`] gets any.
    pub transparent: Transparent,
    /// Pages set aside by the administrator (hugetlb), by size. A driver that
    /// wants them maps them itself.
    pub reserved: Vec<ReservedPages>,
}

/// The kernel's setting for transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transparent {
    /// Everywhere.
    Always,
    /// Where advised, as [`HugeAlloc`] does.
    Madvise,
    /// Nowhere, or the kernel was built without them.
    Never,
}

/// Reserved huge pages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservedPages {
    /// Bytes of each.
    pub size: u64,
    /// Pages in all.
    pub total: u64,
    /// Pages that nobody uses.
    pub free: u64,
}

impl HugePages {
    /// What this machine has. What cannot be read is taken as absent.
    #[must_use]
    pub fn probe() -> Self {
        Self::probe_at(Path::new("/sys/kernel/mm"))
    }

    fn probe_at(mm: &Path) -> Self {
        let setting = std::fs::read_to_string(mm.join("transparent_hugepage/enabled"));
        let setting = setting.unwrap_or_default();
        // The setting in force is the one in brackets.
        let transparent = if setting.contains("[always]") {
            Transparent::Always
        } else if setting.contains("[madvise]") {
            Transparent::Madvise
        } else {
            Transparent::Never
        };
        let folders = std::fs::read_dir(mm.join("hugepages")).into_iter().flatten().flatten();
        let mut reserved: Vec<_> = folders.filter_map(|f| ReservedPages::read(&f.path())).collect();
        reserved.sort_by_key(|pages| pages.size);
        Self { transparent, reserved }
    }
}

impl ReservedPages {
    /// Reads `…/hugepages/hugepages-2048kB`.
    fn read(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let number = |file| -> Option<u64> { std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok() };
        Some(Self { size: kib.checked_mul(1024)?, total: number("nr_hugepages")?, free: number("free_hugepages")? })
    }
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transparent = match self.transparent {
            Transparent::Always => "always",
            Transparent::Madvise => "where advised",
            Transparent::Never => "never",
        };
        write!(f, "transparent huge pages: {transparent}")?;
        for ReservedPages { size, total, free } in &self.reserved {
            write!(f, "; {} KiB pages: {free} of {total} free", size / 1024)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
