//! What the main thread wants of the workers, and what they tell it.

use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
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
    /// How often the content was to be read again.
    reloads: AtomicUsize,
    workers: Vec<Report>,
    /// How workers learn of work: the same for all.
    engine: OnceLock<String>,
    /// Wakes the main thread.
    bell: UnixStream,
    hears: UnixStream,
}

/// What one worker last told. On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Report {
    connections: AtomicUsize,
    /// When, in nanoseconds of the clock.
    at: AtomicU64,
}

impl Orders {
    /// Orders for so many workers: to serve.
    ///
    /// # Errors
    /// If the operating system gives no socket.
    pub fn new(workers: usize) -> std::io::Result<Self> {
        let (bell, hears) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        hears.set_nonblocking(true)?;
        Ok(Self {
            stage: AtomicU8::new(Stage::Serve as u8),
            started: AtomicUsize::new(0),
            reloads: AtomicUsize::new(0),
            engine: OnceLock::new(),
            workers: (0..workers).map(|_| Report::default()).collect(),
            bell,
            hears,
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
    }

    /// The content is to be read again.
    pub fn reload(&self) {
        self.reloads.fetch_add(1, Ordering::AcqRel);
    }

    /// How often it was to be.
    pub fn reloads(&self) -> usize {
        self.reloads.load(Ordering::Relaxed)
    }

    /// A worker accepts connections, and learns of work so.
    pub fn on_started(&self, engine: impl FnOnce() -> String) {
        self.engine.get_or_init(engine);
        self.started.fetch_add(1, Ordering::AcqRel);
        self.ring();
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
        // A full bell rings already.
        let _ = (&self.bell).write(&[0]);
    }

    /// The bell's other end, for signals to ring it too.
    ///
    /// # Errors
    /// If the operating system gives no descriptor.
    pub fn rope(&self) -> std::io::Result<UnixStream> {
        self.bell.try_clone()
    }

    /// Readable when the bell rang; silent again after [`Orders::heard`].
    pub fn hears(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    /// The bell was heard.
    pub fn heard(&self) {
        while matches!((&self.hears).read(&mut [0; 64]), Ok(64)) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        orders.heard();
        assert_eq!((&orders.hears).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
