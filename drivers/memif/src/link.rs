//! One queue pair as a [`Link`].

use crate::config::{Config, HEADER_ROOM, Mode, POLL_NAP};
use crate::control::{Control, Status};
use crate::receive::{LOST_FAULT, MemifRx};
use crate::ring::Ring;
use crate::shared::Shared;
use crate::transmit::MemifTx;
use crate::{ConfigError, Memif, MemifError};
use ::link::{Capabilities, Counters, Link, LinkState};
use core::ops::Range;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// Looks at the ring between asking for an eventfd and going to sleep.
///
/// A sender publishes its index and then reads our flag, mostly without the
/// fence that would order the two, so its store may still be on its way while
/// it reads "do not wake me". Stores arrive within well under the microseconds
/// that this many looks take.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// One queue pair of a memif interface.
#[derive(Debug)]
pub struct MemifLink {
    rx: MemifRx,
    tx: MemifTx,
    shared: Arc<Shared>,
    /// What of `shared` has been taken up.
    epoch: u32,
    /// Raised by the peer when frames come and we asked for it.
    event: Option<Arc<OwnedFd>>,
    control: Option<Control>,
    mode: Mode,
    /// A sleep of somebody else's was prepared.
    armed: bool,
    capabilities: Capabilities,
    disconnects: u64,
}

impl MemifLink {
    /// Opens an interface of one queue pair, control channel included.
    ///
    /// # Errors
    /// [`MemifError`], also if more than one queue is configured; use
    /// [`Memif::open`] for those.
    pub fn open(config: Config) -> Result<Self, MemifError> {
        let one_queue = ConfigError::Value { key: String::from("queues"), takes: "1 where one link is opened" };
        if config.queues != 1 {
            return Err(MemifError::Config(one_queue));
        }
        Memif::open(config)?.split_queues().pop().ok_or(MemifError::Config(one_queue))
    }

    pub(crate) fn new(config: &Config, shared: Arc<Shared>) -> Self {
        Self {
            rx: MemifRx::new(config.copy),
            tx: MemifTx::new(u32::from(config.mtu) + HEADER_ROOM),
            shared,
            epoch: 0,
            event: None,
            control: None,
            mode: config.mode,
            armed: false,
            capabilities: config.capabilities(),
            disconnects: 0,
        }
    }

    pub(crate) fn adopt(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// Where the interface stands, if this link runs its control channel.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.control.as_ref().map(Control::status)
    }

    #[cfg(test)]
    pub(crate) fn control(&self) -> &Control {
        self.control.as_ref().expect("a link with its control channel")
    }

    /// Takes up what the control channel has to say to this queue.
    fn follow_control(&mut self) {
        let Some((epoch, setup)) = self.shared.changed_since(self.epoch) else { return };
        self.epoch = epoch;
        if self.event.take().is_some() {
            self.disconnects += 1;
        }
        match setup {
            Some(setup) => {
                let (ring, buffers, event) = setup.rx;
                self.rx.attach(ring, buffers, setup.reserved);
                self.event = Some(event);
                let (ring, buffers, bell) = setup.tx;
                self.tx.attach(ring, buffers, setup.slots, bell);
            }
            None => {
                self.rx.detach();
                self.tx.detach();
            }
        }
    }

    /// Sleeps until one of the file descriptors is readable, and says whether
    /// one is.
    fn sleep(&self, wake: Option<BorrowedFd<'_>>, timeout: Duration, for_frames: bool) -> io::Result<bool> {
        // A peer's eventfd, news of the control channel, the control socket, the caller's.
        let event = self.event.as_deref().filter(|_| for_frames).map(AsFd::as_fd);
        let control = self.control.as_ref().and_then(Control::readable);
        let fallback = self.shared.changed.as_fd();
        let watched = [Some(fallback), event, control, wake];
        let mut fds = watched.map(|fd| PollFd::from_borrowed_fd(fd.unwrap_or(fallback), PollFlags::IN));
        let patience = self.control.as_ref().map_or(Duration::MAX, Control::patience);
        let timeout = Timespec::try_from(timeout.min(patience)).ok();
        let ready = match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(true), // May return early.
            Err(error) => return Err(error.into()),
        };
        // Emptied, so that the next sleep lasts until something new happens.
        if fds[0].revents().contains(PollFlags::IN) {
            drain(fallback);
        }
        if let Some(event) = event
            && fds[1].revents().contains(PollFlags::IN)
        {
            drain(event);
        }
        Ok(ready != 0)
    }

    fn sleep_until_interrupt(&self, ring: &Ring, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let came = self.comes_before_interrupt(ring);
        let slept = if came { Ok(()) } else { self.sleep(wake, timeout, true).map(drop) };
        ring.ask_for_interrupt(false);
        slept
    }

    /// Asks for an interrupt, and whether frames came before it can.
    fn comes_before_interrupt(&self, ring: &Ring) -> bool {
        ring.ask_for_interrupt(true);
        (0..LOOKS_BEFORE_SLEEP).any(|_| {
            core::hint::spin_loop();
            self.rx.has_frames()
        })
    }

    /// Ends what [`Link::arm`] has begun.
    fn disarm(&self) {
        if let Some(ring) = self.rx.ring() {
            ring.ask_for_interrupt(false);
        }
        // Emptied, so that the next sleep lasts until something new happens.
        drain(self.shared.changed.as_fd());
        if let Some(event) = &self.event {
            drain(event.as_fd());
        }
    }

    fn sleep_in_naps(&self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        // Naps are counted rather than timed: each is at least as long as asked for.
        let naps = timeout.as_nanos().div_ceil(POLL_NAP.as_nanos());
        let mut nap = 0;
        while nap < naps && !self.rx.has_frames() && !self.sleep(wake, POLL_NAP.min(timeout), false)? {
            nap += 1;
        }
        Ok(())
    }
}

/// Takes what an eventfd counted. `NOWAIT`, because a peer could have taken it
/// before us, and made its file descriptor a blocking one.
pub(crate) fn drain(fd: BorrowedFd<'_>) {
    let mut count = [0; 8];
    let _ = rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

impl Link for MemifLink {
    type Rx<'a>
        = &'a mut MemifRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut MemifTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn split(&mut self) -> (&mut MemifRx, &mut MemifTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        if let Some(fault) = self.rx.fault.take().or(self.tx.fault.take()) {
            self.shared.report(self.epoch, fault);
        }
        if self.rx.is_lost() {
            self.shared.report(self.epoch, LOST_FAULT);
        }
        self.tx.confirm();
        if let Some(control) = &mut self.control {
            control.poll(now);
        }
        self.follow_control();
        if self.event.is_some() { LinkState::Up } else { LinkState::Down }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        if core::mem::take(&mut self.armed) {
            self.disarm();
            if timeout.is_zero() {
                return Ok(());
            }
        }
        self.tx.confirm();
        if self.rx.has_frames() || self.rx.fault.is_some() || self.tx.fault.is_some() {
            return Ok(());
        }
        match (self.rx.ring(), self.mode) {
            (None, _) => self.sleep(wake, timeout, false).map(drop),
            (Some(ring), Mode::Interrupt) => self.sleep_until_interrupt(ring, wake, timeout),
            (Some(_), Mode::Poll) => self.sleep_in_naps(wake, timeout),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        self.tx.confirm();
        self.armed = true;
        let interrupts = self.mode == Mode::Interrupt;
        let came = match self.rx.ring() {
            Some(ring) if interrupts => self.comes_before_interrupt(ring),
            _ => self.rx.has_frames(),
        };
        if came || self.rx.fault.is_some() || self.tx.fault.is_some() {
            return Duration::ZERO;
        }
        let control = self.control.as_ref().and_then(Control::readable);
        let event = self.event.as_deref().filter(|_| interrupts).map(AsFd::as_fd);
        for fd in [Some(self.shared.changed.as_fd()), control, event].into_iter().flatten() {
            each(fd);
        }
        let patience = self.control.as_ref().map_or(Duration::MAX, Control::patience);
        if interrupts || self.event.is_none() { patience } else { patience.min(POLL_NAP) }
    }

    fn counters(&self) -> Counters {
        let (rx_frames, rx_bytes, rx_dropped) = self.rx.counts();
        Counters {
            rx_frames,
            rx_bytes,
            tx_frames: self.tx.sent,
            tx_bytes: self.tx.bytes,
            rx_dropped,
            tx_dropped: self.tx.dropped,
            tx_full: self.tx.full,
            disconnects: self.disconnects,
        }
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        self.rx.memory(each);
        self.tx.memory(each);
    }
}
