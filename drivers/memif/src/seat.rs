//! An interface that another process keeps: its queues, of which one process at a time receives and
//! one sends.
//!
//! Every burst begins at the index that stands in the ring and ends with its one store, and frames are
//! copied: so whoever comes next goes on, however the one before ended.

use crate::bell::{Bell, BellWatch};
use crate::config::{Config, Mode, POLL_NAP};
use crate::exported::{ExportedRing, SHARED_QUEUES, number, wrong};
use crate::guard;
use crate::memory::{Memory, RingRef, map_given};
use crate::receive::{BURST_LIMIT, Buffers, FRAME_LIMIT, own_buffer};
use crate::ring::{BadIndex, Descriptor, distance, locate};
use ::link::{Capabilities, LinkState, Reopened};
use core::ops::Range;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Looks at the ring between asking for an eventfd and going to sleep, as in `link.rs`.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// The interface.
#[derive(Debug)]
pub struct SeatMemif {
    /// Its queues, in order: as many as are configured, whether or not there is a peer.
    pub queues: Vec<(MemifSeatRx, MemifSeatTx)>,
    /// What they can do.
    pub capabilities: Capabilities,
    /// Which connection they are of.
    pub epoch: u32,
}

impl SeatMemif {
    /// What another process shares ([`crate::KeptMemif::share`]). Needs no right.
    ///
    /// # Errors
    /// If what is shared is no such interface, or the system's.
    pub fn given(config: &Config, shared: Reopened) -> io::Result<Self> {
        // Frames are copied.
        let capabilities = Capabilities { shared_frames: false, ..config.capabilities() };
        let mut words = shared.text.split(' ');
        let epoch = number(words.next().unwrap_or_default())?;
        let mut sides = match (words.next(), words.next()) {
            (Some(sizes), Some(rings)) => map(sizes, rings, shared.descriptors)?,
            _ => Vec::new(),
        }
        .into_iter();
        let longest = usize::from(config.mtu) + crate::HEADER_ROOM as usize;
        let queue = |_| {
            let (rx, tx) = sides.next().map_or((None, None), |(rx, tx)| (Some(rx), Some(tx)));
            let rx = MemifSeatRx { side: rx, polls: config.mode == Mode::Poll, fault: None, dropped: 0 };
            (rx, MemifSeatTx { side: tx, longest, published: false, fault: None, dropped: 0 })
        };
        Ok(Self { queues: (0..config.queues).map(queue).collect(), capabilities, epoch })
    }
}

/// Maps regions, and finds the rings in them.
fn map(sizes: &str, rings: &str, descriptors: Vec<OwnedFd>) -> io::Result<Vec<(RxSide, TxSide)>> {
    guard::take_signal()?;
    let sizes: Vec<u64> = sizes.split(',').map(number).collect::<io::Result<_>>()?;
    let rings: Vec<ExportedRing> = rings.split(',').map(str::parse).collect::<io::Result<_>>()?;
    if rings.len() > 2 * usize::from(SHARED_QUEUES) || descriptors.len() != sizes.len() + rings.len() {
        return Err(wrong());
    }
    let mut descriptors = descriptors.into_iter();
    let regions: Vec<(OwnedFd, u64)> = descriptors.by_ref().zip(sizes).collect();
    let memory = map_given(&regions)?;
    // Open as long as they are mapped: whoever gave them knows them by their numbers.
    let regions = Arc::new(regions);
    let bells = BellWatch::start()?;
    let mut events = descriptors.map(Arc::new);
    let mut sides = Vec::new();
    for [rx, tx] in rings.as_chunks().0 {
        let (Some(event), Some(bell)) = (events.next(), events.next()) else { return Err(wrong()) };
        let (lies, buffers) = find(&memory, rx)?;
        let rx = RxSide { lies, buffers, event, regions: Arc::clone(&regions) };
        let (lies, buffers) = find(&memory, tx)?;
        sides.push((rx, TxSide { lies, buffers, bell: Bell::new(bell, &bells) }));
    }
    Ok(sides)
}

/// A ring, and where its buffers are.
fn find(memory: &Arc<Memory>, ring: &ExportedRing) -> io::Result<(RingRef, Buffers)> {
    let lies = RingRef::new(memory, ring.region, ring.offset, ring.log2_size).ok_or_else(wrong)?;
    let Some([first, stride, size]) = ring.buffers else { return Ok((lies, Buffers::Peers)) };
    let extent = memory.extents().first().ok_or_else(wrong)?;
    let end = u64::from(first) + (u64::from(stride) << ring.log2_size);
    if size > stride || end > extent.size {
        return Err(wrong());
    }
    Ok((lies, Buffers::Own { first: extent.base.wrapping_add(first as usize), stride, size }))
}

#[derive(Debug)]
struct RxSide {
    lies: RingRef,
    buffers: Buffers,
    event: Arc<OwnedFd>,
    #[expect(dead_code, reason = "open as long as they are mapped")]
    regions: Arc<Vec<(OwnedFd, u64)>>,
}

/// The receiving side of a queue.
#[derive(Debug)]
pub struct MemifSeatRx {
    side: Option<RxSide>,
    /// Nothing tells of frames.
    polls: bool,
    fault: Option<&'static str>,
    dropped: u64,
}

// SAFETY: the pointer in `buffers` leads into the memory that `lies` holds.
unsafe impl Send for MemifSeatRx {}

impl RxSide {
    /// The first descriptor that is not taken, and how many are there to be taken.
    fn waiting(&self) -> Result<(u16, u16), BadIndex> {
        let ring = self.lies.get();
        let (next, end) = match self.buffers {
            // All that was read is offered again: the index is a ring's length ahead.
            Buffers::Own { .. } => (ring.head().wrapping_sub(ring.size()), ring.tail()),
            Buffers::Peers => (ring.tail(), ring.head()),
        };
        Ok((next, distance(next, end, ring.size())?))
    }

    /// Copies one frame, chained or not: how many of `available` descriptors it has, and whether it is
    /// one; `None` while its end is not there.
    fn copy(&self, first: u16, available: u16, into: &mut Vec<u8>) -> Option<(u16, bool)> {
        let (start, mut good) = (into.len(), true);
        for count in 1..=available {
            let (descriptor, place) = self.buffers.place(&self.lies, first.wrapping_add(count - 1));
            let len = descriptor.length() as usize;
            match place {
                Some(from) if good && into.len() - start + len <= FRAME_LIMIT => {
                    let at = into.len();
                    into.reserve(len);
                    // SAFETY: `place` checked that these bytes are within mapped memory, which `lies` holds; room for
                    // them was just reserved. The peer may write meanwhile: then the copy is a mixture.
                    unsafe {
                        core::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(at), len);
                        into.set_len(at + len);
                    }
                }
                _ => good = false,
            }
            if !descriptor.has_next() {
                return Some((count, good && into.len() > start));
            }
        }
        // A full ring cannot bring a chain's end any more.
        (available == self.lies.get().size()).then_some((available, false))
    }

    /// Gives descriptors back.
    fn release(&self, next: u16, taken: u16) {
        let ring = self.lies.get();
        match self.buffers {
            Buffers::Own { size, .. } => {
                let empty = Descriptor::new(0, 0, size);
                (0..taken).for_each(|at| ring.describe(next.wrapping_add(at), empty));
                ring.publish_head(next.wrapping_add(taken).wrapping_add(ring.size()));
            }
            Buffers::Peers => ring.publish_tail(next.wrapping_add(taken)),
        }
    }
}

impl MemifSeatRx {
    /// Whether frames wait.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        self.side.as_ref().is_some_and(|side| !matches!(side.waiting(), Ok((_, 0))))
    }

    /// Takes up to `max` frames: copies each behind what `into` holds, and tells where. One process at
    /// a time calls this.
    pub fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>)) {
        let Some(side) = &self.side else { return };
        let Ok((next, ready)) = side.waiting() else {
            (self.side, self.fault) = (None, Some("the peer's ring index is out of range"));
            return;
        };
        let mut taken = 0;
        for _ in 0..max.min(BURST_LIMIT) {
            let start = into.len();
            let left = ready - taken;
            if left == 0 {
                break;
            }
            let Some((count, good)) = side.copy(next.wrapping_add(taken), left, into) else {
                into.truncate(start);
                break;
            };
            taken += count;
            if good {
                each(start..into.len());
            } else {
                into.truncate(start);
                self.dropped += 1;
            }
        }
        if taken > 0 {
            side.release(next, taken);
        }
    }

    /// Whether there is a peer.
    pub fn poll_control(&mut self) -> LinkState {
        if self.side.as_ref().is_some_and(|side| side.lies.is_lost()) {
            (self.side, self.fault) = (None, Some(crate::receive::LOST_FAULT));
        }
        if self.side.is_some() { LinkState::Up } else { LinkState::Down }
    }

    /// What is wrong with the peer, once: whoever keeps the interface is to hear it.
    pub const fn take_fault(&mut self) -> Option<&'static str> {
        self.fault.take()
    }

    /// Prepares for a sleep: the descriptor that becomes readable when frames come, and for how long
    /// that can be relied on.
    pub fn arm(&mut self) -> (Option<BorrowedFd<'_>>, Duration) {
        let has_frames = self.has_frames();
        let Some(side) = &self.side else { return (None, Duration::MAX) };
        if has_frames || self.polls {
            return (None, if has_frames { Duration::ZERO } else { POLL_NAP });
        }
        // What rang before is looked at from here on.
        crate::link::drain(side.event.as_fd());
        side.lies.get().ask_for_interrupt(true);
        for _ in 0..LOOKS_BEFORE_SLEEP {
            core::hint::spin_loop();
            if !matches!(side.waiting(), Ok((_, 0))) {
                return (None, Duration::ZERO);
            }
        }
        (Some(side.event.as_fd()), Duration::MAX)
    }

    /// Nobody sleeps: the peer need not ring.
    pub fn hush(&mut self) {
        if let Some(side) = &self.side {
            side.lies.get().stop_interrupts();
        }
    }

    /// Frames that were none.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[derive(Debug)]
struct TxSide {
    lies: RingRef,
    buffers: Buffers,
    bell: Bell,
}

/// The sending side.
#[derive(Debug)]
pub struct MemifSeatTx {
    side: Option<TxSide>,
    longest: usize,
    /// Something was sent since the peer was last rung.
    published: bool,
    fault: Option<&'static str>,
    dropped: u64,
}

// SAFETY: as for `MemifSeatRx`.
unsafe impl Send for MemifSeatTx {}

impl TxSide {
    /// The first descriptor that is free, and how many are.
    fn free(&self) -> Result<(u16, u16), BadIndex> {
        let ring = self.lies.get();
        match self.buffers {
            Buffers::Own { .. } => {
                let next = ring.head();
                Ok((next, ring.size() - distance(ring.tail(), next, ring.size())?))
            }
            Buffers::Peers => {
                let next = ring.tail();
                Ok((next, distance(next, ring.head(), ring.size())?))
            }
        }
    }

    /// Copies a frame into the buffer of a descriptor; whether it has one that is long enough.
    fn fill(&self, slot: u16, frame: &[u8]) -> bool {
        let (ring, len) = (self.lies.get(), frame.len() as u32);
        let (place, word) = match self.buffers {
            Buffers::Own { first, stride, size } => {
                let start = own_buffer(first, stride, ring, slot);
                ((len <= size).then_some(start), 0)
            }
            Buffers::Peers => {
                let descriptor = ring.snapshot(slot);
                let part = Descriptor::new(descriptor.region(), descriptor.offset(), len);
                let place = locate(self.lies.extents(), part).filter(|_| descriptor.length() >= len);
                (place, descriptor.without_flags())
            }
        };
        let Some(to) = place else { return false };
        // SAFETY: `len` bytes there are within mapped memory, which `lies` holds. Whoever else writes there is the
        // peer, or was told to by it, and gets a mixture.
        unsafe { core::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len()) };
        ring.describe(slot, Descriptor::at(word, len));
        true
    }
}

impl MemifSeatTx {
    /// The longest frame, in bytes.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Sends as many of the frames as there is room for, the first first, and returns how many; without
    /// a peer they are dropped. One process at a time calls this.
    pub fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        let Some(side) = &self.side else {
            let count = frames.count();
            self.dropped += count as u64;
            return count;
        };
        let Ok((next, free)) = side.free() else {
            (self.side, self.fault) = (None, Some("the peer's ring index is out of range"));
            return 0;
        };
        let mut count = 0;
        while count < free {
            let Some(frame) = frames.next() else { break };
            if !side.fill(next.wrapping_add(count), frame) {
                (self.side, self.fault) = (None, Some("a buffer of the peer's is outside of its memory, or too small"));
                return usize::from(count);
            }
            count += 1;
        }
        if count > 0 {
            let (ring, next) = (side.lies.get(), next.wrapping_add(count));
            match side.buffers {
                Buffers::Own { .. } => ring.publish_head(next),
                Buffers::Peers => ring.publish_tail(next),
            }
            self.published = true;
        }
        usize::from(count)
    }

    /// Wakes the peer, if it sleeps.
    pub fn kick(&mut self) {
        if !core::mem::take(&mut self.published) {
            return;
        }
        // The publication comes before the look at the peer's flag.
        fence(Ordering::SeqCst);
        let Some(side) = &self.side else { return };
        if side.lies.get().wants_interrupt() && side.bell.ring().is_err() {
            (self.side, self.fault) = (None, Some(crate::transmit::BELL_FAULT));
        }
    }

    /// What is wrong with the peer, once.
    pub const fn take_fault(&mut self) -> Option<&'static str> {
        self.fault.take()
    }

    /// Leaves an index in the ring that is none.
    #[cfg(test)]
    pub(crate) fn spoil(&self) {
        let Some(side) = &self.side else { return };
        let ring = side.lies.get();
        match side.buffers {
            Buffers::Own { .. } => ring.publish_head(ring.tail().wrapping_add(ring.size() + 1)),
            Buffers::Peers => ring.publish_tail(ring.head().wrapping_add(1)),
        }
    }

    /// Frames that had no peer.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}
