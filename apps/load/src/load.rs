//! The load generator as an application.
//!
//! | file | what happens |
//! | --- | --- |
//! | this one | state, and what the data path calls |
//! | `requests` | once per request |
//! | `connections` | once per connection |
//! | `securing` | once per connection over HTTPS: its handshake |
//! | `http2`, `prepared` | over HTTP/2: connections of many streams, calls of gRPC; their requests |
//! | `go_away` | over HTTP/2: connections that are told to go, and those in their place |
//! | `open` | an open loop: what is due, and which connection sends it |
//! | `mix` | several requests, drawn by weight |
//! | `dialogue` | requests written anew, answers read: templates, checks, cookies, redirects |
//! | `rows` | figures of each request apart |
//! | `phases` | a few times in a run: ramp, warm-up, window, figures |
//! | `cuts` | once per interval: what goes to another thread |
//! | `in_progress` | the count of requests in progress, over time |
//! | `turns` | once per turn: the generator's account of its own time |

mod connections;
mod cuts;
mod dialogue;
mod go_away;
mod http2;
mod in_progress;
mod mix;
mod open;
mod parts;
mod phases;
mod prepared;
mod requests;
mod rows;
mod securing;
mod turns;

pub(crate) use dialogue::Dialogue;
pub(crate) use mix::{ANY_STATUS, Mix};
pub(crate) use prepared::{OwnFields, Prepared};
pub(crate) use securing::unsuited;

use crate::checks::WrongAnswer;
use crate::conn::{Kept, State, Table};
use crate::figures::{self, Counts, Ended, Figures};
use crate::interval::{self, INTERVALS_LIMIT, Intervals};
use crate::live::{Live, Stage};
use crate::plan::{Plan, PlanError, Reuse};
use crate::random::Random;
use crate::recorder::Recorder;
use crate::samples::{Class, Samples};
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::time::Duration;
use cuts::Cuts;
use h1::client::{Counted, ResponseLimits, Summary};
use http2::Http2;
use in_progress::{InProgress, Mark};
use open::Open;
use parts::Parts;
use rows::Rows;
use securing::Securing;
use semantics::Method;
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

/// How often the generator asks to be called, at least: each time tells how
/// late it was called. A pause of its own that is longer cannot be missed, and
/// 200 calls in a second are no load.
const HEARTBEAT: Duration = Duration::from_millis(5);

/// The shortest interval.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// The load generator, for one silo. See the crate's documentation.
#[derive(Debug)]
pub struct Load {
    // What every response touches.
    table: Table,
    samples: Samples,
    counts: Counts,
    progress: InProgress,
    request: Body,
    only_method: Method,
    /// Whether this is a closed loop of requests that are answered alike, so
    /// that nothing is to be kept of each.
    plain: bool,
    /// Whether all requests are the same bytes.
    single: bool,
    limits: ResponseLimits,
    /// Requests that may still be sent.
    allowance: u64,
    /// Answered or failed requests until the window ends; before it, until
    /// the server is warm.
    quota: u64,
    expect_length: u64,
    reuse: Reuse,
    /// Whether some connections stand idle; those that do not are drawn at
    /// random, anew for each request if the plan says so.
    mixing: bool,
    /// Slots whose connections are to be asked for the first time, where a closed loop was held.
    unasked: usize,
    /// Whether this turn brought anything.
    worked: bool,

    // Once per turn.
    /// When the next change of phase, publication or the like is due.
    due: Time,
    /// When the last turn asked to be called: then, or before.
    asked_for: Time,
    /// Whether each turn may start something: an open loop, or the end.
    starts_each_turn: bool,
    open_loop: Option<Box<Open>>,
    mix: Mix,
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
    /// Where the plan secures connections.
    securing: Option<Box<Securing>>,
    handshakes: u32,
    open: u64,
    most_open: u64,
    /// Keep-alive connections lost and not yet replaced.
    lost: u64,
    connects: usize,
    retry_at: Time,
    backoff: Duration,
    random: Random,
    /// Whether as many requests have ended as the warm-up asks for.
    warm: bool,
    started: Time,
    phase_start: PhaseStart,
    ramp_phase: figures::Phase,
    warm_up_phase: figures::Phase,
    closing: usize,
    live: Live,
    published: Published,
    figures: Option<Box<Figures>>,
    cuts: Option<Box<Cuts>>,
    /// Where the plan asks for them.
    parts: Option<Box<Parts>>,
    dialogue: Option<Box<Dialogue>>,
    /// Where the plan asks for it.
    http2: Option<Box<Http2>>,
    rows: Option<Box<Rows>>,
    /// Some of the answers that were not as they were to be.
    wrong_answers: Vec<WrongAnswer>,
}

/// How far the run is, with the time that each phase ends at the latest, and since when one that is held is ready.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting,
    Ramp { until: Time, ready: Option<Time> },
    WarmUp { ramp: Duration, until: Time, from: Time },
    Window { ramp: Duration, warm_up: Duration, from: Time, until: Time },
    Ended,
}

/// Where the accounts stood when the phase at hand began.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseStart {
    counts: Counts,
    in_progress: Mark,
    due: u64,
    backlog: u64,
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
        let mix = Mix::new(&plan)?;
        let mix::Kind { body: request, method, expect_length, expect_status, .. } = mix.kind(0);
        let (request, only_method) = (request.clone(), *method);
        let (expect_length, expect_status) = (*expect_length, *expect_status);
        let dialogue = Dialogue::new(&plan);
        let rows = plan.url_rows.map(|limit| Box::new(Rows::new(plan.requests.len(), limit)));
        let apart = dialogue.is_some() || rows.is_some();
        let kept = kept(&plan, &mix, apart);
        let open_loop = Open::of(&plan);
        let plain = !(kept.due || kept.kind || kept.uses || kept.by_place || apart) && expect_status == ANY_STATUS;
        Ok(Self {
            table: Table::new(plan.connections, plan.pipeline, kept),
            samples: Samples::default(),
            counts: Counts::default(),
            progress: InProgress::default(),
            request,
            only_method,
            plain,
            single: mix.is_single(),
            limits: ResponseLimits::default(),
            allowance: if plan.held { 0 } else { u64::MAX },
            quota: if plan.warm_up_requests > 0 { plan.warm_up_requests } else { u64::MAX },
            expect_length,
            reuse: plan.reuse,
            mixing: plan.active.is_some_and(|active| active < plan.connections),
            unasked: 0,
            worked: false,
            due: Time::ZERO,
            asked_for: Time::ZERO,
            starts_each_turn: open_loop.is_some(),
            open_loop,
            mix,
            serving: 0,
            busy: 0,
            busy_wanted: 0,
            turns: TurnClock::default(),
            phase: Phase::Waiting,
            connect: Recorder::new(),
            securing: plan.secured.clone().map(|sought| Box::new(Securing::new(sought))),
            handshakes: 0,
            open: 0,
            most_open: 0,
            lost: 0,
            connects: 0,
            retry_at: Time::ZERO,
            backoff: Duration::ZERO,
            random: Random::new(plan.seed),
            warm: plan.warm_up_requests == 0,
            started: Time::ZERO,
            phase_start: PhaseStart::default(),
            ramp_phase: figures::Phase::default(),
            warm_up_phase: figures::Phase::default(),
            closing: 0,
            live: Live::default(),
            published: Published { next: Time::ZERO, at: Time::ZERO, responses: 0 },
            figures: None,
            cuts: None,
            parts: plan.parts.then(Box::default),
            dialogue,
            http2: Http2::new(&plan),
            rows,
            wrong_answers: Vec::new(),
            plan,
        })
    }

    /// Where progress is published, for another thread to read.
    #[must_use]
    pub fn live(&self) -> Live {
        self.live.clone()
    }

    /// The run in intervals of this length (1 ms at least), for another thread to take while it
    /// lasts; to be called before the first turn. An interval that ends when
    /// the collector has not given back any of [`crate::INTERVALS_LIMIT`] goes
    /// on instead, and is counted ([`Figures::intervals_merged`]). The last
    /// one is there when the run has ended.
    pub fn intervals(&mut self, every: Duration) -> Intervals {
        let (sender, intervals) = interval::channel(INTERVALS_LIMIT);
        self.cuts = Some(Box::new(Cuts::new(sender, every.max(SHORTEST_INTERVAL))));
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
        self.progress.tick(now);
        let known = self.table.get_mut(id).filter(|conn| conn.state == State::Connecting);
        let (Some(conn), Opened::Connected) = (known, how) else {
            // Not one of our connects, or one given up in this very turn.
            net.abort(id);
            return;
        };
        self.connect.record(conn.age(now).as_nanos() as u64);
        if let Some(parts) = &mut self.parts {
            parts.on_open(id, conn.since);
        }
        if self.securing.is_some() {
            self.begin_securing(net, id);
        } else {
            self.on_ready(net, id, None);
        }
    }

    #[inline]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        self.worked = true;
        self.progress.tick(net.now());
        if !self.plain && self.http2.is_some() {
            return self.on_frames(net, id, data);
        }
        if !self.plain && self.dialogue.is_some() {
            return self.on_dialogue(net, id, data);
        }
        // Only what was asked before these bytes came can be answered in them.
        let mut answers = self.table.get(id).map_or(0, |conn| conn.asked);
        let mut used = 0;
        loop {
            let method = self.method(id);
            let Some(conn) = self.table.get_mut(id) else {
                return data.len();
            };
            if conn.state != State::Busy || answers == 0 {
                if conn.state == State::Securing {
                    return self.on_handshake_bytes(net, id, data);
                }
                self.on_unasked(net, id);
                return data.len();
            }
            let rest = data.get(used..).unwrap_or_default();
            if let Some(parts) = &mut self.parts
                && let Some(wait) = parts.on_bytes(id, rest, conn.since, net.now())
            {
                self.samples.waiting.record(wait);
            }
            match conn.engine.on_bytes_counted(rest, method, &self.limits) {
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
        self.progress.tick(net.now());
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        if conn.state == State::Securing {
            self.on_handshake_end(net, id);
            return;
        }
        let ended = conn.engine.on_end(held);
        // Whoever cuts a secured connection off must not pass for its server.
        let cut = self.securing.is_some() && net.was_cut(id);
        if conn.state == State::Busy
            && !cut
            && let Ok(Some(summary)) = ended
        {
            // RFC 9112 §6.3 rule 8: the end of the connection ends it.
            let summary = Summary { keep_alive: false, ..summary };
            match self.dialogue {
                None => self.on_response(net, id, summary),
                Some(_) => self.on_last_answer(net, id, summary),
            }
        }
        if held > 0 && self.on_no_http2(net, id, &[]) {
            return;
        }
        self.on_peer_finished(net, id, cut || ended.is_err());
    }

    fn on_sent<N: Net>(&mut self, _: &mut N, _: ConnId) {}

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        self.refresh_oldest(id);
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
        self.progress.tick(now);
        self.on_overdue(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.worked = true;
        let now = net.now();
        self.progress.tick(now);
        let Some(conn) = self.table.get(id) else {
            return;
        };
        let was = conn.state;
        let overdue = conn.age(now) >= patience(&self.plan, was);
        let asked = self.end_all(id, now, Class::Failed);
        if let Some(conn) = self.table.get_mut(id) {
            conn.state = State::Free;
        }
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.forget(id);
        }
        match was {
            State::Free => return,
            State::Connecting => {
                self.on_connect_failed(now, why, overdue);
                return;
            }
            State::Securing => {
                self.on_unsecured_close(now, id, overdue);
                return;
            }
            State::Leaving => {}
            State::Idle | State::Awaiting => self.no_longer_serving(id),
            State::Busy => {
                let errors = &mut self.counts.errors;
                *match why {
                    Closed::Finished => &mut errors.unanswered,
                    Closed::Reset | Closed::Refused => &mut errors.reset,
                    Closed::TimedOut => &mut errors.tcp_timed_out,
                    Closed::Unreachable(_) => &mut errors.unreachable,
                    Closed::Aborted => &mut errors.aborted,
                } += u64::from(asked);
                self.on_failed(now, asked);
                self.no_longer_serving(id);
            }
        }
        if let Some(http2) = &mut self.http2 {
            http2.forget(id);
        }
        self.open -= 1;
        self.counts.connections.closed += 1;
    }

    #[inline]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        if now >= self.asked_for {
            self.on_asked_for(now);
        }
        let wake = if self.starts_each_turn || self.lacks() { self.start_more(net, now) } else { Wake::At(self.due) };
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

impl Load {
    /// It is the time that the last turn asked for, or past it.
    #[cold]
    fn on_asked_for(&mut self, now: Time) {
        if self.asked_for > Time::ZERO {
            self.samples.delay.record(now.since(self.asked_for).as_nanos() as u64);
        }
        if now >= self.due {
            self.advance(now);
        }
        self.asked_for = self.due;
    }

    /// Has the next turn look at the phase.
    fn look_up(&mut self) {
        (self.due, self.asked_for) = (Time::ZERO, Time::ZERO);
    }

    /// Starts connections and requests, or after the end closes.
    fn start_more<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        let ended = matches!(self.phase, Phase::Ended);
        let mut wake = Wake::At(self.due);
        if self.open_loop.is_some() && !ended {
            // Before the connections that what is due may need.
            wake = sooner(wake, self.open_turn(net, now));
        }
        if ended || self.lacks() {
            wake = sooner(wake, self.fill(net, now));
        }
        self.asked_for = if let Wake::At(at) = wake { at.min(self.due) } else { self.due };
        wake
    }
}

/// What is kept of each request; `apart` says whether something is, of each kind.
fn kept(plan: &Plan, mix: &Mix, apart: bool) -> Kept {
    let by_place = plan.http2.is_some();
    let kind = !mix.is_uniform() || (apart || by_place) && plan.requests.len() > 1;
    Kept { due: plan.is_open(), kind, uses: plan.reuse.per_connection() > Some(1), by_place }
}

/// What comes first.
fn sooner(one: Wake, other: Wake) -> Wake {
    match (one, other) {
        (Wake::Now, _) | (_, Wake::Now) => Wake::Now,
        (Wake::At(one), Wake::At(other)) => Wake::At(one.min(other)),
        (Wake::At(at), Wake::Idle) | (Wake::Idle, Wake::At(at)) => Wake::At(at),
        (Wake::Idle, Wake::Idle) => Wake::Idle,
    }
}

/// How long a connection in this state is waited for.
fn patience(plan: &Plan, state: State) -> Duration {
    match state {
        State::Connecting | State::Securing => plan.connect_timeout,
        State::Busy => plan.patience(),
        _ => plan.timeout,
    }
}
