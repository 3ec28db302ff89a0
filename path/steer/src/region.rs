//! Memory for the rings that lead to one silo: one mapping, whose pages come
//! from the domain of the silo that touches them first.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;

/// Bytes of a page, the smallest that Linux has.
const PAGE: usize = 4_096;

/// A mapping of bytes that two ends of a ring hand each other. What is
/// whose, the ring's positions say.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Region {}
// SAFETY: through a shared reference memory is reached by the unsafe methods
// only, whose callers answer for who may touch which bytes.
unsafe impl Sync for Region {}

/// A part of a region: one ring's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    start: usize,
    len: usize,
}

impl Part {
    /// Bytes of it.
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }
}

impl Region {
    /// Zeroed memory for parts of these lengths, which are multiples of a
    /// page. None of it is touched.
    ///
    /// # Errors
    /// If the operating system has none.
    pub fn new(lens: impl Iterator<Item = usize>) -> io::Result<(Self, Vec<Part>)> {
        let mut end = 0;
        let mut parts = Vec::new();
        for len in lens {
            debug_assert!(len % PAGE == 0);
            parts.push(Part { start: end, len });
            end += len;
        }
        let len = end.max(PAGE);
        // SAFETY: a new private mapping at an address of the kernel's choice
        // touches no memory that anybody has.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((Self { base, len }, parts))
    }

    /// Addresses of the whole.
    pub fn range(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len
    }

    /// Touches each page, so that it comes from the domain of this thread's
    /// core. Changes nothing.
    pub fn touch(&self) {
        for offset in (0..self.len).step_by(PAGE) {
            // SAFETY: within the mapping. Only atomics touch the bytes before
            // the rings are in use (see `Seated::present`).
            let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset)) };
            byte.fetch_or(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn at(&self, part: Part, at: usize, len: usize) -> *mut u8 {
        assert!(at <= part.len && len <= part.len - at && part.start + part.len <= self.len);
        // SAFETY: the assertion keeps the sum within the mapping.
        unsafe { self.base.as_ptr().add(part.start + at) }
    }

    /// # Safety
    /// Nobody else may read or write these bytes while the slice lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the ring's positions say whose the bytes are")]
    pub unsafe fn slice_mut(&self, part: Part, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: within the mapping, which is initialised with zeros; the
        // caller answers for the rest.
        unsafe { core::slice::from_raw_parts_mut(self.at(part, at, len), len) }
    }

    /// # Safety
    /// Nobody may write these bytes while the slice lives.
    #[inline]
    pub unsafe fn slice(&self, part: Part, at: usize, len: usize) -> &[u8] {
        // SAFETY: as for `slice_mut`.
        unsafe { core::slice::from_raw_parts(self.at(part, at, len), len) }
    }

    /// # Safety
    /// As for [`Region::slice_mut`]; `at` is a multiple of 8.
    #[inline]
    pub unsafe fn write(&self, part: Part, at: usize, words: &[u64]) {
        let place = self.at(part, at, size_of_val(words)).cast::<u64>();
        for (index, word) in words.iter().enumerate() {
            // SAFETY: within the mapping and aligned: parts begin at a page.
            unsafe { place.add(index).write(*word) };
        }
    }

    /// # Safety
    /// As for [`Region::slice`]; `at` is a multiple of 8.
    #[inline]
    pub unsafe fn read(&self, part: Part, at: usize, words: &mut [u64]) {
        let place = self.at(part, at, size_of_val(words)).cast::<u64>();
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: as for `write`.
            *word = unsafe { place.add(index).read() };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever has a part of it holds the
        // region, so nobody has any more. What cannot be unmapped stays.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
