//! Connections: opening, giving up, closing.

use super::requests::FirstRequest;
use super::{BACKOFF_FIRST, BACKOFF_LONGEST, CLOSES_PER_TURN, Load, Phase, SOURCES_PER_CONNECT, STARTS_PER_TURN};
use crate::conn::{LoadConnection, State};
use crate::plan::Reuse;
use crate::samples::Class;
use app::{Closed, ConnId, ConnectError, Net, Wake};
use core::time::Duration;
use wire::Time;

impl Load {
    /// Finishes a connection from our side.
    pub(super) fn leave<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        if conn.state == State::Leaving {
            return;
        }
        conn.state = State::Leaving;
        conn.since = now.as_nanos();
        if !conn.timed {
            conn.timed = true;
            net.set_timer(id, Some(now + self.plan.timeout));
        }
        self.say_goodbye(net, id);
        net.finish(id);
        self.no_longer_serving(id);
    }

    /// Ends a connection at once. Requests under way have failed with it; the
    /// caller has counted why.
    pub(super) fn give_up<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let was = conn.state;
        let asked = self.end_all(id, now, Class::Failed);
        if let Some(conn) = self.table.get_mut(id) {
            conn.state = State::Leaving;
        }
        if was == State::Busy {
            self.on_failed(now, asked);
        }
        if was != State::Leaving {
            self.no_longer_serving(id);
        }
        net.abort(id);
    }

    /// A connection is there, and secured if it is to be: it is asked.
    /// What its first request is may be known, and it may have been sent.
    pub(super) fn on_ready<N: Net>(&mut self, net: &mut N, id: ConnId, first: Option<FirstRequest>) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else { return };
        // The connect's timer does for the first request if it is not too late.
        conn.timed &= self.plan.connect_timeout <= self.plan.patience();
        conn.state = State::Idle;
        conn.since = now.as_nanos();
        self.handshakes -= 1;
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        self.counts.connections.established += 1;
        if self.http2.is_none() {
            // Over HTTP/2 a connection is of use when it has brought an answer.
            self.backoff = Duration::ZERO;
        }
        if let Phase::Ramp { .. } = self.phase {
            // Each connection is used once before it may stand idle; of a closed loop that is held, at its start.
            if !self.plan.held || self.open_loop.is_some() {
                self.ask_first(net, id, first);
            }
            if self.counts.connections.established >= u64::from(self.plan.connections) {
                self.look_up();
            }
        } else if !self.mixing {
            self.ask_first(net, id, first);
        }
    }

    /// One connection less of those that the plan asks for.
    pub(super) fn no_longer_serving(&mut self, id: ConnId) {
        self.serving -= 1;
        match self.http2.as_mut().filter(|http2| http2.is_told_to_go(id)) {
            // It gave its place up before.
            Some(http2) => http2.going.end(),
            None => self.lost += u64::from(self.reuse == Reuse::KeepAlive),
        }
    }

    /// A connect of ours came to nothing.
    pub(super) fn on_connect_failed(&mut self, now: Time, why: Closed, overdue: bool) {
        self.handshakes -= 1;
        self.serving -= 1;
        let errors = &mut self.counts.errors;
        *match why {
            Closed::Refused => &mut errors.refused,
            Closed::TimedOut => &mut errors.connect_timeouts,
            // By us, in `on_overdue`.
            Closed::Aborted if overdue => &mut errors.connect_timeouts,
            Closed::Unreachable(_) => &mut errors.connect_unreachable,
            Closed::Finished | Closed::Reset | Closed::Aborted => &mut errors.connect_failed,
        } += 1;
        self.back_off(now);
    }

    /// Pauses connecting. Failures within one pause count as one.
    pub(super) fn back_off(&mut self, now: Time) {
        if now >= self.retry_at {
            self.backoff = (self.backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_LONGEST);
            self.retry_at = now + self.backoff;
        }
    }

    /// Whether connections or requests are to be started.
    #[inline]
    pub(super) fn lacks(&self) -> bool {
        let short = self.standing() < self.plan.connections || self.busy < self.busy_wanted;
        short || self.unasked > 0 || self.is_short()
    }

    /// Starts what is lacking, within the turn's bound; after the end, closes.
    pub(super) fn fill<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        self.progress.tick(now);
        if let Phase::Ended = self.phase {
            return if self.close_some(net) { Wake::Now } else { Wake::Idle };
        }
        let mut starts = STARTS_PER_TURN;
        self.hand_out_freed(net, &mut starts);
        self.ask_unasked(net, &mut starts);
        while starts > 0 && self.busy < self.busy_wanted && self.allowance > 0 {
            let Some(id) = self.draw_idle() else { break };
            self.busy += 1;
            self.ask(net, id);
            starts -= 1;
        }
        while starts > 0 && now >= self.retry_at && self.may_connect(now) {
            if !self.connect(net, now) {
                break;
            }
            starts -= 1;
        }
        self.worked |= starts < STARTS_PER_TURN;
        if starts == 0 {
            Wake::Now
        } else if self.standing() < self.plan.connections {
            let paced = self.paced_until().unwrap_or(Time::ZERO);
            let next = self.retry_at.max(paced);
            Wake::At(if next > now { next.min(self.due) } else { self.due })
        } else {
            Wake::At(self.due)
        }
    }

    /// Asks on connections that stood open until the load began.
    fn ask_unasked<N: Net>(&mut self, net: &mut N, starts: &mut u32) {
        while *starts > 0 && self.unasked > 0 {
            self.unasked -= 1;
            let (id, conn) = self.table.at(self.unasked);
            if conn.state == State::Idle {
                self.ask_first(net, id, None);
                *starts -= 1;
            }
        }
    }

    fn may_connect(&self, now: Time) -> bool {
        self.standing() < self.plan.connections
            && self.handshakes < self.plan.handshakes
            && self.is_wanted()
            && self.paced_until().is_none_or(|at| now >= at)
    }

    /// Whether a connection more would have a request to send.
    fn is_wanted(&self) -> bool {
        match (&self.open_loop, self.reuse.per_connection()) {
            (Some(open), Some(1)) => open.backlog() > u64::from(self.handshakes),
            (None, Some(1)) => self.allowance > u64::from(self.handshakes),
            _ => true,
        }
    }

    /// While the ramp spreads connections over time, when the next may open.
    fn paced_until(&self) -> Option<Time> {
        let Phase::Ramp { .. } = self.phase else {
            return None;
        };
        let part = f64::from(self.standing()) / f64::from(self.plan.connections);
        (!self.plan.ramp.is_zero()).then(|| self.started + self.plan.ramp.mul_f64(part))
    }

    /// Starts one connect. Answers whether another may be tried.
    pub(super) fn connect<N: Net>(&mut self, net: &mut N, now: Time) -> bool {
        let sources = self.plan.sources.len().max(1);
        let mut outcome = Err(ConnectError::NoPort);
        // One source may be out of ports while the next is not.
        for _ in 0..sources.min(SOURCES_PER_CONNECT) {
            let turn = self.connects;
            self.connects = self.connects.wrapping_add(1);
            let from = self.plan.sources.get(turn % sources).copied();
            let to = self.plan.targets[turn / sources % self.plan.targets.len()];
            outcome = net.connect(from, to);
            if outcome != Err(ConnectError::NoPort) {
                break;
            }
        }
        let connections = &mut self.counts.connections;
        match outcome {
            Ok(id) => {
                connections.attempted += 1;
                if self.lost > 0 {
                    self.lost -= 1;
                    connections.reconnects += 1;
                }
                self.serving += 1;
                self.handshakes += 1;
                self.table.take(id, now);
                if let Some(conn) = self.table.get_mut(id) {
                    conn.timed = true;
                }
                net.set_timer(id, Some(now + self.plan.connect_timeout));
                return true;
            }
            Err(ConnectError::NoPort) => connections.no_port += 1,
            Err(ConnectError::Full | ConnectError::Busy) => connections.full += 1,
            Err(_) => connections.no_route += 1,
        }
        self.back_off(now);
        false
    }

    /// After the end: closes some connections, and answers whether there may
    /// be more. Those without a request finish, the others are aborted.
    pub(super) fn close_some<N: Net>(&mut self, net: &mut N) -> bool {
        let until = (self.closing + CLOSES_PER_TURN).min(self.table.slots());
        for slot in self.closing..until {
            let (id, &LoadConnection { state, .. }) = self.table.at(slot);
            match state {
                State::Free | State::Leaving => {}
                State::Idle => self.leave(net, id),
                State::Connecting | State::Securing => net.abort(id),
                State::Busy | State::Awaiting => self.give_up(net, id),
            }
        }
        self.closing = until;
        until < self.table.slots()
    }
}
