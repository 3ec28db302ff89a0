//! A silo's share of an aggregation, as one link.

use crate::aggregator::Aggregator;
use crate::halves::{Halves, MAX_MEMBERS};
use crate::receive::{BondRx, RxState, tell};
use crate::transmit::{BondCounters, BondTx, TxState};
use core::fmt;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::{Offload, Time};

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// Frames taken at once from a port that does not collect.
const LISTEN_BURST: usize = 32;

/// A queue of a port, to be part of a bond.
#[derive(Debug)]
pub struct Member<L> {
    /// The port, by its place in the aggregation's [`crate::Config::ports`].
    pub port: u16,
    /// One of its queues. Of several queues of a port all are received from,
    /// and the first that is up is sent through.
    pub link: L,
}

/// Why a bond cannot be made: the caller is to blame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BondError {
    /// No member: see [`Bond::without_members`].
    NoMember,
    /// More than [`MAX_MEMBERS`].
    TooManyMembers,
    /// A member's port is not one of the aggregation's.
    NoSuchPort,
}

impl fmt::Display for BondError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember => f.write_str("a bond without a member does not know what it can do"),
            Self::TooManyMembers => write!(f, "one silo can look after at most {MAX_MEMBERS} queues"),
            Self::NoSuchPort => f.write_str("a queue of a port that is not part of the aggregation"),
        }
    }
}

impl core::error::Error for BondError {}

/// Several links as one.
///
/// Frames are received from all members in turn, one member's burst in each
/// [`Receive::receive`], and read where they are. A frame to be sent leaves
/// through the member that its flow's hash says; a flow keeps its member as
/// long as that takes part, and comes back to it when it does so again. As
/// frames are built before their flow is known, a slot is that of the last
/// flow's member, and a frame of another one's is copied (counted). A full
/// member lends its frames to the others rather than to drop them.
///
/// Nothing is known of the members before the first [`Link::poll_control`].
/// With one member of a static aggregation all that is added to it is a
/// handful of instructions for each call.
#[derive(Debug)]
pub struct Bond<L> {
    members: Vec<Member<L>>,
    aggregator: Arc<Aggregator>,
    capabilities: Capabilities,
    rx: RxState,
    tx: TxState,
    /// The latest time told.
    now: Time,
    /// Frames could be sent at least once.
    carried: bool,
}

impl<L: Link> Bond<L> {
    /// A bond of these members. What it can do is what all of them can.
    ///
    /// # Errors
    /// See [`BondError`].
    pub fn new(members: Vec<Member<L>>, aggregator: Arc<Aggregator>) -> Result<Self, BondError> {
        let all = members.iter().map(|member| member.link.capabilities());
        let capabilities = all.reduce(common).ok_or(BondError::NoMember)?;
        if members.len() > MAX_MEMBERS {
            return Err(BondError::TooManyMembers);
        }
        let ports = aggregator.config().ports.len();
        if members.iter().any(|member| usize::from(member.port) >= ports) {
            return Err(BondError::NoSuchPort);
        }
        Ok(Self::with(members, aggregator, capabilities))
    }

    /// The bond of a silo that has no queue: it receives nothing, has no room
    /// and is always down.
    #[must_use]
    pub fn without_members(aggregator: Arc<Aggregator>, capabilities: Capabilities) -> Self {
        Self::with(Vec::new(), aggregator, capabilities)
    }

    fn with(members: Vec<Member<L>>, aggregator: Arc<Aggregator>, capabilities: Capabilities) -> Self {
        let slot = capabilities.segmentation.unwrap_or(0).max(capabilities.mtu.into()) as usize + HEADER_ROOM;
        let ports: Box<[u8]> = members.iter().map(|member| member.port as u8).collect();
        Self {
            rx: RxState {
                aggregator: aggregator.speaks_lacp().then(|| Arc::clone(&aggregator)),
                ports: ports.clone(),
                current: 0,
                next: 0,
            },
            tx: TxState::new(Arc::clone(&aggregator), ports, slot),
            members,
            aggregator,
            capabilities,
            now: Time::ZERO,
            carried: false,
        }
    }

    /// Frames may come before any can be sent. A silo that waits for its link
    /// before its first turn is told to begin then, as it would not hear that
    /// the partner takes frames, too.
    fn begins(&self) -> bool {
        let collecting = self.aggregator.collecting();
        let enough = collecting.count_ones() as usize >= self.aggregator.config().min_links;
        !self.carried && self.aggregator.speaks_lacp() && enough && collecting & self.ports_up() != 0
    }

    /// Hears what is said on ports that do not collect. A silo whose link is
    /// down may take no turn, and it is down until the partner was heard.
    fn listen(&mut self, now: Time) {
        for member in &mut self.members {
            let port = usize::from(member.port);
            if self.aggregator.collecting() >> port & 1 != 0 {
                continue;
            }
            let (mut rx, _) = member.link.split();
            let frames = rx.receive(now, LISTEN_BURST);
            let slow = tell(&self.aggregator, port, &rx, frames, now);
            rx.release();
            self.aggregator.on_dropped(port, frames - slow);
        }
    }

    /// Sends what the aggregation has to say through the ports that are this
    /// silo's.
    fn speak(&mut self, now: Time) {
        for (index, member) in self.members.iter_mut().enumerate() {
            let port = usize::from(member.port);
            while self.tx.up >> index & 1 != 0 && self.aggregator.speaking() >> port & 1 != 0 {
                let (_, mut tx) = member.link.split();
                let Some(slot) = tx.slot() else { break };
                let Some(len) = self.aggregator.poll_frame(port, now, slot) else { break };
                tx.commit(len, Offload::NONE);
                tx.flush(now);
            }
        }
    }

    /// Ports of which this silo has a queue that is up: bit n is port n.
    fn ports_up(&self) -> u32 {
        let up = |(index, member): (usize, &Member<L>)| (self.tx.up >> index & 1) << member.port;
        self.members.iter().enumerate().map(up).fold(0, |set, port| set | port)
    }

    /// The aggregation that it belongs to.
    #[must_use]
    pub fn aggregator(&self) -> &Arc<Aggregator> {
        &self.aggregator
    }

    /// Its members, in the order of [`Bond::new`].
    pub fn members(&self) -> impl Iterator<Item = &Member<L>> {
        self.members.iter()
    }

    /// Calls `f` with member `index`'s link, if there is one.
    pub fn with_member<R>(&mut self, index: usize, f: impl FnOnce(&mut L) -> R) -> Option<R> {
        self.members.get_mut(index).map(|member| f(&mut member.link))
    }

    /// What was done with frames beyond what a single link does.
    #[must_use]
    pub fn bond_counters(&self) -> BondCounters {
        self.tx.counters
    }
}

/// What two links can both do, as members of one bond.
#[must_use]
pub fn common(a: Capabilities, b: Capabilities) -> Capabilities {
    Capabilities {
        mtu: a.mtu.min(b.mtu),
        receive_checksum: a.receive_checksum || b.receive_checksum,
        transmit_checksum: a.transmit_checksum && b.transmit_checksum,
        segmentation: a.segmentation.zip(b.segmentation).map(|(a, b)| a.min(b)),
        queues: a.queues.saturating_add(b.queues),
        shared_frames: a.shared_frames || b.shared_frames,
    }
}

impl<L: Link> Link for Bond<L> {
    type Rx<'a>
        = BondRx<'a, L>
    where
        Self: 'a;
    type Tx<'a>
        = BondTx<'a, L>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn split(&mut self) -> (BondRx<'_, L>, BondTx<'_, L>) {
        // Each half is made where it is to be: a move of it costs as much as
        // all else of a turn with one member.
        match &mut self.members[..] {
            [only] => {
                let (rx, tx) = only.link.split();
                (
                    BondRx { members: Halves::One(rx), state: &mut self.rx },
                    BondTx { members: Halves::One(tx), state: &mut self.tx },
                )
            }
            several => split_several(several, &mut self.rx, &mut self.tx),
        }
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        for (index, member) in self.members.iter_mut().enumerate() {
            let up = member.link.poll_control(now) == LinkState::Up;
            if up != (self.tx.up >> index & 1 != 0) {
                self.tx.up ^= 1 << index;
                self.tx.stale = true;
                self.aggregator.on_queue(usize::from(member.port), up, now);
            }
        }
        self.now = now;
        if self.aggregator.speaks_lacp() {
            self.aggregator.poll(now);
            self.listen(now);
            self.speak(now);
        }
        self.tx.follow();
        self.carried |= self.tx.active != 0;
        if self.tx.active != 0 || self.begins() { LinkState::Up } else { LinkState::Down }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        if self.aggregator.speaking() & self.ports_up() != 0 {
            return Ok(());
        }
        // From when the time was last told: a little too long, by what this
        // turn has taken.
        let timeout = timeout.min(self.aggregator.due().since(self.now));
        match &mut self.members[..] {
            [] => sleep(wake, timeout),
            [only] => only.link.wait(wake, timeout),
            several => sleep_on(several, wake, timeout),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        if self.aggregator.speaking() & self.ports_up() != 0 {
            return Duration::ZERO;
        }
        let due = self.aggregator.due().since(self.now);
        self.members.iter_mut().map(|member| member.link.arm(each)).fold(due, Duration::min)
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters { tx_dropped: self.tx.counters.no_member, ..Counters::default() };
        for member in &self.members {
            let one = member.link.counters();
            sum.rx_frames += one.rx_frames;
            sum.rx_bytes += one.rx_bytes;
            sum.tx_frames += one.tx_frames;
            sum.tx_bytes += one.tx_bytes;
            sum.rx_dropped += one.rx_dropped;
            sum.tx_dropped += one.tx_dropped;
            sum.tx_full += one.tx_full;
            sum.disconnects += one.disconnects;
        }
        sum
    }

    fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        for member in &self.members {
            member.link.memory(each);
        }
    }
}

impl<L> Drop for Bond<L> {
    /// A queue that is not looked after is not up.
    fn drop(&mut self) {
        for (index, member) in self.members.iter().enumerate() {
            if self.tx.up >> index & 1 != 0 {
                self.aggregator.on_queue(usize::from(member.port), false, self.now);
            }
        }
    }
}

/// Sleeps with nothing to wait for but `wake`.
fn sleep(wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
    let mut fds = wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN));
    poll(fds.as_mut_slice(), timeout)
}

/// Sleeps until one of the members has frames.
fn sleep_on<L: Link>(members: &mut [Member<L>], wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
    let mut fds: Vec<_> = wake.iter().map(|wake| PollFd::from_borrowed_fd(*wake, PollFlags::IN)).collect();
    let mut patience = timeout;
    for member in members.iter_mut() {
        let watch = &mut |fd| fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        patience = patience.min(member.link.arm(watch));
    }
    if !patience.is_zero() {
        poll(&mut fds, patience)?;
    }
    members.iter_mut().try_for_each(|member| member.link.wait(None, Duration::ZERO))
}

fn poll(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    match rustix::event::poll(fds, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Both halves of each of several members, or of none.
#[inline(never)]
fn split_several<'a, L: Link>(
    members: &'a mut [Member<L>],
    rx_state: &'a mut RxState,
    tx_state: &'a mut TxState,
) -> (BondRx<'a, L>, BondTx<'a, L>) {
    let mut rx = [const { None }; MAX_MEMBERS];
    let mut tx = [const { None }; MAX_MEMBERS];
    let count = members.len().min(MAX_MEMBERS);
    for (member, (rx, tx)) in members.iter_mut().zip(rx.iter_mut().zip(&mut tx)) {
        let halves = member.link.split();
        (*rx, *tx) = (Some(halves.0), Some(halves.1));
    }
    (
        BondRx { members: Halves::Several(rx, count), state: rx_state },
        BondTx { members: Halves::Several(tx, count), state: tx_state },
    )
}

#[cfg(test)]
mod tests;
