//! Load over links and our own stack: silos, each with its share of the plan.

use super::account::{Account, CLOSE_LIMIT, CLOSING_ROOM, Side};
use super::collect::Source;
use app::App;
use core::net::IpAddr;
use core::time::Duration;
use cpu::Clock;
use host::HostPlan;
use host::drivers::LinkSpec;
use host::figures::{Figures, SiloColumn};
use host::fleet::{self, Part};
use host::near::Domains;
use host::{Finish, Layout, Losses, Notices, Port, SiloPlace, SiloWork, stack};
use link::LinkState;
use load::{Load, Plan};
use say::Failure;
use say::eprintln;
use silo::{Attendant, Next, Silo, Usage};
use sockets::fleet::Stop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use wire::Time;

/// Runs a plan over the host's links to its end, or until a signal. `quiet`
/// keeps messages off a terminal that shows something else.
///
/// # Errors
/// What the user is to know.
pub fn run(
    host: &HostPlan,
    layout: &Layout,
    plan: &Plan,
    every: Duration,
    signals: &Arc<AtomicUsize>,
    sources: Sender<Source>,
    quiet: bool,
) -> Result<Vec<Side>, Failure> {
    let silos = layout.seats.len();
    let mut figures = Figures::new(host, layout, ("load", false), core::iter::empty())?;
    let stop = Stop::default();
    let company = LoadingSilos {
        host,
        layout,
        losses: Losses::new(layout),
        plan,
        every,
        signals,
        sources,
        silos,
        domains: Domains::new(layout),
        stop: &stop,
        finish: Finish::new(silos),
        columns: Mutex::new(figures.columns().into_iter().map(Some).collect()),
        quiet,
        gave_up: AtomicBool::new(false),
    };
    fleet::run(host, layout, &stop, &company)
}

/// What all silos of a generator have in common.
struct LoadingSilos<'a> {
    host: &'a HostPlan,
    layout: &'a Layout,
    /// Ports whose interfaces are gone.
    losses: Losses,
    plan: &'a Plan,
    every: Duration,
    signals: &'a Arc<AtomicUsize>,
    sources: Sender<Source>,
    silos: usize,
    domains: Domains,
    stop: &'a Stop,
    finish: Finish,
    columns: Mutex<Vec<Option<SiloColumn>>>,
    quiet: bool,
    /// Whether the link's other side was waited for in vain.
    gave_up: AtomicBool,
}

impl LoadingSilos<'_> {
    /// The links, as they were named.
    fn names(&self) -> String {
        self.host.links.iter().map(LinkSpec::name).collect::<Vec<_>>().join(", ")
    }
}

impl SiloWork for LoadingSilos<'_> {
    type Outcome = Side;

    fn sources(&self) -> Vec<IpAddr> {
        self.plan.sources.clone()
    }

    fn run<L: Port>(&self, seat: &SiloPlace, link: L) -> Result<Side, String> {
        let column =
            self.columns.lock().unwrap_or_else(PoisonError::into_inner).get_mut(seat.index).and_then(Option::take);
        let column = column.ok_or("it has no place on the statistics page")?;
        let mine = self.plan.share(seat.index as u32, self.silos as u32).ok_or("no connections are left for it")?;
        // Beside the connections asked for there are those that are closing.
        let closing = mine.connections.saturating_add(CLOSING_ROOM);
        let mut host = self.host.clone();
        host.max_connections = mine.connections.saturating_add(closing).saturating_mul(self.silos as u32);
        self.domains.settle(seat, &link);
        let stack = stack(&host, (seat.index, self.silos), &link.capabilities(), self.plan.sources.iter().copied());
        let mut stack = stack.map_err(|why| why.to_string())?;
        if let Some(path) = link.return_path() {
            stack.set_return_path(path);
        }
        let mut app = Load::new(mine).map_err(|why| why.to_string())?;
        // The collector outlives this, unless it failed.
        let _ = self.sources.send(Source { live: app.live(), intervals: app.intervals(self.every) });
        let mut silo = Silo { link, stack, app };
        let mut attendant = LoadAttendant {
            company: self,
            notices: Notices::new(self.layout, &self.losses, self.host.on_link_loss),
            column,
            account: Account::new(self.signals),
            part: self.finish.part(),
            link_seen: self.quiet || seat.index > 0,
            waiting_since: None,
            told: false,
        };
        silo::run(&mut silo, host.pace(), &mut attendant).map_err(|why| why.to_string())?;
        attendant.notices.end()?;
        if self.gave_up.load(Ordering::Relaxed) {
            return Err(format!("nobody came to the other side of {}: see --ramp-limit", self.names()));
        }
        Ok(attendant.account.side(silo.app.into_figures(Clock.now()), false))
    }
}

/// When it is said that nobody is there.
const TELL_AFTER: Duration = Duration::from_secs(1);

struct LoadAttendant<'a> {
    company: &'a LoadingSilos<'a>,
    notices: Notices<'a>,
    column: SiloColumn,
    account: Account,
    part: Part<'a>,
    link_seen: bool,
    waiting_since: Option<Time>,
    /// Whether it was said what is waited for.
    told: bool,
}

impl<L: Port> Attendant<L, Load> for LoadAttendant<'_> {
    fn attend(&mut self, silo: &mut Silo<L, Load>, now: Time, usage: &Usage, link: LinkState) -> Next {
        self.notices.attend(silo);
        if self.notices.end().is_err() {
            return Next::Stop;
        }
        self.column.publish(silo, now, usage, link, core::iter::empty(), |_| {});
        if link == LinkState::Up {
            self.link_seen = true;
        } else if !self.link_seen {
            let waited = now.since(*self.waiting_since.get_or_insert(now));
            let limit = self.company.plan.ramp + self.company.plan.ramp_limit;
            if !self.told && waited >= TELL_AFTER {
                self.told = true;
                eprintln!(
                    "waiting for the other side of {} (--ramp-limit: until {} s have passed)",
                    self.company.names(),
                    limit.as_secs()
                );
            }
            if waited >= limit {
                self.company.gave_up.store(true, Ordering::Relaxed);
                return Next::Stop;
            }
        }
        if self.company.stop.is_set() {
            return Next::Stop;
        }
        let Some(since) = self.account.look(silo.app.stage(), usage, now) else { return Next::Go };
        let closed = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        // One that has finished goes on passing on the others' frames.
        if (closed || now.since(since) >= CLOSE_LIMIT) && self.part.is_over() { Next::Stop } else { Next::Go }
    }
}
