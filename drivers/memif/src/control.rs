//! The control channel: finding a peer, agreeing on memory and rings with it,
//! and noticing that it went.
//!
//! ```text
//!             ┌──────── peer gone, fault, refusal ────────┐
//!             ▼                                           │
//! client: Waiting ── connected ──► Greeting ── CONNECTED ──► Up
//! server: Waiting ── accepted ───► Greeting ── CONNECT ────► Up
//! ```

use crate::MemifError;
use crate::bell::{Bell, BellWatch};
use crate::channel::{Channel, ListenError, Listener, Received};
use crate::config::{Config, HEADER_ROOM};
use crate::exported::Exported;
use crate::handshake::{Attachment, ClientHandshake, ClientStep, End, Offer, Plan, ServerHandshake, ServerStep};
use crate::memory::{MemoryKind, OwnMemory, RingRef, map_peers};
use crate::message::{Direction, Message};
use crate::receive::Buffers;
use crate::shared::{QueueSetup, Shared};
use crate::slots::{Reserved, Slots, apart};
use crate::transmit::BELL_FAULT;
use ::link::LinkState;
use core::time::Duration;
use driver::Role;
use rustix::event::EventfdFlags;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// A client's first pause before it tries to connect again; doubled at each failure.
pub const RETRY_FIRST: Duration = Duration::from_millis(10);
/// A client's longest pause.
pub const RETRY_LONGEST: Duration = Duration::from_secs(1);
/// How long a peer may take to set a connection up. A peer that connects and
/// says nothing would otherwise keep all others out.
pub const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Messages taken in one poll.
const MESSAGES_PER_POLL: usize = 16;
/// While a peer is connected, a further one is told so at every so many polls.
const POLLS_PER_REFUSAL: u32 = 256;

const _: () = assert!(RETRY_FIRST.as_nanos() <= RETRY_LONGEST.as_nanos());

/// Where the interface stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Whether a peer is connected.
    pub state: LinkState,
    /// What the peer calls itself, while connected.
    pub peer: Option<String>,
    /// What the shared memory is made of, while connected.
    pub backing: Option<MemoryKind>,
    /// Queue pairs in use, while connected.
    pub queues: u16,
    /// Why the last connection ended or could not be made.
    pub reason: Option<String>,
}

/// The control channel of one interface.
#[derive(Debug)]
pub struct Control {
    config: Config,
    listener: Option<Listener>,
    state: State,
    queues: Vec<Arc<Shared>>,
    /// Grows with every coming and going of a peer.
    epoch: u32,
    up: Option<Up>,
    reason: Option<String>,
    retry_at: Time,
    retry_pause: Duration,
    /// No peer is let in before: the last one held us up.
    closed_until: Time,
    /// Looks after the peers' eventfds.
    bells: Arc<BellWatch>,
    polls: u32,
    seen: Time,
    /// The queues are other processes': what they need of a connection is kept here while there is one.
    exports: bool,
    exported: Option<Exported>,
}

#[derive(Debug)]
struct Up {
    peer: String,
    backing: MemoryKind,
    queues: u16,
}

#[derive(Debug)]
enum State {
    Waiting,
    Greeting { channel: Channel, talk: Talk, deadline: Time },
    Connected { channel: Channel },
}

#[derive(Debug)]
enum Talk {
    Server(ServerHandshake<OwnedFd>),
    Client { handshake: ClientHandshake, memory: Option<ClientMemory> },
}

/// A client's memory and eventfds, from HELLO to CONNECTED.
#[derive(Debug)]
struct ClientMemory {
    own: OwnMemory,
    peer: String,
    /// Per queue: of the ring to the server, of the ring to the client.
    events: Vec<(Arc<OwnedFd>, Arc<OwnedFd>)>,
}

impl Control {
    pub(crate) fn open(config: Config) -> Result<Self, MemifError> {
        let listener = match config.role {
            Role::Server => {
                Some(Listener::new(&config.socket, config.socket_mode).map_err(|error| open_error(&config, error))?)
            }
            Role::Client => None,
        };
        let io = |source| MemifError::Io { what: "make an eventfd", socket: config.socket.clone(), source };
        let bells = BellWatch::start().map_err(|source| MemifError::Io {
            what: "start a thread beside its queues",
            socket: config.socket.clone(),
            source,
        })?;
        let queues: Vec<_> =
            (0..config.queues).map(|_| Shared::new().map(Arc::new)).collect::<io::Result<_>>().map_err(io)?;
        Ok(Self {
            config,
            listener,
            state: State::Waiting,
            queues,
            epoch: 0,
            up: None,
            reason: None,
            retry_at: Time::ZERO,
            retry_pause: RETRY_FIRST,
            closed_until: Time::ZERO,
            bells,
            polls: 0,
            seen: Time::ZERO,
            exports: false,
            exported: None,
        })
    }

    /// The queues are other processes' from now on: what they need is kept for them.
    pub(crate) const fn export(&mut self) {
        self.exports = true;
    }

    /// Which connection there is, or was.
    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What other processes need of the connection, while there is one.
    pub(crate) const fn exported(&self) -> Option<&Exported> {
        self.exported.as_ref()
    }

    /// One of them has found the peer of this epoch to break the protocol.
    pub(crate) fn refuse(&mut self, epoch: u32) -> bool {
        let is_there = self.up.is_some() && self.epoch == epoch;
        if is_there {
            self.end(End::refused("the peer breaks the protocol, or took its memory away"));
            self.closed_until = self.seen + RETRY_LONGEST;
        }
        is_there
    }

    /// A link for each queue, as yet without a peer.
    pub(crate) fn links<L>(&self, link: impl Fn(&Config, Arc<Shared>) -> L) -> Vec<L> {
        self.queues.iter().map(|shared| link(&self.config, Arc::clone(shared))).collect()
    }

    /// Greets a new peer, follows the one there is, notices that it went.
    /// Never blocks; call it about once a millisecond. One system call where
    /// nothing happens; a client between two attempts to connect makes none.
    pub fn poll(&mut self, now: Time) -> LinkState {
        self.seen = now;
        self.polls = self.polls.wrapping_add(1);
        if let Some(fault) = self.queues.iter().find_map(|queue| queue.fault_in(self.epoch)) {
            self.end(End::refused(fault));
            if fault == BELL_FAULT {
                self.closed_until = now + RETRY_LONGEST;
            }
        }
        if matches!(self.state, State::Waiting) {
            self.find_peer(now);
        }
        for _ in 0..MESSAGES_PER_POLL {
            if !self.take_message() {
                break;
            }
        }
        match &self.state {
            State::Greeting { deadline, .. } if *deadline <= now => {
                self.end(End::refused("the connection took too long to set up"));
            }
            State::Connected { .. } if self.polls.is_multiple_of(POLLS_PER_REFUSAL) => self.turn_away(),
            _ => {}
        }
        self.link_state()
    }

    /// Where the interface stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            state: self.link_state(),
            peer: self.up.as_ref().map(|up| up.peer.clone()),
            backing: self.up.as_ref().map(|up| up.backing),
            queues: self.up.as_ref().map_or(0, |up| up.queues),
            reason: self.reason.clone(),
        }
    }

    /// Becomes readable when a poll has something to do; `None` for a client
    /// between two attempts to connect.
    #[must_use]
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Waiting if self.seen < self.closed_until => None,
            State::Waiting => self.listener.as_ref().map(Listener::as_fd),
            State::Greeting { channel, .. } | State::Connected { channel } => Some(channel.as_fd()),
        }
    }

    /// Longest time that may pass until the next poll.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match &self.state {
            State::Waiting if self.seen < self.closed_until => self.closed_until.since(self.seen),
            State::Waiting if self.listener.is_none() => self.retry_at.since(self.seen),
            State::Greeting { deadline, .. } => deadline.since(self.seen),
            _ => Duration::MAX,
        }
    }

    fn link_state(&self) -> LinkState {
        if self.up.is_some() { LinkState::Up } else { LinkState::Down }
    }

    fn find_peer(&mut self, now: Time) {
        if now < self.closed_until {
            return;
        }
        let deadline = now + GREETING_LIMIT;
        if let Some(listener) = &self.listener {
            let Some(channel) = listener.accept() else { return };
            if let Err(reason) = self.admit(&channel) {
                let _ = channel.send(&Message::Disconnect { code: 0, reason: reason.clone() }, None);
                self.reason = Some(reason);
                return;
            }
            if channel.send(&ServerHandshake::<OwnedFd>::hello(&self.config), None).is_ok() {
                let talk = Talk::Server(ServerHandshake::new(&self.config));
                self.state = State::Greeting { channel, talk, deadline };
            }
        } else if self.retry_at <= now {
            let connected = Channel::connect(&self.config.socket).map_err(|error| format!("cannot connect: {error}"));
            match connected.and_then(|channel| self.admit(&channel).map(|()| channel)) {
                Ok(channel) => {
                    let talk = Talk::Client { handshake: ClientHandshake::default(), memory: None };
                    self.state = State::Greeting { channel, talk, deadline };
                }
                Err(reason) => {
                    self.reason = Some(reason);
                    self.back_off();
                }
            }
        }
    }

    /// Whether the process at the other end may be the peer; if not, why.
    fn admit(&self, channel: &Channel) -> Result<(), String> {
        let uid = channel.peer_uid().map_err(|error| format!("cannot tell whose process the peer is: {error}"))?;
        if self.config.peers.admit(uid, rustix::process::geteuid().as_raw()) {
            return Ok(());
        }
        Err(format!("a process of uid {uid} may not be the peer here (peers=)"))
    }

    /// Tells one further peer that this interface is taken, rather than to let
    /// it wait without an answer.
    fn turn_away(&self) {
        if let Some(channel) = self.listener.as_ref().and_then(Listener::accept) {
            let reason = String::from("already connected");
            let _ = channel.send(&Message::Disconnect { code: 0, reason }, None);
        }
    }

    /// Takes and follows one message; whether there was one.
    fn take_message(&mut self) -> bool {
        let (State::Greeting { channel, .. } | State::Connected { channel }) = &self.state else { return false };
        let outcome = match channel.receive() {
            Received::Nothing => return false,
            Received::Closed => Err(End::Vanished),
            Received::Malformed => Err(End::refused("malformed message")),
            Received::Message(message, fd) => self.follow(message, fd),
        };
        if let Err(end) = outcome {
            self.end(end);
        }
        true
    }

    fn follow(&mut self, message: Message, fd: Option<OwnedFd>) -> Result<(), End> {
        let State::Greeting { channel, talk, .. } = &mut self.state else {
            return Err(match message {
                Message::Disconnect { reason, .. } => End::Said(reason),
                _ => End::refused("unexpected message"),
            });
        };
        match talk {
            Talk::Server(handshake) => match handshake.on_message(&self.config, message, fd)? {
                ServerStep::Answer(answer) => send(channel, &answer, None),
                ServerStep::Connect(offer) => self.accept_offer(offer),
            },
            Talk::Client { handshake, memory } => match handshake.on_message(&self.config, message)? {
                ClientStep::MakeMemory(plan) => {
                    let made = ClientMemory::new(&self.config, &plan)
                        .map_err(|error| End::refused(format!("cannot make shared memory: {error}")))?;
                    let first = handshake.offer(&self.config, &made.own.layout);
                    *memory = Some(made);
                    send(channel, &first, None)
                }
                ClientStep::Send(message, attachment) => {
                    let fd = memory.as_ref().and_then(|memory| memory.attached(attachment));
                    send(channel, &message, fd)
                }
                ClientStep::Up => match memory.take() {
                    Some(memory) => self.use_own(memory),
                    None => Err(End::refused("unexpected message")),
                },
            },
        }
    }

    /// As a server: maps the memory, resets the rings, and is up.
    fn accept_offer(&mut self, offer: Offer<OwnedFd>) -> Result<(), End> {
        let limit = self.config.memory_limit();
        let memory = map_peers(&offer.regions, self.config.require_sealed, limit).map_err(End::Refused)?;
        let ring = |ring: &crate::handshake::RingOffer<OwnedFd>| {
            RingRef::new(&memory, ring.region, ring.offset, ring.log2_size)
                .filter(|lies| lies.get().has_cookie())
                .ok_or_else(|| End::refused("a ring is misplaced or not marked as one"))
        };
        let mut rings = Vec::with_capacity(offer.queues.len());
        for (rx, tx) in offer.queues {
            rings.push(((ring(&rx)?, interrupt(rx.event)?), (ring(&tx)?, interrupt(tx.event)?)));
        }
        let need = u32::from(self.config.mtu) + HEADER_ROOM;
        let (slots, reserved) = apart(rings.iter().map(|((rx, _), (tx, _))| (rx, tx)), need);
        let setup = |((rx, tx), slots): ((_, (_, _)), _)| {
            let (rx, event): (RingRef, Arc<OwnedFd>) = rx;
            let (tx, bell): (RingRef, Arc<OwnedFd>) = tx;
            QueueSetup {
                rx: (rx, Buffers::Peers, event),
                tx: (tx, Buffers::Peers, Bell::new(bell, &self.bells)),
                slots,
                reserved: reserved.clone(),
            }
        };
        let exported: Vec<_> = rings.iter().map(|(rx, tx)| [rx, tx].map(Clone::clone)).collect();
        let exported = self.exports.then(|| Exported::of_peer(offer.regions, &exported));
        if exported.as_ref().is_some_and(|exported| !exported.is_small()) {
            return Err(End::refused("more regions or queues than several processes share here"));
        }
        let setups: Vec<QueueSetup> = rings.into_iter().zip(slots).map(setup).collect();
        for setup in &setups {
            setup.rx.0.get().reset();
            setup.tx.0.get().reset();
        }
        if let State::Greeting { channel, .. } = &self.state {
            send(channel, &Message::Connected { name: self.config.name.clone() }, None)?;
        }
        self.exported = exported;
        self.come_up(offer.peer, MemoryKind::Peer, setups);
        Ok(())
    }

    /// As a client: the server is ready, so the queues may start.
    fn use_own(&mut self, memory: ClientMemory) -> Result<(), End> {
        let queues = memory.events.len() as u32;
        let mut setups = Vec::with_capacity(memory.events.len());
        let mut exported = Vec::new();
        for (queue, (to_server, to_client)) in (0_u32..).zip(&memory.events) {
            let (tx_offset, rx_offset) = memory.own.layout.rings[queue as usize];
            let place = |offset: u32, number: u32| {
                let own = &memory.own;
                let ring = RingRef::new(&own.memory, 0, offset, own.layout.log2_ring_size)?;
                let extent = own.memory.extents().first()?;
                let first = extent.base.wrapping_add(own.buffers.of_ring(number) as usize);
                Some((ring, Buffers::Own { first, stride: own.buffers.stride, size: own.buffers.size }))
            };
            let (Some(tx), Some(rx)) = (place(tx_offset, queue), place(rx_offset, queues + queue)) else {
                return Err(End::refused("a ring is misplaced"));
            };
            if self.exports {
                // All buffers are empty: as a queue of this process's would, they are offered.
                rx.0.get().publish_head(rx.0.get().size());
                let received = (rx.0.clone(), queues + queue, Arc::clone(to_client));
                exported.push([received, (tx.0.clone(), queue, Arc::clone(to_server))]);
            }
            setups.push(QueueSetup {
                rx: (rx.0, rx.1, Arc::clone(to_client)),
                tx: (tx.0, tx.1, Bell::new(Arc::clone(to_server), &self.bells)),
                slots: Slots::none(),
                reserved: Reserved::default(),
            });
        }
        if self.exports {
            let exported = Exported::of_own(&memory.own, &exported);
            self.exported = exported.ok().filter(Exported::is_small);
        }
        self.come_up(memory.peer, memory.own.backing, setups);
        Ok(())
    }

    fn come_up(&mut self, peer: String, backing: MemoryKind, setups: Vec<QueueSetup>) {
        let state = core::mem::replace(&mut self.state, State::Waiting);
        if let State::Greeting { channel, .. } = state {
            self.state = State::Connected { channel };
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.retry_pause = RETRY_FIRST;
        self.reason = None;
        self.up = Some(Up { peer, backing, queues: setups.len() as u16 });
        let mut setups = setups.into_iter().filter(|_| !self.exports);
        for queue in &self.queues {
            queue.offer(self.epoch, setups.next());
        }
    }

    /// Ends the conversation or connection, and tells the peer why if that is
    /// on us. The memory stays mapped until the last queue has let go of it.
    fn end(&mut self, end: End) {
        let state = core::mem::replace(&mut self.state, State::Waiting);
        self.reason = Some(match end {
            End::Said(reason) => format!("the peer disconnected: {reason}"),
            End::Vanished => String::from("the peer went away"),
            End::Refused(reason) => {
                if let State::Greeting { channel, .. } | State::Connected { channel } = &state {
                    let _ = channel.send(&Message::Disconnect { code: 0, reason: reason.clone() }, None);
                }
                reason
            }
        });
        self.exported = None;
        if self.up.take().is_some() {
            self.epoch = self.epoch.wrapping_add(1);
            for queue in &self.queues {
                queue.offer(self.epoch, None);
            }
        }
        self.back_off();
    }

    fn back_off(&mut self) {
        self.retry_at = self.seen + self.retry_pause;
        self.retry_pause = (self.retry_pause * 2).min(RETRY_LONGEST);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !matches!(self.state, State::Waiting) {
            self.end(End::refused("closed"));
        }
    }
}

impl ClientMemory {
    fn new(config: &Config, plan: &Plan) -> io::Result<Self> {
        let events: io::Result<Vec<_>> = (0..plan.queues).map(|_| Ok((event()?, event()?))).collect();
        Ok(Self { own: OwnMemory::new(config, plan)?, peer: plan.peer.clone(), events: events? })
    }

    fn attached(&self, attachment: Attachment) -> Option<BorrowedFd<'_>> {
        match attachment {
            Attachment::None => None,
            Attachment::Memory => Some(self.own.file.as_fd()),
            Attachment::Event(direction, queue) => {
                self.events.get(usize::from(queue)).map(|(to_server, to_client)| match direction {
                    Direction::ToServer => to_server.as_fd(),
                    Direction::ToClient => to_client.as_fd(),
                })
            }
        }
    }
}

fn event() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// Accepts a peer's eventfd. Of another kind of file, a write could block. The
/// peer can make its eventfd block as well, by clearing O_NONBLOCK again and
/// filling the counter: that is the [`Bell`]'s affair.
fn interrupt(fd: OwnedFd) -> Result<Arc<OwnedFd>, End> {
    // What is known without asking: of a file system that the peer serves, an answer might never come.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let kind = |fd: BorrowedFd<'_>| {
        let stat = rustix::fs::statx(fd, c"", flags, StatxFlags::INO).ok()?;
        Some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino))
    };
    let ours = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).ok();
    // All anonymous inodes are one and the same, and no pipe, socket or file has it.
    if ours.is_none() || kind(fd.as_fd()).is_none() || ours.and_then(|ours| kind(ours.as_fd())) != kind(fd.as_fd()) {
        return Err(End::refused("a ring's interrupt is no eventfd"));
    }
    let flags = rustix::fs::fcntl_getfl(&fd).map_err(|_| End::refused("cannot inspect an eventfd"))?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(|_| End::refused("cannot set up an eventfd"))?;
    Ok(Arc::new(fd))
}

fn send(channel: &Channel, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), End> {
    channel.send(message, fd).map_err(|_| End::Vanished)
}

fn open_error(config: &Config, error: ListenError) -> MemifError {
    let socket = config.socket.clone();
    match error {
        ListenError::InUse => MemifError::InUse(socket),
        ListenError::NotASocket => MemifError::NotASocket(socket),
        ListenError::Io(what, source) => MemifError::Io { what, socket, source },
    }
}
