//! Streams that are to have a rate: media that is played, or flows that a server paces.
//!
//! Each stream asks for its paths in turn, one behind the other: on a connection of its own, or over HTTP/2 on one
//! that several share. With a player it takes as fast
//! as the server sends until the player's buffer is full, and at the player's rate from then on; an
//! under-run is as long as there is nothing to play. Without one it takes all that comes. Either way
//! what came is held against what was due, second by second, for each stream.
//!
//! | file | what happens |
//! | --- | --- |
//! | this one | a run, from its first connect to its last |
//! | `plan` | what is asked for |
//! | `phase` | how far it is |
//! | `order` | which request comes when |
//! | `opening` | connections, and what secures them |
//! | `asking` | requests; what becomes of a stream that fails |
//! | `answers` | what comes |
//! | `shared` | over HTTP/2: connections of many streams, and their windows |
//! | `stream` | what is kept of each stream, and each connection |
//! | `player` | a buffer that fills and is played |
//! | `window` | the measured seconds: which of them count, what each stream had in them |
//! | `measure` | each stream's account: what it played, what came, what counts |
//! | `waiting` | times that were not over by the end |
//! | `figures` | what it came to |
//!
//! # What it costs
//!
//! Nothing is done for each stream as time passes: a stream's seconds end when something comes on
//! it, and at the end. A player whose buffer is full sets its connection's timer, eight times for
//! each time that the buffer holds; of connections that streams share, all these are looked at then.
//!
//! # Whether the figures are right
//!
//! A second's bytes are those that came by its end as the generator saw it. So a second at whose end it was
//! called so late that a segment may have been counted in the next one does not count, nor does one
//! in which the hypervisor had a core ([`StreamingLive::set_stolen`]): both are counted. What
//! content is has been decided by the answers' framing: heads and records of TLS are none.

mod answers;
mod asking;
mod figures;
mod live;
mod measure;
mod opening;
mod order;
mod phase;
mod plan;
mod player;
mod shared;
mod stream;
mod waiting;
mod window;

pub use figures::{
    CountedSeconds, Evenness, LeftOut, Off, Playing, SecondFigures, StreamErrors, StreamingFigures, StreamingReport,
    StreamingSetup,
};
pub use live::{StreamingLive, StreamingProgress};
pub use plan::{PlayerPlan, StreamingPlan};
pub use player::{PlayRate, SEGMENT};
pub(crate) use waiting::{Waited, quantile};

use crate::live::Stage;
use crate::load::{Dialogue, Mix};
use crate::plan::PlanError;
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::time::Duration;
use h1::client::ResponseLimits;
use handshake::Connector;
use measure::{Flow, KNOWN_AFTER, Measure};
use order::Order;
use phase::StreamingPhase as Phase;
use shared::Shared;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stream::{Carrier, Line, Stream};
use wire::Time;

/// Connects that one turn starts, at most.
const STARTS_PER_TURN: u32 = 64;

/// Connections that one turn ends, at most.
const CLOSES_PER_TURN: usize = 256;

/// How long a stream waits after a failure before it is started anew.
const PAUSE: Duration = Duration::from_millis(100);

/// Streams of one silo or thread.
#[derive(Debug)]
pub struct Streaming {
    plan: StreamingPlan,
    mix: Mix,
    order: Order,
    /// Where answers are looked at, or led on by redirects.
    dialogue: Option<Box<Dialogue>>,
    limits: ResponseLimits,
    streams: Vec<Stream>,
    /// Their connections: over HTTP/1.1 one for each stream, over HTTP/2 for as many as share one.
    carriers: Vec<Carrier>,
    /// Over HTTP/2.
    shared: Option<Box<Shared>>,
    /// By a connection's slot: which it is, and which of the carriers has it.
    places: Vec<Option<(ConnId, usize)>>,
    /// Carriers that were started once.
    started: usize,
    /// Those to be started anew, and when.
    again: BTreeSet<(Time, usize)>,
    connects: usize,
    /// No further connect is tried before.
    held_until: Time,
    handshakes: u32,
    open: usize,
    established: u64,
    /// A server would not be secured, or is not the one to ask: trying again changes nothing.
    unsuited: bool,
    /// What came first of a server is no HTTP/2: there is nobody to ask.
    in_vain: bool,
    securing: BTreeMap<usize, Connector>,
    phase: Phase,
    closing: usize,
    measure: Measure,
}

impl Streaming {
    /// Streams as planned. Memory for them is taken here.
    ///
    /// # Errors
    /// If the plan cannot be run.
    pub fn new(plan: StreamingPlan) -> Result<Self, PlanError> {
        plan.check()?;
        Ok(Self {
            mix: Mix::new(&plan.load)?,
            order: Order::new(&plan.load.requests),
            dialogue: Dialogue::new(&plan.load),
            limits: ResponseLimits::default(),
            streams: (0..plan.streams()).map(|number| Stream::new(Flow::new(&plan), first(&plan, number))).collect(),
            carriers: (0..plan.load.connections as usize).map(|number| Carrier::new(waiting(&plan, number))).collect(),
            shared: Shared::new(&plan),
            places: Vec::new(),
            started: 0,
            again: BTreeSet::new(),
            connects: 0,
            held_until: Time::ZERO,
            handshakes: 0,
            open: 0,
            established: 0,
            unsuited: false,
            in_vain: false,
            securing: BTreeMap::new(),
            phase: Phase::Waiting,
            closing: 0,
            measure: Measure::new(&plan),
            plan,
        })
    }

    /// Where progress is published, for another thread to read, and what it knows is told.
    #[must_use]
    pub fn live(&self) -> StreamingLive {
        self.measure.live().clone()
    }

    /// How far it is.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        match self.phase {
            Phase::Waiting => Stage::Waiting,
            Phase::Opening { .. } => Stage::Ramp,
            Phase::WarmUp { .. } => Stage::WarmUp,
            Phase::Measuring | Phase::Lingering { .. } => Stage::Measuring,
            Phase::Over => Stage::Ended,
        }
    }

    /// Ends it, if it has not ended.
    pub fn stop(&mut self, now: Time) {
        if self.phase == Phase::Over {
            return;
        }
        if !matches!(self.phase, Phase::Lingering { .. }) {
            self.measure.figures.interrupted = true;
            self.measure.end(now);
        }
        self.be_over();
    }

    fn be_over(&mut self) {
        self.phase = Phase::Over;
        self.measure.publish(Stage::Ended);
    }

    /// What it came to. It ends now, if it has not.
    #[must_use]
    pub fn into_figures(mut self, now: Time) -> StreamingFigures {
        self.stop(now);
        let unconnected = self.carriers.iter().filter(|carrier| carrier.is_unconnected).count();
        self.measure.figures.unconnected = unconnected as u64 * u64::from(self.plan.streams_on_each());
        self.measure.finish(self.streams.into_iter().map(|stream| stream.flow))
    }

    /// There is nobody to ask: it ends.
    fn end_in_vain(&mut self, now: Time) {
        self.carriers.iter_mut().for_each(|carrier| carrier.is_unconnected = true);
        self.measure.end(now);
        self.be_over();
    }

    /// Which of the carriers has, or had, a connection that is not closed.
    fn place(&self, id: ConnId) -> Option<usize> {
        let (known, number) = self.places.get(id.index()).copied()??;
        (known == id).then_some(number)
    }

    /// Goes from one phase to the next where that is due, and tells when it is to be called.
    fn go_on(&mut self, now: Time) {
        if self.in_vain && self.phase.starts() {
            return self.end_in_vain(now);
        }
        match self.phase {
            Phase::Waiting => self.phase = Phase::Opening { since: now },
            Phase::Opening { since } => {
                let load = &self.plan.load;
                // As long as none could be opened, all are tried again.
                let tried = self.started == self.carriers.len() && self.handshakes == 0;
                let known = self.established > 0 || self.unsuited;
                if !(tried && known) && now.since(since) < load.ramp + load.ramp_limit {
                    return;
                }
                if self.established == 0 {
                    let words = || "no connection could be opened".to_owned();
                    self.measure.figures.failure.get_or_insert_with(words);
                    return self.end_in_vain(now);
                }
                self.phase = Phase::WarmUp { until: now + load.warm_up };
            }
            Phase::WarmUp { until } if now >= until => {
                self.phase = Phase::Measuring;
                self.measure.begin(now);
            }
            Phase::Measuring if self.measure.ends().is_some_and(|ends| now >= ends) => {
                self.phase = Phase::Lingering { until: now + KNOWN_AFTER };
            }
            Phase::Lingering { until } if now >= until => self.stop(now),
            Phase::WarmUp { .. } | Phase::Measuring | Phase::Lingering { .. } | Phase::Over => {}
        }
    }

    /// When the phase at hand is over, as far as time decides that.
    fn phase_ends(&self) -> Time {
        match self.phase {
            Phase::WarmUp { until } | Phase::Lingering { until } => until,
            Phase::Measuring => self.measure.ends().unwrap_or(Time::MAX),
            Phase::Waiting | Phase::Opening { .. } | Phase::Over => Time::MAX,
        }
    }

    /// Connects for streams that are due.
    fn start_some<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if !self.phase.starts() {
            return Wake::Idle;
        }
        if now < self.held_until {
            return Wake::At(self.held_until);
        }
        for _ in 0..STARTS_PER_TURN {
            if self.handshakes >= self.plan.load.handshakes {
                // One that ends calls for the next turn.
                return Wake::Idle;
            }
            let first = self.again.first().copied();
            let number = match first {
                Some((at, number)) if at <= now => {
                    self.again.pop_first();
                    number
                }
                _ => {
                    let new = self.new_connection_at();
                    if new > now {
                        return Wake::At(first.map_or(new, |(at, _)| at.min(new)));
                    }
                    self.started += 1;
                    self.started - 1
                }
            };
            if !self.connect(net, now, number) {
                // Another time may have room.
                self.held_until = now + PAUSE;
                return Wake::At(self.held_until);
            }
        }
        Wake::Now
    }

    /// When the next connection is to be opened that was not yet.
    fn new_connection_at(&self) -> Time {
        let all = self.carriers.len();
        match self.phase {
            _ if self.started >= all => Time::MAX,
            Phase::Opening { since } => since + self.plan.load.ramp.mul_f64(self.started as f64 / all as f64),
            _ => Time::ZERO,
        }
    }
}

/// Those that wait for its first connection, over HTTP/2.
fn waiting(plan: &StreamingPlan, number: usize) -> VecDeque<usize> {
    if plan.load.http2.is_some() { plan.carried(number).collect() } else { VecDeque::new() }
}

/// The place of a stream's first request. Streams of all parts of a plan are counted through.
fn first(plan: &StreamingPlan, number: u32) -> usize {
    let (part, parts) = plan.load.lane;
    if plan.spread { number as usize * parts as usize + part as usize } else { 0 }
}

impl App for Streaming {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        let (Some(number), Opened::Connected) = (self.place(id), how) else { return net.abort(id) };
        let Some(sought) = self.plan.load.secured.clone() else { return self.on_ready(net, number) };
        self.carriers[number].line = Line::Securing;
        self.securing.insert(id.index(), Connector::new(sought));
        self.on_handshake(net, id, number, &[]);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        let stage = self.stage();
        self.measure.look(now, stage);
        let Some(number) = self.place(id) else { return data.len() };
        if self.carriers[number].id == Some(id) && self.carriers[number].line == Line::Securing {
            return self.on_handshake(net, id, number, data);
        }
        if self.shared.is_some() {
            return self.on_frames(net, id, data);
        }
        let used = self.take(net, number, data);
        let carrier = &self.carriers[number];
        if carrier.line == Line::Asked && self.streams[number].paused.is_none() {
            if carrier.is_at_end && used == data.len() {
                self.on_all_taken(net, number);
            } else {
                net.set_timer(id, Some(now + self.plan.load.timeout));
            }
        }
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let Some(number) = self.place(id) else { return net.finish(id) };
        if self.shared.as_ref().is_some_and(|shared| shared.has(id)) {
            return self.on_shared_end(net, id);
        }
        let carrier = &mut self.carriers[number];
        carrier.is_at_end = true;
        match carrier.line {
            Line::Securing => {
                self.fail_connect(net, number, "the server closed the connection within the handshake".to_owned());
            }
            // What it sent before is taken as there is room for it.
            Line::Asked if held > 0 && self.streams[number].paused.is_some() => {}
            _ => self.on_all_taken(net, number),
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(number) = self.place(id) else { return };
        let now = net.now();
        if self.shared.as_ref().is_some_and(|shared| shared.has(id)) {
            return self.on_shared_timer(net, id);
        }
        if self.carriers[number].id != Some(id) {
            return net.abort(id);
        }
        let paused = self.shared.is_none() && self.streams[number].paused.take().is_some();
        match self.carriers[number].line {
            Line::Idle => self.ask(net, number),
            Line::Asked if paused => {
                net.set_timer(id, Some(now + self.plan.load.timeout));
                net.resume(id);
            }
            Line::Asked => {
                self.measure.figures.errors.timeouts += 1;
                self.fail(net, number, "the server sent nothing for as long as --timeout says".to_owned());
            }
            Line::Connecting | Line::Securing => {
                self.fail_connect(net, number, "a connection took longer than --connect-timeout says".to_owned());
            }
            Line::Closed | Line::Shared | Line::Ending => net.abort(id),
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let Some(number) = self.place(id) else { return };
        self.places[id.index()] = None;
        self.securing.remove(&id.index());
        self.open -= 1;
        if self.shared.as_ref().is_some_and(|shared| shared.has(id)) {
            self.on_shared_close(net, id, why);
        }
        if self.carriers[number].id != Some(id) {
            // Its streams went elsewhere.
            return;
        }
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.forget(id);
        }
        let carrier = &mut self.carriers[number];
        carrier.id = None;
        let was = core::mem::replace(&mut carrier.line, Line::Closed);
        if !self.phase.starts() {
            return;
        }
        let reset = matches!(why, Closed::Reset | Closed::Finished);
        let is_lost = match was {
            Line::Connecting | Line::Securing => true,
            Line::Asked => !(reset && self.take_back(number)),
            Line::Idle => {
                self.measure.figures.reopened += 1;
                false
            }
            Line::Closed | Line::Shared | Line::Ending => false,
        };
        let mut pause = core::mem::take(&mut self.carriers[number].pause);
        if is_lost {
            let errors = &mut self.measure.figures.errors;
            let opening = was != Line::Asked;
            *(if opening { &mut errors.connects } else { &mut errors.lost }) += 1;
            self.handshakes -= u32::from(opening);
            self.carriers[number].is_unconnected |= opening;
            let what = if opening { "a connection could not be opened" } else { "a stream's connection ended" };
            self.measure.figures.failure = Some(format!("{what}: {}", crate::bulk::word(why)));
            self.on_unanswered(net.now(), number);
            pause = PAUSE;
        }
        self.again.insert((net.now() + pause, number));
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        let stage = self.stage();
        self.measure.look(now, stage);
        self.go_on(now);
        let wake = self.start_some(net, now);
        if self.phase == Phase::Over {
            Wake::Idle
        } else {
            wake.earlier(Wake::At(self.measure.due().min(self.phase_ends())))
        }
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.stop(net.now());
        let end = self.places.len().min(self.closing + CLOSES_PER_TURN);
        self.places[self.closing..end].iter().flatten().for_each(|(id, _)| net.abort(*id));
        self.closing = end;
        self.open == 0
    }
}
