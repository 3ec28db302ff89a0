//! The transmit half: frames built where the receiver will read them.

use crate::memory::RingRef;
use crate::prefetch::prefetch_write;
use crate::receive::Buffers;
use crate::ring::{BadIndex, Descriptor, Ring, distance, locate};
use ::link::Transmit;
use core::sync::atomic::{Ordering, fence};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::{Offload, Time};

/// What `room` says while there is no peer: the slots lead nowhere, and there
/// is always another.
const ROOM_WITHOUT_PEER: usize = 256;

/// The transmit half of a [`crate::MemifLink`].
#[derive(Debug)]
pub struct MemifTx {
    ring: Option<RingRef>,
    event: Option<Arc<OwnedFd>>,
    buffers: Buffers,
    /// The next descriptor to fill.
    next: u16,
    /// What the peer has been shown.
    published: u16,
    /// Descriptors free from `next` on, as far as seen.
    free: u16,
    /// The last publication found the peer not asking for its eventfd. Whether
    /// it asked at that very moment is looked up once more, a turn later.
    unconfirmed: bool,
    /// The slot handed out; zero length for none.
    slot: *mut u8,
    slot_len: u32,
    slot_region: u16,
    /// Least length of a slot.
    need: u32,
    /// The slot while there is no peer.
    nowhere: Box<[u8]>,
    pub(crate) sent: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) full: u64,
    pub(crate) fault: Option<&'static str>,
}

// SAFETY: the raw pointers lead into the memory that `ring` holds, or into `nowhere`; they are used only through
// `&mut self`, so they may move to another thread with what they lead to.
unsafe impl Send for MemifTx {}

impl MemifTx {
    pub(crate) fn new(need: u32) -> Self {
        Self {
            ring: None,
            event: None,
            buffers: Buffers::Peers,
            next: 0,
            published: 0,
            free: 0,
            unconfirmed: false,
            slot: core::ptr::null_mut(),
            slot_len: 0,
            slot_region: 0,
            need,
            nowhere: vec![0; need as usize].into(),
            sent: 0,
            bytes: 0,
            dropped: 0,
            full: 0,
            fault: None,
        }
    }

    /// Takes up a ring that was just reset: both indices are zero.
    pub(crate) fn attach(&mut self, ring: RingRef, buffers: Buffers, event: Arc<OwnedFd>) {
        self.detach();
        self.ring = Some(ring);
        self.buffers = buffers;
        self.event = Some(event);
        (self.next, self.published) = (0, 0);
    }

    /// Lets go of the ring. What was not yet flushed is lost.
    pub(crate) fn detach(&mut self) {
        self.ring = None;
        self.event = None;
        self.fault = None;
        self.unconfirmed = false;
        (self.free, self.slot_len) = (0, 0);
    }

    /// Free descriptors according to the peer's index.
    #[inline]
    fn look(&self, ring: &Ring) -> Result<u16, BadIndex> {
        match self.buffers {
            Buffers::Own { .. } => Ok(ring.size() - distance(ring.tail(), self.next, ring.size())?),
            Buffers::Peers => distance(self.next, ring.head(), ring.size()),
        }
    }

    /// Finds the next slot; zero length if there is none.
    #[inline]
    fn prepare(&mut self) {
        let Some(lies) = &self.ring else {
            (self.slot, self.slot_len) = (self.nowhere.as_mut_ptr(), self.need);
            return;
        };
        let ring = lies.get();
        if self.free == 0 {
            match self.look(ring) {
                Ok(0) => {
                    self.full += 1;
                    return;
                }
                Ok(free) => self.free = free,
                Err(BadIndex) => return self.fail("the peer's ring index is out of range"),
            }
        }
        match self.buffers {
            Buffers::Own { first, stride, size } => {
                let index = usize::from(self.next & (ring.size() - 1));
                self.slot = first.wrapping_add(index * stride as usize);
                self.slot_len = size;
            }
            Buffers::Peers => {
                let descriptor = ring.snapshot(self.next);
                match locate(lies.extents(), descriptor) {
                    Some(start) if descriptor.length() >= self.need => {
                        self.slot = start;
                        self.slot_len = descriptor.length();
                        self.slot_region = descriptor.region();
                    }
                    Some(_) => self.fail("the peer's buffers are smaller than the MTU and 18 bytes"),
                    None => self.fail("a buffer of the peer's is outside of its memory"),
                }
            }
        }
    }

    #[cold]
    fn fail(&mut self, fault: &'static str) {
        self.detach();
        self.fault = Some(fault);
        self.prepare();
    }

    /// Raises the peer's eventfd if it asks for that.
    #[inline]
    fn kick(&mut self) {
        if self.ring.as_ref().is_some_and(|lies| lies.get().wants_interrupt()) {
            self.raise();
        }
    }

    #[cold]
    fn raise(&self) {
        if let Some(event) = &self.event {
            // Fails only when the counter is full, and then the peer has more than enough to wake up for.
            let _ = rustix::io::write(&**event, &1_u64.to_ne_bytes());
        }
    }

    /// Makes sure that the peer does not sleep over what was published. The
    /// fence puts the publication before the look at the peer's flag, which
    /// [`Transmit::flush`] does not pay for.
    pub(crate) fn confirm(&mut self) {
        if self.unconfirmed {
            self.unconfirmed = false;
            fence(Ordering::SeqCst);
            self.kick();
        }
    }
}

impl Transmit for MemifTx {
    #[inline]
    fn room(&self) -> usize {
        let Some(lies) = &self.ring else { return ROOM_WITHOUT_PEER };
        let ring = lies.get();
        // The peer's index is looked at only where it matters: the look moves a cache line between cores.
        let free = if self.free >= ring.size() / 2 { self.free } else { self.look(ring).unwrap_or(self.free) };
        usize::from(free)
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.slot_len == 0 {
            self.prepare();
            if self.slot_len == 0 {
                return None;
            }
        }
        // SAFETY: `prepare` checked that these bytes are within mapped memory, which `self.ring` holds and only
        // `&mut self` lets go of (and then there is no slot any more), or took them from `nowhere`. The descriptor
        // belongs to us until it is published, so a peer that keeps to the protocol leaves the bytes alone; what a
        // hostile one can do is discussed at the head of memory.rs.
        Some(unsafe { core::slice::from_raw_parts_mut(self.slot, self.slot_len as usize) })
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        debug_assert_eq!(offload, Offload::NONE, "memif offers no offload");
        if self.slot_len == 0 {
            return;
        }
        let slot_len = core::mem::take(&mut self.slot_len);
        let (Some(lies), true) = (&self.ring, len.wrapping_sub(1) < slot_len as usize) else {
            // No peer, or a length that no frame in this slot can have.
            self.dropped += 1;
            return;
        };
        let region = match self.buffers {
            Buffers::Own { .. } => 0,
            Buffers::Peers => self.slot_region,
        };
        lies.get().describe(self.next, Descriptor::new(region, 0, len as u32));
        self.next = self.next.wrapping_add(1);
        self.free -= 1;
        self.sent += 1;
        self.bytes += len as u64;
        if let Buffers::Own { first, stride, .. } = self.buffers {
            let index = usize::from(self.next & (lies.get().size() - 1));
            prefetch_write(first.wrapping_add(index * stride as usize));
        }
    }

    #[inline]
    fn flush(&mut self, _now: Time) {
        if self.next == self.published {
            self.confirm();
            return;
        }
        let Some(lies) = &self.ring else {
            self.published = self.next;
            return;
        };
        let ring = lies.get();
        match self.buffers {
            Buffers::Own { .. } => ring.publish_head(self.next),
            Buffers::Peers => ring.publish_tail(self.next),
        }
        self.published = self.next;
        self.unconfirmed = true;
        self.kick();
    }
}
