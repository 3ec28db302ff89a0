//! A worker's link, of whatever driver.

use core::ops::Range;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use memif::MemifLink;
use sharing::{CommonReceive, CommonTransmit, Held, QueueSet};
use std::io;
use std::os::fd::BorrowedFd;
use tap::Tap;
use wire::{Mac, Time};

/// A link of any kind.
pub enum AnyLink {
    /// One queue, which each frame is read from and written to by a system call.
    Tap(Box<Tap>),
    /// One queue, which one worker has.
    Memif(Box<MemifLink>),
    /// Queues whose rings all workers have mapped.
    Queues(Box<QueueSet<QueueRings, QueueSlots>>, Mac),
}

impl AnyLink {
    /// The Ethernet address that it has, where it has one.
    pub const fn mac(&self) -> Option<Mac> {
        match self {
            Self::Tap(_) | Self::Memif(_) => None,
            Self::Queues(_, mac) => Some(*mac),
        }
    }

    /// What it is amid receiving from, where workers have its rings mapped.
    pub fn held(&self) -> Option<Held> {
        match self {
            Self::Tap(_) | Self::Memif(_) => None,
            Self::Queues(queues, _) => Some(queues.held()),
        }
    }
}

impl Link for AnyLink {
    type Rx<'a> = &'a mut dyn Receive;
    type Tx<'a> = &'a mut dyn Transmit;

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Tap(link) => link.capabilities(),
            Self::Memif(link) => link.capabilities(),
            Self::Queues(link, _) => link.capabilities(),
        }
    }

    #[inline]
    fn split(&mut self) -> (&mut dyn Receive, &mut dyn Transmit) {
        match self {
            Self::Tap(link) => {
                let (rx, tx) = link.split();
                (rx, tx)
            }
            Self::Memif(link) => {
                let (rx, tx) = link.split();
                (rx, tx)
            }
            Self::Queues(link, _) => {
                let (rx, tx) = link.split();
                (rx, tx)
            }
        }
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        match self {
            Self::Tap(link) => link.poll_control(now),
            Self::Memif(link) => link.poll_control(now),
            Self::Queues(link, _) => link.poll_control(now),
        }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tap(link) => link.wait(wake, timeout),
            Self::Memif(link) => link.wait(wake, timeout),
            Self::Queues(link, _) => link.wait(wake, timeout),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        match self {
            Self::Tap(link) => link.arm(each),
            Self::Memif(link) => link.arm(each),
            Self::Queues(link, _) => link.arm(each),
        }
    }

    fn counters(&self) -> Counters {
        match self {
            Self::Tap(link) => link.counters(),
            Self::Memif(link) => link.counters(),
            Self::Queues(link, _) => link.counters(),
        }
    }
}

/// The receiving side of a queue that all workers have mapped.
pub struct QueueRings(pub af_xdp::SeatRx);

impl CommonReceive for QueueRings {
    #[inline]
    fn has_frames(&self) -> bool {
        self.0.has_frames()
    }

    #[inline]
    fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>, bool)) {
        self.0.take(max, into, each);
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.0.poll_control(now)
    }

    fn arm<'q>(&'q mut self, each: &mut dyn FnMut(BorrowedFd<'q>)) -> Duration {
        if self.0.has_frames() {
            return Duration::ZERO;
        }
        self.0.readable().into_iter().for_each(each);
        Duration::MAX
    }

    fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

/// The sending side.
pub struct QueueSlots(pub af_xdp::SeatTx);

impl CommonTransmit for QueueSlots {
    fn longest(&self) -> usize {
        self.0.longest()
    }

    #[inline]
    fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        self.0.put(frames)
    }

    #[inline]
    fn kick(&mut self) -> bool {
        self.0.kick()
    }
}
