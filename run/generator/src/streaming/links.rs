//! Streams over links and our own stack.

use super::{CLOSE_LIMIT, Marks, StreamingSide, most_connections};
use app::App;
use core::net::IpAddr;
use core::time::Duration;
use host::near::Domains;
use host::{Finish, HostPlan, Layout, Losses, Notices, Port, SiloPlace, SiloWork, fleet, stack};
use link::LinkState;
use load::{Streaming, StreamingLive, StreamingPlan};
use say::Failure;
use silo::{Attendant, Next, Silo, Usage};
use sockets::fleet::Stop;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use wire::Time;

/// Runs the streams over the host's links.
///
/// # Errors
/// What the user is to know.
pub fn over_links(
    host: &HostPlan,
    layout: &Layout,
    plan: &StreamingPlan,
    signals: &Arc<AtomicUsize>,
    sender: Sender<StreamingLive>,
) -> Result<Vec<StreamingSide>, Failure> {
    let (silos, stop) = (layout.seats.len(), Stop::default());
    let work = PlayingSilos {
        host,
        layout,
        losses: Losses::new(layout),
        plan,
        signals,
        sender: Mutex::new(sender),
        silos,
        domains: Domains::new(layout),
        stop: &stop,
        finish: Finish::new(silos),
    };
    fleet::run(host, layout, &stop, &work)
}

/// What all silos have in common.
struct PlayingSilos<'a> {
    host: &'a HostPlan,
    layout: &'a Layout,
    losses: Losses,
    plan: &'a StreamingPlan,
    signals: &'a Arc<AtomicUsize>,
    sender: Mutex<Sender<StreamingLive>>,
    silos: usize,
    domains: Domains,
    stop: &'a Stop,
    finish: Finish,
}

impl SiloWork for PlayingSilos<'_> {
    type Outcome = StreamingSide;

    fn sources(&self) -> Vec<IpAddr> {
        self.plan.load.sources.clone()
    }

    fn run<L: Port>(&self, seat: &SiloPlace, link: L) -> Result<StreamingSide, String> {
        let mine = self.plan.share(seat.index as u32, self.silos as u32).ok_or("no streams are left for it")?;
        let patience = mine.load.ramp + mine.load.ramp_limit;
        let mut host = self.host.clone();
        host.max_connections = most_connections(&mine).saturating_mul(self.silos as u32);
        self.domains.settle(seat, &link);
        let stack =
            stack(&host, (seat.index, self.silos), &link.capabilities(), self.plan.load.sources.iter().copied());
        let mut stack = stack.map_err(|why| why.to_string())?;
        if let Some(path) = link.return_path() {
            stack.set_return_path(path);
        }
        let app = Streaming::new(mine).map_err(|why| why.to_string())?;
        // The collector outlives this, unless it failed.
        let _ = self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(app.live());
        let mut silo = Silo { link, stack, app };
        let mut attendant = OnLinks {
            notices: Notices::new(self.layout, &self.losses, self.host.on_link_loss),
            marks: Marks::new(self.signals),
            part: self.finish.part(),
            stop: self.stop,
            patience,
            waiting_since: None,
            seen: false,
            absent: false,
        };
        silo::run(&mut silo, host.pace(), &mut attendant).map_err(|why| why.to_string())?;
        attendant.notices.end()?;
        if attendant.absent {
            return Err("nobody came to the other side of the link: see --ramp-limit".to_owned());
        }
        Ok(attendant.marks.side(silo.app))
    }
}

struct OnLinks<'a> {
    notices: Notices<'a>,
    marks: Marks,
    part: host::fleet::Part<'a>,
    stop: &'a Stop,
    /// How long the link's other side is waited for.
    patience: Duration,
    waiting_since: Option<Time>,
    seen: bool,
    absent: bool,
}

impl<L: Port> Attendant<L, Streaming> for OnLinks<'_> {
    fn attend(&mut self, silo: &mut Silo<L, Streaming>, now: Time, _: &Usage, link: LinkState) -> Next {
        self.notices.attend(silo);
        if self.notices.end().is_err() || self.stop.is_set() {
            return Next::Stop;
        }
        self.seen |= link == LinkState::Up;
        if !self.seen && now.since(*self.waiting_since.get_or_insert(now)) >= self.patience {
            self.absent = true;
            return Next::Stop;
        }
        let Some(since) = self.marks.look(&mut silo.app, now) else { return Next::Go };
        let closed = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        // One that has finished goes on passing on the others' frames.
        if (closed || now.since(since) >= CLOSE_LIMIT) && self.part.is_over() { Next::Stop } else { Next::Go }
    }
}
