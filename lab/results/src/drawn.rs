//! Pages of results: each made of what stands in the result, so that one that was kept has the
//! same page as one that was just measured.
//!
//! | module | pages of |
//! | --- | --- |
//! | `load` | loads, searches for the highest rate, sweeps |
//! | `frames` | trials of frames, probes, the published measurement |
//! | `method` | RFC 2544, searches, devices, settings of a device |
//! | `machine` | noise, recordings, audits, topologies |
//! | `sides` | two sides compared |
//! | `cells` | values as cells of tables |

mod cells;
mod frames;
mod load;
mod machine;
mod method;
mod sides;

use crate::measurement::{KnownResult, OwnVerdict, ResultError, Worth};
use crate::read::{parts_of_text, whole_of};
use cells::{text, texts};
use environment::{Fingerprint, ResultKind};
use pages::{Page, PageHead, PageTable, PageVerdict, Tone};
use serde_json::Value;

/// The page of results of one measurement, by their names: one, or runs drawn over each other.
///
/// # Errors
/// If one is no result of ours, or they are of different measurements.
pub fn page(files: &[(String, String)]) -> Result<Page, ResultError> {
    let mut all: Vec<(KnownResult, Value, String)> = Vec::new();
    for (name, text) in files {
        for (known, text) in parts_of_text(name, text)? {
            all.push((known, whole_of(&text), text));
        }
    }
    let Some((first, whole, _)) = all.first() else { return Err(ResultError("there is no result".to_owned())) };
    let mut page = Page::new(head(first, whole));
    if let [_, others @ ..] = all.as_slice() {
        for (other, ..) in others {
            if other.kind != first.kind {
                return Err(ResultError(format!("{} and {} are results of two measurements", first.name, other.name)));
            }
            let verdict = verdict(other);
            page.head.verdict.reasons.extend(verdict.reasons.iter().map(|why| format!("{}: {why}", other.name)));
            if rank(verdict.tone) > rank(page.head.verdict.tone) {
                (page.head.verdict.word, page.head.verdict.tone) = (verdict.word, verdict.tone);
            }
        }
    }
    match first.kind {
        ResultKind::Load => load::load(&mut page, whole),
        ResultKind::FindMax => load::found(&mut page, whole),
        ResultKind::LoadSweep => load::sweep(&mut page, whole),
        ResultKind::PacketLoad | ResultKind::PacketLatency | ResultKind::ZeroLoss => frames::runs(&mut page, &all)?,
        ResultKind::Rfc2544 => method::rfc2544(&mut page, whole),
        ResultKind::PacketSearch => method::search(&mut page, whole),
        ResultKind::PacketLab => method::devices(&mut page, whole),
        ResultKind::PacketSweep => method::factors(&mut page, whole),
        ResultKind::Noise => machine::noise(&mut page, whole),
        ResultKind::Recording => machine::recording(&mut page, &all[0].2)?,
        ResultKind::Audit => machine::audit(&mut page, whole),
        ResultKind::Topology => machine::topology(&mut page, whole),
        ResultKind::Bulk | ResultKind::PacketForward | ResultKind::Experiment | ResultKind::Demo => {
            page.figures.push(figures(first).into());
        }
    }
    let name = |at: usize, kind: ResultKind| match all.len() {
        1 => format!("{}.{}", kind.name(), if kind == ResultKind::Recording { "ndjson" } else { "json" }),
        _ => format!("{}-{}.json", kind.name(), at + 1),
    };
    let results = all.iter().enumerate().map(|(at, (known, _, text))| (name(at, known.kind), text.clone()));
    page.results = results.collect();
    Ok(page)
}

pub use sides::compared as page_of_sides;

/// What a result says at its head.
fn head(result: &KnownResult, whole: &Value) -> PageHead {
    let command = texts(whole, "/command");
    let made = whole.get("made").or_else(|| whole.pointer("/measured/made")).and_then(Value::as_u64);
    PageHead {
        title: title(result.kind).to_owned(),
        of: of_whom(whole, &command),
        made: made.filter(|seconds| *seconds > 0),
        verdict: verdict(result),
        answer: Vec::new(),
        machine: result.machine.as_ref().map_or_else(Vec::new, Fingerprint::told),
        command,
    }
}

const fn title(kind: ResultKind) -> &'static str {
    match kind {
        ResultKind::Load => "A load",
        ResultKind::FindMax => "The highest rate that meets its objectives",
        ResultKind::LoadSweep => "Loads by connections and threads",
        ResultKind::Bulk => "Streams without end",
        ResultKind::PacketLoad => "Packets: loss and latency",
        ResultKind::PacketSearch => "Rates that a device bears, by RFC 9971",
        ResultKind::PacketLatency => "Latency beside a background",
        ResultKind::Rfc2544 => "RFC 2544",
        ResultKind::ZeroLoss => "Zero loss: a probe beside a background",
        ResultKind::PacketLab => "Devices compared",
        ResultKind::PacketSweep => "A device's settings, one changed at a time",
        ResultKind::PacketForward => "A forwarder",
        ResultKind::Experiment => "An experiment",
        ResultKind::Demo => "Nearside versus nginx",
        ResultKind::Noise => "What takes busy cores' time",
        ResultKind::Recording => "A machine over time",
        ResultKind::Audit => "Settings judged",
        ResultKind::Topology => "The machine's topology",
    }
}

/// Whom the figures are of: as the result says, or its command.
fn of_whom(whole: &Value, command: &[String]) -> String {
    if let Some(setup) = whole.get("setup") {
        let url = format!("{}://{}{}", text(setup, "/scheme"), text(setup, "/host"), text(setup, "/path"));
        return format!("{url} ({})", text(setup, "/targets"));
    }
    let links = whole.get("links").or_else(|| whole.pointer("/runs/0/1/links"));
    let links = links.or_else(|| whole.pointer("/measured/runs/0/1/links"));
    if let Some(links) = links {
        return cells::plain(links);
    }
    let urls: Vec<&str> = command.iter().map(String::as_str).filter(|word| word.contains("://")).collect();
    if urls.is_empty() { "this machine".to_owned() } else { urls.join(", ") }
}

/// Where nobody said what figures are worth.
fn not_judged(why: &str) -> PageVerdict {
    PageVerdict { word: "NOT JUDGED".to_owned(), tone: Tone::Mind, reasons: vec![why.to_owned()] }
}

/// What a result says that it is worth. Recordings and topologies say what there was; of others, one
/// that says nothing is of an earlier version.
fn verdict(result: &KnownResult) -> PageVerdict {
    let plain = OwnVerdict { worth: Worth::Complete, reasons: Vec::new() };
    let says_nothing = matches!(result.kind, ResultKind::Recording | ResultKind::Topology).then_some(plain);
    let Some(own) = result.verdict.as_ref().or(says_nothing.as_ref()) else {
        return not_judged("the result does not say what it is worth: an earlier version wrote it");
    };
    let tone = match own.worth {
        Worth::Complete => Tone::Good,
        Worth::Partial => Tone::Mind,
        Worth::Invalid => Tone::Bad,
    };
    PageVerdict { word: own.worth.word().to_owned(), tone, reasons: own.reasons.clone() }
}

const fn rank(tone: Tone) -> u8 {
    match tone {
        Tone::Plain | Tone::Good => 0,
        Tone::Mind => 1,
        Tone::Bad => 2,
    }
}

/// All figures of a result that are compared with another's.
fn figures(result: &KnownResult) -> PageTable {
    let row = |one: &packet::compare::RunFigure| vec![one.of.clone(), one.figure.clone(), one.unit.show(one.value)];
    PageTable::new("", &["of", "figure", "value"]).with(result.figures.iter().map(row))
}
