//! Sockets: an application that does what system calls ask of it.
//!
//! Bytes that nobody has read yet stay with the stack, whose window closes as
//! on a slow application; a read takes them by [`Net::resume`].

mod calls;

use crate::errno::{self, Errno, Result};
use crate::info::SegmentSize;
use crate::options::Options;
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::Time;

/// All sockets and connections of a host.
#[derive(Debug)]
pub struct Sockets {
    /// By descriptor.
    pub open: BTreeMap<i32, Socket>,
    /// By handle; an entry stays until its connection is over and its socket
    /// closed.
    pub connections: HashMap<ConnId, Connection>,
    /// What [`libc::SO_SNDBUF`] is unless set.
    pub send_limit: usize,
    /// What [`libc::TCP_NOTSENT_LOWAT`] is unless set.
    pub not_sent_low_water: u32,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// What it became.
    pub kind: Kind,
    /// It was made for IPv6.
    pub v6: bool,
    /// Calls on it do not block.
    pub nonblocking: bool,
    /// What it was bound to.
    pub bound: Option<SocketAddr>,
    /// Its options.
    pub options: Options,
}

/// What a socket became.
#[derive(Debug)]
pub enum Kind {
    /// Nothing yet.
    Fresh,
    /// It accepts connections.
    Listener {
        /// Its port.
        port: u16,
        /// Connections that may wait.
        backlog: usize,
        /// Connections that wait to be accepted.
        queue: VecDeque<ConnId>,
    },
    /// A connection's end.
    Stream(ConnId),
    /// A set of descriptors to be watched.
    Epoll(crate::ready::Epoll),
}

/// What the application knows of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// The handshake is complete.
    pub established: bool,
    /// The peer finished.
    pub ended: bool,
    /// It is over.
    pub closed: Option<Closed>,
    /// Why, not told yet.
    pub error: Option<Errno>,
    /// We finished.
    pub finished: bool,
    /// Reading was shut down.
    pub deaf: bool,
    /// Nobody holds a socket on it any more.
    pub orphan: bool,
    /// Bytes taken from the stack and not read yet.
    pub data: VecDeque<u8>,
    /// Bytes to be taken when they are next offered.
    take: usize,
    /// Bytes that were offered and not taken, at last.
    offered: usize,
    /// When data last came, or the connection was opened.
    pub last_data: Time,
    /// How long the peer's segments are.
    pub segments: SegmentSize,
    /// The socket was found to have no room, and nobody was told since that it
    /// has (Linux: `SOCK_NOSPACE`).
    pub no_space: bool,
    /// Counts what made the socket readable.
    pub in_events: u64,
    /// Counts what made the socket writable.
    pub out_events: u64,
}

impl Sockets {
    /// None yet.
    pub fn new(send_limit: usize, not_sent_low_water: u32) -> Self {
        Self { open: BTreeMap::new(), connections: HashMap::new(), send_limit, not_sent_low_water }
    }

    /// The socket of a descriptor.
    pub fn socket(&self, fd: i32) -> Result<&Socket> {
        self.open.get(&fd).ok_or(Errno(libc::EBADF))
    }

    /// The same, to be changed.
    pub fn socket_mut(&mut self, fd: i32) -> Result<&mut Socket> {
        self.open.get_mut(&fd).ok_or(Errno(libc::EBADF))
    }

    /// The connection of a descriptor.
    pub fn stream(&self, fd: i32) -> Result<ConnId> {
        match self.socket(fd)?.kind {
            Kind::Stream(id) => Ok(id),
            Kind::Epoll(_) => Err(Errno(libc::ENOTSOCK)),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// What is known of a connection that a socket or queue refers to.
    pub fn connection(&mut self, id: ConnId) -> &mut Connection {
        self.connections.entry(id).or_default()
    }

    fn listener(&mut self, local: SocketAddr) -> Option<(&mut VecDeque<ConnId>, usize)> {
        self.open.values_mut().find_map(|socket| {
            let here = |ip: IpAddr| ip.is_unspecified() || ip == local.ip();
            match &mut socket.kind {
                Kind::Listener { port, backlog, queue } if *port == local.port() => {
                    socket.bound.is_none_or(|bound| here(bound.ip())).then_some((queue, *backlog))
                }
                _ => None,
            }
        })
    }
}

impl App for Sockets {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Accepted {
            let queued = match net.local(id).and_then(|local| self.listener(local)) {
                // As in Linux, one more than the backlog says may wait.
                Some((queue, backlog)) if queue.len() <= backlog => {
                    queue.push_back(id);
                    true
                }
                _ => false,
            };
            if !queued {
                self.connection(id).orphan = true;
                net.abort(id);
            }
        }
        let now = net.now();
        let connection = self.connection(id);
        connection.last_data = now;
        connection.established = true;
        connection.out_events += 1;
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let connection = self.connection(id);
        if connection.orphan {
            // Nobody will read it: the peer must hear of that (RFC 1122
            // section 4.2.2.13).
            net.abort(id);
            return data.len();
        }
        if data.len() > connection.offered {
            connection.last_data = net.now();
            connection.segments.on_segment((data.len() - connection.offered) as u32);
        }
        let taken = connection.take.min(data.len());
        connection.data.extend(&data[..taken]);
        connection.take -= taken;
        let left = data.len() - taken;
        connection.in_events += u64::from(left > connection.offered);
        connection.offered = left;
        taken
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let connection = self.connection(id);
        connection.ended = true;
        connection.in_events += 1;
        // What is left outlives the connection here.
        connection.take = held;
        net.resume(id);
    }

    /// [`Host::rest`] looks itself, by limits of the socket's own.
    ///
    /// [`Host::rest`]: crate::host::Host::rest
    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, why: Closed) {
        let connection = self.connection(id);
        if connection.orphan {
            self.connections.remove(&id);
            return;
        }
        connection.closed = Some(why);
        connection.error = errno::of_close(why, connection.ended);
        connection.in_events += 1;
        connection.out_events += 1;
    }

    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        self.connections.is_empty()
    }
}
