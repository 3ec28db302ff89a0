//! Pages of trials of frames, alone or beside backgrounds, of one run or of several over each other.

use super::cells::{judged, list, text};
use crate::measurement::{KnownResult, ResultError};
use ::packet::kept::Kept;
use ::packet::table::{PERCENTILES, figures, stamps, way};
use ::packet::trial::{LaneResult, LatencyDistribution};
use ::packet::verdict::spoilt;
use environment::ResultKind;
use figures::{digits, grouped, seconds, share, si};
use pages::{Axis, AxisScale, Chart, CurvePoint, Page, PagePart, PageTable, Series, TableRow, nines};
use serde_json::Value;

/// Bins of a frequency curve.
const BINS: usize = 90;

/// Of a trial's frames this share may be late: as for searches, where nothing else is asked for.
const LATE_LIMIT: f64 = 0.001;

/// The runs of results.
pub fn runs(page: &mut Page, all: &[(KnownResult, Value, String)]) -> Result<(), ResultError> {
    let mut runs: Vec<(String, Kept)> = Vec::new();
    for (known, whole, _) in all {
        let told = |why: serde_json::Error| ResultError(format!("{}: {why}", known.name));
        let before = if all.len() > 1 { format!("{}: ", stem(&known.name)) } else { String::new() };
        let of = |path: &str| whole.pointer(path).cloned().unwrap_or_default();
        let found: Vec<(String, Kept)> = match known.kind {
            ResultKind::PacketLoad => {
                let beside = Some(text(whole, "/beside")).filter(|beside| !beside.is_empty());
                vec![(
                    beside.unwrap_or_else(|| "the trial".to_owned()),
                    serde_json::from_value(whole.clone()).map_err(told)?,
                )]
            }
            ResultKind::PacketLatency => serde_json::from_value(of("/runs")).map_err(told)?,
            _ => serde_json::from_value(of("/measured/runs")).map_err(told)?,
        };
        runs.extend(found.into_iter().map(|(name, kept)| (format!("{before}{name}"), kept)));
        let expected = list(whole, "/expectations").iter().map(|one| {
            let missed = one.get("met") != Some(&Value::Bool(true));
            judged(vec![text(one, "/expectation")], missed.then(|| "NOT MET".to_owned()), "met")
        });
        page.figures.push(PageTable::new("What was expected", &["", "verdict"]).with(expected).into());
        page.method.push(PagePart::Whole("The forwarder".to_owned(), format!("{:#}", of("/forwarder"))));
        page.method.retain(|part| !matches!(part, PagePart::Whole(_, text) if text == "null"));
    }
    for (name, kept) in &runs {
        run(page, name, kept);
    }
    let lanes = || runs.iter().flat_map(|(_, kept)| &kept.result.lanes);
    let (lost, offered): (u64, u64) = (lanes().map(LaneResult::lost).sum(), lanes().map(LaneResult::offered).sum());
    page.head.answer.push(match lost {
        0 => format!("No frame was lost of {}", grouped(offered)),
        _ => format!(
            "{} of {} frames were lost ({})",
            grouped(lost),
            grouped(offered),
            share(lost as f64 / offered.max(1) as f64)
        ),
    });
    curves(page, &runs);
    Ok(())
}

fn stem(name: &str) -> String {
    std::path::Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Why a run does not count, if it does not.
fn void(kept: &Kept) -> Option<String> {
    spoilt(&kept.result, LATE_LIMIT)
}

fn run(page: &mut Page, name: &str, kept: &Kept) {
    let result = &kept.result;
    let mut heads: Vec<String> = ["latency, µs", "min", "median", "mean", "max"].map(str::to_owned).into();
    heads.extend(PERCENTILES.iter().map(|at| format!("p{}", at * 100.0)));
    heads.extend(["samples".to_owned(), format!("> {}", seconds(kept.threshold_ns as f64))]);
    page.figures.push(PagePart::Heading(name.to_owned()));
    if let Some(why) = void(kept) {
        page.figures.push(PagePart::Text(format!("Does not count: {why}.")));
    }
    let rows = result.lanes.iter().map(|lane| {
        let counts = [grouped(lane.latency.samples), grouped(lane.latency.above(kept.threshold_ns))];
        TableRow::from(
            [vec![format!("{} {}", lane.stream, way(lane))], figures(&lane.latency), counts.to_vec()].concat(),
        )
    });
    page.figures.push(PageTable { caption: String::new(), heads, rows: rows.collect() }.into());
    let heads =
        ["frames", "bytes each", "sent", "rate", "lost", "at the entrance", "twice", "out of order", "damaged", "loss"];
    page.figures.push(PageTable::new("", &heads).with(result.lanes.iter().map(frames)).into());
    let lanes = result.lanes.iter().filter_map(|lane| Some((lane, lane.stamped.as_ref()?)));
    let mut notes: Vec<String> =
        lanes.map(|(lane, stamped)| format!("{} {}: {}", lane.stream, way(lane), stamps(stamped))).collect();
    if result.damaged_unknown > 0 {
        notes.push(format!("{} damaged frames cannot be told apart, and count as lost, too", result.damaged_unknown));
    }
    let (late, longest) = (share(result.late_share()), seconds(result.stalls.longest_ns as f64));
    notes.push(format!(
        "of the tester's frames {late} were late or not sent; it was away for {longest} at a time at most"
    ));
    page.figures.push(PagePart::List(notes));
    page.method.push(PagePart::Text(format!(
        "{name}: {:.1} s over {}. {}",
        result.seconds,
        kept.links.join(" and "),
        kept.clock.told
    )));
}

fn frames(lane: &LaneResult) -> Vec<String> {
    let loss = match lane.loss_bound() {
        Some(bound) => format!("0, below {bound:.1e} at 95 %"),
        None => share(lane.loss_ratio()),
    };
    vec![
        format!("{} {}", lane.stream, way(lane)),
        format!("{:.0}", lane.mean_size),
        grouped(lane.sent.frames),
        si(lane.rate, "/s"),
        grouped(lane.lost()),
        grouped(lane.sent.entrance),
        grouped(lane.arrivals.duplicates),
        grouped(lane.arrivals.reordered),
        grouped(lane.damaged),
        loss,
    ]
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
        let one = |(name, counts, latency): &(String, bool, &LatencyDistribution)| {
            let points = points(latency).into_iter();
            let points = points.map(|point| CurvePoint { counts: *counts, ..CurvePoint::from(point) }).collect();
            Series { name: name.clone(), points, largest: None }
        };
        drawn.iter().map(one).collect()
    };
    let mut percentiles = of(&|latency| by_nines(latency));
    percentiles.iter_mut().zip(&drawn).for_each(|(series, drawn)| series.largest = Some(drawn.2.max_ns as f64));
    page.curves.push(Chart::by_percentile("Latency by percentile", percentiles).into());
    let over = |low: f64, high: f64| {
        let at = |quantile| drawn.iter().map(move |(.., latency)| latency.quantile(quantile) as f64);
        (at(low).fold(f64::INFINITY, f64::min), at(high).fold(0.0, f64::max))
    };
    for (title, (from, to), y) in [
        ("Samples by latency", over(0.0, 0.9999), AxisScale::Logarithmic),
        ("Samples by latency, around the median", over(0.05, 0.95), AxisScale::Linear),
    ] {
        let x = Axis::new("latency, µs", AxisScale::Near, digits);
        let y = Axis::new("samples", y, |count| si(count, ""));
        page.curves
            .push(Chart { title: title.to_owned(), x, y, series: of(&|latency| bins(latency, from, to)) }.into());
    }
}

/// Counts in equal bins of microseconds between two latencies.
pub fn bins(latency: &LatencyDistribution, from: f64, to: f64) -> Vec<(f64, f64)> {
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
pub fn by_nines(latency: &LatencyDistribution) -> Vec<(f64, f64)> {
    let shares = (0..60).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0));
    shares.map_while(|at| Some((nines(at), latency.sound_quantile(at)? as f64))).collect()
}
