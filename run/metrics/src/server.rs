//! The thread that answers.

use crate::exposition::{Exposition, MEDIA_TYPE};
use crate::lifecycle::{Lifecycle, Readiness};
use crate::listener::{Answer, Clients, Endpoint};
use core::sync::atomic::{AtomicBool, Ordering};
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
    /// Another process tells in the place of this one, or nobody does: whatever stage was reached before.
    leaves: Arc<AtomicBool>,
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
        let leaves = Arc::new(AtomicBool::new(false));
        let (stages, woken, left) = (Arc::clone(&lifecycle), Arc::clone(&wake), Arc::clone(&leaves));
        let mut told = Told { exposition, last: None };
        let mut clients = Clients::new(endpoint);
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let mut answer = |path: &str| told.answer(path);
            loop {
                if left.load(Ordering::Acquire) {
                    clients.close(&mut answer);
                } else if stages.stage() >= Readiness::Serving
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
        Ok(Self { lifecycle, leaves, wake, shared, thread })
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
            self.leaves.store(true, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use super::*;
    use page::{Page, SeriesShape};
    use std::net::{SocketAddr, TcpStream};

    /// One that serves, and where.
    fn server(test: &str) -> (Server, SocketAddr) {
        let path = std::env::temp_dir().join(format!("nearside-metrics-{test}-{}.page", std::process::id()));
        let (page, _writers) = Page::create(&path, "serve", Duration::ZERO, &[], (1, SeriesShape::default())).unwrap();
        let lifecycle = Arc::new(Lifecycle::default());
        let exposition = Exposition::new(page.reader().unwrap(), Arc::clone(&lifecycle));
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = endpoint.address();
        let mut server = Server::start(endpoint, exposition, lifecycle).unwrap();
        server.advance(Readiness::Serving);
        (server, address)
    }

    /// Whether that comes, from within a minute.
    fn comes(what: impl Fn() -> bool) -> bool {
        (0..1_200).any(|_| {
            what() || {
                thread::sleep(Duration::from_millis(50));
                false
            }
        })
    }

    /// A process is told to stop while it tells in the place of its successor, and ends then.
    #[test]
    fn who_is_told_to_stop_ends_all_the_same() {
        let (mut server, address) = server("stop");
        server.advance(Readiness::Stopping);
        assert!(TcpStream::connect(address).is_ok(), "it says that it stops");
        let end = thread::spawn(|| server.end());
        assert!(comes(|| end.is_finished()), "it ends");
        assert!(TcpStream::connect(address).is_err(), "nobody is there");
    }

    /// Who is followed leaves the address to the successor, whatever it is told after that.
    #[test]
    fn who_is_followed_and_stops_does_not_answer_for_its_successor() {
        let (mut server, address) = server("followed");
        server.advance(Readiness::Followed);
        server.advance(Readiness::Stopping);
        assert!(comes(|| TcpStream::connect(address).is_err()));
        server.end();
    }
}
