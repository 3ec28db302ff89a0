//! The main thread of a process that serves, over either data path: what is asked
//! of it, systemd, a predecessor and a successor, and the end.

use super::asked::Asked;
use super::control::{Channel, ChannelError, Listener};
use super::exposed;
use super::orders::{Orders, Stage};
use super::pid_file;
use super::places;
use super::reload::{Prepare, Reload};
use super::succession::{Outcome, Succession};
use super::systemd;
use super::takeover::control_path;
use super::waiting;
use super::wakes::PULSE;
use super::ward::{self, ParentWish, Ward};
use crate::plan::{Control, RestartPlan, ServePath, ServePlan, SignalRules};
use core::time::Duration;
use cpu::Clock;
use host::drivers::take_over_is_for;
use metrics::Endpoint;
use page::Page;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use say::Failure;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use wire::Time;

/// How often it looks up while the last worker ends: the fleet's thread rings
/// before it is finished.
const ENDING: Duration = Duration::from_millis(1);

/// How long whom it has followed by tells metrics for a successor that does not say that it does.
const TELLING: Duration = Duration::from_secs(10);

/// What differs between the data paths.
pub trait DataPath {
    /// Who knows what each worker's part of a plan is.
    type Prepare: Prepare;

    /// Whether this process serves on if a successor that was given everything
    /// fails after all.
    const GOES_BACK: bool;

    /// Whether another process is followed whose work the workers of this one
    /// take over: they must be at it then.
    fn takes_work(&self) -> bool {
        false
    }

    /// All workers are ready: takes over from the predecessor, if there is one,
    /// whose places of files are free when this returns. Tells whom it has
    /// followed, and for how long nobody received, where that is known.
    ///
    /// # Errors
    /// If it does not give way: this process must end then.
    fn follow(&mut self) -> Result<Option<(u32, Option<Duration>)>, Failure>;

    /// This process tells metrics from now on: whom it has followed need not any more.
    fn on_answering(&mut self) {}

    /// Gives a successor what it asks for.
    ///
    /// # Errors
    /// If it cannot be had, or the successor is gone.
    fn offer(&self, channel: &Channel) -> Result<(), ChannelError>;

    /// A successor is ready: it has everything when this returns.
    ///
    /// # Errors
    /// If it does not take it; [`DataPath::resume`] is next.
    fn hand_over(&mut self, channel: Option<&Channel>) -> Result<(), String>;

    /// Goes on, or back to where it was before a successor asked.
    fn resume(&self) {}

    /// A successor serves.
    fn on_followed(&mut self) {}

    /// Other settings are taken up.
    fn on_reloaded(&mut self, plan: &ServePlan) {
        let _ = plan;
    }

    /// Nobody is to be accepted any more.
    fn on_stop(&mut self) {}

    /// What else to wait for.
    fn poll_fds<'f>(&'f self, fds: &mut Vec<PollFd<'f>>) {
        let _ = fds;
    }

    /// Once in each look; whether a successor `is_coming`.
    fn look(&mut self, orders: &Orders, is_coming: bool) {
        let _ = (orders, is_coming);
    }

    /// Who prepares a reload, and the page that it is told on.
    fn parts(&mut self) -> (&Self::Prepare, &mut Page);
}

/// Where the statistics page of a process is.
#[derive(Clone, Debug, Default)]
pub struct PagePlace {
    /// It has a place of its own: a successor's too.
    pub own: bool,
    /// Where it is to be once the predecessor's has gone.
    pub next: Option<PathBuf>,
}

/// Looks after the workers.
pub struct Supervisor<'a, P> {
    path: P,
    orders: &'a Orders,
    asked: Asked,
    /// How many of each were seen to.
    stopped: usize,
    restarted: usize,
    reopened: usize,
    /// All workers serve.
    begun: bool,
    page: PagePlace,
    /// Who tells of this process over HTTP, once it has begun to.
    endpoint: Option<Endpoint>,
    metrics: Option<metrics::Server>,
    /// How to restart; `None` where another process cannot have the links.
    restart: Option<RestartPlan>,
    control: Option<Listener>,
    succession: Succession,
    /// Shows the successor that this process lives.
    successor: Option<Channel>,
    /// The successor says when it tells metrics; until then this process does.
    tells_until: Option<Time>,
    reload: Reload,
    ward: Option<&'static Ward>,
    watchdog: Option<Duration>,
    next_alive: Time,
    /// After a successor took over: when what is left is drained.
    drain_at: Option<Time>,
}

impl<'a, P: DataPath> Supervisor<'a, P> {
    /// For the workers of `orders`, who serve `plan`; a successor is started from
    /// `program`. Metrics are to be had at the endpoint.
    pub fn new(
        program: PathBuf,
        plan: &ServePlan,
        (orders, asked): (&'a Orders, Asked),
        path: P,
        (page, endpoint): (PagePlace, Option<Endpoint>),
    ) -> Self {
        let restart = restart_of(plan).cloned();
        let timeout = restart.as_ref().map_or(Duration::ZERO, |restart| restart.timeout);
        Self {
            path,
            orders,
            asked,
            stopped: 0,
            restarted: 0,
            reopened: 0,
            begun: false,
            page,
            endpoint,
            metrics: None,
            restart,
            control: None,
            succession: Succession::new(program, timeout),
            successor: None,
            tells_until: None,
            reload: Reload::new(plan),
            ward: ward::here(),
            watchdog: systemd::watchdog(),
            next_alive: Time::ZERO,
            drain_at: None,
        }
    }

    /// Looks after the workers until they have ended, and has `announce` say when
    /// all serve: with the process that was followed, and for how long nobody
    /// received.
    ///
    /// # Errors
    /// If the operating system does not wait, a predecessor does not give way,
    /// rights cannot be given up, or a file cannot be made.
    pub fn serve<T>(
        &mut self,
        fleet: &ScopedJoinHandle<'_, T>,
        announce: impl FnOnce(&mut P, Option<(u32, Option<Duration>)>),
    ) -> Result<(), Failure> {
        let mut announce = Some(announce);
        if let Some(endpoint) = self.endpoint.take() {
            self.metrics = Some(exposed::start(endpoint, self.path.parts().1)?);
        }
        while !fleet.is_finished() {
            let ready = self.orders.all_started() && self.orders.stage() == Stage::Serve;
            if let Some(announce) = announce.take_if(|_| ready) {
                let took_over = self.begin()?;
                announce(&mut self.path, took_over);
                self.write_pid_file()?;
                waiting::started();
                systemd::ready("serving");
                exposed::advance(self.metrics.as_mut(), metrics::Readiness::Serving);
                self.path.on_answering();
                self.begun = true;
            }
            let now = Clock.now();
            self.on_ward();
            self.on_stops();
            if self.begun {
                self.on_restarts(now);
                self.on_reload();
            }
            self.on_reopen();
            self.on_succession(now);
            self.tell_no_more(now);
            self.on_time(now);
            let until = if self.orders.stage() == Stage::Halt { now + ENDING } else { self.until(now) };
            self.wait(until)?;
        }
        self.give_up();
        self.leave_metrics()?;
        if let Some(path) = self.pid_file().filter(|_| self.drain_at.is_none()) {
            pid_file::remove(path);
        }
        Ok(())
    }

    /// All workers are ready: this process takes everything over, gives up what
    /// rights it needs no more, and serves.
    fn begin(&mut self) -> Result<Option<(u32, Option<Duration>)>, Failure> {
        if self.path.takes_work() || self.ward.is_none() {
            self.orders.release();
        }
        let took_over = self.path.follow()?;
        if let Some(place) = self.page.next.take() {
            let moved = self.path.parts().1.move_to(&place);
            moved.map_err(|why| format!("{}: {why}", place.display()))?;
        }
        self.control = match self.restart.as_ref().map(|plan| listen(plan, took_over.is_some())) {
            None => None,
            Some(Ok(listener)) => listener,
            // What nobody has asked for is gone without.
            Some(Err(why)) if self.restart.as_ref().is_some_and(|plan| plan.control == Control::Usual) => {
                say::warning(format_args!("there will be no restart without a gap: {why}"));
                None
            }
            Some(Err(why)) => return Err(why.into()),
        };
        if let Some(ward) = self.ward {
            ward.seal(self.reload.plan())?;
        }
        self.orders.release();
        if took_over.is_some() && matches!(self.reload.plan().signals, SignalRules::Nginx { .. }) {
            // Whoever asked for a reload waits for a word of it.
            let said = "reloaded: a new process serves what is asked for now";
            self.path.parts().1.tell(Clock.unix(), true, said);
        }
        Ok(took_over)
    }

    /// Where the process id goes, if this is the process to be signalled.
    fn pid_file(&self) -> Option<&Path> {
        self.reload.plan().pid_file.as_deref().filter(|_| self.ward.is_none())
    }

    fn write_pid_file(&self) -> Result<(), Failure> {
        let Some(path) = self.pid_file() else { return Ok(()) };
        pid_file::write(path).map_err(|why| format!("cannot write {}: {why}", path.display()).into())
    }

    /// Sleeps until something happens.
    fn wait(&self, until: Time) -> Result<(), Failure> {
        let hears = self.orders.bell().hears();
        let mut fds = vec![PollFd::new(&hears, PollFlags::IN)];
        let now = Clock.now();
        fds.extend(self.control.as_ref().and_then(|control| control.poll_fd(now)));
        fds.extend(self.ward.and_then(Ward::poll_fd));
        self.path.poll_fds(&mut fds);
        fds.extend(self.succession.poll_fds());
        let successor = self.successor.as_ref().filter(|_| self.tells_until.is_some());
        fds.extend(successor.map(|channel| PollFd::new(channel, PollFlags::IN)));
        // Rounded up: a deadline is over when this returns.
        let span = until.since(now) + Duration::from_micros(50);
        match poll(&mut fds, Some(&Timespec::try_from(span)?)) {
            Ok(_) | Err(Errno::INTR) => self.orders.bell().heard(),
            Err(why) => return Err(format!("cannot wait (poll): {why}").into()),
        }
        Ok(())
    }

    /// When to look up, if nothing happens.
    fn until(&self, now: Time) -> Time {
        let alive = self.watchdog.map(|_| self.next_alive);
        let times = [self.succession.deadline(), alive, self.drain_at, self.tells_until].into_iter().flatten();
        times.filter(|time| *time > now).fold(now + PULSE, Time::min)
    }

    /// What the parent says.
    fn on_ward(&mut self) {
        let Some(ward) = self.ward else { return };
        while let Some(wish) = ward.next_wish() {
            match wish {
                ParentWish::Stop(times) => self.asked.stop(times),
                ParentWish::Reload(brought) => self.reload.bring(brought, &self.asked),
                ParentWish::Reopen => self.asked.reopen(),
                ParentWish::Wake => self.orders.ring_workers(),
            }
        }
    }

    /// SIGTERM and SIGINT: once to drain, twice to end.
    fn on_stops(&mut self) {
        let stops = self.asked.stops();
        if stops == self.stopped {
            return;
        }
        if self.stopped == 0 {
            say::info("stopping: finishing responses under way; once more to stop at once");
            systemd::stopping();
            exposed::advance(self.metrics.as_mut(), metrics::Readiness::Stopping);
            self.give_up();
            self.control = None;
            self.orders.advance(Stage::Drain);
        }
        if stops > 1 {
            self.orders.advance(Stage::Halt);
        }
        self.stopped = stops;
        self.path.on_stop();
    }

    /// SIGUSR2: a successor is started.
    fn on_restarts(&mut self, now: Time) {
        let restarts = self.asked.restarts.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.restarted, restarts) == restarts {
            return;
        }
        let elsewhere = format!("{}, without --capture and faults", take_over_is_for());
        let refused = match (&self.restart, &self.control, self.orders.stage()) {
            (None, ..) => elsewhere.as_str(),
            (_, _, Stage::Retire) => "a successor serves already",
            (_, _, Stage::Drain | Stage::Halt) => "this process is stopping",
            (_, None, Stage::Serve) => "there is no control socket (--control off)",
            (_, Some(_), Stage::Serve) if self.succession.is_coming() => "a successor is on its way",
            (_, Some(control), Stage::Serve) => {
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
        let reopen = self.asked.reopens.load(Ordering::Relaxed);
        if core::mem::replace(&mut self.reopened, reopen) != reopen {
            let _watch = waiting::of("the reopening of logs");
            places::reopen_error_log(self.reload.plan(), None);
            self.orders.ring_workers();
        }
    }

    /// SIGHUP: settings and content are read again.
    fn on_reload(&mut self) {
        let (prepare, page) = self.path.parts();
        if self.reload.look((self.orders, &self.asked), prepare, page) {
            self.path.on_reloaded(self.reload.plan());
        }
        if let (Some(ours), Some(asked)) = (&mut self.restart, restart_of(self.reload.plan())) {
            (ours.timeout, ours.drain) = (asked.timeout, asked.drain);
            self.succession.set_timeout(asked.timeout);
        }
    }

    /// Sees to whoever asks to follow, or is on its way.
    fn on_succession(&mut self, now: Time) {
        if let Some(channel) = self.control.as_mut().and_then(|control| control.next(now)) {
            self.succession.on_asked(channel, now);
        }
        self.path.look(self.orders, self.succession.is_coming());
        if !self.succession.is_coming() {
            return;
        }
        let (path, metrics) = (&self.path, self.metrics.as_ref().and_then(metrics::Server::shared));
        match self.succession.step_with(metrics, |channel| path.offer(channel), now) {
            Outcome::Pending => {}
            Outcome::Followed(pid) => self.on_ready(pid, now),
            Outcome::Failed(why) => self.on_failed(&why),
        }
    }

    /// A successor is ready.
    fn on_ready(&mut self, pid: u32, now: Time) {
        let main = self.succession.main_process().unwrap_or(pid);
        let has_metrics = self.succession.has_metrics();
        if let Err(why) = self.path.hand_over(self.succession.channel()) {
            self.give_up();
            return self.on_failed(&why);
        }
        // Its own files stand in the places of ours next. Ours are gone
        // before: to look whose it is and to remove it cannot be done in one.
        if self.page.own {
            self.path.parts().1.disown();
        }
        let control = self.control.take().map(|control| control.path().to_owned());
        match self.succession.give_way() {
            Ok(channel) => self.successor = channel,
            Err(why) if !P::GOES_BACK => say::warning(format_args!("process {pid} took over, and {why}")),
            Err(why) => {
                let again = control.map(|path| Listener::bind(&path, true));
                let told = |why: &std::io::Error| say::error(format_args!("control socket: {why}"));
                self.control = again.and_then(|bound| bound.inspect_err(told).ok());
                return self.on_failed(&format!("the successor failed: {why}"));
            }
        }
        let open = self.orders.connections();
        say::info(format_args!("process {pid} serves; {open} connections end with their next response"));
        self.orders.advance(Stage::Retire);
        self.path.on_followed();
        self.drain_at = self.restart.as_ref().map(|restart| now + restart.drain);
        self.tells_until = has_metrics.then_some(now + TELLING);
        self.tell_no_more(now);
        systemd::succeeded(main);
    }

    /// Whoever follows tells metrics, or is gone, or has not said so in time: this process does not any more.
    fn tell_no_more(&mut self, now: Time) {
        if self.drain_at.is_none() {
            return;
        }
        let still =
            |until: Time| now < until && matches!(self.successor.as_ref().map(Channel::receive), Some(Ok(None)));
        if !self.tells_until.is_some_and(still) {
            self.tells_until = None;
            exposed::advance(self.metrics.as_mut(), metrics::Readiness::Followed);
        }
    }

    /// This process has nobody left to serve: where it is followed, it tells metrics until its successor does.
    fn leave_metrics(&mut self) -> Result<(), Failure> {
        if self.drain_at.is_none() {
            return Ok(());
        }
        while let Some(until) = self.tells_until
            && self.asked.stops() == self.stopped
        {
            self.wait(until)?;
            self.on_ward();
            self.path.look(self.orders, false);
            self.tell_no_more(Clock.now());
        }
        let _ = self.metrics.take().map(metrics::Server::end);
        Ok(())
    }

    fn on_failed(&mut self, why: &str) {
        self.path.resume();
        if matches!(self.reload.plan().signals, SignalRules::Nginx { .. }) {
            // Whoever asked for a reload waits for a word of it.
            let said = format!("{why}; everything stays as it was");
            self.path.parts().1.tell(Clock.unix(), false, &said);
        }
        say::error(format_args!("{why}; this process serves on"));
        systemd::ready(&format!("serving; {why}"));
    }

    /// Ends a successor that does not serve yet.
    fn give_up(&mut self) {
        self.succession.give_up();
        if self.drain_at.is_none() {
            self.path.resume();
        }
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

/// How a plan's process follows another, and another it.
pub fn restart_of(plan: &ServePlan) -> Option<&RestartPlan> {
    match &plan.path {
        ServePath::Kernel(kernel) => Some(&kernel.restart),
        ServePath::Link { restart, .. } => restart.as_deref(),
    }
}

/// The control socket, if there is to be one.
fn listen(plan: &RestartPlan, replaces: bool) -> Result<Option<Listener>, String> {
    let path = control_path(plan).map_err(|why| format!("no place for the control socket: {why}"))?;
    let bound = |path: PathBuf| {
        Listener::bind(&path, replaces).map_err(|why| format!("control socket {}: {why}", path.display()))
    };
    path.map(bound).transpose()
}
