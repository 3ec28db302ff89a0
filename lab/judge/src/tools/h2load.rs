//! h2load of nghttp2 (`src/h2load.cc`).

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};

const PROOF: &str = "h2load's whole output, and its log of requests (--log-file)";

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    // How many streams each client has, it does not print.
    let mut run =
        PublishedRun { name: "h2load".into(), tool: "h2load", little: Little::Not, ..PublishedRun::default() };
    let mut latency = Latency { name: "time for request".into(), off: Some(0.02), ..Latency::default() };
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["finished", "in", time, rate, "req/s,", bytes] => {
                once(&mut run.seconds, Interval::time(time.trim_end_matches(','), number).at(number)?, "the time")?;
                once(&mut run.rate, Interval::printed(rate, number).at(number)?, "the rate")?;
                let bytes = bytes.trim_end_matches("/s");
                once(&mut run.received_rate, Interval::bytes(bytes, 1024.0, number).at(number)?, "the transfer rate")?;
            }
            ["requests:", counts @ ..] => requests(&mut run, counts, number)?,
            ["status", "codes:", counts @ ..] => codes(&mut run, counts, number)?,
            // Before version 1.3, in bytes alone.
            ["traffic:", all, "bytes", "total,", ..] | ["traffic:", _, all, "total,", ..] => {
                let all = all.trim_matches(['(', ')']);
                once(&mut run.received, Interval::count(all, number).at(number)?, "the bytes")?;
            }
            ["time", "for", "request:", min, max, mean, deviation, ..] => {
                let time = |text: &str| Interval::time(text, number).at(number).map(Some);
                (latency.min, latency.max) = (time(min)?, time(max)?);
                (latency.mean, latency.deviation) = (time(mean)?, time(deviation)?);
            }
            _ => {}
        }
    }
    if run.rate.is_none() || run.requests.is_none() {
        return Err(text.cut("\"finished in\" and \"requests:\""));
    }
    latency.samples = run.requests.map(Interval::middle);
    run.latency.extend(latency.mean.is_some().then_some(latency));
    Ok(run)
}

/// `100 total, 100 started, 100 done, 98 succeeded, 2 failed, 2 errored, 0 timeout`; the rate is
/// of those that succeeded.
fn requests(run: &mut PublishedRun, words: &[&str], line: usize) -> Result<(), ReadError> {
    let count = |name: &str| -> Result<Option<Interval>, ReadError> {
        let at = words.iter().position(|word| word.trim_end_matches(',') == name).filter(|at| *at > 0);
        at.map(|at| Interval::count(words[at - 1], line).at(line)).transpose()
    };
    let (done, succeeded, failed) = (count("done")?, count("succeeded")?, count("failed")?);
    if let (Some(done), Some(succeeded), Some(failed)) = (done, succeeded, failed) {
        let says = "succeeded and failed requests do not add up to those done";
        let arithmetic = format!("{succeeded} + {failed} = {}; {done} are said", succeeded + failed);
        run.relations.push(Relation::new("count", (succeeded + failed, Equal, done), says, arithmetic, PROOF));
    }
    let total = count("total")?;
    if let (Some(total), Some(started)) = (total, count("started")?)
        && started.low > total.high
    {
        timed(run);
    }
    if let (Some(total), Some(done)) = (total, done) {
        let arithmetic = format!("{done} of {total}");
        run.relations.push(Relation::new(
            "count",
            (done, AtMost, total),
            "more done than asked for",
            arithmetic,
            PROOF,
        ));
    }
    run.failed = failed;
    let requests = succeeded.ok_or_else(|| ReadError::new(line, "the requests that succeeded are missing"))?;
    once(&mut run.requests, requests, "the requests")
}

/// With `-D`, more is begun than is told: those under way at the end. Rates are then by the time
/// that was asked for, which is what was taken without its part of a second.
fn timed(run: &mut PublishedRun) {
    if let Some(took) = run.seconds.filter(|took| took.low >= 1.0) {
        run.seconds = Some(Interval { low: took.low.floor(), ..took });
    }
}

/// `100 2xx, 0 3xx, 0 4xx, 0 5xx`: answers that say so failed, too.
fn codes(run: &mut PublishedRun, words: &[&str], line: usize) -> Result<(), ReadError> {
    let mut refused = Interval::exact(0.0, line);
    for pair in words.chunks_exact(2).filter(|pair| pair[1].starts_with(['4', '5'])) {
        refused = refused + Interval::count(pair[0], line).at(line)?;
    }
    // h2load counts these among the failed ones.
    run.failed = run.failed.map(|failed| if refused.middle() > failed.middle() { refused } else { failed });
    Ok(())
}
