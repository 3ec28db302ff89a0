//! All sockets of one thread, and the application that the stack calls for them.

use crate::errno;
use crate::looks::Looks;
use crate::options::{Options, WITHOUT_EFFECT};
use crate::slab::{NONE, Slab};
use crate::socket::{INBOX, Kind, Socket, Spares, Stream, Told};
use crate::watches::Watches;
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::hint::cold_path;
use core::net::SocketAddr;

/// What is the same for all sockets of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// Bytes that a socket takes to send and that are not acknowledged, unless
    /// it sets `SO_SNDBUF`. 256 KiB by default: what a path of 10 Gbit/s holds
    /// in 200 µs. Too small, and long paths stand still; too large, and as much
    /// lies in memory for each peer that does not read.
    pub send_limit: usize,
    /// Bytes not sent yet from which on a socket takes no more, unless it sets
    /// `TCP_NOTSENT_LOWAT`. No limit by default.
    pub not_sent_low_water: u32,
    /// Whether the stack has small segments wait unless told otherwise
    /// ([`tcp::Config::nagle`]). As sockets have it, by default.
    pub nagle: bool,
    /// The first port that is tried where a listener asks for any.
    pub first_port: u16,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { send_limit: 256 * 1024, not_sent_low_water: u32::MAX, nagle: true, first_port: 32_768 }
    }
}

app::counters! {
    /// What the sockets of a table counted.
    pub SocketFigures {
        /// Times that bytes of a connection were read for the first time, or after something was written to
        /// it: requests, of a server whose clients wait for each answer.
        exchanges,
        /// Connections that were reset because their listener's queue was full.
        accept_overflows,
        /// Times that bytes stayed with the stack, because an inbox was full.
        inbox_full,
        /// Connections whose peer sent after nobody held a descriptor of them.
        orphans_reset,
        /// Options that were accepted and change nothing here.
        options_ignored,
    }
}

/// Who is told of connections as they are established and end, by their numbers: not amid either.
pub trait Ledger: core::fmt::Debug + Send {
    /// A connection is established.
    fn on_established(&mut self, number: usize, remote: SocketAddr, local: SocketAddr);

    /// It has ended, or is another process's.
    fn on_ended(&mut self, number: usize);
}

/// What a descriptor refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descriptor {
    /// Nothing of ours.
    Foreign,
    Socket(u32),
    /// A set of watches.
    Set(u32),
}

/// The sockets.
#[derive(Debug)]
pub struct SocketTable {
    pub(crate) sockets: Slab<Socket>,
    pub(crate) watches: Watches,
    pub(crate) spares: Spares,
    /// By number.
    descriptors: Vec<Descriptor>,
    /// The sockets of connections, by [`ConnId::index`].
    by_connection: Vec<u32>,
    /// Sockets that accept connections.
    pub(crate) listeners: Vec<u32>,
    /// Connections that wait to be accepted and whose listener was closed.
    pub(crate) unclaimed: Vec<u32>,
    /// Other processes accept on the same ports, and may have those.
    pub(crate) shares_ports: bool,
    /// A connection was finished that has not told its peer yet.
    pub(crate) ends: bool,
    /// Sockets to be looked at after a turn: somebody waits for room.
    pub(crate) roomless: Vec<u32>,
    /// Bytes that were given to the stack since its last turn.
    pub(crate) pending: usize,
    pub(crate) looks: Looks,
    pub(crate) defaults: Defaults,
    pub(crate) figures: SocketFigures,
    /// Of [`WITHOUT_EFFECT`], how often each was set.
    without_effect: [u64; WITHOUT_EFFECT.len()],
    pub(crate) next_port: u16,
    ledger: Option<Box<dyn Ledger>>,
}

impl SocketTable {
    /// A table without sockets.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self {
            sockets: Slab::new(),
            watches: Watches::new(),
            spares: Spares::default(),
            descriptors: Vec::new(),
            by_connection: Vec::new(),
            listeners: Vec::new(),
            unclaimed: Vec::new(),
            shares_ports: false,
            ends: false,
            roomless: Vec::new(),
            pending: 0,
            looks: Looks::default(),
            defaults,
            figures: SocketFigures::default(),
            without_effect: [0; WITHOUT_EFFECT.len()],
            next_port: defaults.first_port,
            ledger: None,
        }
    }

    /// Connections are written down from now on.
    pub fn set_ledger(&mut self, ledger: Box<dyn Ledger>) {
        self.ledger = Some(ledger);
    }

    fn note_established<N: Net>(&mut self, net: &N, id: ConnId) {
        if let Some(ledger) = &mut self.ledger
            && let (Some(remote), Some(local)) = (net.peer(id), net.local(id))
        {
            ledger.on_established(id.index(), remote, local);
        }
    }

    pub(crate) fn note_ended(&mut self, id: ConnId) {
        if let Some(ledger) = &mut self.ledger {
            ledger.on_ended(id.index());
        }
    }

    /// What was counted.
    #[must_use]
    pub const fn figures(&self) -> &SocketFigures {
        &self.figures
    }

    /// Options that change nothing here, by name, and how often each was set.
    pub fn options_without_effect(&self) -> impl Iterator<Item = (&'static str, u64)> {
        WITHOUT_EFFECT.iter().map(|(_, _, name)| *name).zip(self.without_effect)
    }

    /// An option was set that changes nothing here.
    pub(crate) fn note_without_effect(&mut self, level: i32, name: i32) {
        self.figures.options_ignored += 1;
        let place = WITHOUT_EFFECT.iter().position(|known| (known.0, known.1) == (level, name));
        debug_assert!(place.is_some(), "option {name} of level {level} has a name");
        if let Some(count) = place.and_then(|place| self.without_effect.get_mut(place)) {
            *count += 1;
        }
    }

    /// Sockets that there are, those that wait to be accepted included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that were given to the stack since its last turn: they leave in
    /// the next.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.pending
    }

    /// Whether each connection that the last look found ready has been dealt with, as far as can be
    /// seen: something was written to it, it was read to its end or to the end of what had come, or it
    /// was shut down or closed.
    #[inline]
    #[must_use]
    pub const fn is_all_answered(&self) -> bool {
        self.looks.is_all_answered()
    }

    /// Whether a descriptor is a socket or a set of this table.
    #[inline]
    #[must_use]
    pub fn is_ours(&self, fd: i32) -> bool {
        self.descriptor(fd) != Descriptor::Foreign
    }

    #[inline]
    pub(crate) fn descriptor(&self, fd: i32) -> Descriptor {
        usize::try_from(fd).ok().and_then(|fd| self.descriptors.get(fd)).copied().unwrap_or(Descriptor::Foreign)
    }

    /// Has a descriptor refer to something.
    pub(crate) fn set_descriptor(&mut self, fd: i32, to: Descriptor) {
        let Ok(fd) = usize::try_from(fd) else { return };
        if fd >= self.descriptors.len() {
            self.descriptors.resize(fd + 1, Descriptor::Foreign);
        }
        self.descriptors[fd] = to;
    }

    /// The numbers of all descriptors that are ours.
    pub fn ours(&self) -> impl Iterator<Item = i32> {
        let numbered = (0i32..).zip(&self.descriptors);
        numbered.filter(|(_, to)| **to != Descriptor::Foreign).map(|(fd, _)| fd)
    }

    /// What a set watches, by descriptors with their events and data: `None` if there is more among
    /// it than listeners.
    #[must_use]
    pub fn watched_listeners(&self, set: i32) -> Option<Vec<(i32, u32, u64)>> {
        let Descriptor::Set(set) = self.descriptor(set) else { return None };
        let is_listener = |at| self.sockets.get(at).is_some_and(|socket| matches!(socket.kind, Kind::Listener(_)));
        let watched = self.watches.of_set(set);
        watched.map(|(at, asked)| is_listener(at).then_some((asked.fd, asked.events, asked.data))).collect()
    }

    /// Ports that listeners are bound to, and whether anybody looks for connections to them: not
    /// where a listener's watches were all taken away.
    pub fn doors(&self) -> impl Iterator<Item = (u16, bool)> {
        let sockets = self.listeners.iter().filter_map(|at| self.sockets.get(*at));
        sockets.filter_map(|socket| {
            let Kind::Listener(listener) = &socket.kind else { return None };
            Some((socket.bound?.port(), !listener.put_off))
        })
    }

    /// The socket of a connection, if anybody holds it.
    #[inline]
    pub(crate) fn socket_of(&self, id: ConnId) -> u32 {
        self.by_connection.get(id.index()).copied().unwrap_or(NONE)
    }

    /// A connection belongs to a socket from now on, or to nobody.
    pub(crate) fn set_connection(&mut self, id: ConnId, socket: u32) {
        let index = id.index();
        if index >= self.by_connection.len() {
            if socket == NONE {
                return;
            }
            self.by_connection.resize(index + 1, NONE);
        }
        self.by_connection[index] = socket;
    }

    /// Those who watch a socket have something to look at.
    #[inline]
    pub(crate) fn wake(&mut self, socket: u32, events: u32) {
        if let Some(socket) = self.sockets.get(socket) {
            self.watches.wake(socket.watches, events);
        }
    }

    /// The listener that a connection to this address belongs to: the one that is
    /// bound to it, or else one of all addresses.
    fn listener_of(&self, local: SocketAddr) -> Option<u32> {
        let mut found = None;
        for &at in &self.listeners {
            let Some(socket) = self.sockets.get(at) else { continue };
            let Some(bound) = socket.bound.filter(|bound| bound.port() == local.port()) else { continue };
            if bound.ip() == local.ip() {
                return Some(at);
            }
            let family = bound.is_ipv4() == local.is_ipv4() || (bound.is_ipv6() && !socket.options.v6_only);
            if bound.ip().is_unspecified() && family {
                found = found.or(Some(at));
            }
        }
        found
    }

    /// Other processes accept on the same ports: connections whose listener is closed before anybody
    /// accepts them wait for [`Calls::give_unclaimed`](crate::Calls::give_unclaimed), which is to be
    /// called after each turn.
    pub const fn share_ports(&mut self) {
        self.shares_ports = true;
    }

    /// Whether a connection was finished since this was asked last. Its end is to leave before anything is looked at
    /// that came meanwhile (`Silo::send_said`), as the kernel sends it from within close(2): whom a reset reaches first
    /// that his last words came to takes them for lost, and not for unanswered.
    #[inline]
    pub fn take_ends(&mut self) -> bool {
        core::mem::take(&mut self.ends)
    }

    /// How many such connections there are.
    #[must_use]
    pub const fn unclaimed(&self) -> usize {
        self.unclaimed.len()
    }

    /// A handshake was completed after its listener was closed.
    #[cold]
    fn keep_unclaimed<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if !self.shares_ports {
            return net.abort(id);
        }
        let mut stream = Stream::new(id, Told::Connected, net.now());
        stream.established = true;
        let mut socket = self.fresh(false, false);
        socket.refs = 0;
        socket.kind = Kind::Stream(Box::new(stream));
        let new = self.sockets.insert(socket);
        self.unclaimed.push(new);
        self.set_connection(id, new);
        self.note_established(net, id);
    }

    /// A connection waits to be accepted, with a socket of its own already, for
    /// data may come before.
    pub(crate) fn queue_accepted<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let listener = net.local(id).and_then(|local| self.listener_of(local));
        let Some(at) = listener else { return self.keep_unclaimed(net, id) };
        let Some(socket) = self.sockets.get_mut(at) else { return net.abort(id) };
        let Kind::Listener(listener) = &mut socket.kind else { return net.abort(id) };
        // As in Linux, one more than the backlog says may wait.
        if listener.queue.len() > listener.backlog {
            self.figures.accept_overflows += 1;
            return net.abort(id);
        }
        let mut stream = Stream::new(id, Told::Connected, net.now());
        stream.established = true;
        stream.peer = net.peer(id);
        stream.local = net.local(id);
        let own_address = socket.own_address;
        let mut accepted = Socket::new(socket.v6, false, socket.options);
        accepted.refs = 0;
        accepted.bound = stream.local;
        accepted.any_port = true;
        accepted.own_address = own_address;
        accepted.kind = Kind::Stream(Box::new(stream));
        let new = self.sockets.insert(accepted);
        if let Some(Socket { kind: Kind::Listener(listener), .. }) = self.sockets.get_mut(at) {
            listener.queue.push_back(new);
        }
        self.set_connection(id, new);
        self.note_established(net, id);
        self.wake(at, READABLE);
    }
}

/// What Linux wakes those with who wait for data (`sock_def_readable` in
/// net/core/sock.c).
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND).cast_unsigned();

/// And those who wait for room (`sk_stream_write_space` in net/core/stream.c).
pub(crate) const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND).cast_unsigned();

/// A change of state, of which all are told (`sock_def_wakeup`).
pub(crate) const CHANGED: u32 = 0;

/// An error, whether it is told or not (`sock_def_error_report`).
pub(crate) const FAILED: u32 = libc::EPOLLERR.cast_unsigned();

/// How long a connection without a descriptor is kept whose peer does not
/// finish (Linux: `tcp_fin_timeout`).
pub(crate) const ORPHAN_LINGERS: core::time::Duration = core::time::Duration::from_secs(60);

impl App for SocketTable {
    /// The program does, when it has been told.
    const ANSWERS_LATER: bool = true;

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Accepted {
            return self.queue_accepted(net, id);
        }
        let at = self.socket_of(id);
        if at == NONE {
            // Begun to end a connection of another process's: see `Calls::end_lost`.
            return net.abort(id);
        }
        self.note_established(net, id);
        let (local, now) = (net.local(id), net.now());
        let Some(stream) = self.sockets.get_mut(at).and_then(Socket::stream_mut) else { return };
        stream.established = true;
        stream.local = local;
        stream.last_data = now;
        self.wake(at, CHANGED);
    }

    #[inline]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let at = self.socket_of(id);
        let Some(socket) = self.sockets.get_mut(at) else {
            // Nobody will read it: the peer must hear of that (RFC 1122
            // section 4.2.2.13).
            self.figures.orphans_reset += 1;
            net.abort(id);
            return data.len();
        };
        let watches = socket.watches;
        let low_water = socket.options.receive_low_water as usize;
        let Some(stream) = socket.kind.stream_mut() else { return data.len() };
        if stream.held == 0 && !stream.is_disturbed() && stream.inbox.has_room(data.len()) {
            stream.inbox.append(data, &mut self.spares);
            stream.last_data = net.now();
            stream.segments.on_segment(data.len() as u32);
            if low_water <= 1 || stream.readable() >= low_water {
                self.watches.wake(watches, READABLE);
            }
            return data.len();
        }
        cold_path();
        let new = data.len() - stream.held.min(data.len());
        if stream.deaf && stream.finished && new > 0 {
            // Linux: `tcp_rcv_state_process`, in the states that follow our FIN.
            net.abort(id);
            return data.len();
        }
        let taken = stream.inbox.put(data, &mut self.spares);
        stream.held = data.len() - taken;
        if new > 0 {
            stream.last_data = net.now();
            stream.segments.on_segment(new as u32);
            self.figures.inbox_full += u64::from(stream.held > 0);
            if low_water <= 1 || stream.readable() >= low_water {
                self.watches.wake(watches, READABLE);
            }
        }
        taken
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let at = self.socket_of(id);
        let Some(stream) = self.sockets.get_mut(at).and_then(Socket::stream_mut) else {
            // An orphan has finished already.
            net.finish(id);
            return;
        };
        stream.ended = true;
        stream.disturb();
        stream.held = held;
        self.wake(at, CHANGED);
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, id: ConnId) {
        let at = self.socket_of(id);
        let Some(stream) = self.sockets.get_mut(at).and_then(Socket::stream_mut) else { return };
        if stream.no_space && !stream.listed {
            stream.listed = true;
            self.roomless.push(at);
        }
    }

    /// Set for orphans alone: their peers had time to finish.
    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.socket_of(id) == NONE {
            net.abort(id);
        }
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, why: Closed) {
        let at = self.socket_of(id);
        self.set_connection(id, NONE);
        self.note_ended(id);
        let Some(socket) = self.sockets.get_mut(at) else { return };
        socket.free_port();
        let Some(stream) = socket.stream_mut() else { return };
        stream.held = 0;
        stream.error = match why {
            // By us, for what came after nobody would read it.
            Closed::Aborted => Some(errno::Errno(libc::ECONNRESET)),
            _ => errno::of_close(why, stream.ended),
        };
        stream.closed = Some(why);
        stream.disturb();
        self.wake(at, CHANGED);
    }

    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        self.pending = 0;
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        self.sockets.len() == 0
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        let socket = self.sockets.get(self.socket_of(id));
        socket.and_then(Socket::stream).map_or(0, |stream| stream.held as u64)
    }
}

const _: () = assert!(INBOX <= app::HELD_LIMIT, "what an inbox has no room for, the stack can hold");

impl SocketTable {
    /// A socket that is new, for IPv6 or IPv4.
    pub(crate) fn fresh(&self, v6: bool, nonblocking: bool) -> Socket {
        Socket::new(v6, nonblocking, Options::new(self.defaults.send_limit))
    }
}
