//! What is printed of a run when it is over, and what its exit code is.

use super::run::Outcome;
use super::streaming::StreamingMeasured;
use crate::plan::Form;
use load::{Judged, Objective, Report, StreamingReport};
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
    } else if report.server_gone {
        eprintln!("nearside: the server went away: no connection to it was left, and new ones failed");
        NOTHING
    } else if nothing_came(report) {
        eprintln!("nearside: nothing came in the measured window, and nothing was played");
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

/// Whether nothing came while it was measured; players may have had enough from before.
fn nothing_came(report: &StreamingReport) -> bool {
    let plays = report.playing.is_some_and(|playing| playing.to_play_ns == 0 || playing.stalled < 1.0);
    report.counted.window > 0 && report.bits_per_second == 0.0 && !plays
}

/// The code as a process ends with it.
pub fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Plan, Request};

    /// A run of four players, of which `of` is said.
    fn streams_of(of: impl Fn(&mut load::StreamingFigures), expect: &str, strict: bool) -> u8 {
        let mut load = Plan::new(([127, 0, 0, 1], 80).into(), Request::get("a", "/"));
        load.connections = 4;
        let player = load::PlayerPlan { buffer: core::time::Duration::from_secs(1), share: 1.0 };
        let plan =
            load::StreamingPlan { load, rate: load::PlayRate::new(1_000_000), player: Some(player), spread: false };
        let mut figures = load::StreamingFigures { streams: 4, under_way: 4, bytes: 9, ..Default::default() };
        figures.seconds = vec![load::SecondFigures { streams: 4, ..Default::default() }; 10];
        figures.late.record_n(0, 40);
        figures.to_play = core::time::Duration::from_secs(40);
        of(&mut figures);
        let setup = load::StreamingSetup::new(&plan, "here".to_owned());
        let report = StreamingReport::new(setup, figures, (0.0, 0.0), Vec::new());
        let expect: Objective = expect.parse().expect("an objective");
        let (verdict, judged) = (report::streaming_verdict(&report), vec![expect.judge_streaming(&report)]);
        streams(&StreamingMeasured { report, judged, verdict, json: String::new() }, strict)
    }

    #[test]
    fn exit_codes_of_streams_follow_the_help() {
        let stalled = |figures: &mut load::StreamingFigures| figures.stalled = figures.to_play;
        assert_eq!(streams_of(|_| {}, "stalled<1%", true), 0);
        assert_eq!(streams_of(stalled, "stalled<1%", false), MISSED);
        assert_eq!(streams_of(|figures| figures.under_way = 0, "errors=0", false), NOTHING);
        // The server is gone, whatever was met until then; or nothing came any more.
        let gone = |figures: &mut load::StreamingFigures| (figures.unconnected, figures.errors.connects) = (4, 9);
        assert_eq!(streams_of(gone, "stalled<1%", false), NOTHING);
        let hung = |figures: &mut load::StreamingFigures| {
            figures.bytes = 0;
            figures.stalled = figures.to_play;
        };
        assert_eq!(streams_of(hung, "stalled<1%", false), NOTHING);
        // Players may have had enough before.
        assert_eq!(streams_of(|figures| figures.bytes = 0, "stalled<1%", true), 0);
        let none = |figures: &mut load::StreamingFigures| {
            figures.seconds.iter_mut().for_each(|second| second.left_out = Some(load::LeftOut::Late));
        };
        assert_eq!(streams_of(none, "errors=0", false), INVALID);
        let lost = |figures: &mut load::StreamingFigures| figures.errors.lost = 1;
        assert_eq!((streams_of(lost, "stalled<1%", false), streams_of(lost, "stalled<1%", true)), (0, DOUBTFUL));
        assert_eq!(streams_of(|figures| figures.interrupted = true, "stalled<1%", false), INTERRUPTED);
    }
}
