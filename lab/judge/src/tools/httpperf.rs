//! The table of dpdk-httpperf, which `nearside load --sweep` prints, too: a row for each number
//! of processes and connections, latencies in milliseconds.

use crate::figure::Interval;
use crate::relation::Order::AtMost;
use crate::relation::Relation;
use crate::run::PublishedRun;
use crate::text::{ReadError, Text};

const PROOF: &str = "the run again, with each request's start and end";

/// Whether a line has the names of the columns.
pub(super) fn is_names(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == '|' || c == ',').collect();
    ["CONN", "RPSavg", "LAT50"].iter().all(|name| words.contains(name))
}

fn cells(line: &str) -> Vec<&str> {
    let split = |c: char| c.is_whitespace() || c == '|' || c == ',';
    line.split(split).filter(|cell| !cell.is_empty()).collect()
}

pub(super) fn parse(text: &Text) -> Result<PublishedRun, ReadError> {
    let mut run =
        PublishedRun { name: "dpdk-httpperf's table".into(), tool: "dpdk-httpperf", ..PublishedRun::default() };
    let mut names: Vec<&str> = Vec::new();
    let mut rows = 0;
    for (number, line) in text.numbered() {
        if is_names(line) {
            names = cells(line);
            continue;
        }
        let cells = cells(line);
        let begins = cells.first().is_some_and(|cell| cell.bytes().all(|byte| byte.is_ascii_digit()));
        // Prose, rules and warnings between rows.
        if names.is_empty() || !begins || cells.len() * 2 < names.len() {
            continue;
        }
        rows += 1;
        row(&mut run, (&names, &cells), number);
    }
    match rows {
        0 => Err(text.cut("a row below the names of the columns")),
        _ => Ok(run),
    }
}

/// A row. Cells that are no numbers are named, and the others are judged.
fn row(run: &mut PublishedRun, (names, cells): (&[&str], &[&str]), line: usize) {
    if cells.len() != names.len() {
        let says = format!("{} cells under {} names: which is which is not known", cells.len(), names.len());
        run.relations.push(Relation::missing("spoilt", line, says, "the table as it was printed"));
        return;
    }
    let find = |name: &str| {
        let at = names.iter().position(|other| *other == name)?;
        Interval::printed(cells[at].trim_end_matches('%'), line).ok()
    };
    let spoilt = |(name, cell): (&&str, &&str)| {
        let unknown = matches!(*cell, "-" | "n/a" | "N/A");
        let number = Interval::printed(cell.trim_end_matches('%'), line).is_ok();
        (!unknown && !number).then(|| format!("{name} = {cell:?}"))
    };
    let wrong: Vec<String> = names.iter().zip(cells).filter_map(spoilt).collect();
    if !wrong.is_empty() {
        let says = format!("cells that are no numbers: {}", wrong.join(", "));
        run.relations.push(Relation::missing("spoilt", line, says, "the table as it was printed"));
    }
    let rate = find("RPSavg");
    if rate.is_none_or(|rate| rate.middle() <= 0.0) {
        let says = "this row did not measure: it has no rate, so that its latencies are of nothing";
        run.relations.push(Relation::missing("failures", line, says, "the row again, with what the server said"));
        return;
    }
    let steps = ["LAT50", "LAT75", "LAT90", "LAT99", "LATmax"];
    let known: Vec<(&str, Interval)> = steps.iter().filter_map(|name| Some((*name, find(name)?))).collect();
    for pair in known.windows(2) {
        let says = format!("{} is above {}", pair[0].0, pair[1].0);
        let arithmetic = format!("{} ms and {} ms", pair[0].1, pair[1].1);
        run.relations.push(Relation::new("percentile-order", (pair[0].1, AtMost, pair[1].1), says, arithmetic, PROOF));
    }
    if let (Some(average), Some(most)) = (rate, find("RPSmax")) {
        let says = "the average rate is above the highest";
        let arithmetic = format!("{average}/s and {most}/s");
        run.relations.push(Relation::new("average", (average, AtMost, most), says, arithmetic, PROOF));
    }
    little(run, &find, line);
}

/// The mean is at least what the percentiles alone make; Little (1961).
fn little(run: &mut PublishedRun, find: &dyn Fn(&str) -> Option<Interval>, line: usize) {
    let (Some(rate), Some(connections)) = (find("RPSavg"), find("CONN")) else { return };
    let shares = [("LAT50", 0.25), ("LAT75", 0.15), ("LAT90", 0.09), ("LAT99", 0.01)];
    let parts = shares.iter().filter_map(|(name, share)| Some(find(name)?.low.max(0.0) * share));
    let least: f64 = parts.sum();
    let under_way = Interval::exact(rate.low.max(0.0) * least * 1e-3, line);
    let says = "the rate times the least mean that the percentiles allow is more than the connections can carry \
                (Little's law)";
    let arithmetic = format!("{rate}/s × {least:.3} ms at least = {under_way} under way, on {connections} connections");
    let most = connections.loose(0.02);
    run.relations.push(Relation::new("littles-law", (under_way, AtMost, most), says, arithmetic, PROOF));
}
