//! What is printed of a run when it is over, and what its exit code is.

use super::run::Outcome;
use super::streaming::StreamingMeasured;
use crate::plan::Form;
use load::{Ended, Judged, Objective, Report, StreamingReport, Trust};
use report::{render_ab, render_histogram, render_text, render_wrk};
use say::Failure;
use say::eprintln;
use std::io::{self, Write};
use std::process::ExitCode;

/// An objective is missed, or no rate meets one.
pub const MISSED: u8 = 3;

/// There is nothing to go by.
pub const NOTHING: u8 = 4;

/// The machine spoilt too many runs of a search.
pub const INVALID: u8 = 5;

/// The figures cannot be trusted, and were to be.
pub const DOUBTFUL: u8 = 6;

/// Ended by a signal, as shells have it for SIGINT.
pub const INTERRUPTED: u8 = 130;

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

/// The exit code of a run: the first of the reasons that hold.
pub fn code(report: &Report, judged: &[Judged], failures: u32, strict: bool) -> u8 {
    // Connections stay open to the end but for a server that is gone, or
    // where each request has its own.
    let lost = report.open == 0 && report.errors.failed_connects() > 0;
    let nothing = report.traffic.responses == 0 || lost;
    if report.ended == Ended::Interrupted {
        INTERRUPTED
    } else if failures > 0 {
        1
    } else if nothing {
        NOTHING
    } else if judged.iter().any(|judged| !judged.met) {
        MISSED
    } else if strict && report.verdict.trust == Trust::No {
        DOUBTFUL
    } else {
        0
    }
}

/// Says in a sentence why the exit code is what it is.
pub fn explain(code: u8, report: &Report) {
    match code {
        NOTHING if report.traffic.responses > 0 => {
            eprintln!("nearside: the server went away: no connection to it was left, and new ones were refused");
        }
        NOTHING => eprintln!("nearside: no response came in the measured window"),
        MISSED => eprintln!("nearside: an objective was missed"),
        DOUBTFUL => eprintln!("nearside: {}", report.verdict),
        INTERRUPTED => eprintln!("nearside: interrupted: the figures are of what was measured until then"),
        _ => {}
    }
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
    use load::{Figures, Outside, Plan, Request};

    fn report(of: impl Fn(&mut Figures)) -> Report {
        let plan = Plan::new(([127, 0, 0, 1], 80).into(), Request::get("a", "/"));
        let mut figures = Figures::default();
        figures.counts.traffic.responses = 10;
        figures.open = 64;
        of(&mut figures);
        Report::new(&plan, &figures, Outside::default())
    }

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

    #[test]
    fn exit_codes_follow_the_help() {
        let rate = |text: &str| judge(&report(|_| {}), &[text.parse().expect("an objective")]);
        assert_eq!(code(&report(|_| {}), &[], 0, false), 0);
        assert_eq!(code(&report(|_| {}), &[], 1, false), 1);
        assert_eq!(code(&report(|_| {}), &rate("errors<1"), 0, false), 0);
        assert_eq!(code(&report(|_| {}), &rate("rate>1M"), 0, false), MISSED);
        assert_eq!(code(&report(|f| f.counts.traffic.responses = 0), &rate("rate>1M"), 0, false), NOTHING);
        let gone = |f: &mut Figures| (f.open, f.counts.errors.refused) = (0, 5);
        assert_eq!(code(&report(gone), &[], 0, false), NOTHING);
        assert_eq!(code(&report(|f| f.counts.errors.refused = 5), &[], 0, false), 0, "it came back");
        assert_eq!(code(&report(|f| f.ended = Ended::Interrupted), &[], 1, false), INTERRUPTED);
    }
}
