//! What a run of the load generator measured, in the forms that people and
//! other tools read. All of them come from the same [`load::Report`], and a
//! form has no line for what was not measured.
//!
//! | module | form |
//! | --- | --- |
//! | `text` | for people |
//! | `bulk` | streams without end, interval by interval |
//! | `streaming` | streams that are to have a rate |
//! | `exit` | the exit code |
//! | `json`, `ndjson` | one JSON object for a run, or for each interval |
//! | `ab`, `wrk` | what these tools print |
//! | `histogram` | powers of two, in plain characters |
//! | `found` | what the search for the highest rate found |
//! | `sweep` | a table of runs: text, CSV, JSON |
//! | `hgrm` | HdrHistogram's percentile table |
//! | `hdr_log` | HdrHistogram's interval log |
#![forbid(unsafe_code)]

mod ab;
mod bulk;
mod exit;
mod found;
mod hdr_log;
mod hgrm;
mod histogram;
mod json;
mod ndjson;
mod streaming;
mod sweep;
mod text;
mod wrk;

pub use ab::render_ab;
pub use bulk::{StreamsVerdict, bulk_heading, bulk_line, bulk_text, bulk_verdict, render_bulk_json};
pub use exit::{ExitReason, exit_reason};
pub use found::{found_json, found_text};
pub use hdr_log::HdrLog;
pub use hgrm::render_hgrm;
pub use histogram::{Unit, log2_histogram, render_histogram};
pub use json::{render_json, render_json_of_workers, setup_json};
pub use ndjson::interval_json;
pub use streaming::{render_streaming_json, streaming_heading, streaming_line, streaming_text, streaming_verdict};
pub use sweep::{CpuUse, SweepRow, sweep_csv_heading, sweep_csv_line, sweep_heading, sweep_json, sweep_line};
pub use text::render_text;
pub use wrk::render_wrk;

use core::fmt::{self, Write};
use load::{Report, Setup};

/// What was asked for, as a URL.
fn url(setup: &Setup) -> String {
    format!("{}://{}{}", setup.scheme, setup.host, setup.path)
}

/// The host of the URL and its port (RFC 3986 §3.2.2, §3.2.3): 80 where the
/// URL names none.
fn host_and_port(setup: &Setup) -> (&str, u16) {
    let host = setup.host.as_str();
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let (name, port) = port.map_or((host, 80), |(name, port)| (name, port.parse().unwrap_or(80)));
    (name.trim_start_matches('[').trim_end_matches(']'), port)
}

/// Responses ÷ the time that is printed beside them. Threads that ended at
/// different times make it another than the sum of their rates.
fn printed_rate(report: &Report) -> f64 {
    let seconds = report.window_ns as f64 * 1e-9;
    if seconds > 0.0 { report.traffic.responses as f64 / seconds } else { 0.0 }
}

/// What speaks against the figures, below a form that has no place for it.
fn warnings(out: &mut String, report: &Report) -> fmt::Result {
    for warning in &report.warnings {
        writeln!(out, "WARNING: {warning}")?;
    }
    Ok(())
}
