//! The worker's side, as a state machine.

use crate::{Beat, Counted, Echo, FromWorker, Hello, Readiness, Standing, ToWorker};
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// How often a worker says that it is alive.
pub const BEAT_EVERY: Duration = Duration::from_millis(500);

/// How often it says again what was not answered: that it is ready, and what it measured.
const AGAIN_EVERY: Duration = Duration::from_secs(2);

/// Intervals that are kept for a controller that does not say that it has them: so many bytes of lines.
const KEPT_LIMIT: usize = 4 << 20;

/// And so many of them, however short.
const KEPT_MOST: usize = 4_096;

/// The worker's side of one test: what it is told goes in, what is to be sent comes out.
///
/// Call order: [`Reporter::new`]; then [`Reporter::on_message`], [`Reporter::on_ready`], [`Reporter::on_interval`],
/// [`Reporter::on_measured`], [`Reporter::on_failed`] and [`Reporter::on_progress`] as they happen, and after each
/// [`Reporter::poll_send`] until there is nothing. Times are by the worker's own clock, which nobody else has;
/// [`Reporter::next_deadline`] says when to come again.
#[derive(Debug)]
pub struct Reporter<M, I> {
    hello: Hello,
    standing: Standing,
    ready: Option<Readiness>,
    /// Whether a controller is to be told that it is, or was, ready, and for what: it may be another than before.
    says_ready: bool,
    /// When to begin.
    start: Option<Time>,
    measured: Option<M>,
    /// Why it cannot be done.
    failed: Option<String>,
    kept: Kept<I>,
    stopped: bool,
    over: bool,
    beat: Beat,
    next_beat: Time,
    next_again: Time,
    out: VecDeque<FromWorker<M, I>>,
}

/// Intervals that the controller may not have.
#[derive(Debug)]
struct Kept<I> {
    /// Each with the bytes that it takes.
    intervals: VecDeque<(Counted<I>, usize)>,
    bytes: usize,
    /// The number of the next one there will be.
    next: u64,
    /// The number of the next one to be said.
    said: u64,
}

impl<I: Clone> Kept<I> {
    fn new() -> Self {
        Self { intervals: VecDeque::new(), bytes: 0, next: 0, said: 0 }
    }

    fn push(&mut self, place: u64, interval: I, bytes: usize) {
        self.intervals.push_back((Counted { number: self.next, place, interval }, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        self.next += 1;
        // A controller that is away for so long has what was counted in all at the end.
        while self.intervals.len() > 1 && (self.bytes > KEPT_LIMIT || self.intervals.len() > KEPT_MOST) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, bytes)) = self.intervals.pop_front() {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// The controller has those below.
    fn drop_below(&mut self, number: u64) {
        while self.intervals.front().is_some_and(|(first, _)| first.number < number) {
            self.drop_first();
        }
    }

    /// All are to be said again.
    fn rewind(&mut self) {
        self.said = self.intervals.front().map_or(self.next, |(first, _)| first.number);
    }

    fn say(&mut self) -> Option<Counted<I>> {
        let (first, _) = self.intervals.front()?;
        let at = usize::try_from(self.said.saturating_sub(first.number)).ok()?;
        let (found, _) = self.intervals.get(at)?;
        self.said = found.number + 1;
        Some(found.clone())
    }
}

impl<M: Clone, I: Clone> Reporter<M, I> {
    /// A worker's side, with its first word.
    #[must_use]
    pub fn new(hello: Hello, now: Time) -> Self {
        let out = VecDeque::from([FromWorker::Hello(hello.clone())]);
        Self {
            hello,
            standing: Standing::Preparing,
            ready: None,
            says_ready: false,
            start: None,
            measured: None,
            failed: None,
            kept: Kept::new(),
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
        self.out.extend(self.failed.clone().map(FromWorker::Failed));
        self.kept.rewind();
        self.next_beat = now;
        self.says_ready = self.ready.is_some();
        if self.measured.is_some() {
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
            ToWorker::Have { intervals } => self.kept.drop_below(intervals),
            ToWorker::Kept if self.measured.is_some() => self.next_again = Time::MAX,
            ToWorker::Kept => {}
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

    /// The number of the next interval.
    #[must_use]
    pub fn next_interval(&self) -> u64 {
        self.kept.next
    }

    /// What happened in an interval, its place in its stage, and the bytes that it takes. It is kept until the
    /// controller has it, or too much is.
    pub fn on_interval(&mut self, place: u64, interval: I, bytes: usize) {
        self.kept.push(place, interval, bytes);
    }

    /// The load is over.
    pub fn on_measured(&mut self, measured: M, now: Time) {
        self.standing = Standing::Ended;
        (self.measured, self.next_again) = (Some(measured), now);
    }

    /// It cannot be done.
    pub fn on_failed(&mut self, why: &str) {
        self.out.push_back(FromWorker::Failed(why.to_owned()));
        self.failed = Some(why.to_owned());
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

    /// Whether the test is over.
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
        if now >= self.next_beat {
            self.next_beat = now + BEAT_EVERY;
            let start_ns = self.start.map(Time::as_nanos);
            return Some(FromWorker::Beat(Beat { standing: self.standing, start_ns, ..self.beat }));
        }
        if core::mem::take(&mut self.says_ready) {
            return self.ready.clone().map(FromWorker::Ready);
        }
        // Before what was measured in all, after which none is waited for.
        if let Some(interval) = self.kept.say() {
            return Some(FromWorker::Interval(interval));
        }
        if now >= self.next_again {
            self.next_again = now + AGAIN_EVERY;
            let ready = || self.ready.clone().map(FromWorker::Ready);
            return self.measured.clone().map(FromWorker::Measured).or_else(ready);
        }
        None
    }
}
