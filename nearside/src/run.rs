//! An application on kernel sockets, until it is told to stop.

use crate::RunError;
use app::App;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use silo::{Next, Usage};
use sockets::{Config, Endpoint, ListenOptions, Listeners, Worker};
use std::os::fd::BorrowedFd;
use wire::Time;

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
        self.worker.run(&mut Until::new(stop)).map_err(RunError::Wait)?;
        Ok(self.worker.app)
    }
}

/// Ends a loop when it is told to, and nothing is left or time is up.
pub(crate) struct Until<'a> {
    stop: &'a AtomicBool,
    since: Option<Time>,
}

impl<'a> Until<'a> {
    pub(crate) const fn new(stop: &'a AtomicBool) -> Self {
        Self { stop, since: None }
    }

    /// Whether the end was asked for; and since when.
    pub(crate) fn asked(&mut self, now: Time) -> Option<(bool, Time)> {
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

    fn wake<'b>(&'b self, app: &'b A) -> Option<BorrowedFd<'b>> {
        app.wake_fd()
    }
}
