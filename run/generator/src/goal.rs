//! `--find-max`: runs at rates that the search proposes.

use super::drawn::{Drawings, ascii};
use super::noise::Machine;
use super::print::{INVALID, MISSED, put};
use super::run::Runner;
use super::watch::Lookout;
use crate::plan::{Form, ServerPlan};
use core::time::Duration;
use environment::ResultOrigin;
use figures::{seconds, si};
use load::{Arrival, FindMax, FindMaxConfig, Found, Objective, Plan, Schedule, SieveConfig, Stop, Surroundings, Trial};
use report::{found_json, found_text};
use say::Failure;
use say::eprintln;

/// The longest run on a quiet machine, where a low rate needs its time for
/// enough samples.
const LONGEST_RUN: Duration = Duration::from_secs(60);

/// Room for a rate that is a little below what was asked for.
const ROOM: f64 = 1.1;

/// What is searched for.
#[derive(Debug)]
pub struct Goal {
    /// All of them are to be met.
    pub objectives: Vec<Objective>,
    /// How to search.
    pub config: FindMaxConfig,
    /// Whose threads are watched.
    pub server: ServerPlan,
}

/// Searches, prints the curve, and answers the exit code.
///
/// # Errors
/// What the user is to know.
pub fn find_max(runner: &Runner, plan: &Plan, goal: &Goal, form: Form, drawings: Drawings) -> Result<u8, Failure> {
    let Goal { objectives, config, server } = goal;
    let least = ROOM * objectives.iter().map(Objective::least_samples).max().unwrap_or(0) as f64;
    // Below it, no run has the samples that the objectives need.
    let lowest = config.lowest.max(least / LONGEST_RUN.as_secs_f64());
    let mut search = FindMax::new(FindMaxConfig { lowest, start: config.start.max(lowest), ..*config });
    let bound = SieveConfig::new(objectives, lowest, Duration::ZERO).bound_ns;
    let bound = bound.map(|nanos| Duration::from_nanos(nanos.min(1e12) as u64));
    let mut watch = Lookout::new(runner.server(plan, server), &runner.cores(plan), bound);
    eprintln!("searching for the highest rate with {}", wanted(objectives));
    while let Some(rate) = search.propose() {
        let mut plan = plan.clone();
        plan.arrival = Arrival::Open(Schedule::constant(rate));
        let Stop::After(time) = plan.stop else { return Err("a search is by time, not by requests".into()) };
        let asked = time.max(Duration::from_secs_f64(least / rate).min(LONGEST_RUN));
        let config = SieveConfig::new(objectives, rate, asked);
        // The sieve ends it, once enough counts.
        plan.stop = Stop::After(config.limit + asked);
        plan.check()?;
        let trial = trial(runner, &plan, objectives, &mut watch, config)?;
        if runner.is_stopped() {
            break;
        }
        eprintln!("{}", told(rate, &trial, objectives));
        search.record(trial);
    }
    let found = search.found();
    let json = found_json(&found, objectives, &runner.environment(plan), &ResultOrigin::now());
    match form {
        Form::Json => put(&json)?,
        Form::Text | Form::Ab | Form::Wrk | Form::Histogram => {
            put(&format!("{}{}", found_text(&found, objectives), ascii(&json)?))?;
        }
    }
    drawings.write(&json)?;
    Ok(if runner.is_stopped() { super::print::INTERRUPTED } else { code(&found) })
}

/// One run at one rate.
fn trial(
    runner: &Runner,
    plan: &Plan,
    objectives: &[Objective],
    watch: &mut Lookout,
    config: SieveConfig,
) -> Result<Trial, Failure> {
    let before = Machine::look();
    let (report, sifted) = runner.sifted(plan, watch, config)?;
    let stolen = watch.stolen_unseen();
    let around = match watch.is_blind() {
        true => Surroundings { stolen, ..Machine::look().since(&before, std::process::id()) },
        false => Surroundings { stolen, ..Surroundings::default() },
    };
    Ok(Trial { pace_ns: watch.pace(), ..Trial::judged(&report, objectives, &sifted, &around) })
}

/// All that is to be met.
fn wanted(objectives: &[Objective]) -> String {
    objectives.iter().map(Objective::to_string).collect::<Vec<_>>().join(", ")
}

/// A run in a line: its rate, what it came to, and what it was to meet.
fn told(rate: f64, trial: &Trial, objectives: &[Objective]) -> String {
    let wanted = wanted(objectives);
    let verdict = match (trial.met, trial.spoilt) {
        (true, None) => format!("{wanted} met"),
        (false, None) => format!("{wanted} missed"),
        (true, Some(spoilt)) => format!("{wanted} met, although {spoilt}"),
        (false, Some(spoilt)) => format!("not counted: {spoilt}"),
    };
    let left_out = trial.sifted.filter(|sifted| sifted.left_out() > 0);
    let left_out = left_out.map_or(String::new(), |sifted| format!(" ({sifted})"));
    format!(
        "{:>9}: {} answered, p50 {}, p99 {}; {verdict}{left_out}",
        si(rate, "/s"),
        si(trial.achieved, "/s"),
        seconds(trial.p50_ns as f64),
        seconds(trial.p99_ns as f64),
    )
}

fn code(found: &Found) -> u8 {
    match (found.invalid, found.rate) {
        (true, _) => INVALID,
        (false, Some(_)) => 0,
        (false, None) => MISSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_with_its_p99_and_what_it_was_to_meet() {
        let trial = Trial {
            achieved: 9_996.0,
            met: false,
            mean_ns: 60_000.0,
            p50_ns: 50_000,
            p99_ns: 1_200_000,
            p999_ns: 2_000_000,
            spoilt: None,
            sifted: None,
            pace_ns: None,
        };
        let objectives = Objective::parse_list("p99<1ms,errors<0.1%").expect("two");
        let line = told(10_000.0, &trial, &objectives);
        let wanted = "10.0 k/s: 10.0 k/s answered, p50 50.0 µs, p99 1.20 ms; p99 < 1.00 ms, errors < 0.1 % missed";
        assert_eq!(line.trim_start(), wanted);
        let spoilt = load::Spoilt::Stolen { share: 0.25 };
        let line = told(10_000.0, &Trial { spoilt: Some(spoilt), ..trial }, &objectives);
        assert!(line.contains("; not counted: the hypervisor took 25 % of a core"), "{line}");
    }
}
