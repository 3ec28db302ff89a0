//! A silo's link of any kind and any layout, as one type: the copy of the stack that
//! all drivers share runs over it.

use crate::any::AnyLink;
use crate::port::Port;
use crate::published::Take;
use bond::{Bond, BondRx, BondTx};
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Load, Receive, Transmit};
use stack::ReturnPath;
use std::io;
use std::os::fd::BorrowedFd;
use steer::{Steered, SteeredRx, SteeredTx};
use wire::{Offload, Time};

/// What a silo has, by the layout. The stack's walk is told which once in a turn, and
/// calls its halves through a table.
pub enum SiloLink {
    /// The only queue of the only silo.
    Alone(AnyLink),
    /// A queue, and other silos beside.
    Queue(Steered<AnyLink>),
    /// Queues of several ports, or of none, and other silos beside.
    Bond(Steered<Bond<AnyLink>>),
}

/// The receive half of a [`SiloLink`].
#[expect(clippy::large_enum_variant, reason = "lent for a turn, which allocates nothing")]
pub enum SiloRx<'a> {
    /// Of one queue.
    Alone(&'a mut dyn Receive),
    /// Of one queue with other silos beside.
    Queue(SteeredRx<'a, &'a mut dyn Receive>),
    /// Of several.
    Bond(SteeredRx<'a, BondRx<'a, AnyLink>>),
}

/// The transmit half of a [`SiloLink`].
#[expect(clippy::large_enum_variant, reason = "lent for a turn, which allocates nothing")]
pub enum SiloTx<'a> {
    /// Of one queue.
    Alone(&'a mut dyn Transmit),
    /// Of one queue with other silos beside.
    Queue(SteeredTx<'a, &'a mut dyn Transmit>),
    /// Of several.
    Bond(SteeredTx<'a, BondTx<'a, AnyLink>>),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($of:ident, $value:expr, $it:ident => $done:expr) => {
        match $value {
            $of::Alone($it) => $done,
            $of::Queue($it) => $done,
            $of::Bond($it) => $done,
        }
    };
}

impl Link for SiloLink {
    const OWN_COPY: bool = false;

    type Rx<'a> = SiloRx<'a>;
    type Tx<'a> = SiloTx<'a>;

    fn capabilities(&self) -> Capabilities {
        each!(Self, self, link => Link::capabilities(link))
    }

    #[inline]
    fn split(&mut self) -> (SiloRx<'_>, SiloTx<'_>) {
        match self {
            Self::Alone(link) => {
                let (rx, tx) = link.split();
                (SiloRx::Alone(rx), SiloTx::Alone(tx))
            }
            Self::Queue(link) => {
                let (rx, tx) = link.split();
                (SiloRx::Queue(rx), SiloTx::Queue(tx))
            }
            Self::Bond(link) => {
                let (rx, tx) = link.split();
                (SiloRx::Bond(rx), SiloTx::Bond(tx))
            }
        }
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        each!(Self, self, link => link.poll_control(now))
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        each!(Self, self, link => link.wait(wake, timeout))
    }

    #[inline]
    fn set_load(&mut self, load: Load) {
        each!(Self, self, link => link.set_load(load));
    }

    fn answer(&mut self, owns: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool) {
        each!(Self, self, link => link.answer(owns));
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        each!(Self, self, link => link.arm(each))
    }

    fn counters(&self) -> Counters {
        each!(Self, self, link => Link::counters(link))
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        each!(Self, self, link => Link::memory(link, each));
    }
}

impl Receive for SiloRx<'_> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        each!(Self, self, rx => rx.receive(now, max))
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        each!(Self, self, rx => rx.frame(index))
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        each!(Self, self, rx => rx.verified(index))
    }

    fn stamp(&self, index: usize) -> Option<u64> {
        each!(Self, self, rx => rx.stamp(index))
    }

    fn stray(&mut self, index: usize) -> bool {
        each!(Self, self, rx => rx.stray(index))
    }

    fn stray_from(&mut self, frame: &[u8]) -> bool {
        each!(Self, self, rx => rx.stray_from(frame))
    }

    #[inline]
    fn taken(&mut self, index: usize) {
        each!(Self, self, rx => rx.taken(index));
    }

    #[inline]
    fn release(&mut self) {
        each!(Self, self, rx => rx.release());
    }

    #[inline]
    fn as_table(&mut self) -> &mut dyn Receive {
        match self {
            Self::Alone(rx) => *rx,
            Self::Queue(rx) => rx,
            Self::Bond(rx) => rx,
        }
    }
}

impl Transmit for SiloTx<'_> {
    #[inline]
    fn room(&self) -> usize {
        each!(Self, self, tx => tx.room())
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        each!(Self, self, tx => tx.slot())
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        each!(Self, self, tx => tx.commit(len, offload));
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        each!(Self, self, tx => tx.flush(now));
    }

    fn stamp_next(&mut self) {
        each!(Self, self, tx => tx.stamp_next());
    }

    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        each!(Self, self, tx => tx.departed(each));
    }

    #[inline]
    fn as_table(&mut self) -> &mut dyn Transmit {
        match self {
            Self::Alone(tx) => *tx,
            Self::Queue(tx) => tx,
            Self::Bond(tx) => tx,
        }
    }
}

impl Port for SiloLink {
    const BESIDE: bool = true;

    fn counts(&self, take: Take<'_>) {
        each!(Self, self, link => link.counts(take));
    }

    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        each!(Self, self, link => link.traffic(each));
    }

    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        each!(Self, self, link => link.gone(each));
    }

    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        each!(Self, self, link => link.return_path())
    }
}
