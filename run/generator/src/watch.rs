//! What disturbed a run, as far as this machine tells, in looks some
//! milliseconds apart: threads of the generator and of the server that were
//! ready and had no core, and cores that the hypervisor had. Never a latency:
//! a server that is slow because it has too much to do has its core.
//!
//! A thread's wait counts beyond what waking takes anyway, and beyond what the
//! other watched threads worked that may use its core: generator, server and
//! the kernel's network threads may wait for each other, that is the load
//! itself. Where they do, a wait for somebody else cannot be told from theirs;
//! [`Lookout::is_blind`] says that this was so.

mod owner;
mod threads;
mod wakes;

pub use owner::Whereabouts;

use core::time::Duration;
use cpu::Clock;
use cpu::pin::allowed_cores;
use load::{Cause, Disturbance};
use threads::{Group, Threads};
use wakes::Sleepers;
use wire::Time;

/// Shorter disturbances are not looked for, at least and at most.
const LIMITS: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(1));

/// Looks after which threads are listed anew.
const LIST_EVERY: Duration = Duration::from_millis(500);

/// Share of looks in which it may be unknown for whom a thread waited.
const UNSURE_TOLERANCE: f64 = 0.05;

/// Cores whose wakes are watched, at most.
const CORES_LIMIT: usize = 16;

/// The watch over all runs of a search.
#[derive(Debug)]
pub struct Lookout {
    server: Whereabouts,
    threads: Threads,
    wakes: Sleepers,
    limit: Duration,
    last: Time,
    listed: Time,
    looks: u64,
    unsure: u64,
}

impl Lookout {
    /// Watches a search against this server; the generator is this process, on
    /// these cores (none: on any).
    pub fn new(server: Whereabouts, cores: &[u16], bound: Option<Duration>) -> Self {
        let limit = bound.map_or(LIMITS.1, |bound| (bound / 4).clamp(LIMITS.0, LIMITS.1));
        let mut threads = Threads::new();
        let own = std::process::id();
        threads.list(own, &server);
        let mut watched = cores.to_vec();
        let allowed = allowed_cores().unwrap_or_default();
        let anywhere = cores.is_empty() || matches!(server, Whereabouts::Hidden);
        watched.extend(allowed.into_iter().filter(|core| anywhere || threads.may_use(Group::Server, *core)));
        watched.sort_unstable();
        watched.dedup();
        watched.truncate(CORES_LIMIT);
        let wakes = Sleepers::start(&watched, limit);
        let now = Clock.now();
        Self { server, threads, wakes, limit, last: now, listed: now, looks: 0, unsure: 0 }
    }

    /// A run begins.
    pub fn begin(&mut self) {
        self.wakes.begin();
        self.list();
        (self.last, self.looks, self.unsure) = (self.listed, 0, 0);
    }

    /// Finds threads that are new.
    pub fn list(&mut self) {
        self.threads.list(std::process::id(), &self.server);
        self.listed = Clock.now();
    }

    /// What disturbed since the last look (`loaded`: while the load was on), and perhaps a little before: a wait
    /// is known when it is over. Answers the time until which this is told.
    pub fn look(&mut self, loaded: bool, mut each: impl FnMut(Disturbance)) -> Time {
        let now = Clock.now();
        if now.since(self.listed) >= LIST_EVERY {
            self.list();
        }
        let found = self.threads.look(self.limit);
        self.looks += 1;
        self.unsure += u64::from(found.unsure);
        let waits = [(found.generator, Cause::GeneratorWaited), (found.server, Cause::ServerWaited)];
        for (waited, by) in waits {
            let Some(waited) = waited else { continue };
            let nanos = waited.as_nanos() as u64;
            let from = Time::from_nanos(self.last.as_nanos().saturating_sub(nanos));
            each(Disturbance { from, until: now, by });
        }
        self.wakes.note_pace(loaded);
        for (from, until) in self.wakes.found() {
            each(Disturbance { from, until, by: Cause::Stolen });
        }
        self.last = now;
        now
    }

    /// Whether in this run it could not be told for whom threads waited.
    pub fn is_blind(&self) -> bool {
        let mutual = self.unsure as f64 > UNSURE_TOLERANCE * self.looks.max(1) as f64;
        matches!(self.server, Whereabouts::Hidden) || mutual
    }

    /// What a fixed piece of work took on the slowest core while the load was
    /// on, in nanoseconds.
    pub fn pace(&self) -> Option<f64> {
        self.wakes.pace()
    }

    /// The share of one core's time that the hypervisor took since the run
    /// began in moments too short to be found.
    pub fn stolen_unseen(&self) -> f64 {
        self.wakes.unseen()
    }
}
