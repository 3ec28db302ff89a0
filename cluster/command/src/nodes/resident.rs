//! The audits of a namespace, resident.

use super::drive::{DrivenAudits, Step, moment};
use crate::args::OperateArgs;
use crate::cluster::{Found, reach};
use crate::leaving::Leaving;
use crate::opened::NAMESPACE;
use crate::random::random;
use cpu::Clock;
use operator::Auditor;
use say::{Failure, eprintln};
use std::process::ExitCode;

/// Runs the audits of a namespace until it is stopped.
///
/// # Errors
/// If there is no cluster, or another operator is the one.
pub fn operate(asked: &OperateArgs) -> Result<ExitCode, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let namespace = asked.namespace.clone().or(theirs).unwrap_or_else(|| NAMESPACE.to_owned());
    let mut leaving = Leaving::by_signals()?;
    eprintln!("auditor    of the namespace {namespace}");
    let auditor = Auditor::new(&namespace, asked.image.as_deref(), random()? as u64, Clock.now());
    let mut driven = DrivenAudits::new(auditor, client, asked.host.as_deref().map_or(Found::Own, Found::Host))?;
    let mut is_displaced = false;
    loop {
        if leaving.begins() {
            driven.auditor.leave(moment().now);
        }
        if leaving.is_over(driven.auditor.is_over()) {
            // Pods that have an answer say it to the next.
            return Ok(ExitCode::SUCCESS);
        }
        driven.step(&mut |step| match step {
            Step::Say(words) => eprintln!("auditor    {words}"),
            Step::Yield => is_displaced = true,
            Step::Heard(_) => {}
        });
        if is_displaced && !leaving.is_on() {
            return Err("another operator took this one's place: its Lease was taken or deleted".into());
        }
    }
}
