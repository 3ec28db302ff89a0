//! What results of loads, experiments, noise and recordings have that can be compared, and what
//! must have been asked alike.

use crate::cells::{plain, sound, sound_of};
use crate::measurement::{KnownResult, OwnVerdict, ResultError, Worth};
use ::packet::compare::{Better, RunFigure, Unit};
use environment::ResultKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A figure: where it stands, its name, which way is better, its unit.
type Place = (&'static str, &'static str, Option<Better>, Unit);

const HIGHER: Option<Better> = Some(Better::Higher);
const LOWER: Option<Better> = Some(Better::Lower);

const LOAD: [Place; 7] = [
    ("/throughput/requests_per_second", "rate", HIGHER, Unit::PerSecond),
    ("/throughput/received_bytes_per_second", "received", HIGHER, Unit::BytesPerSecond),
    ("/latency/mean_ns", "latency mean", LOWER, Unit::Nanoseconds),
    ("/latency/p50_ns", "latency 50 %", LOWER, Unit::Nanoseconds),
    ("/latency/p99_ns", "latency 99 %", LOWER, Unit::Nanoseconds),
    ("/latency/p999_ns", "latency 99.9 %", LOWER, Unit::Nanoseconds),
    ("/latency/max_ns", "latency max", LOWER, Unit::Nanoseconds),
];

const BULK: [Place; 3] = [
    ("/up/bits_per_second", "up", HIGHER, Unit::BitsPerSecond),
    ("/down/bits_per_second", "down", HIGHER, Unit::BitsPerSecond),
    ("/up/retransmits", "retransmitted", LOWER, Unit::Plain),
];

const STREAMS: [Place; 10] = [
    ("/bits_per_second", "received", HIGHER, Unit::BitsPerSecond),
    ("/late/p99_ns", "late 99 %", LOWER, Unit::Nanoseconds),
    ("/first_byte/p99_ns", "first byte 99 %", LOWER, Unit::Nanoseconds),
    ("/playing/start/p99_ns", "to playing 99 %", LOWER, Unit::Nanoseconds),
    ("/playing/no_start/samples", "streams that never played", LOWER, Unit::Plain),
    ("/playing/under_runs/samples", "under-runs", LOWER, Unit::Plain),
    ("/playing/stalled", "of the time without anything to play", LOWER, Unit::Plain),
    ("/evenness/within_one", "within a segment, of seconds", HIGHER, Unit::Plain),
    ("/evenness/off_bytes/p99", "off 99 %, bytes", LOWER, Unit::Plain),
    ("/evenness/off_over_10s/p99", "off over 10 s 99 %", LOWER, Unit::Plain),
];

const FOUND: [Place; 3] = [
    ("/found/at_least", "met at least, in a search that is none", None, Unit::PerSecond),
    ("/found/rate", "highest rate that meets it", HIGHER, Unit::PerSecond),
    ("/found/missed", "lowest rate that misses it", HIGHER, Unit::PerSecond),
];

const ROW: [Place; 3] = [
    ("/rps_avg", "rate", HIGHER, Unit::PerSecond),
    ("/lat50_ns", "latency 50 %", LOWER, Unit::Nanoseconds),
    ("/lat99_ns", "latency 99 %", LOWER, Unit::Nanoseconds),
];

const CORE: [Place; 3] = [
    ("/longest_nanos", "longest gap", LOWER, Unit::Nanoseconds),
    ("/gap_nanos", "time in gaps", LOWER, Unit::Nanoseconds),
    ("/gaps", "gaps", LOWER, Unit::Plain),
];

/// Of a load: those that differ in one of these are not one thing measured twice.
const ASKED: [&str; 13] = [
    "scheme",
    "method",
    "path",
    "connections",
    "active",
    "pipeline",
    "reuse",
    "requests",
    "heads",
    "arrival",
    "request_bytes",
    "body_bytes",
    "way",
];

/// The same of streams without end.
const ASKED_BULK: [&str; 4] = ["path", "way", "up_streams", "down_streams"];

/// The same of streams that are to have a rate.
const ASKED_STREAMS: [&str; 9] =
    ["scheme", "path", "way", "connections", "rate", "buffer_ns", "start_share", "requests", "spread"];

/// Those that are numbers: what is beyond them, of counts at the ends of what JSON holds, is none.
pub(super) fn shown(mut figures: Vec<RunFigure>) -> Vec<RunFigure> {
    figures.retain(|figure| figure.value.is_finite());
    figures
}

fn at(value: &Value, of: &str, places: &[Place]) -> Vec<RunFigure> {
    let one = |&(path, figure, better, unit): &Place| {
        let value = value.pointer(path)?.as_f64()?;
        Some(RunFigure { of: of.to_owned(), figure: figure.to_owned(), better, unit, value })
    };
    places.iter().filter_map(one).collect()
}

/// The figures of a result of this kind; none of those that are answers to nothing.
pub fn of(kind: ResultKind, whole: &Value) -> Vec<RunFigure> {
    let list = |name: &str| whole.get(name).and_then(Value::as_array).into_iter().flatten();
    match kind {
        // Of a run that nobody answered, zeros are no latencies.
        // Nor is the rate one of a run that ended before it was measured.
        ResultKind::Load if whole.pointer("/window_ns").and_then(Value::as_u64) == Some(0) => Vec::new(),
        ResultKind::Load if whole.pointer("/latency/samples").and_then(Value::as_u64) == Some(0) => {
            at(whole, "the load", &LOAD[..1])
        }
        ResultKind::Load => at(&with_sound_latency(whole), "the load", &LOAD),
        ResultKind::Bulk => at(whole, "the streams", &BULK),
        // Where no second counts, zeros are no lateness.
        ResultKind::Streams if whole.pointer("/late/samples").and_then(Value::as_u64) == Some(0) => {
            at(whole, "the streams", &STREAMS[..1])
        }
        ResultKind::Streams => at(whole, "the streams", &STREAMS),
        ResultKind::FindMax => at(whole, "the search", &FOUND),
        ResultKind::LoadSweep => list("rows").flat_map(row).collect(),
        ResultKind::Noise => list("cores").flat_map(core).collect(),
        ResultKind::Experiment => arms(whole),
        ResultKind::Demo => list("rows").flat_map(contender).collect(),
        _ => Vec::new(),
    }
}

/// A load without percentiles that say as much of chance as of what was measured.
fn with_sound_latency(whole: &Value) -> Value {
    let mut found = json!({ "throughput": whole["throughput"] });
    found["latency"] = sound(&whole["latency"]);
    found
}

/// Every round of a row of the demo.
fn contender(row: &Value) -> Vec<RunFigure> {
    let words =
        |key: &str| row.get(key).map(|value| value.to_string().replace(['{', '}', '"'], "")).unwrap_or_default();
    let of = format!("{}, {}", words("scenario").replace(',', ", "), words("contender"));
    let rounds = row.get("rounds").and_then(Value::as_array).into_iter().flatten();
    rounds.flat_map(|round| at(round, &of, &[("/requests_per_second", "rate", HIGHER, Unit::PerSecond)])).collect()
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn row(row: &Value) -> Vec<RunFigure> {
    let of = format!("{} threads, {} connections", number(row, "procs"), number(row, "connections"));
    // Rows of earlier versions do not tell how many samples they are of.
    let samples = row.get("samples").and_then(Value::as_f64);
    at(&samples.map_or_else(|| row.clone(), |samples| sound_of(row, samples)), &of, &ROW)
}

fn core(core: &Value) -> Vec<RunFigure> {
    at(core, &format!("core {}", number(core, "core")), &CORE)
}

/// Every run of every arm, by the experiment's own figures; the control stands under its own name.
fn arms(whole: &Value) -> Vec<RunFigure> {
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut all = Vec::new();
    for figure in list(whole, "figures") {
        let (name, unit) = (text(&figure, "name"), text(&figure, "unit"));
        let better = match figure.get("better").and_then(Value::as_str) {
            Some("higher") => HIGHER,
            Some("lower") => LOWER,
            _ => None,
        };
        let title = if unit.is_empty() { name.clone() } else { format!("{name}, {unit}") };
        for arm in list(whole, "arms") {
            for run in list(&arm, "runs") {
                let value = run.get("figures").and_then(|figures| figures.get(&name)).and_then(Value::as_f64);
                let (of, figure) = (text(&arm, "name"), title.clone());
                all.extend(value.map(|value| RunFigure { of, figure, better, unit: Unit::Plain, value }));
            }
        }
    }
    all
}

/// What was asked for, as far as two results must have it alike.
pub fn asked(kind: ResultKind, whole: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, value: &Value| {
        all.insert(name, plain(value));
    };
    let setup: &[&str] = match kind {
        ResultKind::Load => &ASKED,
        ResultKind::Bulk => &ASKED_BULK,
        ResultKind::Streams => &ASKED_STREAMS,
        _ => &[],
    };
    for key in setup {
        if let Some(value) = whole.pointer(&format!("/setup/{key}")) {
            put(format!("load: {key}"), value);
        }
    }
    let top: &[&str] = match kind {
        ResultKind::FindMax => &["objectives"],
        ResultKind::PacketSearch => &["stream"],
        ResultKind::Rfc2544 => &["settings"],
        ResultKind::PacketLab => &["bytes", "seconds"],
        ResultKind::Noise => &["threshold_nanos"],
        ResultKind::Experiment => &["experiment"],
        _ => &[],
    };
    for key in top {
        match whole.get(*key) {
            // Which of many settings differs is told, and not all of them.
            Some(Value::Object(settings)) => {
                settings.iter().for_each(|(name, value)| put(format!("{key}: {name}"), value));
            }
            Some(value) => put((*key).to_owned(), value),
            None => {}
        }
    }
    all
}

/// Whether this is a line of a recording.
pub fn is_sample(value: &Value) -> bool {
    value.get("at").is_some_and(Value::is_u64) && value.get("counts").is_some_and(Value::is_object)
}

/// A recording: what was counted from its first line to its last, by second.
pub fn recording(name: &str, text: &str) -> Result<KnownResult, ResultError> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let line = |at: usize| {
        let told = |why| ResultError(format!("line {}: {why}", at + 1));
        serde_json::from_str::<Value>(lines[at]).map_err(|why| told(why.to_string()))
    };
    let first = line(0)?;
    // Whoever was ended while it wrote leaves a part of a line.
    let (last, cut) = match line(lines.len() - 1) {
        Ok(last) => (last, false),
        Err(_) if lines.len() > 1 => (line(lines.len() - 2)?, true),
        Err(why) => return Err(why),
    };
    let nanos = number(&last, "at").saturating_sub(number(&first, "at"));
    let seconds = nanos as f64 * 1e-9;
    let mut figures = Vec::new();
    let counts = first.get("counts").and_then(Value::as_object).into_iter().flatten();
    for (count, before) in counts.filter(|_| nanos > 0) {
        let after = last.get("counts").and_then(|counts| counts.get(count)).and_then(Value::as_f64);
        if let (Some(before), Some(after)) = (before.as_f64(), after) {
            let value = (after - before).max(0.0) / seconds;
            let (of, figure) = ("the machine".to_owned(), count.clone());
            figures.push(RunFigure { of, figure, better: None, unit: Unit::PerSecond, value });
        }
    }
    let (worth, reason) = match (nanos == 0, cut) {
        (true, _) => (Worth::Invalid, "it ended before its first interval: nothing was counted between two samples"),
        (false, _) => (Worth::Partial, "its last line is cut off"),
    };
    let verdict = (cut || nanos == 0).then(|| OwnVerdict { worth, reasons: vec![reason.to_owned()] });
    // Recordings of earlier versions do not tell.
    let machine = first.get("environment").filter(|machine| !machine.is_null());
    let machine = machine.map(|machine| serde_json::from_value(machine.clone())).transpose();
    let machine = machine.map_err(|why| ResultError(format!("environment: {why}")))?;
    let (asked, figures) = (BTreeMap::new(), shown(figures));
    Ok(KnownResult { name: name.to_owned(), kind: ResultKind::Recording, verdict, machine, asked, figures })
}
