//! Operators of the audits of one namespace, in virtual time: they die between any two questions, and nodes come, go,
//! die and lie meanwhile. The operators' side is what runs; pods are stubs that say what their node is to say.

mod store;

use core::cmp::Reverse;
use core::time::Duration;
use kubernetes::ApiError;
use manifests::{NODE, audit_secret_name, yaml};
use messages::Token;
use operator::{AuditOrder, AuditOutcome, Auditor, Moment};
use random::SplitMix64;
use reconcile::{Call, Meeting};
use serde_json::{Value, json};
use spec::NodeAudit;
use std::collections::{BTreeMap, BinaryHeap};
use store::Manner;
pub use store::Store;
use wire::Time;

/// Where the other clock stands when a run begins.
const UNIX: u64 = 1_796_000_000;

/// A pod looks so often for somebody who listens.
const SAYS_EVERY: Duration = Duration::from_secs(1);

/// What becomes of the pod of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    /// It answers; its value is this number.
    Answers(u32),
    /// It never says anything.
    Silent,
    /// It ends without a word.
    Crashes,
    /// Its image is nowhere.
    NoImage,
    /// It says what is no audit.
    Nonsense,
    /// It says that there is none.
    Fails,
    /// It says, with what it knows, that it is the node of this number, and what that one's value is: 666.
    Lies(usize),
}

#[derive(Clone, Debug)]
pub struct NodeSetting {
    pub name: String,
    pub script: Script,
    /// When it is there.
    pub made: Duration,
    /// When it is cut off: nothing of it says good-bye, and it is told to be not ready in two seconds.
    pub dies: Option<Duration>,
    /// When it is there again.
    pub returns: Option<Duration>,
    pub cordoned: bool,
    /// When its object is deleted.
    pub deleted: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct AuditSetting {
    pub name: String,
    pub spec: Value,
    pub made: Duration,
    pub deleted: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub audits: Vec<AuditSetting>,
    pub nodes: Vec<NodeSetting>,
    pub operators: usize,
    /// Of a thousand calls so many are in each of the four manners that are not plain.
    pub trouble: u64,
    /// The longest way of an answer, in milliseconds.
    pub delay: u64,
    /// When operators die: at a call of this number, sent or not; and when another takes its place.
    pub deaths: Vec<(u32, bool, Duration)>,
    /// Whether an operator is found at another place than the one before.
    pub moves: bool,
    /// When the first operator stands still, and for how long.
    pub stall: Option<(Duration, Duration)>,
    /// Whether there is no operator, and the one audit is no object: its controllers are started again until one ends.
    pub is_file: bool,
}

enum Event {
    Starts,
    Asked(usize, Call),
    Answered(usize, Result<Value, ApiError>),
    Audit(usize),
    AuditDeleted(usize),
    Node(usize),
    NodeNotReady(usize),
    NodeReturns(usize),
    NodeDeleted(usize),
    /// The pod of this name and number says what it is to say, so often.
    Says(String, String),
    Script(usize, Script),
    /// The pod at this path, of this number, has ended, and is gone.
    PodGone(String, Value),
    /// The first operator stands still no more.
    Wakes,
}

struct Process {
    auditor: Auditor,
    /// Who listens for the pods of an audit, by its number.
    meetings: BTreeMap<String, Meeting>,
    calls: u32,
    death: Option<(u32, bool, Duration)>,
    has_left: bool,
}

pub struct World {
    now: Time,
    began: Time,
    random: SplitMix64,
    pub setting: Setting,
    pub store: Store,
    processes: Vec<Option<Process>>,
    pub calls: u32,
    /// How often an operator was to do something at once, and did nothing.
    pub spins: u32,
    pub deaths: usize,
    pub says: Vec<String>,
    /// What controllers of an audit that is no object say that it came to.
    pub outcomes: Vec<AuditOutcome>,
    /// The most pods that there were at one time, of one audit.
    pub most_pods: usize,
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
            calls: 0,
            spins: 0,
            deaths: 0,
            says: Vec::new(),
            outcomes: Vec::new(),
            most_pods: 0,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            order: 0,
            setting,
        };
        let objects = if world.setting.is_file { Vec::new() } else { world.setting.audits.clone() };
        for (number, audit) in objects.into_iter().enumerate() {
            world.after(audit.made, Event::Audit(number));
            if let Some(at) = audit.deleted {
                world.after(at, Event::AuditDeleted(number));
            }
        }
        for (number, node) in world.setting.nodes.clone().into_iter().enumerate() {
            world.after(node.made, Event::Node(number));
            if let Some(at) = node.dies {
                world.after(at + Duration::from_secs(2), Event::NodeNotReady(number));
            }
            if let Some(at) = node.returns {
                world.after(at, Event::NodeReturns(number));
            }
            if let Some(at) = node.deleted {
                world.after(at, Event::NodeDeleted(number));
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

    /// From then on a node says something else.
    pub fn script(&mut self, at: Duration, node: usize, script: Script) {
        self.after(at, Event::Script(node, script));
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now, unix: UNIX + self.now.since(self.began).as_secs() }
    }

    /// What operators know, for whoever looks for a fault.
    pub fn operators(&self) -> Vec<String> {
        self.processes.iter().flatten().map(|one| format!("{:#?}", one.auditor)).collect()
    }

    pub fn status(&self, audit: &str) -> Value {
        self.store.objects.get(&format!("nodeaudits/{audit}")).map(|one| one["status"].clone()).unwrap_or_default()
    }

    fn after(&mut self, span: Duration, event: Event) {
        self.order += 1;
        self.what.insert(self.order, event);
        self.events.push(Reverse((self.now + span, self.order)));
    }

    /// Runs for so long.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            while self.act() {}
            let moment = self.moment();
            let acting = self.processes.iter().enumerate().filter(|(number, _)| !self.is_stalled(*number));
            let deadlines = acting.filter_map(|(_, one)| Some(one.as_ref()?.auditor.next_deadline(moment)));
            let next = deadlines.fold(Time::MAX, Time::min);
            // Whoever has nothing to do now, and says that it has, asks all the time.
            self.spins += u32::from(next <= self.now);
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

    fn on_event(&mut self, event: Event) {
        // What comes to one that stands still it sees when it goes on.
        if let Event::Answered(number, _) = event
            && self.is_stalled(number)
            && let Some((from, span)) = self.setting.stall
        {
            let rest = (from + span).saturating_sub(self.now.since(self.began));
            return self.after(rest, event);
        }
        match event {
            Event::Wakes => {}
            Event::Starts => self.start(),
            Event::Asked(number, call) => self.on_asked(number, &call),
            Event::Answered(number, answer) => {
                let moment = self.moment();
                if let Some(Some(one)) = self.processes.get_mut(number) {
                    one.auditor.on_answer(answer, moment);
                }
            }
            Event::Audit(number) => {
                let audit = self.setting.audits[number].clone();
                self.store.put(&format!("nodeaudits/{}", audit.name), object(&audit));
            }
            Event::AuditDeleted(number) => {
                self.store.delete(&format!("nodeaudits/{}", self.setting.audits[number].name.clone()));
            }
            Event::Node(number) => self.put_node(number, true),
            Event::NodeNotReady(number) => self.put_node(number, false),
            Event::NodeReturns(number) => {
                let deleted = self.setting.nodes[number].deleted;
                if deleted.is_some_and(|at| self.now.since(self.began) >= at) {
                    return;
                }
                self.setting.nodes[number].dies = None;
                self.put_node(number, true);
            }
            Event::NodeDeleted(number) => {
                let name = self.setting.nodes[number].name.clone();
                self.store.delete(&format!("nodes/{name}"));
                let of_it = |pod: &&Value| pod["metadata"]["annotations"][NODE] == name.as_str();
                let pods = self.store.of_kind("pods").filter(of_it);
                let pods: Vec<String> = pods.map(|pod| format!("pods/{}", text(&pod["metadata"]["name"]))).collect();
                pods.iter().for_each(|pod| self.store.delete(pod));
            }
            Event::Says(pod, uid) => self.say(&pod, &uid),
            Event::PodGone(path, uid) => {
                if self.store.objects.get(&path).is_some_and(|pod| pod["metadata"]["uid"] == uid) {
                    self.store.remove(&path);
                }
            }
            Event::Script(node, script) => self.setting.nodes[node].script = script,
        }
    }

    fn put_node(&mut self, number: usize, ready: bool) {
        let node = &self.setting.nodes[number];
        let is_there = self.store.objects.contains_key(&format!("nodes/{}", node.name));
        if !ready && !is_there {
            return;
        }
        let status = if ready { "True" } else { "Unknown" };
        let object = json!({
            "metadata": { "name": node.name, "labels": { "pool": "a" } },
            "spec": { "unschedulable": node.cordoned },
            "status": { "conditions": [{
                "type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "it says nothing any more",
            }] },
        });
        self.store.put(&format!("nodes/{}", node.name.clone()), object);
    }

    fn on_asked(&mut self, number: usize, call: &Call) {
        let manners = [Manner::Refused, Manner::Lost, Manner::Unanswered, Manner::Twice];
        let manner = match self.random.up_to(999) / self.setting.trouble.max(1) {
            n if n < 4 && self.setting.trouble > 0 => manners[n as usize],
            _ => Manner::Plain,
        };
        let answer = self.store.call(call, manner);
        for pod in core::mem::take(&mut self.store.fresh_pods) {
            let ms = 200 + self.random.up_to(3_000);
            let (name, uid) = (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]));
            self.after(Duration::from_millis(ms), Event::Says(name, uid));
        }
        let ms = 1 + self.random.up_to(self.setting.delay);
        self.after(Duration::from_millis(ms), Event::Answered(number, answer));
    }
}

/// Pods.
impl World {
    fn say(&mut self, name: &str, uid: &str) {
        let path = format!("pods/{name}");
        let Some(pod) = self.store.objects.get(&path).filter(|pod| pod["metadata"]["uid"] == uid).cloned() else {
            return;
        };
        if pod["status"]["phase"].is_string() || pod["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let node = text(&pod["metadata"]["annotations"][NODE]);
        let audit = text(&pod["metadata"]["labels"]["app.kubernetes.io/instance"]);
        let Some(known) = self.setting.nodes.iter().find(|one| one.name == node).cloned() else { return };
        let since = self.now.since(self.began);
        if known.dies.is_some_and(|at| since >= at) {
            return;
        }
        let said = match known.script {
            Script::Silent => return,
            Script::Crashes => return self.end(&path, pod, &json!({ "phase": "Failed", "reason": "Error" })),
            Script::NoImage => {
                let waiting = json!({ "reason": "ErrImagePull", "message": "no such image" });
                return self.end(&path, pod, &json!({ "containerStatuses": [{ "state": { "waiting": waiting } }] }));
            }
            Script::Nonsense => Ok("{}".to_owned()),
            Script::Fails => Err("there is no /host/proc".to_owned()),
            Script::Answers(value) => Ok(self.audit_text(value)),
            Script::Lies(_) => Ok(self.audit_text(666)),
        };
        let says_it_is = match known.script {
            Script::Lies(other) => self.setting.nodes[other].name.clone(),
            _ => node.clone(),
        };
        // It knows what its Secret says, and no pod names that of the round; it is heard by who has the key of it.
        let reads = text(&pod["spec"]["volumes"][0]["secret"]["secretName"]);
        assert_ne!(reads, audit_secret_name(&audit));
        let Some(own) = self.store.objects.get(&format!("secrets/{reads}")).and_then(Meeting::read) else { return };
        let moment = self.moment();
        let is_stalled = self.is_stalled(0);
        let is_its = |listens: &Meeting| (&listens.key, &listens.controller) == (&own.key, &own.controller);
        let hears = |one: &Process| one.meetings.values().any(is_its);
        let awake = self.processes.iter_mut().enumerate().filter(|(number, _)| *number > 0 || !is_stalled);
        if let Some(one) = awake.filter_map(|(_, one)| one.as_mut()).find(|one| hears(one)) {
            let owner = one.meetings.iter().find(|(_, listens)| is_its(listens));
            let (owner, listens) = owner.map(|(uid, listens)| (uid.clone(), listens)).expect("it listens");
            if listens.token.derived(&says_it_is) == own.token {
                one.auditor.on_answer_of(&owner, &says_it_is, said, moment);
            } else {
                one.auditor.on_refused(&owner, &says_it_is, own.token.text(), moment);
            }
        }
        // Until it hears that its answer is kept.
        self.after(SAYS_EVERY, Event::Says(name.to_owned(), uid.to_owned()));
    }

    fn end(&mut self, path: &str, mut pod: Value, status: &Value) {
        pod["status"] = status.clone();
        self.store.put(path, pod);
    }

    /// An audit as a node writes it.
    fn audit_text(&self, value: u32) -> String {
        let row = |key: &str, value: &str| json!({ "key": key, "subject": "", "value": value, "verdict": "ok" });
        let made = self.moment().unix;
        let rows = [row("vm.swappiness", &value.to_string()), row("net.core.somaxconn", "4096")];
        json!({ "kind": "audit", "schema": 1, "made": made, "role": "mixed", "rows": rows }).to_string()
    }

    fn on_kept(&mut self, uid: &str, node: &str) {
        let audit = self.store.of_kind("nodeaudits").find(|one| one["metadata"]["uid"] == uid);
        let audit = audit.map(|one| one["metadata"]["name"].clone());
        let of_it = |(path, pod): &(&String, &Value)| {
            let name = &pod["metadata"]["labels"]["app.kubernetes.io/instance"];
            path.starts_with("pods/")
                && pod["metadata"]["annotations"][NODE] == node
                && audit.as_ref().is_none_or(|audit| audit == name)
        };
        let pods: Vec<(String, Value)> =
            self.store.objects.iter().filter(of_it).map(|(path, pod)| (path.clone(), pod.clone())).collect();
        for (path, pod) in pods {
            if !pod["status"]["phase"].is_string() {
                self.end(&path, pod, &json!({ "phase": "Succeeded" }));
            }
        }
    }
}

/// Operators.
impl World {
    fn start(&mut self) {
        let number = self.random.bits();
        let image = Some("nearside:test");
        let auditor = if self.setting.is_file {
            let audit = NodeAudit::read(&yaml(&[&object(&self.setting.audits[0])])).expect("an audit");
            Auditor::of_one(audit, "audits", image, number, self.moment())
        } else {
            Auditor::new("audits", image, number, self.now)
        };
        let death = self.setting.deaths.get(self.deaths).copied();
        self.processes.push(Some(Process { auditor, meetings: BTreeMap::new(), calls: 0, death, has_left: false }));
    }

    fn act(&mut self) -> bool {
        let mut acted = false;
        for number in 0..self.processes.len() {
            acted |= self.act_process(number);
        }
        acted
    }

    fn act_process(&mut self, number: usize) -> bool {
        let moment = self.moment();
        for (path, uid) in core::mem::take(&mut self.store.dying_pods) {
            let ms = 100 + self.random.up_to(4_000);
            self.after(Duration::from_millis(ms), Event::PodGone(path, uid));
        }
        if self.is_stalled(number) {
            return false;
        }
        let Some(one) = self.processes[number].as_mut() else { return false };
        if let Some(order) = one.auditor.poll_order() {
            self.on_order(number, order);
            return true;
        }
        if self.setting.is_file && one.auditor.is_over() {
            self.processes[number] = None;
            return true;
        }
        if self.setting.is_file && one.auditor.is_done() && !core::mem::replace(&mut one.has_left, true) {
            self.outcomes.extend(one.auditor.outcome().cloned());
            one.auditor.leave(moment.now);
            return true;
        }
        let Some(call) = one.auditor.poll_call(moment) else { return false };
        let death = one.death.filter(|(at, ..)| *at == one.calls);
        one.calls += 1;
        self.calls += 1;
        if death.is_none_or(|(_, sent, _)| sent) {
            let ms = self.random.up_to(self.setting.delay / 4);
            self.after(Duration::from_millis(ms), Event::Asked(number, call));
        }
        if let Some((.., again)) = death {
            self.deaths += 1;
            self.processes[number] = None;
            self.after(again, Event::Starts);
        }
        for audit in &self.setting.audits {
            let of_it = |pod: &&Value| pod["metadata"]["labels"]["app.kubernetes.io/instance"] == audit.name.as_str();
            let unended =
                |pod: &&Value| !pod["status"]["phase"].is_string() && !pod["metadata"]["deletionTimestamp"].is_string();
            self.most_pods = self.most_pods.max(self.store.of_kind("pods").filter(of_it).filter(unended).count());
        }
        true
    }

    fn on_order(&mut self, number: usize, order: AuditOrder) {
        let (moment, moves, bits) = (self.moment(), self.setting.moves, u128::from(self.random.bits()));
        let Some(one) = self.processes[number].as_mut() else { return };
        match order {
            AuditOrder::Meet { uid, known } => {
                let mine = one.meetings.get(&uid).cloned();
                let met = match known {
                    Some(known) if mine.as_ref() == Some(&known) || !moves => Ok(known),
                    Some(_) => Err("its pods look for another".to_owned()),
                    None => {
                        let (controller, key) = (format!("operator-{number}:7000"), Some(format!("{bits:x}")));
                        Ok(Meeting { token: Token::new(bits ^ 0x5eed), controller, key })
                    }
                };
                if let Ok(meeting) = &met {
                    one.meetings.insert(uid.clone(), meeting.clone());
                }
                one.auditor.on_met(&uid, met, moment);
            }
            AuditOrder::Kept { uid, node } => {
                if one.meetings.contains_key(&uid) {
                    self.on_kept(&uid, &node);
                }
            }
            AuditOrder::Part { uid } => drop(one.meetings.remove(&uid)),
            AuditOrder::Say(words) => self.says.push(words),
            AuditOrder::Yield => {
                self.processes[number] = None;
                self.after(Duration::from_secs(1), Event::Starts);
            }
        }
    }
}

fn object(audit: &AuditSetting) -> Value {
    json!({
        "apiVersion": "nearside.dev/v1alpha1", "kind": "NodeAudit",
        "metadata": { "name": audit.name, "namespace": "audits", "generation": 1 }, "spec": audit.spec,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
