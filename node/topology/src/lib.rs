//! The machine as sysfs describes it, and who works where on it.
//!
//! Reading and understanding are apart. [`Recording`] holds the few files of
//! sysfs that matter, and is the only part that reads any; [`Topology`] is what
//! they say. So the topology of any machine can be recorded there, and
//! replayed here:
//!
//! ```text
//! folder (/) ─► Recording ─► Topology ─┐
//! text file  ─►                        ├─► plan ─► Plan: silo → core, domain, queues
//!                        ports, silos ─┘
//! ```
//!
//! [`plan`] is a pure function of what it is given.
#![forbid(unsafe_code)]

mod device;
mod doubt;
mod list;
mod plan;
mod quota;
mod read;
mod recording;
mod text;

pub use device::{Disk, PciLink, PciPlace};
pub use doubt::TopologyDoubt;
pub use list::{Ranges, parse as parse_list};
pub use plan::{
    Ask, MAX_PORTS, MAX_SILOS, Memory, Plan, PlanError, PlannedSilo, Port, Queue, Queues, Silos, Warning, plan,
};
pub use quota::CpuQuota;
pub use recording::Recording;
pub use text::plain;

use core::fmt;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The most cores that a machine is read with; the kernel's own limit on
/// x86-64 is 8192 (`NR_CPUS`), and no machine has them.
pub const MAX_CORES: usize = 4_096;

/// The most NUMA domains, as the kernel's limit (`NODES_SHIFT` of 10).
pub const MAX_DOMAINS: usize = 1_024;

/// Cores, memory and network interfaces, and how near they are to each other.
///
/// A kernel without NUMA is one domain, number 0, with every core.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// Every core that the machine may have, ascending by number.
    pub cores: Vec<Core>,
    /// Every domain that is on line, ascending by number; at least one.
    pub domains: Vec<Domain>,
    /// Network interfaces, by name.
    pub interfaces: Vec<Interface>,
    /// Block devices that hardware stands behind, by name.
    pub disks: Vec<Disk>,
    /// The processor, as it names itself (`/proc/cpuinfo`); empty where it does not.
    pub processor: String,
    /// Who made it: `GenuineIntel`, `AuthenticAMD`; empty where that is not told.
    pub vendor: String,
    /// Bytes of memory that the kernel counts for the machine and has given to
    /// none of its several domains yet; zero where there is one.
    pub memory_unplaced: u64,
    /// Devices that are said to be in a domain that is not there, by name.
    pub misplaced: Vec<(String, u16)>,
}

/// A logical CPU: what a thread is pinned to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Core {
    /// Its number, as in `/proc/cpuinfo`.
    pub number: u16,
    /// Whether it runs.
    pub online: bool,
    /// Whether this process may run on it: affinity and cpuset.
    pub allowed: bool,
    /// Whether the scheduler leaves it alone (`isolcpus`).
    pub isolated: bool,
    /// Its domain; `None` for a core that is off line in a machine of several.
    pub domain: Option<u16>,
    /// Its socket (`physical_package_id`).
    pub package: Option<u16>,
    /// The threads of its physical core, itself included, ascending.
    pub siblings: Vec<u16>,
    /// The cores that share its last-level cache, itself included, ascending;
    /// empty if the kernel does not say.
    pub cache: Vec<u16>,
    /// The bytes of that cache; zero if the kernel does not say.
    pub cache_bytes: u64,
}

impl Core {
    /// Whether a thread of this process can be pinned to it.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        self.online && self.allowed
    }
}

/// A NUMA domain (the kernel's node).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Its number.
    pub number: u16,
    /// Its cores that are on line, ascending; none in a domain of memory
    /// alone, such as one behind CXL.
    pub cores: Vec<u16>,
    /// Its memory in bytes when it was read, and what the kernel has yet to
    /// give to the only domain; zero in a domain of cores alone.
    pub memory_total: u64,
    /// What of it was free.
    pub memory_free: u64,
    /// To each domain of [`Topology::domains`], in their order: 10 to itself,
    /// more to those farther away (ACPI SLIT).
    pub distances: Vec<u16>,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The domain that its device is attached to; `None` for a virtual one,
    /// or where the firmware does not say (-1 in sysfs).
    pub domain: Option<u16>,
    /// Whether there is a device behind it.
    pub device: bool,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Its device's interrupts: number, and the cores that may take it.
    pub interrupts: Vec<(u32, Vec<u16>)>,
    /// Bits per second that its link runs at; `None` without a link, or where the
    /// driver does not say.
    pub speed: Option<u64>,
    /// The PCI Express link of its device; `None` where there is none.
    pub pci: Option<PciPlace>,
    /// The slot that its device is in, which all functions of a card share: `0000:3b:00`.
    pub slot: Option<String>,
    /// Whether it has a link (operstate, RFC 2863); `None` where the driver does not say.
    pub running: Option<bool>,
}

impl Topology {
    /// The machine below `root`, which holds `sys` (and `proc` for
    /// interrupts); a machine's own root is `/`. `allowed` are the cores that
    /// this process may run on; `None`: all that are on line.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn read(root: &Path, allowed: Option<&[u16]>) -> Result<Self, TopologyError> {
        Self::of(&Recording::take(root)?, allowed)
    }

    /// The machine that this process is on, all of whose cores are allowed.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn here() -> Result<Self, TopologyError> {
        Self::read(Path::new("/"), None)
    }

    /// What a recording says.
    ///
    /// # Errors
    /// [`TopologyError::Missing`] without a list of possible cores,
    /// [`TopologyError::Unclear`] if something there cannot be understood.
    pub fn of(recording: &Recording, allowed: Option<&[u16]>) -> Result<Self, TopologyError> {
        read::topology(recording, allowed)
    }

    /// A core by its number.
    #[must_use]
    pub fn core(&self, number: u16) -> Option<&Core> {
        let at = self.cores.binary_search_by_key(&number, |core| core.number).ok()?;
        self.cores.get(at)
    }

    /// A domain by its number.
    #[must_use]
    pub fn domain(&self, number: u16) -> Option<&Domain> {
        self.domains.get(self.place(number)?)
    }

    /// A core's domain; `None` if there is no such core, or it is off line.
    #[must_use]
    pub fn domain_of(&self, core: u16) -> Option<u16> {
        self.core(core)?.domain
    }

    /// A network interface by its name.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// How far it is from one domain to another: 10 is itself. `None` if one
    /// does not exist.
    #[must_use]
    pub fn distance(&self, from: u16, to: u16) -> Option<u16> {
        self.domain(from)?.distances.get(self.place(to)?).copied()
    }

    /// The numbers of all domains, `from` first and the farthest last; of two
    /// as far, the lower number first.
    #[must_use]
    pub fn nearest(&self, from: u16) -> Vec<u16> {
        let mut numbers: Vec<u16> = self.domains.iter().map(|domain| domain.number).collect();
        numbers.sort_by_key(|&to| (to != from, self.distance(from, to).unwrap_or(u16::MAX), to));
        numbers
    }

    /// A core as a person is told of it, with its domain where there are
    /// several: `core 3 (NUMA domain 1)`.
    #[must_use]
    pub fn describe_core(&self, core: u16) -> String {
        match self.domain_of(core) {
            Some(domain) if self.domains.len() > 1 => format!("core {core} (NUMA domain {domain})"),
            _ => format!("core {core}"),
        }
    }

    /// A domain's socket, where one of its cores tells.
    #[must_use]
    pub fn package_of(&self, domain: u16) -> Option<u16> {
        self.domain(domain)?.cores.iter().find_map(|core| self.core(*core)?.package)
    }

    /// The domains with cores of each socket that is known, ascending.
    #[must_use]
    pub fn packages(&self) -> Vec<(u16, Vec<u16>)> {
        let mut packages: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
        for domain in &self.domains {
            if let Some(package) = self.package_of(domain.number) {
                packages.entry(package).or_default().push(domain.number);
            }
        }
        packages.into_iter().collect()
    }

    /// What its maker calls a socket of several domains; `None` where each socket is one.
    #[must_use]
    pub fn division(&self) -> Option<String> {
        let most = self.packages().iter().map(|(_, domains)| domains.len()).max().filter(|most| *most > 1)?;
        // The first EPYC has a domain on each of its dies, whatever is chosen: 7xx1.
        let first_epyc = self.processor.split_whitespace().any(|word| {
            word.len() >= 4
                && word.starts_with('7')
                && word.as_bytes().get(3) == Some(&b'1')
                && self.processor.contains("EPYC")
        });
        Some(match self.vendor.as_str() {
            "AuthenticAMD" if first_epyc => format!("{most} domains in a socket: each die of the processor is one"),
            "AuthenticAMD" => {
                format!("{most} domains in a socket: NPS{most} (nodes per socket), chosen in the firmware")
            }
            "GenuineIntel" => {
                format!("{most} domains in a socket: SNC{most} (sub-NUMA clusters), chosen in the firmware")
            }
            _ => format!("{most} domains in a socket"),
        })
    }

    /// What of it cannot be right, or is to be known before one relies on it.
    #[must_use]
    pub fn doubts(&self) -> Vec<TopologyDoubt> {
        doubt::doubts(self)
    }

    fn place(&self, domain: u16) -> Option<usize> {
        self.domains.binary_search_by_key(&domain, |domain| domain.number).ok()
    }
}

/// Why a machine's topology is not known.
#[derive(Debug)]
pub enum TopologyError {
    /// A file cannot be read for another reason than that it is not there.
    Io(PathBuf, io::Error),
    /// A file that every Linux has is not there: this is not sysfs.
    Missing(String),
    /// A file's content (its beginning) is not what the kernel writes there.
    Unclear {
        /// The file.
        path: String,
        /// What it says.
        found: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A line of a recording is not a path and a value.
    NotARecording {
        /// Which line, from 1.
        line: usize,
    },
    /// More of something than is read.
    TooMany(&'static str),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, why) => write!(f, "cannot read {}: {why}", path.display()),
            Self::Missing(path) => write!(f, "no {path}: this does not describe a Linux machine"),
            Self::Unclear { path, found, wanted } => {
                write!(f, "{} says {found:?}, which is not {wanted}", plain(path))
            }
            Self::NotARecording { line } => write!(f, "not a recorded topology: line {line} has no path and value"),
            Self::TooMany(what) => write!(f, "more {what} than can be used"),
        }
    }
}

impl core::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(_, why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
