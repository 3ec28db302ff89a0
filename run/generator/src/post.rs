//! A worker's connection to the controller, and who writes to it: a thread that reads and answers, one that says
//! twice a second how the load goes, and the collector with its intervals.

use core::net::SocketAddr;
use core::time::Duration;
use cpu::Clock;
use load::{Figures, Interval, Live, Outside, Stage};
use messages::{Beat, FromWorker, Hello, Lines, Measured, ORDER_LIMIT, Readiness, Reporter, ToWorker};
use say::Failure;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use wire::Time;

/// A controller is looked for this long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A controller that takes nothing for so long is gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// What was measured is offered to the controller for so long.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether all is ready.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same once the load is on, and nothing is to be seen but how it goes.
const LOOK_SELDOM: Duration = Duration::from_millis(100);

/// What a worker measures.
pub type WorkerPart = Box<Measured<Figures, Outside>>;

/// What it says.
type Word = FromWorker<WorkerPart, Interval>;

/// Its side of what is said.
type Side = Reporter<WorkerPart, Interval>;

/// A worker's connection to its controller.
#[derive(Clone)]
pub struct Post(Arc<Shared>);

struct Shared {
    /// Zero of the worker's own clock, which is all that it tells others of time.
    origin: Time,
    state: Mutex<State>,
    /// Whoever writes has it for a whole line.
    stream: Mutex<TcpStream>,
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
}

impl Post {
    /// Connects to the controller, and says who this is.
    ///
    /// # Errors
    /// If nobody is there.
    pub fn connect(controller: SocketAddr, hello: Hello) -> Result<Self, Failure> {
        let told = |why: std::io::Error| format!("the controller at {controller}: {why}");
        let stream = TcpStream::connect_timeout(&controller, CONNECT_PATIENCE).map_err(told)?;
        stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(WRITE_PATIENCE))).map_err(told)?;
        let reads = stream.try_clone().map_err(told)?;
        let state = State {
            side: Side::new(hello, Time::ZERO),
            setup: String::new(),
            lives: Vec::new(),
            signals: None,
            told: false,
            lost: false,
        };
        let (origin, state, stream) = (Clock.now(), Mutex::new(state), Mutex::new(stream));
        let post = Self(Arc::new(Shared { origin, state, stream, changed: Condvar::new() }));
        post.flush();
        let (reader, looker) = (post.clone(), post.clone());
        thread::Builder::new().name("near-orders".into()).spawn(move || reader.read(reads))?;
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
        if interval.stage >= Stage::WarmUp {
            self.write(&FromWorker::Interval::<WorkerPart, &Interval>(interval).line());
        }
    }

    /// Says that it cannot be done.
    pub fn fail(&self, why: &str) {
        self.state().side.on_failed(why);
        self.flush();
    }

    /// Says what was measured until the controller has it, or is gone.
    pub fn deliver(&self, part: WorkerPart) {
        let now = self.now();
        self.state().side.on_measured(part, now);
        self.flush();
        let mut state = self.state();
        while !state.side.is_over() && !state.lost && self.now().since(now) < DELIVERY_PATIENCE {
            let waited = self.0.changed.wait_timeout(state, LOOK_SELDOM);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let _ = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    }

    /// The time by the own clock.
    fn now(&self) -> Time {
        Time::ZERO + Clock.now().since(self.0.origin)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what the controller says, until it is gone.
    fn read(&self, mut stream: TcpStream) {
        let mut lines = Lines::new(ORDER_LIMIT);
        let mut bytes = [0; 4_096];
        loop {
            let read = match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let received = self.now();
            lines.push(bytes.get(..read).unwrap_or_default());
            loop {
                match lines.next() {
                    Ok(Some(line)) => match ToWorker::read(line) {
                        Ok(order) => self.on_order(order, received),
                        Err(_) => return self.lose(),
                    },
                    Ok(None) => break,
                    Err(_) => return self.lose(),
                }
            }
        }
        self.lose();
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

    /// Sends what is to be sent.
    fn flush(&self) {
        loop {
            let now = self.now();
            let word: Option<Word> = self.state().side.poll_send(now);
            let Some(word) = word else { return };
            self.write(&word.line());
        }
    }

    fn write(&self, line: &[u8]) {
        let mut stream = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.write_all(line).is_err() {
            // Half a line is none: whoever reads is to see the end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
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
