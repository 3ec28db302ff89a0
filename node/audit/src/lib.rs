//! What of a machine's settings matters for a server like ours, what does
//! not, and what harms: each as a rule with its source.
//!
//! ```text
//!   machine or recording ─► Evidence ─┐
//!                                     ├─► Rule::judge ─► Row ─► Report
//!   somebody's files ─────► Advice ───┘
//! ```
//!
//! [`Evidence`] is text: files of procfs and sysfs, and of the folders that
//! settings come from, as they were read. Everything else here is a pure
//! function of it, so a machine can be judged from its recording on any other.
//!
//! Call order: [`Evidence::take`] or [`Evidence::parse`], then [`machine`] for
//! the settings in force or [`judge`] for somebody's files, which both
//! give a [`Report`].

#![forbid(unsafe_code)]

pub mod advice;
mod advised;
mod case;
mod catalogue;
mod container;
mod evidence;
mod origin;
mod report;
mod rule;
#[cfg(test)]
mod tests;
mod text;
mod value;
pub mod yaml;

pub use advice::{AFFINITY, DOMAIN_PAGES};
pub use advised::{acting, judge, judge_lines};
pub use case::{Case, Finding};
pub use catalogue::{find, rules};
pub use container::container;
pub use evidence::{Evidence, EvidenceError, Kernel, cpu_list, cpu_mask, sysctl_path};
pub use origin::{Origin, Setter};
pub use report::{CounterValue, Report, Row, machine};
pub use rule::{Area, Counter, Judge, Probe, Reading, Role, Roles, Rule, Verdict};
pub use value::near;
