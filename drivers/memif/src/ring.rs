//! Rings as they lie in shared memory, and the arithmetic over them.
//!
//! Nothing here maps memory or makes system calls, so these tests run under
//! miri as they are. Layout: libmemif's `memif.h`, protocol 2.0.
//!
//! A connection has rings in both directions, and in both the **client moves
//! `head` and the server moves `tail`**, whoever sends:
//!
//! ```text
//! client to server            server to client
//!   tail ........ head          read ........ tail ........ head
//!     frames to read              frames to     empty buffers
//!   server reads these,           read by       that the server
//!   then moves tail               the client    may fill
//! ```
//!
//! `read` is the client's own and not shared: it gives what it has read back
//! as empty buffers by moving `head`. Indices are 16 bits wide, run freely,
//! and are taken modulo the ring's size only to find a descriptor.
//!
//! Whatever the peer writes here is untrusted. Every field is an atomic that is
//! loaded once into a private value, which is then checked and used; the
//! shared field is never looked at again.

use core::ops::Range;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Marks a ring; a connection whose rings lack it is refused.
pub(crate) const COOKIE: u32 = 0x3E3_1F20;
/// Bytes of a ring before its descriptors: two cache lines, one for the
/// fields that the client writes, one for the server's.
pub(crate) const HEADER_SIZE: usize = 128;
/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_SIZE: usize = 16;
/// What the offset of a ring in its region must be a multiple of.
pub(crate) const RING_ALIGN: usize = align_of::<AtomicU64>();

/// Ring flag: the receiver polls, do not raise its eventfd.
const MASK_INTERRUPT: u16 = 1;
/// Descriptor flag: the frame goes on in the next descriptor.
const NEXT: u16 = 1;

// Descriptors are read and written as two words; the fields' order within a
// word is the order of a little-endian machine.
const _: () = assert!(cfg!(target_endian = "little"));
const _: () = assert!(core::mem::offset_of!(Header, tail) == 64);
const _: () = assert!(size_of::<Header>() == HEADER_SIZE);
const _: () = assert!(size_of::<SharedDescriptor>() == DESCRIPTOR_SIZE);
const _: () = assert!(align_of::<Header>() <= RING_ALIGN && align_of::<SharedDescriptor>() <= RING_ALIGN);

#[repr(C)]
#[derive(Debug)]
struct Header {
    cookie: AtomicU32,
    flags: AtomicU16,
    head: AtomicU16,
    // Atomic although unused: a shared reference then claims nothing about bytes that the peer may write.
    unused_client: [AtomicU64; 7],
    tail: AtomicU16,
    unused_server: [AtomicU16; 31],
}

#[repr(C)]
#[derive(Debug)]
struct SharedDescriptor {
    /// Flags (16 bits), region (16), length (32).
    low: AtomicU64,
    /// Offset (32), metadata (32).
    high: AtomicU64,
}

/// A ring in shared memory. Its size is a power of two, which whoever makes
/// the reference guarantees.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ring {
    header: Header,
    descriptors: [SharedDescriptor],
}

/// Bytes of a ring with this many descriptors.
pub(crate) const fn ring_bytes(log2_size: u8) -> usize {
    HEADER_SIZE + (DESCRIPTOR_SIZE << log2_size)
}

/// The raw reference to a ring at `base`; making it is safe, using it needs
/// [`ring_bytes`] readable and writable bytes aligned to [`RING_ALIGN`].
pub(crate) fn ring_at(base: *const u8, log2_size: u8) -> *const Ring {
    core::ptr::slice_from_raw_parts(base.cast::<SharedDescriptor>(), 1_usize << log2_size) as *const Ring
}

/// A private copy of a descriptor: what is checked is what is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    low: u64,
    high: u64,
}

impl Descriptor {
    /// A descriptor of `length` bytes at `offset` of `region`, not chained.
    pub(crate) const fn new(region: u16, offset: u32, length: u32) -> Self {
        Self { low: (region as u64) << 16 | (length as u64) << 32, high: offset as u64 }
    }

    /// A descriptor that begins with a place word, see [`Self::place_word`].
    #[inline]
    pub(crate) const fn at(place_word: u32, length: u32) -> Self {
        Self { low: place_word as u64 | (length as u64) << 32, high: 0 }
    }

    /// The same, with the frame going on in the next descriptor.
    #[cfg(test)]
    pub(crate) const fn chained(self) -> Self {
        Self { low: self.low | NEXT as u64, high: self.high }
    }

    /// Flags and region in one: what two descriptors without flags share if
    /// they lie in the same region.
    #[inline]
    pub(crate) const fn place_word(self) -> u32 {
        self.low as u32
    }

    /// The region in the place of [`Self::place_word`], flags left out.
    #[inline]
    pub(crate) const fn without_flags(self) -> u32 {
        self.low as u32 & 0xFFFF_0000
    }

    #[inline]
    pub(crate) const fn has_next(self) -> bool {
        self.low & NEXT as u64 != 0
    }

    #[inline]
    pub(crate) const fn region(self) -> u16 {
        (self.low >> 16) as u16
    }

    #[inline]
    pub(crate) const fn length(self) -> u32 {
        (self.low >> 32) as u32
    }

    #[inline]
    pub(crate) const fn offset(self) -> u32 {
        self.high as u32
    }

    /// The bytes of its region that it describes.
    #[inline]
    pub(crate) const fn bytes(self) -> Range<u64> {
        // Both are below 2^32: the sum cannot overflow.
        self.offset() as u64..self.offset() as u64 + self.length() as u64
    }
}

impl Ring {
    /// Descriptors.
    #[inline]
    pub(crate) fn size(&self) -> u16 {
        // At most 2^14, see LOG2_RING_SIZE_MAX.
        self.descriptors.len() as u16
    }

    /// Makes the ring an empty one. `place` tells where the buffer of each
    /// descriptor is.
    pub(crate) fn format(&self, place: impl Fn(u16) -> Descriptor) {
        self.header.cookie.store(COOKIE, Ordering::Relaxed);
        self.header.flags.store(MASK_INTERRUPT, Ordering::Relaxed);
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            let Descriptor { low, high } = place(index as u16);
            descriptor.low.store(low, Ordering::Relaxed);
            descriptor.high.store(high, Ordering::Relaxed);
        }
        self.reset();
    }

    /// Puts both indices to zero, as a server does before it answers CONNECT.
    pub(crate) fn reset(&self) {
        self.header.head.store(0, Ordering::Relaxed);
        self.header.tail.store(0, Ordering::Release);
    }

    pub(crate) fn has_cookie(&self) -> bool {
        self.header.cookie.load(Ordering::Relaxed) == COOKIE
    }

    /// The place in the ring that an index stands for.
    #[inline]
    pub(crate) fn slot_index(&self, index: u16) -> usize {
        usize::from(index) & (self.descriptors.len() - 1)
    }

    #[inline]
    fn slot(&self, index: u16) -> &SharedDescriptor {
        let slot = self.slot_index(index);
        // SAFETY: the number of descriptors is a power of two (see `ring_at`), so masking with one less stays below it.
        unsafe { self.descriptors.get_unchecked(slot) }
    }

    /// Takes a private copy of a descriptor.
    #[inline]
    pub(crate) fn snapshot(&self, index: u16) -> Descriptor {
        let slot = self.slot(index);
        Descriptor { low: slot.low.load(Ordering::Relaxed), high: slot.high.load(Ordering::Relaxed) }
    }

    /// Takes a private copy of flags, region and length only: of a ring in
    /// our own memory we know the offsets and do not ask.
    #[inline]
    pub(crate) fn snapshot_low(&self, index: u16) -> Descriptor {
        Descriptor { low: self.slot(index).low.load(Ordering::Relaxed), high: 0 }
    }

    /// Writes flags (none), region and length of a descriptor; its offset
    /// stays as it is.
    #[inline]
    pub(crate) fn describe(&self, index: u16, descriptor: Descriptor) {
        self.slot(index).low.store(descriptor.low, Ordering::Relaxed);
    }

    /// Writes a whole descriptor.
    #[cfg(test)]
    pub(crate) fn write(&self, index: u16, descriptor: Descriptor) {
        self.slot(index).low.store(descriptor.low, Ordering::Relaxed);
        self.slot(index).high.store(descriptor.high, Ordering::Relaxed);
    }

    /// The client's index. What the client wrote before it moved the index is
    /// visible after this load.
    #[inline]
    pub(crate) fn head(&self) -> u16 {
        self.header.head.load(Ordering::Acquire)
    }

    /// The server's index, likewise.
    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.header.tail.load(Ordering::Acquire)
    }

    /// Shows the server all that was written before.
    #[inline]
    pub(crate) fn publish_head(&self, head: u16) {
        self.header.head.store(head, Ordering::Release);
    }

    /// Shows the client all that was written before.
    #[inline]
    pub(crate) fn publish_tail(&self, tail: u16) {
        self.header.tail.store(tail, Ordering::Release);
    }

    /// Whether the receiver wants its eventfd raised.
    #[inline]
    pub(crate) fn wants_interrupt(&self) -> bool {
        self.header.flags.load(Ordering::Relaxed) & MASK_INTERRUPT == 0
    }

    /// As the receiver: asks for the eventfd to be raised, or no longer. After
    /// asking, the ring must be looked at again before sleeping.
    pub(crate) fn ask_for_interrupt(&self, wanted: bool) {
        self.header.flags.store(if wanted { 0 } else { MASK_INTERRUPT }, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl Ring {
    /// As the receiver, which is awake: the eventfd need not be raised.
    #[inline]
    pub(crate) fn stop_interrupts(&self) {
        if self.wants_interrupt() {
            self.header.flags.store(MASK_INTERRUPT, Ordering::Relaxed);
        }
    }
}

/// An index that leaves more in the ring than was ever put there: the peer is
/// broken or hostile, and the connection is of no further use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadIndex;

/// How far `ahead` is in front of `behind`, which may be `limit` at most.
#[inline]
pub(crate) const fn distance(behind: u16, ahead: u16, limit: u16) -> Result<u16, BadIndex> {
    let distance = ahead.wrapping_sub(behind);
    if distance <= limit { Ok(distance) } else { Err(BadIndex) }
}

/// Start and size of a mapped region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) base: *mut u8,
    pub(crate) size: u64,
}

impl Extent {
    pub(crate) const NONE: Self = Self { base: core::ptr::null_mut(), size: 0 };

    /// The place of `length` bytes from `offset` on, if all of them are within.
    #[inline]
    pub(crate) fn place(&self, offset: u32, length: u32) -> Option<*mut u8> {
        // Both are below 2^32: the sum cannot overflow.
        let within = u64::from(offset) + u64::from(length) <= self.size;
        // In bounds as just checked; wrapping, because nothing is read here.
        within.then(|| self.base.wrapping_add(offset as usize))
    }
}

/// The place of a descriptor's bytes, if all of them are within one of
/// `regions`.
#[inline]
pub(crate) fn locate(regions: &[Extent], descriptor: Descriptor) -> Option<*mut u8> {
    regions.get(usize::from(descriptor.region()))?.place(descriptor.offset(), descriptor.length())
}

#[cfg(test)]
mod tests;
