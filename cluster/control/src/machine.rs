//! The state of a test, and its transitions.

use crate::action::{Action, ChannelId, Progress, RunningWorker};
use crate::impostors::Impostors;
use crate::outcome::{Outcome, Part, skew};
use crate::problem::{Gone, Problem, ProblemKind};
use crate::rules::ControlRules;
use crate::seat::Seat;
use core::time::Duration;
use messages::{Counted, FromWorker, Hello, Readiness, Standing, ToWorker};
use std::collections::{BTreeMap, VecDeque};
use wire::Time;

/// From when all are ready until they begin, at least: a message's way to the last of them.
const MARGIN: Duration = Duration::from_millis(300);

/// A start is told again to a worker that does not say that it knows.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// After the load's planned end its results are waited for so long.
const END_GRACE: Duration = Duration::from_secs(10);

/// A test that ends before its time waits for what was measured so long.
const STOP_GRACE: Duration = Duration::from_millis(1_900);

/// Whoever connects says who it is within this.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// Connections beside two of each worker: strangers' connections.
const STRANGERS_LIMIT: usize = 64;

/// A worker that ends earlier than planned by more than this ended before its time.
const EARLY_TOLERANCE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
enum Phase {
    Preparing { until: Time },
    Loading { start: Time, until: Time },
    Ending { start: Option<Time>, until: Time },
    Over { start: Option<Time> },
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    /// It has not said who it is.
    Unknown {
        until: Time,
    },
    Worker(u32),
}

/// The controller of one test. See the crate's documentation for its states.
///
/// Call order: [`Control::new`]; then the `on_…` as things happen, [`Control::on_time`] at
/// [`Control::next_deadline`], and after each of them [`Control::poll_action`] until there is nothing. When
/// [`Control::progress`] is [`Progress::Over`], [`Control::into_outcome`] has what came of it.
#[derive(Debug)]
pub struct Control<M> {
    rules: ControlRules,
    phase: Phase,
    seats: Vec<Seat<M>>,
    peers: BTreeMap<ChannelId, Peer>,
    problems: Vec<Problem>,
    interrupted: bool,
    /// Whether another test has the target.
    displaced: bool,
    strangers: u64,
    impostors: Impostors,
    actions: VecDeque<Action>,
}

impl<M> Control<M> {
    /// A test that begins now: its workers are to be started.
    #[must_use]
    pub fn new(rules: ControlRules, now: Time) -> Self {
        let workers = u32::try_from(rules.setups.len()).unwrap_or(u32::MAX);
        Self {
            phase: Phase::Preparing { until: now + rules.prepare },
            seats: (0..workers).map(|_| Seat::new(now)).collect(),
            peers: BTreeMap::new(),
            problems: Vec::new(),
            interrupted: false,
            displaced: false,
            strangers: 0,
            impostors: Impostors::default(),
            actions: (0..workers).map(|worker| Action::Launch { worker }).collect(),
            rules,
        }
    }

    /// Somebody connected. One more than there can be is sent away.
    pub fn on_connected(&mut self, channel: ChannelId, now: Time) {
        let unknown = self.peers.values().filter(|peer| matches!(peer, Peer::Unknown { .. })).count();
        if unknown >= STRANGERS_LIMIT + 2 * self.seats.len() || matches!(self.phase, Phase::Over { .. }) {
            self.turn_away(channel);
        } else {
            self.peers.insert(channel, Peer::Unknown { until: now + HELLO_PATIENCE });
        }
    }

    /// Which worker speaks there: one whose figures still count.
    #[must_use]
    pub fn worker_at(&self, channel: ChannelId) -> Option<u32> {
        match self.peers.get(&channel)? {
            Peer::Worker(worker) if self.seat(*worker)?.part.is_none() => Some(*worker),
            _ => None,
        }
    }

    /// Whether a worker's interval of this number did not come yet.
    #[must_use]
    pub fn is_new_interval(&self, worker: u32, number: u64) -> bool {
        self.seat(worker).is_some_and(|seat| number >= seat.intervals)
    }

    /// A message that came at `received`.
    pub fn on_message<I>(&mut self, channel: ChannelId, message: FromWorker<Part<M>, I>, received: Time, now: Time) {
        match (self.peers.get(&channel).copied(), message) {
            (None, _) => {}
            (Some(Peer::Unknown { .. }), FromWorker::Hello(hello)) => self.on_hello(channel, hello, now),
            (Some(Peer::Unknown { .. }), _) => self.turn_away(channel),
            (Some(Peer::Worker(worker)), message) => {
                if let Some(seat) = self.seats.get_mut(worker as usize) {
                    seat.heard = seat.heard.max(received);
                }
                self.on_word(worker, message, received, now);
            }
        }
        self.settle(now);
    }

    /// What came was no message, or cannot be.
    pub fn on_nonsense(&mut self, channel: ChannelId, why: &str, now: Time) {
        match self.peers.get(&channel).copied() {
            Some(Peer::Worker(worker)) if self.worker_at(channel).is_some() => {
                self.note(worker, ProblemKind::Nonsense, format!("what it sent makes no sense: {why}"));
                self.drop_channel(channel);
                self.actions.push_back(Action::Close { channel });
            }
            Some(_) => self.turn_away(channel),
            None => {}
        }
        self.settle(now);
    }

    /// A connection is closed.
    pub fn on_closed(&mut self, channel: ChannelId, now: Time) {
        if let Some(Peer::Unknown { .. }) = self.peers.get(&channel) {
            self.strangers += 1;
        }
        self.drop_channel(channel);
        self.settle(now);
    }

    /// A worker's process ended.
    pub fn on_gone(&mut self, worker: u32, gone: Gone, now: Time) {
        if let Some(seat) = self.seats.get_mut(worker as usize) {
            seat.gone.get_or_insert((gone, now));
        }
        self.settle(now);
    }

    /// Another test has the target: what is measured from now on is of both.
    pub fn on_displaced(&mut self, now: Time) {
        let is_over = matches!(self.phase, Phase::Over { .. });
        if !is_over && !core::mem::replace(&mut self.displaced, true) {
            let what = "another test has the target now: this one's Lease was taken or deleted".to_owned();
            self.problems.push(Problem { worker: None, kind: ProblemKind::TargetTaken, what });
        }
        self.settle(now);
    }

    /// Somebody wants it to end. Who says so twice waits for nothing more.
    pub fn on_interrupt(&mut self, now: Time) {
        if self.interrupted {
            self.finish(self.start());
        }
        self.interrupted = true;
        self.settle(now);
    }

    /// The time is that of [`Control::next_deadline`], or later.
    pub fn on_time(&mut self, now: Time) {
        let late = self.peers.iter().filter_map(|(channel, peer)| match peer {
            Peer::Unknown { until } if now >= *until => Some(*channel),
            _ => None,
        });
        let late: Vec<ChannelId> = late.collect();
        late.into_iter().for_each(|channel| self.turn_away(channel));
        self.settle(now);
    }

    /// When [`Control::on_time`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        let phase = match self.phase {
            Phase::Preparing { until } | Phase::Loading { until, .. } | Phase::Ending { until, .. } => until,
            Phase::Over { .. } => return Time::MAX,
        };
        let peers = self.peers.values().filter_map(|peer| match peer {
            Peer::Unknown { until } => Some(*until),
            Peer::Worker(_) => None,
        });
        let told = self.seats.iter().filter_map(|seat| Some(seat.told.filter(|_| seat.is_untold())? + TELL_EVERY));
        let seats = self.seats.iter().map(Seat::next_deadline);
        seats.chain(peers).chain(told).fold(phase, Time::min)
    }

    /// The next thing to be done.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How far the test is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match self.phase {
            Phase::Preparing { .. } => Progress::Preparing,
            Phase::Loading { .. } => Progress::Loading,
            Phase::Ending { .. } => Progress::Ending,
            Phase::Over { .. } => Progress::Over,
        }
    }

    /// When the load begins, or began, by the controller's clock.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        match self.phase {
            Phase::Preparing { .. } => None,
            Phase::Loading { start, .. } => Some(start),
            Phase::Ending { start, .. } | Phase::Over { start } => start,
        }
    }

    /// How each worker's load goes.
    pub fn workers(&self) -> impl Iterator<Item = RunningWorker> {
        self.seats.iter().map(|seat| RunningWorker {
            is_here: seat.instance.is_some(),
            is_ready: seat.ready.is_some(),
            beat: seat.beat,
        })
    }

    /// What came of it.
    #[must_use]
    pub fn into_outcome(self) -> Outcome<M> {
        let start = self.start();
        let workers: Vec<_> = self.seats.into_iter().map(Seat::into_outcome).collect();
        let skew = skew(&workers, start);
        let Self { problems, interrupted, strangers, impostors, .. } = self;
        let Impostors { refused, who: impostors } = impostors;
        Outcome { workers, problems, interrupted, skew, strangers, refused, impostors }
    }
}

/// What workers say.
impl<M> Control<M> {
    fn on_hello(&mut self, channel: ChannelId, hello: Hello, now: Time) {
        let Hello { token, worker, instance, version } = hello;
        let known = token == self.rules.token.of_worker(worker);
        let Some(seat) = self.seats.get_mut(worker as usize).filter(|_| known) else {
            self.impostors.note((worker, &token), &self.rules.token, self.rules.setups.len() as u32);
            return self.turn_away(channel);
        };
        let is_other = seat.instance.is_some_and(|earlier| earlier != instance);
        if is_other && seat.channel.is_some() && seat.gone.is_none() {
            // Its place is taken.
            return self.turn_away(channel);
        }
        if is_other && !matches!(self.phase, Phase::Preparing { .. }) {
            self.turn_away(channel);
            let what = "it was started again when the load had begun".to_owned();
            return self.note(worker, ProblemKind::StartedAgain, what);
        }
        let earlier = seat.channel.replace(channel);
        if is_other || seat.instance.is_none() {
            *seat = Seat { channel: Some(channel), instance: Some(instance), ..Seat::new(now) };
        }
        seat.heard = now;
        self.peers.insert(channel, Peer::Worker(worker));
        if let Some(earlier) = earlier {
            self.peers.remove(&earlier);
            self.actions.push_back(Action::Close { channel: earlier });
        }
        if version != self.rules.version {
            let what = format!("it is of version {version}, and the controller of {}", self.rules.version);
            self.note(worker, ProblemKind::OtherVersion, what);
        }
        if matches!(self.phase, Phase::Ending { .. }) {
            self.actions.push_back(Action::Send { channel, message: ToWorker::Stop });
        }
    }

    fn on_word<I>(&mut self, worker: u32, message: FromWorker<Part<M>, I>, received: Time, now: Time) {
        let Some(seat) = self.seats.get_mut(worker as usize) else { return };
        match message {
            FromWorker::Echo(echo) => seat.probes.on_echo(echo, received),
            FromWorker::Beat(beat) => {
                (seat.beat, seat.has_beaten) = (beat, true);
                seat.standing = seat.standing.max(beat.standing);
                seat.begins_ns = beat.start_ns.or(seat.begins_ns);
                if let (Phase::Over { .. }, Some(channel)) = (self.phase, seat.channel) {
                    self.actions.push_back(Action::Send { channel, message: ToWorker::Bye });
                }
            }
            FromWorker::Ready(ready) => self.on_ready(worker, ready),
            FromWorker::Measured(part) => self.on_measured(worker, part, now),
            FromWorker::Failed(why) if seat.part.is_none() => self.note(worker, ProblemKind::Failed, why),
            // What happened in it changes nothing here.
            FromWorker::Interval(Counted { number, .. }) => {
                seat.intervals = seat.intervals.max(number.saturating_add(1));
                if let Some(channel) = seat.channel {
                    let message = ToWorker::Have { intervals: seat.intervals };
                    self.actions.push_back(Action::Send { channel, message });
                }
            }
            // Who it is is known.
            FromWorker::Failed(_) | FromWorker::Hello(_) => {}
        }
    }

    fn on_ready(&mut self, worker: u32, ready: Readiness) {
        let expected = self.rules.setups.get(worker as usize);
        let differs = expected.is_some_and(|expected| *expected != ready.setup);
        let Some(seat) = self.seats.get_mut(worker as usize) else { return };
        if seat.ready.is_none() {
            seat.standing = seat.standing.max(Standing::Ready);
            seat.ready = Some(ready);
            if differs {
                self.note(worker, ProblemKind::OtherPlan, "it understood another plan than it was given".to_owned());
            }
        }
    }

    fn on_measured(&mut self, worker: u32, part: Part<M>, now: Time) {
        let Some(seat) = self.seats.get_mut(worker as usize) else { return };
        let is_over = matches!(self.phase, Phase::Over { .. });
        if let Some(channel) = seat.channel {
            // Until all have measured it stays: if this controller dies, another asks for it again.
            let message = if is_over { ToWorker::Bye } else { ToWorker::Kept };
            self.actions.push_back(Action::Send { channel, message });
        }
        // The first counts; and none of one that the test ended for.
        if seat.part.is_some() || is_over {
            return;
        }
        let faults = part.faults.clone();
        seat.standing = Standing::Ended;
        seat.part = Some(part);
        if let Phase::Loading { start, .. } = self.phase
            && now + EARLY_TOLERANCE < start + self.rules.load
        {
            seat.early = Some((now, (start + self.rules.load).since(now)));
        }
        for (kind, what) in faults {
            self.note(worker, kind, what);
        }
    }
}

/// Transitions.
impl<M> Control<M> {
    fn seat(&self, worker: u32) -> Option<&Seat<M>> {
        self.seats.get(worker as usize)
    }

    /// Whether something is known that ends the test before its time.
    fn ends(&self) -> bool {
        self.interrupted || self.displaced || self.seats.iter().any(|seat| seat.has_failed)
    }

    /// Notes a problem: the first of its kind that a worker has.
    fn note(&mut self, worker: u32, kind: ProblemKind, what: String) {
        if matches!(self.phase, Phase::Over { .. }) {
            return;
        }
        if !kind.is_known_at_the_end()
            && let Some(seat) = self.seats.get_mut(worker as usize)
        {
            seat.has_failed = true;
        }
        if !self.problems.iter().any(|known| (known.worker, known.kind) == (Some(worker), kind)) {
            self.problems.push(Problem { worker: Some(worker), kind, what });
        }
    }

    /// A stranger, or one of too many.
    fn turn_away(&mut self, channel: ChannelId) {
        self.peers.remove(&channel);
        self.strangers += 1;
        self.actions.push_back(Action::Close { channel });
    }

    fn drop_channel(&mut self, channel: ChannelId) {
        self.peers.remove(&channel);
        for seat in self.seats.iter_mut().filter(|seat| seat.channel == Some(channel)) {
            seat.channel = None;
        }
    }

    /// Goes on as far as what is known lets it.
    fn settle(&mut self, now: Time) {
        if let Phase::Over { .. } = self.phase {
            return;
        }
        self.find_lost(now);
        self.find_early(true, now);
        self.probe(now);
        match self.phase {
            Phase::Preparing { until } => self.settle_preparing(until, now),
            Phase::Loading { start, until } => self.settle_loading(start, until, now),
            Phase::Ending { start, until } => {
                if now >= until || self.seats.iter().all(Seat::is_done) {
                    self.finish(start);
                }
            }
            Phase::Over { .. } => {}
        }
    }

    fn find_lost(&mut self, now: Time) {
        // One whose way is broken when the test ends anyway has not failed for that; one that was silent before has.
        let ends = if let Phase::Ending { until, .. } = self.phase { Some(until) } else { None };
        for worker in 0..self.seats.len() as u32 {
            let Some(seat) = self.seat(worker) else { continue };
            let Some((gone, what)) = seat.loss(now) else { continue };
            let expected = ends.is_some_and(|until| match gone {
                None => seat.heard + STOP_GRACE >= until,
                Some(Gone::Code(_)) => true,
                Some(_) => false,
            });
            if !expected {
                self.note(worker, gone.map_or(ProblemKind::Lost, ProblemKind::from), what);
            }
        }
    }

    /// Loads that ended before their time, once it is known why, or is not waited for.
    fn find_early(&mut self, waits: bool, now: Time) {
        if self.interrupted {
            // By whoever ended the test, perhaps.
            return self.seats.iter_mut().for_each(|seat| seat.early = None);
        }
        for worker in 0..self.seats.len() as u32 {
            let seat = self.seats.get_mut(worker as usize);
            if let Some((kind, what)) = seat.and_then(|seat| seat.early_end(now, waits)) {
                self.note(worker, kind, what);
            }
        }
    }

    fn probe(&mut self, now: Time) {
        for seat in &mut self.seats {
            if let Some(channel) = seat.channel
                && let Some(number) = seat.probes.poll(now)
            {
                self.actions.push_back(Action::Send { channel, message: ToWorker::Probe { number } });
            }
        }
    }

    fn settle_preparing(&mut self, until: Time, now: Time) {
        if self.ends() {
            return self.end_early(None, now);
        }
        if self.seats.iter().all(|seat| seat.part.is_some()) {
            // A controller before this one began it.
            let start = self.told_before();
            return self.check_starts(start);
        }
        if self.seats.iter().all(Seat::is_set) {
            return self.begin(now);
        }
        if now >= until {
            for worker in 0..self.seats.len() as u32 {
                let Some(seat) = self.seat(worker).filter(|seat| !seat.is_set()) else { continue };
                let why = match (seat.instance, &seat.ready) {
                    (None, _) => "it never came",
                    (Some(_), None) => "its connections were not open by then",
                    (Some(_), Some(_)) => "its clock did not answer",
                };
                let seconds = self.rules.prepare.as_secs_f64();
                self.note(worker, ProblemKind::NotReady, format!("it was not ready within {seconds} s: {why}"));
            }
            self.end_early(None, now);
        }
    }

    /// The start that an earlier controller set, as a worker knows it.
    fn told_before(&self) -> Option<Time> {
        let told = |seat: &Seat<M>| Some(seat.probes.offset()?.to_own(seat.begins_ns?));
        self.seats.iter().filter_map(told).min()
    }

    /// All are ready: tells each when to begin, by its own clock.
    fn begin(&mut self, now: Time) {
        let error = |seat: &Seat<M>| seat.probes.offset().map_or(Duration::ZERO, |offset| offset.error);
        let longest = self.seats.iter().map(error).max().unwrap_or_default();
        let start = self.told_before().unwrap_or(now + MARGIN.max(longest * 8));
        let until = (start + self.rules.load + END_GRACE).max(now + END_GRACE);
        self.phase = Phase::Loading { start, until };
        for seat in self.seats.iter_mut().filter(|seat| seat.is_untold()) {
            seat.told = Some(now);
            self.actions.extend(seat.start_told(start));
        }
    }

    fn settle_loading(&mut self, start: Time, until: Time, now: Time) {
        if self.ends() {
            return self.end_early(Some(start), now);
        }
        if self.seats.iter().all(|seat| seat.part.is_some()) {
            self.find_early(false, now);
            return self.check_starts(Some(start));
        }
        for seat in self.seats.iter_mut().filter(|seat| seat.is_untold()) {
            if seat.told.is_some_and(|told| now >= told + TELL_EVERY) {
                seat.told = Some(now);
                self.actions.extend(seat.start_told(start));
            }
        }
        if now >= until {
            for worker in 0..self.seats.len() as u32 {
                if self.seat(worker).is_some_and(|seat| seat.part.is_none()) {
                    let seconds = END_GRACE.as_secs();
                    let what = format!("its figures were not there {seconds} s after the load's end");
                    self.note(worker, ProblemKind::OutOfStep, what);
                }
            }
            self.end_early(Some(start), now);
        }
    }

    /// All have measured: did they begin together?
    fn check_starts(&mut self, start: Option<Time>) {
        for worker in 0..self.seats.len() as u32 {
            let Some(seat) = self.seat(worker) else { continue };
            let (Some(start), Some(offset), Some(part)) = (start, seat.probes.offset(), &seat.part) else { continue };
            let allowed = self.rules.start_tolerance + offset.error;
            let off = |at: &u64| {
                let at = offset.to_own(*at);
                at.since(start).max(start.since(at))
            };
            let most = part.begun_ns.iter().map(off).max();
            let what = match most {
                None => "its load never began".to_owned(),
                Some(most) if most > allowed => {
                    format!("it began {:.1} ms off the time that was set", most.as_secs_f64() * 1e3)
                }
                Some(_) => continue,
            };
            self.note(worker, ProblemKind::Late, what);
        }
        self.finish(start);
    }

    /// Ends the test before its time; what was measured is waited for.
    fn end_early(&mut self, start: Option<Time>, now: Time) {
        self.find_early(false, now);
        self.phase = Phase::Ending { start, until: now + STOP_GRACE };
        for seat in self.seats.iter().filter(|seat| seat.part.is_none()) {
            if let Some(channel) = seat.channel {
                self.actions.push_back(Action::Send { channel, message: ToWorker::Stop });
            }
        }
        if self.seats.iter().all(Seat::is_done) {
            self.finish(start);
        }
    }

    /// Nothing more is waited for, and nothing is left.
    fn finish(&mut self, start: Option<Time>) {
        if let Phase::Over { .. } = self.phase {
            return;
        }
        self.phase = Phase::Over { start };
        let unknown = self.peers.iter().filter(|(_, peer)| matches!(peer, Peer::Unknown { .. }));
        let unknown: Vec<ChannelId> = unknown.map(|(channel, _)| *channel).collect();
        unknown.into_iter().for_each(|channel| self.turn_away(channel));
        for (worker, seat) in self.seats.iter().enumerate() {
            if let Some(channel) = seat.channel.filter(|_| seat.part.is_some()) {
                self.actions.push_back(Action::Send { channel, message: ToWorker::Bye });
            }
            if seat.part.is_none() {
                self.actions.push_back(Action::Kill { worker: worker as u32 });
            }
        }
    }
}
