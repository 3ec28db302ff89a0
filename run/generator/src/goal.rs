//! `--find-max`: runs at rates that the search proposes.

use super::files::Later;
use super::noise::Machine;
use super::print::{INVALID, MISSED, put};
use super::run::Runner;
use crate::plan::Form;
use core::time::Duration;
use load::units::{seconds, si};
use load::{Arrival, FindMax, FindMaxConfig, Objective, Plan, Schedule, Stop, Trial};
use report::{found_chart, found_json, found_text};
use say::Failure;
use say::eprintln;
use std::path::Path;

/// The longest run, where a low rate needs its time for enough samples.
const LONGEST_RUN: Duration = Duration::from_secs(60);

/// Room for a rate that is a little below what was asked for.
const ROOM: f64 = 1.1;

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
    let svg = svg.map(Later::prepare).transpose()?;
    let least = ROOM * objectives.iter().map(Objective::least_samples).max().unwrap_or(0) as f64;
    // Below it, no run has the samples that the objectives need.
    let lowest = config.lowest.max(least / LONGEST_RUN.as_secs_f64());
    let mut search = FindMax::new(FindMaxConfig { lowest, start: config.start.max(lowest), ..config });
    while let Some(rate) = search.propose() {
        let mut plan = plan.clone();
        plan.arrival = Arrival::Open(Schedule::constant(rate));
        if let Stop::After(time) = plan.stop {
            plan.stop = Stop::After(time.max(Duration::from_secs_f64(least / rate).min(LONGEST_RUN)));
        }
        plan.check()?;
        let before = Machine::look();
        let outcome = runner.run(&plan, None, None)?;
        if runner.is_stopped() {
            break;
        }
        let around = Machine::look().since(&before, std::process::id());
        let trial = Trial::judged(&outcome.report, objectives, &around);
        let verdict = match (trial.met, trial.spoilt) {
            (true, None) => "met".to_owned(),
            (false, None) => "missed".to_owned(),
            (true, Some(spoilt)) => format!("met, although {spoilt}"),
            (false, Some(spoilt)) => format!("not counted: {spoilt}"),
        };
        eprintln!(
            "{:>9}: {} answered, p50 {}, p99 {}, {verdict}",
            si(rate, "/s"),
            si(trial.achieved, "/s"),
            seconds(trial.p50_ns as f64),
            seconds(trial.p99_ns as f64),
        );
        search.record(trial);
    }
    let found = search.found();
    match form {
        Form::Json => put(&found_json(&found, objectives))?,
        Form::Text | Form::Ab | Form::Wrk | Form::Histogram => put(&found_text(&found, objectives))?,
    }
    if let Some(file) = svg {
        file.write(&found_chart(&found).svg())?;
    }
    if runner.is_stopped() {
        return Ok(super::print::INTERRUPTED);
    }
    Ok(match (found.invalid, found.rate) {
        (true, _) => INVALID,
        (false, Some(_)) => 0,
        (false, None) => MISSED,
    })
}
