//! Pages of trials of frames, alone or beside backgrounds, of one run or of several over each other.

use super::ReadResult;
use super::method::{FORWARDER, PORT};
use crate::cells::{expected, list, table, texts, values};
use crate::measurement::ResultError;
use crate::packet;
use ::packet::kept::Kept;
use ::packet::table::{frames, latencies, notes, way};
use ::packet::trial::{LaneResult, LatencyDistribution};
use ::packet::verdict::spoilt;
use figures::{grouped, share};
use pages::{Axis, AxisScale, Chart, Page, PagePart, PageTable, Series};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Bins of a frequency curve.
const BINS: f64 = 90.0;

/// Of a trial's frames this share may be late: as for searches, where nothing else is asked for.
const LATE_LIMIT: f64 = 0.001;

/// The runs of results.
pub fn runs(page: &mut Page, all: &[ReadResult]) -> Result<(), ResultError> {
    let mut runs: Vec<(String, Kept)> = Vec::new();
    for (ReadResult { known, whole, .. }, told) in all.iter().zip(names(all)) {
        let found = packet::runs(known.kind, whole).map_err(|why| ResultError(format!("{}: {why}", known.name)))?;
        let before = if all.len() > 1 { format!("{told}: ") } else { String::new() };
        let name = |name: String| if name.is_empty() { "the trial".to_owned() } else { name };
        runs.extend(found.into_iter().map(|(own, kept)| (format!("{before}{}", name(own)), kept)));
        page.figure(expected("What was expected", list(whole, "/expectations"), "/expectation", "NOT MET"));
        page.tell(PagePart::List(texts(whole, "/told")));
        if whole["forwarder"].is_object() {
            page.tell(table("The forwarder: frames by link", PORT, list(whole, "/forwarder/ports")));
            page.tell(values("The forwarder", FORWARDER, &whole["forwarder"]));
        }
    }
    for (name, kept) in &runs {
        run(page, name, kept);
    }
    // What did not come to its end lacks frames by its end, and no device lost them.
    let whole: Vec<_> = runs.iter().filter(|(_, kept)| kept.result.complete).collect();
    let lanes = || whole.iter().flat_map(|(_, kept)| &kept.result.lanes);
    let (lost, offered): (u64, u64) = (lanes().map(LaneResult::lost).sum(), lanes().map(LaneResult::offered).sum());
    let (part, all) = (share(lost as f64 / offered.max(1) as f64), grouped(offered));
    page.head.answer.push(match lost {
        _ if whole.is_empty() => "Whether frames were lost is not known: it did not come to its end".to_owned(),
        0 => format!("No frame was lost of {all}"),
        _ => format!("{} of {all} frames were lost ({part})", grouped(lost)),
    });
    curves(page, &runs);
    Ok(())
}

/// Names of results that tell them apart: of their files as little as does, and a number where one is there twice.
fn names(all: &[ReadResult]) -> Vec<String> {
    let stem =
        |one: &ReadResult| Path::new(&one.known.name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = |one: &ReadResult| one.known.name.clone();
    let numbered = all.iter().enumerate().map(|(at, one)| format!("{} ({})", one.known.name, at + 1)).collect();
    let are_apart = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let shorter = [all.iter().map(stem).collect(), all.iter().map(whole).collect()];
    shorter.into_iter().find(are_apart).unwrap_or(numbered)
}

/// Why a run does not count, if it does not.
fn void(kept: &Kept) -> Option<String> {
    spoilt(&kept.result, kept.late_limit.unwrap_or(LATE_LIMIT))
}

fn run(page: &mut Page, name: &str, kept: &Kept) {
    page.figure(PagePart::Heading(name.to_owned()));
    if let Some(why) = void(kept) {
        page.figure(PagePart::Text(format!("Does not count: {why}.")));
    }
    let tables = [("Latency", latencies(&kept.result, kept.threshold_ns)), ("Frames", frames(&kept.result))];
    for (caption, mut rows) in tables {
        // A row is named by its stream and its way together.
        rows[0].remove(1);
        for row in &mut rows[1..] {
            let way = row.remove(1);
            row[0] = format!("{} {way}", row[0]);
        }
        page.figure(PageTable::headed(caption, rows));
    }
    page.figure(PagePart::List(notes(&kept.result)));
    let (seconds, links) = (kept.result.seconds, kept.links.join(" and "));
    page.tell(PagePart::Text(format!("{name}: {seconds:.1} s over {links}. {}", kept.clock.told)));
}

/// Latency curves of all runs: of probes, where there are any.
fn curves(page: &mut Page, runs: &[(String, Kept)]) {
    let probes = runs.iter().any(|(_, kept)| kept.result.lanes.iter().any(|lane| lane.probe));
    let mut drawn: Vec<(String, bool, &LatencyDistribution)> = Vec::new();
    for (name, kept) in runs {
        for lane in kept.result.lanes.iter().filter(|lane| lane.latency.samples > 0 && (lane.probe || !probes)) {
            let before = if runs.len() > 1 { format!("{name}: ") } else { String::new() };
            drawn.push((format!("{before}{} {}", lane.stream, way(lane)), void(kept).is_none(), &lane.latency));
        }
    }
    if drawn.is_empty() {
        return;
    }
    let percentiles = drawn.iter().map(|(name, counts, latency)| {
        let shares = (0..60).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0));
        let shares = shares.map(|share| (share, latency.quantile(share) as f64));
        Series::by_share(name, shares, latency.samples as f64, Some(latency.max_ns as f64)).counting(*counts)
    });
    page.curve(Chart::by_percentile("Latency by percentile", percentiles.collect()));
    let ends = || drawn.iter().map(|(.., latency)| (latency.min_ns.max(1) as f64, latency.max_ns.max(1) as f64));
    let (from, to) = ends().fold((f64::INFINITY, 1.0), |all, one| (f64::min(all.0, one.0), f64::max(all.1, one.1)));
    let step = (to / from).ln() / BINS;
    let bins = |(name, counts, latency): &(String, bool, &LatencyDistribution)| {
        Series::new(name, bins(latency, from, step)).counting(*counts).of_bins(step.exp())
    };
    let samples = Axis { scale: AxisScale::Logarithmic, ..Axis::whole("samples, in steps of equal ratio") };
    let bins = drawn.iter().map(bins).collect();
    page.curve(Chart::new("Samples by latency", Axis::times("latency"), samples, bins));
}

/// Counts in bins, each of which is longer than the one before by the same ratio, whose logarithm is `step`.
fn bins(latency: &LatencyDistribution, from: f64, step: f64) -> impl Iterator<Item = (f64, f64)> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (value, count) in &latency.buckets {
        let bin = ((*value).max(1) as f64 / from).ln() / step.max(1e-9);
        *counts.entry(bin.min(BINS - 1.0) as u64).or_default() += count;
    }
    counts.into_iter().map(move |(bin, count)| (from * ((bin as f64 + 0.5) * step).exp(), count as f64))
}
