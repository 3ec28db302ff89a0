//! The connections, by slot and generation.

use crate::secured::Secured;
use crate::timers::Timer;
use app::{ConnId, HELD_LIMIT, IDLE_CHOICES, IDLE_LOOKS, LITTLE};
use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;
use rope::Rope;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Slots from here on are no connections: engines mark other events by them.
pub(crate) const RESERVED: u32 = u32::MAX - 0xff;

/// What a connection is to send; its files go without passing through memory
/// of ours.
pub(crate) type Queue = Rope<Arc<OwnedFd>>;

/// One connection: a cache line.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Option<OwnedFd>,
    generation: u32,
    pub(crate) flags: Flags,
    pub(crate) timer: Timer,
    pub(crate) queue: Queue,
    held: Option<Box<Held>>,
}

const _: () = assert!(size_of::<Socket>() == 64, "a cache line");

/// Bytes that the application left unconsumed.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    start: usize,
}

/// Bytes that are received at a time where that is to be little, as most heads are: whoever has many connections that
/// wait for room holds as many times this.
pub(crate) const PIECE: usize = 1 << 10;

const _: () = assert!(PIECE <= LITTLE, "no more than was said");

/// Bytes of memory that are worth to be given back.
const SHRUNK_FROM: usize = 16 << 10;

/// A connection's state, as bits of one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Its outcome is not known yet.
    pub(crate) const CONNECTING: u32 = 1;
    /// It is on the list of those with something to send.
    pub(crate) const DIRTY: u32 = 2;
    /// The kernel took not all: its buffer is full.
    pub(crate) const BLOCKED: u32 = 4;
    /// The kernel tells when there is room again.
    pub(crate) const WATCHES_ROOM: u32 = 8;
    /// The application finished it.
    pub(crate) const FINISHED: u32 = 16;
    /// Our FIN is out.
    pub(crate) const SHUT: u32 = 32;
    /// The peer's FIN is in.
    pub(crate) const ENDED: u32 = 64;
    /// It is over: the application is still to hear of it.
    pub(crate) const OVER: u32 = 128;
    /// The kernel may have more than was received.
    pub(crate) const UNREAD: u32 = 256;
    /// It is on the list of those to go on with.
    pub(crate) const AGAIN: u32 = 512;
    /// A send failed: what arrived before that is still to be delivered.
    pub(crate) const BROKEN: u32 = 1_024;
    /// A Unix socket.
    pub(crate) const UNIX: u32 = 2_048;
    /// It is on the list of those to be offered held bytes again.
    pub(crate) const RESUMED: u32 = 4_096;
    /// It is closed once everything is sent, whatever the peer still says.
    pub(crate) const CLOSES: u32 = 16_384;
    /// It was accepted just now, and is not watched yet.
    pub(crate) const UNWATCHED: u32 = 32_768;
    /// It is in use.
    pub(crate) const USED: u32 = 8_192;
    /// It counts as work of this worker, where new ones are dealt out.
    pub(crate) const SEATED: u32 = 65_536;
    /// It counts among its client's connections.
    pub(crate) const COUNTED: u32 = 1 << 20;
    /// Nothing arrived yet, and what does is acknowledged with its answer.
    pub(crate) const UNHEARD: u32 = 1 << 21;
    /// What arrives goes to another connection, without the application.
    pub(crate) const PASSES: u32 = 1 << 22;
    /// What arrives at another connection comes here.
    pub(crate) const FED: u32 = 1 << 23;
    /// TCP_CORK is set: a long file is under way.
    pub(crate) const CORKED: u32 = 1 << 24;
    /// What arrives are records, and what is queued is sealed.
    pub(crate) const SECURED: u32 = 1 << 25;
    /// Its peer was told in a record why this is its end.
    pub(crate) const REFUSED: u32 = 1 << 26;
    /// No more is received at a time than a head needs.
    pub(crate) const LITTLE: u32 = 1 << 27;
    /// The application has no room: nothing more is received while something is held for it.
    pub(crate) const HOLDS: u32 = 1 << 28;
    /// It had a rate of its own: what is queued next has not.
    pub(crate) const RATED: u32 = 1 << 29;
    /// io_uring: a receive is under way.
    pub(crate) const ARMED: u32 = 1 << 17;
    /// io_uring: that receive was told to end.
    pub(crate) const STOPPING: u32 = 1 << 18;
    /// io_uring: the kernel tells when it comes to an end.
    pub(crate) const WATCHES_END: u32 = 1 << 19;

    #[inline]
    pub(crate) const fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, bits: u32) {
        self.0 |= bits;
    }

    #[inline]
    pub(crate) const fn clear(&mut self, bits: u32) {
        self.0 &= !bits;
    }
}

impl Socket {
    const fn vacant() -> Self {
        Self { fd: None, generation: 0, flags: Flags(0), timer: Timer::IDLE, queue: Queue::EMPTY, held: None }
    }

    /// Which of the connections that had its slot it is.
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Its descriptor; `None` in a free slot only.
    #[inline]
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Whether it is open, or our FIN is out, and nothing is queued, held or under way.
    fn is_quiet(&self) -> bool {
        const BUSY: u32 = Flags::CONNECTING
            | Flags::DIRTY
            | Flags::BLOCKED
            | Flags::ENDED
            | Flags::OVER
            | Flags::UNREAD
            | Flags::AGAIN
            | Flags::BROKEN
            | Flags::RESUMED
            | Flags::PASSES
            | Flags::FED
            | Flags::UNWATCHED;
        let finishes = self.flags.has(Flags::FINISHED) && !self.flags.has(Flags::SHUT);
        self.flags.has(Flags::USED)
            && !self.flags.has(BUSY)
            && !finishes
            && self.held() == 0
            && self.queue.unsent() == 0
    }

    /// Whether the kernel has nothing that arrived for it.
    fn is_read(&self) -> bool {
        self.fd().is_some_and(|fd| rustix::io::ioctl_fionread(fd) == Ok(0))
    }

    /// Bytes that the application left unconsumed.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes.len() - held.start)
    }

    /// Whether the application has to take some before more is received.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        match self.held() {
            0 => false,
            held => held >= HELD_LIMIT || self.flags.has(Flags::HOLDS),
        }
    }

    /// Whether its reader, which has no room now, goes on later: until then nothing of what arrived is given
    /// up, though its peer has reset it meanwhile.
    #[inline]
    pub(crate) fn waits_for_reader(&self) -> bool {
        self.flags.has(Flags::HOLDS) && self.held() > 0
    }

    /// Takes the held bytes out, so that the application can be called with
    /// them; give them back by [`Socket::put_held`].
    pub(crate) fn take_held(&mut self) -> Option<Box<Held>> {
        self.held.take()
    }

    /// Gives held bytes back, less what was consumed.
    pub(crate) fn put_held(&mut self, mut held: Box<Held>, consumed: usize) {
        held.start += consumed;
        if held.start < held.bytes.len() {
            held.shrink();
            self.held = Some(held);
        }
    }

    /// Keeps `bytes`, behind what is kept already.
    #[cold]
    pub(crate) fn hold(&mut self, bytes: &[u8]) {
        let held = self.held.get_or_insert_default();
        held.compact();
        held.bytes.extend_from_slice(bytes);
    }
}

impl Held {
    /// The bytes, in one piece.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Gives back the memory of a burst of which little is left.
    fn shrink(&mut self) {
        if self.bytes.capacity() >= SHRUNK_FROM && self.bytes().len() <= self.bytes.capacity() / 4 {
            self.compact();
            self.bytes.shrink_to_fit();
        }
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }
}

/// A generation, and our own address at its connection; a Unix socket has none.
type KnownLocal = (u32, Option<SocketAddr>);

/// A table that never shrinks: memory is taken as slots are first used.
#[derive(Debug)]
pub(crate) struct Table {
    conns: Vec<Socket>,
    /// Beside them, because only access logs and limits by address ask.
    peers: Vec<Option<SocketAddr>>,
    /// Our own addresses that were asked for, each with its connection's generation: the
    /// kernel is asked once.
    locals: RefCell<Vec<Option<KnownLocal>>>,
    /// What secures connections; as long as the last slot of one.
    secured: Vec<Option<Box<Secured>>>,
    free: Vec<u32>,
    live: usize,
    limit: usize,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Self {
        let mut table = Self {
            conns: Vec::new(),
            peers: Vec::new(),
            locals: RefCell::default(),
            secured: Vec::new(),
            free: Vec::new(),
            live: 0,
            limit,
        };
        table.set_limit(limit);
        table
    }

    /// At most so many connections from now on; those beyond stay.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(RESERVED as usize - 1);
    }

    /// Connections in use.
    pub(crate) const fn len(&self) -> usize {
        self.live
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.live >= self.limit
    }

    /// The limit on connections.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// How many more there may be.
    pub(crate) const fn room(&self) -> usize {
        self.limit.saturating_sub(self.live)
    }

    /// Slots that were ever used.
    pub(crate) const fn slots(&self) -> usize {
        self.conns.len()
    }

    /// Makes a connection of `fd`; `None` at the limit.
    pub(crate) fn insert(&mut self, fd: OwnedFd, peer: Option<SocketAddr>, flags: u32) -> Option<ConnId> {
        if self.is_full() {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Socket::vacant());
            self.peers.push(None);
            self.conns.len() as u32 - 1
        });
        let conn = &mut self.conns[slot as usize];
        conn.fd = Some(fd);
        conn.flags = Flags(flags | Flags::USED);
        self.peers[slot as usize] = peer;
        self.live += 1;
        Some(ConnId::new(slot, conn.generation))
    }

    /// The connection, unless it is over.
    #[inline]
    pub(crate) fn get(&self, id: ConnId) -> Option<&Socket> {
        let conn = self.conns.get(id.index())?;
        let live = conn.generation == id.generation() && conn.flags.0 & (Flags::USED | Flags::OVER) == Flags::USED;
        live.then_some(conn)
    }

    /// The connection, unless it is over.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Socket> {
        let conn = self.conns.get_mut(id.index())?;
        let live = conn.generation == id.generation() && conn.flags.0 & (Flags::USED | Flags::OVER) == Flags::USED;
        live.then_some(conn)
    }

    /// Secures a connection.
    pub(crate) fn set_secured(&mut self, id: ConnId, secured: Secured) {
        if let Some(conn) = self.get_mut(id) {
            conn.flags.set(Flags::SECURED);
            if self.secured.len() <= id.index() {
                self.secured.resize_with(id.index() + 1, || None);
            }
            self.secured[id.index()] = Some(Box::new(secured));
        }
    }

    /// A secured connection, unless it is over, and what secures it.
    #[inline]
    pub(crate) fn secured_mut(&mut self, id: ConnId) -> Option<(&mut Socket, &mut Secured)> {
        let conn = self.conns.get_mut(id.index())?;
        let live = conn.generation == id.generation() && conn.flags.0 & (Flags::USED | Flags::OVER) == Flags::USED;
        let secured = self.secured.get_mut(id.index())?.as_mut()?;
        live.then_some((conn, secured))
    }

    /// What secures a connection that is not over.
    pub(crate) fn secured(&self, id: ConnId) -> Option<&Secured> {
        self.get(id).and_then(|_| self.secured.get(id.index())?.as_deref())
    }

    /// Bytes that are queued at a connection, and sealed ones that the kernel did not take.
    #[inline]
    pub(crate) fn unsent(&self, id: ConnId) -> usize {
        let Some(conn) = self.get(id) else { return 0 };
        let kept = if conn.flags.has(Flags::SECURED) { self.secured(id).map_or(0, Secured::kept) } else { 0 };
        conn.queue.unsent() + kept
    }

    /// Whether the kernel seals what is sent there.
    pub(crate) fn is_sealed_by_kernel(&self, slot: u32) -> bool {
        self.secured.get(slot as usize).and_then(Option::as_ref).is_some_and(|secured| secured.kernel.is_some())
    }

    /// Whether part of a record has arrived there.
    fn is_amid_record(&self, slot: usize) -> bool {
        self.secured.get(slot).and_then(Option::as_ref).is_some_and(|secured| secured.is_amid())
    }

    /// The descriptors of live TCP connections among `most` slots from a slot
    /// on.
    pub(crate) fn sample(&self, from: usize, most: usize) -> impl Iterator<Item = BorrowedFd<'_>> {
        const ANY: u32 = Flags::USED | Flags::OVER | Flags::CONNECTING | Flags::UNIX;
        let live = |conn: &&Socket| conn.flags.0 & ANY == Flags::USED;
        self.conns.iter().skip(from).take(most).filter(live).filter_map(Socket::fd)
    }

    /// Finds a connection to make room for a new one, from slot `hand` on: of
    /// a few of those that have nothing to send and nothing held, that the
    /// kernel has nothing from, and that `idle` has an answer for, the one for
    /// which that is longest.
    pub(crate) fn find_idle(
        &self,
        hand: &mut usize,
        mut idle: impl FnMut(ConnId) -> Option<Duration>,
    ) -> Option<ConnId> {
        let mut longest = None;
        let mut choices = 0;
        for _ in 0..IDLE_LOOKS.min(self.conns.len()) {
            *hand = if *hand + 1 < self.conns.len() { *hand + 1 } else { 0 };
            let quiet = self.conns.get(*hand).is_some_and(Socket::is_quiet) && !self.is_amid_record(*hand);
            let Some(id) = self.id(*hand as u32).filter(|_| quiet) else { continue };
            let Some(time) = idle(id) else { continue };
            choices += 1;
            if longest.is_none_or(|(most, _)| time > most) && self.get(id).is_some_and(Socket::is_read) {
                longest = Some((time, id));
            }
            if choices == IDLE_CHOICES {
                break;
            }
        }
        longest.map(|(_, id)| id)
    }

    /// What stands at `slot`, whatever its state.
    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: u32) -> Option<&mut Socket> {
        self.conns.get_mut(slot as usize)
    }

    /// The id of what stands at `slot`, unless it is over.
    #[inline]
    pub(crate) fn id(&self, slot: u32) -> Option<ConnId> {
        let conn = self.conns.get(slot as usize)?;
        let live = conn.flags.0 & (Flags::USED | Flags::OVER) == Flags::USED;
        live.then(|| ConnId::new(slot, conn.generation))
    }

    pub(crate) fn peer(&self, id: ConnId) -> Option<SocketAddr> {
        self.get(id).and_then(|_| self.peers[id.index()])
    }

    /// Our own address at a connection; `ask` asks the kernel.
    pub(crate) fn local(
        &self,
        id: ConnId,
        ask: impl FnOnce(BorrowedFd<'_>) -> Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        let conn = self.get(id)?;
        let mut locals = self.locals.borrow_mut();
        if let Some(Some((generation, local))) = locals.get(id.index())
            && *generation == id.generation()
        {
            return *local;
        }
        // A Unix socket has none, which is kept as well.
        let local = ask(conn.fd()?);
        if !conn.flags.has(Flags::CONNECTING) {
            if locals.len() <= id.index() {
                locals.resize(id.index() + 1, None);
            }
            locals[id.index()] = Some((id.generation(), local));
        }
        local
    }

    /// The peer of what stands at `slot`, whatever its state.
    pub(crate) fn peer_at(&self, slot: u32) -> Option<SocketAddr> {
        *self.peers.get(slot as usize)?
    }

    /// Every connection that is not over.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> {
        (0..self.conns.len() as u32).filter_map(|slot| self.id(slot))
    }

    /// Ends what stands at `slot`: no id names it any more, and it no longer
    /// counts. Returns the id that it had, and its descriptor. The slot is
    /// used again after [`Table::release`] only.
    pub(crate) fn vacate(&mut self, slot: u32) -> Option<(ConnId, OwnedFd)> {
        let conn = self.conns.get_mut(slot as usize)?;
        let fd = conn.fd.take()?;
        let id = ConnId::new(slot, conn.generation);
        conn.generation = conn.generation.wrapping_add(1);
        conn.flags = Flags(0);
        // The slot's entry among the timers stays, for its next connection.
        conn.timer.clear();
        conn.queue.clear();
        conn.held = None;
        if let Some(secured) = self.secured.get_mut(slot as usize) {
            *secured = None;
        }
        self.live -= 1;
        Some((id, fd))
    }

    /// The slot may be used again.
    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
