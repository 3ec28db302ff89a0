//! The load generator as an application.
//!
//! | file | what happens |
//! | --- | --- |
//! | this one | state, and what the data path calls |
//! | `requests` | once per request |
//! | `connections` | once per connection |
//! | `phases` | a few times in a run: ramp, warm-up, window, figures |
//! | `turns` | once per turn: the generator's account of its own time |

mod connections;
mod phases;
mod requests;
mod turns;

use crate::conn::{State, Table};
use crate::figures::{Counts, Ended, Figures};
use crate::interval::{self, INTERVALS_LIMIT, Intervals};
use crate::live::{Live, Stage};
use crate::plan::{Plan, PlanError, Reuse};
use crate::recorder::Recorder;
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::time::Duration;
use http::Method;
use http::client::{Counted, Limits, Memo, Summary};
use turns::TurnClock;
use wire::Time;

/// Connects and first requests that one turn may start, at most: a fraction
/// of the smallest transmit ring in use (256), so that the ramp neither
/// overruns the ring nor delays the responses of its turn.
const STARTS_PER_TURN: u32 = 64;

/// Source addresses that one connect tries when they are out of ports.
const SOURCES_PER_CONNECT: usize = 16;

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

/// How often progress is published. The 99th percentile takes a walk over the
/// buckets in use.
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
    /// Whether some connections stand idle; those that do not are drawn at
    /// random, anew for each request if the plan says so.
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
    sender: Option<(interval::Sender, Duration)>,
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
        let request = Body::new(plan.first_request().bytes(plan.reuse)?);
        let active = plan.active.unwrap_or(plan.connections);
        Ok(Self {
            table: Table::new(plan.connections, plan.pipeline),
            latency: Recorder::new(),
            counts: Counts::default(),
            request,
            method: Method::from_name(plan.first_request().method.as_bytes()),
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
            sender: None,
            plan,
        })
    }

    /// Where progress is published, for another thread to read.
    #[must_use]
    pub fn live(&self) -> Live {
        self.live.clone()
    }

    /// The run in intervals of this length, for another thread to take while it
    /// lasts; to be called before the first turn. An interval that ends when
    /// the collector has not given back any of [`crate::INTERVALS_LIMIT`] goes
    /// on instead, and is counted ([`Figures::intervals_merged`]). The last
    /// one is there when the run has ended.
    pub fn intervals(&mut self, every: Duration) -> Intervals {
        let (sender, intervals) = interval::channel(INTERVALS_LIMIT);
        self.sender = Some((sender, every.max(Duration::from_millis(1))));
        intervals
    }

    /// How far the run is. Cheap: a runtime's account of its time ([`crate::Busy`])
    /// starts when this first says [`Stage::Measuring`], and stops when it
    /// says [`Stage::Ended`].
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.phase {
            Phase::Waiting => Stage::Waiting,
            Phase::Ramp { .. } => Stage::Ramp,
            Phase::WarmUp { .. } => Stage::WarmUp,
            Phase::Window { .. } => Stage::Measuring,
            Phase::Ended => Stage::Ended,
        }
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
        // The connect's timer does for the first request if it is not too late.
        conn.timed &= self.plan.connect_timeout <= self.plan.timeout;
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
        loop {
            let Some(conn) = self.table.get_mut(id) else {
                return data.len();
            };
            if conn.state != State::Busy || answers == 0 {
                self.on_unasked(net, id);
                return data.len();
            }
            let rest = data.get(used..).unwrap_or_default();
            match conn.engine.on_bytes_counted(rest, self.method, &self.limits, &mut self.memo) {
                Counted::Complete { summary, consumed } => {
                    used += consumed;
                    answers -= 1;
                    self.counts.traffic.received_bytes += consumed as u64;
                    self.on_response(net, id, summary);
                    if used >= data.len() {
                        return used;
                    }
                }
                Counted::NeedMore { consumed } => {
                    used += consumed;
                    self.counts.traffic.received_bytes += consumed as u64;
                    return used;
                }
                Counted::Failed { .. } => {
                    self.on_malformed(net, id);
                    return data.len();
                }
            }
        }
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
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        let timeout = patience(&self.plan, conn.state);
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
        let overdue = conn.age(net.now()) >= patience(&self.plan, was);
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

/// How long a connection in this state is waited for.
fn patience(plan: &Plan, state: State) -> Duration {
    if state == State::Connecting { plan.connect_timeout } else { plan.timeout }
}
