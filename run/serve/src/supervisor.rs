//! The main thread of a process that serves over kernel sockets: signals, the
//! control socket, systemd, and the end.

use super::control::{Listener, Offered};
use super::kernel::Even;
use super::orders::{Orders, Stage};
use super::pid_file;
use super::reload::Reload;
use super::succession::{Outcome, Succession};
use super::systemd;
use super::wakes::PULSE;
use crate::plan::{RestartPlan, ServePath, ServePlan};
use core::time::Duration;
use host::figures::Board;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use say::Failure;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use silo::Clock;
use sockets::{Endpoint, Listeners};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use wire::Time;

/// What a service manager opened, and keeps.
pub struct Managed {
    /// What is listened on.
    pub endpoint: Endpoint,
    /// The name that it was given.
    pub name: Option<String>,
}

/// Looks after the workers.
pub struct Supervisor<'a> {
    plan: RestartPlan,
    orders: &'a Orders,
    /// Gone once nothing is to be accepted any more.
    listeners: Option<Listeners>,
    endpoints: Vec<Endpoint>,
    managed: Vec<Managed>,
    board: Board,
    /// The statistics page has a place of its own: a successor's too.
    own_page: bool,
    control: Option<Listener>,
    succession: Succession,
    stops: Arc<AtomicUsize>,
    restarts: Arc<AtomicUsize>,
    reload: Reload,
    reopen: Arc<AtomicUsize>,
    /// How many of each were seen to.
    stopped: usize,
    restarted: usize,
    reopened: usize,
    watchdog: Option<Duration>,
    next_alive: Time,
    /// After a successor took over: when what is left is drained.
    drain_at: Option<Time>,
}

impl<'a> Supervisor<'a> {
    /// Takes the signals from their defaults.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new(
        program: PathBuf,
        plan: &RestartPlan,
        orders: &'a Orders,
        (listeners, managed): (Listeners, Vec<Managed>),
        (board, own_page): (Board, bool),
        (whole, reopen): (&ServePlan, &Arc<AtomicUsize>),
    ) -> Result<Self, Failure> {
        Ok(Self {
            plan: plan.clone(),
            orders,
            endpoints: listeners.endpoints(),
            listeners: Some(listeners),
            managed,
            board,
            own_page,
            control: None,
            succession: Succession::new(program, plan.timeout),
            stops: count(&[SIGTERM, SIGINT], orders)?,
            restarts: count(&[SIGUSR2], orders)?,
            reload: Reload::new(orders, whole)?,
            reopen: Arc::clone(reopen),
            stopped: 0,
            restarted: 0,
            reopened: 0,
            watchdog: systemd::watchdog(),
            next_alive: Time::ZERO,
            drain_at: None,
        })
    }

    /// What is listened on.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Moves the statistics page to where the predecessor's was.
    ///
    /// # Errors
    /// As rename(2).
    pub fn move_page(&mut self, path: &Path) -> Result<(), Failure> {
        self.board.move_to(path).map_err(|why| format!("{}: {why}", path.display()).into())
    }

    /// Waits until all workers accept. False if they ended instead, or are
    /// told to.
    ///
    /// # Errors
    /// If the operating system does not wait.
    pub fn start<T>(&mut self, fleet: &ScopedJoinHandle<'_, T>) -> Result<bool, Failure> {
        while !self.orders.all_started() {
            if fleet.is_finished() || self.orders.stage() != Stage::Serve {
                return Ok(false);
            }
            self.wait(Clock.now() + PULSE)?;
            self.on_stops();
        }
        Ok(self.orders.stage() == Stage::Serve)
    }

    /// Looks after the workers until they have ended. A successor may ask at
    /// `control`, in place of the socket there if this process `replaces`
    /// another.
    ///
    /// # Errors
    /// If the control socket or the file with the process id cannot be made,
    /// or the operating system does not wait.
    pub fn serve<T>(
        &mut self,
        fleet: &ScopedJoinHandle<'_, T>,
        control: Option<&Path>,
        replaces: bool,
    ) -> Result<(), Failure> {
        if let Some(path) = control {
            let listener = Listener::bind(path, replaces);
            self.control = Some(listener.map_err(|why| format!("control socket {}: {why}", path.display()))?);
        }
        write_pid_file(&self.plan)?;
        systemd::ready("serving");
        while !fleet.is_finished() {
            let now = Clock.now();
            self.on_stops();
            self.on_restarts(now);
            self.on_reopen();
            self.on_reload();
            self.on_control(now);
            self.on_succession(now);
            self.on_time(now);
            // The fleet's thread rings before it is finished.
            let until =
                if self.orders.stage() == Stage::Halt { now + Duration::from_millis(1) } else { self.until(now) };
            self.wait(until)?;
        }
        self.succession.give_up();
        if self.drain_at.is_none() {
            remove_pid_file(&self.plan);
        }
        Ok(())
    }

    /// Sleeps until something happens.
    fn wait(&self, until: Time) -> Result<(), Failure> {
        let hears = self.orders.hears();
        let mut fds = vec![PollFd::new(&hears, PollFlags::IN)];
        let now = Clock.now();
        fds.extend(self.control.as_ref().and_then(|control| control.poll_fd(now)));
        fds.extend(self.succession.poll_fds());
        // Rounded up: a deadline is over when this returns.
        let span = until.since(now) + Duration::from_micros(50);
        match poll(&mut fds, Some(&Timespec::try_from(span)?)) {
            Ok(_) | Err(Errno::INTR) => self.orders.heard(),
            Err(why) => return Err(format!("cannot wait (poll): {why}").into()),
        }
        Ok(())
    }

    /// When to look up, if nothing happens.
    fn until(&self, now: Time) -> Time {
        let alive = self.watchdog.map(|_| self.next_alive);
        let times = [self.succession.deadline(), alive, self.drain_at].into_iter().flatten();
        times.filter(|time| *time > now).fold(now + PULSE, Time::min)
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
            self.succession.give_up();
            self.control = None;
            self.orders.advance(Stage::Drain);
        }
        if stops > 1 {
            self.orders.advance(Stage::Halt);
        }
        self.stopped = stops;
        self.listeners = None;
    }

    /// SIGUSR2: a successor is started.
    fn on_restarts(&mut self, now: Time) {
        let restarts = self.restarts.load(Ordering::Relaxed);
        if restarts == self.restarted {
            return;
        }
        self.restarted = restarts;
        let refused = match (&self.control, self.orders.stage()) {
            (_, Stage::Retire) => "a successor serves already",
            (_, Stage::Drain | Stage::Halt) => "this process is stopping",
            (None, Stage::Serve) => "there is no control socket (--control off)",
            (Some(_), Stage::Serve) if self.succession.is_coming() => "a successor is on its way",
            (Some(control), Stage::Serve) => {
                systemd::reloading("starting its successor");
                match self.succession.begin(control.path(), now) {
                    Ok(pid) => say::info(format_args!("starting a successor: process {pid}")),
                    Err(why) => self.on_failed(&why),
                }
                return;
            }
        };
        say::warning(format_args!("no successor is started: {refused}"));
    }

    /// SIGUSR1: each worker opens its log again.
    fn on_reopen(&mut self) {
        let reopen = self.reopen.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.reopened, reopen) != reopen {
            self.orders.ring_workers();
        }
    }

    /// SIGHUP: settings and content are read again.
    fn on_reload(&mut self) {
        let prepare = Even(self.orders.workers());
        self.reload.look(self.orders, &prepare, self.board.page());
        if let ServePath::Kernel(plan) = &self.reload.plan().path {
            (self.plan.timeout, self.plan.drain) = (plan.restart.timeout, plan.restart.drain);
            self.succession.set_timeout(self.plan.timeout);
        }
    }

    /// Somebody asks for the sockets.
    fn on_control(&mut self, now: Time) {
        if let Some(channel) = self.control.as_mut().and_then(|control| control.next(now)) {
            self.succession.on_asked(channel, now);
        }
    }

    fn on_succession(&mut self, now: Time) {
        let Some(listeners) = self.listeners.as_ref().filter(|_| self.succession.is_coming()) else { return };
        let sockets: Vec<(Offered, BorrowedFd<'_>)> = listeners
            .iter()
            .map(|(endpoint, socket)| {
                let managed = self.managed.iter().find(|managed| managed.endpoint == *endpoint);
                let name = managed.and_then(|managed| managed.name.clone());
                (Offered { endpoint: endpoint.to_string(), managed: managed.is_some(), name }, socket)
            })
            .collect();
        match self.succession.step(&sockets, now) {
            Outcome::Pending => {}
            Outcome::Followed(pid) => self.on_followed(pid, now),
            Outcome::Failed(why) => self.on_failed(&why),
        }
    }

    fn on_followed(&mut self, pid: u32, now: Time) {
        // Its own files stand in the places of ours next. Ours are gone
        // before: to look whose it is and to remove it cannot be done in one.
        if self.own_page {
            self.board.disown();
        }
        let control = self.control.take().map(|control| control.path().to_owned());
        if let Err(why) = self.succession.give_way() {
            let again = control.map(|path| Listener::bind(&path, true));
            let told = |why: &std::io::Error| say::error(format_args!("control socket: {why}"));
            self.control = again.and_then(|bound| bound.inspect_err(told).ok());
            return self.on_failed(&format!("the successor failed: {why}"));
        }
        let open = self.orders.connections();
        say::info(format_args!("process {pid} serves; {open} connections end with their next response"));
        self.orders.advance(Stage::Retire);
        if let Some(mut listeners) = self.listeners.take() {
            listeners.disown_files();
        }
        self.drain_at = Some(now + self.plan.drain);
        systemd::succeeded(pid);
    }

    fn on_failed(&self, why: &str) {
        say::error(format_args!("{why}; this process serves on"));
        systemd::ready(&format!("serving; {why}"));
    }

    fn on_time(&mut self, now: Time) {
        if self.drain_at.is_some_and(|at| now >= at) {
            self.orders.advance(Stage::Drain);
        }
        if let Some(every) = self.watchdog.filter(|_| now >= self.next_alive) {
            self.next_alive = now + every;
            // A worker that hangs is for the watchdog to see.
            if now.since(self.orders.oldest_report()) < every {
                systemd::alive();
            }
        }
    }
}

/// Makes the file with the process id, if there is to be one.
///
/// # Errors
/// With its path.
pub fn write_pid_file(plan: &RestartPlan) -> Result<(), Failure> {
    let Some(path) = &plan.pid_file else { return Ok(()) };
    pid_file::write(path).map_err(|why| format!("cannot write {}: {why}", path.display()).into())
}

/// Removes the file with the process id, if it is still ours.
pub fn remove_pid_file(plan: &RestartPlan) {
    let Some(path) = &plan.pid_file else { return };
    pid_file::remove(path);
}

/// Counts signals, and has each ring.
pub fn count(signals: &[i32], orders: &Orders) -> std::io::Result<Arc<AtomicUsize>> {
    let count = host::count_signals(signals)?;
    for &signal in signals {
        // Handlers run in the order of their registration: it is counted when
        // this wakes.
        signal_hook::low_level::pipe::register(signal, orders.rope()?)?;
    }
    Ok(count)
}
