//! The questions of a round, and those who are not who they say.

use super::{RoundAsk, RoundOrder, RoundStage, Rounds};
use crate::audit_asks::{AuditAsks, Kept};
use crate::members::Progress;
use crate::moment::Moment;
use manifests::{AuditKeys, AuditPod};
use reconcile::{Call, Meeting};

/// Reports without their node's token that are counted in a round: whoever sends more of them is known by then.
const REFUSED_LIMIT: u64 = 100;

/// Of so many it is told by name who reported for whom.
const ACCUSED_LIMIT: usize = 5;

impl Rounds {
    /// Somebody reported for this node with a token that is not that node's. Whose it is is told, if it is any
    /// node's.
    pub fn on_refused(&mut self, node: &str, token: &str, moment: Moment) {
        if self.status.refused >= REFUSED_LIMIT {
            return;
        }
        self.status.refused += 1;
        self.has_refused = true;
        let Some(known) = &self.known else { return };
        let is_its = |name: &&str| known.token.derived(name).text() == token;
        let whose = self.members.names().find(is_its).unwrap_or_default().to_owned();
        // What it says is anybody's.
        let whom = if self.members.get(node).is_some() { node } else { "a node that is none of the audit's" };
        let accused = (whose, whom.to_owned());
        if self.accused.len() >= ACCUSED_LIMIT || self.accused.contains(&accused) {
            return;
        }
        let (whose, whom) = &accused;
        let words = match whose.as_str() {
            "" => format!("somebody without its token reported for {whom}, and was refused"),
            whose => format!("who has the token of {whose} reported for {whom}, and was refused"),
        };
        self.orders.push_back(RoundOrder::Say(format!("{}: {words}", self.name)));
        self.happened("ReportRefused", &words, true, moment);
        self.accused.insert(accused);
    }

    pub fn call(&self, asks: &AuditAsks, ask: &RoundAsk) -> Option<Call> {
        let audit = self.audit.as_ref();
        Some(match ask {
            RoundAsk::Load(from) => asks.records(&self.name, from),
            RoundAsk::SeeSecret => asks.see_secret(&self.name),
            RoundAsk::MakeSecret => {
                let RoundStage::Making(Meeting { token, controller, key }) = &self.stage else { return None };
                let keys = AuditKeys { token: token.text(), key: key.as_deref()?, controller };
                asks.make_secret(self.setting(audit?).secret(keys, self.status.round.unwrap_or(0)))
            }
            RoundAsk::MakeNodeSecret(node) => {
                let (Meeting { token, controller, key }, secret) = (self.known.as_ref()?, self.secret.as_deref()?);
                let own = token.derived(node);
                let keys = AuditKeys { token: own.text(), key: key.as_deref()?, controller };
                let of = AuditPod { node, round: self.status.round.unwrap_or(0), secret };
                asks.make_secret(self.setting(audit?).node_secret(of, keys))
            }
            RoundAsk::DeleteSecret(uid) => asks.delete_secret(&self.name, uid),
            RoundAsk::Pods => asks.pods(&self.name),
            RoundAsk::MakePod(node) => {
                let (round, secret) = (self.status.round.unwrap_or(0), self.secret.as_deref()?);
                asks.make_pod(self.setting(audit?).pod(AuditPod { node, round, secret }))
            }
            RoundAsk::DeletePod(name, uid) => asks.delete_pod(name, uid),
            RoundAsk::Keep(node) => {
                let member = self.members.get(node)?;
                let Progress::Answered(text) = &member.progress else { return None };
                let changes = member.record.as_ref()?.changes_json();
                let kept = Kept { node, round: member.record_round, audit: text, changes: &changes };
                asks.keep(self.named(), kept)
            }
            RoundAsk::DeleteRecord(node, uid) => asks.delete_record(&self.name, node, uid),
            RoundAsk::Status => asks.tell_status(self.named(), &self.version, &self.status.json(self.generation)),
            RoundAsk::Event => asks.tell_event(self.named(), self.events.front()?),
            RoundAsk::DeleteAudit => asks.delete_audit(self.named()),
        })
    }
}
