//! `nearside packet report` and `compare`: what `load --out` kept drawn, and results of
//! all measurements compared.

use crate::figures::of_result;
use crate::keep::write_whole;
use crate::{ComparePlan, ReportPlan};
use environment::{Fingerprint, Unlike};
use load::units::digits;
use packet::compare::{RunFigure, compare};
use packet::page::{Kept, render};
use say::{Failure, eprintln, println};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The most results of one side, or of one page.
const RUNS_LIMIT: usize = 1_000;

/// Turns results into a page.
///
/// # Errors
/// If a file cannot be read, or the page not written.
pub fn report(plan: &ReportPlan) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for file in &plan.files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        runs.push((name, kept(file)?));
    }
    let usual = || plan.files.first().map(|file| file.with_extension("html")).unwrap_or_default();
    let page = plan.out.clone().unwrap_or_else(usual);
    write_whole(&page, &render(&runs))?;
    eprintln!("wrote {}", page.display());
    Ok(ExitCode::SUCCESS)
}

/// Compares two sets of results.
///
/// # Errors
/// If one cannot be read, or the two have no stream in common.
pub fn compare_runs(plan: &ComparePlan) -> Result<ExitCode, Failure> {
    let (before, after) = (side(&plan.before)?, side(&plan.after)?);
    let unlike = unlike(&before, &after);
    let (matters, others): (Vec<&Unlike>, Vec<&Unlike>) = unlike.iter().partition(|one| one.matters);
    if !matters.is_empty() && !plan.force {
        let list: Vec<String> = matters.iter().map(ToString::to_string).collect();
        return Err(format!(
            "these are not alike, so that a difference would say nothing (--force compares them nevertheless):\n  {}",
            list.join("\n  ")
        )
        .into());
    }
    if before.iter().chain(&after).any(|run| run.surroundings.is_none()) {
        eprintln!("note: not all of these tell of their machine: whether they are alike is not known");
    }
    for file in before.iter().chain(&after).filter(|run| run.is_invalid).map(|run| &run.file) {
        eprintln!("note: {} is INVALID: its figures are of the tester, and not of what it measured", file.display());
    }
    for one in matters.into_iter().chain(others) {
        eprintln!("differs: {one}");
    }
    let figures = |side: &[Run]| side.iter().map(|run| run.figures.clone()).collect::<Vec<_>>();
    let (before, after) = (figures(&before), figures(&after));
    let all = compare(&before, &after);
    if all.is_empty() {
        return Err("the two have no stream and direction, goal, frame size or point in common".into());
    }
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "medians of {} and {} runs; latencies in us, processor time in ns and energy in uJ for a frame",
        before.len(),
        after.len()
    );
    for it in all {
        let scale = if it.figure.starts_with("latency") { 1e3 } else { 1.0 };
        let ratio = it.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let interval = it.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.3} to {high:.3})"));
        let [old, new] = it.medians.map(|median| digits(median / scale));
        println!("{}, {}: {old} then {new}, ratio {ratio}{interval}: {}", it.of, it.figure, it.verdict);
    }
    Ok(ExitCode::SUCCESS)
}

/// A file, or the results of a folder.
fn side(path: &Path) -> Result<Vec<Run>, Failure> {
    let mut files: Vec<PathBuf> = if path.is_dir() {
        let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
        let files = entries.into_iter().map(|entry| entry.path());
        files.filter(|file| file.extension().is_some_and(|end| end == "json")).take(RUNS_LIMIT).collect()
    } else {
        vec![path.to_owned()]
    };
    files.sort();
    if files.is_empty() {
        return Err(format!("{} holds no results (*.json)", path.display()).into());
    }
    files.iter().map(|file| read(file)).collect()
}

/// What is compared of a file.
struct Run {
    file: PathBuf,
    figures: Vec<RunFigure>,
    /// What measured it was not up to it.
    is_invalid: bool,
    /// The machine and its interfaces; results of earlier versions tell nothing
    /// of them.
    surroundings: Option<Fingerprint>,
}

/// What `load --out` keeps in a file.
fn kept(file: &Path) -> Result<Kept, Failure> {
    let not = |why| format!("{} is not what nearside packet load --out keeps: {why}", file.display());
    Ok(serde_json::from_str(&text(file)?).map_err(not)?)
}

fn read(file: &Path) -> Result<Run, Failure> {
    parse(file, &text(file)?).map_err(|why| format!("{} is no result of nearside packet: {why}", file.display()).into())
}

fn text(file: &Path) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?)
}

fn parse(file: &Path, text: &str) -> Result<Run, Failure> {
    #[derive(Deserialize)]
    struct Beside {
        environment: Option<Fingerprint>,
    }
    let value: serde_json::Value = serde_json::from_str(text)?;
    let is_invalid = value.pointer("/verdict/word").and_then(serde_json::Value::as_str) == Some("INVALID");
    let Some(figures) = of_result(&value)? else {
        return Err("it has no result, of a trial, a search, RFC 2544 or factors".into());
    };
    let Beside { environment } = serde_json::from_value(value)?;
    Ok(Run { file: file.to_owned(), figures, is_invalid, surroundings: environment })
}

/// What differs between the machines of any run and the first of those before.
fn unlike(before: &[Run], after: &[Run]) -> Vec<Unlike> {
    let known = |runs: &'_ [Run]| runs.iter().filter_map(|run| run.surroundings.clone()).collect::<Vec<_>>();
    let (before, after) = (known(before), known(after));
    let Some(first) = before.first().or_else(|| after.first()) else { return Vec::new() };
    let mut found: Vec<Unlike> = Vec::new();
    for other in before.iter().chain(&after) {
        for one in environment::unlike(first, other) {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::trial::TrialResult;

    fn kept(memory: Option<u64>) -> Run {
        let mut value = serde_json::json!({
            "command": [], "complete": true, "clock": { "told": "" }, "links": [], "threshold_ns": 1,
            "result": TrialResult::default(),
        });
        if let Some(memory) = memory {
            let machine = Fingerprint { memory_mib: memory, kernel: format!("of {memory}"), ..Fingerprint::default() };
            value["environment"] = serde_json::to_value(machine).expect("JSON");
        }
        parse(Path::new("x.json"), &value.to_string()).expect("a result")
    }

    #[test]
    fn runs_of_unlike_machines_are_found_wherever_they_stand() {
        assert!(unlike(&[kept(Some(1)), kept(Some(1))], &[kept(Some(1)), kept(None)]).is_empty());
        assert!(unlike(&[kept(None)], &[kept(Some(2))]).is_empty(), "nothing is known of one side");
        for (before, after) in [(vec![1, 1], vec![2]), (vec![1, 2], vec![1])] {
            let [before, after] =
                [before, after].map(|all| all.into_iter().map(|it| kept(Some(it))).collect::<Vec<_>>());
            let found: Vec<(String, bool)> =
                unlike(&before, &after).into_iter().map(|one| (one.to_string(), one.matters)).collect();
            let expected = [("memory, MiB: 1 and 2".to_owned(), true), ("kernel: of 1 and of 2".to_owned(), false)];
            assert_eq!(found, expected);
        }
        let parse = |text: &str| parse(Path::new("x.json"), text);
        assert!(parse("{\"environment\": 7}").is_err() && parse("[").is_err());
        let invalid = |word: &str| {
            let text = format!("{{\"found\": [], \"verdict\": {{\"word\": \"{word}\"}}}}");
            parse(&text).expect("a search").is_invalid
        };
        assert!(invalid("INVALID") && !invalid("PARTIAL"));
    }
}
