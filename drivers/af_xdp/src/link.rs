//! One queue of an interface as a [`Link`].

use crate::error::OpenError;
use crate::host::HostEvent;
use crate::interface::Presence;
use crate::port::{Report, Shared};
use crate::receive::XdpRx;
use crate::ring::{Consumer, Producer};
use crate::socket::{Rings, Socket};
use crate::transmit::XdpTx;
use crate::umem::{Backing, Umem};
use ::link::{Capabilities, Counters, Link, LinkState};
use core::ops::Range;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use wire::{Mac, Time};

/// The interface is looked at this often: it seldom changes, and each look is
/// a few system calls.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// News of the host taken in one look; more wait for the next.
const HOST_EVENTS: usize = 64;

/// Longest sleep while the kernel did not take all that is to be sent.
const UNSENT_NAP: Duration = Duration::from_micros(100);

/// One queue pair of an interface.
///
/// It takes its memory and begins to receive in its first `poll_control`. If
/// that fails, the link stays down and the next `wait` says why.
#[derive(Debug)]
pub struct XdpLink {
    rx: XdpRx,
    tx: XdpTx,
    shared: Arc<Shared>,
    /// Which of the port's queues, from 0.
    ordinal: u16,
    at_work: Option<AtWork>,
    failure: Option<OpenError>,
    state: LinkState,
    presence: Presence,
    looked: Option<Time>,
    disconnects: u64,
    kernel_drops: KernelDrops,
}

#[derive(Debug)]
struct AtWork {
    socket: Arc<Socket>,
    umem: Arc<Umem>,
    /// The frames of this queue, as the umem counts.
    frames: Range<usize>,
    zero_copy: bool,
}

/// What the kernel dropped of a queue's frames (XDP_STATISTICS).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelDrops {
    /// Longer than a frame's room: mostly what an interface joins or is given
    /// uncut (GRO, TSO) in generic mode.
    pub too_long: u64,
    /// The receive ring was full: the silo was away for too long.
    pub ring_full: u64,
    /// No frame was free to receive into.
    pub no_frame: u64,
    /// What we sent was malformed.
    pub invalid: u64,
}

impl XdpLink {
    pub(crate) fn new(shared: Arc<Shared>, ordinal: u16) -> Self {
        let mtu = shared.facts.mtu;
        Self {
            rx: XdpRx::new(shared.facts.vouches),
            tx: XdpTx::new(),
            shared,
            ordinal,
            at_work: None,
            failure: None,
            state: LinkState::Down,
            presence: Presence::Up(mtu.into()),
            looked: None,
            disconnects: 0,
            kernel_drops: KernelDrops::default(),
        }
    }

    /// Takes memory and begins to receive, unless that was done before. The
    /// memory comes from the domain of this thread.
    ///
    /// # Errors
    /// [`OpenError`]: of the queue, mostly [`OpenError::QueueBusy`].
    pub fn start(&mut self) -> Result<(), OpenError> {
        if self.at_work.is_some() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let config = &shared.config;
        let (frame, queue) = (shared.facts.frame, self.queue());
        let (umem, socket, rings, fill, share);
        if config.shared_umem {
            // Held until the first socket is bound: the others need it so.
            let mut place = shared.umem.lock().unwrap_or_else(PoisonError::into_inner);
            let first = place.clone();
            umem = match &first {
                Some((umem, _)) => Arc::clone(umem),
                None => Arc::new(Umem::new(config, frame, shared.facts.queues.into()).map_err(no_memory)?),
            };
            let own = first.is_none().then_some(&*umem);
            (socket, rings) = Socket::new(config, frame, own).map(|(socket, rings)| (Arc::new(socket), rings))?;
            share = u32::from(self.ordinal);
            fill = Self::fill(&rings, first_frame(config.ring, frame, share), frame);
            let with = first.as_ref().map(|(_, socket)| socket.as_fd());
            socket.bind(config, shared.interface.index(), queue, with)?;
            place.get_or_insert_with(|| (Arc::clone(&umem), Arc::clone(&socket)));
        } else {
            umem = Arc::new(Umem::new(config, frame, 1).map_err(no_memory)?);
            (socket, rings) =
                Socket::new(config, frame, Some(&umem)).map(|(socket, rings)| (Arc::new(socket), rings))?;
            share = 0;
            fill = Self::fill(&rings, first_frame(config.ring, frame, share), frame);
            socket.bind(config, shared.interface.index(), queue, None)?;
        }
        shared.filter.set_queue(queue, socket.as_fd())?;
        let zero_copy = socket.is_zero_copy();
        let first = first_frame(config.ring, frame, share);
        // SAFETY: the rings are mapped as long as the socket is held, which
        // each half does; each of the two has its own rings.
        let (receive, transmit, completion) =
            unsafe { (Consumer::new(rings.receive), Producer::new(rings.transmit), Consumer::new(rings.completion)) };
        let memory = || (Arc::clone(&umem), frame);
        self.rx.attach(receive, fill, memory(), Arc::clone(&socket), config.busy_poll.is_some());
        let own = (first + u64::from(config.ring) * u64::from(frame), config.ring);
        self.tx.attach(transmit, completion, memory(), own, Arc::clone(&socket));
        let frames = first as usize..first as usize + 2 * (config.ring * frame) as usize;
        self.at_work = Some(AtWork { socket, umem, frames, zero_copy });
        Ok(())
    }

    /// The fill ring with all frames to receive into, published.
    fn fill(rings: &Rings, first: u64, frame: u32) -> Producer<u64> {
        // SAFETY: the ring is mapped as long as the socket is held, which
        // whoever gets it does; nobody else fills it.
        let mut fill = unsafe { Producer::new(rings.fill) };
        for n in 0..u64::from(rings.fill.size) {
            fill.push(first + n * u64::from(frame));
        }
        fill.publish();
        fill
    }

    /// The interface's queue.
    #[must_use]
    pub fn queue(&self) -> u32 {
        u32::from(self.shared.config.first_queue) + u32::from(self.ordinal)
    }

    /// The interface's Ethernet address, which is ours too.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.shared.facts.mac
    }

    /// What was opened.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// Whether frames pass without a copy; `None` before it is at work.
    #[must_use]
    pub fn zero_copy(&self) -> Option<bool> {
        self.at_work.as_ref().map(|at_work| at_work.zero_copy)
    }

    /// What the frames' memory is made of; `None` before it is at work.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        self.at_work.as_ref().map(|at_work| at_work.umem.backing())
    }

    /// What the kernel had dropped when it was last asked, every 100 ms.
    #[must_use]
    pub const fn kernel_drops(&self) -> KernelDrops {
        self.kernel_drops
    }

    /// Follows the host's addresses: one of the queues does so for all.
    fn follow_host(&self) {
        let Ok(mut view) = self.shared.view.try_lock() else { return };
        let Some(view) = &mut *view else { return };
        for _ in 0..HOST_EVENTS {
            // What cannot be taken stays with the kernel.
            let _ = match view.poll() {
                Some(HostEvent::Address(address)) => self.shared.filter.add(address.ip),
                Some(HostEvent::AddressGone(ip)) => self.shared.filter.remove(ip),
                Some(_) => Ok(()),
                None => return,
            };
        }
    }

    fn look(&mut self) {
        if self.ordinal == 0 {
            self.follow_host();
        }
        // What is gone stays gone: another interface of this name is another.
        if self.presence != Presence::Gone {
            self.presence = self.shared.interface.look();
        }
        let state = if matches!(self.presence, Presence::Up(_)) { LinkState::Up } else { LinkState::Down };
        if self.state == LinkState::Up && state == LinkState::Down {
            self.disconnects += 1;
        }
        if let Some(at_work) = &self.at_work {
            let counted = at_work.socket.statistics();
            self.kernel_drops = KernelDrops {
                too_long: counted.rx_dropped,
                ring_full: counted.rx_ring_full,
                no_frame: counted.rx_fill_ring_empty_descs,
                invalid: counted.tx_invalid_descs + counted.rx_invalid_descs,
            };
        }
        self.state = state;
        self.tx.up = state == LinkState::Up;
    }
}

/// Where a queue's frames begin: those to receive into, then those to send.
fn first_frame(ring: u32, frame: u32, share: u32) -> u64 {
    u64::from(share) * 2 * u64::from(ring) * u64::from(frame)
}

fn no_memory(source: Errno) -> OpenError {
    OpenError::System { what: "get memory for frames", source }
}

impl Link for XdpLink {
    type Rx<'a>
        = &'a mut XdpRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut XdpTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.shared.facts.mtu,
            receive_checksum: self.shared.facts.vouches,
            transmit_checksum: false,
            segmentation: None,
            queues: self.shared.facts.queues,
        }
    }

    #[inline]
    fn split(&mut self) -> (&mut XdpRx, &mut XdpTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        if self.at_work.is_none() {
            if self.failure.is_none()
                && let Err(failure) = self.start()
            {
                self.failure = Some(failure);
            }
            if self.failure.is_some() {
                return LinkState::Down;
            }
        }
        if self.looked.is_none_or(|looked| now.since(looked) >= LOOK_INTERVAL) {
            self.looked = Some(now);
            self.look();
        }
        self.state
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(io::Error::other(failure));
        }
        if self.rx.has_frames() {
            return Ok(());
        }
        let timeout = if self.tx.unsent() { timeout.min(UNSENT_NAP) } else { timeout };
        let timeout = Timespec::try_from(timeout).ok();
        let socket = self.at_work.as_ref().map(|at_work| at_work.socket.as_fd());
        // A socket without its interface has nothing more to say.
        let socket = socket.filter(|_| self.presence != Presence::Gone);
        let mut fds = Vec::with_capacity(2);
        for fd in socket.into_iter().chain(wake) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        if self.failure.is_some() || self.rx.has_frames() {
            return Duration::ZERO;
        }
        let socket = self.at_work.as_ref().map(|at_work| at_work.socket.as_fd());
        if let Some(socket) = socket.filter(|_| self.presence != Presence::Gone) {
            each(socket);
        }
        if self.tx.unsent() { UNSENT_NAP } else { Duration::MAX }
    }

    fn counters(&self) -> Counters {
        Counters {
            rx_frames: self.rx.frames,
            rx_bytes: self.rx.bytes,
            tx_frames: self.tx.frames,
            tx_bytes: self.tx.bytes,
            rx_dropped: self.rx.dropped,
            tx_dropped: self.tx.dropped,
            tx_full: self.tx.full,
            disconnects: self.disconnects,
        }
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        let Some(at_work) = &self.at_work else { return };
        each(at_work.umem.range(at_work.frames.clone()));
        at_work.socket.memory().for_each(each);
    }
}
