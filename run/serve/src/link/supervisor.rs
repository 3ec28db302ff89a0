//! The main thread of a process that serves over links: signals, systemd, a
//! predecessor and a successor, and the end.

use super::super::control::{Channel, Listener};
use super::super::orders::{Orders, Stage};
use super::super::reload::{Prepare, Reload};
use super::super::succession::{Outcome, Succession};
use super::super::supervisor::{count, remove_pid_file, write_pid_file};
use super::super::systemd;
use super::super::takeover::{Predecessor, control_path};
use super::super::wakes::PULSE;
use super::Following;
use super::own_ports::OwnPorts;
use crate::plan::{RestartPlan, ServePath, ServePlan};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use host::HostPlan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use silo::Clock;
use silo::page::Page;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use wire::Time;

/// How often it does while the last silo ends.
const ENDING: Duration = Duration::from_millis(1);

/// Looks after the silos.
pub struct Supervisor<'a> {
    orders: &'a Orders,
    stops: Arc<AtomicUsize>,
    restarts: Arc<AtomicUsize>,
    /// How many of them were seen to.
    stopped: usize,
    restarted: usize,
    reopened: usize,
    reopen: Arc<AtomicUsize>,
    reload: Reload,
    watchdog: Option<Duration>,
    next_alive: Time,
    restart: Option<Restart<'a>>,
}

/// How this process follows another, and another this one: where links can
/// change hands.
pub struct Restart<'a> {
    plan: RestartPlan,
    own_ports: &'a OwnPorts,
    predecessor: Option<&'a Predecessor>,
    /// The statistics page has a place of its own: a successor's too.
    own_page: bool,
    /// Where it is to be once the predecessor's has gone.
    page: Option<&'a Path>,
    control: Option<Listener>,
    succession: Succession,
    /// Shows the successor that this process lives.
    successor: Option<Channel>,
    /// After a successor took over: when what is left is drained.
    drain_at: Option<Time>,
}

impl<'a> Restart<'a> {
    /// By `plan`, for a process on `host`.
    pub fn new(program: PathBuf, plan: &RestartPlan, host: &HostPlan, following: &'a Following<'_>) -> Self {
        Self {
            plan: plan.clone(),
            own_ports: &following.own_ports,
            predecessor: following.predecessor,
            own_page: host.status_page.is_some(),
            page: following.page.as_deref(),
            control: None,
            succession: Succession::new(program, plan.timeout),
            successor: None,
            drain_at: None,
        }
    }
}

impl<'a> Supervisor<'a> {
    /// Takes the signals from their defaults.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new(orders: &'a Orders, plan: &ServePlan, restart: Option<Restart<'a>>) -> std::io::Result<Self> {
        Ok(Self {
            orders,
            stops: count(&[SIGTERM, SIGINT], orders)?,
            restarts: count(&[SIGUSR2], orders)?,
            stopped: 0,
            restarted: 0,
            reopen: count(&[SIGUSR1], orders)?,
            reopened: 0,
            reload: Reload::new(orders, plan)?,
            watchdog: systemd::watchdog(),
            next_alive: Time::ZERO,
            restart,
        })
    }

    /// How often the log was to be opened again: silos look at it.
    pub fn reopen(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.reopen)
    }

    /// Looks after the silos until they have ended, and has `announce` say
    /// when all have started: with the process that was followed, and for how
    /// long nobody received. The `prepare` knows what is whose at a reload, and
    /// the page is for what comes of it.
    ///
    /// # Errors
    /// If the operating system does not wait, or a predecessor does not give
    /// way.
    pub fn serve<T>(
        &mut self,
        fleet: &ScopedJoinHandle<'_, T>,
        (prepare, page): (&impl Prepare, &mut Page),
        announce: impl FnOnce(Option<(u32, Duration)>),
    ) -> Result<(), Failure> {
        let mut announce = Some(announce);
        while !fleet.is_finished() {
            if self.orders.all_started()
                && self.orders.stage() == Stage::Serve
                && let Some(announce) = announce.take()
            {
                let took_over = self.restart.as_mut().map_or(Ok(None), |restart| restart.begin(page))?;
                announce(took_over);
                systemd::ready("serving");
            }
            let now = Clock.now();
            self.on_stops();
            self.on_restarts(now);
            self.on_reopen();
            self.reload.look(self.orders, prepare, page);
            if let Some(restart) = &mut self.restart {
                restart.on_plan(self.reload.plan());
                restart.look(self.orders, page, now);
            }
            if let Some(every) = self.watchdog.filter(|_| now >= self.next_alive) {
                self.next_alive = now + every;
                // A silo that hangs is for the watchdog to see.
                if now.since(self.orders.oldest_report()) < every {
                    systemd::alive();
                }
            }
            // The fleet's thread rings before it is finished.
            let ending = self.orders.stage() == Stage::Halt;
            self.wait(if ending { ENDING } else { self.watchdog.unwrap_or(PULSE).min(PULSE) }, now)?;
        }
        if let Some(restart) = &mut self.restart {
            restart.end();
        }
        Ok(())
    }

    /// SIGTERM and SIGINT: once to drain, twice to end.
    fn on_stops(&mut self) {
        let stops = self.stops.load(Ordering::Relaxed);
        if stops == self.stopped {
            return;
        }
        if self.stopped == 0 {
            say::info("stopping: finishing responses under way; once more to stop at once");
            systemd::stopping();
            if let Some(restart) = &mut self.restart {
                restart.give_up();
                restart.control = None;
            }
            self.orders.advance(Stage::Drain);
        }
        if stops > 1 {
            self.orders.advance(Stage::Halt);
        }
        self.stopped = stops;
    }

    /// SIGUSR1: each silo opens its log again.
    fn on_reopen(&mut self) {
        let reopen = self.reopen.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.reopened, reopen) != reopen {
            self.orders.ring_workers();
        }
    }

    /// SIGUSR2: a successor is started.
    fn on_restarts(&mut self, now: Time) {
        let restarts = self.restarts.load(Ordering::Relaxed);
        if restarts == self.restarted {
            return;
        }
        self.restarted = restarts;
        let refused = match (&mut self.restart, self.orders.stage()) {
            (None, _) => "take-over is for kernel sockets and af_xdp, without --capture and faults",
            (_, Stage::Retire) => "a successor serves already",
            (_, Stage::Drain | Stage::Halt) => "this process is stopping",
            (Some(restart), Stage::Serve) => match restart.start_successor(now) {
                Ok(()) => return,
                Err(why) => why,
            },
        };
        say::warning(format_args!("no successor is started: {refused}"));
    }

    /// Sleeps until something happens, for `longest` at most.
    fn wait(&self, longest: Duration, now: Time) -> Result<(), Failure> {
        let hears = self.orders.hears();
        let mut fds = vec![PollFd::new(&hears, PollFlags::IN)];
        let mut until = now + longest;
        if let Some(restart) = &self.restart {
            restart.poll_fds(&mut fds, now);
            let times = [restart.succession.deadline(), restart.drain_at].into_iter().flatten();
            until = times.filter(|time| *time > now).fold(until, Time::min);
        }
        // Rounded up: a deadline is over when this returns.
        let span = until.since(Clock.now()) + Duration::from_micros(50);
        match poll(&mut fds, Some(&Timespec::try_from(span)?)) {
            Ok(_) | Err(Errno::INTR) => {
                self.orders.heard();
                Ok(())
            }
            Err(why) => Err(format!("cannot wait (poll): {why}").into()),
        }
    }
}

impl<'a> Restart<'a> {
    /// All silos have started: takes over from the predecessor, if there is
    /// one, and may be followed from now on. Returns whom it has followed, and
    /// for how long nobody received.
    fn begin(&mut self, page: &mut Page) -> Result<Option<(u32, Duration)>, Failure> {
        let mut took_over = None;
        if let Some(predecessor) = self.predecessor {
            let waited = self.own_ports.take_over(predecessor)?;
            took_over = Some((predecessor.pid(), waited));
            if let Err(why) = predecessor.wait_for_places() {
                say::warning(format_args!("the process before this one ended early: {why}"));
            }
        }
        if let Some(path) = self.page {
            page.move_to(path).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        if let Some(path) = control_path(&self.plan)? {
            let listener = Listener::bind(&path, took_over.is_some());
            self.control = Some(listener.map_err(|why| format!("control socket {}: {why}", path.display()))?);
        }
        write_pid_file(&self.plan)?;
        Ok(took_over)
    }

    fn poll_fds<'f>(&'f self, fds: &mut Vec<PollFd<'f>>, now: Time) {
        fds.extend(self.control.as_ref().and_then(|control| control.poll_fd(now)));
        if let Some(predecessor) = self.predecessor.filter(|_| self.own_ports.relays()) {
            fds.push(PollFd::new(predecessor, PollFlags::IN));
        }
        fds.extend(self.succession.poll_fds());
    }

    /// What is in force may have changed.
    fn on_plan(&mut self, plan: &ServePlan) {
        if let ServePath::Link { restart: Some(restart), .. } = &plan.path {
            (self.plan.timeout, self.plan.drain) = (restart.timeout, restart.drain);
            self.succession.set_timeout(restart.timeout);
        }
    }

    /// Sees to whoever asks, or has ended.
    fn look(&mut self, orders: &Orders, page: &mut Page, now: Time) {
        if self.own_ports.relays() && self.predecessor.is_some_and(Predecessor::has_ended) {
            self.own_ports.on_predecessor_gone();
            orders.ring_workers();
        }
        if let Some(channel) = self.control.as_mut().and_then(|control| control.next(now)) {
            self.succession.on_asked(channel, now);
        }
        // A silo that sleeps is to hear of what it is asked.
        orders.set_restless(self.succession.is_coming());
        if self.succession.is_coming() {
            let own_ports = self.own_ports;
            match self.succession.step_with(|channel| own_ports.offer(channel), now) {
                Outcome::Pending => {}
                Outcome::Followed(pid) => self.on_ready(pid, orders, page, now),
                Outcome::Failed(why) => self.on_failed(&why),
            }
        }
        if self.drain_at.is_some_and(|at| now >= at) {
            orders.advance(Stage::Drain);
        }
    }

    fn start_successor(&mut self, now: Time) -> Result<(), &'static str> {
        let control = self.control.as_ref().ok_or("there is no control socket (--control off)")?;
        if self.succession.is_coming() {
            return Err("a successor is on its way");
        }
        systemd::reloading("starting its successor");
        match self.succession.begin(control.path(), now) {
            Ok(pid) => say::info(format_args!("starting a successor: process {pid}")),
            Err(why) => self.on_failed(&why),
        }
        Ok(())
    }

    /// A successor waits for the queues.
    fn on_ready(&mut self, pid: u32, orders: &Orders, page: &mut Page, now: Time) {
        let channel = self.succession.channel();
        let handed =
            channel.map_or(Err("the successor went away".to_owned()), |channel| self.own_ports.hand_over(channel));
        if let Err(why) = handed {
            self.give_up();
            return self.on_failed(&why);
        }
        // Its own files stand in the places of ours next. Ours are gone
        // before: to look whose it is and to remove it cannot be done in one.
        if self.own_page {
            page.disown();
        }
        self.control = None;
        match self.succession.give_way() {
            Ok(channel) => self.successor = channel,
            // The queues were its own: there is no way back.
            Err(why) => say::warning(format_args!("process {pid} took over, and {why}")),
        }
        let open = orders.connections();
        say::info(format_args!("process {pid} serves; {open} connections end with their next response"));
        orders.advance(Stage::Retire);
        self.drain_at = Some(now + self.plan.drain);
        systemd::succeeded(pid);
    }

    fn on_failed(&mut self, why: &str) {
        self.own_ports.resume();
        say::error(format_args!("{why}; this process serves on"));
        systemd::ready(&format!("serving; {why}"));
    }

    /// Ends a successor that does not serve yet.
    fn give_up(&mut self) {
        self.succession.give_up();
        if self.drain_at.is_none() {
            self.own_ports.resume();
        }
    }

    fn end(&mut self) {
        self.give_up();
        if self.drain_at.is_none() {
            remove_pid_file(&self.plan);
        }
    }
}
