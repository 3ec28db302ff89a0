//! The `Link` contract: where frames come from and go to.
//!
//! Frames are borrowed, never owned. A received frame is read where the driver
//! put it and is valid until the burst is released; a frame to send is built in
//! the driver's own next transmit slot. The receive and transmit halves are
//! separate values, so that a reply can be built while the frame that asked for
//! it is still borrowed.
#![forbid(unsafe_code)]

mod capture;
mod faults;
mod pair;
mod probability;
mod reopen;
mod rss;
mod segment;
mod shared;

pub use capture::{Capture, CaptureConfig, CaptureCounters, CaptureRx, CaptureTx};
pub use faults::{BurstLoss, EmulatedPath, FaultCounters, FaultPlan, Faults, FaultsRx, FaultsTx, Impairment, Rate};
pub use pair::{Pair, PairConfig, PairLink, PairRx, PairTx};
pub use probability::{NotAProbability, Probability};
pub use reopen::{Reopened, Reopener, Wanted};
pub use rss::Rss;

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use wire::{Offload, Time};

/// What a link can do, fixed while it is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Largest IP packet, in bytes, without the Ethernet header.
    pub mtu: u16,
    /// Received frames whose transport checksum need not be verified exist
    /// (see [`Receive::verified`]).
    pub receive_checksum: bool,
    /// [`Offload::checksum`] may be asked for.
    pub transmit_checksum: bool,
    /// [`Offload::segment`] may be asked for, with packets up to this many
    /// bytes; `None` without segmentation offload.
    pub segmentation: Option<u32>,
    /// Queue pairs that the link offers.
    pub queues: u16,
    /// Received frames lie where another process can still write while they
    /// are lent: what was decided by a frame's bytes must not be remembered by
    /// reading them again. Such a process may be hostile; what the kernel or a
    /// NIC writes does not count.
    pub shared_frames: bool,
}

/// Whether frames can pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// No peer, or no carrier: nothing is received, what is sent is dropped
    /// and counted.
    Down,
    /// Frames pass.
    Up,
}

/// Frames and bytes that passed, and what was dropped, from this side's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes received, Ethernet header included.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes sent, Ethernet header included.
    pub tx_bytes: u64,
    /// Received frames dropped by the driver: malformed descriptors, too long.
    pub rx_dropped: u64,
    /// Frames dropped on sending: link down, or the kernel refused them.
    pub tx_dropped: u64,
    /// Times that a slot was asked for and the transmit ring was full.
    pub tx_full: u64,
    /// Times that the peer went away.
    pub disconnects: u64,
}

impl Counters {
    /// Every counter with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let Self { rx_frames, rx_bytes, tx_frames, tx_bytes, rx_dropped, tx_dropped, tx_full, disconnects } = *self;
        [
            ("rx_frames", rx_frames),
            ("rx_bytes", rx_bytes),
            ("tx_frames", tx_frames),
            ("tx_bytes", tx_bytes),
            ("rx_dropped", rx_dropped),
            ("tx_dropped", tx_dropped),
            ("tx_full", tx_full),
            ("disconnects", disconnects),
        ]
        .into_iter()
    }
}

/// How much a silo has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Requests that wait or are served, where the application counts them.
    pub working: u32,
    /// Connections, those being opened included.
    pub open: u32,
}

/// How long to sleep where nothing tells that frames came: what they may wait,
/// and 5,000 looks in a second.
pub const NAP: Duration = Duration::from_micros(200);

/// A link: one queue pair to the outside, owned by one silo.
pub trait Link {
    /// The stack is compiled for the halves of this very link. All others share
    /// one copy of it, which calls theirs through a table
    /// ([`Receive::as_table`], [`Transmit::as_table`]).
    const OWN_COPY: bool = true;

    /// The receive half, while it is lent: for a link that has its halves as
    /// values, `&'a mut` of one. A link made of others lends what it made of
    /// their halves, without copying a frame.
    type Rx<'a>: Receive
    where
        Self: 'a;
    /// The transmit half, likewise.
    type Tx<'a>: Transmit
    where
        Self: 'a;

    /// What the link can do.
    fn capabilities(&self) -> Capabilities;

    /// Both halves, to be used at the same time.
    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>);

    /// Work beside the packet path: greet a new peer, notice that one went.
    /// Never blocks. The silo calls it about once a millisecond while
    /// polling, and after each [`Link::wait`].
    fn poll_control(&mut self, now: Time) -> LinkState;

    /// Sleeps until frames may be waiting, `wake` becomes readable, or
    /// `timeout` has passed; may return early. Frames that came in between
    /// are never slept over.
    ///
    /// # Errors
    /// If the operating system refuses to wait: the link is unusable.
    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()>;

    /// Tells the link after each turn how much its silo has to do, for those
    /// that choose the silo of a new connection by it.
    #[inline]
    fn set_load(&mut self, load: Load) {
        let _ = load;
    }

    /// Answers what other silos have asked since the last call: whether flows
    /// are known here. `owns` is told a flow's remote and local end. The silo
    /// calls it with [`Link::poll_control`].
    fn answer(&mut self, owns: &mut dyn FnMut(SocketAddr, SocketAddr) -> bool) {
        let _ = owns;
    }

    /// Prepares for a sleep of the caller's own, who sleeps on several links
    /// at once: tells `each` the descriptors that become readable when frames
    /// may be waiting, and returns for how long they can be relied on. That
    /// is no time at all where frames may be waiting already, and [`NAP`] for
    /// a link without such descriptors. After the sleep, or instead of it,
    /// [`Link::wait`] with a timeout of zero ends the preparations.
    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        let _ = each;
        NAP
    }

    /// What passed so far.
    fn counters(&self) -> Counters;

    /// Tells `each` the address ranges of memory that frames pass through
    /// (rings, buffers), so that its NUMA placement can be verified. A link
    /// without memory of its own tells nothing.
    fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let _ = each;
    }
}

/// The receive half of a link.
///
/// Call order: `receive`, then `frame` any number of times, then `release`.
pub trait Receive {
    /// Takes a burst of at most `max` frames and returns how many there are.
    /// A burst must be released before the next is taken.
    fn receive(&mut self, now: Time, max: usize) -> usize;

    /// Frame `index` of the burst, from the destination address on, without
    /// frame check sequence. Valid until the release, which the borrow proves.
    ///
    /// # Panics
    /// If `index` is not below what [`Receive::receive`] returned.
    fn frame(&self, index: usize) -> &[u8];

    /// Whether the link vouches for the frame's transport checksum.
    #[inline]
    fn verified(&self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// When frame `index` of the burst came, in nanoseconds of the clock that
    /// the link stamps frames with; `None`: it was not stamped.
    #[inline]
    fn stamp(&self, index: usize) -> Option<u64> {
        let _ = index;
        None
    }

    /// Frame `index` of the burst is a TCP segment of no connection of this
    /// silo, and opens none. Returns whether the link passes it on to a silo
    /// or process that may own the connection; if not, it is answered as
    /// RFC 9293 section 3.10.7.1 says, with a reset.
    #[inline]
    fn stray(&mut self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// As [`Receive::stray`], for a frame that another silo received and passed
    /// to this one.
    #[inline]
    fn stray_from(&mut self, frame: &[u8]) -> bool {
        let _ = frame;
        false
    }

    /// Frame `index` of the burst was taken, and meant nothing to an
    /// application: it may be one that other silos are to see as well.
    #[inline]
    fn taken(&mut self, index: usize) {
        let _ = index;
    }

    /// Gives the burst's slots back to the link.
    fn release(&mut self);

    /// This half, to be called through a table: the one that it stands for, where
    /// it does nothing of its own.
    #[inline]
    fn as_table(&mut self) -> &mut dyn Receive
    where
        Self: Sized,
    {
        self
    }
}

/// The transmit half of a link.
///
/// Call order: `slot`, write, `commit`; again for each frame; then `flush`.
pub trait Transmit {
    /// Slots that are free now. May understate, never overstates.
    fn room(&self) -> usize;

    /// The next free slot, or `None` when the ring is full (counted). The
    /// same slot is returned until it is committed; its contents are
    /// arbitrary. At least MTU + 18 bytes long (Ethernet header with one
    /// VLAN tag), or the segmentation limit + 18 with segmentation offload.
    fn slot(&mut self) -> Option<&mut [u8]>;

    /// Completes the slot with the frame's length. Does nothing without a
    /// preceding [`Transmit::slot`].
    fn commit(&mut self, len: usize, offload: Offload);

    /// Shows all committed frames to the peer, once per turn.
    fn flush(&mut self, now: Time);

    /// The frame that is committed next is to be stamped as it leaves, by a
    /// link that can.
    #[inline]
    fn stamp_next(&mut self) {}

    /// Tells `each` frames that left and were to be stamped, with the time in
    /// nanoseconds of the clock that the link stamps frames with. They may be
    /// told long after they left, or never; of one that is told again the first
    /// time counts.
    #[inline]
    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        let _ = each;
    }

    /// As [`Receive::as_table`].
    #[inline]
    fn as_table(&mut self) -> &mut dyn Transmit
    where
        Self: Sized,
    {
        self
    }
}

impl<R: Receive + ?Sized> Receive for &mut R {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        (**self).receive(now, max)
    }
    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        (**self).frame(index)
    }
    #[inline]
    fn verified(&self, index: usize) -> bool {
        (**self).verified(index)
    }
    #[inline]
    fn stamp(&self, index: usize) -> Option<u64> {
        (**self).stamp(index)
    }
    #[inline]
    fn stray(&mut self, index: usize) -> bool {
        (**self).stray(index)
    }
    #[inline]
    fn stray_from(&mut self, frame: &[u8]) -> bool {
        (**self).stray_from(frame)
    }
    #[inline]
    fn taken(&mut self, index: usize) {
        (**self).taken(index);
    }
    #[inline]
    fn release(&mut self) {
        (**self).release();
    }
}

impl<T: Transmit + ?Sized> Transmit for &mut T {
    #[inline]
    fn room(&self) -> usize {
        (**self).room()
    }
    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        (**self).slot()
    }
    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        (**self).commit(len, offload);
    }
    #[inline]
    fn flush(&mut self, now: Time) {
        (**self).flush(now);
    }
    #[inline]
    fn stamp_next(&mut self) {
        (**self).stamp_next();
    }
    #[inline]
    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        (**self).departed(each);
    }
}
