//! Audits of nodes.

mod call;
mod drive;
mod listen;
mod resident;
mod run;

pub use call::audit_node;
pub use resident::operate;
pub use run::{render, run};
