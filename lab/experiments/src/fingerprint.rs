//! The machine that a figure belongs to.

use environment::{Unlike, difference};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Settings that change what a network server does.
const SYSCTLS: [&str; 16] = [
    "kernel/sched_autogroup_enabled",
    "kernel/numa_balancing",
    "kernel/perf_event_paranoid",
    "vm/swappiness",
    "net/core/somaxconn",
    "net/core/netdev_max_backlog",
    "net/core/default_qdisc",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
];

/// What the machine is, and how it is set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineState {
    /// Processor, cores, kernel, memory, distribution.
    pub host: demo::machine::Fingerprint,
    /// NUMA domains.
    pub numa_nodes: u32,
    /// Threads of each core that are in use.
    pub threads_per_core: u32,
    /// The frequency governor of the first core; "none" where the kernel has
    /// no say, as in most virtual machines.
    pub governor: String,
    /// What the kernel does against each processor flaw.
    pub mitigations: BTreeMap<String, String>,
    /// What the kernel tells time by.
    pub clocksource: String,
    /// Whether memory comes in huge pages unasked.
    pub transparent_hugepages: String,
    /// The kernel's settings that matter here, by name.
    pub sysctls: BTreeMap<String, String>,
}

impl MachineState {
    /// Reads it from `/proc` and `/sys`; what cannot be read is said to be
    /// unknown.
    #[must_use]
    pub fn read() -> Self {
        let cpu = "/sys/devices/system/cpu";
        let siblings = line(&format!("{cpu}/cpu0/topology/thread_siblings_list"));
        let sysctl = |name: &&str| Some(((*name).replace('/', "."), line(&format!("/proc/sys/{name}"))?));
        Self {
            host: demo::machine::Fingerprint::read(),
            numa_nodes: count(&line("/sys/devices/system/node/online")),
            threads_per_core: count(&siblings),
            governor: line(&format!("{cpu}/cpu0/cpufreq/scaling_governor")).unwrap_or_else(|| "none".to_owned()),
            mitigations: folder(&format!("{cpu}/vulnerabilities")),
            clocksource: known(line("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
            transparent_hugepages: known(line("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| chosen(&text))),
            sysctls: SYSCTLS.iter().filter_map(sysctl).collect(),
        }
    }

    /// What differs from the machine of an earlier result: processor, firmware, memory,
    /// quotas, interfaces, settings; those things first that matter.
    #[must_use]
    pub fn unlike(&self, before: &Self) -> Vec<Unlike> {
        let mut found = environment::unlike(&before.host, &self.host);
        let (b, a) = (before.own(), self.own());
        let keys: BTreeSet<&String> = b.keys().chain(a.keys()).collect();
        let guest = before.host.virtual_machine && self.host.virtual_machine;
        let text = |all: &BTreeMap<String, String>, key: &String| all.get(key).cloned();
        for key in keys {
            let (before, after) = (text(&b, key), text(&a, key));
            found.extend(difference(key, (before.as_deref(), after.as_deref()), guest));
        }
        found.sort_by_key(|one| !one.matters);
        found
    }

    /// All that is known of it, by name, for readers.
    #[must_use]
    pub fn told(&self) -> BTreeMap<String, String> {
        let mut all = self.own();
        all.extend([
            ("processor".to_owned(), self.host.processor.clone()),
            ("cores".to_owned(), self.host.cores.len().to_string()),
            ("virtual machine".to_owned(), self.host.virtual_machine.to_string()),
            ("memory, MiB".to_owned(), self.host.memory_mib.to_string()),
            ("kernel".to_owned(), self.host.kernel.clone()),
            ("system".to_owned(), self.host.system.clone()),
        ]);
        all.extend(self.host.environment.clone());
        all
    }

    /// What it has beside the fingerprint's.
    fn own(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([
            ("NUMA domains".to_owned(), self.numa_nodes.to_string()),
            ("threads per core".to_owned(), self.threads_per_core.to_string()),
            ("governor".to_owned(), self.governor.clone()),
            ("clocksource".to_owned(), self.clocksource.clone()),
            ("transparent huge pages".to_owned(), self.transparent_hugepages.clone()),
        ]);
        settings.extend(self.mitigations.iter().map(|(name, what)| (format!("mitigation of {name}"), what.clone())));
        settings.extend(self.sysctls.clone());
        settings
    }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

fn known(text: Option<String>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// How many are in a list such as `0-3`; one where there is no list.
fn count(list: &Option<String>) -> u32 {
    let numbers = list.as_deref().and_then(|list| topology::parse_list(list, 65_536));
    u32::try_from(numbers.unwrap_or_default().len()).unwrap_or(u32::MAX).max(1)
}

/// `always [madvise] never` as the kernel shows a choice.
fn chosen(text: &str) -> String {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(chosen, _)| chosen).to_owned()
}

/// Every file of a folder, with its first line.
fn folder(path: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| {
        let text = line(&entry.path().to_string_lossy())?;
        Some((entry.file_name().to_string_lossy().into_owned(), text))
    };
    entries.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let machine = MachineState::read();
        assert!(!machine.host.cores.is_empty() && machine.numa_nodes >= 1);
        assert!(machine.sysctls.contains_key("net.core.somaxconn"));
        assert_eq!(machine.unlike(&MachineState::read()), []);
    }

    #[test]
    fn choices_and_lists_are_read() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("plain"), "plain");
        assert_eq!(count(&Some("0-3,8".to_owned())), 5);
        assert_eq!(count(&None), 1);
    }
}
