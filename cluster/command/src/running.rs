//! A test that runs: what workers say in, what they are told out, until its end.

use crate::listen::{Event, Known, listen};
use crate::local::TestFolder;
use crate::workers::Workers;
use channel::{Channel, Keys};
use control::{Action, ChannelId, Control, ControlRules, Gone, Outcome, Progress};
use core::time::Duration;
use cpu::Clock;
use load::{Interval, Plan, Setup};
use merge::{Timeline, WorkerFigures, WorkerMessage};
use messages::{Counted, FromWorker, Token};
use say::{Failure, eprintln};
use spec::{Arranged, LoadTest};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use wire::Time;

/// Events that wait for the one who decides.
const EVENTS_LIMIT: usize = 256;

/// How often signals and processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whoever looks on while a test runs.
pub trait Onlooker {
    /// All workers counted this.
    fn on_interval(&mut self, interval: Interval);

    /// How it goes.
    fn look(&mut self, control: &Control<WorkerFigures>, now: Time);
}

/// A test that runs.
pub struct Running<'a> {
    test: &'a LoadTest,
    control: Control<WorkerFigures>,
    workers: Workers,
    timeline: Timeline,
    channels: BTreeMap<ChannelId, Arc<Channel>>,
    events: Receiver<Event>,
    /// What the workers read before they say who they are: gone when all have.
    folder: Option<TestFolder>,
}

impl<'a> Running<'a> {
    /// Begins it: workers come to this listener, by this token.
    ///
    /// # Errors
    /// If it cannot be begun; what it was to be of is gone.
    pub fn start(
        (test, arranged): (&'a LoadTest, &Arranged),
        (token, listener): (Token, TcpListener),
        workers: Workers,
        folder: Option<TestFolder>,
    ) -> Result<Self, Failure> {
        let plans: Vec<Plan> =
            (0..test.workers).filter_map(|worker| arranged.plan.share(worker, test.workers)).collect();
        if plans.len() != test.workers as usize {
            return Err("spec.workers: there are fewer connections than workers".into());
        }
        let rules = ControlRules {
            token: token.clone(),
            version: messages::version(),
            setups: plans.iter().map(understood).collect(),
            prepare: test.prepare,
            load: test.warm_up.time + test.duration.time,
            start_tolerance: test.start_tolerance,
        };
        let (sender, events) = sync_channel(EVENTS_LIMIT);
        let keys = Keys::of(&token)?;
        listen(listener, Arc::new(Known { token, keys, plans }), sender)?;
        Ok(Self {
            control: Control::new(rules, Clock.now()),
            workers,
            timeline: Timeline::new(test.workers),
            channels: BTreeMap::new(),
            events,
            test,
            folder,
        })
    }

    /// Runs it to its end. Whoever looks on is told of each interval, and every 50 ms at least of how it goes.
    pub fn run(&mut self, interrupted: &AtomicBool, onlooker: &mut dyn Onlooker) {
        loop {
            self.act();
            if self.control.progress() == Progress::Over {
                return;
            }
            let now = Clock.now();
            // Signals and ends of processes wake nobody: they are looked for.
            let wait = self.control.next_deadline().since(now).min(LOOK_EVERY);
            if let Ok(event) = self.events.recv_timeout(wait) {
                self.on_event(event);
                while let Ok(event) = self.events.try_recv() {
                    self.on_event(event);
                }
            }
            let now = Clock.now();
            for (worker, gone) in self.workers.ended() {
                self.control.on_gone(worker, gone, now);
            }
            if self.workers.is_displaced() {
                self.control.on_displaced(now);
            }
            if interrupted.swap(false, Ordering::Relaxed) {
                self.control.on_interrupt(now);
            }
            if now >= self.control.next_deadline() {
                self.control.on_time(now);
            }
            if self.folder.is_some() && self.control.workers().all(|worker| worker.is_here) {
                self.folder = None;
            }
            while let Some(interval) = self.timeline.poll() {
                onlooker.on_interval(interval);
            }
            onlooker.look(&self.control, now);
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = Clock.now();
        match event {
            Event::Connected(channel, way) => {
                self.channels.insert(channel, way);
                self.control.on_connected(channel, now);
            }
            Event::Message(channel, message, received) => self.on_message(channel, *message, received),
            Event::Nonsense(channel, why) => self.control.on_nonsense(channel, &why, now),
            Event::Closed(channel) => {
                self.channels.remove(&channel);
                self.control.on_closed(channel, now);
            }
        }
    }

    fn on_message(&mut self, channel: ChannelId, message: WorkerMessage, received: Time) {
        let worker = self.control.worker_at(channel);
        match (worker, message) {
            (Some(worker), FromWorker::Interval(Counted { number, place, interval })) => {
                if self.control.is_new_interval(worker, number) {
                    self.timeline.add(worker, place, *interval);
                }
                let here = FromWorker::Interval(Counted { number, place, interval: () });
                self.control.on_message(channel, here, received, Clock.now());
            }
            (_, message) => {
                if let (Some(worker), FromWorker::Measured(_)) = (worker, &message) {
                    self.timeline.end(worker);
                }
                self.control.on_message(channel, message, received, Clock.now());
            }
        }
    }

    /// Does what is to be done.
    fn act(&mut self) {
        while let Some(action) = self.control.poll_action() {
            match action {
                Action::Launch { worker } => self.launch(worker),
                Action::Send { channel, message } => {
                    // One that takes nothing is silent, and found to be lost.
                    if let Some(way) = self.channels.get(&channel) {
                        let _ = way.write(&message.line());
                    }
                }
                Action::Close { channel } => {
                    if let Some(way) = self.channels.remove(&channel) {
                        way.shutdown();
                    }
                }
                Action::Kill { worker } => self.workers.kill(worker),
            }
        }
    }

    fn launch(&mut self, worker: u32) {
        if let Err(why) = self.workers.launch(worker) {
            eprintln!("nearside: worker {worker}: {why}");
            self.control.on_gone(worker, Gone::NotStarted, Clock.now());
        }
    }

    /// What came of it, and the last words of each worker; nothing of it is left.
    pub fn finish(mut self) -> (Outcome<WorkerFigures>, Vec<String>) {
        self.workers.finish();
        let (outcome, words, _) = self.judge();
        (outcome, words)
    }

    /// What came of it, and the last words of each worker so far; and the workers, which are yet to be finished.
    pub fn judge(self) -> (Outcome<WorkerFigures>, Vec<String>, Workers) {
        let words = (0..self.test.workers).map(|worker| self.workers.words(worker)).collect();
        (self.control.into_outcome(), words, self.workers)
    }
}

/// What a worker is to understand; the address that a name has is its own to find.
fn understood(plan: &Plan) -> String {
    let mut setup = Setup::new(plan);
    setup.targets.clear();
    report::setup_json(&setup)
}
