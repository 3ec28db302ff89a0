//! The operator of audits: audits and nodes are listed, rounds are run, told of and forgotten.

use crate::audit_asks::{AuditAsks, rest_of};
use crate::audit_status::AuditOutcome;
use crate::leading::{Leading, LeaseAsks};
use crate::moment::Moment;
use crate::nodes::SeenNode;
use crate::rounds::{RoundAsk, RoundOrder, RoundStage, Rounds};
use audits::{NodeRecord, Pool};
use core::time::Duration;
use kubernetes::ApiError;
use manifests::audit_secret_name;
use reconcile::{Call, Meeting};
use serde_json::Value;
use spec::NodeAudit;
use std::collections::{BTreeMap, VecDeque};
use wire::Time;

/// The Lease of whichever operator of audits is the one of its namespace.
const LEASE: &str = "nearside-auditor";

/// Audits that are known at one time: of more the later ones wait until some are deleted.
const AUDITS_LIMIT: usize = 100;

/// How often audits are listed.
const AUDITS_EVERY: Duration = Duration::from_secs(5);

/// How often nodes are listed while a round is on, and while none is.
const NODES_EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// After a list that did not come.
const PAUSE: Duration = Duration::from_secs(1);

/// What is to be done by whoever has hands.
#[derive(Clone, PartialEq, Debug)]
pub enum AuditOrder {
    /// Listen for pods of this audit, and say where ([`Auditor::on_met`]).
    Meet {
        /// Its number.
        uid: String,
        /// What its pods know already, if there are any.
        known: Option<Meeting>,
    },
    /// What this node said is kept: its pod may go.
    Kept {
        /// The audit's number.
        uid: String,
        /// The node.
        node: String,
    },
    /// Nobody is to be listened for any more.
    Part {
        /// The audit's number.
        uid: String,
    },
    /// Say this to people.
    Say(String),
    /// Another operator is the one: this one ends.
    Yield,
}

/// Whose answer is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Lease,
    Audits,
    Nodes,
    Rounds(String, RoundAsk),
}

/// The operator of the audits of one namespace; or of one that is no object of the cluster.
///
/// Call order: as that of [`crate::Operator`]; [`Auditor::on_met`] after an order to listen, and
/// [`Auditor::on_answer_of`] with what pods say, and [`Auditor::on_refused`] with who says so of another's node.
#[derive(Debug)]
pub struct Auditor {
    asks: AuditAsks,
    lease: LeaseAsks,
    leading: Leading,
    image: Option<String>,
    /// When audits are listed next; never of one that is no object.
    audits_at: Time,
    /// When nodes may be listed next, and since when they are as they are known.
    nodes_at: Time,
    nodes_since: Option<Time>,
    /// Nodes as they were listed, the number of that list, and what the next part of it adds to.
    nodes: BTreeMap<String, SeenNode>,
    nodes_number: u64,
    listed: BTreeMap<String, SeenNode>,
    rest: String,
    /// By their numbers.
    audits: BTreeMap<String, Rounds>,
    pool: Pool,
    asked: Option<Asked>,
    orders: VecDeque<AuditOrder>,
    troubles: [bool; 2],
}

impl Auditor {
    /// The operator of this namespace, with a number that anybody may see, and the image of pods whose audit names
    /// none.
    #[must_use]
    pub fn new(namespace: &str, image: Option<&str>, number: u64, now: Time) -> Self {
        let holder = format!("{namespace}/auditor/{number:016x}");
        Self::with(namespace, image, (LEASE, Leading::new(holder, now)), now)
    }

    /// The controller of one audit, which is no object: as its file has it.
    #[must_use]
    pub fn of_one(audit: NodeAudit, namespace: &str, image: Option<&str>, number: u64, moment: Moment) -> Self {
        let holder = format!("{namespace}/{}/{number:016x}", audit.name);
        let lease = audit_secret_name(&audit.name);
        let mut one = Self::with(namespace, image, (&lease, Leading::own(holder, moment.now)), moment.now);
        one.audits_at = Time::MAX;
        one.audits.insert(String::new(), Rounds::of_file(audit, (namespace, image), moment));
        one
    }

    fn with(namespace: &str, image: Option<&str>, (lease, leading): (&str, Leading), now: Time) -> Self {
        Self {
            asks: AuditAsks::new(namespace),
            lease: LeaseAsks::new(namespace, lease),
            leading,
            image: image.map(str::to_owned),
            audits_at: now,
            nodes_at: now,
            nodes_since: None,
            nodes: BTreeMap::new(),
            nodes_number: 0,
            listed: BTreeMap::new(),
            rest: String::new(),
            audits: BTreeMap::new(),
            pool: Pool::new(),
            asked: None,
            orders: VecDeque::new(),
            troubles: [false; 2],
        }
    }

    /// The next question, if it is time for one and the last one was answered.
    pub fn poll_call(&mut self, moment: Moment) -> Option<Call> {
        let now = moment.now;
        if self.asked.is_some() {
            return None;
        }
        if now >= self.leading.due() {
            let call = self.leading.call(&self.lease, now)?;
            self.asked = Some(Asked::Lease);
            return Some(call);
        }
        if !self.leading.may_act(now) {
            return None;
        }
        self.tick(moment);
        if now >= self.audits_at {
            self.asked = Some(Asked::Audits);
            return Some(self.asks.list());
        }
        if now >= self.nodes_due() {
            self.asked = Some(Asked::Nodes);
            return Some(self.asks.nodes(&self.rest));
        }
        // Whoever waits for longest.
        let asks = self.audits.iter().filter_map(|(uid, rounds)| {
            let (due, ask) = rounds.ask(moment)?;
            Some((due, ask?, uid.clone()))
        });
        let (due, ask, uid) = asks.min_by_key(|(due, ..)| *due)?;
        if now < due {
            return None;
        }
        let call = self.audits.get(&uid)?.call(&self.asks, &ask)?;
        self.asked = Some(Asked::Rounds(uid, ask));
        Some(call)
    }

    /// What came of the last question.
    pub fn on_answer(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match self.asked.take() {
            Some(Asked::Lease) => self.on_lease(answer, moment),
            Some(Asked::Audits) => self.on_audits(answer, moment),
            Some(Asked::Nodes) => self.on_nodes(answer, moment),
            Some(Asked::Rounds(uid, ask)) => {
                let Some(rounds) = self.audits.get_mut(&uid) else { return };
                rounds.on_answer(&ask, answer, &mut self.pool, moment);
                if rounds.is_changed {
                    self.audits_at = self.audits_at.min(moment.now + PAUSE);
                }
                if rounds.is_gone {
                    self.forget(&uid);
                }
            }
            None => {}
        }
    }

    /// Somebody listens for an audit's pods, who are to know this; or cannot.
    pub fn on_met(&mut self, uid: &str, met: Result<Meeting, String>, moment: Moment) {
        if let Some(rounds) = self.audits.get_mut(uid) {
            rounds.on_met(met, moment);
        }
    }

    /// What a node's pod says: its audit, or why there is none.
    pub fn on_answer_of(&mut self, uid: &str, node: &str, said: Result<String, String>, moment: Moment) {
        if let Some(rounds) = self.audits.get_mut(uid) {
            rounds.on_answer_of(node, said, &mut self.pool, moment);
        }
    }

    /// Somebody reported for a node with this token, which is not that node's.
    pub fn on_refused(&mut self, uid: &str, node: &str, token: &str, moment: Moment) {
        if let Some(rounds) = self.audits.get_mut(uid) {
            rounds.on_refused(node, token, moment);
        }
    }

    /// It is no more the one; rounds go on, for whoever is the next.
    pub fn leave(&mut self, now: Time) {
        if self.asked == Some(Asked::Lease) {
            self.asked = None;
        }
        self.leading.leave(now);
    }

    /// Nodes are asked no more: what was made goes, and what came of it is told.
    pub fn stop(&mut self, moment: Moment) {
        self.audits.values_mut().for_each(|rounds| rounds.stop(moment));
    }

    /// Whether nothing more is asked.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.leading.is_over()
    }

    /// Whether the one audit has been made, and nothing of it is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.audits.values().all(|rounds| rounds.stage == RoundStage::Over)
    }

    /// What the one audit came to.
    #[must_use]
    pub fn outcome(&self) -> Option<&AuditOutcome> {
        self.audits.values().next().and_then(Rounds::outcome)
    }

    /// What is known of an audit's nodes.
    pub fn records(&self) -> impl Iterator<Item = &NodeRecord> {
        self.audits.values().flat_map(Rounds::records)
    }

    /// Nodes that have answered or failed, and all that were to.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        let members = self.audits.values().map(|rounds| &rounds.members);
        members.fold((0, 0), |(settled, all), one| (settled + one.settled(), all + one.len()))
    }

    /// The next thing to be done.
    pub fn poll_order(&mut self) -> Option<AuditOrder> {
        for (uid, rounds) in &mut self.audits {
            while let Some(order) = rounds.orders.pop_front() {
                let uid = uid.clone();
                self.orders.push_back(match order {
                    RoundOrder::Meet(known) => AuditOrder::Meet { uid, known },
                    RoundOrder::Kept(node) => AuditOrder::Kept { uid, node },
                    RoundOrder::Part => AuditOrder::Part { uid },
                    RoundOrder::Say(words) => AuditOrder::Say(words),
                });
            }
        }
        self.orders.pop_front()
    }

    /// When there may be a question, or something else to be done.
    #[must_use]
    pub fn next_deadline(&self, moment: Moment) -> Time {
        if self.asked.is_some() {
            return Time::MAX;
        }
        let lease = self.leading.due();
        if !self.leading.may_act(moment.now) {
            return lease;
        }
        let rounds = self.audits.values().filter_map(|rounds| Some(rounds.ask(moment)?.0));
        rounds.fold(lease.min(self.audits_at).min(self.nodes_due()), Time::min)
    }
}

impl Auditor {
    fn tick(&mut self, moment: Moment) {
        for rounds in self.audits.values_mut() {
            if self.nodes_number > 0 {
                rounds.see_nodes(&self.nodes, self.nodes_number, moment);
            }
            rounds.tick(moment);
        }
    }

    /// When nodes are listed: never while nobody asks for them.
    fn nodes_due(&self) -> Time {
        let wants = |rounds: &Rounds| !matches!(rounds.stage, RoundStage::Refused | RoundStage::Over);
        if !self.audits.values().any(wants) {
            return Time::MAX;
        }
        let is_one_active = self.audits.values().any(Rounds::is_active);
        let every = if is_one_active { NODES_EVERY.0 } else { NODES_EVERY.1 };
        self.nodes_at.max(self.nodes_since.map_or(Time::ZERO, |since| since + every))
    }

    fn on_lease(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        let news = self.leading.on_answer(answer, moment.now);
        if let Some(holder) = news.another {
            self.orders.push_back(AuditOrder::Say(format!("another runs audits here: {holder}")));
        }
        if news.yields {
            self.orders.push_back(AuditOrder::Yield);
        }
    }

    fn on_audits(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match answer {
            Ok(list) => {
                self.audits_at = moment.now + AUDITS_EVERY;
                self.troubles[0] = false;
                let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                let items = || items.iter().filter(|one| !one["metadata"]["deletionTimestamp"].is_string());
                let here: Vec<&str> = items().filter_map(|one| one["metadata"]["uid"].as_str()).collect();
                let gone: Vec<String> =
                    self.audits.keys().filter(|uid| !here.contains(&uid.as_str())).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                items().for_each(|one| self.see(one, moment));
            }
            Err(why) => self.not_listed(0, "audits", &why, moment),
        }
    }

    fn on_nodes(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match answer {
            Ok(list) => {
                self.troubles[1] = false;
                self.listed.extend(list["items"].as_array().into_iter().flatten().filter_map(SeenNode::read));
                if let Some(rest) = rest_of(&list) {
                    self.rest = rest.to_owned();
                    return;
                }
                self.rest.clear();
                (self.nodes, self.nodes_number) = (core::mem::take(&mut self.listed), self.nodes_number + 1);
                self.nodes_since = Some(moment.now);
            }
            Err(why) => {
                // A list that is too old goes on nowhere: it is begun anew.
                self.rest.clear();
                self.listed.clear();
                self.not_listed(1, "nodes", &why, moment);
            }
        }
    }

    fn not_listed(&mut self, which: usize, what: &str, why: &ApiError, moment: Moment) {
        let at = moment.now + PAUSE;
        if which == 0 {
            self.audits_at = at
        } else {
            self.nodes_at = at
        }
        if self.troubles.get_mut(which).is_some_and(|told| !core::mem::replace(told, true)) {
            self.orders.push_back(AuditOrder::Say(format!("{what} cannot be listed: {why}")));
        }
    }

    fn see(&mut self, object: &Value, moment: Moment) {
        let Some(uid) = object["metadata"]["uid"].as_str() else { return };
        if let Some(rounds) = self.audits.get_mut(uid) {
            rounds.on_seen(object);
        } else if self.audits.len() < AUDITS_LIMIT
            && let Some(rounds) = Rounds::new(object, (self.asks.namespace(), self.image.as_deref()), moment)
        {
            self.audits.insert(uid.to_owned(), rounds);
        }
    }

    /// An audit is there no more: what it made goes with it.
    fn forget(&mut self, uid: &str) {
        if self.audits.remove(uid).is_some() {
            self.orders.push_back(AuditOrder::Part { uid: uid.to_owned() });
            self.pool.trim();
        }
    }
}
