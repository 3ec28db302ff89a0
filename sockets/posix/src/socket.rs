//! What is known of a socket.

use crate::errno::Errno;
use crate::info::SegmentSize;
use crate::options::Options;
use app::{Closed, ConnId};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;
use wire::Time;

/// Bytes of a connection that nobody has read yet and that were taken from the
/// stack as they came. The connection is then quiet, and stays on the stack's
/// short ways; what comes beyond waits in the stack, and closes the window.
pub const INBOX: usize = 16 * 1024;

/// A socket: what Linux calls an open file description. Several descriptors may
/// refer to it (dup(2)).
#[derive(Debug)]
pub(crate) struct Socket {
    /// What it became.
    pub kind: Kind,
    /// Descriptors that refer to it; none while it waits to be accepted.
    pub refs: u32,
    /// It was made for IPv6.
    pub v6: bool,
    /// Calls on it do not block (`O_NONBLOCK`).
    pub nonblocking: bool,
    /// What it was bound to.
    pub bound: Option<SocketAddr>,
    /// Its port was not its caller's choice: it is given back when what it was for is over
    /// (Linux: `tcp_set_state` in net/ipv4/tcp.c, without `SOCK_BINDPORT_LOCK`).
    pub any_port: bool,
    /// Its address was its caller's choice, and stays (`SOCK_BINDADDR_LOCK`).
    pub own_address: bool,
    /// Its options.
    pub options: Options,
    /// The first of the watches on it.
    pub watches: u32,
}

/// What a socket became.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Nothing yet, or nothing any more.
    Fresh(Past),
    /// It accepts connections.
    Listener(Listener),
    /// A connection's end.
    Stream(Box<Stream>),
}

impl Kind {
    /// A connection's end, if it is one.
    #[inline]
    pub const fn stream_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}

/// What a socket without a connection keeps of what was done to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// An error that was not told.
    pub error: Option<Errno>,
    /// Reading was shut down, which a connection that follows inherits.
    pub deaf: bool,
    /// Writing was.
    pub finished: bool,
    /// The address that its last connection had here.
    pub local: Option<SocketAddr>,
}

/// A listener's.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Connections that may wait; one more does.
    pub backlog: usize,
    /// Sockets of connections that wait to be accepted.
    pub queue: VecDeque<u32>,
    /// It was watched, and is not any more: who has it looks for connections later.
    pub put_off: bool,
    /// What it was before.
    pub past: Past,
}

/// How far a `connect` is told (Linux: `enum socket_state`, include/uapi/linux/net.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Nobody was told of the outcome.
    Connecting,
    /// The socket is connected, or was accepted.
    Connected,
    /// It was shut down before anybody was told.
    Disconnecting,
}

/// A connection's end.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The connection; a handle of one that is over names nothing.
    pub id: ConnId,
    /// Whether a `connect` was told of the outcome.
    pub told: Told,
    /// The handshake is complete.
    pub established: bool,
    /// The peer finished.
    pub ended: bool,
    /// We finished, or can send no more.
    pub finished: bool,
    /// Reading was shut down.
    pub deaf: bool,
    /// One of these, or of the next two ([`Stream::is_disturbed`]).
    disturbed: bool,
    /// It is over.
    pub closed: Option<Closed>,
    /// Why, not told yet.
    pub error: Option<Errno>,
    /// Somebody found no room to write, and was not told since that there is
    /// some (Linux: `SOCK_NOSPACE`).
    pub no_space: bool,
    /// It stands in the list of those that are looked at each turn for room.
    pub listed: bool,
    /// Bytes that were not read yet and lie here.
    pub inbox: Inbox,
    /// Bytes behind these that lie with the stack.
    pub held: usize,
    /// Both ends' addresses, once they are known: the stack forgets them.
    pub local: Option<SocketAddr>,
    /// The peer's.
    pub peer: Option<SocketAddr>,
    /// When data last came, or the connection was opened.
    pub last_data: Time,
    /// How long the peer's segments are.
    pub segments: SegmentSize,
    /// Nothing was read since it began, or since something was written.
    pub has_answered: bool,
    /// The look that found it ready, if it was not dealt with since ([`crate::looks::Looks`]).
    pub look: u32,
}

impl Stream {
    /// One that begins.
    pub fn new(id: ConnId, told: Told, now: Time) -> Self {
        Self {
            id,
            told,
            established: false,
            ended: false,
            finished: false,
            deaf: false,
            disturbed: false,
            closed: None,
            error: None,
            no_space: false,
            listed: false,
            inbox: Inbox::default(),
            held: 0,
            local: None,
            peer: None,
            last_data: now,
            segments: SegmentSize::default(),
            has_answered: true,
            look: 0,
        }
    }

    /// Bytes that can be read.
    #[inline]
    pub fn readable(&self) -> usize {
        self.inbox.len() + self.held
    }

    /// Whether anything has happened to either direction since both were open: an end of whichever
    /// side, or an error, told or not.
    #[inline]
    pub const fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Something has.
    pub const fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Bytes are read: 1 where an exchange begins by that, and else 0.
    #[inline]
    pub const fn begin_exchange(&mut self) -> u64 {
        core::mem::replace(&mut self.has_answered, false) as u64
    }

    /// Whether nothing more can be received (Linux: `RCV_SHUTDOWN`).
    #[inline]
    pub const fn is_shut_for_reading(&self) -> bool {
        self.ended || self.deaf || self.closed.is_some()
    }

    /// Whether nothing more can be sent (Linux: `SEND_SHUTDOWN`).
    #[inline]
    pub const fn is_shut_for_writing(&self) -> bool {
        self.finished || self.closed.is_some()
    }
}

impl Socket {
    /// A fresh one.
    pub const fn new(v6: bool, nonblocking: bool, options: Options) -> Self {
        let watches = crate::slab::NONE;
        let past = Past { error: None, deaf: false, finished: false, local: None };
        Self {
            kind: Kind::Fresh(past),
            refs: 1,
            v6,
            nonblocking,
            bound: None,
            any_port: false,
            own_address: false,
            options,
            watches,
        }
    }

    /// What was done to it before it is what it is.
    pub fn past(&self) -> Past {
        match &self.kind {
            Kind::Fresh(past) => *past,
            Kind::Listener(listener) => listener.past,
            Kind::Stream(_) => Past::default(),
        }
    }

    /// The address of a connection that is over is told no more, but its port is.
    pub fn forget_address(&mut self) {
        let any = unspecified(self.v6).ip();
        if let Kind::Stream(stream) = &mut self.kind
            && let Some(local) = &mut stream.local
        {
            local.set_ip(any);
        }
    }

    /// What it had a port for is over.
    pub const fn free_port(&mut self) {
        if self.any_port {
            self.bound = None;
            self.any_port = false;
        }
    }

    /// It is connected no more, and may be again; its connection, if it was there still (Linux:
    /// `tcp_disconnect` in net/ipv4/tcp.c).
    pub fn forget_connection(&mut self) -> Option<ConnId> {
        let Kind::Stream(stream) = &mut self.kind else { return None };
        let id = stream.closed.is_none().then_some(stream.id);
        let last = stream.ended && stream.finished;
        let lost = stream.closed.is_none() && !last;
        let any = unspecified(self.v6).ip();
        let own_address = self.own_address;
        let past = Past {
            error: if lost { Some(Errno(libc::ECONNRESET)) } else { stream.error },
            local: stream.local.map(|local| SocketAddr::new(if own_address { local.ip() } else { any }, local.port())),
            ..Past::default()
        };
        self.kind = Kind::Fresh(past);
        if id.is_some() {
            self.free_port();
        }
        id
    }

    /// Its connection's end, if it is one.
    #[inline]
    pub const fn stream(&self) -> Option<&Stream> {
        match &self.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub const fn stream_mut(&mut self) -> Option<&mut Stream> {
        self.kind.stream_mut()
    }
}

/// Bytes that were received and not read. Its memory is given back when it is
/// empty.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Bytes that were read.
    start: usize,
}

/// Buffers of inboxes that are in no use, of [`INBOX`] bytes at most.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

/// Spare buffers that are kept: a burst of a turn has some.
const MOST_SPARES: usize = 64;

impl Inbox {
    /// Bytes that can be read.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// These bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Whether there is room for so many bytes more, without anything to be moved.
    #[inline]
    pub const fn has_room(&self, len: usize) -> bool {
        self.bytes.len() + len <= INBOX
    }

    /// Takes bytes that there is room for.
    #[inline(always)]
    pub fn append(&mut self, bytes: &[u8], spares: &mut Spares) {
        if self.bytes.capacity() == 0
            && let Some(spare) = spares.0.pop()
        {
            self.bytes = spare;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes as many bytes as there is room for; how many.
    #[inline]
    pub fn put(&mut self, bytes: &[u8], spares: &mut Spares) -> usize {
        let len = bytes.len().min(INBOX - self.len());
        if self.start > 0 && self.bytes.len() + len > INBOX {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.append(&bytes[..len], spares);
        len
    }

    /// The first bytes were read.
    #[inline]
    pub fn consume(&mut self, len: usize, spares: &mut Spares) {
        self.start += len;
        if self.start >= self.bytes.len() {
            self.clear(spares);
        }
    }

    /// Forgets all bytes.
    #[inline]
    pub fn clear(&mut self, spares: &mut Spares) {
        self.start = 0;
        self.bytes.clear();
        if self.bytes.capacity() > 0 && spares.0.len() < MOST_SPARES {
            spares.0.push(core::mem::take(&mut self.bytes));
        } else {
            self.bytes = Vec::new();
        }
    }
}

/// No address and no port, of a family.
pub(crate) const fn unspecified(v6: bool) -> SocketAddr {
    let ip = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    SocketAddr::new(ip, 0)
}
