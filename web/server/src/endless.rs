//! Connections that nothing would end: for simulations, which look for such after each turn.
//!
//! A peer that stops is given up in time, because each connection has a timer, or waits for
//! another that has one:
//!
//! - a client's is set, but for a tunnel's with nothing queued for it;
//! - where a client is not what is waited for, its handler has time limits of its own: some
//!   connection to an upstream has a timer, or a helper or a clock is waited for;
//! - an upstream's is set while it is idle, and while it takes the bytes of a tunnel; and of one
//!   that was let go of.

use crate::Server;
use app::ConnId;
use connections::{ServedConnection, State};
use core::fmt;
use exchange::UpstreamId;

/// A connection without an end, and what should have a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endless {
    /// The connection.
    pub id: ConnId,
    /// What it is.
    pub what: EndlessKind,
}

/// What has no timer though it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndlessKind {
    /// A client that is waited for, whose connection is in this state.
    Client(&'static str),
    /// A client's request, for which somebody else is waited for.
    Request(&'static str),
    /// A connection to an upstream.
    Upstream,
    /// One that is nobody's any more.
    Left,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            EndlessKind::Client(state) => write!(f, "a client has no timer, state {state}"),
            EndlessKind::Request(state) => write!(f, "nobody whom a request waits for has a timer, state {state}"),
            EndlessKind::Upstream => f.write_str("an upstream has no timer"),
            EndlessKind::Left => f.write_str("a connection that was let go of has no timer"),
        }
    }
}

/// The data path, as far as it is asked.
pub trait Timers {
    /// Whether a connection's timer is set.
    fn is_armed(&self, id: ConnId) -> bool;

    /// Bytes that are queued and not taken.
    fn unsent(&self, id: ConnId) -> usize;
}

impl Server {
    /// Those of `all` that nothing would end, between turns in which nothing is left to do.
    #[must_use]
    pub fn endless(&self, all: impl Iterator<Item = ConnId>, timers: &impl Timers) -> Vec<Endless> {
        let find = |id| Some(Endless { id, what: self.lack_of(id, timers)? });
        all.filter_map(find).collect()
    }

    fn lack_of(&self, id: ConnId, timers: &impl Timers) -> Option<EndlessKind> {
        let client = self.h1.connections.conns.get(id.index()).filter(|conn| conn.state != State::Vacant);
        if let Some(conn) = client.filter(|conn| conn.generation == id.generation()) {
            return self.lack_of_client(id, conn, timers);
        }
        if timers.is_armed(id) {
            return None;
        }
        let Some(one) = self.h1.connections.upstreams.get(id) else { return Some(EndlessKind::Left) };
        let needs = self.h1.handler.engine().is_none_or(|engine| engine.needs_timer(one.mark, timers.unsent(id)));
        needs.then_some(EndlessKind::Upstream)
    }

    fn lack_of_client(&self, id: ConnId, conn: &ServedConnection, timers: &impl Timers) -> Option<EndlessKind> {
        let unsent = timers.unsent(id);
        if !timers.is_armed(id) && (conn.state != State::Tunnel || unsent > 0) {
            return Some(EndlessKind::Client(conn.state.name()));
        }
        let is_waited_for = match conn.state {
            State::Waiting => !conn.is_patient() || conn.waits_for_body(),
            State::Replying => !conn.is_patient() || unsent > 0 || conn.waits_for_body(),
            State::Tunnel => unsent > 0,
            _ => true,
        };
        let engine = self.h1.handler.engine().filter(|_| !is_waited_for)?;
        let mark = conn.more.as_ref().and_then(|more| more.exchange.mark);
        let is_armed = |link: UpstreamId| timers.is_armed(link.conn());
        let is_timed = mark.is_some_and(|mark| engine.is_timed(conn.exchange(id.index()), mark, &is_armed));
        (!is_timed).then_some(EndlessKind::Request(conn.state.name()))
    }
}
