//! Which CPU is in which NUMA domain, and which workers are near to it.

use super::MAX_WORKERS;
use std::io;
use std::path::Path;

/// The most CPUs that a table is made for.
pub(super) const MAX_CPUS: usize = 4_096;

/// The domain of each CPU that the machine may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    domains: Vec<u16>,
}

/// The workers as one CPU sees them: the nearest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidates {
    /// Workers pinned to this CPU: so many at the front of the list.
    pub own: usize,
    /// Workers of its domain, with those.
    pub domain: usize,
    /// All workers, by index.
    pub list: Vec<u8>,
}

impl Topology {
    /// The machine's, as sysfs tells.
    ///
    /// # Errors
    /// If sysfs is not there, or says what cannot be understood.
    pub fn here() -> io::Result<Self> {
        Self::read(Path::new("/sys"))
    }

    /// As `root`/devices/system tells, in the form of sysfs. A machine without
    /// NUMA has one domain.
    ///
    /// # Errors
    /// If the list of possible CPUs is not there, or a list cannot be
    /// understood.
    pub fn read(root: &Path) -> io::Result<Self> {
        let system = root.join("devices/system");
        let possible = list(&std::fs::read_to_string(system.join("cpu/possible"))?)?;
        let count = possible.into_iter().max().map_or(1, |last| usize::from(last) + 1);
        let mut domains = vec![0; count];
        let Ok(nodes) = std::fs::read_dir(system.join("node")) else { return Ok(Self { domains }) };
        for node in nodes {
            let node = node?;
            let name = node.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
            let Some(number) = number else { continue };
            for cpu in list(&std::fs::read_to_string(node.path().join("cpulist"))?)? {
                if let Some(domain) = domains.get_mut(usize::from(cpu)) {
                    *domain = number;
                }
            }
        }
        Ok(Self { domains })
    }

    /// CPUs that the machine may have.
    #[must_use]
    pub const fn cpus(&self) -> usize {
        self.domains.len()
    }

    /// The domain of a CPU; `None` if there is no such CPU.
    #[must_use]
    pub fn domain(&self, cpu: u16) -> Option<u16> {
        self.domains.get(usize::from(cpu)).copied()
    }

    /// The workers as each CPU sees them; `cores` is where each is pinned. One
    /// that is not pinned is nobody's neighbour.
    pub(super) fn candidates(&self, cores: &[Option<u16>]) -> Vec<Candidates> {
        let near = |cpu: usize| {
            let place = |core: &Option<u16>| match core {
                Some(core) if usize::from(*core) == cpu => 0,
                Some(core) if self.domain(*core) == Some(self.domains[cpu]) => 1,
                _ => 2,
            };
            let mut placed: Vec<(usize, usize)> =
                cores.iter().take(MAX_WORKERS).map(place).enumerate().map(|(worker, place)| (place, worker)).collect();
            placed.sort_unstable();
            let up_to = |place| placed.iter().filter(|(at, _)| *at <= place).count();
            let (own, domain) = (up_to(0), up_to(1));
            Candidates { own, domain, list: placed.into_iter().map(|(_, worker)| worker as u8).collect() }
        };
        (0..self.cpus()).map(near).collect()
    }
}

/// A list as the kernel writes it: `0-3,8`; may be empty.
fn list(text: &str) -> io::Result<Vec<u16>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("not a list of CPUs: {}", text.trim()));
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>(), last.parse::<u16>());
        let (Ok(first), Ok(last)) = (first, last) else { return Err(wrong()) };
        if usize::from(last) >= MAX_CPUS {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(own: usize, domain: usize, list: &[u8]) -> Candidates {
        Candidates { own, domain, list: list.to_vec() }
    }

    /// A sysfs of two domains with two CPUs each, numbered across.
    fn fixture(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("nearside-{name}-{}", std::process::id()));
        for (path, text) in [
            ("cpu/possible", "0-4\n"),
            ("node/node0/cpulist", "0,2\n"),
            ("node/node1/cpulist", "1,3-4\n"),
            ("node/node2/cpulist", "\n"),
            ("node/power/control", "auto\n"),
        ] {
            let path = root.join("devices/system").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_nearest_workers_come_first() {
        let root = fixture("near");
        let topology = Topology::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((topology.cpus(), topology.domain(3), topology.domain(5)), (5, Some(1), None));
        let all = topology.candidates(&[Some(1), Some(0), Some(2), None, Some(1)]);
        assert_eq!(all[0], candidates(1, 2, &[1, 2, 0, 3, 4]));
        assert_eq!(all[1], candidates(2, 2, &[0, 4, 1, 2, 3]));
        assert_eq!(all[3], candidates(0, 2, &[0, 4, 1, 2, 3]));
        assert_eq!(topology.candidates(&[None, None])[2], candidates(0, 0, &[0, 1]));
    }

    #[test]
    fn without_numa_there_is_one_domain() {
        let root = fixture("flat");
        std::fs::remove_dir_all(root.join("devices/system/node")).unwrap();
        let topology = Topology::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(topology.candidates(&[Some(1), Some(4)])[0], candidates(0, 2, &[0, 1]));
        assert!(Topology::read(&root).is_err());
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(list("0-3,8\n").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(list("\n").unwrap(), []);
        for wrong in ["a", "1-", "0-70000", "0-5000"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let topology = Topology::here().unwrap();
        assert!(topology.domain(silo::pin::current_core()).is_some());
    }
}
