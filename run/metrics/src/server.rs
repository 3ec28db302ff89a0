//! The thread that answers.

use crate::exposition::{Exposition, MEDIA_TYPE};
use crate::lifecycle::{Lifecycle, Readiness};
use crate::listener::{Answer, Clients, Endpoint};
use core::time::Duration;
use cpu::Clock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use wire::Time;

/// The thread's name, by which it is known what it may do.
pub const THREAD: &str = "metrics";

/// A text is given to all who ask within so long.
const FRESH: Duration = Duration::from_millis(100);

/// Answers by a thread of its own, until the process ends, with what `answer` says
/// of a path.
///
/// # Errors
/// If there can be no thread.
pub fn answer_at(endpoint: Endpoint, mut answer: impl FnMut(&str) -> Answer + Send + 'static) -> io::Result<()> {
    let never = eventfd(0, EventfdFlags::CLOEXEC)?;
    let mut clients = Clients::new(endpoint);
    let run = move || while clients.turn(never.as_fd(), &mut answer).is_ok() {};
    thread::Builder::new().name(THREAD.to_owned()).spawn(run).map(drop)
}

/// Tells of a process that serves.
#[derive(Debug)]
pub struct Server {
    lifecycle: Arc<Lifecycle>,
    wake: Arc<OwnedFd>,
    /// What is listened by, for a successor, until one serves.
    shared: Option<OwnedFd>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Begins to answer, at `endpoint`.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(endpoint: Endpoint, exposition: Exposition, lifecycle: Arc<Lifecycle>) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = endpoint.shared().ok();
        let (stages, woken) = (Arc::clone(&lifecycle), Arc::clone(&wake));
        let mut told = Told { exposition, last: None };
        let mut clients = Clients::new(endpoint);
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let mut answer = |path: &str| told.answer(path);
            loop {
                let stage = stages.stage();
                if stage == Readiness::Followed {
                    clients.close(&mut answer);
                } else if stage >= Readiness::Serving
                    && let Err(why) = clients.listen()
                {
                    say::error(format_args!("metrics are not to be had: {why}"));
                    clients.close(&mut answer);
                }
                if clients.is_over() || clients.turn(woken.as_fd(), &mut answer).is_err() {
                    return;
                }
                // Not readable, most of the time.
                let _ = rustix::io::read(&*woken, &mut [0; 8]);
            }
        })?;
        Ok(Self { lifecycle, wake, shared, thread })
    }

    /// What is listened by, for a successor.
    #[must_use]
    pub fn shared(&self) -> Option<BorrowedFd<'_>> {
        self.shared.as_ref().map(AsFd::as_fd)
    }

    /// Another process tells in the place of this one: waits until those who have asked this one are answered.
    pub fn end(mut self) {
        self.advance(Readiness::Followed);
        let _ = self.thread.join();
    }

    /// The process has come so far.
    pub fn advance(&mut self, stage: Readiness) {
        if stage == Readiness::Followed {
            self.shared = None;
        }
        self.lifecycle.advance(stage);
        // One that is full is readable.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// What is said, and was said last.
struct Told {
    exposition: Exposition,
    last: Option<(Time, Arc<str>)>,
}

impl Told {
    fn answer(&mut self, path: &str) -> Answer {
        let state = |what: Result<(), String>, well: &str| match what {
            Ok(()) => Answer::text("200 OK", well),
            Err(why) => Answer::text("503 Service Unavailable", &format!("{why}\n")),
        };
        match path {
            "/metrics" => Answer { status: "200 OK", media_type: MEDIA_TYPE, body: self.text() },
            "/healthz" => state(self.exposition.alive(), "alive\n"),
            "/readyz" => state(self.exposition.ready(), "ready\n"),
            _ => Answer::text("404 Not Found", "here are /metrics, /healthz and /readyz\n"),
        }
    }

    fn text(&mut self) -> Arc<str> {
        let now = Clock.now();
        match &self.last {
            Some((made, text)) if now.since(*made) < FRESH => Arc::clone(text),
            _ => {
                let text: Arc<str> = self.exposition.text().into();
                self.last = Some((now, Arc::clone(&text)));
                text
            }
        }
    }
}
