//! One silo: its stack, its server, its column of the statistics page, and
//! what the main thread wants of it.

use super::super::orders::{NewSettings, Orders, PathSettings, SiloSettings, Stage};
use super::super::reload::Prepare;
use super::super::wakes::Wakes;
use super::super::ward::{self, WardReopener};
use super::super::worker::{DRAIN_GRACE, WALL_CLOCK_EVERY};
use super::beside::{self, Beside, Served};
use super::own_ports::OwnPorts;
use super::share_out;
use crate::plan::{PortPlan, ServePath, ServePlan};
use app::App;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use cpu::Clock;
use driver::{Handover, Offer};
use host::HostPlan;
use host::figures::{self, SiloColumn};
use host::fleet::Part;
use host::near::{Domains, Near};
use host::{Finish, Layout, Losses, Neighbourhood, Notices, Port, SiloPlace, SiloWork, Take, stack};
use latency::SeriesTable;
use link::LinkState;
use say::Failure;
use server::{Change, ConnectionNumbers, Server, WallClock};
use silo::placement::Far;
use silo::{ATTEND_ASLEEP, ATTEND_EVERY, Attendant, Next, Pace, Silo, Usage};
use sockets::fleet::Stop;
use sockets::{Composite, KernelHalf};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Time;

/// What all silos of a server have in common.
pub struct ServingSilos<'a> {
    pub host: &'a HostPlan,
    /// What each serves: its part of the limits.
    pub server: server::Config,
    /// What is listened on.
    pub listen: &'a PortPlan,
    pub silos: usize,
    /// Where everything is.
    pub layout: &'a Layout,
    pub domains: Domains,
    /// Kernel sockets beside the links.
    pub beside: Beside,
    /// Ports that change hands.
    pub own_ports: &'a OwnPorts,
    pub orders: &'a Orders,
    /// One of them is out.
    pub stop: &'a Stop,
    pub finish: Finish,
    /// Where their statistics go, by silo, until they are taken.
    pub columns: Mutex<Vec<Option<SiloColumn>>>,
    /// Where latencies are counted, if they are.
    pub latencies: Option<Arc<SeriesTable>>,
    /// How often the log was to be opened again.
    pub reopen: Arc<AtomicUsize>,
    /// Ports whose interfaces are gone.
    pub losses: Losses,
    /// Connections that ended unfinished because the link was down.
    pub left: AtomicUsize,
    /// Whether it was.
    pub down: AtomicBool,
}

impl ServingSilos<'_> {
    /// The link is down, with so many connections left.
    fn leave(&self, connections: usize) {
        self.left.fetch_add(connections, Ordering::Relaxed);
        self.down.store(true, Ordering::Relaxed);
    }

    /// Says what became of connections that could not be told of the end.
    pub fn tell_left(&self) {
        if self.down.load(Ordering::Relaxed) {
            let left = self.left.load(Ordering::Relaxed);
            say::warning(format_args!("stopping: the link is down, {left} connections end unfinished"));
        }
    }
}

impl Prepare for ServingSilos<'_> {
    fn prepare(&self, now: &ServePlan, next: &ServePlan) -> Result<Vec<NewSettings>, Failure> {
        let ServePath::Link { host, listen, copies, .. } = &next.path else { return Ok(Vec::new()) };
        let part = |plan: &ServePlan| {
            let mut server = share_out(plan, self.silos);
            self.domains.divide(self.layout, &plan.server.content, &mut server.content);
            server
        };
        let (old, new) = (part(now), part(next));
        let one = |seat: &SiloPlace| {
            let [old, new] = [&old, &new].map(|server| self.domains.server(self.layout, seat, server));
            Ok(NewSettings {
                change: Change::prepare(&old, &new)?,
                connections: new.limits.connections - host.beside_connections(self.silos),
                drain: new.timeouts.drain,
                path_settings: PathSettings::Silo(SiloSettings {
                    pace: host.pace(),
                    congestion: host.congestion,
                    listen: listen.clone(),
                }),
            })
        };
        let news: Result<Vec<NewSettings>, Failure> = self.layout.seats.iter().map(one).collect();
        let news = news?;
        self.domains.set_limits(&next.server.content, *copies);
        Ok(news)
    }

    fn latencies(&self) -> Option<&SeriesTable> {
        self.latencies.as_deref()
    }
}

impl SiloWork for ServingSilos<'_> {
    type Outcome = ();

    fn ports(&self) -> Vec<u16> {
        self.listen.ports()
    }

    fn offer(&self, index: usize) -> Option<Offer> {
        self.own_ports.take(index)
    }

    fn is_composite(&self) -> bool {
        self.host.is_composite()
    }

    fn reopener(&self, index: usize) -> Option<Arc<dyn link::Reopener>> {
        WardReopener::of(index)
    }

    fn on_opened(&self, port: Arc<dyn Handover>) {
        self.own_ports.add(port);
    }

    fn run<L: Port>(&self, seat: &SiloPlace, link: L) -> Result<(), String> {
        // Whatever ends this early, the others hear of it.
        let end = End { orders: self.orders, well: false };
        let column =
            self.columns.lock().unwrap_or_else(PoisonError::into_inner).get_mut(seat.index).and_then(Option::take);
        let column = column.ok_or("it has no place on the statistics page")?;
        // Watched from before the stack is made of what it says.
        let neighbourhood = Neighbourhood::of(self.host).map_err(|why| why.to_string())?;
        // Before any of its tables is touched.
        let near = self.domains.settle(seat, &link);
        let stack = stack(self.host, (seat.index, self.silos), &link.capabilities(), core::iter::empty());
        let mut stack = stack.map_err(|why| why.to_string())?;
        if let Some(path) = link.return_path() {
            stack.set_return_path(path);
        }
        stack.listen_on(&self.listen.everywhere, &self.listen.at);
        let clock = WallClock::new(Clock.now(), Clock.unix());
        let mut server = self.domains.server(self.layout, seat, &self.server);
        server.numbers = ConnectionNumbers::of(seat.index, self.silos);
        server.latency = self.latencies.as_ref().map(|table| table.board(seat.index));
        let app = Server::new(server, clock).map_err(|why| why.to_string())?;
        let starting = Starting { column, neighbourhood, near, end };
        match self.beside.half(seat.index)? {
            Some(half) if L::BESIDE => {
                let app = Composite::new(app, half, beside::routes(self.host));
                self.run_silo(seat, Silo { link, stack, app }, starting)
            }
            Some(_) => Err("there is no copy of the stack for kernel sockets beside this link".to_owned()),
            None => self.run_silo(seat, Silo { link, stack, app }, starting),
        }
    }
}

/// What a silo has before it runs.
struct Starting<'a> {
    column: SiloColumn,
    neighbourhood: Option<Neighbourhood>,
    near: Near,
    end: End<'a>,
}

impl ServingSilos<'_> {
    fn run_silo<L: Port, A: Served>(
        &self,
        seat: &SiloPlace,
        mut silo: Silo<L, A>,
        starting: Starting<'_>,
    ) -> Result<(), String> {
        let Starting { column, neighbourhood, near, mut end } = starting;
        let host_tells = neighbourhood.as_ref().map(Neighbourhood::news);
        let kernel = silo.app.half().map(AsFd::as_fd);
        let wakes = [silo.app.server().wake_fd(), self.orders.worker_hears(seat.index), host_tells, kernel];
        let wakes = Wakes::of(wakes.into_iter().flatten());
        let wakes = wakes.map_err(|why| format!("cannot wait for helper threads: {why}"))?;
        // What it takes to be at work may need rights that are given up next.
        // That it cannot is said by its first wait.
        silo.link.poll_control(Clock.now());
        self.orders.report(seat.index, 0, Clock.now());
        self.orders.on_started(String::new);
        self.orders.wait_for_release();
        let mut attending = Attending {
            serving: self,
            index: seat.index,
            column,
            neighbourhood,
            notices: Notices::new(self.layout, &self.losses, self.host.on_link_loss),
            near,
            part: self.finish.part(),
            reopened: self.reopen.load(Ordering::Relaxed),
            reloaded: 0,
            next_wall_clock: Time::ZERO,
            drain_limit: self.server.timeouts.drain.saturating_add(DRAIN_GRACE),
            stopping: None,
            pace: None,
            settling: false,
            retired: false,
            published: 0,
            wakes,
        };
        let outcome = silo::run(&mut silo, self.host.pace(), &mut attending).map_err(|why| why.to_string());
        let Silo { stack, app, .. } = &mut silo;
        app.finish(stack);
        outcome?;
        attending.notices.end()?;
        end.well = true;
        Ok(())
    }
}

/// Connections of a silo, on either side.
fn connections<L, A: Served>(silo: &Silo<L, A>) -> usize {
    silo.stack.connections() + silo.app.half().map_or(0, KernelHalf::connections)
}

/// How a silo ended.
struct End<'a> {
    orders: &'a Orders,
    well: bool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.orders.advance(Stage::Halt);
        } else if !self.well {
            // The others finish what they have.
            self.orders.advance(Stage::Drain);
        }
    }
}

struct Attending<'a> {
    serving: &'a ServingSilos<'a>,
    index: usize,
    column: SiloColumn,
    neighbourhood: Option<Neighbourhood>,
    notices: Notices<'a>,
    near: Near,
    part: Part<'a>,
    /// How often the log was opened again.
    reopened: usize,
    /// How often the content was read again.
    reloaded: usize,
    next_wall_clock: Time,
    /// The longest that a stop may take.
    drain_limit: Duration,
    /// Since when the server drains.
    stopping: Option<Time>,
    /// A new pace, until the silo has taken it up.
    pace: Option<Pace>,
    /// Timers are being set by new limits.
    settling: bool,
    /// A successor has taken over.
    retired: bool,
    /// [`Usage::busy_turns`] when the figures were published last.
    published: u64,
    /// What wakes the silo, beside its link.
    wakes: Wakes,
}

impl<L: Port, A: Served> Attendant<L, A> for Attending<'_> {
    fn attend(&mut self, silo: &mut Silo<L, A>, now: Time, usage: &Usage, link: LinkState) -> Next {
        self.serving.orders.worker_heard(self.index);
        if let Some(neighbourhood) = &mut self.neighbourhood {
            neighbourhood.attend(&mut silo.stack, ward::ask_neighbour);
        }
        self.notices.attend(silo);
        if self.notices.end().is_err() {
            return Next::Stop;
        }
        let server = silo.app.server();
        self.near.attend((silo, server), now, usage, link);
        let values = |take: Take<'_>| {
            self.near.values(&silo.link, server, take);
            silo.app.half().into_iter().for_each(|half| figures::beside(&half.counters(), take));
        };
        if self.column.publish(silo, now, usage, link, server.counters(), values) {
            self.published = usage.busy_turns;
        }
        if now >= self.next_wall_clock {
            self.next_wall_clock = now + WALL_CLOCK_EVERY;
            silo.app.server_mut().set_wall_clock(WallClock::new(now, Clock.unix()));
        }
        let reopen = self.serving.reopen.load(Ordering::Relaxed);
        if reopen != self.reopened {
            self.reopened = reopen;
            silo.app.server().reopen_log();
        }
        let reloads = self.serving.orders.reloads();
        if reloads != self.reloaded {
            self.reloaded = reloads;
            self.reload(silo);
        }
        if self.settling {
            self.settling = !silo.app.settle(&mut silo.stack);
        }
        let open = connections(silo);
        self.serving.orders.report(self.index, open, now);
        match self.serving.orders.stage() {
            Stage::Serve if !self.serving.stop.is_set() => Next::Go,
            Stage::Retire if !self.serving.stop.is_set() => self.retire(silo),
            Stage::Halt => Next::Stop,
            _ => self.drain(silo, now, link),
        }
    }

    fn pace(&mut self) -> Option<Pace> {
        self.pace.take()
    }

    fn due(&self, silo: &Silo<L, A>, now: Time, usage: &Usage) -> Time {
        let serving = self.serving;
        // Ports of one link watch each other, and a predecessor's frames come
        // by rings that nobody rings for.
        let alone = serving.layout.ports.len() == 1 && !serving.host.speaks_lacp() && !serving.own_ports.relays();
        let quiet = alone && !self.settling && !serving.stop.is_set();
        let Some(pulse) = serving.orders.pulse(connections(silo)).filter(|_| quiet) else {
            return now + ATTEND_ASLEEP;
        };
        // What happened last shows on the page, too.
        let page = if usage.busy_turns == self.published { Time::MAX } else { self.column.next() };
        (now + pulse).min(page.max(now + ATTEND_EVERY))
    }

    fn wake<'a>(&'a self, _app: &'a A) -> Option<BorrowedFd<'a>> {
        Some(self.wakes.as_fd())
    }

    #[inline]
    fn far(&mut self) -> Option<&mut Far> {
        self.near.far()
    }
}

impl Attending<'_> {
    #[cold]
    fn reload<L: Port, A: Served>(&mut self, silo: &mut Silo<L, A>) {
        let mut replaced = None;
        if let Some(news) = self.serving.orders.news(self.index) {
            replaced = Some(silo.app.server_mut().change(news.change));
            silo.stack.set_max_connections(news.connections);
            if let PathSettings::Silo(settings) = news.path_settings {
                let SiloSettings { pace, congestion, listen } = settings;
                silo.stack.set_congestion(congestion);
                if self.serving.orders.stage() == Stage::Serve {
                    silo.stack.listen_on(&listen.everywhere, &listen.at);
                }
                self.pace = Some(pace);
            }
            self.drain_limit = news.drain.saturating_add(DRAIN_GRACE);
            self.settling = true;
        }
        silo.app.server_mut().reload();
        self.serving.orders.on_reloaded(self.index, self.reloaded, replaced);
    }

    /// A successor accepts: no SYN comes here any more, but what belongs to
    /// connections and handshakes of this silo does.
    fn retire<L: Port, A: Served>(&mut self, silo: &mut Silo<L, A>) -> Next {
        if !self.retired {
            self.retired = true;
            silo.app.retire();
        }
        let left = connections(silo) + silo.stack.half_open();
        // One that has finished goes on passing on the others' frames, and those
        // of the process before this one.
        let over = left == 0 && !self.serving.own_ports.relays() && self.part.is_over();
        if over { Next::Stop } else { Next::Go }
    }

    fn drain<L: Port, A: Served>(&mut self, silo: &mut Silo<L, A>, now: Time, link: LinkState) -> Next {
        let since = *self.stopping.get_or_insert_with(|| {
            silo.stack.stop_listening();
            silo.app.stop_listening();
            now
        });
        let left = connections(silo);
        let done = silo.app.drain(&mut silo.stack) && left == 0 && !self.serving.own_ports.relays();
        let beside = silo.app.half().map_or(0, KernelHalf::connections);
        if !done && link == LinkState::Down && beside == 0 {
            // Whoever they were, they cannot be told anything.
            self.serving.leave(left);
            return Next::Stop;
        }
        // One that has finished goes on passing on the others' frames.
        let over = done && (self.part.is_over() || self.serving.stop.is_set());
        if over || now.since(since) >= self.drain_limit { Next::Stop } else { Next::Go }
    }
}
