//! What the main thread wants of the workers, and what they tell it.

use super::bell::Bell;
use super::systemd;
use super::wakes::{PULSE, PULSE_WITH_CONNECTIONS};
use crate::plan::PortPlan;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use rustix::event::{EventfdFlags, eventfd};
use server::{Change, Replaced};
use silo::Pace;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use tcp::congestion::Algorithm;
use wire::Time;

/// What workers are to do; only ever further down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Accept and serve.
    Serve,
    /// A successor accepts: serve each connection's next request as its last.
    Retire,
    /// Finish what is under way, and refuse the rest.
    Drain,
    /// End at once.
    Halt,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Serve, Self::Retire, Self::Drain, Self::Halt];
}

/// Shared by all threads of a process that serves.
#[derive(Debug)]
pub struct Orders {
    stage: AtomicU8,
    started: AtomicUsize,
    /// Whether those that have started may begin.
    gate: Mutex<bool>,
    opened: Condvar,
    /// How often the content was to be read again.
    reloads: AtomicUsize,
    workers: Vec<Report>,
    /// How workers learn of work: the same for all.
    engine: OnceLock<String>,
    /// Something is under way that a worker which sleeps may have a part in.
    restless: AtomicBool,
    /// How often each looks up at least.
    pulse: Duration,
    /// Wakes the main thread.
    bell: Bell,
}

/// What one worker last told. On a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Report {
    /// Wakes it.
    bell: OwnedFd,
    /// The bell was rung.
    rung: AtomicBool,
    connections: AtomicUsize,
    /// When, in nanoseconds of the clock.
    at: AtomicU64,
    /// How often it has read the content again, and taken settings up.
    reloads: AtomicUsize,
    /// What it is to take up next, and what it has no more use for. Locked
    /// for a reload only.
    mail: Mutex<Mail>,
}

#[derive(Debug, Default)]
struct Mail {
    news: Option<NewSettings>,
    replaced: Option<Replaced>,
}

/// Settings of one worker, or silo, that are others now; made ready by the
/// main thread.
#[derive(Debug)]
pub struct NewSettings {
    /// The server's.
    pub change: Change,
    /// The most connections that it is to hold.
    pub connections: usize,
    /// The longest that a drain may take.
    pub drain: Duration,
    /// How it trades latency for processor time.
    pub path_settings: PathSettings,
}

/// What a silo's link and stack are told.
#[derive(Clone, Debug)]
pub struct SiloSettings {
    /// How it trades latency for processor time.
    pub pace: Pace,
    /// Congestion control of new connections.
    pub congestion: Algorithm,
    /// What is listened on.
    pub listen: Box<PortPlan>,
}

/// How one trades latency for processor time, and what else is of its data
/// path.
#[derive(Clone, Debug)]
pub enum PathSettings {
    /// A silo's.
    Silo(SiloSettings),
    /// How long a worker over kernel sockets polls.
    Worker(Duration),
}

impl Orders {
    /// Orders for so many workers: to serve.
    ///
    /// # Errors
    /// If the operating system gives no socket.
    pub fn new(workers: usize) -> std::io::Result<Self> {
        let workers: std::io::Result<Vec<Report>> = (0..workers).map(|_| Report::new()).collect();
        Ok(Self {
            stage: AtomicU8::new(Stage::Serve as u8),
            started: AtomicUsize::new(0),
            gate: Mutex::new(false),
            opened: Condvar::new(),
            reloads: AtomicUsize::new(0),
            engine: OnceLock::new(),
            workers: workers?,
            restless: AtomicBool::new(false),
            // A watchdog is told of each worker that it is at work.
            pulse: systemd::watchdog().map_or(PULSE, |every| (every / 2).min(PULSE)),
            bell: Bell::new()?,
        })
    }

    /// What to do.
    pub fn stage(&self) -> Stage {
        let stage = usize::from(self.stage.load(Ordering::Acquire));
        Stage::ALL.get(stage).copied().unwrap_or(Stage::Halt)
    }

    /// From now on `stage`, unless it is already later.
    pub fn advance(&self, stage: Stage) {
        self.stage.fetch_max(stage as u8, Ordering::AcqRel);
        // Nobody is kept waiting for a beginning at the end.
        self.release();
        self.ring_workers();
    }

    /// Has all workers that sleep look up.
    pub fn ring_workers(&self) {
        for report in &self.workers {
            // One that is full is readable. Noted last: a bell that is noted
            // and silent is heard in vain, one that is not noted rings on.
            let _ = rustix::io::write(&report.bell, &1_u64.to_ne_bytes());
            report.rung.store(true, Ordering::Release);
        }
    }

    /// Readable when the bell of worker `index` rang, until
    /// [`Orders::worker_heard`].
    pub fn worker_hears(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.workers.get(index).map(|report| report.bell.as_fd())
    }

    /// Worker `index` is awake. One load, for every look.
    #[inline]
    pub fn worker_heard(&self, index: usize) {
        if let Some(report) = self.workers.get(index)
            && report.rung.load(Ordering::Acquire)
        {
            report.rung.store(false, Ordering::Relaxed);
            let _ = rustix::io::read(&report.bell, &mut [0; 8]);
        }
    }

    /// While a successor is coming, whoever sleeps looks up often.
    pub fn set_restless(&self, restless: bool) {
        if self.restless.swap(restless, Ordering::AcqRel) != restless && restless {
            self.ring_workers();
        }
    }

    /// How long a worker with so many connections may sleep, where nothing is
    /// for it to do: `None` if something is under way.
    pub fn pulse(&self, connections: usize) -> Option<Duration> {
        let quiet = self.stage() == Stage::Serve && !self.restless.load(Ordering::Acquire);
        let longest = if connections > 0 { PULSE_WITH_CONNECTIONS } else { PULSE };
        quiet.then(|| self.pulse.min(longest))
    }

    /// The content is to be read again, and settings are to be taken up:
    /// those of each worker, in their order, or none. Only when
    /// [`Orders::all_reloaded`].
    pub fn reload(&self, news: Vec<NewSettings>) {
        for (report, news) in self.workers.iter().zip(news) {
            report.mail().news = Some(news);
        }
        self.reloads.fetch_add(1, Ordering::AcqRel);
        self.ring_workers();
    }

    /// How often it was to be. One load, for every look of a worker.
    #[inline]
    pub fn reloads(&self) -> usize {
        self.reloads.load(Ordering::Acquire)
    }

    /// What worker `index` is to take up.
    pub fn news(&self, index: usize) -> Option<NewSettings> {
        self.workers.get(index)?.mail().news.take()
    }

    /// Worker `index` has read the content again so often, and has no more
    /// use for `replaced`.
    pub fn on_reloaded(&self, index: usize, reloads: usize, replaced: Option<Replaced>) {
        if let Some(report) = self.workers.get(index) {
            report.mail().replaced = replaced;
            report.reloads.store(reloads, Ordering::Release);
        }
        self.ring();
    }

    /// Whether all have, as often as they were to.
    pub fn all_reloaded(&self) -> bool {
        let asked = self.reloads();
        self.workers.iter().all(|report| report.reloads.load(Ordering::Acquire) == asked)
    }

    /// What workers have no more use for: to be dropped where that may take
    /// its time.
    pub fn replaced(&self) -> Vec<Replaced> {
        self.workers.iter().filter_map(|report| report.mail().replaced.take()).collect()
    }

    /// A worker is ready to accept connections, and learns of work so.
    pub fn on_started(&self, engine: impl FnOnce() -> String) {
        self.engine.get_or_init(engine);
        self.started.fetch_add(1, Ordering::AcqRel);
        self.ring();
    }

    /// All that have started may begin.
    pub fn release(&self) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Waits until a worker that has started may begin: the process has given
    /// its rights up by then.
    pub fn wait_for_release(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(gate, |open| !*open));
    }

    /// How workers learn of work, once one has started.
    pub fn engine(&self) -> &str {
        self.engine.get().map_or("none", String::as_str)
    }

    /// Whether all do.
    pub fn all_started(&self) -> bool {
        self.started.load(Ordering::Acquire) == self.workers.len()
    }

    /// Worker `index` is at work, with so many connections.
    pub fn report(&self, index: usize, connections: usize, now: Time) {
        if let Some(report) = self.workers.get(index) {
            report.connections.store(connections, Ordering::Relaxed);
            report.at.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Connections of all workers, as last told.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|report| report.connections.load(Ordering::Relaxed)).sum()
    }

    /// The time of the report that is longest ago.
    pub fn oldest_report(&self) -> Time {
        let oldest = self.workers.iter().map(|report| report.at.load(Ordering::Relaxed)).min();
        Time::from_nanos(oldest.unwrap_or(0))
    }

    /// Has the main thread look up.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// What has the main thread look up.
    pub const fn bell(&self) -> &Bell {
        &self.bell
    }
}

impl Report {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            rung: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            at: AtomicU64::new(0),
            reloads: AtomicUsize::new(0),
            mail: Mutex::default(),
        })
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        // One that panicked while it held it left a value whole.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn a_reload_is_over_when_the_last_has_taken_it_up() {
        let orders = Orders::new(2).unwrap();
        assert!(orders.all_reloaded());
        orders.reload(Vec::new());
        assert!(!orders.all_reloaded() && orders.news(0).is_none());
        orders.on_reloaded(0, 1, None);
        assert!(!orders.all_reloaded());
        orders.on_reloaded(1, 1, None);
        assert!(orders.all_reloaded() && orders.replaced().is_empty());
        // One that is not there is not waited for.
        orders.on_reloaded(2, 7, None);
        assert!(orders.all_reloaded());
    }

    #[test]
    fn stages_only_go_on() {
        let orders = Orders::new(1).unwrap();
        for (asked, then) in [
            (Stage::Serve, Stage::Serve),
            (Stage::Drain, Stage::Drain),
            (Stage::Retire, Stage::Drain),
            (Stage::Halt, Stage::Halt),
            (Stage::Serve, Stage::Halt),
        ] {
            orders.advance(asked);
            assert_eq!(orders.stage(), then);
        }
        for (index, stage) in Stage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, index);
        }
    }

    #[test]
    fn a_worker_hears_of_orders_and_may_sleep_while_there_are_none() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let orders = Orders::new(2).unwrap();
        let rings = |index: usize| {
            let bell = orders.worker_hears(index).unwrap();
            let rings =
                poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1;
            orders.worker_heard(index);
            rings
        };
        assert!(!rings(0) && orders.worker_hears(2).is_none());
        assert_eq!((orders.pulse(0), orders.pulse(1)), (Some(PULSE), Some(PULSE_WITH_CONNECTIONS)));
        orders.reload(Vec::new());
        assert!(rings(0) && !rings(0) && rings(1));
        orders.set_restless(true);
        assert!(rings(0) && rings(1) && orders.pulse(0).is_none());
        orders.set_restless(true);
        orders.set_restless(false);
        assert!(!rings(0) && orders.pulse(0).is_some());
        orders.advance(Stage::Retire);
        assert!(rings(0) && rings(1) && orders.pulse(0).is_none());
    }

    #[test]
    fn the_main_thread_hears_of_all_and_of_the_slowest() {
        let orders = Orders::new(2).unwrap();
        orders.on_started(|| "epoll".to_owned());
        assert!(!orders.all_started());
        orders.on_started(|| "another".to_owned());
        assert_eq!(orders.engine(), "epoll");
        assert!(orders.all_started());
        orders.report(0, 3, Time::from_millis(20));
        orders.report(1, 4, Time::from_millis(10));
        orders.report(2, 100, Time::ZERO);
        assert_eq!((orders.connections(), orders.oldest_report()), (7, Time::from_millis(10)));
        for _ in 0..100_000 {
            orders.ring();
        }
        orders.bell().heard();
        let hears = orders.bell().hears();
        let readable = || poll(&mut [PollFd::new(&hears, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1;
        assert!(!readable());
        orders.ring();
        assert!(readable());
    }
}
