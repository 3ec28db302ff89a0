//! What was found as lines for people.

use super::ask::Condition;
use super::{Method, Settings, SizeResult};
use crate::modifiers::Modified;
use crate::table::columns;
use core::fmt::Write;
use figures::{grouped, seconds, share, si};

/// Tables as RFC 2544 asks for: a row for each frame size, of every condition.
#[must_use]
pub fn render(method: &Method) -> String {
    let mut out = String::new();
    for condition in Condition::ALL {
        let of = |result: &&SizeResult| result.condition == condition;
        let results: Vec<&SizeResult> = method.results().iter().filter(of).collect();
        if results.is_empty() {
            continue;
        }
        let _ = writeln!(out, "== {condition}; rates in frames/s of each direction");
        rates(&mut out, &results, method.settings());
        losses(&mut out, &results);
        for result in &results {
            rest(&mut out, result);
        }
        let _ = writeln!(out);
    }
    out
}

const NONE: &str = "-";

fn rates(out: &mut String, results: &[&SizeResult], settings: &Settings) {
    let heads =
        ["bytes", "way", "line", "tester", "throughput", "of line", "latency", "typical", "worst", "burst", "buffer"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for result in results {
        let rate = result.rate();
        // No rate that the tester can send failed, and the line has room for more: so may the device.
        let unbounded = result.throughput.as_ref().is_some_and(|found| found.upper.is_none());
        let whole = settings.line_rate.is_some()
            && rate.is_some_and(|rate| rate >= result.theoretical * (1.0 - settings.width));
        let bound = if unbounded && !whole { "at least " } else { "" };
        let burst = result.back_to_back.as_ref();
        let first = |text: String| if text.is_empty() { NONE.to_owned() } else { text };
        let row = |way: &str, latency: [String; 3]| {
            let [mean, typical, worst] = latency;
            vec![
                result.size.to_string(),
                way.to_owned(),
                grouped(result.theoretical as u64),
                grouped(result.sendable as u64),
                first(rate.map_or_else(String::new, |rate| format!("{bound}{}", grouped(rate as u64)))),
                rate.map_or_else(|| NONE.to_owned(), |rate| share(rate / result.theoretical.max(1.0))),
                mean,
                typical,
                worst,
                burst.map_or_else(|| NONE.to_owned(), |burst| grouped(burst.mean as u64)),
                burst.map_or_else(|| NONE.to_owned(), |burst| seconds(burst.buffer_seconds * 1e9)),
            ]
        };
        if result.latency.is_empty() {
            rows.push(row(NONE, [NONE, NONE, NONE].map(str::to_owned)));
        }
        for latency in &result.latency {
            let worst = latency.worst_ns.map_or_else(|| NONE.to_owned(), |nanos| seconds(nanos as f64));
            rows.push(row(&latency.way, [seconds(latency.mean_ns), seconds(latency.typical_ns as f64), worst]));
        }
    }
    columns(out, &rows);
}

fn losses(out: &mut String, results: &[&SizeResult]) {
    let most = results.iter().map(|result| result.loss.len()).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let mut rows = vec![vec!["loss at".to_owned(), String::new()]];
    rows[0].extend((0..most).map(|step| format!("{} %", 100 - 10 * step)));
    for result in results {
        let mut row = vec![format!("{} bytes", result.size), String::new()];
        row.extend(result.loss.iter().map(|point| match point.lost {
            0 => "0".to_owned(),
            lost => share(lost as f64 / point.offered.max(1) as f64),
        }));
        rows.push(row);
    }
    columns(out, &rows);
}

fn rest(out: &mut String, result: &SizeResult) {
    let size = result.size;
    for latency in &result.latency {
        if let Some(stamped) = &latency.stamped {
            let _ = writeln!(out, "{size} bytes, latency {}: {}", latency.way, stamped.told());
        }
    }
    if let Some(burst) = &result.back_to_back {
        let _ = writeln!(
            out,
            "{size} bytes, back-to-back: {} searches, frames mean {:.0} min {} max {} deviation {:.1}, at {}",
            burst.frames.len(),
            burst.mean,
            grouped(burst.min),
            grouped(burst.max),
            burst.deviation,
            si(burst.burst_rate, "/s")
        );
    }
    if let Some(recovery) = &result.recovery {
        let known: Vec<f64> = recovery.seconds.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let _ = writeln!(
            out,
            "{size} bytes, recovery: from {} to {}, losses end after {} on average of {} trials",
            si(recovery.rates.0, "/s"),
            si(recovery.rates.1, "/s"),
            seconds(mean * 1e9),
            known.len()
        );
    }
    if let Some(reset) = &result.reset {
        for (silent, lost) in reset.silent_seconds.iter().zip(&reset.lost_seconds) {
            let silent =
                silent.map_or_else(|| "for the rest of the trial".to_owned(), |s| format!("for {}", seconds(s * 1e9)));
            let _ = writeln!(
                out,
                "{size} bytes, reset: nothing came {silent}; by frames lost {} (RFC 6201)",
                seconds(lost * 1e9)
            );
        }
    }
    if let Some(of) = &result.modified {
        let _ = writeln!(out, "{size} bytes, in the place of test frames: {}", modified(result.condition, of));
    }
    for why in &result.not_applicable {
        let _ = writeln!(out, "{size} bytes: n/a: {why}");
    }
}

fn modified(condition: Condition, of: &Modified) -> String {
    let mut told = format!("{} sent", grouped(of.sent));
    if of.refused > 0 {
        let _ = write!(told, ", {} found the ring full", grouped(of.refused));
    }
    let _ = match condition {
        Condition::Management => write!(told, ", {} answered, {} wrongly", grouped(of.answered), grouped(of.wrong)),
        _ => write!(told, ", {} came", grouped(of.came)),
    };
    if of.near > 0 {
        let _ = write!(
            told,
            "; of {} of them to networks that updates told of {} came, and of {} to others {}",
            grouped(of.near),
            grouped(of.near_came),
            grouped(of.far),
            grouped(of.far_came)
        );
    }
    told
}
