//! The one TCP timer of a connection: SYN and data retransmission, window and
//! keepalive probes, FIN-WAIT-2. They exclude each other, so what it means
//! follows from the state when it runs out.

use crate::connection::Connection;
use crate::context::Context;
use crate::flags::Flags;
use crate::state::State;
use app::Closed;

/// Silence of a peer that was asked, after which a peer whose window is closed is given up, in
/// milliseconds: what 15 retransmissions take with Linux's defaults
/// (`tcp_retries2` in Documentation/networking/ip-sysctl.rst, 924.6 s).
const PROBE_GIVE_UP_MS: u32 = 924_600;

impl Connection {
    /// The TCP timer is due: call when [`Connection::timer`] has passed.
    /// Returns why the connection ended, if it did.
    pub fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        self.flags.clear(Flags::TIMER);
        match self.state {
            State::Closed | State::TimeWait => None,
            State::SynSent | State::SynReceived => self.on_syn_timer(cx),
            _ if self.in_flight() > 0 => self.on_retransmission_timer(cx),
            _ if self.waits_to_send() => self.on_probe_timer(cx),
            State::FinWait2 => self.on_fin_wait2_timer(cx),
            _ => self.on_keepalive_timer(cx),
        }
    }

    /// Whether data or our FIN is queued, or in flight.
    pub(crate) fn waits_to_send(&self) -> bool {
        !self.rope.is_empty() || self.fin_waits()
    }

    pub(crate) fn fin_waits(&self) -> bool {
        self.flags.has(Flags::FINISHED) && !self.flags.has(Flags::FIN_SENT)
    }

    fn on_syn_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        if self.backoff >= cx.config.syn_retries {
            return self.give_up(cx);
        }
        self.backoff += 1;
        cx.counters.timeouts += 1;
        self.flags.set(Flags::RETRANSMIT);
        None
    }

    /// What is in flight found no answer yet: RACK's reordering timer, the
    /// tail loss probe's or the retransmission timer, whichever it stood for.
    fn on_retransmission_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        let limit = self.user_timeout(cx.config);
        let waited = self.waited(cx);
        if self.backoff >= cx.config.retries || (limit > 0 && waited >= limit) {
            return self.give_up(cx);
        }
        self.cold_mut(cx.config).unanswered_since = Some(cx.now_ms.wrapping_sub(waited));
        let reordering = self.cold.as_ref().is_some_and(|cold| cold.reordering_timer);
        match () {
            () if reordering => self.on_reordering_timer(cx),
            () if self.may_probe() => self.on_probe_timeout(cx),
            () => self.on_retransmission_timeout(cx),
        }
        None
    }

    /// How long the first segment in flight has gone without the
    /// acknowledgement of its data, in milliseconds: what the user timeout is
    /// about (RFC 9293 section 3.9.1.8, RFC 5482 section 3). What else the peer
    /// sent meanwhile, and how long it was idle before, does not count.
    fn waited(&self, cx: &Context<'_>) -> u32 {
        let cold = self.cold.as_ref();
        if let Some(since) = cold.and_then(|cold| cold.unanswered_since) {
            return cx.now_ms.wrapping_sub(since);
        }
        match cold.and_then(|cold| cold.rack.departure(self.una)) {
            Some(at) => u32::try_from(cx.now.since(at).as_millis()).unwrap_or(u32::MAX),
            // Nobody took notes: the timer was set when it left, or when what
            // was sent before it was acknowledged.
            None => self.patience(cx.config),
        }
    }

    /// Arms the retransmission timer for what went unanswered, which the user
    /// timeout may cut short.
    pub(crate) fn arm_unanswered(&mut self, cx: &Context<'_>) {
        let rto = self.rto(cx.config);
        let after = match self.user_timeout(cx.config) {
            0 => rto,
            limit => rto.min(limit.saturating_sub(self.waited(cx)).max(1)),
        };
        self.arm(cx, after);
    }

    /// The peer's window is closed, or too small to be worth a segment
    /// (RFC 9293 section 3.8.6.1): ask again, for as long as it answers. Its
    /// silence counts from the first probe that it did not answer.
    fn on_probe_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        if self.release_held_back() || self.paced_until().is_some() {
            return None;
        }
        let limit = match self.user_timeout(cx.config) {
            0 => PROBE_GIVE_UP_MS,
            limit => limit,
        };
        let since = match self.cold.as_ref().and_then(|cold| cold.unanswered_since) {
            Some(since) if (self.last_rx.wrapping_sub(since) as i32) < 0 => since,
            _ => cx.now_ms,
        };
        let silence = cx.now_ms.wrapping_sub(since);
        if silence >= limit {
            return self.give_up(cx);
        }
        self.cold_mut(cx.config).unanswered_since = Some(since);
        self.backoff = self.backoff.saturating_add(1);
        self.flags.set(Flags::PROBE);
        self.arm(cx, self.rto(cx.config).min((limit - silence).max(1)));
        None
    }

    /// The peer may take as long as it likes to finish, and we listen for as
    /// long (RFC 9293 section 3.6, case 1): but not to one that is gone. So it
    /// is asked, as by keepalive, where that is not in use too.
    fn on_fin_wait2_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        let idle = match cx.config.keepalive_idle {
            0 => cx.config.fin_wait2,
            idle => cx.config.fin_wait2.min(idle),
        };
        self.ask_whether_alive(cx, idle)
    }

    /// RFC 9293 section 3.8.4.
    fn on_keepalive_timer(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        if cx.config.keepalive_idle == 0 {
            return None;
        }
        self.ask_whether_alive(cx, cx.config.keepalive_idle)
    }

    /// Probes after `idle` of silence, and gives up a peer that answers none.
    fn ask_whether_alive(&mut self, cx: &mut Context<'_>, idle: u32) -> Option<Closed> {
        let silence = cx.now_ms.wrapping_sub(self.last_rx);
        if silence < idle {
            self.backoff = 0;
            self.arm(cx, idle - silence);
            return None;
        }
        if self.backoff >= cx.config.keepalive_probes {
            return self.give_up(cx);
        }
        self.backoff += 1;
        self.flags.set(Flags::PROBE);
        self.arm(cx, cx.config.keepalive_interval);
        None
    }

    fn give_up(&mut self, cx: &mut Context<'_>) -> Option<Closed> {
        cx.counters.given_up += 1;
        // What the network said of the peer meanwhile tells more than that
        // time ran out (`tcp_write_err` in Linux's net/ipv4/tcp_timer.c).
        let unreachable = self.cold.as_ref().and_then(|cold| cold.unreachable);
        self.close();
        Some(unreachable.map_or(Closed::TimedOut, Closed::Unreachable))
    }
}
