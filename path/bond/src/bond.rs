//! A silo's share of an aggregation, as one link.

use crate::aggregator::{Aggregator, MAX_PORTS};
use crate::flow;
use core::fmt;
use core::hint::cold_path;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::ethernet::HEADER_LEN;
use wire::lacp::ETHER_SLOW;
use wire::{Offload, Time};

/// Links of one silo's bond: a queue of each port, or several where a silo
/// looks after several.
pub const MAX_MEMBERS: usize = 16;
const _: () = assert!(MAX_MEMBERS >= MAX_PORTS, "a silo can have a queue of every port");
const _: () = assert!(MAX_MEMBERS < NONE as usize && MAX_MEMBERS <= u32::BITS as usize);

/// Flows are spread over this many buckets, each of which has a port: so many
/// times finer than ports that shares differ by little.
const BUCKETS: usize = 256;
const _: () = assert!(BUCKETS.is_power_of_two() && BUCKETS >= 16 * MAX_PORTS);

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// Slots that are free where frames are dropped: a burst of answers.
const DROPPED_ROOM: usize = 64;

/// No member: beyond every index.
const NONE: u8 = u8::MAX;

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

/// What was done with frames beyond what a single link does with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BondCounters {
    /// Frames sent that were built in another member's slot.
    pub copied: u64,
    /// Frames sent through another member because their own was full.
    pub lent: u64,
    /// Frames dropped because no member took part: as at a link that is down,
    /// where they would otherwise be built anew each turn.
    pub no_member: u64,
    /// Times that the members which this silo sends through changed.
    pub changes: u64,
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

/// Halves of the members' links, by index. One alone has no array round it,
/// which would cost a turn more than all else that a bond does.
enum Halves<T> {
    One(T),
    Several([Option<T>; MAX_MEMBERS], usize),
}

impl<T> Halves<T> {
    #[inline]
    fn get(&self, index: usize) -> Option<&T> {
        match self {
            Self::One(only) => (index == 0).then_some(only),
            Self::Several(all, _) => all.get(index)?.as_ref(),
        }
    }

    #[inline]
    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match self {
            Self::One(only) => (index == 0).then_some(only),
            Self::Several(all, _) => all.get_mut(index)?.as_mut(),
        }
    }

    /// Those of several members; none of one alone.
    #[inline]
    fn several(&self) -> &[Option<T>] {
        match self {
            Self::One(_) => &[],
            Self::Several(all, count) => &all[..*count],
        }
    }

    #[inline]
    fn several_mut(&mut self) -> &mut [Option<T>] {
        match self {
            Self::One(_) => &mut [],
            Self::Several(all, count) => &mut all[..*count],
        }
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

/// The receive half of a [`Bond`].
pub struct BondRx<'a, L: Link + 'a> {
    members: Halves<L::Rx<'a>>,
    state: &'a mut RxState,
}

/// What receiving remembers.
#[derive(Debug)]
struct RxState {
    /// Where the control protocol is spoken.
    aggregator: Option<Arc<Aggregator>>,
    /// Each member's port.
    ports: Box<[u8]>,
    /// The member whose burst is at hand.
    current: usize,
    /// The member to be asked first.
    next: usize,
}

impl RxState {
    /// Returns how many frames of a member's burst are the silo's: all, those
    /// of slow protocols among them, which a stack passes over as it does all
    /// frames that are not for it; or none where the port does not collect.
    fn admit(&self, rx: &impl Receive, member: usize, frames: usize, now: Time) -> usize {
        let Some(aggregator) = &self.aggregator else { return frames };
        let port = usize::from(self.ports[member]);
        let slow = tell(aggregator, port, rx, frames, now);
        if aggregator.collecting() >> port & 1 == 0 {
            cold_path();
            aggregator.on_dropped(port, frames - slow);
            return 0;
        }
        frames
    }
}

/// Tells the aggregation what it must hear of a port's burst, and returns how
/// many frames that were.
fn tell(aggregator: &Aggregator, port: usize, rx: &impl Receive, frames: usize, now: Time) -> usize {
    let mut slow = 0;
    for index in 0..frames {
        if let Some((head, payload)) = rx.frame(index).split_at_checked(HEADER_LEN)
            && head[12..] == ETHER_SLOW.to_be_bytes()
        {
            cold_path();
            aggregator.on_slow(port, payload, now);
            slow += 1;
        }
    }
    slow
}

impl<'a, L: Link + 'a> BondRx<'a, L> {
    #[inline]
    fn current(&self) -> &L::Rx<'a> {
        match &self.members {
            Halves::One(only) => only,
            several => several.get(self.state.current).expect("a burst is a member's"),
        }
    }

    /// As `receive`, with several members: the burst of the first that has
    /// one, from the one after the last on, so that none waits for ever.
    fn receive_from_several(&mut self, now: Time, max: usize) -> usize {
        let members = self.members.several_mut();
        for _ in 0..members.len() {
            let at = if self.state.next < members.len() { self.state.next } else { 0 };
            self.state.next = at + 1;
            self.state.current = at;
            let Some(member) = &mut members[at] else { continue };
            let frames = member.receive(now, max);
            let frames = if frames > 0 { self.state.admit(member, at, frames, now) } else { 0 };
            if frames > 0 {
                return frames;
            }
            member.release();
        }
        0
    }
}

impl<'a, L: Link + 'a> Receive for BondRx<'a, L> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let Halves::One(only) = &mut self.members else { return self.receive_from_several(now, max) };
        let frames = only.receive(now, max);
        if self.state.aggregator.is_some() && frames > 0 {
            return self.state.admit(only, 0, frames, now);
        }
        frames
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        self.current().frame(index)
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.current().verified(index)
    }

    fn stray(&mut self, index: usize) -> bool {
        self.members.get_mut(self.state.current).is_some_and(|member| member.stray(index))
    }

    fn stray_from(&mut self, frame: &[u8]) -> bool {
        match &mut self.members {
            Halves::One(only) => only.stray_from(frame),
            // Any of them reaches whoever may own it.
            several => several.several_mut().iter_mut().flatten().any(|member| member.stray_from(frame)),
        }
    }

    #[inline]
    fn release(&mut self) {
        if let Some(member) = self.members.get_mut(self.state.current) {
            member.release();
        }
    }
}

/// The transmit half of a [`Bond`].
pub struct BondTx<'a, L: Link + 'a> {
    members: Halves<L::Tx<'a>>,
    state: &'a mut TxState,
}

/// What sending remembers.
#[derive(Debug)]
struct TxState {
    aggregator: Arc<Aggregator>,
    /// Each member's port.
    ports: Box<[u8]>,
    /// Members whose link is up, by index.
    up: u32,
    /// `up` has changed since the table was made.
    stale: bool,
    /// The ports that distributed when the table was made.
    distributing: u32,
    /// Members to send through, by index.
    active: u32,
    /// There are several of them.
    spread: bool,
    /// The member whose slot is, or will be, handed out.
    choice: u8,
    /// A slot was handed out, and not yet committed.
    offered: bool,
    /// Where a frame is built that nobody sends; taken when it is needed.
    scratch: Vec<u8>,
    /// Bytes of a slot.
    slot: usize,
    /// The member of each bucket of flows.
    table: Box<[u8; BUCKETS]>,
    counters: BondCounters,
}

impl TxState {
    fn new(aggregator: Arc<Aggregator>, ports: Box<[u8]>, slot: usize) -> Self {
        Self {
            aggregator,
            ports,
            scratch: Vec::new(),
            slot,
            up: 0,
            stale: true,
            distributing: 0,
            active: 0,
            spread: false,
            choice: NONE,
            offered: false,
            table: Box::new([NONE; BUCKETS]),
            counters: BondCounters::default(),
        }
    }

    /// Makes the table anew if what it was made of has changed.
    #[inline]
    fn follow(&mut self) {
        let distributing = self.aggregator.distributing();
        if self.stale || distributing != self.distributing {
            self.make_table(distributing);
        }
    }

    /// Gives each bucket its port's member if that takes part, and otherwise
    /// one of those that do: so the failure of a port moves its own flows and
    /// no others, and its return brings them back.
    #[cold]
    fn make_table(&mut self, distributing: u32) {
        let before = self.active;
        let mut egress = [NONE; MAX_PORTS];
        for (index, &port) in self.ports.iter().enumerate() {
            let entry = &mut egress[usize::from(port)];
            if *entry == NONE && self.up >> index & 1 != 0 && distributing >> port & 1 != 0 {
                *entry = index as u8;
            }
        }
        // Every silo with a queue of the same ports decides alike: by port,
        // not by member. Lists, and not arrays, which the compiler unrolls
        // for minutes; a port changes its state seldom enough.
        let own: Vec<u8> = (0..MAX_PORTS as u8).filter(|port| self.ports.contains(port)).collect();
        let active: Vec<u8> = egress.iter().copied().filter(|member| *member != NONE).collect();
        let (owned, count) = (own.len(), active.len());
        for (bucket, entry) in self.table.iter_mut().enumerate() {
            *entry = match (owned, count) {
                (0, _) | (_, 0) => NONE,
                _ => match egress[usize::from(own[bucket % owned])] {
                    NONE => active[bucket / owned % count],
                    member => member,
                },
            };
        }
        self.active = active.iter().fold(0, |set, member| set | 1 << member);
        self.spread = count > 1;
        self.choice = active.first().copied().unwrap_or(NONE);
        self.offered = false;
        self.distributing = distributing;
        self.stale = false;
        self.counters.changes += u64::from(self.active != before);
    }
}

impl<'a, L: Link + 'a> BondTx<'a, L> {
    #[inline]
    fn chosen(&mut self) -> Option<&mut L::Tx<'a>> {
        self.members.get_mut(usize::from(self.state.choice))
    }

    /// Moves the choice to another member, if the one at hand has no slot.
    fn choose(&mut self) {
        let has_slot = |tx: &mut L::Tx<'a>| tx.slot().is_some();
        self.state.offered = self.chosen().is_some_and(has_slot);
        if self.state.offered {
            return;
        }
        let active = self.state.active;
        let members = self.members.several_mut().iter_mut();
        let mut others = members.enumerate().filter(|(index, _)| active >> index & 1 != 0);
        if let Some((index, _)) = others.find_map(|(index, tx)| Some((index, tx.as_mut().filter(|tx| tx.room() > 0)?)))
        {
            self.state.choice = index as u8;
            self.state.offered = self.chosen().is_some_and(has_slot);
        }
    }

    /// Commits through the member that the frame's flow belongs to; through
    /// the one in whose slot it is, where that has no room. Its frames may
    /// overtake each other then: better than a loss, which the peer's TCP
    /// must wait for, and congestion control answers.
    fn commit_spread(&mut self, len: usize, offload: Offload) {
        if !core::mem::take(&mut self.state.offered) {
            return;
        }
        let Self { members, state } = self;
        let members = members.several_mut();
        let from = usize::from(state.choice);
        let Some(Some(built_in)) = members.get_mut(from) else { return };
        let Some(frame) = built_in.slot().and_then(|slot| slot.get(..len)) else { return };
        let bucket = flow::hash(frame) as usize % BUCKETS;
        let to = usize::from(state.table[bucket]);
        if to == from {
            built_in.commit(len, offload);
            return;
        }
        if let Ok([Some(built_in), Some(wanted)]) = members.get_disjoint_mut([from, to]) {
            let frame = built_in.slot().and_then(|slot| slot.get(..len));
            let slot = wanted.slot().and_then(|slot| slot.get_mut(..len));
            if let (Some(frame), Some(slot)) = (frame, slot) {
                slot.copy_from_slice(frame);
                wanted.commit(len, offload);
                state.counters.copied += 1;
                state.choice = to as u8;
                return;
            }
        }
        state.counters.lent += 1;
        if let Some(Some(built_in)) = members.get_mut(from) {
            built_in.commit(len, offload);
        }
    }
}

impl<'a, L: Link + 'a> Transmit for BondTx<'a, L> {
    #[inline]
    fn room(&self) -> usize {
        if !self.state.spread {
            let only = self.members.get(usize::from(self.state.choice));
            return only.map_or(DROPPED_ROOM, Transmit::room);
        }
        let members = self.members.several().iter().enumerate();
        let active = members.filter(|(index, _)| self.state.active >> index & 1 != 0);
        active.filter_map(|(_, tx)| tx.as_ref()).map(Transmit::room).sum()
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.state.spread {
            self.choose();
        }
        match self.members.get_mut(usize::from(self.state.choice)) {
            Some(tx) => tx.slot(),
            None => {
                cold_path();
                self.state.scratch.resize(self.state.slot, 0);
                Some(&mut self.state.scratch)
            }
        }
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        if self.state.spread {
            self.commit_spread(len, offload);
        } else if let Some(tx) = self.chosen() {
            tx.commit(len, offload);
        } else {
            cold_path();
            self.state.counters.no_member += 1;
        }
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        match &mut self.members {
            Halves::One(only) => only.flush(now),
            several => several.several_mut().iter_mut().flatten().for_each(|tx| tx.flush(now)),
        }
        self.state.follow();
    }
}

#[cfg(test)]
mod tests;
