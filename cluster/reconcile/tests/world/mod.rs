//! Tests of one target in a cluster, in virtual time: their controllers, which may die between any two questions, the
//! workers in their pods, and the ways between. Controllers' and workers' sides are those that run.

mod cluster;
mod setting;
mod workers;

pub use setting::{ControllerDeath, Fault, Setting};

use cluster::{Cluster, Manner, Process};
use control::{Action, ChannelId, Control, ControlRules, Outcome, Part, Progress};
use core::cmp::Reverse;
use core::time::Duration;
use kubernetes::ApiError;
use manifests::{Contents, Manifests, Setting as ObjectsSetting, objects};
use messages::{FromWorker, Readiness, Reporter, ToWorker, Token};
use random::SplitMix64;
use reconcile::{Call, ClusterEvent, Reconciler, Stage};
use serde_json::Value;
use spec::LoadTest;
use std::collections::{BTreeMap, BinaryHeap};
use wire::Time;

type Word = FromWorker<Part<u64>, ()>;
type Side = Reporter<Part<u64>, ()>;

const LOAD: Duration = Duration::from_secs(5);
const PREPARE: Duration = Duration::from_secs(20);
pub const TOLERANCE: Duration = Duration::from_millis(50);

/// A worker whose controller is away for so long ends.
const ALONE_LIMIT: Duration = Duration::from_secs(60);

/// Time goes on by this, at least, when all have acted.
const STEP: Duration = Duration::from_micros(50);

/// How often controllers and nodes of the cluster look.
const TICK: Duration = Duration::from_millis(100);

/// No run is longer: what nobody deletes goes after ten minutes.
const END: Duration = Duration::from_secs(1_200);

/// How a controller ended.
pub struct Ended {
    pub outcome: Option<Outcome<u64>>,
    pub failure: Option<String>,
    pub remains: Option<String>,
}

/// What was seen of a test, from outside.
pub struct Seen {
    /// How its last controller ended; none if that died.
    pub ended: Option<Ended>,
    pub deaths: usize,
    /// How long it had none, at most.
    pub alone: Duration,
    /// Whether some workers were told when to begin, and others not, as a controller died.
    pub half_told: bool,
    /// Whether one died that had its verdict: some of its workers may have left by then.
    pub decided: bool,
    /// When its load was on, at each worker.
    pub loads: Vec<(Time, Time)>,
    /// Whether its fault happened, to whom it was to.
    pub struck: Option<Time>,
}

enum Event {
    Starts(usize),
    Asked(usize, Call),
    Answered(usize, Result<Value, ApiError>),
    Dies(usize),
    Tick,
    Connects(u64),
    ToControl(ChannelId, Word),
    ToWorker(ChannelId, ToWorker),
    ClosedAtControl(ChannelId),
    ClosedAtWorker(ChannelId),
    Prepared(u64),
    Begins(u64),
    Measures(u64),
    Strikes,
}

struct Controller {
    test: usize,
    objects: Reconciler,
    control: Option<Control<u64>>,
    token: Token,
    place: String,
    calls: u32,
    death: Option<ControllerDeath>,
    is_over: bool,
}

struct Worker {
    test: usize,
    index: u32,
    side: Side,
    place: String,
    channel: Option<ChannelId>,
    /// When it last heard from a controller.
    alone_since: Time,
    begins: Option<Time>,
    begun: Option<Time>,
    ended: bool,
    frozen: bool,
}

struct Test {
    spec: LoadTest,
    text: String,
    deaths: usize,
    died_at: Option<Time>,
    seen: Seen,
}

pub struct World {
    now: Time,
    began: Time,
    random: SplitMix64,
    setting: Setting,
    pub cluster: Cluster,
    tests: Vec<Test>,
    /// Each process that there was; those that are gone are none.
    controllers: Vec<Option<Controller>>,
    /// By their pods.
    workers: BTreeMap<u64, Worker>,
    /// Which controller and which worker a connection has.
    channels: BTreeMap<ChannelId, (usize, u64)>,
    next_channel: u64,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, Event>,
    order: u64,
}

impl World {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let now = Time::from_millis(5_000_000);
        let tests = ["a", "b"][..setting.tests].iter().map(|name| Test::new(name, setting.workers)).collect();
        let mut world = Self {
            now,
            began: now,
            random: SplitMix64::new(seed),
            cluster: Cluster::new(2),
            tests,
            controllers: Vec::new(),
            workers: BTreeMap::new(),
            channels: BTreeMap::new(),
            next_channel: 0,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            order: 0,
            setting,
        };
        for test in 0..world.tests.len() {
            let ms = world.random.up_to(3_000);
            world.after(Duration::from_millis(ms), Event::Starts(test));
        }
        world.after(TICK, Event::Tick);
        if world.setting.fault != Fault::None {
            world.after(world.setting.fault_at.0, Event::Strikes);
        }
        world
    }

    fn after(&mut self, span: Duration, event: Event) {
        self.order += 1;
        self.what.insert(self.order, event);
        self.events.push(Reverse((self.now + span, self.order)));
    }

    /// Runs until nothing is left to be done.
    pub fn run(&mut self) {
        loop {
            while self.act() {}
            let next = self.events.peek().map_or(Time::MAX, |Reverse((at, _))| *at).min(self.next_deadline());
            assert!(self.now.since(self.began) < END, "the run does not end");
            let is_alone = self.controllers.iter().flatten().all(|one| one.is_over) && self.workers.is_empty();
            let waits = self.what.values().any(|event| !matches!(event, Event::Tick | Event::Strikes));
            if is_alone && !waits && self.cluster.is_idle() {
                return;
            }
            self.now = next.max(self.now + STEP);
            while let Some(Reverse((at, order))) = self.events.peek().copied()
                && at <= self.now
            {
                self.events.pop();
                if let Some(event) = self.what.remove(&order) {
                    self.on_event(event);
                }
            }
        }
    }

    /// What was seen of each test.
    pub fn seen(self) -> Vec<Seen> {
        self.tests.into_iter().map(|test| Seen { deaths: test.deaths, ..test.seen }).collect()
    }

    fn next_deadline(&self) -> Time {
        let controllers = self.controllers.iter().flatten().filter(|one| !one.is_over).map(|one| {
            let control = one.control.as_ref().map_or(Time::MAX, Control::next_deadline);
            control.min(one.objects.next_deadline())
        });
        let workers = self
            .workers
            .values()
            .filter(|one| !one.frozen)
            .map(|one| if one.channel.is_some() { one.side.next_deadline() } else { Time::MAX });
        controllers.chain(workers).fold(Time::MAX, Time::min)
    }

    fn on_event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Starts(test) => self.start(test),
            Event::Asked(number, call) => self.ask(number, &call),
            Event::Answered(number, answer) => {
                if let Some(Some(one)) = self.controllers.get_mut(number) {
                    one.objects.on_answer(answer, now);
                }
            }
            Event::Dies(number) => self.die(number),
            Event::Tick => {
                for process in self.cluster.tick(&mut self.random, now) {
                    match process {
                        Process::Begins { pod, index, token, controller } => self.begin(pod, index, &token, controller),
                        Process::Killed { pod } => self.kill(pod, None),
                    }
                }
                // Where nothing runs only what was left goes, in minutes.
                let runs = !self.workers.is_empty() || self.controllers.iter().flatten().any(|one| !one.is_over);
                self.after(if runs { TICK } else { TICK * 10 }, Event::Tick);
            }
            Event::Connects(pod) => self.connect(pod),
            Event::ToControl(channel, word) => {
                let Some((number, _)) = self.channels.get(&channel) else { return };
                if let Some(control) = self.controllers[*number].as_mut().and_then(|one| one.control.as_mut()) {
                    control.on_message(channel, word, now, now);
                }
            }
            Event::ToWorker(channel, message) => {
                let Some((_, pod)) = self.channels.get(&channel) else { return };
                if let Some(worker) = self.workers.get_mut(pod).filter(|one| one.channel == Some(channel)) {
                    worker.side.on_message(message, now, now);
                    worker.alone_since = now;
                }
            }
            Event::ClosedAtControl(channel) => {
                let Some((number, _)) = self.channels.get(&channel) else { return };
                if let Some(control) = self.controllers[*number].as_mut().and_then(|one| one.control.as_mut()) {
                    control.on_closed(channel, now);
                }
            }
            Event::ClosedAtWorker(channel) => self.lose_way(channel),
            Event::Prepared(pod) => {
                if let Some(worker) = self.workers.get_mut(&pod) {
                    let setup = format!("plan {}", worker.index);
                    worker.side.on_ready(Readiness { open: 4, silos: 1, setup }, now);
                }
            }
            Event::Begins(pod) => {
                if let Some(worker) = self.workers.get_mut(&pod).filter(|one| !one.frozen && !one.ended) {
                    worker.begun = Some(now);
                    self.after(LOAD, Event::Measures(pod));
                }
            }
            Event::Measures(pod) => self.measure(pod),
            Event::Strikes => self.strike(),
        }
    }

    fn lose_way(&mut self, channel: ChannelId) {
        let Some((_, pod)) = self.channels.remove(&channel) else { return };
        if let Some(worker) = self.workers.get_mut(&pod).filter(|one| one.channel == Some(channel)) {
            worker.channel = None;
            self.after(Duration::from_millis(200), Event::Connects(pod));
        }
    }

    /// Lets each do what it has to do now; answers whether anybody did.
    fn act(&mut self) -> bool {
        let mut acted = false;
        for number in 0..self.controllers.len() {
            acted |= self.act_controller(number);
        }
        let pods: Vec<u64> = self.workers.keys().copied().collect();
        for pod in pods {
            acted |= self.act_worker(pod);
        }
        acted
    }
}

/// Controllers.
impl World {
    fn start(&mut self, test: usize) {
        let place = format!("c-{test}:7000");
        let token = Token::new(u128::from(self.random.bits()));
        let one = &mut self.tests[test];
        if let Some(died) = one.died_at.take() {
            one.seen.alone = one.seen.alone.max(self.now.since(died));
            let told = self.workers.values().filter(|one| one.test == test && one.side.start().is_some()).count();
            one.seen.half_told |= told > 0 && told < self.setting.workers as usize;
        }
        let manifests = one.objects(&token, &place);
        let number = self.random.bits();
        let objects = Reconciler::new("load", manifests, number, self.setting.workers, self.now);
        let death = self.setting.deaths.get(one.deaths).filter(|_| test == 0).map(|(death, _)| *death);
        let process = self.controllers.len();
        if let Some(ControllerDeath::After(span)) = death {
            self.after(span, Event::Dies(process));
        }
        let control = None;
        self.controllers.push(Some(Controller {
            test,
            objects,
            control,
            token,
            place,
            calls: 0,
            death,
            is_over: false,
        }));
    }

    fn die(&mut self, number: usize) {
        let Some(Some(one)) = self.controllers.get(number).map(|one| one.as_ref().filter(|one| !one.is_over)) else {
            return;
        };
        let test = one.test;
        let decided = one.control.as_ref().is_some_and(|control| control.progress() == Progress::Over);
        self.controllers[number] = None;
        let one = &mut self.tests[test];
        one.seen.decided |= decided;
        let again = self.setting.deaths.get(one.deaths).and_then(|(_, again)| *again);
        one.died_at = Some(self.now);
        one.deaths += 1;
        if let Some(again) = again {
            self.after(again, Event::Starts(test));
        }
        self.close(number);
    }

    /// The connections of a process go with it.
    fn close(&mut self, number: usize) {
        let closed: Vec<ChannelId> =
            self.channels.iter().filter(|(_, (process, _))| *process == number).map(|(channel, _)| *channel).collect();
        closed.into_iter().for_each(|channel| self.after(Duration::from_millis(1), Event::ClosedAtWorker(channel)));
    }

    /// A call comes to the API server.
    fn ask(&mut self, number: usize, call: &Call) {
        let since = self.now.since(self.began);
        let is_away = self.setting.outage.is_some_and(|(from, span)| since >= from && since < from + span);
        let manners = [Manner::Refused, Manner::Lost, Manner::Unanswered, Manner::Twice];
        let manner = match self.random.up_to(999) / self.setting.trouble.max(1) {
            _ if is_away => Manner::Lost,
            n if n < 4 && self.setting.trouble > 0 => manners[n as usize],
            _ => Manner::Plain,
        };
        let answer = self.cluster.call(call, manner, self.now);
        let ms = 1 + self.random.up_to(self.setting.delay);
        self.after(Duration::from_millis(ms), Event::Answered(number, answer));
    }

    fn act_controller(&mut self, number: usize) -> bool {
        let Some(one) = self.controllers[number].as_mut().filter(|one| !one.is_over) else { return false };
        let now = self.now;
        if let Some(control) = one.control.as_mut().filter(|control| now >= control.next_deadline()) {
            control.on_time(now);
        }
        if let Some(event) = one.objects.poll_event() {
            self.on_cluster_event(number, event);
            return true;
        }
        if let Some(action) = one.control.as_mut().and_then(Control::poll_action) {
            self.on_action(action);
            return true;
        }
        if one.control.as_ref().is_some_and(|control| control.progress() == Progress::Over)
            && one.objects.stage() == Stage::Running
        {
            one.objects.end(now);
        }
        if one.objects.stage() == Stage::Over {
            one.is_over = true;
            let outcome = one.control.take().map(Control::into_outcome);
            let (failure, remains) = (one.objects.failure(), one.objects.remains());
            let ended = Ended { outcome, failure: failure.map(str::to_owned), remains: remains.map(str::to_owned) };
            self.tests[one.test].seen.ended = Some(ended);
            self.close(number);
            return true;
        }
        let Some(call) = one.objects.poll_call(now) else { return false };
        let death = match one.death {
            Some(ControllerDeath::AtCall(at, sent)) if at == one.calls => Some(sent),
            _ => None,
        };
        one.calls += 1;
        if death != Some(false) {
            let ms = self.random.up_to(self.setting.delay / 4);
            self.after(Duration::from_millis(ms), Event::Asked(number, call));
        }
        if death.is_some() {
            self.die(number);
        }
        true
    }

    fn on_cluster_event(&mut self, number: usize, event: ClusterEvent) {
        let now = self.now;
        let Some(one) = &mut self.controllers[number] else { return };
        match event {
            ClusterEvent::Holds { known } => {
                if let Some(known) = known {
                    (one.token, one.place) = (known.token, known.controller);
                }
                let manifests = self.tests[one.test].objects(&one.token, &one.place);
                one.objects.make(manifests, now);
            }
            ClusterEvent::Begun => one.control = Some(Control::new(rules(&one.token, self.setting.workers), now)),
            ClusterEvent::Ended(fate) => {
                if let Some(control) = &mut one.control {
                    control.on_gone(fate.worker, fate.gone, now);
                }
            }
            ClusterEvent::Displaced => {
                if let Some(control) = &mut one.control {
                    control.on_displaced(now);
                }
            }
            ClusterEvent::Waits { .. } | ClusterEvent::Unlisted(_) => {}
        }
    }

    fn on_action(&mut self, action: Action) {
        let ms = Duration::from_millis(1 + self.random.up_to(3));
        match action {
            Action::Send { channel, message } => self.after(ms, Event::ToWorker(channel, message)),
            Action::Close { channel } => self.after(Duration::from_millis(5), Event::ClosedAtWorker(channel)),
            // Their Job starts them, and they go with it.
            Action::Launch { .. } | Action::Kill { .. } => {}
        }
    }
}

impl Test {
    fn new(name: &str, workers: u32) -> Self {
        let text = format!(
            "apiVersion: nearside.dev/v1alpha1\nkind: LoadTest\nmetadata: {{name: {name}}}\nspec:\n  \
             target: http://10.0.0.2:8080/\n  workers: {workers}\n  duration: 5s\n  warmUp: 0s\n  prepareWithin: 20s\n  \
             pods: {{image: nearside}}\n"
        );
        let spec = LoadTest::read(&text).expect("a test");
        let (loads, alone) = (Vec::new(), Duration::ZERO);
        let seen = Seen { ended: None, deaths: 0, alone, half_told: false, decided: false, loads, struck: None };
        Self { spec, text, deaths: 0, died_at: None, seen }
    }

    fn objects(&self, token: &Token, place: &str) -> Manifests {
        let tokens = (0..self.spec.workers).map(|worker| token.of_worker(worker).text().to_owned());
        let tokens: Vec<String> = tokens.collect();
        let (token, key, request) = (token.text(), "k", "{}\n");
        let contents = Contents { token, key, tokens: &tokens, controller: place, request, feed: None };
        let setting = ObjectsSetting {
            test: &self.spec,
            source: &self.text,
            namespace: "load",
            image: None,
            owner: None,
            contents,
        };
        objects(&setting).expect("it can be")
    }
}

fn rules(token: &Token, workers: u32) -> ControlRules {
    ControlRules {
        token: token.clone(),
        version: "1".to_owned(),
        setups: (0..workers).map(|index| format!("plan {index}")).collect(),
        prepare: PREPARE,
        load: LOAD,
        start_tolerance: TOLERANCE,
    }
}
