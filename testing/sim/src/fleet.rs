//! A host of several silos, behind a NIC with one queue or many.

use crate::fabric::{Host, Node};
use crate::peer::Peer;
use crate::rng::Rng;
use crate::shadow::Watcher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use link::{Faults, Impairment, Link, Pair, PairConfig, PairLink, Receive, Transmit};
use silo::{Silo, Turn};
use stack::{Config, LinkOffload, Seeds, Stack};
use steer::{KEY_LEN, Mesh, MeshConfig, MeshHandle, Policy, ReturnQueue, Rss, SiloSpec, Spread, Steered, Toeplitz};
use wire::checksum::LinkVouched;
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::TcpHeader;
use wire::{Offload, Time, protocol};

/// How many silos a host has, and how frames find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silos {
    /// Silos.
    pub count: usize,
    /// Queues of its NIC: one for each silo, or one for all.
    pub queues: Queues,
    /// How connections are spread.
    pub policy: Policy,
    /// When the NIC spreads flows otherwise than before, as when a member of
    /// an aggregation fails.
    pub failover: Option<Time>,
}

/// Queues of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queues {
    /// One for each silo, by receive side scaling.
    Each,
    /// One: its silo receives and sends for all.
    One,
}

/// Flows that a silo of the simulator remembers: few, so that tables fill.
const FLOWS: usize = 64;

/// Frames that wait in a queue of the NIC, in each direction: small, and more
/// than a stack keeps free for control.
const QUEUE: usize = 64;

/// Entries of an indirection table.
const TABLE: usize = 128;

/// Frames that the NIC moves at a time.
const BURST: usize = 64;

/// Remembered flows are looked after as often as this, where nothing else is
/// to be done.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Silos of one host, each with an application of its own.
pub struct Fleet {
    port: Faults<PairLink>,
    /// The NIC's ends of the queues.
    queues: Vec<PairLink>,
    rss: Rss,
    toeplitz: Toeplitz,
    /// The silos.
    pub silos: Vec<Silo<Steered<PairLink>, Peer>>,
    last: Vec<Option<Turn>>,
    watch: Option<MeshHandle>,
    failover: Option<Time>,
    looked_at: Time,
    /// Who holds its silos' short ways against the general ones.
    pub watcher: Option<Watcher>,
}

impl Fleet {
    /// A host like `host`, of several silos; their applications are `peers`.
    ///
    /// # Panics
    /// If the operating system gives no eventfd.
    #[must_use]
    pub fn new(port: Faults<PairLink>, config: &Config, plan: Silos, seed: u64, peers: Vec<Peer>) -> Self {
        let mut rng = Rng::new(seed);
        let each = plan.queues == Queues::Each;
        let queues = |silo| u16::from(each || silo == 0);
        let seats: Vec<SiloSpec> = (0..plan.count).map(|silo| SiloSpec { domain: 0, queues: queues(silo) }).collect();
        let mesh = MeshConfig {
            policy: plan.policy,
            spread: Spread::Keyed,
            // Small, so that rings fill.
            ring: 64 << 10,
            flows: FLOWS,
            key: core::array::from_fn(|_| rng.next()),
            ..MeshConfig::default()
        };
        let key: Vec<u8> = (0..KEY_LEN).map(|_| rng.next() as u8).collect();
        let owners = if each { plan.count as u16 } else { 1 };
        let table = (0..TABLE as u16).map(|entry| entry % owners).collect();
        let rss = Rss { key, table, ports_v4: true, ports_v6: true };
        let toeplitz = Toeplitz::new(&rss.key);
        let (mut silos, mut ends, mut watch) = (Vec::new(), Vec::new(), None);
        let mesh_ends = Mesh::new(&seats, &mesh).unwrap_or_else(|why| panic!("{why}"));
        for ((index, mesh_end), app) in mesh_ends.into_iter().enumerate().zip(peers) {
            let (near, far) = Pair::new(PairConfig { ring: QUEUE, mtu: config.mtu, ..PairConfig::default() });
            // A silo without a queue has a link without another end.
            if queues(index) > 0 {
                ends.push(far);
            }
            watch = Some(mesh_end.mesh());
            let mut keys = || core::array::from_fn(|_| rng.next());
            let seeds = Seeds { table: keys(), secret: keys(), timestamps: core::array::from_fn(|_| rng.next()) };
            let config = Config { steered: true, ..config.clone() };
            let mut stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
            let by_nic = || ReturnQueue::rss(&rss, &[index as u16]);
            if let Some(path) = mesh_end.return_queue().or_else(by_nic) {
                stack.set_return_path(Box::new(path));
            }
            silos.push(Silo { link: Steered::new(near, mesh_end), stack, app });
        }
        let last = silos.iter().map(|_| None).collect();
        let failover = plan.failover;
        Self { port, queues: ends, rss, toeplitz, silos, last, watch, failover, looked_at: Time::ZERO, watcher: None }
    }

    /// Changes the faults of the host's link.
    pub fn set_impairments(&mut self, receive: Impairment, transmit: Impairment) {
        self.port.set_impairments(receive, transmit);
    }

    /// Flows arrive elsewhere from now on: each at the next silo's queue.
    fn fail_over(&mut self) {
        self.failover = None;
        let first = self.rss.table.iter().max().map_or(1, |last| last + 1);
        self.rss.table.iter_mut().for_each(|queue| *queue = (*queue + 1) % first);
        if let Some(watch) = &self.watch {
            watch.set_failover(true);
        }
    }

    /// From the port to the queues.
    fn receive(&mut self, now: Time) {
        let (rx, _) = self.port.split();
        let count = rx.receive(now, BURST);
        for index in 0..count {
            let frame = rx.frame(index);
            // What is not TCP goes to the first queue, as a NIC does it.
            let hash = ends(frame).map_or(0, |(src, dst)| self.toeplitz.hash(src, dst, true));
            let queue = self.rss.table[hash as usize % TABLE];
            send(&mut self.queues[usize::from(queue)].split().1, frame);
        }
        rx.release();
        for queue in &mut self.queues {
            queue.split().1.flush(now);
        }
    }

    /// From the queues to the port.
    fn transmit(&mut self, now: Time) {
        let (_, mut tx) = self.port.split();
        for queue in &mut self.queues {
            let (rx, _) = queue.split();
            let count = rx.receive(now, BURST);
            for index in 0..count {
                send(&mut tx, rx.frame(index));
            }
            rx.release();
        }
        tx.flush(now);
    }
}

/// A full queue drops, as a NIC's does.
fn send(tx: &mut impl Transmit, frame: &[u8]) {
    if let Some(slot) = tx.slot().and_then(|slot| slot.get_mut(..frame.len())) {
        slot.copy_from_slice(frame);
        tx.commit(frame.len(), Offload::NONE);
    }
}

/// Source and destination of a TCP segment.
fn ends(frame: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let (src, dst, protocol, payload): (IpAddr, IpAddr, _, _) = match ethernet.ether_type {
        ETHER_IPV4 => {
            let (ip, payload) = Ipv4Header::parse(packet).ok().filter(|(ip, _)| !ip.is_fragment())?;
            (ip.src.into(), ip.dst.into(), ip.protocol, payload)
        }
        ETHER_IPV6 => {
            let (ip, payload) = Ipv6Header::parse(packet).ok()?;
            (ip.src.into(), ip.dst.into(), ip.next_header, payload)
        }
        _ => return None,
    };
    if protocol != protocol::TCP {
        return None;
    }
    let (tcp, ..) = TcpHeader::parse_trusted(payload, LinkVouched::new()).ok()?;
    Some((SocketAddr::new(src, tcp.src_port), SocketAddr::new(dst, tcp.dst_port)))
}

impl Node for Fleet {
    fn due(&mut self, now: Time) -> Time {
        let waits = self.port.with_inner(|port| port.waiting()) > 0 || self.queues.iter().any(|end| end.waiting() > 0);
        let busy = |(silo, last): (&Silo<Steered<PairLink>, Peer>, &Option<Turn>)| {
            last.is_none_or(|turn| turn.more) || silo.link.waiting() || silo.link.inner().waiting() > 0
        };
        if waits || self.silos.iter().zip(&self.last).any(busy) {
            return now;
        }
        let mut due = self.port.next_event().unwrap_or(Time::MAX).min(self.failover.unwrap_or(Time::MAX));
        for (silo, last) in self.silos.iter_mut().zip(&self.last) {
            due = due.min(silo.stack_deadline()).min(last.map_or(now, |turn| turn.deadline));
            if silo.link.flows() > 0 {
                due = due.min(self.looked_at + LOOK_AFTER);
            }
        }
        due
    }

    fn turn(&mut self, now: Time) {
        if self.failover.is_some_and(|at| at <= now) {
            self.fail_over();
        }
        self.receive(now);
        for (silo, last) in self.silos.iter_mut().zip(&mut self.last) {
            *last = Some(match &mut self.watcher {
                None => silo.turn(now),
                Some(watcher) => silo.turn_shadowed(now, watcher),
            });
            if let Some(watcher) = &mut self.watcher {
                watcher.audit(&silo.stack);
            }
            let Silo { link, stack, .. } = silo;
            link.poll_control(now);
            link.answer(&mut |remote, local| stack.owns(remote, local));
        }
        self.looked_at = now;
        self.transmit(now);
    }
}

/// A host of one silo, or of several.
pub enum Machine {
    /// One.
    One(Box<Host<Peer>>),
    /// Several.
    Several(Box<Fleet>),
}

impl Machine {
    /// Its applications.
    pub fn apps(&self) -> impl Iterator<Item = &Peer> {
        let (one, several) = match self {
            Self::One(host) => (Some(&host.silo.app), None),
            Self::Several(fleet) => (None, Some(fleet.silos.iter().map(|silo| &silo.app))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// The same, to be changed.
    pub fn apps_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        let (one, several) = match self {
            Self::One(host) => (Some(&mut host.silo.app), None),
            Self::Several(fleet) => (None, Some(fleet.silos.iter_mut().map(|silo| &mut silo.app))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Its stacks.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        let (one, several) = match self {
            Self::One(host) => (Some(&host.silo.stack), None),
            Self::Several(fleet) => (None, Some(fleet.silos.iter().map(|silo| &silo.stack))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Its packets are no longer than so many bytes from now on.
    pub fn set_mtu(&mut self, mtu: u16) {
        match self {
            Self::One(host) => host.silo.stack.set_mtu(mtu),
            Self::Several(fleet) => fleet.silos.iter_mut().for_each(|silo| silo.stack.set_mtu(mtu)),
        }
    }

    /// Who looks at its short ways, if anybody does.
    #[must_use]
    pub fn watcher(&self) -> Option<&Watcher> {
        match self {
            Self::One(host) => host.watcher.as_ref(),
            Self::Several(fleet) => fleet.watcher.as_ref(),
        }
    }

    /// What passed between its silos, by name.
    pub fn steering(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let silos = match self {
            Self::One(_) => &[][..],
            Self::Several(fleet) => &fleet.silos,
        };
        silos.iter().flat_map(|silo| silo.link.steering().iter())
    }

    /// Flows that its silos remember for each other.
    #[must_use]
    pub fn flows(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several(fleet) => fleet.silos.iter().map(|silo| silo.link.flows()).sum(),
        }
    }

    /// Changes the faults of its link.
    pub fn set_impairments(&mut self, receive: Impairment, transmit: Impairment) {
        match self {
            Self::One(host) => host.silo.link.set_impairments(receive, transmit),
            Self::Several(fleet) => fleet.set_impairments(receive, transmit),
        }
    }
}

impl Node for Machine {
    fn due(&mut self, now: Time) -> Time {
        match self {
            Self::One(host) => host.due(now),
            Self::Several(fleet) => fleet.due(now),
        }
    }

    fn turn(&mut self, now: Time) {
        match self {
            Self::One(host) => host.turn(now),
            Self::Several(fleet) => fleet.turn(now),
        }
    }
}
