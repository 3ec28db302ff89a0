//! Streams over links and our own stack.

use super::{BulkSide, Cutter, END_LIMIT, Look, Piece, Transport};
use app::{App, Net};
use core::net::IpAddr;
use core::time::Duration;
use cpu::Clock;
use host::near::Domains;
use host::{Finish, HostPlan, Layout, Losses, Notices, Port, SiloPlace, SiloWork, fleet, stack};
use link::LinkState;
use load::{Bulk, BulkPlan, Way};
use say::Failure;
use silo::{Attendant, Next, Silo, Usage};
use sockets::fleet::Stop;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use wire::Time;

/// Connections beside the streams.
const ROOM: u32 = 64;

/// Runs the streams over the host's links.
///
/// # Errors
/// What the user is to know.
pub fn over_links(
    host: &HostPlan,
    layout: &Layout,
    plan: &BulkPlan,
    every: Duration,
    signals: &Arc<AtomicUsize>,
    sender: &Sender<Piece>,
) -> Result<Vec<BulkSide>, Failure> {
    let (silos, stop) = (layout.seats.len(), Stop::default());
    let work = StreamingSilos {
        host,
        layout,
        losses: Losses::new(layout),
        plan,
        every,
        signals,
        sender: sender.clone().into(),
        silos,
        domains: Domains::new(layout),
        stop: &stop,
        finish: Finish::new(silos),
    };
    fleet::run(host, layout, &stop, &work)
}

/// What all silos have in common.
struct StreamingSilos<'a> {
    host: &'a HostPlan,
    layout: &'a Layout,
    losses: Losses,
    plan: &'a BulkPlan,
    every: Duration,
    signals: &'a Arc<AtomicUsize>,
    sender: std::sync::Mutex<Sender<Piece>>,
    silos: usize,
    domains: Domains,
    stop: &'a Stop,
    finish: Finish,
}

impl SiloWork for StreamingSilos<'_> {
    type Outcome = BulkSide;

    fn sources(&self) -> Vec<IpAddr> {
        self.plan.sources.clone()
    }

    fn run<L: Port>(&self, seat: &SiloPlace, link: L) -> Result<BulkSide, String> {
        let mine = self.plan.share(seat.index as u32, self.silos as u32).ok_or("no streams are left for it")?;
        let patience = mine.connect_timeout;
        let mut host = self.host.clone();
        host.max_connections = (mine.up + mine.down + ROOM).saturating_mul(self.silos as u32);
        self.domains.settle(seat, &link);
        let stack = stack(&host, (seat.index, self.silos), &link.capabilities(), self.plan.sources.iter().copied());
        let mut stack = stack.map_err(|why| why.to_string())?;
        if let Some(path) = link.return_path() {
            stack.set_return_path(path);
        }
        let sender = self.sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let mut silo = Silo { link, stack, app: Bulk::new(mine) };
        let mut attendant = OnLinks {
            notices: Notices::new(self.layout, &self.losses, self.host.on_link_loss),
            cutter: Cutter::new(self.every, self.signals, sender),
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
            return Err("nobody came to the other side of the link".to_owned());
        }
        silo.app.stop(Clock.now());
        Ok(attendant.cutter.side(&silo.app))
    }
}

struct OnLinks<'a> {
    notices: Notices<'a>,
    cutter: Cutter,
    part: host::fleet::Part<'a>,
    stop: &'a Stop,
    /// How long the link's other side is waited for.
    patience: Duration,
    waiting_since: Option<Time>,
    seen: bool,
    absent: bool,
}

impl<L: Port> Attendant<L, Bulk> for OnLinks<'_> {
    fn attend(&mut self, silo: &mut Silo<L, Bulk>, now: Time, _: &Usage, link: LinkState) -> Next {
        self.notices.attend(silo);
        if self.notices.end().is_err() || self.stop.is_set() {
            return Next::Stop;
        }
        self.seen |= link == LinkState::Up;
        if !self.seen && now.since(*self.waiting_since.get_or_insert(now)) >= self.patience {
            self.absent = true;
            return Next::Stop;
        }
        let Silo { stack, app, .. } = silo;
        let look = |bulk: &Bulk| {
            let mut look = Look::default();
            for stream in bulk.streams() {
                let info = stack.info(stream.id);
                let transport = Transport {
                    acknowledged: stream.queued.saturating_sub(stack.unsent(stream.id) as u64),
                    cwnd: info.map_or(0, |info| info.cwnd.into()),
                    rtt_us: info.map_or(0, |info| info.srtt_us.into()),
                    ..Transport::default()
                };
                look.add(stream, &transport);
            }
            // The stack counts for all of its connections, of which there are no others.
            let sends = bulk.streams().any(|stream| stream.way == Way::Up);
            let way = if sends { &mut look.up } else { &mut look.down };
            way.retransmits = stack.tcp_counters().retransmits;
            look
        };
        if !self.cutter.attend(app, now, look) {
            return Next::Go;
        }
        let closed = silo.app.drain(&mut silo.stack) && silo.stack.connections() == 0;
        let late = self.cutter.ended.is_some_and(|since| now.since(since) >= END_LIMIT);
        // One that has finished goes on passing on the others' frames.
        if (closed || late) && self.part.is_over() { Next::Stop } else { Next::Go }
    }
}
