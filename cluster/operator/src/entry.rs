//! One test: what is to be run, told and deleted.

use crate::asks::{Asks, Happened, Named, job_name, result_name};
use crate::conditions::shortened;
use crate::moment::Moment;
use crate::status::{ConditionKind, Ending, Note, TestStatus, Verdict};
use core::time::Duration;
use kubernetes::ApiError;
use manifests::yaml;
use reconcile::Call;
use serde_json::{Value, json};
use spec::LoadTest;
use std::collections::VecDeque;
use wire::Time;

/// Before a question that has no answer is asked again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// A refusal that only somebody's mending ends is tried again after this.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// An event is told so often, at most.
const EVENT_TRIES: u32 = 5;

/// Events of a test that wait to be told, at most: of more the first are left out.
const EVENTS_LIMIT: usize = 32;

/// The longest result that is kept: an object has a mebibyte.
const RESULT_LIMIT: usize = 900 << 10;

/// How far a test is, as the operator sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryStage {
    /// Others are run before it.
    Queued,
    /// Somebody runs it.
    Running,
    /// It is over: what it came to is in its status, or is to be.
    Complete,
}

/// What is asked for a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EntryAsk {
    /// It was changed: is it this one yet?
    See,
    /// Its result is kept.
    Result,
    /// Its status is told.
    Status,
    /// Something that happened is told.
    Event,
    /// An operator that ended, or stands still, left its Job.
    DeleteJob(String),
    /// Its time is over.
    DeleteTest,
}

/// What an answer means for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// That it is over was told: what it made may go.
    End,
    /// The test is not there any more.
    Gone,
    /// This is for people.
    Trouble(String),
}

/// One test.
#[derive(Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub uid: String,
    /// When it was made, as it is written: who was first is run first.
    pub made: String,
    generation: i64,
    /// The version that was seen last.
    version: String,
    /// Whether that is not the last one any more.
    is_changed: bool,
    /// What it is to be: without what the cluster says of it.
    pub object: Value,
    /// How long it stays when it is over.
    ttl: Option<u64>,
    pub stage: EntryStage,
    /// Whether somebody runs it, or ends what was run.
    pub is_run: bool,
    /// Whether it was deleted.
    pub is_gone: bool,
    /// Whether another operator told what it came to: this one knows no more of it, and leaves that as it is.
    is_adopted: bool,
    status: TestStatus,
    /// Whether its status is told.
    is_told: bool,
    /// Whether another was seen since it was last asked to be told: the answer may be older than that.
    is_another_seen: bool,
    result: Option<String>,
    events: VecDeque<Happened>,
    event_tries: u32,
    /// The number of a Job that nobody runs, if one was left.
    left_job: Option<String>,
    due: Time,
    pause: Duration,
    /// Whether what is refused was told of.
    is_in_trouble: bool,
}

impl Entry {
    /// A test that was not seen before; none if it has no name or number.
    pub fn new(object: &Value, moment: Moment) -> Option<Self> {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let (name, uid) = (text("name")?, text("uid")?);
        let status = TestStatus::read(&object["status"]);
        let is_over = status.holds(ConditionKind::Complete);
        let spec = object["spec"].clone();
        let metadata = json!({ "name": name, "namespace": object["metadata"]["namespace"] });
        let mut entry = Self {
            name,
            uid,
            made: text("creationTimestamp").unwrap_or_default(),
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            version: text("resourceVersion").unwrap_or_default(),
            is_changed: false,
            ttl: spec["ttlSecondsAfterFinished"].as_u64(),
            object: json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": spec,
            }),
            stage: if is_over { EntryStage::Complete } else { EntryStage::Queued },
            is_run: false,
            is_gone: false,
            is_adopted: is_over,
            status,
            is_told: true,
            is_another_seen: false,
            result: None,
            events: VecDeque::new(),
            event_tries: 0,
            left_job: None,
            due: moment.now,
            pause: PAUSES.0,
            is_in_trouble: false,
        };
        if !is_over {
            entry.judge(moment);
        }
        Some(entry)
    }

    /// Whether it makes sense.
    fn judge(&mut self, moment: Moment) {
        match LoadTest::read(&yaml(&[&self.object])) {
            Ok(_) => {
                self.set(ConditionKind::Accepted, true, ("Accepted", "its fields make sense"), moment);
                self.set(ConditionKind::Prepared, false, ("Queued", "it is its turn soon"), moment);
            }
            Err(mut wrong) => {
                // Lines are of a file, which this is not.
                wrong.iter_mut().for_each(|one| one.line = 0);
                let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                self.set(ConditionKind::Accepted, false, ("InvalidSpec", &words.join("; ")), moment);
                self.complete(Verdict::Invalid, ("InvalidSpec", &words.join("; ")), moment);
            }
        }
    }

    pub fn named(&self) -> Named<'_> {
        Named { name: &self.name, uid: &self.uid }
    }

    /// It was seen again: answers whether another operator says that it is over.
    pub fn on_seen(&mut self, object: &Value) -> bool {
        let status = &object["status"];
        self.note_version(object);
        if self.stage != EntryStage::Complete && TestStatus::read(status).holds(ConditionKind::Complete) {
            self.status = TestStatus::read(status);
            (self.stage, self.is_told, self.is_adopted) = (EntryStage::Complete, true, true);
            return true;
        }
        // What was said of it was changed, or is seen late: it is told again, which changes nothing where it stands.
        let is_told = self.is_adopted || self.status.is_told_by(status);
        self.is_told &= is_told;
        self.is_another_seen |= !is_told;
        false
    }

    /// Whether it is over, and nobody here runs it: then it has no Job.
    pub fn is_settled(&self) -> bool {
        self.stage == EntryStage::Complete && !self.is_run && !self.is_gone
    }

    /// There is this Job of the test: where it is to have none, somebody left it, and it goes.
    pub fn on_job(&mut self, job: &Value, moment: Moment) {
        let metadata = &job["metadata"];
        let is_left = metadata["name"] == job_name(&self.name) && !metadata["deletionTimestamp"].is_string();
        if let Some(uid) = metadata["uid"].as_str().filter(|_| is_left && self.is_settled()) {
            (self.left_job, self.due) = (Some(uid.to_owned()), moment.now);
        }
    }

    fn note_version(&mut self, object: &Value) {
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(&mut self.version);
            self.is_changed = false;
        }
    }

    /// It is run from now on.
    pub fn start(&mut self, moment: Moment) {
        (self.stage, self.is_run) = (EntryStage::Running, true);
        self.status.started.get_or_insert(moment.unix);
        self.set(ConditionKind::Prepared, false, ("Starting", "its objects are made"), moment);
    }

    /// What became of it.
    pub fn on_note(&mut self, note: Note, moment: Moment) {
        match note {
            Note::Over => {
                self.is_run = false;
                if self.stage == EntryStage::Running {
                    let why = "whoever ran it ended without a word";
                    self.complete(Verdict::Invalid, ("Failed", why), moment);
                }
            }
            _ if self.stage != EntryStage::Running => {}
            Note::Waits { holder } => {
                let message = format!("another test has this target: {holder}");
                self.set(ConditionKind::Prepared, false, ("TargetBusy", &message), moment);
                self.happened("TargetBusy", &message, false, moment);
            }
            Note::Begun => {
                self.set(ConditionKind::Prepared, false, ("PodsStarting", "its workers make ready"), moment);
            }
            Note::Prepared => self.set(ConditionKind::Prepared, true, ("WorkersReady", "all are ready"), moment),
            Note::Loading => self.set(ConditionKind::Running, true, ("Loading", "all began at one time"), moment),
            Note::Ended(ending) => self.on_ending(*ending, moment),
        }
    }

    fn on_ending(&mut self, ending: Ending, moment: Moment) {
        let Ending { verdict, reason, message, figures, result } = ending;
        self.status.figures = figures;
        self.result = result.filter(|result| result.len() <= RESULT_LIMIT);
        self.status.result = self.result.as_ref().map(|_| result_name(&self.name));
        if self.status.holds(ConditionKind::Running) {
            self.set(ConditionKind::Running, false, ("Ended", "its load is over"), moment);
        }
        self.complete(verdict, (reason, &message), moment);
    }

    fn complete(&mut self, verdict: Verdict, why: (&str, &str), moment: Moment) {
        self.stage = EntryStage::Complete;
        self.status.verdict = Some(verdict);
        self.status.completed = Some(moment.unix);
        self.set(ConditionKind::Complete, true, why, moment);
    }

    fn set(&mut self, kind: ConditionKind, holds: bool, why: (&str, &str), moment: Moment) {
        if !self.status.set(kind, holds, why, moment.unix) {
            return;
        }
        (self.is_told, self.due) = (false, moment.now);
        let (is_told, is_warning) = match kind {
            ConditionKind::Accepted => (true, !holds),
            // That it is refused is told once.
            ConditionKind::Complete => {
                (self.status.holds(ConditionKind::Accepted), self.status.verdict != Some(Verdict::Pass))
            }
            ConditionKind::Prepared | ConditionKind::Running => (holds, false),
        };
        if is_told {
            self.happened(why.0, why.1, is_warning, moment);
        }
    }

    fn happened(&mut self, reason: &str, message: &str, is_warning: bool, moment: Moment) {
        if self.events.len() >= EVENTS_LIMIT {
            self.events.pop_front();
        }
        let reason = reason.to_owned();
        self.events.push_back(Happened { reason, message: shortened(message), is_warning, unix: moment.unix });
    }

    /// When something is to be asked for it, and what.
    pub fn ask(&self, moment: Moment) -> Option<(Time, EntryAsk)> {
        if self.is_gone {
            return None;
        }
        let now = |ask| Some((self.due, ask));
        if self.is_changed {
            return now(EntryAsk::See);
        }
        if self.result.is_some() {
            return now(EntryAsk::Result);
        }
        if !self.is_told {
            return now(EntryAsk::Status);
        }
        if !self.events.is_empty() {
            return now(EntryAsk::Event);
        }
        if let Some(uid) = &self.left_job {
            return now(EntryAsk::DeleteJob(uid.clone()));
        }
        let ttl = self.ttl.filter(|_| self.stage == EntryStage::Complete && !self.is_run)?;
        let end = self.status.completed.unwrap_or(moment.unix).saturating_add(ttl);
        Some((self.due.max(moment.at_unix(end)), EntryAsk::DeleteTest))
    }

    pub fn call(&self, asks: &Asks, ask: &EntryAsk) -> Option<Call> {
        Some(match ask {
            EntryAsk::See => asks.see_test(self.named()),
            EntryAsk::Result => asks.keep_result(self.named(), self.result.as_deref()?),
            EntryAsk::Status => asks.tell_status(self.named(), &self.version, &self.status.json(self.generation)),
            EntryAsk::Event => asks.tell_event(self.named(), self.events.front()?),
            EntryAsk::DeleteJob(uid) => asks.delete_job(self.named(), uid),
            EntryAsk::DeleteTest => asks.delete_test(self.named()),
        })
    }

    /// What came of a question.
    pub fn on_answer(&mut self, ask: &EntryAsk, answer: Result<Value, ApiError>, moment: Moment) -> Told {
        match answer {
            Ok(found) => self.on_done(ask, &found, moment),
            Err(why) => self.on_refusal(ask, &why, moment),
        }
    }

    fn on_done(&mut self, ask: &EntryAsk, found: &Value, moment: Moment) -> Told {
        (self.due, self.pause, self.is_in_trouble) = (moment.now, PAUSES.0, false);
        match ask {
            EntryAsk::See if found["metadata"]["uid"] != self.uid.as_str() => return Told::Gone,
            EntryAsk::See => self.note_version(found),
            EntryAsk::Result => self.result = None,
            // It may have become another while the answer was on its way.
            EntryAsk::Status => {
                self.note_version(found);
                self.is_told = self.status.is_told_by(&found["status"]) && !self.is_another_seen;
                self.is_another_seen = false;
                if !self.is_told {
                    // A server that keeps another status than it is told is not asked without a pause.
                    self.due = moment.now + PAUSES.0;
                } else if self.stage == EntryStage::Complete {
                    return Told::End;
                }
            }
            EntryAsk::Event => self.pop_event(),
            EntryAsk::DeleteJob(_) => self.left_job = None,
            EntryAsk::DeleteTest => return Told::Gone,
        }
        Told::Nothing
    }

    fn on_refusal(&mut self, ask: &EntryAsk, why: &ApiError, moment: Moment) -> Told {
        let may_pass = why.may_pass();
        let pause = if may_pass { self.pause } else { REFUSED_PAUSE };
        // A server that refuses answers: what is asked next need not wait for it.
        self.pause = if may_pass { (self.pause * 2).min(PAUSES.1) } else { PAUSES.0 };
        self.due = moment.now + pause;
        let is_gone = why.is_missing() || why.is_conflict();
        match ask {
            EntryAsk::Event => {
                self.event_tries += 1;
                // It was told, or cannot be: the status says as much.
                if !may_pass || self.event_tries >= EVENT_TRIES {
                    self.pop_event();
                    self.due = moment.now;
                }
            }
            // It was changed meanwhile, or is another of its name.
            EntryAsk::Status if why.is_conflict() => {
                self.is_changed = true;
                self.due = moment.now + PAUSES.0;
                return Told::Nothing;
            }
            EntryAsk::See | EntryAsk::Status | EntryAsk::DeleteTest if is_gone => return Told::Gone,
            EntryAsk::DeleteJob(_) if is_gone => (self.left_job, self.due) = (None, moment.now),
            EntryAsk::Result if !may_pass => {
                (self.result, self.status.result, self.due) = (None, None, moment.now);
                return Told::Trouble(format!("{}: its result is not kept: {why}", self.name));
            }
            _ => {}
        }
        if may_pass || matches!(ask, EntryAsk::Event) || core::mem::replace(&mut self.is_in_trouble, true) {
            return Told::Nothing;
        }
        Told::Trouble(format!("{}: {why}", self.name))
    }

    fn pop_event(&mut self) {
        self.events.pop_front();
        self.event_tries = 0;
    }
}
