//! The same over sockets of the kernel, in real time: a worker that goes to sleep though its
//! application has work, or that a clock woke and that then queued more, waited for a clock.

use super::asker::Asker;
use super::cases::{Case, Takes};
use super::origin::Origin;
use super::site::Site;
use app::App;
use core::net::SocketAddr;
use core::time::Duration;
use cpu::Clock;
use server::Server;
use silo::{Next, Usage};
use sockets::{Attendant, Config, Endpoint, ListenOptions, Listeners, Model, Worker};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wire::Time;

/// How long nothing may happen before a case is over that has not ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a worker that sleeps looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);

/// So often a case may go on by a clock before that is objected to: a helper that is done, and says so,
/// between the moment at which a clock has woken its worker and the worker's look for it looks the
/// same. What waits for a clock does so each time.
const TRIES: u32 = 3;

/// What the server's attendant saw of its sleeps.
#[derive(Debug, Default)]
struct Sleeps {
    /// Events so far, and bytes queued, when it last went to sleep.
    before: Mutex<Option<(u64, u64)>>,
    /// How often it went to sleep with work to do.
    with_work: AtomicU64,
    /// How often it queued more after a sleep that nothing but a clock ended.
    by_clock: AtomicU64,
}

struct Watching {
    stop: Arc<AtomicBool>,
    sleeps: Arc<Sleeps>,
}

impl Watching {
    fn has_queued(worker: &Worker<Server>) -> (u64, u64) {
        (worker.counters().wakes, worker.app.snapshot().bytes_queued)
    }
}

impl Attendant<Server> for Watching {
    fn attend(&mut self, _worker: &mut Worker<Server>, _now: Time, _usage: &Usage) -> Next {
        if self.stop.load(Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }

    fn due(&self, worker: &Worker<Server>, now: Time, _usage: &Usage) -> Time {
        let (events, queued) = Self::has_queued(worker);
        let mut before = self.sleeps.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.replace((events, queued)).is_some_and(|(woken, had)| woken == events && queued > had) {
            self.sleeps.by_clock.fetch_add(1, Ordering::Relaxed);
        }
        if worker.app.has_work() {
            self.sleeps.with_work.fetch_add(1, Ordering::Relaxed);
        }
        now + LOOK
    }

    fn wake<'a>(&'a self, app: &'a Server) -> Option<BorrowedFd<'a>> {
        app.wake_fd()
    }
}

/// Runs until it is told to stop.
struct Until(Arc<AtomicBool>);

impl<A: App> Attendant<A> for Until {
    fn attend(&mut self, _worker: &mut Worker<A>, _now: Time, _usage: &Usage) -> Next {
        if self.0.load(Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }

    fn due(&self, _worker: &Worker<A>, now: Time, _usage: &Usage) -> Time {
        now + LOOK
    }
}

/// Stops with its case.
struct Asking(Time);

impl Attendant<Asker> for Asking {
    fn attend(&mut self, worker: &mut Worker<Asker>, now: Time, _usage: &Usage) -> Next {
        if worker.app.is_done() || now > self.0 { Next::Stop } else { Next::Go }
    }

    fn due(&self, worker: &Worker<Asker>, now: Time, _usage: &Usage) -> Time {
        if worker.app.is_done() { now } else { now + LOOK }
    }
}

/// A worker on a thread, over a free port.
fn start<A: App + 'static, T: Attendant<A>>(
    make: impl FnOnce() -> A + Send + 'static,
    attendant: impl FnOnce() -> T + Send + 'static,
    config: Config,
) -> (SocketAddr, JoinHandle<()>) {
    let endpoint = "127.0.0.1:0".parse().unwrap_or_else(|why| panic!("{why}"));
    let listeners = Listeners::bind(&[endpoint], &ListenOptions::default(), Model::Reuseport, 1);
    let listeners = listeners.unwrap_or_else(|why| panic!("{why}"));
    let Endpoint::Tcp(at) = listeners.endpoints()[0] else { panic!("a TCP socket") };
    let thread = std::thread::spawn(move || {
        let worker = Worker::new(config, listeners.for_worker(0), make());
        let mut worker = worker.unwrap_or_else(|why| panic!("{why}"));
        worker.run(&mut attendant()).unwrap_or_else(|why| panic!("{why}"));
    });
    (at, thread)
}

/// What is wrong with answers to all of these, over the kernel's sockets, whose buffers have so
/// many bytes where that is told.
///
/// # Panics
/// There are no sockets.
#[must_use]
pub fn over_sockets(site: &Site, cases: &[Case], buffer: Option<u32>) -> Vec<String> {
    let mut config = Config::default();
    (config.stream.send_buffer, config.stream.receive_buffer) = (buffer, buffer);
    let (stop, sleeps) = (Arc::new(AtomicBool::new(false)), Arc::new(Sleeps::default()));
    let until = Arc::clone(&stop);
    let (origin_at, origin) = start(Origin::default, move || Until(until), config.clone());
    let served = site.clone();
    let (watched, asked_to_stop) = (Arc::clone(&sleeps), Arc::clone(&stop));
    let (mut to, server) = start(
        move || served.server(origin_at, Clock.now()),
        move || Watching { stop: asked_to_stop, sleeps: watched },
        config.clone(),
    );
    let mut threads = vec![origin, server];
    let mut watched = vec![sleeps];
    if site.is_secured() {
        let (before, sleeps, stop) = (site.clone(), Arc::new(Sleeps::default()), Arc::clone(&stop));
        watched.push(Arc::clone(&sleeps));
        let (front_at, front) =
            start(move || before.front(to, Clock.now()), move || Watching { stop, sleeps }, config.clone());
        threads.push(front);
        to = front_at;
    }
    let mut objections = Vec::new();
    for case in cases {
        let sum = |count: fn(&Sleeps) -> &AtomicU64| {
            watched.iter().map(|sleeps| count(sleeps).load(Ordering::Relaxed)).sum::<u64>()
        };
        let seen = || [sum(|sleeps| &sleeps.with_work), sum(|sleeps| &sleeps.by_clock)];
        let object = |what: String| format!("{}: {what}", case.name);
        // Of what is queued for a client that takes little, each turn may add to it.
        let is_free = case.is_paced || case.takes != Takes::All;
        for left in (0..TRIES).rev() {
            let before = seen();
            let mut asker = Asker::default();
            asker.ask(to, case);
            let worker = Worker::new(config.clone(), Vec::new(), asker);
            let mut worker = worker.unwrap_or_else(|why| panic!("{why}"));
            let outcome = worker.run(&mut Asking(Clock.now() + PATIENCE));
            outcome.unwrap_or_else(|why| panic!("{why}"));
            let is_done = worker.app.is_done();
            let asked = worker.app.take();
            if !is_done {
                objections.push(object(format!("no end, {} bytes came", asked.arrived.len())));
                break;
            }
            objections.extend(case.objection(&asked).map(object));
            let [with_work, by_clock] = seen();
            let (slept, woke) = (with_work - before[0], if is_free { 0 } else { by_clock - before[1] });
            if slept == 0 && woke > 0 && left > 0 {
                continue;
            }
            if slept > 0 || woke > 0 {
                objections.push(object(format!("slept with work {slept} times, went on by a clock {woke} times")));
            }
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap_or_else(|_| panic!("a worker panicked"));
    }
    objections
}
