//! What OpenShift's Node Tuning Operator makes of a node: its manifests explained line by line, and which of that is in
//! force, by the node's own audit. Without I/O.
//!
//! | module | for |
//! | --- | --- |
//! | `line` | a line: what it does, which field of the PerformanceProfile it comes of, and what shows it |
//! | `facts` | a node's audit, as far as lines are held against it |
//! | `force` | whether a line is in force on a node |
//! | `objects` | manifests as lines |
//! | `leaves` | leaves of a document |
//! | `tuned` | a profile of tuned, and the kernel's command line in it |
//! | `contents` | files and units of a MachineConfig |
//! | `catalogue` | what is known of each |
//! | `plan` | what audits of a pool's nodes would have changed, as a manifest |
//!
//! Each leaf of a manifest, and each line of a text within it, is a [`Line`]; what is not known stands there as such.
//! What the operator would make of a PerformanceProfile is not computed here: that is `nearside node profile`.
#![forbid(unsafe_code)]

mod catalogue;
mod contents;
mod facts;
mod force;
mod leaves;
mod line;
mod objects;
mod plan;
mod tuned;

pub use facts::NodeFacts;
pub use force::InForce;
pub use line::{Line, Only, Sign, Visible};
pub use objects::explain;
pub use plan::{FleetPlan, FleetStep, LeftOut};
