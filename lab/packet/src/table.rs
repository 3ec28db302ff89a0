//! A trial's results as lines for people.

use crate::trial::{LaneResult, LatencyDistribution, Stamped, TrialResult};
use core::fmt::Write;
use figures::{digits, grouped, many, seconds, share, si};

/// The percentiles that the table names, beside the median.
const PERCENTILES: [f64; 3] = [0.95, 0.999, 0.9999];

/// Ports as people call them.
#[must_use]
pub fn way(lane: &LaneResult) -> String {
    let letter = |port: usize| if port == 0 { 'A' } else { 'B' };
    format!("{}→{}", letter(lane.from), letter(lane.to))
}

/// Everything: what was sent and came by stream and direction, latencies, and
/// what of the tester itself is to be known.
#[must_use]
pub fn render(result: &TrialResult, threshold_ns: u64) -> String {
    let mut out = String::new();
    columns(&mut out, &frames(result));
    lines(&mut out, result.lanes.iter().flat_map(losses));
    out.push('\n');
    columns(&mut out, &latencies(result, threshold_ns));
    lines(&mut out, result.lanes.iter().filter_map(stamped));
    out.push('\n');
    lines(&mut out, tester(result));
    out
}

/// The sentences of [`render`], without its tables.
#[must_use]
pub fn notes(result: &TrialResult) -> Vec<String> {
    let lanes = result.lanes.iter();
    lanes.clone().flat_map(losses).chain(lanes.filter_map(stamped)).chain(tester(result)).collect()
}

fn lines(out: &mut String, lines: impl IntoIterator<Item = String>) {
    lines.into_iter().for_each(|line| _ = writeln!(out, "{line}"));
}

/// Columns under heads; the first two are names.
pub(crate) fn columns(out: &mut String, rows: &[Vec<String>]) {
    out.push_str(&figures::columns(rows, |column| column < 2));
}

/// What was sent and came, a row for each stream and direction below the heads.
#[must_use]
pub fn frames(result: &TrialResult) -> Vec<Vec<String>> {
    let heads =
        ["stream", "way", "bytes", "sent", "rate", "received", "lost", "entrance", "twice", "out of order", "damaged"];
    let row = |lane: &LaneResult| {
        vec![
            lane.stream.clone(),
            way(lane),
            format!("{:.0}", lane.mean_size),
            grouped(lane.sent.frames),
            si(lane.rate, "/s"),
            grouped(lane.received),
            grouped(lane.losses.frames),
            grouped(lane.sent.entrance),
            grouped(lane.arrivals.duplicates),
            grouped(lane.arrivals.reordered),
            grouped(lane.damaged),
        ]
    };
    [heads.map(str::to_owned).to_vec()].into_iter().chain(result.lanes.iter().map(row)).collect()
}

/// What was lost, and what of a capture was not sent.
fn losses(lane: &LaneResult) -> Vec<String> {
    let name = format!("{} {}", lane.stream, way(lane));
    let (lost, offered, share) = (grouped(lane.lost()), grouped(lane.offered()), share(lane.loss_ratio()));
    let loss = match lane.loss_bound() {
        Some(bound) => {
            // What a share shows by three digits and more needs no power of ten.
            let bound = if bound < 1e-3 { format!("{bound:.1e}") } else { figures::share(bound) };
            format!("{name}: 0 lost of {offered}: at most {bound} of all at 95 %, if losses are independent")
        }
        None if lane.offered() == 0 => format!("{name}: nothing was sent"),
        None if lane.replayed => format!(
            "{name}: {lost} lost of {offered} ({share}); {} of its frames came more often than they were sent",
            grouped(lane.arrivals.duplicates)
        ),
        None => format!(
            "{name}: {lost} lost of {offered} ({share}), within the device in {} runs, the longest of {}",
            grouped(lane.losses.events),
            grouped(lane.losses.longest)
        ),
    };
    let not_sent = if lane.replayed { not_sent(lane) } else { String::new() };
    let not_sent = (!not_sent.is_empty()).then(|| format!("{name}: of the capture not sent: {not_sent}"));
    not_sent.into_iter().chain([loss]).collect()
}

/// Frames of a capture that were never sent, and why.
fn not_sent(lane: &LaneResult) -> String {
    let sent = &lane.sent;
    let reasons = [
        (sent.entrance, "found the ring full (lost at the entrance)"),
        (sent.missed, "were due while the tester was away (--catch-up)"),
        (sent.too_long, "were too long for the link"),
        (lane.unreached, "were not due before the end (--duration)"),
    ];
    let told = reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{} {why}", grouped(*count)));
    told.collect::<Vec<_>>().join(", ")
}

/// Microseconds, as the field tells latencies.
fn micros(nanos: f64) -> String {
    digits(nanos / 1e3)
}

/// Latencies, a row for each stream and direction below the heads.
#[must_use]
pub fn latencies(result: &TrialResult, threshold_ns: u64) -> Vec<Vec<String>> {
    let mut heads = ["latency, µs", "way", "min", "median", "mean", "max"].map(str::to_owned).to_vec();
    heads.extend(PERCENTILES.iter().map(|at| format!("p{}", at * 100.0)));
    heads.extend(["samples".to_owned(), format!("> {}", seconds(threshold_ns as f64))]);
    let row = |lane: &LaneResult| {
        let counts = [grouped(lane.latency.samples), grouped(lane.latency.above(threshold_ns))];
        [vec![lane.stream.clone(), way(lane)], figures(&lane.latency), counts.to_vec()].concat()
    };
    [heads].into_iter().chain(result.lanes.iter().map(row)).collect()
}

fn stamped(lane: &LaneResult) -> Option<String> {
    Some(format!("{} {}: {}", lane.stream, way(lane), stamps(lane.stamped.as_ref()?)))
}

/// By which stamps latencies are, and what the tester's own clock says.
fn stamps(stamped: &Stamped) -> String {
    let mut line = format!("by {} of {} frames", stamped.by, grouped(stamped.frames));
    if stamped.missing() > 0 {
        let _ = write!(line, " ({} came without both)", grouped(stamped.missing()));
    }
    if stamped.bound_ns > 0.0 {
        let _ = write!(line, ", each within {} (the clocks of two ports)", seconds(stamped.bound_ns));
    }
    let tester = &stamped.tester;
    if tester.samples > 0 {
        let [min, median] = [tester.min_ns, tester.quantile(0.5)].map(|nanos| micros(nanos as f64));
        let _ =
            write!(line, "; by the tester's own clock min {min} median {median} max {}", micros(tester.max_ns as f64));
    }
    match stamped.doubt() {
        Some(why) => format!("{line}; NOT TO BE USED: {why}"),
        None => line,
    }
}

/// Min, median, mean, max and the percentiles; a dash for what too few samples
/// stand behind.
fn figures(latency: &LatencyDistribution) -> Vec<String> {
    if latency.samples == 0 {
        return vec!["-".to_owned(); 4 + PERCENTILES.len()];
    }
    let mut cells = vec![
        micros(latency.min_ns as f64),
        micros(latency.quantile(0.5) as f64),
        micros(latency.mean_ns),
        micros(latency.max_ns as f64),
    ];
    let sound = |at: &f64| latency.sound_quantile(*at).map_or_else(|| "-".to_owned(), |nanos| micros(nanos as f64));
    cells.extend(PERCENTILES.iter().map(sound));
    cells
}

fn tester(result: &TrialResult) -> Vec<String> {
    let stalls = &result.stalls;
    let mut all = vec![format!(
        "the tester: away {} times, {} in all, at most {}; {} of its frames late or not sent",
        grouped(stalls.count),
        seconds(stalls.total_ns as f64),
        seconds(stalls.longest_ns as f64),
        share(result.late_share())
    )];
    for lane in result.lanes.iter().filter(|lane| lane.gaps.samples > 0) {
        let gaps = &lane.gaps;
        all.push(format!(
            "  {} {}: between frames p1 {} p50 {} p99 {}, other than due by p99 {}; after the time due p50 {} p99 {} \
             max {}",
            lane.stream,
            way(lane),
            seconds(gaps.p1_ns as f64),
            seconds(gaps.p50_ns as f64),
            seconds(gaps.p99_ns as f64),
            seconds(gaps.deviation_p99_ns as f64),
            seconds(gaps.behind_p50_ns as f64),
            seconds(gaps.behind_p99_ns as f64),
            seconds(gaps.behind_max_ns as f64)
        ));
    }
    let sum = |each: fn(&LaneResult) -> u64| result.lanes.iter().map(each).sum::<u64>();
    let counts = [
        (
            result.damaged_unknown,
            "frame",
            "came damaged or made up; those of ours that did not come otherwise count as lost",
        ),
        (result.earlier_marks, "frame", "were of an earlier trial of this program"),
        (result.others_marks, "frame", "had the mark of a trial that was none of this program's"),
        (result.foreign, "frame", "were nobody's we know"),
        (sum(|lane| lane.strayed), "frame", "came by a port other than that of its way"),
        (sum(|lane| lane.arrivals.too_late), "frame", "came too late to be told from duplicates"),
        (sum(|lane| lane.backwards), "frame", "came before sent, by marks and the clock"),
        (sum(|lane| lane.sent.timeouts), "probe", "were given up"),
        (sum(|lane| lane.sent.too_long), "frame", "were too long for the link"),
    ];
    all.extend(counts.iter().filter(|(count, ..)| *count > 0).map(|(count, what, told)| {
        let told = if *count == 1 { told.replacen("were ", "was ", 1) } else { (*told).to_owned() };
        format!("{} {told}", many(*count, what))
    }));
    all.extend(result.clock_doubt.iter().map(|why| format!("INVALID latencies: {why}")));
    if !result.complete {
        all.push(format!("stopped after {:.1} of {:.1} s", result.seconds, result.intended_seconds));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Losses, Sent};

    #[test]
    fn frames_of_a_capture_that_were_not_sent_are_told_with_the_reason() {
        let sent = Sent { frames: 9, missed: 1_200, too_long: 2, ..Sent::default() };
        let lane =
            LaneResult { stream: "replay".into(), to: 1, sent, replayed: true, unreached: 5, ..LaneResult::default() };
        let text = render(&TrialResult { lanes: vec![lane], complete: true, ..TrialResult::default() }, 15_000);
        let line = "replay A→B: of the capture not sent: 1,200 were due while the tester was away (--catch-up), 2 were \
                    too long for the link, 5 were not due before the end (--duration)";
        assert!(text.lines().any(|it| it == line), "{text}");
    }

    #[test]
    fn a_table_as_the_published_measurement_has_it() {
        let latency = LatencyDistribution {
            samples: 100_000,
            min_ns: 2_100,
            mean_ns: 8_700.0,
            max_ns: 17_100,
            buckets: vec![(2_100, 1), (8_650, 99_989), (12_000, 5), (17_100, 5)],
        };
        let lane = LaneResult {
            stream: "probe".into(),
            to: 1,
            mean_size: 76.0,
            rate: 10_000.0,
            sent: Sent { frames: 100_000, ..Sent::default() },
            received: 100_000,
            latency,
            ..LaneResult::default()
        };
        let lost = LaneResult {
            stream: "load".into(),
            from: 1,
            sent: Sent { frames: 10, entrance: 10, timeouts: 1, ..Sent::default() },
            losses: Losses { frames: 5, events: 2, longest: 4 },
            ..LaneResult::default()
        };
        let result = TrialResult { lanes: vec![lane, lost], foreign: 3, complete: true, ..TrialResult::default() };
        let text = render(&result, 15_000);
        for line in [
            "stream  way  bytes     sent      rate  received  lost  entrance  twice  out of order  damaged",
            "probe   A→B     76  100,000  10.0 k/s   100,000     0         0      0             0        0",
            "probe A→B: 0 lost of 100,000: at most 3.0e-5 of all at 95 %, if losses are independent",
            "load B→A: 15 lost of 20 (75 %), within the device in 2 runs, the longest of 4",
            "latency, µs  way   min  median  mean   max   p95  p99.9  p99.99  samples  > 15.0 µs",
            "probe        A→B  2.10    8.65  8.70  17.1  8.65   8.65    8.65  100,000          5",
            "load         B→A     -       -     -     -     -      -       -        0          0",
            "3 frames were nobody's we know",
            "1 probe was given up",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
