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

pub use head::{ResultKind, SCHEMA};
pub use likeness::{Likeness, LikenessRule, Unlike, difference, rule, unlike};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
        let mut found = machine::read(Path::new("/"), cores);
        found.environment.extend(interfaces::read(Path::new("/"), interfaces, true));
        found
    }
}

/// A file's words on one line; none where it cannot be read or is empty.
fn line(root: &Path, path: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    let line = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// The names in a folder, in order.
fn names(root: &Path, path: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(path)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests;
