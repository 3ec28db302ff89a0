//! An application on either data path, until it is told to stop.

use crate::RunError;
use app::App;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState};
use silo::{Idle, Next, Silo, Usage};
use sockets::{Config, Endpoint, ListenOptions, Listeners, Worker};
use stack::{Address, LinkOffload, Seeds, Stack};
use wire::{Mac, Time};

/// How long what is under way may take to finish after a stop.
pub const DRAIN: Duration = Duration::from_secs(5);

/// An application on kernel sockets.
pub struct Kernel<A> {
    worker: Worker<A>,
    endpoints: Vec<Endpoint>,
}

impl<A: App> Kernel<A> {
    /// Listens, and takes connections when it is run. Several that listen on
    /// one endpoint have a queue each (SO_REUSEPORT).
    ///
    /// # Errors
    /// See [`RunError`]; nothing listens then.
    pub fn listen(endpoints: &[Endpoint], app: A) -> Result<Self, RunError> {
        Self::with(Config::default(), &ListenOptions::default(), endpoints, app)
    }

    /// For connections that the application opens itself.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn client(app: A) -> Result<Self, RunError> {
        let worker = Worker::new(Config::default(), Vec::new(), app).map_err(RunError::Start)?;
        Ok(Self { worker, endpoints: Vec::new() })
    }

    /// [`Kernel::listen`] with settings of the caller's own.
    ///
    /// # Errors
    /// See [`RunError`]; nothing listens then.
    pub fn with(config: Config, options: &ListenOptions, endpoints: &[Endpoint], app: A) -> Result<Self, RunError> {
        let listeners = Listeners::bind(endpoints, options, config.model, 1).map_err(RunError::Bind)?;
        let endpoints = listeners.endpoints();
        let worker = Worker::new(config, listeners.for_worker(0), app).map_err(RunError::Start)?;
        Ok(Self { worker, endpoints })
    }

    /// What is listened on: where port 0 was asked for, with the one that the
    /// kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Serves on this thread until `stop` is set; then accepts no more, and
    /// ends when the application has nothing under way, or after [`DRAIN`].
    ///
    /// # Errors
    /// If the kernel no longer waits for sockets.
    pub fn run(mut self, stop: &AtomicBool) -> Result<A, RunError> {
        self.worker.run(&mut Until { stop, since: None }).map_err(RunError::Wait)?;
        Ok(self.worker.app)
    }
}

/// An application on our own stack, over a link.
#[derive(Debug)]
pub struct Bypass<L, A> {
    /// Link, stack and application: [`Silo::turn`] takes one turn, for whoever
    /// has a loop of their own.
    pub silo: Silo<L, A>,
}

impl<L: Link, A: App> Bypass<L, A> {
    /// Has the addresses, and takes connections to `ports`; none, for a
    /// client. `mac` is our Ethernet address, a unicast one.
    ///
    /// # Errors
    /// If the operating system gives no random bits.
    pub fn new(link: L, mac: Mac, addresses: &[Address], ports: &[u16], app: A) -> Result<Self, RunError> {
        let mut config = stack::Config::new(mac, link.capabilities().mtu);
        config.addresses = addresses.to_vec();
        config.listen = ports.to_vec();
        Self::with(link, config, app)
    }

    /// [`Bypass::new`] with settings of the caller's own.
    ///
    /// # Errors
    /// If the operating system gives no random bits.
    pub fn with(link: L, mut config: stack::Config, app: A) -> Result<Self, RunError> {
        let capabilities = link.capabilities();
        config.shared_frames = capabilities.shared_frames;
        let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
        let seeds = Seeds { table: random()?, secret: random()?, timestamps: random()? };
        let stack = Stack::new(config, offload, &seeds, Clock.now());
        Ok(Self { silo: Silo { link, stack, app } })
    }

    /// Runs on this thread until `stop` is set; then accepts no more, and ends
    /// when the application has nothing under way, or after [`DRAIN`]. Sleeps
    /// while there is nothing to do.
    ///
    /// # Errors
    /// If the link can no longer be waited on.
    pub fn run(mut self, stop: &AtomicBool) -> Result<A, RunError> {
        silo::run(&mut self.silo, Idle::ADAPTIVE, &mut Until { stop, since: None }).map_err(RunError::Wait)?;
        Ok(self.silo.app)
    }
}

/// Ends a loop when it is told to, and nothing is left or time is up.
struct Until<'a> {
    stop: &'a AtomicBool,
    since: Option<Time>,
}

impl Until<'_> {
    /// Whether the end was asked for; and since when.
    fn asked(&mut self, now: Time) -> Option<(bool, Time)> {
        if !self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let first = self.since.is_none();
        Some((first, *self.since.get_or_insert(now)))
    }
}

impl<A: App> sockets::Attendant<A> for Until<'_> {
    fn attend(&mut self, worker: &mut Worker<A>, now: Time, _usage: &Usage) -> Next {
        let Some((first, since)) = self.asked(now) else { return Next::Go };
        if first {
            worker.stop_listening();
        }
        let over = worker.drain() && worker.connections() == 0;
        if over || now.since(since) >= DRAIN { Next::Stop } else { Next::Go }
    }
}

impl<L: Link, A: App> silo::Attendant<L, A> for Until<'_> {
    fn attend(&mut self, silo: &mut Silo<L, A>, now: Time, _usage: &Usage, _link: LinkState) -> Next {
        let Some((first, since)) = self.asked(now) else { return Next::Go };
        if first {
            silo.stack.stop_listening();
        }
        let over = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        if over || now.since(since) >= DRAIN { Next::Stop } else { Next::Go }
    }
}

fn random<const N: usize>() -> Result<[u64; N], RunError> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|why| RunError::Random(why.into()))?;
        }
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}
