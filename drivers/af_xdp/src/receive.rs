//! The receive half.

use crate::config::HEADROOM;
use crate::facts::Checksums;
use crate::frames::{ReceiveFrames, Rooms};
use crate::relay::{Receiver, Sender, concerns_both};
use crate::ring::{Consumer, Descriptor, Producer};
use crate::socket::Socket;
use crate::stamps::{Arrivals, BEFORE_ARRIVAL};
use crate::umem::Umem;
use core::hint::cold_path;
use core::ptr::NonNull;
use link::Receive;
use rustix::net::RecvFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Time, lacks_checksum};

/// Largest burst.
pub const BURST_LIMIT: usize = 64;

/// The receive half of an [`crate::XdpLink`].
#[derive(Debug)]
pub struct XdpRx {
    queue: Option<Queue>,
    burst: [Frame; BURST_LIMIT],
    taken: usize,
    /// Another process's queue, which this one takes from with its first
    /// burst, and where it notes when that was.
    coming: Option<(Queue, Arc<AtomicU64>)>,
    /// Without a queue: what the process that has it now passes on.
    upper: Option<Receiver>,
    /// What belongs to the process that had the queue before.
    lower: Option<Sender>,
    /// Frames passed on to that process, and those for which there was no
    /// room.
    pub(crate) passed: u64,
    pub(crate) unpassed: u64,
    /// Which transport checksums the link vouches for.
    pub(crate) checksums: Checksums,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

/// A queue's rings, and the memory of its frames.
#[derive(Debug)]
pub(crate) struct Queue {
    frames: ReceiveFrames,
    base: NonNull<u8>,
    /// Polls the driver when nothing waits.
    busy_poll: bool,
    /// Stamps of the burst, where frames have them.
    stamps: Option<Box<Arrivals>>,
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
    pub(crate) const fn new(checksums: Checksums) -> Self {
        let none = Frame { start: NonNull::dangling(), len: 0, address: 0 };
        Self {
            queue: None,
            burst: [none; BURST_LIMIT],
            taken: 0,
            coming: None,
            upper: None,
            lower: None,
            passed: 0,
            unpassed: 0,
            checksums,
            frames: 0,
            bytes: 0,
            dropped: 0,
        }
    }

    /// Begins to receive.
    pub(crate) fn attach(&mut self, queue: Queue) {
        self.queue = Some(queue);
    }

    /// Has no queue any more: its interface is gone.
    pub(crate) fn detach(&mut self) {
        (self.queue, self.taken) = (None, 0);
    }

    /// Begins to receive with the next burst, and notes when that is.
    pub(crate) fn take_over(&mut self, queue: Queue, began: Arc<AtomicU64>) {
        self.coming = Some((queue, began));
    }

    /// Whether it is between two turns, with a queue at work.
    pub(crate) fn can_stop(&self) -> bool {
        self.taken == 0 && self.queue.is_some()
    }

    /// Stops: from now on it receives what comes by `upper`.
    pub(crate) fn hand_over(&mut self, upper: Receiver) -> Option<Queue> {
        let mut queue = self.queue.take()?;
        // All has been, at each release: this only makes sure.
        let _ = queue.frames.publish();
        self.upper = Some(upper);
        Some(queue)
    }

    /// It has the queue again.
    pub(crate) fn resume(&mut self, queue: Queue) {
        self.upper = None;
        self.queue = Some(queue);
    }

    /// Passes what is not ours on to the process before this one; `None`: there
    /// is none any more.
    pub(crate) fn set_lower(&mut self, lower: Option<Sender>) {
        self.lower = lower;
    }

    /// Whether frames wait.
    pub(crate) fn has_frames(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.frames.waiting() > 0)
    }

    /// Whether a sleep is in vain; if not, whoever passes frames on wakes.
    pub(crate) fn lie_down(&self) -> bool {
        self.upper.as_ref().is_some_and(Receiver::lie_down)
    }

    /// Without a queue at work.
    #[cold]
    #[inline(never)]
    fn receive_otherwise(&mut self, now: Time, max: usize) -> usize {
        if let Some((queue, began)) = self.coming.take() {
            self.queue = Some(queue);
            began.store(nanoseconds(), Ordering::Release);
            return self.receive(now, max);
        }
        let Some(upper) = &self.upper else { return 0 };
        let count = upper.waiting().min(max.min(BURST_LIMIT) as u32);
        for (index, place) in (0..count).zip(&mut self.burst) {
            let (start, len) = upper.look(index);
            *place = Frame { start, len, address: 0 };
            self.bytes += u64::from(len);
        }
        self.frames += u64::from(count);
        self.taken = count as usize;
        if self.lower.is_some() {
            self.share();
        }
        count as usize
    }

    /// Gives the process before this one copies of what may concern both.
    #[cold]
    #[inline(never)]
    fn share(&mut self) {
        for index in 0..self.taken {
            if concerns_both(self.frame(index)) {
                self.pass(index);
            }
        }
    }

    /// Passes a frame of the burst on to the process before this one, if there
    /// is one.
    fn pass(&mut self, index: usize) -> bool {
        let Frame { start, len, .. } = self.burst[..self.taken][index];
        // SAFETY: as in `frame`.
        self.pass_bytes(unsafe { core::slice::from_raw_parts(start.as_ptr(), len as usize) })
    }

    fn pass_bytes(&mut self, frame: &[u8]) -> bool {
        let Some(lower) = &mut self.lower else { return false };
        if lower.push(frame) {
            lower.publish();
            self.passed += 1;
        } else {
            // It comes again, as what is lost does.
            self.unpassed += 1;
        }
        true
    }
}

impl Queue {
    /// Over these rings; `fill` holds the frames already, which are those of
    /// `rooms`.
    pub(crate) fn new(
        ring: Consumer<Descriptor>,
        fill: Producer<u64>,
        (umem, rooms): (Arc<Umem>, Rooms),
        socket: Arc<Socket>,
        busy_poll: bool,
    ) -> Self {
        let base = umem.start();
        let frames = ReceiveFrames::new(ring, fill, rooms);
        Self { frames, base, busy_poll, stamps: None, socket, umem }
    }

    /// Before frames that have a stamp stands this from now on.
    pub(crate) fn stamped(mut self, mark: Option<u64>) -> Self {
        self.stamps = mark.map(|mark| Box::new(Arrivals::new(mark, BURST_LIMIT)));
        self
    }

    /// Takes the stamps of a burst.
    #[cold]
    fn take_stamps(&mut self, burst: &[Frame]) {
        let Some(stamps) = &mut self.stamps else { return };
        for (index, frame) in burst.iter().enumerate() {
            let before = self.frames.has_before(frame.address, BEFORE_ARRIVAL).then(|| {
                // SAFETY: in the frame's own room, of which nobody else reads or writes before it is in the fill ring
                // again; it does not reach into the frame.
                unsafe { frame.start.sub(BEFORE_ARRIVAL).cast::<[u8; BEFORE_ARRIVAL]>().as_mut() }
            });
            stamps.take(index, before);
        }
    }
}

/// The time, as silos count it.
fn nanoseconds() -> u64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64)
}

impl Receive for XdpRx {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        debug_assert!(self.taken == 0, "a burst is released before the next is taken");
        let Some(queue) = &mut self.queue else { return self.receive_otherwise(now, max) };
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
        if queue.stamps.is_some() {
            queue.take_stamps(&self.burst[..taken]);
        }
        self.frames += taken as u64;
        self.taken = taken;
        if self.lower.is_some() {
            self.share();
        }
        taken
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let Frame { start, len, .. } = self.burst[..self.taken][index];
        // SAFETY: within the umem, which `queue` holds; the kernel does not
        // write to the frame before it is in the fill ring again, which takes
        // `&mut self`. Or within the relay that `upper` holds, which leaves it
        // alone until it is released.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len as usize) }
    }

    fn stamp(&self, index: usize) -> Option<u64> {
        self.queue.as_ref()?.stamps.as_ref()?.of(index)
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        match self.checksums {
            Checksums::Verified => false,
            Checksums::Unfinished => lacks_checksum(self.frame(index)),
            Checksums::Trusted => true,
        }
    }

    /// It may be of the process that had the queue before.
    #[cold]
    fn stray(&mut self, index: usize) -> bool {
        self.pass(index)
    }

    #[cold]
    fn stray_from(&mut self, frame: &[u8]) -> bool {
        self.pass_bytes(frame)
    }

    #[inline]
    fn release(&mut self) {
        let taken = core::mem::take(&mut self.taken);
        let Some(queue) = &mut self.queue else {
            cold_path();
            if let Some(upper) = &mut self.upper {
                upper.release(taken as u32);
            }
            return;
        };
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
