//! Streams that are to have a rate: media that is played, or flows that a server paces.
//!
//! Each connection asks for its paths in turn, one behind the other. With a player it reads as fast
//! as the server sends until the player's buffer is full, and at the player's rate from then on; an
//! under-run is as long as there is nothing to play. Without one it reads all that comes. Either way
//! what came is held against what was due, second by second, for each stream.
//!
//! | file | what happens |
//! | --- | --- |
//! | this one | connections, requests, answers |
//! | `plan` | what is asked for |
//! | `stream` | what is kept of each |
//! | `player` | a buffer that fills and is played |
//! | `window` | the measured seconds: which of them count, what each stream had in them |
//! | `measure` | each stream's account: what it played, what came, what counts |
//! | `figures` | what it came to |
//!
//! # What it costs
//!
//! Nothing is done for each stream as time passes: a stream's seconds end when something comes on
//! it, and at the end. A player whose buffer is full sets its connection's timer, eight times for
//! each time that the buffer holds.
//!
//! # Whether the figures are right
//!
//! A second's bytes are those that came by its end as the generator saw it. So a second at whose end it was
//! called so late that a segment may have been counted in the next one does not count, nor does one
//! in which the hypervisor had a core ([`StreamingLive::set_stolen`]): both are counted. What
//! content is has been decided by the answers' framing: heads and records of TLS are none.

mod figures;
mod live;
mod measure;
mod plan;
mod player;
mod stream;
mod window;

pub use figures::{
    CountedSeconds, Evenness, LeftOut, Off, Playing, SecondFigures, StreamErrors, StreamingFigures, StreamingReport,
    StreamingSetup,
};
pub use live::{StreamingLive, StreamingProgress};
pub use plan::{PlayerPlan, StreamingPlan};
pub use player::{PlayRate, SEGMENT};

use crate::live::Stage;
use crate::load::unsuited;
use crate::plan::{PlanError, Reuse};
use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, Receiving, Wake};
use core::time::Duration;
use h1::client::{ResponseEvent, ResponseLimits, ResponseReader};
use handshake::{ConnectOutcome, Connector, Sought};
use measure::{Flow, KNOWN_AFTER, Measure};
use player::nanos;
use semantics::Method;
use std::collections::{BTreeMap, BTreeSet};
use stream::{Line, Stream};
use wire::Time;

/// Connects that one turn starts, at most.
const STARTS_PER_TURN: u32 = 64;

/// Connections that one turn ends, at most.
const CLOSES_PER_TURN: usize = 256;

/// How long a stream waits after a failure before it is started anew.
const PAUSE: Duration = Duration::from_millis(100);

/// How far a run is, with when that ends at the latest.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Waiting,
    Opening {
        since: Time,
    },
    WarmUp {
        until: Time,
    },
    Measuring,
    /// The window is over; what disturbed its end may not be known yet.
    Lingering {
        until: Time,
    },
    Over,
}

impl Phase {
    /// Whether streams are started, or started anew.
    const fn starts(self) -> bool {
        matches!(self, Self::Opening { .. } | Self::WarmUp { .. } | Self::Measuring)
    }
}

/// Streams of one silo or thread.
#[derive(Debug)]
pub struct Streaming {
    plan: StreamingPlan,
    requests: Vec<Body>,
    limits: ResponseLimits,
    streams: Vec<Stream>,
    /// By a connection's slot, the stream that has it.
    places: Vec<usize>,
    /// Streams that were started once.
    started: usize,
    /// Those to be started anew, and when.
    again: BTreeSet<(Time, usize)>,
    connects: usize,
    /// No further connect is tried before.
    held_until: Time,
    handshakes: u32,
    open: usize,
    established: u64,
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
        let encode = |one: &crate::plan::Weighted<crate::plan::Request>| one.item.bytes(Reuse::KeepAlive);
        let requests =
            plan.load.requests.iter().map(|one| encode(one).map(Body::new)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            requests,
            limits: ResponseLimits::default(),
            streams: (0..plan.load.connections).map(|_| Stream::new(Flow::new(&plan))).collect(),
            places: Vec::new(),
            started: 0,
            again: BTreeSet::new(),
            connects: 0,
            held_until: Time::ZERO,
            handshakes: 0,
            open: 0,
            established: 0,
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
        self.measure.finish(self.streams.into_iter().map(|stream| stream.flow))
    }

    fn place(&self, id: ConnId) -> Option<usize> {
        let number = self.places.get(id.index()).copied()?;
        self.streams.get(number).filter(|stream| stream.id == Some(id)).map(|_| number)
    }

    /// Goes from one phase to the next where that is due, and tells when it is to be called.
    fn go_on(&mut self, now: Time) {
        match self.phase {
            Phase::Waiting => self.phase = Phase::Opening { since: now },
            Phase::Opening { since } => {
                let load = &self.plan.load;
                let tried = self.started == self.streams.len() && self.handshakes == 0;
                if !tried && now.since(since) < load.ramp + load.ramp_limit {
                    return;
                }
                if self.established == 0 {
                    let words = || "no connection could be opened".to_owned();
                    self.measure.figures.failure.get_or_insert_with(words);
                    self.measure.end(now);
                    self.be_over();
                    return;
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

    /// Starts streams that are due.
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
                    let new = self.new_stream_at();
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

    /// When the next stream is to be started that was not yet.
    fn new_stream_at(&self) -> Time {
        let all = self.streams.len();
        match self.phase {
            _ if self.started >= all => Time::MAX,
            Phase::Opening { since } => since + self.plan.load.ramp.mul_f64(self.started as f64 / all as f64),
            _ => Time::ZERO,
        }
    }

    /// Begins a stream's connection. Whether it is on its way.
    fn connect<N: Net>(&mut self, net: &mut N, now: Time, number: usize) -> bool {
        let load = &self.plan.load;
        let from = self.connects.checked_rem(load.sources.len()).and_then(|place| load.sources.get(place)).copied();
        let to = load.targets[self.connects % load.targets.len()];
        self.connects += 1;
        let id = match net.connect(from, to) {
            Ok(id) => id,
            Err(why) => {
                if !matches!(why, ConnectError::Full | ConnectError::Busy) {
                    self.measure.figures.errors.connects += 1;
                    self.measure.figures.failure = Some(why.to_string());
                }
                self.again.insert((now + PAUSE, number));
                return false;
            }
        };
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, usize::MAX);
        }
        self.places[id.index()] = number;
        self.streams[number].begin_connecting(id);
        self.handshakes += 1;
        self.open += 1;
        net.set_timer(id, Some(now + load.connect_timeout));
        true
    }

    /// A stream failed, in words: its connection ends, and it is started anew.
    fn fail<N: Net>(&mut self, net: &mut N, number: usize, why: String) {
        self.measure.figures.failure = Some(why);
        let stream = &mut self.streams[number];
        self.handshakes -= u32::from(matches!(stream.line, Line::Connecting | Line::Securing));
        (stream.line, stream.pause) = (Line::Ending, PAUSE);
        if let Some(id) = stream.id {
            self.securing.remove(&id.index());
            net.abort(id);
        }
    }

    /// Its connection is there, and secured if it is to be.
    fn on_ready<N: Net>(&mut self, net: &mut N, number: usize) {
        self.handshakes -= 1;
        self.established += 1;
        self.ask(net, number);
    }

    fn ask<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
        let request = &self.requests[stream.next % self.requests.len()];
        stream.next = stream.next.wrapping_add(1);
        (stream.line, stream.asked, stream.reader) = (Line::Asked, Some(now), ResponseReader::new());
        stream.flow.begin(now);
        net.send_body(id, request, 0..request.len());
        net.set_timer(id, Some(now + self.plan.load.timeout));
    }

    /// The player has no room: nothing is taken until it has.
    fn pause<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
        let until = stream.flow.has_room_at(now);
        stream.paused = Some(until);
        net.set_receiving(id, Receiving::Nothing);
        net.set_timer(id, Some(until));
    }

    /// An answer is whole: the next is asked for, as soon as there is room for it.
    fn on_answer<N: Net>(&mut self, net: &mut N, number: usize) {
        self.measure.figures.answers += 1;
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
        if !stream.keeps || stream.is_at_end {
            stream.line = Line::Ending;
            net.finish(id);
        } else if stream.flow.room(now) == 0 {
            stream.line = Line::Idle;
            self.pause(net, number);
        } else {
            self.ask(net, number);
        }
    }

    /// Takes of an answer what there is room for. How many bytes were taken.
    fn take<N: Net>(&mut self, net: &mut N, number: usize, data: &[u8]) -> usize {
        let now = net.now();
        let mut used = 0;
        loop {
            let stream = &mut self.streams[number];
            let mut rest = data.get(used..).unwrap_or_default();
            match stream.line {
                Line::Asked => {}
                Line::Idle if rest.is_empty() => return used,
                Line::Idle => {
                    self.measure.figures.errors.malformed += 1;
                    self.fail(net, number, "the server sends what was not asked for".to_owned());
                    return data.len();
                }
                Line::Closed | Line::Connecting | Line::Securing | Line::Ending => return data.len(),
            }
            if stream.paused.is_some_and(|until| now < until) {
                return used;
            }
            stream.paused = None;
            if let Some(asked) = stream.asked.take_if(|_| !rest.is_empty()) {
                self.measure.figures.first_byte.record(nanos(now.since(asked)));
            }
            if stream.reader.is_within_content() {
                let room = usize::try_from(stream.flow.room(now)).unwrap_or(usize::MAX);
                if room == 0 && !rest.is_empty() {
                    self.pause(net, number);
                    return used;
                }
                rest = rest.get(..room).unwrap_or(rest);
            }
            match stream.reader.on_bytes(rest, Method::Get, &self.limits) {
                ResponseEvent::NeedMore => return used,
                ResponseEvent::Interim { consumed, .. } => used += consumed,
                ResponseEvent::Response { response, consumed } => {
                    used += consumed;
                    stream.keeps = response.keep_alive;
                    let (code, is_empty) = (response.status.code(), response.framing == h1::Framing::None);
                    if !(200..300).contains(&code) {
                        self.measure.figures.errors.statuses += 1;
                        self.fail(net, number, format!("the server answers with status {code}"));
                        return data.len();
                    }
                    if is_empty {
                        self.on_answer(net, number);
                    }
                }
                ResponseEvent::Body { bytes, consumed } => {
                    used += consumed;
                    let bytes = bytes.len() as u64;
                    self.measure.on_content(now, number, &mut stream.flow, bytes);
                }
                ResponseEvent::EndOfBody { consumed, .. } => {
                    used += consumed;
                    self.on_answer(net, number);
                }
                ResponseEvent::LineFeeds { .. } | ResponseEvent::Failed { .. } => {
                    self.measure.figures.errors.malformed += 1;
                    self.fail(net, number, "the server does not answer as HTTP/1.1 has it".to_owned());
                    return data.len();
                }
            }
        }
    }

    /// The server sends no more, and all that it sent was taken.
    fn on_all_taken<N: Net>(&mut self, net: &mut N, number: usize) {
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
        if stream.line == Line::Asked {
            match stream.reader.on_end(0) {
                Ok(Some(_)) => self.measure.figures.answers += 1,
                Ok(None) | Err(_) => {
                    self.measure.figures.errors.lost += 1;
                    return self.fail(net, number, "the server closed a stream within an answer".to_owned());
                }
            }
        }
        self.streams[number].line = Line::Ending;
        net.finish(id);
    }

    /// Takes what the server sends before the connection is secured. How many bytes were taken.
    fn on_handshake<N: Net>(&mut self, net: &mut N, id: ConnId, number: usize, bytes: &[u8]) -> usize {
        let Some(connector) = self.securing.get_mut(&id.index()) else { return bytes.len() };
        if !bytes.is_empty() && !Connector::has_record(bytes) {
            return 0;
        }
        let step = connector.on_bytes(bytes);
        if !step.out.is_empty() {
            net.send_bytes(id, &step.out);
        }
        let why = match step.outcome {
            ConnectOutcome::Waits => return step.consumed,
            ConnectOutcome::Failed(why) => why.to_string(),
            ConnectOutcome::Done(connected) => {
                self.securing.remove(&id.index());
                let sought = self.plan.load.secured.as_ref();
                let why = sought.and_then(|sought: &Sought| unsuited(sought, &connected.session));
                let secures = why.is_none() && connected.into_layer().is_some_and(|(layer, _)| net.secure(id, layer));
                if secures {
                    self.on_ready(net, number);
                    return step.consumed;
                }
                why.unwrap_or_else(|| "the connection ended within the handshake".to_owned())
            }
        };
        self.measure.figures.errors.connects += 1;
        self.fail(net, number, why);
        bytes.len()
    }
}

impl App for Streaming {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        let (Some(number), Opened::Connected) = (self.place(id), how) else { return net.abort(id) };
        let Some(sought) = self.plan.load.secured.clone() else { return self.on_ready(net, number) };
        self.streams[number].line = Line::Securing;
        self.securing.insert(id.index(), Connector::new(sought));
        self.on_handshake(net, id, number, &[]);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        let stage = self.stage();
        self.measure.look(now, stage);
        let Some(number) = self.place(id) else { return data.len() };
        if self.streams[number].line == Line::Securing {
            return self.on_handshake(net, id, number, data);
        }
        let used = self.take(net, number, data);
        let stream = &self.streams[number];
        if stream.line == Line::Asked && stream.paused.is_none() {
            if stream.is_at_end && used == data.len() {
                self.on_all_taken(net, number);
            } else {
                net.set_timer(id, Some(now + self.plan.load.timeout));
            }
        }
        used
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let Some(number) = self.place(id) else { return net.finish(id) };
        let stream = &mut self.streams[number];
        stream.is_at_end = true;
        match stream.line {
            Line::Securing => {
                self.measure.figures.errors.connects += 1;
                self.fail(net, number, "the server closed the connection within the handshake".to_owned());
            }
            // What it sent before is taken as there is room for it.
            Line::Asked if held > 0 && stream.paused.is_some() => {}
            _ => self.on_all_taken(net, number),
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(number) = self.place(id) else { return };
        let now = net.now();
        let stream = &mut self.streams[number];
        let paused = stream.paused.take().is_some();
        match stream.line {
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
                self.measure.figures.errors.connects += 1;
                self.fail(net, number, "a connection took longer than --connect-timeout says".to_owned());
            }
            Line::Closed | Line::Ending => net.abort(id),
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let Some(number) = self.place(id) else { return };
        self.securing.remove(&id.index());
        self.open -= 1;
        let stream = &mut self.streams[number];
        stream.id = None;
        let was = core::mem::replace(&mut stream.line, Line::Closed);
        if !self.phase.starts() {
            return;
        }
        let mut pause = core::mem::take(&mut stream.pause);
        if let Line::Connecting | Line::Securing | Line::Asked = was {
            let errors = &mut self.measure.figures.errors;
            let opening = was != Line::Asked;
            *(if opening { &mut errors.connects } else { &mut errors.lost }) += 1;
            self.handshakes -= u32::from(opening);
            let what = if opening { "a connection could not be opened" } else { "a stream's connection ended" };
            self.measure.figures.failure = Some(format!("{what}: {}", crate::bulk::word(why)));
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
        let end = self.streams.len().min(self.closing + CLOSES_PER_TURN);
        self.streams[self.closing..end].iter().filter_map(|stream| stream.id).for_each(|id| net.abort(id));
        self.closing = end;
        self.open == 0
    }
}
