//! fortio's text and JSON (`periodic/periodic.go`, `stats/stats.go`).

use crate::figure::Interval;
use crate::relation::Order::Equal;
use crate::relation::Relation;
use crate::run::{Latency, PublishedRun};
use crate::text::{AtLine, ReadError, Text, once};

const PROOF: &str = "fortio's output as it printed it";

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "fortio".into(), tool: "fortio", ..PublishedRun::default() };
    // Percentiles are interpolated within buckets.
    let mut latency = Latency { name: "function time".into(), off: None, ..Latency::default() };
    let (mut done, mut sum, mut codes) = (false, None, None::<Codes>);
    let mut errors = None;
    // It prints histograms of sleeps, errors and connections in the same form.
    let mut of_calls = false;
    for (number, line) in text.numbered() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Ended", "after", time, ":", calls, "calls.", rate] => {
                once(&mut run.seconds, Interval::time(time, number).at(number)?, "the end")?;
                run.requests = Some(Interval::count(calls, number).at(number)?);
                let rate = rate.strip_prefix("qps=").unwrap_or(rate);
                // Printed with five significant digits.
                run.rate = Some(significant(rate, number)?);
            }
            [
                "Aggregated",
                "Function",
                "Time",
                ":",
                "count",
                count,
                "avg",
                mean,
                "+/-",
                deviation,
                "min",
                min,
                "max",
                max,
                "sum",
                total,
            ] => {
                latency.samples = Some(Interval::count(count, number).at(number)?.middle());
                latency.mean = Some(significant(mean, number)?);
                latency.deviation = Some(significant(deviation, number)?);
                latency.min = Some(significant(min, number)?);
                latency.max = Some(significant(max, number)?);
                sum = Some(significant(total, number)?);
                of_calls = true;
            }
            ["Error", "cases", ":", "count", count, ..] => {
                errors = Some(Interval::count(count, number).at(number)?);
                of_calls = false;
            }
            [.., "count", _, "avg", _, "+/-", _, "min", _, "max", _, "sum", _] => of_calls = false,
            ["#", "target", share, value] if of_calls => {
                let share = Interval::printed(share.trim_end_matches('%'), number).at(number)?.middle();
                latency.percentiles.push((share / 100.0, significant(value, number)?));
            }
            ["Code", code, ":", count, ..] => {
                let count = Interval::count(count, number).at(number)?;
                codes.get_or_insert_with(|| Codes::none(number)).add(code, count);
            }
            ["All", "done", ..] => done = true,
            ["Aborting", "because", ..] if run.seconds.is_none() => {
                return Err(ReadError::new(number, format!("fortio gave up, without a result: {line}")));
            }
            _ => run.connections = threads(&words, number).or(run.connections),
        }
    }
    if !done || run.rate.is_none() {
        return Err(text.cut("\"All done\" and the qps"));
    }
    Ok(finish(run, latency, sum, (codes, errors)))
}

/// `Starting at 400 qps with 4 thread(s)`: each has one connection.
fn threads(words: &[&str], line: usize) -> Option<Interval> {
    let at = words.iter().position(|word| *word == "thread(s)" || *word == "thread(s),")?;
    Interval::count(words.get(at.checked_sub(1)?)?, line).ok()
}

/// How many calls ended with each code, and with one that is no success: -1 is
/// that of calls without an answer.
pub(super) struct Codes {
    all: Interval,
    failed: Interval,
}

impl Codes {
    pub(super) fn none(line: usize) -> Self {
        Self { all: Interval::exact(0.0, line), failed: Interval::exact(0.0, line) }
    }

    pub(super) fn with_failed(self, failed: Option<Interval>) -> Self {
        Self { failed: failed.unwrap_or(self.failed), ..self }
    }

    pub(super) fn add(&mut self, code: &str, count: Interval) {
        self.all = self.all + count;
        if !(code.len() == 3 && code.starts_with(['2', '3'])) {
            self.failed = Interval { line: count.line, ..self.failed + count };
        }
    }
}

pub(super) fn finish(
    mut run: PublishedRun,
    latency: Latency,
    sum: Option<Interval>,
    (codes, errors): (Option<Codes>, Option<Interval>),
) -> PublishedRun {
    if let (Some(mean), Some(samples), Some(sum)) = (latency.mean, latency.samples, sum) {
        let right = mean.times(samples);
        let says = "the sum is not the mean times the count";
        let arithmetic = format!("{samples} × {mean} s = {right} s; {sum} s is said");
        let triple = (sum, Equal, right.loose(1e-4));
        run.relations.push(Relation::new("mean", triple, says, arithmetic, PROOF));
    }
    if let (Some(Codes { all, .. }), Some(requests)) = (&codes, run.requests) {
        let says = "the codes do not add up to the calls";
        let arithmetic = format!("{all} of {requests}");
        run.relations.push(Relation::new("count", (*all, Equal, requests), says, arithmetic, PROOF));
    }
    // What is no HTTP has errors only; there a redirection counts as one.
    run.failed = codes.map(|codes| codes.failed).or(errors);
    run.latency.push(latency);
    run
}

/// Go's `%.Ng` drops zeros at the end: what is printed may be a digit short.
fn significant(text: &str, line: usize) -> Result<Interval, ReadError> {
    match text.split_once("e-") {
        None => Ok(Interval::printed(text, line).at(line)?),
        Some((digits, power)) => {
            let power: i32 = power.parse().map_err(|_| ReadError::new(line, format!("{text:?} is no number")))?;
            Ok(Interval::printed(digits, line).at(line)?.times(10_f64.powi(-power.min(30))))
        }
    }
}
