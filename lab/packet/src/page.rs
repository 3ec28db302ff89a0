//! One page of HTML that needs nothing but itself: the table, the curves of
//! one run or of several over each other, and how to do it again.

use crate::table::{PERCENTILES, figures, stamps, way};
use crate::trial::{LaneResult, LatencyDistribution, TrialResult};
use figures::{grouped, seconds, share, si};
use report::{Axis, Chart, Page, Series};
use serde::{Deserialize, Serialize};

/// Bins of a frequency curve.
const BINS: usize = 90;

/// What `load --out` keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// How it is done again.
    pub command: Vec<String>,
    /// It came to its end.
    pub complete: bool,
    /// Which clock, and its error.
    pub clock: Clock,
    /// The links.
    pub links: Vec<String>,
    /// Latencies above it are counted.
    pub threshold_ns: u64,
    /// What was measured.
    pub result: TrialResult,
}

/// The clock of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// A sentence about it.
    pub told: String,
}

/// The page for runs, each with a name.
#[must_use]
pub fn render(runs: &[(String, Kept)]) -> String {
    let mut page = Page::new("Packets: loss and latency");
    for (name, kept) in runs {
        run(&mut page, name, kept);
    }
    curves(&mut page, runs);
    page.finish()
}

fn run(page: &mut Page, name: &str, kept: &Kept) {
    let result = &kept.result;
    page.heading(name);
    for doubt in doubts(kept) {
        page.doubt(&doubt);
    }
    page.paragraph(&format!("{:.1} s over {}. {}", result.seconds, kept.links.join(" and "), kept.clock.told));
    let mut heads: Vec<String> = ["latency, µs", "min", "median", "mean", "max"].map(str::to_owned).into();
    heads.extend(PERCENTILES.iter().map(|at| format!("p{}", at * 100.0)));
    heads.extend(["samples".to_owned(), format!("> {}", seconds(kept.threshold_ns as f64))]);
    let rows = result.lanes.iter().map(|lane| {
        let mut cells = vec![format!("{} {}", lane.stream, way(lane))];
        cells.extend(figures(&lane.latency));
        cells.extend([grouped(lane.latency.samples), grouped(lane.latency.above(kept.threshold_ns))]);
        cells
    });
    page.table(&heads, &rows.collect::<Vec<_>>());
    for lane in &result.lanes {
        if let Some(stamped) = &lane.stamped {
            page.paragraph(&format!("{} {}: {}.", lane.stream, way(lane), stamps(stamped)));
        }
    }
    let heads = [
        "frames",
        "bytes each",
        "sent",
        "rate",
        "lost",
        "of these at the entrance",
        "twice",
        "out of order",
        "damaged",
        "loss",
    ];
    page.table(&heads.map(str::to_owned), &result.lanes.iter().map(frames).collect::<Vec<_>>());
    page.again(&kept.command);
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

/// What a reader should know before the figures.
fn doubts(kept: &Kept) -> Vec<String> {
    let result = &kept.result;
    let mut doubts = Vec::new();
    if !kept.complete {
        doubts.push(format!(
            "This run did not come to its end: {:.1} of {:.1} s.",
            result.seconds, result.intended_seconds
        ));
    }
    if let Some(why) = result.stamps_doubt() {
        doubts.push(format!("Its latencies are not to be used: {why}."));
    }
    let late = result.late_share();
    if late > 0.001 {
        let longest = seconds(result.stalls.longest_ns as f64);
        doubts.push(format!(
            "The tester was away, at most {longest} at a time: {} of its frames were sent late or not at all.",
            share(late)
        ));
    }
    if result.damaged_unknown > 0 {
        doubts.push(format!("{} damaged frames cannot be told apart, and count as lost, too.", result.damaged_unknown));
    }
    doubts
}

/// Latency curves of all runs: of probes, where there are any.
fn curves(page: &mut Page, runs: &[(String, Kept)]) {
    let probes = runs.iter().any(|(_, kept)| kept.result.lanes.iter().any(|lane| lane.probe));
    let several = runs.len() > 1;
    let mut drawn: Vec<(String, &LatencyDistribution)> = Vec::new();
    for (name, kept) in runs {
        for lane in kept.result.lanes.iter().filter(|lane| lane.latency.samples > 0 && (lane.probe || !probes)) {
            let prefix = if several { format!("{name} ") } else { String::new() };
            drawn.push((format!("{prefix}{} {}", lane.stream, way(lane)), &lane.latency));
        }
    }
    if drawn.is_empty() {
        return;
    }
    let over = |low: f64, high: f64| {
        let at = |quantile| drawn.iter().map(move |(_, latency)| latency.quantile(quantile) as f64);
        (at(low).fold(f64::INFINITY, f64::min), at(high).fold(0.0, f64::max))
    };
    page.heading("Latency");
    for (title, (from, to), logarithmic) in [
        ("Samples by latency", over(0.0, 0.9999), true),
        ("Samples by latency, around the median", over(0.05, 0.95), false),
    ] {
        let series = drawn.iter().map(|(name, latency)| Series { name: name.clone(), points: bins(latency, from, to) });
        page.svg(&chart(title, ("latency, µs", false), ("samples", logarithmic), series.collect()).svg());
    }
    let series = drawn.iter().map(|(name, latency)| Series { name: name.clone(), points: nines(latency) });
    page.svg(
        &chart(
            "Latency by percentile",
            ("nines: 1 is p90, 3 is p99.9", false),
            ("latency, µs", true),
            series.collect(),
        )
        .svg(),
    );
}

fn chart(title: &str, x: (&str, bool), y: (&str, bool), series: Vec<Series>) -> Chart {
    let axis = |(label, logarithmic): (&str, bool)| Axis {
        label: label.to_owned(),
        logarithmic,
        format: |value| figures::digits(value),
    };
    Chart { title: title.to_owned(), x: axis(x), y: axis(y), series }
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
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(bin, count)| (middle(bin), *count as f64))
        .collect()
}

/// Latency by log10(1 ÷ (1 − p)), up to where ten samples lie beyond.
fn nines(latency: &LatencyDistribution) -> Vec<(f64, f64)> {
    let steps = (0..60).map(|step| f64::from(step) / 10.0);
    let points = steps.map_while(|nines| {
        let at = 1.0 - 10_f64.powf(-nines);
        Some((nines, latency.sound_quantile(at)? as f64 / 1e3))
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(max_ns: u64, complete: bool) -> Kept {
        let latency = LatencyDistribution {
            samples: 10_000,
            min_ns: 2_000,
            mean_ns: 5_000.0,
            max_ns,
            buckets: (0..100).map(|n| (2_000 + n * 50, 99)).chain([(max_ns, 100)]).collect(),
        };
        let lane = LaneResult { stream: "probe <76>".into(), to: 1, probe: true, latency, ..LaneResult::default() };
        Kept {
            command: vec!["nearside".into(), "packet".into(), "--expect=max<1s".into()],
            complete,
            clock: Clock { told: "clock: a & b".into() },
            links: vec!["memif:@a".into()],
            threshold_ns: 15_000,
            result: TrialResult { lanes: vec![lane], ..TrialResult::default() },
        }
    }

    #[test]
    fn a_page_has_table_curves_and_the_command() {
        let page = render(&[("run <1>".to_owned(), kept(17_000, true)), ("run 2".to_owned(), kept(30_000, false))]);
        for part in [
            "<td>probe &lt;76&gt; A→B</td><td>2.00</td>",
            "<code>nearside packet --expect=max&lt;1s</code>",
            "Samples by latency, around the median",
            "This run did not come to its end",
            "run &lt;1&gt; probe &lt;76&gt; A→B",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(!page.contains("http://") || page.matches("http://").count() == page.matches("www.w3.org").count());
        let tags = |open: &str| page.matches(open).count();
        assert_eq!((tags("<tr>"), tags("<table>")), (tags("</tr>"), tags("</table>")));
    }

    #[test]
    fn curves_hold_every_sample_and_end_where_too_few_lie_beyond() {
        let latency = kept(17_000, true).result.lanes[0].latency.clone();
        let points = bins(&latency, 2_000.0, 17_000.0);
        assert_eq!(points.iter().map(|(_, count)| *count).sum::<f64>(), 10_000.0);
        let nines = nines(&latency);
        // Ten of ten thousand lie beyond p99.9.
        assert!((nines.last().expect("points").0 - 3.0).abs() < 1e-9);
    }
}
