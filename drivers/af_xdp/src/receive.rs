//! The receive half.

use crate::config::HEADROOM;
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
///
/// Each frame is, at any time, in one place: with the kernel (the fill ring
/// included), in the receive ring, or in the burst. All of them fit into the
/// fill ring.
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
    ring: Consumer<Descriptor>,
    fill: Producer<u64>,
    base: NonNull<u8>,
    /// Bytes of the umem.
    len: u64,
    /// Bytes of a frame's room, less one: a mask.
    within: u64,
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
    /// What goes back into the fill ring.
    room: u64,
}

// SAFETY: a plain address; what is read through it is a matter of the burst.
unsafe impl Send for Frame {}

impl XdpRx {
    pub(crate) const fn new(vouches: bool) -> Self {
        let none = Frame { start: NonNull::dangling(), len: 0, room: 0 };
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
        let within = u64::from(frame) - 1;
        self.queue = Some(Queue { ring, fill, base, len, within, busy_poll, socket, umem });
    }

    /// Whether frames wait.
    pub(crate) fn has_frames(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.ring.available() > 0)
    }
}

impl Receive for XdpRx {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        debug_assert!(self.taken == 0, "a burst is released before the next is taken");
        let Some(queue) = &mut self.queue else { return 0 };
        let mut waiting = queue.ring.available();
        if waiting == 0 {
            if !queue.busy_poll {
                return 0;
            }
            // Runs the driver's own poll on this core. What it says is of no
            // use: what came is in the ring.
            let _ = rustix::net::recv(&*queue.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
            waiting = queue.ring.available();
        }
        let count = waiting.min(max.min(BURST_LIMIT) as u32);
        let mut taken = 0;
        for index in 0..count {
            let Descriptor { address, len, .. } = queue.ring.peek(index);
            let room = address & !queue.within;
            if address >= queue.len || u64::from(len) > queue.len - address || len < wire::ethernet::HEADER_LEN as u32 {
                cold_path();
                self.dropped += 1;
                if room < queue.len {
                    queue.fill.push(room);
                }
                continue;
            }
            // SAFETY: within the umem, as just checked.
            let start = unsafe { queue.base.add(address as usize) };
            prefetch(start);
            self.burst[taken] = Frame { start, len, room };
            self.bytes += u64::from(len);
            taken += 1;
        }
        if count > 0 {
            queue.ring.advance(count);
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
            queue.fill.push(frame.room);
        }
        queue.fill.publish();
        if queue.fill.needs_wakeup() {
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
