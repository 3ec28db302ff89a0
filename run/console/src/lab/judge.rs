//! `nearside lab judge`: published results, held against what is possible.

use super::JudgePlan;
use ::judge::{Finding, Severity};
use say::Failure;
use std::fs::File;
use std::io::{BufReader, Write};
use std::process::ExitCode;

/// Something is unproven.
const UNPROVEN: u8 = 4;

/// Something is impossible.
const IMPOSSIBLE: u8 = 5;

/// Reads the files and prints the findings; the exit status tells the worst.
///
/// # Errors
/// If a file cannot be read, or is of no known tool: its name and the line.
pub(super) fn judge(plan: &JudgePlan) -> Result<ExitCode, Failure> {
    let mut sources = Vec::new();
    for path in &plan.files {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|why| format!("{name}: {why}"))?;
        sources.push(::judge::read(&name, BufReader::new(file)).map_err(|why| format!("{name}: {why}"))?);
    }
    let found = ::judge::judge(&sources, plan.link);
    let mut out = std::io::stdout().lock();
    if plan.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    } else {
        for source in &sources {
            for run in &source.runs {
                writeln!(out, "{}: {}", source.name, run.name)?;
            }
        }
        for finding in &found {
            write!(out, "\n{}", text(finding))?;
        }
        if found.is_empty() {
            writeln!(out, "nothing impossible or unproven found")?;
        }
    }
    Ok(ExitCode::from(status(&found)))
}

fn status(found: &[Finding]) -> u8 {
    match found.iter().map(|finding| finding.severity).max() {
        None => 0,
        Some(Severity::Unproven) => UNPROVEN,
        Some(Severity::Impossible) => IMPOSSIBLE,
    }
}

/// A finding, in a few lines.
fn text(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Unproven => "unproven",
        Severity::Impossible => "IMPOSSIBLE",
    };
    let place = match finding.line {
        0 => finding.file.clone(),
        line => format!("{}:{line}", finding.file),
    };
    let mut out = format!("{place}: {severity} [{}] {}\n", finding.check, finding.says);
    for (name, what) in [("off", &finding.by), ("arithmetic", &finding.arithmetic), ("proof", &finding.proof)] {
        if !what.is_empty() {
            out += &format!("  {:<11} {what}\n", format!("{name}:"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(claim: &str) -> Vec<Finding> {
        let text = format!("[[claim]]\nname = \"x\"\n{claim}");
        ::judge::judge(&[::judge::read("claims.toml", text.as_bytes()).unwrap()], None)
    }

    #[test]
    fn the_exit_status_tells_the_worst() {
        assert_eq!(status(&found("connections = 10\n")), 0);
        assert_eq!(status(&found("packets_per_second = 10\n")), UNPROVEN);
        let both = found("packets_per_second = 10\nprinted = [1, 2]\n");
        assert_eq!(status(&both), IMPOSSIBLE);
        assert!(text(&both[0]).starts_with("claims.toml:1: IMPOSSIBLE [printed-twice]"), "{}", text(&both[0]));
    }
}
