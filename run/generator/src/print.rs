//! What is printed of a run when it is over, and what its exit code is.

use super::run::Outcome;
use super::streaming::StreamingMeasured;
use crate::plan::Form;
use load::{Judged, Objective, Report};
use report::{ExitReason, render_ab, render_histogram, render_text, render_wrk};
use say::Failure;
use say::eprintln;
use std::io::{self, Write};
use std::process::ExitCode;

/// An objective is missed, or no rate meets one.
pub const MISSED: u8 = ExitReason::Missed.code();

/// There is nothing to go by.
pub const NOTHING: u8 = ExitReason::Nothing.code();

/// The machine spoilt too many runs of a search.
pub const INVALID: u8 = ExitReason::Invalid.code();

/// The figures cannot be trusted, and were to be.
pub const DOUBTFUL: u8 = ExitReason::Doubtful.code();

/// Ended by a signal, as shells have it for SIGINT.
pub const INTERRUPTED: u8 = ExitReason::Interrupted.code();

/// Prints a run in the form asked for, of which `json` is one, and how its objectives were met.
///
/// # Errors
/// If standard output cannot be written.
pub fn outcome(form: Form, outcome: &Outcome, judged: &[Judged], json: &str) -> Result<(), Failure> {
    let Outcome { report, seen, .. } = outcome;
    let text = match form {
        Form::Text => render_text(report),
        Form::Json => json.to_owned(),
        Form::Ab => render_ab(report),
        Form::Wrk => render_wrk(report, &seen.rates),
        Form::Histogram => render_histogram(report),
    };
    put(&text)?;
    for judged in judged {
        let mark = if judged.met { "" } else { "nearside: " };
        match form {
            Form::Text => put(&format!("Objective    {judged}\n"))?,
            // The form has no place for it, and may be read by a program.
            Form::Ab | Form::Wrk | Form::Histogram => eprintln!("{mark}objective {judged}"),
            Form::Json => {}
        }
    }
    Ok(())
}

/// Writes to standard output. A reader that is gone has had enough.
///
/// # Errors
/// If it cannot be written for another reason, such as a full disk.
pub fn put(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {why}").into())
        }
        _ => Ok(()),
    }
}

/// How a run met its objectives.
pub fn judge(report: &Report, objectives: &[Objective]) -> Vec<Judged> {
    objectives.iter().map(|objective| objective.judge(report)).collect()
}

/// The exit code of a run of streams, and why in a sentence.
pub fn streams(measured: &StreamingMeasured, strict: bool) -> u8 {
    let StreamingMeasured { report, judged, verdict, .. } = measured;
    let why = verdict.reasons.join("; ");
    if report.interrupted {
        eprintln!("nearside: interrupted: the figures are of what was measured until then");
        INTERRUPTED
    } else if report.under_way == 0 {
        eprintln!("nearside: {why}{}", report.failure.as_ref().map_or_else(String::new, |last| format!(": {last}")));
        NOTHING
    } else if verdict.word == "INVALID" {
        eprintln!("nearside: INVALID: {why}");
        INVALID
    } else if judged.iter().any(|judged| !judged.met) {
        eprintln!("nearside: an objective was missed");
        MISSED
    } else if strict && !why.is_empty() {
        eprintln!("nearside: {}: {why}", verdict.word);
        DOUBTFUL
    } else {
        0
    }
}

/// The code as a process ends with it.
pub fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}
