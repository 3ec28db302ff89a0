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
//! | `wakes`, `bell` | what wakes one of them that sleeps, and a main thread |
//! | `supervisor` | the main thread, over either data path |
//! | `waiting` | which path a start, or a reload, waits for |
//! | `exposed` | metrics, and whether it is ready, over HTTP |
//! | `asked` | what signals, or a parent, ask of it |
//! | `reload`, `settings` | SIGHUP, and what it may change |
//! | `check`, `check_places` | whether a plan is good, without serving |
//! | `control` | how one process follows another: the messages |
//! | `succession`, `takeover` | the running process's side, and the new one's |
//! | `systemd` | sockets from systemd, and what it is told |
//! | `privileges` | whom the process that serves is to be |
//! | `parent` | who keeps the right to open |
//! | `ward`, `confine` | who serves without it: towards the parent, and how it is given up |
//! | `places` | what is opened with rights for whoever has none |

mod answers;
mod asked;
mod bell;
mod check;
mod check_places;
mod confine;
mod control;
mod error_log;
mod exposed;
mod holder;
mod kernel;
mod left;
mod link;
mod orders;
mod parent;
mod pid_file;
mod places;
mod plan;
mod privileges;
mod reload;
#[cfg(test)]
mod scratch;
pub mod settings;
mod share;
mod succession;
mod supervisor;
mod systemd;
mod takeover;
mod waiting;
mod wakes;
mod wanted;
mod ward;
mod worker;

pub use answers::{Answers, ReloadAnswer};
pub use check_places::can_be_bound;
pub use error_log::tell_syslog;
pub use left::{hand_on, leave, left};
pub use plan::{
    Control, ErrorLogs, KernelPlan, Listen, PortPlan, Privileges, RestartPlan, ServePath, ServePlan, Settings,
    SignalRules, SyslogErrors, TakeOver,
};
pub use waiting::starting;

use say::Failure;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use ward::Ward;

/// Whether a process of ours started this one, to serve for it or after it.
#[must_use]
pub fn is_ours() -> bool {
    [ward::VARIABLE, takeover::VARIABLE].iter().any(|name| std::env::var_os(name).is_some())
}

/// Whether there is such a user, by name or number, and in such a group.
#[must_use]
pub fn has_user(user: &str, group: Option<&str>) -> bool {
    let text = group.map_or_else(|| user.to_owned(), |group| format!("{user}:{group}"));
    confine::Identity::find(&text).is_ok()
}

/// How many workers a plan has, how they come by connections, and why that is another
/// way than the plan asks for, where it is.
///
/// # Errors
/// If the kernel does not say which cores there are.
pub fn accept_model(plan: &KernelPlan) -> std::io::Result<(usize, sockets::Model, Option<String>)> {
    let workers = host::machine::seats(plan.workers, &plan.cores)?.len();
    let (model, why) = kernel::model(plan, workers);
    Ok((workers, model, why))
}

/// Opens the error log of what is to be served, before anything is: where others
/// than root could have put something else in its place, as the user that will serve.
///
/// # Errors
/// As open(2).
pub fn open_error_log(plan: &ServePlan, path: &Path) -> std::io::Result<OwnedFd> {
    let decided = privileges::decide(plan, std::process::id()).ok();
    let identity = decided.and_then(|decision| decision.confinement).and_then(|confinement| confinement.identity);
    places::open_log(path, identity.as_ref())
}

/// Whether a log could be opened where root serves as `user` (`NAME` or `NAME:GROUP`; none
/// is the usual one), or whoever this is as itself. Nothing is made.
///
/// # Errors
/// As open(2).
pub fn can_open_log(path: &Path, user: Option<&str>) -> std::io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let user = confine::Identity::find(user.unwrap_or(confine::USUAL)).ok();
    places::can_open_log(path, user.filter(|user| is_root && user.uid != 0).as_ref())
}

/// The user who is to have folders that the process makes: who serves, where root starts it, and
/// is another.
#[must_use]
pub fn other_user(user: Option<&str>) -> Option<u32> {
    let is_root = rustix::process::geteuid().is_root();
    let user = confine::Identity::find(user.unwrap_or(confine::USUAL)).ok()?;
    Some(user.uid).filter(|uid| is_root && *uid != 0)
}

/// Serves until it is told to stop: this process, or one that it starts and stays
/// beside ([`Privileges`]). Returns how that ended.
///
/// # Errors
/// What the user is to know.
pub fn serve(plan: &ServePlan) -> Result<ExitCode, Failure> {
    waiting::starting_unless_told();
    if plan.check {
        return check::check(plan).map(|()| ExitCode::SUCCESS);
    }
    if !plan.serves() {
        return here(plan);
    }
    if Ward::adopt()? {
        Ward::prepare(plan)?;
        return here(plan);
    }
    let decision = privileges::decide(plan, std::process::id())?;
    if plan.server.speaks_tls() {
        // The kernel loads its module for who may have it do so, and the one that serves may not.
        let _ = sockets::kernel_tls::probe();
    }
    if decision.parent {
        return parent::run(plan, decision);
    }
    decision.said.iter().for_each(say::warning);
    left::forget();
    here(plan)
}

fn here(plan: &ServePlan) -> Result<ExitCode, Failure> {
    let served = match &plan.path {
        ServePath::Link { .. } => link::serve(plan),
        ServePath::Kernel(kernel) => kernel::serve(kernel, plan),
    };
    served.map(|()| ExitCode::SUCCESS)
}
