//! `nearside packet report` and `compare`: what `load --out` kept drawn, and results of
//! all measurements compared.

use crate::keep::write_whole;
use crate::{ComparePlan, ReportPlan};
use packet::page::{Kept, render};
use results::{ResultKind, SidesCompared};
use say::{Failure, eprintln, print, println};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

/// Turns results into a page.
///
/// # Errors
/// If a file cannot be read, or the page not written.
pub fn report(plan: &ReportPlan) -> Result<ExitCode, Failure> {
    let mut runs = Vec::new();
    for file in &plan.files {
        runs.extend(kept(file)?);
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
/// If one cannot be read, or the two have nothing in common.
pub fn compare_runs(plan: &ComparePlan) -> Result<ExitCode, Failure> {
    let (before, after) = (results::read(&plan.before)?, results::read(&plan.after)?);
    let comparison = SidesCompared::of(&before, &after)?;
    if let Some(why) = comparison.refusal().filter(|_| !plan.force) {
        return Err(why.into());
    }
    if plan.json {
        println!("{:#}", comparison.to_json());
    } else {
        print!("{comparison}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What `load --out` keeps in a file, or each rate of `latency` and `zero-loss`: with names
/// where there are several.
fn kept(file: &Path) -> Result<Vec<(String, Kept)>, Failure> {
    let named = |why: &dyn core::fmt::Display| Failure::from(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| named(&why))?;
    let found = results::read_text(&file.display().to_string(), &text).map_err(|why| named(&why))?;
    let whole: Value = serde_json::from_str(&text).unwrap_or_default();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let runs = |path: &str| {
        let runs: Vec<(String, Kept)> = serde_json::from_value(whole.pointer(path).cloned().unwrap_or_default())?;
        Ok::<_, serde_json::Error>(runs.into_iter().map(|(name, kept)| (format!("{stem}: {name}"), kept)).collect())
    };
    let drawn = match found.kind {
        ResultKind::PacketLoad => serde_json::from_value(whole.clone()).map(|kept| vec![(stem.clone(), kept)]),
        ResultKind::PacketLatency => runs("/runs"),
        ResultKind::ZeroLoss => runs("/measured/runs"),
        ResultKind::Experiment => return Err(named(&"an experiment of the lab: nearside lab report draws it")),
        kind => return Err(named(&format!("a result of {}, of which there is no page here", kind.command()))),
    };
    drawn.map_err(|why| named(&why))
}
