//! Nighthawk's output for people (`source/client/output_formatter_impl.cc`).

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, Little, PublishedRun};
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "Nighthawk's output as JSON";

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run =
        PublishedRun { name: "nighthawk".into(), tool: "nighthawk", little: Little::Not, ..PublishedRun::default() };
    let (mut counters, mut rows) = (false, Vec::<(String, Interval, Interval)>::new());
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.contains(" samples)") && !counters {
            let (name, rest) = line.split_once(" (").unwrap_or((line, ""));
            let count = rest.trim_end_matches(" samples)");
            let samples = Interval::count(count, number).at(number)?.middle();
            let latency =
                Latency { name: name.trim().into(), off: Some(0.02), samples: Some(samples), ..Latency::default() };
            run.latency.push(latency);
        } else if line.trim_start().starts_with("min:") {
            let latency = run.latency.last_mut().ok_or_else(|| ReadError::new(number, "figures without a name"))?;
            summary(latency, line, number)?;
        } else if words.first() == Some(&"Counter") {
            counters = true;
        } else if let ([name, value, rate], true) = (words.as_slice(), counters) {
            let row = (Interval::count(value, number).at(number)?, Interval::printed(rate, number).at(number)?);
            rows.push(((*name).to_owned(), row.0, row.1));
        } else if let ([share, count, time @ ..], false, Some(latency)) =
            (words.as_slice(), counters, run.latency.last_mut())
            && time.len() == 3
            && share.starts_with("0.")
        {
            let share = Interval::printed(share, number).at(number)?.middle();
            Interval::count(count, number).at(number)?;
            latency.percentiles.push((share, spelled(time, number)?));
        }
    }
    if rows.is_empty() {
        return Err(text.cut("its counters"));
    }
    counted(&mut run, &rows);
    run.latency = run.latency.into_iter().map(Latency::of_buckets).collect();
    // Blocking and queueing are latencies of their own: the benchmark's first.
    run.latency.sort_by_key(|latency| !latency.name.contains("request to response") && !latency.name.contains("2xx"));
    Ok(run)
}

/// All counters are of the same time, and responses are no more than requests.
fn counted(run: &mut PublishedRun, rows: &[(String, Interval, Interval)]) {
    let find = |name: &str| rows.iter().find(|row| row.0 == name);
    // The longest count gives the time with the smallest error.
    if let Some(first) = rows.iter().max_by(|a, b| a.1.middle().total_cmp(&b.1.middle()))
        && first.2.low > 0.0
    {
        let time = first.1 / first.2;
        for (name, value, rate) in rows {
            let says = format!("{name} is counted over another time than {}", first.0);
            let arithmetic = format!("{value} / {time} s = {}/s; {rate}/s is said", *value / time);
            let triple = (*rate, Equal, (*value / time).loose(0.001));
            run.relations.push(Relation::new("rate", triple, says, arithmetic, PROOF));
        }
    }
    run.requests = find("upstream_rq_total").map(|row| row.1);
    let failed = |name: &str| {
        let failures = ["http_4xx", "http_5xx", "stream_resets", "pool_connection_failure", "pool_overflow"];
        name.strip_prefix("benchmark.").is_some_and(|name| failures.contains(&name))
    };
    let failed = rows.iter().filter(|row| failed(&row.0)).map(|row| row.1);
    run.failed = failed.reduce(|sum, count| sum + count);
    if let Some(good) = find("benchmark.http_2xx") {
        run.rate = Some(good.2);
        if let Some(all) = run.requests {
            let arithmetic = format!("{} of {all}", good.1);
            let says = "more good responses than requests";
            run.relations.push(Relation::new("count", (good.1, AtMost, all), says, arithmetic, PROOF));
        }
    }
}

/// `min: 0s 000ms 034us | mean: … | max: … | pstdev: …`
fn summary(latency: &mut Latency, line: &str, number: usize) -> Result<(), ReadError> {
    for part in line.split('|') {
        let Some((key, value)) = part.split_once(':') else {
            return Err(ReadError::new(number, "a figure without a name"));
        };
        let words: Vec<&str> = value.split_whitespace().collect();
        let value = spelled(&words, number)?;
        match key.trim() {
            "min" => latency.min = Some(value),
            "mean" => latency.mean = Some(value),
            "max" => latency.max = Some(value),
            "pstdev" => latency.deviation = Some(value),
            other => return Err(ReadError::new(number, format!("{other:?} is no figure of Nighthawk's"))),
        }
    }
    Ok(())
}

/// `0s 000ms 034us`, cut to whole microseconds.
fn spelled(words: &[&str], line: usize) -> Result<Interval, ReadError> {
    let [s, ms, us] = words else {
        return Err(ReadError::new(line, "a time as 0s 000ms 000us belongs here: it is cut off"));
    };
    let part = |word: &str, unit: &str| {
        let digits =
            word.strip_suffix(unit).ok_or_else(|| ReadError::new(line, format!("{word:?} has not the unit {unit}")))?;
        Interval::count(digits, line).at(line)
    };
    let micros = part(s, "s")?.times(1e6) + part(ms, "ms")?.times(1e3) + part(us, "us")?;
    Ok(Interval { high: micros.high + 1.0, ..micros }.times(1e-6))
}
