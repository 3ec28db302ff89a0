//! The operator: one of several leads; tests are listed, watched, run, told of and forgotten.

use crate::asks::Asks;
use crate::entry::{Entry, EntryAsk, EntryStage, Told};
use crate::leading::Leading;
use crate::moment::Moment;
use crate::status::Note;
use core::time::Duration;
use kubernetes::ApiError;
use reconcile::Call;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use wire::Time;

/// Tests that are run at one time.
const RUNS_LIMIT: usize = 16;

/// Tests that are known at one time: of more the later ones wait until some are deleted.
const TESTS_LIMIT: usize = 10_000;

/// After a list that did not come, or a watch that broke.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked whether Jobs are left of tests that are over. Once is not enough: an operator that stood
/// still may make one when another has long told what the test came to, before it finds that it is the one no more.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// What is to be done by whoever has hands.
#[derive(Clone, PartialEq, Debug)]
pub enum Order {
    /// Run this test.
    Start {
        /// Its number.
        uid: String,
        /// What it is to be, as its file would be.
        object: Value,
    },
    /// Let what a test made go: what it came to is told.
    Release {
        /// Its number.
        uid: String,
    },
    /// End a test that was deleted, or that another operator ended.
    Stop {
        /// Its number.
        uid: String,
    },
    /// Watch tests, by this question; whoever watched before is not heard any more.
    Watch {
        /// By which what comes is known to be of this watch.
        number: u64,
        /// The question.
        path: String,
    },
    /// Say this to people.
    Say(String),
    /// Another operator is the one: this one ends, and leaves its tests to that.
    Yield,
}

/// What a watch brings.
#[derive(Clone, PartialEq, Debug)]
pub enum Watched {
    /// An event, as the API server has it: `type` and `object`.
    Event(Value),
    /// It ended in its time, or broke.
    Ended,
}

/// Whose answer is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Lease,
    List,
    Jobs,
    Entry(String, EntryAsk),
}

/// The operator of one namespace.
///
/// Call order: [`Operator::new`]; then [`Operator::poll_order`] until there is nothing, [`Operator::poll_call`], and
/// [`Operator::on_answer`] with what came of the call; where there is none, again at [`Operator::next_deadline`], or
/// when a watch or a test has something to say. [`Operator::leave`] may come at any time; nothing more is asked when
/// [`Operator::is_over`].
#[derive(Debug)]
pub struct Operator {
    asks: Asks,
    leading: Leading,
    /// When all tests are listed next; never while they are watched.
    lists_at: Time,
    /// When it is looked next for Jobs that are left; not before all tests were listed.
    sweeps_at: Time,
    watch: u64,
    /// What was seen last.
    version: String,
    /// By their numbers.
    tests: BTreeMap<String, Entry>,
    asked: Option<Asked>,
    orders: VecDeque<Order>,
    is_unlisted: bool,
    is_unswept: bool,
}

impl Operator {
    /// An operator of this namespace, with a number that anybody may see.
    #[must_use]
    pub fn new(namespace: &str, number: u64, now: Time) -> Self {
        Self {
            asks: Asks::new(namespace),
            leading: Leading::new(format!("{namespace}/operator/{number:016x}"), now),
            lists_at: now,
            sweeps_at: Time::MAX,
            watch: 0,
            version: String::new(),
            tests: BTreeMap::new(),
            asked: None,
            orders: VecDeque::new(),
            is_unlisted: false,
            is_unswept: false,
        }
    }

    /// The next question, if it is time for one and the last one was answered.
    pub fn poll_call(&mut self, moment: Moment) -> Option<Call> {
        let now = moment.now;
        if self.asked.is_some() {
            return None;
        }
        if now >= self.leading.due() {
            let call = self.leading.call(&self.asks.lease, now)?;
            self.asked = Some(Asked::Lease);
            return Some(call);
        }
        if !self.leading.may_act(now) {
            return None;
        }
        if now >= self.lists_at {
            self.asked = Some(Asked::List);
            return Some(self.asks.list());
        }
        if now >= self.sweep_due() {
            self.asked = Some(Asked::Jobs);
            return Some(self.asks.list_jobs());
        }
        // Whoever waits for longest.
        let asks = self.tests.iter().filter_map(|(uid, entry)| Some((entry.ask(moment)?, uid)));
        let ((due, ask), uid) = asks.min_by_key(|((due, _), _)| *due)?;
        if now < due {
            return None;
        }
        let uid = uid.clone();
        let call = self.tests.get(&uid)?.call(&self.asks, &ask)?;
        self.asked = Some(Asked::Entry(uid, ask));
        Some(call)
    }

    /// What came of the last question.
    pub fn on_answer(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match self.asked.take() {
            Some(Asked::Lease) => self.on_lease(answer, moment),
            Some(Asked::List) => self.on_list(answer, moment),
            Some(Asked::Jobs) => self.on_jobs(answer, moment),
            Some(Asked::Entry(uid, ask)) => {
                let Some(entry) = self.tests.get_mut(&uid) else { return };
                match entry.on_answer(&ask, answer, moment) {
                    Told::Nothing => {}
                    Told::End => self.orders.push_back(Order::Release { uid }),
                    Told::Gone => self.forget(&uid, moment),
                    Told::Trouble(why) => self.orders.push_back(Order::Say(why)),
                }
            }
            None => {}
        }
    }

    /// What a watch brings.
    pub fn on_watched(&mut self, number: u64, watched: Watched, moment: Moment) {
        if number != self.watch || !self.leading.is_held() {
            return;
        }
        let Watched::Event(event) = watched else { return self.watch_from_here(moment) };
        let object = &event["object"];
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(&mut self.version);
        }
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => self.see(object, moment),
            Some("DELETED") => {
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    self.forget(uid, moment);
                }
            }
            Some("BOOKMARK") => {}
            // What came after this version is forgotten (410), or something else is wrong: all are listed.
            _ => self.list_at(moment.now + PAUSE),
        }
        self.start_queued(moment);
    }

    /// What became of a test that is run.
    pub fn on_note(&mut self, uid: &str, note: Note, moment: Moment) {
        if let Some(entry) = self.tests.get_mut(uid) {
            let is_over = note == Note::Over;
            entry.on_note(note, moment);
            if is_over && entry.is_gone {
                self.tests.remove(uid);
            }
        }
        self.start_queued(moment);
    }

    /// It is no more the one; tests go on without it, for whoever is the next.
    pub fn leave(&mut self, now: Time) {
        if self.asked == Some(Asked::Lease) {
            self.asked = None;
        }
        self.leading.leave(now);
    }

    /// Whether nothing more is asked.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.leading.is_over()
    }

    /// The next thing to be done.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// When there may be a question.
    #[must_use]
    pub fn next_deadline(&self, moment: Moment) -> Time {
        if self.asked.is_some() {
            return Time::MAX;
        }
        let lease = self.leading.due();
        if !self.leading.may_act(moment.now) {
            return lease;
        }
        let tests = self.tests.values().filter_map(|entry| Some(entry.ask(moment)?.0));
        tests.fold(lease.min(self.lists_at).min(self.sweep_due()), Time::min)
    }
}

impl Operator {
    fn on_lease(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        let news = self.leading.on_answer(answer, moment.now);
        if let Some(holder) = news.another {
            self.orders.push_back(Order::Say(format!("another operator is the one of this namespace: {holder}")));
        }
        if news.begins {
            self.list_at(moment.now);
            self.sweeps_at = Time::MAX;
        }
        if news.yields {
            self.orders.push_back(Order::Yield);
        }
        self.start_queued(moment);
    }

    fn list_at(&mut self, at: Time) {
        // Whoever watches is not heard any more.
        self.watch += 1;
        self.lists_at = at;
    }

    fn on_list(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match answer {
            Ok(list) => {
                self.is_unlisted = false;
                let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                let here: Vec<&str> = items.iter().filter_map(|one| one["metadata"]["uid"].as_str()).collect();
                let gone: Vec<String> =
                    self.tests.keys().filter(|uid| !here.contains(&uid.as_str())).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid, moment));
                items.iter().for_each(|one| self.see(one, moment));
                if self.sweeps_at == Time::MAX {
                    self.sweeps_at = moment.now;
                }
                self.version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                self.watch_from_here(moment);
                self.start_queued(moment);
            }
            Err(why) => {
                self.lists_at = moment.now + PAUSE;
                if !core::mem::replace(&mut self.is_unlisted, true) {
                    self.orders.push_back(Order::Say(format!("tests cannot be listed: {why}")));
                }
            }
        }
    }

    /// When it is looked for Jobs that are left; never while there can be none.
    fn sweep_due(&self) -> Time {
        if self.tests.values().any(Entry::is_settled) { self.sweeps_at } else { Time::MAX }
    }

    fn on_jobs(&mut self, answer: Result<Value, ApiError>, moment: Moment) {
        match answer {
            Ok(list) => {
                (self.is_unswept, self.sweeps_at) = (false, moment.now + SWEEP_EVERY);
                for job in list["items"].as_array().into_iter().flatten() {
                    for owner in job["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
                        if let Some(entry) = owner["uid"].as_str().and_then(|uid| self.tests.get_mut(uid)) {
                            entry.on_job(job, moment);
                        }
                    }
                }
            }
            Err(why) => {
                self.sweeps_at = moment.now + if why.may_pass() { PAUSE } else { SWEEP_EVERY };
                if !core::mem::replace(&mut self.is_unswept, true) {
                    self.orders.push_back(Order::Say(format!("Jobs of tests cannot be listed: {why}")));
                }
            }
        }
    }

    fn watch_from_here(&mut self, moment: Moment) {
        if self.version.is_empty() {
            return self.list_at(moment.now + PAUSE);
        }
        self.lists_at = Time::MAX;
        self.watch += 1;
        self.orders.push_back(Order::Watch { number: self.watch, path: self.asks.watch(&self.version) });
    }

    /// A test is there.
    fn see(&mut self, object: &Value, moment: Moment) {
        let Some(uid) = object["metadata"]["uid"].as_str() else { return };
        if object["metadata"]["deletionTimestamp"].is_string() {
            return self.forget(uid, moment);
        }
        if let Some(entry) = self.tests.get_mut(uid) {
            if entry.on_seen(object) && entry.is_run {
                self.orders.push_back(Order::Stop { uid: uid.to_owned() });
            }
        } else if self.tests.len() < TESTS_LIMIT
            && let Some(entry) = Entry::new(object, moment)
        {
            self.tests.insert(uid.to_owned(), entry);
        }
    }

    /// A test is there no more: what it made goes.
    fn forget(&mut self, uid: &str, moment: Moment) {
        let Some(entry) = self.tests.get_mut(uid) else { return };
        if !entry.is_run {
            let was_full = self.tests.len() >= TESTS_LIMIT;
            self.tests.remove(uid);
            if was_full {
                // Some were left out.
                self.list_at(moment.now + PAUSE);
            }
        } else if !core::mem::replace(&mut entry.is_gone, true) {
            self.orders.push_back(Order::Stop { uid: uid.to_owned() });
        }
        self.start_queued(moment);
    }

    /// Runs those that wait for longest, as long as there may be more.
    fn start_queued(&mut self, moment: Moment) {
        if !self.leading.may_act(moment.now) {
            return;
        }
        let running = self.tests.values().filter(|entry| entry.is_run).count();
        let mut queued: Vec<(String, String, String)> = Vec::new();
        if running < RUNS_LIMIT {
            let waits = |entry: &&Entry| entry.stage == EntryStage::Queued && !entry.is_gone;
            let place = |entry: &Entry| (entry.made.clone(), entry.name.clone(), entry.uid.clone());
            queued.extend(self.tests.values().filter(waits).map(place));
            queued.sort_unstable();
        }
        for (_, _, uid) in queued.into_iter().take(RUNS_LIMIT.saturating_sub(running)) {
            if let Some(entry) = self.tests.get_mut(&uid) {
                entry.start(moment);
                self.orders.push_back(Order::Start { uid, object: entry.object.clone() });
            }
        }
    }
}
