//! What comes of a question.

use super::{EVENT_TRIES, LOOK_EVERY, PAUSES, REFUSED_PAUSE, RoundAsk, RoundOrder, RoundStage, Rounds};
use crate::audit_asks::rest_of;
use crate::members::Progress;
use crate::moment::Moment;
use audits::{NodeRecord, NodeReport, Pool};
use kubernetes::ApiError;
use manifests::{NODE, ROUND};
use reconcile::Meeting;
use serde_json::Value;

impl Rounds {
    /// What came of a question.
    pub fn on_answer(&mut self, ask: &RoundAsk, answer: Result<Value, ApiError>, pool: &mut Pool, moment: Moment) {
        match answer {
            Ok(found) => {
                (self.due, self.pause, self.is_in_trouble) = (moment.now, PAUSES.0, false);
                self.on_done(ask, &found, pool, moment);
            }
            Err(why) => self.on_refusal(ask, &why, moment),
        }
    }

    fn on_done(&mut self, ask: &RoundAsk, found: &Value, pool: &mut Pool, moment: Moment) {
        match ask {
            RoundAsk::Load(_) => self.load(found, pool),
            RoundAsk::SeeSecret => self.on_secret(found, moment),
            RoundAsk::MakeSecret => {
                self.secret = found["metadata"]["uid"].as_str().map(str::to_owned);
                self.work(moment);
            }
            RoundAsk::DeleteSecret(_) => self.secret = None,
            RoundAsk::Pods => {
                self.pods_at = moment.now + LOOK_EVERY;
                self.is_pods_seen = true;
                let round = self.status.round.unwrap_or(0).to_string();
                let pods = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                let secret = self.secret.clone().unwrap_or_default();
                let is_its = |pod: &Value| {
                    let metadata = &pod["metadata"];
                    let owner = &metadata["ownerReferences"][0]["uid"];
                    metadata["labels"][ROUND] == round.as_str() && *owner == secret.as_str()
                };
                self.members.see_pods(pods, is_its, moment.now);
            }
            RoundAsk::MakeNodeSecret(node) => drop(self.members.keyed.insert(node.clone())),
            RoundAsk::MakePod(node) => {
                self.note_pod(node, moment);
                let text = |field: &str| found["metadata"][field].as_str().map(str::to_owned);
                if let Some((name, uid)) = text("name").zip(text("uid")) {
                    self.members.pods.insert(name, (uid, node.clone()));
                }
            }
            RoundAsk::DeletePod(name, _) => drop(self.members.pods.remove(name)),
            RoundAsk::Keep(node) => {
                if let Some(member) = self.members.get_mut(node) {
                    member.record_uid = found["metadata"]["uid"].as_str().map(str::to_owned);
                    member.progress = Progress::Done;
                    self.orders.push_back(RoundOrder::Kept(node.clone()));
                }
            }
            RoundAsk::DeleteRecord(node, _) => drop(self.members.dropped.remove(node)),
            RoundAsk::Status => {
                self.note_version(found);
                self.is_told = self.status.is_told_by(&found["status"]);
                if !self.is_told {
                    // A server that keeps another status than it is told is not asked without a pause.
                    self.due = moment.now + PAUSES.0;
                }
            }
            RoundAsk::Event => self.pop_event(),
            RoundAsk::DeleteAudit => self.is_gone = true,
        }
    }

    fn note_pod(&mut self, node: &str, moment: Moment) {
        if let Some(member) = self.members.get_mut(node).filter(|member| member.progress == Progress::Waiting) {
            member.progress = Progress::Asked { since: moment.now, blocked: None };
        }
    }

    /// What was kept of nodes by whoever ran the audit before.
    fn load(&mut self, list: &Value, pool: &mut Pool) {
        for item in list["items"].as_array().into_iter().flatten() {
            let annotations = &item["metadata"]["annotations"];
            let Some(node) = annotations[NODE].as_str() else { continue };
            let round = annotations[ROUND].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
            let json = |field: &str| serde_json::from_str(item["data"][field].as_str().unwrap_or_default());
            let audit: Option<Value> = json("audit.json").ok();
            let report = audit.and_then(|audit| NodeReport::read(node, &audit).ok());
            let changes: Value = json("changes.json").unwrap_or_default();
            let record = report.map(|report| NodeRecord::read(pool.share(report), &changes));
            let uid = item["metadata"]["uid"].as_str().map(str::to_owned);
            self.members.remember(node.to_owned(), (record, round), uid);
        }
        self.stage = match rest_of(list) {
            Some(from) => RoundStage::Loading(from.to_owned()),
            None => {
                self.members.fail_again(&self.status.failures.clone());
                self.members.resume(self.status.round.unwrap_or(0));
                RoundStage::Finding
            }
        };
    }

    /// There is a Secret of its name.
    fn on_secret(&mut self, secret: &Value, moment: Moment) {
        let metadata = &secret["metadata"];
        let uid = metadata["uid"].as_str().map(str::to_owned);
        if metadata["deletionTimestamp"].is_string() {
            self.due = moment.now + LOOK_EVERY;
            return;
        }
        if self.stage == RoundStage::Clearing {
            self.secret = uid;
            return;
        }
        let owner = metadata["ownerReferences"][0]["uid"].as_str();
        if owner.is_some() != self.is_object {
            let whose =
                if self.is_object { "nearside cluster run runs it" } else { "it is an object of the namespace" };
            self.trouble(&format!("there is an audit of this name already: {whose}"));
            self.due = moment.now + REFUSED_PAUSE;
            return;
        }
        self.secret = uid;
        let round = metadata["annotations"][ROUND].as_str().and_then(|text| text.parse::<u64>().ok());
        let is_its = self.audit.as_ref().is_some_and(|audit| self.setting(audit).is_of(secret));
        match (Meeting::read(secret), round) {
            // Of a round that was over, and was not cleared: that is to be done yet.
            (Some(known), Some(round))
                if is_its && !self.is_stopped && known.key.is_some() && self.status.round.unwrap_or(round) == round =>
            {
                self.status.round = Some(round);
                self.members.resume(round);
                self.meet(Some(known));
            }
            _ => self.clear(),
        }
    }

    fn on_refusal(&mut self, ask: &RoundAsk, why: &ApiError, moment: Moment) {
        let may_pass = why.may_pass();
        let pause = if may_pass { self.pause } else { REFUSED_PAUSE };
        self.pause = if may_pass { (self.pause * 2).min(PAUSES.1) } else { PAUSES.0 };
        self.due = moment.now + pause;
        let is_gone = why.is_missing() || why.is_conflict();
        match ask {
            RoundAsk::SeeSecret if why.is_missing() => {
                (self.secret, self.due) = (None, moment.now);
                if self.stage == RoundStage::Clearing {
                    self.members.ask_again();
                    self.orders.push_back(RoundOrder::Part);
                }
                self.stage = RoundStage::Idle;
            }
            // It is made already: by this one, or by another.
            RoundAsk::MakeSecret if why.is_conflict() => (self.stage, self.due) = (RoundStage::Finding, moment.now),
            // It is there already, as its name says of which round it is, and of whose.
            RoundAsk::MakeNodeSecret(node) if why.is_conflict() => {
                self.members.keyed.insert(node.clone());
                self.due = moment.now;
            }
            // It is there already; or one of its name, which is being deleted: a look says which.
            RoundAsk::MakePod(_) if why.is_conflict() => (self.due, self.pods_at) = (moment.now, moment.now),
            RoundAsk::DeletePod(name, _) if is_gone => {
                self.members.pods.remove(name);
                self.due = moment.now;
            }
            RoundAsk::DeleteSecret(_) if is_gone => (self.secret, self.due) = (None, moment.now),
            RoundAsk::DeleteRecord(node, _) if is_gone => {
                self.members.dropped.remove(node);
                self.due = moment.now;
            }
            RoundAsk::DeleteAudit if is_gone => self.is_gone = true,
            RoundAsk::Load(_) if why.is_missing() => self.stage = RoundStage::Loading(String::new()),
            // It was changed since, or is gone: a list says which.
            RoundAsk::Status if is_gone => (self.is_changed, self.due) = (true, moment.now),
            RoundAsk::Event => {
                self.event_tries += 1;
                // It was told, or cannot be: the status says as much.
                if !may_pass || self.event_tries >= EVENT_TRIES {
                    self.pop_event();
                    self.due = moment.now;
                }
            }
            // Of this node there is none, and others go on: too long an answer, or a pod that is not allowed.
            RoundAsk::Keep(node) | RoundAsk::MakePod(node) | RoundAsk::MakeNodeSecret(node) if !may_pass => {
                self.refuse_node(&node.clone(), why, moment);
            }
            // Whether it was made is not known, and another beside it may be one too many: a look says.
            RoundAsk::MakePod(_) if may_pass => self.pods_at = moment.now,
            _ if may_pass => {}
            _ => self.trouble(&why.to_string()),
        }
    }

    fn refuse_node(&mut self, node: &str, why: &ApiError, moment: Moment) {
        if let Some(member) = self.members.get_mut(node) {
            member.fail(node, "Refused", why.to_string());
            self.orders.push_back(RoundOrder::Kept(node.to_owned()));
        }
        self.due = moment.now;
    }

    fn pop_event(&mut self) {
        self.events.pop_front();
        self.event_tries = 0;
    }
}
