//! Rounds: every arm once in each, in random order.

use crate::Failure;
use crate::experiment::Experiment;
use crate::fingerprint::MachineState;
use crate::procedure::{Arm, Procedure, Progress, Setting};
use crate::results::{Results, SCHEMA};
use crate::runs::{ArmResults, Run};
use demo::child::Interrupt;
use demo::measure::PERCENTILES;
use environment::ResultOrigin;
use stats::Random;
use std::fs;
use std::path::Path;

/// How it ended.
#[derive(Debug)]
pub enum Outcome {
    /// All rounds were run.
    Complete,
    /// Ctrl-C: what there is was kept.
    Interrupted,
    /// A run failed: what there is before it was kept.
    Failed(Failure),
}

/// Runs an experiment, its results kept in `folder` from the first run on.
/// Progress goes to standard error.
///
/// # Errors
/// If the folder holds results already or cannot be written to, or nothing
/// can be measured here at all.
pub fn run(experiment: &Experiment, folder: &Path, interrupt: &Interrupt) -> Result<(Results, Outcome), Failure> {
    let mut procedure = experiment.procedure()?;
    run_procedure(experiment, procedure.as_mut(), folder, interrupt)
}

/// [`run`] with the experiment's own part given.
///
/// # Errors
/// As [`run`].
pub fn run_procedure(
    experiment: &Experiment,
    procedure: &mut dyn Procedure,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(Results, Outcome), Failure> {
    let arms = procedure.arms();
    let schedule = Schedule::new(experiment, &arms)?;
    fs::create_dir_all(folder).map_err(|why| format!("cannot make the folder {}: {why}", folder.display()))?;
    if folder.join(crate::results::RESULTS).exists() {
        return Err(format!("{} holds results already: name another folder", folder.display()).into());
    }
    let mut results = Results {
        schema: SCHEMA,
        experiment: experiment.kept(),
        complete: false,
        ended: None,
        began: now_unix(),
        // Results do not go twice into a folder.
        origin: ResultOrigin::now().without("--out"),
        nearside: env!("CARGO_PKG_VERSION").to_owned(),
        machine: MachineState::read(),
        tools: procedure.tools(),
        figures: procedure.figures(),
        curves: procedure.curves(),
        percentiles: PERCENTILES.to_vec(),
        arms: schedule.empty_results(&arms),
        checks: Vec::new(),
        notes: procedure.notes(),
    };
    for arm in &results.arms {
        if let Some(why) = &arm.left_out {
            eprintln!("leaving out {}: {why}", arm.name);
        }
    }
    results.write(folder)?;
    let outcome = rounds(procedure, &schedule, &mut results, folder, interrupt)?;
    results.complete = matches!(outcome, Outcome::Complete);
    results.ended = match &outcome {
        Outcome::Complete => None,
        Outcome::Interrupted => Some("it was interrupted".to_owned()),
        Outcome::Failed(why) => Some(why.to_string()),
    };
    let measured: Vec<ArmResults> = results.arms.iter().filter(|arm| arm.repeats.is_none()).cloned().collect();
    // Of a part there is no telling.
    if results.complete {
        results.checks = procedure.checks(&measured);
    }
    results.write(folder)?;
    Ok((results, outcome))
}

fn rounds(
    procedure: &mut dyn Procedure,
    schedule: &Schedule,
    results: &mut Results,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let mut random = Random::new(results.experiment.seed);
    let (warmup, rounds) = (results.experiment.warmup, results.experiment.rounds);
    let progress = Progress::default();
    for round in 1..=warmup + rounds {
        let measured = round.checked_sub(warmup).filter(|round| *round > 0);
        let mut order: Vec<usize> = (0..schedule.entries.len()).collect();
        random.shuffle(&mut order);
        for (place, &entry) in (1..).zip(&order) {
            let seed = random.bits();
            if interrupt.check().is_err() {
                return Ok(Outcome::Interrupted);
            }
            match measured {
                Some(round) => eprint!("round {round}/{rounds}, {place}/{}: ", order.len()),
                None => eprint!("warm-up {round}/{warmup}, {place}/{}: ", order.len()),
            }
            let (arm, name) = (schedule.entries[entry].arm, &results.arms[schedule.entries[entry].slot].name);
            eprint!("{name}  ");
            let began = demo::machine::now();
            let run = match procedure.run(arm, &Setting { seed, interrupt, progress: &progress }) {
                Ok(run) => run,
                Err(_) if interrupt.check().is_err() => return Ok(Outcome::Interrupted),
                Err(why) => return Ok(Outcome::Failed(why)),
            };
            progress.clear();
            eprintln!("{}", brief(results, &run));
            if let Some(round) = measured {
                let seconds = began.elapsed().as_secs_f64();
                results.arms[schedule.entries[entry].slot].runs.push(Run { round, place, seconds, ..run });
                results.write(folder)?;
            }
        }
    }
    Ok(Outcome::Complete)
}

/// A run's figures in a line.
fn brief(results: &Results, run: &Run) -> String {
    let figure = |figure: &crate::runs::Figure| {
        let value = crate::number::number(*run.figures.get(&figure.name)?);
        Some(format!("{} {value}{}{}", figure.name, if figure.unit.is_empty() { "" } else { " " }, figure.unit))
    };
    let mut parts: Vec<String> = results.figures.iter().filter_map(figure).take(4).collect();
    parts.extend(run.details.get("order").cloned());
    if run.errors > 0 && !run.errors_unknown {
        parts.push(format!("{} FAILED", run.errors));
    }
    parts.extend(run.verdict.as_ref().filter(|own| own.is_invalid()).map(|own| own.word.clone()));
    parts.join(", ")
}

/// Which arm is run for which slot of the results.
struct Entry {
    arm: usize,
    slot: usize,
}

struct Schedule {
    entries: Vec<Entry>,
    /// The arm that is run twice.
    control: Option<usize>,
}

impl Schedule {
    fn new(experiment: &Experiment, arms: &[Arm]) -> Result<Self, Failure> {
        for (index, arm) in arms.iter().enumerate() {
            if arms[..index].iter().any(|other| other.name == arm.name) {
                return Err(format!("two arms are named {}", arm.name).into());
            }
        }
        let runs = |arm: &&Arm| arm.left_out.is_none();
        if !arms.iter().any(|arm| runs(&arm)) {
            let why = arms.iter().filter_map(|arm| arm.left_out.clone()).next().unwrap_or_default();
            return Err(format!("nothing can be measured here: {why}").into());
        }
        let baseline = match &experiment.baseline {
            Some(name) => {
                let names = || arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ");
                let at = arms.iter().position(|arm| arm.name == *name);
                Some(at.ok_or_else(|| format!("baseline: {name} is none of the arms {}", names()))?)
            }
            None => arms.iter().position(|arm| runs(&arm)),
        };
        let control = baseline.filter(|at| experiment.control && runs(&&arms[*at]));
        let mut entries: Vec<Entry> =
            (0..arms.len()).filter(|at| runs(&&arms[*at])).map(|arm| Entry { arm, slot: arm }).collect();
        entries.extend(control.map(|arm| Entry { arm, slot: arms.len() }));
        Ok(Self { entries, control })
    }

    fn empty_results(&self, arms: &[Arm]) -> Vec<ArmResults> {
        let empty = |arm: &Arm| ArmResults {
            name: arm.name.clone(),
            repeats: None,
            conditions: arm.conditions.clone(),
            left_out: arm.left_out.clone(),
            runs: Vec::new(),
        };
        let mut results: Vec<ArmResults> = arms.iter().map(empty).collect();
        results.extend(self.control.map(|at| {
            let arm = &arms[at];
            ArmResults { name: format!("{} again", arm.name), repeats: Some(arm.name.clone()), ..empty(arm) }
        }));
        results
    }
}

#[expect(clippy::disallowed_methods, reason = "results say when they were taken")]
fn now_unix() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
