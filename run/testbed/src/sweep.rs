//! `nearside packet sweep`: a device set up again and again, one setting changed
//! at a time, and what that does to frames, processor time and energy.
//!
//! The device is a command with places for the settings, ours by default.
//! Rounds go over all points in turn, so that a machine that changes changes
//! all of them; each point is compared with the first of its round.

use crate::FactorsPlan;
use crate::child::{own, parse, program};
use crate::load::{INTERRUPTED, MISSED, made, replay, surroundings_of};
use crate::pages::keep_page;
use demo::child::Interrupt;
use demo::scratch::Scratch;
use environment::{ResultKind, SCHEMA};
use figures::{digits, si};
use host::stop_signals;
use packet::compare::MIN_RUNS;
use packet::verdict::{Validity, Word};
use say::{Failure, eprintln, println};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Until a device is there, and beyond a trial's own time.
const COMING: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);
/// A device on interfaces has no socket that shows when it is there.
const SETTLING: Duration = Duration::from_secs(2);

/// The kernel counts processor time by it (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Where the kernel tells energy, by package (intel-rapl, in microjoules).
const ENERGY: &str = "/sys/class/powercap";

/// A setting and the values that it takes: the first is where all begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Factor {
    /// Its name, as in `{name}`.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// One point: all factors at their first value but one.
#[derive(Clone, Debug)]
struct Point {
    name: String,
    values: Vec<(String, String)>,
}

/// What one trial of a point gave.
#[derive(Clone, Serialize)]
struct Sample {
    /// Frames per second that were asked for; `None`: as many as possible.
    asked: Option<f64>,
    /// Frames per second that were sent.
    sent: f64,
    /// Frames per second that came.
    rate: f64,
    /// Nanoseconds of processor time of the device for each.
    cpu_ns: f64,
    /// Microjoules of all packages for each.
    energy_uj: Option<f64>,
    /// Why it does not count, by the tester's own word.
    spoilt: Option<String>,
}

#[derive(Serialize)]
struct Row {
    point: String,
    /// Rounds that it was measured in.
    rounds: usize,
    samples: Vec<Sample>,
    /// Medians.
    asked: Option<f64>,
    sent: Option<f64>,
    rate: Option<f64>,
    cpu_ns: Option<f64>,
    energy_uj: Option<f64>,
    /// Frames per second for one of the first point's, with its interval.
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    /// Why there is nothing.
    missing: Option<String>,
    /// In how many rounds the tester spoilt it, and how: it does not count.
    spoilt: Option<String>,
}

/// Measures every point, round by round, and prints the table.
///
/// # Errors
/// If nothing can be set up.
pub fn sweep(plan: &FactorsPlan) -> Result<ExitCode, Failure> {
    let signals = stop_signals()?;
    let interrupt = Interrupt::of(Arc::clone(&signals));
    let scratch = Scratch::private()?;
    let points = points(&plan.factors);
    let mut samples: Vec<Vec<Sample>> = points.iter().map(|_| Vec::new()).collect();
    let mut missing: Vec<Option<String>> = points.iter().map(|_| None).collect();
    'rounds: for round in 0..plan.rounds {
        for (index, point) in points.iter().enumerate() {
            if missing[index].is_some() {
                continue;
            }
            match one(plan, point, scratch.path(), &interrupt) {
                Ok(sample) => {
                    eprintln!("round {}, {}: {}", round + 1, point.name, si(sample.rate, "/s"));
                    samples[index].push(sample);
                }
                // What was stopped is no fault of the device, which the signal may have ended.
                Err(_) if interrupt.check().is_err() => break 'rounds,
                // A value that the device refuses is told, and the others are measured.
                Err(why) => missing[index] = Some(why.to_string()),
            }
        }
    }
    let stopped = signals.load(Ordering::Relaxed) > 0;
    let rows = rows(&points, &samples, missing);
    let energy = energy().err();
    let links = points.first().map(|first| plan.links.iter().map(|link| filled(link, first, scratch.path())));
    let environment = surroundings_of(&links.into_iter().flatten().collect::<Vec<_>>());
    let verdict = judge(&rows, plan.rounds as usize, stopped);
    let value = json!({
        "kind": ResultKind::PacketSweep, "schema": SCHEMA, "verdict": verdict,
        "command": replay(), "made": made(), "environment": environment, "points": rows, "rounds": plan.rounds,
        "energy_missing": energy,
    });
    if plan.json {
        println!("{value:#}");
    } else {
        println!("{}\n{verdict}", table(&rows, energy.as_deref()));
    }
    // Shown before it is kept: a full disk does not take it away.
    if let Some(path) = &plan.out {
        results::write_whole(path, &format!("{value:#}\n"))?;
    }
    keep_page(plan.html.as_deref(), &value)?;
    match rows.iter().find_map(|row| row.missing.as_ref()) {
        _ if stopped => Ok(ExitCode::from(INTERRUPTED)),
        Some(why) if rows.iter().all(|row| row.samples.is_empty()) => Err(why.clone().into()),
        _ if verdict.word == Word::Invalid => Ok(ExitCode::from(MISSED)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What the table is worth: nothing where the tester spoilt what a ratio is made of; in part where a point, rounds or
/// intervals are missing.
fn judge(rows: &[Row], rounds: usize, stopped: bool) -> Validity {
    let mut verdict = crate::lab::missing(rows.iter().map(|row| (row.point.as_str(), row.missing.as_deref())));
    for row in rows {
        if let Some(why) = &row.spoilt {
            verdict.fails(format!("{}: {why}", row.point));
        }
    }
    if rows.iter().all(|row| row.samples.is_empty()) {
        verdict.fails("nothing was measured");
    }
    let measured = || rows.iter().filter(|row| row.missing.is_none()).map(|row| row.rounds);
    let (least, most) = (measured().min().unwrap_or(0), measured().max().unwrap_or(0));
    if stopped {
        verdict.lacks(format!("it was stopped: of {rounds} rounds {most} were begun, and {least} ended"));
    }
    if least < MIN_RUNS {
        verdict.lacks(format!("fewer than {MIN_RUNS} rounds ({least}): ratios have no intervals"));
    }
    verdict
}

/// Where all begin, and one factor changed at a time.
fn points(factors: &[Factor]) -> Vec<Point> {
    let first = || -> Vec<(String, String)> {
        let value = |factor: &Factor| factor.values.first().cloned().unwrap_or_default();
        factors.iter().map(|factor| (factor.name.clone(), value(factor))).collect()
    };
    let told: Vec<String> = first().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut points = vec![Point { name: told.join(" "), values: first() }];
    for (index, factor) in factors.iter().enumerate() {
        for value in factor.values.iter().skip(1) {
            let mut values = first();
            values[index].1.clone_from(value);
            points.push(Point { name: format!("{}={value}", factor.name), values });
        }
    }
    points
}

/// A text with the values in their places.
fn filled(text: &str, point: &Point, folder: &Path) -> String {
    let text = text.replace("{folder}", &folder.display().to_string());
    point.values.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Sets the device up, and measures what comes through it at the highest rate.
fn one(plan: &FactorsPlan, point: &Point, folder: &Path, interrupt: &Interrupt) -> Result<Sample, Failure> {
    for name in ["a.sock", "b.sock"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let words = match &plan.device_command {
        Some(command) => vec!["sh".to_owned(), "-c".to_owned(), format!("exec {}", filled(command, point, folder))],
        None => {
            let ours = own(&["packet", "forward"])?;
            let rest = plan.device.iter().map(|word| filled(word, point, folder));
            ours.into_iter().chain(rest).collect()
        }
    };
    let mut device = program("device", None, words).start(folder)?;
    let links: Vec<String> = plan.links.iter().map(|link| filled(link, point, folder)).collect();
    let sockets = links.iter().filter_map(|link| Some(link.strip_prefix("memif:")?.split(',').next()?.to_owned()));
    let sockets: Vec<String> = sockets.filter(|path| !path.starts_with('@')).collect();
    if sockets.is_empty() {
        interrupt.sleep(SETTLING)?;
        device.still_runs()?;
    } else {
        let there = || sockets.iter().all(|path| Path::new(path).exists());
        device.wait_until("open its sockets", COMING, interrupt, there)?;
    }
    let mut words = own(&["packet", "load", "--json", "--drain", "200ms"])?;
    words.extend(links.iter().map(|link| format!("--link={link}")));
    words.push(format!("--stream={}", filled(&plan.stream, point, folder)));
    words.push(format!("--duration={}ms", plan.duration.as_millis()));
    if let Some(core) = plan.core {
        words.extend(["--core".to_owned(), core.to_string()]);
    }
    let before = (device.processor_ticks(), energy().ok());
    let said = program("tester", None, words).start(folder)?.finish(plan.duration + PATIENCE, interrupt)?;
    let after = (device.processor_ticks(), energy().ok());
    device.still_runs()?;
    let report = parse("the tester", &said)?;
    let spoilt = (report["verdict"]["word"] == "INVALID").then(|| {
        let reason = report.pointer("/verdict/reasons/0").and_then(Value::as_str);
        reason.unwrap_or("the tester does not say why").to_owned()
    });
    let lanes = report.pointer("/result/lanes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let came: f64 = lanes.iter().filter_map(|lane| lane.pointer("/arrivals/unique")?.as_f64()).sum();
    let sum = |name: &str| lanes.iter().map(|lane| lane[name].as_f64()).sum::<Option<f64>>();
    let seconds = report.pointer("/result/seconds").and_then(Value::as_f64).unwrap_or(1.0);
    if came <= 0.0 {
        return Err("no frame came through".into());
    }
    let ticks = before.0.zip(after.0).map_or(0, |(before, after)| after.saturating_sub(before));
    let energy_uj = before.1.zip(after.1).map(|(before, after)| after.saturating_sub(before) as f64 / came);
    Ok(Sample {
        asked: sum("intended_rate"),
        sent: sum("rate").unwrap_or(0.0),
        rate: came / seconds,
        cpu_ns: ticks as f64 / TICKS * 1e9 / came,
        energy_uj,
        spoilt,
    })
}

/// Microjoules that all packages have used.
fn energy() -> Result<u64, String> {
    let none = || format!("no RAPL below {ENERGY}: a virtual machine, or a processor without it");
    let entries = fs::read_dir(ENERGY).map_err(|_| none())?;
    let mut sum = None;
    for entry in entries.flatten() {
        // Packages, and not their parts: intel-rapl:0, and not intel-rapl:0:1.
        let name = entry.file_name();
        let is_package =
            name.to_str().is_some_and(|name| name.starts_with("intel-rapl:") && name.matches(':').count() == 1);
        if !is_package {
            continue;
        }
        let path = entry.path().join("energy_uj");
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let value: u64 = text.trim().parse().map_err(|_| format!("{} is no number", path.display()))?;
        sum = Some(sum.unwrap_or(0) + value);
    }
    sum.ok_or_else(none)
}

fn rows(points: &[Point], samples: &[Vec<Sample>], missing: Vec<Option<String>>) -> Vec<Row> {
    let of = |samples: &[Sample], each: fn(&Sample) -> Option<f64>| -> Vec<f64> {
        samples.iter().filter_map(each).collect()
    };
    let rate: fn(&Sample) -> Option<f64> = |sample| Some(sample.rate);
    let first = samples.first().map(|samples| of(samples, rate)).unwrap_or_default();
    let row = |((point, samples), missing): ((&Point, &Vec<Sample>), Option<String>)| {
        let median = |each| {
            let values = of(samples, each);
            (!values.is_empty()).then(|| packet::compare::middle(&values))
        };
        let effect = packet::compare::rounds(&of(samples, rate), &first);
        let mut spoilt = samples.iter().filter_map(|sample| sample.spoilt.as_deref());
        let (all, bad) = (samples.len(), spoilt.clone().count());
        Row {
            point: point.name.clone(),
            rounds: all,
            asked: median(|sample| sample.asked),
            sent: median(|sample| Some(sample.sent)),
            rate: median(rate),
            cpu_ns: median(|sample| Some(sample.cpu_ns)),
            energy_uj: median(|sample| sample.energy_uj),
            samples: samples.clone(),
            ratio: effect.map(|effect| effect.0),
            interval: effect.and_then(|effect| effect.1),
            missing,
            spoilt: spoilt.next().map(|why| format!("{bad} of {all} trials do not count: {why}")),
        }
    };
    points.iter().zip(samples).zip(missing).map(row).collect()
}

fn table(rows: &[Row], no_energy: Option<&str>) -> String {
    let width = rows.iter().map(|row| row.point.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!(
        "{:width$} {:>12} {:>12} {:>8} {:>10} {:>10}",
        "", "sent", "received", "ratio", "cpu, ns", "energy, uJ"
    )];
    for row in rows {
        if let Some(why) = &row.missing {
            lines.push(format!("{:width$} n/a: {why}", row.point));
            continue;
        }
        let (Some(rate), Some(sent), Some(cpu_ns)) = (row.rate, row.sent, row.cpu_ns) else {
            lines.push(format!("{:width$} n/a: it was stopped before", row.point));
            continue;
        };
        let ratio = row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let interval = row.interval.map_or_else(String::new, |(low, high)| format!("  ({low:.3} to {high:.3})"));
        lines.push(format!(
            "{:width$} {:>12} {:>12} {ratio:>8} {:>10} {:>10}{interval}",
            row.point,
            si(sent, "/s"),
            si(rate, "/s"),
            digits(cpu_ns),
            row.energy_uj.map_or_else(|| "n/a".to_owned(), digits)
        ));
        lines.extend(row.spoilt.iter().map(|why| format!("{:width$}   {why}", "")));
    }
    lines.push(
        "medians; ratio of frames to the first line's, by rounds; the device's processor time for each frame"
            .to_owned(),
    );
    if let Some(why) = no_energy {
        lines.push(format!("energy: n/a ({why})"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_factor_changes_at_a_time() {
        let factor = |name: &str, values: &[&str]| Factor {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let points = points(&[factor("burst", &["32", "8", "64"]), factor("ring", &["1024", "256"])]);
        let told: Vec<String> =
            points.iter().map(|point| filled("{burst} {ring} {other}", point, Path::new("x"))).collect();
        assert_eq!(told, ["32 1024 {other}", "8 1024 {other}", "64 1024 {other}", "32 256 {other}"]);
        assert_eq!(points[3].name, "ring=256");
    }

    #[test]
    fn a_table_says_what_is_missing() {
        let point = |name: &str| Point { name: name.to_owned(), values: Vec::new() };
        let all = rows(
            &[point("burst=32"), point("burst=0")],
            &[vec![sample(None); 6], Vec::new()],
            vec![None, Some("burst is from 1".to_owned())],
        );
        let text = table(&all, Some("no RAPL"));
        for part in ["burst=0  n/a: burst is from 1", "1.00 M/s", "1.000", "energy: n/a (no RAPL)"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    fn sample(spoilt: Option<&str>) -> Sample {
        let spoilt = spoilt.map(str::to_owned);
        Sample { asked: Some(5e6), sent: 1e6, rate: 1e6, cpu_ns: 100.0, energy_uj: None, spoilt }
    }

    #[test]
    fn what_the_tester_spoilt_does_not_count_and_too_few_rounds_are_named() {
        let points = ["burst=32", "burst=8"].map(|name| Point { name: name.to_owned(), values: Vec::new() });
        let judged = |samples: &[Vec<Sample>], stopped| judge(&rows(&points, samples, vec![None, None]), 6, stopped);
        assert_eq!(judged(&[vec![sample(None); 6], vec![sample(None); 6]], false), Validity::default());
        let few = judged(&[vec![sample(None); 2], vec![sample(None); 2]], false);
        assert!(few.word == Word::Partial && few.reasons[0].contains("fewer than 5 rounds (2)"), "{few}");
        let late = sample(Some("the tester sent 90.000 % of its frames late"));
        let samples = [vec![sample(None); 6], [vec![sample(None); 4], vec![late; 2]].concat()];
        let spoilt = judged(&samples, false);
        assert!(
            spoilt.word == Word::Invalid && spoilt.reasons[0].contains("burst=8: 2 of 6 trials do not"),
            "{spoilt}"
        );
        let text = table(&rows(&points, &samples, vec![None, None]), None);
        assert!(text.contains("2 of 6 trials do not count: the tester sent 90.000 %"), "{text}");
        // Stopped in the first round: no word of the device.
        let samples = [vec![sample(None)], Vec::new()];
        let stopped = judged(&samples, true);
        assert!(stopped.word == Word::Partial && stopped.reasons[0].contains("1 were begun, and 0 ended"), "{stopped}");
        assert!(table(&rows(&points, &samples, vec![None, None]), None).contains("burst=8  n/a: it was stopped"));
        assert_eq!(judged(&[Vec::new(), Vec::new()], true).word, Word::Invalid);
    }
}
