//! The drain: what is under way ends, and nothing begins.

use crate::conn::{PARTIAL, PAUSED, State};
use crate::table::{Connections, Drain};
use app::{ConnId, Net};
use h1::server::Waiting;

/// Connections looked at in one call of `drain_more`, or of `settle`: a million take several
/// turns, during which others are served.
pub const DRAINED: usize = 16_384;

impl Connections {
    /// One step of the drain; whether nothing is left. Responses under way
    /// are finished, and are the last on their connections; connections that
    /// wait for a request are closed.
    pub fn drain_more<N: Net + ?Sized>(&mut self, net: &mut N) -> bool {
        let now = net.now();
        let mut drain = self.draining.unwrap_or(Drain { next: 0, deadline: now + self.timeouts.drain });
        // From now on every response is the last.
        self.requests_max = 0;
        let late = now >= drain.deadline;
        if late && drain.next >= self.conns.len() {
            drain.next = 0;
        }
        let end = (drain.next + DRAINED).min(self.conns.len());
        for index in drain.next.min(end)..end {
            let conn = &self.conns[index];
            let id = ConnId::new(index as u32, conn.generation);
            let begins = conn.state == State::Handshake && conn.flags & PARTIAL == 0;
            let idle = (begins || matches!(conn.state, State::Proxied | State::Ready))
                && conn.flags & PAUSED == 0
                && matches!(conn.engine.waiting(), Waiting::FirstHead | Waiting::KeepAlive);
            if conn.state == State::Vacant {
                continue;
            }
            if conn.state == State::Carrying && !late {
                self.stir_at(index);
            } else if late {
                net.abort(id);
            } else if idle {
                self.close_after_queue(net, id);
            }
        }
        drain.next = end;
        self.draining = Some(drain);
        if self.counters.connections_open == 0 && self.upstreams.open() > 0 {
            self.cut_upstreams(net);
        }
        // What clients of tunnels have sent is sent first.
        self.counters.connections_open == 0 && (late || self.upstreams.leaving() == 0)
    }
}

impl Connections {
    /// Whether its protocol is to be told that it ends, which is noted. Where that is for what was asked for
    /// on it, not before its answers are over: clients that take nothing more behind that word (Python's h2)
    /// take them. Who asks for many more meanwhile is told all the same.
    pub fn is_to_drain(&mut self, id: ConnId) -> bool {
        let most = self.requests_max;
        let drains = self.draining.is_some() || most == 0;
        let carrying = self.conn(id).filter(|conn| conn.state == State::Carrying);
        let Some(requests) = carrying.map(|conn| conn.requests) else { return false };
        let Some(carries) = self.carrying(id).filter(|carries| !carries.drained) else { return false };
        let beyond = requests.checked_sub(carries.ends_at.min(most));
        let is_time = |beyond: u32| carries.exchanges.is_empty() || beyond >= BEYOND_MAX;
        carries.drained = drains || beyond.is_some_and(is_time);
        carries.drained
    }
}

/// Requests that are begun behind the last that was to be, while answers are under way.
const BEYOND_MAX: u32 = 128;
