//! Files and folders of results, and what is none.

use crate::measurement::{KnownResult, OwnVerdict, ResultError};
use crate::{figures, packet};
use environment::{Fingerprint, ResultKind, SCHEMA};
use pages::{named_results_in, results_in};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest result that is read, in bytes: hours of trials, one by one, are less.
pub const RESULT_LIMIT: u64 = 64 << 20;

/// The longest page: two results are in it, a third longer than they are.
const PAGE_LIMIT: u64 = 3 * RESULT_LIMIT;

/// The most results of one folder.
pub const RESULTS_LIMIT: usize = 1_000;

/// What the names of results in a page of two sides begin with.
pub(crate) const SIDES: [&str; 2] = ["before", "after"];

/// What stands in a file whose measurement has begun.
const HEAD: [&str; 3] = ["kind", "schema", "complete"];

/// Reads the results of a file, of an experiment's folder, or of a folder with files of results
/// (`*.json`), in the order of their names.
///
/// # Errors
/// If there is none, or one of them is none: which, and what it is instead.
pub fn read(path: &Path) -> Result<Vec<KnownResult>, ResultError> {
    Ok(parts(path)?.into_iter().map(|(known, _)| known).collect())
}

/// The same, each beside its text, which of a page is what is in it.
///
/// # Errors
/// As [`read`].
pub fn parts(path: &Path) -> Result<Vec<(KnownResult, String)>, ResultError> {
    let mut found = Vec::new();
    for (name, text) in texts(path)? {
        found.extend(parts_of_text(&name, &text).map_err(|why| ResultError(format!("{name}: {why}")))?);
    }
    Ok(found)
}

/// The same as they stand there: the names of files, and what they hold.
///
/// # Errors
/// If there is none, or one cannot be read.
pub fn texts(path: &Path) -> Result<Vec<(String, String)>, ResultError> {
    files(path)?.iter().map(|file| Ok((file.display().to_string(), read_file(file)?))).collect()
}

/// The files that are read of a path: itself, or those of a folder.
///
/// # Errors
/// If the folder cannot be read, or holds none.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, ResultError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let experiment = path.join("results.json");
    if experiment.is_file() {
        return Ok(vec![experiment]);
    }
    let told = |why: std::io::Error| ResultError(format!("{}: {why}", path.display()));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(told)? {
        let file = entry.map_err(told)?.path();
        if file.extension().is_some_and(|end| end == "json" || end == "ndjson") {
            files.push(file);
        }
        if files.len() > RESULTS_LIMIT {
            return Err(ResultError(format!("{} holds more than {RESULTS_LIMIT} results", path.display())));
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(ResultError(format!("{} holds no results (*.json, *.ndjson)", path.display()))),
        false => Ok(files),
    }
}

/// A result beside its text.
type Part = (KnownResult, String);

/// The two sides in a page that compares them; none where it is no such page.
///
/// # Errors
/// If it cannot be read.
pub fn sides(path: &Path) -> Result<Option<[Vec<Part>; 2]>, ResultError> {
    if path.is_dir() {
        return Ok(None);
    }
    let (name, text) = (path.display(), read_file(path)?);
    let mut sides = [Vec::new(), Vec::new()];
    for (file, result) in named_results_in(&text) {
        let Some(at) = SIDES.iter().position(|side| file.starts_with(side)) else { return Ok(None) };
        sides[at].push((read_text(&format!("{name}, {file}"), &result)?, result));
    }
    Ok(Some(sides).filter(|sides| sides.iter().all(|side| !side.is_empty())))
}

fn read_file(path: &Path) -> Result<String, ResultError> {
    let named = |why: &dyn core::fmt::Display| ResultError(format!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PAGE_LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|why| named(&why))?;
    let long = bytes.len() as u64;
    let text = String::from_utf8(bytes).map_err(|_| named(&"this is not text"))?;
    match if is_page(&text) { PAGE_LIMIT } else { RESULT_LIMIT } {
        limit if long > limit => Err(named(&format!("it is longer than {} MiB, the most that is read", limit >> 20))),
        _ => Ok(text),
    }
}

/// The results of a text, each as it stands there: itself, or those in a page of ours.
///
/// # Errors
/// If one is none of ours.
pub fn parts_of_text(name: &str, text: &str) -> Result<Vec<(KnownResult, String)>, ResultError> {
    let parts = if is_page(text) { results_in(text) } else { vec![text.to_owned()] };
    if parts.is_empty() {
        return Err(ResultError("this is a page, and none of ours: no result is in it".to_owned()));
    }
    let one = |text: String| Ok((read_text(name, &text)?, text));
    parts.into_iter().map(one).collect()
}

/// Whether a text is a page.
fn is_page(text: &str) -> bool {
    text.trim_start().get(..14).is_some_and(|head| head.eq_ignore_ascii_case("<!doctype html"))
}

/// A result as a value; of a recording, which has a value in each line, the first one, at which its head stands.
pub(crate) fn whole_of(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}').trim();
    let first = || serde_json::from_str(text.lines().next()?).ok().filter(figures::is_sample);
    serde_json::from_str(text).ok().or_else(first).unwrap_or_default()
}

/// Reads a result: an object of JSON, or a recording, which has one in each line.
///
/// # Errors
/// If it is none of ours: what it is instead, as far as that is known.
pub fn read_text(name: &str, text: &str) -> Result<KnownResult, ResultError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let why = match serde_json::from_str::<Value>(text) {
        // One that ended before its first interval has one line.
        Ok(whole) if figures::is_sample(&whole) && kind(&whole) == Ok(ResultKind::Recording) => {
            return figures::recording(name, text);
        }
        Ok(whole) => return of_value(name, &whole),
        Err(why) => why,
    };
    let first = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    match first {
        Some(first) if figures::is_sample(&first) => figures::recording(name, text),
        _ if text.is_empty() => Err(ResultError("the file is empty".to_owned())),
        _ if text.starts_with('{') => Err(ResultError(format!("no JSON, or cut off: {why}"))),
        _ => Err(ResultError(format!(
            "this is no result of ours: those are JSON (--json, --out). What other tools printed, nearside lab judge \
             reads ({why})"
        ))),
    }
}

/// Reads a result that stands in JSON, whichever command wrote it.
///
/// # Errors
/// If it is none of ours, of a form that is not known here, or what it says it is not.
pub fn of_value(name: &str, whole: &Value) -> Result<KnownResult, ResultError> {
    let kind = kind(whole)?;
    if let Some(schema) = whole.get("schema").filter(|schema| schema.as_u64() != Some(u64::from(SCHEMA))) {
        let command = kind.command();
        return Err(ResultError(format!("schema {schema} of {command} is not known here; {SCHEMA} is")));
    }
    if whole.as_object().is_some_and(|all| all.keys().all(|key| HEAD.contains(&key.as_str()))) {
        return Err(ResultError(format!("{} was begun and ended before it had a result", kind.command())));
    }
    let of = |key: &str| whole.get(key).or_else(|| whole.pointer(&format!("/measured/{key}")));
    // Experiments keep more of the machine than its fingerprint.
    let machine = of("environment")
        .or_else(|| whole.pointer("/machine/host"))
        .or_else(|| whole.get("machine"))
        .filter(|machine| !machine.is_null());
    let machine: Option<Fingerprint> = machine
        .map(|machine| serde_json::from_value(machine.clone()))
        .transpose()
        .map_err(|why| ResultError(format!("environment: {why}")))?;
    Ok(KnownResult {
        name: name.to_owned(),
        kind,
        verdict: OwnVerdict::of(whole),
        machine,
        asked: figures::asked(kind, whole),
        figures: figures::shown(match packet::is_one(kind) {
            true => packet::figures(kind, whole).map_err(|why| ResultError(format!("{}: {why}", kind.command())))?,
            false => figures::of(kind, whole),
        }),
    })
}

/// What a result is: as it says itself, or by what it holds.
fn kind(whole: &Value) -> Result<ResultKind, ResultError> {
    if let Some(name) = whole.get("kind").and_then(Value::as_str) {
        let unknown = || ResultError(format!("kind {name:?} is none that is known here"));
        return ResultKind::of_name(name).ok_or_else(unknown);
    }
    let has = |path: &str| whole.pointer(path).is_some();
    let list = |path: &str| whole.pointer(path).is_some_and(Value::is_array);
    let known = [
        (has("/setup") && has("/littles_law"), ResultKind::Load),
        (has("/setup/up_streams"), ResultKind::Bulk),
        (has("/setup/rate") && has("/own_delay"), ResultKind::Streams),
        (has("/setup") && has("/throughput"), ResultKind::Load),
        (has("/objectives") && has("/found"), ResultKind::FindMax),
        (list("/rows") && !has("/rules_with_evidence") && !has("/nginx"), ResultKind::LoadSweep),
        (has("/measured/runs") && has("/zero_loss"), ResultKind::ZeroLoss),
        (has("/result"), ResultKind::PacketLoad),
        (list("/runs"), ResultKind::PacketLatency),
        (list("/found"), ResultKind::PacketSearch),
        (list("/results") && has("/latency_definition"), ResultKind::Rfc2544),
        (list("/devices"), ResultKind::PacketLab),
        (list("/points"), ResultKind::PacketSweep),
        (has("/experiment") && list("/arms"), ResultKind::Experiment),
        (list("/cores") && has("/threshold_nanos"), ResultKind::Noise),
        (has("/ports") && has("/mode"), ResultKind::PacketForward),
        (figures::is_sample(whole), ResultKind::Recording),
        (has("/rules_with_evidence"), ResultKind::Audit),
        (list("/domains") && list("/interfaces"), ResultKind::Topology),
        (has("/generator") && list("/rows") && has("/nginx"), ResultKind::Demo),
    ];
    let found = known.into_iter().find(|(fits, _)| *fits).map(|(_, kind)| kind);
    found.ok_or_else(|| {
        ResultError(match foreign(whole) {
            Some(tool) => format!("this is {tool}'s, and no result of ours: nearside lab judge reads it"),
            None if whole.get("complete").and_then(Value::as_bool) == Some(false) => {
                "a measurement was begun here and ended before it had a result".to_owned()
            }
            None => "this is JSON, and no result of ours".to_owned(),
        })
    })
}

/// Whose JSON it is, if another's that is known.
fn foreign(whole: &Value) -> Option<&'static str> {
    let has = |path: &str| whole.pointer(path).is_some();
    let known = [
        (has("/end") && has("/start"), "iperf3"),
        (has("/latencies") && has("/status_codes"), "vegeta"),
        (has("/metrics/http_reqs"), "k6"),
        (has("/DurationHistogram"), "fortio"),
        (has("/summary/requestsPerSec"), "oha"),
    ];
    known.into_iter().find(|(fits, _)| *fits).map(|(_, tool)| tool)
}
