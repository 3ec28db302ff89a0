//! Pages of trials of frames, alone or beside backgrounds, of one run or of several over each other.

use super::ReadResult;
use super::cells::{expected, list, text};
use crate::measurement::ResultError;
use ::packet::kept::Kept;
use ::packet::table::{frames, latencies, notes, way};
use ::packet::trial::{LaneResult, LatencyDistribution};
use ::packet::verdict::spoilt;
use environment::ResultKind;
use figures::{digits, grouped, share};
use pages::{Axis, AxisScale, Chart, Page, PagePart, PageTable, Series, nines};
use std::path::Path;

/// Bins of a frequency curve.
const BINS: usize = 90;

/// Of a trial's frames this share may be late: as for searches, where nothing else is asked for.
const LATE_LIMIT: f64 = 0.001;

/// The runs of results.
pub fn runs(page: &mut Page, all: &[ReadResult]) -> Result<(), ResultError> {
    let mut runs: Vec<(String, Kept)> = Vec::new();
    for ReadResult { known, whole, .. } in all {
        let told = |why: serde_json::Error| ResultError(format!("{}: {why}", known.name));
        let found = match known.kind {
            ResultKind::PacketLoad => {
                let beside = text(whole, "/beside");
                let name = if beside.is_empty() { "the trial".to_owned() } else { beside };
                serde_json::from_value(whole.clone()).map(|kept| vec![(name, kept)])
            }
            ResultKind::PacketLatency => serde_json::from_value(whole["runs"].clone()),
            _ => serde_json::from_value(whole["measured"]["runs"].clone()),
        };
        let stem = Path::new(&known.name).file_stem().unwrap_or_default().to_string_lossy();
        let before = if all.len() > 1 { format!("{stem}: ") } else { String::new() };
        runs.extend(found.map_err(told)?.into_iter().map(|(name, kept)| (format!("{before}{name}"), kept)));
        page.figure(expected("What was expected", list(whole, "/expectations"), "/expectation", "NOT MET"));
        if whole["forwarder"].is_object() {
            page.tell(PagePart::Whole("The forwarder".to_owned(), format!("{:#}", whole["forwarder"])));
        }
    }
    for (name, kept) in &runs {
        run(page, name, kept);
    }
    let lanes = || runs.iter().flat_map(|(_, kept)| &kept.result.lanes);
    let (lost, offered): (u64, u64) = (lanes().map(LaneResult::lost).sum(), lanes().map(LaneResult::offered).sum());
    let (part, all) = (share(lost as f64 / offered.max(1) as f64), grouped(offered));
    page.head.answer.push(match lost {
        0 => format!("No frame was lost of {all}"),
        _ => format!("{} of {all} frames were lost ({part})", grouped(lost)),
    });
    curves(page, &runs);
    Ok(())
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
    for mut rows in [latencies(&kept.result, kept.threshold_ns), frames(&kept.result)] {
        // A row is named by its stream and its way together.
        rows[0].remove(1);
        for row in &mut rows[1..] {
            let way = row.remove(1);
            row[0] = format!("{} {way}", row[0]);
        }
        page.figure(PageTable::headed("", rows));
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
    let of = |points: &dyn Fn(&LatencyDistribution) -> Vec<(f64, f64)>| -> Vec<Series> {
        drawn.iter().map(|(name, counts, latency)| Series::new(name, points(latency)).counting(*counts)).collect()
    };
    let mut percentiles = of(&by_nines);
    percentiles.iter_mut().zip(&drawn).for_each(|(series, drawn)| series.largest = Some(drawn.2.max_ns as f64));
    page.curve(Chart::by_percentile("Latency by percentile", percentiles));
    for (title, low, high, scale) in [
        ("Samples by latency", 0.0, 0.9999, AxisScale::Logarithmic),
        ("Samples by latency, around the median", 0.05, 0.95, AxisScale::Linear),
    ] {
        let at = |quantile| drawn.iter().map(move |(.., latency)| latency.quantile(quantile) as f64);
        let (from, to) = (at(low).fold(f64::INFINITY, f64::min), at(high).fold(0.0, f64::max));
        let x = Axis::new("latency, µs", AxisScale::Near, digits);
        let y = Axis { scale, ..Axis::counts("samples") };
        page.curve(Chart::new(title, x, y, of(&|latency| bins(latency, from, to))));
    }
}

/// Counts in equal bins of microseconds between two latencies.
fn bins(latency: &LatencyDistribution, from: f64, to: f64) -> Vec<(f64, f64)> {
    let width = ((to - from) / BINS as f64).max(1.0);
    let mut counts = [0_u64; BINS + 1];
    for (value, count) in &latency.buckets {
        let at = (*value as f64 - from) / width;
        if (0.0..=BINS as f64).contains(&at) {
            counts[at as usize] += count;
        }
    }
    let middle = |bin: usize| (from + (bin as f64 + 0.5) * width) / 1e3;
    let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    some.map(|(bin, count)| (middle(bin), *count as f64)).collect()
}

/// Latency by nines, up to where ten samples lie beyond.
fn by_nines(latency: &LatencyDistribution) -> Vec<(f64, f64)> {
    let shares = (0..60).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0));
    shares.map_while(|at| Some((nines(at), latency.sound_quantile(at)? as f64))).collect()
}
