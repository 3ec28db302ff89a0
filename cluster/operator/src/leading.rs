//! Which of several operators of a namespace is the one: whoever holds a Lease, as a target's is held.

use core::time::Duration;
use kubernetes::{ApiError, Method};
use reconcile::{Call, LeaseStep, LeaseWaiting, left, renewed};
use serde_json::{Value, json};
use wire::Time;

/// How often whoever waits looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often the holder says that it is here.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// Whoever could not say so for this long may have been followed by another, who waits a little longer.
const HELD_FOR: Duration = Duration::from_secs(10);

/// Before a question without an answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a holder that does not count has it, in seconds.
const LEFT_AFTER: u32 = 15;

/// The questions of one Lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseAsks {
    namespace: String,
    name: String,
}

impl LeaseAsks {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn see(&self) -> Call {
        Call { method: Method::Get, path: self.path(), object: None }
    }

    fn make(&self, holder: &str) -> Call {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": LEFT_AFTER },
        });
        Call { method: Method::Post, path: self.all(), object: Some(lease) }
    }

    fn put(&self, lease: &Value) -> Call {
        Call { method: Method::Put, path: self.path(), object: Some(lease.clone()) }
    }

    /// What is deleted is what was seen: another may have taken it since.
    fn delete(&self, lease: &Value) -> Call {
        let metadata = &lease["metadata"];
        let mut call = Call::deletion(self.path(), metadata["uid"].as_str().unwrap_or_default());
        if let Some(options) = &mut call.object {
            options["preconditions"]["resourceVersion"] = metadata["resourceVersion"].clone();
        }
        call
    }

    fn all(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.all(), self.name)
    }
}

/// What is asked next of the Lease.
#[derive(Clone, PartialEq, Debug)]
enum LeadStep {
    See,
    Make,
    Take(Value),
    /// It is this one's: it is seen again.
    Held,
    Renew(Value),
    /// It is to be the next one's.
    SeeLeft,
    Leave(Value),
    /// It is of no use to anybody any more.
    Delete(Value),
    Over,
}

/// What an answer of the Lease's has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeadNews {
    /// Another is the one, who was not told of before.
    pub another: Option<String>,
    /// This one is, from now on.
    pub begins: bool,
    /// It was, and another has its place.
    pub yields: bool,
}

/// Whether this operator is the one.
#[derive(Debug)]
pub(crate) struct Leading {
    holder: String,
    step: LeadStep,
    due: Time,
    waiting: LeaseWaiting,
    is_held: bool,
    /// When the question was asked that is under way.
    asked_at: Time,
    /// Until when nobody else can be the one.
    held_until: Time,
    /// Whether the Lease goes with whoever holds it.
    is_own: bool,
    /// Another was told of.
    told: Option<String>,
}

impl Leading {
    pub fn new(holder: String, now: Time) -> Self {
        let (step, waiting) = (LeadStep::See, LeaseWaiting::default());
        let is_own = false;
        Self { holder, step, due: now, waiting, is_held: false, asked_at: now, held_until: now, is_own, told: None }
    }

    /// The same of a Lease that is deleted when it is left.
    pub fn own(holder: String, now: Time) -> Self {
        Self { is_own: true, ..Self::new(holder, now) }
    }

    /// Whether it is the one, as far as it knows.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether nobody else can be the one: a process that stood still asks first.
    pub fn may_act(&self, now: Time) -> bool {
        self.is_held && now < self.held_until
    }

    /// Whether nothing more is asked: it left, or another is the one now.
    pub fn is_over(&self) -> bool {
        self.step == LeadStep::Over
    }

    pub fn due(&self) -> Time {
        self.due
    }

    pub fn leave(&mut self, now: Time) {
        if !self.is_over() {
            (self.is_held, self.due) = (false, now);
            self.step = LeadStep::SeeLeft;
        }
    }

    pub fn call(&mut self, asks: &LeaseAsks, now: Time) -> Option<Call> {
        self.asked_at = now;
        Some(match &self.step {
            LeadStep::See | LeadStep::Held | LeadStep::SeeLeft => asks.see(),
            LeadStep::Make => asks.make(&self.holder),
            LeadStep::Take(lease) | LeadStep::Renew(lease) | LeadStep::Leave(lease) => asks.put(lease),
            LeadStep::Delete(lease) => asks.delete(lease),
            LeadStep::Over => return None,
        })
    }

    fn go(&mut self, step: LeadStep, due: Time) {
        (self.step, self.due) = (step, due);
    }

    /// What an answer changes.
    pub fn on_answer(&mut self, answer: Result<Value, ApiError>, now: Time) -> LeadNews {
        let was_held = self.is_held;
        let another = self.go_on(answer, now);
        LeadNews { another, begins: self.is_held && !was_held, yields: was_held && self.is_over() }
    }

    /// Goes on by an answer; another who is the one, and was not told of before.
    fn go_on(&mut self, answer: Result<Value, ApiError>, now: Time) -> Option<String> {
        let step = self.step.clone();
        match (step, answer) {
            (LeadStep::See, Ok(found)) => match self.waiting.step(&found, &self.holder, now) {
                LeaseStep::Take(mine) => self.go(LeadStep::Take(mine), now),
                LeaseStep::Wait { holder } => {
                    self.go(LeadStep::See, now + LOOK_EVERY);
                    let is_new = self.told.as_ref() != Some(&holder);
                    self.told = Some(holder.clone());
                    return is_new.then_some(holder);
                }
            },
            (LeadStep::See, Err(why)) if why.is_missing() => self.go(LeadStep::Make, now),
            (LeadStep::Make | LeadStep::Take(_), Ok(_)) => {
                self.is_held = true;
                self.hold(now);
            }
            // Somebody else was quicker; or it is done, and only the answer did not come.
            (LeadStep::See | LeadStep::Make | LeadStep::Take(_), Err(_)) => self.go(LeadStep::See, now + PAUSE),
            (LeadStep::Held, Ok(found)) => match renewed(&found, &self.holder) {
                Some(lease) => self.go(LeadStep::Renew(lease), now),
                None => self.lose(),
            },
            // Whoever deleted it, the next who makes it is the one.
            (LeadStep::Held, Err(why)) if why.is_missing() => self.lose(),
            (LeadStep::Renew(_), Ok(_)) => self.hold(now),
            (LeadStep::Held | LeadStep::Renew(_), Err(_)) => self.go(LeadStep::Held, now + PAUSE),
            (LeadStep::SeeLeft, Ok(found)) => match left(&found, &self.holder) {
                Some(_) if self.is_own => self.go(LeadStep::Delete(found), now),
                Some(free) => self.go(LeadStep::Leave(free), now),
                None => self.lose(),
            },
            // It may be this one's still: that is to be seen. Whoever leaves has no time for ever.
            (LeadStep::SeeLeft | LeadStep::Leave(_) | LeadStep::Delete(_), Err(why))
                if why.may_pass() || why.is_conflict() =>
            {
                self.go(LeadStep::SeeLeft, now + PAUSE);
            }
            (LeadStep::SeeLeft | LeadStep::Leave(_) | LeadStep::Delete(_), _) => self.lose(),
            (LeadStep::Over, _) => {}
        }
        None
    }

    fn hold(&mut self, now: Time) {
        self.held_until = self.asked_at + HELD_FOR;
        self.go(LeadStep::Held, now + RENEW_EVERY);
    }

    fn lose(&mut self) {
        self.is_held = false;
        self.go(LeadStep::Over, Time::MAX);
    }
}
