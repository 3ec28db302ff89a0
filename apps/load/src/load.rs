//! The load generator as an application.

use crate::conn::{Conn, State, Table};
use crate::figures::{Counts, Ended, Figures, Turns};
use crate::live::{Live, Progress, Stage};
use crate::plan::{Plan, PlanError, Reuse, Stop};
use crate::recorder::Recorder;
use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
use core::time::Duration;
use http::Method;
use http::client::{Counted, Limits, Memo, Summary};
use wire::Time;

/// Connects and first requests that one turn may start, at most: a fraction
/// of the smallest transmit ring in use (256), so that the ramp neither
/// overruns the ring nor delays the responses of its turn.
const STARTS_PER_TURN: u32 = 64;

/// Connections that one turn looks at while all are being closed.
const CLOSES_PER_TURN: usize = 256;

/// Slots tried to find an idle connection at random, before the one at hand
/// is taken again. Fails once in 850 where a tenth of the connections is
/// idle, and practically never below that.
const DRAWS: u32 = 64;

/// Pause after a connect failed; doubles with each failure after the pause,
/// up to the longest. A dead target is asked ten times a second at least.
const BACKOFF_FIRST: Duration = Duration::from_millis(1);
/// The longest pause between connects.
const BACKOFF_LONGEST: Duration = Duration::from_millis(100);

/// How often progress is published. Costs some 10 µs each.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

/// A request length that a plan never has: any length is right.
const ANY_LENGTH: u64 = u64::MAX;

/// The load generator, for one silo. See the crate's documentation.
#[derive(Debug)]
pub struct Load {
    // What every response touches.
    table: Table,
    latency: Recorder,
    counts: Counts,
    request: Body,
    method: Method,
    limits: Limits,
    memo: Memo,
    /// Requests that may still be sent.
    allowance: u64,
    /// Answered or failed requests until the window ends.
    quota: u64,
    expect_length: u64,
    reuse: Reuse,
    /// Whether some connections stand idle, and the next is drawn at random.
    mixing: bool,
    /// Whether this turn brought anything.
    worked: bool,

    // Once per turn.
    due: Time,
    /// Connections that the plan's number counts: all but those leaving.
    serving: u32,
    /// While mixing: connections with a request under way, and how many
    /// there shall be.
    busy: u32,
    busy_wanted: u32,
    turns: TurnClock,

    // On connecting, on failures, on a change of phase.
    plan: Plan,
    phase: Phase,
    connect: Recorder,
    handshakes: u32,
    open: u64,
    most_open: u64,
    /// Keep-alive connections lost and not yet replaced.
    lost: u64,
    connects: usize,
    retry_at: Time,
    backoff: Duration,
    random: u64,
    started: Time,
    at_start_of_window: Counts,
    closing: usize,
    live: Live,
    published: Published,
    figures: Option<Box<Figures>>,
}

/// How far the run is, with the time that each phase ends at the latest.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting,
    Ramp { until: Time },
    WarmUp { ramp: Duration, until: Time, from: Time },
    Window { ramp: Duration, warm_up: Duration, from: Time, until: Time },
    Ended,
}

/// What was last published, for the rate.
#[derive(Clone, Copy, Debug)]
struct Published {
    next: Time,
    at: Time,
    responses: u64,
}

impl Load {
    /// A generator for a plan. Memory for its connections is taken here.
    ///
    /// # Errors
    /// If the plan cannot be run.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        let request = Body::new(plan.request.bytes(plan.reuse)?);
        let active = plan.active.unwrap_or(plan.connections);
        Ok(Self {
            table: Table::new(plan.connections, plan.pipeline),
            latency: Recorder::new(),
            counts: Counts::default(),
            request,
            method: Method::from_name(plan.request.method.as_bytes()),
            limits: Limits::default(),
            memo: Memo::default(),
            allowance: u64::MAX,
            quota: u64::MAX,
            expect_length: plan.expect.length.unwrap_or(ANY_LENGTH),
            reuse: plan.reuse,
            mixing: active < plan.connections,
            worked: false,
            due: Time::ZERO,
            serving: 0,
            busy: 0,
            busy_wanted: 0,
            turns: TurnClock::default(),
            phase: Phase::Waiting,
            connect: Recorder::new(),
            handshakes: 0,
            open: 0,
            most_open: 0,
            lost: 0,
            connects: 0,
            retry_at: Time::ZERO,
            backoff: Duration::ZERO,
            random: plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            started: Time::ZERO,
            at_start_of_window: Counts::default(),
            closing: 0,
            live: Live::default(),
            published: Published { next: Time::ZERO, at: Time::ZERO, responses: 0 },
            figures: None,
            plan,
        })
    }

    /// Where progress is published, for another thread to read.
    #[must_use]
    pub fn live(&self) -> Live {
        self.live.clone()
    }

    /// The figures, once the measured window has ended. Connections may still
    /// be open then; [`App::drain`] closes them.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        self.figures.as_deref()
    }

    /// Ends the run now, if it has not ended, and answers its figures: for
    /// when the data path fails under it.
    #[must_use]
    pub fn into_figures(mut self, now: Time) -> Figures {
        if self.figures.is_none() {
            self.end(now, Ended::Interrupted);
        }
        self.figures.map(|figures| *figures).unwrap_or_default()
    }

    /// Connections open, and those being opened or closed.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.open + u64::from(self.handshakes)
    }
}

impl App for Load {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        self.worked = true;
        let now = net.now();
        let known = self.table.get_mut(id).filter(|conn| conn.state == State::Connecting);
        let (Some(conn), Opened::Connected) = (known, how) else {
            // Not one of our connects, or one given up in this very turn.
            net.abort(id);
            return;
        };
        self.connect.record(conn.age(now).as_nanos() as u64);
        conn.state = State::Idle;
        conn.since = now.as_nanos();
        self.handshakes -= 1;
        self.open += 1;
        self.most_open = self.most_open.max(self.open);
        self.counts.connections.established += 1;
        self.backoff = Duration::ZERO;
        if let Phase::Ramp { .. } = self.phase {
            // Each connection is used once before it may stand idle.
            self.ask_first(net, id);
            if self.counts.connections.established >= u64::from(self.plan.connections) {
                self.due = Time::ZERO;
            }
        } else if !self.mixing {
            self.ask_first(net, id);
        }
    }

    #[inline]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        self.worked = true;
        // Only what was asked before these bytes came can be answered in them.
        let mut answers = self.table.get(id).map_or(0, |conn| conn.asked);
        let mut used = 0;
        while let Some(conn) = self.table.get_mut(id) {
            if conn.state != State::Busy || answers == 0 {
                self.on_unasked(net, id);
                used = data.len();
                break;
            }
            let rest = data.get(used..).unwrap_or_default();
            match conn.engine.on_bytes_counted(rest, self.method, &self.limits, &mut self.memo) {
                Counted::Complete { summary, consumed } => {
                    used += consumed;
                    answers -= 1;
                    self.on_response(net, id, summary);
                    if used >= data.len() {
                        break;
                    }
                }
                Counted::NeedMore { consumed } => {
                    used += consumed;
                    break;
                }
                Counted::Failed { .. } => {
                    self.counts.errors.malformed += self.give_up(net, id);
                    used = data.len();
                    break;
                }
            }
        }
        self.counts.traffic.received_bytes += used as u64;
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.worked = true;
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let ended = conn.engine.on_end(held);
        if conn.state == State::Busy
            && let Ok(Some(summary)) = ended
        {
            // RFC 9112 §6.3 rule 8: the end of the connection ends it.
            let summary = Summary { keep_alive: false, ..summary };
            self.on_response(net, id, summary);
        }
        self.on_peer_finished(net, id, ended.is_err());
    }

    fn on_sent<N: Net>(&mut self, _: &mut N, _: ConnId) {}

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let timeout = self.plan.timeout;
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        conn.timed = false;
        if conn.state == State::Idle {
            // Set again with the next request.
            return;
        }
        if conn.age(now) < timeout {
            // The timer is never moved for a request, only looked at.
            conn.timed = true;
            net.set_timer(id, Some(Time::from_nanos(conn.since) + timeout));
            return;
        }
        self.worked = true;
        self.on_overdue(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.worked = true;
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let was = core::mem::take(&mut conn.state);
        let overdue = conn.age(net.now()) >= self.plan.timeout;
        let asked = core::mem::take(&mut conn.asked);
        match was {
            State::Free => return,
            State::Connecting => {
                self.on_connect_failed(net.now(), why, overdue);
                return;
            }
            State::Leaving => {}
            State::Idle | State::Awaiting => self.no_longer_serving(),
            State::Busy => {
                let errors = &mut self.counts.errors;
                *match why {
                    Closed::Finished => &mut errors.unanswered,
                    Closed::Reset | Closed::Refused => &mut errors.reset,
                    Closed::TimedOut => &mut errors.tcp_timed_out,
                    Closed::Unreachable => &mut errors.unreachable,
                    Closed::Aborted => &mut errors.aborted,
                } += u64::from(asked);
                self.on_failed(net.now(), asked);
                self.no_longer_serving();
            }
        }
        self.open -= 1;
        self.counts.connections.closed += 1;
    }

    #[inline]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        if now >= self.due {
            self.advance(now);
        }
        let wake =
            if self.lacks() || matches!(self.phase, Phase::Ended) { self.fill(net, now) } else { Wake::At(self.due) };
        self.turns.mark(now, core::mem::take(&mut self.worked));
        wake
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.table.get(id).map_or(0, |conn| conn.since)
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        if !matches!(self.phase, Phase::Ended) {
            self.end(net.now(), Ended::Interrupted);
        }
        self.close_some(net);
        self.held() == 0
    }
}

/// Requests and responses.
impl Load {
    /// Sends one more request on a connection, if any may still be sent.
    #[inline]
    fn ask<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.allowance == 0 {
            return;
        }
        self.allowance -= 1;
        self.counts.traffic.sent += 1;
        let now = net.now();
        self.table.push(id, now);
        net.send_body(id, &self.request, 0..self.request.len());
        if let Some(conn) = self.table.get_mut(id)
            && !conn.timed
        {
            conn.timed = true;
            net.set_timer(id, Some(now + self.plan.timeout));
        }
    }

    /// The first requests on a new connection.
    fn ask_first<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.busy += u32::from(self.mixing && self.allowance > 0);
        for _ in 0..self.plan.pipeline {
            self.ask(net, id);
        }
    }

    /// The oldest request of a connection is answered.
    #[inline]
    fn on_response<N: Net>(&mut self, net: &mut N, id: ConnId, summary: Summary) {
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
    fn count_status(&mut self, code: u16) {
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
    fn done(&mut self, now: Time, n: u64) {
        self.quota = self.quota.saturating_sub(n);
        if self.quota == 0 {
            self.end(now, Ended::AsPlanned);
        }
    }

    /// A connection is idle again: hand its turn to one drawn at random.
    #[inline]
    fn pass_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.busy > self.busy_wanted || self.allowance == 0 {
            self.busy -= 1;
            return;
        }
        let next = self.draw_idle().unwrap_or(id);
        self.ask(net, next);
    }

    /// An idle connection, each with the same probability.
    #[inline]
    fn draw_idle(&mut self) -> Option<ConnId> {
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
    fn on_last_response<N: Net>(&mut self, net: &mut N, id: ConnId) {
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
    fn on_peer_finished<N: Net>(&mut self, net: &mut N, id: ConnId, within: bool) {
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
    fn on_unasked<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let leaving = self.table.get(id).is_none_or(|conn| conn.state == State::Leaving);
        if !leaving {
            self.counts.errors.unasked += 1;
            self.counts.errors.malformed += self.give_up(net, id);
        }
    }

    /// `asked` requests of one connection will not be answered.
    fn on_failed(&mut self, now: Time, asked: u8) {
        self.busy -= u32::from(self.mixing);
        self.done(now, u64::from(asked));
    }

    /// A connect, a response or the peer's FIN did not come in time.
    fn on_overdue<N: Net>(&mut self, net: &mut N, id: ConnId) {
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

/// Connections.
impl Load {
    /// Finishes a connection from our side.
    fn leave<N: Net>(&mut self, net: &mut N, id: ConnId) {
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
        net.finish(id);
        self.no_longer_serving();
    }

    /// Ends a connection at once. Answers how many requests were under way,
    /// which have failed with it.
    fn give_up<N: Net>(&mut self, net: &mut N, id: ConnId) -> u64 {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return 0;
        };
        let was = core::mem::replace(&mut conn.state, State::Leaving);
        let asked = core::mem::take(&mut conn.asked);
        if was == State::Busy {
            self.on_failed(now, asked);
        }
        if was != State::Leaving {
            self.no_longer_serving();
        }
        net.abort(id);
        u64::from(asked)
    }

    /// One connection less of those that the plan asks for.
    fn no_longer_serving(&mut self) {
        self.serving -= 1;
        self.lost += u64::from(self.reuse == Reuse::KeepAlive);
    }

    /// A connect of ours came to nothing.
    fn on_connect_failed(&mut self, now: Time, why: Closed, overdue: bool) {
        self.handshakes -= 1;
        self.serving -= 1;
        let errors = &mut self.counts.errors;
        *match why {
            Closed::Refused => &mut errors.refused,
            Closed::TimedOut => &mut errors.connect_timeouts,
            // By us, in `on_overdue`.
            Closed::Aborted if overdue => &mut errors.connect_timeouts,
            Closed::Unreachable => &mut errors.connect_unreachable,
            Closed::Finished | Closed::Reset | Closed::Aborted => &mut errors.connect_failed,
        } += 1;
        self.back_off(now);
    }

    /// Pauses connecting. Failures within one pause count as one.
    fn back_off(&mut self, now: Time) {
        if now >= self.retry_at {
            self.backoff = (self.backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_LONGEST);
            self.retry_at = now + self.backoff;
        }
    }

    /// Whether connections or requests are to be started.
    #[inline]
    fn lacks(&self) -> bool {
        self.serving < self.plan.connections || self.busy < self.busy_wanted
    }

    /// Starts what is lacking, within the turn's bound; after the end, closes.
    fn fill<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if let Phase::Ended = self.phase {
            return if self.close_some(net) { Wake::Now } else { Wake::Idle };
        }
        let mut starts = STARTS_PER_TURN;
        while starts > 0 && self.busy < self.busy_wanted && self.allowance > 0 {
            let Some(id) = self.draw_idle() else { break };
            self.busy += 1;
            self.ask(net, id);
            starts -= 1;
        }
        while starts > 0 && now >= self.retry_at && self.may_connect() {
            if !self.connect(net, now) {
                break;
            }
            starts -= 1;
        }
        self.worked |= starts < STARTS_PER_TURN;
        if starts == 0 {
            Wake::Now
        } else if self.serving < self.plan.connections && self.retry_at > now {
            Wake::At(self.retry_at.min(self.due))
        } else {
            Wake::At(self.due)
        }
    }

    fn may_connect(&self) -> bool {
        // With a new connection per request, one without a request to send
        // would be for nothing.
        let useful = self.reuse == Reuse::KeepAlive || self.allowance > u64::from(self.handshakes);
        self.serving < self.plan.connections && self.handshakes < self.plan.handshakes && useful
    }

    /// Starts one connect. Answers whether another may be tried.
    fn connect<N: Net>(&mut self, net: &mut N, now: Time) -> bool {
        let sources = self.plan.sources.len().max(1);
        let mut outcome = Err(ConnectError::NoPort);
        // One source may be out of ports while the next is not.
        for _ in 0..sources {
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
                net.set_timer(id, Some(now + self.plan.timeout));
                return true;
            }
            Err(ConnectError::NoPort) => connections.no_port += 1,
            Err(ConnectError::Full) => connections.full += 1,
            Err(ConnectError::NoRoute) => connections.no_route += 1,
        }
        self.back_off(now);
        false
    }

    /// After the end: closes some connections, and answers whether there may
    /// be more. Those without a request finish, the others are aborted.
    fn close_some<N: Net>(&mut self, net: &mut N) -> bool {
        let until = (self.closing + CLOSES_PER_TURN).min(self.table.slots());
        for slot in self.closing..until {
            let (id, &Conn { state, .. }) = self.table.at(slot);
            match state {
                State::Free | State::Leaving => {}
                State::Idle => self.leave(net, id),
                State::Connecting => {
                    net.abort(id);
                }
                State::Busy | State::Awaiting => {
                    self.give_up(net, id);
                }
            }
        }
        self.closing = until;
        until < self.table.slots()
    }
}

/// Phases and figures.
impl Load {
    /// Moves to the phase that the time calls for, and publishes progress.
    #[cold]
    fn advance(&mut self, now: Time) {
        loop {
            let next = self.next_phase(now);
            let Some(next) = next else { break };
            self.phase = next;
        }
        if now >= self.published.next {
            self.publish(now);
        }
        self.due = match self.phase {
            Phase::Ended => Time::MAX,
            Phase::Waiting => self.published.next,
            Phase::Ramp { until } | Phase::WarmUp { until, .. } | Phase::Window { until, .. } => {
                until.min(self.published.next)
            }
        };
    }

    fn next_phase(&mut self, now: Time) -> Option<Phase> {
        match self.phase {
            Phase::Waiting => {
                self.started = now;
                self.published.at = now;
                Some(Phase::Ramp { until: now + self.plan.ramp_limit })
            }
            Phase::Ramp { until } => {
                let opened = self.counts.connections.established;
                if now < until && opened < u64::from(self.plan.connections) {
                    return None;
                }
                if self.mixing {
                    self.busy_wanted = self.plan.active.unwrap_or(self.plan.connections);
                }
                let ramp = now.since(self.started);
                Some(Phase::WarmUp { ramp, until: now + self.plan.warm_up, from: now })
            }
            Phase::WarmUp { ramp, until, from } => (now >= until).then(|| self.open_window(now, ramp, now.since(from))),
            Phase::Window { until, .. } => {
                if now >= until {
                    let ended = match self.plan.stop {
                        Stop::After(_) => Ended::AsPlanned,
                        Stop::Requests { .. } => Ended::OutOfTime,
                    };
                    self.end(now, ended);
                }
                None
            }
            Phase::Ended => None,
        }
    }

    fn open_window(&mut self, now: Time, ramp: Duration, warm_up: Duration) -> Phase {
        self.latency.clear();
        self.at_start_of_window = self.counts;
        self.turns.restart();
        self.published.responses = self.counts.traffic.responses;
        let until = match self.plan.stop {
            Stop::After(time) => now + time,
            Stop::Requests { count, within } => {
                let under_way: u64 = self.table.iter().map(|conn| u64::from(conn.asked)).sum();
                self.allowance = count.saturating_sub(under_way);
                self.quota = count;
                now + within
            }
        };
        Phase::Window { ramp, warm_up, from: now, until }
    }

    /// Ends the run: no request is sent and nothing is counted from here on.
    #[cold]
    fn end(&mut self, now: Time, ended: Ended) {
        let mut figures = Box::new(Figures { ended, silos: 1, ..Figures::default() });
        figures.before = self.counts;
        match self.phase {
            Phase::Ended => return,
            Phase::Waiting => {}
            Phase::Ramp { .. } => figures.ramp = now.since(self.started),
            Phase::WarmUp { ramp, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, now.since(from));
            }
            Phase::Window { ramp, warm_up, from, .. } => {
                (figures.ramp, figures.warm_up) = (ramp, warm_up);
                figures.window = now.since(from);
                figures.before = self.at_start_of_window;
                figures.counts = self.counts.since(&self.at_start_of_window);
                figures.latency = core::mem::take(&mut self.latency);
                figures.turns = self.turns.sum();
                let seconds = figures.window.as_secs_f64();
                if seconds > 0.0 {
                    figures.rate = figures.counts.traffic.responses as f64 / seconds;
                }
            }
        }
        let request = u64::from(self.request.len());
        for counts in [&mut figures.counts, &mut figures.before] {
            counts.traffic.sent_bytes = counts.traffic.sent * request;
        }
        figures.connect = core::mem::take(&mut self.connect);
        figures.open = self.open;
        figures.most_open = self.most_open;
        for conn in self.table.iter().filter(|conn| conn.state == State::Busy) {
            figures.in_flight += u64::from(conn.asked);
            figures.oldest_in_flight = figures.oldest_in_flight.max(conn.age(now));
        }
        self.figures = Some(figures);
        self.phase = Phase::Ended;
        self.allowance = 0;
        self.quota = u64::MAX;
        self.busy_wanted = 0;
        self.publish(now);
    }

    fn publish(&mut self, now: Time) {
        let progress = self.progress(now);
        self.live.publish(&progress);
        self.published = Published { next: now + PUBLISH_EVERY, at: now, responses: self.counts.traffic.responses };
    }

    /// The run at this moment. Some 10 µs: not for every turn.
    #[must_use]
    pub fn progress(&self, now: Time) -> Progress {
        let span = now.since(self.published.at).as_secs_f64();
        let news = self.counts.traffic.responses - self.published.responses;
        let errors = &self.counts.errors;
        let mut progress = Progress {
            elapsed: now.since(self.started),
            rate: if span > 0.0 { (news as f64 / span) as u64 } else { 0 },
            errors: errors.failed_requests() + errors.failed_connects(),
            open: self.open,
            ..Progress::default()
        };
        progress.stage = match self.phase {
            Phase::Waiting => Stage::Waiting,
            Phase::Ramp { .. } => Stage::Ramp,
            Phase::WarmUp { .. } => Stage::WarmUp,
            Phase::Window { from, .. } => {
                progress.measured = now.since(from);
                progress.responses = self.counts.traffic.responses - self.at_start_of_window.traffic.responses;
                progress.p99_ns = self.latency.quantile(0.99);
                Stage::Measuring
            }
            Phase::Ended => {
                if let Some(figures) = &self.figures {
                    progress.measured = figures.window;
                    progress.responses = figures.counts.traffic.responses;
                    progress.p99_ns = figures.latency.quantile(0.99);
                }
                Stage::Ended
            }
        };
        progress
    }
}

/// Tells busy turns from idle ones by the stamps of turns: a turn lasts until
/// the next one's stamp.
#[derive(Clone, Copy, Debug, Default)]
struct TurnClock {
    last: Option<Time>,
    worked: bool,
    all: u64,
    busy: u64,
    nanos: u64,
    busy_nanos: u64,
    longest: u64,
}

impl TurnClock {
    /// A turn stamped `now` is done, and `worked` if it brought anything.
    #[inline]
    fn mark(&mut self, now: Time, worked: bool) {
        if let Some(last) = self.last {
            let length = now.as_nanos().saturating_sub(last.as_nanos());
            self.all += 1;
            self.nanos += length;
            if self.worked {
                self.busy += 1;
                self.busy_nanos += length;
                self.longest = self.longest.max(length);
            }
        }
        self.last = Some(now);
        self.worked = worked;
    }

    /// Counts anew from the turn at hand.
    fn restart(&mut self) {
        *self = Self::default();
    }

    fn sum(&self) -> Turns {
        Turns {
            all: self.all,
            busy: self.busy,
            time: Duration::from_nanos(self.nanos),
            busy_time: Duration::from_nanos(self.busy_nanos),
            longest: Duration::from_nanos(self.longest),
        }
    }
}
