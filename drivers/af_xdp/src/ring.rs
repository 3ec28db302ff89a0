//! The four rings of an AF_XDP socket, and the arithmetic over them.
//!
//! Nothing here maps memory or makes system calls, so that its tests run under
//! miri as they are. Layout: `include/uapi/linux/if_xdp.h`; the protocol, with
//! its two pairs of barriers: `net/xdp/xsk_queue.h`.
//!
//! Indices are 32 bits wide, run freely, and are taken modulo the ring's size
//! only to find a slot. Each ring has one writer and one reader; the kernel is
//! the other one.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Ring flag: the kernel wants to be woken (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

/// What a ring of frames holds: `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Descriptor {
    /// Where the frame begins, counted from the start of the umem.
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
    pub options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// Where a ring lies: shared with the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<T> {
    pub producer: NonNull<AtomicU32>,
    pub consumer: NonNull<AtomicU32>,
    pub flags: NonNull<AtomicU32>,
    pub slots: NonNull<T>,
    /// Slots: a power of two.
    pub size: u32,
}

/// A ring that we fill and the kernel empties.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    parts: Parts<T>,
    /// What is filled next; shown to the kernel by [`Producer::publish`].
    next: u32,
}

/// A ring that the kernel fills and we empty.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    parts: Parts<T>,
    /// What is read next.
    next: u32,
}

// SAFETY: the parts are shared with the kernel anyway, which keeps to the
// protocol whatever thread this value is on; whoever makes them promises that
// they outlive it.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// The parts point to a ring of `size` slots, a power of two, which stays
    /// there as long as this value; nobody else writes its producer's side.
    pub unsafe fn new(parts: Parts<T>) -> Self {
        debug_assert!(parts.size.is_power_of_two());
        // SAFETY: valid as the caller promises.
        let next = unsafe { parts.producer.as_ref() }.load(Ordering::Relaxed);
        Self { parts, next }
    }

    /// What is filled next, as a count.
    #[inline]
    pub const fn position(&self) -> u32 {
        self.next
    }

    /// Slots that were published and the kernel has not emptied.
    #[inline]
    pub fn pending(&self) -> u32 {
        // SAFETY: as promised to `new`.
        let done = unsafe { self.parts.consumer.as_ref() }.load(Ordering::Acquire);
        self.next.wrapping_sub(done)
    }

    /// Fills the next slot. Whoever calls it has no more things to push than
    /// there are slots, and gets each back from the kernel before it is pushed
    /// again, so that the slot is empty. [`Producer::pending`] may say that it
    /// is not: the kernel shows what it emptied after it has handed on what
    /// was in there (`xsk_flush` in net/xdp/xsk.c).
    #[inline]
    pub fn push(&mut self, value: T) {
        let at = self.next & (self.parts.size - 1);
        // SAFETY: within the slots; the kernel does not read this one before
        // it is published.
        unsafe { self.parts.slots.add(at as usize).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub fn publish(&mut self) {
        // SAFETY: as promised to `new`.
        unsafe { self.parts.producer.as_ref() }.store(self.next, Ordering::Release);
    }

    /// Whether the kernel wants to be told of what was published.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: as promised to `new`.
        unsafe { self.parts.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// As for [`Producer::new`], with the sides exchanged.
    pub unsafe fn new(parts: Parts<T>) -> Self {
        debug_assert!(parts.size.is_power_of_two());
        // SAFETY: valid as the caller promises.
        let next = unsafe { parts.consumer.as_ref() }.load(Ordering::Relaxed);
        Self { parts, next }
    }

    /// What is read next, as a count.
    #[inline]
    pub const fn position(&self) -> u32 {
        self.next
    }

    /// Slots that wait to be read.
    #[inline]
    pub fn available(&self) -> u32 {
        // SAFETY: as promised to `new`.
        let filled = unsafe { self.parts.producer.as_ref() }.load(Ordering::Acquire);
        filled.wrapping_sub(self.next).min(self.parts.size)
    }

    /// What waits at `index`, which is below [`Consumer::available`].
    #[inline]
    pub fn peek(&self, index: u32) -> T {
        let at = self.next.wrapping_add(index) & (self.parts.size - 1);
        // SAFETY: within the slots; any bytes are a valid `T` of this module,
        // and the kernel does not write what we have not given back.
        unsafe { self.parts.slots.add(at as usize).read() }
    }

    /// Gives `count` slots back to the kernel.
    #[inline]
    pub fn advance(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        // SAFETY: as promised to `new`.
        unsafe { self.parts.consumer.as_ref() }.store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A ring in ordinary memory, and the kernel's side of it.
    #[derive(Debug)]
    pub(crate) struct Memory<T> {
        producer: Box<AtomicU32>,
        consumer: Box<AtomicU32>,
        flags: Box<AtomicU32>,
        slots: Box<[T]>,
    }

    impl<T: Copy + Default> Memory<T> {
        pub(crate) fn new(size: u32, start: u32) -> Self {
            Self {
                producer: Box::new(AtomicU32::new(start)),
                consumer: Box::new(AtomicU32::new(start)),
                flags: Box::new(AtomicU32::new(0)),
                slots: vec![T::default(); size as usize].into_boxed_slice(),
            }
        }

        pub(crate) fn parts(&mut self) -> Parts<T> {
            Parts {
                producer: NonNull::from(&*self.producer),
                consumer: NonNull::from(&*self.consumer),
                flags: NonNull::from(&*self.flags),
                slots: NonNull::from(&mut *self.slots).cast(),
                size: self.slots.len() as u32,
            }
        }

        pub(crate) fn wants_wakeup(&self, wants: bool) {
            self.flags.store(u32::from(wants), Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_pushed_is_read_in_order_across_the_wrap() {
        let mut memory = Memory::<u64>::new(4, u32::MAX - 2);
        let parts = memory.parts();
        // SAFETY: the memory outlives both; each has its own side.
        let (mut ours, mut kernels) = unsafe { (Producer::new(parts), Consumer::new(parts)) };
        let mut expected = 0;
        for round in 0..40_u64 {
            let count = (round % 4 + 1) as u32;
            for n in 0..u64::from(count) {
                ours.push(round * 10 + n);
            }
            assert_eq!((ours.pending(), kernels.available()), (count, 0));
            ours.publish();
            assert_eq!(kernels.available(), count);
            for n in 0..count {
                assert_eq!(kernels.peek(n), round * 10 + u64::from(n));
                expected += 1;
            }
            kernels.advance(count);
            assert_eq!(ours.pending(), 0);
        }
        assert_eq!(expected, 100);
        assert!(!ours.needs_wakeup());
        memory.wants_wakeup(true);
        assert!(ours.needs_wakeup());
    }
}
