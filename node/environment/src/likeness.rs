//! What differs between the surroundings of two results, and whether figures may be
//! compared all the same: each field has a rule that says how alike it must be, and why.

use crate::Fingerprint;
use std::collections::{BTreeMap, BTreeSet};

/// How alike a field must be in two fingerprints whose figures are compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Likeness {
    /// The same.
    Equal,
    /// Numbers whose smaller one is at least this share of the larger one. Words beside
    /// the number may differ.
    Within(f64),
    /// Whatever it is: it may be what the comparison is about, and is told.
    MayDiffer,
    /// Another at each look: it is not told.
    Passing,
}

/// The rule of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LikenessRule {
    /// How alike.
    pub likeness: Likeness,
    /// Why.
    pub why: &'static str,
}

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
    /// Why it matters, or why it does not.
    pub why: &'static str,
}

impl core::fmt::Display for Unlike {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {} and {}", self.what, self.before, self.after)?;
        if self.matters && !self.why.is_empty() {
            write!(f, " ({})", self.why)?;
        }
        Ok(())
    }
}

/// Hypervisors plug memory into a guest, and take it back, as it is needed.
const PLUGGED: f64 = 0.5;

/// Firmware and crash kernels keep other parts of the same memory from one start to the next.
const KEPT: f64 = 0.95;

/// The rule of a field, by its name; `guest`: a hypervisor is below.
#[must_use]
pub fn rule(name: &str, guest: bool) -> LikenessRule {
    use Likeness::{Equal, MayDiffer, Passing, Within};
    const SET_OF_INTERFACES: [&str; 6] = [" rings", " channels", " coalescing", " pause", " offloads", " interrupts"];
    let (likeness, why) = match name {
        "processor" => (Equal, "another processor has another speed"),
        "cores" => (Equal, "with other cores there is more or less to work with"),
        "virtual machine" => (Equal, "a hypervisor takes its part"),
        "NUMA domains" | "threads per core" | "threads of a core" => (Equal, "cores share something else"),
        "firmware" | "machine" => (Equal, "another machine, or its firmware sets it otherwise"),
        "microcode" => (Equal, "microcode changes what instructions cost"),
        "processor quota" | "cores of the group" => (Equal, "the control group gives other processor time"),
        "neighbours" => (Passing, "how busy the machine is is another at each look"),
        _ if name == "memory, MiB" || name.starts_with("memory of domain ") => match guest {
            true => (Within(PLUGGED), "within a factor of two: hypervisors plug memory as it is needed"),
            false => (Within(KEPT), "within 5 %: firmware keeps a part of it"),
        },
        _ if SET_OF_INTERFACES.iter().any(|group| name.ends_with(group)) => (MayDiffer, "it is a setting"),
        _ if name.starts_with("interface ") => (Equal, "another interface, driver or speed"),
        _ => (MayDiffer, "it is a setting, or a version"),
    };
    LikenessRule { likeness, why }
}

/// What a field's two values come to by its rule; `None`: nothing to tell. A field that only
/// one side has is that of an interface or a limit that was added or removed.
#[must_use]
pub fn difference(name: &str, (before, after): (Option<&str>, Option<&str>), guest: bool) -> Option<Unlike> {
    let LikenessRule { likeness, why } = rule(name, guest);
    if before == after || likeness == Likeness::Passing {
        return None;
    }
    let alone = before.is_none() || after.is_none();
    let matters = match likeness {
        // What was plugged in or removed may not have been used; over which link figures were
        // taken, results tell themselves.
        Likeness::Equal if alone && name.starts_with("interface ") => false,
        Likeness::Equal => true,
        Likeness::Within(share) => !within(before, after, share),
        Likeness::MayDiffer | Likeness::Passing => false,
    };
    let text = |value: Option<&str>| value.unwrap_or("not there").to_owned();
    Some(Unlike { what: name.to_owned(), before: text(before), after: text(after), matters, why })
}

/// Whether the smaller of two numbers is at least this share of the larger one. Of what is not
/// known on a side, as in results of earlier versions, there is no telling: it is alike.
fn within(before: Option<&str>, after: Option<&str>, share: f64) -> bool {
    let number = |text: Option<&str>| text?.split(' ').next()?.parse::<f64>().ok().filter(|value| *value > 0.0);
    match (number(before), number(after)) {
        (Some(before), Some(after)) => before.min(after) >= share * before.max(after),
        _ => true,
    }
}

/// What differs between two results' surroundings; those things first that matter.
#[must_use]
pub fn unlike(before: &Fingerprint, after: &Fingerprint) -> Vec<Unlike> {
    let (b, a) = (all(before), all(after));
    let keys: BTreeSet<&String> = b.keys().chain(a.keys()).collect();
    // Results of earlier versions tell nothing of these.
    let knows = !before.environment.is_empty() && !after.environment.is_empty();
    let guest = before.virtual_machine && after.virtual_machine;
    let mut found: Vec<Unlike> = keys
        .into_iter()
        .filter_map(|key| {
            let values = (b.get(key).map(String::as_str), a.get(key).map(String::as_str));
            let one = difference(key, values, guest)?;
            let told = knows || !before.environment.contains_key(key) && !after.environment.contains_key(key);
            Some(Unlike { matters: one.matters && told, ..one })
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
