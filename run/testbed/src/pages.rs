//! Pages of what was measured; `nearside packet report` and `compare`.

use crate::keep::write_whole;
use crate::{ComparePlan, ReportPlan};
use environment::ResultOrigin;
use results::SidesCompared;
use say::{Failure, eprintln, print, println};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

/// Writes the page of a result, if there is to be one.
///
/// # Errors
/// If it cannot be written.
pub fn keep_page(file: Option<&Path>, result: &Value) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    write_whole(file, &results::page_of(result)?.render())?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

/// Turns results into a page.
///
/// # Errors
/// If a file cannot be read, or the page not written.
pub fn report(plan: &ReportPlan) -> Result<ExitCode, Failure> {
    let mut texts = Vec::new();
    for file in &plan.files {
        texts.extend(results::texts(file)?);
    }
    let usual = || plan.files.first().map(|file| file.with_extension("html")).unwrap_or_default();
    let file = plan.out.clone().unwrap_or_else(usual);
    write_whole(&file, &results::page(&texts)?.render())?;
    eprintln!("wrote {}", file.display());
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
    if let Some(file) = &plan.html {
        let both = [results::texts(&plan.before)?, results::texts(&plan.after)?].concat();
        let page = results::page_of_sides(&comparison, (&before, &after), ResultOrigin::now(), both);
        write_whole(file, &page.render())?;
        eprintln!("wrote {}", file.display());
    }
    if plan.json {
        println!("{:#}", comparison.to_json());
    } else {
        print!("{comparison}");
    }
    Ok(ExitCode::SUCCESS)
}
