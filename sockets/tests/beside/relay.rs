//! An application that stands between two connections, as a proxy does: one of
//! the silo's own, one of the kernel's.

use app::{App, Closed, ConnId, Net, Opened};
use core::net::SocketAddr;
use std::path::PathBuf;

/// Unsent bytes on one side from which on the other is not read.
pub const UNSENT_MAX: usize = 96 * 1024;

/// Where a [`Relay`] connects to.
#[derive(Clone, Debug)]
pub enum Upstream {
    Address(SocketAddr),
    Path(PathBuf),
}

/// Joins each connection that is accepted to one that it opens, with the
/// back-pressure of either on the other.
#[derive(Debug)]
pub struct Relay {
    upstream: Upstream,
    /// By slot: its id, the other side, whether that finished.
    sides: Vec<Option<(ConnId, ConnId)>>,
    /// Ends that were told, by what they were.
    pub closed: Vec<Closed>,
    pub opened: usize,
    /// Connects that could not start.
    pub refused: usize,
    /// The most that was ever unsent.
    pub most_unsent: usize,
}

impl Relay {
    pub const fn new(upstream: Upstream) -> Self {
        Self { upstream, sides: Vec::new(), closed: Vec::new(), opened: 0, refused: 0, most_unsent: 0 }
    }

    /// Slots of its table, which are as many as the highest that was seen.
    pub fn slots(&self) -> usize {
        self.sides.len()
    }

    fn join(&mut self, one: ConnId, other: ConnId) {
        for (id, other) in [(one, other), (other, one)] {
            if self.sides.len() <= id.index() {
                self.sides.resize(id.index() + 1, None);
            }
            assert!(self.sides[id.index()].is_none(), "a slot of two connections");
            self.sides[id.index()] = Some((id, other));
        }
    }

    fn other(&self, id: ConnId) -> Option<ConnId> {
        let (known, other) = (*self.sides.get(id.index())?)?;
        (known == id).then_some(other)
    }
}

impl App for Relay {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        self.opened += 1;
        if how == Opened::Connected {
            return;
        }
        let opened = match &self.upstream {
            Upstream::Address(to) => net.connect(None, *to),
            Upstream::Path(path) => net.connect_unix(path),
        };
        match opened {
            Ok(other) => self.join(id, other),
            Err(_) => {
                self.refused += 1;
                net.abort(id);
            }
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let Some(other) = self.other(id) else { return data.len() };
        let room = UNSENT_MAX.saturating_sub(net.unsent(other)).min(data.len());
        net.send_bytes(other, &data[..room]);
        self.most_unsent = self.most_unsent.max(net.unsent(other));
        room
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if let Some(other) = self.other(id) {
            net.resume(other);
        }
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        // The tests' peers end only once they have everything.
        assert_eq!(held, 0);
        if let Some(other) = self.other(id) {
            net.finish(other);
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.closed.push(why);
        if let Some(other) = self.other(id) {
            self.sides[id.index()] = None;
            self.sides[other.index()] = None;
            if why == Closed::Finished {
                net.finish(other);
            } else {
                net.abort(other);
            }
        }
    }
}
