//! Workers, their processes and clocks, connections, and a controller that may die, in virtual time.

mod setting;
mod strangers;

pub use setting::{Death, Setting};

use control::{Action, ChannelId, Control, ControlRules, Gone, Outcome, Part, ProblemKind, Progress};
use core::cmp::Reverse;
use core::time::Duration;
use messages::{FromWorker, Hello, Readiness, Reporter, ToWorker, Token};
use random::SplitMix64;
use std::collections::{BTreeMap, BinaryHeap};
use wire::Time;

type Word = FromWorker<Part<u64>, u64>;
type Side = Reporter<Part<u64>, u64>;

/// How long the load is on.
const LOAD: Duration = Duration::from_secs(6);

/// The length of an interval.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long workers may make ready.
const PREPARE: Duration = Duration::from_secs(12);

/// How late a worker may begin.
pub const TOLERANCE: Duration = Duration::from_millis(50);

/// A worker without a controller for so long ends.
const ALONE_LIMIT: Duration = Duration::from_secs(20);

/// No run is longer.
const END: Duration = Duration::from_secs(120);

/// What was seen of a run, from outside.
pub struct Seen {
    pub outcome: Option<Outcome<u64>>,
    pub controller_died_for_good: bool,
    pub restarts: u32,
    /// The sum of what all workers measured.
    pub measured: u64,
    /// When the first and the last worker began in truth.
    pub begun: Option<(Time, Time)>,
    /// For each worker, what may rightly be said of it.
    pub causes: Vec<Vec<ProblemKind>>,
    /// Whether it must be named.
    pub must: Vec<bool>,
    pub died: Option<Time>,
    pub over: Time,
    /// For each worker, the intervals that the last controller counted, and how many were said.
    pub intervals: Vec<(Vec<u64>, u64)>,
}

enum Event {
    /// A connection of a worker is there.
    Connect(u32),
    ToControl(ChannelId, Word),
    ToWorker(ChannelId, ToWorker),
    ClosedAtControl(ChannelId),
    ClosedAtWorker(ChannelId),
    Prepared(u32),
    Begin(u32),
    Interval(u32),
    Measured(u32),
    Lies(u32),
    Dies(u32, Death),
    Gone(u32, Gone),
    Break(u32),
    ControllerDies,
    ControllerAgain,
    Stranger(u32),
    WorkerTime(u32),
    ControlTime,
}

struct Worker {
    side: Side,
    alive: bool,
    /// Its clock beside the true one.
    ahead: i64,
    channel: Option<ChannelId>,
    alone_since: Time,
    begun: Option<Time>,
    began_for: Option<Time>,
    ended: bool,
    /// Messages from it or to it that did not arrive, or were late.
    troubled: bool,
}

impl Worker {
    fn clock(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_add_signed(self.ahead))
    }
}

pub struct World {
    now: Time,
    random: SplitMix64,
    setting: Setting,
    control: Option<Control<u64>>,
    workers: Vec<Worker>,
    /// Who is at the worker's end of each connection; none for strangers.
    channels: BTreeMap<ChannelId, Option<u32>>,
    next_channel: u64,
    /// When the last message arrives, on each connection and way.
    arrivals: BTreeMap<(ChannelId, bool), Time>,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, Event>,
    order: u64,
    restarts: u32,
    died: Option<(u32, Time, Death)>,
    control_gone: Option<Time>,
    stopped: bool,
    /// What the controller counted of each worker's intervals.
    counted: Vec<Vec<u64>>,
}

impl World {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let start = Time::from_millis(10_000_000);
        let mut random = SplitMix64::new(seed);
        let worker = |index: u32, random: &mut SplitMix64| {
            let ahead = random.up_to(14_400_000_000_000) as i64 - 7_200_000_000_000;
            let clock = Time::from_nanos(start.as_nanos().saturating_add_signed(ahead));
            let hello = Hello {
                token: Token::new(7).of_worker(index),
                worker: index,
                instance: random.bits(),
                version: "1".into(),
            };
            Worker {
                side: Reporter::new(hello, clock),
                alive: true,
                ahead,
                channel: None,
                alone_since: start,
                begun: None,
                began_for: None,
                ended: false,
                troubled: false,
            }
        };
        let workers = (0..setting.workers).map(|index| worker(index, &mut random)).collect();
        let setting_workers = setting.workers as usize;
        let mut world = Self {
            now: start,
            random,
            setting,
            control: None,
            workers,
            channels: BTreeMap::new(),
            next_channel: 0,
            arrivals: BTreeMap::new(),
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            order: 0,
            restarts: 0,
            died: None,
            control_gone: None,
            stopped: false,
            counted: vec![Vec::new(); setting_workers],
        };
        world.prepare();
        world
    }

    fn prepare(&mut self) {
        self.control = Some(Control::new(rules(self.setting.workers), self.now));
        for worker in 0..self.setting.workers {
            let ms = self.random.up_to(200);
            self.after(Duration::from_millis(ms), Event::Connect(worker));
            let ms = 300 + self.random.up_to(1_500);
            self.after(Duration::from_millis(ms), Event::Prepared(worker));
        }
        for _ in 0..self.setting.breaks {
            let (ms, worker) = (self.random.up_to(9_000), self.random.below(self.setting.workers as usize));
            self.after(Duration::from_millis(ms), Event::Break(worker as u32));
        }
        for _ in 0..self.setting.strangers {
            let (ms, kind) = (self.random.up_to(5_000), self.random.below(7));
            self.after(Duration::from_millis(ms), Event::Stranger(kind as u32));
        }
        if let Some((worker, death)) = self.setting.death {
            let ms = self.setting.dies_after + self.random.up_to(5_500);
            self.after(Duration::from_millis(ms), Event::Dies(worker, death));
        }
        if let Some((dies, again)) = self.setting.controller {
            self.after(dies, Event::ControllerDies);
            if let Some(again) = again {
                self.after(again, Event::ControllerAgain);
            }
        }
    }

    fn after(&mut self, span: Duration, event: Event) {
        self.order += 1;
        self.what.insert(self.order, event);
        self.events.push(Reverse((self.now + span, self.order)));
    }

    /// How long a message is under way; none if it is lost.
    fn way(&mut self) -> Option<Duration> {
        let lost = self.random.up_to(999) < self.setting.lost;
        (!lost).then(|| Duration::from_micros(20 + self.random.up_to(self.setting.delay)))
    }

    /// Runs until nothing is left, and nothing waits.
    pub fn run(&mut self) -> Seen {
        let began = self.now;
        let mut over = None;
        self.act();
        while let Some(Reverse((at, order))) = self.events.pop() {
            self.now = self.now.max(at);
            let Some(event) = self.what.remove(&order) else { continue };
            assert!(self.now.since(began) < END, "the run does not end: {}", self.setting.workers);
            self.on_event(event);
            self.act();
            if self.control.as_ref().is_some_and(|control| control.progress() == Progress::Over) {
                over.get_or_insert(self.now);
            }
        }
        assert!(self.workers.iter().all(|worker| !worker.alive), "a worker is left");
        let control = self.control.take();
        let progress = control.as_ref().map(Control::progress);
        assert!(matches!(progress, None | Some(Progress::Over)), "a controller waits: {progress:?}");
        self.seen(control.map(Control::into_outcome), over.unwrap_or(self.now))
    }

    fn on_event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Connect(worker) => self.connect(worker),
            Event::ToControl(channel, word) => self.hear(channel, word),
            Event::ToWorker(channel, message) => {
                let Some(Some(index)) = self.channels.get(&channel).copied() else { return };
                let worker = &mut self.workers[index as usize];
                if worker.alive && worker.channel == Some(channel) {
                    let clock = worker.clock(now);
                    self.stopped |= message == ToWorker::Stop;
                    worker.side.on_message(message, clock, clock);
                    self.look(index);
                }
            }
            Event::ClosedAtControl(channel) => {
                if let Some(control) = &mut self.control {
                    control.on_closed(channel, now);
                }
            }
            Event::ClosedAtWorker(channel) => self.lose_way(channel),
            Event::Prepared(index) => {
                let worker = &mut self.workers[index as usize];
                let ready = Readiness { open: 4, silos: 1, setup: format!("plan {index}") };
                let clock = worker.clock(now);
                worker.side.on_ready(ready, clock);
            }
            Event::Begin(index) => {
                let worker = &mut self.workers[index as usize];
                if worker.alive && !worker.ended {
                    worker.begun = Some(now);
                    self.after(INTERVAL, Event::Interval(index));
                    self.after(LOAD, Event::Measured(index));
                }
            }
            Event::Interval(index) => self.count(index),
            Event::Measured(index) => self.measure(index),
            Event::Lies(index) => self.lie(index),
            Event::Dies(index, death) => self.die(index, death),
            Event::Gone(index, gone) => {
                if let Some(control) = &mut self.control {
                    control.on_gone(index, gone, now);
                }
            }
            Event::Break(index) => {
                if let Some(channel) = self.workers[index as usize].channel {
                    self.workers[index as usize].troubled = true;
                    self.break_off(channel);
                }
            }
            Event::ControllerDies => self.lose_controller(),
            Event::ControllerAgain => {
                self.restarts += 1;
                self.channels.clear();
                self.counted.iter_mut().for_each(Vec::clear);
                self.control = Some(Control::new(rules(self.setting.workers), now));
            }
            Event::Stranger(kind) => self.stranger(kind),
            Event::WorkerTime(_) => {}
            Event::ControlTime => {
                if let Some(control) = &mut self.control {
                    control.on_time(now);
                }
            }
        }
    }

    fn count(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        if worker.alive && !worker.ended {
            let number = worker.side.next_interval();
            worker.side.on_interval(number, number, 100);
            self.after(INTERVAL, Event::Interval(index));
        }
    }

    fn hear(&mut self, channel: ChannelId, word: Word) {
        let Some(control) = self.control.as_mut().filter(|_| self.channels.contains_key(&channel)) else { return };
        if let FromWorker::Interval(one) = &word
            && let Some(worker) = control.worker_at(channel)
            && control.is_new_interval(worker, one.number)
        {
            self.counted[worker as usize].push(one.interval);
        }
        control.on_message(channel, word, self.now, self.now);
    }

    fn lose_way(&mut self, channel: ChannelId) {
        let Some(Some(index)) = self.channels.remove(&channel) else { return };
        let worker = &mut self.workers[index as usize];
        if worker.alive && worker.channel == Some(channel) {
            (worker.channel, worker.alone_since) = (None, self.now);
            let ms = 10 + self.random.up_to(300);
            self.after(Duration::from_millis(ms), Event::Connect(index));
        }
    }

    fn lose_controller(&mut self) {
        self.control = None;
        self.control_gone = Some(self.now);
        let all: Vec<ChannelId> = self.channels.keys().copied().collect();
        all.into_iter().for_each(|channel| self.after(Duration::from_micros(50), Event::ClosedAtWorker(channel)));
    }

    fn connect(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        if !worker.alive || worker.channel.is_some() {
            return;
        }
        // One whose test is over listens no more.
        if self.control.as_ref().is_none_or(|control| control.progress() == Progress::Over) {
            return self.after(Duration::from_millis(100), Event::Connect(index));
        }
        let channel = self.open(Some(index));
        let worker = &mut self.workers[index as usize];
        let clock = worker.clock(self.now);
        worker.channel = Some(channel);
        worker.side.on_connected(clock);
    }

    fn open(&mut self, worker: Option<u32>) -> ChannelId {
        self.next_channel += 1;
        let channel = ChannelId(self.next_channel);
        self.channels.insert(channel, worker);
        if let Some(control) = &mut self.control {
            control.on_connected(channel, self.now);
        }
        channel
    }

    fn break_off(&mut self, channel: ChannelId) {
        self.after(Duration::from_micros(10), Event::ClosedAtControl(channel));
        self.after(Duration::from_micros(20), Event::ClosedAtWorker(channel));
    }

    fn measure(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        if !worker.alive || worker.ended {
            return;
        }
        worker.ended = true;
        let begun = worker.begun.map(|begun| worker.clock(begun).as_nanos());
        let part = Part { measured: value(index), begun_ns: begun.into_iter().collect(), faults: Vec::new() };
        let clock = worker.clock(self.now);
        worker.side.on_measured(part, clock);
        if self.setting.liars {
            self.after(Duration::ZERO, Event::Lies(index));
        }
    }

    fn lie(&mut self, index: u32) {
        if let Some(channel) = self.workers[index as usize].channel {
            let part = Part { measured: 1 << 40, begun_ns: Vec::new(), faults: Vec::new() };
            self.send(index, (channel, true), || Event::ToControl(channel, Word::Measured(part.clone())));
        }
    }

    fn die(&mut self, index: u32, death: Death) {
        let worker = &mut self.workers[index as usize];
        if !worker.alive {
            return;
        }
        worker.alive = false;
        self.died.get_or_insert((index, self.now, death));
        if let Death::Process(gone) = death {
            if let Some(channel) = worker.channel {
                self.after(Duration::from_micros(100), Event::ClosedAtControl(channel));
            }
            let us = self.random.up_to(2_000);
            self.after(Duration::from_micros(us), Event::Gone(index, gone));
        }
    }

    /// What the worker's side makes of its time: begins, stops, ends.
    fn look(&mut self, index: u32) {
        let now = self.now;
        let worker = &mut self.workers[index as usize];
        if !worker.alive {
            return;
        }
        if let Some(start) = worker.side.start()
            && worker.began_for.is_none()
        {
            worker.began_for = Some(start);
            let wait = start.since(worker.clock(now));
            let us = self.random.up_to(900);
            self.after(wait + Duration::from_micros(us), Event::Begin(index));
        }
        let worker = &mut self.workers[index as usize];
        if worker.side.is_over() {
            self.leave(index);
        } else if worker.side.is_stopped() && !worker.ended {
            self.measure(index);
        }
    }

    /// It ends by itself.
    fn leave(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        worker.alive = false;
        if let Some(channel) = worker.channel.take() {
            self.after(Duration::from_micros(100), Event::ClosedAtControl(channel));
        }
        self.after(Duration::from_micros(300), Event::Gone(index, Gone::Code(0)));
    }

    /// Sends what is to be sent, does what is to be done, and notes when to come again.
    fn act(&mut self) {
        let now = self.now;
        for index in 0..self.setting.workers {
            self.look(index);
            let worker = &mut self.workers[index as usize];
            let clock = worker.clock(now);
            let mut words = Vec::new();
            while worker.alive
                && worker.channel.is_some()
                && let Some(word) = worker.side.poll_send(clock)
            {
                words.push(word);
            }
            let channel = worker.channel;
            for word in words {
                let Some(channel) = channel else { break };
                self.send(index, (channel, true), || Event::ToControl(channel, word.clone()));
            }
            let worker = &self.workers[index as usize];
            if worker.alive && worker.channel.is_none() && now.since(worker.alone_since) > ALONE_LIMIT {
                self.leave(index);
                continue;
            }
            if worker.alive {
                let wait = worker
                    .side
                    .next_deadline()
                    .since(clock)
                    .clamp(Duration::from_millis(1), Duration::from_millis(500));
                if !self.what.values().any(|event| matches!(event, Event::WorkerTime(known) if *known == index)) {
                    self.after(wait, Event::WorkerTime(index));
                }
            }
        }
        self.act_control();
    }

    /// Sends over a connection, on which nothing overtakes another; what is lost is lost with a connection that
    /// breaks, or a peer that is too slow to take it.
    fn send(&mut self, index: u32, way: (ChannelId, bool), event: impl Fn() -> Event) {
        let twice = self.random.up_to(999) < self.setting.twice;
        for _ in 0..=u32::from(twice) {
            let Some(span) = self.way() else {
                self.workers[index as usize].troubled = true;
                continue;
            };
            let last = self.arrivals.entry(way).or_insert(self.now);
            *last = (*last).max(self.now + span);
            let span = last.since(self.now);
            self.after(span, event());
        }
    }

    fn act_control(&mut self) {
        while let Some(action) = self.control.as_mut().and_then(Control::poll_action) {
            match action {
                Action::Launch { .. } => {}
                Action::Send { channel, message } => {
                    if let Some(Some(index)) = self.channels.get(&channel).copied() {
                        self.send(index, (channel, false), || Event::ToWorker(channel, message));
                    }
                }
                Action::Close { channel } => self.after(Duration::from_micros(50), Event::ClosedAtWorker(channel)),
                Action::Kill { worker } => {
                    if self.workers[worker as usize].alive {
                        self.leave(worker);
                    }
                }
            }
        }
        let Some(control) = &self.control else { return };
        let next = control.next_deadline();
        if next < Time::MAX && !self.what.values().any(|event| matches!(event, Event::ControlTime)) {
            let wait = next.since(self.now).clamp(Duration::from_micros(100), Duration::from_millis(20));
            self.after(wait, Event::ControlTime);
        }
    }

    fn seen(&mut self, outcome: Option<Outcome<u64>>, over: Time) -> Seen {
        let begun = self.workers.iter().filter_map(|worker| worker.begun);
        let (first, last) = (begun.clone().min(), begun.max());
        let (mut causes, mut must) = (Vec::new(), Vec::new());
        for (index, worker) in self.workers.iter().enumerate() {
            let mut kinds = Vec::new();
            let off = worker.begun.zip(worker.began_for).map(|(begun, start)| worker.clock(begun).since(start));
            let late = off.is_some_and(|off| off > TOLERANCE);
            // By its own clock, which a controller knows as well as messages are quick: when it told the start, and
            // when it looked back.
            let is_seen_late = off.is_some_and(|off| off > TOLERANCE + 3 * Duration::from_micros(self.setting.delay));
            let died = self.died.filter(|(who, ..)| *who as usize == index);
            let gap = self.control_gone.is_some();
            if let Some((_, _, death)) = died {
                kinds.push(match death {
                    Death::Process(gone) => gone.into(),
                    Death::Machine => ProblemKind::Lost,
                });
                kinds.extend([ProblemKind::NotReady, ProblemKind::Lost, ProblemKind::OutOfStep]);
            }
            let rough = worker.troubled || gap || self.setting.delay > 10_000 || self.setting.lost > 0;
            if late || rough {
                kinds.push(ProblemKind::Late);
            }
            if rough {
                kinds.extend([ProblemKind::Lost, ProblemKind::NotReady, ProblemKind::OutOfStep]);
            }
            causes.push(kinds);
            let unfinished = died.is_some() && !worker.ended;
            must.push(!self.stopped && (unfinished || is_seen_late && worker.ended && !gap));
        }
        Seen {
            outcome,
            controller_died_for_good: self.control_gone.is_some() && self.restarts == 0,
            restarts: self.restarts,
            measured: self.workers.iter().enumerate().filter(|(_, one)| one.ended).map(|(n, _)| value(n as u32)).sum(),
            begun: first.zip(last),
            causes,
            must,
            died: self.died.map(|(_, at, _)| at),
            over,
            intervals: self
                .counted
                .iter()
                .cloned()
                .zip(self.workers.iter().map(|one| one.side.next_interval()))
                .collect(),
        }
    }
}

/// What a worker measures: no two sets of workers have the same sum.
fn value(index: u32) -> u64 {
    1 << index
}

fn rules(workers: u32) -> ControlRules {
    ControlRules {
        token: Token::new(7),
        version: "1".to_owned(),
        setups: (0..workers).map(|index| format!("plan {index}")).collect(),
        prepare: PREPARE,
        load: LOAD,
        start_tolerance: TOLERANCE,
    }
}
