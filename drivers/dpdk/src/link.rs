//! One queue pair as a [`Link`].

use crate::config::Config;
use crate::eal;
use crate::error::DpdkError;
use crate::facts::Facts;
use crate::ffi;
use crate::kept;
use crate::port::{Port, slot_len};
use crate::receive::DpdkRx;
use crate::transmit::DpdkTx;
use ::link::{Capabilities, Counters, Link, LinkState, Transmit};
use core::fmt;
use core::ops::Range;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// Longest sleep of a wait on a port without interrupts before it is looked at
/// again.
const NAP: Duration = Duration::from_micros(50);

/// An opened port, before its queues are given to their silos.
#[derive(Debug)]
pub struct Dpdk {
    facts: Facts,
    links: Vec<DpdkLink>,
}

impl Dpdk {
    /// Opens and starts the port; the first one starts DPDK in this process.
    ///
    /// # Errors
    /// See [`DpdkError`]; nothing is left behind but DPDK itself.
    pub fn open(config: &Config) -> Result<Self, DpdkError> {
        let port = kept::open(config)?;
        let links = (0..config.queues).filter_map(|queue| DpdkLink::new(&port, queue)).collect();
        Ok(Self { facts: port.facts.clone(), links })
    }

    /// What the port is like.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// One link for each queue pair, in order. The port is closed when the
    /// last is dropped.
    #[must_use]
    pub fn split_queues(self) -> Vec<DpdkLink> {
        self.links
    }
}

/// One queue pair of a DPDK port.
pub struct DpdkLink {
    rx: DpdkRx,
    tx: DpdkTx,
    port: Arc<Port>,
    queue: u16,
    capabilities: Capabilities,
    /// Readable when the queue has raised its interrupt, where it does.
    interrupts: Option<OwnedFd>,
}

impl fmt::Debug for DpdkLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkLink").field("port", &self.port.id).field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl DpdkLink {
    /// Opens a port of one queue pair, whatever the configuration's count
    /// says.
    ///
    /// # Errors
    /// See [`DpdkError`].
    pub fn open(config: &Config) -> Result<Self, DpdkError> {
        let config = Config { queues: 1, ..config.clone() };
        let port = kept::open(&config)?;
        Self::new(&port, 0).ok_or_else(|| DpdkError::no_queue().on(&config.device))
    }

    fn new(port: &Arc<Port>, queue: u16) -> Option<Self> {
        let pools = port.pools(queue)?;
        let facts = &port.facts;
        let capabilities = Capabilities {
            mtu: port.mtu,
            receive_checksum: facts.receive_checksum,
            transmit_checksum: facts.transmit_checksum,
            segmentation: facts.segmentation,
            queues: facts.queues,
            shared_frames: facts.shares_frames(),
        };
        let interrupts = facts.interrupts.then(|| ffi::near_interrupts(port.id, queue)).filter(|fd| *fd >= 0);
        Some(Self {
            rx: DpdkRx::new(Arc::clone(port), queue),
            tx: DpdkTx::new(Arc::clone(port), queue, pools.tx, slot_len(port.mtu, facts.segmentation)),
            port: Arc::clone(port),
            queue,
            capabilities,
            // SAFETY: the shim has just made this descriptor, for us alone.
            interrupts: interrupts.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
        })
    }

    /// What the port is like.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.port.facts
    }

    /// Which of the port's queue pairs it is.
    #[must_use]
    pub const fn queue(&self) -> u16 {
        self.queue
    }

    /// Packet buffers of this queue pair that are in use: in the port's
    /// rings, borrowed, or waiting to be sent. Walks the threads' caches: for
    /// statistics, not for the packet path.
    #[must_use]
    pub fn buffers_in_use(&self) -> u32 {
        self.port.buffers_in_use(self.queue)
    }

    /// Sleeps until a descriptor is readable, and says whether one is.
    fn sleep(fds: [Option<BorrowedFd<'_>>; 2], timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).ok();
        let poll = |fds: &mut [PollFd<'_>]| rustix::event::poll(fds, timeout.as_ref());
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let ready = match fds {
            [Some(one), Some(other)] => poll(&mut [watch(one), watch(other)]),
            [Some(fd), None] | [None, Some(fd)] => poll(&mut [watch(fd)]),
            [None, None] => poll(&mut []),
        };
        match ready {
            Ok(ready) => Ok(ready != 0),
            Err(Errno::INTR) => Ok(true), // May return early.
            Err(error) => Err(error.into()),
        }
    }

    /// Frames that came between the last look and the asking are found by
    /// the look after it.
    fn sleep_until_interrupt(
        &mut self,
        interrupts: BorrowedFd<'_>,
        wake: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<()> {
        ffi::near_interrupt(self.port.id, self.queue, 1);
        let slept = if self.rx.look_ahead() { Ok(true) } else { Self::sleep([Some(interrupts), wake], timeout) };
        ffi::near_interrupt(self.port.id, self.queue, 0);
        ffi::near_interrupted(interrupts.as_raw_fd());
        slept.map(drop)
    }

    fn sleep_in_naps(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        // Naps are counted rather than timed: each is at least as long as asked for.
        let naps = timeout.as_nanos().div_ceil(NAP.as_nanos());
        let mut nap = 0;
        while nap < naps && !self.rx.look_ahead() && !Self::sleep([None, wake], NAP.min(timeout))? {
            self.tx.flush(Time::ZERO);
            nap += 1;
        }
        Ok(())
    }
}

impl Link for DpdkLink {
    type Rx<'a>
        = &'a mut DpdkRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut DpdkTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn split(&mut self) -> (&mut DpdkRx, &mut DpdkTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        eal::enter_thread();
        let state = self.port.poll(now);
        match state {
            LinkState::Down => self.tx.forget(),
            LinkState::Up => self.tx.give_up_stuck(now),
        }
        state
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.tx.flush(Time::ZERO);
        // What the port did not take yet it takes without an interrupt.
        match self.interrupts.take_if(|_| !self.tx.is_pending()) {
            Some(interrupts) => {
                let slept = self.sleep_until_interrupt(interrupts.as_fd(), wake, timeout);
                self.interrupts = Some(interrupts);
                slept
            }
            None => self.sleep_in_naps(wake, timeout),
        }
    }

    fn counters(&self) -> Counters {
        // What the port itself lost is of no queue: the first one tells it.
        let lost = if self.queue == 0 { self.port.lost() } else { 0 };
        Counters {
            rx_frames: self.rx.frames,
            rx_bytes: self.rx.bytes,
            rx_dropped: self.rx.dropped + lost,
            tx_frames: self.tx.sent_frames,
            tx_bytes: self.tx.sent_bytes,
            tx_dropped: self.tx.dropped,
            tx_full: self.tx.full,
            disconnects: self.port.downs(),
        }
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        self.port.memory(self.queue, each);
    }
}
