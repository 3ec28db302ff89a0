//! A thread for each silo.

use super::ports::{self, Opened};
use super::{Layout, SiloPlace};
use crate::any::AnyLink;
use crate::drivers::{DriverUser, Row};
use crate::plan::HostPlan;
use crate::port::Port;
use crate::silo_link::SiloLink;
use bond::{Bond, Member};
use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use driver::{Handover, Offer, Opening, Queue};
use link::{Capabilities, Link};
use say::Failure;
use sockets::fleet::{self, FleetError, Stop};
use std::sync::{Arc, Mutex, PoisonError};
use steer::{MeshEnd, Steered};

/// What each silo of a fleet does.
pub trait SiloWork: Sync {
    /// What comes of it.
    type Outcome: Send;

    /// Whether its silos have kernel sockets beside their link: the copy of the stack
    /// for that is the one for any link.
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

// A copy of the whole stack takes seconds to build, and its place in the program. So all
// drivers and layouts share one ([`SiloLink`]), but for what costs no more than the calls
// of it would (`driver::Copies`):
//
// | | one silo, one queue | a queue for each silo | else |
// | --- | --- | --- | --- |
// | drivers with a copy of their own | `L` | `Steered<L>` | `SiloLink` |
// | other drivers; what is captured, harmed, or beside kernel sockets | `SiloLink` | the same | the same |
impl<C: SiloWork> DriverUser for Fleet<'_, C> {
    type Outcome = Result<Vec<C::Outcome>, Failure>;

    fn with<D: Row>(self) -> Self::Outcome {
        let opened = self.open::<D>()?;
        // A constant, so that what is not run is not built.
        if D::HAS_STACK { self.own(opened) } else { self.shared(ports::deal(self.layout, opened)?) }
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

    /// By a copy of the stack for this driver, where there is one for what the layout asks.
    fn own<L: Port + Send + Into<AnyLink>>(&self, opened: Opened<L>) -> Result<Vec<C::Outcome>, Failure> {
        let dealt = ports::deal(self.layout, opened)?;
        if ports::is_wrapped(self.host) || self.work.is_composite() || !self.layout.is_plain() {
            return self.shared(dealt);
        }
        if self.layout.is_single() {
            return self.launch(dealt.into_iter().flatten().collect(), |member| Ok(member.link));
        }
        let mesh_ends = self.join(&dealt)?;
        self.launch(dealt.into_iter().zip(mesh_ends).collect(), |(queue, mesh_end)| {
            Ok(Steered::new(only(queue)?, mesh_end))
        })
    }

    /// By the copy of the stack for any link.
    fn shared<L: Into<AnyLink>>(&self, dealt: Vec<Vec<Member<L>>>) -> Result<Vec<C::Outcome>, Failure> {
        let dealt = ports::any(self.host, self.layout, dealt)?;
        if self.layout.is_single() {
            return self.launch(dealt, |queue| Ok(SiloLink::Alone(only(queue)?)));
        }
        let mesh_ends = self.join(&dealt)?;
        let ports = self.layout.ports.iter().map(|port| port.name.clone());
        let bond = (!self.layout.is_plain()).then(|| self.host.bond.aggregator(super::mac(self.host), ports));
        // What a silo without queue can do is what those can that send for it.
        let capabilities = common(&dealt)?;
        self.launch(dealt.into_iter().zip(mesh_ends).collect(), |(members, mesh_end)| {
            let Some(aggregator) = &bond else {
                return Ok(SiloLink::Queue(Steered::new(only(members)?, mesh_end)));
            };
            let bond = match members.is_empty() {
                true => Bond::without_members(Arc::clone(aggregator), capabilities),
                false => Bond::new(members, Arc::clone(aggregator)).map_err(|why| why.to_string())?,
            };
            // Flows may come by another port when one fails.
            mesh_end.mesh().set_failover(self.layout.ports.len() > 1);
            Ok(SiloLink::Bond(Steered::new(bond, mesh_end)))
        })
    }

    /// The ends of the mesh between the silos of these queues.
    fn join<L: Link>(&self, dealt: &[Vec<Member<L>>]) -> Result<Vec<MeshEnd>, Failure> {
        self.layout.join(self.host, longest(&common(dealt)?))
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

/// What all queues can do.
fn common<L: Link>(dealt: &[Vec<Member<L>>]) -> Result<Capabilities, Failure> {
    let all = dealt.iter().flatten().map(|member| member.link.capabilities());
    all.reduce(bond::common).ok_or_else(|| "no port has a queue".into())
}

/// A silo's only queue.
fn only<L>(queues: Vec<Member<L>>) -> Result<L, String> {
    queues.into_iter().next().map(|member| member.link).ok_or_else(|| "it has no queue".to_owned())
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
    use crate::drivers::LinkSpec;
    use crate::port::{BOND, steer_names};
    use core::time::Duration;
    use driver::Role;
    use link::{Counters, LinkState, Receive, Transmit};
    use std::io;
    use std::os::fd::BorrowedFd;
    use wire::{Offload, Time};

    /// A queue that nothing ever comes by.
    #[derive(Default)]
    struct Still(StillHalf, StillHalf);

    #[derive(Default)]
    struct StillHalf;

    impl Link for Still {
        type Rx<'a> = &'a mut StillHalf;
        type Tx<'a> = &'a mut StillHalf;

        fn capabilities(&self) -> Capabilities {
            Capabilities {
                mtu: 1500,
                receive_checksum: false,
                transmit_checksum: false,
                segmentation: None,
                queues: 1,
                shared_frames: false,
            }
        }

        fn split(&mut self) -> (&mut StillHalf, &mut StillHalf) {
            (&mut self.0, &mut self.1)
        }

        fn poll_control(&mut self, _now: Time) -> LinkState {
            LinkState::Up
        }

        fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
            Ok(())
        }

        fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    impl Receive for StillHalf {
        fn receive(&mut self, _now: Time, _max: usize) -> usize {
            0
        }

        fn frame(&self, _index: usize) -> &[u8] {
            &[]
        }

        fn release(&mut self) {}
    }

    impl Transmit for StillHalf {
        fn room(&self) -> usize {
            0
        }

        fn slot(&mut self) -> Option<&mut [u8]> {
            None
        }

        fn commit(&mut self, _len: usize, _offload: Offload) {}

        fn flush(&mut self, _now: Time) {}
    }

    impl Port for Still {}

    impl From<Still> for AnyLink {
        fn from(link: Still) -> Self {
            Self::new(link)
        }
    }

    /// Tells what its silos' links count.
    struct Names;

    impl SiloWork for Names {
        type Outcome = (bool, Vec<String>);

        fn run<L: Port>(&self, _seat: &SiloPlace, link: L) -> Result<Self::Outcome, String> {
            let mut all = Vec::new();
            link.counts(&mut |name, _| all.push(name.to_owned()));
            Ok((L::OWN_COPY, all))
        }
    }

    /// Links, silos, which have a queue each if they are several, and how many names begin so.
    type Case<'a> = (&'a [&'a str], usize, &'a [(&'a str, usize)]);

    /// Values go to their places on the statistics page by their order alone. Each layout
    /// has the names of what its silos tell, over the one copy of the stack.
    #[test]
    fn what_silos_tell_has_its_names_on_the_page() {
        let steering = ("steer.", steer_names().count());
        let cases: [Case<'_>; 4] = [
            (&["tap:a"], 1, &[]),
            (&["tap:a,queues=2"], 2, &[steering]),
            (&["tap:a,queues=2"], 1, &[steering, ("bond.", BOND.len() + 7)]),
            (&["tap:a", "tap:b"], 1, &[steering, ("bond.", BOND.len() + 14)]),
        ];
        for (links, silos, begin) in cases {
            let links = links.iter().map(|link| LinkSpec::parse(link, Role::Server).unwrap()).collect();
            let host = HostPlan::new(links);
            let mut layout = Layout::new(&host).unwrap();
            if silos > 1 {
                let one = layout.seats.pop().unwrap();
                let seat = |(index, queue): (usize, &_)| SiloPlace { index, queues: vec![*queue], ..one.clone() };
                layout.seats = one.queues.iter().enumerate().map(seat).collect();
            }
            assert_eq!(layout.seats.len(), silos);
            let member = |queue: &topology::Queue| Member { port: queue.port, link: Still::default() };
            let dealt = layout.seats.iter().map(|seat| seat.queues.iter().map(member).collect()).collect();
            let fleet = Fleet { host: &host, layout: &layout, stop: &Stop::default(), work: &Names };
            let told: Vec<_> = fleet.shared::<Still>(dealt).unwrap();
            let mut named = Vec::new();
            ports::names(&host, &layout, &mut |name, _| named.push(name.to_owned()));
            assert_eq!(told, vec![(false, named.clone()); silos]);
            for (start, count) in begin {
                assert_eq!(named.iter().filter(|name| name.starts_with(start)).count(), *count, "{named:?}");
            }
            assert_eq!(named.len(), begin.iter().map(|(_, count)| count).sum::<usize>(), "{named:?}");
        }
    }

    /// A driver with copies of the stack has them used where the layout is one of them.
    #[test]
    fn a_copy_of_its_own_is_for_one_queue_in_each_silo() {
        for (link, own) in [("memif:/run/x.sock", true), ("memif:/run/x.sock,queues=2", false)] {
            let host = HostPlan::new(vec![LinkSpec::parse(link, Role::Server).unwrap()]);
            let layout = Layout::new(&host).unwrap();
            let opened = vec![layout.seats[0].queues.iter().map(|_| Still::default()).collect()];
            let fleet = Fleet { host: &host, layout: &layout, stop: &Stop::default(), work: &Names };
            assert_eq!(fleet.own::<Still>(opened).unwrap()[0].0, own, "{link}");
        }
    }

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
