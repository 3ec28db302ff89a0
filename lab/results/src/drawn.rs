//! Pages of results: each made of what stands in the result, so that one that was kept has the
//! same page as one that was just measured.
//!
//! | module | pages of |
//! | --- | --- |
//! | `load` | loads, searches for the highest rate, sweeps |
//! | `frames` | trials of frames, probes, the published measurement |
//! | `method` | RFC 2544, searches, devices, settings of a device, forwarders |
//! | `machine` | noise, recordings, audits, topologies |
//! | `domains` | a topology as a picture |
//! | `sides` | two sides compared |

mod domains;
mod frames;
mod load;
mod machine;
mod method;
mod sides;

use crate::cells::{plain, text, texts};
use crate::measurement::{KnownResult, OwnVerdict, ResultError, Worth};
use crate::read::{parts_of_text, whole_of};
use environment::{Fingerprint, ResultKind, ResultOrigin};
use figures::many;
use pages::{Page, PageHead, PageTable, PageVerdict, Tone, quoted};
use serde_json::Value;

/// A result, read: what is known of it, as a value, and as it stands there.
pub struct ReadResult {
    known: KnownResult,
    whole: Value,
    text: String,
}

/// The picture of a topology, as its page has it, as one SVG document that stands by itself.
#[must_use]
pub fn topology_svg(whole: &Value) -> String {
    pages::svg_page([&domains::places(whole).into()])
}

/// How a page is filled.
#[derive(Clone, Copy)]
enum Draw {
    /// Of one result.
    One(fn(&mut Page, &Value)),
    /// Of all of them.
    All(fn(&mut Page, &[ReadResult]) -> Result<(), ResultError>),
}

/// Every kind whose pages are filled here: the title, and how. Experiments and the demo fill theirs.
const PAGES: [(ResultKind, &str, Draw); 18] = [
    (ResultKind::Load, "A load", Draw::One(load::load)),
    (ResultKind::FindMax, "The highest rate that meets its objectives", Draw::One(load::found)),
    (ResultKind::LoadSweep, "Loads by connections and threads", Draw::One(load::sweep)),
    (ResultKind::Bulk, "Streams without end", Draw::One(load::bulk)),
    (ResultKind::Streams, "Streams that are to have a rate", Draw::One(load::streams)),
    (ResultKind::PacketLoad, "Packets: loss and latency", Draw::All(frames::runs)),
    (ResultKind::PacketSearch, "Rates that a device bears, by RFC 9971", Draw::One(method::search)),
    (ResultKind::PacketLatency, "Latency beside a background", Draw::All(frames::runs)),
    (ResultKind::Rfc2544, "RFC 2544", Draw::One(method::rfc2544)),
    (ResultKind::ZeroLoss, "Zero loss: a probe beside a background", Draw::All(frames::runs)),
    (ResultKind::PacketLab, "Devices compared", Draw::One(method::devices)),
    (ResultKind::PacketSweep, "A device's settings, one changed at a time", Draw::One(method::factors)),
    (ResultKind::PacketForward, "A forwarder", Draw::One(method::forwarder)),
    (ResultKind::Noise, "What takes busy cores' time", Draw::One(machine::noise)),
    (ResultKind::Recording, "A machine over time", Draw::All(machine::recording)),
    (ResultKind::Audit, "Settings judged", Draw::One(machine::audit)),
    (ResultKind::Topology, "The machine's topology", Draw::One(machine::topology)),
    (ResultKind::Budget, "What a rate costs a machine", Draw::One(machine::budget)),
];

/// The page of one result, which is JSON.
///
/// # Errors
/// If it is no result of ours.
pub fn page_of(result: &Value) -> Result<Page, ResultError> {
    page(&[("the result".to_owned(), format!("{result:#}\n"))])
}

/// The page of results of one measurement, by their names: one, or runs drawn over each other.
///
/// # Errors
/// If one is no result of ours, or they are of different measurements.
pub fn page(files: &[(String, String)]) -> Result<Page, ResultError> {
    let mut all: Vec<ReadResult> = Vec::new();
    for (name, text) in files {
        let parts = parts_of_text(name, text)?.into_iter();
        all.extend(parts.map(|(known, text)| ReadResult { known, whole: whole_of(&text), text }));
    }
    let Some((first, others)) = all.split_first() else { return Err(ResultError("there is no result".to_owned())) };
    let kind = first.known.kind;
    let of_kind = PAGES.into_iter().find(|(of, ..)| *of == kind);
    let (_, title, draw) =
        of_kind.ok_or_else(|| ResultError(format!("{}: nearside lab report makes its page", first.known.name)))?;
    if let Some(other) = others.iter().find(|other| other.known.kind != kind) {
        let (one, other) = (&first.known.name, &other.known.name);
        return Err(ResultError(format!("{one} and {other} are results of two measurements")));
    }
    let heads: Vec<PageHead> = all.iter().map(|one| head(title, &one.known, &one.whole)).collect();
    let mut page = Page::new(of_all(&all, &heads));
    if heads.len() > 1 {
        let named = all.iter().map(|one| one.known.name.clone());
        page.tell(runs("The runs", named.zip(heads)));
    }
    match draw {
        Draw::One(draw) => draw(&mut page, &first.whole),
        Draw::All(draw) => draw(&mut page, &all)?,
    }
    page.compares = kind.is_compared();
    page.results = named(kind, kind.name(), all.into_iter().map(|one| one.text));
    Ok(page)
}

/// The same, for whoever was asked to make it: of several results, each of which tells of its own command, the one that
/// made the page.
///
/// # Errors
/// As [`page`].
pub fn page_of_files(files: &[(String, String)]) -> Result<Page, ResultError> {
    let mut page = page(files)?;
    if page.results.len() > 1 {
        page.head.command = ResultOrigin::now().command;
    }
    Ok(page)
}

/// The head of a page of several results: whom and when they are of, and what each says against itself.
fn of_all(all: &[ReadResult], heads: &[PageHead]) -> PageHead {
    let mut head = heads[0].clone();
    if let [_, others @ ..] = heads
        && !others.is_empty()
    {
        let mut of: Vec<&str> = heads.iter().map(|head| head.of.as_str()).collect();
        of.dedup();
        (head.of, head.made) = (of.join("; "), heads.iter().map(|head| head.made).max().unwrap_or(0));
        // None of theirs makes them all.
        head.command = Vec::new();
        let worst = heads.iter().map(|head| &head.verdict.word).max_by_key(|word| Tone::of(word));
        head.verdict.word = worst.cloned().unwrap_or_default();
        let why = |(one, head): (&ReadResult, &PageHead)| {
            head.verdict.reasons.iter().map(|why| format!("{}: {why}", one.known.name)).collect::<Vec<_>>()
        };
        head.verdict.reasons = all.iter().zip(heads).flat_map(why).collect();
    }
    head
}

/// When and by what each of several results was measured, by their names and heads.
fn runs(caption: &str, all: impl Iterator<Item = (String, PageHead)>) -> PageTable {
    let row = |(name, head): (String, PageHead)| vec![name, head.when(), quoted(&head.command), head.verdict.word];
    PageTable::new(caption, &["result", "when", "again", "verdict"]).with(all.map(row))
}

/// Results with the names that their files are to have.
fn named(kind: ResultKind, stem: &str, texts: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let end = if kind == ResultKind::Recording { "ndjson" } else { "json" };
    let number = |at: usize| if at > 0 { format!("-{}", at + 1) } else { String::new() };
    texts.into_iter().enumerate().map(|(at, text)| (format!("{stem}{}.{end}", number(at)), text)).collect()
}

pub use sides::{NO_VERDICT, compared as page_of_sides};

/// What a result says at its head.
fn head(title: &str, known: &KnownResult, whole: &Value) -> PageHead {
    let command = texts(whole, "/command");
    let made = whole.get("made").or_else(|| whole.pointer("/measured/made")).and_then(Value::as_u64);
    // A recording may be of any machine, wherever it is replayed.
    let of = match (known.kind, &known.machine) {
        (ResultKind::Recording, Some(machine)) => machine.processor.clone(),
        (ResultKind::Recording, None) => "a machine of which the recording does not tell".to_owned(),
        _ => of_whom(whole, &command),
    };
    PageHead {
        title: title.to_owned(),
        of,
        made: made.unwrap_or(0),
        verdict: verdict(known, whole),
        answer: Vec::new(),
        machine: known.machine.as_ref().map_or_else(Vec::new, Fingerprint::told),
        command,
    }
}

/// Whom the figures are of: as the result says, or its command.
fn of_whom(whole: &Value, command: &[String]) -> String {
    if let Some(setup) = whole.get("setup") {
        // Streams without end are never secured, and have one target.
        let scheme = Some(text(setup, "/scheme")).filter(|scheme| !scheme.is_empty());
        let scheme = scheme.as_deref().unwrap_or("http");
        let targets = text(setup, "/targets") + &text(setup, "/target");
        let others = setup["requests"].as_u64().unwrap_or(1).saturating_sub(1);
        let others = if others > 0 { format!(" and {}", many(others, "other request")) } else { String::new() };
        return format!("{scheme}://{}{}{others} ({targets})", text(setup, "/host"), text(setup, "/path"));
    }
    let links = whole.get("links").or_else(|| whole.pointer("/runs/0/1/links"));
    let links = links.or_else(|| whole.pointer("/measured/runs/0/1/links"));
    if let Some(links) = links {
        return plain(links);
    }
    let urls: Vec<&str> = command.iter().map(String::as_str).filter(|word| word.contains("://")).collect();
    if urls.is_empty() { "this machine".to_owned() } else { urls.join(", ") }
}

/// Where nobody said what figures are worth.
fn not_judged(why: &str) -> PageVerdict {
    PageVerdict { word: "NOT JUDGED".to_owned(), reasons: vec![why.to_owned()] }
}

/// What a result says that it is worth. Recordings and topologies say what there was; of others, one
/// that says nothing is of an earlier version, and one whose word is not known perhaps of a later one.
fn verdict(result: &KnownResult, whole: &Value) -> PageVerdict {
    let says_nothing = match result.kind {
        ResultKind::Recording | ResultKind::Topology => Some("it tells what there was, and judges nothing"),
        ResultKind::Budget => Some("a model, by what is measured, published or assumed: each part says which"),
        _ => None,
    };
    let plain = says_nothing.map(|why| OwnVerdict { worth: Worth::Complete, reasons: vec![why.to_owned()] });
    match result.verdict.as_ref().or(plain.as_ref()) {
        Some(own) => PageVerdict { word: own.worth.word().to_owned(), reasons: own.reasons.clone() },
        None => match text(whole, "/verdict/word") {
            word if word.is_empty() => {
                not_judged("the result does not say what it is worth: an earlier version wrote it")
            }
            word => not_judged(&format!("the result says that it is {word}, which this version does not know")),
        },
    }
}
