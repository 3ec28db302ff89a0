//! The receive half.

use crate::config::HEADROOM;
use crate::frames::ReceiveFrames;
use crate::ring::{Consumer, Descriptor, Producer};
use crate::socket::Socket;
use crate::umem::Umem;
use core::hint::cold_path;
use core::ptr::NonNull;
use link::Receive;
use rustix::net::RecvFlags;
use std::sync::Arc;
use wire::Time;

/// Largest burst.
pub const BURST_LIMIT: usize = 64;

/// The receive half of an [`crate::XdpLink`].
#[derive(Debug)]
pub struct XdpRx {
    queue: Option<Queue>,
    burst: [Frame; BURST_LIMIT],
    taken: usize,
    /// The link vouches for transport checksums.
    pub(crate) vouches: bool,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

#[derive(Debug)]
struct Queue {
    frames: ReceiveFrames,
    base: NonNull<u8>,
    /// Polls the driver when nothing waits.
    busy_poll: bool,
    socket: Arc<Socket>,
    #[expect(dead_code, reason = "stays mapped while frames are borrowed")]
    umem: Arc<Umem>,
}

// SAFETY: `base` is the umem's, which is held beside it.
unsafe impl Send for Queue {}

/// A frame of the burst.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: NonNull<u8>,
    len: u32,
    /// Where it begins, as the umem counts.
    address: u64,
}

// SAFETY: a plain address; what is read through it is a matter of the burst.
unsafe impl Send for Frame {}

impl XdpRx {
    pub(crate) const fn new(vouches: bool) -> Self {
        let none = Frame { start: NonNull::dangling(), len: 0, address: 0 };
        Self { queue: None, burst: [none; BURST_LIMIT], taken: 0, vouches, frames: 0, bytes: 0, dropped: 0 }
    }

    /// Begins to receive: `fill` already holds the frames.
    pub(crate) fn attach(
        &mut self,
        ring: Consumer<Descriptor>,
        fill: Producer<u64>,
        (umem, frame): (Arc<Umem>, u32),
        socket: Arc<Socket>,
        busy_poll: bool,
    ) {
        let (base, len) = (umem.start(), umem.len() as u64);
        let frames = ReceiveFrames::new(ring, fill, len, frame);
        self.queue = Some(Queue { frames, base, busy_poll, socket, umem });
    }

    /// Whether frames wait.
    pub(crate) fn has_frames(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.frames.waiting() > 0)
    }
}

impl Receive for XdpRx {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        debug_assert!(self.taken == 0, "a burst is released before the next is taken");
        let Some(queue) = &mut self.queue else { return 0 };
        let mut waiting = queue.frames.waiting();
        if waiting == 0 {
            if !queue.busy_poll {
                return 0;
            }
            // Runs the driver's own poll on this core. What it says is of no
            // use: what came is in the ring.
            let _ = rustix::net::recv(&*queue.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
            waiting = queue.frames.waiting();
        }
        let count = waiting.min(max.min(BURST_LIMIT) as u32);
        let mut taken = 0;
        for index in 0..count {
            let Some((address, len)) = queue.frames.look(index) else {
                self.dropped += 1;
                continue;
            };
            // SAFETY: within the umem, as `look` checked.
            let start = unsafe { queue.base.add(address as usize) };
            prefetch(start);
            self.burst[taken] = Frame { start, len, address };
            self.bytes += u64::from(len);
            taken += 1;
        }
        if count > 0 {
            queue.frames.take(count);
        }
        if taken < count as usize {
            // Their rooms are of use now, also where no frame is released.
            let _ = queue.frames.publish();
        }
        self.frames += taken as u64;
        self.taken = taken;
        taken
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let Frame { start, len, .. } = self.burst[..self.taken][index];
        // SAFETY: within the umem, which `queue` holds; the kernel does not
        // write to the frame before it is in the fill ring again, which takes
        // `&mut self`.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len as usize) }
    }

    #[inline]
    fn verified(&self, _index: usize) -> bool {
        self.vouches
    }

    #[inline]
    fn release(&mut self) {
        let taken = core::mem::take(&mut self.taken);
        let Some(queue) = &mut self.queue else { return };
        if taken == 0 {
            return;
        }
        for frame in &self.burst[..taken] {
            queue.frames.give(frame.address);
        }
        if queue.frames.publish() {
            cold_path();
            // The driver had run out of frames and waits to be told.
            let _ = rustix::net::recv(&*queue.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }
}

/// A frame's headers will be read soon.
#[inline(always)]
fn prefetch(start: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start: *const i8 = start.as_ptr().cast();
        // SAFETY: a prefetch is a hint; it neither faults nor changes memory, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start);
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

const _: () = assert!(HEADROOM.is_multiple_of(64), "a received frame begins with a cache line");
