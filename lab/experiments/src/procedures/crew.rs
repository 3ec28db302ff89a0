//! Workers of the kernel data path on threads of this process, and when they
//! sleep.

use crate::Failure;
use app::App;
use cpu::process_stat::{self, ProcessStat};
use demo::machine::now;
use rustix::thread::gettid;
use silo::{Next, Usage};
use sockets::fleet::{self, Stop};
use sockets::steer::Steering;
use sockets::{Attendant, Config, Endpoint, Engine, ListenOptions, Listeners, Model, Worker};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The most workers that an experiment may ask for.
pub(crate) const MAX_WORKERS: u32 = 256;

/// How long workers may take to go to sleep before something is wrong: the
/// machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_micros(50);

/// What a client sees of the workers.
#[derive(Debug)]
pub(crate) struct WorkersSeen<'a> {
    /// Where they listen.
    pub(crate) address: SocketAddr,
    threads: &'a [AtomicI32],
    stop: &'a Stop,
}

impl WorkersSeen<'_> {
    /// Waits until every worker sleeps in the kernel: each has done all that
    /// it had to, and the next connection finds them as an idle server's.
    ///
    /// # Errors
    /// If they do not within [`PATIENCE`].
    pub(crate) fn wait_asleep(&self) -> Result<(), Failure> {
        wait_asleep(self.threads, self.stop)
    }
}

/// Whether they ended early is for the fleet to say: it knows why.
fn wait_asleep(threads: &[AtomicI32], stop: &Stop) -> Result<(), Failure> {
    let end = now() + PATIENCE;
    for thread in threads {
        while !sleeps(thread.load(Ordering::Acquire)) {
            if stop.is_set() {
                return Err("a worker ended".into());
            }
            if now() > end {
                return Err(format!("the workers did not go to sleep within {PATIENCE:?}").into());
            }
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Whether a thread of this process sleeps until something comes (state S of
/// proc(5)): a worker that has work is running or about to.
fn sleeps(thread: i32) -> bool {
    let line = process_stat::line_of_own_thread(thread);
    line.as_deref().and_then(ProcessStat::parse).and_then(|stat| stat.state()) == Some('S')
}

/// Ends the workers when the client has returned.
struct Foreman<'a>(&'a Stop);

impl<A> Attendant<A> for Foreman<'_> {
    fn attend(&mut self, _worker: &mut Worker<A>, _now: wire::Time, _usage: &Usage) -> Next {
        if self.0.is_set() { Next::Stop } else { Next::Go }
    }
}

/// Runs `client` beside so many workers of this model, each with its own
/// application. Returns what the client returned, and the applications as
/// they were left.
///
/// Workers begin to wait one after the other, in their order, so that it is
/// known which has waited longest.
///
/// # Errors
/// If the workers cannot start, or the client's own.
pub(crate) fn beside<A: App + Send, R>(
    model: Model,
    cores: &[Option<u16>],
    make: impl Fn(usize) -> A + Sync,
    client: impl FnOnce(&WorkersSeen) -> Result<R, Failure>,
) -> Result<(R, Vec<A>), Failure> {
    let (listeners, steering) = listen(model, cores)?;
    let address = match listeners.endpoints().first() {
        Some(Endpoint::Tcp(address)) => *address,
        _ => return Err("the workers listen nowhere".into()),
    };
    let stop = Stop::default();
    let threads: Vec<AtomicI32> = cores.iter().map(|_| AtomicI32::new(0)).collect();
    let turn = AtomicUsize::new(0);
    let work = |index: usize| -> Result<A, String> {
        while turn.load(Ordering::Acquire) < index && !stop.is_set() {
            thread::sleep(LOOK);
        }
        let config = Config { model, engine: Engine::Epoll, ..Config::default() };
        let worker = Worker::new(config, listeners.for_worker(index), make(index));
        let mut worker = worker.map_err(|why| why.to_string())?;
        worker.set_seat(steering.as_ref().and_then(|steering| steering.seat(index)));
        threads[index].store(gettid().as_raw_pid(), Ordering::Release);
        worker.run(&mut Foreman(&stop)).map_err(|why| why.to_string())?;
        Ok(worker.app)
    };
    thread::scope(|scope| {
        let fleet = scope.spawn(|| fleet::run(cores, &stop, work));
        let seen = (1..=cores.len()).try_for_each(|count| {
            wait_asleep(&threads[..count], &stop)?;
            turn.store(count, Ordering::Release);
            Ok::<(), Failure>(())
        });
        let crew = WorkersSeen { address, threads: &threads, stop: &stop };
        let outcome = seen.and_then(|()| client(&crew));
        stop.set();
        let ended = fleet.join().map_err(|_| "a worker panicked")?;
        // Why the workers ended says more than what the client made of it.
        let apps = ended.map_err(|why| why.to_string())?;
        Ok((outcome?, apps))
    })
}

/// Listening sockets on a port of their own, with the program that chooses
/// among them, if the model has one.
fn listen(model: Model, cores: &[Option<u16>]) -> Result<(Listeners, Option<Steering>), Failure> {
    let loopback = Endpoint::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    let listeners = Listeners::bind(&[loopback], &ListenOptions::default(), model, cores.len())?;
    let steering = Steering::attach(&listeners, cores, &topology::Topology::here()?)?;
    Ok((listeners, steering))
}

/// Whether there is a core for each worker, and one to spare for the client.
pub(crate) fn has_cores(workers: u32) -> bool {
    demo::machine::allowed_cores().len() > workers as usize
}

/// Where each worker is pinned: to a core of its own where there are as many;
/// by turns for the model that keeps connections on their core, which it
/// cannot do for workers that wander; else nowhere.
pub(crate) fn cores(model: Model, workers: u32) -> Vec<Option<u16>> {
    let allowed = demo::machine::allowed_cores();
    let pinned = has_cores(workers) || model == Model::Local;
    (0..workers as usize).map(|index| allowed.get(index % allowed.len().max(1)).copied().filter(|_| pinned)).collect()
}

/// Why a model cannot be had here, if so.
pub(crate) fn missing(model: Model) -> Option<String> {
    listen(model, &[None]).err().map(|why| why.to_string())
}
