//! The stages of a test's objects, and what is asked next.

use crate::found::{Meeting, is_deleted, is_over, is_owned, is_same_test, name, of_secret, uid};
use crate::lease::{LeaseStep, LeaseWaiting, left, renewed};
use crate::step::{Call, Names, Step};
use crate::watch::Watch;
use core::time::Duration;
use kubernetes::{ApiError, Fate};
use manifests::Manifests;
use messages::TOKEN_FILE;
use serde_json::Value;
use std::collections::VecDeque;
use wire::Time;

/// Whoever waits for a target, or for a Job to go, looks again after this.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Before the same question is asked again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// An API server that does not answer is asked again for this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an earlier test left is gone within this.
const CLEAR_PATIENCE: Duration = Duration::from_secs(60);

/// Between one list of pods and the next.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// The same where there are many pods.
const LIST_SELDOM: Duration = Duration::from_secs(2);

/// More pods than these are many.
const MANY: u32 = 100;

/// How often it is said that the target's holder is here: three times, at least, before a Lease counts as left.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// How far the objects of a test are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The target is waited for.
    Holding,
    /// It is looked whether an earlier controller began this test.
    Finding,
    /// The caller is to say what workers are to know ([`Reconciler::make`]).
    Meeting,
    /// Objects are made.
    Making,
    /// Pods are looked at.
    Running,
    /// What was made is deleted, and the target left.
    Leaving,
    /// Nothing more is asked.
    Over,
}

/// What is to be known of a test in a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterEvent {
    /// Another test has the target, and is waited for.
    Waits {
        /// Which.
        holder: String,
    },
    /// The target is this test's.
    Holds {
        /// What its workers know already, where an earlier controller began it.
        known: Option<Meeting>,
    },
    /// The pods may begin.
    Begun,
    /// A worker ended, or cannot begin.
    Ended(Fate),
    /// Pods cannot be listed, and why; the next list that comes is as good.
    Unlisted(String),
    /// Another test has the target now.
    Displaced,
}

/// Whose answer is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Step,
    HeldLease,
    Renewal,
}

/// How the target's holder says that it is here.
#[derive(Debug)]
struct Holding {
    due: Time,
    /// The Lease that is to be put in its place, once it was seen.
    renewed: Option<Value>,
}

/// The objects of one test in a cluster.
///
/// Call order: [`Reconciler::new`]; then [`Reconciler::poll_call`], and [`Reconciler::on_answer`] with what came of the
/// call; where there is none, again at [`Reconciler::next_deadline`]; after each of them
/// [`Reconciler::poll_event`] until there is nothing. After [`ClusterEvent::Holds`] the caller goes on by
/// [`Reconciler::make`]; [`Reconciler::end`] may come at any time. It is over at [`Stage::Over`].
#[derive(Debug)]
pub struct Reconciler {
    names: Names,
    manifests: Manifests,
    /// Who holds the target's Lease: this process.
    holder: String,
    workers: u32,
    step: Step,
    due: Time,
    /// How long the step is tried, and how long the next try waits.
    patience: (Time, Duration),
    asked: Option<Asked>,
    /// While the target is held.
    holding: Option<Holding>,
    waiting: LeaseWaiting,
    /// The holder that was told of.
    waits_for: String,
    /// Whether the Job may be there: it was to be made.
    is_made: bool,
    /// Until then what is in the way may go.
    clears_until: Time,
    leaves_until: Time,
    /// The numbers of what was made.
    job: Option<String>,
    secret: Option<String>,
    watch: Watch,
    is_unlisted: bool,
    ends: bool,
    failure: Option<String>,
    remains: Option<String>,
    events: VecDeque<ClusterEvent>,
}

impl Reconciler {
    /// The objects `manifests` of a test of so many workers, for a controller of this number, which anybody may see.
    #[must_use]
    pub fn new(namespace: &str, manifests: Manifests, number: u64, workers: u32, now: Time) -> Self {
        let names = Names::of(namespace, &manifests);
        Self {
            holder: format!("{namespace}/{}/{number:016x}", names.test),
            names,
            manifests,
            workers,
            step: Step::SeeLease,
            due: now,
            patience: (now + PATIENCE, PAUSES.0),
            asked: None,
            holding: None,
            waiting: LeaseWaiting::default(),
            waits_for: String::new(),
            is_made: false,
            clears_until: now,
            leaves_until: now,
            job: None,
            secret: None,
            watch: Watch::new(workers),
            is_unlisted: false,
            ends: false,
            failure: None,
            remains: None,
            events: VecDeque::new(),
        }
    }

    /// The next question, if it is time for one and the last one was answered.
    pub fn poll_call(&mut self, now: Time) -> Option<Call> {
        if self.asked.is_some() {
            return None;
        }
        if let Some(holding) = self.holding.as_ref().filter(|holding| now >= holding.due) {
            let renewed = holding.renewed.clone();
            self.asked = Some(if renewed.is_some() { Asked::Renewal } else { Asked::HeldLease });
            return renewed.map_or_else(|| self.names.see_lease(), |lease| self.names.put_lease(lease));
        }
        if now < self.due {
            return None;
        }
        let call = self.names.call(&self.step, &self.manifests, &self.holder, self.job.as_deref())?;
        self.is_made |= self.step == Step::MakeJob;
        self.asked = Some(Asked::Step);
        Some(call)
    }

    /// What came of the last question.
    pub fn on_answer(&mut self, answer: Result<Value, ApiError>, now: Time) {
        match self.asked.take() {
            Some(Asked::Step) => self.on_step(answer, now),
            Some(Asked::HeldLease) => self.on_held_lease(answer, now),
            // Another may have it by now, or it is ours since the last answer that did not come: that is to be seen.
            Some(Asked::Renewal) => {
                let wait = if answer.is_ok() { RENEW_EVERY } else { PAUSES.1 };
                self.holding = Some(Holding { due: now + wait, renewed: None });
            }
            None => {}
        }
        if self.ends && self.stage() < Stage::Leaving {
            self.leave(now);
        }
    }

    /// Workers are to know this: the objects are made.
    pub fn make(&mut self, manifests: Manifests, now: Time) {
        if self.step == Step::Meet {
            self.manifests = manifests;
            self.clears_until = now + CLEAR_PATIENCE;
            self.go(Step::MakeJob, now);
        }
    }

    /// The test is over, or is not to be: what was made is deleted.
    pub fn end(&mut self, now: Time) {
        self.ends = true;
        if self.asked.is_none() && self.stage() < Stage::Leaving {
            self.leave(now);
        }
    }

    /// When there may be a question.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        let renewal = self.holding.as_ref().map_or(Time::MAX, |holding| holding.due);
        if self.asked.is_some() { Time::MAX } else { renewal.min(self.due) }
    }

    /// The next thing to be known.
    pub fn poll_event(&mut self) -> Option<ClusterEvent> {
        self.events.pop_front()
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.step {
            Step::SeeLease | Step::MakeLease | Step::TakeLease(_) => Stage::Holding,
            Step::SeeJob | Step::SeeSecret(_) => Stage::Finding,
            Step::Meet => Stage::Meeting,
            Step::MakeJob | Step::SeeMadeJob | Step::ClearJob(_) => Stage::Making,
            Step::MakeSecret | Step::SeeMadeSecret | Step::ClearSecret(_) | Step::Begin => Stage::Making,
            Step::List => Stage::Running,
            Step::SeeLeftJob | Step::DeleteJob(_) | Step::DeleteSecret(_) => Stage::Leaving,
            Step::SeeLeftLease | Step::LeaveLease(_) => Stage::Leaving,
            Step::Over => Stage::Over,
        }
    }

    /// Why it could not be, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// What of it is not deleted, and why, if so.
    #[must_use]
    pub fn remains(&self) -> Option<&str> {
        self.remains.as_deref()
    }
}

/// Answers.
impl Reconciler {
    fn on_step(&mut self, answer: Result<Value, ApiError>, now: Time) {
        let stage = self.stage();
        if answer.as_ref().is_err_and(ApiError::may_pass) && stage != Stage::Running {
            if self.ends && stage < Stage::Leaving {
                return;
            }
            let (until, pause) = self.patience;
            if now < until {
                self.due = now + pause;
                self.patience.1 = (pause * 2).min(PAUSES.1);
                return;
            }
        }
        match stage {
            Stage::Holding => self.on_holding(answer, now),
            Stage::Finding => self.on_finding(answer, now),
            Stage::Making => self.on_making(answer, now),
            Stage::Running => self.on_running(answer, now),
            Stage::Leaving => self.on_leaving(answer, now),
            Stage::Meeting | Stage::Over => {}
        }
    }

    fn on_held_lease(&mut self, answer: Result<Value, ApiError>, now: Time) {
        let found = match answer {
            // Somebody deleted it: whoever makes it next has it.
            Err(why) if why.is_missing() => None,
            Err(_) => {
                self.holding = Some(Holding { due: now + PAUSES.1, renewed: None });
                return;
            }
            Ok(found) => renewed(&found, &self.holder),
        };
        self.holding = found.map(|lease| Holding { due: now, renewed: Some(lease) });
        if self.holding.is_none() {
            match self.stage() {
                Stage::Running => self.events.push_back(ClusterEvent::Displaced),
                Stage::Leaving | Stage::Over => {}
                _ => self.fail("another test has the target: this one's Lease was taken or deleted".to_owned(), now),
            }
        }
    }

    fn on_holding(&mut self, answer: Result<Value, ApiError>, now: Time) {
        match (&self.step, answer) {
            (Step::SeeLease, Ok(found)) => match self.waiting.step(&found, &self.holder, now) {
                LeaseStep::Take(mine) => self.go(Step::TakeLease(mine), now),
                LeaseStep::Wait { holder } => {
                    if self.waits_for != holder {
                        self.waits_for.clone_from(&holder);
                        self.events.push_back(ClusterEvent::Waits { holder });
                    }
                    self.go(Step::SeeLease, now + LOOK_EVERY);
                }
            },
            (Step::SeeLease, Err(why)) if why.is_missing() => self.go(Step::MakeLease, now),
            (_, Ok(_)) => {
                self.holding = Some(Holding { due: now + RENEW_EVERY, renewed: None });
                self.go(Step::SeeJob, now);
            }
            // Somebody else was quicker, or left.
            (_, Err(why)) if why.is_conflict() || why.is_missing() => self.go(Step::SeeLease, now + PAUSES.0),
            (_, Err(why)) => self.fail(format!("the Lease {}: {why}", self.names.lease), now),
        }
    }

    fn on_finding(&mut self, answer: Result<Value, ApiError>, now: Time) {
        match (&self.step, answer) {
            (_, Err(why)) if why.is_missing() => self.meet(None),
            (Step::SeeJob, Ok(job)) if is_over(&job) => self.meet(None),
            (Step::SeeJob, Ok(job)) if !is_same_test(&job, &self.manifests.job) => self.fail(self.others(), now),
            (Step::SeeJob, Ok(job)) => match uid(&job) {
                Some(uid) => self.go(Step::SeeSecret(uid), now),
                None => self.fail(self.told("Job", &"it has no number"), now),
            },
            (Step::SeeSecret(job), Ok(secret)) => {
                let known = Some(&secret).filter(|secret| is_owned(secret, job)).and_then(Meeting::read);
                self.meet(known);
            }
            (Step::SeeSecret(_), Err(why)) => self.fail(self.told("Secret", &why), now),
            (_, Err(why)) => self.fail(self.told("Job", &why), now),
            (_, Ok(_)) => {}
        }
    }

    fn on_making(&mut self, answer: Result<Value, ApiError>, now: Time) {
        let is_late = now >= self.clears_until;
        match (&self.step, answer) {
            (Step::MakeJob, Ok(job)) => self.on_job(&job, now),
            (Step::MakeJob, Err(why)) if why.is_conflict() && !is_late => self.go(Step::SeeMadeJob, now),
            (Step::SeeMadeJob, Err(why)) if why.is_missing() => self.go(Step::MakeJob, now + PAUSES.0),
            (Step::SeeMadeJob, Ok(job)) if is_deleted(&job) => self.go(Step::MakeJob, now + LOOK_EVERY),
            (Step::SeeMadeJob, Ok(job)) if is_over(&job) => match uid(&job) {
                Some(uid) => self.go(Step::ClearJob(uid), now),
                None => self.fail(self.told("Job", &"it has no number"), now),
            },
            // That of this test: its making had no answer, or an earlier controller made it.
            (Step::SeeMadeJob, Ok(job)) if is_same_test(&job, &self.manifests.job) => self.on_job(&job, now),
            (Step::SeeMadeJob, Ok(_)) => self.fail(self.others(), now),
            (Step::ClearJob(_), answer) if is_gone(&answer) => self.go(Step::MakeJob, now + PAUSES.0),
            (Step::MakeSecret, Ok(secret)) => self.on_secret(&secret, now),
            (Step::MakeSecret, Err(why)) if why.is_conflict() && !is_late => self.go(Step::SeeMadeSecret, now),
            (Step::SeeMadeSecret, Err(why)) if why.is_missing() => self.go(Step::MakeSecret, now + PAUSES.0),
            (Step::SeeMadeSecret, Ok(found)) => {
                let token = self.manifests.secret["stringData"][TOKEN_FILE].as_str();
                let is_ours = self.job.as_ref().is_some_and(|job| is_owned(&found, job));
                match uid(&found) {
                    _ if is_ours && of_secret(&found, TOKEN_FILE).as_deref() == token => self.on_secret(&found, now),
                    // That of a test that is no more.
                    Some(uid) => self.go(Step::ClearSecret(uid), now),
                    None => self.fail(self.told("Secret", &"it has no number"), now),
                }
            }
            (Step::ClearSecret(_), answer) if is_gone(&answer) => self.go(Step::MakeSecret, now + PAUSES.0),
            (Step::Begin, Ok(_)) => {
                self.events.push_back(ClusterEvent::Begun);
                self.go(Step::List, now);
            }
            (Step::MakeJob, Err(why)) if why.is_conflict() => {
                self.fail(self.told("Job", &"that of an earlier test does not go"), now);
            }
            (Step::MakeSecret | Step::SeeMadeSecret | Step::ClearSecret(_), Err(why)) => {
                self.fail(self.told("Secret", &why), now);
            }
            (_, Err(why)) => self.fail(self.told("Job", &why), now),
            (_, Ok(_)) => {}
        }
    }

    fn on_job(&mut self, job: &Value, now: Time) {
        self.job = uid(job);
        match &self.job {
            Some(_) => self.go(Step::MakeSecret, now),
            None => self.fail(self.told("Job", &"it has no number"), now),
        }
    }

    fn on_secret(&mut self, secret: &Value, now: Time) {
        self.secret = uid(secret);
        self.go(Step::Begin, now);
    }

    fn on_running(&mut self, answer: Result<Value, ApiError>, now: Time) {
        match answer {
            Ok(mut list) => {
                self.is_unlisted = false;
                let pods = match list.get_mut("items").map(Value::take) {
                    Some(Value::Array(pods)) => pods,
                    _ => Vec::new(),
                };
                self.events.extend(self.watch.look(&pods, now).into_iter().map(ClusterEvent::Ended));
            }
            Err(why) => {
                if !core::mem::replace(&mut self.is_unlisted, true) {
                    self.events.push_back(ClusterEvent::Unlisted(why.to_string()));
                }
            }
        }
        let every = if self.workers > MANY { LIST_SELDOM } else { LIST_EVERY };
        self.go(Step::List, now + every);
    }

    fn on_leaving(&mut self, answer: Result<Value, ApiError>, now: Time) {
        if let Err(why) = &answer
            && !is_gone(&answer)
        {
            let what = match self.step {
                Step::DeleteSecret(_) => self.told("Secret", why),
                Step::SeeLeftLease | Step::LeaveLease(_) => format!("the Lease {}: {why}", self.names.lease),
                _ => self.told("Job", why),
            };
            self.remains.get_or_insert(what);
        }
        match (&self.step, answer) {
            (Step::SeeLeftJob, Ok(job)) if is_same_test(&job, &self.manifests.job) && uid(&job).is_some() => {
                self.go(Step::DeleteJob(uid(&job).unwrap_or_default()), now);
            }
            (Step::DeleteJob(_), _) => match self.secret.clone() {
                Some(uid) => self.go(Step::DeleteSecret(uid), now),
                None => self.leave_target(now),
            },
            (Step::SeeLeftLease, Ok(found)) => match left(&found, &self.holder) {
                Some(free) => self.go(Step::LeaveLease(free), now),
                None => self.go(Step::Over, Time::MAX),
            },
            // It may be this process's still: that is to be seen.
            (Step::LeaveLease(_), Err(why)) if why.is_conflict() && now < self.leaves_until => {
                self.go(Step::SeeLeftLease, now + PAUSES.0);
            }
            (Step::SeeLeftLease | Step::LeaveLease(_), _) => self.go(Step::Over, Time::MAX),
            _ => self.leave_target(now),
        }
    }
}

/// Transitions.
impl Reconciler {
    fn go(&mut self, step: Step, due: Time) {
        (self.step, self.due) = (step, due);
        if due < Time::MAX {
            self.patience = (due + PATIENCE, PAUSES.0);
        }
    }

    fn meet(&mut self, known: Option<Meeting>) {
        self.events.push_back(ClusterEvent::Holds { known });
        self.go(Step::Meet, Time::MAX);
    }

    /// It cannot be: what was made is deleted.
    fn fail(&mut self, why: String, now: Time) {
        self.failure.get_or_insert(why);
        self.leave(now);
    }

    fn leave(&mut self, now: Time) {
        self.leaves_until = now + PATIENCE;
        match self.job.clone() {
            Some(uid) => self.go(Step::DeleteJob(uid), now),
            None if self.is_made => self.go(Step::SeeLeftJob, now),
            None => self.leave_target(now),
        }
    }

    fn leave_target(&mut self, now: Time) {
        self.holding = None;
        self.go(Step::SeeLeftLease, now);
    }

    fn told(&self, kind: &str, why: &dyn core::fmt::Display) -> String {
        format!("the {kind} {}: {why}", self.names.test)
    }

    /// Another test has this one's name.
    fn others(&self) -> String {
        let (name, space) = (name(&self.manifests.job), self.names.namespace());
        format!(
            "there is a Job {name} in the namespace {space}, of another test or another version of this one: \
             kubectl delete job -n {space} {name}, or give the test another name"
        )
    }
}

/// Whether what was to be deleted is not there any more, or another of its name is.
fn is_gone(answer: &Result<Value, ApiError>) -> bool {
    answer.as_ref().map_or_else(|why| why.is_missing() || why.is_conflict(), |_| true)
}
