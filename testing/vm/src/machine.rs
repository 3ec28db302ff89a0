//! The machines: domains, ports and cables, and qemu's words for them.

use std::fmt::Write as _;

/// A machine.
pub struct Machine {
    /// What it is, for the reader.
    pub name: &'static str,
    /// Its NUMA domains, in order.
    pub domains: &'static [Domain],
    /// Its ports, in order: they are named `port0` and so on. They are joined
    /// in pairs by a cable: 0 with 1, 2 with 3.
    pub ports: &'static [Port],
}

/// A NUMA domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Cores, numbered through all domains.
    pub cores: u32,
    /// Memory in MiB; 0 is a domain without memory.
    pub memory: u32,
}

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The domain whose PCIe bus it is on.
    pub domain: u32,
    /// Queue pairs, where they are ours to choose: of virtio.
    pub queues: u32,
    /// The device that qemu stands for.
    pub driver: Driver,
}

/// A device, by the kernel's driver of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// virtio-net.
    Virtio,
    /// Intel's 82574L.
    E1000e,
    /// VMware's, with a queue for each core.
    Vmxnet3,
    /// Intel's 82576, with a clock that stamps frames.
    Igb,
}

impl Driver {
    /// qemu's name of the device.
    pub const fn device(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-net-pci",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
            Self::Igb => "igb",
        }
    }
}

impl Port {
    /// A port of virtio-net.
    pub const fn virtio(domain: u32, queues: u32) -> Self {
        Self { domain, queues, driver: Driver::Virtio }
    }
}

/// Distances that firmware tells of a machine with several sockets.
const LOCAL: u32 = 10;
const REMOTE: u32 = 21;
/// Buses between the roots of two domains: room for their ports.
const BUSES: u32 = 16;

impl Machine {
    /// Cores of all domains.
    pub fn cores(&self) -> u32 {
        self.domains.iter().map(|domain| domain.cores).sum()
    }

    /// The cores of a domain.
    pub fn cores_of(&self, domain: usize) -> core::ops::Range<u32> {
        let before: u32 = self.domains[..domain].iter().map(|domain| domain.cores).sum();
        before..before + self.domains[domain].cores
    }

    /// The hardware in qemu's words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |word: &str, value: String| words.extend([word.to_owned(), value]);
        add("-smp", self.cores().to_string());
        add("-m", format!("{}M", self.domains.iter().map(|domain| domain.memory).sum::<u32>()));
        for (node, domain) in self.domains.iter().enumerate() {
            let mut numa = format!("node,nodeid={node}");
            if domain.memory > 0 {
                add("-object", format!("memory-backend-ram,id=memory{node},size={}M", domain.memory));
                let _ = write!(numa, ",memdev=memory{node}");
            }
            for core in self.cores_of(node) {
                let _ = write!(numa, ",cpus={core}");
            }
            add("-numa", numa);
        }
        for from in 0..self.domains.len() {
            for to in 0..self.domains.len() {
                let distance = if from == to { LOCAL } else { REMOTE };
                add("-numa", format!("dist,src={from},dst={to},val={distance}"));
            }
            let bus = BUSES * (u32::try_from(from).unwrap_or(u32::MAX) + 1);
            if self.ports.iter().any(|port| port.domain as usize == from) {
                add("-device", format!("pxb-pcie,id=root{from},bus=pcie.0,bus_nr={bus},numa_node={from}"));
            }
        }
        for (index, port) in self.ports.iter().enumerate() {
            let Port { domain, queues, driver } = port;
            let number = index + 1;
            add("-device", format!("pcie-root-port,id=slot{index},bus=root{domain},chassis={number},io-reserve=0"));
            add("-netdev", self.cable(index));
            let mac = mac(index);
            let several = if *queues > 1 { format!(",mq=on,vectors={}", 2 * queues + 2) } else { String::new() };
            let device = driver.device();
            add("-device", format!("{device},bus=slot{index},netdev=cable{index},mac={mac},romfile={several}"));
        }
        words
    }

    /// One end of a cable. qemu's own hub has one queue; several queues are
    /// had from a tap device alone.
    fn cable(&self, index: usize) -> String {
        if self.needs_taps() {
            let queues = self.ports[index].queues;
            format!("tap,id=cable{index},ifname=end{index},script=no,downscript=no,vhost=off,queues={queues}")
        } else {
            format!("hubport,id=cable{index},hubid={}", index / 2)
        }
    }

    /// Whether its cables are made of tap devices.
    pub fn needs_taps(&self) -> bool {
        self.ports.iter().any(|port| port.queues > 1)
    }

    /// A shell's words that lay the cables, in a network namespace of their
    /// own: both ends of a cable are tap devices on one bridge.
    pub fn lay_cables(&self) -> String {
        let mut script = String::new();
        for (index, port) in self.ports.iter().enumerate() {
            let bridge = format!("cable{}", index / 2);
            if index % 2 == 0 {
                let _ = writeln!(script, "ip link add {bridge} type bridge\nip link set {bridge} up");
            }
            let several = if port.queues > 1 { " multi_queue" } else { "" };
            let _ = writeln!(script, "ip tuntap add end{index} mode tap{several}");
            let _ = writeln!(script, "ip link set end{index} master {bridge} up");
        }
        script
    }
}

/// The hardware address of a port, by which it is found: the order in which
/// the kernel finds buses is its own.
pub fn mac(port: usize) -> String {
    format!("02:4e:56:4d:00:{port:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        name: "two domains, the second without memory",
        domains: &[Domain { cores: 2, memory: 512 }, Domain { cores: 1, memory: 0 }],
        ports: &[Port::virtio(0, 1), Port::virtio(1, 1)],
    };

    #[test]
    fn cores_are_numbered_through_the_domains() {
        assert_eq!((MACHINE.cores_of(0), MACHINE.cores_of(1), MACHINE.cores()), (0..2, 2..3, 3));
    }

    #[test]
    fn a_domain_without_memory_has_no_backend() {
        let words = MACHINE.words().join(" ");
        assert!(words.contains("-numa node,nodeid=0,memdev=memory0,cpus=0,cpus=1"), "{words}");
        assert!(words.contains("-numa node,nodeid=1,cpus=2 "), "{words}");
        assert!(words.contains("-m 512M"), "{words}");
    }

    #[test]
    fn ports_lie_on_the_bus_of_their_domain_and_are_joined_in_pairs() {
        let words = MACHINE.words().join(" ");
        assert!(words.contains("pxb-pcie,id=root1,bus=pcie.0,bus_nr=32,numa_node=1"), "{words}");
        assert!(words.contains("pcie-root-port,id=slot1,bus=root1,chassis=2"), "{words}");
        assert!(words.contains("hubport,id=cable0,hubid=0") && words.contains("hubport,id=cable1,hubid=0"), "{words}");
        assert!(!MACHINE.needs_taps());
    }
}
