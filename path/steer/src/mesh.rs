//! The mesh: who is there, and the rings between them.

use crate::classify::{Hasher, Tuple, owner};
use crate::doorbell::Doorbell;
use crate::flows::FLOWS;
use crate::load::Published;
use crate::region::Region;
use crate::returns::ReturnQueue;
use crate::ring::{Consumer, Producer, RING_MAX, RING_MIN, ring};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::sync::Arc;

/// Most silos of one mesh: what the largest machines have in cores of one
/// kind. Rings grow with the square of it.
pub const SILOS_MAX: usize = 256;
/// Default of [`MeshConfig::ring`]: some 170 full frames, or as many as the
/// consumer takes in five turns.
pub const FORWARD_RING: usize = 256 << 10;
const _: () = assert!(FORWARD_RING / 2 - 16 > (1 << 16) + 18, "a ring takes the largest packet, wherever it begins");

/// Default of [`MeshConfig::message_ring`].
pub const MESSAGE_RING: usize = 16 << 10;

/// A silo as steering sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiloSpec {
    /// The domain of its core, and of its queues' ports.
    pub domain: u16,
    /// Queues that it owns; 0 if others receive and send for it.
    pub queues: u16,
}

/// How connections are spread over silos.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// By a hash of addresses and ports: the NIC's, where it has a queue for
    /// each silo and spreads by a key of ours, or else one in software.
    #[default]
    Hash,
    /// The silo that receives the first segment.
    Local,
    /// The silo of the receiving one's domain that has the least to do when
    /// the connection begins (see [`link::Load`]); it is remembered, and its
    /// frames are passed on.
    Least,
}

/// How the ports spread frames over their queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// By flow, evenly, under a key that we set: RSS.
    Keyed,
    /// By flow, under a key that is fixed: whoever knows it can aim all
    /// flows at one queue.
    Fixed,
    /// In whichever way the other side of the link chooses; a flow may change
    /// its queue at any time.
    #[default]
    Unknown,
    /// By flow: the other side of the link keeps each of its flows in one
    /// queue, as a peer over shared memory does whose silos have a queue each.
    Peer,
}

/// Settings of a mesh.
#[derive(Clone, Debug)]
pub struct MeshConfig {
    /// How connections are spread.
    pub policy: Policy,
    /// How the ports spread frames over their queues.
    pub spread: Spread,
    /// Bytes of each ring between silos that pass frames on as a rule:
    /// rounded up to a power of two, within 4 KiB and 16 MiB. 256 KiB by
    /// default, and at least that for frames to be sent. Too small drops
    /// bursts, too large leaves the cache.
    pub ring: usize,
    /// Bytes of each ring on which only messages and strays pass, likewise.
    /// 16 KiB by default.
    pub message_ring: usize,
    /// Flows that a silo remembers, where [`Policy::Least`] chose their silo
    /// or a failover moved them; 131,072 by default, 128 bytes each. More
    /// stay where they arrive, and are counted.
    pub flows: usize,
    /// Key of the hash in software; from the operating system's random bits.
    pub key: [u64; 4],
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            spread: Spread::default(),
            ring: FORWARD_RING,
            message_ring: MESSAGE_RING,
            flows: FLOWS,
            key: [0; 4],
        }
    }
}

/// Why there is no mesh.
#[derive(Debug)]
pub enum MeshError {
    /// No silo, or more than [`SILOS_MAX`].
    Silos(usize),
    /// No silo has a queue.
    NoQueue,
    /// The operating system gave no memory or no eventfd.
    Io(io::Error),
}

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silos(count) => write!(f, "{count} silos: 1 to {SILOS_MAX} can be joined"),
            Self::NoQueue => f.write_str("no silo has a queue"),
            Self::Io(why) => write!(f, "no rings between silos: {why}"),
        }
    }
}

impl core::error::Error for MeshError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(why) => Some(why),
            Self::Silos(_) | Self::NoQueue => None,
        }
    }
}

impl From<io::Error> for MeshError {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

impl From<rustix::io::Errno> for MeshError {
    fn from(why: rustix::io::Errno) -> Self {
        Self::Io(why.into())
    }
}

/// Who decides whose an arriving flow is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// The queue: its silo owns what arrives in it.
    Queue,
    /// The hash in software, over the silos of the queue's domain.
    Software,
    /// What was chosen when the flow began.
    Least,
}

/// What all ends of the mesh share.
#[derive(Debug)]
pub(crate) struct Common {
    pub seats: Vec<Arc<Seated>>,
    pub rule: Rule,
    pub hasher: Hasher,
    pub flows: usize,
    /// The silos of each domain.
    pub domains: Vec<(u16, Vec<usize>)>,
    /// Ports or members have changed state since the start: flows may arrive
    /// elsewhere than they did.
    pub failover: AtomicBool,
    pub reason: String,
}

impl Common {
    /// The silos of a domain.
    pub fn members(&self, domain: u16) -> &[usize] {
        self.domains.iter().find(|(of, _)| *of == domain).map_or(&[], |(_, silos)| silos)
    }

    /// The silo of a domain that the hash gives a flow to.
    pub fn owner(&self, domain: u16, tuple: &Tuple) -> Option<usize> {
        let members = self.members(domain);
        (!members.is_empty()).then(|| owner(members, self.hasher.hash(tuple)))
    }
}

/// A silo, as the others see it.
#[derive(Debug)]
pub(crate) struct Seated {
    pub domain: u16,
    pub bell: Doorbell,
    pub load: Published,
    /// Its rings may be written.
    pub present: AtomicBool,
    /// Its queues can send.
    pub up: AtomicBool,
}

/// Makes the ends of the mesh.
#[derive(Clone, Copy, Debug)]
pub struct Mesh;

impl Mesh {
    /// An end of the mesh for each of `seats`, in their order. Memory is reserved here,
    /// and taken where and when an end of the mesh is joined to its link.
    ///
    /// # Errors
    /// [`MeshError`].
    #[expect(clippy::new_ret_no_self, reason = "a mesh is only ever its mesh_ends")]
    pub fn new(seats: &[SiloSpec], config: &MeshConfig) -> Result<Vec<MeshEnd>, MeshError> {
        if seats.is_empty() || seats.len() > SILOS_MAX {
            return Err(MeshError::Silos(seats.len()));
        }
        if seats.iter().all(|seat| seat.queues == 0) {
            return Err(MeshError::NoQueue);
        }
        let (rule, reason) = rule(seats, config);
        let seated = seats.iter().map(|seat| {
            let (present, up) = (AtomicBool::new(false), AtomicBool::new(seat.queues > 0));
            let (bell, load) = (Doorbell::new()?, Published::default());
            Ok(Arc::new(Seated { domain: seat.domain, bell, load, present, up }))
        });
        let common = Arc::new(Common {
            seats: seated.collect::<io::Result<_>>()?,
            rule,
            domains: domains(seats),
            hasher: Hasher::new(config.key),
            flows: config.flows,
            failover: AtomicBool::new(false),
            reason,
        });
        let mut mesh_ends: Vec<MeshEnd> = (0..seats.len()).map(|own| MeshEnd::new(own, seats, &common)).collect();
        for to in 0..seats.len() {
            join(&mut mesh_ends, seats, config, rule, to)?;
        }
        Ok(mesh_ends)
    }
}

fn domains(seats: &[SiloSpec]) -> Vec<(u16, Vec<usize>)> {
    let mut found: Vec<(u16, Vec<usize>)> = Vec::new();
    for (silo, seat) in seats.iter().enumerate() {
        match found.iter_mut().find(|(domain, _)| *domain == seat.domain) {
            Some((_, silos)) => silos.push(silo),
            None => found.push((seat.domain, vec![silo])),
        }
    }
    found
}

/// Makes the rings that lead to `to`.
fn join(
    mesh_ends: &mut [MeshEnd],
    seats: &[SiloSpec],
    config: &MeshConfig,
    rule: Rule,
    to: usize,
) -> Result<(), MeshError> {
    let others: Vec<usize> = (0..seats.len()).filter(|from| *from != to).collect();
    let lends: Vec<usize> = others.iter().copied().filter(|from| mesh_ends[*from].lenders.contains(&to)).collect();
    let arriving = others.iter().map(|from| match rule {
        Rule::Software | Rule::Least if seats[*from].queues > 0 && seats[*from].domain == seats[to].domain => {
            config.ring
        }
        _ => config.message_ring,
    });
    let sending = lends.iter().map(|_| config.ring.max(FORWARD_RING));
    let clamped = |bytes: usize| bytes.clamp(RING_MIN, RING_MAX).next_power_of_two();
    let (region, parts) = Region::new(arriving.chain(sending).map(clamped))?;
    let region = Arc::new(region);
    for (from, part) in others.iter().zip(&parts) {
        let (producer, consumer) = ring(&region, *part);
        mesh_ends[*from].to[to] = Some(producer);
        mesh_ends[to].from[*from] = Some(consumer);
    }
    for (from, part) in lends.iter().zip(&parts[others.len()..]) {
        let (producer, consumer) = ring(&region, *part);
        mesh_ends[*from].send_by.push((to, producer));
        mesh_ends[to].send_for.push((*from, consumer));
    }
    mesh_ends[to].inbox = Some(region);
    Ok(())
}

/// Who decides, and why, in words.
fn rule(seats: &[SiloSpec], config: &MeshConfig) -> (Rule, String) {
    let without = seats.iter().filter(|seat| seat.queues == 0).count();
    match (config.policy, config.spread) {
        (Policy::Local, _) => (Rule::Queue, "local: a connection stays with the silo that receives it".into()),
        (Policy::Least, _) => {
            (Rule::Least, "least: a new connection goes to the silo of its domain that has the least to do".into())
        }
        (Policy::Hash, Spread::Keyed) if without == 0 => {
            (Rule::Queue, "hash: by the NIC (RSS), a queue for each silo".into())
        }
        (Policy::Hash, Spread::Peer) if without == 0 => {
            (Rule::Queue, "hash: by the peer, which keeps each flow in one queue; a queue for each silo".into())
        }
        (Policy::Hash, spread) => {
            let queues = seats.len() - without;
            let why = match spread {
                _ if without > 0 => format!("{queues} silos with a queue of {}", seats.len()),
                Spread::Fixed => "the NIC's key is fixed".into(),
                _ => "the link does not keep a flow in one queue".into(),
            };
            (Rule::Software, format!("hash: in software ({why})"))
        }
    }
}

/// A silo's end of the mesh, to be joined to its link on its own thread:
/// see [`crate::Steered::new`].
#[derive(Debug)]
pub struct MeshEnd {
    pub(crate) own: usize,
    pub(crate) queues: u16,
    pub(crate) common: Arc<Common>,
    /// Rings of received frames and messages to each silo.
    pub(crate) to: Vec<Option<Producer>>,
    /// And from each silo.
    pub(crate) from: Vec<Option<Consumer>>,
    /// Silos whose queue this one may send through, the first preferred.
    pub(crate) lenders: Vec<usize>,
    /// Rings of frames for these to send.
    pub(crate) send_by: Vec<(usize, Producer)>,
    /// Rings of frames to send for others.
    pub(crate) send_for: Vec<(usize, Consumer)>,
    /// Silos of the own domain, the own one included: who may own a flow that
    /// arrives here.
    pub(crate) candidates: Vec<usize>,
    /// The memory of all rings that lead here.
    pub(crate) inbox: Option<Arc<Region>>,
}

impl MeshEnd {
    fn new(own: usize, seats: &[SiloSpec], common: &Arc<Common>) -> Self {
        let seat = seats[own];
        let candidates = common.members(seat.domain).to_vec();
        Self {
            own,
            queues: seat.queues,
            common: Arc::clone(common),
            to: seats.iter().map(|_| None).collect(),
            from: seats.iter().map(|_| None).collect(),
            lenders: lenders(own, seats),
            send_by: Vec::new(),
            send_for: Vec::new(),
            candidates,
            inbox: None,
        }
    }

    /// How flows find their silo, and why so: for people.
    #[must_use]
    pub fn steering(&self) -> &str {
        &self.common.reason
    }

    /// Which local ports this silo's outgoing connections may have, where
    /// software spreads the answers over silos; where the queues do, ask
    /// [`ReturnQueue::rss`].
    #[must_use]
    pub fn return_queue(&self) -> Option<ReturnQueue> {
        let software = self.common.rule != Rule::Queue && self.candidates.len() > 1;
        software.then(|| ReturnQueue::software(self.common.hasher, &self.candidates, self.own))
    }

    /// A handle for whoever watches over ports, on any thread.
    #[must_use]
    pub fn mesh(&self) -> MeshHandle {
        MeshHandle(Arc::clone(&self.common))
    }
}

/// Tells a mesh what happens to its ports.
#[derive(Clone, Debug)]
pub struct MeshHandle(pub(crate) Arc<Common>);

impl MeshHandle {
    /// Whether a port or member changed its state since the start, so that
    /// flows may arrive elsewhere than their silo's queues. From then on a
    /// segment of an unknown flow is passed on to silos that may own it.
    pub fn set_failover(&self, on: bool) {
        self.0.failover.store(on, Ordering::Relaxed);
    }
}

/// Whose queues silo `own` sends through if it has none, or if its own are
/// down: one of its domain, and one of another. Silos of a kind are spread
/// over those with queues.
fn lenders(own: usize, seats: &[SiloSpec]) -> Vec<usize> {
    let pick = |same: bool| {
        let fits = |silo: &usize| {
            *silo != own && seats[*silo].queues > 0 && (seats[*silo].domain == seats[own].domain) == same
        };
        let all: Vec<usize> = (0..seats.len()).filter(fits).collect();
        (!all.is_empty()).then(|| all[own % all.len()])
    };
    [pick(true), pick(false)].into_iter().flatten().collect()
}
