//! The same applications beside a silo's own connections: on the kernel half of
//! a [`Composite`].

use app::App;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use cpu::Clock;
use link::{Capabilities, Link, LinkState, Pair, PairConfig, PairLink, PairRx, PairTx};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use silo::{Idle, Next, Silo, Usage};
use sockets::{Composite, Config, ConnectRoutes, Counters, HalfConfig, KernelHalf, Listener};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::io;
use std::os::fd::BorrowedFd;
use wire::{Mac, Time};

/// A link on which nothing arrives while its silo sleeps: one that is asked to
/// sleep for long does so until it is woken.
pub struct Quiet {
    pub link: PairLink,
    /// The other end, which keeps it up.
    _far: Option<PairLink>,
}

/// From this on a sleep has no end of its own.
const LONG: Duration = Duration::from_millis(500);

impl Link for Quiet {
    type Rx<'a> = &'a mut PairRx;
    type Tx<'a> = &'a mut PairTx;

    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }

    fn split(&mut self) -> (&mut PairRx, &mut PairTx) {
        self.link.split()
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.link.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let span = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let span = (timeout < LONG).then_some(&span);
        let mut fds: Vec<PollFd<'_>> = wake.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        poll(&mut fds, span)?;
        Ok(())
    }

    fn counters(&self) -> link::Counters {
        self.link.counters()
    }
}

/// An address of a host on the link.
pub fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

/// A silo on a link to others.
pub fn silo_on<L, A>(link: L, host: u8, listen: Vec<u16>, app: A) -> Silo<L, A> {
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, host]), 1500);
    config.addresses = vec![Address { ip: address(host), prefix_len: 24 }];
    config.listen = listen;
    let seeds = Seeds { table: [host.into(); 4], secret: [host.into(); 4], timestamps: [9; 2] };
    Silo { link, stack: Stack::new(config, LinkOffload::default(), &seeds, Clock.now()), app }
}

/// The kernel half that a worker of this configuration would be.
pub fn half(config: Config, listeners: Vec<Listener>) -> KernelHalf {
    let Config { max_connections: connections, per_source, stream, .. } = config;
    KernelHalf::new(HalfConfig { connections, per_source, stream }, listeners).unwrap()
}

/// What looks after a silo, and what wakes it.
pub trait Strings<A> {
    fn attend(&mut self, silo: &mut Silo<Quiet, Composite<A>>) -> Next;
    fn wake<'a>(&'a self, app: &'a Composite<A>) -> Option<BorrowedFd<'a>>;
    /// Whether it is to be looked after only once it was woken.
    const RINGS: bool;
}

struct Attending<S>(S);

impl<A: App, S: Strings<A>> silo::Attendant<Quiet, Composite<A>> for Attending<S> {
    fn attend(&mut self, silo: &mut Silo<Quiet, Composite<A>>, _: Time, _: &Usage, _: LinkState) -> Next {
        let next = self.0.attend(silo);
        if next == Next::Stop {
            let Silo { stack, app, .. } = silo;
            app.end_all(stack);
        }
        next
    }

    fn due(&self, _: &Silo<Quiet, Composite<A>>, now: Time, _: &Usage) -> Time {
        if S::RINGS { Time::MAX } else { now + silo::ATTEND_ASLEEP }
    }

    fn wake<'a>(&'a self, app: &'a Composite<A>) -> Option<BorrowedFd<'a>> {
        self.0.wake(app)
    }
}

/// Runs `app` on the kernel half of a silo whose own connections are none.
pub fn run<A: App>(config: Config, listeners: Vec<Listener>, app: A, strings: impl Strings<A>) -> (A, Counters) {
    let (near, far) = Pair::new(PairConfig::default());
    let link = Quiet { link: near, _far: Some(far) };
    let app = Composite::new(app, half(config, listeners), ConnectRoutes::default());
    let mut silo = silo_on(link, 1, Vec::new(), app);
    let idle = Idle::Adaptive { latency: Duration::ZERO, max_wait: Duration::from_secs(1) };
    silo::run(&mut silo, idle, &mut Attending(strings)).unwrap();
    let counters = silo.app.half().counters();
    (silo.app.app, counters)
}
