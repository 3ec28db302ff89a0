//! What audits of a pool's nodes would have changed, as a manifest of OpenShift's operator.

use crate::args::PlanArgs;
use crate::node_facts::nodes;
use manifests::yaml;
use say::{Failure, eprintln, print};
use std::process::ExitCode;
use tuning::FleetPlan;

/// There is nothing to change.
const NOTHING: u8 = 4;

/// Prints the manifest; what changes, and what does not, is said beside it.
///
/// # Errors
/// If there are no audits, or one manifest is not for all of the nodes.
pub fn plan(asked: &PlanArgs) -> Result<ExitCode, Failure> {
    let nodes = nodes(&asked.nodes)?;
    if nodes.is_empty() {
        return Err("whose audits? --reports FOLDER, or --audit NAME".into());
    }
    let plan = FleetPlan::of(&nodes)?;
    for step in &plan.steps {
        let found = step.found.iter().map(|(value, count)| {
            let value = if value.is_empty() { "none" } else { value };
            format!("{value} on {count}")
        });
        let found = found.collect::<Vec<String>>().join(", ");
        eprintln!("plan       {}: {found}, will be {}: {} (risk: {})", step.key, step.want, step.why, step.risk);
    }
    for one in &plan.left {
        eprintln!("plan       {} stays: {}", one.key, one.why);
    }
    if plan.steps.is_empty() {
        eprintln!("plan       there is nothing to change");
        return Ok(ExitCode::from(NOTHING));
    }
    if plan.restarts_nodes() {
        eprintln!("plan       nodes of the pool start anew for it, one after the other, as the command line changes");
    }
    let manifest = plan.manifest(&asked.name, &asked.pool);
    if asked.json {
        print!("{manifest:#}\n");
    } else {
        print!("{}", yaml(&[&manifest]));
    }
    Ok(ExitCode::SUCCESS)
}
