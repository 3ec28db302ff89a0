//! The transmit half: frames built in packet buffers that the port sends.

use crate::ffi::{self, BURST, Pool, Slot, TX_CHECKSUM, TX_SEGMENT, TX_STAMP};
use crate::port::Port;
use ::link::Transmit;
use core::fmt;
use core::hint::cold_path;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;
use wire::{Offload, Time};

/// Slots of this side's own ring, in front of the port's: a power of two.
const SLOTS: usize = 256;

/// A frame that a port in operation does not take for this long is dropped:
/// ten times what a paused port (IEEE 802.3 annex 31B: at most 33 ms at
/// 1 Gbit/s) makes it wait.
const STUCK_LIMIT: Duration = Duration::from_millis(350);

/// Packet buffers taken from the pool at once.
const FILL: usize = 32;

const _: () = assert!(SLOTS.is_power_of_two() && SLOTS.is_multiple_of(FILL) && FILL <= BURST);

/// The transmit half of a [`crate::DpdkLink`].
pub struct DpdkTx {
    port: Arc<Port>,
    queue: u16,
    pool: NonNull<Pool>,
    slots: Box<[Slot; SLOTS]>,
    slot_len: u32,
    /// Counted modulo 2^32: `sent <= committed <= filled`, at most SLOTS
    /// apart. From `committed` on slots are free to be written.
    sent: u32,
    committed: u32,
    filled: u32,
    handed_out: bool,
    /// The oldest frame that waits, and since when it is known to.
    stuck: Option<(u32, Time)>,
    /// The pool gave nothing when last asked.
    starved: bool,
    /// The port completes frames, and looks at them before.
    prepare: bool,
    /// The frame that is committed next is to be stamped as it leaves.
    stamp_next: bool,
    departing: Option<Departing>,
    pub(crate) sent_frames: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) full: u64,
}

/// A frame whose stamp is waited for: ports keep one at a time.
struct Departing {
    frame: Vec<u8>,
    /// Its running number.
    number: u32,
}

// SAFETY: the pointers lead to packet buffers that this half owns until the port takes them, and to their pool, which
// `port` keeps; they are used only through `&mut self`.
unsafe impl Send for DpdkTx {}

impl fmt::Debug for DpdkTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkTx").field("queue", &self.queue).field("room", &self.room()).finish_non_exhaustive()
    }
}

const NO_SLOT: Slot =
    Slot { mbuf: core::ptr::null_mut(), data: core::ptr::null_mut(), len: 0, flags: 0, transport: 0, segment: 0 };

impl DpdkTx {
    pub(crate) fn new(port: Arc<Port>, queue: u16, pool: NonNull<Pool>, slot_len: u32) -> Self {
        let prepare = port.facts.transmit_checksum;
        Self {
            port,
            queue,
            pool,
            slots: Box::new([NO_SLOT; SLOTS]),
            slot_len,
            sent: 0,
            committed: 0,
            filled: 0,
            handed_out: false,
            stuck: None,
            starved: false,
            prepare,
            stamp_next: false,
            departing: None,
            sent_frames: 0,
            sent_bytes: 0,
            dropped: 0,
            full: 0,
        }
    }

    /// Frames wait for the port.
    pub(crate) fn is_pending(&self) -> bool {
        self.sent != self.committed
    }

    /// Drops the oldest frame if it is the same that waited when last asked,
    /// and the port takes no other before it: a port that is only full takes
    /// it within this time. Some refuse a frame for good without saying so.
    pub(crate) fn give_up_stuck(&mut self, now: Time) {
        let waiting = self.is_pending().then_some(self.sent);
        match (waiting, self.stuck) {
            (Some(frame), Some((known, since))) if frame == known => {
                if now.since(since) >= STUCK_LIMIT {
                    self.drop_oldest();
                    self.stuck = None;
                }
            }
            (waiting, _) => self.stuck = waiting.map(|frame| (frame, now)),
        }
    }

    fn drop_oldest(&mut self) {
        // SAFETY: this slot's buffer is ours until the port takes it, and is forgotten here.
        unsafe { ffi::near_drop_slots(&raw mut self.slots[place(self.sent)], 1) };
        self.sent = self.sent.wrapping_add(1);
        self.dropped += 1;
    }

    /// Drops what waits: there is no way for it.
    pub(crate) fn forget(&mut self) {
        while self.is_pending() {
            let (start, run) = self.run();
            // SAFETY: these slots' buffers are ours, and are forgotten here.
            unsafe { ffi::near_drop_slots(self.slots[start..].as_mut_ptr(), run as u16) };
            self.dropped += run as u64;
            self.sent = self.sent.wrapping_add(run as u32);
        }
    }

    /// The oldest slots that wait, as far as they lie in a row.
    #[inline]
    fn run(&self) -> (usize, usize) {
        let start = place(self.sent);
        let pending = self.committed.wrapping_sub(self.sent) as usize;
        (start, pending.min(SLOTS - start).min(BURST))
    }

    /// Marks the frame that is being committed as one that the port is to stamp.
    #[cold]
    fn stamp(&mut self) {
        self.stamp_next = false;
        let slot = &mut self.slots[place(self.committed)];
        slot.flags |= TX_STAMP;
        // SAFETY: as in `slot`; `commit` has bounded the length.
        let frame = unsafe { core::slice::from_raw_parts(slot.data, slot.len.into()) };
        self.departing = Some(Departing { frame: frame.to_vec(), number: self.committed });
        // What is left of the frame before is not this one's.
        self.take_departure();
    }

    /// The stamp of the frame that left last of those that were to be stamped.
    fn take_departure(&mut self) -> Option<u64> {
        let mut stamp = 0;
        // SAFETY: a number is written, which lives during the call; the port lives as long as `self.port`.
        let found = unsafe { ffi::near_departure(self.port.id, &raw mut stamp) };
        (found != 0).then_some(stamp)
    }

    /// Takes buffers from the pool for the next slots.
    #[cold]
    #[inline(never)]
    fn fill(&mut self) -> bool {
        let free = SLOTS - self.committed.wrapping_sub(self.sent) as usize;
        let start = place(self.filled);
        let count = free.min(FILL).min(SLOTS - start);
        // SAFETY: from `start` on there are `count` slots, none of which holds a buffer.
        let got = unsafe { ffi::near_slots(self.pool.as_ptr(), self.slots[start..].as_mut_ptr(), count as u16) };
        self.starved = free > 0 && got < 0;
        if free == 0 || self.starved {
            self.full += 1;
            return false;
        }
        self.filled = self.filled.wrapping_add(count as u32);
        true
    }
}

/// The slot that a running number means.
#[inline]
const fn place(number: u32) -> usize {
    number as usize & (SLOTS - 1)
}

impl Transmit for DpdkTx {
    #[inline]
    fn room(&self) -> usize {
        if self.starved {
            cold_path();
            return self.filled.wrapping_sub(self.committed) as usize;
        }
        SLOTS - self.committed.wrapping_sub(self.sent) as usize
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.committed == self.filled && !self.fill() {
            return None;
        }
        self.handed_out = true;
        let slot = &self.slots[place(self.committed)];
        // SAFETY: the buffer behind the slot is ours until it is sent, and has room for this many bytes: its pool was
        // made so.
        Some(unsafe { core::slice::from_raw_parts_mut(slot.data, self.slot_len as usize) })
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        if !core::mem::take(&mut self.handed_out) {
            return;
        }
        let slot = &mut self.slots[place(self.committed)];
        slot.len = len.min(self.slot_len as usize) as u16;
        slot.flags = 0;
        if let Some(checksum) = offload.checksum {
            slot.flags = TX_CHECKSUM;
            slot.transport = checksum.start;
            if let Some(segment) = offload.segment {
                slot.flags |= TX_SEGMENT;
                slot.segment = segment;
            }
        }
        if self.stamp_next {
            self.stamp();
        }
        self.committed = self.committed.wrapping_add(1);
    }

    fn flush(&mut self, _now: Time) {
        while self.is_pending() {
            let (start, run) = self.run();
            let mut refused = 0;
            // SAFETY: `run` committed slots from `start` on, whose buffers are ours. Those that the port takes are
            // forgotten below. The port lives as long as `self.port`, and this queue is this value's alone.
            let took = unsafe {
                let slots = self.slots[start..].as_ptr();
                ffi::near_send(self.port.id, self.queue, slots, run as u16, self.prepare.into(), &raw mut refused)
            };
            let took = usize::from(took).min(run);
            self.sent_frames += took as u64;
            self.sent_bytes += self.slots[start..start + took].iter().map(|slot| u64::from(slot.len)).sum::<u64>();
            self.sent = self.sent.wrapping_add(took as u32);
            if took == run {
                continue;
            }
            cold_path();
            if refused != 0 {
                self.drop_oldest();
                continue;
            }
            // The port is full: the rest waits, in order, until the next flush. Where there is no way at all it is
            // dropped.
            if !self.port.is_up() {
                self.forget();
            }
            return;
        }
    }

    fn stamp_next(&mut self) {
        self.stamp_next = self.port.stamps_departures();
    }

    #[cold]
    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        let left = |frame: &Departing| (self.sent.wrapping_sub(frame.number) as i32) > 0;
        if self.departing.as_ref().is_some_and(left)
            && let Some(stamp) = self.take_departure()
            && let Some(frame) = self.departing.take()
        {
            each(&frame.frame, stamp);
        }
    }
}

impl Drop for DpdkTx {
    fn drop(&mut self) {
        while self.sent != self.filled {
            // SAFETY: this slot holds a buffer of ours, sent or not, which is forgotten here.
            unsafe { ffi::near_drop_slots(&raw mut self.slots[place(self.sent)], 1) };
            self.sent = self.sent.wrapping_add(1);
        }
    }
}
