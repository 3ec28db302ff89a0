//! A worker's side of what it and its controller say, and who says it: a thread that reads and answers, and connects
//! anew when a connection breaks; one that says twice a second how the load goes; and the collector with its
//! intervals.

use crate::route::{Route, Tries};
use channel::Channel;
use core::time::Duration;
use cpu::Clock;
use load::{Figures, Interval, Live, Outside, Stage};
use messages::{Beat, Counted, FromWorker, Hello, Lines, Measured, ORDER_LIMIT, Readiness, Reporter, ToWorker};
use say::Failure;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use wire::Time;

/// A controller that is there, and has what was measured, is to say within this that the test is over. For one that is
/// away the way to it has its own patience.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(180);

/// How often it is looked whether all is ready.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same once the load is on, and nothing is to be seen but how it goes.
const LOOK_SELDOM: Duration = Duration::from_millis(100);

/// What a worker measures.
pub type WorkerPart = Box<Measured<Figures, Outside>>;

/// An interval as the line that says it: a tenth of the memory that its distributions take.
type IntervalLine = Arc<Vec<u8>>;

/// Its side of what is said.
type Side = Reporter<WorkerPart, IntervalLine>;

/// A worker's side of what it and its controller say.
#[derive(Clone)]
pub struct Post(Arc<Shared>);

struct Shared {
    /// Zero of the worker's own clock, which is all that it tells others of time.
    origin: Time,
    state: Mutex<State>,
    /// The connection, while there is one. Whoever writes has it from what is to be said to the end of its line, so
    /// that nothing overtakes another; the state is asked for behind it, and never before.
    line: Mutex<Option<Arc<Channel>>>,
    changed: Condvar,
}

struct State {
    side: Side,
    /// What it understood that it is to do.
    setup: String,
    /// The silos, once all are there.
    lives: Vec<Live>,
    /// What ends the run, once there is one.
    signals: Option<Arc<AtomicUsize>>,
    /// Whether the run was told to end.
    told: bool,
    /// Whether the controller is gone.
    lost: bool,
    /// The stage of the next interval, and its place there.
    place: (Stage, u64),
}

impl Post {
    /// Connects to the controller, and says who this is.
    ///
    /// # Errors
    /// If nobody is there.
    pub fn connect(route: Route, hello: Hello) -> Result<Self, Failure> {
        let channel = Arc::new(route.connect(&mut Tries::default())?);
        let state = State {
            side: Side::new(hello, Time::ZERO),
            setup: String::new(),
            lives: Vec::new(),
            signals: None,
            told: false,
            lost: false,
            place: (Stage::default(), 0),
        };
        let (state, line) = (Mutex::new(state), Mutex::new(Some(Arc::clone(&channel))));
        let post = Self(Arc::new(Shared { origin: Clock.now(), state, line, changed: Condvar::new() }));
        post.flush();
        let (reader, looker) = (post.clone(), post.clone());
        thread::Builder::new().name("near-orders".into()).spawn(move || reader.attend(&route, channel))?;
        thread::Builder::new().name("near-report".into()).spawn(move || looker.look())?;
        Ok(post)
    }

    /// What ends the run, when the controller wants that, or is gone.
    pub fn end_by(&self, signals: &Arc<AtomicUsize>) {
        self.state().signals = Some(Arc::clone(signals));
    }

    /// What it understood that it is to do.
    pub fn understood(&self, setup: String) {
        self.state().setup = setup;
    }

    /// All silos of the run are there.
    pub fn attach(&self, lives: Vec<Live>) {
        self.state().lives = lives;
    }

    /// When each silo began, by the own clock in nanoseconds.
    pub fn begun(&self) -> Vec<u64> {
        let since = |at: Time| at.as_nanos().saturating_sub(self.0.origin.as_nanos());
        self.state().lives.iter().filter_map(|live| live.begun().map(since)).collect()
    }

    /// Says what happened in an interval of the load.
    pub fn interval(&self, interval: &Interval) {
        if interval.stage < Stage::WarmUp {
            return;
        }
        let (number, place) = {
            let mut state = self.state();
            (state.side.next_interval(), state.place(interval))
        };
        // There is one collector: nobody else has this number.
        let line = FromWorker::Interval::<WorkerPart, _>(Counted { number, place, interval }).line();
        let bytes = line.len();
        self.state().side.on_interval(place, Arc::new(line), bytes);
        self.flush();
    }

    /// Says that it cannot be done.
    pub fn fail(&self, why: &str) {
        self.state().side.on_failed(why);
        self.flush();
    }

    /// Says what was measured, and stays until the test is over, or the controller gone: another may ask for it again.
    pub fn deliver(&self, part: WorkerPart) {
        let now = self.now();
        self.state().side.on_measured(part, now);
        self.flush();
        let mut state = self.state();
        while !state.side.is_over() && !state.lost && self.now().since(now) < DELIVERY_PATIENCE {
            let waited = self.0.changed.wait_timeout(state, LOOK_SELDOM);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        if let Some(channel) = &*self.line() {
            channel.shutdown();
        }
    }

    /// The time by the own clock.
    fn now(&self) -> Time {
        Time::ZERO + Clock.now().since(self.0.origin)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Option<Arc<Channel>>> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what the controller says, on one connection after the other, until the test is over or nobody is there.
    fn attend(&self, route: &Route, mut channel: Arc<Channel>) {
        let mut tries = Tries::default();
        loop {
            let heard = self.read(&channel);
            channel.shutdown();
            *self.line() = None;
            if self.state().side.is_over() {
                return;
            }
            match heard {
                Ok(true) => tries = Tries::default(),
                Ok(false) => {}
                Err(Nonsense) => return self.lose(),
            }
            match route.connect(&mut tries) {
                Ok(made) => channel = Arc::new(made),
                Err(_) => return self.lose(),
            }
            let mut line = self.line();
            *line = Some(Arc::clone(&channel));
            let now = self.now();
            self.state().side.on_connected(now);
            drop(line);
            self.flush();
        }
    }

    /// Answers what the controller says on a connection, until that ends; then whether it said anything.
    fn read(&self, channel: &Channel) -> Result<bool, Nonsense> {
        let mut heard = false;
        let mut lines = Lines::new(ORDER_LIMIT);
        let (mut bytes, mut opened) = ([0; 4_096], Vec::new());
        while let Ok(read @ 1..) = channel.receive(&mut bytes) {
            let received = self.now();
            opened.clear();
            if channel.open(bytes.get(..read).unwrap_or_default(), &mut opened).is_err() {
                break;
            }
            lines.push(&opened);
            while let Some(line) = lines.next().map_err(|_| Nonsense)? {
                let order = ToWorker::read(line).map_err(|_| Nonsense)?;
                self.on_order(order, received);
                heard = true;
            }
        }
        Ok(heard)
    }

    fn on_order(&self, order: ToWorker, received: Time) {
        let mut state = self.state();
        state.side.on_message(order, received, self.now());
        if let Some(start) = state.side.start() {
            let at = self.0.origin + start.since(Time::ZERO);
            state.lives.iter().for_each(|live| live.start_at(at));
        }
        state.end_if_told();
        drop(state);
        self.flush();
        self.0.changed.notify_all();
    }

    /// The controller is gone: nobody will want what this measures.
    fn lose(&self) {
        let mut state = self.state();
        state.lost = true;
        state.end_if_told();
        drop(state);
        self.0.changed.notify_all();
    }

    /// Looks whether all is ready, and says how the load goes.
    fn look(&self) {
        loop {
            let mut state = self.state();
            if state.lost || state.side.is_over() {
                return;
            }
            state.look(self.now());
            state.end_if_told();
            let pause = if state.side.start().is_some() { LOOK_SELDOM } else { LOOK_EVERY };
            drop(state);
            self.flush();
            let state = self.state();
            drop(self.0.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Sends what is to be sent, if there is a connection. What is lost with it is said again on the next one.
    fn flush(&self) {
        let line = self.line();
        let Some(channel) = &*line else { return };
        loop {
            let now = self.now();
            let word = self.state().side.poll_send(now);
            let sent = match word {
                None => return,
                Some(FromWorker::Interval(counted)) => channel.write(&counted.interval),
                Some(other) => channel.write(&other.map_interval(|_| ()).line()),
            };
            if sent.is_err() {
                // Half a line is none: whoever reads, at either end, is to see the end.
                return channel.shutdown();
            }
        }
    }
}

/// What the controller said is no order.
struct Nonsense;

impl State {
    /// The place of the next interval in its stage.
    fn place(&mut self, interval: &Interval) -> u64 {
        if interval.stage != self.place.0 {
            self.place = (interval.stage, 0);
        }
        let place = self.place.1;
        self.place.1 = place.saturating_add(u64::from(interval.spans.max(1)));
        place
    }

    fn look(&mut self, now: Time) {
        let all: Vec<load::Progress> = self.lives.iter().map(Live::read).collect();
        let sum = |of: fn(&load::Progress) -> u64| all.iter().map(of).sum::<u64>();
        let (open, errors) = (sum(|one| one.open), sum(|one| one.errors));
        let (responses, rate) = (sum(|one| one.responses), sum(|one| one.rate));
        self.side.on_progress(Beat { responses, rate, errors, open, ..Beat::default() });
        if !self.lives.is_empty() && self.lives.iter().all(Live::is_ready) {
            let silos = u32::try_from(self.lives.len()).unwrap_or(u32::MAX);
            self.side.on_ready(Readiness { open, silos, setup: self.setup.clone() }, now);
        }
    }

    /// Ends the run, if it is to end.
    fn end_if_told(&mut self) {
        if let Some(signals) = self.signals.as_ref().filter(|_| !self.told && (self.lost || self.side.is_stopped())) {
            signals.fetch_add(1, Ordering::Relaxed);
            self.told = true;
        }
    }
}
