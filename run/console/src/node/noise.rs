//! `nearside node noise`: a run, its report, and what was expected of it.

use super::NOISY;
use crate::lab::write_page;
use crate::plan::NoisePlan;
use environment::ResultKind;
use noise::{GapLine, Judged, NoiseReport};
use say::Failure;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// 128 and the number of SIGINT, as a shell shows it.
const INTERRUPTED: u8 = 130;

/// Runs the loops, and prints what was found.
///
/// # Errors
/// If a core cannot be had, or something cannot be written.
pub fn noise(out: &mut impl Write, asked: &NoisePlan, json: bool) -> Result<ExitCode, Failure> {
    asked.html.as_deref().map_or(Ok(()), results::expect_writable)?;
    let file = match &asked.gaps {
        Some(path) => Some(File::create(path).map_err(|why| format!("{}: {why}", path.display()))?),
        None => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let plan = asked.plan.clone();
    let ended = Arc::clone(&stop);
    // Whoever listens goes to other cores, and this thread stays where it was.
    let running = thread::Builder::new().name("noise".to_owned()).spawn(move || {
        let mut gaps = file.map(BufWriter::new);
        let mut failed: io::Result<()> = Ok(());
        let report = noise::run(&plan, &ended, |_| None, &mut |core, named| {
            if let (Some(file), Ok(())) = (&mut gaps, &failed) {
                failed = line(file, &GapLine::new(core, named));
            }
        });
        let flushed = gaps.map_or(Ok(()), |mut file| file.flush());
        (report, failed.and(flushed))
    })?;
    let (report, written) = running.join().map_err(|_| "the run ended in a panic")?;
    let report = report?;
    let mut whole = serde_json::to_value(&report)?;
    whole["verdict"] = verdict(&report, stop.load(Ordering::Relaxed));
    // Bounds are neither kept nor missed by what nobody listened to.
    let judged = if is_void(&whole) { Vec::new() } else { report.judge(&asked.expect) };
    whole["expect"] = json!(judged);
    super::origin(&mut whole, ResultKind::Noise, true)?;
    if let Some(place) = &asked.html {
        write_page(place, &results::page_of(&whole)?)?;
    }
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
    } else {
        show(out, &report, &judged)?;
        if is_void(&whole) {
            writeln!(out, "INVALID: {}", whole["verdict"]["reasons"][0].as_str().unwrap_or_default())?;
        }
    }
    if let (Err(why), Some(path)) = (written, &asked.gaps) {
        return Err(format!("{}: {why}: it does not have all gaps", path.display()).into());
    }
    Ok(ExitCode::from(match () {
        () if stop.load(Ordering::Relaxed) => INTERRUPTED,
        () if judged.iter().any(|one| !one.broken_by.is_empty()) => NOISY,
        () => 0,
    }))
}

fn is_void(whole: &Value) -> bool {
    whole["verdict"]["word"] == "INVALID"
}

/// What the figures are worth: gaps for which there was no room, and events that were lost, are in
/// none of them; whether bounds were kept is another question.
fn verdict(report: &NoiseReport, stopped: bool) -> Value {
    // A turn of the loop is no time in which anything could have been heard.
    let deaf = report.cores.iter().filter(|core| core.seconds * 1e9 <= core.step_nanos).count();
    let mut reasons = Vec::new();
    let is_void = deaf == report.cores.len();
    if deaf > 0 || is_void {
        reasons.push(format!("nothing was measured on {deaf} of {} cores", report.cores.len()));
    }
    if stopped {
        reasons.push("it was stopped".to_owned());
    }
    for core in &report.cores {
        for (count, what) in [(core.dropped, "gaps found no room"), (core.lost_events, "events were lost")] {
            if count > 0 {
                reasons.push(format!("core {}: {count} {what}", core.core));
            }
        }
    }
    let word = match (is_void, reasons.is_empty()) {
        (true, _) => "INVALID",
        (false, true) => "COMPLETE",
        (false, false) => "PARTIAL",
    };
    json!({ "word": word, "reasons": reasons })
}

fn line(file: &mut impl Write, gap: &GapLine) -> io::Result<()> {
    serde_json::to_writer(&mut *file, gap)?;
    file.write_all(b"\n")
}

fn show(out: &mut impl Write, report: &NoiseReport, judged: &[Judged]) -> io::Result<()> {
    write!(out, "{report}")?;
    for one in judged {
        let broken: Vec<String> = one.broken_by.iter().map(u16::to_string).collect();
        match broken.as_slice() {
            [] => writeln!(out, "{}: kept", one.bound)?,
            cores => writeln!(out, "{}: MISSED by core {}", one.bound, cores.join(", "))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_listened_to_is_invalid() {
        let core = |seconds: f64| noise::CoreReport {
            core: 0,
            seconds,
            step_nanos: 12.0,
            gaps: 0,
            gap_nanos: 0,
            longest_nanos: 0,
            causes: Vec::new(),
            histogram: Vec::new(),
            worst: Vec::new(),
            incomplete: 0,
            dropped: 0,
            lost_events: 0,
            counts: Vec::new(),
            stolen_ms: None,
            osnoise: None,
            cost: noise::Cost::default(),
        };
        let of = |cores: Vec<noise::CoreReport>, stopped| {
            let report = NoiseReport {
                threshold_nanos: 2_000,
                seconds: 2.0,
                cores,
                sources: Vec::new(),
                listener_seconds: None,
                notes: Vec::new(),
            };
            verdict(&report, stopped)["word"].clone()
        };
        assert_eq!((of(vec![core(2.0)], false), of(vec![core(2.0)], true)), ("COMPLETE".into(), "PARTIAL".into()));
        assert_eq!((of(vec![core(1e-9)], true), of(Vec::new(), false)), ("INVALID".into(), "INVALID".into()));
        assert_eq!(of(vec![core(2.0), core(0.0)], false), "PARTIAL");
    }
}
