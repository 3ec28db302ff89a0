//! What differs between the surroundings of two results.

use crate::Fingerprint;
use std::collections::{BTreeMap, BTreeSet};

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unlike {
    /// What it is.
    pub what: String,
    /// As it was with the earlier result.
    pub before: String,
    /// As it was with the later one.
    pub after: String,
    /// Whether figures are not to be compared because of it; else it may be what the
    /// comparison is about.
    pub matters: bool,
}

impl core::fmt::Display for Unlike {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {} and {}", self.what, self.before, self.after)
    }
}

/// Whether a thing is another each time, and is not compared at all.
#[must_use]
pub fn passes(name: &str) -> bool {
    name == "neighbours"
}

/// What differs between two results' surroundings; those things first that matter.
#[must_use]
pub fn unlike(before: &Fingerprint, after: &Fingerprint) -> Vec<Unlike> {
    let (b, a) = (all(before), all(after));
    let keys: BTreeSet<&String> = b.keys().chain(a.keys()).collect();
    // Results of earlier versions tell nothing of these.
    let knows = !before.environment.is_empty() && !after.environment.is_empty();
    let text = |value: Option<&String>| value.map_or("not there", String::as_str).to_owned();
    let mut found: Vec<Unlike> = keys
        .into_iter()
        .filter(|key| b.get(*key) != a.get(*key) && !passes(key))
        .map(|key| Unlike {
            what: key.clone(),
            before: text(b.get(key)),
            after: text(a.get(key)),
            matters: is_of_machine(key) || knows && matters(key),
        })
        .collect();
    found.sort_by_key(|one| !one.matters);
    found
}

fn all(of: &Fingerprint) -> BTreeMap<String, String> {
    let mut all = of.environment.clone();
    all.extend([
        ("processor".to_owned(), of.processor.clone()),
        ("cores".to_owned(), of.cores.len().to_string()),
        ("virtual machine".to_owned(), of.virtual_machine.to_string()),
        ("memory, MiB".to_owned(), of.memory_mib.to_string()),
        ("kernel".to_owned(), of.kernel.clone()),
        ("system".to_owned(), of.system.clone()),
    ]);
    all
}

fn is_of_machine(name: &str) -> bool {
    ["processor", "cores", "virtual machine", "memory, MiB"].contains(&name)
}

/// Whether nobody compares two figures on purpose that differ in this: what is set is what
/// comparisons are about.
#[must_use]
pub fn matters(name: &str) -> bool {
    const OF_INTERFACES: [&str; 5] = [" rings", " channels", " coalescing", " pause", " offloads"];
    let machine = ["firmware", "machine", "microcode", "processor quota", "cores of the group", "threads of a core"];
    let set = OF_INTERFACES.iter().any(|group| name.ends_with(group)) || name.ends_with(" interrupts");
    machine.contains(&name) || name.starts_with("memory of domain ") || name.starts_with("interface ") && !set
}
