//! The receive half: frames read where the sender put them.

use crate::memory::RingRef;
use crate::prefetch::prefetch_read;
use crate::ring::{BadIndex, Descriptor, Extent, Ring, distance, locate};
use crate::slots::{Reserved, overlap};
use ::link::Receive;
use core::ops::Range;
use wire::Time;

/// Most frames of one burst, whatever is asked for.
pub const BURST_LIMIT: usize = 256;
/// Longest frame taken from a peer: the largest IP packet and a header with
/// one VLAN tag. What is longer is dropped and counted.
pub const FRAME_LIMIT: usize = 65_535 + crate::config::HEADER_ROOM as usize;
/// Private memory per queue for frames that cannot be read in place: chained
/// ones, and all where `copy=on`. A burst ends when it is full.
const SCRATCH_SIZE: usize = 128 * 1024;

const _: () = assert!(SCRATCH_SIZE >= FRAME_LIMIT, "the longest frame must fit");

/// What is wrong with a peer that has shortened its file.
pub(crate) const LOST_FAULT: &str = "the peer took its memory away";

/// Whose memory the buffers are in, and so what there is to check.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Buffers {
    /// Ours (we are the client): buffer `slot` is at `first + slot * stride`,
    /// whatever the descriptor says.
    Own { first: *mut u8, stride: u32, size: u32 },
    /// The peer's: the descriptor tells, and is checked.
    Peers,
}

/// Where the buffer of a slot is in our own memory.
#[inline]
pub(crate) fn own_buffer(first: *mut u8, stride: u32, ring: &Ring, slot: u16) -> *mut u8 {
    first.wrapping_add(ring.slot_index(slot) * stride as usize)
}

impl Buffers {
    /// A private copy of a descriptor of what is received, and where its bytes are, if they are where they may be.
    #[inline]
    pub(crate) fn place(self, lies: &RingRef, slot: u16) -> (Descriptor, Option<*const u8>) {
        let ring = lies.get();
        match self {
            Self::Own { first, stride, size } => {
                let descriptor = ring.snapshot_low(slot);
                let start = own_buffer(first, stride, ring, slot).cast_const();
                (descriptor, (descriptor.length() <= size).then_some(start))
            }
            Self::Peers => {
                let descriptor = ring.snapshot(slot);
                (descriptor, locate(lies.extents(), descriptor).map(<*mut u8>::cast_const))
            }
        }
    }

    /// Tells where a ring and its buffers are in our own memory. A peer's is
    /// told as a whole by [`MemifRx::memory`], once for both directions:
    /// descriptors lead wherever the peer likes, many times over.
    pub(crate) fn memory(&self, lies: &RingRef, each: &mut dyn FnMut(Range<usize>)) {
        if let Self::Own { first, stride, .. } = *self {
            let ring = lies.get();
            let told = core::ptr::from_ref(ring);
            each(told.addr()..told.addr() + size_of_val(ring));
            each(first.addr()..first.addr() + usize::from(ring.size()) * stride as usize);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    start: *const u8,
    len: u32,
}

/// No descriptor without flags begins like this.
const NO_HOME: (u32, Extent) = (u32::MAX, Extent::NONE);
const NO_FRAME: Frame = Frame { start: core::ptr::null(), len: 0 };

/// The receive half of a [`crate::MemifLink`].
#[derive(Debug)]
pub struct MemifRx {
    ring: Option<RingRef>,
    burst: Burst,
    pub(crate) fault: Option<&'static str>,
}

/// What was taken from the ring, and where the ring stands.
#[derive(Debug)]
pub(crate) struct Burst {
    buffers: Buffers,
    /// Peers' buffers: the part of a region that the last frame was in, and how
    /// a descriptor of a whole frame there begins. Most peers use one.
    home: (u32, Extent),
    /// Where home begins in its region: there is more of that where slots of
    /// ours are in between, out of which frames are not read in place.
    home_start: u32,
    reserved: Reserved,
    /// The first descriptor not yet taken.
    next: u16,
    /// The peer's index as last seen: descriptors before it may be taken.
    seen: u16,
    /// Descriptors taken and not yet given back.
    taken: u16,
    /// Frames of the burst.
    count: usize,
    frames: Box<[Frame; BURST_LIMIT]>,
    copy: bool,
    scratch: Box<[u8]>,
    scratch_used: usize,
    pub(crate) received: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

// SAFETY: the raw pointers in `burst` lead into the memory that `ring` holds, or into `scratch`; they are used only
// through `&self` and `&mut self`, so they may move to another thread with what they lead to.
unsafe impl Send for MemifRx {}

impl MemifRx {
    pub(crate) fn new(copy: bool) -> Self {
        Self { ring: None, burst: Burst::new(copy), fault: None }
    }

    /// Tells where frames are read: the ring, its buffers, and what is copied
    /// to.
    pub(crate) fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        if let Some(ring) = &self.ring {
            self.burst.buffers.memory(ring, each);
            if let Buffers::Peers = self.burst.buffers {
                for extent in ring.extents() {
                    each(extent.base.addr()..extent.base.addr() + extent.size as usize);
                }
            }
        }
        let scratch = self.burst.scratch.as_ptr_range();
        each(scratch.start.addr()..scratch.end.addr());
    }

    /// Takes up a ring that was just reset: both indices are zero.
    pub(crate) fn attach(&mut self, ring: RingRef, buffers: Buffers, reserved: Reserved) {
        self.detach();
        self.burst.reserved = reserved;
        ring.get().ask_for_interrupt(false);
        if let Buffers::Own { .. } = buffers {
            // All buffers are empty: offer them.
            ring.get().publish_head(ring.get().size());
        }
        self.burst.buffers = buffers;
        self.ring = Some(ring);
    }

    /// Lets go of the ring; the burst, if any, is gone with it.
    pub(crate) fn detach(&mut self) {
        self.ring = None;
        self.fault = None;
        self.burst.forget();
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref().map(RingRef::get)
    }

    /// Whether the peer took pages of the memory away.
    pub(crate) fn is_lost(&self) -> bool {
        self.ring.as_ref().is_some_and(RingRef::is_lost)
    }

    /// Whether descriptors are there to be taken.
    pub(crate) fn has_frames(&self) -> bool {
        self.ring().is_some_and(|ring| self.burst.peer_index(ring) != self.burst.next)
    }

    /// Frames and bytes received, frames dropped.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.burst.received, self.burst.bytes, self.burst.dropped)
    }

    #[cold]
    fn fail(&mut self, fault: &'static str) -> usize {
        let fault = if self.is_lost() { LOST_FAULT } else { fault };
        self.detach();
        self.fault = Some(fault);
        0
    }
}

impl Receive for MemifRx {
    #[inline]
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        let Some(lies) = &self.ring else { return 0 };
        let burst = &mut self.burst;
        burst.release(lies.get());
        let max = max.min(BURST_LIMIT);
        match burst.ready(lies.get(), max) {
            Ok(0) => 0,
            Ok(ready) => {
                burst.take(lies, ready, max);
                burst.count
            }
            Err(BadIndex) => self.fail("the peer's ring index is out of range"),
        }
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        assert!(index < self.burst.count, "frame beyond the burst");
        // SAFETY: `count` never exceeds BURST_LIMIT, the array's length.
        let frame = unsafe { self.burst.frames.get_unchecked(index) };
        // SAFETY: `take` checked that these bytes are within mapped memory or `scratch`, and not where a slot of ours
        // may be written meanwhile. The mapping is held by `self.ring`, which only `&mut self` lets go of, and then
        // there is no burst any more. That a hostile peer could write them is discussed at the head of memory.rs.
        unsafe { core::slice::from_raw_parts(frame.start, frame.len as usize) }
    }

    #[inline]
    fn release(&mut self) {
        if let Some(lies) = &self.ring {
            self.burst.release(lies.get());
        }
    }
}

impl Burst {
    fn new(copy: bool) -> Self {
        Self {
            buffers: Buffers::Peers,
            home: NO_HOME,
            home_start: 0,
            reserved: Reserved::default(),
            next: 0,
            seen: 0,
            taken: 0,
            count: 0,
            frames: Box::new([NO_FRAME; BURST_LIMIT]),
            copy,
            scratch: vec![0; SCRATCH_SIZE].into(),
            scratch_used: 0,
            received: 0,
            bytes: 0,
            dropped: 0,
        }
    }

    fn forget(&mut self) {
        (self.next, self.seen, self.taken) = (0, 0, 0);
        (self.count, self.scratch_used) = (0, 0);
        self.home = NO_HOME;
    }

    #[inline]
    fn release(&mut self, ring: &Ring) {
        if self.taken == 0 {
            return;
        }
        match self.buffers {
            // The descriptors were made those of empty buffers when they were taken.
            Buffers::Own { .. } => ring.publish_head(self.next.wrapping_add(ring.size())),
            Buffers::Peers => ring.publish_tail(self.next),
        }
        (self.taken, self.count, self.scratch_used) = (0, 0, 0);
    }

    #[inline]
    fn peer_index(&self, ring: &Ring) -> u16 {
        match self.buffers {
            Buffers::Own { .. } => ring.tail(),
            Buffers::Peers => ring.head(),
        }
    }

    /// How many descriptors are there to be taken; looks at the peer's index
    /// only where what was seen before does not suffice, because the look
    /// moves a cache line between cores.
    #[inline]
    fn ready(&mut self, ring: &Ring, wanted: usize) -> Result<u16, BadIndex> {
        let ready = self.seen.wrapping_sub(self.next);
        if usize::from(ready) >= wanted {
            return Ok(ready);
        }
        let seen = self.peer_index(ring);
        let ready = distance(self.next, seen, ring.size())?;
        self.seen = seen;
        Ok(ready)
    }

    /// Fills the burst with at most `max` frames from `ready` descriptors:
    /// runs of whole frames in short loops, what interrupts them one by one.
    #[inline]
    fn take(&mut self, lies: &RingRef, ready: u16, max: usize) {
        let first = self.next;
        let end = first.wrapping_add(ready);
        while self.next != end && self.count < max {
            match self.buffers {
                _ if self.copy => {}
                Buffers::Own { first, stride, size } => self.run_own(lies.get(), end, max, (first, stride, size)),
                Buffers::Peers => self.run_peers(lies.get(), end, max),
            }
            if self.next != end && self.count < max && !self.odd(lies, end.wrapping_sub(self.next)) {
                break;
            }
        }
        self.taken = self.next.wrapping_sub(first);
        self.received += self.count as u64;
    }

    /// Takes whole frames in our own buffers, up to the first that is not.
    #[inline]
    fn run_own(&mut self, ring: &Ring, end: u16, max: usize, (first, stride, size): (*mut u8, u32, u32)) {
        let limit = size.min(FRAME_LIMIT as u32);
        let empty = Descriptor::new(0, 0, size);
        let (mut next, mut count, mut bytes) = (self.next, self.count, 0);
        while next != end && count < max {
            let descriptor = ring.snapshot_low(next);
            let len = descriptor.length();
            if descriptor.has_next() || len.wrapping_sub(1) >= limit {
                break;
            }
            // For the release, which will only move the index.
            ring.describe(next, empty);
            let start = own_buffer(first, stride, ring, next).cast_const();
            prefetch_read(start, len);
            self.frames[count & (BURST_LIMIT - 1)] = Frame { start, len };
            bytes += u64::from(len);
            next = next.wrapping_add(1);
            count += 1;
        }
        (self.next, self.count) = (next, count);
        self.bytes += bytes;
    }

    /// Takes whole frames in the peer's home region, up to the first that is
    /// not.
    #[inline]
    fn run_peers(&mut self, ring: &Ring, end: u16, max: usize) {
        let (word, extent) = self.home;
        let home_start = self.home_start;
        let (mut next, mut count, mut bytes) = (self.next, self.count, 0);
        while next != end && count < max {
            let descriptor = ring.snapshot(next);
            let len = descriptor.length();
            if descriptor.place_word() != word || len.wrapping_sub(1) >= FRAME_LIMIT as u32 {
                break;
            }
            let Some(start) = extent.place(descriptor.offset().wrapping_sub(home_start), len) else { break };
            prefetch_read(start, len);
            self.frames[count & (BURST_LIMIT - 1)] = Frame { start, len };
            bytes += u64::from(len);
            next = next.wrapping_add(1);
            count += 1;
        }
        (self.next, self.count) = (next, count);
        self.bytes += bytes;
    }

    /// Takes what interrupts a run: a frame in another region, or one that
    /// must be copied. Whether anything was taken.
    #[cold]
    #[inline(never)]
    fn odd(&mut self, lies: &RingRef, available: u16) -> bool {
        let (descriptor, place) = self.buffers.place(lies, self.next);
        let len = descriptor.length();
        let copied = self.copy || overlap(&descriptor.bytes(), &self.reserved.within(descriptor.region()));
        let (slots, frame) = match place {
            Some(start) if !copied && !descriptor.has_next() && len.wrapping_sub(1) < FRAME_LIMIT as u32 => {
                if let Some(extent) = lies.extents().get(usize::from(descriptor.region())) {
                    let (start, window) = self.reserved.window(descriptor.region(), &descriptor.bytes(), *extent);
                    self.home = (descriptor.place_word(), window);
                    self.home_start = start;
                }
                (1, Some(Frame { start, len }))
            }
            _ => match self.gather(lies, available) {
                Some(gathered) => gathered,
                None => return false,
            },
        };
        if let Buffers::Own { size, .. } = self.buffers {
            (0..slots).for_each(|slot| lies.get().describe(self.next.wrapping_add(slot), Descriptor::new(0, 0, size)));
        }
        self.next = self.next.wrapping_add(slots);
        match frame {
            Some(frame) => {
                self.frames[self.count & (BURST_LIMIT - 1)] = frame;
                self.count += 1;
                self.bytes += u64::from(frame.len);
            }
            None => self.dropped += 1,
        }
        true
    }

    /// Copies one frame, chained or not, into private memory. Returns how many
    /// descriptors it took and the frame, without one if it was malformed;
    /// nothing if it must be left for later.
    fn gather(&mut self, lies: &RingRef, available: u16) -> Option<(u16, Option<Frame>)> {
        let start = self.scratch_used;
        let mut len = 0;
        let mut bad = false;
        for slots in 1..=available {
            let (descriptor, place) = self.buffers.place(lies, self.next.wrapping_add(slots - 1));
            let part = descriptor.length() as usize;
            match place {
                Some(_) if bad => {}
                Some(source) if len + part <= FRAME_LIMIT => {
                    if start + len + part > self.scratch.len() {
                        return None; // Room comes with the release of this burst.
                    }
                    let target = &mut self.scratch[start + len..start + len + part];
                    // SAFETY: `place` checked that `part` bytes at `source` are within mapped memory, which `lies`
                    // keeps mapped; the target is private and of that length, so they do not overlap. The peer may
                    // write meanwhile; then the copy holds a mixture, which is as good as any bytes.
                    unsafe { core::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), part) };
                    len += part;
                }
                _ => bad = true,
            }
            if !descriptor.has_next() {
                if bad || len == 0 {
                    return Some((slots, None));
                }
                self.scratch_used = start + len;
                let frame = Frame { start: self.scratch[start..].as_ptr(), len: len as u32 };
                return Some((slots, Some(frame)));
            }
        }
        // A chain without an end. A full ring cannot bring its end any more.
        (available == lies.get().size()).then_some((available, None))
    }
}
