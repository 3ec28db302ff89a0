//! A thread for each silo.

use super::ports::{self, Opened};
use super::{Layout, SiloPlace};
use crate::any::AnyLink;
use crate::drivers::{DriverUser, Row};
use crate::plan::HostPlan;
use crate::port::Port;
use bond::{Bond, Member};
use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use driver::{Handover, Offer, Opening, Queue};
use link::Capabilities;
use say::Failure;
use sockets::fleet::{self, FleetError, Stop};
use std::sync::{Arc, Mutex, PoisonError};
use steer::Steered;

/// What each silo of a fleet does.
pub trait SiloWork: Sync {
    /// What comes of it.
    type Outcome: Send;

    /// Whether its silos that have several interfaces get a copy of the stack
    /// of their own.
    const BONDS: bool = true;

    /// Whether its silos have kernel sockets beside their link: of drivers
    /// without a copy of the stack for that, the one for any link is used.
    fn is_composite(&self) -> bool {
        false
    }

    /// Makes the silo on its own thread, which is where it is to be, and runs
    /// it to its end. Memory that this touches first is near.
    ///
    /// # Errors
    /// A sentence for the user.
    fn run<L: Port>(&self, seat: &SiloPlace, link: L) -> Result<Self::Outcome, String>;

    /// Addresses of ours beside the plan's: a link that chooses its frames is
    /// to know them.
    fn sources(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Ports that are served.
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    /// What a process before this one leaves of the `index`th link, if
    /// anything.
    fn offer(&self, index: usize) -> Option<Offer> {
        let _ = index;
        None
    }

    /// Who opens the `index`th link again when it comes back, where this process
    /// may not.
    fn reopener(&self, index: usize) -> Option<Arc<dyn link::Reopener>> {
        let _ = index;
        None
    }

    /// A link is open: how another process may have it.
    fn on_opened(&self, port: Arc<dyn Handover>) {
        let _ = port;
    }
}

/// Opens the plan's links and runs a silo on each seat, until all have ended.
/// If one fails, or panics, `stop` is set, for the others to look at.
///
/// # Errors
/// If a link or a core cannot be had, and those of `work`.
pub fn run<C: SiloWork>(host: &HostPlan, layout: &Layout, stop: &Stop, work: &C) -> Result<Vec<C::Outcome>, Failure> {
    super::own::check(host)?;
    let fleet = Fleet { host, layout, stop, work };
    let first = host.links.first().ok_or("there is no link")?;
    first.driver.with(fleet)
}

struct Fleet<'a, C> {
    host: &'a HostPlan,
    layout: &'a Layout,
    stop: &'a Stop,
    work: &'a C,
}

// What a link is made of decides which copy of the whole stack is run. Each
// copy takes seconds to build, so that what is seldom asked for, and what costs
// more than a call or two for each frame, shares one (`driver::Copies`):
//
// | | one silo, one queue | a queue for each silo | else |
// | --- | --- | --- | --- |
// | drivers with copies for bonds, that serve | `L` | `Steered<L>` | `Steered<Bond<L>>` |
// | those of a generator, drivers with copies for queues | `L` | `Steered<L>` | `Steered<Bond<AnyLink>>` |
// | other drivers; what is captured or harmed | `AnyLink` | `Steered<Bond<AnyLink>>` | the same |
impl<C: SiloWork> DriverUser for Fleet<'_, C> {
    type Outcome = Result<Vec<C::Outcome>, Failure>;

    fn with<D: Row>(self) -> Self::Outcome {
        let opened = self.open::<D>()?;
        // Constants, so that what is not run is not built.
        match (D::HAS_BONDS, D::HAS_QUEUES) {
            (true, _) => self.fast::<_, true>(opened),
            (_, true) => self.fast::<_, false>(opened),
            _ => self.slow(opened),
        }
    }
}

impl<C: SiloWork> Fleet<'_, C> {
    /// Opens every port, with the queues that the layout says.
    fn open<D: Row>(&self) -> Result<Opened<D::Queue>, Failure> {
        let Self { host, layout, work, .. } = self;
        let claim = ports::claim(host, work.ports(), work.sources());
        let mut all = Vec::new();
        for (index, (link, port)) in host.links.iter().zip(&layout.ports).enumerate() {
            let driver = D::of(&link.driver).ok_or("all links are to be of one kind")?;
            let (mac, offer) = (super::given_mac(host), work.offer(index));
            let mut opened = driver.open(Opening { queues: port.queues, claim: &claim, mac, offer })?;
            // A generator is a command, whose user looks on.
            let say = |report| if host.opens { say::note(report) } else { say::info(report) };
            opened.report.into_iter().for_each(say);
            opened.handover.into_iter().for_each(|handover| work.on_opened(handover));
            let reopeners = core::iter::repeat(work.reopener(index)).map_while(|reopener| reopener);
            opened.queues.iter_mut().zip(reopeners).for_each(|(queue, reopener)| queue.set_reopener(reopener));
            all.push(opened.queues);
        }
        Ok(all)
    }

    /// Links whose every instruction counts; with `BONDS`, where a silo has
    /// several, too.
    fn fast<L: Port + Send + Into<AnyLink>, const BONDS: bool>(
        &self,
        opened: Opened<L>,
    ) -> Result<Vec<C::Outcome>, Failure> {
        if ports::is_wrapped(self.host) || self.work.is_composite() && !L::BESIDE {
            return self.slow(opened);
        }
        let dealt = ports::deal(self.layout, opened)?;
        if self.layout.is_single() {
            return self.launch(dealt.into_iter().flatten().collect(), |member| Ok(member.link));
        }
        if !self.layout.is_plain() {
            return match BONDS && C::BONDS {
                true => self.bonded(dealt),
                false => self.bonded(ports::any(self.host, self.layout, dealt)?),
            };
        }
        let all = dealt.iter().flatten().map(|member| member.link.capabilities());
        let mesh_ends = self.layout.join(self.host, all.map(|link| longest(&link)).max().unwrap_or(0))?;
        let queues = dealt.into_iter().map(|mut queues| queues.pop().map(|member| member.link));
        self.launch(queues.zip(mesh_ends).collect(), |(queue, mesh_end)| {
            let queue = queue.ok_or("it has no queue")?;
            Ok(Steered::new(queue, mesh_end))
        })
    }

    /// Links that cost more than what is around them.
    fn slow<L: Into<AnyLink>>(&self, opened: Opened<L>) -> Result<Vec<C::Outcome>, Failure> {
        let dealt = ports::any(self.host, self.layout, ports::deal(self.layout, opened)?)?;
        if self.layout.is_single() {
            return self.launch(dealt.into_iter().flatten().collect(), |member| Ok(member.link));
        }
        self.bonded(dealt)
    }

    /// Each silo's queues as one link, whatever their number.
    fn bonded<L: Port + Send>(&self, dealt: Vec<Vec<Member<L>>>) -> Result<Vec<C::Outcome>, Failure> {
        let ports = self.layout.ports.iter().map(|port| port.name.clone());
        let aggregator = self.host.bond.aggregator(super::mac(self.host), ports);
        // What a silo without queue can do is what those can that send for it.
        let all = dealt.iter().flatten().map(|member| member.link.capabilities());
        let capabilities = all.reduce(bond::common).ok_or("no port has a queue")?;
        let mesh_ends = self.layout.join(self.host, longest(&capabilities))?;
        let parts: Vec<_> = dealt.into_iter().zip(mesh_ends).collect();
        self.launch(parts, |(members, mesh_end)| {
            let bond = match members.is_empty() {
                true => Bond::without_members(Arc::clone(&aggregator), capabilities),
                false => Bond::new(members, Arc::clone(&aggregator)).map_err(|why| why.to_string())?,
            };
            // Flows may come by another port when one fails.
            mesh_end.mesh().set_failover(self.layout.ports.len() > 1);
            Ok(Steered::new(bond, mesh_end))
        })
    }

    /// Runs the silos, each with the link that `make` makes of its part where
    /// the silo is to be.
    fn launch<P: Send, L: Port>(
        &self,
        parts: Vec<P>,
        make: impl Fn(P) -> Result<L, String> + Sync,
    ) -> Result<Vec<C::Outcome>, Failure> {
        let Self { host, layout, stop, work, .. } = self;
        let parts: Mutex<Vec<Option<P>>> = Mutex::new(parts.into_iter().map(Some).collect());
        let body = |index: usize| {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index).and_then(Option::take);
            let (seat, part) = layout.seats.get(index).zip(part).ok_or("it has no link")?;
            let link = make(part)?;
            host.fifo.map_or(Ok(()), crate::sched::of_thread)?;
            work.run(seat, link)
        };
        fleet::run(&layout.cores(), stop, body).map_err(|why: FleetError<String>| match why {
            FleetError::Worker(_, why) if layout.seats.len() == 1 => why.into(),
            FleetError::Worker(index, why) => format!("silo {index}: {why}").into(),
            other => other.to_string().into(),
        })
    }
}

/// The longest packet that a link takes, in bytes.
fn longest(link: &Capabilities) -> usize {
    link.segmentation.unwrap_or(0).max(u32::from(link.mtu)) as usize
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
