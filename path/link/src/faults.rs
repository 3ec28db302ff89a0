//! Faults on any link: what networks do to frames, seeded and repeatable.
//!
//! [`Faults`] wraps a link and treats each direction by its own
//! [`Impairment`]. Frames pass, in this order: black holes, loss, duplication,
//! corruption, the bottleneck's rate and queue, delay, reordering. Time is the `now` of
//! the calls, so in virtual time a seed repeats every fault exactly;
//! [`Faults::next_event`] says when the next delayed frame is due.
//!
//! A frame is copied on the way: this is for tests, not for speed. Offloads on
//! sending are not offered even where the link has them: faults must strike
//! the frames of the wire, and a damaged frame must not get a good checksum
//! afterwards.

mod lane;
mod path;

pub use path::EmulatedPath;

pub use lane::{BurstLoss, FaultCounters, Impairment, Rate};

use crate::shared::Shared;
use crate::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use core::time::Duration;
use lane::{Frame, Lane};
use std::io;
use std::os::fd::BorrowedFd;
use wire::{Offload, Time};

/// Frames taken from the inner link in one receive: bounds the turn, and is
/// large enough that frames seldom wait unstamped in the inner ring.
const PULL_LIMIT: usize = 256;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// What to do to each direction, seen from the wrapped link's user.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// For frames received.
    pub receive: Impairment,
    /// For frames sent.
    pub transmit: Impairment,
    /// Two links with the same seed and the same frames do the same.
    pub seed: u64,
}

impl FaultPlan {
    /// The same impairment for both directions, each with its own draws.
    #[must_use]
    pub fn both(impairment: Impairment, seed: u64) -> Self {
        Self { receive: impairment, transmit: impairment, seed }
    }
}

/// A link with faults.
pub struct Faults<L> {
    link: Shared<L>,
    capabilities: Capabilities,
    rx: FaultsRx<L>,
    tx: FaultsTx<L>,
    now: Time,
}

impl<L: Link> Faults<L> {
    /// Asks the link that is harmed.
    pub fn ask_inner<T>(&self, ask: impl FnOnce(&L) -> T) -> T {
        ask(&self.link.lock())
    }

    /// `link` with the faults of `plan`.
    #[must_use]
    pub fn new(link: L, plan: FaultPlan) -> Self {
        let inner = link.capabilities();
        let link = Shared::new(link);
        // Each direction draws for itself, so that the traffic of one does
        // not move the faults of the other.
        let rx = Lane::new(plan.receive, plan.seed);
        let tx = Lane::new(plan.transmit, !plan.seed);
        let slot_len = usize::from(inner.mtu) + HEADER_ROOM;
        Self {
            rx: FaultsRx { link: link.clone(), lane: rx, burst: Vec::new(), now: Time::ZERO },
            tx: FaultsTx {
                link: link.clone(),
                lane: tx,
                slot_len,
                offered: None,
                committed: Vec::new(),
                now: Time::ZERO,
            },
            capabilities: Capabilities { transmit_checksum: false, segmentation: None, ..inner },
            link,
            now: Time::ZERO,
        }
    }

    /// When the next delayed frame is due: at or after this time, a receive
    /// (or for the sending direction a flush) brings it on its way. `None`
    /// while no frame is held. A time that has passed means that the frame
    /// waits for such a call, or for room in the inner link's ring.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        match (self.rx.lane.next_due(), self.tx.lane.next_due()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What was done to frames received.
    #[must_use]
    pub fn receive_faults(&self) -> FaultCounters {
        self.rx.lane.counters
    }

    /// What was done to frames sent.
    #[must_use]
    pub fn transmit_faults(&self) -> FaultCounters {
        self.tx.lane.counters
    }

    /// From now on treats frames received by `receive` and frames sent by
    /// `transmit`; frames already held stay as they are. With loss certain
    /// the link is cut, and with the default it is whole again.
    pub fn set_impairments(&mut self, receive: Impairment, transmit: Impairment) {
        self.rx.lane.impairment = receive;
        self.tx.lane.impairment = transmit;
    }

    /// As [`Faults::set_impairments`], by another way: what comes from now on
    /// queues behind nothing that is held, and may overtake it.
    pub fn reroute(&mut self, receive: Impairment, transmit: Impairment) {
        self.rx.lane.reroute(receive);
        self.tx.lane.reroute(transmit);
    }

    /// Calls `f` with the inner link.
    pub fn with_inner<R>(&mut self, f: impl FnOnce(&mut L) -> R) -> R {
        f(&mut self.link.lock())
    }

    /// The latest time that any call has told.
    fn latest(&self) -> Time {
        self.now.max(self.rx.now).max(self.tx.now)
    }
}

impl<L: Link> Link for Faults<L> {
    type Rx<'a>
        = &'a mut FaultsRx<L>
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut FaultsTx<L>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn split(&mut self) -> (&mut FaultsRx<L>, &mut FaultsTx<L>) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.now = now;
        self.link.lock().poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let due = self.next_event().map(|due| due.since(self.latest()));
        let timeout = due.map_or(timeout, |due| due.min(timeout));
        if timeout.is_zero() {
            return Ok(());
        }
        self.link.lock().wait(wake, timeout)
    }

    /// The inner link's: what passed there, before faults on receiving and
    /// after faults on sending.
    fn counters(&self) -> Counters {
        self.link.lock().counters()
    }
}

/// The receive half of [`Faults`].
pub struct FaultsRx<L> {
    link: Shared<L>,
    lane: Lane,
    burst: Vec<Frame>,
    now: Time,
}

impl<L: Link> FaultsRx<L> {
    /// Takes what the inner link has, so that it is stamped with this time.
    fn pull(&mut self, now: Time, burst: usize) {
        let mut inner = self.link.lock();
        let mut rx = inner.split().0;
        let mut pulled = 0;
        while pulled < PULL_LIMIT {
            let count = rx.receive(now, burst);
            for i in 0..count {
                let mut frame = self.lane.blank();
                frame.bytes.extend_from_slice(rx.frame(i));
                frame.verified = rx.verified(i);
                self.lane.admit(now, frame);
            }
            rx.release();
            pulled += count;
            if count == 0 {
                break;
            }
        }
    }
}

impl<L: Link> Receive for FaultsRx<L> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        self.now = now;
        self.release();
        self.pull(now, max);
        while self.burst.len() < max {
            let Some(frame) = self.lane.take(now) else { break };
            self.burst.push(frame);
        }
        self.burst.len()
    }

    fn frame(&self, index: usize) -> &[u8] {
        &self.burst[index].bytes
    }

    fn verified(&self, index: usize) -> bool {
        self.burst[index].verified
    }

    fn release(&mut self) {
        for frame in self.burst.drain(..) {
            self.lane.give_back(frame);
        }
    }
}

/// The transmit half of [`Faults`].
pub struct FaultsTx<L> {
    link: Shared<L>,
    lane: Lane,
    /// Bytes of a slot.
    slot_len: usize,
    /// The slot handed out and not yet committed.
    offered: Option<Frame>,
    /// Committed, and to be admitted at the time that the flush tells.
    committed: Vec<Frame>,
    now: Time,
}

impl<L: Link> Transmit for FaultsTx<L> {
    fn room(&self) -> usize {
        self.lane.impairment.hold_limit.saturating_sub(self.committed.len())
    }

    /// Always a slot: a network does not push back, it drops.
    fn slot(&mut self) -> Option<&mut [u8]> {
        let (lane, len) = (&mut self.lane, self.slot_len);
        let frame = self.offered.get_or_insert_with(|| {
            let mut frame = lane.blank();
            frame.bytes.resize(len, 0);
            frame
        });
        Some(&mut frame.bytes)
    }

    fn commit(&mut self, len: usize, _offload: Offload) {
        let Some(mut frame) = self.offered.take() else { return };
        if self.room() == 0 {
            self.lane.overflow(frame);
            return;
        }
        frame.bytes.truncate(len);
        self.committed.push(frame);
    }

    fn flush(&mut self, now: Time) {
        self.now = now;
        for frame in self.committed.drain(..) {
            self.lane.admit(now, frame);
        }
        let mut inner = self.link.lock();
        let mut tx = inner.split().1;
        while self.lane.next_due().is_some_and(|due| due <= now) {
            let Some(slot) = tx.slot() else { break };
            let Some(frame) = self.lane.take(now) else { break };
            let len = frame.bytes.len().min(slot.len());
            slot[..len].copy_from_slice(&frame.bytes[..len]);
            tx.commit(len, Offload::NONE);
            self.lane.give_back(frame);
        }
        tx.flush(now);
    }
}

#[cfg(test)]
mod tests;
