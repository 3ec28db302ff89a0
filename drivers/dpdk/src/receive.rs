//! The receive half: frames read in the port's packet buffers.

use crate::ffi::{self, BURST, Frame, Mbuf, RX_VERIFIED};
use crate::port::Port;
use ::link::Receive;
use core::fmt;
use std::sync::Arc;
use wire::Time;

/// The receive half of a [`crate::DpdkLink`].
pub struct DpdkRx {
    port: Arc<Port>,
    queue: u16,
    /// Buffers of the burst, to be given back.
    mbufs: Box<[*mut Mbuf; BURST]>,
    frames_of_burst: Box<[Frame; BURST]>,
    /// When they came, where the port was asked to stamp them.
    stamps: Option<Box<[u64; BURST]>>,
    count: usize,
    /// The burst was taken while waiting, and nobody has seen it yet.
    ahead: bool,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

// SAFETY: the pointers lead into packet buffers that this half owns until it gives them back, and that belong to the
// port's pools, which `port` keeps; they are used only through `&self` and `&mut self`.
unsafe impl Send for DpdkRx {}

impl fmt::Debug for DpdkRx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkRx").field("queue", &self.queue).field("count", &self.count).finish_non_exhaustive()
    }
}

/// Frames taken ahead: no more than any silo asks for at once.
const AHEAD: usize = 32;

/// In the place of a frame's that has none.
const NO_STAMP: u64 = u64::MAX;

const NO_FRAME: Frame = Frame { data: core::ptr::null(), len: 0, flags: 0 };

impl DpdkRx {
    pub(crate) fn new(port: Arc<Port>, queue: u16) -> Self {
        let stamps = port.facts.stamps.is_some().then(|| Box::new([NO_STAMP; BURST]));
        Self {
            port,
            queue,
            stamps,
            mbufs: Box::new([core::ptr::null_mut(); BURST]),
            frames_of_burst: Box::new([NO_FRAME; BURST]),
            count: 0,
            ahead: false,
            frames: 0,
            bytes: 0,
            dropped: 0,
        }
    }

    /// Takes a burst before it is asked for, and says whether there is one:
    /// the way to see on every port whether frames wait.
    pub(crate) fn look_ahead(&mut self) -> bool {
        if self.count == 0 {
            self.take(AHEAD);
            self.ahead = self.count > 0;
        }
        self.count > 0
    }

    #[inline]
    fn take(&mut self, max: usize) {
        let max = max.min(BURST) as u16;
        let (mbufs, frames) = (self.mbufs.as_mut_ptr(), self.frames_of_burst.as_mut_ptr());
        // SAFETY: both arrays have room for BURST entries, and `max` is at most that. The port lives as long as
        // `self.port`, and this queue is this value's alone.
        let count = unsafe { ffi::near_receive(self.port.id, self.queue, mbufs, frames, max, &raw mut self.dropped) };
        self.count = usize::from(count).min(BURST);
        if let Some(stamps) = &mut self.stamps {
            // SAFETY: as many buffers were just received, and there is room for as many stamps.
            unsafe { ffi::near_arrivals(self.port.id, mbufs, self.count as u16, stamps.as_mut_ptr()) };
        }
        self.frames += u64::from(count);
        self.bytes += self.frames_of_burst[..self.count].iter().map(|frame| u64::from(frame.len)).sum::<u64>();
    }
}

impl Receive for DpdkRx {
    #[inline]
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        if !core::mem::take(&mut self.ahead) {
            self.release();
            self.take(max);
        }
        self.count
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let frame = &self.frames_of_burst[..self.count][index];
        // SAFETY: the shim told the buffer's data and length, and the buffer is ours until the release, which takes
        // `&mut self`.
        unsafe { core::slice::from_raw_parts(frame.data, frame.len as usize) }
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.frames_of_burst[..self.count][index].flags & RX_VERIFIED != 0
    }

    #[inline]
    fn stamp(&self, index: usize) -> Option<u64> {
        let stamps = self.stamps.as_ref()?;
        stamps[..self.count].get(index).copied().filter(|stamp| *stamp != NO_STAMP)
    }

    #[inline]
    fn release(&mut self) {
        // What nobody has seen stays.
        if self.count > 0 && !self.ahead {
            let count = core::mem::take(&mut self.count);
            // SAFETY: these buffers are ours, and are forgotten with `count`.
            unsafe { ffi::near_free(self.mbufs.as_mut_ptr(), count as u16) };
        }
    }
}

impl Drop for DpdkRx {
    fn drop(&mut self) {
        self.ahead = false;
        self.release();
    }
}
