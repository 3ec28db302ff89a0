//! The audits of a namespace, resident.

use super::drive::{DrivenAudits, Step, moment};
use crate::args::OperateArgs;
use crate::cluster::{Found, reach};
use crate::opened::NAMESPACE;
use crate::random::random;
use core::time::Duration;
use cpu::Clock;
use operator::Auditor;
use say::{Failure, eprintln};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whoever leaves is gone after this, at most.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the audits of a namespace until it is stopped.
///
/// # Errors
/// If there is no cluster, or another operator is the one.
pub fn operate(asked: &OperateArgs) -> Result<ExitCode, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let namespace = asked.namespace.clone().or(theirs).unwrap_or_else(|| NAMESPACE.to_owned());
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    eprintln!("auditor    of the namespace {namespace}");
    let auditor = Auditor::new(&namespace, asked.image.as_deref(), random()? as u64, Clock.now());
    let mut driven = DrivenAudits::new(auditor, client, asked.host.as_deref().map_or(Found::Own, Found::Host))?;
    let (mut leaves_until, mut is_displaced) = (None, false);
    loop {
        if stopped.load(Ordering::Relaxed) && leaves_until.is_none() {
            leaves_until = Some(Clock.now() + LEAVE_PATIENCE);
            driven.auditor.leave(moment().now);
        }
        if let Some(until) = leaves_until
            && (driven.auditor.is_over() || Clock.now() >= until)
        {
            // Pods that have an answer say it to the next.
            return Ok(ExitCode::SUCCESS);
        }
        driven.step(&mut |step| match step {
            Step::Say(words) => eprintln!("auditor    {words}"),
            Step::Yield => is_displaced = true,
            Step::Heard(_) => {}
        });
        if is_displaced && leaves_until.is_none() {
            return Err("another operator took this one's place: its Lease was taken or deleted".into());
        }
    }
}
