//! What a machine says of itself that cannot be right, or misleads.

use crate::{Ranges, Topology};
use core::fmt;

/// ACPI's distance of a domain to itself.
const SELF: u16 = 10;

/// ACPI's distance of what cannot be reached (ACPI 6.5, section 5.2.17).
const UNREACHABLE: u16 = 255;

/// Something to be known before one relies on a topology. Plans are made in spite of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyDoubt {
    /// A distance that no two domains have: below itself's, or itself's between two.
    Distance {
        /// From this domain.
        from: u16,
        /// To this one.
        to: u16,
        /// What firmware says.
        distance: u16,
    },
    /// Firmware says that one cannot be reached from another, in a machine that runs.
    Unreachable {
        /// From this domain.
        from: u16,
        /// To this one.
        to: u16,
    },
    /// It is not as far there as back.
    Unequal {
        /// One domain.
        from: u16,
        /// The other.
        to: u16,
    },
    /// Domains of memory alone.
    NoCores(Vec<u16>),
    /// Domains of cores alone.
    NoMemory(Vec<u16>),
    /// Devices of which firmware does not say where they are, in a machine of several domains.
    Nowhere(Vec<String>),
    /// A device that is said to be in a domain that is not there, or off line.
    NoDomain {
        /// The device.
        device: String,
        /// What is said.
        domain: u16,
    },
}

pub fn doubts(topology: &Topology) -> Vec<TopologyDoubt> {
    let mut doubts = Vec::new();
    let domains = &topology.domains;
    for (at, domain) in domains.iter().enumerate() {
        for (towards, (&distance, other)) in domain.distances.iter().zip(domains).enumerate() {
            let (from, to) = (domain.number, other.number);
            let possible = if at == towards { distance == SELF } else { distance > SELF };
            if distance >= UNREACHABLE {
                doubts.push(TopologyDoubt::Unreachable { from, to });
            } else if !possible {
                doubts.push(TopologyDoubt::Distance { from, to, distance });
            } else if at < towards && other.distances.get(at).is_some_and(|back| *back != distance) {
                doubts.push(TopologyDoubt::Unequal { from, to });
            }
        }
    }
    let of = |lacks: &dyn Fn(&crate::Domain) -> bool| {
        domains.iter().filter(|domain| lacks(domain)).map(|domain| domain.number).collect::<Vec<u16>>()
    };
    let (coreless, bare) = (of(&|domain| domain.cores.is_empty()), of(&|domain| domain.memory_total == 0));
    doubts.extend((!coreless.is_empty()).then_some(TopologyDoubt::NoCores(coreless)));
    doubts.extend((!bare.is_empty() && domains.len() > 1).then_some(TopologyDoubt::NoMemory(bare)));
    let interfaces = topology.interfaces.iter().filter(|one| one.device && one.domain.is_none()).map(|one| &one.name);
    let disks = topology.disks.iter().filter(|disk| disk.domain.is_none()).map(|disk| &disk.name);
    let misplaced = |name: &&String| !topology.misplaced.iter().any(|(other, _)| other == *name);
    let nowhere: Vec<String> = interfaces.chain(disks).filter(misplaced).cloned().collect();
    let named = topology.misplaced.iter();
    doubts.extend(named.map(|(device, domain)| TopologyDoubt::NoDomain { device: device.clone(), domain: *domain }));
    doubts.extend((!nowhere.is_empty()).then_some(TopologyDoubt::Nowhere(nowhere)));
    doubts
}

impl fmt::Display for TopologyDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distance { from, to, distance } => {
                write!(
                    f,
                    "firmware says that it is {distance} from domain {from} to {to}, which cannot be (itself is 10)"
                )
            }
            Self::Unreachable { from, to } => {
                write!(f, "firmware says that domain {to} cannot be reached from {from} (255): taken as the farthest")
            }
            Self::Unequal { from, to } => {
                write!(f, "firmware says that it is not as far from domain {from} to {to} as back")
            }
            Self::NoCores(domains) => {
                write!(f, "no core in domain {}: memory alone, no silo goes there", Ranges(domains))
            }
            Self::NoMemory(domains) => {
                write!(f, "no memory in domain {}: what its cores work on is elsewhere, and crosses", Ranges(domains))
            }
            Self::NoDomain { device, domain } => {
                write!(f, "{device} is said to be in domain {domain}, which is not there: nothing can be kept near it")
            }
            Self::Nowhere(devices) => {
                write!(
                    f,
                    "firmware does not say in which domain {} is: nothing can be kept near it",
                    devices.join(", ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Topology;
    use crate::tests::{fixture, machine};
    use crate::{Recording, doubt::TopologyDoubt};

    #[test]
    fn a_machine_as_it_should_be_leaves_none() {
        for name in ["single", "two-sockets", "epyc-nps4"] {
            assert_eq!(machine(name, None).doubts(), [], "{name}");
        }
    }

    /// Firmware says something, and it cannot be.
    #[test]
    fn a_domain_that_is_not_there_is_told_as_that() {
        let text = fixture("two-sockets").to_string();
        let more = "sys/class/net/eth9/device/numa_node 7\nsys/class/net/eth9/queues/rx-0 \n";
        let machine = Topology::of(&Recording::parse(&(text + more)).unwrap(), None).unwrap();
        let told: Vec<String> = machine.doubts().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["eth9 is said to be in domain 7, which is not there: nothing can be kept near it"]);
    }

    #[test]
    fn what_lacks_is_told() {
        let odd: Vec<String> = machine("memoryless", None).doubts().iter().map(ToString::to_string).collect();
        assert!(odd.iter().any(|line| line.starts_with("no core in domain 2")), "{odd:?}");
        assert!(odd.iter().any(|line| line.starts_with("no memory in domain 1")), "{odd:?}");
    }

    #[test]
    fn distances_that_lie_are_told_and_order_stays_whole() {
        let text = fixture("two-sockets").to_string();
        for (line, wanted) in [
            ("255 255", TopologyDoubt::Unreachable { from: 0, to: 1 }),
            ("0 0", TopologyDoubt::Distance { from: 0, to: 1, distance: 0 }),
            ("10 10", TopologyDoubt::Distance { from: 0, to: 1, distance: 10 }),
            ("10 31", TopologyDoubt::Unequal { from: 0, to: 1 }),
            ("65535 65535", TopologyDoubt::Unreachable { from: 0, to: 0 }),
        ] {
            let path = "sys/devices/system/node/node0/distance";
            let changed: Vec<String> = text
                .lines()
                .map(|old| if old.starts_with(path) { format!("{path} {line}") } else { old.to_owned() })
                .collect();
            let machine = Topology::of(&Recording::parse(&changed.join("\n")).unwrap(), None).unwrap();
            assert!(machine.doubts().contains(&wanted), "{line}: {:?}", machine.doubts());
            assert_eq!(machine.nearest(0), [0, 1]);
        }
    }
}
