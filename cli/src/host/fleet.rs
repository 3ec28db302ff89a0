//! A thread for each silo.

use super::ports::{self, AnyLink, Opened, Port};
use super::{Failure, Layout, Seat};
use crate::args::{DriverSpec, HostPlan, LinkSpec};
use af_xdp::Claim;
use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use sockets::fleet::{self, FleetError, Stop};
use std::sync::{Mutex, PoisonError};

/// What each silo of a fleet does.
pub trait Crew: Sync {
    /// What comes of it.
    type Outcome: Send;

    /// Makes the silo on its own thread, which is where it is to be, and runs
    /// it to its end. Memory that this touches first is near.
    ///
    /// # Errors
    /// A sentence for the user.
    fn work<L: Port>(&self, seat: &Seat, link: L) -> Result<Self::Outcome, String>;

    /// Addresses of ours beside the plan's: a link that chooses its frames is
    /// to know them.
    fn sources(&self) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// Opens the plan's links and runs a silo on each seat, until all have ended.
/// If one fails, or panics, `stop` is set, for the others to look at.
///
/// # Errors
/// If a link or a core cannot be had, and those of `crew`.
pub fn run<C: Crew>(host: &HostPlan, layout: &Layout, stop: &Stop, crew: &C) -> Result<Vec<C::Outcome>, Failure> {
    match host.links.first().map(|link| &link.driver) {
        Some(DriverSpec::Memif(_)) => staff(host, layout, stop, crew, ports::open(host, layout, ports::memif)?),
        Some(DriverSpec::Tap(_)) => staff(host, layout, stop, crew, ports::open(host, layout, ports::tap)?),
        Some(DriverSpec::AfXdp(_)) => {
            let addresses = host.addresses.iter().map(|cidr| cidr.address).chain(crew.sources()).collect();
            let claim = Claim::Own { addresses };
            let open = |link: &LinkSpec, queues| ports::af_xdp(link, queues, &claim);
            staff(host, layout, stop, crew, ports::open(host, layout, open)?)
        }
        Some(DriverSpec::Dpdk(_)) => {
            let open = |link: &LinkSpec, queues| ports::dpdk(host, link, queues);
            staff(host, layout, stop, crew, ports::open(host, layout, open)?)
        }
        None => Err("there is no link".into()),
    }
}

/// Gives each silo its queues as one link.
fn staff<L: Port + Send + Into<AnyLink>, C: Crew>(
    host: &HostPlan,
    layout: &Layout,
    stop: &Stop,
    crew: &C,
    opened: Opened<L>,
) -> Result<Vec<C::Outcome>, Failure> {
    let mut links = Vec::new();
    for (seat, queues) in layout.seats.iter().zip(ports::deal(layout, opened)?) {
        let count = queues.len();
        let mut queues = queues.into_iter();
        match (queues.next(), count) {
            (Some((_, link)), 1) => links.push(link),
            _ => return Err(format!("silo {} has {count} queues: each needs one", seat.index).into()),
        }
    }
    if !ports::is_wrapped(host) {
        return launch(layout, stop, crew, links);
    }
    let wrapped = layout.seats.iter().zip(links).map(|(seat, link)| ports::wrap(host, layout, seat, 0, link.into()));
    launch(layout, stop, crew, wrapped.collect::<Result<Vec<_>, _>>()?)
}

/// Runs the silos, each with its link.
fn launch<L: Port + Send, C: Crew>(
    layout: &Layout,
    stop: &Stop,
    crew: &C,
    links: Vec<L>,
) -> Result<Vec<C::Outcome>, Failure> {
    let links: Mutex<Vec<Option<L>>> = Mutex::new(links.into_iter().map(Some).collect());
    let body = |index: usize| {
        let link = links.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index).and_then(Option::take);
        let (seat, link) = layout.seats.get(index).zip(link).ok_or("it has no link")?;
        crew.work(seat, link)
    };
    fleet::run(&layout.cores(), stop, body).map_err(|why: FleetError<String>| match why {
        FleetError::Worker(_, why) if layout.seats.len() == 1 => why.into(),
        FleetError::Worker(index, why) => format!("silo {index}: {why}").into(),
        other => other.to_string().into(),
    })
}

/// The end of a fleet: nobody leaves before all have finished, for one may
/// pass on the frames of another.
#[derive(Debug)]
pub struct Finish {
    finished: AtomicUsize,
    silos: usize,
}

impl Finish {
    /// For so many silos.
    pub const fn new(silos: usize) -> Self {
        Self { finished: AtomicUsize::new(0), silos }
    }

    /// One's part in it.
    pub const fn part(&self) -> Part<'_> {
        Part { finish: self, finished: false }
    }
}

/// One silo's part in the end. One that is dropped has finished.
#[derive(Debug)]
pub struct Part<'a> {
    finish: &'a Finish,
    finished: bool,
}

impl Part<'_> {
    /// This silo has nothing left to do. Whether none has.
    pub fn is_over(&mut self) -> bool {
        if !self.finished {
            self.finished = true;
            self.finish.finished.fetch_add(1, Ordering::Relaxed);
        }
        self.finish.finished.load(Ordering::Relaxed) >= self.finish.silos
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.is_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_before_all_have_finished() {
        let finish = Finish::new(3);
        let (mut first, mut second, third) = (finish.part(), finish.part(), finish.part());
        assert!(!first.is_over() && !first.is_over());
        assert!(!second.is_over());
        // It fell.
        drop(third);
        assert!(first.is_over() && second.is_over());
    }
}
