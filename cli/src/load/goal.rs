//! `--find-max`: runs at rates that the search proposes.

use super::files;
use super::print::{MISSED, put};
use super::run::Runner;
use crate::args::Form;
use crate::host::Failure;
use load::units::{seconds, si};
use load::{Arrival, FindMax, FindMaxConfig, Objective, Plan, Schedule, Trial};
use report::{found_chart, found_json, found_text};
use std::path::Path;

/// Searches, prints the curve, and answers the exit code.
///
/// # Errors
/// What the user is to know.
pub fn find_max(
    runner: &Runner,
    plan: &Plan,
    objectives: &[Objective],
    config: FindMaxConfig,
    form: Form,
    svg: Option<&Path>,
) -> Result<u8, Failure> {
    let mut search = FindMax::new(config);
    while let Some(rate) = search.propose() {
        let mut plan = plan.clone();
        plan.arrival = Arrival::Open(Schedule::constant(rate));
        plan.check()?;
        let outcome = runner.run(&plan, None, None)?;
        if runner.is_stopped() {
            break;
        }
        let met = objectives.iter().all(|objective| objective.judge(&outcome.report).met);
        let trial = Trial::new(&outcome.report, met);
        eprintln!(
            "{:>9}: {} answered, p50 {}, p99 {}, {}",
            si(rate, "/s"),
            si(trial.achieved, "/s"),
            seconds(trial.p50_ns as f64),
            seconds(trial.p99_ns as f64),
            if met { "met" } else { "missed" }
        );
        search.record(trial);
    }
    let found = search.found();
    match form {
        Form::Json => put(&found_json(&found, objectives))?,
        Form::Text | Form::Ab | Form::Wrk | Form::Histogram => put(&found_text(&found, objectives))?,
    }
    if let Some(path) = svg {
        files::write(path, &found_chart(&found).svg())?;
    }
    if runner.is_stopped() {
        return Ok(super::print::INTERRUPTED);
    }
    Ok(if found.rate.is_some() { 0 } else { MISSED })
}
