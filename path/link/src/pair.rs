//! Two links joined in memory: what one sends the other receives.
//!
//! For tests, the simulator and instruction counts: no system call, no lock,
//! no allocation after [`Pair::new`], and a handful of instructions per frame.
//! A frame is not copied on the way. Each ring slot owns a buffer, and sending
//! and receiving swap the buffer at hand with the slot's, so that the sender
//! builds and the receiver reads in memory that is theirs alone at that moment.
//!
//! Both ends live on one thread.

use crate::segment::{Cut, complete_checksum};
use crate::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use core::cell::Cell;
use core::hint::cold_path;
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use wire::{Offload, Time};

/// Largest ring, in slots: with the default MTU 100 MB of buffers, far beyond
/// any sensible queue.
pub const RING_LIMIT: usize = 32 * 1024;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// How a pair is made; both ends are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairConfig {
    /// Frames under way in each direction: rounded up to a power of two,
    /// clamped to 1..=[`RING_LIMIT`]. Default 256. Costs `mtu + 18` bytes for
    /// each slot and direction, twice (the receiver's burst has its own).
    pub ring: usize,
    /// Largest IP packet in bytes. Default 1500.
    pub mtu: u16,
    /// Whether the link completes checksums on sending, and vouches for those
    /// that it completed on receiving. Off by default.
    pub checksum_offload: bool,
    /// Whether the link cuts large TCP packets into segments, and up to which
    /// IP packet size in bytes. Requires, and so switches on,
    /// `checksum_offload`. Slots grow to this size. Off by default.
    pub segmentation: Option<u32>,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self { ring: 256, mtu: 1500, checksum_offload: false, segmentation: None }
    }
}

/// Makes pairs of links.
#[derive(Clone, Copy, Debug)]
pub struct Pair;

impl Pair {
    /// Two ends of one link.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "a pair is only ever its two ends")]
    pub fn new(config: PairConfig) -> (PairLink, PairLink) {
        let there = Rc::new(Ring::new(&config));
        let back = Rc::new(Ring::new(&config));
        (PairLink::new(config, &back, &there), PairLink::new(config, &there, &back))
    }
}

/// One end of a pair. Dropping it takes the other end [`LinkState::Down`].
pub struct PairLink {
    capabilities: Capabilities,
    rx: PairRx,
    tx: PairTx,
    state: LinkState,
    disconnects: u64,
}

impl PairLink {
    fn new(config: PairConfig, incoming: &Rc<Ring>, outgoing: &Rc<Ring>) -> Self {
        let offload = config.checksum_offload || config.segmentation.is_some();
        Self {
            capabilities: Capabilities {
                mtu: config.mtu,
                receive_checksum: offload,
                transmit_checksum: offload,
                segmentation: config.segmentation,
                queues: 1,
                shared_frames: false,
            },
            rx: PairRx::new(&config, Rc::clone(incoming)),
            tx: PairTx::new(&config, Rc::clone(outgoing)),
            state: LinkState::Up,
            disconnects: 0,
        }
    }

    /// Frames that the peer has flushed and this end has not yet received:
    /// what a simulator asks to see whether this end has work.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.rx.waiting()
    }
}

impl Link for PairLink {
    type Rx<'a>
        = &'a mut PairRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut PairTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn split(&mut self) -> (&mut PairRx, &mut PairTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, _now: Time) -> LinkState {
        // Each end holds both rings; a ring held once has lost its other end.
        if self.state == LinkState::Up && Rc::strong_count(&self.tx.ring) == 1 {
            self.state = LinkState::Down;
            self.tx.down = true;
            self.disconnects += 1;
        }
        self.state
    }

    /// Returns at once: with both ends on one thread, nothing can arrive
    /// while this one sleeps.
    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            rx_frames: self.rx.frames,
            rx_bytes: self.rx.bytes,
            rx_dropped: self.rx.dropped,
            tx_frames: self.tx.frames,
            tx_bytes: self.tx.bytes,
            tx_dropped: self.tx.dropped,
            tx_full: self.tx.full,
            disconnects: self.disconnects,
        }
    }
}

/// The receive half of a [`PairLink`].
pub struct PairRx {
    ring: Rc<Ring>,
    /// The burst at hand; its buffers are swapped with the ring's.
    burst: Box<[Slot]>,
    taken: usize,
    /// A large packet that is being cut, where segmentation is offered.
    cutting: Option<Cutting>,
    frames: u64,
    bytes: u64,
    dropped: u64,
}

/// A large packet and the place up to which it is cut.
struct Cutting {
    slot: Slot,
    cut: Option<Cut>,
}

impl PairRx {
    fn new(config: &PairConfig, ring: Rc<Ring>) -> Self {
        let burst = (0..ring.slots.len()).map(|_| Slot::new(config)).collect();
        let cutting = config.segmentation.map(|_| Cutting { slot: Slot::new(config), cut: None });
        Self { ring, burst, taken: 0, cutting, frames: 0, bytes: 0, dropped: 0 }
    }

    #[inline]
    fn waiting(&self) -> usize {
        let queued = self.ring.published.get().wrapping_sub(self.ring.taken.get()) as usize;
        let cutting = self.cutting.as_ref().is_some_and(|c| c.cut.is_some());
        queued + usize::from(cutting)
    }

    /// Swaps `count` frames from `head` on into the burst.
    #[inline(always)]
    fn take(&mut self, head: u32, count: usize) {
        // In the two runs that a ring has, so that the loop need not look
        // for its end at each frame. Mostly it is one.
        let at = (head & self.ring.mask) as usize;
        let (wrapped, straight) = self.ring.slots.split_at(at);
        let first = count.min(straight.len());
        let mut bytes = 0;
        let (burst, rest) = self.burst[..count].split_at_mut(first);
        for (slot, from) in burst.iter_mut().zip(straight) {
            slot.swap(from);
            bytes += u64::from(slot.note.len);
        }
        if !rest.is_empty() {
            cold_path();
            for (slot, from) in rest.iter_mut().zip(wrapped) {
                slot.swap(from);
                bytes += u64::from(slot.note.len);
            }
        }
        self.bytes += bytes;
        self.ring.taken.set(head.wrapping_add(count as u32));
    }

    /// As `receive`, where frames may need cutting.
    #[cold]
    fn receive_cut(&mut self, max: usize) -> usize {
        let max = max.min(self.burst.len());
        let mut count = 0;
        while count < max {
            let Some(cutting) = self.cutting.as_mut() else { break };
            if let Some(cut) = cutting.cut.as_mut() {
                let out = &mut self.burst[count];
                match cut.next(cutting.slot.frame(), &mut out.buf) {
                    Some(len) => {
                        out.note = Note { len, verified: true, ..Note::default() };
                        count += 1;
                    }
                    None => cutting.cut = None,
                }
                continue;
            }
            let head = self.ring.taken.get();
            if head == self.ring.published.get() {
                break;
            }
            cutting.slot.swap(self.ring.at(head));
            self.ring.taken.set(head.wrapping_add(1));
            let Note { segment, start, .. } = cutting.slot.note;
            if segment == 0 {
                core::mem::swap(&mut cutting.slot, &mut self.burst[count]);
                count += 1;
                continue;
            }
            cutting.cut = Cut::new(cutting.slot.frame(), usize::from(start), usize::from(segment));
            if cutting.cut.is_none() {
                self.dropped += 1;
            }
        }
        count
    }
}

impl Receive for PairRx {
    #[inline]
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        let count = if self.cutting.is_some() {
            let count = self.receive_cut(max);
            self.bytes += self.burst[..count].iter().map(|slot| u64::from(slot.note.len)).sum::<u64>();
            count
        } else {
            let head = self.ring.taken.get();
            let queued = self.ring.published.get().wrapping_sub(head) as usize;
            let count = queued.min(max).min(self.burst.len());
            self.take(head, count);
            count
        };
        self.taken = count;
        self.frames += count as u64;
        count
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        self.burst[..self.taken][index].frame()
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.burst[..self.taken][index].note.verified
    }

    #[inline]
    fn release(&mut self) {
        self.taken = 0;
    }
}

/// The transmit half of a [`PairLink`].
pub struct PairTx {
    ring: Rc<Ring>,
    /// The buffer that the next frame is built in.
    current: Box<[u8]>,
    /// Whether `current` was handed out and not yet committed.
    offered: bool,
    /// The other end is gone.
    down: bool,
    /// Committed up to here, published up to `ring.published`.
    committed: u32,
    /// Commits that surely fit before the ring must be looked at again.
    free: u32,
    frames: u64,
    bytes: u64,
    dropped: u64,
    full: u64,
}

impl PairTx {
    fn new(config: &PairConfig, ring: Rc<Ring>) -> Self {
        let free = ring.slots.len() as u32;
        Self {
            ring,
            current: buffer(config),
            offered: false,
            down: false,
            committed: 0,
            free,
            frames: 0,
            bytes: 0,
            dropped: 0,
            full: 0,
        }
    }

    /// Looks how many slots the receiver has emptied. A ring without a
    /// receiver is always empty: what is committed to it is dropped.
    #[cold]
    fn look(&mut self) -> bool {
        self.free = self.ring.free(self.committed);
        if self.free == 0 && !self.down {
            self.full += 1;
            return false;
        }
        true
    }

    /// Does what the offload asks for, as far as it must be done by the
    /// sender, or notes it for the receiving side, which does the cutting: so
    /// a large packet takes one slot, as it takes one descriptor of a NIC.
    #[cold]
    fn offload(&mut self, note: Note, offload: Offload) -> Note {
        let Some(partial) = offload.checksum else { return note };
        match offload.segment {
            // No header starts at zero: an offset too large to be true fails
            // where the cut is made, and is counted there.
            Some(segment) if segment > 0 => Note { segment, start: u8::try_from(partial.start).unwrap_or(0), ..note },
            _ => {
                let frame = &mut self.current[..note.len as usize];
                Note { verified: complete_checksum(frame, partial), ..note }
            }
        }
    }
}

impl Transmit for PairTx {
    #[inline]
    fn room(&self) -> usize {
        if self.down { self.ring.slots.len() } else { self.ring.free(self.committed) as usize }
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.free == 0 && !self.look() {
            return None;
        }
        self.offered = true;
        Some(&mut self.current)
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        if !self.offered {
            return;
        }
        self.offered = false;
        if self.down {
            self.dropped += 1;
            return;
        }
        let mut note = Note { len: len.min(self.current.len()) as u32, ..Note::default() };
        if offload.checksum.is_some() {
            note = self.offload(note, offload);
        }
        self.bytes += u64::from(note.len);
        self.frames += 1;
        self.ring.at(self.committed).put(&mut self.current, note);
        self.committed = self.committed.wrapping_add(1);
        self.free -= 1;
    }

    #[inline]
    fn flush(&mut self, _now: Time) {
        self.ring.published.set(self.committed);
    }
}

/// What a slot says of the frame in its buffer.
#[derive(Clone, Copy, Default)]
struct Note {
    len: u32,
    /// Payload bytes per segment to cut into; 0 for a frame as it is.
    segment: u16,
    /// Where the transport header starts, for cutting.
    start: u8,
    verified: bool,
}

const _: () = assert!(size_of::<Note>() == 8, "a note is moved for each frame, as one word");

/// A frame received.
struct Slot {
    buf: Box<[u8]>,
    note: Note,
}

impl Slot {
    fn new(config: &PairConfig) -> Self {
        Self { buf: buffer(config), note: Note::default() }
    }

    #[inline]
    fn frame(&self) -> &[u8] {
        &self.buf[..self.note.len as usize]
    }

    /// Takes the frame of `from`, and leaves it the buffer held so far.
    #[inline]
    fn swap(&mut self, from: &RingSlot) {
        self.buf = from.buf.replace(core::mem::take(&mut self.buf));
        self.note = from.note.get();
    }
}

/// A frame under way.
struct RingSlot {
    buf: Cell<Box<[u8]>>,
    note: Cell<Note>,
}

impl RingSlot {
    /// Takes the frame built in `buf`, and gives it the buffer held so far.
    #[inline]
    fn put(&self, buf: &mut Box<[u8]>, note: Note) {
        *buf = self.buf.replace(core::mem::take(buf));
        self.note.set(note);
    }
}

fn buffer(config: &PairConfig) -> Box<[u8]> {
    let packet = config.segmentation.unwrap_or(0).max(u32::from(config.mtu)) as usize;
    vec![0; packet + HEADER_ROOM].into_boxed_slice()
}

/// One direction: slots, and how far each side has come. The counts run
/// freely and wrap; a slot is the count modulo the ring's power-of-two size.
struct Ring {
    slots: Box<[RingSlot]>,
    mask: u32,
    published: Cell<u32>,
    taken: Cell<u32>,
}

impl Ring {
    fn new(config: &PairConfig) -> Self {
        let size = config.ring.clamp(1, RING_LIMIT).next_power_of_two();
        let slot = |_| RingSlot { buf: Cell::new(buffer(config)), note: Cell::new(Note::default()) };
        let slots = (0..size).map(slot).collect();
        Self { slots, mask: size as u32 - 1, published: Cell::new(0), taken: Cell::new(0) }
    }

    #[inline]
    fn at(&self, count: u32) -> &RingSlot {
        &self.slots[(count & self.mask) as usize]
    }

    #[inline]
    fn free(&self, committed: u32) -> u32 {
        self.slots.len() as u32 - committed.wrapping_sub(self.taken.get())
    }
}

#[cfg(test)]
mod tests;
