//! The figures of requests apart, and answers that were wrong.

use core::fmt::{Result, Write};
use figures::{grouped, seconds, si};
use load::{Report, UrlReport};

/// What is shown of a request, in characters.
const NAME: usize = 48;

/// A row for each request that has one.
pub(super) fn table(out: &mut String, report: &Report) -> Result {
    if report.urls.is_empty() {
        return Ok(());
    }
    let shown = |row: &UrlReport| match &row.request {
        Some(request) => shorten(request),
        None => format!("{} others", grouped(row.requests as u64)),
    };
    let width = report.urls.iter().map(|row| shown(row).chars().count()).max().unwrap_or(0).max("Request".len());
    writeln!(
        out,
        "{:<width$}  {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}   answers",
        "Request", "responses", "size", "mean", "50 %", "99 %", "max"
    )?;
    for row in &report.urls {
        let time = |ns: f64| if row.latency.samples == 0 { "-".to_owned() } else { seconds(ns) };
        let latency = &row.latency;
        write!(
            out,
            "{:<width$}  {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}  ",
            shown(row),
            grouped(row.responses),
            si(row.mean_body(), "B"),
            time(latency.mean_ns),
            time(latency.p50_ns as f64),
            time(latency.p99_ns as f64),
            time(latency.max_ns as f64)
        )?;
        let counts = [
            (row.success, "2xx"),
            (row.redirection, "3xx"),
            (row.client_error, "4xx"),
            (row.server_error, "5xx"),
            (row.failed, "failed"),
            (row.wrong, "wrong"),
        ];
        let mut counts = counts.into_iter().filter(|(count, _)| *count > 0);
        counts.try_for_each(|(count, what)| write!(out, " {what} {}", grouped(count)))?;
        out.push('\n');
    }
    Ok(())
}

/// What came in place of what was to.
pub(super) fn wrong_answers(out: &mut String, report: &Report) -> Result {
    for one in &report.wrong_answers {
        writeln!(out, "  {} ({}), status {}: {}", shorten(&one.request), one.wrong, one.status, one.came)?;
    }
    Ok(())
}

/// The beginning of a request that is long. It may be a file's, and goes to a terminal.
fn shorten(request: &str) -> String {
    let plain: String = request.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    if plain.chars().count() <= NAME { plain } else { plain.chars().take(NAME - 1).chain(['…']).collect() }
}
