//! A report as JSON.

use load::Report;

/// The report as one JSON object. Times are in nanoseconds, rates per second.
#[must_use]
pub fn render_json(report: &Report) -> String {
    match serde_json::to_string_pretty(report) {
        Ok(json) => json + "\n",
        Err(_) => unreachable!("the report has only string keys and plain values"),
    }
}
