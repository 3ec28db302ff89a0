//! A low-latency node, from its topology to files that make it one.
//!
//! ```text
//!   Evidence: cores, domains ─┐
//!   Wanted: pages, version ───┴─► Profile ─► render: files, each line with its reason
//!
//!   files, Evidence of afterwards ─► check: is it so? ◄─ operator: what OpenShift adds
//! ```
//!
//! [`Profile::new`] refuses what a node would refuse, or suffer from: cores in
//! both sets or in none, siblings on two sides, pages that a domain does not
//! have. Everything else is a pure function of it. [`check`] takes the files
//! as they were rendered, or as somebody else wrote them.

#![forbid(unsafe_code)]

mod check;
mod cores;
mod laboratory;
mod openshift;
mod operator;
mod plain;
mod pod;
mod shape;
#[cfg(test)]
mod tests;
mod text;
mod wanted;

pub use check::{Check, Checked, check};
pub use cores::{list, mask};
pub use operator::{Hints, operator_arguments, operator_kubelet};
pub use shape::{NumaNode, Shape, Vendor};
pub use wanted::{Huge, PageSize, Profile, ProfileError, Version, Wanted};

use serde::Serialize;

/// What takes the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Manifests for a cluster, by its version.
    OpenShift,
    /// A profile of tuned.
    Tuned,
    /// Units, and files of sysctl.d and tmpfiles.d.
    Systemd,
    /// Arguments of the kernel's command line.
    Grub,
}

/// A file, as it would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Rendered {
    /// Below the folder that is asked for.
    pub path: String,
    /// What it is for, in a line.
    pub what: String,
    /// All of it.
    pub text: String,
}

/// The files of a profile, for one who takes them.
#[must_use]
pub fn render(profile: &Profile, target: Target) -> Vec<Rendered> {
    match target {
        Target::OpenShift => openshift::manifests(profile),
        Target::Tuned => plain::tuned(profile),
        Target::Systemd => plain::systemd(profile),
        Target::Grub => plain::grub(profile),
    }
}
