//! Pages of what was measured; `nearside packet report`.

use crate::ReportPlan;
use say::{Failure, eprintln};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

/// Writes the page of a result, if there is to be one.
///
/// # Errors
/// If it cannot be written.
pub fn keep_page(file: Option<&Path>, result: &Value) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    results::write_whole(file, &results::page_of(result)?.render())?;
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
    results::refuse_onto(&file, &plan.files.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
    results::write_whole(&file, &results::page_of_files(&texts)?.render())?;
    eprintln!("wrote {}", file.display());
    Ok(ExitCode::SUCCESS)
}
