//! Limits that change meanwhile: timers are set anew where the new ones are shorter.

use crate::conn::{ENDED, FIRST, MARKED, State};
use crate::drain::DRAINED;
use crate::limits::Limits;
use crate::table::Connections;
use app::{ConnId, Net};
use core::time::Duration;

impl Connections {
    /// Keeps these limits from now on.
    pub fn set_limits(&mut self, limits: &Limits) {
        // A lower one is the data path's to keep: the index of a connection
        // is not how many there are.
        let connections = limits.connections.max(self.limits.connections);
        self.limits = Limits { connections, ..limits.clone() };
        (self.places, self.crowded_from) = (limits.places(), limits.crowded_from());
        self.conns.reserve(connections.saturating_sub(self.conns.len()));
        self.beginnings.reserve(connections);
        self.unsent_max = limits.unsent_bytes;
        // One that ends answers no more of them.
        if self.requests_max > 0 {
            self.requests_max = limits.most_requests();
        }
    }

    /// Sets the timers of some connections by limits that have become shorter; whether that is
    /// done.
    pub fn settle<N: Net + ?Sized>(&mut self, net: &mut N) -> bool {
        let Some(from) = self.unsettled else { return true };
        let end = (from + DRAINED).min(self.conns.len());
        for index in from.min(end)..end {
            self.settle_one(net, index);
        }
        self.unsettled = (end < self.conns.len()).then_some(end);
        self.unsettled.is_none()
    }

    fn settle_one<N: Net + ?Sized>(&mut self, net: &mut N, index: usize) {
        let now = net.now();
        let conn = &mut self.conns[index];
        let id = ConnId::new(index as u32, conn.generation);
        let span = match conn.state {
            State::Ready | State::Body if conn.flags & MARKED == 0 => {
                // The next request sets a timer that may be the sooner one.
                conn.flags |= FIRST;
                self.terms.after(conn.terms, conn.engine.waiting())
            }
            State::Proxied | State::Handshake | State::Waiting => Some(self.terms.head(conn.terms).timeout),
            // For our FIN's answer; that limit never changes.
            State::Vacant | State::Service | State::Carrying => None,
            State::Tunnel if conn.flags & MARKED == 0 => None,
            State::Closing if conn.flags & (MARKED | ENDED) == 0 => None,
            // Some must be taken within the time, which is counted anew.
            State::Ready | State::Body | State::Replying | State::Tunnel | State::Closing => {
                self.watch_progress(net, id);
                return;
            }
        };
        if let Some(span) = span {
            let left = conn.last.left(span, now).unwrap_or(Duration::ZERO);
            let left = self.until_old(index, left, now);
            net.set_timer(id, Some(now + left));
        }
    }
}
