//! Why there is no plan, and what is not as one would wish it.

use super::{MAX_PORTS, MAX_SILOS};
use crate::Ranges;
use core::fmt;

/// Why there is no plan. All are the user's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// No port, or more than [`MAX_PORTS`].
    Ports(usize),
    /// A port, by its name, has no queue.
    NoQueues(String),
    /// No silo, or more than [`MAX_SILOS`].
    Silos(usize),
    /// There is no core that this process may run on.
    NoCores,
    /// A core that is not there, off line, or not this process's.
    NotUsable {
        /// The one asked for.
        core: u16,
        /// Those that can be had.
        usable: Vec<u16>,
    },
    /// A core named twice.
    Twice(u16),
}

/// What is not as one would wish it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// A domain has ports and no silo: each of their frames crosses.
    PortWithoutSilo {
        /// The port's name.
        port: String,
        /// Its domain.
        domain: u16,
        /// The domain of the silos that serve it.
        served_by: u16,
    },
    /// A silo's domain has no port: each of its frames crosses.
    SiloWithoutPort {
        /// The silos' indices.
        silos: Vec<u16>,
        /// Their domain.
        domain: u16,
        /// The domain whose ports they serve.
        home: u16,
    },
    /// These silos have no queue: their frames are steered to them by those
    /// that have one.
    MoreSilosThanQueues(Vec<u16>),
    /// A port's queues do not divide by the silos that serve it.
    Uneven {
        /// The port's name.
        port: String,
        /// Its queues.
        queues: u16,
        /// The silos that serve it.
        silos: u16,
    },
    /// More silos than cores: some run by turns.
    CoresShared {
        /// The silos.
        silos: usize,
        /// The cores that they have.
        cores: usize,
    },
    /// More silos than physical cores: some share one's units and caches.
    SiblingsShared {
        /// The cores that silos are on.
        cores: usize,
        /// The physical cores that these belong to.
        physical: usize,
    },
    /// Silos are on every core: interrupts and helper threads have none of
    /// their own.
    NoCoreLeft,
    /// A domain of silos has no memory; theirs is in another.
    NoMemory {
        /// The domain.
        domain: u16,
        /// Where the memory is.
        instead: u16,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports(count) => write!(f, "{count} ports: there are to be at least one and at most {MAX_PORTS}"),
            Self::NoQueues(port) => write!(f, "{port} has no queue"),
            Self::Silos(count) => write!(f, "{count} silos: there are to be at least one and at most {MAX_SILOS}"),
            Self::NoCores => f.write_str("there is no core that this process may run on"),
            Self::NotUsable { core, usable } => {
                write!(f, "core {core} cannot be used: this process may run on cores {}", Ranges(usable))
            }
            Self::Twice(core) => write!(f, "core {core} is named twice: there is one silo on a core"),
        }
    }
}

impl core::error::Error for PlanError {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortWithoutSilo { port, domain, served_by } => write!(
                f,
                "{port} is in NUMA domain {domain}, where no silo is: silos of domain {served_by} serve it, and its \
                 frames cross"
            ),
            Self::SiloWithoutPort { silos, domain, home } => write!(
                f,
                "NUMA domain {domain} has no port: its {} ports of domain {home}, and the frames cross",
                counted(silos, "silo", "serves", "serve")
            ),
            Self::MoreSilosThanQueues(silos) => {
                let those =
                    counted(silos, "silo", "has no queue of its own, and its", "have no queue of their own, and their");
                write!(f, "more silos than queues: {those} frames are steered in software")
            }
            Self::Uneven { port, queues, silos } => write!(
                f,
                "the {queues} queues of {port} do not divide by the {silos} silos that serve it: some have one more"
            ),
            Self::CoresShared { silos, cores } => {
                write!(f, "{silos} silos on {cores} cores: those that share a core run by turns")
            }
            Self::SiblingsShared { cores, physical } => {
                write!(f, "silos are on {cores} cores which are threads of {physical} physical ones")
            }
            Self::NoCoreLeft => f.write_str(
                "every core has a silo: interrupts and helper threads take their time, unless --idle lets them sleep",
            ),
            Self::NoMemory { domain, instead } => {
                write!(f, "NUMA domain {domain} has no memory: that of its silos is in domain {instead}")
            }
        }
    }
}

/// `silo 3 serves`, `silos 3-5 serve`.
fn counted(silos: &[u16], what: &str, one: &str, many: &str) -> String {
    match silos {
        [silo] => format!("{what} {silo} {one}"),
        _ => format!("{what}s {} {many}", Ranges(silos)),
    }
}
