//! The transmit half.

use crate::config::{HEADER_ROOM, HEADROOM};
use crate::frames::SendFrames;
use crate::ring::{Consumer, Descriptor, Producer};
use crate::socket::Socket;
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

/// The transmit half of an [`crate::XdpLink`].
#[derive(Debug)]
pub struct XdpTx {
    queue: Option<Queue>,
    offered: bool,
    /// Whether the interface was up when it was last looked at.
    pub(crate) up: bool,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) full: u64,
}

#[derive(Debug)]
struct Queue {
    frames: SendFrames,
    base: NonNull<u8>,
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

impl XdpTx {
    pub(crate) const fn new() -> Self {
        Self { queue: None, offered: false, up: true, frames: 0, bytes: 0, dropped: 0, full: 0 }
    }

    /// Begins to send from `count` frames of `frame` bytes, of which the first
    /// begins at `first`.
    pub(crate) fn attach(
        &mut self,
        ring: Producer<Descriptor>,
        completion: Consumer<u64>,
        (umem, frame): (Arc<Umem>, u32),
        (first, count): (u64, u32),
        socket: Arc<Socket>,
    ) {
        // What the kernel keeps free before a frame it receives is not needed
        // before one that it sends.
        let steps = u64::from(HEADROOM) / STAGGER;
        let place = |n: u64| first + n * u64::from(frame) + n % steps * STAGGER;
        self.queue = Some(Queue {
            frames: SendFrames::new(ring, completion, (0..u64::from(count)).map(place)),
            base: umem.start(),
            slot_len: (frame - HEADROOM) as usize,
            committed: 0,
            unsent: false,
            calls: count / KERNEL_BATCH + 2,
            socket,
            umem,
        });
    }

    /// Whether the kernel is to be asked again to send what it has.
    pub(crate) fn unsent(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.unsent)
    }
}

impl Queue {
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
        self.queue.as_ref().map_or(0, |queue| queue.frames.room())
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        let queue = self.queue.as_mut()?;
        let Some(frame) = queue.frames.next() else {
            cold_path();
            self.full += 1;
            return None;
        };
        self.offered = true;
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
        if !core::mem::take(&mut self.offered) {
            return;
        }
        let Some(queue) = &mut self.queue else { return };
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

    #[inline]
    fn flush(&mut self, _now: Time) {
        let Some(queue) = &mut self.queue else { return };
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
const _: () = assert!(HEADROOM as u64 >= STAGGER && (HEADROOM as u64).is_multiple_of(STAGGER));
