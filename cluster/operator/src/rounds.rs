//! One audit: its rounds, and what is asked for them.
//!
//! ```text
//! Loading ─► Finding ──no Secret──► Idle ──a round is due, or a node was not asked──► Meeting ─► Making ─► Working
//!               │                    ▲                                                  ▲                   │
//!               ├──this audit's──────┼──────────────────────────────────────────────────┘      all answered │
//!               └──another's──► Clearing ◄──────────────────────────────────────────────────────────────────┘
//! ```

mod answers;
mod asking;

use crate::asks::{Happened, Named};
use crate::audit_status::{AuditCondition, AuditOutcome, AuditStatus};
use crate::conditions::shortened;
use crate::members::{Members, Progress};
use crate::moment::Moment;
use crate::nodes::SeenNode;
use crate::status::Verdict;
use audits::{NodeRecord, NodeReport, Pool};
use core::time::Duration;
use manifests::{AuditSetting, yaml};
use reconcile::Meeting;
use serde_json::{Value, json};
use spec::NodeAudit;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::Time;

/// Before a question that has no answer is asked again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A refusal that only somebody's mending ends is tried again after this.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// How often pods are looked at while a round is on.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often it is told how far a round is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Who cannot be listened for is listened for again after this.
const MEET_PAUSE: Duration = Duration::from_secs(5);

/// An event is told so often, at most.
const EVENT_TRIES: u32 = 5;

/// Names in an event.
const NAMES_TOLD: usize = 5;

/// How far an audit is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RoundStage {
    /// It makes no sense: that is told, and nothing else.
    Refused,
    /// What was kept of nodes is read, from here on.
    Loading(String),
    /// Did an earlier operator begin a round?
    Finding,
    /// No round is on.
    Idle,
    /// Somebody is to listen for its pods.
    Meeting,
    /// What pods are to know is made.
    Making(Meeting),
    /// Nodes are asked.
    Working,
    /// What was made goes.
    Clearing,
    /// Nothing more is to be done: of one that is no object of the cluster.
    Over,
}

/// What is asked for an audit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RoundAsk {
    Load(String),
    SeeSecret,
    MakeSecret,
    DeleteSecret(String),
    Pods,
    /// What the pod of this node is to read.
    MakeNodeSecret(String),
    MakePod(String),
    DeletePod(String, String),
    Keep(String),
    DeleteRecord(String, String),
    Status,
    Event,
    DeleteAudit,
}

/// What is to be done for an audit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RoundOrder {
    /// Listen for its pods, who know this already, if any do.
    Meet(Option<Meeting>),
    /// This node's answer is kept.
    Kept(String),
    /// Nobody is to be listened for any more.
    Part,
    /// This is for people.
    Say(String),
}

/// One audit.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub name: String,
    pub uid: String,
    generation: i64,
    version: String,
    /// Whether that is not the last one any more: audits are to be listed.
    pub is_changed: bool,
    namespace: String,
    image: Option<String>,
    /// Whether it is an object of the cluster.
    is_object: bool,
    audit: Option<NodeAudit>,
    pub stage: RoundStage,
    status: AuditStatus,
    is_told: bool,
    told_next: Time,
    pub members: Members,
    /// The number of the Secret that is there.
    secret: Option<String>,
    /// What is known of the round by who listens for its pods.
    known: Option<Meeting>,
    /// Who reported for whom without its token: nodes' names, as far as they are known.
    accused: BTreeSet<(String, String)>,
    /// Whether it is not told how many did.
    has_refused: bool,
    /// Since when the round is on here.
    from: Time,
    pods_at: Time,
    is_pods_seen: bool,
    /// Whether what was told may be so no more: as of one that an earlier operator told.
    is_stale: bool,
    /// The number of the list of nodes that was seen last.
    nodes_seen: u64,
    outcome: Option<AuditOutcome>,
    events: VecDeque<Happened>,
    event_tries: u32,
    pub orders: VecDeque<RoundOrder>,
    pub due: Time,
    pause: Duration,
    is_in_trouble: bool,
    /// Whether nobody is to be asked any more.
    is_stopped: bool,
    /// Whether it was deleted.
    pub is_gone: bool,
}

impl Rounds {
    /// An audit that was not seen before; none if it has no name or number.
    pub fn new(object: &Value, (namespace, image): (&str, Option<&str>), moment: Moment) -> Option<Self> {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (name, uid) = (text("name")?, text("uid")?);
        let metadata = json!({ "name": name, "namespace": object["metadata"]["namespace"] });
        let plain = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"],
        });
        let mut rounds = Self::blank((name, uid), (namespace, image), RoundStage::Loading(String::new()), moment);
        rounds.is_object = true;
        rounds.status = AuditStatus::read(&object["status"]);
        rounds.generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        rounds.version = text("resourceVersion").unwrap_or_default();
        rounds.judge(&plain, moment);
        Some(rounds)
    }

    /// One that is no object of the cluster.
    pub fn of_file(audit: NodeAudit, of: (&str, Option<&str>), moment: Moment) -> Self {
        let name = (audit.name.clone(), String::new());
        let mut rounds = Self::blank(name, of, RoundStage::Finding, moment);
        rounds.audit = Some(audit);
        rounds
    }

    fn blank(
        (name, uid): (String, String),
        (namespace, image): (&str, Option<&str>),
        stage: RoundStage,
        moment: Moment,
    ) -> Self {
        Self {
            name,
            uid,
            generation: 0,
            version: String::new(),
            is_changed: false,
            namespace: namespace.to_owned(),
            image: image.map(str::to_owned),
            is_object: false,
            audit: None,
            stage,
            status: AuditStatus::default(),
            is_told: true,
            told_next: moment.now,
            members: Members::default(),
            secret: None,
            known: None,
            accused: BTreeSet::new(),
            has_refused: false,
            from: moment.now,
            pods_at: moment.now,
            is_pods_seen: false,
            is_stale: true,
            nodes_seen: 0,
            outcome: None,
            events: VecDeque::new(),
            event_tries: 0,
            orders: VecDeque::new(),
            due: moment.now,
            pause: PAUSES.0,
            is_in_trouble: false,
            is_stopped: false,
            is_gone: false,
        }
    }

    /// Whether it makes sense.
    fn judge(&mut self, plain: &Value, moment: Moment) {
        let read = NodeAudit::read(&yaml(&[plain])).and_then(|audit| {
            let (namespace, image) = (self.namespace.as_str(), self.image.as_deref());
            let wrong = AuditSetting { audit: &audit, namespace, image, owner: None }.wrong();
            if wrong.is_empty() { Ok(audit) } else { Err(wrong) }
        });
        match read {
            Ok(audit) => {
                self.audit = Some(audit);
                self.set(AuditCondition::Accepted, true, ("Accepted", "its fields make sense"), moment);
            }
            Err(mut wrong) => {
                // Lines are of a file, which this is not.
                wrong.iter_mut().for_each(|one| one.line = 0);
                let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                let why = ("InvalidSpec", words.join("; "));
                self.stage = RoundStage::Refused;
                self.status.verdict = Some(Verdict::Invalid);
                self.set(AuditCondition::Accepted, false, (why.0, &why.1), moment);
                self.set(AuditCondition::Complete, true, (why.0, &why.1), moment);
            }
        }
    }

    pub fn named(&self) -> Named<'_> {
        Named { name: &self.name, uid: &self.uid }
    }

    /// What the latest round came to, if it is over.
    pub fn outcome(&self) -> Option<&AuditOutcome> {
        self.outcome.as_ref()
    }

    /// What is known of its nodes.
    pub fn records(&self) -> impl Iterator<Item = &NodeRecord> {
        self.members.records(self.status.round.unwrap_or(0)).map(|(record, _)| record)
    }

    fn setting<'a>(&'a self, audit: &'a NodeAudit) -> AuditSetting<'a> {
        let owner = self.is_object.then_some(self.uid.as_str());
        AuditSetting { audit, namespace: &self.namespace, image: self.image.as_deref(), owner }
    }

    /// It was seen again.
    pub fn on_seen(&mut self, object: &Value) {
        self.note_version(object);
        self.is_told &= self.status.is_told_by(&object["status"]);
    }

    fn note_version(&mut self, object: &Value) {
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            self.is_changed = false;
            version.clone_into(&mut self.version);
        }
    }

    /// What nodes there are, by the list of this number; none before the first.
    pub fn see_nodes(&mut self, nodes: &BTreeMap<String, SeenNode>, number: u64, moment: Moment) {
        let Some(audit) = &self.audit else { return };
        if self.nodes_seen == number || matches!(self.stage, RoundStage::Loading(_)) {
            return;
        }
        if self.nodes_seen == 0 {
            // Whose pods there are is known from now on.
            (self.is_pods_seen, self.pods_at) = (false, moment.now);
        }
        self.nodes_seen = number;
        self.is_stale |= self.members.see_nodes(nodes, audit, self.is_object, moment.now);
    }

    /// Whether what the last round came to is not told, or is so no more: a node is gone, or came and cannot be asked.
    fn is_to_be_told(&self) -> bool {
        let is_told = !self.is_stale && !self.status.holds(AuditCondition::Running);
        self.is_object && self.status.round.is_some() && self.members.is_settled() && !is_told
    }

    /// Whether a round is on.
    pub fn is_active(&self) -> bool {
        matches!(self.stage, RoundStage::Meeting | RoundStage::Making(_) | RoundStage::Working)
    }

    /// Nobody is asked any more: what was made goes.
    pub fn stop(&mut self, moment: Moment) {
        self.is_stopped = true;
        self.members.stop();
        self.due = moment.now;
    }

    /// Time goes on.
    pub fn tick(&mut self, moment: Moment) {
        let Some(patience) = self.audit.as_ref().map(|audit| audit.answer_within) else { return };
        match self.stage {
            RoundStage::Idle if self.is_stopped || (!self.is_object && self.outcome.is_some()) => {
                self.stage = RoundStage::Over;
            }
            RoundStage::Idle if self.nodes_seen > 0 && moment.now >= self.due => {
                self.is_stale |= self.members.tick(self.from, patience, moment.now);
                if self.is_to_be_told() {
                    return self.complete(moment);
                }
                self.begin_due(moment);
            }
            RoundStage::Working if self.nodes_seen > 0 => {
                self.members.tick(self.from, patience, moment.now);
                if self.is_pods_seen && self.members.is_settled() {
                    self.complete(moment);
                } else if moment.now >= self.told_next {
                    self.told_next = moment.now + PROGRESS_EVERY;
                    self.tell_progress(moment);
                }
            }
            _ => {}
        }
    }

    /// Begins the round that is due, or goes on with the last one for nodes that it has not asked.
    fn begin_due(&mut self, moment: Moment) {
        let every = self.audit.as_ref().and_then(|audit| audit.every).map(|every| every.as_secs().max(1));
        let due = match (self.status.round, every) {
            (None, _) => Some(moment.unix),
            // Rounds that were missed are left out, and the others keep their place.
            (Some(round), Some(every)) if moment.unix >= round.saturating_add(every) => {
                Some(round + (moment.unix - round) / every * every)
            }
            _ => None,
        };
        if let Some(round) = due {
            (self.status.round, self.status.next) = (Some(round), every.map(|every| round + every));
            self.status.refused = 0;
            self.accused.clear();
            self.members.begin();
        } else if !self.members.has_open() {
            return;
        }
        self.set(AuditCondition::Running, true, ("Asking", "its nodes are asked"), moment);
        self.meet(None);
    }

    fn meet(&mut self, known: Option<Meeting>) {
        self.stage = RoundStage::Meeting;
        self.orders.push_back(RoundOrder::Meet(known));
    }

    /// Somebody listens for pods that know this, or cannot.
    pub fn on_met(&mut self, met: Result<Meeting, String>, moment: Moment) {
        if self.stage != RoundStage::Meeting {
            return;
        }
        self.due = moment.now;
        self.known = met.as_ref().ok().cloned();
        match (met, &self.secret) {
            (Ok(_), Some(_)) => self.work(moment),
            (Ok(meeting), None) => self.stage = RoundStage::Making(meeting),
            // Pods that look for another are of no use.
            (Err(_), Some(_)) => self.clear(),
            (Err(why), None) => {
                self.trouble(&why);
                (self.stage, self.due) = (RoundStage::Idle, moment.now + MEET_PAUSE);
            }
        }
    }

    fn work(&mut self, moment: Moment) {
        self.stage = RoundStage::Working;
        self.members.keyed.clear();
        (self.from, self.pods_at, self.is_pods_seen) = (moment.now, moment.now, false);
        (self.due, self.pause) = (moment.now, PAUSES.0);
    }

    fn clear(&mut self) {
        self.stage = RoundStage::Clearing;
        // Whatever pods there are.
        self.is_pods_seen = false;
    }

    fn tell_progress(&mut self, moment: Moment) {
        let words = format!("{} of {} nodes have answered", self.members.settled(), self.members.len());
        self.set(AuditCondition::Running, true, ("Asking", &words), moment);
        self.is_told &= !core::mem::take(&mut self.has_refused);
    }

    /// A node says this; answers whether it was waited for.
    pub fn on_answer_of(&mut self, node: &str, said: Result<String, String>, pool: &mut Pool, moment: Moment) {
        let Some((role, history)) = self.audit.as_ref().map(|audit| (audit.role.name(), audit.history as usize)) else {
            return;
        };
        let round = self.status.round.unwrap_or(0);
        let (is_object, is_working) = (self.is_object, self.stage == RoundStage::Working);
        let Some(member) = self.members.get_mut(node) else { return };
        match &member.progress {
            Progress::Waiting | Progress::Asked { .. } if is_working => {}
            // It says so again, or too late: it may go.
            Progress::Done | Progress::Failed(_) => return self.orders.push_back(RoundOrder::Kept(node.to_owned())),
            Progress::Answered(_) | Progress::Waiting | Progress::Asked { .. } => return,
        }
        let report = said.and_then(|text| {
            let value: Value = serde_json::from_str(&text).map_err(|_| "its answer is no JSON".to_owned())?;
            let report = NodeReport::read(node, &value).map_err(|why| format!("its answer is no audit: {why}"))?;
            if report.role == role { Ok((report, text)) } else { Err("it was judged for another role".to_owned()) }
        });
        self.due = moment.now;
        match report {
            Ok((report, text)) => {
                let report = pool.share(report);
                let record = member.record.take();
                let record = record
                    .map_or_else(|| NodeRecord::first(report.clone()), |record| record.follow(report.clone(), history));
                (member.record, member.record_round) = (Some(record), round);
                member.progress = if is_object { Progress::Answered(text) } else { Progress::Done };
            }
            Err(why) => member.fail(node, "NoAudit", why),
        }
        if !matches!(member.progress, Progress::Answered(_)) {
            self.orders.push_back(RoundOrder::Kept(node.to_owned()));
        }
    }

    /// Each node has answered, or failed.
    fn complete(&mut self, moment: Moment) {
        let Some(audit) = &self.audit else { return };
        let round = self.status.round.unwrap_or(0);
        let (failures, left_out) = (self.members.failures(), self.members.left_out.clone());
        let mut outcome = AuditOutcome::of(audit, self.members.records(round), failures, left_out);
        outcome.refused = self.status.refused;
        let is_another = self.status.take(&outcome) || self.status.holds(AuditCondition::Running);
        if is_another || self.status.completed.is_none() {
            self.status.completed = Some(moment.unix);
        }
        self.is_stale = false;
        self.set(AuditCondition::Running, false, ("Ended", "each node has answered, or is told of"), moment);
        self.set(AuditCondition::Complete, true, (outcome.reason, &outcome.message), moment);
        let told_before = self.outcome.as_ref().map(|before| &before.changes);
        if !outcome.changes.is_empty() && told_before != Some(&outcome.changes) {
            let told = outcome.changes.iter().take(NAMES_TOLD).map(|(node, changes)| {
                let first = changes.first().map(ToString::to_string).unwrap_or_default();
                let more = if changes.len() > 1 { format!(" and {} more", changes.len() - 1) } else { String::new() };
                format!("{node}: {first}{more}")
            });
            let told = told.collect::<Vec<String>>().join("; ");
            self.happened("NodesChanged", &told, true, moment);
        }
        self.outcome = Some(outcome);
        self.is_told = false;
        self.clear();
    }

    fn set(&mut self, kind: AuditCondition, holds: bool, why: (&str, &str), moment: Moment) {
        if !self.status.set(kind, holds, why, moment.unix) {
            return;
        }
        (self.is_told, self.due) = (false, moment.now);
        let (is_told, is_warning) = match kind {
            AuditCondition::Accepted => (true, !holds),
            // That it is refused is told once.
            AuditCondition::Complete => {
                (self.status.holds(AuditCondition::Accepted), self.status.verdict != Some(Verdict::Pass))
            }
            AuditCondition::Running => (false, false),
        };
        if is_told {
            self.happened(why.0, why.1, is_warning, moment);
        }
    }

    fn happened(&mut self, reason: &str, message: &str, is_warning: bool, moment: Moment) {
        if !self.is_object {
            return;
        }
        let (reason, message) = (reason.to_owned(), shortened(message));
        self.events.push_back(Happened { reason, message, is_warning, unix: moment.unix });
    }

    fn trouble(&mut self, why: &str) {
        if !core::mem::replace(&mut self.is_in_trouble, true) {
            self.orders.push_back(RoundOrder::Say(format!("{}: {why}", self.name)));
        }
    }

    /// When something is to be asked for it, and what; or when time alone changes something.
    pub fn ask(&self, moment: Moment) -> Option<(Time, Option<RoundAsk>)> {
        if self.is_gone {
            return None;
        }
        let now = |ask: RoundAsk| Some((self.due, Some(ask)));
        if self.is_changed {
            // It is to be seen first.
            return None;
        }
        if self.is_object && !self.is_told && !matches!(self.stage, RoundStage::Loading(_)) {
            return now(RoundAsk::Status);
        }
        if self.is_object && !self.events.is_empty() {
            return now(RoundAsk::Event);
        }
        match &self.stage {
            RoundStage::Refused | RoundStage::Meeting | RoundStage::Over => None,
            RoundStage::Loading(from) => now(RoundAsk::Load(from.clone())),
            RoundStage::Finding => now(RoundAsk::SeeSecret),
            RoundStage::Making(_) => now(RoundAsk::MakeSecret),
            RoundStage::Idle => Some(self.idle_ask(moment)),
            RoundStage::Working => Some(self.working_ask(moment)),
            RoundStage::Clearing => Some((self.due, Some(self.clearing_ask()))),
        }
    }

    fn idle_ask(&self, moment: Moment) -> (Time, Option<RoundAsk>) {
        if let Some((node, uid)) = self.members.dropped.first_key_value() {
            return (self.due, Some(RoundAsk::DeleteRecord(node.clone(), uid.clone())));
        }
        let audit = self.audit.as_ref();
        if let (Some(ttl), Some(completed)) = (audit.and_then(|audit| audit.ttl), self.status.completed) {
            let end = self.due.max(moment.at_unix(completed.saturating_add(ttl)));
            return (end, Some(RoundAsk::DeleteAudit));
        }
        let is_now = self.status.round.is_none() || self.members.has_open() || !self.is_object;
        let patience = audit.map_or(Duration::ZERO, |audit| audit.answer_within);
        let next = self.status.next.map_or(Time::MAX, |next| moment.at_unix(next));
        let next = next.min(self.members.next_deadline(self.from, patience));
        if self.nodes_seen == 0 {
            // There is nothing to begin with yet: nodes are asked for.
            return (Time::MAX, None);
        }
        let is_now = is_now || self.is_to_be_told();
        (if is_now { self.due } else { self.due.max(next) }, None)
    }

    fn working_ask(&self, moment: Moment) -> (Time, Option<RoundAsk>) {
        let Some(audit) = &self.audit else { return (Time::MAX, None) };
        let answered = self.members.answered().map(|node| RoundAsk::Keep(node.to_owned()));
        let useless = || {
            // Before nodes are known, each pod seems to be of none.
            let (name, uid) = self.members.useless_pod(false).filter(|_| self.nodes_seen > 0)?;
            Some(RoundAsk::DeletePod(name.to_owned(), uid.to_owned()))
        };
        let next = || {
            let node = self.members.next_to_ask(audit.parallelism)?.to_owned();
            let is_keyed = self.members.keyed.contains(&node);
            Some(if is_keyed { RoundAsk::MakePod(node) } else { RoundAsk::MakeNodeSecret(node) })
        };
        let is_look_due = moment.now >= self.pods_at;
        let found = answered.or_else(|| is_look_due.then_some(RoundAsk::Pods)).or_else(useless);
        if let Some(ask) = found.or_else(|| next().filter(|_| self.is_pods_seen)) {
            return (self.due, Some(ask));
        }
        let timer = self.members.next_deadline(self.from, audit.answer_within).min(self.told_next);
        let timer = if self.nodes_seen > 0 { timer } else { Time::MAX };
        let settled = self.nodes_seen > 0 && self.is_pods_seen && self.members.is_settled();
        (if settled { self.due } else { self.due.max(self.pods_at.min(timer)) }, None)
    }

    fn clearing_ask(&self) -> RoundAsk {
        if !self.is_pods_seen {
            return RoundAsk::Pods;
        }
        if let Some((name, uid)) = self.members.useless_pod(true) {
            return RoundAsk::DeletePod(name.to_owned(), uid.to_owned());
        }
        match &self.secret {
            Some(uid) => RoundAsk::DeleteSecret(uid.clone()),
            None => RoundAsk::SeeSecret,
        }
    }
}
