//! Which workers are near to which CPU.

use super::MAX_WORKERS;
use topology::Topology;

/// The most CPUs that a table is made for.
pub(super) const MAX_CPUS: usize = topology::MAX_CORES;

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

impl Candidates {
    /// The workers as each CPU sees them, by the CPU's number; `cores` is
    /// where each is pinned. One that is not pinned is nobody's neighbour.
    pub fn of(topology: &Topology, cores: &[Option<u16>]) -> Vec<Self> {
        let cpus = topology.cores.last().map_or(1, |last| usize::from(last.number) + 1).min(MAX_CPUS);
        let near = |cpu: u16| {
            let domain = topology.domain_of(cpu);
            let place = |core: &Option<u16>| match core {
                Some(core) if *core == cpu => 0,
                Some(core) if domain.is_some() && topology.domain_of(*core) == domain => 1,
                _ => 2,
            };
            let mut placed: Vec<(usize, usize)> =
                cores.iter().take(MAX_WORKERS).map(place).enumerate().map(|(worker, place)| (place, worker)).collect();
            placed.sort_unstable();
            let up_to = |place| placed.iter().filter(|(at, _)| *at <= place).count();
            let (own, domain) = (up_to(0), up_to(1));
            Self { own, domain, list: placed.into_iter().map(|(_, worker)| worker as u8).collect() }
        };
        (0..cpus as u16).map(near).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Recording;

    fn candidates(own: usize, domain: usize, list: &[u8]) -> Candidates {
        Candidates { own, domain, list: list.to_vec() }
    }

    fn machine(text: &str) -> Topology {
        Topology::of(&Recording::parse(text).unwrap(), None).unwrap()
    }

    /// Two domains with CPUs numbered across.
    const TWO: &str = "\
sys/devices/system/cpu/possible 0-4
sys/devices/system/node/node0/cpulist 0,2
sys/devices/system/node/node1/cpulist 1,3-4
sys/devices/system/node/node2/cpulist \n";

    #[test]
    fn the_nearest_workers_come_first() {
        let topology = machine(TWO);
        let all = Candidates::of(&topology, &[Some(1), Some(0), Some(2), None, Some(1)]);
        assert_eq!(all.len(), 5);
        assert_eq!(all[0], candidates(1, 2, &[1, 2, 0, 3, 4]));
        assert_eq!(all[1], candidates(2, 2, &[0, 4, 1, 2, 3]));
        assert_eq!(all[3], candidates(0, 2, &[0, 4, 1, 2, 3]));
        assert_eq!(Candidates::of(&topology, &[None, None])[2], candidates(0, 0, &[0, 1]));
    }

    #[test]
    fn without_numa_there_is_one_domain() {
        let flat = machine("sys/devices/system/cpu/possible 0-4\n");
        assert_eq!(Candidates::of(&flat, &[Some(1), Some(4)])[0], candidates(0, 2, &[0, 1]));
    }
}
