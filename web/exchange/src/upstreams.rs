//! Connections to upstreams: what a handler may ask of them, and what it is told.
//!
//! ```text
//!  handler ── dial ─────────────────► data path
//!          ◄─ Opened ─ or ─ Closed ─
//!          ── send ─────────────────►
//!          ◄─ Data ─ Room ─ End ─────  what is left of Data comes again after resume
//!          ── let_go ─ or ─ cut ────►  nothing is told of it any more
//! ```
//!
//! Each has a number that the handler chose; the carrier gives it back with all that
//! it tells of the connection. A connection that a handler has let go of, and one that
//! is closed, is named by nothing any more: slot and generation are its own.

use crate::{ExchangeId, Piece, Replies};
use app::{Closed, ConnId, ConnectError};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use handshake::{Failure, ServerSession, Sought};
use std::path::Path;
use wire::Time;

/// How long a connection that was let go of may take to end, where nobody knows better.
pub const LINGER: Duration = Duration::from_secs(5);

/// A connection to an upstream. A handle kept past its end names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UpstreamId {
    conn: ConnId,
}

impl UpstreamId {
    /// That of this connection.
    #[inline]
    #[must_use]
    pub const fn of(conn: ConnId) -> Self {
        Self { conn }
    }

    /// The connection.
    #[inline]
    #[must_use]
    pub const fn conn(self) -> ConnId {
        self.conn
    }
}

/// Where an upstream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpstreamAddress<'a> {
    /// At an address and a port.
    Inet(SocketAddr),
    /// At a Unix socket.
    Unix(&'a Path),
}

/// What happened to a connection to an upstream.
#[derive(Clone, Copy, Debug)]
pub enum UpstreamEvent<'a> {
    /// It is established.
    Opened,
    /// What became of its handshake ([`Upstreams::secure_upstream`]): what is queued from now on is
    /// sealed, or nothing more comes of it but its end.
    Shaken(Result<&'a ServerSession, &'a Failure>),
    /// Bytes arrived, in order. How many were taken, from the front, is the answer; the
    /// rest is offered again with what follows, or after [`Upstreams::receive_upstream`], and
    /// closes the receive window meanwhile.
    Data(&'a [u8]),
    /// So many bytes more went to a client by themselves ([`Upstreams::pass_on`]).
    Passed(u64),
    /// Its peer sends no more, and so many bytes were left untaken.
    End {
        /// Those bytes.
        held: usize,
    },
    /// It has taken most of what was queued.
    Room,
    /// Its timer ran out.
    Timer,
    /// It is gone, or never came to be. The last that is told of it.
    Closed(Closed),
}

/// What a carrier offers of connections to upstreams, during a call to a handler.
///
/// Every method ignores (and getters answer with the empty value for) a connection
/// that is gone, or that the handler has let go of. A carrier that has none refuses
/// to connect.
pub trait Upstreams {
    /// Connects. `from` chooses the local address (any, if `None`). What becomes of it is
    /// told by [`UpstreamHandler::on_upstream`], with this mark.
    ///
    /// # Errors
    /// Nothing was started.
    fn dial(&mut self, to: UpstreamAddress<'_>, from: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        let _ = (to, from, mark);
        Err(ConnectError::NoRoute)
    }

    /// Has it secured, before anything is queued: what becomes of that is told by
    /// [`UpstreamEvent::Shaken`], and nothing else before, but that
    /// its timer ran out or that it is gone.
    fn secure_upstream(&mut self, id: UpstreamId, sought: Sought) {
        let _ = (id, sought);
    }

    /// From now on it has this mark.
    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        let _ = (id, mark);
    }

    /// Queues some of a request; whether it was queued: a file is not, where the data path does not
    /// send files by itself.
    fn send_upstream(&mut self, id: UpstreamId, piece: Piece<'_>) -> bool {
        let _ = (id, piece);
        false
    }

    /// Bytes queued towards it and not yet taken by it.
    fn unsent_upstream(&self, id: UpstreamId) -> usize {
        let _ = id;
        0
    }

    /// Has its next `bytes` go to the client of an exchange by themselves, as some of the
    /// body of its reply, which has a length; whether that begins ([`app::Net::pass`]).
    /// [`UpstreamEvent::Passed`] tells of them.
    fn pass_on(&mut self, id: UpstreamId, to: ExchangeId, bytes: u64) -> bool {
        let _ = (id, to, bytes);
        false
    }

    /// So many bytes of the body of a reply went so.
    fn note_passed(&mut self, to: ExchangeId, bytes: u64) {
        let _ = (to, bytes);
    }

    /// At most so many bytes are received of it at a time from now on; none at 0, as long as something was left of
    /// [`UpstreamEvent::Data`] ([`app::Net::set_receiving`]). Where any number are (`usize::MAX`), what was left
    /// is offered again.
    fn receive_upstream(&mut self, id: UpstreamId, most: usize) {
        let _ = (id, most);
    }

    /// Sets or clears its one timer.
    fn set_upstream_timer(&mut self, id: UpstreamId, at: Option<Time>) {
        let _ = (id, at);
    }

    /// It is closed once what is queued is sent. It is given up once nothing of that was taken for
    /// so long, or all was and it has not ended within as long; [`LINGER`] is what is usual. Without
    /// any patience it is closed at once, with a reset.
    fn let_go(&mut self, id: UpstreamId, patience: Duration) {
        let _ = (id, patience);
    }
}

/// What a handler is told of connections to upstreams. By default it has none, and lets go of any.
pub trait UpstreamHandler {
    /// Something happened to a connection to an upstream, which has this mark. Of
    /// [`UpstreamEvent::Data`], how many bytes were taken.
    fn on_upstream<R: Replies>(
        &mut self,
        replies: &mut R,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        let _ = mark;
        replies.let_go(id, Duration::ZERO);
        if let UpstreamEvent::Data(bytes) = event { bytes.len() } else { 0 }
    }
}
