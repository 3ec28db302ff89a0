//! A worker's link, of whatever driver.

use core::ops::Range;
use core::time::Duration;
use driver::{Open, Role};
use link::{Capabilities, Counters, Link, LinkState, Receive, Reopened, Transmit};
use seats::Terms;
use sharing::{CommonReceive, CommonTransmit, Held, QueueSet};
use std::io;
use std::os::fd::BorrowedFd;
use tap::Tap;
use wire::{Mac, Time};

/// A link of any kind.
pub enum AnyLink {
    /// One queue, which each frame is read from and written to by a system call.
    Tap(Box<Tap>),
    /// Queues whose rings all workers have mapped, and the Ethernet address that they have, if any.
    Queues(Box<QueueSet<QueueReceiver, QueueSender>>, Option<Mac>),
}

impl AnyLink {
    /// The Ethernet address that it has, where it has one.
    pub const fn mac(&self) -> Option<Mac> {
        match self {
            Self::Tap(_) => None,
            Self::Queues(_, mac) => *mac,
        }
    }

    /// A descriptor that it has opened itself, where it has one: by which the kernel is asked how the
    /// interface is.
    pub fn control(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tap(tap) => Some(tap.control()),
            Self::Queues(queues, _) => queues.receivers().iter().find_map(|receiver| match receiver {
                QueueReceiver::Xdp(queue) => Some(queue.control()),
                QueueReceiver::Memif(_) => None,
            }),
        }
    }

    /// What it is amid receiving from, where workers have its rings mapped.
    pub fn held(&self) -> Option<Held> {
        match self {
            Self::Tap(_) => None,
            Self::Queues(queues, _) => Some(queues.held()),
        }
    }

    /// Goes on with what the keeper shares now.
    pub fn renew(&mut self, terms: &Terms, shared: Reopened) -> io::Result<()> {
        let Self::Queues(set, _) = self else { return Ok(()) };
        let (queues, _) = memif_queues(terms, shared)?;
        set.replace(queues);
        Ok(())
    }

    /// Another seat that keeps this one from a queue just now.
    pub fn in_the_way(&self) -> Option<usize> {
        match self {
            // Who reads has a lease.
            Self::Tap(_) => None,
            Self::Queues(queues, _) => queues.in_the_way(),
        }
    }

    /// Whether its peer breaks the protocol: the keeper is to hear it.
    pub fn take_fault(&mut self) -> Option<&'static str> {
        let Self::Queues(set, _) = self else { return None };
        let (receivers, sender) = set.sides();
        let of_receivers = receivers.iter_mut().find_map(|receiver| match receiver {
            QueueReceiver::Xdp(_) => None,
            QueueReceiver::Memif(queue) => queue.take_fault(),
        });
        match sender {
            QueueSender::Xdp(_) => of_receivers,
            QueueSender::Memif(queue) => of_receivers.or(queue.take_fault()),
        }
    }
}

/// Queues that all workers have mapped, each with its two sides.
pub type Queues = Vec<(QueueReceiver, QueueSender)>;

/// The queues of a memif interface that the keeper shares, and what they can do.
pub fn memif_queues(terms: &Terms, shared: Reopened) -> io::Result<(Queues, Capabilities)> {
    let config = <memif::Config as Open>::read(&terms.link, Role::Server).map_err(io::Error::other)?;
    let memif::SeatMemif { queues, capabilities, .. } = memif::SeatMemif::given(&config, shared)?;
    let queues = queues.into_iter().map(|(rx, tx)| (QueueReceiver::Memif(rx), QueueSender::Memif(tx)));
    Ok((queues.collect(), capabilities))
}

/// Those of an interface over AF_XDP, and its Ethernet address.
pub fn xdp_queues(shared: Reopened) -> io::Result<(Queues, Capabilities, Mac)> {
    let af_xdp::SeatXdp { queues, capabilities, mac } = af_xdp::SeatXdp::given(shared).map_err(io::Error::other)?;
    let queues = queues.into_iter().map(|(rx, tx)| (QueueReceiver::Xdp(rx), QueueSender::Xdp(tx)));
    Ok((queues.collect(), capabilities, mac))
}

impl Link for AnyLink {
    type Rx<'a> = &'a mut dyn Receive;
    type Tx<'a> = &'a mut dyn Transmit;

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Tap(link) => link.capabilities(),
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
            Self::Queues(link, _) => {
                let (rx, tx) = link.split();
                (rx, tx)
            }
        }
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        match self {
            Self::Tap(link) => link.poll_control(now),
            Self::Queues(link, _) => link.poll_control(now),
        }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tap(link) => link.wait(wake, timeout),
            Self::Queues(link, _) => link.wait(wake, timeout),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        match self {
            Self::Tap(link) => link.arm(each),
            Self::Queues(link, _) => link.arm(each),
        }
    }

    fn counters(&self) -> Counters {
        match self {
            Self::Tap(link) => link.counters(),
            Self::Queues(link, _) => link.counters(),
        }
    }
}

/// The receiving side of a queue that all workers have mapped.
pub enum QueueReceiver {
    Xdp(af_xdp::XdpSeatRx),
    Memif(memif::MemifSeatRx),
}

impl CommonReceive for QueueReceiver {
    #[inline]
    fn has_frames(&self) -> bool {
        match self {
            Self::Xdp(queue) => queue.has_frames(),
            Self::Memif(queue) => queue.has_frames(),
        }
    }

    #[inline]
    fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>, bool)) {
        match self {
            Self::Xdp(queue) => queue.take(max, into, each),
            // Nobody vouches for a checksum.
            Self::Memif(queue) => queue.take(max, into, &mut |bytes| each(bytes, false)),
        }
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        match self {
            Self::Xdp(queue) => queue.poll_control(now),
            Self::Memif(queue) => queue.poll_control(),
        }
    }

    fn arm<'q>(&'q mut self, each: &mut dyn FnMut(BorrowedFd<'q>)) -> Duration {
        match self {
            Self::Xdp(queue) if queue.has_frames() => Duration::ZERO,
            Self::Xdp(queue) => {
                queue.readable().into_iter().for_each(each);
                queue.patience()
            }
            Self::Memif(queue) => {
                let (fd, nap) = queue.arm();
                fd.into_iter().for_each(each);
                nap
            }
        }
    }

    #[inline]
    fn hush(&mut self) {
        if let Self::Memif(queue) = self {
            queue.hush();
        }
    }

    fn dropped(&self) -> u64 {
        match self {
            Self::Xdp(queue) => queue.dropped(),
            Self::Memif(queue) => queue.dropped(),
        }
    }
}

/// The sending side.
pub enum QueueSender {
    Xdp(af_xdp::XdpSeatTx),
    Memif(memif::MemifSeatTx),
}

impl CommonTransmit for QueueSender {
    fn longest(&self) -> usize {
        match self {
            Self::Xdp(queue) => queue.longest(),
            Self::Memif(queue) => queue.longest(),
        }
    }

    #[inline]
    fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        match self {
            Self::Xdp(queue) => queue.put(frames),
            Self::Memif(queue) => queue.put(frames),
        }
    }

    #[inline]
    fn kick(&mut self) -> bool {
        match self {
            Self::Xdp(queue) => queue.kick(),
            Self::Memif(queue) => {
                queue.kick();
                true
            }
        }
    }
}
