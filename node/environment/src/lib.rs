//! What a figure belongs to: the machine, its firmware and settings, its
//! interfaces, who else works there; and whether two figures may be compared.
//!
//! | module | tells of |
//! | --- | --- |
//! | `head` | what each result says at its head: its kind, and the version of its form |
//! | `machine` | processor, memory, kernel, control group |
//! | `interfaces` | drivers, firmware, queues, rings, offloads, interrupts |
//! | `likeness` | what differs between two, and whether it matters |

mod head;
mod interfaces;
mod likeness;
mod machine;

pub use head::{ResultKind, ResultOrigin, SCHEMA, shown_command, without_secrets};
pub use likeness::{Likeness, LikenessRule, Unlike, difference, rule, unlike};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use sysroot::Sysroot;

/// What an absolute figure belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: Vec<u16>,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// The kernel's version.
    pub kernel: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The distribution.
    pub system: String,
    /// Firmware, microcode, mitigations, quotas, memory by domain, interfaces, neighbours: what
    /// else a figure depends on, by name. Results of earlier versions have none.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Reads it from this machine; what cannot be read is left out, or said to be unknown.
    #[must_use]
    pub fn read() -> Self {
        Self::read_with(&[])
    }

    /// The same, with these interfaces even if they have no device.
    #[must_use]
    pub fn read_with(interfaces: &[&str]) -> Self {
        let cores = rustix::thread::sched_getaffinity(None).map_or(Vec::new(), |set| {
            let all = 0..u16::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u16::MAX);
            all.filter(|core| set.is_set(usize::from(*core))).collect()
        });
        let root = Sysroot::of_this_machine();
        let mut found = machine::read(&root, cores);
        found.environment.extend(interfaces::read(&root, interfaces));
        found
    }
}

impl Fingerprint {
    /// By name and value, as people read it.
    #[must_use]
    pub fn told(&self) -> Vec<(String, String)> {
        let guest = if self.virtual_machine { ", virtual" } else { "" };
        let own = [
            ("processor", self.processor.clone()),
            ("cores", format!("{} cores{guest}", self.cores.len())),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("system", self.system.clone()),
            ("kernel", format!("Linux {}", self.kernel)),
        ];
        own.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(self.environment.clone()).collect()
    }
}

/// No file that is looked at is longer; more is cut.
const FILE_LIMIT: u64 = 1 << 20;

/// A file's text; none where it cannot be read.
fn text(root: &Sysroot, path: &str) -> String {
    root.text(path, FILE_LIMIT).unwrap_or_default()
}

/// A file's words on one line; none where it cannot be read or is empty.
fn line(root: &Sysroot, path: &str) -> Option<String> {
    let line = text(root, path).split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// The names in a folder, in order.
fn names(root: &Sysroot, path: &str) -> Vec<String> {
    root.names(path).unwrap_or_default()
}

#[cfg(test)]
mod tests;
