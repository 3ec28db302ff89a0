//! What is known of each setting that the operator writes: what it does, what it comes of, and what shows it.
//!
//! Sources, where no other is named: the operator's templates (openshift/cluster-node-tuning-operator,
//! `assets/performanceprofile`), tuned's manual pages and profiles, and the kernel's documentation of its parameters.

mod arguments;
mod files;
mod kubelet;
mod manifests;
mod profile;
mod tuned;

pub(crate) use arguments::{ARGUMENTS, OTHER_ARGUMENT};
pub(crate) use files::{CRIO, FILES, PINNING, SCRIPTS, SYSTEMD, UNIT_WORDS, UNITS};
pub(crate) use kubelet::KUBELET;
pub(crate) use manifests::{COMMON, MACHINE_CONFIG, MACHINE_FILE, MACHINE_UNIT, OF_CLUSTER, RECOMMEND, RUNTIME_CLASS};
pub(crate) use profile::{ANNOTATIONS, PROFILE};
pub(crate) use tuned::{OTHER_SYSCTL, TUNED};

/// How it can be seen whether something is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum See {
    /// By itself it changes nothing.
    Nothing,
    /// By nothing in a node's audit, for this reason.
    Unseen(&'static str),
    /// By the rule of this name, which finds the value.
    Row(&'static str),
    /// By the rule of this name, which finds this.
    Is(&'static str, &'static str),
    /// By the rule of this name, which finds it among other words.
    Word(&'static str),
    /// By the rule of this name, which does not find this word.
    Off(&'static str, &'static str),
    /// By the rule of this name, which finds these cores among others.
    Cores(&'static str),
    /// Where it is true, by the rule of this name, which finds this.
    IfTrue(&'static str, &'static str),
    /// By the kernel's release.
    RealTime,
}

/// What is known of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Its name; a star stands for any letters.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The field of the PerformanceProfile that it comes of; empty where it comes of none.
    pub input: &'static str,
    /// How it can be seen.
    pub see: See,
}

/// A row of the catalogue.
pub(crate) const fn known(name: &'static str, what: &'static str, input: &'static str, see: See) -> Known {
    Known { name, what, input, see }
}

/// What is known of a name.
pub(crate) fn find(table: &'static [Known], name: &str) -> Option<&'static Known> {
    table.iter().find(|known| fits(known.name, name))
}

/// Whether a name is as a pattern with stars has it.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    // The letters of a star are as few as they can be, and then more.
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| rest.get(at..).is_some_and(|rest| fits(after, rest)))
}
