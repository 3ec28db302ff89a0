//! The resident operator as a function of what the API server says, of what becomes of tests that run, and of the time:
//! questions and orders go out. Without I/O, clocks and randomness, so that the simulator runs what a cluster does.
//!
//! | module | for |
//! | --- | --- |
//! | `machine` | the operator: one of several leads; tests are listed, watched, run, told of and forgotten |
//! | `entry` | one test: what is to be run, told and deleted |
//! | `status` | what is told of a test: conditions, verdict, figures |
//! | `conditions` | what is or is not so of an object, and since when |
//! | `leading` | which of several operators is the one |
//! | `asks` | the questions |
//! | `moment` | times as objects have them |
//! | `auditor` | the same of audits of nodes: audits and nodes are listed, rounds are run, told of and forgotten |
//! | `rounds` | one audit: its rounds, and what is asked for them |
//! | `members` | the nodes of an audit, and how far each is in a round |
//! | `nodes` | which nodes an audit is of, and which can answer |
//! | `audit_status` | what an audit came to, and what is told of it |
//! | `audit_asks` | the questions of audits |
//!
//! Nothing is kept that cannot be asked for again: what a test came to is in its status, what it made is found by its
//! name, and who runs it goes on with that (`reconcile`). So an operator may die between any two answers.
#![forbid(unsafe_code)]

mod asks;
mod audit_asks;
mod audit_status;
mod auditor;
mod conditions;
mod entry;
mod leading;
mod machine;
mod members;
mod moment;
mod nodes;
mod rounds;
mod status;

pub use audit_status::{AuditOutcome, NodeFailure};
pub use auditor::{AuditOrder, Auditor};
pub use machine::{Operator, Order, Watched};
pub use moment::Moment;
pub use status::{Ending, Figures, Note, Verdict};
