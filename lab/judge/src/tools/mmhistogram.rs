//! mmhistogram: a line of moments, and rows of buckets that double.

use crate::figure::Interval;
use crate::relation::Order::{AtMost, Equal};
use crate::relation::Relation;
use crate::run::{Latency, PublishedRun};
use crate::text::{AtLine, ReadError, Text};

const PROOF: &str = "the values that it was given";

/// Whether a line has the moments: `NAME min:0.21 avg:19.24 med=3.87 max:5217.10 dev:74.96 count:100`.
pub(super) fn is_head(line: &str) -> bool {
    ["min:", "avg:", "max:", "count:"].iter().all(|key| line.contains(key))
}

/// Several histograms are several figures of one run: the values of each stand for themselves.
pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run = PublishedRun { name: "mmhistogram".into(), tool: "mmhistogram", ..PublishedRun::default() };
    let mut rows: Option<(Interval, Interval)> = None;
    for (number, line) in text.numbered() {
        if is_head(line) {
            close(&mut run, rows.take());
            let (latency, count) = head(line, number)?;
            run.latency.push(latency);
            rows = Some((count, Interval::exact(0.0, number)));
            continue;
        }
        let row = line.split_once('|').filter(|(left, _)| left.trim().bytes().all(|byte| byte.is_ascii_digit()));
        if let (Some((value, count)), Some((_, sum))) = (row, &mut rows)
            && !value.trim().is_empty()
        {
            let count = count.split_whitespace().last().unwrap_or("");
            *sum = *sum + Interval::count(count, number).at(number)?;
        }
    }
    close(&mut run, rows);
    Ok(run)
}

/// An excerpt may leave rows out: they are not more than all.
fn close(run: &mut PublishedRun, rows: Option<(Interval, Interval)>) {
    let Some((count, sum)) = rows.filter(|(_, sum)| sum.middle() > 0.0) else { return };
    let arithmetic = format!("{sum} in the rows; {count} is said");
    let says = "the rows hold more values than were counted";
    run.relations.push(Relation::new("count", (sum, AtMost, count), says, arithmetic.clone(), PROOF));
    let says = "the rows do not hold all values: it is an excerpt, or cut off";
    run.relations.push(Relation::new("count", (sum, Equal, count), says, arithmetic, PROOF).unproven());
}

fn head(line: &str, number: usize) -> Result<(Latency, Interval), ReadError> {
    let name = line.split("min:").next().unwrap_or("").trim();
    let name = if name.is_empty() { "values" } else { name };
    // Its unit is whatever it was given: all checks are of figures of one unit.
    let mut latency = Latency { name: name.to_owned(), off: Some(0.0), ..Latency::default() };
    let mut count = None;
    for word in line.split_whitespace() {
        let Some((key, value)) = word.split_once([':', '=']) else { continue };
        let place = match key {
            "min" => &mut latency.min,
            "avg" => &mut latency.mean,
            "med" => &mut latency.median,
            "max" => &mut latency.max,
            "dev" => &mut latency.deviation,
            "count" => {
                count = Some(Interval::count(value, number).at(number)?);
                continue;
            }
            _ => continue,
        };
        *place = Some(Interval::printed(value, number).at(number)?);
    }
    let count = count.ok_or_else(|| ReadError::new(number, "the count is missing: it is cut off"))?;
    latency.samples = Some(count.middle());
    Ok((latency, count))
}
