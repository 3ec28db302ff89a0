//! What a machine has, how much of it passes in a second, and where that figure is from.

use crate::framing::DISK_TO_PCI;
use crate::passes::ContentWay;
use crate::siloing::Siloing;
use topology::{PciPlace, Topology};

/// Where a figure is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FigureSource {
    /// Measured on the machine itself.
    Measured,
    /// Of the rate at which a link runs.
    Link,
    /// From a published table.
    Published,
    /// Put in where nothing is published.
    Assumed,
}

impl FigureSource {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Link => "its link",
            Self::Published => "published",
            Self::Assumed => "assumed",
        }
    }
}

/// Bytes in a second, and who says so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerSecond {
    /// Bytes.
    pub bytes: f64,
    /// Who says so.
    pub source: FigureSource,
}

impl PerSecond {
    /// So many bytes; `None` for what is no rate: nothing, or no number.
    #[must_use]
    pub fn new(bytes: f64, source: FigureSource) -> Option<Self> {
        (bytes.is_finite() && bytes > 0.0).then_some(Self { bytes, source })
    }
}

/// A machine as far as content passes through it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BudgetMachine {
    /// What it is.
    pub name: String,
    /// Whether its figures are published ones, and from where; none of a machine that was looked at.
    pub from: Vec<String>,
    /// Its domains.
    pub domains: Vec<BudgetDomain>,
    /// What content leaves by.
    pub ports: Vec<BudgetPort>,
    /// What content is read from.
    pub disks: Vec<BudgetDisk>,
    /// What joins domains.
    pub fabric: Vec<FabricWay>,
    /// What others saw on it.
    pub seen: Vec<SeenShare>,
    /// What processors were seen to need.
    pub cpu: Option<CpuCost>,
    /// What is to be known of it before one relies on a budget.
    pub notes: Vec<String>,
}

/// A NUMA domain.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetDomain {
    /// Its number.
    pub number: u16,
    /// Its socket, where that is known.
    pub socket: Option<u16>,
    /// How far it is to each domain, in their order; empty where that is not known.
    pub distances: Vec<u16>,
    /// Physical cores that silos may be on.
    pub cores: usize,
    /// Whether it has memory.
    pub has_memory: bool,
    /// What its memory carries, reads and writes together.
    pub memory: Option<PerSecond>,
    /// The bytes of each last-level cache of its, and the physical cores that share one.
    pub cache: Option<(u64, usize)>,
}

/// What content leaves by.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetPort {
    /// Its name.
    pub name: String,
    /// Its domain, where that is known.
    pub domain: Option<u16>,
    /// Its link.
    pub rate: Option<PerSecond>,
    /// Its slot's link.
    pub pci: Option<PerSecond>,
    /// Which slot that is: ports of the same one share its link.
    pub slot: Option<String>,
    /// Whether it has a link; `None` where that is not known.
    pub running: Option<bool>,
}

/// What content is read from.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetDisk {
    /// Its name.
    pub name: String,
    /// Its domain, where that is known.
    pub domain: Option<u16>,
    /// What it reads, where that is known.
    pub rate: Option<PerSecond>,
    /// Its controller's link.
    pub pci: Option<PerSecond>,
    /// Which controller that is: disks of the same one share its link.
    pub slot: Option<String>,
}

/// One direction of what joins two domains.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricWay {
    /// Where bytes come from.
    pub from: u16,
    /// Where they go.
    pub to: u16,
    /// What it carries.
    pub rate: PerSecond,
}

/// The share of memory traffic that others saw come from or go to another domain.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenShare {
    /// How the machine was siloed.
    pub siloing: Siloing,
    /// Of one.
    pub share: f64,
    /// Why it is not what the model says.
    pub why: String,
}

/// Processor time that a rate was seen to need.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuCost {
    /// Percent of all cores together.
    pub percent: f64,
    /// At so many bits per second.
    pub bits: f64,
    /// The way that it was seen of; `None`: it is taken to hold for each.
    pub way: Option<ContentWay>,
}

impl CpuCost {
    /// Percent of all cores for each Gbit/s: the unit in which servers of media are compared.
    #[must_use]
    pub fn percent_per_gbit(self) -> f64 {
        self.percent / (self.bits / 1e9)
    }
}

impl BudgetMachine {
    /// A machine by its topology. What its memory and its fabric carry no file tells: `measured`
    /// has bytes per second from a domain's cores to a domain's memory, by number.
    #[must_use]
    pub fn of(topology: &Topology, measured: &[(u16, u16, f64)]) -> Self {
        let figure = |from: u16, to: u16| {
            let found = measured.iter().find(|(a, b, _)| (*a, *b) == (from, to))?;
            PerSecond::new(found.2, FigureSource::Measured)
        };
        let domains =
            topology.domains.iter().map(|domain| domain_of(topology, domain, figure(domain.number, domain.number)));
        let pci = |pci: Option<PciPlace>| PerSecond::new(pci?.now.bytes() as f64, FigureSource::Link);
        let ports = topology.interfaces.iter().filter(|interface| interface.device).map(|interface| BudgetPort {
            name: interface.name.clone(),
            domain: interface.domain,
            rate: interface.speed.and_then(|bits| PerSecond::new(bits as f64 / 8.0, FigureSource::Link)),
            pci: pci(interface.pci),
            slot: interface.slot.clone(),
            running: interface.running,
        });
        let disks = topology.disks.iter().map(|disk| BudgetDisk {
            name: disk.name.clone(),
            domain: disk.domain,
            rate: None,
            pci: pci(disk.pci),
            slot: disk.slot.clone(),
        });
        // What cores of `from` read of `to` goes from there to here.
        let far = measured.iter().filter(|(from, to, _)| from != to);
        let fabric =
            far.filter_map(|(from, to, _)| Some(FabricWay { from: *to, to: *from, rate: figure(*from, *to)? }));
        Self {
            name: if topology.processor.is_empty() { "a machine".to_owned() } else { topology.processor.clone() },
            domains: domains.collect(),
            ports: ports.collect(),
            disks: disks.collect(),
            fabric: fabric.collect(),
            notes: topology.doubts().iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    /// What a disk can give of content: what it reads, or its part of its controller's link.
    pub(crate) fn content_of(&self, disk: &BudgetDisk) -> Option<f64> {
        let sharing = self.disks.iter().filter(|other| disk.slot.is_some() && other.slot == disk.slot).count().max(1);
        let pci = disk.pci.map(|pci| pci.bytes / DISK_TO_PCI / sharing as f64);
        match (disk.rate, pci) {
            (Some(rate), Some(pci)) => Some(rate.bytes.min(pci)),
            (rate, pci) => rate.map(|rate| rate.bytes).or(pci),
        }
    }

    /// How far it is from a domain to another, by their indices: firmware's distance; where that is
    /// not known, the same, the same socket, another.
    pub(crate) fn steps(&self, from: usize, to: usize) -> u32 {
        let (one, other) = (&self.domains[from], &self.domains[to]);
        if from == to {
            return 0;
        }
        match one.distances.get(to) {
            Some(distance) => 1 + u32::from(*distance),
            None if one.socket.is_some() && one.socket == other.socket => 1,
            None => 2,
        }
    }
}

fn domain_of(topology: &Topology, domain: &topology::Domain, memory: Option<PerSecond>) -> BudgetDomain {
    let physical = |cores: &[u16]| {
        let mut firsts: Vec<_> = cores.iter().filter_map(|core| topology.core(*core)?.siblings.first()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts.len()
    };
    let first = domain.cores.iter().find_map(|core| topology.core(*core).filter(|core| core.cache_bytes > 0));
    BudgetDomain {
        number: domain.number,
        socket: topology.package_of(domain.number),
        distances: domain.distances.clone(),
        cores: physical(&domain.cores),
        has_memory: domain.memory_total > 0,
        memory,
        cache: first.map(|core| (core.cache_bytes, physical(&core.cache).max(1))),
    }
}
