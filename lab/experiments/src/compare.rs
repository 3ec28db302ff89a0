//! Effect, interval and verdict of each figure; and what may not be compared.

use crate::results::Results;
use crate::runs::{ArmResults, Figure};
use serde::Serialize;
use stats::{Centre, Design, Effect, Policy, Verdict, effect, noise_floor, verdict};
use std::collections::BTreeSet;

/// What stands in a verdict's place where an arm calls its figures INVALID.
pub const VOID: &str = "does not count";

/// One figure of one arm beside the baseline's.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The candidate.
    pub arm: String,
    /// What it is compared with.
    pub baseline: String,
    /// The figure.
    pub figure: Figure,
    /// The baseline's median.
    pub before: f64,
    /// The candidate's median.
    pub after: f64,
    /// Candidate ÷ baseline.
    pub effect: Option<Effect>,
    /// What two arms that are the same showed, as a share.
    pub floor: f64,
    /// What the runs say; `None` for a figure that only describes, for the
    /// control, and where figures are not to be used.
    pub verdict: Option<Verdict>,
    /// It is the baseline once more.
    pub control: bool,
    /// Neither side says of its figures that they are not to be used.
    pub counts: bool,
}

/// Every arm of a result beside its baseline, figure by figure; the control
/// as well, which shows the noise and has no verdict. The runs of a round
/// belong together. Arms under other conditions than the baseline's are left
/// out: [`unlike_arms`] names them.
#[must_use]
pub fn within(results: &Results) -> Vec<Comparison> {
    let Some(baseline) = results.baseline() else { return Vec::new() };
    let others = results.arms.iter().filter(|arm| arm.name != baseline.name && !arm.runs.is_empty());
    let alike = others.filter(|arm| arm.conditions == baseline.conditions);
    let mut found = Vec::new();
    for arm in alike {
        for figure in &results.figures {
            let floor = floor(results, &figure.name);
            let seed = results.experiment.seed;
            let margin = results.experiment.margin_percent / 100.0;
            found.extend(compare(arm, baseline, figure, Design::Rounds, margin, floor, seed));
        }
    }
    found
}

/// What differs between an arm's conditions and the baseline's, for those
/// that [`within`] leaves out.
#[must_use]
pub fn unlike_arms(results: &Results) -> Vec<String> {
    let Some(baseline) = results.baseline() else { return Vec::new() };
    let others = results.arms.iter().filter(|arm| arm.name != baseline.name && !arm.runs.is_empty());
    others.flat_map(|arm| unlike_conditions(arm, baseline)).collect()
}

/// How two results differ in ways that make a comparison of their figures
/// meaningless; empty if they may be compared.
#[must_use]
pub fn unlike(after: &Results, before: &Results, pairs: &[(&ArmResults, &ArmResults)]) -> Vec<String> {
    let machine = after.machine.unlike(&before.machine).into_iter();
    let mut found: Vec<String> = machine.filter(|one| one.matters).map(|one| one.to_string()).collect();
    for (arm, baseline) in pairs {
        found.extend(unlike_conditions(arm, baseline));
    }
    found.dedup();
    found
}

fn unlike_conditions(arm: &ArmResults, baseline: &ArmResults) -> Vec<String> {
    let keys: BTreeSet<&String> = arm.conditions.keys().chain(baseline.conditions.keys()).collect();
    let of = |arm: &ArmResults, key: &String| arm.conditions.get(key).map_or("not said", String::as_str).to_owned();
    keys.into_iter()
        .filter(|key| arm.conditions.get(*key) != baseline.conditions.get(*key))
        .map(|key| format!("{key}: {} ({}) and {} ({})", of(baseline, key), baseline.name, of(arm, key), arm.name))
        .collect()
}

/// What differs, and may be what the comparison is about: kernel, settings,
/// versions.
#[must_use]
pub fn differences(after: &Results, before: &Results) -> Vec<String> {
    let machine = after.machine.unlike(&before.machine).into_iter();
    let mut found: Vec<String> = machine.filter(|one| !one.matters).map(|one| one.to_string()).collect();
    let all = |results: &Results| {
        let mut all = results.tools.clone();
        all.insert("nearside".to_owned(), results.nearside.clone());
        all
    };
    let (a, b) = (all(after), all(before));
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    let text = |value: Option<&String>| value.map_or("not there", String::as_str).to_owned();
    found.extend(differing.map(|key| format!("{key}: {} and {}", text(b.get(key)), text(a.get(key)))));
    found
}

/// The arms of two results that belong together: of the names asked for, or
/// else of the same name, controls apart.
///
/// # Errors
/// If there are none, or the named one was not measured.
pub fn pairs<'a>(
    (after, after_arm): (&'a Results, Option<&str>),
    (before, before_arm): (&'a Results, Option<&str>),
) -> Result<Vec<(&'a ArmResults, &'a ArmResults)>, String> {
    fn arm<'a>(results: &'a Results, name: &str) -> Result<&'a ArmResults, String> {
        let measured: Vec<&ArmResults> = results.arms.iter().filter(|arm| !arm.runs.is_empty()).collect();
        let names: Vec<&str> = measured.iter().map(|arm| arm.name.as_str()).collect();
        let found = measured.iter().find(|arm| arm.name == name).copied();
        found.ok_or_else(|| format!("there are no runs of '{name}'; there are those of {}", names.join(", ")))
    }
    let measured = |results: &'a Results| results.measured().collect::<Vec<&ArmResults>>();
    let found: Vec<_> = match (after_arm, before_arm) {
        (Some(a), Some(b)) => vec![(arm(after, a)?, arm(before, b)?)],
        (Some(name), None) | (None, Some(name)) => vec![(arm(after, name)?, arm(before, name)?)],
        (None, None) => {
            let of_name = |arm: &'a ArmResults| {
                measured(before).into_iter().find(|other| other.name == arm.name).map(|other| (arm, other))
            };
            measured(after).into_iter().filter_map(of_name).collect()
        }
    };
    if found.is_empty() { Err("the two have no arm of the same name; write FOLDER:ARM".to_owned()) } else { Ok(found) }
}

/// Two results, arm by arm, figure by figure: the later beside the earlier.
#[must_use]
pub fn between(after: &Results, before: &Results, pairs: &[(&ArmResults, &ArmResults)]) -> Vec<Comparison> {
    let mut found = Vec::new();
    let margin = after.experiment.margin_percent.max(before.experiment.margin_percent) / 100.0;
    for (arm, baseline) in pairs {
        for figure in &after.figures {
            let floor = floor(after, &figure.name).max(floor(before, &figure.name));
            let seed = after.experiment.seed;
            found.extend(compare(arm, baseline, figure, Design::Independent, margin, floor, seed));
        }
    }
    found
}

/// What the control of a result showed of a figure.
fn floor(results: &Results, figure: &str) -> f64 {
    let (Some(control), Some(baseline)) = (results.control(), results.baseline()) else { return 0.0 };
    let seed = results.experiment.seed;
    noise_floor(effect(&control.values(figure), &baseline.values(figure), Centre::Median, Design::Rounds, seed))
}

fn compare(
    arm: &ArmResults,
    baseline: &ArmResults,
    figure: &Figure,
    design: Design,
    margin: f64,
    floor: f64,
    seed: u64,
) -> Option<Comparison> {
    let (after, before) = match design {
        Design::Independent => (arm.values(&figure.name), baseline.values(&figure.name)),
        Design::Rounds => by_round(arm, baseline, &figure.name),
    };
    if after.is_empty() || before.is_empty() {
        return None;
    }
    let effect = effect(&after, &before, Centre::Median, design, seed);
    // Figures that are not to be used, by their own word, are shown and not judged.
    let counts = arm.invalid().is_empty() && baseline.invalid().is_empty();
    let control = arm.repeats.is_some();
    let judged = figure.better.filter(|_| counts && !control);
    Some(Comparison {
        arm: arm.name.clone(),
        baseline: baseline.name.clone(),
        figure: figure.clone(),
        before: stats::median(&before),
        after: stats::median(&after),
        effect,
        floor,
        verdict: judged.map(|better| verdict(effect, Policy { better: better.into(), margin, floor })),
        control,
        counts,
    })
}

/// A figure of both in the rounds that have it for both: after Ctrl-C the
/// last round may be a part.
fn by_round(arm: &ArmResults, baseline: &ArmResults, figure: &str) -> (Vec<f64>, Vec<f64>) {
    let of = |arm: &ArmResults, round: u32| {
        arm.runs.iter().find(|run| run.round == round).and_then(|run| run.figures.get(figure).copied())
    };
    let both = |run: &crate::runs::Run| Some((of(arm, run.round)?, of(baseline, run.round)?));
    baseline.runs.iter().filter_map(both).unzip()
}

/// That no comparison tells anything, where there are some, with the reason of the first.
#[must_use]
pub fn undecided(comparisons: &[Comparison]) -> Option<String> {
    let verdicts: Vec<Verdict> = comparisons.iter().filter_map(|one| one.verdict).collect();
    let reason = |verdict: &Verdict| match verdict {
        Verdict::Inconclusive(reason) => Some(*reason),
        _ => None,
    };
    let reasons: Vec<_> = verdicts.iter().map_while(reason).collect();
    let first = reasons.first().filter(|_| reasons.len() == verdicts.len())?;
    Some(format!("No comparison tells anything: {first}."))
}

/// A comparison as `--json` writes it.
#[derive(Serialize)]
struct Line<'a> {
    arm: &'a str,
    baseline: &'a str,
    figure: &'a str,
    unit: &'a str,
    before: f64,
    after: f64,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    noise_floor: f64,
    verdict: Option<&'static str>,
    reason: Option<String>,
}

/// Comparisons as JSON.
#[must_use]
pub fn to_json(comparisons: &[Comparison]) -> String {
    let line = |c: &'_ Comparison| {
        serde_json::json!(Line {
            arm: &c.arm,
            baseline: &c.baseline,
            figure: &c.figure.name,
            unit: &c.figure.unit,
            before: c.before,
            after: c.after,
            ratio: c.effect.map(|effect| effect.ratio),
            low: c.effect.and_then(|effect| effect.interval).map(|(low, _)| low),
            high: c.effect.and_then(|effect| effect.interval).map(|(_, high)| high),
            noise_floor: c.floor,
            verdict: c.verdict.map(Verdict::name),
            reason: match c.verdict {
                Some(Verdict::Inconclusive(reason)) => Some(reason.to_string()),
                _ => (!c.counts).then(|| VOID.to_owned()),
            },
        })
    };
    let lines: Vec<serde_json::Value> = comparisons.iter().map(line).collect();
    serde_json::to_string_pretty(&lines).unwrap_or_default() + "\n"
}
