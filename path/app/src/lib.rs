//! The `App` trait: what the web server and the load generator are written
//! against, once, for both data paths.
//!
//! A data path (the silo over our own stack, or a worker over kernel sockets)
//! owns the connections and calls the application; the application acts
//! through [`Net`], which the data path implements. Both run on one thread and
//! share nothing with other threads, so nothing here is `Send` or locked.
//!
//! Call order for one connection:
//!
//! ```text
//! on_open ─► (on_data | on_sent | on_timer)* ─► on_end? ─► … ─► on_close
//! ```
//!
//! `on_close` is the last call for an id, and comes exactly once for every
//! `on_open`, or once in place of it where a [`Net::connect`] fails.
#![forbid(unsafe_code)]

mod body;
mod counters;
mod sources;

pub use body::{Body, Reads};
pub use sources::{Prefix, PrefixError, SourceKey, SourceRule, Sources};

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use wire::Time;

/// A connection, by slot and generation: a handle kept past the connection's
/// end names nothing, never the slot's next owner.
///
/// Slots are dense from zero, so an application keeps its own state per
/// connection in a plain table indexed by [`ConnId::index`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// A handle for `slot` in its `generation`; made by data paths only.
    #[inline]
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The slot, for indexing an application's own table.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.slot as usize
    }

    /// The slot's generation.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// How a connection came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// A peer connected to a listener of ours.
    Accepted,
    /// A [`Net::connect`] of ours was answered.
    Connected,
}

/// Why a connection is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// Both sides finished, everything was delivered.
    Finished,
    /// The peer reset it.
    Reset,
    /// The peer refused the connection (RST to our SYN).
    Refused,
    /// Retransmissions, probes or keepalives went unanswered.
    TimedOut,
    /// The network said that the peer cannot be reached.
    Unreachable(Unreachable),
    /// We ended it: [`Net::abort`], or the data path shutting down.
    Aborted,
}

/// What the network said of a peer that cannot be reached, as far as systems
/// tell it apart: an ICMP error's type and code (RFC 792, RFC 1122 section
/// 3.2.2.1, RFC 4443 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// No way leads to its network.
    Network,
    /// It does not answer, or not to us; or packets ran out of hops.
    Host,
    /// The router before it knows that there is no such host.
    NoHost,
    /// Our host is cut off.
    Isolated,
    /// It does not speak the protocol.
    Protocol,
    /// It does not listen on the port.
    Port,
    /// A source route failed.
    SourceRoute,
    /// A policy forbids it.
    Prohibited,
    /// A router or the peer did not understand the packet's header.
    Header,
}

/// Why [`Net::connect`] could not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No route leads to the address, or its family has no local address.
    NoRoute,
    /// Every port of the asked-for local address is in use towards this peer.
    NoPort,
    /// The data path's connection limit is reached; retry when one closes.
    Full,
    /// The path cannot be a Unix socket's: it has from 1 to 107 bytes, and no NUL.
    Path,
    /// Too many wait to be accepted at the Unix socket, which tells nobody when
    /// that has passed (connect(2), EAGAIN).
    Busy,
    /// Nobody listens at the Unix socket.
    Refused,
    /// There is no such Unix socket.
    Missing,
    /// This process may not connect to the Unix socket.
    Denied,
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoRoute => "no route to the address from any local address",
            Self::NoPort => "no free local port towards this address",
            Self::Full => "the connection limit is reached",
            Self::Path => "a Unix socket's path has from 1 to 107 bytes",
            Self::Busy => "too many wait to be accepted at the Unix socket",
            Self::Refused => "nobody listens at the Unix socket",
            Self::Missing => "there is no such Unix socket",
            Self::Denied => "the Unix socket is not for this process",
        })
    }
}

impl core::error::Error for ConnectError {}

/// What an application wants of the next turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// More work is ready: call again without waiting.
    Now,
    /// Nothing to do before this time, unless something arrives.
    At(Time),
    /// Nothing to do until something arrives.
    Idle,
}

impl Wake {
    /// The one of both that comes first: for an application made of several.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::Idle, wake) | (wake, Self::Idle) => wake,
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
        }
    }
}

/// Why a file that was queued is not sent to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendFileError {
    /// The call that told: `sendfile()` or `pread()`.
    pub call: &'static str,
    /// What the system said (errno(3)); none where the file is shorter than what was to be sent of it.
    pub errno: Option<i32>,
    /// Where in the file.
    pub at: u64,
}

/// How TCP has found the path of a connection, in the units of Linux's `TCP_INFO` (tcp(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathFigures {
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Its variation, in microseconds.
    pub rttvar_us: u32,
    /// The congestion window, in full segments.
    pub cwnd: u32,
    /// How much the peer may send, in bytes.
    pub receive_space: u32,
}

/// What a data path offers to an application, during a call to it.
///
/// Every method that takes an id ignores (and getters answer with the empty
/// value for) a connection that is gone: a late call is harmless.
pub trait Net {
    /// The time of this turn; it does not move during the turn. Over kernel
    /// sockets, where each event costs a system call, a turn is one event.
    fn now(&self) -> Time;

    /// Starts a connection. The outcome comes as `on_open(Connected)` or
    /// `on_close`. `from` chooses the local address (any, if `None`); the
    /// local port is chosen by the data path.
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing was started.
    fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError>;

    /// Starts a connection to the Unix stream socket at `path`; one that begins
    /// with `@` names an abstract one (unix(7)). The outcome comes as that of
    /// [`Net::connect`]. A data path without Unix sockets, the default, has no
    /// route there.
    ///
    /// # Errors
    /// See [`ConnectError`]; nothing was started.
    fn connect_unix(&mut self, path: &Path) -> Result<ConnId, ConnectError> {
        let _ = path;
        Err(ConnectError::NoRoute)
    }

    /// Queues `range` of a shared body, without copying. An empty range
    /// queues nothing.
    fn send_body(&mut self, id: ConnId, body: &Body, range: core::ops::Range<u32>);

    /// Queues all of `body`, if less than `limit` bytes are unsent. Returns
    /// whether that was so: both at once, for the price of one look at the
    /// connection.
    #[inline]
    fn reply(&mut self, id: ConnId, body: &Body, limit: usize) -> bool {
        let room = self.unsent(id) < limit;
        if room {
            self.send_body(id, body, 0..body.len());
        }
        room
    }

    /// Queues a copy of `bytes`: for heads and other small owned chunks.
    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]);

    /// Queues `range` of a file, if this data path can send files without
    /// taking them through the application's memory (sendfile(2), splice(2));
    /// returns whether it was queued. Where it was not, the application reads
    /// the file itself. Its bytes count as unsent. A file that turns out
    /// shorter than `range` ends the connection with a reset.
    #[inline]
    fn send_file(&mut self, id: ConnId, file: &Arc<OwnedFd>, range: core::ops::Range<u64>) -> bool {
        let _ = (id, file, range);
        false
    }

    /// Has the next `len` bytes that arrive at `from` go to `to`, behind what is queued
    /// there, without the application (splice(2)); returns whether that begins. Where it
    /// does not, as by default, nothing was changed, and the application passes them on
    /// by itself. While it lasts, [`App::on_passed`] tells how many went, in place of
    /// [`App::on_data`]; what the application leaves unconsumed in the call that it begins
    /// in goes first. Nothing else may be queued at `to` meanwhile, and neither be
    /// finished. It ends with the last byte, with `from`'s end, and where either
    /// connection is gone; bytes on their way count as unsent at `to`.
    #[inline]
    fn pass(&mut self, from: ConnId, to: ConnId, len: u64) -> bool {
        let _ = (from, to, len);
        false
    }

    /// Takes back at most `most` bytes of what is queued, from the end on, as
    /// far as they were never sent, if the data path can: returns how many
    /// that is. None after [`Net::finish`].
    #[inline]
    fn take_back(&mut self, id: ConnId, most: usize) -> usize {
        let _ = (id, most);
        0
    }

    /// Bytes queued and not yet acknowledged by the peer (over kernel
    /// sockets: not yet taken by the kernel). `on_sent` comes
    /// each time that this falls to the low-water mark or below.
    fn unsent(&self, id: ConnId) -> usize;

    /// Bytes queued and not yet acknowledged by the peer, over kernel sockets too, where a system call
    /// asks for it: what a reset would take back.
    fn undelivered(&self, id: ConnId) -> usize {
        self.unsent(id)
    }

    /// Sends FIN after everything queued. Data may still be received.
    fn finish(&mut self, id: ConnId);

    /// As [`Net::finish`], for a peer that has announced to send no more
    /// (RFC 9112 §9.6): the data path need not wait for its FIN, and may
    /// answer what it sends all the same with a reset.
    #[inline]
    fn close(&mut self, id: ConnId) {
        self.finish(id);
    }

    /// Ends the connection at once with a reset; over kernel sockets without one where our FIN follows all that was
    /// queued: the kernel delivers what it has of that. `on_close(Aborted)` follows.
    fn abort(&mut self, id: ConnId);

    /// Offers unconsumed data again before the end of this turn: call it when
    /// what made `on_data` leave bytes unconsumed has passed.
    fn resume(&mut self, id: ConnId);

    /// How much is received from now on, up to the next [`Net::resume`], which has all received: where an
    /// application says that it has no room, what arrives stays with the sender, and is no memory of ours.
    /// Nothing by default: up to [`HELD_LIMIT`] is received that the application leaves.
    #[inline]
    fn set_receiving(&mut self, id: ConnId, how: Receiving) {
        let _ = (id, how);
    }

    /// An answer to what came last follows within a few milliseconds, though none is queued in
    /// this call: nothing need be acknowledged before it. Nothing by default.
    #[inline]
    fn answers_soon(&mut self, id: ConnId) {
        let _ = id;
    }

    /// Most bytes per second that leave from now on, evenly, beside what the data path was told for all
    /// (`SO_MAX_PACING_RATE`, socket(7)); 0 is taken for 1. Returns whether that begins: not where the data
    /// path cannot, as by default, nor while something that was queued before is not
    /// [delivered](Net::undelivered), which would wait, too. `None`: what is queued from
    /// now on has no rate of its own; what was queued before keeps it.
    fn pace(&mut self, id: ConnId, rate: Option<u64>) -> bool {
        let _ = (id, rate);
        false
    }

    /// Sets or clears the connection's one application timer. Cheap: moving
    /// it later costs a store. Resolution is a millisecond, never early.
    fn set_timer(&mut self, id: ConnId, at: Option<Time>);

    /// How TCP has found the connection's path; none where it is no TCP's, and by default.
    fn path_figures(&self, id: ConnId) -> Option<PathFigures> {
        let _ = id;
        None
    }

    /// Whether what [`App::on_data`] is offered may lie where another process
    /// still writes meanwhile: then what is decided by it more than once, or
    /// remembered of it, is to be read from a copy. The same for all
    /// connections of the data path, as long as it is there. False by default.
    #[inline]
    fn shares_frames(&self) -> bool {
        false
    }

    /// Secures the connection with `layer` from here on, both ways; returns whether that
    /// begins. What was queued before goes out as it is, what is queued from now on is
    /// plaintext, which records carry; what arrived and was not consumed, the bytes that the
    /// application leaves in the call at hand included, is the peer's records, and
    /// [`App::on_data`] gets their plaintext. [`App::on_end`] comes with the peer's
    /// close_notify, or with its FIN where none came ([`Net::was_cut`]); what is sent ends
    /// with close_notify before the FIN. Once for a connection, and not after
    /// [`Net::finish`]. A data path that cannot, the default, has changed nothing.
    fn secure(&mut self, id: ConnId, layer: Box<dyn seal::Layer>) -> bool {
        let _ = (id, layer);
        false
    }

    /// Whether a secured connection's peer ended without saying so in a record, so that
    /// somebody on the way may have ended it (RFC 8446 section 6.1): by a FIN alone, or by
    /// what could not be opened.
    fn was_cut(&self, id: ConnId) -> bool {
        let _ = id;
        false
    }

    /// Whether it ended by what could not be opened: somebody changed it on the way, and what was
    /// said before is not all. A data path that ends such connections at once, the default, says no.
    fn was_broken(&self, id: ConnId) -> bool {
        let _ = id;
        false
    }

    /// Why the connection is ended for a file that was queued ([`Net::send_file`]), while [`App::on_close`] is
    /// told of that; none by default.
    fn send_file_error(&self, id: ConnId) -> Option<SendFileError> {
        let _ = id;
        None
    }

    /// The peer's address; `None` for a Unix socket.
    fn peer(&self, id: ConnId) -> Option<SocketAddr>;

    /// Our own address; `None` for a Unix socket.
    fn local(&self, id: ConnId) -> Option<SocketAddr>;

    /// Which Unix socket the client connected to: the [number](path_number) of its path, as
    /// it is listened on; `None` for anything else.
    fn local_unix(&self, id: ConnId) -> Option<u64> {
        let _ = id;
        None
    }
}

/// A number for the path of a Unix socket, which an abstract one begins with `@` (FNV-1a
/// of 64 bits). Who listens chooses the paths, and nobody else.
#[must_use]
pub const fn path_number(path: &[u8]) -> u64 {
    let (mut number, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < path.len() {
        number = (number ^ path[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    number
}

/// How much of what arrives is received ([`Net::set_receiving`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiving {
    /// As much as there is.
    All,
    /// The same, [`LITTLE`] at a time.
    Little,
    /// Nothing, as long as the application has left some of what came.
    Nothing,
}

/// Bytes that are received at a time, at most, where it is to be little ([`Receiving::Little`]).
pub const LITTLE: usize = 8 << 10;

/// An application: a per-silo value that owns its connections' state.
///
/// Only [`App::on_data`] must be written: the others do nothing by default, but
/// for [`App::on_end`], which finishes as well. It must not panic: a panic is not
/// caught, and unwinds through the data path.
pub trait App {
    /// It answers what comes in a later turn than that which brings it, if at all: a data path
    /// need not look for an answer behind [`App::on_data`]. Not so by default.
    const ANSWERS_LATER: bool = false;

    /// The same of one connection, asked behind [`App::on_data`] where nothing of it leaves: what it is to be sent
    /// comes in a later call, if at all. Where that is so, it has no turn of its own to find that out. Not so by
    /// default.
    #[inline]
    fn answers_later(&self, id: ConnId) -> bool {
        let _ = id;
        false
    }

    /// A connection is established.
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        let _ = (net, id, how);
    }

    /// In-order bytes arrived. Returns how many were consumed, from the
    /// front. The rest is kept by the data path (and closes the receive
    /// window), and is offered again, in one piece with what follows it, when
    /// more arrives or after [`Net::resume`]. The data path keeps at least
    /// [`HELD_LIMIT`] unconsumed bytes before it stops receiving.
    #[must_use]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize;

    /// So many bytes more that arrived at `id` went to another connection
    /// ([`Net::pass`]).
    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        let _ = (net, id, bytes);
    }

    /// The peer sends no more (FIN), after all of its data was offered.
    /// `held` bytes were left unconsumed and will not be added to. Finishes by
    /// default: whoever leaves bytes that are still to be answered finishes
    /// later.
    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let _ = held;
        net.finish(id);
    }

    /// The queue fell to the low-water mark ([`SEND_LOW_WATER`]) or below.
    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let _ = (net, id);
    }

    /// What secures the connection is nearly used up, and cannot be made anew: the
    /// connection is to end after what is under way. Told once. It is finished by default.
    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        net.finish(id);
    }

    /// The connection's timer ran out; it is cleared before the call.
    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let _ = (net, id);
    }

    /// The connection is gone; its slot may be reused from the next call on.
    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let _ = (net, id, why);
    }

    /// Once per turn, after arrivals and timers: start connections, take
    /// finished work from helper threads. Again where it went on with a
    /// connection ([`Net::resume`]), after what was held was offered: what
    /// that began is on its way in the same turn.
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let _ = net;
        Wake::Idle
    }

    /// A turn is over: what it queued was shown to the peer, or given to the kernel,
    /// by `now`. Not every turn is told of; the next one that is stands for those
    /// before it.
    #[inline]
    fn on_turn_over(&mut self, now: Time) {
        let _ = now;
    }

    /// Whether a call since [`App::on_turn`] left something that only that does: then it is
    /// called once more before anything is waited for. A data path calls some of the others
    /// behind it ([`App::on_sent`] as it sends what a turn queued, [`App::on_close`]), and asks
    /// this then. An application that does all it has to in those calls keeps the default, no.
    #[inline]
    fn has_work(&self) -> bool {
        false
    }

    /// A frame for `id` will be handled soon: touch its state, so that cache
    /// misses of one burst overlap. Returns anything computed from the touch.
    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        let _ = id;
        0
    }

    /// Requests that wait or are being served: what makes a new one wait.
    /// Where new connections are given to the silo with the least of them,
    /// count from the start of a connection that brings one request. 0 leaves
    /// the choice to the number of connections.
    #[inline]
    fn working(&self) -> u32 {
        0
    }

    /// How long, by `now`, a connection has waited for nothing but what its
    /// peer may ask next, or its end; `None` where it is to be kept. At the limit on
    /// connections one that has waited long is closed for each new one, if it
    /// has sent all that was queued. Keeps all by default.
    #[inline]
    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        let _ = (id, now);
        None
    }

    /// Readable when a thread of the application's own has something for it: a data path that
    /// sleeps wakes, and calls [`App::on_turn`], which sees to it that this is readable no more.
    /// None by default: then nothing but the network and timers wakes it.
    #[inline]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The process was asked to stop: finish what is under way, refuse new
    /// work. Returns whether nothing is left: always, by default.
    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        let _ = net;
        true
    }
}

/// Connections that a data path looks at, at most, to find one that makes room
/// for a new one.
pub const IDLE_LOOKS: usize = 256;

/// Idle connections among which it takes the one that has waited longest.
pub const IDLE_CHOICES: usize = 16;

/// How long it does not look again after it has found none.
pub const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// Unconsumed bytes that a data path holds for a connection, at least.
/// Larger than any message head that an application accepts, smaller than
/// what would let a slow reader cost real memory.
pub const HELD_LIMIT: usize = 64 * 1024;

/// `on_sent` comes when the queue falls to this or below. Half of the usual
/// chunk of a streamed file, so that the next chunk is ready in time.
pub const SEND_LOW_WATER: usize = 64 * 1024;
