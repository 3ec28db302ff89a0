//! `nearside serve`.
//!
//! | module | for |
//! | --- | --- |
//! | `plan` | what it is to do |
//! | `link` | over links and our own stack |
//! | `kernel` | over kernel sockets: what is made, and started |
//! | `wanted`, `holder` | sockets, cores and limits; who else has an address |
//! | `share` | limits of the process, divided |
//! | `worker`, `orders` | one worker's life, and what the main thread wants of it |
//! | `wakes` | what wakes one of them that sleeps |
//! | `supervisor` | the main thread |
//! | `reload`, `settings` | SIGHUP, and what it may change |
//! | `check`, `check_places` | whether a plan is good, without serving |
//! | `control` | how one process follows another: the messages |
//! | `succession`, `takeover` | the running process's side, and the new one's |
//! | `systemd` | sockets from systemd, and what it is told |

mod check;
mod check_places;
mod control;
mod holder;
mod kernel;
mod link;
mod orders;
mod pid_file;
mod plan;
mod reload;
#[cfg(test)]
mod scratch;
pub mod settings;
mod share;
mod succession;
mod supervisor;
mod systemd;
mod takeover;
mod wakes;
mod wanted;
mod worker;

pub use plan::{Control, KernelPlan, Listen, RestartPlan, ServePath, ServePlan, Settings, TakeOver};

use say::Failure;

/// Serves until it is told to stop.
///
/// # Errors
/// What the user is to know.
pub fn serve(plan: &ServePlan) -> Result<(), Failure> {
    if plan.check {
        return check::check(plan);
    }
    match &plan.path {
        ServePath::Link { .. } => link::serve(plan),
        ServePath::Kernel(kernel) => kernel::serve(kernel, plan),
    }
}
