//! What of a machine decides a profile.

use audit::{Evidence, cpu_list};

/// Who made the processor: arguments differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// GenuineIntel.
    Intel,
    /// AuthenticAMD.
    Amd,
    /// 64-bit ARM of any maker.
    Arm,
    /// Not told.
    Unknown,
}

/// Cores and memory that are near each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumaNode {
    /// The kernel's number of it.
    pub number: u32,
    /// Its cores, ascending.
    pub cores: Vec<u32>,
    /// Its memory in bytes, if it is told.
    pub memory: Option<u64>,
}

/// A machine's cores and domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Cores on line, ascending.
    pub cores: Vec<u32>,
    /// Sets of threads that share a core, by their first one.
    pub siblings: Vec<Vec<u32>>,
    /// Domains that have cores, ascending; at least one.
    pub domains: Vec<NumaNode>,
    /// Who made the processor.
    pub vendor: Vendor,
    /// Whether the TSC is the clock in force; `None` where it is not told.
    pub tsc: Option<bool>,
}

impl Shape {
    /// The shape that evidence tells; `None` where it tells no cores.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Option<Self> {
        const CPU: &str = "sys/devices/system/cpu";
        let cores = evidence.get(&format!("{CPU}/online")).and_then(cpu_list).filter(|cores| !cores.is_empty())?;
        let mut siblings: Vec<Vec<u32>> = Vec::new();
        for core in &cores {
            let told = evidence.get(&format!("{CPU}/cpu{core}/topology/thread_siblings_list")).and_then(cpu_list);
            let mut set: Vec<u32> =
                told.unwrap_or_default().into_iter().filter(|other| cores.contains(other)).collect();
            if !set.contains(core) {
                set = vec![*core];
            }
            if set.first() == Some(core) {
                siblings.push(set);
            }
        }
        let domains = domains(evidence, &cores);
        let clock = evidence.get("sys/devices/system/clocksource/clocksource0/current_clocksource");
        Some(Self { siblings, domains, vendor: vendor(evidence), tsc: clock.map(|clock| clock == "tsc"), cores })
    }

    /// The threads of the core that a thread is of.
    #[must_use]
    pub fn siblings_of(&self, core: u32) -> &[u32] {
        self.siblings.iter().find(|set| set.contains(&core)).map_or(&[], Vec::as_slice)
    }
}

fn domains(evidence: &Evidence, cores: &[u32]) -> Vec<NumaNode> {
    const NODE: &str = "sys/devices/system/node";
    let numbers = evidence.names(NODE).into_iter().filter_map(|name| name.strip_prefix("node")?.parse::<u32>().ok());
    let mut domains: Vec<NumaNode> = numbers
        .filter_map(|number| {
            let own = evidence.get(&format!("{NODE}/node{number}/cpulist")).and_then(cpu_list)?;
            let own: Vec<u32> = own.into_iter().filter(|core| cores.contains(core)).collect();
            let memory = evidence.get(&format!("{NODE}/node{number}/meminfo")).and_then(total);
            (!own.is_empty()).then_some(NumaNode { number, cores: own, memory })
        })
        .collect();
    domains.sort_by_key(|domain| domain.number);
    if domains.is_empty() {
        domains.push(NumaNode { number: 0, cores: cores.to_vec(), memory: evidence.memory() });
    }
    domains
}

/// `Node 0 MemTotal:  65000000 kB`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    line.split("MemTotal:").nth(1)?.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1_024)
}

fn vendor(evidence: &Evidence) -> Vendor {
    let text = evidence.get("proc/cpuinfo").unwrap_or_default();
    match text {
        text if text.contains("GenuineIntel") => Vendor::Intel,
        text if text.contains("AuthenticAMD") || text.contains("HygonGenuine") => Vendor::Amd,
        text if text.contains("CPU implementer") => Vendor::Arm,
        _ => Vendor::Unknown,
    }
}
