//! What audits of many nodes say together: which nodes are alike, which are not, and in what.
//!
//! | module | for |
//! | --- | --- |
//! | `report` | one node's audit, as far as nodes are compared by it |
//! | `compared` | what of a setting is compared: its value, its verdict, or nothing |
//! | `fleet` | all nodes: those that are alike, and those that differ, by what they differ in |
//! | `drift` | what became of a node since an earlier audit of it |
//! | `record` | what is kept of a node from audit to audit |
//! | `pool` | what nodes have in common, in memory once |
//!
//! Call order: [`NodeReport::read`] for each node's result, then [`Fleet::of`] with all of them; [`drift()`] with two
//! reports of one node. Without I/O: whoever has the files, or the pods, reads them.
#![forbid(unsafe_code)]

mod compared;
mod drift;
mod fleet;
mod pool;
mod record;
mod report;

pub use drift::{Drift, drift};
pub use fleet::{Difference, Fleet, Kin};
pub use pool::Pool;
pub use record::{Change, NodeRecord};
pub use report::{NodeReport, ReportError, SettingName, SettingState};
