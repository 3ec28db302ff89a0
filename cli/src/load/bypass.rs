//! Load over a link and our own stack.

use super::account::{Account, CLOSE_LIMIT, CLOSING_ROOM, Side};
use super::collect::Source;
use crate::args::HostPlan;
use crate::figures::Figures;
use crate::host::{Failure, Start, over_link, stack};
use app::App;
use core::time::Duration;
use link::{Link, LinkState};
use load::{Load, Plan};
use silo::{Attendant, Clock, Next, Silo, Usage};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use wire::Time;

/// Runs a plan over the host's link to its end, or until a signal. `quiet`
/// keeps messages off a terminal that shows something else.
///
/// # Errors
/// What the user is to know.
pub fn run(
    host: &HostPlan,
    plan: &Plan,
    every: Duration,
    signals: &Arc<AtomicUsize>,
    sources: Sender<Source>,
    quiet: bool,
) -> Result<Vec<Side>, Failure> {
    let mut side = None;
    let run = Run { host: host.clone(), plan, every, signals, sources, quiet, side: &mut side };
    over_link(host, run)?;
    Ok(side.into_iter().collect())
}

struct Run<'a> {
    host: HostPlan,
    plan: &'a Plan,
    every: Duration,
    signals: &'a Arc<AtomicUsize>,
    sources: Sender<Source>,
    quiet: bool,
    side: &'a mut Option<Side>,
}

impl Start for Run<'_> {
    fn start<L: Link>(self, link: L) -> Result<(), Failure> {
        let Self { mut host, plan, every, signals, sources, quiet, side } = self;
        // Beside the connections asked for there are those that are closing.
        let closing = plan.connections.saturating_add(CLOSING_ROOM);
        host.max_connections = plan.connections.saturating_add(closing);
        let stack = stack(&host, &link.capabilities(), &[], plan.sources.iter().copied())?;
        let mut app = Load::new(plan.clone())?;
        // The collector outlives this, unless it failed.
        let _ = sources.send(Source { live: app.live(), intervals: app.intervals(every) });
        drop(sources);
        let mut silo = Silo { link, stack, app };
        let figures = Figures::new(&host, "load", &silo, core::iter::empty())?;
        let mut attendant =
            LoadAttendant { figures, account: Account::new(signals), link_seen: quiet, waiting_since: None };
        silo::run(&mut silo, host.pace(), &mut attendant)?;
        *side = Some(attendant.account.side(silo.app.into_figures(Clock.now()), false));
        Ok(())
    }
}

struct LoadAttendant {
    figures: Figures,
    account: Account,
    link_seen: bool,
    waiting_since: Option<Time>,
}

impl<L: Link> Attendant<L, Load> for LoadAttendant {
    fn attend(&mut self, silo: &mut Silo<L, Load>, now: Time, usage: &Usage, link: LinkState) -> Next {
        self.figures.publish(silo, now, usage, link, core::iter::empty());
        if link == LinkState::Up {
            self.link_seen = true;
        } else if !self.link_seen {
            let since = *self.waiting_since.get_or_insert(now);
            if now.since(since) >= Duration::from_secs(2) {
                self.waiting_since = Some(Time::MAX);
                eprintln!("waiting for the link's other side");
            }
        }
        let Some(since) = self.account.look(silo.app.stage(), usage, now) else { return Next::Go };
        if silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0 || now.since(since) >= CLOSE_LIMIT {
            return Next::Stop;
        }
        Next::Go
    }
}
