//! The worker's side, as a state machine.

use crate::{Beat, Echo, FromWorker, Hello, Readiness, Standing, ToWorker};
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// How often a worker says that it is alive.
pub const BEAT_EVERY: Duration = Duration::from_millis(500);

/// How often it says again what was not answered: that it is ready, and what it measured.
const AGAIN_EVERY: Duration = Duration::from_secs(2);

/// The worker's side of one test: what it is told goes in, what is to be sent comes out.
///
/// Call order: [`Reporter::new`]; then [`Reporter::on_message`], [`Reporter::on_ready`], [`Reporter::on_measured`],
/// [`Reporter::on_failed`] and [`Reporter::on_progress`] as they happen, and after each [`Reporter::poll_send`] until
/// there is nothing. Times are by the worker's own clock, which nobody else has; [`Reporter::next_deadline`] says
/// when to come again.
#[derive(Debug)]
pub struct Reporter<M, I> {
    hello: Hello,
    standing: Standing,
    ready: Option<Readiness>,
    /// When to begin.
    start: Option<Time>,
    measured: Option<M>,
    stopped: bool,
    over: bool,
    beat: Beat,
    next_beat: Time,
    next_again: Time,
    out: VecDeque<FromWorker<M, I>>,
}

impl<M: Clone, I> Reporter<M, I> {
    /// A worker's side, with its first word.
    #[must_use]
    pub fn new(hello: Hello, now: Time) -> Self {
        let out = VecDeque::from([FromWorker::Hello(hello.clone())]);
        Self {
            hello,
            standing: Standing::Preparing,
            ready: None,
            start: None,
            measured: None,
            stopped: false,
            over: false,
            beat: Beat::default(),
            next_beat: now,
            next_again: Time::MAX,
            out,
        }
    }

    /// There is a new way to the controller, or another controller: it is told who this is, and all that it may not
    /// know.
    pub fn on_connected(&mut self, now: Time) {
        self.out.clear();
        self.out.push_back(FromWorker::Hello(self.hello.clone()));
        self.next_beat = now;
        if self.next_again < Time::MAX {
            self.next_again = now;
        }
    }

    /// What the controller said, which came at `received`.
    pub fn on_message(&mut self, message: ToWorker, received: Time, now: Time) {
        match message {
            ToWorker::Probe { number } => {
                let (received_ns, sent_ns) = (received.as_nanos(), now.as_nanos());
                self.out.push_back(FromWorker::Echo(Echo { number, received_ns, sent_ns }));
            }
            // The first time counts, and of one that is not ready none.
            ToWorker::Start { at_ns } if self.standing == Standing::Ready => {
                self.start = Some(Time::from_nanos(at_ns));
                self.standing = Standing::Loading;
                (self.next_beat, self.next_again) = (now, Time::MAX);
            }
            ToWorker::Start { .. } => {}
            ToWorker::Stop => self.stopped = true,
            ToWorker::Bye => self.over = true,
        }
    }

    /// All is ready for the load to begin.
    pub fn on_ready(&mut self, ready: Readiness, now: Time) {
        if self.standing == Standing::Preparing {
            self.standing = Standing::Ready;
            (self.ready, self.next_again) = (Some(ready), now);
        }
    }

    /// The load is over.
    pub fn on_measured(&mut self, measured: M, now: Time) {
        self.standing = Standing::Ended;
        (self.measured, self.next_again) = (Some(measured), now);
    }

    /// It cannot be done.
    pub fn on_failed(&mut self, why: &str) {
        self.out.push_back(FromWorker::Failed(why.to_owned()));
    }

    /// How the load goes, for the next sign of life. What the reporter knows itself is not taken from it.
    pub fn on_progress(&mut self, beat: Beat) {
        self.beat = beat;
    }

    /// When the load is to begin, once that is known.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        self.start
    }

    /// Whether the load is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped || self.over
    }

    /// Whether the controller has what was measured, or wants nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// When something is to be said again.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        self.next_beat.min(self.next_again)
    }

    /// The next message to be sent.
    pub fn poll_send(&mut self, now: Time) -> Option<FromWorker<M, I>> {
        if let Some(message) = self.out.pop_front() {
            return Some(message);
        }
        if now >= self.next_again {
            self.next_again = now + AGAIN_EVERY;
            let ready = || self.ready.clone().map(FromWorker::Ready);
            return self.measured.clone().map(FromWorker::Measured).or_else(ready);
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT_EVERY;
            let start_ns = self.start.map(Time::as_nanos);
            return Some(FromWorker::Beat(Beat { standing: self.standing, start_ns, ..self.beat }));
        }
        None
    }
}
