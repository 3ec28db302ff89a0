//! `nearside packet report` and `compare`: what `load --out` kept, drawn and
//! compared.

use crate::keep::write_whole;
use crate::{ComparePlan, ReportPlan};
use load::units::digits;
use packet::compare::compare;
use packet::page::{Kept, render};
use packet::trial::TrialResult;
use say::{Failure, eprintln, println};
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
        runs.push((name, read(file)?));
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
    let all = compare(&before, &after);
    if all.is_empty() {
        return Err("the two have no stream and direction in common".into());
    }
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("medians of {} and {} runs; latencies in us", before.len(), after.len());
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
fn side(path: &Path) -> Result<Vec<TrialResult>, Failure> {
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
    files.iter().map(|file| read(file).map(|kept| kept.result)).collect()
}

fn read(file: &Path) -> Result<Kept, Failure> {
    let text = std::fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    serde_json::from_str(&text)
        .map_err(|why| format!("{} is not what nearside packet load --out keeps: {why}", file.display()).into())
}
