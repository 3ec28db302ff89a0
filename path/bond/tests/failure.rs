//! Two hosts, the real stack in real silos, joined by an aggregation whose
//! members fail and come back under way: no connection may notice.

use bond::{Aggregator, Bond, BondCounters, Member, Setup};
use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use link::{Capabilities, Counters, FaultPlan, Faults, Impairment, Link, LinkState, Pair, PairConfig, PairLink, Rate};
use silo::Silo;
use sim::peer::{Job, Peer, Tally};
use sim::rng::Rng;
use sim::scenario::{PORT, addresses, cut, host_config};
use sim::talk::Manner;
use stack::{LinkOffload, Seeds, Stack};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use wire::Time;

/// Both hosts take a turn each of these.
const STEP: Duration = Duration::from_micros(200);
/// As a silo on a real clock does it.
const CONTROL_EVERY: Duration = Duration::from_millis(1);
/// A transfer that is not done by then is stuck.
const LIMIT: Time = Time::from_millis(120_000);

/// A link whose carrier can be taken away.
struct Plug {
    link: Faults<PairLink>,
    carrier: Rc<Cell<bool>>,
}

impl Link for Plug {
    type Rx<'a> = <Faults<PairLink> as Link>::Rx<'a>;
    type Tx<'a> = <Faults<PairLink> as Link>::Tx<'a>;

    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }

    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        self.link.split()
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        if self.carrier.get() { self.link.poll_control(now) } else { LinkState::Down }
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.link.wait(wake, timeout)
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

/// What becomes of a member's cable.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// Pulled: both sides see that the carrier is gone.
    Pulled(usize),
    /// As it should be.
    Whole(usize),
    /// Nothing comes through from this host to the other, and neither sees it.
    Deaf { member: usize, from: usize },
}

struct Host {
    silo: Silo<Bond<Plug>, Peer>,
    aggregator: Arc<Aggregator>,
}

struct Duo {
    hosts: Vec<Host>,
    carriers: Vec<Rc<Cell<bool>>>,
    now: Time,
    control_at: Time,
}

/// What a cable does by itself: a millisecond of way, 4 MB/s, and no loss.
fn cable() -> Impairment {
    let rate = Rate { bytes_per_second: 4_000_000, queue_bytes: 16 << 20 };
    Impairment { delay: Duration::from_millis(1), rate: Some(rate), hold_limit: 1 << 20, ..Impairment::default() }
}

/// What each talk sends, either way.
const BYTES: u64 = 300_000;
const TALKS: u64 = 64;

/// Over how long a time talks start, where a test is not about haste.
const SPREAD: Duration = Duration::from_secs(6);

impl Duo {
    /// Talks start from `starts` on, over [`SPREAD`].
    fn new(setup: Setup, members: usize, starts: Time) -> Self {
        Self::spread(setup, members, starts, SPREAD)
    }

    fn spread(setup: Setup, members: usize, starts: Time, spread: Duration) -> Self {
        let mut rng = Rng::new(7);
        let manner = Manner { most: BYTES, aborts: 0, plain: true, exact: Some((BYTES, BYTES)), sealed: 0 };
        let to = SocketAddr::new(addresses(1)[0], PORT);
        let jobs = (0..TALKS).map(|number| Job {
            at: starts + spread * number as u32 / TALKS as u32,
            from: None,
            to,
            key: rng.next(),
            tries: 0,
        });
        let jobs = [jobs.collect(), Vec::new()];
        let carriers: Vec<_> = (0..members).map(|_| Rc::new(Cell::new(true))).collect();
        let pairs: Vec<_> =
            (0..members).map(|_| Pair::new(PairConfig { ring: 512, ..PairConfig::default() })).collect();
        let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let hosts = [near, far].into_iter().zip(jobs).enumerate().map(|(index, (links, jobs))| {
            let config = host_config(index, 1_500);
            let aggregator = setup.aggregator(config.mac, (0..members).map(|port| format!("port {port}")));
            let plan = FaultPlan { transmit: cable(), ..FaultPlan::default() };
            let plug = |(port, link): (usize, _)| Member {
                port: port as u16,
                link: Plug { link: Faults::new(link, plan), carrier: Rc::clone(&carriers[port]) },
            };
            let link = Bond::new(links.into_iter().enumerate().map(plug).collect(), Arc::clone(&aggregator)).unwrap();
            let mut keys = || core::array::from_fn(|_| rng.next());
            let seeds = Seeds { table: keys(), secret: keys(), timestamps: [9; 2] };
            let stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
            let app = Peer::new(format!("host {index}"), rng.next(), manner, jobs);
            Host { silo: Silo { link, stack, app }, aggregator }
        });
        Self { hosts: hosts.collect(), carriers, now: Time::ZERO, control_at: Time::ZERO }
    }

    fn happen(&mut self, what: Happening) {
        let (member, impaired) = match what {
            Happening::Pulled(member) => (member, [cut(), cut()]),
            Happening::Whole(member) => (member, [cable(), cable()]),
            Happening::Deaf { member, from: 0 } => (member, [cut(), cable()]),
            Happening::Deaf { member, .. } => (member, [cable(), cut()]),
        };
        self.carriers[member].set(!matches!(what, Happening::Pulled(_)));
        for (host, impairment) in self.hosts.iter_mut().zip(impaired) {
            host.silo.link.with_member(member, |plug| plug.link.set_impairments(Impairment::default(), impairment));
        }
    }

    /// Runs to the time, or until all talks are over.
    fn run(&mut self, until: Time) {
        while self.now < until && !self.done() {
            let control = self.now >= self.control_at;
            for host in &mut self.hosts {
                if control {
                    host.silo.link.poll_control(self.now);
                }
                while host.silo.turn(self.now).more {}
            }
            if control {
                self.control_at = self.now + CONTROL_EVERY;
            }
            self.now = self.now + STEP;
        }
    }

    fn done(&self) -> bool {
        self.hosts.iter().all(|host| host.silo.app.done()) && self.hosts[0].silo.app.tally.finished == TALKS
    }

    /// All talks are over, every byte was right, and no connection was lost.
    fn finish(&mut self) -> Duration {
        self.run(LIMIT);
        let under_way: Vec<_> = self.hosts.iter().flat_map(|host| host.silo.app.under_way()).collect();
        assert!(self.done(), "stuck: {under_way:?}");
        for host in &self.hosts {
            let Tally { violations, finished, reset, timed_out, late, retried, bytes, .. } = &host.silo.app.tally;
            assert_eq!(*violations, [""; 0]);
            assert_eq!((*finished, *bytes), (TALKS, TALKS * BYTES));
            assert_eq!([reset, timed_out, late, retried], [&0; 4]);
        }
        self.now.since(Time::ZERO)
    }

    fn bytes_sent(&self, host: usize) -> Vec<u64> {
        self.hosts[host].silo.link.members().map(|member| member.link.counters().tx_bytes).collect()
    }

    fn distributing(&self) -> [u32; 2] {
        [0, 1].map(|host| self.hosts[host].aggregator.distributing())
    }

    /// Frames that one host sent, and of these those lost and received.
    fn passed(&mut self, from: usize) -> [u64; 3] {
        let members = self.hosts[from].silo.link.members();
        let (mut sent, mut lost) = (0, 0);
        for member in members {
            let faults = member.link.link.transmit_faults();
            sent += faults.entered;
            lost += faults.lost + faults.queue_dropped + faults.overflowed;
        }
        [sent, lost, self.hosts[1 - from].silo.link.counters().rx_frames]
    }

    fn retransmits(&self) -> u64 {
        self.hosts.iter().map(|host| host.silo.stack.tcp_counters().retransmits).sum()
    }

    fn bond_counters(&self) -> [BondCounters; 2] {
        [0, 1].map(|host| self.hosts[host].silo.link.bond_counters())
    }
}

const LACP: &str = "lacp";

fn setup(text: &str) -> Setup {
    text.parse().unwrap()
}

/// Nothing fails: then nothing is lost, doubled or sent again, and both
/// members carry their share.
#[test]
fn flows_are_spread_and_nothing_is_lost() {
    for text in ["static", LACP] {
        let mut duo = Duo::new(setup(text), 2, Time::from_millis(3_000));
        duo.finish();
        assert_eq!(duo.retransmits(), 0, "{text}");
        for host in 0..2 {
            let sent = duo.bytes_sent(host);
            let share = sent[0] as f64 / sent.iter().sum::<u64>() as f64;
            assert!((0.3..0.7).contains(&share), "{text}: host {host} sent {sent:?}");
            let [sent, lost, received] = duo.passed(host);
            assert_eq!((lost, sent), (0, received), "{text}: host {host}");
        }
    }
}

/// Two members carry nearly twice what one does.
#[test]
fn two_members_are_faster_than_one() {
    let starts = Time::from_millis(10);
    let took =
        [1, 2].map(|members| Duo::spread(setup("static"), members, starts, Duration::ZERO).finish().as_secs_f64());
    assert!(took[1] < 0.7 * took[0], "{took:?}");
}

/// A cable is pulled, and plugged in again: at once on static, by agreement
/// on LACP, the flows are on the other one meanwhile.
#[test]
fn connections_live_through_the_loss_of_a_carrier() {
    for (text, members) in [("static", 1..2), (LACP, 0..2), ("lacp,rate=slow", 0..1)] {
        for member in members {
            let mut duo = Duo::new(setup(text), 2, Time::from_millis(3_000));
            duo.run(Time::from_millis(3_800));
            assert_eq!(duo.distributing(), [3, 3], "{text}");
            duo.happen(Happening::Pulled(member));
            duo.run(Time::from_millis(4_800));
            let other = 3 & !(1 << member);
            assert_eq!(duo.distributing(), [other, other], "{text}");
            let silent = duo.bytes_sent(0)[member];
            duo.run(Time::from_millis(5_200));
            assert_eq!(duo.bytes_sent(0)[member], silent, "{text}: nothing is sent into the pulled cable");
            duo.happen(Happening::Whole(member));
            duo.run(Time::from_millis(8_500));
            assert_eq!(duo.distributing(), [3, 3], "{text}");
            duo.finish();
            for host in 0..2 {
                let [sent, lost, received] = duo.passed(host);
                assert_eq!(sent, lost + received, "{text}: what is not lost comes once");
                assert!(lost < 400, "{text}: {lost} frames were on their way");
            }
            assert!(duo.bond_counters().iter().all(|counters| counters.changes >= 3));
        }
    }
}

/// A cable is dead in one direction and nobody sees it: LACP does, within
/// three periods, and no connection is lost.
#[test]
fn connections_live_through_a_failure_in_one_direction() {
    for from in 0..2 {
        let mut duo = Duo::new(setup(LACP), 2, Time::from_millis(3_000));
        duo.run(Time::from_millis(3_500));
        duo.happen(Happening::Deaf { member: 1, from });
        duo.run(Time::from_millis(7_200));
        assert_eq!(duo.distributing(), [1, 1], "from host {from}");
        duo.happen(Happening::Whole(1));
        duo.finish();
    }
}

/// Static aggregation cannot see it: flows there stand still until the cable
/// is whole again, and then go on.
#[test]
fn static_flows_wait_for_a_cable_that_is_dead_unseen() {
    let mut duo = Duo::new(setup("static"), 2, Time::from_millis(10));
    duo.run(Time::from_millis(500));
    duo.happen(Happening::Deaf { member: 1, from: 0 });
    duo.run(Time::from_millis(6_000));
    assert_eq!(duo.distributing(), [3, 3]);
    assert!(!duo.done());
    duo.happen(Happening::Whole(1));
    duo.finish();
}

/// A member that comes and goes several times a second.
#[test]
fn connections_live_with_a_member_that_flaps() {
    for text in ["static", LACP] {
        let mut duo = Duo::new(setup(text), 3, Time::from_millis(3_000));
        for flap in 0..20 {
            duo.run(Time::from_millis(3_300 + flap * 150));
            duo.happen(if flap % 2 == 0 { Happening::Pulled(1) } else { Happening::Whole(1) });
        }
        duo.run(Time::from_millis(10_000));
        duo.happen(Happening::Whole(1));
        duo.finish();
        let left = duo.hosts[0].aggregator.counters(1).left;
        assert!(if text == LACP { left == 1 } else { left == 10 }, "{text}: left {left} times");
    }
}

/// All members at once, for two seconds: the stack's retransmissions bridge
/// it, as they do any interruption.
#[test]
fn connections_live_through_the_loss_of_all_members() {
    let mut duo = Duo::new(setup("static"), 2, Time::from_millis(10));
    duo.run(Time::from_millis(500));
    for member in 0..2 {
        duo.happen(Happening::Pulled(member));
    }
    duo.run(Time::from_millis(2_500));
    assert_eq!(duo.distributing(), [0, 0]);
    for member in 0..2 {
        duo.happen(Happening::Whole(member));
    }
    duo.finish();
}
