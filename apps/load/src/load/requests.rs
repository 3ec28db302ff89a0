//! Requests and responses: what happens once per request.

use super::{ANY_LENGTH, DRAWS, Load};
use crate::conn::State;
use crate::figures::Ended;
use crate::plan::Reuse;
use app::{ConnId, Net};
use http::client::Summary;
use wire::Time;

impl Load {
    /// Sends one more request on a connection, if any may still be sent.
    #[inline]
    pub(super) fn ask<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.allowance == 0 {
            return;
        }
        self.allowance -= 1;
        self.counts.traffic.sent += 1;
        let now = net.now();
        let timed = self.table.push(id, now);
        net.send_body(id, &self.request, 0..self.request.len());
        if !timed {
            net.set_timer(id, Some(now + self.plan.timeout));
        }
    }

    /// The first requests on a new connection.
    pub(super) fn ask_first<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.busy += u32::from(self.mixing && self.allowance > 0);
        for _ in 0..self.plan.pipeline {
            self.ask(net, id);
        }
    }

    /// The oldest request of a connection is answered.
    #[inline]
    pub(super) fn on_response<N: Net>(&mut self, net: &mut N, id: ConnId, summary: Summary) {
        let now = net.now();
        let sent = self.table.pop(id);
        self.latency.record(now.as_nanos().saturating_sub(sent));
        self.counts.traffic.responses += 1;
        self.counts.traffic.body_bytes += summary.body;
        let code = summary.status.code();
        if code.wrapping_sub(200) < 100 {
            self.counts.statuses.success += 1;
        } else {
            self.count_status(code);
        }
        if self.expect_length != ANY_LENGTH && summary.body != self.expect_length {
            self.counts.errors.wrong_length += 1;
        }
        self.done(now, 1);
        if self.reuse != Reuse::KeepAlive || !summary.keep_alive {
            self.on_last_response(net, id);
        } else if self.mixing {
            self.pass_on(net, id);
        } else {
            self.ask(net, id);
        }
    }

    #[cold]
    pub(super) fn count_status(&mut self, code: u16) {
        let statuses = &mut self.counts.statuses;
        *match code {
            300..400 => &mut statuses.redirection,
            400..500 => &mut statuses.client_error,
            500..600 => &mut statuses.server_error,
            _ => &mut statuses.other,
        } += 1;
    }

    /// `n` requests were answered or failed.
    #[inline]
    pub(super) fn done(&mut self, now: Time, n: u64) {
        self.quota = self.quota.saturating_sub(n);
        if self.quota == 0 {
            self.end(now, Ended::AsPlanned);
        }
    }

    /// A connection is idle again: it asks again, or hands its turn to one
    /// drawn at random.
    #[inline]
    pub(super) fn pass_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.busy > self.busy_wanted || self.allowance == 0 {
            self.busy -= 1;
            return;
        }
        let drawn = if self.plan.mix { self.draw_idle() } else { None };
        let next = drawn.unwrap_or(id);
        self.ask(net, next);
    }

    /// An idle connection, each with the same probability.
    #[inline]
    pub(super) fn draw_idle(&mut self) -> Option<ConnId> {
        let slots = self.table.slots() as u64;
        for _ in 0..if slots == 0 { 0 } else { DRAWS } {
            // xorshift64*, and its upper half scaled to the number of slots.
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
            let slot = (high * slots) >> 32;
            let (id, conn) = self.table.at(slot as usize);
            if conn.state == State::Idle {
                return Some(id);
            }
        }
        None
    }

    /// The connection carries no further request.
    pub(super) fn on_last_response<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let client_closes = self.reuse == Reuse::ClientCloses;
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let unanswered = core::mem::take(&mut conn.asked);
        conn.state = State::Awaiting;
        conn.since = now.as_nanos();
        self.busy -= u32::from(self.mixing);
        if unanswered > 0 {
            // RFC 9112 §9.6: nothing behind a `close` is answered.
            self.counts.errors.unanswered += u64::from(unanswered);
            self.done(now, u64::from(unanswered));
        }
        if client_closes {
            self.leave(net, id);
        }
    }

    /// The peer finished, perhaps within a response: so do we.
    pub(super) fn on_peer_finished<N: Net>(&mut self, net: &mut N, id: ConnId, within: bool) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        if conn.state == State::Busy {
            let asked = core::mem::take(&mut conn.asked);
            let within = u64::from(within && asked > 0);
            self.counts.errors.truncated += within;
            self.counts.errors.unanswered += u64::from(asked) - within;
            self.on_failed(now, asked);
        }
        self.leave(net, id);
    }

    /// Bytes that answer nothing, on a connection of ours.
    #[cold]
    pub(super) fn on_unasked<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let leaving = self.table.get(id).is_none_or(|conn| conn.state == State::Leaving);
        if !leaving {
            self.counts.errors.unasked += 1;
            self.on_malformed(net, id);
        }
    }

    /// What came is not to be trusted, nor is what would follow.
    #[cold]
    pub(super) fn on_malformed<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let asked = self.table.get(id).map_or(0, |conn| conn.asked);
        self.counts.errors.malformed += u64::from(asked);
        self.give_up(net, id);
    }

    /// `asked` requests of one connection will not be answered.
    pub(super) fn on_failed(&mut self, now: Time, asked: u8) {
        self.busy -= u32::from(self.mixing);
        self.done(now, u64::from(asked));
    }

    /// A connect, a response or the peer's FIN did not come in time.
    pub(super) fn on_overdue<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        match conn.state {
            State::Free | State::Idle => {}
            State::Busy => {
                // Each request is a sample of the time it has waited: the
                // slowest requests must not be missing from the percentiles.
                for _ in 0..conn.asked {
                    let sent = self.table.pop(id);
                    self.latency.record(now.as_nanos().saturating_sub(sent));
                    self.counts.errors.timeouts += 1;
                    self.done(now, 1);
                }
                self.busy -= u32::from(self.mixing);
                self.give_up(net, id);
            }
            State::Awaiting => {
                self.counts.errors.unclosed += 1;
                self.give_up(net, id);
            }
            State::Connecting | State::Leaving => net.abort(id),
        }
    }
}
