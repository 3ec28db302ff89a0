//! `nearside nginx`, and the program under the name `nginx`: nginx's command line.
//!
//! | module | for |
//! | --- | --- |
//! | `plan` | what it is to do |
//! | `load` | the configuration is read and compiled |
//! | `test` | `-t` and `-T` |
//! | `pid_file` | the file with the process id, and who is told by it |
//! | `apart` | what reads the disk for a command, in a process that may be left behind |
//! | `signal` | `-s`: the running process is told |
//! | `version` | `-v` and `-V` |
//! | `site` | a site in TOML in the place of an nginx.conf |
//! | `start` | the process begins: its error log, and in the background |
//! | `served` | what a configuration has the process be |
//! | `over_links`, `over_sockets` | the same of each data path |
//! | `reasons` | all that stops a start |
//! | `reach` | which upstreams the kernel alone reaches |

mod apart;
mod load;
mod memory;
mod over_links;
mod over_sockets;
mod pid_file;
mod plan;
mod reach;
mod reasons;
mod served;
mod signal;
mod site;
mod start;
mod test;
mod version;

pub use plan::{ExplainForm, NginxAction, NginxLinks, NginxPlan, NginxSignal, NginxWorkers};
pub use served::served;
pub use site::{SiteForm, SitePlan, SiteTask, site, site_served};

use say::Failure;
use serve::ServePlan;
use std::fs::File;
use std::process::ExitCode;

/// Does what the command line says; `again` reads it again, to serve what it says
/// then.
///
/// # Errors
/// What went wrong while it served. What is wrong with a configuration was said,
/// as nginx says it.
pub fn nginx(plan: &NginxPlan, again: fn(Option<File>) -> Result<ServePlan, String>) -> Result<ExitCode, Failure> {
    match plan.action {
        NginxAction::Version { whole } => {
            version::tell(whole);
            Ok(ExitCode::SUCCESS)
        }
        NginxAction::Directives => {
            say::print!("{}", nginx::listing());
            Ok(ExitCode::SUCCESS)
        }
        NginxAction::Signal(wanted) => apart::run(|| Ok(signal::send(plan, wanted)), |_| Ok(())),
        NginxAction::Test { dump, explain } => {
            apart::run(|| test::test(plan, dump, explain), |why| test::unanswered(plan, explain, why))
        }
        NginxAction::Serve => start::start(plan, again),
    }
}
