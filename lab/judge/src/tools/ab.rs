//! ApacheBench 2.3 (`support/ab.c`, `output_results`).

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};

const PROOF: &str = "ab's output as it printed it";

/// What is printed before it is put together.
#[derive(Default)]
struct Read {
    total: Option<Interval>,
    html: Option<Interval>,
    length: Option<Interval>,
    each: Option<Interval>,
    across: Option<Interval>,
    median: Option<Interval>,
    waiting: Option<Interval>,
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "ab".into(), tool: "ab", sized_with_head: true, ..PublishedRun::default() };
    let mut read = Read::default();
    let mut latency = Latency { name: "request".into(), off: Some(0.02), ..Latency::default() };
    run.keep_alive = Some(false);
    for (number, line) in text.numbered() {
        if let Some((key, value)) = line.split_once(':') {
            field(&mut run, &mut read, (key.trim(), value.trim()), number)?;
            if key == "Total" || key == "Waiting" || (key == "Processing" && latency.mean.is_none()) {
                row(&mut latency, &mut read, key, value, number)?;
            }
        } else if let Some((percent, value)) = line.trim_start().split_once('%') {
            let (Ok(percent), Some(value)) = (percent.parse::<u32>(), value.split_whitespace().next()) else {
                continue;
            };
            let value = Interval::printed(value, number).at(number)?.times(1e-3);
            latency.percentiles.push((f64::from(percent) / 100.0, value));
        }
    }
    finish(text, run, &read, latency)
}

fn field(run: &mut PublishedRun, read: &mut Read, (key, value): (&str, &str), line: usize) -> Result<(), ReadError> {
    let word = value.split_whitespace().next().unwrap_or("");
    let count = || Interval::count(word, line).at(line);
    let number = || Interval::printed(word, line).at(line);
    match key {
        "Concurrency Level" => once(&mut run.connections, count()?, key),
        "Time taken for tests" => once(&mut run.seconds, number()?, key),
        "Complete requests" => once(&mut run.requests, count()?, key),
        "Failed requests" => once(&mut run.failed, count()?, key),
        "Non-2xx responses" => {
            let says = format!("{value} responses were refusals or errors, and the rate counts them");
            let proof = "the same run with answers of 200 alone";
            run.relations.push(Relation::missing("failures", count()?.line, says, proof));
            Ok(())
        }
        "Keep-Alive requests" => {
            run.keep_alive = Some(count()?.high > 0.0);
            Ok(())
        }
        "Document Path" => {
            run.path = Some(word.to_owned());
            Ok(())
        }
        "Document Length" if word != "Variable" => once(&mut read.length, count()?, key),
        "Total transferred" => once(&mut read.total, count()?, key),
        "HTML transferred" => once(&mut read.html, count()?, key),
        "Requests per second" => once(&mut run.rate, number()?, key),
        "Time per request" if value.contains("across") => once(&mut read.across, number()?, key),
        "Time per request" => once(&mut read.each, number()?, key),
        "Transfer rate" => once(&mut run.received_rate, number()?.times(1024.0), key),
        _ => Ok(()),
    }
}

/// `min mean[+/-sd] median max`, in whole milliseconds but for the deviation.
fn row(latency: &mut Latency, read: &mut Read, key: &str, value: &str, line: usize) -> Result<(), ReadError> {
    let cells: Result<Vec<Interval>, ReadError> =
        value.split_whitespace().map(|cell| Ok(Interval::printed(cell, line).at(line)?.times(1e-3))).collect();
    let cells = cells?;
    let [min, mean, deviation, median, max] = cells[..] else {
        return Err(ReadError::new(line, format!("{key} has {} columns; ab prints five", cells.len())));
    };
    if key == "Waiting" {
        read.waiting = Some(mean);
        return Ok(());
    }
    (latency.min, latency.mean, latency.max, read.median) = (Some(min), Some(mean), Some(max), Some(median));
    latency.deviation = Some(deviation);
    Ok(())
}

fn finish(text: &Text, mut run: PublishedRun, read: &Read, mut latency: Latency) -> Result<PublishedRun, ReadError> {
    let (Some(requests), Some(seconds), Some(_), Some(connections)) =
        (run.requests, run.seconds, run.rate, run.connections)
    else {
        return Err(text.cut("all of ab's first figures (Concurrency Level to Requests per second)"));
    };
    if text.has("Percentage of the requests served") && !text.has("(longest request)") {
        return Err(text.cut("the longest request"));
    }
    latency.samples = Some(requests.middle());
    latency.median = read.median;
    run.received = read.total;
    let mut relate = |check, triple, says: &str, arithmetic: String| {
        run.relations.push(Relation::new(check, triple, says, arithmetic, PROOF));
    };
    if let Some(each) = read.each {
        let right = (connections * seconds / requests).times(1e3);
        let arithmetic = format!("{connections} × {seconds} s / {requests} = {right} ms; {each} ms is said");
        relate("rate", (each, Equal, right), "the time per request is not concurrency divided by rate", arithmetic);
    }
    if let Some(across) = read.across {
        let right = (seconds / requests).times(1e3);
        let arithmetic = format!("{seconds} s / {requests} = {right} ms; {across} ms is said");
        relate("rate", (across, Equal, right), "the time across all requests is not one divided by rate", arithmetic);
    }
    if let (Some(html), Some(total)) = (read.html, read.total) {
        let arithmetic = format!("{html} of {total}");
        relate("transfer", (html, AtMost, total), "more content than bytes in all", arithmetic);
    }
    if let (Some(html), Some(length)) = (read.html, read.length)
        && run.failed.is_none_or(|failed| failed.high <= 0.0)
    {
        // What is on its way at the end is counted as bytes, not as requests.
        let all = (requests + Interval { low: 0.0, high: connections.high, line: 0 }) * length;
        let arithmetic = format!("{requests} × {length} B = {} B; {html} B are said", requests * length);
        relate(
            "transfer",
            (html, Equal, all),
            "the content is not the requests times the document's length",
            arithmetic,
        );
    }
    if let (Some(max), Some((_, longest))) = (latency.max, latency.percentiles.iter().find(|(share, _)| *share >= 1.0))
    {
        let arithmetic = format!("{} s and {} s", max, longest);
        relate("printed-twice", (max, Equal, *longest), "the longest request is printed with two values", arithmetic);
    }
    if let (Some(waiting), Some(mean)) = (read.waiting, latency.mean) {
        let arithmetic = format!("{waiting} s of {mean} s");
        relate("mean", (waiting, AtMost, mean), "waiting alone takes longer than the whole request", arithmetic);
    }
    latency.percentiles.retain(|(share, _)| *share < 1.0);
    run.latency.push(latency);
    Ok(run)
}
