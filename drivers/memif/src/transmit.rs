//! The transmit half: frames built where the receiver will read them.

use crate::bell::Bell;
use crate::memory::RingRef;
use crate::prefetch::prefetch_write;
use crate::receive::{Buffers, LOST_FAULT, own_buffer};
use crate::ring::{BadIndex, Descriptor, Extent, Ring, distance};
use crate::slots::Slots;
use ::link::Transmit;
use core::ops::Range;
use core::sync::atomic::{Ordering, fence};
use wire::{Offload, Time};

/// What `room` says while there is no peer: the slots lead nowhere, and there
/// is always another.
const ROOM_WITHOUT_PEER: usize = 256;

/// How many slots ahead the memory of a slot is fetched for writing: the peer
/// read it last, so each line has to come from the other core's cache, and
/// that takes about as long as filling this many small frames. Measured: from
/// one slot ahead to eight, a fifth to two thirds more frames per second.
const SLOTS_AHEAD: u16 = 8;

const _: () = assert!((SLOTS_AHEAD as u32) < 1 << crate::config::LOG2_RING_SIZE_MIN);

/// Of our own buffers the descriptors say region 0, and where they are is
/// known without them.
const HOME_OWN: (u32, Extent) = (0, Extent::NONE);

/// What is wrong with a peer whose eventfd makes us wait.
pub(crate) const BELL_FAULT: &str = "the peer's eventfd is full and makes its ringer wait";

/// The transmit half of a [`crate::MemifLink`].
#[derive(Debug)]
pub struct MemifTx {
    ring: Option<RingRef>,
    bell: Option<Bell>,
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
    /// The slot of `next`; zero length while none is known that frames may be
    /// built in.
    slot: *mut u8,
    slot_len: u32,
    /// `private` was handed out for a frame that is then copied to `slot`.
    staged: bool,
    /// Peers' buffers that need not be.
    slots: Slots,
    /// Length of the slot that was handed out and not yet committed, or zero.
    handed_out: u32,
    /// The region that slots are in, and how their descriptors begin. Most
    /// peers use one region.
    home: (u32, Extent),
    /// Least length of a slot.
    need: u32,
    /// Where a frame is built that cannot be built where it is to lie.
    private: Box<[u8]>,
    /// There is no peer, and `private` was handed out for a frame to nowhere.
    nowhere_out: bool,
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
    /// Tells where frames are built: the ring and its buffers.
    pub(crate) fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        if let Some(ring) = &self.ring {
            self.buffers.memory(ring, each);
        }
        let private = self.private.as_ptr_range();
        each(private.start.addr()..private.end.addr());
    }

    pub(crate) fn new(need: u32) -> Self {
        Self {
            ring: None,
            bell: None,
            buffers: Buffers::Peers,
            next: 0,
            published: 0,
            free: 0,
            unconfirmed: false,
            slot: core::ptr::null_mut(),
            slot_len: 0,
            staged: false,
            slots: Slots::none(),
            handed_out: 0,
            home: HOME_OWN,
            need,
            private: vec![0; need as usize].into(),
            nowhere_out: false,
            sent: 0,
            bytes: 0,
            dropped: 0,
            full: 0,
            fault: None,
        }
    }

    /// Takes up a ring that was just reset: both indices are zero.
    pub(crate) fn attach(&mut self, ring: RingRef, buffers: Buffers, slots: Slots, bell: Bell) {
        self.detach();
        self.slots = slots;
        self.ring = Some(ring);
        self.buffers = buffers;
        self.home = HOME_OWN;
        self.bell = Some(bell);
    }

    /// Lets go of the ring. What was not yet flushed is lost.
    pub(crate) fn detach(&mut self) {
        self.ring = None;
        self.bell = None;
        self.fault = None;
        self.slots = Slots::none();
        (self.unconfirmed, self.nowhere_out, self.staged) = (false, false, false);
        (self.next, self.published, self.free) = (0, 0, 0);
        (self.slot_len, self.handed_out) = (0, 0);
    }

    /// Free descriptors according to the peer's index.
    #[inline]
    fn look(&self, ring: &Ring) -> Result<u16, BadIndex> {
        match self.buffers {
            Buffers::Own { .. } => Ok(ring.size() - distance(ring.tail(), self.next, ring.size())?),
            Buffers::Peers => distance(self.next, ring.head(), ring.size()),
        }
    }

    /// Finds the next slot where [`MemifTx::prepare`] did not.
    #[cold]
    #[inline(never)]
    fn find(&mut self) {
        self.staged = false;
        let Some(lies) = &self.ring else {
            self.nowhere_out = true;
            return;
        };
        if self.free == 0 {
            match self.look(lies.get()) {
                Ok(0) => {
                    self.full += 1;
                    return;
                }
                Ok(free) => self.free = free,
                Err(BadIndex) => return self.fail("the peer's ring index is out of range"),
            }
        }
        if let Buffers::Peers = self.buffers {
            // Of a region that is not there, none of a slot's bytes are.
            let region = lies.get().snapshot(self.next).region();
            let extent = lies.extents().get(usize::from(region)).copied().unwrap_or(Extent::NONE);
            self.home = (Descriptor::new(region, 0, 0).place_word(), extent);
            if !self.slots.are_in(self.home.0) {
                self.slots = Slots::none();
            }
        }
        self.prepare();
        if self.slot_len == 0 && !self.stage() {
            self.fail("a buffer of the peer's is outside of its memory, or smaller than the MTU and 18 bytes");
        }
    }

    /// Looks up the slot of `next`, which must be free; zero length if it is
    /// not as it should be, or in another region than those before.
    #[inline]
    fn prepare(&mut self) {
        let Some(lies) = &self.ring else { return };
        let ring = lies.get();
        match self.buffers {
            Buffers::Own { first, stride, size } => {
                self.slot = own_buffer(first, stride, ring, self.next);
                self.slot_len = size;
                prefetch_write(own_buffer(first, stride, ring, self.next.wrapping_add(SLOTS_AHEAD)));
            }
            Buffers::Peers => {
                let descriptor = ring.snapshot(self.next);
                let (word, extent) = self.home;
                let (offset, len) = (descriptor.offset(), descriptor.length());
                self.slot_len = 0;
                // Flags of a frame that was here before say nothing about the buffer. What is where it was when the
                // peer connected is within the region: that was looked up then.
                if descriptor.without_flags() == word
                    && len >= self.need
                    && self.slots.has(ring.slot_index(self.next), offset)
                {
                    (self.slot, self.slot_len) = (extent.base.wrapping_add(offset as usize), self.need);
                    let ahead = ring.snapshot(self.next.wrapping_add(SLOTS_AHEAD)).offset();
                    prefetch_write(extent.base.wrapping_add(ahead as usize));
                }
            }
        }
    }

    /// Has the frame for the slot of `next` be built in private memory: it is
    /// where a slot may be, and not known to be apart from all else.
    fn stage(&mut self) -> bool {
        let (Some(lies), Buffers::Peers) = (&self.ring, self.buffers) else { return false };
        let descriptor = lies.get().snapshot(self.next);
        let (word, extent) = self.home;
        if descriptor.without_flags() != word || descriptor.length() < self.need {
            return false;
        }
        let Some(place) = extent.place(descriptor.offset(), self.need) else { return false };
        self.slot = place;
        self.staged = true;
        true
    }

    #[cold]
    fn fail(&mut self, fault: &'static str) {
        let lost = self.ring.as_ref().is_some_and(RingRef::is_lost);
        let fault = if lost { LOST_FAULT } else { fault };
        self.detach();
        self.fault = Some(fault);
        self.find();
    }

    /// Raises the peer's eventfd if it asks for that.
    #[inline]
    fn kick(&mut self) {
        if self.ring.as_ref().is_some_and(|lies| lies.get().wants_interrupt()) {
            self.raise();
        }
    }

    /// The frame was built in private memory, there is no peer, or no frame in
    /// this slot can be so long.
    #[cold]
    #[inline(never)]
    fn commit_otherwise(&mut self, len: usize, handed_out: u32) {
        let (nowhere_out, staged) = (core::mem::take(&mut self.nowhere_out), core::mem::take(&mut self.staged));
        let (Some(lies), true, 1.., Some(frame)) = (&self.ring, staged, len, self.private.get(..len)) else {
            self.dropped += u64::from(handed_out != 0 || nowhere_out || staged);
            return;
        };
        // SAFETY: `stage` checked that `need` bytes at the slot are within mapped memory, which `self.ring` holds;
        // `private` has as many, and is apart. Whoever else writes there is the peer, or was told to by it, and gets a
        // mixture.
        unsafe { core::ptr::copy_nonoverlapping(frame.as_ptr(), self.slot, len) };
        lies.get().describe(self.next, Descriptor::at(self.home.0, len as u32));
        self.next = self.next.wrapping_add(1);
        self.bytes += len as u64;
        self.free -= 1;
        if self.free != 0 {
            self.prepare();
        }
    }

    #[cold]
    fn raise(&mut self) {
        if self.bell.as_ref().is_some_and(|bell| bell.ring().is_err()) {
            self.detach();
            self.fault = Some(BELL_FAULT);
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
            self.find();
            if self.nowhere_out || self.staged {
                return Some(&mut self.private);
            }
            if self.slot_len == 0 {
                return None;
            }
        }
        self.handed_out = self.slot_len;
        // SAFETY: `prepare` made sure that these bytes are within mapped memory, which `self.ring` holds and only
        // `&mut self` lets go of (and then there is no slot any more). They are in our own memory, where slots do not
        // overlap, or where `slots` found nothing else of ours, so that this is the one reference to them. The
        // descriptor belongs to us until it is published, so a peer that keeps to the protocol leaves the bytes
        // alone; what a hostile one can do is discussed at the head of memory.rs.
        Some(unsafe { core::slice::from_raw_parts_mut(self.slot, self.slot_len as usize) })
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        debug_assert_eq!(offload, Offload::NONE, "memif offers no offload");
        let handed_out = core::mem::take(&mut self.handed_out);
        let (Some(lies), true) = (&self.ring, len.wrapping_sub(1) < handed_out as usize) else {
            return self.commit_otherwise(len, handed_out);
        };
        lies.get().describe(self.next, Descriptor::at(self.home.0, len as u32));
        self.next = self.next.wrapping_add(1);
        self.bytes += len as u64;
        self.free -= 1;
        self.slot_len = 0;
        if self.free != 0 {
            self.prepare();
        }
    }

    #[inline]
    fn flush(&mut self, _now: Time) {
        if self.next == self.published {
            self.confirm();
            return;
        }
        let Some(lies) = &self.ring else { return };
        let ring = lies.get();
        self.sent += u64::from(self.next.wrapping_sub(self.published));
        match self.buffers {
            Buffers::Own { .. } => ring.publish_head(self.next),
            Buffers::Peers => ring.publish_tail(self.next),
        }
        self.published = self.next;
        self.unconfirmed = true;
        self.kick();
    }
}
