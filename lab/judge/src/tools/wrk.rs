//! wrk (`wrk.c`, `units.c`) and wrk2, which prints the recorded spectrum as well.

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let two = text.has("HdrHistogram") || text.has("Thread calibration");
    // wrk 4 adds samples to its histogram for what it thinks was due
    // (stats_correct); wrk2's latency counts from the time that was planned.
    let (name, little) = if two { ("wrk2", Little::Not) } else { ("wrk", Little::Adds) };
    let mut run =
        PublishedRun { name: name.into(), tool: name, little, sized_with_head: true, ..PublishedRun::default() };
    let mut latency = Latency { name: "latency".into(), off: Some(0.02), ..Latency::default() };
    let (mut threads, mut each, mut spectrum) = (None, None, Latency::default());
    let mut asked = None;
    let mut section = "";
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", time, "test", "@", url] => {
                asked = Interval::time(time, number).ok();
                if run.path.is_some() {
                    return Err(ReadError::new(number, "a second run begins: give each a file of its own"));
                }
                run.path = Some(path(url).to_owned());
            }
            [n, "threads", "and", c, "connections"] => threads = Some(connections(&mut run, n, c, number)?),
            // Of nothing: of a run that is over before wrk2's threads were calibrated, or
            // that nobody answered.
            ["Latency" | "Req/Sec", mean, .., within] if is_none(mean) || is_none(within) => {}
            ["Latency", mean, deviation, max, within] => {
                let time = |text| Interval::time(text, number).at(number).map(Some);
                (latency.mean, latency.deviation, latency.max) = (time(mean)?, time(deviation)?, time(max)?);
                share(&mut run, within, number)?;
            }
            ["Req/Sec", mean, _, _, within] => {
                each = Some(metric(mean, number)?);
                share(&mut run, within, number)?;
            }
            ["Latency", "Distribution", ..] => section = "distribution",
            ["Uncorrected", "Latency", ..] | ["Detailed", ..] => section = "",
            [percent, value] if section == "distribution" && percent.ends_with('%') => {
                let percent = Interval::printed(percent.trim_end_matches('%'), number).at(number)?.middle();
                latency.percentiles.push((percent / 100.0, Interval::time(value, number).at(number)?));
            }
            [n, "requests", "in", time, read, "read"] => all(&mut run, (n, time, read), number)?,
            ["Non-2xx", "or", "3xx", "responses:", n] => failures(&mut run, n, number)?,
            ["Socket", "errors:", counts @ ..] => {
                for n in counts.iter().skip(1).step_by(2) {
                    failures(&mut run, n.trim_end_matches(','), number)?;
                }
            }
            ["Requests/sec:", rate] => once(&mut run.rate, Interval::printed(rate, number).at(number)?, "the rate")?,
            ["Transfer/sec:", rate] => {
                let rate = Interval::bytes(rate, 1024.0, number).at(number)?;
                once(&mut run.received_rate, rate, "the transfer rate")?;
            }
            _ if line.starts_with("#[") => recorded(line, number, &mut spectrum)?,
            _ => {}
        }
    }
    if run.rate.is_none() || run.received_rate.is_none() || run.requests.is_none() || run.connections.is_none() {
        return Err(text.cut("Requests/sec and Transfer/sec"));
    }
    run.relations.extend(asked.zip(run.seconds).map(|(asked, took)| lasted(asked, took)));
    if is_unanswered(&mut run) {
        return Ok(run);
    }
    // Of a corrected histogram, the number of samples is not the requests.
    latency.samples = spectrum.samples;
    twice(&mut run, &latency, &spectrum);
    threads_make_rate(&mut run, threads, each);
    run.latency.push(if two { latency.of_buckets() } else { latency });
    Ok(run)
}

/// The connections; returns the threads.
fn connections(run: &mut PublishedRun, threads: &str, all: &str, line: usize) -> Result<Interval, ReadError> {
    once(&mut run.connections, Interval::count(all, line).at(line)?, "the connections")?;
    Interval::count(threads, line).at(line)
}

/// A run ends when its time is over; threads that are busy look at the clock a little later.
fn lasted(asked: Interval, took: Interval) -> Relation {
    let right = asked.loose(0.1) + Interval { low: 0.0, high: 10.0, line: 0 };
    let says = "the run lasted longer than it was to";
    let arithmetic = format!("{took} s of {asked} s that were asked for");
    Relation::new("duration", (took, AtMost, right), says, arithmetic, "the time by a clock beside the tool")
}

/// Whether there is nothing to judge; then the run says so, and its failures are not
/// counted beside none.
fn is_unanswered(run: &mut PublishedRun) -> bool {
    let Some(none) = run.requests.filter(|requests| requests.high == 0.0) else { return false };
    let says = "no request was answered: no figure here is of a server";
    run.relations.push(Relation::missing("failures", none.line, says.to_owned(), "a run that is answered"));
    run.failed = None;
    true
}

/// What C prints of zero by zero, whatever its sign.
fn is_none(figure: &str) -> bool {
    figure.trim_start_matches('-').starts_with("nan")
}

/// Requests, the time that they took, and the bytes that came.
fn all(run: &mut PublishedRun, (n, time, read): (&str, &str, &str), line: usize) -> Result<(), ReadError> {
    once(&mut run.requests, Interval::count(n, line).at(line)?, "the requests")?;
    once(&mut run.seconds, Interval::time(time.trim_end_matches(','), line).at(line)?, "the time")?;
    once(&mut run.received, Interval::bytes(read, 1024.0, line).at(line)?, "the bytes")
}

fn failures(run: &mut PublishedRun, count: &str, line: usize) -> Result<(), ReadError> {
    let count = Interval::count(count, line).at(line)?;
    run.failed = Some(run.failed.map_or(count, |failed| failed + count));
    Ok(())
}

fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// `19.93k`: thousands, millions.
fn metric(text: &str, line: usize) -> Result<Interval, ReadError> {
    let (digits, unit) = Interval::split(text);
    let power =
        crate::figure::prefix_power(unit).ok_or_else(|| ReadError::new(line, format!("{unit:?} is no unit")))?;
    Ok(Interval::printed(digits, line).at(line)?.times(1000_f64.powi(power)))
}

fn share(run: &mut PublishedRun, text: &str, line: usize) -> Result<(), ReadError> {
    let Some(digits) = text.strip_suffix('%') else {
        return Err(ReadError::new(line, format!("{text:?} is no share: it is cut off, or another version's")));
    };
    let share = Interval::printed(digits, line).at(line)?;
    let right = Interval::exact(100.0, line);
    let says = "more than all samples lie within one deviation";
    run.relations.push(Relation::new("share", (share, AtMost, right), says, format!("{share} %"), "all samples"));
    Ok(())
}

/// `#[Mean    =        6.459, StdDeviation   =        3.130]`, in milliseconds.
fn recorded(line: &str, number: usize, spectrum: &mut Latency) -> Result<(), ReadError> {
    for part in line.trim_start_matches("#[").trim_end_matches(']').split(',') {
        let Some((key, value)) = part.split_once('=') else { continue };
        if is_none(value.trim()) {
            continue;
        }
        let value = Interval::printed(value.trim(), number).at(number)?;
        match key.trim() {
            "Mean" if spectrum.mean.is_some() => return Ok(()),
            "Mean" => spectrum.mean = Some(value.times(1e-3)),
            "StdDeviation" => spectrum.deviation = Some(value.times(1e-3)),
            "Max" => spectrum.max = Some(value.times(1e-3)),
            "Total count" => spectrum.samples = Some(value.middle()),
            _ => {}
        }
    }
    Ok(())
}

fn twice(run: &mut PublishedRun, latency: &Latency, spectrum: &Latency) {
    for (what, ours, theirs) in [
        ("mean", latency.mean, spectrum.mean),
        ("deviation", latency.deviation, spectrum.deviation),
        ("maximum", latency.max, spectrum.max),
    ] {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { continue };
        let says = format!("the {what} of the latency is printed with two values");
        let arithmetic = format!("{ours} s and {theirs} s");
        // The histogram's buckets are of three digits.
        let triple = (ours, Equal, theirs.loose(0.002));
        run.relations.push(Relation::new("printed-twice", triple, says, arithmetic, "wrk2's output as it printed it"));
    }
    if let (Some(requests), Some(samples)) = (run.requests, spectrum.samples) {
        let left = Interval::exact(samples, requests.line);
        let says = "more samples than requests";
        let arithmetic = format!("{left} samples of {requests} requests");
        run.relations.push(Relation::new("count", (left, AtMost, requests), says, arithmetic, "wrk2's whole output"));
    }
}

/// Each thread samples its rate ten times a second, so that the sum is near
/// the rate over the whole run, in runs that are long enough.
fn threads_make_rate(run: &mut PublishedRun, threads: Option<Interval>, each: Option<Interval>) {
    let (Some(threads), Some(each), Some(rate), Some(seconds)) = (threads, each, run.rate, run.seconds) else { return };
    if seconds.low < 1.5 {
        return;
    }
    let says = "the threads' rates do not make up the whole rate";
    let arithmetic = format!("{threads} threads × {each}/s = {}/s; {rate}/s is said", threads * each);
    let triple = (rate, Equal, (threads * each).loose(0.3));
    let proof = "rates by interval, over the whole run";
    run.relations.push(Relation::new("rate", triple, says, arithmetic, proof).unproven());
}
