//! The transmit half.

use crate::config::{HEADER_ROOM, HEADROOM};
use crate::frames::{Rooms, SendFrames};
use crate::relay::{Receiver, Sender};
use crate::ring::{Consumer, Descriptor, Producer};
use crate::socket::Socket;
use crate::stamps::{self, BEFORE_DEPARTURE};
use crate::umem::Umem;
use core::hint::cold_path;
use core::ptr::NonNull;
use link::Transmit;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::{Offload, Time};

/// Frames that the kernel sends in one system call where its limit cannot be
/// raised (`TX_BATCH_SIZE` in `net/xdp/xsk.c`).
const KERNEL_BATCH: u32 = 32;

/// Distance between the starts of neighbouring frames' slots, within their
/// rooms: frames all begin at multiples of 2,048 bytes, which share two of the
/// 64 sets of a first-level cache.
const STAGGER: u64 = 64;

/// Frames sent in one turn for the process that had the queue before.
const RELAY_BURST: u32 = 64;

/// The transmit half of an [`crate::XdpLink`].
#[derive(Debug)]
pub struct XdpTx {
    queue: Option<Queue>,
    /// Without a queue: the way to the process that has it now.
    upper: Option<Sender>,
    /// What the process that had the queue before wants sent.
    lower: Option<Receiver>,
    /// Frames sent for that process.
    pub(crate) relayed: u64,
    offered: Offered,
    /// Whether the interface was up when it was last looked at.
    pub(crate) up: bool,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) full: u64,
}

/// A queue's rings, and the frames that are sent.
#[derive(Debug)]
pub(crate) struct Queue {
    frames: SendFrames,
    base: NonNull<u8>,
    /// Where the first of them begins, and the bytes of their rooms.
    first: u64,
    frame: u32,
    /// Frames may be stamped: there is room before each to ask.
    asks: bool,
    /// Bytes of a slot.
    slot_len: usize,
    /// Committed and not yet shown.
    committed: u32,
    /// The kernel did not take all: it is to be asked again.
    unsent: bool,
    /// System calls that one flush makes at most.
    calls: u32,
    socket: Arc<Socket>,
    #[expect(dead_code, reason = "stays mapped while a slot is borrowed")]
    umem: Arc<Umem>,
}

// SAFETY: `base` is the umem's, which is held beside it.
unsafe impl Send for Queue {}

/// What became of the last slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Offered {
    /// There is none, or it was committed.
    #[default]
    No,
    /// It may be committed.
    Yes,
    /// And is to be stamped.
    Asked,
}

impl XdpTx {
    pub(crate) const fn new() -> Self {
        Self {
            queue: None,
            upper: None,
            lower: None,
            relayed: 0,
            offered: Offered::No,
            up: true,
            frames: 0,
            bytes: 0,
            dropped: 0,
            full: 0,
        }
    }

    /// Begins to send.
    pub(crate) fn attach(&mut self, queue: Queue) {
        self.queue = Some(queue);
    }

    /// Has no queue any more: its interface is gone.
    pub(crate) fn detach(&mut self) {
        (self.queue, self.offered) = (None, Offered::No);
    }

    /// Stops, with everything committed shown to the kernel: from now on what
    /// is sent leaves by `upper`.
    pub(crate) fn hand_over(&mut self, upper: Sender, now: Time) -> Option<Queue> {
        self.flush(now);
        let queue = self.queue.take()?;
        self.offered = Offered::No;
        self.upper = Some(upper);
        Some(queue)
    }

    /// It has the queue again. What was left to the relay is lost, and comes
    /// again as what is lost does.
    pub(crate) fn resume(&mut self, queue: Queue) {
        self.upper = None;
        self.offered = Offered::No;
        self.queue = Some(queue);
    }

    /// Sends for the process before this one; `None`: there is none any more.
    pub(crate) fn set_lower(&mut self, lower: Option<Receiver>) {
        self.lower = lower;
    }

    /// Whether a sleep is in vain; if not, the process before this one wakes.
    pub(crate) fn lie_down(&self) -> bool {
        self.lower.as_ref().is_some_and(Receiver::lie_down)
    }

    /// Sends what the process before this one wants sent, as far as there are
    /// slots.
    #[cold]
    #[inline(never)]
    fn send_for_others(&mut self) {
        let Some(mut lower) = self.lower.take() else { return };
        let mut done = 0;
        while done < lower.waiting().min(RELAY_BURST) {
            let (start, len) = lower.look(done);
            // SAFETY: within the relay, which leaves it alone until it is
            // released.
            let frame = unsafe { core::slice::from_raw_parts(start.as_ptr(), len as usize) };
            let Some(slot) = self.slot() else { break };
            done += 1;
            let Some(place) = slot.get_mut(..frame.len()) else {
                self.dropped += 1;
                continue;
            };
            place.copy_from_slice(frame);
            self.commit(frame.len(), Offload::NONE);
            self.relayed += 1;
        }
        lower.release(done);
        self.lower = Some(lower);
    }

    #[cold]
    fn room_elsewhere(&self) -> usize {
        self.upper.as_ref().map_or(0, Sender::room)
    }

    #[cold]
    fn slot_elsewhere(&mut self) -> Option<&mut [u8]> {
        let slot = self.upper.as_mut()?.slot();
        if slot.is_some() {
            self.offered = Offered::Yes;
        } else {
            self.full += 1;
        }
        slot
    }

    #[cold]
    fn commit_elsewhere(&mut self, len: usize) {
        let Some(upper) = &mut self.upper else { return };
        upper.commit(len);
        self.frames += 1;
        self.bytes += len as u64;
    }

    /// Sends a frame that is to be stamped.
    #[cold]
    #[inline(never)]
    fn commit_asked(&mut self, len: usize) {
        let Some(queue) = self.queue.as_mut().filter(|_| self.up) else {
            self.dropped += 1;
            return;
        };
        let Some(address) = queue.frames.next() else { return };
        stamps::ask(queue.before(address));
        let len = len.min(queue.slot_len) as u32;
        if queue.frames.push_asked(len) {
            queue.committed += 1;
            self.frames += 1;
            self.bytes += u64::from(len);
        }
    }

    /// Whether the kernel is to be asked again to send what it has.
    pub(crate) fn unsent(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.unsent)
    }
}

/// Where the frame of a number begins, of those whose rooms begin at `first`. What the kernel keeps
/// free before a frame it receives is not needed before one that it sends.
pub(crate) fn place(first: u64, frame: u32, number: u32) -> u64 {
    const STEPS: u64 = HEADROOM as u64 / STAGGER;
    let number = u64::from(number);
    first + number * u64::from(frame) + number % STEPS * STAGGER
}

impl Queue {
    /// Sends from `count` frames of `frame` bytes of room, of which the first
    /// begins at `first`. All are free, or those of `free` by number and the
    /// others in the rings. With `asks` frames may be stamped.
    pub(crate) fn new(
        ring: Producer<Descriptor>,
        completion: Consumer<u64>,
        (umem, frame): (Arc<Umem>, u32),
        (first, count): (u64, u32),
        (free, asks): (Option<&[u32]>, bool),
        socket: Arc<Socket>,
    ) -> Self {
        let before = if asks { STAGGER } else { 0 };
        let place = |n: u64| place(first, frame, n as u32) + before;
        let rooms = Rooms::new(first, count, frame);
        let frames = match free {
            None => SendFrames::new(ring, completion, (0..u64::from(count)).map(place), rooms),
            Some(free) => {
                let free = free.iter().filter(|n| **n < count).map(|n| place(u64::from(*n))).collect();
                SendFrames::resume(ring, completion, free, rooms)
            }
        };
        Self {
            frames,
            base: umem.start(),
            first,
            frame,
            asks,
            slot_len: (frame - HEADROOM) as usize,
            committed: 0,
            // What another process showed the kernel may wait for a kick.
            unsent: free.is_some(),
            calls: count / KERNEL_BATCH + 2,
            socket,
            umem,
        }
    }

    /// What stands before a frame that is free, or back.
    fn before(&mut self, frame: u64) -> &mut [u8; BEFORE_DEPARTURE] {
        // SAFETY: within the room of a frame that nobody else reads or writes: where frames are stamped each begins so
        // far behind its room's start.
        unsafe { self.base.add(frame as usize).sub(BEFORE_DEPARTURE).cast::<[u8; BEFORE_DEPARTURE]>().as_mut() }
    }

    /// The frames that are in no ring, by number.
    pub(crate) fn free(&self) -> impl Iterator<Item = u32> {
        let number = |address: &u64| (address.saturating_sub(self.first) / u64::from(self.frame)) as u32;
        self.frames.free().iter().map(number)
    }

    /// Makes the kernel send, and returns how many frames it dropped. In copy
    /// mode the sending happens in this call.
    fn kick(&mut self) -> u64 {
        let mut dropped = 0;
        let mut before = self.frames.pending();
        for _ in 0..self.calls {
            match rustix::net::send(self.socket.as_fd(), &[], SendFlags::DONTWAIT) {
                Ok(_) => {
                    self.unsent = false;
                    return dropped;
                }
                Err(Errno::INTR) => {}
                // The interface's queue refused one frame, which is gone.
                Err(Errno::BUSY) => dropped += 1,
                // The kernel sent as many as it sends in one call, or the
                // device's ring is full: the difference is whether it moved.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    let pending = self.frames.pending();
                    if pending == before {
                        self.unsent = true;
                        self.frames.reap();
                        return dropped;
                    }
                    before = pending;
                    self.frames.reap();
                }
                // ENETDOWN, ENXIO: down or gone, which `poll_control` notices.
                // What the kernel has waits in its ring.
                Err(_) => {
                    self.unsent = false;
                    return dropped;
                }
            }
        }
        self.unsent = true;
        dropped
    }
}

impl Transmit for XdpTx {
    #[inline]
    fn room(&self) -> usize {
        match &self.queue {
            Some(queue) => queue.frames.room(),
            None => self.room_elsewhere(),
        }
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        let Some(queue) = self.queue.as_mut() else { return self.slot_elsewhere() };
        let Some(frame) = queue.frames.next() else {
            cold_path();
            self.full += 1;
            return None;
        };
        self.offered = Offered::Yes;
        // SAFETY: the frame is within the umem, with at least a slot's length
        // to the end of its room, and free: nobody else reads or writes it.
        let slot = unsafe {
            let start = queue.base.add(frame as usize).as_ptr();
            core::slice::from_raw_parts_mut(start, queue.slot_len)
        };
        Some(slot)
    }

    #[inline]
    fn commit(&mut self, len: usize, _offload: Offload) {
        let offered = core::mem::take(&mut self.offered);
        if offered != Offered::Yes {
            cold_path();
            if offered == Offered::Asked {
                self.commit_asked(len);
            }
            return;
        }
        let Some(queue) = &mut self.queue else { return self.commit_elsewhere(len) };
        if !self.up {
            cold_path();
            // The slot stays free.
            self.dropped += 1;
            return;
        }
        let len = len.min(queue.slot_len) as u32;
        if !queue.frames.push(len) {
            return;
        }
        queue.committed += 1;
        self.frames += 1;
        self.bytes += u64::from(len);
    }

    fn stamp_next(&mut self) {
        if self.offered == Offered::Yes && self.queue.as_ref().is_some_and(|queue| queue.asks) {
            self.offered = Offered::Asked;
        }
    }

    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        let Some(queue) = self.queue.as_mut().filter(|queue| queue.asks) else { return };
        // A slot that is offered is of the frame that is taken next.
        if self.offered == Offered::No {
            queue.frames.reap();
        }
        while let Some((address, len)) = queue.frames.take_stamped() {
            if let Some(stamp) = stamps::answer(queue.before(address)) {
                // SAFETY: the frame is back, and free for nobody yet.
                let frame =
                    unsafe { core::slice::from_raw_parts(queue.base.add(address as usize).as_ptr(), len as usize) };
                each(frame, stamp);
            }
            queue.frames.give(address);
        }
    }

    #[inline]
    fn flush(&mut self, _now: Time) {
        if self.lower.is_some() {
            self.send_for_others();
        }
        let Some(queue) = &mut self.queue else {
            cold_path();
            if let Some(upper) = &mut self.upper {
                upper.publish();
            }
            return;
        };
        if queue.committed == 0 && !queue.unsent {
            return;
        }
        if queue.committed > 0 {
            queue.committed = 0;
            queue.frames.publish();
        }
        if queue.unsent || queue.frames.needs_wakeup() {
            self.dropped += queue.kick();
        }
        queue.frames.reap();
    }
}

// A slot holds the largest packet of a 1,500 byte MTU, and its frame's room holds the staggered slot.
const _: () = assert!(crate::config::FRAME_SIZES[0] - HEADROOM >= 1_500 + HEADER_ROOM);
const _: () = assert!(BEFORE_DEPARTURE as u64 <= STAGGER);
const _: () = assert!(HEADROOM as u64 >= STAGGER && (HEADROOM as u64).is_multiple_of(STAGGER));
