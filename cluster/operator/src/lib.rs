//! The resident operator as a function of what the API server says, of what becomes of tests that run, and of the time:
//! questions and orders go out. Without I/O, clocks and randomness, so that the simulator runs what a cluster does.
//!
//! | module | for |
//! | --- | --- |
//! | `machine` | the operator: one of several leads; tests are listed, watched, run, told of and forgotten |
//! | `entry` | one test: what is to be run, told and deleted |
//! | `status` | what is told of a test: conditions, verdict, figures |
//! | `leading` | which of several operators is the one |
//! | `asks` | the questions |
//! | `moment` | times as objects have them |
//!
//! Nothing is kept that cannot be asked for again: what a test came to is in its status, what it made is found by its
//! name, and who runs it goes on with that (`reconcile`). So an operator may die between any two answers.
#![forbid(unsafe_code)]

mod asks;
mod entry;
mod leading;
mod machine;
mod moment;
mod status;

pub use machine::{Operator, Order, Watched};
pub use moment::Moment;
pub use status::{Ending, Figures, Note, Verdict};
