//! One queue of an interface as a [`Link`].

use crate::error::XdpError;
use crate::facts::{Checksums, Report};
use crate::filter::Filter;
use crate::frames::Rooms;
use crate::host::HostEvent;
use crate::interface::Presence;
use crate::orders::{Inherited, Order, QueueMailbox};
use crate::receive::{self, XdpRx};
use crate::relay::hush;
use crate::ring::{Consumer, Producer};
use crate::shared::Shared;
use crate::socket::{Rings, Socket};
use crate::transmit::{self, XdpTx};
use crate::umem::{Backing, Umem, first_frame};
use ::link::{Capabilities, Counters, Link, LinkState, Reopener, Wanted};
use core::ops::Range;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError, atomic::Ordering};
use wire::{Mac, Time};

/// The interface is looked at this often: it seldom changes, and each look is
/// a few system calls.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// While the interface is gone, another one of its name is tried this often.
const TRY_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Who opens the interface again, where this process may not.
    reopener: Option<Arc<dyn Reopener>>,
    pub(crate) at_work: Option<AtWork>,
    /// The last order that was followed, and how many had been given then.
    order: Order,
    heard: u32,
    /// What wakes it beside the socket: the process that it hands over to, and
    /// the one that it took over from.
    upper_bell: Option<Arc<OwnedFd>>,
    lower_bell: Option<Arc<OwnedFd>>,
    /// What was at work until another process asked for it, and is again if
    /// that does not take it.
    kept: Option<Kept>,
    failure: Option<XdpError>,
    state: LinkState,
    presence: Presence,
    looked: Option<Time>,
    /// When an interface of the same name was last tried.
    tried: Option<Time>,
    disconnects: u64,
    kernel_drops: KernelDrops,
}

#[derive(Debug)]
pub(crate) struct AtWork {
    pub socket: Arc<Socket>,
    pub umem: Arc<Umem>,
    /// The frames of this queue, as the umem counts.
    frames: Range<usize>,
    zero_copy: bool,
}

/// A queue that has stopped.
#[derive(Debug)]
struct Kept {
    receive: receive::Queue,
    transmit: transmit::Queue,
    at_work: AtWork,
}

/// What passed between this process and the one that it took over from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelayCounts {
    /// Frames passed on to it.
    pub passed: u64,
    /// Those for which there was no room.
    pub unpassed: u64,
    /// Frames sent for it.
    pub sent: u64,
    /// For how long nobody received in between, in nanoseconds: the port's
    /// longest, with its first queue.
    pub waited: u64,
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
        let order = shared.orders.seats().get(usize::from(ordinal)).map_or(Order::Serve, |seat| seat.order);
        Self {
            rx: XdpRx::new(shared.facts.checksums),
            tx: XdpTx::new(),
            shared,
            ordinal,
            reopener: None,
            at_work: None,
            order,
            // The first look is at what there is to take.
            heard: u32::MAX,
            upper_bell: None,
            lower_bell: None,
            kept: None,
            failure: None,
            state: LinkState::Down,
            presence: Presence::Up(mtu.into()),
            looked: None,
            tried: None,
            disconnects: 0,
            kernel_drops: KernelDrops::default(),
        }
    }

    /// Takes memory and begins to receive, unless that was done before. The
    /// memory comes from the domain of this thread.
    ///
    /// # Errors
    /// [`XdpError`]: of the queue, mostly [`XdpError::QueueBusy`].
    pub fn start(&mut self) -> Result<(), XdpError> {
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
            (socket, rings) = self.socket(frame, own)?;
            share = u32::from(self.ordinal);
            fill = Self::fill(&rings, first_frame(config.ring, frame, share), frame);
            let with = first.as_ref().map(|(_, socket)| socket.as_fd());
            socket.bind(config, shared.interface.index(), queue, with)?;
            place.get_or_insert_with(|| (Arc::clone(&umem), Arc::clone(&socket)));
        } else {
            umem = Arc::new(Umem::new(config, frame, 1).map_err(no_memory)?);
            (socket, rings) = self.socket(frame, Some(&umem))?;
            share = 0;
            fill = Self::fill(&rings, first_frame(config.ring, frame, share), frame);
            socket.bind(config, shared.interface.index(), queue, None)?;
        }
        if let Some(filter) = &shared.filter {
            filter.set_queue(queue, socket.as_fd())?;
        }
        // SAFETY: the ring is mapped as long as the socket is held; nobody else
        // reads it.
        let receive = unsafe { Consumer::new(rings.receive) };
        let memory = (Arc::clone(&umem), Rooms::new(first_frame(config.ring, frame, share), config.ring, frame));
        let receive = receive::Queue::new(receive, fill, memory, Arc::clone(&socket), config.busy_poll.is_some());
        self.rx.attach(receive.stamped(shared.filter.as_ref().and_then(Filter::mark)));
        self.tx.attach(self.sending(&rings, share, &umem, &socket, None));
        self.set_at_work(share, umem, socket);
        Ok(())
    }

    /// The queue's socket: its own, or the one that another process opened.
    fn socket(&self, frame: u32, umem: Option<&Umem>) -> Result<(Arc<Socket>, Rings), XdpError> {
        let config = &self.shared.config;
        let given = self.shared.given(self.ordinal);
        let made = given.map_or_else(|| Socket::new(config, frame, umem), |fd| Socket::over(fd, config, frame, umem));
        made.map(|(socket, rings)| (Arc::new(socket), rings))
    }

    /// An interface that was deleted is opened again by another process now.
    pub fn set_reopener(&mut self, reopener: Arc<dyn Reopener>) {
        self.reopener = Some(reopener);
    }

    /// The sending half of a queue, of whose frames those of `free` are in no
    /// ring; `None`: all.
    fn sending(
        &self,
        rings: &Rings,
        share: u32,
        umem: &Arc<Umem>,
        socket: &Arc<Socket>,
        free: Option<&[u32]>,
    ) -> transmit::Queue {
        let (ring, frame) = (self.shared.config.ring, self.shared.facts.frame);
        // SAFETY: the rings are mapped as long as the socket is held, which
        // whoever gets them does; nobody else has this side of either.
        let (transmit, completion) = unsafe { (Producer::new(rings.transmit), Consumer::new(rings.completion)) };
        let first = first_frame(ring, frame, share) + u64::from(ring) * u64::from(frame);
        let (memory, rooms) = ((Arc::clone(umem), frame), (first, ring));
        let free = (free, self.shared.config.stamps.departures);
        transmit::Queue::new(transmit, completion, memory, rooms, free, Arc::clone(socket))
    }

    fn set_at_work(&mut self, share: u32, umem: Arc<Umem>, socket: Arc<Socket>) {
        let (ring, frame) = (self.shared.config.ring, self.shared.facts.frame);
        let first = first_frame(ring, frame, share) as usize;
        let zero_copy = socket.is_zero_copy();
        let frames = first..first + 2 * (ring * frame) as usize;
        self.at_work = Some(AtWork { socket, umem, frames, zero_copy });
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

    /// Whether the interface was deleted, and there is none of its name yet
    /// that was taken up.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.presence == Presence::Gone
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

    /// What passed between this process and its predecessor.
    #[must_use]
    pub fn relay_counts(&self) -> RelayCounts {
        let waited = if self.ordinal == 0 { self.shared.orders.waited.load(Ordering::Relaxed) } else { 0 };
        RelayCounts { passed: self.rx.passed, unpassed: self.rx.unpassed, sent: self.tx.relayed, waited }
    }

    /// Follows what the main thread wants of the queue, between two turns.
    #[cold]
    fn follow(&mut self, now: Time) {
        let shared = Arc::clone(&self.shared);
        let changes = shared.orders.changes.load(Ordering::Acquire);
        let mut seats = shared.orders.seats();
        let Some(seat) = seats.get_mut(usize::from(self.ordinal)) else { return };
        if seat.alone && self.lower_bell.take().is_some() {
            self.rx.set_lower(None);
            self.tx.set_lower(None);
        }
        if seat.done == seat.order && self.order == seat.order && self.order != Order::Await {
            self.heard = changes;
            return;
        }
        let followed = match seat.order {
            Order::Await => self.on_await(seat),
            Order::Take => self.on_take(seat),
            Order::Offer => self.on_offer(seat),
            Order::Freeze => self.on_freeze(seat, now),
            Order::Serve => self.on_resume(),
            Order::Leave => {
                self.kept = None;
                true
            }
        };
        // Else it is tried again.
        if followed {
            self.heard = changes;
            self.order = seat.order;
            seat.done = seat.order;
            shared.orders.followed.notify_all();
        }
    }

    /// Another process's queue is to be ours: what it passes on is known from
    /// now.
    fn on_await(&mut self, seat: &mut QueueMailbox) -> bool {
        if let Some(ends) = seat.ends.take() {
            self.rx.set_lower(Some(ends.sender));
            self.tx.set_lower(Some(ends.receiver));
            self.lower_bell = Some(ends.bell);
        }
        true
    }

    /// It is: the rings are read on from where they are.
    fn on_take(&mut self, seat: &mut QueueMailbox) -> bool {
        self.on_await(seat);
        let Some(Inherited { socket, rings, umem, account }) = seat.inherited.take() else { return true };
        let config = &self.shared.config;
        let share = if config.shared_umem { u32::from(self.ordinal) } else { 0 };
        if config.shared_umem {
            let mut place = self.shared.umem.lock().unwrap_or_else(PoisonError::into_inner);
            place.get_or_insert_with(|| (Arc::clone(&umem), Arc::clone(&socket)));
        }
        // SAFETY: the rings are mapped as long as the socket is held; the
        // process that had this side of them has stopped for good.
        let (receive, fill) = unsafe { (Consumer::new(rings.receive), Producer::new(rings.fill)) };
        let frame = self.shared.facts.frame;
        let memory = (Arc::clone(&umem), Rooms::new(first_frame(config.ring, frame, share), config.ring, frame));
        let queue = receive::Queue::new(receive, fill, memory, Arc::clone(&socket), config.busy_poll.is_some());
        self.rx.take_over(queue, Arc::clone(&seat.began));
        let free = account.map(|account| account.free).unwrap_or_default();
        self.tx.attach(self.sending(&rings, share, &umem, &socket, Some(&free)));
        seat.has = Some((Arc::clone(&socket), Arc::clone(&umem)));
        self.set_at_work(share, umem, socket);
        true
    }

    /// Somebody may take over: from now on it can be woken for that.
    fn on_offer(&mut self, seat: &mut QueueMailbox) -> bool {
        let (Some(at_work), Some(ends)) = (&self.at_work, &seat.ends) else { return false };
        seat.has = Some((Arc::clone(&at_work.socket), Arc::clone(&at_work.umem)));
        self.upper_bell = Some(Arc::clone(&ends.bell));
        true
    }

    /// Stops: all that was sent is shown to the kernel, all that was received
    /// is given back, and what is in no ring goes into the account.
    fn on_freeze(&mut self, seat: &mut QueueMailbox, now: Time) -> bool {
        if self.at_work.is_none() || !self.rx.can_stop() {
            return false;
        }
        let Some(ends) = seat.ends.take() else { return false };
        let Some(receive) = self.rx.hand_over(ends.receiver) else { return false };
        let Some(transmit) = self.tx.hand_over(ends.sender, now) else { return false };
        let Some(at_work) = self.at_work.take() else { return false };
        ends.relay.write_account(now.as_nanos(), transmit.free());
        self.kept = Some(Kept { receive, transmit, at_work });
        true
    }

    /// Nobody took over.
    fn on_resume(&mut self) -> bool {
        self.upper_bell = None;
        if let Some(Kept { receive, transmit, at_work }) = self.kept.take() {
            self.rx.resume(receive);
            self.tx.resume(transmit);
            self.at_work = Some(at_work);
        }
        true
    }

    fn bells(&self) -> impl Iterator<Item = &Arc<OwnedFd>> {
        self.upper_bell.iter().chain(&self.lower_bell)
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
            let _ = match (view.poll(), &self.shared.filter) {
                (Some(HostEvent::Address(address)), Some(filter)) => filter.add(address.ip),
                (Some(HostEvent::AddressGone(ip)), Some(filter)) => filter.remove(ip),
                (Some(_), _) => Ok(()),
                (None, _) => return,
            };
        }
    }

    /// The interface is gone: the queue is one of another interface of its
    /// name once there is one, which the first queue opens for all.
    #[cold]
    fn renew(&mut self, now: Time) {
        if self.order != Order::Serve {
            // It changes hands.
            return;
        }
        let due = self.tried.is_none_or(|tried| now.since(tried) >= TRY_INTERVAL);
        if self.ordinal == 0 && (due || self.reopener.is_some()) && self.shared.renewed.get().is_none() {
            self.tried = if due { Some(now) } else { self.tried };
            // What is wrong may be that somebody is just setting it up.
            if let Some(port) = self.open_again(due) {
                let _ = self.shared.renewed.set(port);
            }
        }
        let Some(port) = self.shared.renewed.get().cloned() else { return };
        self.rx.detach();
        self.tx.detach();
        (self.at_work, self.kept) = (None, None);
        *self.shared.umem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.presence = Presence::Up(port.facts.mtu.into());
        (self.shared, self.heard) = (port, u32::MAX);
    }

    /// Another process is asked when that is `due`, and rings when it has answered.
    fn open_again(&self, due: bool) -> Option<Arc<Shared>> {
        let Some(reopener) = &self.reopener else { return self.shared.open_again().ok() };
        if let Some(given) = reopener.take(self.ordinal) {
            return self.shared.take_given(given);
        }
        if due && self.shared.is_replaced() {
            reopener.ask(self.ordinal, Wanted { mtu: self.shared.facts.mtu, mac: self.shared.answers.0 });
        }
        None
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

fn no_memory(source: Errno) -> XdpError {
    XdpError::System { what: "get memory for frames", source }
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
            receive_checksum: self.shared.facts.checksums != Checksums::Verified,
            transmit_checksum: false,
            segmentation: None,
            queues: self.shared.facts.queues,
            shared_frames: false,
        }
    }

    #[inline]
    fn split(&mut self) -> (&mut XdpRx, &mut XdpTx) {
        (&mut self.rx, &mut self.tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        if self.shared.orders.changes.load(Ordering::Relaxed) != self.heard {
            self.follow(now);
        }
        if self.order == Order::Await {
            return LinkState::Down;
        }
        if self.at_work.is_none() && self.order == Order::Serve {
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
            if self.presence == Presence::Gone {
                self.renew(now);
            }
        } else if self.presence == Presence::Gone && self.reopener.is_some() {
            self.renew(now);
        }
        self.state
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(io::Error::other(failure));
        }
        if self.rx.has_frames() || self.rx.lie_down() || self.tx.lie_down() {
            return Ok(());
        }
        let timeout = if self.tx.unsent() { timeout.min(UNSENT_NAP) } else { timeout };
        let timeout = Timespec::try_from(timeout).ok();
        let socket = self.at_work.as_ref().map(|at_work| at_work.socket.as_fd());
        // A socket without its interface has nothing more to say.
        let socket = socket.filter(|_| self.presence != Presence::Gone);
        let mut fds = Vec::with_capacity(4);
        let bells = self.bells().map(|bell| bell.as_fd());
        for fd in bells.chain(socket).chain(wake) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        // Whoever rang has done before what is to be seen now.
        self.bells().for_each(|bell| hush(bell));
        Ok(())
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        if self.failure.is_some() || self.rx.has_frames() || self.rx.lie_down() || self.tx.lie_down() {
            return Duration::ZERO;
        }
        self.upper_bell.iter().chain(&self.lower_bell).for_each(|bell| each(bell.as_fd()));
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
