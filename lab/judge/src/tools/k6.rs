//! k6's summary at the end of a test (text; `--summary-export` writes JSON).

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text};

/// `http.batch` has at most so many requests under way, by default
/// (`options.batch`).
pub(super) const BATCH: f64 = 20.0;

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run =
        PublishedRun { name: "k6".into(), tool: "k6", little: Little::Batches(BATCH), ..PublishedRun::default() };
    let mut percent = None;
    for (number, line) in text.numbered() {
        let Some((key, rest)) = line.split_once(": ") else { continue };
        let name = key.trim().trim_end_matches('.');
        let words: Vec<&str> = rest.split_whitespace().collect();
        match name {
            "http_req_duration" if rest.contains("avg=") => run.latency.insert(0, trend(&words, number)?),
            "http_req_waiting" if rest.contains("avg=") => {
                let mut trend = trend(&words, number)?;
                trend.name = "waiting".into();
                run.latency.push(trend);
            }
            "http_reqs" => {
                let [count, rate, ..] = words[..] else {
                    return Err(ReadError::new(number, "count and rate belong here"));
                };
                run.requests = Some(Interval::count(count, number).at(number)?);
                let Some(rate) = rate.strip_suffix("/s") else {
                    return Err(ReadError::new(number, format!("{rate:?} is no rate: it is cut off")));
                };
                run.rate = Some(Interval::printed(rate, number).at(number)?);
            }
            "http_req_failed" => {
                percent = words.first().and_then(|word| word.strip_suffix('%')).map(|word| (word.to_owned(), number));
            }
            "vus_max" => {
                run.connections = words.first().map(|word| Interval::count(word, number)).transpose().at(number)?
            }
            "data_received" => {
                let [a, b, c, d, ..] = words[..] else {
                    return Err(ReadError::new(number, "size and rate belong here"));
                };
                run.received = Some(Interval::bytes(&format!("{a}{b}"), 1000.0, number).at(number)?);
                let unit = d.strip_suffix("/s").ok_or_else(|| ReadError::new(number, "a rate belongs here"))?;
                run.received_rate = Some(Interval::bytes(&format!("{c}{unit}"), 1000.0, number).at(number)?);
            }
            _ => {}
        }
    }
    let (Some(requests), Some(rate), false) = (run.requests, run.rate, run.latency.is_empty()) else {
        return Err(text.cut("http_req_duration and http_reqs"));
    };
    if let (Some(received), Some(received_rate)) = (run.received, run.received_rate) {
        let (left, right) = (requests / rate, received / received_rate);
        let says = "requests and bytes were counted over different times";
        let arithmetic = format!("{requests} / {rate}/s = {left} s; {received} B / {received_rate} B/s = {right} s");
        let proof = "both rates over one and the same phase";
        run.relations.push(Relation::new("rate", (left, Equal, right.loose(0.01)), says, arithmetic, proof));
    }
    if let Some((share, line)) = percent {
        let share = Interval::printed(&share, line).at(line)?;
        run.failed = Some(Interval { line, ..(share.times(0.01) * requests) });
    }
    for latency in &mut run.latency {
        latency.samples = Some(requests.middle());
    }
    if let [all, waiting, ..] = &run.latency[..]
        && let (Some(whole), Some(part)) = (all.mean, waiting.mean)
    {
        let says = "waiting alone takes longer than the whole request";
        let arithmetic = format!("{part} s of {whole} s");
        run.relations.push(Relation::new("mean", (part, AtMost, whole), says, arithmetic, "k6's output as printed"));
    }
    Ok(run)
}

/// `avg=144.56ms min=104.11ms med=110.47ms max=1.14s p(90)=203.54ms`; columns
/// are padded with spaces.
fn trend(words: &[&str], line: usize) -> Result<Latency, ReadError> {
    let mut latency = Latency { name: "request".into(), off: Some(0.02), ..Latency::default() };
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(ReadError::new(line, format!("{word:?} has no value: it is cut off, or another version's")));
        };
        let value = Interval::time(value, line).at(line)?;
        match key {
            "avg" => latency.mean = Some(value),
            "min" => latency.min = Some(value),
            "med" => latency.median = Some(value),
            "max" => latency.max = Some(value),
            _ => {
                let share = key.strip_prefix("p(").and_then(|key| key.strip_suffix(')'));
                let share = share.and_then(|share| share.parse::<f64>().ok());
                let share = share.ok_or_else(|| ReadError::new(line, format!("{key:?} is no figure of k6's")))?;
                latency.percentiles.push((share / 100.0, value));
            }
        }
    }
    Ok(latency)
}
