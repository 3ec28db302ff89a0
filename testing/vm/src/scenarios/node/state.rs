//! What is so, by the words of ethtool(8), sysfs and procfs.

use super::Subject;
use crate::Failure;
use crate::guest::output;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What ethtool shows: coalescing, rings, offloads, channels, pause frames, the
/// table that spreads flows.
const SHOWN: [&str; 6] = ["-c", "-g", "-k", "-l", "-a", "-x"];
/// Files of an interface, and of its queues.
const OF_INTERFACE: [&str; 6] =
    ["mtu", "tx_queue_len", "gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "device/power/control"];
/// Other settings that a plan may touch.
const FOLDERS: [&str; 4] =
    ["/proc/sys", "/sys/kernel/mm", "/sys/devices/virtual/workqueue/cpumask", "/sys/module/pcie_aspm/parameters"];

/// What is said of everything, line by line.
pub struct State(BTreeMap<String, String>);

impl State {
    /// Reads it all.
    ///
    /// # Errors
    /// If ethtool does not run.
    pub fn take(subjects: &[&Subject]) -> Result<Self, Failure> {
        let mut said = BTreeMap::new();
        for subject in subjects {
            let interface = subject.interface;
            for option in SHOWN {
                let output = Command::new("ethtool").args([option, interface]).output()?;
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                for (at, line) in text.lines().enumerate() {
                    said.insert(format!("ethtool {option} {interface} line {at:03}"), line.to_owned());
                }
            }
            for file in OF_INTERFACE {
                let text = fs::read_to_string(format!("/sys/class/net/{interface}/{file}")).unwrap_or_default();
                said.insert(format!("{interface}/{file}"), text);
            }
            for queue in fs::read_dir(format!("/sys/class/net/{interface}/queues"))?.filter_map(Result::ok) {
                for file in ["rps_cpus", "rps_flow_cnt", "xps_cpus"] {
                    if let Ok(text) = fs::read_to_string(queue.path().join(file)) {
                        said.insert(queue.path().join(file).display().to_string(), text);
                    }
                }
            }
        }
        for folder in FOLDERS {
            files(Path::new(folder), &mut said);
        }
        Ok(Self(said))
    }

    /// Reads what a plan of `killed` changes, and what is beside it: what it may
    /// leave is among that, and reading everything takes longer than the plan.
    ///
    /// # Errors
    /// If ethtool does not run.
    pub fn glance(subjects: &[&Subject], settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut said = BTreeMap::new();
        for (interface, option) in settings {
            if subjects.iter().any(|subject| subject.interface == *interface) {
                said.insert(format!("ethtool {option} {interface}"), ethtool(option, interface)?);
            } else {
                said.insert((*interface).to_owned(), fs::read_to_string(interface)?);
            }
        }
        Ok(Self(said))
    }

    /// What is another thing now; what only counts, and changes by itself, is
    /// none of it.
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for key in self.0.keys().chain(before.0.keys().filter(|key| !self.0.contains_key(*key))) {
            let (now, then) = (self.0.get(key), before.0.get(key));
            if now != then && !counts(key) {
                let line = |text: Option<&String>| text.map_or("nothing", |text| text.trim()).to_owned();
                found.push(format!("{key}: {} before, {} now", line(then), line(now)));
            }
        }
        found
    }
}

/// Files that say what happens, not what is set; and what the kernel writes
/// anew when huge pages are switched, which the plan says.
fn counts(key: &str) -> bool {
    const COUNTS: [&str; 14] = [
        "/min_free_kbytes",
        "/random/",
        "/dentry-state",
        "/inode-",
        "/file-nr",
        "/ns_last_pid",
        "/pages_",
        "/full_scans",
        "/general_profit",
        "/ksm_",
        "/stable_node",
        "/stats/",
        "/pty/nr",
        "/aio-nr",
    ];
    COUNTS.iter().any(|part| key.contains(part)) || key.ends_with("free_hugepages")
}

fn files(path: &Path, said: &mut BTreeMap<String, String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            files(&entry.path(), said);
        }
    } else if let Ok(text) = fs::read(path) {
        // Some are for writing only.
        said.insert(path.display().to_string(), String::from_utf8_lossy(&text).into_owned());
    }
}

/// What ethtool shows of an interface.
///
/// # Errors
/// If it cannot.
pub fn ethtool(option: &str, interface: &str) -> Result<String, Failure> {
    output(Command::new("ethtool").args([option, interface]))
}
