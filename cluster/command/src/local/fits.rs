//! Whether so many workers fit on this machine, and what is lacking.

use cpu::pin::allowed_cores;
use rustix::process::{Resource, getrlimit};
use spec::memory_of_worker;
use std::fs;

/// Descriptors of a worker without its connections.
const DESCRIPTORS_EACH: u64 = 64;

/// Descriptors of the controller, for each worker.
const DESCRIPTORS_OF_CONTROLLER: u64 = 6;

/// Threads that share a core, at most: with more they measure each other.
const THREADS_OF_CORE: u64 = 16;

/// What a test takes.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Workers.
    pub workers: u32,
    /// Connections of all of them together.
    pub connections: u32,
    /// Threads of each.
    pub threads: u32,
}

/// What a machine has.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: Vec<u16>,
    /// Memory to be had, in bytes, if that is known.
    pub memory: Option<u64>,
    /// Descriptors that a process may have; none without a limit.
    pub descriptors: Option<u64>,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let known = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Self {
            cores: allowed_cores().unwrap_or_default(),
            memory: kib.map(|kib| kib << 10),
            descriptors: getrlimit(Resource::Nofile).maximum,
        }
    }

    /// What is lacking for a test; none if it fits.
    pub fn lack(&self, need: Need) -> Option<String> {
        let Need { workers, connections, threads } = need;
        let all = u64::from(workers);
        let memory = all.saturating_sub(1) * memory_of_worker(0) + memory_of_worker(connections);
        if let Some(have) = self.memory.filter(|have| *have < memory) {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            return Some(format!(
                "{workers} workers with {connections} connections take {} MiB of memory, and {} are to be had",
                mib(memory),
                mib(have)
            ));
        }
        let each = u64::from(connections).div_ceil(all.max(1)) + DESCRIPTORS_EACH;
        let most = each.max(all * DESCRIPTORS_OF_CONTROLLER + DESCRIPTORS_EACH);
        if let Some(have) = self.descriptors.filter(|have| *have < most) {
            return Some(format!("a process takes {most} descriptors here, and may have {have} (ulimit -Hn)"));
        }
        let (run, cores) = (all * u64::from(threads), self.cores.len() as u64);
        (run > cores.max(1) * THREADS_OF_CORE).then(|| {
            let most = cores.max(1) * THREADS_OF_CORE / u64::from(threads.max(1));
            format!("{run} threads on {cores} cores measure each other: {most} workers fit here")
        })
    }

    /// The cores of a worker's threads; none where there are too few for all, so that the system shares them out.
    pub fn cores_of(&self, worker: u32, need: Need) -> Option<&[u16]> {
        let threads = need.threads as usize;
        let fits = threads.checked_mul(need.workers as usize).is_some_and(|all| all <= self.cores.len());
        let from = threads * worker as usize;
        self.cores.get(from..from + threads).filter(|_| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said() {
        let machine = Machine { cores: vec![0, 1], memory: Some(1 << 30), descriptors: Some(1_024) };
        let lack = |workers, connections, threads| machine.lack(Need { workers, connections, threads });
        assert_eq!(lack(3, 96, 1), None);
        assert!(lack(40, 96, 1).is_some_and(|why| why.contains("take 1922 MiB of memory, and 1024 are to be had")));
        assert!(lack(1, 2_000, 1).is_some_and(|why| why.contains("takes 2064 descriptors here, and may have 1024")));
        assert!(
            lack(3, 30, 20).is_some_and(|why| why.contains("60 threads on 2 cores") && why.contains("1 workers fit"))
        );
        let blind = Machine { cores: Vec::new(), memory: None, descriptors: None };
        assert_eq!(blind.lack(Need { workers: 16, connections: 1 << 20, threads: 1 }), None);
        assert!(!Machine::here().cores.is_empty());
    }

    #[test]
    fn cores_are_dealt_out_where_there_are_enough() {
        let machine = Machine { cores: vec![4, 5, 8, 9], memory: None, descriptors: None };
        let need = |workers, threads| Need { workers, connections: 64, threads };
        assert_eq!(machine.cores_of(1, need(2, 2)), Some(&[8, 9][..]));
        assert_eq!(machine.cores_of(0, need(3, 2)), None);
        assert_eq!(machine.cores_of(3, need(4, 1)), Some(&[9][..]));
    }
}
