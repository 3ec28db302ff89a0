//! The nodes of an audit, and how far each is in a round.

use crate::audit_status::NodeFailure;
use crate::nodes::{SeenNode, Standing};
use audits::NodeRecord;
use control::Gone;
use core::time::Duration;
use kubernetes::end_of;
use manifests::NODE;
use serde_json::Value;
use spec::NodeAudit;
use std::collections::{BTreeMap, BTreeSet};
use wire::Time;

/// Why a pod does not begin may pass for so long: another's pods go, a registry answers at the second try.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(5);

/// How far a node is in a round.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Progress {
    /// It has no pod yet.
    Waiting,
    /// It has one since then; it may be one that cannot begin so far, and since when.
    Asked { since: Time, blocked: Option<Time> },
    /// It answered so: that is to be kept.
    Answered(String),
    /// Its answer is kept.
    Done,
    /// There is none, and will be none.
    Failed(NodeFailure),
}

/// One node.
#[derive(Debug)]
pub(crate) struct Member {
    pub progress: Progress,
    /// What is known of it: of this round, or of an earlier one.
    pub record: Option<NodeRecord>,
    /// The round that is of.
    pub record_round: u64,
    /// The number of the object that keeps it.
    pub record_uid: Option<String>,
    standing: Standing,
    /// Since when it cannot have a pod, if it cannot.
    away_since: Option<Time>,
}

/// The nodes of one audit.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: BTreeMap<String, Member>,
    /// Nodes that are kept for others.
    pub left_out: Vec<NodeFailure>,
    /// Nodes that are none of the audit's any more, with the number of what is kept of each.
    pub dropped: BTreeMap<String, String>,
    /// Pods that there are and that are not being deleted, by their names, with their numbers and nodes.
    pub pods: BTreeMap<String, (String, String)>,
    /// Nodes that have a pod, whichever, by the last look: another of its name there cannot be.
    taken: BTreeSet<String>,
    /// Pods that said what they had to say to another controller, which did not keep it.
    spent: BTreeSet<String>,
    /// Nodes whose pods have something to read: a Secret each.
    pub keyed: BTreeSet<String>,
}

impl Members {
    pub fn get(&self, node: &str) -> Option<&Member> {
        self.all.get(node)
    }

    pub fn get_mut(&mut self, node: &str) -> Option<&mut Member> {
        self.all.get_mut(node)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// What was kept of a node by whoever ran the audit before.
    pub fn remember(&mut self, node: String, (record, round): (Option<NodeRecord>, u64), uid: Option<String>) {
        let progress = Progress::Waiting;
        let (standing, away_since) = (Standing::Other, None);
        let member = Member { progress, record, record_round: round, record_uid: uid, standing, away_since };
        self.all.insert(node, member);
    }

    /// These failed in the round that is under way, or was the last.
    pub fn fail_again(&mut self, failures: &[NodeFailure]) {
        for failure in failures {
            let node = failure.node.clone();
            if !self.all.contains_key(&node) {
                self.remember(node.clone(), (None, 0), None);
            }
            if let Some(member) = self.all.get_mut(&node) {
                member.progress = Progress::Failed(failure.clone());
            }
        }
    }

    /// Those that answered in this round have done so.
    pub fn resume(&mut self, round: u64) {
        let answered = |one: &&mut Member| one.record_round == round && one.record.is_some();
        for member in self.all.values_mut().filter(answered) {
            member.progress = Progress::Done;
        }
    }

    /// Another round begins.
    pub fn begin(&mut self) {
        self.all.values_mut().for_each(|member| member.progress = Progress::Waiting);
    }

    /// Pods that were asked are gone, and others are to be asked in their place.
    pub fn ask_again(&mut self) {
        let asked = |one: &&mut Member| matches!(one.progress, Progress::Asked { .. });
        self.all.values_mut().filter(asked).for_each(|member| member.progress = Progress::Waiting);
    }

    /// What nodes there are now. One that could not have a pod, and can now, is asked if `is_resident`. Answers whether
    /// one is gone.
    pub fn see_nodes(
        &mut self,
        nodes: &BTreeMap<String, SeenNode>,
        audit: &NodeAudit,
        is_resident: bool,
        now: Time,
    ) -> bool {
        self.left_out.clear();
        let mut chosen = BTreeSet::new();
        for (name, node) in nodes {
            let standing = node.standing(&audit.pods);
            match &standing {
                Standing::Other => continue,
                Standing::LeftOut(taint) => {
                    let message = format!("the taint {taint} is not tolerated");
                    let (node, reason) = (name.clone(), "Tainted".to_owned());
                    self.left_out.push(NodeFailure { node, reason, message });
                    continue;
                }
                Standing::Ready | Standing::Away(..) => {}
            }
            chosen.insert(name.as_str());
            if !self.all.contains_key(name) {
                self.remember(name.clone(), (None, 0), None);
            }
            if let Some(member) = self.all.get_mut(name) {
                member.see(standing, is_resident, now);
            }
        }
        let gone: Vec<String> = self.all.keys().filter(|name| !chosen.contains(name.as_str())).cloned().collect();
        let is_one_gone = !gone.is_empty();
        for name in gone {
            if let Some(uid) = self.all.remove(&name).and_then(|member| member.record_uid) {
                self.dropped.insert(name, uid);
            }
        }
        is_one_gone
    }

    /// Time goes on: nodes that had theirs have failed; `from` is since when the round is on here. Answers whether one
    /// has.
    pub fn tick(&mut self, from: Time, patience: Duration, now: Time) -> bool {
        let mut has_failed = false;
        for (name, member) in &mut self.all {
            if let Some((reason, message)) = member.overdue(from, patience, now) {
                member.fail(name, reason, message);
                has_failed = true;
            }
        }
        has_failed
    }

    /// When the next one has had its time.
    pub fn next_deadline(&self, from: Time, patience: Duration) -> Time {
        self.all.values().filter_map(|member| member.deadline(from, patience)).fold(Time::MAX, Time::min)
    }

    /// The pods that there are now; `is_its` says of one whether it is of this round, and not of one that was cleared.
    pub fn see_pods(&mut self, pods: &[Value], is_its: impl Fn(&Value) -> bool, now: Time) {
        self.pods.clear();
        self.taken.clear();
        self.spent.clear();
        let mut with_pod = BTreeSet::new();
        for pod in pods {
            let metadata = &pod["metadata"];
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let Some((name, uid)) = text(&metadata["name"]).zip(text(&metadata["uid"])) else { continue };
            let node = text(&metadata["annotations"][NODE]).unwrap_or_default();
            if is_its(pod) {
                with_pod.insert(node.clone());
                if let Some(member) = self.all.get_mut(&node)
                    && !member.see_pod(&node, pod, now)
                {
                    self.spent.insert(name.clone());
                }
            }
            self.taken.insert(node.clone());
            if !metadata["deletionTimestamp"].is_string() {
                self.pods.insert(name, (uid, node));
            }
        }
        for (name, member) in &mut self.all {
            if matches!(member.progress, Progress::Asked { .. }) && !with_pod.contains(name) {
                member.fail(name, "PodGone", "its pod was deleted before it answered".to_owned());
            }
        }
    }

    /// A pod that is of no more use: its node has answered, or failed, or is none of the audit's.
    pub fn useless_pod(&self, is_over: bool) -> Option<(&str, &str)> {
        let is_useless = |node: &str| {
            let progress = self.all.get(node).map(|member| &member.progress);
            is_over || matches!(progress, None | Some(Progress::Done | Progress::Failed(_)))
        };
        let found = self.pods.iter().find(|(name, (_, node))| self.spent.contains(*name) || is_useless(node));
        found.map(|(name, (uid, _))| (name.as_str(), uid.as_str()))
    }

    /// A node whose answer is to be kept.
    pub fn answered(&self) -> Option<&str> {
        let is_so = |member: &Member| matches!(member.progress, Progress::Answered(_));
        self.all.iter().find(|(_, member)| is_so(member)).map(|(name, _)| name.as_str())
    }

    /// A node that is to have a pod, if there may be another.
    pub fn next_to_ask(&self, parallelism: u32) -> Option<&str> {
        let busy =
            self.all.values().filter(|one| matches!(one.progress, Progress::Asked { .. } | Progress::Answered(_)));
        if busy.count() >= parallelism as usize {
            return None;
        }
        let is_free = |name: &String, member: &Member| member.can_be_asked() && !self.taken.contains(name);
        self.all.iter().find(|(name, member)| is_free(name, member)).map(|(name, _)| name.as_str())
    }

    /// Whether a node waits that can be asked.
    pub fn has_open(&self) -> bool {
        self.all.values().any(Member::can_be_asked)
    }

    /// Whether each has answered, or failed.
    pub fn is_settled(&self) -> bool {
        self.all.values().all(|member| matches!(member.progress, Progress::Done | Progress::Failed(_)))
    }

    /// How many have answered, or failed.
    pub fn settled(&self) -> usize {
        let settled = |one: &&Member| matches!(one.progress, Progress::Done | Progress::Failed(_));
        self.all.values().filter(settled).count()
    }

    /// Nobody is asked any more.
    pub fn stop(&mut self) {
        for (name, member) in &mut self.all {
            if !matches!(member.progress, Progress::Done | Progress::Failed(_)) {
                member.fail(name, "Stopped", "the audit was ended before it answered".to_owned());
            }
        }
    }

    /// What is known of each node, and whether that is of this round.
    pub fn records(&self, round: u64) -> impl Iterator<Item = (&NodeRecord, bool)> + Clone {
        let known = move |member: &'_ Member| member.record_round == round;
        self.all.values().filter_map(move |member| member.record.as_ref().map(|record| (record, known(member))))
    }

    pub fn failures(&self) -> Vec<NodeFailure> {
        let failure = |member: &Member| match &member.progress {
            Progress::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        self.all.values().filter_map(failure).collect()
    }
}

impl Member {
    fn see(&mut self, standing: Standing, is_resident: bool, now: Time) {
        let is_away = matches!(standing, Standing::Away(..));
        self.away_since = if is_away { self.away_since.or(Some(now)) } else { None };
        self.standing = standing;
        // What it failed for has passed.
        if let Progress::Failed(failure) = &self.progress
            && !is_away
            && is_resident
            && ["NotReady", "Cordoned", "Tainted"].contains(&failure.reason.as_str())
        {
            self.progress = Progress::Waiting;
        }
    }

    fn can_be_asked(&self) -> bool {
        self.progress == Progress::Waiting && self.standing == Standing::Ready
    }

    fn deadline(&self, from: Time, patience: Duration) -> Option<Time> {
        match (&self.progress, &self.standing) {
            (Progress::Waiting, Standing::Away("Cordoned", _)) => Some(from),
            (Progress::Waiting, Standing::Away(..)) => Some(self.away_since.unwrap_or(from).max(from) + patience),
            (Progress::Asked { since, .. }, _) => Some(*since + patience),
            _ => None,
        }
    }

    /// Why it has failed by now, if it has.
    fn overdue(&self, from: Time, patience: Duration, now: Time) -> Option<(&'static str, String)> {
        if now < self.deadline(from, patience)? {
            return None;
        }
        Some(match &self.standing {
            Standing::Away(reason, why) => (reason, why.clone()),
            _ => ("NoAnswer", format!("it did not answer within {} s", patience.as_secs())),
        })
    }

    pub fn fail(&mut self, node: &str, reason: &str, message: String) {
        let (node, reason) = (node.to_owned(), reason.to_owned());
        self.progress = Progress::Failed(NodeFailure { node, reason, message });
    }

    /// Its pod is there, as its status says; answers whether it is to stay.
    fn see_pod(&mut self, node: &str, pod: &Value, now: Time) -> bool {
        let end = end_of(pod);
        // It ends well when its answer is kept: by another, who kept it for himself.
        if let (Some((Gone::Code(0), ..)), Progress::Waiting | Progress::Asked { .. }) = (&end, &self.progress) {
            self.progress = Progress::Waiting;
            return false;
        }
        // Whoever ran the audit before made it.
        if self.progress == Progress::Waiting {
            self.progress = Progress::Asked { since: now, blocked: None };
        }
        let Progress::Asked { blocked, .. } = &mut self.progress else { return true };
        let Some((gone, words, may_pass)) = end else {
            *blocked = None;
            return true;
        };
        if may_pass && now < *blocked.get_or_insert(now) + BLOCKED_PATIENCE {
            return true;
        }
        let (reason, plain) = match gone {
            Gone::OutOfMemory => ("OutOfMemory", "its pod ran out of memory"),
            Gone::Evicted => ("Evicted", "its pod lost its place"),
            Gone::NotStarted => ("NotStarted", "its pod does not begin"),
            Gone::Code(_) | Gone::Signal(_) => ("PodFailed", "its pod ended without an answer"),
        };
        let message = if words.is_empty() { plain.to_owned() } else { format!("{plain}: {words}") };
        self.fail(node, reason, message);
        true
    }
}
