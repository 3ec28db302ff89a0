//! Operators of one namespace, in virtual time: they die between any two questions, and tests are made, run, changed
//! and deleted meanwhile. The operators' side is what runs; who runs a test is a stub that says what becomes of it.

mod store;

use core::cmp::Reverse;
use core::time::Duration;
use kubernetes::ApiError;
use operator::{Ending, Figures, Moment, Note, Operator, Order, Verdict, Watched};
use random::SplitMix64;
use reconcile::Call;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BinaryHeap};
use store::Manner;
pub use store::Store;
use wire::Time;

/// No run is longer.
const END: Duration = Duration::from_secs(3_000);

/// A Lease whose holder died is taken after this; so is a target.
const HELD: Duration = Duration::from_secs(15);

/// Whoever runs a test looks so often whether what it came to is told: for a minute.
const RELEASE_WAITS: u32 = 1_200;

/// Where the other clock stands when a run begins.
const UNIX: u64 = 1_796_000_000;

/// What a test is like.
#[derive(Clone, Debug)]
pub struct TestSetting {
    pub name: String,
    pub made: Duration,
    pub makes_sense: bool,
    pub verdict: Verdict,
    pub ttl: Option<u64>,
    /// When somebody deletes it; and whether another of its name is made then.
    pub deleted: Option<(Duration, bool)>,
    /// When somebody takes its status away.
    pub wiped: Option<Duration>,
}

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Setting {
    pub tests: Vec<TestSetting>,
    pub operators: usize,
    /// Of a thousand calls so many are in each of the four manners that are not plain.
    pub trouble: u64,
    /// The longest way of an answer, in milliseconds.
    pub delay: u64,
    /// Of a thousand events of a watch so many break it.
    pub breaks: u64,
    /// When operators die: at a call of this number, sent or not; and when another takes its place.
    pub deaths: Vec<(u32, bool, Duration)>,
    /// When the first operator stands still, and for how long.
    pub stall: Option<(Duration, Duration)>,
}

enum Event {
    Starts,
    Asked(usize, Call),
    Answered(usize, Result<Value, ApiError>),
    Watched(usize, u64, Watched),
    /// A run in an operator goes one step on.
    Run(usize, String, u32),
    Made(usize),
    Deleted(usize),
    Wiped(usize),
    /// The first operator stands still no more.
    Wakes,
}

/// A test that is run: by the stub.
struct Run {
    verdict: Verdict,
    name: String,
    is_released: bool,
    is_stopped: bool,
}

struct Process {
    operator: Operator,
    watch: Option<(u64, u64)>,
    runs: BTreeMap<String, Run>,
    calls: u32,
    death: Option<(u32, bool, Duration)>,
}

/// What was seen of a test.
#[derive(Default, Debug)]
pub struct Seen {
    /// How often it was run.
    pub runs: u32,
    /// Whether it was run after it was complete, or by two at one time.
    pub faults: Vec<String>,
    /// The verdicts that its status had, one after the other.
    pub verdicts: Vec<String>,
    /// Since when its status says that it is over; none while somebody took that away.
    over_since: Option<Time>,
}

pub struct World {
    now: Time,
    began: Time,
    random: SplitMix64,
    setting: Setting,
    pub store: Store,
    processes: Vec<Option<Process>>,
    /// Who runs a test, and those who did when they died.
    holders: BTreeMap<String, (usize, Option<Time>)>,
    /// By the tests' numbers.
    pub seen: BTreeMap<String, Seen>,
    /// The number of each test's setting.
    pub settings: BTreeMap<String, usize>,
    pub calls: u32,
    pub deaths: usize,
    pub says: Vec<String>,
    /// How often one found that another has its place.
    pub yields: usize,
    /// How many Jobs were made of tests that were over: by one that stood still, and does not know yet.
    pub late_jobs: usize,
    /// Up to where the history was looked at.
    looked: usize,
    /// What happened up to this version is forgotten: nobody can watch from one before it.
    forgotten: u64,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, Event>,
    order: u64,
}

impl World {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let now = Time::from_millis(5_000_000);
        let mut world = Self {
            now,
            began: now,
            random: SplitMix64::new(seed),
            store: Store::default(),
            processes: Vec::new(),
            holders: BTreeMap::new(),
            seen: BTreeMap::new(),
            settings: BTreeMap::new(),
            calls: 0,
            deaths: 0,
            says: Vec::new(),
            yields: 0,
            late_jobs: 0,
            looked: 0,
            forgotten: 0,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            order: 0,
            setting,
        };
        for (number, test) in world.setting.tests.clone().into_iter().enumerate() {
            world.after(test.made, Event::Made(number));
            if let Some((at, _)) = test.deleted {
                world.after(at, Event::Deleted(number));
            }
            if let Some(at) = test.wiped {
                world.after(at, Event::Wiped(number));
            }
        }
        if let Some((from, span)) = world.setting.stall {
            world.after(from + span, Event::Wakes);
        }
        for _ in 0..world.setting.operators {
            let ms = world.random.up_to(2_000);
            world.after(Duration::from_millis(ms), Event::Starts);
        }
        world
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now, unix: UNIX + self.now.since(self.began).as_secs() }
    }

    fn after(&mut self, span: Duration, event: Event) {
        self.order += 1;
        self.what.insert(self.order, event);
        self.events.push(Reverse((self.now + span, self.order)));
    }

    /// Runs for so long.
    pub fn run(&mut self, span: Duration) {
        let until = (self.now + span).min(self.began + END);
        loop {
            while self.act() {}
            self.look();
            let moment = self.moment();
            let acting = self.processes.iter().enumerate().filter(|(number, _)| !self.is_stalled(*number));
            let deadlines = acting.filter_map(|(_, one)| Some(one.as_ref()?.operator.next_deadline(moment)));
            let next = deadlines.fold(Time::MAX, Time::min);
            let next = self.events.peek().map_or(Time::MAX, |Reverse((at, _))| *at).min(next);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now + Duration::from_micros(50));
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

    fn is_stalled(&self, number: usize) -> bool {
        let since = self.now.since(self.began);
        number == 0 && self.setting.stall.is_some_and(|(from, span)| since >= from && since < from + span)
    }

    /// Follows what became of tests in the store.
    fn look(&mut self) {
        for (_, kind, object) in &self.store.history[self.looked..] {
            let uid = object["metadata"]["uid"].as_str().expect("a number");
            let seen = self.seen.entry(uid.to_owned()).or_default();
            let verdict = object["status"]["verdict"].as_str();
            seen.over_since = verdict.map(|_| seen.over_since.unwrap_or(self.now));
            let is_new = seen.verdicts.last().map(String::as_str) != verdict;
            if let Some(verdict) = verdict.filter(|_| *kind == "MODIFIED" && is_new) {
                seen.verdicts.push(verdict.to_owned());
            }
        }
        self.looked = self.store.history.len();
    }

    fn on_event(&mut self, event: Event) {
        // What comes to one that stands still it sees when it goes on, and so does what runs in it.
        if let Event::Answered(number, _) | Event::Watched(number, ..) | Event::Run(number, ..) = event
            && self.is_stalled(number)
            && let Some((from, span)) = self.setting.stall
        {
            let rest = (from + span).saturating_sub(self.now.since(self.began));
            return self.after(rest, event);
        }
        match event {
            Event::Starts => self.start(),
            Event::Asked(number, call) => {
                let manners = [Manner::Refused, Manner::Lost, Manner::Unanswered, Manner::Twice];
                let manner = match self.random.up_to(999) / self.setting.trouble.max(1) {
                    n if n < 4 && self.setting.trouble > 0 => manners[n as usize],
                    _ => Manner::Plain,
                };
                let answer = self.store.call(&call, manner);
                let ms = 1 + self.random.up_to(self.setting.delay);
                self.after(Duration::from_millis(ms), Event::Answered(number, answer));
            }
            Event::Answered(number, answer) => {
                let moment = self.moment();
                if let Some(Some(one)) = self.processes.get_mut(number) {
                    one.operator.on_answer(answer, moment);
                }
            }
            Event::Watched(number, watch, watched) => {
                let moment = self.moment();
                if let Some(Some(one)) = self.processes.get_mut(number) {
                    one.operator.on_watched(watch, watched, moment);
                }
            }
            Event::Run(number, uid, step) => self.go_on(number, &uid, step),
            Event::Wakes => {}
            Event::Made(number) => self.make(number),
            Event::Deleted(number) => self.delete(number),
            Event::Wiped(number) => {
                let path = format!("loadtests/{}", self.setting.tests[number].name);
                if let Some(mut found) = self.store.objects.get(&path).cloned() {
                    found["status"] = Value::Null;
                    self.store.put(&path, found);
                }
            }
        }
    }

    fn make(&mut self, number: usize) {
        let test = self.setting.tests[number].clone();
        let mut spec = json!({
            "target": "http://10.0.0.2:8080/", "workers": 2, "duration": "5s", "pods": { "image": "nearside" },
        });
        if !test.makes_sense {
            spec["rate"] = json!("1");
        }
        if let Some(ttl) = test.ttl {
            spec["ttlSecondsAfterFinished"] = json!(ttl);
        }
        let metadata = json!({ "name": test.name, "namespace": "load", "generation": 1 });
        let object = json!({ "apiVersion": "nearside.dev/v1alpha1", "kind": "LoadTest", "metadata": metadata,
            "spec": spec });
        let made = self.store.put(&format!("loadtests/{}", test.name), object);
        let uid = made["metadata"]["uid"].as_str().expect("a number").to_owned();
        self.settings.insert(uid.clone(), number);
        self.seen.entry(uid).or_default();
    }

    fn delete(&mut self, number: usize) {
        let test = self.setting.tests[number].clone();
        self.store.delete(&format!("loadtests/{}", test.name));
        if test.deleted.is_some_and(|(_, again)| again) {
            self.make(number);
        }
    }
}

/// Operators.
impl World {
    fn start(&mut self) {
        let number = self.random.bits();
        let operator = Operator::new("load", number, self.now);
        let death = self.setting.deaths.get(self.deaths).copied();
        self.processes.push(Some(Process { operator, watch: None, runs: BTreeMap::new(), calls: 0, death }));
    }

    fn die(&mut self, number: usize, again: Duration) {
        self.processes[number] = None;
        let now = self.now;
        self.holders.values_mut().filter(|(holder, _)| *holder == number).for_each(|(_, died)| *died = Some(now));
        self.after(again, Event::Starts);
    }

    /// Lets each do what it has to do now; answers whether anybody did.
    fn act(&mut self) -> bool {
        let mut acted = false;
        for number in 0..self.processes.len() {
            acted |= self.act_process(number);
        }
        acted
    }

    fn act_process(&mut self, number: usize) -> bool {
        let moment = self.moment();
        if self.is_stalled(number) {
            return false;
        }
        let Some(one) = self.processes[number].as_mut() else { return false };
        if let Some(order) = one.operator.poll_order() {
            self.on_order(number, order);
            return true;
        }
        if self.send_watched(number) {
            return true;
        }
        let Some(one) = self.processes[number].as_mut() else { return false };
        let Some(call) = one.operator.poll_call(moment) else { return false };
        let death = one.death.filter(|(at, ..)| *at == one.calls);
        one.calls += 1;
        self.calls += 1;
        if death.is_none_or(|(_, sent, _)| sent) {
            let ms = self.random.up_to(self.setting.delay / 4);
            self.after(Duration::from_millis(ms), Event::Asked(number, call));
        }
        if let Some((.., again)) = death {
            self.deaths += 1;
            self.die(number, again);
        }
        true
    }

    /// What a watch has yet to bring; answers whether it brought something, or broke.
    fn send_watched(&mut self, number: usize) -> bool {
        let Some((watch, from)) = self.processes[number].as_ref().and_then(|one| one.watch) else { return false };
        let Some((version, kind, object)) = self.store.history.iter().find(|(version, ..)| *version > from).cloned()
        else {
            return false;
        };
        let broken = self.random.up_to(999) < self.setting.breaks;
        let (watched, next) = match (broken, self.random.up_to(1)) {
            (false, _) => (Watched::Event(json!({ "type": kind, "object": object })), Some((watch, version))),
            (true, 0) => (Watched::Ended, None),
            (true, _) => {
                self.forgotten = self.store.version();
                (too_old(), None)
            }
        };
        if let Some(one) = self.processes[number].as_mut() {
            one.watch = next;
        }
        // In the order in which it happened: all ways are equally long.
        let ms = self.setting.delay / 2;
        self.after(Duration::from_millis(ms), Event::Watched(number, watch, watched));
        true
    }

    fn on_order(&mut self, number: usize, order: Order) {
        let Some(one) = self.processes[number].as_mut() else { return };
        match order {
            Order::Start { uid, object } => {
                let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
                let verdict = self.settings.get(&uid).map_or(Verdict::Fail, |one| self.setting.tests[*one].verdict);
                let before = one.runs.insert(uid.clone(), Run { verdict, name, is_released: false, is_stopped: false });
                let seen = self.seen.entry(uid.clone()).or_default();
                seen.runs += 1;
                if before.is_some() {
                    seen.faults.push("started twice".to_owned());
                }
                // What was told last may be on its way yet.
                let late = Duration::from_millis(3 * self.setting.delay);
                if seen.over_since.is_some_and(|since| self.now > since + late) {
                    seen.faults.push("run when it was over".to_owned());
                }
                self.after(Duration::from_millis(10), Event::Run(number, uid, 0));
            }
            Order::Release { uid } => {
                if let Some(run) = one.runs.get_mut(&uid) {
                    run.is_released = true;
                }
            }
            Order::Stop { uid } => {
                if let Some(run) = one.runs.get_mut(&uid) {
                    run.is_stopped = true;
                }
            }
            Order::Watch { number: watch, path } => {
                let version = path.split("resourceVersion=").nth(1).and_then(|text| text.parse().ok());
                let version: u64 = version.expect("a version");
                assert!(version <= self.store.version(), "{path}");
                if version >= self.forgotten {
                    one.watch = Some((watch, version));
                } else {
                    let ms = self.setting.delay / 2;
                    self.after(Duration::from_millis(1 + ms), Event::Watched(number, watch, too_old()));
                }
            }
            Order::Say(words) => self.says.push(words),
            Order::Yield => {
                self.yields += 1;
                self.die(number, Duration::from_secs(1));
            }
        }
    }

    /// The stub that runs a test goes one step on.
    fn go_on(&mut self, number: usize, uid: &str, step: u32) {
        let (now, moment) = (self.now, self.moment());
        let Some(one) = self.processes[number].as_mut() else { return };
        let Some(run) = one.runs.get(uid) else { return };
        let (verdict, name) = (run.verdict, run.name.clone());
        let job = format!("jobs/nearside-{name}");
        let is_own = |job: Option<&Value>| job.is_some_and(|job| job["metadata"]["ownerReferences"][0]["uid"] == uid);
        let holder = self
            .holders
            .get(&name)
            .filter(|(other, died)| *other != number && died.is_none_or(|died| now < died + HELD));
        let (note, wait, next) = match step {
            _ if run.is_stopped || step == 5 => {
                if is_own(self.store.objects.get(&job)) {
                    self.store.delete(&job);
                }
                if self.holders.get(&name).is_some_and(|(other, _)| *other == number) {
                    self.holders.remove(&name);
                }
                one.runs.remove(uid);
                return one.operator.on_note(uid, Note::Over, moment);
            }
            0 if holder.is_some() => (Some(Note::Waits { holder: "another".to_owned() }), 500, 0),
            0 => {
                self.holders.insert(name.clone(), (number, None));
                let owner = json!([{ "uid": uid }]);
                let made = json!({ "metadata": { "name": format!("nearside-{name}"), "ownerReferences": owner } });
                let is_there = self.store.objects.contains_key(&format!("loadtests/{name}"));
                if is_there {
                    self.late_jobs += usize::from(self.seen.get(uid).is_some_and(|seen| seen.over_since.is_some()));
                    self.store.put(&job, made);
                }
                (Some(Note::Begun), 300, 1)
            }
            1 => (Some(Note::Prepared), 1_000, 2),
            2 => (Some(Note::Loading), 5_000, 3),
            3 => {
                let ending = Ending {
                    verdict,
                    reason: "Measured",
                    message: "it was measured".to_owned(),
                    figures: Figures { p99: Some("1 ms".to_owned()), ..Figures::default() },
                    result: Some("{}".to_owned()),
                };
                (Some(Note::Ended(Box::new(ending))), 50, 4)
            }
            // Until what it came to is told, or for a minute.
            waited => {
                // With eight tries of which a quarter is in vain; an operator that stands still has none.
                let is_over = run.is_released || waited > RELEASE_WAITS;
                if is_over && !run.is_released && self.setting.stall.is_none() {
                    self.seen.entry(uid.to_owned()).or_default().faults.push("nobody let it go".to_owned());
                }
                (None, 50, if is_over { 5 } else { waited.max(5) + 1 })
            }
        };
        if let Some(note) = note {
            one.operator.on_note(uid, note, moment);
        }
        self.after(Duration::from_millis(wait), Event::Run(number, uid.to_owned(), next));
    }

    /// Whether somebody runs a test.
    pub fn runs(&self) -> usize {
        self.processes.iter().flatten().map(|one| one.runs.len()).sum()
    }
}

/// That what came after the version of a watch is forgotten.
fn too_old() -> Watched {
    Watched::Event(json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } }))
}
