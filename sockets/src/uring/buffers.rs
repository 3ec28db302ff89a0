//! Receive buffers that the kernel chooses from: a provided-buffer ring
//! (io_uring_register_buf_ring(3), Linux 5.19).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;

/// Buffers of one worker; a power of two. A burst from more connections than
/// this finds none, and is received in the next turn.
pub(super) const COUNT: u16 = 256;

/// Bytes of each: a request, or a good part of an upload. Fewer make more
/// completions of a bulk transfer, more are spread wider over the cache.
const SIZE: usize = 8 * 1024;

/// The ring's entries, in whole pages as the kernel maps them.
const RING: usize = (COUNT as usize * size_of::<BufRingEntry>()).next_multiple_of(4_096);
const LEN: usize = RING + COUNT as usize * SIZE;

const _: () = assert!(COUNT.is_power_of_two() && COUNT <= 32_768);

/// The group that receives name.
pub(super) const GROUP: u16 = 0;

/// The buffers, and the ring that gives them to the kernel. Never moved, and
/// never unmapped while the kernel may write there: see [`Buffers::free`].
#[derive(Debug)]
pub(super) struct Buffers {
    start: NonNull<u8>,
    /// Entries given, ever.
    tail: u16,
}

impl Buffers {
    /// Makes the buffers, and gives all of them to the ring of `submitter`.
    pub(super) fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), LEN, protection, flags) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Self { start, tail: 0 };
        // SAFETY: the ring's pages are ours, zeroed, page-aligned, and stay
        // until `free`, which the engine calls when nothing is under way.
        let registered = unsafe { submitter.register_buf_ring_with_flags(start.as_ptr() as u64, COUNT, GROUP, 0) };
        if let Err(e) = registered {
            buffers.free();
            return Err(e);
        }
        for id in 0..COUNT {
            buffers.give_back(id);
        }
        Ok(buffers)
    }

    /// What the kernel received into buffer `id`: `len` bytes.
    #[inline]
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        let at = RING + usize::from(id % COUNT) * SIZE;
        // SAFETY: within the mapping, initialised, and not written by the
        // kernel until it is given back, which needs `&mut self`.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(at), len.min(SIZE)) }
    }

    /// The kernel may use buffer `id` again.
    #[inline]
    pub(super) fn give_back(&mut self, id: u16) {
        let id = id % COUNT;
        let at = RING + usize::from(id) * SIZE;
        let entries = self.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the entry is within the ring's pages, and the kernel does
        // not look at it before the tail says so. Its last field, in the first
        // entry, is the tail, which the setters do not touch.
        unsafe {
            let entry = &mut *entries.add(usize::from(self.tail % COUNT));
            entry.set_addr(self.start.as_ptr().add(at) as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 of the ring's first entry, read
        // by the kernel as an atomic.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Gives the memory back. The kernel must have nothing under way that
    /// receives.
    pub(super) fn free(&mut self) {
        // SAFETY: the mapping is ours, and nobody uses it any more. It fails
        // for a wrong address only.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), LEN) };
    }
}
