//! `nearside nginx`, and the program under the name `nginx`: nginx's command line.
//!
//! | module | for |
//! | --- | --- |
//! | `plan` | what it is to do |
//! | `load` | the configuration is read and compiled |
//! | `test` | `-t` and `-T` |
//! | `signal` | `-s`: the running process is told |
//! | `version` | `-v` and `-V` |
//! | `served` | what a configuration has the process be |

mod load;
mod plan;
mod served;
mod signal;
mod test;
mod version;

pub use plan::{NginxAction, NginxPlan, NginxSignal};
pub use served::served;

use load::Loaded;
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
        NginxAction::Signal(wanted) => Ok(signal::send(plan, wanted)),
        NginxAction::Test { dump, explain } => Ok(test::test(plan, dump, explain)),
        NginxAction::Serve => start(plan, again),
    }
}

fn start(plan: &NginxPlan, again: fn(Option<File>) -> Result<ServePlan, String>) -> Result<ExitCode, Failure> {
    let loaded = match Loaded::new(plan) {
        Ok(loaded) => loaded,
        Err(refusal) => {
            refusal.tell(false);
            return Ok(ExitCode::FAILURE);
        }
    };
    loaded.warn(false);
    let serve_plan = match served::plan(plan, loaded, again) {
        Ok(serve_plan) => serve_plan,
        Err(why) => {
            say::eprintln!("nginx: [emerg] {why}");
            return Ok(ExitCode::FAILURE);
        }
    };
    serve::serve(&serve_plan)
}
