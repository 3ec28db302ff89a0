//! One process takes a port over from another: its sockets, their memory and
//! the program's attachment, as they are.
//!
//! ```text
//!  old process                                  new process
//!  Handle::offer ── terms, descriptors ───────► AfXdp::adopt     maps all, touches nothing
//!  Handle::freeze   each queue stops between two turns, and writes its account
//!                ── frozen ───────────────────► Handle::check    no frame lost, none twice
//!                ◄───────────────────── taken ─ Handle::take     each queue goes on
//!  Handle::leave    forgets the queues          Handle::attach_own   its own program
//!     … what the old one's connections say and hear passes by the relay …
//!                                               Handle::on_predecessor_gone
//! ```
//!
//! Until `taken` the old process keeps everything, and [`Handle::resume`] has
//! it go on as if nobody had asked. How the two talk is the callers' affair.
//!
//! Rings and frames stay where they are: positions stand in the rings, which
//! the kernel lets two processes map since Linux 6.4. What stands nowhere is
//! which frames to send are in none of the rings; that is the account.

use crate::config::Config;
use crate::error::OpenError;
use crate::port::{Facts, Shared};
use crate::relay::{Account, Receiver, Relay, Sender, Way, ring};
use crate::socket::{Rings, Socket};
use crate::umem::Umem;
use core::error::Error;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use driver::{Claim, Handover, Offer, QUEUE_DESCRIPTORS};
use ebpf::{XdpAttachment, XdpMode};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wire::Mac;

/// How often a queue's first burst is looked for.
const LOOK: Duration = Duration::from_micros(200);

/// What both processes must agree on, as one line of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The link, with its number of queues.
    pub config: Config,
    /// The interface's number.
    pub interface: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its MTU when the link was opened.
    pub mtu: u16,
    /// Bytes of a frame's room.
    pub frame: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// What is taken from the interface.
    pub claim: Claim,
}

/// The version of [`Terms`], of the account and of the relay.
const VERSION: &str = "af_xdp-1";

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        write!(f, "{VERSION} {} {} {} {} {} {mode} ", self.config, self.interface, self.mac, self.mtu, self.frame)?;
        match sorted(&self.claim) {
            Claim::Host { ports } => write!(f, "ports={}", list(&ports)),
            Claim::Own { addresses, aggregated: false } => write!(f, "addresses={}", list(&addresses)),
            Claim::Own { addresses, aggregated: true } => write!(f, "aggregated={}", list(&addresses)),
            Claim::Whole => f.write_str("whole="),
        }
    }
}

impl FromStr for Terms {
    type Err = HandoverError;

    fn from_str(text: &str) -> Result<Self, HandoverError> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [VERSION, config, interface, mac, mtu, frame, mode, claim] = parts[..] else {
            return Err(HandoverError::Terms);
        };
        fn read<T: FromStr>(text: &str) -> Result<T, HandoverError> {
            text.parse().map_err(|_| HandoverError::Terms)
        }
        fn each<T: FromStr>(text: &str) -> Result<Vec<T>, HandoverError> {
            text.split(',').filter(|part| !part.is_empty()).map(read).collect()
        }
        let config: Config = read(config)?;
        let frame = read(frame)?;
        if config.queues.is_none() || !crate::config::FRAME_SIZES.contains(&frame) {
            return Err(HandoverError::Terms);
        }
        let claim = match claim.split_once('=') {
            Some(("ports", ports)) => Claim::Host { ports: each(ports)? },
            Some((key @ ("addresses" | "aggregated"), addresses)) => {
                Claim::Own { addresses: each::<IpAddr>(addresses)?, aggregated: key == "aggregated" }
            }
            Some(("whole", "")) => Claim::Whole,
            _ => return Err(HandoverError::Terms),
        };
        let mode = match mode {
            "native" => XdpMode::Native,
            "generic" => XdpMode::Generic,
            _ => return Err(HandoverError::Terms),
        };
        let (interface, mac, mtu) = (read(interface)?, read(mac)?, read(mtu)?);
        Ok(Self { config, interface, mac, mtu, frame, mode, claim })
    }
}

impl Terms {
    pub(crate) fn of(config: &Config, interface: u32, facts: &Facts, claim: &Claim) -> Self {
        let config = Config { queues: Some(facts.queues), ..config.clone() };
        let Facts { mac, mtu, frame, mode, .. } = *facts;
        Self { config, interface, mac, mtu, frame, mode, claim: claim.clone() }
    }

    /// Whether a process that is to open `config` for `claim` can go on from
    /// here.
    pub(crate) fn check(&self, config: &Config, interface: u32, claim: &Claim) -> Result<(), HandoverError> {
        let differ = |what, theirs: String, ours: String| Err(HandoverError::Differ { what, theirs, ours });
        if (&self.config, self.interface) != (config, interface) {
            let theirs = format!("{} (interface {})", self.config, self.interface);
            return differ("link", theirs, format!("{config} (interface {interface})"));
        }
        let (theirs, ours) = (sorted(&self.claim), sorted(claim));
        match (&theirs, &ours) {
            _ if theirs == ours => Ok(()),
            (Claim::Host { ports: theirs }, Claim::Host { ports: ours }) => {
                differ("served ports", list(theirs), list(ours))
            }
            (Claim::Own { addresses: theirs, aggregated: a }, Claim::Own { addresses: ours, aggregated: b })
                if a == b =>
            {
                differ("addresses", list(theirs), list(ours))
            }
            _ => differ("kind of addresses", kind(&theirs).to_owned(), kind(&ours).to_owned()),
        }
    }
}

const fn kind(claim: &Claim) -> &'static str {
    match claim {
        Claim::Host { .. } => "the host's",
        Claim::Own { aggregated: false, .. } => "of its own",
        Claim::Own { aggregated: true, .. } => "of its own, aggregated",
        Claim::Whole => "all there are",
    }
}

fn sorted(claim: &Claim) -> Claim {
    match claim {
        Claim::Host { ports } => {
            let mut ports = ports.clone();
            ports.sort_unstable();
            ports.dedup();
            Claim::Host { ports }
        }
        Claim::Own { addresses, aggregated } => {
            let mut addresses = addresses.clone();
            addresses.sort_unstable();
            addresses.dedup();
            Claim::Own { addresses, aggregated: *aggregated }
        }
        Claim::Whole => Claim::Whole,
    }
}

fn list<T: fmt::Display>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join(",")
}

/// Why a port changes hands no further. Nothing has changed.
#[derive(Debug)]
pub enum HandoverError {
    /// What was given is no description of a port, or one of another version.
    Terms,
    /// What was given is not what was described: which part.
    Descriptor(&'static str),
    /// The two processes are not to do the same.
    Differ {
        /// In what.
        what: &'static str,
        /// What the running process has.
        theirs: String,
        /// What the new one was asked for.
        ours: String,
    },
    /// A queue did not do its part in time.
    Silent {
        /// The queue, from 0.
        queue: usize,
        /// What it was to do.
        what: &'static str,
    },
    /// A queue's account does not add up.
    Account {
        /// The queue, from 0.
        queue: usize,
    },
    /// The operating system refused.
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: Errno,
    },
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terms => f.write_str("what is handed over is described in a way that this version does not know"),
            Self::Descriptor(what) => write!(f, "what was handed over as {what} is none"),
            Self::Differ { what, theirs, ours } => {
                write!(f, "the {what} must be the same: the running process has {theirs}, the new one {ours}")
            }
            Self::Silent { queue, what } => write!(f, "queue {queue} did not {what} in time"),
            Self::Account { queue } => write!(f, "the frames of queue {queue} do not add up"),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl core::error::Error for HandoverError {}

/// What a queue is to do, and does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Receive and send.
    Serve,
    /// The same, with a bell that wakes it.
    Offer,
    /// Stop between two turns: what comes and goes, passes by the relay.
    Freeze,
    /// Forget the queue.
    Leave,
    /// Wait for another process's queue.
    Await,
    /// Go on with it.
    Take,
}

/// One side's ends of a relay.
#[derive(Debug)]
pub(crate) struct Ends {
    pub receiver: Receiver,
    pub sender: Sender,
    /// Wakes this side.
    pub bell: Arc<OwnedFd>,
    pub relay: Arc<Relay>,
}

/// A queue of another process, mapped.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub socket: Arc<Socket>,
    pub rings: Rings,
    pub umem: Arc<Umem>,
    pub account: Option<Account>,
}

/// What the main thread and one queue tell each other.
#[derive(Debug)]
pub(crate) struct QueueMailbox {
    pub order: Order,
    /// The last order that the queue has followed.
    pub done: Order,
    /// The process before this one has ended.
    pub alone: bool,
    /// What the queue is to take with its next order.
    pub ends: Option<Ends>,
    pub inherited: Option<Inherited>,
    /// What the queue has, to be offered.
    pub has: Option<(Arc<Socket>, Arc<Umem>)>,
    /// Wakes the queue, on this side of the relay to a successor, and on this
    /// side of that to a predecessor: while there are any.
    upper_bell: Option<Arc<OwnedFd>>,
    lower_bell: Option<Arc<OwnedFd>>,
    relay: Option<Arc<Relay>>,
    /// When the first burst was taken; 0 before.
    pub began: Arc<AtomicU64>,
}

impl QueueMailbox {
    fn new(order: Order) -> Self {
        Self {
            order,
            done: order,
            alone: false,
            ends: None,
            inherited: None,
            has: None,
            upper_bell: None,
            lower_bell: None,
            relay: None,
            began: Arc::default(),
        }
    }
}

/// Orders to the queues of a port.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Grows with each order, for queues to notice.
    pub changes: AtomicU32,
    seats: Mutex<Vec<QueueMailbox>>,
    /// A queue has followed.
    pub followed: Condvar,
    /// For how long nobody received when this process took over, in
    /// nanoseconds.
    pub waited: AtomicU64,
}

impl Orders {
    /// For so many queues of our own.
    pub fn new(queues: u16) -> Self {
        Self::with((0..queues).map(|_| QueueMailbox::new(Order::Serve)).collect())
    }

    fn with(seats: Vec<QueueMailbox>) -> Self {
        let (changes, followed, waited) = (AtomicU32::new(0), Condvar::new(), AtomicU64::new(0));
        Self { changes, seats: Mutex::new(seats), followed, waited }
    }

    pub fn seats(&self) -> MutexGuard<'_, Vec<QueueMailbox>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all queues do something, and wakes them.
    fn give(&self, change: impl Fn(&mut QueueMailbox)) {
        let mut seats = self.seats();
        seats.iter_mut().for_each(&change);
        self.changes.fetch_add(1, Ordering::Release);
        let bells = seats.iter().flat_map(|seat| [&seat.upper_bell, &seat.lower_bell]);
        bells.flatten().for_each(|bell| ring(bell));
    }

    /// Nobody takes over: all go on, and nothing is kept of the attempt but
    /// what a queue has taken, which it lets go of when it goes on.
    fn resume(&self) {
        self.give(|seat| {
            if seat.order != Order::Leave {
                seat.order = Order::Serve;
                seat.ends = None;
            }
        });
        for seat in self.seats().iter_mut().filter(|seat| seat.order != Order::Leave) {
            seat.upper_bell = None;
        }
    }

    /// Waits until all have followed.
    fn wait(&self, what: &'static str, limit: Duration) -> Result<(), HandoverError> {
        let busy = |seats: &mut Vec<QueueMailbox>| seats.iter().any(|seat| seat.done != seat.order);
        let waited = self.followed.wait_timeout_while(self.seats(), limit, busy);
        let (seats, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match seats.iter().position(|seat| seat.done != seat.order) {
            Some(queue) => Err(HandoverError::Silent { queue, what }),
            None => Ok(()),
        }
    }
}

/// An open port, for whoever hands it to another process or takes it from one.
#[derive(Clone, Debug)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// The port as it is now: its interface may have been another one.
    fn port(&self) -> &Arc<Shared> {
        let mut port = &self.0;
        while let Some(renewed) = port.renewed.get() {
            port = renewed;
        }
        port
    }

    fn try_offer(&self, limit: Duration) -> Result<Offer, HandoverError> {
        let shared = self.port();
        let frame = shared.facts.frame;
        let mut given = Vec::new();
        {
            let mut seats = shared.orders.seats();
            for seat in seats.iter_mut() {
                let relay = Arc::new(Relay::create(frame).map_err(system("make memory for a relay"))?);
                let (down, up) = (bell()?, bell()?);
                // SAFETY: the memory is new; the successor has the other ends.
                let (receiver, sender) = unsafe {
                    let receiver = Receiver::new(Arc::clone(&relay), Way::Down);
                    (receiver, Sender::new(Arc::clone(&relay), Way::Up, Arc::clone(&up)))
                };
                seat.ends = Some(Ends { receiver, sender, bell: Arc::clone(&down), relay: Arc::clone(&relay) });
                given.push((relay, down, up));
            }
        }
        shared.orders.give(|seat| seat.order = Order::Offer);
        // It may sleep without a bell until now.
        shared.orders.wait("get ready to stop", limit)?;
        let copy = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|source| HandoverError::System {
                what: "copy a descriptor",
                source: Errno::from_io_error(&source).unwrap_or(Errno::IO),
            })
        };
        use std::os::fd::AsFd;
        let mut queues = Vec::new();
        let mut seats = shared.orders.seats();
        for (queue, (seat, (relay, down, up))) in seats.iter_mut().zip(given).enumerate() {
            let Some((socket, umem)) = &seat.has else {
                return Err(HandoverError::Silent { queue, what: "begin" });
            };
            seat.upper_bell = Some(Arc::clone(&down));
            let all = [socket.as_fd(), umem.file(), (*relay).as_fd(), down.as_fd(), up.as_fd()];
            let [a, b, c, d, e] = all.map(copy);
            queues.push([a?, b?, c?, d?, e?]);
        }
        let attachment = shared.attachment.lock().unwrap_or_else(PoisonError::into_inner);
        let attachment = attachment.as_ref().ok_or(HandoverError::Descriptor("an attachment"))?;
        let attachment = copy(attachment.as_fd())?;
        Ok(Offer { terms: shared.terms().to_string(), attachment, queues })
    }
}

impl Handover for Handle {
    fn offer(&self, limit: Duration) -> Result<Offer, Box<dyn Error>> {
        Ok(self.try_offer(limit).inspect_err(|_| self.resume())?)
    }

    fn freeze(&self) {
        self.port().orders.give(|seat| seat.order = Order::Freeze);
    }

    fn frozen(&self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.port().orders.wait("stop", limit)?)
    }

    fn resume(&self) {
        self.port().orders.resume();
    }

    fn leave(&self) {
        self.port().orders.give(|seat| {
            seat.order = Order::Leave;
            seat.has = None;
        });
        *self.port().umem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // However the successor ends, its program ends with it.
        *self.port().attachment.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn check(&self) -> Result<(), Box<dyn Error>> {
        let ring = self.port().config.ring;
        for (queue, seat) in self.port().orders.seats().iter_mut().enumerate() {
            let wrong = HandoverError::Account { queue };
            let account = seat.relay.as_ref().and_then(|relay| relay.account(ring));
            let (Some(account), Some(inherited)) = (account, &mut seat.inherited) else { return Err(wrong.into()) };
            // SAFETY: the rings are mapped as long as the socket is held.
            let in_rings = unsafe { inherited.rings.sent() };
            if account.free.len() as u64 + u64::from(in_rings) > u64::from(ring) {
                return Err(wrong.into());
            }
            inherited.account = Some(account);
        }
        Ok(())
    }

    fn take(&self) {
        self.port().orders.give(|seat| seat.order = Order::Take);
    }

    fn waited(&self, limit: Duration) -> Result<Duration, Box<dyn Error>> {
        let mut left = limit;
        loop {
            let seats = self.port().orders.seats();
            let spans = seats.iter().map(|seat| {
                let began = seat.began.load(Ordering::Acquire);
                let last = seat.relay.as_ref()?.account(self.port().config.ring)?.last;
                (began > 0).then(|| began.saturating_sub(last))
            });
            let spans: Vec<Option<u64>> = spans.collect();
            let Some(queue) = spans.iter().position(Option::is_none) else {
                let longest = spans.into_iter().flatten().max().unwrap_or(0);
                return Ok(Duration::from_nanos(longest));
            };
            if left.is_zero() {
                return Err(HandoverError::Silent { queue, what: "begin" }.into());
            }
            drop(self.port().orders.followed.wait_timeout(seats, LOOK));
            left = left.saturating_sub(LOOK);
        }
    }

    fn set_waited(&self, waited: Duration) {
        self.port().orders.waited.store(waited.as_nanos().min(u128::from(u64::MAX)) as u64, Ordering::Relaxed);
    }

    fn attach_own(&self) -> Result<(), Box<dyn Error>> {
        let attachment = self.port().attachment.lock().unwrap_or_else(PoisonError::into_inner);
        let both = attachment.as_ref().zip(self.port().filter.as_ref());
        Ok(both.map_or(Ok(()), |(attachment, filter)| attachment.replace(&filter.program)).map_err(OpenError::from)?)
    }

    fn on_predecessor_gone(&self) {
        self.port().orders.give(|seat| seat.alone = true);
        self.port().orders.seats().iter_mut().for_each(|seat| seat.lower_bell = None);
    }
}

/// Maps what another process offers, and touches none of it.
pub(crate) fn adopt(
    config: &Config,
    terms: &Terms,
    attachment: OwnedFd,
    queues: Vec<[OwnedFd; QUEUE_DESCRIPTORS]>,
) -> Result<(Orders, XdpAttachment), OpenError> {
    let count = queues.len();
    if Some(count) != config.queues.map(usize::from) {
        return Err(HandoverError::Descriptor("queues").into());
    }
    let memory = |fd| {
        let share = if config.shared_umem { count as u32 } else { 1 };
        let umem = Umem::adopt(fd, config, terms.frame, share);
        umem.map(Arc::new).map_err(|_| OpenError::from(HandoverError::Descriptor("memory")))
    };
    let mut common: Option<Arc<Umem>> = None;
    let mut seats = Vec::new();
    for [socket, umem, relay, down, up] in queues {
        let (socket, rings) = Socket::adopt(socket, config)?;
        let umem = match &common {
            Some(umem) => Arc::clone(umem),
            None => memory(umem)?,
        };
        if config.shared_umem {
            common.get_or_insert_with(|| Arc::clone(&umem));
        }
        let relay = Relay::open(relay, terms.frame).map(Arc::new).ok_or(HandoverError::Descriptor("a relay"))?;
        let (down, up) = (Arc::new(down), Arc::new(up));
        // SAFETY: the predecessor has the other ends, and nobody else any.
        let (receiver, sender) = unsafe {
            let receiver = Receiver::new(Arc::clone(&relay), Way::Up);
            (receiver, Sender::new(Arc::clone(&relay), Way::Down, down))
        };
        let mut seat = QueueMailbox::new(Order::Await);
        seat.lower_bell = Some(Arc::clone(&up));
        seat.ends = Some(Ends { receiver, sender, bell: up, relay: Arc::clone(&relay) });
        seat.relay = Some(relay);
        seat.inherited = Some(Inherited { socket: Arc::new(socket), rings, umem, account: None });
        seats.push(seat);
    }
    Ok((Orders::with(seats), XdpAttachment::from_fd(attachment)))
}

fn bell() -> Result<Arc<OwnedFd>, HandoverError> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    rustix::event::eventfd(0, flags).map(Arc::new).map_err(system("make an eventfd"))
}

fn system(what: &'static str) -> impl Fn(Errno) -> HandoverError {
    move |source| HandoverError::System { what, source }
}

#[cfg(test)]
mod tests;
