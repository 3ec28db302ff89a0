//! What an operator asks at a terminal, and is answered: the machine, running
//! processes, experiments.
//!
//! Each command is a plan, made of words by whoever has them, and one function
//! that does it: asks the crates that know, writes what they say to standard
//! output, and tells the worst of it by the exit status. Crates of `node/` and
//! `lab/` have no terminal, no signals and no exit status; those are here.
//!
//! | module | for |
//! | --- | --- |
//! | `plan` | what is asked for |
//! | `node` | the machine's settings: judged, planned, changed, undone; noise; profiles |
//! | `watch` | what the machine does, interval by interval |
//! | `numa` | what crosses between NUMA domains |
//! | `live` | running processes, on a terminal's screen |
//! | `compare` | two servers, loaded by turns |
//! | `lab` | experiments, results, published results |

mod compare;
mod lab;
mod live;
mod node;
mod numa;
mod plan;
mod watch;

pub use compare::{ServersPlan, compare};
pub use lab::{ComparisonPlan, ExperimentPlan, JudgePlan, LabPlan, ResultsSide, lab};
pub use live::status;
pub use node::node;
pub use numa::numa;
pub use plan::{
    BudgetPlan, Intended, NodePlan, NodeTask, NoisePlan, NumaPlan, ProfileTask, Strictness, Tracing, Trial, Tuning,
    WatchForm, WatchPlan,
};
pub use watch::watch;
