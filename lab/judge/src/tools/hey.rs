//! hey (`requester/print.go`) and oha (`src/printer.rs`), whose form is alike.

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let name = if text.starts("Success rate:") { "oha" } else { "hey" };
    let mut run = PublishedRun { name: name.into(), tool: name, little: Little::Not, ..PublishedRun::default() };
    let mut latency = Latency { name: "response time".into(), off: Some(0.02), ..Latency::default() };
    let [mut counted, mut failed, mut refused, mut cut] = [None::<Interval>; 4];
    let (mut distribution, mut codes, mut answered, mut parts) = (false, "", true, false);
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Total:", time @ ..] => once(&mut run.seconds, seconds(time, number)?, "Total")?,
            ["Slowest:" | "Fastest:", "inf" | "-inf", _] | ["Average:", "NaN", _] => answered = false,
            [_, "in", "NaN", _] => distribution = true,
            // The same again, of answers by their codes: oha's --stats-success-breakdown.
            ["Response", "time", _, .., "only):"] => parts = true,
            [_, "in", ..] if parts => {}
            ["Size/request:", "NaN"] => {}
            ["Slowest:", time @ ..] => once(&mut latency.max, seconds(time, number)?, "Slowest")?,
            ["Fastest:", time @ ..] => once(&mut latency.min, seconds(time, number)?, "Fastest")?,
            ["Average:", time @ ..] => once(&mut latency.mean, seconds(time, number)?, "Average")?,
            ["Requests/sec:", rate] => once(&mut run.rate, Interval::printed(rate, number).at(number)?, "the rate")?,
            ["Total", "data:", size @ ..] => run.received = Some(bytes(size, number)?),
            ["Size/request:", size @ ..] => run.size = Some(bytes(size, number)?),
            ["Size/sec:", size @ ..] => run.received_rate = Some(bytes(size, number)?),
            ["Status", "code", "distribution:"] => codes = "status",
            ["Error", "distribution:"] => codes = "error",
            [code, n, "responses"] if codes == "status" && code.starts_with('[') => {
                let n = Interval::count(n, number).at(number)?;
                counted = Some(counted.map_or(n, |sum| sum + n));
                if !code.starts_with("[2") && !code.starts_with("[3") {
                    refused = Some(refused.map_or(n, |sum| sum + n));
                }
            }
            // What was under way when the time was over did not fail.
            [n, "aborted", "due", "to", "deadline"] if codes == "error" => {
                cut = Some(Interval::count(n.trim_matches(['[', ']']), number).at(number)?);
            }
            [n, ..] if codes == "error" && n.starts_with('[') => {
                let n = Interval::count(n.trim_matches(['[', ']']), number).at(number)?;
                failed = Some(failed.map_or(n, |sum| sum + n));
            }
            [percent, "in", time @ ..] if percent.contains('%') => {
                distribution = true;
                latency.percentiles.extend(percentile(percent, time, number)?);
            }
            _ => {}
        }
    }
    failed = if answered { failed } else { failed.or(cut) };
    if let (false, None, Some(failed)) = (answered, counted, failed) {
        (latency, distribution) = (Latency::default(), true);
        counted = Some(Interval::exact(0.0, failed.line));
    }
    let (rate, time) = match (run.rate, run.seconds, distribution) {
        (Some(rate), Some(time), true) => (rate, time),
        (Some(rate), Some(time), _) if answered && is_alone(text, codes) => return Ok(alone(run, latency, rate, time)),
        _ => return Err(text.cut("the summary, or the latency distribution")),
    };
    let Some(counted) = counted else { return Err(text.cut("the status code distribution")) };
    let unknown = name == "oha" && failed.or(cut).is_none();
    let all = requests(counted, failed, cut.filter(|_| answered), unknown);
    rate_of(&mut run, all, rate, time);
    size(&mut run, counted);
    latency.samples = Some(counted.middle());
    run.requests = Some(all);
    run.failed = failed.into_iter().chain(refused).reduce(|sum, more| sum + more);
    run.latency.extend(answered.then_some(latency));
    // The rate was checked with the errors in it.
    run.seconds = run.seconds.filter(|_| failed.or(cut).is_none() && !unknown);
    Ok(run)
}

/// Whether nothing stands behind the summary.
fn is_alone(text: &Text, codes: &str) -> bool {
    codes.is_empty() && !text.starts("Response time histogram:")
}

/// The block of the summary alone, as articles print it: how many were answered is not in it, nor
/// how many failed. Responses are no more than what the rate and the time make.
fn alone(mut run: PublishedRun, mut latency: Latency, rate: Interval, time: Interval) -> PublishedRun {
    let all = rate * time;
    latency.samples = Some(all.middle());
    if let (Some(total), Some(size)) = (run.received, run.size.take()) {
        let size = Interval { low: size.low, high: size.high + 1.0, line: size.line };
        let says = "the total is more than all requests times the size of one";
        let arithmetic = format!("{rate}/s × {time} s × {size} B = {} B; {total} B are said", all * size);
        let triple = (total, AtMost, all * size);
        run.relations.push(Relation::new("transfer", triple, says, arithmetic, "bytes counted at the interface"));
    }
    run.latency.push(latency);
    run
}

/// Of percentiles that it has too few samples for, hey prints 0 % and 0.
fn percentile(percent: &str, time: &[&str], line: usize) -> Result<Option<(f64, Interval)>, ReadError> {
    let percent = Interval::printed(percent.trim_end_matches('%'), line).at(line)?.middle();
    let time = seconds(time, line)?;
    Ok((percent > 0.0).then_some((percent / 100.0, time)))
}

/// Errors count as requests in the rate; those that the end cut off, in some versions. Where a file ends before
/// them, nobody knows how many these are.
fn requests(counted: Interval, failed: Option<Interval>, cut: Option<Interval>, unknown: bool) -> Interval {
    let all = failed.map_or(counted, |failed| counted + failed);
    let all = if unknown { Interval { high: all.high * 1.01, ..all } } else { all };
    cut.map_or(all, |cut| Interval { high: all.high + cut.high, ..all })
}

fn rate_of(run: &mut PublishedRun, all: Interval, rate: Interval, time: Interval) {
    let says = "the rate is not the responses divided by the duration";
    let arithmetic = format!("{all} / {time} s = {}/s; {rate}/s is said", all / time);
    let proof = "count and duration of one and the same phase";
    run.relations.push(Relation::new("rate", (rate, Equal, all / time), says, arithmetic, proof));
}

/// Size/request is cut to whole bytes; oha prints it scaled.
fn size(run: &mut PublishedRun, counted: Interval) {
    if let (Some(total), Some(size)) = (run.received, run.size.take()) {
        let size = Interval { low: size.low, high: size.high + 0.5, line: size.line };
        let says = "the total is not the responses times the size of one";
        let arithmetic = format!("{counted} × {size} B = {} B; {total} B are said", counted * size);
        let triple = (total, Equal, counted * size);
        run.relations.push(Relation::new("transfer", triple, says, arithmetic, "bytes counted at the interface"));
    }
}

fn seconds(words: &[&str], line: usize) -> Result<Interval, ReadError> {
    match words {
        [digits, unit @ ("secs" | "sec" | "ms" | "us" | "ns" | "s")] => {
            Interval::time(&format!("{digits}{unit}"), line).at(line)
        }
        [digits, "secs," | "sec,"] => Interval::time(&format!("{digits}s"), line).at(line),
        _ => Err(ReadError::new(line, "a time and its unit belong here")),
    }
}

fn bytes(words: &[&str], line: usize) -> Result<Interval, ReadError> {
    match words {
        [digits, "bytes"] => Interval::count(digits, line).at(line),
        [digits, unit] => Interval::bytes(&format!("{digits}{unit}"), 1000.0, line).at(line),
        _ => Err(ReadError::new(line, "a size and its unit belong here")),
    }
}
