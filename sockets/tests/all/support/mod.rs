//! A worker on a thread, and an application that echoes.

pub mod beside;
pub mod puppet;

use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::net::SocketAddr;
use sockets::{Attendant, Composite, Config, Counters, Endpoint, ListenOptions, Listener, Listeners, Model, Worker};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Time;

/// No test waits longer for anything: it is stuck then.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done`.
#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = cpu::Clock.now();
    while !done() {
        assert!(cpu::Clock.now().since(began) < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a worker that passed so often within this time sleeps when it has
/// nothing to do: one that does not passes thousands of times.
pub fn is_asleep(passes: u64, within: Duration) -> bool {
    passes < 10 + within.as_millis() as u64 / 10
}

/// Echoes what arrives, up to a limit of unsent bytes, and finishes when the
/// peer does.
#[derive(Debug, Default)]
pub struct Echo {
    pub opened: u64,
    /// How many were opened by all that share it, while they run.
    pub all: Arc<AtomicU64>,
    pub closed: Vec<Closed>,
    ended: Vec<bool>,
    /// When each was last heard of.
    heard: Vec<Time>,
}

impl Echo {
    /// One that counts into what others count into as well.
    pub fn counting(all: Arc<AtomicU64>) -> Self {
        Self { all, ..Self::default() }
    }
}

/// Unsent bytes from which on an [`Echo`] takes nothing.
pub const ECHO_LIMIT: usize = 256 * 1024;

impl App for Echo {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        self.opened += 1;
        self.all.fetch_add(1, Ordering::Relaxed);
        self.ended.resize(self.ended.len().max(id.index() + 1), false);
        self.ended[id.index()] = false;
        self.heard.resize(self.ended.len(), Time::ZERO);
        self.heard[id.index()] = net.now();
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if net.unsent(id) >= ECHO_LIMIT {
            return 0;
        }
        self.heard[id.index()] = net.now();
        let body = Body::new(data.to_vec());
        net.send_body(id, &body, 0..body.len());
        if self.ended[id.index()] {
            net.finish(id);
        }
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.ended[id.index()] = true;
        if held == 0 {
            net.finish(id);
        }
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        net.resume(id);
    }

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, why: Closed) {
        self.closed.push(why);
    }

    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        Wake::Idle
    }

    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        Some(now.since(*self.heard.get(id.index())?))
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// Stops a worker when it is told to.
pub struct Until(pub Arc<AtomicBool>);

impl<A: App> Attendant<A> for Until {
    fn attend(&mut self, _worker: &mut Worker<A>, _now: Time, _usage: &silo::Usage) -> silo::Next {
        if self.0.load(Ordering::Relaxed) { silo::Next::Stop } else { silo::Next::Go }
    }
}

impl<A: App> beside::Strings<A> for Until {
    const RINGS: bool = false;

    fn attend(&mut self, _silo: &mut silo::Silo<beside::Quiet, Composite<A>>) -> silo::Next {
        if self.0.load(Ordering::Relaxed) { silo::Next::Stop } else { silo::Next::Go }
    }

    fn wake<'a>(&'a self, app: &'a Composite<A>) -> Option<BorrowedFd<'a>> {
        Some(app.half().as_fd())
    }
}

/// The configuration, with the engine that is tested.
pub fn on_engine(config: Config) -> Config {
    Config { engine: crate::ENGINE, ..config }
}

/// A worker that runs.
pub struct Running<R> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(R, Counters)>,
}

impl<R> Running<R> {
    /// Stops it: what its application knows, and what it counted.
    pub fn stop(self) -> (R, Counters) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Runs an echo over `listeners`.
pub fn start_echo(config: Config, listeners: Vec<Listener>) -> Running<Echo> {
    start(config, listeners, Echo::default, |echo| echo)
}

/// Runs `make`'s application over `listeners`; `told` is what it is asked for
/// in the end.
pub fn start<A: App, R: Send + 'static>(
    config: Config,
    listeners: Vec<Listener>,
    make: impl FnOnce() -> A + Send + 'static,
    told: impl FnOnce(A) -> R + Send + 'static,
) -> Running<R> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        if crate::BESIDE {
            let (app, counters) = beside::run(config, listeners, make(), Until(asked));
            return (told(app), counters);
        }
        let mut worker = Worker::new(on_engine(config), listeners, make()).unwrap();
        worker.run(&mut Until(asked)).unwrap();
        let counters = worker.counters();
        (told(worker.app), counters)
    });
    Running { stop, thread }
}

/// Listens on a free port of 127.0.0.1.
pub fn listen(model: Model, workers: usize) -> (Listeners, SocketAddr) {
    listen_on("127.0.0.1:0", &ListenOptions::default(), model, workers)
}

/// Listens on a TCP endpoint.
pub fn listen_on(at: &str, options: &ListenOptions, model: Model, workers: usize) -> (Listeners, SocketAddr) {
    let listeners = Listeners::bind(&[at.parse().unwrap()], options, model, workers).unwrap();
    let Endpoint::Tcp(address) = listeners.endpoints()[0] else { panic!("a TCP socket") };
    (listeners, address)
}

/// A client that does not wait for ever.
pub fn client(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `bytes` and expects them back.
pub fn ask(stream: &mut (impl Read + Write), bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, bytes);
}
