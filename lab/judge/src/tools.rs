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
mod several;
mod testpmd;
mod vegeta;
mod wrk;

use crate::run::PublishedRun;
use crate::text::{ReadError, Text};
use several::Follows;

pub use several::MOST_RUNS;

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
pub(crate) fn parse(text: Text) -> Result<Vec<PublishedRun>, ReadError> {
    if text.lines.iter().any(|line| is_log(line)) && !text.lines.iter().all(|line| is_log(line)) {
        let kept = |line: &String| if is_log(line) { String::new() } else { line.clone() };
        return parse(Text { above: text.above, lines: text.lines.iter().map(kept).collect() });
    }
    let Some(first) = text.lines.iter().position(|line| !line.trim().is_empty()) else {
        return Err(text.cut("anything"));
    };
    if text.lines[first].trim_start().starts_with('{') {
        return json::parse(&text).map(|run| vec![run]);
    }
    if text.lines.iter().any(|line| line.trim() == "[[claim]]") {
        return claims::parse(&text);
    }
    let text = text.unquoted();
    let known = forms(&text);
    let matches: Vec<_> = known.into_iter().filter(|(fits, ..)| *fits).collect();
    match matches.as_slice() {
        [] => {
            let why = format!("this is the output of none of {TOOLS}, whole and in English; nor does it hold claims");
            Err(ReadError::new(first + 1, why))
        }
        [(_, parse, follows)] => runs(*parse, follows.split(text)?),
        _ => Err(ReadError::new(first + 1, "this holds the output of several tools: give each a file of its own")),
    }
}

/// Several runs of one tool are told apart by the lines in which they begin.
fn runs(parse: Parser, texts: Vec<Text>) -> Result<Vec<PublishedRun>, ReadError> {
    let several = texts.len() > 1;
    let named = |text: Text| {
        let mut run = parse(&text)?;
        if several {
            run.name = format!("{} from line {}", run.name, text.above + 1);
        }
        Ok(run)
    };
    texts.into_iter().map(named).collect()
}

/// Which tools' output it looks like, what reads it, and how several runs follow each other.
fn forms(text: &Text) -> [(bool, Parser, Follows); 14] {
    let any = |is: fn(&str) -> bool| text.lines.iter().any(|line| is(line));
    let key = |key: fn(&str) -> bool| Follows::Key { key, heads: &[] };
    let ab = Follows::Key {
        key: |line| line.starts_with("Concurrency Level:"),
        heads: &["This is ApacheBench", "Benchmarking ", "Server Software:", "Document Path:"],
    };
    let fortio =
        Follows::Key { key: |line| line.starts_with("Aggregated Function Time"), heads: &["Fortio ", "Starting at "] };
    let vegeta = Follows::Key { key: vegeta::is_latencies, heads: &["Requests", "Duration"] };
    [
        (text.has("This is ApacheBench") || text.starts("Concurrency Level:"), ab::parse, ab),
        (
            text.starts("Running ") && text.has(" test @ "),
            wrk::parse,
            key(|line| line.starts_with("Running ") && line.contains(" test @ ")),
        ),
        (any(|line| vegeta::is_latencies(line.trim_start())), vegeta::parse, vegeta),
        (text.has("http_req_duration") || text.has("http_reqs."), k6::parse, Follows::Never),
        (text.has("Aggregated Function Time") || text.starts("Aborting because of error"), fortio::parse, fortio),
        (text.has("Nighthawk - A layer 7"), nighthawk::parse, key(|line| line.starts_with("Nighthawk - A layer 7"))),
        (text.has("NIC statistics for port") || text.has("orward statistics for "), testpmd::parse, Follows::Never),
        (
            text.has("Performance counter stats for") || any(perf::is_counter),
            perf::parse,
            Follows::After { head: perf::is_head, end: perf::is_end, row: perf::is_counter },
        ),
        (
            text.has("[ ID] Interval") || any(iperf3::is_row),
            iperf3::parse,
            Follows::After { head: iperf3::is_head, end: iperf3::is_end, row: iperf3::is_row },
        ),
        (any(|line| sar::is_head(line) || sar::is_names(line)), sar::parse, Follows::Never),
        (
            text.starts("finished in ") && text.starts("requests: "),
            h2load::parse,
            key(|line| line.starts_with("finished in ")),
        ),
        (any(mmhistogram::is_head), mmhistogram::parse, Follows::Never),
        (any(httpperf::is_names), httpperf::parse, Follows::Never),
        (text.starts("Summary:") && text.starts("Requests/sec:"), hey::parse, key(|line| line.starts_with("Summary:"))),
    ]
}
