//! The forms of each tool's output.

mod ab;
mod claims;
mod fortio;
mod h2load;
mod hey;
mod httpperf;
mod iperf3;
mod json;
mod k6;
mod mmhistogram;
mod nighthawk;
mod perf;
mod sar;
mod testpmd;
mod vegeta;
mod wrk;

use crate::run::PublishedRun;
use crate::text::{ReadError, Text};

/// What is read.
pub const TOOLS: &str = "ab, wrk, wrk2, hey, oha, k6, vegeta, fortio, nighthawk, h2load, testpmd, iperf3, \
                         perf stat, sar, mpstat, \
                         mmhistogram, dpdk-httpperf's table, JSON of each measurement of ours";

/// Reads one tool's form.
type Parser = fn(&Text) -> Result<PublishedRun, ReadError>;

/// fortio's log, a line of JSON each, which stands among its result where both
/// went to one file.
fn is_log(line: &str) -> bool {
    line.starts_with("{\"ts\":") && line.contains("\"level\":")
}

/// The runs in a file.
pub(crate) fn parse(text: &Text) -> Result<Vec<PublishedRun>, ReadError> {
    if text.lines.iter().any(|line| is_log(line)) && !text.lines.iter().all(|line| is_log(line)) {
        let kept = |line: &String| if is_log(line) { String::new() } else { line.clone() };
        return parse(&Text { lines: text.lines.iter().map(kept).collect() });
    }
    let first = text.lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    if text.lines[first].trim_start().starts_with('{') {
        return json::parse(text).map(|run| vec![run]);
    }
    if text.lines.iter().any(|line| line.trim() == "[[claim]]") {
        return claims::parse(text);
    }
    let known: [(bool, Parser); 14] = [
        (text.has("This is ApacheBench") || text.starts("Concurrency Level:"), ab::parse),
        (text.starts("Running ") && text.has(" test @ "), wrk::parse),
        (
            text.lines.iter().any(|line| line.trim_start().starts_with("Latencies") && line.contains("[m")),
            vegeta::parse,
        ),
        (text.has("http_req_duration") || text.has("http_reqs."), k6::parse),
        (text.has("Aggregated Function Time") || text.starts("Aborting because of error"), fortio::parse),
        (text.has("Nighthawk - A layer 7"), nighthawk::parse),
        (text.has("NIC statistics for port") || text.has("Forward statistics for port"), testpmd::parse),
        (
            text.has("Performance counter stats for") || text.lines.iter().any(|line| perf::is_counter(line)),
            perf::parse,
        ),
        (text.has("[ ID] Interval") || text.lines.iter().any(|line| iperf3::is_row(line)), iperf3::parse),
        (text.lines.iter().any(|line| sar::is_head(line) || sar::is_names(line)), sar::parse),
        (text.starts("finished in ") && text.starts("requests: "), h2load::parse),
        (text.lines.iter().any(|line| mmhistogram::is_head(line)), mmhistogram::parse),
        (text.lines.iter().any(|line| httpperf::is_names(line)), httpperf::parse),
        (text.starts("Summary:") && text.starts("Requests/sec:"), hey::parse),
    ];
    let matches: Vec<_> = known.iter().filter(|(fits, _)| *fits).collect();
    match matches.as_slice() {
        [] => {
            let why = format!("this is the output of none of {TOOLS}, whole and in English; nor does it hold claims");
            Err(ReadError::new(first + 1, why))
        }
        [(_, parse)] => parse(text).map(|run| vec![run]),
        _ => Err(ReadError::new(first + 1, "this holds the output of several tools: give each a file of its own")),
    }
}
