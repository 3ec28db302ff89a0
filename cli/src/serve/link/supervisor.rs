//! The main thread of a process that serves over links: signals, systemd, and
//! the end.

use super::super::orders::{Orders, Stage};
use super::super::reload::{Dealer, Reload};
use super::super::{supervisor::count, systemd};
use crate::args::ServePlan;
use crate::host::Failure;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use silo::Clock;
use silo::page::Page;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use wire::Time;

/// How often the main thread looks up with nothing to do.
const IDLE: Duration = Duration::from_secs(1);

/// How often it does while the last silo ends.
const ENDING: Duration = Duration::from_millis(1);

/// Looks after the silos.
pub struct Supervisor<'a> {
    orders: &'a Orders,
    stops: Arc<AtomicUsize>,
    reopen: Arc<AtomicUsize>,
    reload: Reload,
    watchdog: Option<Duration>,
}

impl<'a> Supervisor<'a> {
    /// Takes the signals from their defaults.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new(orders: &'a Orders, plan: &ServePlan) -> std::io::Result<Self> {
        Ok(Self {
            orders,
            stops: count(&[SIGTERM, SIGINT], orders)?,
            reopen: crate::host::count_signals(&[SIGUSR1])?,
            reload: Reload::new(orders, plan)?,
            watchdog: systemd::watchdog(),
        })
    }

    /// How often the log was to be opened again: silos look at it.
    pub fn reopen(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.reopen)
    }

    /// Looks after the silos until they have ended, and has `announce` say
    /// when all have started. The `dealer` knows what is whose at a reload, and
    /// the page is for what comes of it.
    ///
    /// # Errors
    /// If the operating system does not wait.
    pub fn serve<T>(
        &mut self,
        fleet: &ScopedJoinHandle<'_, T>,
        (dealer, page): (&impl Dealer, &mut Page),
        announce: impl FnOnce(),
    ) -> Result<(), Failure> {
        let mut announce = Some(announce);
        let mut seen = 0;
        let mut next_alive = Time::ZERO;
        while !fleet.is_finished() {
            if self.orders.all_started()
                && let Some(announce) = announce.take()
            {
                announce();
                systemd::ready("serving");
            }
            let stops = self.stops.load(Ordering::Relaxed);
            if stops > seen {
                self.on_stops(seen, stops);
                seen = stops;
            }
            self.reload.look(self.orders, dealer, page);
            let now = Clock.now();
            if let Some(every) = self.watchdog.filter(|_| now >= next_alive) {
                next_alive = now + every;
                // A silo that hangs is for the watchdog to see.
                if now.since(self.orders.oldest_report()) < every {
                    systemd::alive();
                }
            }
            // The fleet's thread rings before it is finished.
            let ending = self.orders.stage() == Stage::Halt;
            self.wait(if ending { ENDING } else { self.watchdog.unwrap_or(IDLE).min(IDLE) })?;
        }
        Ok(())
    }

    /// SIGTERM and SIGINT: once to drain, twice to end.
    fn on_stops(&self, before: usize, stops: usize) {
        if before == 0 {
            eprintln!("stopping: finishing responses under way; once more to stop at once");
            systemd::stopping();
            self.orders.advance(Stage::Drain);
        }
        if stops > 1 {
            self.orders.advance(Stage::Halt);
        }
    }

    /// Sleeps until the bell rings, for `longest` at most.
    fn wait(&self, longest: Duration) -> Result<(), Failure> {
        let hears = self.orders.hears();
        match poll(&mut [PollFd::new(&hears, PollFlags::IN)], Some(&Timespec::try_from(longest)?)) {
            Ok(_) | Err(Errno::INTR) => {
                self.orders.heard();
                Ok(())
            }
            Err(why) => Err(format!("cannot wait (poll): {why}").into()),
        }
    }
}
