//! One worker: its server, its column of the statistics page, and what the
//! main thread wants of it.

use super::orders::{Orders, PathSettings, Stage};
use super::wakes::Wakes;
use app::App;
use core::time::Duration;
use cpu::Clock;
use host::figures::Column;
use server::{Server, WallClock};
use silo::{ATTEND_EVERY, Next, Usage};
use sockets::steer::WorkCounter;
use sockets::{ATTEND_IDLE, Attendant, Config, Listener, Worker};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::Time;

/// How often the offset between the clocks is looked at: a stepped wall clock
/// shows in `Date` after this at the latest.
pub const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);

/// How long a drain may take beyond its limit: for resets to leave, and for
/// what the server takes its time to notice.
pub const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// What a worker starts from.
pub struct Start<'a> {
    /// Which one it is.
    pub index: usize,
    /// What it is to be.
    pub config: Config,
    /// What it serves.
    pub server: server::Config,
    /// What it accepts from.
    pub listeners: Vec<Listener>,
    /// Where its statistics go.
    pub column: Column,
    /// What it tells the program that deals out connections, if one looks.
    pub seat: Option<WorkCounter>,
    /// What is wanted of it.
    pub orders: &'a Orders,
    /// How often the log was to be opened again.
    pub reopen: &'a AtomicUsize,
}

/// Serves until it is told to end, or has drained.
///
/// # Errors
/// A sentence for the user.
pub fn run(start: Start<'_>) -> Result<(), String> {
    let Start { index, config, server, listeners, column, seat, orders, reopen } = start;
    let drain_limit = server.timeouts.drain.saturating_add(DRAIN_GRACE);
    let app = Server::new(server, WallClock::new(Clock.now(), Clock.unix())).map_err(|why| why.to_string())?;
    let mut worker = Worker::new(config, listeners, app).map_err(|why| why.to_string())?;
    worker.set_seat(seat);
    let wakes = Wakes::of([worker.app.wake_fd(), orders.worker_hears(index)].into_iter().flatten());
    let wakes = wakes.map_err(|why| format!("cannot wait for helper threads: {why}"))?;
    orders.report(index, 0, Clock.now());
    orders.on_started(|| match worker.engine() {
        (engine, None) => engine.to_string(),
        (engine, Some(why)) => format!("{engine} ({why})"),
    });
    orders.wait_for_release();
    let mut attendant = Attending {
        index,
        column,
        orders,
        reopen,
        reopened: reopen.load(Ordering::Relaxed),
        reloaded: 0,
        next_wall_clock: Time::ZERO,
        drain_limit,
        draining: None,
        retired: false,
        settling: false,
        published: 0,
        wakes,
    };
    worker.run(&mut attendant).map_err(|why| why.to_string())?;
    attendant.column.finish(Clock.now(), &worker);
    Ok(())
}

struct Attending<'a> {
    index: usize,
    column: Column,
    orders: &'a Orders,
    reopen: &'a AtomicUsize,
    reopened: usize,
    reloaded: usize,
    next_wall_clock: Time,
    /// The longest that a drain may take.
    drain_limit: Duration,
    /// Since when it drains.
    draining: Option<Time>,
    retired: bool,
    /// Timers are being set by new limits.
    settling: bool,
    /// [`Usage::busy_turns`] when the figures were published last.
    published: u64,
    /// What wakes the worker.
    wakes: Wakes,
}

impl Attendant<Server> for Attending<'_> {
    fn attend(&mut self, worker: &mut Worker<Server>, now: Time, usage: &Usage) -> Next {
        self.orders.worker_heard(self.index);
        if self.column.publish(now, usage, worker) {
            self.published = usage.busy_turns;
        }
        if now >= self.next_wall_clock {
            self.next_wall_clock = now + WALL_CLOCK_EVERY;
            worker.app.set_wall_clock(WallClock::new(now, Clock.unix()));
        }
        let reopen = self.reopen.load(Ordering::Relaxed);
        if reopen != self.reopened {
            self.reopened = reopen;
            worker.app.reopen_log();
        }
        let reloads = self.orders.reloads();
        if reloads != self.reloaded {
            self.reloaded = reloads;
            self.reload(worker);
        }
        if self.settling {
            self.settling = !worker.with(|app, net| app.settle(net));
        }
        let open = worker.connections();
        self.orders.report(self.index, open, now);
        match self.orders.stage() {
            Stage::Serve => Next::Go,
            Stage::Retire => self.retire(worker),
            Stage::Drain => self.drain(worker, now),
            Stage::Halt => Next::Stop,
        }
    }

    fn due(&self, worker: &Worker<Server>, now: Time, usage: &Usage) -> Time {
        let Some(pulse) = self.orders.pulse(worker.connections()).filter(|_| !self.settling) else {
            return now + ATTEND_IDLE;
        };
        // What happened last shows on the page, too.
        let page = if usage.busy_turns == self.published { Time::MAX } else { self.column.next() };
        (now + pulse).min(page.max(now + ATTEND_EVERY))
    }

    fn wake<'a>(&'a self, _app: &'a Server) -> Option<BorrowedFd<'a>> {
        Some(self.wakes.as_fd())
    }
}

impl Attending<'_> {
    #[cold]
    fn reload(&mut self, worker: &mut Worker<Server>) {
        let mut replaced = None;
        if let Some(news) = self.orders.news(self.index) {
            replaced = Some(worker.app.change(news.change));
            worker.set_max_connections(news.connections);
            if let PathSettings::Worker(spin) = news.path_settings {
                worker.set_spin(spin);
            }
            self.drain_limit = news.drain.saturating_add(DRAIN_GRACE);
            self.settling = true;
        }
        worker.app.reload();
        self.orders.on_reloaded(self.index, self.reloaded, replaced);
    }

    fn retire(&mut self, worker: &mut Worker<Server>) -> Next {
        if !self.retired {
            self.retired = true;
            worker.stop_listening();
            worker.app.retire();
        }
        // Those accepted last may be among them still: nobody is turned away.
        if worker.connections() == 0 { Next::Stop } else { Next::Go }
    }

    fn drain(&mut self, worker: &mut Worker<Server>, now: Time) -> Next {
        let since = *self.draining.get_or_insert_with(|| {
            worker.stop_listening();
            now
        });
        let done = worker.drain() && worker.connections() == 0;
        if done || now.since(since) >= self.drain_limit { Next::Stop } else { Next::Go }
    }
}
